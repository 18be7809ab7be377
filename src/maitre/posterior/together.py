"""Which points belong together, over the draws: co-clustering, and how sure each point's place in a partition is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from maitre.numerics.arrays import Floats, Ints

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior

_LARGEST = 20_000  # points for which a full matrix of pairs is made


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


def similarity(posterior: Posterior, max_draws: int) -> Floats:
    """(n, n): how often two points share a cluster."""
    n = posterior.model.n
    if n > _LARGEST:
        raise ValueError(f"the similarity of {n} points has {n}² entries; the most is {_LARGEST} points: compare some of them, or use certainty()")
    draws = evenly_spaced(posterior.log_joint.shape, max_draws)
    together = np.zeros((n, n), dtype=np.int32)
    for chain, draw in draws:
        labels = np.asarray(posterior.labels[chain, draw])
        together += labels[:, None] == labels[None, :]
    return together / len(draws)
