"""The loops over points of `maitre.moves.labels`, compiled: points of the ranges that a thread takes from the queue (`maitre.states.regions`) redraw their labels, or are
counted. What is found goes to the range's own row of arrays, so it does not matter who takes which.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maitre.families.statistics import (
    dense_features,
    draw_parameters,
    fill_features,
    gather,
    gather_run,
    log_likelihood,
    n_coefficients,
    n_parameters,
    score_all,
    set_coefficients,
)
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled, compiled_form_of, kernel
from maitre.numerics.draw import Branching, draw_event, draw_log, pick_log
from maitre.numerics.lanes import BATCH, LANES, NEGLIGIBLE, PANEL, RUN_ROWS, Singles, choose_lanes, score_lanes
from maitre.numerics.queue import take
from maitre.numerics.rng import RngState, log_gamma_variate, next_bits, seek, uniform
from maitre.states.regions import SLOTS_TOGETHER

Coins = npt.NDArray[np.uint8]


class Active(NamedTuple):
    """Which points redraw their labels: those of the granules whose coin shows `side`; and whether they do so by slices. `capacity` is that of a region."""

    capacity: int
    granule: int
    coins: Coins
    side: int
    slicing: bool


class Choices(NamedTuple):
    """What points choose from: slots (and the other way round, −1 for those that are none), with log weights and parameters."""

    atom_of: Slots
    slot_of: Slots
    log_weights: Floats
    theta: Floats
    a: Floats  # coefficients of the points' features, a column each
    coefficients: Singles  # the same in single precision, with those of the weights, a row each
    largest: Singles  # of each feature


def key_of(rng: Any) -> Any:
    """A key from which streams with numbers follow."""
    return rng if isinstance(rng, Branching) else np.array([next_bits(rng) for _ in range(4)], dtype=np.uint64)


def stream_of(key: Any, number: int, words: RngState) -> Any:
    """The random stream of a granule, or of whatever has a number, in `words`."""
    if isinstance(key, Branching):
        return key
    seek(key, number, words)
    return words


@compiled_form_of(stream_of)
def _stream_of(key: Any, number: int, words: RngState) -> Any:
    seek(key, number, words)
    return words


def draw_reach(log_weights: Floats, n: int, own: int, rng: Any) -> int:
    """How many of the n weights, in falling order, exceed u ~ U(0, weight of `own`)."""
    if isinstance(rng, Branching):
        steps = np.exp(log_weights[own:n]) - np.append(np.exp(log_weights[own + 1 : n]), 0.0)
        return own + 1 + rng.choose(steps / steps.sum())
    return int(_draw_reach(log_weights, n, own, rng))


@compiled_form_of(draw_reach)
@compiled
def _draw_reach(log_weights: Floats, n: int, own: int, rng: Any) -> int:
    height = log_weights[own] + math.log(uniform(rng))
    low, high = own + 1, n  # the first `low` exceed u, whatever rounding says; those from `high` on do not
    while low < high:
        middle = (low + high) // 2
        if log_weights[middle] > height:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def instantiate(s: Any, sizes: Ints, concentration: float, log_weights: Floats, theta: Floats, rng: Any) -> float:
    """Weights and parameters of every occupied slot given the partition; returns log w_*."""
    rest = log_gamma_variate(concentration, rng)
    highest = rest
    for k in range(len(sizes)):
        if sizes[k] > 0:
            log_weights[k] = log_gamma_variate(float(sizes[k]), rng)
            highest = max(highest, log_weights[k])
            draw_parameters(s, k, theta[k], rng)
    total = math.exp(rest - highest)
    for k in range(len(sizes)):
        if sizes[k] > 0:
            total += math.exp(log_weights[k] - highest)
    for k in range(len(sizes)):
        if sizes[k] > 0:
            log_weights[k] -= highest + math.log(total)
    return rest - highest - math.log(total)


@kernel
def dimensions(s: Any) -> tuple[int, int, bool]:
    """Numbers of parameters and of coefficients of a cluster, and whether features are dense."""
    return n_parameters(s), n_coefficients(s), dense_features(s)


@kernel
def fill_coefficients(s: Any, slots: Ints, theta: Floats, a: Floats, queue: Ints) -> None:
    """a[:, k] from theta[k] for the slots that are left in the queue."""
    first: Any = SLOTS_TOGETHER * take(queue)
    while first < len(slots):
        for k in slots[first : first + SLOTS_TOGETHER]:
            set_coefficients(s, theta[k], a, k)
        first = SLOTS_TOGETHER * take(queue)


@kernel
def new_parameters(s: Any, empty: int, theta: Floats, rng: Any) -> None:
    """Every row of theta from the base measure; `empty` is a slot without points."""
    for k in range(len(theta)):
        draw_parameters(s, empty, theta[k], rng)


@kernel
def redraw_simply(
    s: Any, parts: Any, labels: Slots, ranges: Ints, base: int, queue: Ints, active: Active, choices: Choices, keys: Any, counts: Ints, outcome: Ints
) -> None:
    """The active points redraw their labels; point i is i − base in the statistics. In double precision, one by one.

    Points of slots that are no choice stay. Unless `slicing`, all of them are gathered in the slots of `parts`, region by region; counted they are either way. outcome[r] is
    a point of region r without a finite score, or −1, and how often single precision was not enough. `keys` are those of slices and of choices.
    """
    (capacity, granule, coins, side, slicing), (slice_key, key) = active, keys
    atom_of, slot_of, log_weights, theta, a = choices.atom_of, choices.slot_of, choices.log_weights, choices.theta, choices.a
    n_atoms = len(slot_of)
    weights, scratch = np.empty(n_atoms), np.empty(n_atoms)
    words, slice_words = np.empty(4, dtype=np.uint64), np.empty(4, dtype=np.uint64)
    turn: Any = take(queue)
    while turn < len(ranges):
        begin, end, region = ranges[turn]
        for g in range(begin // granule, (end + granule - 1) // granule):
            if coins[g] != side:
                continue
            rng, slice_rng = stream_of(key, g, words), stream_of(slice_key, g, slice_words)
            for i in range(max(begin, g * granule), min(end, (g + 1) * granule)):
                own = atom_of[labels[i]]
                if own >= 0:
                    reach = draw_reach(log_weights, n_atoms, own, slice_rng) if slicing else n_atoms
                    for k in range(reach):
                        weights[k] = 0.0 if slicing else log_weights[k]
                    score_all(s, theta, a, i - base, reach, weights)
                    chosen = draw_log(weights, reach, scratch, rng)
                    if chosen < 0:
                        outcome[region, 0] = i
                        return
                    labels[i] = slot_of[chosen]
                counts[region, labels[i]] += 1
                if not slicing:
                    gather(parts, region * capacity + np.int64(labels[i]), i - base)
        turn = take(queue)


def gather_sorted(parts: Any, offset: int, labels: Slots, points: Ints, n: int, base: int, counts: Ints, starts: Ints, order: Ints, room: Floats) -> None:
    """The first n of the points are counted and gathered in the slots of their labels from `offset` on, those of one slot after the other."""
    n_labels = len(starts) - 1
    for k in range(n_labels + 1):
        starts[k] = 0
    for t in range(n):
        starts[np.int64(labels[points[t]]) + 1] += 1
    for k in range(n_labels):
        counts[k] += starts[k + 1]
        starts[k + 1] += starts[k]
    for t in range(n):
        slot = np.int64(labels[points[t]])
        order[starts[slot]] = points[t]
        starts[slot] += 1
    from_here = 0
    for k in range(n_labels):
        if starts[k] > from_here:
            gather_run(parts, offset + k, order, from_here, starts[k], base, room)
            from_here = starts[k]


def choose_exactly(
    s: Any,
    point: int,
    n_choices: int,
    slicing: bool,
    log_weights: Floats,
    theta: Floats,
    scores: Singles,
    lane: int,
    lowest: float,
    target: float,
    room: Floats,
) -> int:
    """The choice of a point in double precision, among those whose score is at least `lowest` in single precision; −1 if there is none."""
    n, candidates, weights = 0, room[0], room[1]
    for j in range(n_choices):
        if scores[j, lane] >= lowest:
            candidates[n] = j
            weights[n] = (0.0 if slicing else log_weights[j]) + log_likelihood(s, theta[j], point)
            n += 1
    found = pick_log(weights, n, room[2], target)
    choice: Any = -1 if found < 0 else np.int64(candidates[found])
    return choice  # type: ignore[no-any-return]


for _function in (gather_sorted, choose_exactly):
    compiled_form_of(_function, inline=False)(_function)


@kernel
def redraw_in_lanes(
    s: Any, parts: Any, labels: Slots, ranges: Ints, base: int, queue: Ints, active: Active, choices: Choices, keys: Any, counts: Ints, outcome: Ints
) -> None:
    """`redraw_simply`, many points at once, for families with dense features. The labels are the same."""
    (capacity, granule, coins, side, slicing), (slice_key, key) = active, keys
    atom_of, slot_of, log_weights, theta, _, coefficients, largest = choices
    n_atoms, n_features = len(slot_of), len(largest)
    features, scores, sums, work = (
        np.ones((LANES // PANEL, n_features, PANEL), dtype=np.float32),  # the last of them stays 1
        np.empty((len(coefficients), LANES), dtype=np.float32),
        np.empty((n_atoms, LANES), dtype=np.float32),
        np.empty((5, LANES), dtype=np.float32),
    )
    error, u = np.empty(LANES, dtype=np.float32), np.zeros(BATCH, dtype=np.float32)
    reach, chosen, near = np.ones(BATCH, dtype=np.int32), np.empty(LANES, dtype=np.int32), np.empty(LANES, dtype=np.int32)
    points, order, targets, stays = np.empty(BATCH, dtype=np.int64), np.empty(BATCH, dtype=np.int64), np.empty(BATCH), np.zeros(BATCH, dtype=np.bool_)
    starts, room, exact_room = np.zeros(len(atom_of) + 1, dtype=np.int64), np.empty((RUN_ROWS, BATCH)), np.empty((3, n_atoms))
    words, slice_words = np.empty(4, dtype=np.uint64), np.empty(4, dtype=np.uint64)
    turn: Any = take(queue)
    while turn < len(ranges):
        begin, end, region = ranges[turn]
        g, last, i, stop = begin // granule - 1, (end + granule - 1) // granule - 1, 0, 0
        while True:
            waiting, furthest = 0, 1
            while waiting < BATCH:
                if i == stop:
                    g += 1
                    if g > last:
                        break
                    if coins[g] == side:
                        seek(key, g, words)
                        if slicing:
                            seek(slice_key, g, slice_words)
                        i, stop = max(begin, g * granule), min(end, (g + 1) * granule)
                    continue
                until = min(stop, i + BATCH - waiting)
                for point in range(i, until):
                    own: Any = np.int64(atom_of[labels[point]])
                    if own >= 0 or not slicing:  # points that stay take a lane as well: there are few
                        points[waiting] = point
                        stays[waiting] = own < 0
                        if own >= 0:
                            if slicing:
                                reaching = draw_reach(log_weights, n_atoms, own, slice_words)
                                reach[waiting], furthest = reaching, max(furthest, reaching)
                            targets[waiting] = uniform(words)
                            u[waiting] = targets[waiting]
                        waiting += 1
                i = until
            if waiting == 0:
                break
            n_choices = furthest if slicing else n_atoms
            for first in range(0, waiting if n_choices > 0 else 0, LANES):
                lanes, count = points[first : first + LANES], min(LANES, waiting - first)
                for panel in range(0, count, PANEL):
                    fill_features(s, lanes[panel:], base, min(PANEL, count - panel), features[panel // PANEL])
                score_lanes(coefficients, features, largest, n_choices, scores, error)
                n_near = choose_lanes(scores, n_choices, reach[first:], slicing, u[first:], error, work, sums, chosen, near)
                if n_near > 0:
                    for t in range(count):
                        if near[t] != 0 and not stays[first + t]:
                            outcome[region, 1] += 1
                            allowed: Any = np.int64(reach[first + t]) if slicing else n_atoms
                            lowest = -math.inf if error[t] > 20.0 else float(work[0, t] - np.float32(NEGLIGIBLE) - np.float32(2.0) * error[t])
                            found = choose_exactly(s, lanes[t] - base, allowed, slicing, log_weights, theta, scores, t, lowest, targets[first + t], exact_room)
                            if found < 0:
                                outcome[region, 0] = lanes[t]
                                return
                            chosen[t] = found
                for t in range(count):
                    if not stays[first + t]:
                        labels[lanes[t]] = slot_of[np.int64(chosen[t])]
            if slicing:
                for t in range(waiting):
                    counts[region, labels[points[t]]] += 1
            else:
                gather_sorted(parts, region * capacity, labels, points, waiting, base, counts[region], starts, order, room)
        turn = take(queue)


@kernel
def lowest_slice(
    s: Any, labels: Slots, ranges: Ints, queue: Ints, granule: int, coins: Coins, side: int, log_weights: Floats, slice_key: Any, lowest: Floats, counts: Ints
) -> None:
    """min log u_i over the points of the granules on one side, and how many of them each label has, region by region."""
    words = np.empty(4, dtype=np.uint64)
    turn: Any = take(queue)
    while turn < len(ranges):
        begin, end, region = ranges[turn]
        for g in range(begin // granule, (end + granule - 1) // granule):
            if coins[g] == side:
                rng = stream_of(slice_key, g, words)
                for i in range(max(begin, g * granule), min(end, (g + 1) * granule)):
                    lowest[region] = min(lowest[region], log_weights[labels[i]] + math.log(uniform(rng)))
                    counts[region, labels[i]] += 1
        turn = take(queue)


def count_on_side(labels: Slots, ranges: Ints, queue: Ints, granule: int, coins: Coins, side: int, counts: Ints) -> None:
    """counts[region, label] of the points of the granules on one side; in four rows, as a sum that is wanted at once makes the next wait."""
    rows = np.zeros((4, counts.shape[1]), dtype=np.int64)
    turn: Any = take(queue)
    while turn < len(ranges):
        begin, end, region = ranges[turn]
        rows[:] = 0
        for g in range(begin // granule, (end + granule - 1) // granule):
            if coins[g] == side:
                for i in range(max(begin, g * granule), min(end, (g + 1) * granule)):
                    rows[i & 3, labels[i]] += 1
        for k in range(counts.shape[1]):
            counts[region, k] = rows[0, k] + rows[1, k] + rows[2, k] + rows[3, k]
        turn = take(queue)


def rename(labels: Slots, names: Slots) -> None:
    """labels[i] = names[labels[i]]."""
    for i in range(len(labels)):
        labels[i] = names[labels[i]]


def toss(coins: Coins, log_share: float, rng: Any) -> None:
    """1 with the given probability, else 0."""
    for g in range(len(coins)):
        coins[g] = 1 if draw_event(log_share, rng) else 0


run_count_on_side, run_rename, run_toss = compiled(count_on_side), compiled(rename), compiled(toss)
