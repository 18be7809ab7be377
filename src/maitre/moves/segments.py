"""Partitions whose clusters are segments of an order of the points: all 2^(n−1) of them summed by dynamic programming, and one drawn.

Given an order, a partition into segments has weight ∏_c e^slope B(c). With g(0) = 1 and g(r) = Σ_a g(a) e^slope B(a..r), the sum over the segments that end at
position r, one is drawn backwards: the last segment in proportion to its term of g(n), and so on. Because the draw at r looks at the terms of g(r) only, each
position's draw is made while the terms are at hand, and nothing but the start it chose is kept: O(n) memory.

The *beam* (Liang, Jordan & Taskar 2007) goes on only with the segments that hold all but a share `epsilon` of g(r), and with the `widest` largest at most; a segment
younger than `probation` points stays in any case: in many dimensions a new cluster begins far behind the growth of an old one, and overtakes it later. Which segments are kept depends on the order and the
data, never on a draw, so that what is drawn has the density ∏_c e^slope B(c) / g(n) with g(n) as computed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.statistics import absorb, add, clear, log_predictive, prefetch, refresh
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled, compiled_form_of, kernel
from maitre.numerics.draw import draw_below, draw_log
from maitre.numerics.elementary import fast_exp, is_finite

DRAW, HIGHEST, SUM = 0, 1, 2
FULL = -1
NOT_A_NUMBER = -2


@kernel
def sum_segments(
    s: Any,
    order: Ints,
    old_start: Ints,
    log_size: Floats,
    slope: float,
    epsilon: float,
    probation: int,
    widest: int,
    mode: int,
    start: Ints,
    log_weight: Floats,
    weights: Floats,
    scratch: Floats,
    log_g: Floats,
    back: Ints,
    log_b: Floats,
    scan_room: Floats | None,
    rng: Any,
) -> tuple[int, bool, int]:
    """Fill `log_g` and draw, for every position, where the segment that ends there starts (`back`).

    log B(c) = log p(x_c) + log_size[|c|], and with `scan_room` (four numbers per point) the log probability of the segment's order as a Markov scan. `old_start[r]` is where the present
    cluster that ends at position r starts, else −1. `mode` HIGHEST takes the largest term where DRAW draws one (and g is then a maximum); SUM does neither. If `log_b` has room, it
    gets log B of every segment, by (start, end).

    Returns the number of predictive evaluations (or FULL, or NOT_A_NUMBER), whether the present partition can be drawn, and the number of segments kept, over all positions.
    """
    n, capacity = len(order), len(start) - 1  # the last slot is for pairs of points
    n_slots, evaluations, kept, supported = 0, 0, 0, True
    for k in range(capacity):
        start[k] = -1
    log_g[0] = 0.0
    for r in range(n):
        i = order[r]
        if r + 2 < n:
            prefetch(s, order[r + 2])
        free = -1
        for k in range(n_slots):
            if start[k] >= 0:
                m = r - start[k]
                log_weight[k] += absorb(s, k, i) + log_size[m + 1] - log_size[m]
                evaluations += 1
            elif free < 0:
                free = k
        if free < 0:
            free = n_slots
            n_slots += 1
        if free == capacity:
            return FULL, False, 0
        clear(s, free)
        alone = absorb(s, free, i)
        evaluations += 1
        start[free] = r
        log_weight[free] = log_g[r] + slope + log_size[1] + alone
        if scan_room is not None:
            first = r
            for k in range(n_slots):
                if start[k] >= 0:
                    first = min(first, start[k])
            _extend_scan(s, order, first, r, alone, capacity, scan_room)
            evaluations += r - first
        largest, n_open = -np.inf, 0
        for k in range(n_slots):
            weights[k] = -np.inf
            if start[k] >= 0:
                n_open += 1
                weights[k] = log_weight[k]
                if scan_room is not None:
                    weights[k] += scan_room[3, start[k]]
                largest = max(largest, weights[k])
        total = 0.0
        for k in range(n_slots):
            scratch[k] = fast_exp(weights[k] - largest)
            total += scratch[k]
        if not (is_finite(largest) and is_finite(total)):
            return NOT_A_NUMBER, False, r
        dropped = 0.0
        while epsilon > 0.0:
            least = -1
            for k in range(n_slots):
                if start[k] >= 0 and r - start[k] >= probation and (least < 0 or scratch[k] < scratch[least]):
                    least = k
            if least < 0 or (dropped + scratch[least] > epsilon * total and n_open <= widest):
                break
            dropped += scratch[least]
            n_open -= 1
            scratch[least] = 0.0
            weights[least] = -np.inf
            start[least] = -1
        while start[n_slots - 1] < 0:
            n_slots -= 1
        total = 0.0
        possible = old_start[r] < 0
        chosen = 0
        for k in range(n_slots):
            total += scratch[k]
            if start[k] >= 0:
                kept += 1
                possible = possible or start[k] == old_start[r]
                if weights[k] > weights[chosen]:
                    chosen = k
        supported = supported and possible
        log_g[r + 1] = largest + (0.0 if mode == HIGHEST else math.log(total))
        if len(log_b) > 0:
            for k in range(n_slots):
                log_b[start[k], r] = weights[k] - log_g[start[k]] - slope
        if mode == DRAW:
            chosen = draw_log(weights, n_slots, scratch, rng)
        back[r + 1] = start[chosen]
    return evaluations, supported, kept


def _extend_scan(s: Any, order: Ints, first: int, r: int, alone: float, pair: int, room: Floats) -> None:
    """room[3, a] = log probability of the order of the segment a..r given its first point, for every start a from `first` on.

    Point order[q] follows order[q − 1] with probability w(q−1, q) / Σ_{j=q..r} w(q−1, j), where w(i, j) = p(x_j | x_i) = p(x_i | x_j) p(x_j) / p(x_i). The rows of
    `room`: each point's own log marginal, log w(q−1, q), the log of the sum, and the result. Slot `pair` holds the newest point.
    """
    clear(s, pair)
    add(s, pair, order[r])
    refresh(s, pair)
    room[0, r] = alone
    room[3, r] = 0.0
    path = 0.0
    for q in range(r, first, -1):
        w = log_predictive(s, pair, order[q - 1]) + alone - room[0, q - 1]
        if q == r:
            room[1, q] = room[2, q] = w
        else:
            high, low = max(room[2, q], w), min(room[2, q], w)
            room[2, q] = high + math.log1p(math.exp(low - high))
        path += room[1, q] - room[2, q]
        room[3, q - 1] = path


compiled_form_of(_extend_scan)(compiled(_extend_scan))


@compiled
def draw_by_number(log_b: Floats, log_a: Floats, log_g: Floats, terms: Floats, scratch: Floats, back: Ints, rng: Any) -> int:
    """Draw segments from weights A(K) ∏_c B(c) with any A: one sum for every number of clusters, O(n³) in all. Returns K.

    `log_b` is indexed by (start, end), `log_a` by K, `log_g` is room for (n + 1)² numbers, by (K, position).
    """
    n = len(log_b)
    for count in range(n + 1):
        for r in range(n + 1):
            log_g[count, r] = -np.inf
    log_g[0, 0] = 0.0
    for count in range(1, n + 1):
        for r in range(count, n + 1):
            largest = -np.inf
            for a in range(count - 1, r):
                terms[a] = log_g[count - 1, a] + log_b[a, r - 1]
                largest = max(largest, terms[a])
            total = 0.0
            for a in range(count - 1, r):
                total += math.exp(terms[a] - largest)
            log_g[count, r] = largest + math.log(total)
    for count in range(1, n + 1):
        terms[count - 1] = log_a[count] + log_g[count, n]
    n_clusters = draw_log(terms, n, scratch, rng) + 1
    end = n
    for count in range(n_clusters, 0, -1):
        for a in range(end):
            terms[a] = log_g[count - 1, a] + log_b[a, end - 1]
        back[end] = draw_log(terms, end, scratch, rng)
        end = back[end]
    return n_clusters


@compiled
def trace_back(order: Ints, back: Ints, labels: Ints) -> int:
    """Labels of the segments drawn; returns their number."""
    end, n_clusters = len(order), 0
    while end > 0:
        for r in range(back[end], end):
            labels[order[r]] = n_clusters
        n_clusters += 1
        end = back[end]
    return n_clusters


@compiled
def group(labels: Slots, rank: Ints, points: Ints, n_clusters: int, order: Ints, old_start: Ints) -> None:
    """`points` grouped by cluster, clusters by their rank and points of one cluster in the order given; `old_start[r]` is where the cluster that ends at r starts, else −1."""
    begin = np.zeros(n_clusters + 1, dtype=np.int64)
    for i in points:
        begin[rank[labels[i]] + 1] += 1
    for c in range(n_clusters):
        begin[c + 1] += begin[c]
    for r in range(len(order)):
        old_start[r] = -1
    for c in range(n_clusters):
        old_start[begin[c + 1] - 1] = begin[c]
    for i in points:
        c = rank[labels[i]]
        order[begin[c]] = i
        begin[c] += 1


@kernel
def order_by_scan(s: Any, order: Ints, old_start: Ints, slot: int, weights: Floats, scratch: Floats, rng: Any) -> int:
    """A Markov scan of each cluster: its first point uniform, each next one in proportion to its predictive given the point before, among those left.

    Returns the number of evaluations, or −1 − the position where a density was no number.
    """
    evaluations = 0
    for r in range(len(order)):
        first = old_start[r]
        if first < 0:
            continue
        for position in range(first, r):
            left = r - position + 1
            if position == first:
                chosen = draw_below(left, rng)
            else:
                for t in range(left):
                    weights[t] = log_predictive(s, slot, order[position + t])
                evaluations += left
                chosen = draw_log(weights, left, scratch, rng)
                if chosen < 0:
                    return -1 - position
            order[position], order[position + chosen] = order[position + chosen], order[position]
            clear(s, slot)
            add(s, slot, order[position])
            refresh(s, slot)
    return evaluations
