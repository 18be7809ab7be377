"""The state of a distance-dependent Chinese restaurant: who links to whom. Tables are the connected components of the links.

Tables live in *slots*, as many as there are tables and a few to spare; the last `SCRATCH` slots are work space of the moves, the first of these always empty.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse

from maitre.data.distances import Distances
from maitre.families.base import ConjugateFamily
from maitre.families.statistics import log_marginal
from maitre.model import Model
from maitre.numerics.arrays import Floats, Ints, Slots, padded
from maitre.numerics.compilation import kernel
from maitre.partitions.labels import canonical, canonical_slots
from maitre.priors.distance_dependent import DistanceDependent
from maitre.states.base import Values, Variable
from maitre.states.clusters import HyperparameterState, seat_all
from maitre.states.link_lists import Candidates, Seating, components, links_within, list_followers, log_row_sums

SCRATCH = 4
_COMMIT_AFTER = 10  # changes of table per point after which a commit is worth its cost: sums have drifted


@kernel
def score_tables(s: Any, sizes: Ints, log_marginals: Floats) -> None:
    """log p(x_k) of every table."""
    for k in range(len(sizes)):
        log_marginals[k] = log_marginal(s, k) if sizes[k] > 0 else 0.0


class LinksState(HyperparameterState):
    """Links between points, their tables and the tables' statistics. `links` holds whom each point links to (itself is allowed), −1 for no seat yet."""

    PRIOR = DistanceDependent
    STARTS = ("sequential", "tight", "one")  # random labels would part every point from its neighbours, whom it links to
    SEATED_BY = "links"

    def __init__(self, model: Model, links: Any, compiled: bool = True, values: Values | None = None) -> None:
        super().__init__(model, compiled, values)
        self.distances = _possible(self.prior, fixed=not model.prior.decay.hyperpriors())  # type: ignore[attr-defined]
        self.candidates = self._candidates()
        self.n_most_candidates = int(np.diff(self.candidates.start).max())
        self._seat(np.asarray(links, dtype=np.int32))
        self.log_joint = self.compute_log_joint()

    # -- variables ------------------------------------------------------------------------------------------------------------------------

    @classmethod
    def declare(cls, model: Model) -> tuple[Variable, ...]:
        """Links and hyper-parameters."""
        return (Variable("links", "link", dtype="int32"), *super().declare(model))

    @classmethod
    def of_variables(cls, model: Model, values: Values, compiled: bool = True) -> Self:
        """The state with these links and hyper-parameters."""
        return cls(model, values["links"], compiled, values)

    @classmethod
    def of_labels(cls, model: Model, labels: Any, compiled: bool = True) -> Self:
        """A state whose tables are the clusters of these labels as far as candidates allow: a cluster that no links hold together becomes several tables."""
        state = cls(model, np.full(model.n, -1), compiled)
        state._seat(state.links_within(canonical(labels)))
        state.log_joint = state.compute_log_joint()
        return state

    @classmethod
    def auto_moves(cls, model: Model) -> str:
        """Links with tables integrated out where the family can."""
        return "links" if isinstance(model.family, ConjugateFamily) else "explicit_links"

    def variables(self) -> dict[str, Any]:
        """Links and hyper-parameters."""
        return {"links": self.links.copy(), **super().variables()}

    def commit(self) -> None:
        """Tables in canonical order, lists of followers in the order of the points, statistics and log joint from scratch."""
        self._seat(self.links, self.seating.choice)
        self.log_joint = self.compute_log_joint()

    @property
    def untidy(self) -> bool:
        """Most slots empty, or many changes."""
        return self.capacity > 4 * (self.n_clusters + 8 + SCRATCH) or self.changes > _COMMIT_AFTER * self.model.n

    def derived(self) -> dict[str, Any]:
        """Tables, their log marginals, the candidates chosen and the followers of some points, beside what all clusters have."""
        n, empty = self.model.n, self.seating.free[: int(self.seating.n_free[0])]
        some = np.linspace(0, n - 1, min(n, 50)).astype(np.int64)
        labels = self.canonical_labels()
        first = self.labels[np.unique(labels, return_index=True)[1]]
        listed = [sum(hash_of(follower) for follower in _listed(self.seating, int(i))) for i in some]
        links = {"tables (the components of the links)": labels, "candidates that are the links": self._choices(self.links) - self.seating.choice}
        lists = {"lists of those who link to a point": listed, "points in free slots": self.sizes[empty].sum()}
        return links | lists | super().derived() | ({"statistics kept as log marginals": self.log_marginals[first]} if self.collapsed else {})

    # -- arrays ---------------------------------------------------------------------------------------------------------------------------

    def _candidates(self) -> Candidates:
        n, d = self.distances.n, self.distances
        start = d.start + np.arange(n + 1)
        targets, log_weights = np.empty(len(d.targets) + n, dtype=np.int32), np.empty(len(d.targets) + n)
        self._others = np.ones(len(targets), dtype=bool)
        self._others[start[1:] - 1] = False
        targets[self._others], targets[~self._others] = d.targets, np.arange(n)
        candidates = Candidates(start, targets, log_weights)
        self._weigh(candidates)
        return candidates

    def _weigh(self, candidates: Candidates) -> None:
        """The candidates' weights for the present hyper-parameters, and log Σ_{j≠i} f(d_ij) of every point."""
        log_weights = self.prior.decay.log_weight(self.distances.values)
        candidates.log_weights[self._others] = log_weights
        candidates.log_weights[~self._others] = np.log(self.prior.concentration)
        self.log_sums: Floats = log_row_sums(self.distances.start, log_weights)

    def links_within(self, labels: Ints) -> Slots:
        """Links between points of the same label only, with as few tables as a walk through the candidates finds."""
        n = self.model.n
        usable = self.candidates.log_weights[self._others] > -np.inf
        rows, targets = self.distances.rows()[usable], self.distances.targets[usable]
        behind = sparse.csr_array((np.ones(len(rows), dtype=np.int8), (targets, rows)), shape=(n, n))
        links = np.full(n, -1, dtype=np.int32)
        links_within(*self.candidates, behind.indptr.astype(np.int64), behind.indices.astype(np.int32), labels, links, np.empty(n, dtype=np.int32))
        return links

    def _seat(self, links: Slots, choice: Slots | None = None) -> None:
        """Everything from the links."""
        n = self.model.n
        first, following, preceding, labels = (np.full(n, -1, dtype=np.int32) for _ in range(4))
        sizes, free, n_free = (np.zeros(0, dtype=np.int64) for _ in range(3))
        marks, clock, members = np.zeros(n, dtype=np.int64), np.zeros(1, dtype=np.int64), np.empty(n, dtype=np.int32)
        choice = self._choices(links) if choice is None else choice.copy()
        self.seating = Seating(links.copy(), choice, first, following, preceding, labels, sizes, free, n_free, marks, clock, members)
        list_followers(self.seating)
        self._allocate(int(components(self.seating)))

    def _choices(self, links: Slots) -> Slots:
        """The position of each point's link among its candidates."""
        start, targets, log_weights = self.candidates
        points = np.repeat(np.arange(self.model.n), np.diff(start))
        chosen = np.flatnonzero((targets == links[points]) & (log_weights > -np.inf))
        choice = np.full(self.model.n, -1, dtype=np.int32)
        choice[points[chosen]] = chosen - start[points[chosen]]
        bad = np.flatnonzero((choice < 0) & (links >= 0))
        if len(bad):
            raise ValueError(f"point {bad[0]} cannot link to point {links[bad[0]]}: it is not among its candidates")
        return choice

    def _allocate(self, n_tables: int) -> None:
        """Slots for the tables that the labels name, and about as many again."""
        self.allocate(padded(n_tables + n_tables // 2 + 8 + SCRATCH))
        sizes = np.bincount(self.labels[self.labels >= 0], minlength=self.capacity)
        empty = np.flatnonzero(sizes[: self.capacity - SCRATCH] == 0)[::-1]
        free = np.zeros(self.capacity, dtype=np.int64)
        free[: len(empty)] = empty
        self.seating = self.seating._replace(sizes=sizes, free=free, n_free=np.array([len(empty)]))
        self.log_marginals: Floats = np.zeros(self.capacity)
        self.factors: Floats = np.zeros(self.capacity)
        self.scored: Ints = np.zeros(self.capacity, dtype=np.int64)
        self.rebuild()

    def rebuild(self) -> None:
        """Statistics from the labels alone: rounding errors of many updates go away."""
        self.run(seat_all, self.labels, self.capacity)
        self._score()
        self.changes = 0

    def _score(self) -> None:
        if self.collapsed:
            self.run(score_tables, self.sizes, self.log_marginals)

    def make_room(self) -> None:
        """More slots; tables keep theirs."""
        self._allocate(self.capacity)

    # -- what the state says ----------------------------------------------------------------------------------------------------------------

    @property
    def links(self) -> Slots:
        """Whom each point links to."""
        return self.seating.links

    @property
    def labels(self) -> Slots:  # type: ignore[override]
        """The slot of each point's table."""
        return self.seating.labels

    @property
    def sizes(self) -> Ints:  # type: ignore[override]
        """The number of points in each slot."""
        return self.seating.sizes

    @property
    def n_clusters(self) -> int:
        """The number of tables."""
        return self.capacity - SCRATCH - int(self.seating.n_free[0])

    def canonical_labels(self) -> Ints:
        """The partition, tables numbered in order of first appearance."""
        return canonical_slots(self.labels, self.capacity)

    def log_prior_of_partition(self) -> float:
        """log p(links) = Σ_i log w(i, c_i) − log Z_i."""
        return self.log_prior_at({})

    def log_prior_at(self, values: dict[str, float]) -> float:
        """log p(links) with other hyper-parameters of the prior; a pass over all candidates only if the decay is another."""
        decay = {name.partition(".")[2]: value for name, value in values.items() if "." in name}
        start, log_weights, log_sums = self.candidates.start, self.candidates.log_weights, self.log_sums
        if decay:
            start, log_weights = self.distances.start, self.prior.decay.at(decay).log_weight(self.distances.values)
            log_sums = log_row_sums(start, log_weights)
        seated, alone = self.links >= 0, self.links == np.arange(self.model.n)
        linked = np.flatnonzero(seated & ~alone)
        log_concentration = float(np.log(values.get("concentration", self.prior.concentration)))
        chosen = float(log_weights[start[linked] + self.seating.choice[linked]].sum()) + log_concentration * int(alone.sum())
        return chosen - float(np.logaddexp(log_sums, log_concentration)[seated].sum())

    # -- changes ----------------------------------------------------------------------------------------------------------------------------

    def set_prior(self, values: dict[str, float]) -> None:
        """New hyper-parameters of the prior."""
        before = self.log_prior_of_partition() + self.log_density_of_prior()
        self.prior = self.prior.at(values)
        if any("." in name for name in values):
            self._weigh(self.candidates)
        else:
            self.candidates.log_weights[self.candidates.start[1:] - 1] = np.log(self.prior.concentration)
        self.log_joint += self.log_prior_of_partition() + self.log_density_of_prior() - before

    def set_family(self, values: dict[str, float]) -> None:
        """New hyper-parameters of the family."""
        super().set_family(values)
        self._score()


def hash_of(point: int) -> int:
    """A number by which a set of points is known, whatever their order: sums of these."""
    return (point + 1) * 2654435761 % 2**32


def _possible(prior: DistanceDependent, fixed: bool) -> Distances:
    """The candidates; those whose weight is 0 are left out, unless the decay may still change."""
    distances: Distances = prior.distances
    return distances.kept(prior.decay.log_weight(distances.values) > -np.inf) if fixed else distances


def _listed(seating: Seating, i: int) -> list[int]:
    found, follower = [], int(seating.first[i])
    while follower >= 0:
        found.append(follower)
        follower = int(seating.following[follower])
    return found
