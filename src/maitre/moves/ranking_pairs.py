"""What splits and merges of clusters of rankings share: two voters as anchors, and the members of one or two clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.numerics.arrays import Ints, Slots
from maitre.numerics.compilation import compiled_apart, compiled_form_of


@compiled_apart
def find_member(labels: Slots, cluster: int, inside: bool, number: int, but: int) -> int:
    """The number-th voter in a cluster, or outside it, leaving one out."""
    for i in range(len(labels)):
        if i != but and (labels[i] == cluster) == inside:
            if number == 0:
                return i
            number -= 1
    return -1


@compiled_apart
def members_of(s: Any, labels: Slots, sizes: Ints, a: int, b: int) -> tuple[Ints, Ints, Ints]:
    """The voters of two clusters (or one) in their order, their rankings, and 0 or 1."""
    size, found = sizes[a] if a == b else sizes[a] + sizes[b], 0
    voters, ballots, sides = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    for i in range(len(labels)):
        if labels[i] == a or labels[i] == b:
            voters[found], ballots[found], sides[found] = i, s.ballot[i], 0 if labels[i] == a else 1
            found += 1
    return voters, ballots, sides


def position_of(voters: Ints, voter: int) -> int:
    """Where a voter stands among sorted ones."""
    return int(np.searchsorted(voters, voter))


compiled_form_of(position_of)(position_of)


@compiled_apart
def seat_sides(labels: Slots, sizes: Ints, voters: Ints, sides: Ints, a: int, b: int) -> None:
    """The two sides become the clusters of slots a and b."""
    sizes[a], sizes[b] = 0, 0
    for t in range(len(voters)):
        k = a if sides[t] == 0 else b
        labels[voters[t]] = k
        sizes[k] += 1


@compiled_apart
def seat_together(labels: Slots, sizes: Ints, voters: Ints, a: int, b: int) -> None:
    """Two clusters become that of slot a."""
    for t in range(len(voters)):
        labels[voters[t]] = a
    sizes[a], sizes[b] = len(voters), 0
