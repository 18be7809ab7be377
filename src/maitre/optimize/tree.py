"""The tree of partial clusterings and the queue of its leaves.

A node stands for a clustering of the first `depth` points of an order: its parent, and the cluster that point number depth − 1 joins (clusters are numbered as they are
opened). That is all a node remembers, so it takes the same memory at any depth. Nodes that lead nowhere any more are given back.

The queue holds leaves in two heaps at once, best first and worst first, so that both ends are near: the best is extended next, the worst is dropped when the queue is
longer than the beam. Of equal scores the one that came first is the better.

Three arrays rather than one for each field: a compiled call counts references to every array it is given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled

PARENT, CHOICE, DEPTH, USES, BEST_PLACE, WORST_PLACE, BEST, WORST, FREE = range(9)
SCORE, LOG_LIKELIHOOD, ARRIVAL = range(3)
N_FREE, N_QUEUED, ARRIVALS, HERE, POPPED, PUSHED, DROPPED = range(7)


class Tree(NamedTuple):
    """For each node its parent, choice, depth, uses (living children, plus one for a place in the queue, plus one for the node where the statistics stand) and places in
    the two heaps; the last three columns of `links` are the heaps themselves and the nodes that are free."""

    links: npt.NDArray[np.int32]  # (nodes, 9)
    keys: Floats  # (nodes, 3): score, Σ_k log p(x_k) of the points seated, and when the node came
    counts: Ints


def new_tree(capacity: int) -> Tree:
    """A tree with its root, which is where the statistics stand and all there is in the queue.

    >>> tree = new_tree(100)
    >>> int(tree.counts[N_FREE]), int(tree.counts[HERE]), int(tree.counts[N_QUEUED])
    (99, 0, 1)
    """
    tree = Tree(np.zeros((capacity, 9), np.int32), np.zeros((capacity, 3)), np.zeros(7, np.int64))
    tree.links[:, FREE] = np.arange(capacity - 1, -1, -1)
    tree.links[0, PARENT], tree.links[0, USES] = -1, 2
    tree.counts[N_FREE], tree.counts[N_QUEUED] = capacity - 1, 1
    return tree


def grown(tree: Tree) -> Tree:
    """The same tree with room for twice as many nodes."""
    before, n_free = len(tree.links), tree.counts[N_FREE]
    links, keys = (np.concatenate([array, np.zeros_like(array)]) for array in (tree.links, tree.keys))
    now = Tree(links, keys, tree.counts.copy())
    now.links[: before + n_free, FREE] = np.concatenate([np.arange(2 * before - 1, before - 1, -1), tree.links[:n_free, FREE]])
    now.counts[N_FREE] = before + n_free
    return now


def path_labels(tree: Tree, node: int, order: Ints) -> Ints:
    """The cluster of every point at a node; −1 for points that are not seated there."""
    labels: Ints = np.full(len(order), -1, dtype=np.int64)
    _fill_labels(tree.links, node, order, labels)
    return labels


@compiled
def _fill_labels(links: Slots, node: int, order: Ints, labels: Ints) -> None:
    while links[node, PARENT] >= 0:
        labels[order[links[node, DEPTH] - 1]] = links[node, CHOICE]
        node = links[node, PARENT]


@compiled
def new_node(links: Slots, keys: Floats, counts: Ints, parent: int, choice: int, log_likelihood: float, score: float) -> int:
    """A child of `parent` with one use; there must be a free node."""
    counts[N_FREE] -= 1
    node = links[counts[N_FREE], FREE]
    links[node, PARENT] = parent
    links[node, CHOICE] = choice
    links[node, DEPTH] = links[parent, DEPTH] + 1
    links[node, USES] = 1
    links[parent, USES] += 1
    keys[node, SCORE] = score
    keys[node, LOG_LIKELIHOOD] = log_likelihood
    keys[node, ARRIVAL] = counts[ARRIVALS]
    counts[ARRIVALS] += 1
    return node


@compiled
def release(links: Slots, counts: Ints, node: int) -> None:
    """One use fewer; a node without uses is given back, and is a use fewer of its parent."""
    links[node, USES] -= 1
    while node > 0 and links[node, USES] == 0:
        links[counts[N_FREE], FREE] = node
        counts[N_FREE] += 1
        node = links[node, PARENT]
        links[node, USES] -= 1


@compiled
def _settle(links: Slots, keys: Floats, heap: Any, at: Any, size: int) -> None:
    """Move the node at this position of a heap up or down to where it belongs. Compiled once: all callers give 64-bit numbers."""
    sign, place = (1.0, BEST_PLACE) if heap == BEST else (-1.0, WORST_PLACE)
    node = links[at, heap]
    mine, came = sign * keys[node, SCORE], sign * keys[node, ARRIVAL]
    while at > 0:
        above = links[(at - 1) // 2, heap]
        theirs = sign * keys[above, SCORE]
        if mine < theirs or (mine == theirs and came > sign * keys[above, ARRIVAL]):
            break
        links[at, heap] = above
        links[above, place] = at
        at = (at - 1) // 2
    while 2 * at + 1 < size:
        child = 2 * at + 1
        below = links[child, heap]
        theirs = sign * keys[below, SCORE]
        if child + 1 < size:
            other = links[child + 1, heap]
            others = sign * keys[other, SCORE]
            if others > theirs or (others == theirs and sign * keys[other, ARRIVAL] < sign * keys[below, ARRIVAL]):
                child, below, theirs = child + 1, other, others
        if mine > theirs or (mine == theirs and came < sign * keys[below, ARRIVAL]):
            break
        links[at, heap] = below
        links[below, place] = at
        at = child
    links[at, heap] = node
    links[node, place] = at


@compiled
def enqueue(links: Slots, keys: Floats, counts: Ints, node: int) -> None:
    """Put a leaf into the queue."""
    size = counts[N_QUEUED]
    counts[N_QUEUED] = size + 1
    links[size, BEST] = links[size, WORST] = node
    _settle(links, keys, np.int64(BEST), size, size + 1)
    _settle(links, keys, np.int64(WORST), size, size + 1)


@compiled
def dequeue(links: Slots, keys: Floats, counts: Ints, node: int) -> None:
    """Take a leaf out of the queue."""
    last = counts[N_QUEUED] - 1
    counts[N_QUEUED] = last
    at = np.int64(links[node, BEST_PLACE])
    if at < last:
        links[at, BEST] = links[last, BEST]
        _settle(links, keys, np.int64(BEST), at, last)
    at = np.int64(links[node, WORST_PLACE])
    if at < last:
        links[at, WORST] = links[last, WORST]
        _settle(links, keys, np.int64(WORST), at, last)


@compiled
def replace_worst(links: Slots, keys: Floats, counts: Ints, node: int) -> None:
    """Put a leaf into the queue in the place of the worst one, which is dropped."""
    dropped: Any = np.int64(links[0, WORST])
    size = counts[N_QUEUED]
    at = np.int64(links[dropped, BEST_PLACE])
    links[at, BEST] = links[0, WORST] = node
    _settle(links, keys, np.int64(BEST), at, size)
    _settle(links, keys, np.int64(WORST), np.int64(0), size)
    release(links, counts, dropped)
