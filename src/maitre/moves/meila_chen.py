"""The two samplers of Meilă & Chen (2010), Dirichlet process mixtures of generalized Mallows models, for comparison with `maitre.moves.mallows`.

*Slice-Gibbs* has dispersions θ beside the orderings σ; after a sweep over the voters it redraws σ | θ and θ | σ ten times in every cluster, θ by three slice steps. As printed it is
not exact: Sample-σ-Stagewise is not a draw from p(σ | θ, x) (their Lemma 2 errs), and a new cluster's σ and θ are started from the prior and taken through the same rounds. `SliceGibbs`
accepts or refuses stagewise proposals and draws new clusters exactly; `SliceGibbs(as_printed=True)` does neither.

*Beta-Gibbs* integrates θ out with Beta(a, b) in place of B̃eta(a, b, n − j), right for infinitely many items. For finitely many, predictive probability leaks to codes that cannot be,
which favours new clusters. There is no exact form of it but the collapsed sweep with B̃eta.

Total variation from the posterior of the partition, α = ν = 1, r_j the code expected under θ_j = 1: four rankings (012), (230), (132), (301) of four items: Slice-Gibbs as printed .03,
Beta-Gibbs .19; (01), (23), (45), (60) of seven items: .21 and .10.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from maitre.families.codes import count_codes, draw_ordering_alone, fill_codes, invert
from maitre.families.generalized_mallows import GeneralizedMallows, MallowsStatistics
from maitre.families.orderings import fill_costs, fill_rows, redraw_stagewise, reinsert, stagewise
from maitre.moves.base import Report
from maitre.moves.mallows_sweeps import ExplicitMallows, draw_dispersions, lay_out, with_dispersions
from maitre.moves.rankings import RankingMove, listed, reseat
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import compiled, compiled_apart, compiled_form_of, kernel
from maitre.numerics.draw import shuffle
from maitre.numerics.mallows import slice_dispersion
from maitre.numerics.rng import RngState, log_gamma_variate
from maitre.states.rankings import OrderingState

_ROUNDS, _SLICES = 10, 3  # T_Gibbs, T_Slices


@compiled_apart
def slice_dispersions(s: Any, k: int, rng: Any) -> None:
    """Three slice steps of every θ_j | σ, x of slot k."""
    for j in range(len(s.r)):
        for _ in range(_SLICES):
            s.dispersions[k, j] = slice_dispersion(s.dispersions[k, j], s.nu * s.r[j] + s.total[k, j], s.nu + s.seen[k, j], s.n_items - 1 - j, rng)


def redraw_slot(s: Any, k: int, ballots: Ints, as_printed: bool, rng: Any) -> None:
    """Ten times σ | θ, then θ | σ."""
    n, items = len(ballots), np.empty(s.n_items, dtype=np.int64)
    for _ in range(_ROUNDS):
        fill_costs(s, ballots, n, s.dispersions[k], s.pairs)
        if as_printed:
            stagewise(s.pairs, s.orderings[k], s.room, False, rng)
        else:
            redraw_stagewise(s.pairs, s.orderings[k], s.room, rng)
            n_listed = fill_rows(s, ballots, n, s.dispersions[k], s.pairs, items)
            reinsert(s.pairs, items[:n_listed], s.orderings[k], s.room, rng)
        invert(s.orderings[k], s.places[k])
        count_codes(s, ballots, n, s.places[k], s.seen[k], s.total[k])
        slice_dispersions(s, k, rng)


def open_as_printed(s: Any, k: int, d: int, rng: Any) -> None:
    """σ and θ from their priors, taken through the rounds of a cluster of one."""
    items, ballots = np.arange(s.n_items), np.empty(1, dtype=np.int64)
    shuffle(items, rng)
    for place in range(s.n_items):
        s.orderings[k, place] = items[place]
    invert(s.orderings[k], s.places[k])
    ballots[0] = d
    for j in range(len(s.r)):
        s.seen[k, j], s.total[k, j] = 0, 0
    draw_dispersions(s, s.seen[k], s.total[k], s.dispersions[k], rng)
    redraw_slot(s, k, ballots, True, rng)
    lay_out(s, k)


for plain in (redraw_slot, open_as_printed):
    compiled_form_of(plain, inline=False)(plain)


class PrintedMallows(ExplicitMallows):
    """New clusters are opened as printed."""

    def open_with(s, k: int, d: int, rng: Any) -> None:
        open_as_printed(s, k, d, rng)


@kernel
def redraw_by_slices(s: Any, sizes: Ints, members: Ints, begin: Ints, as_printed: bool, rng: Any) -> None:
    """σ and θ of every cluster."""
    for k in range(len(sizes)):
        if sizes[k] > 0:
            redraw_slot(s, k, members[begin[k] : begin[k] + sizes[k]], as_printed, rng)


class BetaMallows(MallowsStatistics):
    """Predictive probabilities by Beta functions."""

    def clear(s, k: int) -> None:
        for j in range(len(s.r)):
            s.seen[k, j], s.total[k, j] = 0, 0

    def add(s, k: int, d: int) -> None:
        count(s, k, d, 1)

    def remove(s, k: int, d: int) -> None:
        count(s, k, d, -1)

    def log_predictive(s, k: int, d: int) -> float:
        return log_predictive_by_beta(s, k, d, 0)

    def log_predictive_without(s, k: int, d: int) -> float:
        return log_predictive_by_beta(s, k, d, 1)

    def log_predictive_all(s, d: int, n_slots: int, out: Floats) -> None:
        for k in range(n_slots):
            out[k] += log_predictive_by_beta(s, k, d, 0)

    def open_with(s, k: int, d: int, rng: Any) -> None:
        draw_ordering_alone(s, k, d, rng)


@compiled_apart
def count(s: Any, k: int, d: int, sign: int) -> None:
    """Ranking d joins (+1) or leaves (−1) slot k."""
    begin, end = s.starts[d], s.starts[d + 1]
    fill_codes(s.items, begin, end, s.places[k], s.codes)
    for j in range(end - begin):
        s.seen[k, j] += sign
        s.total[k, j] += sign * s.codes[j]


@compiled
def log_beta_chance(a: float, b: float, code: int) -> float:
    """ln Beta(a + s, b + 1) / Beta(a, b)."""
    chance = b / (a + b)
    for i in range(code):
        chance *= (a + i) / (a + i + b + 1.0)
    return math.log(chance)


@compiled_apart
def log_predictive_by_beta(s: Any, k: int, d: int, inside: int) -> float:
    """ln p(ranking d | slot k), in which it is (1) or is not (0)."""
    begin, end = s.starts[d], s.starts[d + 1]
    fill_codes(s.items, begin, end, s.places[k], s.codes)
    value = 0.0
    for j in range(end - begin):
        code = s.codes[j]
        value += log_beta_chance(s.nu * s.r[j] + s.total[k, j] - inside * code, s.nu + s.seen[k, j] - inside + 1.0, code)
    return value


@kernel
def redraw_by_beta(s: Any, sizes: Ints, members: Ints, begin: Ints, rng: Any) -> None:
    """Of every cluster ten times e^{−θ_j} ~ Beta, then σ stagewise."""
    theta = np.zeros(len(s.r))
    for k in range(len(sizes)):
        ballots = members[begin[k] : begin[k] + sizes[k]]
        for _ in range(_ROUNDS if sizes[k] > 0 else 0):
            for j in range(len(s.r)):
                a, b = s.nu * s.r[j] + s.total[k, j], s.nu + s.seen[k, j] + 1.0
                theta[j] = np.logaddexp(0.0, log_gamma_variate(b, rng) - log_gamma_variate(a, rng))
            fill_costs(s, ballots, sizes[k], theta, s.pairs)
            stagewise(s.pairs, s.orderings[k], s.room, False, rng)
            invert(s.orderings[k], s.places[k])
            count_codes(s, ballots, sizes[k], s.places[k], s.seen[k], s.total[k])


def with_beta(s: MallowsStatistics) -> BetaMallows:
    """Statistics whose predictive probabilities, also of one ranking alone, are by Beta functions."""
    log_first = np.zeros_like(s.log_first)
    for j, r in enumerate(s.r):
        log_first[j, : s.n_items - j] = [log_beta_chance(s.nu * r, s.nu + 1.0, code) for code in range(s.n_items - j)]
    return BetaMallows(*s._replace(log_first=log_first))


class SliceGibbs(RankingMove):
    """Slice-Gibbs: exact with what its derivation lacks put right; `as_printed` it is not."""

    name = "slice_gibbs"
    state: ClassVar[type[OrderingState]] = OrderingState
    family = GeneralizedMallows

    def __init__(self, as_printed: bool = False) -> None:
        self.as_printed = bool(as_printed)
        self.exact = not self.as_printed

    def step(self, state: OrderingState, rng: RngState) -> Report:
        statistics = with_dispersions(state, rng, PrintedMallows if self.as_printed else ExplicitMallows)
        report = reseat(state, statistics, rng)
        state.recount()
        run = redraw_by_slices if state.compiled else redraw_by_slices.python
        run(statistics(), state.sizes, *listed(state), self.as_printed, rng)
        state.log_joint = state.compute_log_joint()
        return report


class BetaGibbs(RankingMove):
    """Beta-Gibbs as printed: not exact."""

    name = "beta_gibbs"
    state: ClassVar[type[OrderingState]] = OrderingState
    family = GeneralizedMallows
    exact = False

    def step(self, state: OrderingState, rng: RngState) -> Report:
        report = reseat(state, lambda: with_beta(state.statistics), rng)
        state.run(redraw_by_beta, state.sizes, *listed(state), rng)
        state.log_joint = state.compute_log_joint()
        return report
