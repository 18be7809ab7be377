"""Split–merge with a launch state of explicit parameters: every scan of the launch is parallel over points.

Two points i ≠ j are picked as in `maitre.moves.split_merge`; S is their cluster or clusters without them. The launch is built from (S, i, j) and fresh random numbers
only: the points of S by fair coins, then `scans` times {a weight b and parameters for both sides given who is there; every point redraws its side given these}, and once
more (b, θ). The sides of a split are then drawn independently, with probability p_t ∝ b_s F(x_t; θ_s); for a merge the probability of the present sides is evaluated.

    r = V(n, K+1)/V(n, K) · W(|a|) W(|b|)/W(|c|) · p(x_a) p(x_b)/p(x_c) · P(pick i, j | a, b)/P(pick i, j | c) / ∏_t p_t.

Exact for any number of scans. For large clusters ∏ p_t is unforgiving: a launch that misses the present split by a little loses that much for every point, and hardly
any merge is accepted; `maitre.moves.label_free` has no such term.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.statistics import add, clear, derive, draw_parameters, gather, log_likelihood, log_marginal, n_parameters, settle
from maitre.moves.pairs import log_chance, pick_pair
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_below, draw_event, draw_log
from maitre.numerics.elementary import is_finite
from maitre.numerics.rng import beta
from maitre.states.mixture import first_empty


@kernel
def propose_launched(
    s: Any, scans: int, labels: Slots, sizes: Ints, n_clusters: int, log_v: Floats, log_w: Floats, members: Ints, begin: Ints, rng: Any, noise: Any
) -> bool:
    """One proposal; true if it is accepted and the labels have changed. Choices come from `rng`, parameters and weights from `noise`.

    `members` and `begin` list the points slot by slot. Statistics of the clusters are left as they were.
    """
    n = len(labels)
    left = first_empty(sizes, 0)
    right = first_empty(sizes, left + 1)
    whole = first_empty(sizes, right + 1)
    one, other = pick_pair(labels, sizes, members, begin, rng)
    i, j = min(one, other), max(one, other)  # the launch knows the pair, not who was picked first
    first: Any = np.int64(labels[i])
    second: Any = np.int64(labels[j])
    splitting = first == second
    total = sizes[first] if splitting else sizes[first] + sizes[second]
    rest, sides = np.empty(total - 2, dtype=np.int64), np.empty(total - 2, dtype=np.int64)
    n_rest = 0
    for part in range(1 if splitting else 2):
        slot = first if part == 0 else second
        for t in range(begin[slot], begin[slot] + sizes[slot]):
            if members[t] != i and members[t] != j:
                rest[n_rest] = members[t]
                n_rest += 1
    rest.sort()  # the launch must not know which cluster a point comes from
    theta, weights, room = np.empty((2, n_parameters(s))), np.empty(2), np.empty(2)

    for t in range(n_rest):
        sides[t] = draw_below(2, rng)
    log_q, impossible = 0.0, False
    for scan in range(scans + 1):
        n_left = 1
        for slot in (left, right):
            clear(s, slot)
        gather(s, left, i)
        gather(s, right, j)
        for t in range(n_rest):
            gather(s, left if sides[t] == 0 else right, rest[t])
            n_left += 1 - sides[t]
        for slot in (left, right):
            settle(s, slot)
            derive(s, slot)
        b = beta(n_left + 0.5, total - n_left + 0.5, noise)
        draw_parameters(s, left, theta[0], noise)
        draw_parameters(s, right, theta[1], noise)
        for t in range(n_rest):
            weights[0] = math.log(b) + log_likelihood(s, theta[0], rest[t])
            weights[1] = math.log1p(-b) + log_likelihood(s, theta[1], rest[t])
            if scan == scans and not splitting:
                chosen = 0 if labels[rest[t]] == first else 1
            else:
                chosen = draw_log(weights, 2, room, rng)
                impossible = impossible or chosen < 0
            sides[t] = max(chosen, 0)
            if scan == scans:
                gap = weights[1 - sides[t]] - weights[sides[t]]
                log_q -= gap + math.log1p(math.exp(-gap)) if gap > 0.0 else math.log1p(math.exp(gap))

    n_left = 1
    for slot in (left, right, whole):
        clear(s, slot)
    add(s, left, i)
    add(s, right, j)
    for t in range(n_rest):
        add(s, left if sides[t] == 0 else right, rest[t])
        n_left += 1 - sides[t]
    for t in range(n_rest):
        add(s, whole, rest[t])
    add(s, whole, i)
    add(s, whole, j)
    fewer = n_clusters if splitting else n_clusters - 1
    odds = log_v[fewer + 1] - log_v[fewer] + log_w[n_left] + log_w[total - n_left] - log_w[total]
    for slot in (left, right, whole):
        odds += -log_marginal(s, slot) if slot == whole else log_marginal(s, slot)
    odds += log_chance(n, n_left, total - n_left, False) - log_chance(n, total, 0, True) - log_q
    accepted = not impossible and is_finite(odds) and draw_event(odds if splitting else -odds, rng)
    if accepted:
        labels[j] = right if splitting else first
        for t in range(n_rest):
            labels[rest[t]] = right if splitting and sides[t] == 1 else first
    for slot in (left, right, whole):
        clear(s, slot)
        derive(s, slot)
    return accepted
