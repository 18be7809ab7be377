"""The partition with the least expected loss over draws, by greedy moves of points: the compiled part.

For a candidate partition with clusters of sizes a_k, and a draw t with clusters of sizes b_tj that share n_tkj points with it, every loss here is a function of

    A = Σ_k f(a_k),    B_t = Σ_j f(b_tj),    G_t = Σ_kj f(n_tkj),

with f(m) = m log m for losses of information and f(m) = m(m−1)/2 for losses of pairs. So only the counts n_tkj are kept, and when a point is tried elsewhere one count of
each draw changes: its price is one look per draw and candidate cluster, and no matrix of pairs is made. `gain` holds f(n+1) − f(n) for every count, so that the looks
are sums of rows.

Dahl, Johnson & Müller (2022), Search algorithms and loss functions for Bayesian clustering (SALSO), has the ideas: points allocated one after the other in random order,
moved while that lowers the loss, and whole clusters dissolved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import compiled_apart

LINEAR, ADJUSTED_RAND, NORMALISED = 0, 1, 2  # how A, B_t and G_t make a loss


class Allocation(NamedTuple):
    """A candidate partition and its counts with every draw."""

    rows: npt.NDArray[np.int32]  # (n, T): the row of `counts` that belongs to the point's cluster in a draw
    draw_of_row: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]  # (rows, slots): n_tkj
    gain: Floats  # the same shape: f(n_tkj + 1) − f(n_tkj)
    labels: npt.NDArray[np.int32]  # the slot of each point, −1 for none
    sizes: Ints
    f: Floats  # f(0), …, f(n)
    step: Floats  # f(m + 1) − f(m)
    own: Floats  # B_t
    shared: Floats  # G_t
    total: Floats  # A, in an array of one
    price: Floats  # (slots): room for the prices of one point
    ratio: float  # what G counts for, relative to A, in a linear loss


@compiled_apart
def fill(s: Any, labels: Any) -> None:
    """Start from these labels, below the number of slots."""
    n, n_draws = s.rows.shape
    n_rows, n_slots = s.counts.shape
    for r in range(n_rows):
        for k in range(n_slots):
            s.counts[r, k] = 0
    s.sizes[:] = 0
    for i in range(n):
        k = labels[i]
        s.labels[i] = k
        if k >= 0:
            s.sizes[k] += 1
            for t in range(n_draws):
                s.counts[s.rows[i, t], k] += 1
    s.shared[:] = 0.0
    for r in range(n_rows):
        for k in range(n_slots):
            count = s.counts[r, k]
            s.gain[r, k] = s.step[count]
            s.shared[s.draw_of_row[r]] += s.f[count]
    s.total[0] = 0.0
    for k in range(n_slots):
        s.total[0] += s.f[s.sizes[k]]


@compiled_apart
def loss_at(kind: int, n: int, ratio: float, total: float, own: float, shared: float) -> float:
    """The loss of one draw from A, B and G, without constants and scale."""
    if kind == 0:
        return total - ratio * shared
    if kind == 1:
        chance = total * own / (0.5 * n * (n - 1))
        most = 0.5 * (total + own) - chance
        return 0.0 if most <= 0.0 else 1.0 - (shared - chance) / most
    joint = n * np.log(n) - shared
    return 0.0 if joint <= 1e-12 else (total + own - 2.0 * shared) / joint


@compiled_apart
def mean_loss(s: Any, kind: int) -> float:
    """The loss of the candidate, averaged over draws."""
    value, n = 0.0, len(s.labels)
    for t in range(len(s.shared)):
        value += loss_at(kind, n, s.ratio, s.total[0], s.own[t], s.shared[t])
    return value / len(s.shared)


@compiled_apart
def take_out(s: Any, i: int) -> None:
    """A point without a seat."""
    k = s.labels[i]
    s.labels[i] = -1
    s.sizes[k] -= 1
    s.total[0] -= s.step[s.sizes[k]]
    for t in range(s.rows.shape[1]):
        r = s.rows[i, t]
        s.counts[r, k] -= 1
        s.gain[r, k] = s.step[s.counts[r, k]]
        s.shared[t] -= s.gain[r, k]


@compiled_apart
def seat(s: Any, i: int, k: int) -> None:
    """A point without a seat gets one."""
    s.labels[i] = k
    s.total[0] += s.step[s.sizes[k]]
    s.sizes[k] += 1
    for t in range(s.rows.shape[1]):
        r = s.rows[i, t]
        s.shared[t] += s.gain[r, k]
        s.counts[r, k] += 1
        s.gain[r, k] = s.step[s.counts[r, k]]


@compiled_apart
def seat_as(s: Any, points: Ints, labels: Any) -> None:
    """Points go where these labels, one for each of them, say; −1 takes them out."""
    for place in range(len(points)):
        i, k = points[place], labels[place]
        if s.labels[i] != k:
            if s.labels[i] >= 0:
                take_out(s, i)
            if k >= 0:
                seat(s, i, k)


@compiled_apart
def price_all(s: Any, i: int, n_slots: int, kind: int) -> None:
    """price[k] = what the mean loss becomes, but for a constant, when point i sits in slot k."""
    price, before = s.price, s.labels[i]
    n, n_draws = s.rows.shape
    for k in range(n_slots):
        price[k] = 0.0
    if kind == 0:
        stay = 0.0
        for t in range(n_draws):
            r = s.rows[i, t]
            for k in range(n_slots):
                price[k] += s.gain[r, k]
            if before >= 0:
                stay += s.step[s.counts[r, before] - 1]
        if before >= 0:
            price[before] = stay
        for k in range(n_slots):
            price[k] = s.step[s.sizes[k] - (k == before)] - s.ratio * price[k] / n_draws
        return
    total = s.total[0] - (s.step[s.sizes[before] - 1] if before >= 0 else 0.0)
    for t in range(n_draws):
        r = s.rows[i, t]
        stay = s.step[s.counts[r, before] - 1] if before >= 0 else 0.0
        for k in range(n_slots):
            gain = stay if k == before else s.gain[r, k]
            price[k] += loss_at(kind, n, s.ratio, total + s.step[s.sizes[k] - (k == before)], s.own[t], s.shared[t] - stay + gain)


@compiled_apart
def reallocate(s: Any, points: Ints, opening: bool, kind: int, most: int) -> int:
    """Each of the points, in this order, to where the loss is least; a new cluster, if `opening`, while there are fewer than `most`. How many have moved."""
    n_moved, n_used, n_slots = 0, 0, 0
    for k in range(len(s.sizes)):
        if s.sizes[k] > 0:
            n_used += 1
            n_slots = k + 1
    for place in range(len(points)):
        i = points[place]
        before = s.labels[i]
        empty = 0
        while empty < n_slots and s.sizes[empty] > 0:
            empty += 1
        reach = max(n_slots, min(empty + 1, len(s.sizes)))
        price_all(s, i, reach, kind)
        best, least = before, s.price[before] - 1e-10 if before >= 0 else np.inf
        for k in range(reach):
            allowed = s.sizes[k] > 0 or (k == empty and ((opening and n_used < most) or n_used == 0))
            if allowed and s.price[k] < least:
                best, least = k, s.price[k]
        if best != before:
            n_moved += 1
            if before >= 0:
                take_out(s, i)
                n_used -= s.sizes[before] == 0
            n_used += s.sizes[best] == 0
            seat(s, i, best)
            n_slots = max(n_slots, best + 1)
    return n_moved
