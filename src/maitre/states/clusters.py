"""What states whose points sit in clusters share: a family's statistics in *slots*, one cluster each, and hyper-parameters with their present values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from maitre.families.statistics import add, clear, derive, log_marginal, supports
from maitre.numerics.arrays import Ints, Slots
from maitre.numerics.compilation import Kernel, kernel

if TYPE_CHECKING:
    from maitre.states.mixture import Model


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


class ClusterState(ABC):
    """Statistics, hyper-parameters and log joint of points in clusters.

    `compiled=False` runs every kernel as plain Python, for tests that follow all branches of a move.
    """

    statistics: Any
    labels: Slots  # the slot of every point, −1 without a seat
    sizes: Ints  # of every slot
    capacity: int  # how many slots there are
    log_joint: float

    def __init__(self, model: Model, compiled: bool) -> None:
        self.model = model
        self.compiled = compiled
        self.collapsed = supports(model.family.statistics, "log_marginal")
        self.explicit_log_likelihood = float("nan")  # Σ log F(x_i; θ) at the parameters drawn last, for a family without closed marginals
        self.family = model.family.at_prior_means()
        self.prior: Any = model.prior.at_prior_means()

    def run(self, function: Kernel, *arguments: Any) -> Any:
        """Run a kernel on the statistics, compiled or as plain Python."""
        return (function if self.compiled else function.python)(self.statistics, *arguments)

    @property
    @abstractmethod
    def n_clusters(self) -> int:
        """How many clusters the points are in."""

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Present values of the hyper-parameters that are sampled; a family's are prefixed with "family."."""
        values = {name: float(getattr(self.prior, name)) for name in self.model.prior.hyperpriors()}
        return values | {f"family.{name}": float(getattr(self.family, name)) for name in self.model.family.hyperpriors()}

    @abstractmethod
    def canonical_labels(self) -> Ints:
        """The partition, clusters numbered in order of first appearance."""

    @abstractmethod
    def rebuild(self) -> None:
        """Statistics from the labels alone: rounding errors of many updates go away."""

    @abstractmethod
    def tidy(self) -> None:
        """Housekeeping between iterations."""

    @abstractmethod
    def audit(self, tolerance: float = 1e-8) -> None:
        """Raise `AssertionError` unless every derived quantity agrees with a fresh build."""

    @abstractmethod
    def log_prior_of_partition(self) -> float:
        """The log prior of what the state holds beside hyper-parameters, at their present values."""

    @abstractmethod
    def log_prior_at(self, values: dict[str, float]) -> float:
        """The same with other hyper-parameters of the prior."""

    @abstractmethod
    def set_prior(self, values: dict[str, float]) -> None:
        """New hyper-parameters of the prior."""

    def log_likelihood(self) -> float:
        """Σ_c log p(x_c); without closed marginals Σ_i log F(x_i; θ) at the parameters drawn last."""
        return float(self.run(total_log_marginal, self.sizes)) if self.collapsed else self.explicit_log_likelihood

    def log_hyperprior(self) -> float:
        """Σ log p(value) of the hyper-parameters that are sampled."""
        prior = sum(p.log_density(getattr(self.prior, name)) for name, p in self.model.prior.hyperpriors().items())
        return prior + sum(p.log_density(getattr(self.family, name)) for name, p in self.model.family.hyperpriors().items())

    def compute_log_joint(self) -> float:
        """The log joint of partition and data, with the log priors of sampled hyper-parameters, from scratch."""
        return self.log_prior_of_partition() + self.log_likelihood() + self.log_hyperprior()

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
