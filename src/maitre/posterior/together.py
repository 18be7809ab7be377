"""Which points belong together, over the draws: co-clustering, and how sure each point's place in a partition is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from maitre.numerics.arrays import Floats, Ints

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior

_LARGEST = 20_000  # points for which a full matrix of pairs is made
_SINGLE = 5_000  # points from which on its entries take four bytes
_BLOCK = 1_000  # rows compared at once


def evenly_spaced(shape: tuple[int, ...], at_most: int) -> list[tuple[int, int]]:
    """At most so many (chain, draw) pairs, evenly spaced over all of them."""
    total = shape[0] * shape[1]
    chosen: npt.NDArray[np.int64] = np.unique(np.linspace(0, total - 1, min(total, at_most)).astype(np.int64))
    return [(int(c // shape[1]), int(c % shape[1])) for c in chosen]


def certainty(posterior: Posterior, reference: Ints, max_draws: int) -> Floats:
    """For each point the share of its mates in the reference partition that sit with it, averaged over draws; for a point without mates, how often it is alone."""
    draws = evenly_spaced(posterior.log_joint.shape, max_draws)
    total = np.zeros(len(reference))
    for chain, draw in draws:
        total += _share_of_mates(np.asarray(posterior.labels[chain, draw], dtype=np.int64), reference)
    return total / len(draws)


def _share_of_mates(labels: Ints, reference: Ints) -> Floats:
    """
    >>> _share_of_mates(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])).tolist()
    [0.5, 0.5, 0.0, 0.0]
    """
    width = int(reference.max()) + 1
    _, cell, shared = np.unique(labels * width + reference, return_inverse=True, return_counts=True)
    mates = np.bincount(reference)[reference] - 1
    alone = np.bincount(labels)[labels] == 1
    return np.asarray(np.where(mates > 0, (shared[cell] - 1) / np.maximum(mates, 1), alone), dtype=np.float64)


def affinities(posterior: Posterior, reference: Ints, max_draws: int) -> Floats:
    """(n, clusters of the reference): the share of each cluster's members, the point itself apart, that sit with the point, averaged over draws; for a point alone in its
    cluster, how often it is alone."""
    draws = evenly_spaced(posterior.log_joint.shape, max_draws)
    sizes, points = np.bincount(reference), np.arange(len(reference))
    total, own = np.zeros((len(reference), len(sizes))), np.zeros(len(reference))
    for chain, draw in draws:
        labels = np.asarray(posterior.labels[chain, draw], dtype=np.int64)
        total += (_table(labels, reference) / sizes)[labels]
        own += _share_of_mates(labels, reference)
    total[points, reference] = own
    return total / len(draws)


def stability(posterior: Posterior, reference: Ints, max_draws: int) -> Floats:
    """For each cluster of the reference, the largest Jaccard overlap |A ∩ B| / |A ∪ B| with a cluster of a draw, averaged over draws (Hennig 2007)."""
    draws = evenly_spaced(posterior.log_joint.shape, max_draws)
    sizes = np.bincount(reference)
    total = np.zeros(len(sizes))
    for chain, draw in draws:
        labels = np.asarray(posterior.labels[chain, draw], dtype=np.int64)
        shared = _table(labels, reference)
        total += (shared / (sizes + np.bincount(labels)[:, None] - shared)).max(axis=0)
    return total / len(draws)


def _table(labels: Ints, reference: Ints) -> Ints:
    """(clusters of the draw, clusters of the reference): how many points are in both."""
    width = int(reference.max()) + 1
    return np.bincount(labels * width + reference, minlength=(int(labels.max()) + 1) * width).reshape(-1, width)


def similarity(posterior: Posterior, max_draws: int, points: Any = None) -> Floats:
    """(n, n), or (points, points) if only some are asked for: how often two points share a cluster."""
    chosen = np.arange(posterior.model.n) if points is None else np.asarray(points, dtype=np.int64)
    n = len(chosen)
    if n > _LARGEST:
        raise ValueError(
            f"the similarity of {n} points has {n}² entries; the most is {_LARGEST} points: give some of them as points=, e.g. posterior.typical_points({_LARGEST}), or use certainty()"
        )
    draws = evenly_spaced(posterior.log_joint.shape, max_draws)
    together = np.zeros((n, n), dtype=np.float32)
    for chain, draw in draws:
        labels = np.asarray(posterior.labels[chain, draw])[chosen]
        for begin in range(0, n, _BLOCK):
            together[begin : begin + _BLOCK] += labels[begin : begin + _BLOCK, None] == labels[None, :]
    together /= np.float32(len(draws))
    return together if n > _SINGLE else together.astype(np.float64)  # type: ignore[return-value]


def in_order(reference: Ints, certain: Floats, at_most: int) -> Ints:
    """Points for a display, at most so many: by cluster, the largest first, and within a cluster the surest first, every cluster with its share."""
    sizes = np.bincount(reference)
    rank = np.empty(len(sizes), dtype=np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    order = np.lexsort((-certain, rank[reference]))
    return order if len(order) <= at_most else order[np.unique(np.linspace(0, len(order) - 1, at_most).astype(np.int64))]
