"""The state of a distance-dependent Chinese restaurant: who links to whom. Tables are the connected components of the links.

Every component has exactly one cycle (a link to oneself is a cycle of one), and all its other points hang on that cycle as trees. Those who link to a point are kept
in a doubly linked list, so a link is cut or made in constant time, and everybody behind a point is found by walking these lists backwards.
Tables live in *slots*, as many as there are tables and a few to spare; the last `SCRATCH` slots are work space of the moves, the first of these always empty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from maitre.data.distances import Distances
from maitre.families.statistics import log_marginal
from maitre.numerics.arrays import Floats, Ints, Slots, padded
from maitre.numerics.compilation import compiled, kernel
from maitre.partitions.labels import canonical, canonical_slots
from maitre.priors.distance_dependent import DistanceDependent
from maitre.states.clusters import ClusterState, seat_all
from maitre.states.mixture import Model, slot_summary

SCRATCH = 4
_REBUILD_AFTER = 10  # statistics are rebuilt from the members after this many changes of table per point


class Candidates(NamedTuple):
    """Whom every point may link to, row by row; the last entry of a row is the point itself."""

    start: Ints  # (n + 1,)
    targets: Slots
    log_weights: Floats  # log f(d), and log α for the point itself


class Seating(NamedTuple):
    """Links, and what follows from them."""

    links: Slots  # (n,): the point's own number for a link to itself, −1 for a point that has no seat yet
    choice: Slots  # (n,): the position of the link in the point's row of candidates
    first: Slots  # (n,): the first of those who link to the point (links to oneself are not listed), or −1
    following: Slots  # (n,): the next of those who link to the same point, or −1
    preceding: Slots  # (n,)
    labels: Slots  # (n,): the slot of the point's table
    sizes: Ints  # (C,)
    free: Ints  # (C,): a stack of empty slots
    n_free: Ints  # (1,)
    marks: Ints  # (n,): when a walk last came by
    clock: Ints  # (1,): the number of the present walk
    members: Slots  # (n,): whom the last walk found


@compiled
def cut(seating: Any, i: int) -> None:
    """Point i links to itself."""
    target, after, before = seating.links[i], seating.following[i], seating.preceding[i]
    if target < 0 or target == i:
        seating.links[i] = i
        return
    if before >= 0:
        seating.following[before] = after
    else:
        seating.first[target] = after
    if after >= 0:
        seating.preceding[after] = before
    seating.links[i] = i


@compiled
def link(seating: Any, i: int, target: int) -> None:
    """Point i, which links to itself, links to `target`."""
    seating.links[i] = target
    if target == i:
        return
    after = seating.first[target]
    seating.following[i], seating.preceding[i] = after, -1
    if after >= 0:
        seating.preceding[after] = i
    seating.first[target] = i


@compiled
def _walk_back(seating: Any, n_found: int, without: int, stop: int, limit: int) -> int:
    """Add everybody behind the first `n_found` members, but for point `without` and those behind it. Returns how many members there are.

    The walk is broken off, and the number is above `limit`, if there are more than that or point `stop` is one of them.
    """
    now = seating.clock[0]
    position = 0
    while position < n_found and n_found <= limit:
        follower = seating.first[seating.members[position]]
        while follower >= 0:
            if follower == stop:
                return limit + 1
            if follower != without and seating.marks[follower] != now:
                seating.marks[follower] = now
                seating.members[n_found] = follower
                n_found += 1
            follower = seating.following[follower]
        position += 1
    return n_found


@compiled
def find_behind(seating: Any, i: int, stop: int, limit: int) -> int:
    """Members: everybody behind point i, i first: the whole table if i is on its cycle. Returns how many; a number above `limit` if there are more, or `stop` is one."""
    seating.clock[0] += 1
    seating.marks[i] = seating.clock[0]
    seating.members[0] = i
    return _walk_back(seating, 1, -1, stop, limit)


@compiled
def find_table(seating: Any, start: int, without: int) -> int:
    """Members: the component of `start` when point `without` links to itself; returns how many, or 0 if `without` is one of them (the links from `start` lead to it).

    All points of a component lead to its cycle, so the component is everybody behind the points on the way from `start` to the cycle's end.
    """
    seating.clock[0] += 1
    now = seating.clock[0]
    n_found, point = 0, start
    while seating.marks[point] != now:
        if point == without:
            return 0
        seating.marks[point] = now
        seating.members[n_found] = point
        n_found += 1
        point = seating.links[point]
    return _walk_back(seating, n_found, without, -1, len(seating.links))


@compiled
def _components(seating: Any) -> int:
    """Labels 0, 1, … of the components of all points that have a seat; returns how many there are."""
    n_tables = 0
    for i in range(len(seating.links)):
        if seating.labels[i] < 0 and seating.links[i] >= 0:
            for position in range(find_table(seating, i, -1)):
                seating.labels[seating.members[position]] = n_tables
            n_tables += 1
    return n_tables


@compiled
def _list_followers(seating: Any) -> None:
    for i in range(len(seating.links)):
        target = seating.links[i]
        if target >= 0:
            seating.links[i] = i
            link(seating, i, target)


@compiled
def _links_within(start: Ints, targets: Slots, log_weights: Floats, behind_start: Ints, behind: Slots, labels: Ints, links: Slots, queue: Slots) -> None:
    """Breadth first along candidates with the same label, against the direction of links; who reaches nobody seated starts anew."""
    for root in range(len(labels)):
        if links[root] >= 0 or labels[root] < 0:
            continue
        links[root] = root
        for c in range(start[root], start[root + 1]):
            j = targets[c]
            if j != root and links[j] >= 0 and labels[j] == labels[root] and log_weights[c] > -np.inf:
                links[root] = j
                break
        queue[0] = root
        done, n_queued = 0, 1
        while done < n_queued:
            j = queue[done]
            done += 1
            for position in range(behind_start[j], behind_start[j + 1]):
                i = behind[position]
                if links[i] < 0 and labels[i] == labels[j]:
                    links[i] = j
                    queue[n_queued] = i
                    n_queued += 1


@compiled
def _log_sums(start: Ints, log_weights: Floats) -> Floats:
    """log Σ exp(log_weights) of every row; −∞ for a row without entries."""
    sums = np.empty(len(start) - 1)
    for i in range(len(sums)):
        highest, total = -np.inf, 0.0
        for c in range(start[i], start[i + 1]):
            highest = max(highest, log_weights[c])
        if highest > -np.inf:
            for c in range(start[i], start[i + 1]):
                total += np.exp(log_weights[c] - highest)
        sums[i] = highest + np.log(total) if total > 0.0 else -np.inf
    return sums


@kernel
def score_tables(s: Any, sizes: Ints, log_marginals: Floats) -> None:
    """log p(x_k) of every table."""
    for k in range(len(sizes)):
        log_marginals[k] = log_marginal(s, k) if sizes[k] > 0 else 0.0


class LinksState(ClusterState):
    """Links between points, their tables and the tables' statistics. `links` holds whom each point links to (itself is allowed), −1 for no seat yet."""

    def __init__(self, model: Model, links: Any, compiled: bool = True) -> None:
        super().__init__(model, compiled)
        self.distances = _possible(self.prior, fixed=not model.prior.decay.hyperpriors())  # type: ignore[attr-defined]
        self.candidates = self._candidates()
        self.n_most_candidates = int(np.diff(self.candidates.start).max())
        self._seat(np.asarray(links, dtype=np.int32))
        self.log_joint = self.compute_log_joint()

    @classmethod
    def of_labels(cls, model: Model, labels: Any, compiled: bool = True) -> LinksState:
        """A state whose tables are the clusters of these labels as far as candidates allow: a cluster that no links hold together becomes several tables."""
        state = cls(model, np.full(model.n, -1), compiled)
        state._seat(state.links_within(canonical(labels)))
        state.log_joint = state.compute_log_joint()
        return state

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
        self.log_sums: Floats = _log_sums(self.distances.start, log_weights)

    def links_within(self, labels: Ints) -> Slots:
        """Links between points of the same label only, with as few tables as a walk through the candidates finds."""
        n = self.model.n
        usable = self.candidates.log_weights[self._others] > -np.inf
        rows, targets = self.distances.rows()[usable], self.distances.targets[usable]
        behind = sparse.csr_array((np.ones(len(rows), dtype=np.int8), (targets, rows)), shape=(n, n))
        links = np.full(n, -1, dtype=np.int32)
        _links_within(*self.candidates, behind.indptr.astype(np.int64), behind.indices.astype(np.int32), labels, links, np.empty(n, dtype=np.int32))
        return links

    def _seat(self, links: Slots) -> None:
        """Everything from the links."""
        n = self.model.n
        first, following, preceding, labels = (np.full(n, -1, dtype=np.int32) for _ in range(4))
        sizes, free, n_free = (np.zeros(0, dtype=np.int64) for _ in range(3))
        marks, clock, members = np.zeros(n, dtype=np.int64), np.zeros(1, dtype=np.int64), np.empty(n, dtype=np.int32)
        choice = self._choices(links)
        self.seating = Seating(links.copy(), choice, first, following, preceding, labels, sizes, free, n_free, marks, clock, members)
        _list_followers(self.seating)
        self._allocate(int(_components(self.seating)))

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
        self.capacity = padded(n_tables + n_tables // 2 + 8 + SCRATCH)
        self.statistics = self.family.allocate(self.model.encoded, self.capacity)
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

    def tidy(self) -> None:
        """Between sweeps: fewer slots where most are empty, and a rebuild after many changes."""
        if self.capacity > 4 * (self.n_clusters + 8 + SCRATCH):
            self.seating.labels[:] = self.canonical_labels()
            self._allocate(self.n_clusters)
        elif self.changes > _REBUILD_AFTER * self.model.n:
            self.rebuild()

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
            log_sums = _log_sums(start, log_weights)
        seated, alone = self.links >= 0, self.links == np.arange(self.model.n)
        linked = np.flatnonzero(seated & ~alone)
        log_concentration = float(np.log(values.get("concentration", self.prior.concentration)))
        chosen = float(log_weights[start[linked] + self.seating.choice[linked]].sum()) + log_concentration * int(alone.sum())
        return chosen - float(np.logaddexp(log_sums, log_concentration)[seated].sum())

    # -- changes ----------------------------------------------------------------------------------------------------------------------------

    def set_prior(self, values: dict[str, float]) -> None:
        """New hyper-parameters of the prior."""
        before = self.log_prior_of_partition() + self.log_hyperprior()
        self.prior = self.prior.at(values)
        if any("." in name for name in values):
            self._weigh(self.candidates)
        else:
            self.candidates.log_weights[self.candidates.start[1:] - 1] = np.log(self.prior.concentration)
        self.log_joint += self.log_prior_of_partition() + self.log_hyperprior() - before

    def set_family(self, values: dict[str, float]) -> None:
        """New hyper-parameters of the family."""
        super().set_family(values)
        self._score()

    def audit(self, tolerance: float = 1e-8) -> None:
        """Raise `AssertionError` unless tables, lists, sizes, statistics and log joint agree with a fresh build from the links."""
        n, links = self.model.n, self.links
        graph = sparse.csr_array((np.ones(n), (np.arange(n), links)), shape=(n, n))
        components = connected_components(graph, directed=False)[1]
        assert np.array_equal(canonical(components), self.canonical_labels()), "the tables are not the components of the links"
        assert np.array_equal(self.candidates.targets[self.candidates.start[:-1] + self.seating.choice], links), "a link is not the candidate it is said to be"
        assert np.array_equal(np.bincount(self.labels, minlength=self.capacity), self.sizes), "table sizes differ from the labels"
        empty = self.seating.free[: int(self.seating.n_free[0])]
        assert not self.sizes[empty].any(), "a free slot is occupied"
        assert self.n_clusters == np.count_nonzero(self.sizes), "the number of tables differs from the labels"
        for i in np.linspace(0, n - 1, min(n, 50)).astype(np.int64):
            followers = np.flatnonzero((links == i) & (np.arange(n) != i))
            assert sorted(_listed(self.seating, int(i))) == followers.tolist(), f"the list of those who link to point {i} is wrong"
        fresh = LinksState(self.model, links, self.compiled)
        fresh.prior, fresh.family = self.prior, self.family
        fresh.candidates = fresh._candidates()
        fresh._seat(links)
        if self.collapsed:
            mine, theirs = (state._summary() for state in (self, fresh))
            np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance, err_msg="statistics differ from a rebuild")
            drift = abs(self.log_joint - fresh.compute_log_joint())
            assert drift <= tolerance * max(1.0, abs(self.log_joint)), f"the log joint has drifted by {drift:.3g}"

    def _summary(self) -> Floats:
        """For each table, in canonical order: its log marginal as kept, as its statistics give it, and the log predictives of some points."""
        slots = self.labels[np.unique(self.canonical_labels(), return_index=True)[1]]
        some = np.linspace(0, self.model.n - 1, min(self.model.n, 20)).astype(np.int64)
        summary = self.run(slot_summary, self.capacity, some, np.zeros((self.capacity, 1 + len(some))), np.zeros(self.capacity))
        return np.column_stack([self.log_marginals[slots], summary[slots]])


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
