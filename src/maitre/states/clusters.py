"""What states whose points sit in clusters share: a family's statistics in *slots*, one cluster each, and hyper-parameters with their present values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from maitre.engines.base import SERIAL, Engine
from maitre.families.base import completes_points
from maitre.families.slots import declares_roles, with_points
from maitre.families.statistics import clear, derive, gather, log_marginal, log_predictive_all, merge, settle, supports
from maitre.model import Model
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import Kernel, kernel
from maitre.priors.base import Prior
from maitre.states.base import State, Values, Variable, going_on


@kernel
def seat_all(s: Any, labels: Slots, n_slots: int) -> None:
    """Statistics of the first `n_slots` slots from the labels."""
    for k in range(n_slots):
        clear(s, k)
    for i in range(len(labels)):
        if labels[i] >= 0:
            gather(s, np.int64(labels[i]), i)
    for k in range(n_slots):
        settle(s, k)
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
def derive_some(s: Any, slots: Ints) -> None:
    """Everything that these slots derive from their raw statistics."""
    for k in slots:
        derive(s, k)


@kernel
def move_all(s: Any, slot: int, other: int) -> None:
    """The points of one slot into another."""
    merge(s, slot, other)
    clear(s, other)


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


class ClusterState(State):
    """Statistics, hyper-parameters and log joint of points in clusters."""

    PRIOR: ClassVar[type[Prior]] = Prior

    statistics: Any
    labels: Slots  # the slot of every point, −1 without a seat
    sizes: Ints  # of every slot
    capacity: int  # how many slots there are
    spare = 0  # and how many more, which no cluster of the state is ever in

    def __init__(self, model: Model, compiled: bool, values: Values | None = None) -> None:
        """`values` has hyper-parameters by name; those not named stand at their priors' means."""
        self.model = model
        self.compiled = compiled
        self.engine: Engine = SERIAL
        self.stopped: Callable[[], bool] = going_on
        self._slots: tuple[Any, int] | None = None  # the family and the capacity that the slots were made for
        self.collapsed = not self.scored_by_parameters(model)
        self.explicit_log_likelihood = float((values or {}).get("explicit_log_likelihood", np.nan))
        self._array_names = tuple(model.family.arrays(model.encoded))
        arrays = self._arrays_of(values)
        self.encoded = model.family.completed(model.encoded, arrays)
        self._missing = {name: value for name, value in arrays.items() if completes_points(name)}
        self.family = model.family.at_prior_means().at(
            {name: value for name, value in arrays.items() if name not in self._missing} | _named(values, model.family.hyperpriors(), "family.")
        )
        self.prior: Any = model.prior.at_prior_means().at(_named(values, model.prior.hyperpriors(), ""))

    def run(self, function: Kernel, *arguments: Any) -> Any:
        """Run a kernel on the statistics, compiled or as plain Python."""
        return (function if self.compiled else function.python)(self.statistics, *arguments)

    @classmethod
    def scored_by_parameters(cls, model: Model) -> bool:
        """Whether the log joint rests on parameters that moves drew and nobody keeps: without closed marginals."""
        return not supports(model.family.statistics, "log_marginal")

    # -- variables ------------------------------------------------------------------------------------------------------------------------

    @classmethod
    def declare(cls, model: Model) -> tuple[Variable, ...]:
        """Hyper-parameters that are sampled; a family's are prefixed with "family.". Without closed marginals also Σ log F(x_i; θ) at the parameters drawn last."""
        names = [*model.prior.hyperpriors(), *(f"family.{name}" for name in model.family.hyperpriors())]
        scalars = [Variable(name, "scalar") for name in names]
        scalars += [Variable(f"family.{name}", "scalar", shape=shape) for name, shape in model.family.arrays(model.encoded).items()]
        explicit = (Variable("explicit_log_likelihood", "scalar", kept=False),) if cls.scored_by_parameters(model) else ()
        return (*scalars, *explicit)

    def variables(self) -> dict[str, Any]:
        """The hyper-parameters that are sampled."""
        values = self.hypervariables
        return values if self.collapsed else values | {"explicit_log_likelihood": self.explicit_log_likelihood}

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Present values of the hyper-parameters that are sampled; a family's are prefixed with "family."."""
        values = {name: float(getattr(self.prior, name)) for name in self.model.prior.hyperpriors()}
        return values | {f"family.{name}": float(getattr(self.family, name)) for name in self.model.family.hyperpriors()}

    @property
    def hypervariables(self) -> dict[str, Any]:
        """Hyper-parameters, and arrays of the family, that are sampled."""
        return self.hyperparameters | {f"family.{name}": value for name, value in self.arrays.items()}

    @property
    def arrays(self) -> dict[str, Any]:
        """Present values of the family's variables that are arrays."""
        return {name: self._missing[name] if name in self._missing else getattr(self.family, name) for name in self._array_names}

    def _arrays_of(self, values: Values | None) -> dict[str, Any]:
        family, encoded, given = self.model.family, self.model.encoded, values or {}
        return {name: np.array(given.get(f"family.{name}", value), dtype=np.float64) for name, value in family.arrays_at_prior_means(encoded).items()}

    def derived(self) -> dict[str, Any]:
        """Sizes, statistics and log joint; of a family without closed marginals the sizes alone."""
        slots = self.labels[np.unique(self.canonical_labels(), return_index=True)[1]]
        slots = slots[slots >= 0]
        counted = {"cluster sizes": self.sizes[slots], "number of clusters": self.n_clusters}
        if not self.collapsed:
            return counted
        n = self.model.n if self.model.pool is None else len(self.model.pool)
        some = np.linspace(0, n - 1, min(n, 20)).astype(np.int64)
        summary = self.run(slot_summary, self.capacity, some, np.zeros((self.capacity, 1 + len(some))), np.zeros(self.capacity))
        return counted | {"statistics": summary[slots], "log joint": self.log_joint}

    # -- statistics ---------------------------------------------------------------------------------------------------------------------

    def allocate(self, capacity: int) -> None:
        """Empty slots, unless those there are can serve again."""
        if self._slots is None or self._slots[0] is not self.family or self._slots[1] != capacity:
            self.statistics = self.family.allocate(self.encoded, capacity + self.spare)
            self._slots = (self.family, capacity)
        self.capacity = capacity

    def reading(self, encoded: Any) -> Any:
        """The statistics of the slots with other points to score: rows that are in no cluster."""
        if declares_roles(self.statistics):
            return with_points(self.statistics, encoded)
        other = self.family.allocate(encoded, 1)  # of a family that does not say which of its fields are points: those that came in as such
        return self.statistics._replace(**{name: value for name, value in other._asdict().items() if any(value is array for array in _arrays(encoded))})

    def replace_points(self, values: dict[str, Any]) -> None:
        """Arrays that complete the points, in place of those there are; the caller sees to the statistics of the slots."""
        self._missing |= values
        self.encoded = self.family.completed(self.model.encoded, self._missing)
        self.statistics = with_points(self.statistics, self.encoded)

    # -- probabilities --------------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def rebuild(self) -> None:
        """Statistics from the labels alone: rounding errors of many updates go away."""

    @abstractmethod
    def log_prior_of_partition(self) -> float:
        """The log prior of what the state holds beside hyper-parameters, at their present values."""

    def log_likelihood(self) -> float:
        """Σ_c log p(x_c); without closed marginals Σ_i log F(x_i; θ) at the parameters drawn last."""
        return float(self.run(total_log_marginal, self.sizes)) if self.collapsed else self.explicit_log_likelihood

    def log_hyperprior(self) -> float:
        """Σ log p(value) of the hyper-parameters that are sampled."""
        of_family = sum(p.log_density(getattr(self.family, name)) for name, p in self.model.family.hyperpriors().items())
        return self.log_density_of_prior() + of_family + self.family.log_density_of_arrays(self.arrays)

    def log_density_of_prior(self) -> float:
        """The part of the prior's own."""
        return float(sum(p.log_density(getattr(self.prior, name)) for name, p in self.model.prior.hyperpriors().items()))

    def compute_log_joint(self) -> float:
        """The log joint of partition and data, with the log priors of sampled hyper-parameters, from scratch."""
        return self.log_prior_of_partition() + self.log_likelihood() + self.log_hyperprior()

    def set_family(self, values: dict[str, Any]) -> None:
        """New hyper-parameters and arrays of the family."""
        self._replace_family(values)
        self.log_joint = self.compute_log_joint()

    def _replace_family(self, values: dict[str, Any]) -> None:
        missing = {name: value for name, value in values.items() if name in self._missing}
        if missing:
            self._missing |= missing
            values = {name: value for name, value in values.items() if name not in missing}
            self.encoded = self.family.completed(self.model.encoded, self._missing)
            self._slots = None
            self.allocate(self.capacity)
            self.rebuild()
        self.family = self.family.at(values)
        self.statistics = self.family.with_values(self.statistics, values)
        self.run(derive_some, np.arange(self.capacity))

    def log_likelihood_at(self, values: dict[str, Any]) -> float:
        """Σ_c log p(x_c) with other hyper-parameters of the family."""
        function = total_log_marginal if self.compiled else total_log_marginal.python
        return float(function(self.family.with_values(self.statistics, values), self.sizes))


class LateLogJoint:
    """A state whose log joint is computed when it is asked for, once after every change."""

    compute_log_joint: Callable[[], float]
    _log_joint: float | None = None

    @property
    def log_joint(self) -> float:
        """The log joint at present."""
        if self._log_joint is None:
            self._log_joint = self.compute_log_joint()
        return self._log_joint

    @log_joint.setter
    def log_joint(self, value: float) -> None:
        self._log_joint = value

    def touched(self) -> None:
        """Something has changed."""
        self._log_joint = None


class HyperparameterState(ClusterState):
    """A state given which alone the hyper-parameters of its prior have a density; where they need more than it holds, the moves of the state draw them."""

    @abstractmethod
    def log_prior_at(self, values: dict[str, float]) -> float:
        """`log_prior_of_partition` with other hyper-parameters of the prior."""

    @abstractmethod
    def set_prior(self, values: dict[str, float]) -> None:
        """New hyper-parameters of the prior."""


def _named(values: Values | None, names: Any, prefix: str) -> dict[str, float]:
    return {name: float(values[prefix + name]) for name in names if prefix + name in values} if values else {}


def _arrays(encoded: Any) -> list[Any]:
    parts = encoded.values() if isinstance(encoded, dict) else encoded if isinstance(encoded, tuple) else None
    return [encoded] if parts is None else [array for part in parts for array in _arrays(part)]
