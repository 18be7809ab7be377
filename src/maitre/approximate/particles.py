"""Sequential Monte Carlo for Dirichlet-process mixtures: particles seat the points one after the other. Inexact for any finite number of particles.

For the next point of a random order, a particle with clusters of sizes n_k draws a seat with probability ∝ n_k p(x | x_k), or α p(x) for a new cluster, and its weight is
multiplied by g = [Σ_k n_k p(x | x_k) + α p(x)] / (points so far + α). When the effective number of particles 1/Σ W² falls below a share of them, they are resampled
(systematically). The estimate of the evidence, ∏ Σ W g, is unbiased, so its logarithm is too low on average. The labels are those of few ancestors: most points' seats were
decided before later points were seen.

Particles share clusters. A cluster that one of its holders adds a point to is copied, once for all holders that do the same, and forgotten when nobody holds it; seats that
no present particle descends from are forgotten too. Memory is therefore about that of the different clusters and of one label per point, not of all particles' copies.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.slots import copy_slots
from maitre.families.statistics import add, clear, derive, log_predictive_all, merge, refresh
from maitre.model import Model
from maitre.moves.gibbs import NOT_A_NUMBER
from maitre.numerics.arrays import Floats, Ints, Slots, padded
from maitre.numerics.compilation import Kernel, compiled, kernel
from maitre.numerics.draw import draw_log, shuffle
from maitre.numerics.elementary import fast_exp, fast_log
from maitre.numerics.rng import RngState, uniform
from maitre.states.clusters import derive_some

_BLOCK = 1000  # points between two looks at Ctrl-C
_ON, _RESAMPLE, _ROOM, _BAD = range(4)


@compiled
def _log_sum(logs: Floats, n: int) -> float:
    highest, total = logs[0], 0.0
    for k in range(1, n):
        highest = max(highest, logs[k])
    for k in range(n):
        total += fast_exp(logs[k] - highest)
    return highest + np.log(total)


@kernel
def seat_points(
    s: Any,
    order: Ints,
    start: int,
    clusters: Slots,
    n_clusters: Ints,
    log_weights: Floats,
    sizes: Floats,
    holders: Ints,
    free: Ints,
    counts: Ints,
    moved: Ints,
    moved_at: Ints,
    scores: Floats,
    gathered: Floats,
    scratch: Floats,
    least_effective: float,
    choices: Slots,
    rng: Any,
) -> tuple[int, int, float]:
    """Seat the points `order[start:]` in all particles, until the particles are to be resampled, room runs out, or `choices` is full.

    `clusters[p, j]` is the slot of cluster j of particle p, and `choices[t − start, p]` which cluster it chose; slot 0 is the empty cluster, of "size" α. `counts` holds how many
    slots are free, and how many there are up to the last one in use. `moved[k]` is the slot that holds the points of slot k and point t, if `moved_at[k]` is t.
    Returns the point to go on with, why it stopped, and the log of the evidence's factors. One function, because each part needs the statistics.
    """
    n_particles, most_clusters = clusters.shape
    log_evidence, end = 0.0, min(len(order), start + len(choices))
    for t in range(start, end):
        if counts[0] < n_particles or n_clusters.max() >= most_clusters - 1:
            return t, _ROOM, log_evidence
        i, n_slots = order[t], counts[1]
        for k in range(n_slots):
            scores[k] = fast_log(sizes[k])
        log_predictive_all(s, i, n_slots, scores)
        for p in range(n_particles):
            own = n_clusters[p]
            for j in range(own):
                gathered[j] = scores[clusters[p, j]]
            gathered[own] = scores[0]
            chosen = draw_log(gathered, own + 1, scratch, rng)
            if chosen < 0:
                return t, _BAD, log_evidence
            choices[t - start, p] = chosen
            log_weights[p] += _log_sum(gathered, own + 1) - math.log(t + sizes[0])
        factor, squares = _log_sum(log_weights, n_particles), 0.0
        log_evidence += factor
        for p in range(n_particles):
            log_weights[p] -= factor
            squares += math.exp(2.0 * log_weights[p])
            seat = np.int64(choices[t - start, p])
            new = seat == n_clusters[p]
            slot = np.int64(0) if new else np.int64(clusters[p, seat])
            if moved_at[slot] != t and holders[slot] == 1:  # nobody else's: no copy is needed
                add(s, slot, i)
                refresh(s, slot)
                sizes[slot] += 1.0
                continue
            if moved_at[slot] != t:
                counts[0] -= 1
                target = free[counts[0]]
                counts[1] = max(counts[1], target + 1)
                clear(s, target)
                if not new:
                    merge(s, target, slot)
                    derive(s, target)
                add(s, target, i)
                refresh(s, target)
                sizes[target] = 1.0 if new else sizes[slot] + 1.0
                holders[target], moved_at[target] = 0, -1
                moved[slot], moved_at[slot] = target, t
            clusters[p, seat] = moved[slot]
            holders[moved[slot]] += 1
            if new:
                n_clusters[p] += 1
            else:
                holders[slot] -= 1
                if holders[slot] == 0:
                    free[counts[0]] = slot
                    counts[0] += 1
        if squares * least_effective > 1.0:
            return t + 1, _RESAMPLE, log_evidence
    return end, _ON, log_evidence


class Ancestry:
    """Which cluster the present particles, or their ancestors, chose for every point so far.

    Blocks of choices with a column per particle, or per ancestor of one, and for each column that of the block before. Columns without descendants are dropped.
    """

    def __init__(self) -> None:
        self.blocks: list[Slots] = []
        self.parents: list[Ints] = []

    def extend(self, choices: Slots, parents: Ints) -> None:
        """More choices, a column per particle; `parents` are the particles' numbers in the block before."""
        self.blocks.append(choices)
        self.parents.append(parents)
        for b in range(len(self.blocks) - 1, 0, -1):
            used, renumbered = np.unique(self.parents[b], return_inverse=True)
            if len(used) == self.blocks[b - 1].shape[1]:
                break
            self.parents[b] = renumbered
            self.blocks[b - 1], self.parents[b - 1] = np.ascontiguousarray(self.blocks[b - 1][:, used]), self.parents[b - 1][used]

    def choices_of(self, particle: int) -> Slots:
        """The clusters a particle chose, point by point."""
        column, found = particle, []
        for block, parents in zip(reversed(self.blocks), reversed(self.parents), strict=True):
            found.append(block[:, column])
            column = int(parents[column])
        return np.concatenate(found[::-1])


def systematic(log_weights: Floats, n: int, rng: RngState) -> Ints:
    """n numbers of particles, each on average as often as its share of the weights says, and never off by one or more."""
    edges = np.cumsum(np.exp(log_weights - log_weights.max()))
    places = (np.arange(n) + uniform(rng)) / n * edges[-1]
    return np.minimum(np.searchsorted(edges, places, side="right"), len(edges) - 1)


class Particles:
    """Weighted partitions of the points seated so far."""

    def __init__(self, model: Model, n_particles: int, rng: RngState, compiled: bool = True) -> None:
        self.model, self.rng, self.compiled = model, rng, compiled
        self.order = np.arange(model.n)
        shuffle(self.order, rng)
        self.seated, self.log_evidence = 0, 0.0
        self.log_weights = np.full(n_particles, -math.log(n_particles))
        self.clusters: Slots = np.zeros((n_particles, 16), dtype=np.int32)
        self.n_clusters: Ints = np.zeros(n_particles, dtype=np.int64)
        self.ancestry, self._parents = Ancestry(), np.arange(n_particles)
        self.sizes = np.array([float(model.prior.concentration)])  # type: ignore[attr-defined]
        self.statistics = model.family.allocate(model.encoded, 1)
        self._make_room()

    def _run(self, function: Kernel, *arguments: Any) -> Any:
        return (function if self.compiled else function.python)(self.statistics, *arguments)

    def _held(self) -> Slots:
        return self.clusters[np.arange(self.clusters.shape[1]) < self.n_clusters[:, None]]

    def _make_room(self) -> None:
        """Statistics with room for many more clusters, the present ones first; a wider table if some particle has filled its row."""
        slots = np.concatenate([[0], np.unique(self._held())]).astype(np.int64)
        capacity = padded(2 * len(slots) + 2 * len(self.clusters))
        before, self.statistics = self.statistics, self.model.family.allocate(self.model.encoded, capacity)
        copy_slots(before, self.statistics, slots, np.arange(len(slots)))
        self._run(derive_some, np.arange(capacity))
        names = np.zeros(slots[-1] + 1, dtype=np.int32)
        names[slots] = np.arange(len(slots))
        self.clusters = names[np.minimum(self.clusters, slots[-1])]
        if self.n_clusters.max() >= self.clusters.shape[1] - 1:
            self.clusters = np.pad(self.clusters, ((0, 0), (0, self.clusters.shape[1])))
        self.sizes = np.concatenate([self.sizes[slots], np.ones(capacity - len(slots))])
        self._moved, self._moved_at = np.zeros(capacity, dtype=np.int64), np.full(capacity, -1)
        self._scores, self._gathered, self._scratch = np.zeros(capacity), *np.zeros((2, self.clusters.shape[1]))
        self._count_holders()

    def _count_holders(self) -> None:
        """Who holds which slot, and which are free: the lowest are used first."""
        self.holders = np.bincount(self._held(), minlength=len(self.sizes))
        self.holders[0] = len(self.clusters) + 1  # the empty cluster stays
        free = np.flatnonzero(self.holders == 0)[::-1]
        self.free: Ints = np.zeros(len(self.sizes), dtype=np.int64)
        self.free[: len(free)] = free
        self.counts: Ints = np.array([len(free), np.flatnonzero(self.holders)[-1] + 1])

    def advance(self, resample_below: float) -> None:
        """Seat the next points, resampling at most once."""
        choices: Slots = np.empty((min(_BLOCK, self.model.n - self.seated), len(self.clusters)), dtype=np.int32)
        arrays = (self.clusters, self.n_clusters, self.log_weights, self.sizes, self.holders, self.free, self.counts, self._moved, self._moved_at)
        work = (self._scores, self._gathered, self._scratch)
        seated, reason, factor = self._run(seat_points, self.order, self.seated, *arrays, *work, resample_below * len(self.clusters), choices, self.rng)
        if reason == _BAD:
            raise ValueError(NOT_A_NUMBER.format(point=self.order[seated]))
        self.ancestry.extend(choices[: seated - self.seated].copy(), self._parents)
        self.seated, self.log_evidence = seated, self.log_evidence + factor
        self._parents = np.arange(len(self.clusters))
        if reason == _RESAMPLE:
            self._resample()
        elif reason == _ROOM:
            self._make_room()

    def _resample(self) -> None:
        self._parents = systematic(self.log_weights, len(self.clusters), self.rng)
        self.clusters, self.n_clusters = self.clusters[self._parents], self.n_clusters[self._parents]
        self.log_weights[:] = -math.log(len(self.clusters))
        self._count_holders()

    def labels_of(self, particle: int) -> Ints:
        """The partition of a particle, once all points are seated."""
        labels = np.empty(self.model.n, dtype=np.int64)
        labels[self.order] = self.ancestry.choices_of(int(self._parents[particle]))
        return labels
