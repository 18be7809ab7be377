"""Level-by-level beam search: the best partial clusterings of the first r points advance together to r + 1 points.

Best-first search compares entries of different depths, and the points to come are worth more to it unseated than seated or the other way round, so that in practice it is
greedy. Here entries compete only with entries of the same depth, for which the points to come count the same: they are ranked by V(n, K) ∏ W(n_k) p(x_k) over
the points seated. (The largest prior of a completion, which sends all others to the largest cluster, ranks worse: measured on digits.)

Entries share clusters. A *version* of a cluster (a set of points) takes one slot of statistics however many entries hold it, a point is scored under all versions at once,
and entries that put the same point into the same version get the same new version. A beam of B entries with K clusters each then costs little more than K + B
predictives per point, not K·B. A version that no entry needs any more is changed in place or its slot is given back.

With `groups` > 1 the beam is diverse: entries compete only with those whose number of clusters leaves the same remainder, so that as many numbers of clusters stay
in play.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from maitre.families.statistics import add, clear, derive, log_predictive_all, merge, refresh
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled, kernel
from maitre.numerics.elementary import is_finite
from maitre.optimize.tree import (
    CHOICE,
    DEPTH,
    DROPPED,
    LOG_LIKELIHOOD,
    N_FREE,
    PARENT,
    POPPED,
    PUSHED,
    SCORE,
    Tree,
    grown,
    new_node,
    new_tree,
    path_labels,
    release,
)
from maitre.states.mixture import MixtureState

_GOING, _MORE_SLOTS, _MORE_CLUSTERS, _MORE_NODES, _STUCK = range(5)
NODE, N_CLUSTERS = range(2)  # columns of an entry


@compiled
def _offer(scores: Floats, ids: Ints, base: int, count: int, quota: int, score: float, candidate: int) -> int:
    """Keep the `quota` best candidates in a heap with the worst on top; returns how many there are. Of equals the first to come stays."""
    if count == quota:
        if score <= scores[base]:
            return count
        at = 0
        while 2 * at + 1 < count:
            child = 2 * at + 1
            if child + 1 < count and scores[base + child + 1] < scores[base + child]:
                child += 1
            if scores[base + child] >= score:
                break
            scores[base + at], ids[base + at] = scores[base + child], ids[base + child]
            at = child
    else:
        at = count
        count += 1
        while at > 0 and scores[base + (at - 1) // 2] > score:
            above = (at - 1) // 2
            scores[base + at], ids[base + at] = scores[base + above], ids[base + above]
            at = above
    scores[base + at], ids[base + at] = score, candidate
    return count


@kernel
def seat_entries(s: Any, links: Slots, entries: Ints, lists: Slots, side: int, n_entries: int, order: Ints, owner: Slots) -> None:
    """The statistics of every version from the entries that hold it; `owner` is filled with −1."""
    for e in range(n_entries):
        for k in range(entries[side, e, N_CLUSTERS]):
            if owner[lists[side, e, k]] < 0:
                owner[lists[side, e, k]] = e
        node = entries[side, e, NODE]
        while links[node, PARENT] >= 0:
            slot = lists[side, e, links[node, CHOICE]]
            if owner[slot] == e:
                add(s, slot, order[links[node, DEPTH] - 1])
            node = links[node, PARENT]
    for slot in range(len(owner)):
        if owner[slot] >= 0:
            derive(s, slot)


@kernel
def advance(
    s: Any,
    links: Slots,
    keys: Floats,
    counts: Ints,
    order: Ints,
    start: int,
    stop: int,
    groups: int,
    quota: int,
    entries: Ints,
    lists: Slots,
    position: Ints,
    sizes: Ints,
    uses: Slots,
    version: Slots,
    free: Slots,
    log_v: Floats,
    log_w: Floats,
    log_marginal: Floats,
    weights: Floats,
    scores: Floats,
    ids: Ints,
    held: Ints,
) -> tuple[int, int]:
    """Seat the points order[start:stop] in all entries; returns how many points are seated and why it stopped.

    `position` holds the side of the double buffers in use, the number of entries, of free slots and of slots ever used. One function rather than several: everything
    that touches statistics is compiled here.
    """
    width = lists.shape[2]
    for r in range(start, stop):
        i = order[r]
        side, n_entries = position[0], position[1]
        other = 1 - side
        if position[2] < groups * quota + 1:
            return r, _MORE_SLOTS
        if counts[N_FREE] < groups * quota + 1:
            return r, _MORE_NODES
        for k in range(position[3]):
            weights[k] = 0.0
        log_predictive_all(s, i, position[3], weights)
        for k in range(position[3]):
            weights[k] += log_w[sizes[k] + 1] - log_w[sizes[k]]
        # candidates
        for g in range(groups):
            held[g] = 0
        pushed = 0
        for e in range(n_entries):
            n_clusters = entries[side, e, N_CLUSTERS]
            if n_clusters == width:
                return r, _MORE_CLUSTERS
            so_far = keys[entries[side, e, NODE], LOG_LIKELIHOOD]  # with Σ log W
            pushed += n_clusters + (1 if log_v[n_clusters + 1] > -np.inf else 0)
            for k in range(n_clusters + 1):
                opens = k == n_clusters
                group = (n_clusters + 1) % groups if opens else n_clusters % groups
                score = so_far + (log_v[n_clusters + 1] + log_marginal[i] + log_w[1] if opens else log_v[n_clusters] + weights[lists[side, e, k]])
                if (held[group] < quota or score > scores[group * quota]) and is_finite(score):
                    held[group] = _offer(scores, ids, group * quota, held[group], quota, score, e * (width + 1) + k)
        # which versions the next entries hold unchanged
        for k in range(position[3]):
            uses[k] = 0
            version[k] = -1
        n_next = 0
        for g in range(groups):
            for t in range(held[g]):
                e, c = ids[g * quota + t] // (width + 1), ids[g * quota + t] % (width + 1)
                for k in range(entries[side, e, N_CLUSTERS]):
                    if k != c:
                        uses[lists[side, e, k]] += 1
                n_next += 1
        if n_next == 0:
            return r, _STUCK
        counts[POPPED] += n_entries
        counts[PUSHED] += pushed
        counts[DROPPED] += pushed - n_next
        # the next entries
        alone, n_next = -1, 0
        for g in range(groups):
            for t in range(held[g]):
                e, c = ids[g * quota + t] // (width + 1), ids[g * quota + t] % (width + 1)
                n_clusters = entries[side, e, N_CLUSTERS]
                parent = entries[side, e, NODE]
                for k in range(n_clusters):
                    lists[other, n_next, k] = lists[side, e, k]
                gain = log_marginal[i] + log_w[1]
                if c == n_clusters:
                    if alone < 0:
                        position[2] -= 1
                        alone = free[position[2]]
                        add(s, alone, i)
                        refresh(s, alone)
                        sizes[alone] = 1
                        uses[alone] = 0
                        position[3] = max(position[3], alone + 1)
                    target = alone
                else:
                    slot = lists[side, e, c]
                    gain = weights[slot]
                    if version[slot] < 0:
                        target = slot
                        if uses[slot] > 0:
                            position[2] -= 1
                            target = free[position[2]]
                            merge(s, target, slot)
                            derive(s, target)
                            sizes[target] = sizes[slot]
                            uses[target] = 0
                            position[3] = max(position[3], target + 1)
                        version[slot] = target
                        add(s, target, i)
                        refresh(s, target)
                        sizes[target] += 1
                    target = version[slot]
                lists[other, n_next, c] = target
                uses[target] += 1
                node = new_node(links, keys, counts, parent, c, keys[parent, LOG_LIKELIHOOD] + gain, scores[g * quota + t])
                entries[other, n_next, NODE] = node
                entries[other, n_next, N_CLUSTERS] = max(n_clusters, c + 1)
                n_next += 1
        for e in range(n_entries):
            release(links, counts, entries[side, e, NODE])
        for k in range(position[3] - 1, -1, -1):
            if uses[k] == 0 and sizes[k] > 0:
                sizes[k] = 0
                clear(s, k)
                refresh(s, k)
                free[position[2]] = k
                position[2] += 1
        position[0], position[1] = other, n_next
    return stop, _GOING


def n_partitions(n: int, most: int) -> int:
    """The Bell number of n, the number of partitions of n points, or `most` if that is less: no more entries than these are ever kept.

    >>> [n_partitions(n, 1000) for n in (1, 2, 3, 4, 5, 10)]
    [1, 2, 5, 15, 52, 1000]
    """
    row = [1]
    for _ in range(n - 1):
        row = list(accumulate(row, initial=row[-1]))  # the next row of the Bell triangle
        if row[-1] >= most:
            break
    return min(row[-1], most)


class Level:
    """A search under way. `advance` does some of the work; `labels` is the best partial clustering at any time, −1 for points without a seat."""

    def __init__(self, state: MixtureState, order: Ints, log_marginal: Floats, beam: int, groups: int = 1) -> None:
        self.state, self.order, self.log_marginal = state, order, log_marginal
        self.depth, self.n = 0, state.model.n
        self.groups, self.quota = min(groups, self.n), n_partitions(self.n, -(-beam // groups))
        self.position: Ints = np.array([0, 1, 0, 0])
        self.sizes: Ints = np.zeros(0, np.int64)
        try:
            self._allocate(self.groups * self.quota)
        except MemoryError:
            raise ValueError(f"the beam is {beam}, and its entries take more memory than there is: give a smaller number") from None
        self._make_slots()

    def _allocate(self, n_entries: int) -> None:
        self.tree: Tree = new_tree(4 * n_entries + 64)
        self.entries: Ints = np.zeros((2, n_entries, 2), np.int64)
        self.lists: Slots = np.zeros((2, n_entries, 16), np.int32)
        self.kept = (np.zeros(n_entries), np.zeros(n_entries, np.int64), np.zeros(self.groups, np.int64))
        while self.state.capacity < 2 * n_entries + 16:
            self.state.make_room()

    def _make_slots(self) -> None:
        """Arrays over slots, and the versions there are in their old slots."""
        capacity = self.state.capacity
        self.sizes = np.concatenate([self.sizes, np.zeros(capacity - len(self.sizes), np.int64)])
        self.slot_arrays = (np.zeros(capacity, np.int32), np.zeros(capacity, np.int32))
        self.free: Slots = np.zeros(capacity, np.int32)
        unused = np.flatnonzero(self.sizes == 0)[::-1]
        self.free[: len(unused)] = unused
        self.position[2] = len(unused)
        side, n_entries = map(int, self.position[:2])
        self.state.run(seat_entries, self.tree.links, self.entries, self.lists, side, n_entries, self.order, np.full(capacity, -1, np.int32))

    def advance(self, points: int) -> bool:
        """Seat up to so many more points; true when all are seated."""
        stop = min(self.depth + points, self.n)
        state = self.state
        while True:
            scores, ids, held = self.kept
            arrays = (
                self.entries,
                self.lists,
                self.position,
                self.sizes,
                *self.slot_arrays,
                self.free,
                state.log_v,
                state.log_w,
                self.log_marginal,
                state.weights,
            )
            self.depth, status = state.run(advance, *self.tree, self.order, self.depth, stop, self.groups, self.quota, *arrays, scores, ids, held)
            if status == _MORE_SLOTS:
                state.make_room()
                self._make_slots()
            elif status == _MORE_CLUSTERS:
                self.lists = np.concatenate([self.lists, np.zeros_like(self.lists)], axis=2)
            elif status == _MORE_NODES:
                self.tree = grown(self.tree)
            elif status == _STUCK:
                raise ValueError(
                    "no clustering has a probability that is a number: the values or the hyper-parameters are too extreme for double precision; rescale the columns, or choose others"
                )
            else:
                return bool(self.depth == self.n)

    def _best(self) -> int:
        nodes = self.entries[self.position[0], : self.position[1], NODE]
        return int(nodes[np.argmax(self.tree.keys[nodes, SCORE])])

    @property
    def labels(self) -> Ints:
        return path_labels(self.tree, self._best(), self.order)

    @property
    def outlook(self) -> tuple[int, float]:
        """How many entries there are, and the score of the best."""
        return int(self.position[1]), float(self.tree.keys[self._best(), SCORE])

    @property
    def counts(self) -> dict[str, int]:
        """Entries popped, pushed and dropped."""
        counts = self.tree.counts
        return {"popped": int(counts[POPPED]), "pushed": int(counts[PUSHED]), "dropped": int(counts[DROPPED])}
