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

from maitre.model import pool_of
from maitre.moves.base import Report
from maitre.moves.label_free_kernels import ANEW, COST, MERGE, SPLIT, Proposal, log_likelihood_of_slot, log_mixture, log_mixture_in_lanes, part, propose
from maitre.moves.label_kernels import dimensions, key_of
from maitre.moves.labels import LabelStep
from maitre.moves.pairs import fill_members_among, list_members_among
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.draw import draw_event
from maitre.numerics.rng import RngState
from maitre.states.mixture import MixtureState
from maitre.states.regions import Piece

_SLOTS_APART = 8  # those of two threads, so that they do not write to the same lines of memory
_TOGETHER = 8  # proposals for each thread, before those that have passed are decided
_FEW_FEATURES = 16  # up to which points are examined many at once


class LabelFree:
    """Split and merge proposals on a state; those that pass the screen look at all points, in parallel.

    Several threads are at different proposals at once, as if the state stayed as it is. When one is accepted, what was found for later ones is forgotten.
    """

    def __init__(self, state: MixtureState) -> None:
        self.state, self.passes = state, LabelStep(state)
        model, self.n_workers = state.model, state.engine.n_workers
        self.pool = pool_of(model.n) if model.pool is None else model.pool
        self.local = self.pool if model.in_memory else np.arange(len(self.pool))  # their numbers in the statistics
        n_numbers, n_features, dense = state.run(dimensions)
        self.rest, self.sides = (np.empty((self.n_workers, len(self.pool)), dtype=kind) for kind in (np.int64, np.uint8))
        wave = _TOGETHER * self.n_workers
        self.found = np.zeros((wave, 5, n_numbers)), np.zeros((wave, 5)), np.zeros((wave, 4), dtype=np.int64)
        self.theta = self.found[0][0]
        self.in_lanes = state.compiled and dense and n_features <= _FEW_FEATURES
        self.examined = 0

    def propose(self, proposals: int, rng: RngState) -> Report:
        """So many proposals."""
        state, key, made, accepted = self.state, key_of(rng), 0, 0
        state.reserve(_SLOTS_APART * self.n_workers)
        members = np.empty(len(self.pool), dtype=np.int64)
        all_theta, all_outcome, all_slots = self.found
        fresh = True
        while made < proposals:
            if state.occupancy[2] < 0:
                state.make_room()
                fresh = True
            if fresh:
                self.passes = LabelStep(state)
                counts, begin = np.zeros((2, state.capacity), dtype=np.int64)
                (list_members_among if state.compiled else fill_members_among)(self.pool, state.labels, counts, members, begin)
                clusters = (self.local, state.sizes, math.log(float(state.prior.concentration)), members, begin, counts, np.flatnonzero(state.sizes))
                fresh = False
            until = min(proposals, made + len(all_slots))
            self._screen(made, until, key, clusters)
            for row in range(until - made):
                made += 1
                if all_slots[row, 0] >= 0:
                    self.theta = all_theta[row]
                    fresh = self._decide(all_slots[row], all_outcome[row], rng)
                    accepted += fresh
                    if fresh or self.n_workers == 1:
                        break
        return Report(COST * proposals, proposals, accepted)

    def _screen(self, made: int, until: int, key: Any, clusters: tuple[Any, ...]) -> None:
        """The proposals of these numbers in `found`; one thread alone stops at the first that passes."""
        state, queue, passed = self.state, np.array([made]), np.array([until])
        self.found[2][:, 0] = -1

        def task(worker: int) -> None:
            run, s = propose if state.compiled else propose.python, self.passes.regions.reader(state.statistics)
            numbers = (state.capacity + _SLOTS_APART * worker, made, until, queue, passed, 0 if self.n_workers == 1 else until)
            run(s, *numbers, key, *clusters, self.rest[worker], self.sides[worker], *self.found)

        state.engine.map(task, range(min(self.n_workers, until - made)))

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
            n_right = np.zeros(regions.n_regions, dtype=np.int64)
            where, how = (regions.capacity, self.passes.granule, first, right), (trying, odds, self.theta, key, n_right)
            self._over_points(lambda run, piece: run(part, regions.writer(piece), state.labels, *piece[2:], *where, *how), first, right)
            return int(n_right.sum())

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
        state, parts, totals = self.state, list[float](), np.zeros(self.passes.regions.n_regions)
        if self.in_lanes and kind != ANEW:
            slots = (first,) if kind == SPLIT else (first, second)
            parts = [float(state.run(log_likelihood_of_slot, self.theta[0], slot)) for slot in slots]
        in_lanes = self.in_lanes and all(map(math.isfinite, parts))
        of_pieces, proposal = log_mixture_in_lanes if in_lanes else log_mixture, Proposal(first, second, kind, odds, present, self.theta)
        self._over_points(lambda run, piece: run(of_pieces, state.labels, *piece[2:], proposal, totals), first, second)
        return [*(parts if in_lanes else ()), *totals]

    def _over_points(self, task: Any, first: int, second: int) -> None:
        """task(run, piece) for all points of two clusters; `run` runs a kernel on the piece's statistics."""
        state = self.state

        def present(begin: int, end: int) -> bool:
            here = state.labels[begin:end]
            return bool(((here == first) | (here == second)).any())

        def run(piece: Piece) -> None:
            task(lambda function, *arguments: (function if state.compiled else function.python)(piece.statistics, *arguments), piece)

        state.over_points(run, present)
