"""Split and merge proposals in which labels cancel, for clusters of any size.

A split of cluster S draws a weight b and two parameters θ_L, θ_R, and only then the members' labels, each on the left with probability b F(x; θ_L) against (1−b) F(x; θ_R).
The merge of L and R draws b ~ Beta(n_L, n_R) and the parameters from their posteriors given L and given R. With labels, weight and parameters in both densities, all
that depends on the labels cancels from the Metropolis–Hastings ratio. That of the split of one of K clusters, chosen uniformly as are the pairs to merge, is

    r = α / ((K+1) b (1−b)) · ∏_{x∈S} [b F(x; θ_L) + (1−b) F(x; θ_R)] / p(x_S) / g(b, θ_L, θ_R),

with g the proposal's density of (b, θ_L, θ_R) relative to the base measure (g b (1−b) is that of the log odds of b, in which weights are kept). It is built from a random subsample of S in two parts A and B, made from S and fresh random
numbers only (by random halves, or by a few scans that look for two clusters), never from the present split:

    g = ½ Σ over both ways round of  Beta(b; |A|+1, |B|+1) F(x_A; θ_L) F(x_B; θ_R) / (p(x_A) p(x_B)).

A proposal that misses costs nothing per point, as the density of a launch state does: merges of large clusters are accepted.

Two clusters may also be *parted anew*: merged, and their union split, without a stop in between. The ratio is r of the new split over r of the present one, with the
same A and B in both, so all but mixtures and g cancels. Three clusters that cover two groups of points come apart in this way where no merge of two of them is any good.

Most proposals are hopeless, which a sample
of S tells. It estimates log r as e with standard error σ, against one explicit parameter for all of S, and a first coin is tossed with log r₁ = sign(e) max(0, |e| − cσ);
those that pass are decided by all points with r/r₁ (delayed acceptance; Christen & Fox 2005). The reverse move would have r₁ inverted, so both together are exact.
"""

from __future__ import annotations

import math
from typing import Any

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
from maitre.model import pool_of
from maitre.moves.base import Report
from maitre.moves.labels import LabelStep, dimensions, key_of
from maitre.moves.pairs import fill_members, list_members
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled, compiled_form_of, kernel
from maitre.numerics.draw import draw_below, draw_event, draw_log
from maitre.numerics.elementary import fast_exp, fast_log, is_finite
from maitre.numerics.lanes import LANES
from maitre.numerics.rng import RngState, log_gamma_variate, seek, uniform
from maitre.states.mixture import MixtureState, first_empty
from maitre.states.regions import Piece

_GLANCE, _LOOK, _SCREEN = 64, 512, 4096  # points that a proposal is screened with: few if these are clear, and no more than pays
_PAYS = 64  # times as many points as the screen looks at
_DOUBT = 3.0  # standard errors that the screen gives a proposal
_CLEAR = 10.0  # standard errors that need no closer look
_SMALLEST, _SIZES = 64, 5  # subsamples have 64, 256, 1024, 4096 or 16384 points, or all there are
_SEATED_SINGLY = 32  # of these, one after the other; then scans go over twice as many, four times as many, …
_SCANS = 6
_TEMPORARY_SLOTS = 4
SPLIT, MERGE, ANEW = 0, 1, 2  # kinds of proposals
_FAR = 1e8  # nats, in the sum of the sizes of products, beyond which a score is not made of them
_FEW_FEATURES = 16  # up to which points are examined many at once
_COST = 4 * _SCREEN  # evaluations of a proposal, about


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


def lay_out(s: Any, part_a: int, part_b: int, pool: Ints, rest: Ints, n_sample: int, launched: bool, sides: Ints, theta: Floats, work: Floats, rng: Any) -> int:
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
    s: Any, part_a: int, part_b: int, pool: Ints, rest: Ints, n_sample: int, size_a: int, sides: Ints, odds: float, left: Floats, right: Floats
) -> float:
    """log g of the log odds of b and the parameters of both sides, given the two parts of the subsample."""
    a, b = size_a + 1.0, n_sample - size_a + 1.0
    straight, crossed = log_odds_density(odds, a, b), log_odds_density(-odds, a, b)
    for t in range(n_sample):
        one, other = log_likelihood(s, left, pool[rest[t]]), log_likelihood(s, right, pool[rest[t]])
        straight += one if sides[t] == 0 else other
        crossed += other if sides[t] == 0 else one
    return log_sum(straight, crossed) - math.log(2.0) - log_marginal(s, part_a) - log_marginal(s, part_b)


def log_mixed(s: Any, odds: float, left: Floats, right: Floats, i: int) -> float:
    """log [b F(x_i; θ_L) + (1−b) F(x_i; θ_R)]."""
    return log_sum(log_share(odds) + log_likelihood(s, left, i), log_share(-odds) + log_likelihood(s, right, i))


for _function in (lay_out, log_density, log_mixed):
    compiled_form_of(_function, inline=False)(_function)


@kernel
def propose(
    s: Any,
    proposals: int,
    pool: Ints,
    sizes: Ints,
    log_concentration: float,
    members: Ints,
    begin: Ints,
    counts: Ints,
    occupied: Ints,
    rest: Ints,
    sides: Ints,
    theta: Floats,
    outcome: Floats,
    slots: Ints,
    rng: Any,
) -> int:
    """Proposals until one has passed the screen; returns how many were made.

    `members` lists the pool's positions slot by slot, from begin[k] on, counts[k] of them. If one has passed, `slots` has the slot to be parted, or to be merged or parted
    anew with the other, the kind of proposal, and the size of the subsample, the first places of `rest` with their `sides` (else −1 in its first place). `outcome` has the
    log odds of b, log r₁, log r without its sum over the points of S, that sum if the sample was all of S (else not a number), and the log odds of the present split.
    theta[0], theta[1] are those of left and right; for the present split theta[3], theta[4].
    """
    n_clusters = len(occupied)
    part_a = first_empty(sizes, 0)
    part_b = first_empty(sizes, part_a + 1)
    whole = first_empty(sizes, part_b + 1)
    work, source = np.empty((2, 2)), np.empty(5, dtype=np.int64)
    slots[0] = -1
    made = 0
    while made < proposals:
        made += 1
        kind = draw_below(3, rng)
        chosen = draw_below(n_clusters, rng)
        first: Any = np.int64(occupied[chosen])
        second: Any = first
        if kind != SPLIT:
            if n_clusters == 1:
                continue
            other = draw_below(n_clusters - 1, rng)
            second = np.int64(occupied[other + 1 if other >= chosen else other])
        n_rest = 0
        for part in range(1 if kind == SPLIT else 2):
            slot = first if part == 0 else second
            for t in range(begin[slot], begin[slot] + counts[slot]):
                rest[n_rest] = members[t]
                n_rest += 1
        n_sample = min(n_rest, _SMALLEST << (2 * draw_below(_SIZES, rng)))
        if n_sample < 2:
            continue
        n_whole = sizes[first] + (0 if kind == SPLIT else sizes[second])
        n_screen = min(n_rest, max(_LOOK, min(_SCREEN, n_whole // _PAYS)))
        for t in range(min(n_rest - 1, n_sample + n_screen)):
            j = t + draw_below(n_rest - t, rng)
            held = rest[t]
            rest[t] = rest[j]
            rest[j] = held
        size_a = lay_out(s, part_a, part_b, pool, rest, n_sample, draw_below(2, rng) == 1, sides, theta, work, rng)

        # weights and parameters: of the new split, of the present one, and of all points together. Each is drawn from a slot, in one place: the code is long
        odds, present = 0.0, 0.0
        for row in range(len(source)):  # assignments to slices take seconds to compile
            source[row] = -1
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
        for row in range(len(source)):
            if source[row] >= 0:
                draw_parameters(s, source[row], theta[row], rng)
        if kind == MERGE:
            for side in range(2):
                for d in range(theta.shape[1]):
                    theta[side, d] = theta[3 + side, d]
        log_g = log_density(s, part_a, part_b, pool, rest, n_sample, size_a, sides, odds, theta[0], theta[1])
        total_of_reference = 0.0
        if kind == ANEW:
            constant = log_density(s, part_a, part_b, pool, rest, n_sample, size_a, sides, present, theta[3], theta[4]) - log_g
        else:
            constant = log_concentration - math.log(n_clusters + (1.0 if kind == SPLIT else 0.0)) - log_marginal(s, joint) - log_g
            total_of_reference = log_likelihood_of(s, theta[2], joint)

        # the screen: the mean over a sample of log mixture − log F(x; θ of all), or − log mixture of the present split
        referring = is_finite(total_of_reference)
        total_of_reference = total_of_reference if referring else 0.0
        mean, squares = 0.0, 0.0
        for t in range(n_screen):
            if t in (_GLANCE, _LOOK) and abs(constant + n_whole * mean + total_of_reference) > _CLEAR * n_whole * math.sqrt(squares) / t:
                n_screen = t
                break
            point = pool[rest[t + n_sample if n_sample + n_screen <= n_rest else n_rest - 1 - t]]
            value = log_mixed(s, odds, theta[0], theta[1], point)
            if kind == ANEW:
                value -= log_mixed(s, present, theta[3], theta[4], point)
            elif referring:
                value -= log_likelihood(s, theta[2], point)
            gap = value - mean
            mean += gap / (t + 1.0)
            squares += gap * (value - mean)
        complete = n_screen == n_whole
        estimate = n_whole * mean + total_of_reference
        error = 0.0 if complete else n_whole * math.sqrt(squares / max(1.0, n_screen - 1.0) / n_screen)
        log_r = constant + estimate
        first_stage = max(0.0, abs(log_r) - _DOUBT * error) * (1.0 if log_r > 0.0 else -1.0)
        if is_finite(log_r) and draw_event(-first_stage if kind == MERGE else first_stage, rng):
            slots[0], slots[1], slots[2], slots[3] = first, second, kind, n_sample
            outcome[0], outcome[1], outcome[2], outcome[4] = odds, first_stage, constant, present
            outcome[3] = estimate if complete else math.nan
            break
    for slot in (part_a, part_b, whole):
        clear(s, slot)
        derive(s, slot)
    return made


@kernel
def log_mixture(
    s: Any, labels: Slots, begin: int, end: int, base: int, first: int, second: int, kind: int, odds: float, present: float, theta: Floats
) -> float:
    """Σ log [b F(x; θ_L) + (1−b) F(x; θ_R)] over the points of two slots; if they are to be parted anew, minus the same for the present split."""
    total = 0.0
    for i in range(begin, end):
        if labels[i] == first or labels[i] == second:
            total += log_mixed(s, odds, theta[0], theta[1], i - base)
            if kind == ANEW:
                total -= log_mixed(s, present, theta[3], theta[4], i - base)
    return total


@kernel
def log_mixture_in_lanes(
    s: Any, labels: Slots, begin: int, end: int, base: int, first: int, second: int, kind: int, odds: float, present: float, theta: Floats
) -> float:
    """`log_mixture`, many points at once, for families with few dense features; unless clusters are parted anew, minus Σ log F(x; theta[0])."""
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
    return total


@kernel
def log_likelihood_of_slot(s: Any, theta: Floats, k: int) -> float:
    """Σ log F(x; θ) over the points of a slot, or not a number."""
    return log_likelihood_of(s, theta, k)


@kernel
def part(
    s: Any,
    parts: Any,
    offset: int,
    labels: Slots,
    begin: int,
    end: int,
    base: int,
    granule: int,
    first: int,
    second: int,
    trying: bool,
    odds: float,
    theta: Floats,
    key: Any,
) -> int:
    """The points of two slots, the second of which may be empty, draw one of them, left or right; both gather theirs in `parts`. Returns how many go to the right.

    `trying`: they are only counted.
    """
    words = np.empty(4, dtype=np.uint64)
    n_right = 0
    for g in range(begin // granule, (end + granule - 1) // granule):
        seek(key, g, words)
        for i in range(max(begin, g * granule), min(end, (g + 1) * granule)):
            if labels[i] == first or labels[i] == second:
                gap = log_likelihood(s, theta[1], i - base) - odds - log_likelihood(s, theta[0], i - base)
                slot = second if math.log(1.0 / uniform(words) - 1.0) < gap else first
                n_right += 1 if slot == second else 0
                if not trying:
                    labels[i] = slot
                    gather(parts, offset + slot, i - base)
    return n_right


class LabelFree:
    """Split and merge proposals on a state, one after the other; those that pass the screen look at all points, in parallel."""

    def __init__(self, state: MixtureState) -> None:
        self.state, self.passes = state, LabelStep(state)
        self.pool = pool_of(state.model.n) if state.model.pool is None else state.model.pool
        self.local = self.pool if state.model.in_memory else np.arange(len(self.pool))  # their numbers in the statistics
        n_numbers, n_features, dense = state.run(dimensions)
        self.theta = np.zeros((5, n_numbers))
        self.in_lanes = state.compiled and dense and n_features <= _FEW_FEATURES
        self.examined = 0

    def propose(self, proposals: int, rng: RngState) -> Report:
        """So many proposals."""
        state, made, accepted = self.state, 0, 0
        n = len(self.pool)
        rest, members, sides = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        outcome, slots = np.empty(5), np.empty(4, dtype=np.int64)
        fresh = True
        while made < proposals:
            if np.count_nonzero(state.sizes == 0) < _TEMPORARY_SLOTS:
                state.make_room()
                self.passes = LabelStep(state)
                fresh = True
            if fresh:
                of_pool = state.labels[self.pool]
                counts, begin = np.bincount(of_pool, minlength=state.capacity), np.empty(state.capacity, dtype=np.int64)
                (list_members if state.compiled else fill_members)(of_pool, counts, members, begin)
                occupied = np.flatnonzero(state.sizes)
                fresh = False
            arrays = (self.local, state.sizes, math.log(float(state.prior.concentration)), members, begin, counts, occupied)
            made += int(state.run(propose, proposals - made, *arrays, rest, sides, self.theta, outcome, slots, rng))
            if slots[0] >= 0:
                fresh = self._decide(slots, outcome, rng)
                accepted += fresh
        return Report(_COST * proposals, proposals, accepted)

    def _decide(self, slots: Ints, outcome: Floats, rng: RngState) -> bool:
        """The second stage for a proposal that has passed the screen; true if the state has been changed."""
        state, (first, second, kind, _) = self.state, (int(slot) for slot in slots)
        odds, first_stage, log_r, exact_sum, present = (float(value) for value in outcome)
        if math.isnan(exact_sum):
            self.examined += 1
            sums = self._log_mixture(first, second, kind, odds, present)
            gain = log_r + math.fsum(sums) - first_stage
            if not (math.isfinite(gain) and draw_event(-gain if kind == MERGE else gain, rng)):
                return False
        if kind == MERGE:
            state.join(first, second)
            return True
        right, key, regions = int(state.occupancy[2]) if kind == SPLIT else second, key_of(rng), self.passes.regions
        n_points = int(state.sizes[first] + state.sizes[right])

        def parted(trying: bool) -> int:
            def task(run: Any, piece: Piece, region: int) -> int:
                where = (regions.writer(piece), region * regions.capacity, state.labels, *piece[2:], self.passes.granule, first, right)
                return int(run(part, *where, trying, odds, self.theta, key))

            return sum(self._over_pieces(task, first, right))

        if kind == ANEW and parted(trying=True) in (0, n_points):
            return False
        regions.clear(state, (first, right))
        n_right = parted(trying=False)
        sizes = state.sizes.copy()
        sizes[first], sizes[right] = n_points - n_right, n_right
        regions.hand_over(state, sizes, (first, right))
        return True

    def _log_mixture(self, first: int, second: int, kind: int, odds: float, present: float) -> list[float]:
        """What all points say of a proposal, in parts that add up."""
        state, numbers, parts = self.state, (first, second, kind, odds, present, self.theta), list[float]()
        if self.in_lanes and kind != ANEW:
            slots = (first,) if kind == SPLIT else (first, second)
            parts = [float(state.run(log_likelihood_of_slot, self.theta[0], slot)) for slot in slots]
        in_lanes = self.in_lanes and all(map(math.isfinite, parts))
        of_pieces = log_mixture_in_lanes if in_lanes else log_mixture
        return [*(parts if in_lanes else ()), *self._over_pieces(lambda run, piece, _: run(of_pieces, state.labels, *piece[2:], *numbers), first, second)]

    def _over_pieces(self, task: Any, *clusters: int) -> list[Any]:
        """The results of task(run, piece, region) for all points of two clusters, region by region; `run` runs a kernel on the piece's statistics."""
        state, regions, first, second = self.state, self.passes.regions, *clusters

        def present(begin: int, end: int) -> bool:
            here = state.labels[begin:end]
            return bool(((here == first) | (here == second)).any())

        def run(region: int) -> list[Any]:
            results = []
            for piece in state.pieces(regions.ranges[region], present):
                results.append(
                    task(lambda function, *arguments, s=piece.statistics: (function if state.compiled else function.python)(s, *arguments), piece, region)
                )
            return results

        return [result for several in state.engine.map(run, range(regions.n_regions)) for result in several]
