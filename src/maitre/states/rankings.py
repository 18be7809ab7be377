"""The state of a mixture over rankings: which voter is in which cluster, and something of every cluster that is not integrated out: an ordering of the items, or their worths.

The density of partition, orderings and rankings under a generalized Mallows model is V(n, K) ∏_c W(|c|) p(x_c | σ_c)/I! with I items; under a Plackett–Luce model that of partition,
worths and rankings is V(n, K) ∏_c W(|c|) p(w_c) ∏_{i∈c} p(x_i | w_c).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from maitre.families.codes import count_codes, set_ordering
from maitre.families.generalized_mallows import empty_slot, log_marginal_of
from maitre.families.orderings import best_ordering
from maitre.families.plackett_luce import fit_worths, lay_out_worths, list_distinct, log_likelihood
from maitre.model import Model
from maitre.numerics.arrays import Ints
from maitre.numerics.compilation import compiled_apart
from maitre.partitions.labels import canonical_slots, canonical_slots_of
from maitre.states.base import Values, Variable
from maitre.states.clusters import LateLogJoint
from maitre.states.mixture import MixtureState, _room_for


@compiled_apart
def count_members(s: Any, labels: Any, sizes: Ints, members: Ints, begin: Ints) -> None:
    """N_j and S_j of every slot; the rankings of its voters stand in `members` from begin[k] on."""
    list_ballots(s, labels, sizes, members, begin)
    for k in range(len(sizes)):
        if sizes[k] == 0:
            empty_slot(s, k)
        else:
            count_codes(s, members[begin[k] :], sizes[k], s.places[k], s.seen[k], s.total[k])


@compiled_apart
def list_ballots(s: Any, labels: Any, sizes: Ints, members: Ints, begin: Ints) -> None:
    """The rankings of every cluster's voters next to each other, in the order of the distinct rankings."""
    first = 0
    for k in range(len(sizes)):
        begin[k] = first
        first += sizes[k]
    for d in range(len(s.first_voter) - 1):
        for v in range(s.first_voter[d], s.first_voter[d + 1]):
            k = labels[s.voters[v]]
            members[begin[k]] = d
            begin[k] += 1
    for k in range(len(sizes)):
        begin[k] -= sizes[k]


@compiled_apart
def total_log_marginal(s: Any, sizes: Ints) -> float:
    """Σ_c ln p(x_c | σ_c)."""
    value = 0.0
    for k in range(len(sizes)):
        if sizes[k] > 0:
            value += log_marginal_of(s, s.seen[k], s.total[k])
    return value


class RankingState(LateLogJoint, MixtureState):
    """Labels of voters, and a row of numbers for every cluster. The log joint takes an integral for every cluster and place, or a pass over all voters."""

    STARTS: ClassVar[tuple[str, ...]] = ("one",)
    SEATED_BY: ClassVar[str | None] = None
    ROWS: ClassVar[tuple[str, str]]  # the name of the rows, and the type of their numbers

    def __init__(self, model: Model, labels: Any, compiled: bool = True, values: Values | None = None) -> None:
        self._rows: Any = None if values is None or self.ROWS[0] not in values else np.asarray(values[self.ROWS[0]])
        labels = canonical_slots_of(labels)
        if self._rows is not None:
            self._rows = self._rows[: int(labels.max(initial=-1)) + 1].astype(self.ROWS[1])
        super().__init__(model, labels, compiled, values)

    def set_prior(self, values: dict[str, float]) -> None:
        """New hyper-parameters of the prior."""
        self._replace_prior(values)
        self.touched()

    @classmethod
    def declare(cls, model: Model) -> tuple[Variable, ...]:
        """Labels, the clusters' rows, and hyper-parameters."""
        labels, *others = super().declare(model)
        return (labels, Variable(cls.ROWS[0], "cluster", dtype=cls.ROWS[1], shape=(int(model.family.n_items),)), *others)  # type: ignore[attr-defined]

    @classmethod
    def scored_by_parameters(cls, model: Model) -> bool:
        """The log joint follows from the rows."""
        return False

    def variables(self) -> dict[str, Any]:
        """Labels, rows in the canonical order of the clusters, and hyper-parameters."""
        labels, *others = super().variables().items()
        return dict([labels, (self.ROWS[0], self.rows[self.slots_in_order()].copy()), *others])

    @property
    def rows(self) -> Any:
        """The rows of all slots."""
        return getattr(self.statistics, self.ROWS[0])

    def slots_in_order(self) -> Ints:
        """The slots of the clusters, in order of first appearance."""
        numbers = canonical_slots(self.labels, self.capacity)
        slots = np.zeros(self.n_clusters, dtype=np.int64)
        slots[numbers[::-1]] = self.labels[::-1]
        return slots

    def commit(self) -> None:
        """Slots in canonical order, as many as the number of clusters asks for; counts and log joint from scratch."""
        self._rows = self.rows[self.slots_in_order()].copy()
        super().commit()

    @property
    def untidy(self) -> bool:
        """Gaps between slots that cost more than closing them."""
        n_clusters, n_slots = int(self.occupancy[0]), int(self.occupancy[1])
        return n_slots - n_clusters > 5 + n_clusters // 8

    def make_room(self, at_least: int = 0) -> None:
        """More slots; none changes its number."""
        self._rows = self.rows.copy()
        super().make_room(at_least)

    def _build(self, capacity: int) -> None:
        self._slots = None  # whatever the slots remember is gone
        super()._build(capacity)

    def rebuild(self) -> None:
        """Sizes, rows and counts from the variables alone."""
        self._count(np.bincount(self.labels, minlength=self.capacity))
        rows, self._rows = self._rows, None
        self.fill(rows)
        self.changes = 0

    @abstractmethod
    def fill(self, rows: Any) -> None:
        """What follows from these rows of the first slots; None for a start from labels alone, or after a change of the labels."""

    def seat(self, labels: Any) -> None:
        """Another partition altogether; its clusters start anew."""
        self.labels = canonical_slots_of(labels)
        self._build(_room_for(int(self.labels.max()) + 1))
        self.log_joint = self.compute_log_joint()

    def derived(self) -> dict[str, Any]:
        """Sizes, prior weights, rows and log joint."""
        slots = self.slots_in_order()
        counted = {"cluster sizes": self.sizes[slots], "number of clusters": self.n_clusters, "sum of the sizes": self.sizes.sum()}
        return counted | {"prior weights": self.log_join[slots], self.ROWS[0]: self.rows[slots], "log joint": self.log_joint}


class OrderingState(RankingState):
    """Labels of voters, and an ordering of the items for every cluster: generalized Mallows models."""

    ROWS = ("orderings", "int16")

    def fill(self, rows: Any) -> None:
        """Orderings (from labels alone the best that a descent finds), their inverses, and the counts of all clusters."""
        s = self.statistics
        members, begin = np.empty(self.model.n, dtype=np.int64), np.zeros(self.capacity, dtype=np.int64)
        if rows is None:
            list_ballots(s, self.labels, self.sizes, members, begin)
            ordering, theta = np.empty(s.n_items, dtype=np.int16), np.zeros(len(s.r))
            for k in np.flatnonzero(self.sizes).tolist():
                best_ordering(s, members[begin[k] :], int(self.sizes[k]), ordering, theta)
                set_ordering(s, k, ordering)
        else:
            for k in range(len(rows)):
                set_ordering(s, k, rows[k])
        count_members(s, self.labels, self.sizes, members, begin)

    def recount(self) -> None:
        """N_j and S_j from labels and orderings."""
        count_members(self.statistics, self.labels, self.sizes, np.empty(self.model.n, dtype=np.int64), np.zeros(self.capacity, dtype=np.int64))

    def derived(self) -> dict[str, Any]:
        """With the sums of the codes."""
        slots = self.slots_in_order()
        return super().derived() | {"N": self.statistics.seen[slots], "S": self.statistics.total[slots]}

    def log_likelihood(self) -> float:
        """Σ_c ln p(x_c, σ_c)."""
        return float(total_log_marginal(self.statistics, self.sizes)) - self.n_clusters * math.lgamma(self.statistics.n_items + 1.0)

    @classmethod
    def of_labels(cls, model: Model, labels: Any) -> Self:
        """The state with these labels, and for each cluster the best ordering that a descent finds."""
        return cls(model, labels)


@compiled_apart
def total_log_likelihood(s: Any, labels: Any) -> float:
    """Σ_i ln p(x_i | w of its cluster)."""
    value = 0.0
    for i in range(len(labels)):
        value += log_likelihood(s, labels[i], s.ballot[i])
    return value


class WorthState(RankingState):
    """Labels of voters, and a worth of every item in every cluster: Plackett–Luce models."""

    ROWS = ("worths", "float64")
    STARTS = ("random",)

    def fill(self, rows: Any) -> None:
        """Worths (from labels alone the most probable ones) and their sums."""
        s = self.statistics
        if rows is None:
            members, begin = np.empty(self.model.n, dtype=np.int64), np.zeros(self.capacity, dtype=np.int64)
            list_ballots(s, self.labels, self.sizes, members, begin)
            for k in np.flatnonzero(self.sizes).tolist():
                fit_worths(s, *list_distinct(members[begin[k] :], int(self.sizes[k])), s.worths[k])
        else:
            s.worths[: len(rows)] = rows
        lay_out_worths(s)

    def log_likelihood(self) -> float:
        """Σ_c ln p(w_c) + Σ_i ln p(x_i | w)."""
        s, worths = self.statistics, self.rows[self.sizes > 0]
        prior = (s.shape - 1.0) * np.log(worths).sum() - s.rate * worths.sum() + worths.size * (s.shape * math.log(s.rate) - math.lgamma(s.shape))
        return float(total_log_likelihood(s, self.labels) + prior)
