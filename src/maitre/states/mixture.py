"""The state of a mixture: which point sits in which cluster, and the clusters' statistics, hyper-parameters and log joint.

Clusters live in *slots*; a slot's number means nothing. Labels leave the state in canonical form, numbered in order of first appearance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from maitre.families.base import Family
from maitre.families.statistics import add, clear, derive, log_marginal, log_predictive_all, supports
from maitre.numerics.arrays import Floats, Ints, Slots, padded
from maitre.numerics.compilation import Kernel, compiled, compiled_form_of, kernel
from maitre.partitions.labels import canonical, canonical_slots
from maitre.priors.base import GibbsTypePrior

_REBUILD_AFTER = 10  # statistics are rebuilt from the members after this many changes of seat per point
_SPARE_SLOTS = 2


@dataclass(frozen=True)
class Model:
    """Encoded data, a family with every field filled in, and a prior; their hyper-parameters are numbers or priors."""

    family: Family
    prior: GibbsTypePrior
    encoded: Any
    n: int
    data: Any = None

    @classmethod
    def of(cls, data: Any, family: Family, prior: GibbsTypePrior) -> Model:
        """Validate and encode the data, and fill in the family's defaults."""
        columns = list(getattr(data, "columns", []))
        if len(set(columns)) < len(columns):
            twice = next(name for name in columns if columns.count(name) > 1)
            raise ValueError(f"two columns are named {twice!r}: give every column a name of its own")
        valid = family.validate(data)
        filled = family.with_defaults(valid)
        n = len(data) if not hasattr(data, "shape") else int(data.shape[0])
        return cls(filled, prior, filled.at_prior_means().encode(valid), n, data)

    @cached_property
    def vectors(self) -> Any:
        """The data as a matrix with a row per point, dense or sparse, for methods that work with directions and distances."""
        return self.family.vectors(self.family.validate(self.data))


def first_empty(sizes: Ints, start: int) -> int:
    """The first slot at or after `start` that holds no point; −1 if there is none."""
    for k in range(start, len(sizes)):
        if sizes[k] == 0:
            return k
    return -1


compiled_form_of(first_empty)(compiled(first_empty))


@kernel
def seat_all(s: Any, labels: Slots, n_slots: int) -> None:
    """Statistics of the first `n_slots` slots from the labels."""
    for k in range(n_slots):
        clear(s, k)
    for i in range(len(labels)):
        if labels[i] >= 0:
            add(s, labels[i], i)
    for k in range(n_slots):
        derive(s, k)


@kernel
def total_log_marginal(s: Any, sizes: Ints) -> float:
    """Σ_c log p(x_c)."""
    total = 0.0
    for k in range(len(sizes)):
        if sizes[k] > 0:
            total += log_marginal(s, k)
    return total


@kernel
def derive_all(s: Any, n_slots: int) -> None:
    """Everything that slots derive from their raw statistics."""
    for k in range(n_slots):
        derive(s, k)


@kernel
def slot_summary(s: Any, n_slots: int, points: Ints, summary: Floats, scores: Floats) -> Floats:
    """Each slot's log marginal and the log predictives of some points: all that its statistics are for."""
    for k in range(n_slots):
        summary[k, 0] = log_marginal(s, k)
    for t in range(len(points)):
        for k in range(n_slots):
            scores[k] = 0.0
        log_predictive_all(s, points[t], n_slots, scores)
        for k in range(n_slots):
            summary[k, 1 + t] = scores[k]
    return summary


class MixtureState:
    """A partition of the points with the statistics of its clusters.

    `compiled=False` runs every kernel as plain Python, for tests that follow all branches of a move.
    """

    def __init__(self, model: Model, labels: Any, compiled: bool = True) -> None:
        self.model = model
        self.compiled = compiled
        self.collapsed = supports(model.family.statistics, "log_marginal")
        self.explicit_log_likelihood = float("nan")  # Σ log F(x_i; θ) at the parameters drawn last, for a family without closed marginals
        self.family = model.family.at_prior_means()
        self.prior = model.prior.at_prior_means()
        self.labels: Slots = canonical(labels).astype(np.int32)
        self._log_w_probe: Floats = np.zeros(0)
        self._allocate(int(self.labels.max(initial=-1)) + 1 + _SPARE_SLOTS)
        self.log_joint = self.compute_log_joint()

    # -- arrays ---------------------------------------------------------------------------------------------------------------------------

    def _allocate(self, capacity: int) -> None:
        """Slots for at least `capacity` clusters, filled from the labels."""
        self.capacity = padded(max(capacity, 16))
        self.statistics = self.family.allocate(self.model.encoded, self.capacity)
        self.weights: Floats = np.zeros(self.capacity)
        self.scratch: Floats = np.zeros(self.capacity)
        self.scores: Floats = np.zeros((4, self.capacity))
        self._tabulate()
        self.rebuild()

    def _tabulate(self) -> None:
        """The prior's two tables for the present hyper-parameters; W, a table over all sizes, only if it has changed."""
        self.log_v: Floats = self.prior.v_table(self.model.n, self.capacity + 1)
        probe = self.prior.log_w(np.array([1, 2, self.model.n + 1]))
        if not np.array_equal(probe, self._log_w_probe):
            self.log_w: Floats = self.prior.w_table(self.model.n + 1)
            self._log_w_probe = probe

    def rebuild(self) -> None:
        """Sizes and statistics from the labels alone: rounding errors of many updates go away."""
        self.sizes: Ints = np.bincount(self.labels[self.labels >= 0], minlength=self.capacity)
        free = first_empty(self.sizes, 0)
        top = int(np.flatnonzero(self.sizes)[-1]) if self.sizes.any() else -1
        self.occupancy: Ints = np.array([np.count_nonzero(self.sizes), max(top, free) + 1, free])
        self._update_log_join()
        self.run(seat_all, self.labels, self.capacity)
        self.changes = 0

    def _update_log_join(self) -> None:
        self.log_join: Floats = np.where(self.sizes > 0, self.log_w[self.sizes + 1] - self.log_w[self.sizes], -np.inf)

    def make_room(self) -> None:
        """Double the number of slots."""
        self._allocate(2 * self.capacity)

    def tidy(self) -> None:
        """Between sweeps: close the gaps between slots where they cost more than closing them, and rebuild after many changes."""
        n_clusters, n_slots = int(self.occupancy[0]), int(self.occupancy[1])
        if n_slots - n_clusters > 5 + n_clusters // 8:
            self.labels = self.canonical_labels().astype(np.int32)
            self._allocate(n_clusters + n_clusters // 8 + _SPARE_SLOTS)
        elif self.changes > _REBUILD_AFTER * self.model.n:
            self.rebuild()

    def run(self, function: Kernel, *arguments: Any) -> Any:
        """Run a kernel on the statistics, compiled or as plain Python."""
        return (function if self.compiled else function.python)(self.statistics, *arguments)

    # -- what the state says ----------------------------------------------------------------------------------------------------------------

    @property
    def n_clusters(self) -> int:
        """K."""
        return int(self.occupancy[0])

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Present values of the hyper-parameters that are sampled; a family's are prefixed with "family."."""
        values = {name: float(getattr(self.prior, name)) for name in self.model.prior.hyperpriors()}
        return values | {f"family.{name}": float(getattr(self.family, name)) for name in self.model.family.hyperpriors()}

    def canonical_labels(self) -> Ints:
        """The partition, clusters numbered in order of first appearance."""
        return canonical_slots(self.labels, self.capacity)

    def log_v_at(self, counts: Ints) -> Floats:
        """log V(n, K) for any numbers of clusters, from the table where it reaches."""
        return self.log_v[counts] if counts.max() < len(self.log_v) else self.prior.v_table(self.model.n, int(counts.max()))[counts]

    def log_prior_of_partition(self) -> float:
        """log p(C)."""
        occupied = self.sizes[self.sizes > 0]
        return float(self.log_v[self.n_clusters] + self.log_w[occupied].sum())

    def log_likelihood(self) -> float:
        """Σ_c log p(x_c); without closed marginals Σ_i log F(x_i; θ) at the parameters drawn last."""
        return float(self.run(total_log_marginal, self.sizes)) if self.collapsed else self.explicit_log_likelihood

    def log_hyperprior(self) -> float:
        """Σ log p(value) of the hyper-parameters that are sampled."""
        prior = sum(p.log_density(getattr(self.prior, name)) for name, p in self.model.prior.hyperpriors().items())
        return prior + sum(p.log_density(getattr(self.family, name)) for name, p in self.model.family.hyperpriors().items())

    def compute_log_joint(self) -> float:
        """log p(C, x), with the log priors of sampled hyper-parameters, from scratch."""
        return self.log_prior_of_partition() + self.log_likelihood() + self.log_hyperprior()

    # -- changes ----------------------------------------------------------------------------------------------------------------------------

    def seat(self, labels: Any) -> None:
        """Another partition altogether: one label of at least 0 per point."""
        self.labels = np.array(labels, dtype=np.int32)
        needed = int(self.labels.max(initial=-1)) + 1 + _SPARE_SLOTS
        if needed > self.capacity:
            self._allocate(needed + needed // 8)
        else:
            self.rebuild()
        self.log_joint = self.compute_log_joint()

    def set_prior(self, values: dict[str, float]) -> None:
        """New hyper-parameters of the prior."""
        before = self.log_prior_of_partition() + self.log_hyperprior()
        self.prior = self.prior.at(values)
        self._tabulate()
        self._update_log_join()
        self.log_joint += self.log_prior_of_partition() + self.log_hyperprior() - before

    def set_family(self, values: dict[str, float]) -> None:
        """New hyper-parameters of the family."""
        self.family = self.family.at(values)
        self.statistics = self.family.with_values(self.statistics, values)
        self.run(derive_all, self.capacity)
        self.log_joint = self.compute_log_joint()

    def log_likelihood_at(self, values: dict[str, float]) -> float:
        """Σ_c log p(x_c) with other hyper-parameters of the family."""
        function = total_log_marginal if self.compiled else total_log_marginal.python
        return float(function(self.family.with_values(self.statistics, values), self.sizes))

    def audit(self, tolerance: float = 1e-8) -> None:
        """Raise `AssertionError` unless sizes, statistics and log joint agree with a fresh build from the labels."""
        fresh = MixtureState(self.model, self.labels, self.compiled)
        fresh.prior, fresh.family = self.prior, self.family
        fresh.labels, fresh.capacity = self.labels.copy(), self.capacity
        fresh._allocate(self.capacity)
        assert np.array_equal(fresh.sizes, self.sizes), "cluster sizes differ from the labels"
        assert fresh.occupancy[0] == self.occupancy[0], "the number of clusters differs from the labels"
        assert self.occupancy[2] < 0 or self.sizes[self.occupancy[2]] == 0, "the free slot is occupied"
        np.testing.assert_allclose(self.log_join, fresh.log_join, rtol=tolerance, err_msg="prior weights differ from a rebuild")
        if not self.collapsed:
            return
        n_slots, some = int(self.occupancy[1]), np.linspace(0, self.model.n - 1, min(self.model.n, 20)).astype(np.int64)
        mine, theirs = (state.run(slot_summary, n_slots, some, np.zeros((n_slots, 1 + len(some))), np.zeros(state.capacity)) for state in (self, fresh))
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance, err_msg="statistics differ from a rebuild")
        drift = abs(self.log_joint - fresh.compute_log_joint())
        assert drift <= tolerance * max(1.0, abs(self.log_joint)), f"the log joint has drifted by {drift:.3g}"
