"""Best-first search over partial clusterings with a beam (Daumé 2007), for every conjugate family and every Gibbs-type prior.

One set of statistics serves all entries of the queue: it stands at one node of the tree and walks, by removing and adding points, to the node that is extended next.
Along a greedy path that is one step per point, so n points with K clusters cost n·K predictives; an entry of the queue costs a few numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.families.statistics import add, clear, log_bound_given, log_predictive_all, refresh, remove
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import kernel
from maitre.numerics.elementary import is_finite
from maitre.optimize.scores import completed_log_prior
from maitre.optimize.tree import (
    BEST,
    CHOICE,
    DEPTH,
    DROPPED,
    HERE,
    LOG_LIKELIHOOD,
    N_FREE,
    N_QUEUED,
    PARENT,
    POPPED,
    PUSHED,
    SCORE,
    USES,
    WORST,
    Tree,
    dequeue,
    enqueue,
    grown,
    new_node,
    new_tree,
    path_labels,
    release,
    replace_worst,
)
from maitre.states.mixture import MixtureState

_GOING, _DONE, _MORE_SLOTS, _MORE_NODES, _STUCK = range(5)


@kernel
def seat_rest(s: Any, rest: int, labels: Slots) -> None:
    """Slot `rest` holds the points that have no seat."""
    clear(s, rest)
    for i in range(len(labels)):
        if labels[i] < 0:
            add(s, rest, i)
    refresh(s, rest)


@kernel
def extend(
    s: Any,
    links: Slots,
    keys: Floats,
    counts: Ints,
    order: Ints,
    pops: int,
    beam: int,
    rest: int,
    every: bool,
    labels: Slots,
    sizes: Ints,
    log_v: Floats,
    log_w: Floats,
    remainder: Floats,
    weights: Floats,
    path: Slots,
) -> int:
    """Take the best entry off the queue and put its children on, up to `pops` times; says why it stopped.

    `rest` ≥ 0 is the slot that holds the points to come, for the tight score. One function rather than several: everything that touches statistics is compiled here.
    """
    n = len(order)
    k: Any = 0
    for _ in range(pops):
        here = counts[HERE]
        if counts[N_QUEUED] == 0:
            return _STUCK
        target: Any = np.int64(links[0, BEST])  # numbers of nodes and slots have 64 bits here, so that what is called is compiled once
        if links[target, DEPTH] == n:
            return _DONE
        if counts[N_FREE] < len(sizes) + 1:
            return _MORE_NODES
        n_clusters = 0
        while n_clusters < len(sizes) and sizes[n_clusters] > 0:
            n_clusters += 1
        if n_clusters + 3 > (rest if rest >= 0 else len(sizes)):
            return _MORE_SLOTS
        # walk: up to the common ancestor, undoing, then down
        steps, node, ahead = 0, here, target
        while node != ahead:
            if links[node, DEPTH] >= links[ahead, DEPTH]:
                i, k = order[links[node, DEPTH] - 1], np.int64(links[node, CHOICE])
                remove(s, k, i)
                sizes[k] -= 1
                if sizes[k] == 0:
                    clear(s, k)
                    n_clusters -= 1
                refresh(s, k)
                labels[i] = -1
                if rest >= 0:
                    add(s, rest, i)
                node = links[node, PARENT]
            else:
                path[steps] = ahead
                steps += 1
                ahead = links[ahead, PARENT]
        for t in range(steps - 1, -1, -1):
            node = np.int64(path[t])
            i, k = order[links[node, DEPTH] - 1], np.int64(links[node, CHOICE])
            if k + 3 > (rest if rest >= 0 else len(sizes)):  # this branch has more clusters than there is room for: stop half-way, nothing is lost
                ahead = links[node, PARENT]
                links[ahead, USES] += 1
                release(links, counts, here)
                counts[HERE] = ahead
                return _MORE_SLOTS
            add(s, k, i)
            refresh(s, k)
            sizes[k] += 1
            if sizes[k] == 1:
                n_clusters += 1
            labels[i] = k
            if rest >= 0:
                remove(s, rest, i)
        if target != here:
            links[target, USES] += 1
            release(links, counts, here)
            counts[HERE] = target
        dequeue(links, keys, counts, target)
        release(links, counts, target)
        counts[POPPED] += 1
        # children
        seated = links[target, DEPTH]
        i, left = order[seated], n - seated - 1
        largest, log_sizes = 0, 0.0
        for k in range(n_clusters):
            largest = max(largest, sizes[k])
            log_sizes += log_w[sizes[k]]
        for k in range(n_clusters + 1):
            weights[k] = 0.0
        log_predictive_all(s, i, n_clusters + 1, weights)
        usual = completed_log_prior(log_v, log_w, n_clusters, largest, left, every) if n_clusters > 0 else 0.0
        for k in range(n_clusters + 1):
            size = sizes[k] + 1
            if k == n_clusters:
                prior = completed_log_prior(log_v, log_w, n_clusters + 1, max(largest, 1), left, every)
            else:
                prior = completed_log_prior(log_v, log_w, n_clusters, size, left, every) if size > largest else usual
            log_likelihood = keys[target, LOG_LIKELIHOOD] + weights[k]
            to_come = remainder[seated + 1]
            if rest >= 0:
                add(s, k, i)
                refresh(s, k)
                remove(s, rest, i)
                to_come = 0.0
                for t in range(seated + 1, n):
                    highest = -np.inf
                    for other in range(n_clusters + 2 if k == n_clusters else n_clusters + 1):
                        highest = max(highest, log_bound_given(s, other, rest, order[t]))
                    to_come += highest
                add(s, rest, i)
                remove(s, k, i)
                if sizes[k] == 0:
                    clear(s, k)
                refresh(s, k)
            score = prior + log_sizes + log_w[size] - log_w[size - 1] + log_likelihood + to_come
            if not is_finite(score):
                continue
            counts[PUSHED] += 1
            if counts[N_QUEUED] < beam:
                enqueue(links, keys, counts, new_node(links, keys, counts, target, k, log_likelihood, score))
            else:
                counts[DROPPED] += 1
                if score > keys[links[0, WORST], SCORE]:
                    replace_worst(links, keys, counts, new_node(links, keys, counts, target, k, log_likelihood, score))
    return _GOING


class BestFirst:
    """A search under way. `advance` does some of the work; `labels` is the best partial clustering at any time, −1 for points without a seat."""

    def __init__(self, state: MixtureState, order: Ints, remainder: Floats, beam: int | None, score: str) -> None:
        self.state, self.order, self.remainder = state, order, remainder
        self.n = state.model.n
        self.beam = np.iinfo(np.int64).max if beam is None else beam
        self.tight, self.admissible = score == "tight", score != "inadmissible"
        self.tree: Tree = new_tree(1024)
        self.path = np.zeros(self.n + 1, np.int32)
        self._prepare()

    def _prepare(self) -> None:
        """Tables and slots that depend on the room there is."""
        state = self.state
        self.rest = state.capacity - 1 if self.tight else -1
        if self.tight:
            state.run(seat_rest, self.rest, state.labels)
        self.log_v = state.prior.v_table(self.n, self.n + 1) if self.admissible else state.log_v

    def advance(self, pops: int) -> bool:
        """Extend up to `pops` entries; true when a complete clustering is the best in the queue."""
        state = self.state
        while True:
            arrays = (state.labels, state.sizes, self.log_v, state.log_w, self.remainder, state.weights, self.path)
            status = state.run(extend, *self.tree, self.order, pops, self.beam, self.rest, self.admissible, *arrays)
            if status == _MORE_NODES:
                while self.tree.counts[N_FREE] < len(state.sizes) + 1:
                    self.tree = grown(self.tree)
            elif status == _MORE_SLOTS:
                state.make_room()
                self._prepare()
            elif status == _STUCK:
                raise ValueError(
                    "no clustering has a probability that is a number: the values or the hyper-parameters are too extreme for double precision; rescale the columns, or choose others"
                )
            else:
                return bool(status == _DONE)

    @property
    def labels(self) -> Ints:
        counts = self.tree.counts
        return path_labels(self.tree, int(self.tree.links[0, BEST]) if counts[N_QUEUED] else int(counts[HERE]), self.order)

    @property
    def depth(self) -> int:
        """How many points the entry extended last has seated."""
        return int(self.tree.links[self.tree.counts[HERE], DEPTH])

    @property
    def outlook(self) -> tuple[int, float]:
        """How many entries wait in the queue, and the score of the best."""
        tree = self.tree
        return int(tree.counts[N_QUEUED]), float(tree.keys[tree.links[0, BEST], SCORE])

    @property
    def counts(self) -> dict[str, int]:
        """Entries popped, pushed and dropped."""
        counts = self.tree.counts
        return {"popped": int(counts[POPPED]), "pushed": int(counts[PUSHED]), "dropped": int(counts[DROPPED])}
