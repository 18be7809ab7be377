"""All points' labels redrawn at once, given explicit weights and parameters: the steps that parallelise over points.

Given a partition with clusters of sizes n_1, …, n_K under a Dirichlet process, weights and parameters are drawn from their conditional law

    (w_1, …, w_K, w_*) ~ Dirichlet(n_1, …, n_K, α),    θ_k ~ p(θ | x_k),

under which the labels have the law ∝ ∏_i w_{z_i} F(x_i; θ_{z_i}) on those assignments that leave no cluster empty; w_* is the mass of all clusters that nobody is in.
Labels that are drawn independently could empty a cluster, for which there is no way back. Two steps that respect this, and leave the posterior invariant:

- *Half by half.* Granules of points are put into two halves by fair coins. For each half in turn, a cluster is *open* if the other half has a member in it. The points of
  open clusters redraw their labels among the open clusters, all others stay: no cluster can become empty, and which are open does not change, so this is a Gibbs draw.
- *Slices* (Walker 2007; Ge et al. 2015). u_i ~ U(0, w_{z_i}); the remaining mass is broken into clusters with parameters from the base measure until what is left is
  below every u_i; then each point draws z_i ∝ F(x_i; θ_k) among the clusters with w_k > u_i. Here clusters may be born and become empty. It may be done for some granules
  chosen without looking at the state, all other points staying.

Weights and parameters stay valid from one step to the next; afterwards they are forgotten, so that between moves the state is the partition alone. Random numbers of a
granule follow from its number: whoever does it gets the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

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
from maitre.moves.gibbs import NOT_A_NUMBER
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled, compiled_form_of, kernel
from maitre.numerics.draw import Branching, draw_event, draw_log, pick_log
from maitre.numerics.lanes import BATCH, LANES, NEGLIGIBLE, PANEL, RUN_ROWS, Singles, choose_lanes, in_tiles, score_lanes
from maitre.numerics.rng import RngState, beta, log_gamma_variate, next_bits, seek, uniform
from maitre.states.mixture import MixtureState

Coins = npt.NDArray[np.uint8]


def key_of(rng: Any) -> Any:
    """A key from which the streams of all granules follow."""
    return rng if isinstance(rng, Branching) else np.array([next_bits(rng) for _ in range(4)], dtype=np.uint64)


def granule_stream(key: Any, granule: int, words: RngState) -> Any:
    """The random stream of a granule, in `words`."""
    if isinstance(key, Branching):
        return key
    seek(key, granule, words)
    return words


@compiled_form_of(granule_stream)
def _granule_stream(key: Any, granule: int, words: RngState) -> Any:
    seek(key, granule, words)
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
def fill_coefficients(s: Any, slots: Ints, theta: Floats, a: Floats) -> None:
    """a[:, k] from theta[k] for some slots."""
    for k in slots:
        set_coefficients(s, theta[k], a, k)


@kernel
def new_parameters(s: Any, empty: int, theta: Floats, rng: Any) -> None:
    """Every row of theta from the base measure; `empty` is a slot without points."""
    for k in range(len(theta)):
        draw_parameters(s, empty, theta[k], rng)


@kernel
def redraw_simply(
    s: Any,
    parts: Any,
    offset: int,
    labels: Slots,
    begin: int,
    end: int,
    base: int,
    granule: int,
    coins: Coins,
    side: int,
    slicing: bool,
    atom_of: Slots,
    slot_of: Slots,
    log_weights: Floats,
    theta: Floats,
    a: Floats,
    coefficients: Singles,
    largest: Singles,
    slice_key: Any,
    key: Any,
    counts: Ints,
) -> tuple[int, int]:
    """The points of the granules on one side, from `begin` to `end`, redraw their labels; point i is i − base in the statistics. In double precision, one by one.

    Choices are `slot_of`, with log weights and parameters; points of slots without one (`atom_of` −1) stay. Unless `slicing`, all of them are gathered in the slots of
    `parts` from `offset` on, and counted. Returns the first point without a finite score, or −1, and how often single precision was not enough.
    """
    n_atoms = len(slot_of)
    weights, scratch = np.empty(n_atoms), np.empty(n_atoms)
    words, slice_words = np.empty(4, dtype=np.uint64), np.empty(4, dtype=np.uint64)
    for g in range(begin // granule, (end + granule - 1) // granule):
        if coins[g] != side:
            continue
        rng, slice_rng = granule_stream(key, g, words), granule_stream(slice_key, g, slice_words)
        for i in range(max(begin, g * granule), min(end, (g + 1) * granule)):
            own = atom_of[labels[i]]
            if own >= 0:
                reach = draw_reach(log_weights, n_atoms, own, slice_rng) if slicing else n_atoms
                for k in range(reach):
                    weights[k] = 0.0 if slicing else log_weights[k]
                score_all(s, theta, a, i - base, reach, weights)
                chosen = draw_log(weights, reach, scratch, rng)
                if chosen < 0:
                    return i, 0
                labels[i] = slot_of[chosen]
            if not slicing:
                counts[labels[i]] += 1
                gather(parts, offset + np.int64(labels[i]), i - base)
    return -1, 0


@kernel
def redraw_in_lanes(
    s: Any,
    parts: Any,
    offset: int,
    labels: Slots,
    begin: int,
    end: int,
    base: int,
    granule: int,
    coins: Coins,
    side: int,
    slicing: bool,
    atom_of: Slots,
    slot_of: Slots,
    log_weights: Floats,
    theta: Floats,
    a: Floats,
    coefficients: Singles,
    largest: Singles,
    slice_key: Any,
    key: Any,
    counts: Ints,
) -> tuple[int, int]:
    """`redraw_simply`, many points at once, for families with dense features. The labels are the same."""
    n_atoms, n_features, n_labels = len(slot_of), len(largest), len(atom_of)
    features, scores, sums, work = (
        np.ones((LANES // PANEL, n_features, PANEL), dtype=np.float32),  # the last of them stays 1
        np.empty((len(coefficients), LANES), dtype=np.float32),
        np.empty((n_atoms, LANES), dtype=np.float32),
        np.empty((5, LANES), dtype=np.float32),
    )
    error, u = np.empty(LANES, dtype=np.float32), np.zeros(BATCH, dtype=np.float32)
    reach, chosen, near = np.ones(BATCH, dtype=np.int32), np.empty(LANES, dtype=np.int32), np.empty(LANES, dtype=np.int32)
    points, order, targets, stays = np.empty(BATCH, dtype=np.int64), np.empty(BATCH, dtype=np.int64), np.empty(BATCH), np.zeros(BATCH, dtype=np.bool_)
    weights, scratch, candidates = np.empty(n_atoms), np.empty(n_atoms), np.empty(n_atoms, dtype=np.int64)
    starts, room = np.zeros(n_labels + 1, dtype=np.int64), np.empty((RUN_ROWS, BATCH))
    words, slice_words = np.empty(4, dtype=np.uint64), np.empty(4, dtype=np.uint64)
    rechecked = 0
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
                        rechecked += 1
                        n_candidates = 0
                        allowed = np.int64(reach[first + t]) if slicing else n_atoms
                        far = error[t] > 20.0
                        lowest = work[0, t] - np.float32(NEGLIGIBLE) - np.float32(2.0) * error[t]
                        for j in range(allowed):
                            if far or scores[j, t] >= lowest:
                                candidates[n_candidates] = j
                                weights[n_candidates] = (0.0 if slicing else log_weights[j]) + log_likelihood(s, theta[j], lanes[t] - base)
                                n_candidates += 1
                        found = pick_log(weights, n_candidates, scratch, targets[first + t])
                        if found < 0:
                            return lanes[t], rechecked
                        chosen[t] = candidates[found]
            for t in range(count):
                if not stays[first + t]:
                    labels[lanes[t]] = slot_of[np.int64(chosen[t])]
        if not slicing:  # the points of one slot after the other
            for k in range(n_labels + 1):
                starts[k] = 0
            for t in range(waiting):
                starts[np.int64(labels[points[t]]) + 1] += 1
            for k in range(n_labels):
                counts[k] += starts[k + 1]
                starts[k + 1] += starts[k]
            for t in range(waiting):
                slot = np.int64(labels[points[t]])
                order[starts[slot]] = points[t]
                starts[slot] += 1
            from_here = 0
            for k in range(n_labels):
                if starts[k] > from_here:
                    gather_run(parts, offset + k, order, from_here, starts[k], base, room)
                    from_here = starts[k]
    return -1, rechecked


@kernel
def lowest_slice(s: Any, labels: Slots, begin: int, end: int, granule: int, coins: Coins, side: int, log_weights: Floats, slice_key: Any) -> float:
    """min log u_i over the points of the granules on one side."""
    lowest = 0.0
    words = np.empty(4, dtype=np.uint64)
    for g in range(begin // granule, (end + granule - 1) // granule):
        if coins[g] == side:
            rng = granule_stream(slice_key, g, words)
            for i in range(max(begin, g * granule), min(end, (g + 1) * granule)):
                lowest = min(lowest, log_weights[labels[i]] + math.log(uniform(rng)))
    return lowest


def count_on_side(labels: Slots, begin: int, end: int, granule: int, coins: Coins, side: int, counts: Ints) -> None:
    """counts[label] of the points of the granules on one side, from `begin` to `end`; in four rows, as a sum that is wanted at once makes the next wait."""
    rows = np.zeros((4, len(counts)), dtype=np.int64)
    for g in range(begin // granule, (end + granule - 1) // granule):
        if coins[g] == side:
            for i in range(max(begin, g * granule), min(end, (g + 1) * granule)):
                rows[i & 3, labels[i]] += 1
    for k in range(len(counts)):
        counts[k] += rows[0, k] + rows[1, k] + rows[2, k] + rows[3, k]


def rename(labels: Slots, names: Slots) -> None:
    """labels[i] = names[labels[i]]."""
    for i in range(len(labels)):
        labels[i] = names[labels[i]]


def toss(coins: Coins, log_share: float, rng: Any) -> None:
    """1 with the given probability, else 0."""
    for g in range(len(coins)):
        coins[g] = 1 if draw_event(log_share, rng) else 0


_count_on_side, _rename, _toss = compiled(count_on_side), compiled(rename), compiled(toss)


@dataclass
class Explicit:
    """Weights and parameters of the clusters, by slot."""

    log_weights: Floats
    theta: Floats
    log_rest: float
    coefficients: Floats | None = None  # of all slots, once they have been asked for

    @classmethod
    def drawn(cls, state: MixtureState, rng: Any) -> Explicit:
        """From their law given the partition."""
        n_numbers, _, _ = state.run(dimensions)
        made = cls(np.full(state.capacity, -np.inf), np.zeros((state.capacity, n_numbers)), 0.0)
        made.log_rest = float(state.run(instantiate, state.sizes, float(state.prior.concentration), made.log_weights, made.theta, rng))
        return made


_AT_ONCE = 65_536  # points that are not worth sharing out


class LabelStep:
    """One pass after the other over the points of a state, on its engine."""

    def __init__(self, state: MixtureState, simply: bool = False) -> None:
        self.state, self.n = state, state.model.n
        self.granule = state.granule
        self.n_granules = -(-self.n // self.granule)
        _, self.n_coefficients, dense = state.run(dimensions)
        self.redraw = redraw_in_lanes if dense and state.compiled and not simply else redraw_simply
        self.regions = state.regions()
        self.sizes: Ints | None = None  # of the clusters, if labels have changed since the state was told
        self.rechecked = 0

    # -- passes -----------------------------------------------------------------------------------------------------------------------------

    def half_by_half(self, explicit: Explicit, rng: Any) -> None:
        """The protected step for all points; afterwards the state's statistics are those of the labels."""
        state, coins = self.state, self._coins(0.5, rng)
        on_one = self._counts(coins, state.capacity)
        counts = np.array([(state.sizes if self.sizes is None else self.sizes) - on_one, on_one])
        for side in range(2):
            slots = np.flatnonzero(counts[1 - side] > 0)
            counts[side] = self._pass(coins, side, False, slots, explicit, rng)
        self._hand_over(counts.sum(axis=0))

    def slices(self, explicit: Explicit, rng: Any, share: float = 1.0) -> Explicit:
        """The slice step for a share of the granules. Labels change; the state's statistics wait for the next pass."""
        state, coins = self.state, self._coins(share, rng)
        slice_key = key_of(rng)
        lowest = min(state.engine.map(lambda where: self._lowest(where, coins, explicit, slice_key), self._ranges(share)))
        extra = self._broken_off(explicit, lowest, rng)
        capacity = state.capacity
        slots = np.concatenate([np.flatnonzero(np.isfinite(explicit.log_weights)), capacity + np.arange(len(extra.log_weights))])
        both = Explicit(np.append(explicit.log_weights, extra.log_weights), np.concatenate([explicit.theta, extra.theta]), extra.log_rest)
        slots = slots[np.argsort(-both.log_weights[slots], kind="stable")]
        n_labels = len(both.log_weights)
        others = np.pad(state.sizes, (0, n_labels - capacity)) - self._counts(coins, n_labels, share)
        self._pass(coins, 1, True, slots, both, rng, slice_key, share)
        return self._with_room(both, others + self._counts(coins, n_labels, share))

    def seat(self, explicit: Explicit, rng: Any) -> None:
        """Every point draws a label by weights and parameters, whatever it had."""
        state, slots = self.state, np.flatnonzero(np.isfinite(explicit.log_weights))
        state.labels[:] = slots[0]
        coins: Coins = np.zeros(self.n_granules, dtype=np.uint8)
        self._hand_over(self._pass(coins, 0, False, slots, explicit, rng))

    # -- their parts ------------------------------------------------------------------------------------------------------------------------

    def _coins(self, share: float, rng: Any) -> Coins:
        """1 for each granule with probability `share`."""
        coins: Coins = np.ones(self.n_granules, dtype=np.uint8)
        if share < 1.0:
            (toss if isinstance(rng, Branching) else _toss)(coins, math.log(share), rng)
        return coins

    def _ranges(self, share: float) -> list[tuple[int, int]]:
        """What is given out to threads if so large a share of the points is concerned: a range each, or all at once where there is little to do."""
        return [(0, self.n)] if self.state.model.in_memory and share * self.n <= _AT_ONCE else self.regions.ranges

    def _counts(self, coins: Coins, n_labels: int, share: float = 1.0) -> Ints:
        """How many points of the granules with a 1 each label has."""
        count = _count_on_side if self.state.compiled else count_on_side

        def counted(where: tuple[int, int]) -> Ints:
            counts = np.zeros(n_labels, dtype=np.int64)
            count(self.state.labels, *where, self.granule, coins, 1, counts)
            return counts

        return sum(self.state.engine.map(counted, self._ranges(share)), np.zeros(n_labels, dtype=np.int64))

    def _hand_over(self, sizes: Ints) -> None:
        self.regions.hand_over(self.state, sizes)
        self.sizes = None

    def _pass(self, coins: Coins, side: int, slicing: bool, slots: Ints, explicit: Explicit, rng: Any, slice_key: Any = None, share: float = 1.0) -> Ints:
        """The points on one side redraw their labels among these slots. Returns how many points of that side each slot has."""
        state, key = self.state, key_of(rng)
        n_labels = max(state.capacity, int(slots.max(initial=0)) + 1)
        atom_of: Slots = np.full(n_labels, -1, dtype=np.int32)
        atom_of[slots] = np.arange(len(slots))
        if explicit.coefficients is None:
            explicit.coefficients = np.zeros((self.n_coefficients, len(explicit.log_weights)))
            state.run(fill_coefficients, np.flatnonzero(np.isfinite(explicit.log_weights)), explicit.theta, explicit.coefficients)
        a, log_weights = np.ascontiguousarray(explicit.coefficients[:, slots]), explicit.log_weights[slots]
        coefficients = np.vstack([a, np.zeros_like(log_weights) if slicing else log_weights])  # the last feature of every point is 1
        largest = np.abs(coefficients).max(axis=1, initial=0.0).astype(np.float32)
        singles: Singles = np.zeros((in_tiles(len(slots)), len(coefficients)), dtype=np.float32)
        singles[: len(slots)] = coefficients.T
        choices = (atom_of, slots.astype(np.int32), log_weights, explicit.theta[slots], a, singles, largest)

        def active(begin: int, end: int) -> bool:
            return bool((coins[begin // self.granule : -(-end // self.granule)] == side).any())

        ranges = self._ranges(share)

        def task(region: int) -> tuple[Ints, int, int]:
            counts, failed, rechecked = np.zeros(n_labels, dtype=np.int64), -1, 0
            run, offset = self.redraw if state.compiled else self.redraw.python, region * self.regions.capacity
            for piece in state.pieces(ranges[region], active):
                where = (offset, state.labels, piece.begin, piece.end, piece.base, self.granule, coins, side, slicing)
                keys = (key if slice_key is None else slice_key, key)
                failed, more = run(piece.statistics, self.regions.writer(piece), *where, *choices, *keys, counts)
                rechecked += more
                if failed >= 0:
                    break
            return counts, failed, rechecked

        if side == 0 and not slicing:
            self.regions.clear(state)
        done = state.engine.map(task, range(len(ranges)))
        failed = next((failed for _, failed, _ in done if failed >= 0), -1)
        if failed >= 0:
            raise ValueError(NOT_A_NUMBER.format(point=failed))
        self.rechecked += sum(rechecked for _, _, rechecked in done)
        return sum((counts for counts, _, _ in done), np.zeros(n_labels, dtype=np.int64))

    def _lowest(self, where: tuple[int, int], coins: Coins, explicit: Explicit, slice_key: Any) -> float:
        return float(self.state.run(lowest_slice, self.state.labels, *where, self.granule, coins, 1, explicit.log_weights, slice_key))

    def _broken_off(self, explicit: Explicit, lowest: float, rng: Any) -> Explicit:
        """Clusters without points, until the mass of the rest is at most exp(lowest)."""
        state, log_weights, log_rest = self.state, list[float](), explicit.log_rest
        alpha = float(state.prior.concentration)
        while log_rest > lowest:
            share = beta(1.0, alpha, rng)
            log_weights.append(log_rest + math.log(share))
            log_rest += math.log1p(-share)
        theta = np.zeros((len(log_weights), explicit.theta.shape[1]))
        if log_weights:
            state.run(new_parameters, int(state.occupancy[2]), theta, rng)
        return Explicit(np.array(log_weights), theta, log_rest)

    def _with_room(self, explicit: Explicit, counts: Ints) -> Explicit:
        """Slots for the clusters that have points, whatever number their labels have at present."""
        state, capacity = self.state, self.state.capacity
        homeless = capacity + np.flatnonzero(counts[capacity:])
        free = np.flatnonzero(counts[:capacity] == 0)
        free = np.append(free, np.arange(capacity, capacity + len(homeless)))
        names = np.arange(len(explicit.log_weights), dtype=np.int32)
        names[homeless] = free[: len(homeless)]
        if len(homeless):
            (_rename if state.compiled else rename)(state.labels, names)
        kept = np.flatnonzero(counts)
        if names[kept].max() >= capacity:
            state.make_room(int(names[kept].max()) + 2)
            self.regions = state.regions()
        made = Explicit(np.full(state.capacity, -np.inf), np.zeros((state.capacity, explicit.theta.shape[1])), 0.0)
        made.log_weights[names[kept]], made.theta[names[kept]] = explicit.log_weights[kept], explicit.theta[kept]
        self.sizes = np.zeros(state.capacity, dtype=np.int64)
        self.sizes[names[kept]] = counts[kept]
        return made
