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

from maitre.moves.gibbs import NOT_A_NUMBER
from maitre.moves.label_kernels import (
    Active,
    Choices,
    Coins,
    count_on_side,
    dimensions,
    fill_coefficients,
    instantiate,
    key_of,
    lowest_slice,
    new_parameters,
    redraw_in_lanes,
    redraw_simply,
    rename,
    run_count_on_side,
    run_rename,
    run_toss,
    toss,
)
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.draw import Branching
from maitre.numerics.lanes import Singles, in_tiles
from maitre.numerics.rng import beta
from maitre.states.mixture import MixtureState
from maitre.states.regions import Piece


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
        on_one = self._counts(coins)
        counts = np.array([(state.sizes if self.sizes is None else self.sizes) - on_one, on_one])
        for side in range(2):
            slots = np.flatnonzero(counts[1 - side] > 0)
            counts[side] = self._pass(coins, side, False, slots, explicit, rng)
        self._hand_over(counts.sum(axis=0))

    def slices(self, explicit: Explicit, rng: Any, share: float = 1.0) -> Explicit:
        """The slice step for a share of the granules. Labels change; the state's statistics wait for the next pass."""
        state, coins = self.state, self._coins(share, rng)
        slice_key = key_of(rng)
        lowest, counts = self._lowest(coins, explicit, slice_key)
        extra = self._broken_off(explicit, lowest, rng)
        capacity = state.capacity
        slots = np.concatenate([np.flatnonzero(np.isfinite(explicit.log_weights)), capacity + np.arange(len(extra.log_weights))])
        both = Explicit(np.append(explicit.log_weights, extra.log_weights), np.concatenate([explicit.theta, extra.theta]), extra.log_rest)
        slots = slots[np.argsort(-both.log_weights[slots], kind="stable")]
        others = np.pad(state.sizes - counts, (0, len(extra.log_weights)))
        return self._with_room(both, others + self._pass(coins, 1, True, slots, both, rng, slice_key))

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
            (toss if isinstance(rng, Branching) else run_toss)(coins, math.log(share), rng)
        return coins

    def _counts(self, coins: Coins) -> Ints:
        """How many points of the granules with a 1 each label has."""
        counts = np.zeros((self.regions.n_regions, self.state.capacity), dtype=np.int64)
        count: Any = run_count_on_side if self.state.compiled else count_on_side
        self.regions.at_once(self.state.engine, lambda *ranges: count(self.state.labels, *ranges, self.granule, coins, 1, counts))
        return np.asarray(counts.sum(axis=0))

    def _hand_over(self, sizes: Ints) -> None:
        self.regions.hand_over(self.state, sizes)
        self.sizes = None

    def _pass(self, coins: Coins, side: int, slicing: bool, slots: Ints, explicit: Explicit, rng: Any, slice_key: Any = None) -> Ints:
        """The points on one side redraw their labels among these slots. Returns how many points of that side each slot has."""
        state, key = self.state, key_of(rng)
        n_labels = max(state.capacity, int(slots.max(initial=0)) + 1)
        atom_of: Slots = np.full(n_labels, -1, dtype=np.int32)
        atom_of[slots] = np.arange(len(slots))
        if explicit.coefficients is None:
            explicit.coefficients = np.zeros((self.n_coefficients, len(explicit.log_weights)))
            fill, what = fill_coefficients if state.compiled else fill_coefficients.python, (explicit.theta, explicit.coefficients)
            present = np.flatnonzero(np.isfinite(explicit.log_weights))
            self.regions.at_slots(state.engine, lambda queue: fill(self.regions.reader(state.statistics), present, *what, queue))
        a, log_weights = np.ascontiguousarray(explicit.coefficients[:, slots]), explicit.log_weights[slots]
        coefficients = np.vstack([a, np.zeros_like(log_weights) if slicing else log_weights])  # the last feature of every point is 1
        largest = np.abs(coefficients).max(axis=1, initial=0.0).astype(np.float32)
        singles: Singles = np.zeros((in_tiles(len(slots)), len(coefficients)), dtype=np.float32)
        singles[: len(slots)] = coefficients.T
        choices = Choices(atom_of, slots.astype(np.int32), log_weights, explicit.theta[slots], a, singles, largest)
        active = Active(self.regions.capacity, self.granule, coins, side, slicing)

        def wanted(begin: int, end: int) -> bool:
            return bool((coins[begin // self.granule : -(-end // self.granule)] == side).any())

        counts, outcome = np.zeros((self.regions.n_regions, n_labels), dtype=np.int64), np.zeros((self.regions.n_regions, 2), dtype=np.int64)
        outcome[:, 0] = -1
        keys = (key if slice_key is None else slice_key, key)

        def task(piece: Piece) -> None:
            run = self.redraw if state.compiled else self.redraw.python
            run(piece.statistics, self.regions.writer(piece), state.labels, *piece[2:], active, choices, keys, counts, outcome)

        if side == 0 and not slicing:
            self.regions.clear(state)
        state.over_points(task, wanted, few=slicing)
        failed, rechecked = outcome.T
        if failed.max() >= 0:
            raise ValueError(NOT_A_NUMBER.format(point=failed[failed >= 0][0]))
        self.rechecked += int(rechecked.sum())
        return np.asarray(counts.sum(axis=0))

    def _lowest(self, coins: Coins, explicit: Explicit, slice_key: Any) -> tuple[float, Ints]:
        """The lowest of all slices, as a logarithm; and how many points of the granules with a 1 each label has."""
        state, lowest = self.state, np.zeros(self.regions.n_regions)
        counts = np.zeros((self.regions.n_regions, state.capacity), dtype=np.int64)
        run, slices = (lowest_slice if state.compiled else lowest_slice.python), (self.granule, coins, 1, explicit.log_weights, slice_key, lowest, counts)
        self.regions.at_once(state.engine, lambda *ranges: run(state.statistics, state.labels, *ranges, *slices), few=True)
        return float(lowest.min()), np.asarray(counts.sum(axis=0))

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
            (run_rename if state.compiled else rename)(state.labels, names)
        kept = np.flatnonzero(counts)
        if names[kept].max() >= capacity:
            state.make_room(int(names[kept].max()) + 2)
            self.regions = state.regions()
        made = Explicit(np.full(state.capacity, -np.inf), np.zeros((state.capacity, explicit.theta.shape[1])), 0.0)
        made.log_weights[names[kept]], made.theta[names[kept]] = explicit.log_weights[kept], explicit.theta[kept]
        self.sizes = np.zeros(state.capacity, dtype=np.int64)
        self.sizes[names[kept]] = counts[kept]
        return made
