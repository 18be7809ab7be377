"""The loops over points of `maitre.moves.label_free`, compiled: proposals with their screen, and what all points say of one that has passed it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from maitre.families.statistics import (
    add,
    clear,
    derive,
    draw_parameters,
    fill_features,
    gather,
    log_likelihood,
    log_likelihood_of,
    log_marginal,
    log_predictive_raw,
    merge,
    n_coefficients,
    set_coefficients,
    settle,
)
from maitre.moves.label_kernels import Coins, stream_of
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled, compiled_form_of, kernel
from maitre.numerics.draw import draw_below, draw_event, draw_log
from maitre.numerics.elementary import fast_exp, fast_log, is_finite
from maitre.numerics.lanes import LANES
from maitre.numerics.queue import lower, take
from maitre.numerics.rng import log_gamma_variate, seek, uniform

_GLANCE, _LOOK, _SCREEN = 64, 512, 4096  # points that a proposal is screened with: few if these are clear, and no more than pays
_PAYS = 64  # times as many points as the screen looks at
_DOUBT = 3.0  # standard errors that the screen gives a proposal
_CLEAR = 10.0  # standard errors that need no closer look
_SMALLEST, _SIZES = 64, 5  # subsamples have 64, 256, 1024, 4096 or 16384 points, or all there are
_SEATED_SINGLY = 32  # of these, one after the other; then scans go over twice as many, four times as many, …
_SCANS = 6
SPLIT, MERGE, ANEW = 0, 1, 2  # kinds of proposals
_FAR = 1e8  # nats, in the sum of the sizes of products, beyond which a score is not made of them
COST = 4 * _SCREEN  # evaluations of a proposal, about


class Proposal(NamedTuple):
    """One that has passed the screen: slots and kind, the log odds of the new split and of the present one, and parameters (see `propose`)."""

    first: int
    second: int
    kind: int
    odds: float
    present: float
    theta: Floats


def log_sum(a: float, b: float) -> float:
    """log(e^a + e^b)."""
    return max(a, b) + fast_log(1.0 + fast_exp(-abs(a - b)))


def log_odds_density(log_odds: float, first: float, second: float) -> float:
    """log density of the log odds of a Beta(first, second) number."""
    return math.lgamma(first + second) - math.lgamma(first) - math.lgamma(second) + first * log_share(log_odds) + second * log_share(-log_odds)


def log_share(log_odds: float) -> float:
    """log b for log odds of b against 1 − b."""
    return min(log_odds, 0.0) - math.log1p(math.exp(-abs(log_odds)))


compiled_form_of(log_sum)(compiled(log_sum))
compiled_form_of(log_odds_density)(compiled(log_odds_density))
compiled_form_of(log_share)(compiled(log_share))


def lay_out(
    s: Any, part_a: int, part_b: int, pool: Ints, rest: Ints, n_sample: int, launched: bool, sides: Coins, theta: Floats, work: Floats, rng: Any
) -> int:
    """Two parts of the subsample, the first places of `rest`, in two slots and on two `sides`; returns the size of the first.

    By fair coins; or, `launched`, by scans that look for two clusters, over more points each time, from some that have been seated one after the other.
    """
    for slot in (part_a, part_b):
        clear(s, slot)
    size_a, size_b = 0, 0
    for t in range(min(n_sample, _SEATED_SINGLY) if launched else 0):
        left = t == 0
        if t > 1:
            for side in range(2):
                work[0, side] = math.log(size_b if side else size_a) + log_predictive_raw(s, part_b if side else part_a, pool[rest[t]])
            left = draw_log(work[0], 2, work[1], rng) <= 0
        add(s, part_a if left else part_b, pool[rest[t]])
        size_a, size_b = size_a + (1 if left else 0), size_b + (0 if left else 1)
    if launched:
        for slot in (part_a, part_b):
            derive(s, slot)
    odds = 0.0
    for scan in range(_SCANS if launched else 1):
        if launched:
            for side in range(2):
                draw_parameters(s, part_b if side else part_a, theta[side], rng)
            odds = log_gamma_variate(size_a + 1.0, rng) - log_gamma_variate(size_b + 1.0, rng)
        for slot in (part_a, part_b):
            clear(s, slot)
        size_a, size_b = 0, 0
        for t in range(n_sample if not launched or scan == _SCANS - 1 else min(n_sample, 2 * _SEATED_SINGLY << scan)):
            left = t == 0
            if t > 1 and launched:
                for side in range(2):
                    work[0, side] = (0.0 if side else odds) + log_likelihood(s, theta[side], pool[rest[t]])
                left = draw_log(work[0], 2, work[1], rng) <= 0
            elif t > 1:
                left = draw_below(2, rng) == 0
            gather(s, part_a if left else part_b, pool[rest[t]])
            sides[t] = 0 if left else 1
            size_a, size_b = size_a + (1 if left else 0), size_b + (0 if left else 1)
        for slot in (part_a, part_b):
            settle(s, slot)
            derive(s, slot)
    return size_a


def log_density(
    s: Any, part_a: int, part_b: int, pool: Ints, rest: Ints, n_sample: int, size_a: int, sides: Coins, odds: float, left: Floats, right: Floats
) -> float:
    """log g of the log odds of b and the parameters of both sides, given the two parts of the subsample."""
    a, b = size_a + 1.0, n_sample - size_a + 1.0
    straight = log_likelihood_of(s, left, part_a) + log_likelihood_of(s, right, part_b)
    crossed = log_likelihood_of(s, right, part_a) + log_likelihood_of(s, left, part_b)
    if not (is_finite(straight) and is_finite(crossed)):
        straight, crossed = 0.0, 0.0
        for t in range(n_sample):
            one, other = log_likelihood(s, left, pool[rest[t]]), log_likelihood(s, right, pool[rest[t]])
            straight += one if sides[t] == 0 else other
            crossed += other if sides[t] == 0 else one
    straight += log_odds_density(odds, a, b)
    crossed += log_odds_density(-odds, a, b)
    return log_sum(straight, crossed) - math.log(2.0) - log_marginal(s, part_a) - log_marginal(s, part_b)


def log_mixed(s: Any, odds: float, left: Floats, right: Floats, i: int) -> float:
    """log [b F(x_i; θ_L) + (1−b) F(x_i; θ_R)]."""
    return log_sum(log_share(odds) + log_likelihood(s, left, i), log_share(-odds) + log_likelihood(s, right, i))


def pick_members(members: Ints, begin: Ints, counts: Ints, first: int, second: int, n_wanted: int, rest: Ints, rng: Any) -> int:
    """All members of two slots, or of one, in `rest`, so many of them in random order at its beginning; returns how many there are."""
    n_rest = 0
    for part in range(1 if first == second else 2):
        slot = first if part == 0 else second
        for t in range(begin[slot], begin[slot] + counts[slot]):
            rest[n_rest] = members[t]
            n_rest += 1
    for t in range(min(n_rest - 1, n_wanted)):
        j = t + draw_below(n_rest - t, rng)
        held = rest[t]
        rest[t] = rest[j]
        rest[j] = held
    return n_rest


def screen(
    s: Any, pool: Ints, rest: Ints, n_rest: int, n_sample: int, n_screen: int, n_whole: int, anew: bool, theta: Floats, constant: float, reference: float,
    outcome: Floats,
) -> float:  # fmt: skip
    """log r₁ of a proposal that is to be held against one parameter for all points, which together have the log-likelihood `reference` under it, or, `anew`, against the
    present split. `outcome` has the log odds of both splits in places 0 and 4; place 3 becomes the sum over all points, if the sample has all of them, else not a number.

    Beyond the sample of the subsample the mean of log mixture − log F(x; θ of all), or − log mixture of the present split, is looked at until the answer is clear.
    """
    referring = is_finite(reference)
    reference = reference if referring else 0.0
    mean, squares = 0.0, 0.0
    for t in range(n_screen):
        if t >= _GLANCE and t & (t - 1) == 0 and abs(constant + n_whole * mean + reference) > _CLEAR * n_whole * math.sqrt(squares) / t:
            n_screen = t
            break
        point = pool[rest[t + n_sample if n_sample + n_screen <= n_rest else n_rest - 1 - t]]
        value = log_mixed(s, outcome[0], theta[0], theta[1], point)
        if anew:
            value -= log_mixed(s, outcome[4], theta[3], theta[4], point)
        elif referring:
            value -= log_likelihood(s, theta[2], point)
        gap = value - mean
        mean += gap / (t + 1.0)
        squares += gap * (value - mean)
    estimate = n_whole * mean + reference
    error = 0.0 if n_screen == n_whole else n_whole * math.sqrt(squares / max(1.0, n_screen - 1.0) / n_screen)
    outcome[3] = estimate if n_screen == n_whole else math.nan
    log_r = constant + estimate
    return max(0.0, abs(log_r) - _DOUBT * error) * (1.0 if log_r > 0.0 else -1.0) if is_finite(log_r) else math.nan


for _function in (lay_out, log_density, log_mixed, pick_members, screen):
    compiled_form_of(_function, inline=False)(_function)


@kernel
def propose(
    s: Any,
    temporary: int,
    first_number: int,
    last_number: int,
    queue: Ints,
    passed: Ints,
    ahead: int,
    key: Any,
    pool: Ints,
    sizes: Ints,
    log_concentration: float,
    members: Ints,
    begin: Ints,
    counts: Ints,
    occupied: Ints,
    rest: Ints,
    sides: Coins,
    all_theta: Floats,
    all_outcome: Floats,
    all_slots: Ints,
) -> None:
    """Proposals by their numbers from the queue, below `last_number`; those more than `ahead` of the first that has passed the screen are not begun.

    A proposal's random numbers follow from its number, so whoever makes it gets the same; three slots from `temporary` on, `rest` and `sides` are this thread's own.
    `members` lists the pool's positions slot by slot, from begin[k] on, counts[k] of them. What was found has a row each, from `first_number` on: `slots` has the slot to be
    parted, or to be merged or parted anew with the other (−1 if it has not passed), the kind of proposal, and the size of the subsample, the first places of `rest` with
    their `sides`. `outcome` has the log odds of b, log r₁, log r without its sum over the points of S, that sum if the sample was all of S (else not a number), and the log
    odds of the present split. theta[0], theta[1] are those of left and right; for the present split theta[3], theta[4].
    """
    n_clusters = len(occupied)
    part_a, part_b, whole = temporary, temporary + 1, temporary + 2
    work, source, words = np.empty((2, 2)), np.empty(5, dtype=np.int64), np.empty(4, dtype=np.uint64)
    number: Any = take(queue)
    while number < min(last_number, passed[0] + ahead):
        rng, this, row = stream_of(key, number, words), number, number - first_number
        theta, outcome, slots = all_theta[row], all_outcome[row], all_slots[row]
        number = take(queue)
        kind = draw_below(3, rng)
        chosen = draw_below(n_clusters, rng)
        first: Any = np.int64(occupied[chosen])
        second: Any = first
        if kind != SPLIT:
            if n_clusters == 1:
                continue
            other = draw_below(n_clusters - 1, rng)
            second = np.int64(occupied[other + 1 if other >= chosen else other])
        n_rest = counts[first] + (0 if kind == SPLIT else counts[second])
        n_sample = min(n_rest, _SMALLEST << (2 * draw_below(_SIZES, rng)))
        if n_sample < 2:
            continue
        n_whole = sizes[first] + (0 if kind == SPLIT else sizes[second])
        n_screen = min(n_rest, max(_LOOK, min(_SCREEN, n_whole // _PAYS)))
        pick_members(members, begin, counts, first, second, n_sample + n_screen, rest, rng)
        size_a = lay_out(s, part_a, part_b, pool, rest, n_sample, draw_below(2, rng) == 1, sides, theta, work, rng)

        # weights and parameters: of the new split, of the present one, and of all points together. Each is drawn from a slot, in one place: the code is long
        odds, present = 0.0, 0.0
        for t in range(len(source)):  # assignments to slices take seconds to compile
            source[t] = -1
        if kind != SPLIT:
            present = log_gamma_variate(float(sizes[first]), rng) - log_gamma_variate(float(sizes[second]), rng)
            source[3], source[4] = first, second
        if kind == MERGE:
            odds = present
            clear(s, whole)
            merge(s, whole, first)
            merge(s, whole, second)
            derive(s, whole)
        else:
            swapped = draw_below(2, rng) == 1
            odds = log_gamma_variate(size_a + 1.0, rng) - log_gamma_variate(n_sample - size_a + 1.0, rng)
            odds = -odds if swapped else odds
            source[0], source[1] = part_b if swapped else part_a, part_a if swapped else part_b
        joint: Any = whole if kind == MERGE else first
        source[2] = -1 if kind == ANEW else joint
        for t in range(len(source)):
            if source[t] >= 0:
                draw_parameters(s, source[t], theta[t], rng)
        if kind == MERGE:
            for side in range(2):
                for d in range(theta.shape[1]):
                    theta[side, d] = theta[3 + side, d]
        log_g = log_density(s, part_a, part_b, pool, rest, n_sample, size_a, sides, odds, theta[0], theta[1])
        reference = 0.0
        if kind == ANEW:
            constant = log_density(s, part_a, part_b, pool, rest, n_sample, size_a, sides, present, theta[3], theta[4]) - log_g
        else:
            constant = log_concentration - math.log(n_clusters + (1.0 if kind == SPLIT else 0.0)) - log_marginal(s, joint) - log_g
            reference = log_likelihood_of(s, theta[2], joint)
        outcome[0], outcome[2], outcome[4] = odds, constant, present
        outcome[1] = screen(s, pool, rest, n_rest, n_sample, n_screen, n_whole, kind == ANEW, theta, constant, reference, outcome)
        if is_finite(outcome[1]) and draw_event(-outcome[1] if kind == MERGE else outcome[1], rng):
            slots[0], slots[1], slots[2], slots[3] = first, second, kind, n_sample
            lower(passed, this)


@kernel
def log_mixture(s: Any, labels: Slots, ranges: Ints, base: int, queue: Ints, proposal: Proposal, totals: Floats) -> None:
    """Σ log [b F(x; θ_L) + (1−b) F(x; θ_R)] over the points of two slots, region by region; if they are to be parted anew, minus the same for the present split."""
    first, second, kind, odds, present, theta = proposal
    turn: Any = take(queue)
    while turn < len(ranges):
        begin, end, region = ranges[turn]
        total = 0.0
        for i in range(begin, end):
            if labels[i] == first or labels[i] == second:
                total += log_mixed(s, odds, theta[0], theta[1], i - base)
                if kind == ANEW:
                    total -= log_mixed(s, present, theta[3], theta[4], i - base)
        totals[region] += total
        turn = take(queue)


@kernel
def log_mixture_in_lanes(s: Any, labels: Slots, ranges: Ints, base: int, queue: Ints, proposal: Proposal, totals: Floats) -> None:
    """`log_mixture`, many points at once, for families with few dense features; unless clusters are parted anew, minus Σ log F(x; theta[0])."""
    first, second, kind, odds, present, theta = proposal
    n_rows, n_features = 4 if kind == ANEW else 2, n_coefficients(s)
    coefficients, largest = np.zeros((n_features, 4)), np.zeros(n_features)
    for row in range(n_rows):
        set_coefficients(s, theta[row if row < 2 else row + 1], coefficients, row)
    for f in range(n_features):
        for row in range(n_rows):
            largest[f] = max(largest[f], abs(coefficients[f, row]))
    points, features, scores, size, values = (
        np.empty(LANES, dtype=np.int64),
        np.zeros((n_features, LANES)),
        np.empty((4, LANES)),
        np.empty(LANES),
        np.empty(LANES),
    )
    log_left, log_right, log_first, log_second = log_share(odds), log_share(-odds), log_share(present), log_share(-present)
    turn: Any = take(queue)
    while turn < len(ranges):
        begin, end, region = ranges[turn]
        total, waiting = 0.0, 0
        for i in range(begin, end):
            if labels[i] == first or labels[i] == second:
                points[waiting] = i
                waiting += 1
            if waiting == LANES or (i == end - 1 and waiting > 0):
                fill_features(s, points, base, waiting, features)
                for row in range(n_rows):
                    for t in range(LANES):
                        scores[row, t] = 0.0
                    for f in range(n_features):
                        slope = coefficients[f, row]
                        for t in range(LANES):
                            scores[row, t] += slope * features[f, t]
                for t in range(LANES):
                    size[t] = 0.0
                for f in range(n_features):
                    for t in range(LANES):
                        size[t] += largest[f] * abs(features[f, t])
                for t in range(LANES):
                    values[t] = log_sum(log_left, log_right + scores[1, t] - scores[0, t])
                if kind == ANEW:
                    for t in range(LANES):
                        values[t] -= log_sum(log_first + scores[2, t] - scores[0, t], log_second + scores[3, t] - scores[0, t])
                for t in range(waiting):
                    if size[t] > _FAR:  # products of features with coefficients have lost digits
                        point = points[t] - base
                        values[t] = log_mixed(s, odds, theta[0], theta[1], point)
                        values[t] -= log_mixed(s, present, theta[3], theta[4], point) if kind == ANEW else log_likelihood(s, theta[0], point)
                    total += values[t]
                waiting = 0
        totals[region] += total
        turn = take(queue)


@kernel
def log_likelihood_of_slot(s: Any, theta: Floats, k: int) -> float:
    """Σ log F(x; θ) over the points of a slot, or not a number."""
    return log_likelihood_of(s, theta, k)


@kernel
def part(
    s: Any,
    parts: Any,
    labels: Slots,
    ranges: Ints,
    base: int,
    queue: Ints,
    capacity: int,
    granule: int,
    first: int,
    second: int,
    trying: bool,
    odds: float,
    theta: Floats,
    key: Any,
    n_right: Ints,
) -> None:
    """The points of two slots, the second of which may be empty, draw one of them, left or right; both gather theirs in `parts`. n_right[region] counts those on the right.

    `trying`: they are only counted.
    """
    words = np.empty(4, dtype=np.uint64)
    turn: Any = take(queue)
    while turn < len(ranges):
        begin, end, region = ranges[turn]
        for g in range(begin // granule, (end + granule - 1) // granule):
            seek(key, g, words)
            for i in range(max(begin, g * granule), min(end, (g + 1) * granule)):
                if labels[i] == first or labels[i] == second:
                    gap = log_likelihood(s, theta[1], i - base) - odds - log_likelihood(s, theta[0], i - base)
                    slot = second if math.log(1.0 / uniform(words) - 1.0) < gap else first
                    n_right[region] += 1 if slot == second else 0
                    if not trying:
                        labels[i] = slot
                        gather(parts, region * capacity + slot, i - base)
        turn = take(queue)
