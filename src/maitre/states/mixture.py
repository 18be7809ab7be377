"""The state of a mixture: which point sits in which cluster, and the clusters' statistics, hyper-parameters and log joint.

Clusters live in *slots*; a slot's number means nothing. Labels leave the state in canonical form, numbered in order of first appearance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from maitre.families.slots import copy_slots
from maitre.families.statistics import supports
from maitre.model import Model
from maitre.numerics.arrays import Floats, Ints, Slots, padded
from maitre.numerics.compilation import compiled, compiled_form_of
from maitre.partitions.labels import Numbered, canonical_slots, canonical_slots_of, renumber, replace
from maitre.priors.base import GibbsTypePrior
from maitre.priors.dirichlet_process import DirichletProcess
from maitre.states.base import Values, Variable
from maitre.states.clusters import HyperparameterState, derive_some, move_all, seat_all
from maitre.states.regions import POINTS_READ, Piece, Regions, gather_all, granule_size

MANY_POINTS = 50_000  # from which on passes over all points are shared between threads
_FOR_PARALLEL_MOVES = ("log_marginal", "merge", "n_parameters", "draw_parameters", "log_likelihood")
_GRANULES_ON_DISK = 128
_NUMBERS_ENCODED = 1 << 17  # of an array that is not copied, at once: they stay in the cache
_COMMIT_AFTER = 10  # changes of seat per point after which a commit is worth its cost: sums have drifted
_SPARE_SLOTS = 2


def first_empty(sizes: Ints, start: int) -> int:
    """The first slot at or after `start` that holds no point; −1 if there is none."""
    for k in range(start, len(sizes)):
        if sizes[k] == 0:
            return k
    return -1


compiled_form_of(first_empty)(compiled(first_empty))


def _room_for(n_clusters: int) -> int:
    """How many slots a committed state has: a function of its number of clusters alone."""
    return padded(max(n_clusters + n_clusters // 8 + _SPARE_SLOTS, 16))


class MixtureState(HyperparameterState):
    """A partition of the points with the statistics of its clusters."""

    PRIOR = GibbsTypePrior
    STARTS: ClassVar[tuple[str, ...]] = ("sequential", "tight", "random")
    SEATED_BY: ClassVar[str | None] = "gibbs"

    def __init__(self, model: Model, labels: Any, compiled: bool = True, values: Values | None = None) -> None:
        super().__init__(model, compiled, values)
        self.labels: Slots = canonical_slots_of(labels)
        self._log_w_probe: Floats = np.zeros(0)
        self._regions: Regions | None = None
        self._build(_room_for(int(self.labels.max(initial=-1)) + 1))
        self.log_joint = self.compute_log_joint()

    # -- variables ------------------------------------------------------------------------------------------------------------------------

    @classmethod
    def declare(cls, model: Model) -> tuple[Variable, ...]:
        """Labels and hyper-parameters."""
        return (Variable("labels", "point", dtype="int32"), *super().declare(model))

    @classmethod
    def of_variables(cls, model: Model, values: Values, compiled: bool = True) -> Self:
        """The state with these labels and hyper-parameters."""
        return cls(model, values["labels"], compiled, values)

    @classmethod
    def of_labels(cls, model: Model, labels: Any) -> Self:
        """The state with these labels, hyper-parameters at their priors' means."""
        return cls(model, labels)

    @classmethod
    def auto_moves(cls, model: Model) -> str:
        """The family's own choice; for many points under a Dirichlet process, if the family can, moves that redraw all points at once."""
        if not model.in_memory:
            return "parallel"
        many = model.n >= model.family.many_points(model.encoded)
        parallel = many and isinstance(model.prior, DirichletProcess) and supports(model.family.statistics, *_FOR_PARALLEL_MOVES)
        return "parallel" if parallel else model.family.MOVES

    def variables(self) -> dict[str, Any]:
        """Labels, in as few bytes as they need, and hyper-parameters."""
        dtype = np.min_scalar_type(self.n_clusters) if self.labels.min(initial=0) >= 0 else np.dtype(np.int32)
        return {"labels": Numbered(self.labels, self.capacity, dtype), **super().variables()}

    def commit(self) -> None:
        """Slots in canonical order, as many as the number of clusters asks for; statistics and log joint from scratch."""
        renumber(self.labels, self.capacity)
        self._build(_room_for(self.n_clusters))
        self.log_joint = self.compute_log_joint()

    @property
    def untidy(self) -> bool:
        """Gaps between slots that cost more than closing them, or many changes."""
        n_clusters, n_slots = int(self.occupancy[0]), int(self.occupancy[1])
        return n_slots - n_clusters > 5 + n_clusters // 8 or self.changes > _COMMIT_AFTER * self.model.n

    def derived(self) -> dict[str, Any]:
        """Sizes, prior weights, statistics and log joint."""
        slots = self.labels[np.unique(self.canonical_labels(), return_index=True)[1]]
        free = int(self.occupancy[2])
        empty = {"size of the free slot": 0 if free < 0 else self.sizes[free], "sum of the sizes": self.sizes.sum()}
        return empty | super().derived() | {"prior weights": self.log_join[slots[slots >= 0]]}

    # -- arrays ---------------------------------------------------------------------------------------------------------------------------

    def _build(self, capacity: int) -> None:
        """So many slots, filled from the labels."""
        self.allocate(capacity)
        self.weights: Floats = np.zeros(self.capacity)
        self.scratch: Floats = np.zeros(self.capacity)
        self.scores: Floats = np.zeros((4, self.capacity))
        self._tabulate()
        self.rebuild()

    def _tabulate(self) -> None:
        """The prior's tables for the present hyper-parameters; W, a table over all sizes, is forgotten only if it has changed."""
        self.log_v: Floats = self.prior.v_table(self.model.n, self.capacity + 1)
        probe = self.prior.log_w(np.array([1, 2, self.model.n + 1]))
        if not np.array_equal(probe, self._log_w_probe):
            vars(self).pop("log_w", None)
            self._log_w_probe = probe

    @cached_property
    def log_w(self) -> Floats:
        """log W(m) for every size that a cluster may have, made when a move asks for it."""
        return self.prior.w_table(self.model.n + 1)

    def rebuild(self) -> None:
        """Sizes and statistics from the labels alone: rounding errors of many updates go away."""
        if self.model.in_memory and self.model.n < MANY_POINTS:
            self._count(np.bincount(self.labels[self.labels >= 0], minlength=self.capacity))
            self.run(seat_all, self.labels, self.capacity)
        else:
            self._rebuild_by_regions()
        self.changes = 0

    def _rebuild_by_regions(self) -> None:
        regions = self.regions()
        counts = np.zeros((regions.n_regions, self.capacity), dtype=np.int64)
        run = gather_all if self.compiled else gather_all.python
        regions.clear(self)
        self.over_points(lambda piece: run(regions.writer(piece), self.labels, *piece[2:], self.capacity, counts))
        regions.hand_over(self, counts.sum(axis=0))

    def over_points(self, task: Callable[[Piece], Any], wanted: Callable[[int, int], bool] = lambda begin, end: True, few: bool = False) -> None:
        """Call task(piece) on the engine until all points have been gone through: those in memory range by range, as kernels ask for them; others a block after the other,
        of those that are wanted, and the blocks of a region in order. `few`: only few points in each range have something to do, and nothing is gathered."""
        regions, model = self.regions(), self.model
        if model.in_memory:
            regions.at_once(self.engine, lambda ranges, queue: task(Piece(regions.reader(self.statistics), None, ranges, 0, queue)), few)
            return
        together = POINTS_READ if model.on_disk else max(1, _NUMBERS_ENCODED // model.valid.shape[1])
        step = self.granule * max(1, together // self.granule)

        def go_through(where: Ints) -> None:
            begin, end, region = (int(number) for number in where)
            for first in range(begin, end, step):
                last = min(end, first + step)
                if wanted(first, last):
                    points = model.points_between(first, last)
                    task(Piece(regions.reader(self.statistics, points), points, np.array([[first, last, region]]), first, np.zeros(1, dtype=np.int64)))

        self.engine.map(go_through, regions.ranges)

    def adopt(self, sizes: Ints, slots: Sequence[int] | None = None) -> None:
        """After labels and the raw statistics of these slots, by default all, have been replaced: all that follows from them."""
        self._count(sizes)
        self.run(derive_some, np.arange(self.capacity) if slots is None else np.array(slots))
        self.changes = 0 if slots is None else self.changes
        self.log_joint = self.compute_log_joint()

    def join(self, slot: int, other: int) -> None:
        """Two clusters become one, in the first of these slots."""
        replace(self.labels, other, slot)
        sizes = self.sizes.copy()
        sizes[slot], sizes[other] = sizes[slot] + sizes[other], 0
        self.run(move_all, slot, other)
        self.adopt(sizes, (slot, other))

    def _count(self, sizes: Ints) -> None:
        self.sizes: Ints = sizes
        free = first_empty(sizes, 0)
        top = int(np.flatnonzero(sizes)[-1]) if sizes.any() else -1
        self.occupancy: Ints = np.array([np.count_nonzero(sizes), max(top, free) + 1, free])
        self._update_log_join()

    def _update_log_join(self) -> None:
        occupied = self.sizes > 0
        self.log_join: Floats = np.full(self.capacity, -np.inf)
        self.log_join[occupied] = self.prior.log_w(self.sizes[occupied] + 1) - self.prior.log_w(self.sizes[occupied])

    @property
    def granule(self) -> int:
        """Points that share a coin and a stream of random numbers in passes over all points; of very many on disk, those that are read together."""
        return POINTS_READ if self.model.on_disk and self.model.n >= _GRANULES_ON_DISK * POINTS_READ else granule_size(self.model.n)

    def regions(self) -> Regions:
        """Room for passes over all points that are shared between threads; kept from one pass to the next."""
        if self._regions is None or not self._regions.fits(self):
            self._regions = Regions(self, self.granule)
        return self._regions

    def reserve(self, n_slots: int) -> None:
        """So many slots beyond `capacity`, for sets of points that are none of the clusters."""
        if self.spare < n_slots:
            before, clusters = self.statistics, np.arange(self.capacity)
            self.spare, self._slots = n_slots, None
            self.allocate(self.capacity)
            copy_slots(before, self.statistics, clusters)
            self.run(derive_some, clusters)

    def make_room(self, at_least: int = 0) -> None:
        """Double the number of slots, or have so many."""
        self._build(padded(max(2 * self.capacity, at_least)))

    # -- what the state says ----------------------------------------------------------------------------------------------------------------

    @property
    def n_clusters(self) -> int:
        """K."""
        return int(self.occupancy[0])

    def canonical_labels(self) -> Ints:
        """The partition, clusters numbered in order of first appearance."""
        return canonical_slots(self.labels, self.capacity)

    def log_v_at(self, counts: Ints) -> Floats:
        """log V(n, K) for any numbers of clusters, from the table where it reaches."""
        return self.log_v[counts] if counts.max() < len(self.log_v) else self.prior.v_table(self.model.n, int(counts.max()))[counts]

    def log_prior_of_partition(self) -> float:
        """log p(C)."""
        occupied = self.sizes[self.sizes > 0]
        return float(self.log_v[self.n_clusters] + self.prior.log_w(occupied).sum())

    def log_prior_at(self, values: dict[str, float]) -> float:
        """log p(C) with other hyper-parameters of the prior."""
        return float(self.prior.at(values).log_probability(self.sizes[self.sizes > 0]))

    def log_weights_of_a_new_point(self) -> Floats:
        """For a point beyond the n, the log prior weight of each cluster in canonical order (the state is committed) and, last, of a new one; they are normalised."""
        n, n_clusters = self.model.n, self.n_clusters
        log_v = self.prior.log_v(n + 1, np.array([n_clusters, n_clusters + 1])) - self.prior.log_v(n, np.array([n_clusters]))
        return np.append(self.log_join[:n_clusters] + log_v[0], self.prior.log_w(np.array([1])) + log_v[1])

    # -- changes ----------------------------------------------------------------------------------------------------------------------------

    def seat(self, labels: Any) -> None:
        """Another partition altogether: one label of at least 0 per point."""
        self.labels = np.array(labels, dtype=np.int32)
        needed = int(self.labels.max(initial=-1)) + 1 + _SPARE_SLOTS
        if needed > self.capacity:
            self._build(padded(needed + needed // 8))
        else:
            self.rebuild()
        self.log_joint = self.compute_log_joint()

    def set_prior(self, values: dict[str, float]) -> None:
        """New hyper-parameters of the prior."""
        before = self.log_prior_of_partition() + self.log_density_of_prior()
        self._replace_prior(values)
        self.log_joint += self.log_prior_of_partition() + self.log_density_of_prior() - before

    def _replace_prior(self, values: dict[str, float]) -> None:
        self.prior = self.prior.at(values)
        self._tabulate()
        self._update_log_join()
