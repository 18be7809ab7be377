"""Links between points as arrays, and walks along them: who sits behind a point, who is at its table.

Every component of the links has exactly one cycle (a link to oneself is a cycle of one), and all its other points hang on that cycle as trees. Those who link to a point are
kept in a doubly linked list, so a link is cut or made in constant time, and everybody behind a point is found by walking these lists backwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled


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
def components(seating: Any) -> int:
    """Labels 0, 1, … of the components of all points that have a seat; returns how many there are."""
    n_tables = 0
    for i in range(len(seating.links)):
        if seating.labels[i] < 0 and seating.links[i] >= 0:
            for position in range(find_table(seating, i, -1)):
                seating.labels[seating.members[position]] = n_tables
            n_tables += 1
    return n_tables


@compiled
def list_followers(seating: Any) -> None:
    for i in range(len(seating.links)):
        target = seating.links[i]
        if target >= 0:
            seating.links[i] = i
            link(seating, i, target)


@compiled
def links_within(start: Ints, targets: Slots, log_weights: Floats, behind_start: Ints, behind: Slots, labels: Ints, links: Slots, queue: Slots) -> None:
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
def log_row_sums(start: Ints, log_weights: Floats) -> Floats:
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
