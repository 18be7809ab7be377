"""The state of a hierarchical Dirichlet process in direct assignment: which point of which group is in which cluster, and the clusters' weights in the common measure.

Given the weights β_1, …, β_K and their rest β_*, the labels of a group have the law of a Pólya urn with base measure γβ, and the rest of the model is a mixture. The
density of labels (as a partition), weights on the log scale (on the plain one it is unbounded where β_* is small), and data is

    p = α^K β_*^α · ∏_m Γ(γ)/Γ(γ+N_m) ∏_k Γ(γβ_k + n_mk)/Γ(γβ_k) · ∏_k p(x_k).

Which tables the points of a group sit at (Teh et al. 2006) is drawn when it is needed, and forgotten.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from maitre.families.slots import pack, with_own_scratch
from maitre.families.words import Words
from maitre.model import Model
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.prefix import STRIDE
from maitre.partitions.labels import Numbered, canonical_slots, canonical_slots_of, renumber
from maitre.priors.hierarchical import HierarchicalDirichletProcess
from maitre.states.base import Values, Variable
from maitre.states.clusters import ClusterState, LateLogJoint
from maitre.states.group_counts import cells_of_groups, cells_of_topics, fill_slots, fill_words, first_places, follow_tables, largest_count, log_urns, sizes_of

_SPARE_SLOTS = 8
_SHORT = np.iinfo(np.uint16).max
_MOST_SHORT = _SHORT + 1  # slots of which two bytes hold the numbers


def _label_type(n_slots: int) -> type[np.integer[Any]]:
    """Of labels, which are by far the most of what there is in memory."""
    return np.uint16 if n_slots <= _MOST_SHORT else np.int32


def _room_for(n_clusters: int) -> int:
    """Slots for so many clusters and some more."""
    return -(-(n_clusters + n_clusters // 16 + _SPARE_SLOTS) // STRIDE) * STRIDE


class FranchiseState(LateLogJoint, ClusterState):
    """Labels of points in groups, and the weights of their clusters in the common measure. The log joint takes a pass over all points."""

    PRIOR: ClassVar[type[HierarchicalDirichletProcess]] = HierarchicalDirichletProcess
    STARTS = ("kmeans",)
    KEEPS_LABELS: ClassVar[bool] = False

    def __init__(self, model: Model, labels: Any, compiled: bool = True, values: Values | None = None, starts: Ints | None = None) -> None:
        """`starts` says where groups begin, if the model's data do not."""
        super().__init__(model, compiled, values)
        n_clusters = int(np.max(labels, initial=0)) + 1 if len(labels) else 0
        self.labels: Any = canonical_slots_of(labels, _label_type(n_clusters))
        self.starts: Ints = model.data.starts if starts is None else starts  # type: ignore[union-attr]
        self.n_groups = len(self.starts) - 1
        gamma = self.prior.group.mean if self.prior.own else float(self.prior.group)
        self.gammas: Floats = np.array(values["gammas"]) if values is not None and "gammas" in values else np.full(self.n_groups, gamma)
        n_clusters = int(self.labels.max()) + 1 if len(self.labels) else 0
        if values is not None and "weights" in values:
            self.rest, weights = float(values["rest"]), np.asarray(values["weights"], dtype=np.float64)[:n_clusters]
        else:
            shares = sizes_of(self.labels, n_clusters) + 1.0
            self.rest, weights = 1.0 / shares.sum(), shares / shares.sum() * (1.0 - 1.0 / shares.sum())
        self._build(weights)

    # -- variables ------------------------------------------------------------------------------------------------------------------------

    @classmethod
    def declare(cls, model: Model) -> tuple[Variable, ...]:
        """Labels, weights and hyper-parameters."""
        own = (Variable("labels", "point", kept=cls.KEEPS_LABELS, dtype="int32"), Variable("weights", "cluster"), Variable("rest", "scalar"))
        groups = (Variable("gammas", "group"),) if model.prior.own else ()  # type: ignore[attr-defined]
        return (*own, *groups, *super().declare(model))

    @classmethod
    def kept_variables(cls, model: Model) -> tuple[Variable, ...]:
        """Weights, hyper-parameters, the clusters' statistics, and how many points of each group are in each cluster; labels if asked for."""
        summary = (Variable("log_joint", "scalar"), Variable("n_clusters", "scalar"))
        cells = ["group_cells", "group_counts", *(["topic_cells", "topic_counts"] if isinstance(model.family, Words) else [])]
        own = [Variable(name, "cell", dtype="int64" if name.endswith("cells") else "int32") for name in cells]
        if not isinstance(model.family, Words):
            own.append(Variable("statistics", "cluster", shape=(len(pack(model.family.at_prior_means().allocate(model.encoded, 1), 0)),)))
        return (*summary, *(v for v in cls.declare(model) if v.kept), *own)

    @classmethod
    def of_variables(cls, model: Model, values: Values, compiled: bool = True) -> Self:
        """The state with these variables."""
        return cls(model, values["labels"], compiled, values)

    @classmethod
    def of_labels(cls, model: Model, labels: Any) -> Self:
        """The state with these labels; a sampled γ starts with the length of the groups, which leaves small clusters a chance at first."""
        prior: Any = model.prior
        lengths = np.diff(model.data.starts)  # type: ignore[union-attr]
        gamma = float(np.clip(lengths.mean() / 50.0, 1.0, 30.0))
        values: dict[str, Any] = {"gammas": np.full(len(lengths), gamma)} if prior.own else {"group": gamma} if "group" in prior.hyperpriors() else {}
        return cls(model, labels, values=values)

    @classmethod
    def auto_moves(cls, model: Model) -> str:
        """Direct assignment."""
        return "direct"

    def variables(self) -> dict[str, Any]:
        """Labels, in few bytes, weights in the canonical order of the clusters, and hyper-parameters."""
        labels = Numbered(self.labels, self.capacity, self.labels.dtype)
        own = {"gammas": self.gammas.copy()} if self.model.prior.own else {}  # type: ignore[attr-defined]
        return {"labels": labels, "weights": self.beta[self.slots_in_order()], "rest": self.rest, **own, **super().variables()}

    def slots_in_order(self) -> Ints:
        """The slots of the clusters, in order of first appearance."""
        return np.argsort(self.first_points(), kind="stable")[: self.n_clusters]

    def first_points(self) -> Ints:
        """The first point in each slot; how many points there are for empty slots."""
        return first_places(self.labels, self.capacity, self.n_clusters)

    def kept(self) -> dict[str, Any]:
        """What a draw keeps."""
        values = {"log_joint": self.log_joint, "n_clusters": float(self.n_clusters)} | self.variables()
        slots = self.slots_in_order()
        values["group_cells"], values["group_counts"] = cells_of_groups(self.labels, self.starts, slots, self.capacity)
        if isinstance(self.model.family, Words):
            values["topic_cells"], values["topic_counts"] = cells_of_topics(self.statistics.seen, slots)
        else:
            values["statistics"] = np.array([pack(self.statistics, int(k)) for k in slots])
        return {variable.name: values[variable.name] for variable in self.kept_variables(self.model)}

    def commit(self) -> None:
        """Slots in canonical order, as many as the number of clusters asks for; statistics and log joint from scratch."""
        weights = self.beta[self.slots_in_order()]
        renumber(self.labels, self.capacity)
        self._build(weights)

    def derived(self) -> dict[str, Any]:
        """Sizes, weights, statistics and log joint."""
        return super().derived() | {"weights": self.variables()["weights"], "sum of the weights": self.beta.sum() + self.rest}

    # -- arrays ---------------------------------------------------------------------------------------------------------------------------

    def allocate(self, capacity: int) -> None:
        """Empty slots; of words with short counts where these can hold them, since a sweep waits for little else than the memory they are in."""
        before = self._slots
        super().allocate(capacity)
        if self._slots is not before and self._can_be_short():
            self.statistics = self.statistics._replace(seen=np.zeros(self.statistics.seen.shape, dtype=np.uint16))

    def _can_be_short(self) -> bool:
        """Whether short counts can hold those of the words in all clusters, and of any two clusters together."""
        if not (isinstance(self.family, Words) and self.compiled):
            return False
        return len(self.common) == 0 or largest_count(self.encoded["word"], self.labels, self.common, int(self.labels.max()) + 1) < _SHORT // 2

    @cached_property
    def words_before(self) -> Ints:
        """How often words occur up to each."""
        return np.cumsum(sizes_of(self.encoded["word"], self.statistics.n_words))

    @cached_property
    def common(self) -> Ints:
        """Words that occur too often for short counts, were they all in one cluster."""
        if not isinstance(self.family, Words):
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(sizes_of(self.encoded["word"], int(self.family.n_words or 0)) > _SHORT)

    def widen(self) -> None:
        """Counts of words that can hold any number, if there are common ones."""
        if len(self.common) and self.statistics.seen.itemsize == 2:
            self.statistics = self.statistics._replace(seen=self.statistics.seen.astype(np.float32))

    def widen_labels(self, n_slots: int) -> None:
        """Labels of a type that holds the numbers of so many slots."""
        self.labels = self.labels.astype(_label_type(n_slots), copy=False)

    @property
    def crowded(self) -> bool:
        """Whether short counts could not hold those of two clusters together."""
        return len(self.common) > 0 and self.statistics.seen.itemsize == 2 and int(self.statistics.seen[self.common].max()) >= _SHORT // 2

    def _empty_slots(self, capacity: int) -> None:
        """Empty slots, and no others in memory at the same time: those of words take most of it, and serve again if there are as many."""
        if (
            self._slots is not None
            and self._slots[1] == capacity
            and isinstance(self.family, Words)
            and (self.statistics.seen.itemsize == 2) == self._can_be_short()
        ):
            self.statistics.seen.fill(0)
            self.statistics.total.fill(0.0)
        else:
            self._slots = self.statistics = None
            self.allocate(capacity)

    def _build(self, weights: Floats, sizes: Ints | None = None) -> None:
        """Slots for the labels, which are canonical, and room for some more."""
        n_clusters = len(weights)
        self._empty_slots(_room_for(n_clusters))
        self.widen_labels(self.capacity)
        self.beta: Floats = np.zeros(self.capacity)
        self.beta[:n_clusters] = weights
        self.sizes: Ints = self._count() if sizes is None else np.pad(sizes, (0, self.capacity - len(sizes)))
        self._fill()
        self.touched()

    def _count(self) -> Ints:
        """How many points each slot has; each thread counts some points."""
        return np.sum(self.engine.map(lambda part: sizes_of(part, self.capacity), np.array_split(self.labels, self.engine.n_workers)), axis=0)

    def _fill(self) -> None:
        """Statistics of empty slots from the labels; each thread has slots of its own, or words."""
        if isinstance(self.family, Words) and self.compiled:
            s, n_parts = self.statistics, min(self.engine.n_workers, self.statistics.n_words)
            s.total[:] = self.sizes
            ends = np.searchsorted(self.words_before, self.words_before[-1] * np.arange(1, n_parts) / n_parts) if n_parts > 1 else []
            self.engine.map(lambda words: fill_words(s.word, self.labels, s.seen, *words), pairwise([0, *ends, s.n_words]))
            return
        n_parts = min(self.engine.n_workers, self.capacity // STRIDE)
        bounds = [STRIDE * (self.capacity // STRIDE * part // n_parts) for part in range(n_parts)] + [self.capacity]

        def fill(part: int) -> None:
            statistics = with_own_scratch(self.statistics) if n_parts > 1 else self.statistics
            (fill_slots if self.compiled else fill_slots.python)(statistics, self.labels, bounds[part], bounds[part + 1])

        self.engine.map(fill, range(n_parts))

    def seat(self, labels: Ints | Slots, weights: Floats, rest: float) -> Ints:
        """Other clusters, of these weights; returns their numbers in canonical order, in which they take the first slots."""
        self.labels, self.rest = labels.astype(_label_type(len(weights))), rest
        order = np.argsort(first_places(self.labels, len(weights), len(weights)))
        renumber(self.labels, len(order))
        self._build(weights[order])
        return order

    def renew(self, weights: Floats, sizes: Ints, rest: float) -> None:
        """What follows from labels that have been written anew, and are canonical, of clusters of these weights and sizes."""
        self.rest = rest
        self._build(weights, sizes)

    def rebuild(self) -> None:
        """Statistics from the labels alone."""
        self._empty_slots(self.capacity)
        self._fill()

    def relabel(self, at: Any, dishes: Slots) -> None:
        """The clusters of points that sit `at` tables which serve `dishes`; the slots' statistics are theirs already."""
        follow_tables(at, dishes, self.labels)
        self.sizes = self._count()
        self.touched()

    def recount(self) -> None:
        """Sizes and statistics after the labels have changed; no cluster has come or gone."""
        self.sizes = self._count()
        self.rebuild()
        self.touched()

    def make_room(self) -> None:
        """More slots; none changes its number."""
        self._empty_slots(_room_for(self.capacity))
        self.widen_labels(self.capacity)
        more = self.capacity - len(self.beta)
        self.beta, self.sizes = np.append(self.beta, np.zeros(more)), np.append(self.sizes, np.zeros(more, dtype=np.int64))
        self._fill()

    # -- what the state says --------------------------------------------------------------------------------------------------------------

    @property
    def n_clusters(self) -> int:
        """K."""
        return int(np.count_nonzero(self.sizes))

    def canonical_labels(self) -> Ints:
        """The partition of all points, clusters numbered in order of first appearance."""
        return canonical_slots(self.labels, self.capacity)

    def status(self) -> str:
        """The number of clusters."""
        return f"{self.n_clusters} {'topics' if isinstance(self.family, Words) else 'clusters'}"

    def log_likelihood(self) -> float:
        """Σ_k log p(x_k)."""
        if not isinstance(self.family, Words):
            return super().log_likelihood()
        return self.family.log_likelihood_of_clusters(self.statistics, np.flatnonzero(self.sizes), "concentration")(float(self.family.concentration))  # type: ignore[arg-type]

    def log_prior_of_partition(self) -> float:
        """log p(labels, weights)."""
        alpha, n_clusters = float(self.prior.top), self.n_clusters
        common = n_clusters * math.log(alpha) + alpha * math.log(max(self.rest, 1e-300))
        return common + float(log_urns(self.labels, self.starts, self.beta, self.gammas, np.zeros(self.capacity, dtype=np.int64)))

    def log_hyperprior(self) -> float:
        """With that of the groups' own concentrations."""
        prior: Any = self.model.prior
        return super().log_hyperprior() + (sum(prior.group.log_density(gamma) for gamma in self.gammas) if prior.own else 0.0)

    def set_prior(self, values: dict[str, float]) -> None:
        """New concentrations."""
        self.prior = self.prior.at(values)
        if "group" in values:
            self.gammas[:] = values["group"]
        self.touched()

    def set_family(self, values: dict[str, float]) -> None:
        """New hyper-parameters of the family."""
        if isinstance(self.family, Words):  # which derive nothing
            self.family = self.family.at(values)
            self.statistics = self.family.with_values(self.statistics, values)
        else:
            self._replace_family(values)
        self.touched()


class LabelledFranchiseState(FranchiseState):
    """The same, with the labels of all points in every draw."""

    KEEPS_LABELS = True
