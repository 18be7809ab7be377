"""Pairs of points, by which split–merge moves choose what to part or to join, and lists of the clusters' members."""

from __future__ import annotations

import math
from typing import Any

from maitre.numerics.arrays import Ints, Slots
from maitre.numerics.compilation import compiled, compiled_form_of
from maitre.numerics.draw import draw_below, draw_event

_SAME = 0.5  # the probability of looking for j in i's own cluster


def fill_members(labels: Slots, sizes: Ints | Slots, members: Ints | Slots, begin: Ints | Slots) -> int:
    """The points of each cluster next to each other in `members`, from begin[k] on; returns how many places are taken."""
    total = 0
    for k in range(len(sizes)):
        begin[k] = total
        total += sizes[k]
    for i in range(len(labels)):
        members[begin[labels[i]]] = i
        begin[labels[i]] += 1
    for k in range(len(sizes)):
        begin[k] -= sizes[k]
    return total


def fill_members_among(points: Ints, labels: Slots, counts: Ints, members: Ints, begin: Ints) -> None:
    """`fill_members` of some points, by their positions among these; `counts`, zeros before, is how many of them each cluster has."""
    for i in points:
        counts[labels[i]] += 1
    total = 0
    for k in range(len(counts)):
        begin[k] = total
        total += counts[k]
    for t in range(len(points)):
        members[begin[labels[points[t]]]] = t
        begin[labels[points[t]]] += 1
    for k in range(len(counts)):
        begin[k] -= counts[k]


def pick_pair(labels: Slots, sizes: Ints, members: Ints, begin: Ints, rng: Any) -> tuple[int, int]:
    """Two points: i uniform, j with probability ½ among the others of i's cluster (if there are any), else among all others."""
    n = len(labels)
    i = draw_below(n, rng)
    own = labels[i]
    if sizes[own] > 1 and draw_event(math.log(_SAME), rng):
        j = members[begin[own] + draw_below(sizes[own] - 1, rng)]
        if j == i:
            j = members[begin[own] + sizes[own] - 1]
    else:
        j = draw_below(n - 1, rng)
        if j >= i:
            j += 1
    return i, j


def log_chance(n: int, first: int, second: int, together: bool) -> float:
    """log probability of picking a pair of points, times n (n − 1): in clusters of these sizes, or both in one of size `first`."""
    if together:
        return math.log(2.0 * (_SAME * (n - 1) / (first - 1) + 1.0 - _SAME))
    return math.log((1.0 if first == 1 else 1.0 - _SAME) + (1.0 if second == 1 else 1.0 - _SAME))


list_members = compiled_form_of(fill_members)(compiled(fill_members))  # machine code, to be called from Python
list_members_among = compiled(fill_members_among)
compiled_form_of(pick_pair)(compiled(pick_pair))
compiled_form_of(log_chance)(compiled(log_chance))
