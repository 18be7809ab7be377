"""Sweeps over voters for generalized Mallows models, and new orderings of all clusters.

The collapsed sweep has every θ integrated out (exact version of Meilă & Chen's Beta-Gibbs); the explicit one draws θ of every cluster first and forgets it afterwards (their
Slice-Gibbs with exact draws). Both leave p(C, σ | x) invariant.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from maitre.families.codes import count_codes, draw_ordering_alone, invert, weigh_codes
from maitre.families.generalized_mallows import MallowsStatistics, forget_tables
from maitre.families.orderings import fill_costs, fill_pairs, fill_rows, redraw_stagewise, reinsert, swap_neighbours
from maitre.moves.base import Report
from maitre.moves.rankings import listed, reseat
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import Kernel, compiled, compiled_apart, compiled_form_of, kernel
from maitre.numerics.mallows import draw_dispersion, log_psi
from maitre.numerics.rng import RngState
from maitre.states.rankings import OrderingState

_EXPLICIT = ("dispersions", "theta_by_place", "sums_of_log_psis", "places_by_item", "codes_of_slots")


class ExplicitMallows(namedtuple("ExplicitMallows", (*MallowsStatistics._fields, *_EXPLICIT))):  # type: ignore[misc]
    """The same with the dispersions of every cluster given, (C, T); N_j and S_j are not kept up to date.

    Dispersions, Σ_{j≤t} ln ψ_{n−j}(θ_j) and places are also there with a column per slot, (T, C), (T + 1, C) and (n, C): a ranking is scored by all slots at once.
    """

    def clear(s, k: int) -> None:
        pass

    def add(s, k: int, d: int) -> None:
        pass

    def remove(s, k: int, d: int) -> None:
        pass

    def log_predictive(s, k: int, d: int) -> float:
        return log_likelihood(s, k, d)

    def log_predictive_without(s, k: int, d: int) -> float:
        return log_likelihood(s, k, d)

    def log_predictive_all(s, d: int, n_slots: int, out: Floats) -> None:
        log_likelihoods(s, d, n_slots, out)

    def open_with(s, k: int, d: int, rng: Any) -> None:
        open_explicit(s, k, d, rng)


@compiled
def log_likelihood(s: Any, k: int, d: int) -> float:
    """ln p(ranking d | σ_k, θ_k)."""
    return -s.sums_of_log_psis[s.starts[d + 1] - s.starts[d], k] - weigh_codes(s, d, s.places[k], s.dispersions[k])


@compiled_apart
def log_likelihoods(s: Any, d: int, n_slots: int, out: Floats) -> None:
    """out[k] += ln p(ranking d | σ_k, θ_k) for every slot; all loops over slots are of vector instructions."""
    begin, end = s.starts[d], s.starts[d + 1]
    codes, constants = s.codes_of_slots, s.sums_of_log_psis[end - begin]
    for k in range(n_slots):
        out[k] -= constants[k]
    for j in range(begin, end):
        here, theta = s.places_by_item[s.items[j]], s.theta_by_place[j - begin]
        for k in range(n_slots):
            codes[k] = here[k]
        for i in range(begin, j):
            earlier = s.places_by_item[s.items[i]]
            for k in range(n_slots):
                codes[k] -= np.int16(earlier[k] < here[k])
        for k in range(n_slots):
            out[k] -= theta[k] * codes[k]


@compiled_apart
def draw_dispersions(s: Any, count: Ints, total: Ints, theta: Floats, rng: Any) -> None:
    """θ_j | σ, x for every place."""
    for j in range(len(s.r)):
        theta[j] = draw_dispersion(s.nu * s.r[j] + total[j], s.nu + count[j], s.n_items - 1 - j, rng)


@compiled_apart
def lay_out(s: Any, k: int) -> None:
    """The column of slot k."""
    s.sums_of_log_psis[0, k] = 0.0
    for j in range(len(s.r)):
        s.theta_by_place[j, k] = s.dispersions[k, j]
        s.sums_of_log_psis[j + 1, k] = s.sums_of_log_psis[j, k] + log_psi(s.n_items - 1 - j, s.dispersions[k, j])
    for item in range(s.n_items):
        s.places_by_item[item, k] = s.places[k, item]


@compiled_apart
def count_one(s: Any, k: int, d: int) -> None:
    """N_j and S_j of slot k with ranking d alone."""
    one = np.empty(1, dtype=np.int64)
    one[0] = d
    count_codes(s, one, 1, s.places[k], s.seen[k], s.total[k])


def open_explicit(s: Any, k: int, d: int, rng: Any) -> None:
    """σ, θ | ranking d of slot k, exactly."""
    draw_ordering_alone(s, k, d, rng)
    count_one(s, k, d)
    draw_dispersions(s, s.seen[k], s.total[k], s.dispersions[k], rng)
    lay_out(s, k)


compiled_form_of(open_explicit, inline=False)(open_explicit)


@kernel
def draw_all_dispersions(s: Any, sizes: Ints, rng: Any) -> None:
    """θ | σ, x of every cluster."""
    for k in range(len(sizes)):
        if sizes[k] > 0:
            draw_dispersions(s, s.seen[k], s.total[k], s.dispersions[k], rng)


@kernel
def lay_out_all(s: Any, sizes: Ints) -> None:
    """The columns of all clusters."""
    for k in range(len(sizes)):
        if sizes[k] > 0:
            lay_out(s, k)


@kernel
def redraw_orderings(s: Any, sizes: Ints, members: Ints, begin: Ints, rounds: int, kind: int, rng: Any) -> None:
    """σ | x_c of every cluster: alone exactly, otherwise `rounds` times θ | σ, then σ | θ by reinsertion (kind 0), after a stagewise proposal (1), or by swaps (2)."""
    theta, items = np.zeros(len(s.r)), np.empty(s.n_items, dtype=np.int64)
    for k in range(len(sizes)):
        if sizes[k] == 0:
            continue
        ballots = members[begin[k] : begin[k] + sizes[k]]
        if sizes[k] == 1:
            draw_ordering_alone(s, k, ballots[0], rng)
            count_codes(s, ballots, 1, s.places[k], s.seen[k], s.total[k])
            continue
        for _ in range(rounds):
            draw_dispersions(s, s.seen[k], s.total[k], theta, rng)
            if kind == 1:
                fill_costs(s, ballots, sizes[k], theta, s.pairs)
                redraw_stagewise(s.pairs, s.orderings[k], s.room, rng)
            if kind == 2:
                fill_pairs(s, ballots, sizes[k], theta, s.pairs)
                swap_neighbours(s.pairs, s.orderings[k], s.room, rng)
            else:
                n_listed = fill_rows(s, ballots, sizes[k], theta, s.pairs, items)
                reinsert(s.pairs, items[:n_listed], s.orderings[k], s.room, rng)
            invert(s.orderings[k], s.places[k])
            count_codes(s, ballots, sizes[k], s.places[k], s.seen[k], s.total[k])


@kernel
def forget_all(s: Any) -> None:
    """All predictive probabilities are to be worked out again."""
    for k in range(len(s.seen)):
        forget_tables(s, k)


def reseat_collapsed(state: OrderingState, rng: RngState, order: Ints | None = None) -> Report:
    """A sweep over all voters, or those of the rankings in `order`, θ integrated out."""

    def statistics() -> MallowsStatistics:
        state.run(forget_all)
        return state.statistics  # type: ignore[no-any-return]

    return reseat(state, statistics, rng, order)


def with_dispersions(state: OrderingState, rng: RngState, kind: type[ExplicitMallows] = ExplicitMallows) -> Callable[[], ExplicitMallows]:
    """The statistics of a state's slots with dispersions drawn now, θ | σ, x, however many slots there will be."""

    def statistics() -> ExplicitMallows:
        s, n_slots = state.statistics, state.capacity
        if len(held[0]) < n_slots:
            held[0] = np.concatenate([held[0], np.zeros((n_slots - len(held[0]), longest))])
        columns = np.zeros((longest, n_slots)), np.zeros((longest + 1, n_slots)), np.zeros((s.n_items, n_slots), np.int16), np.zeros(n_slots, np.int16)
        found = kind._make((*s, held[0], *columns))
        run(lay_out_all, found, state.sizes)
        return found

    def run(function: Kernel, *arguments: Any) -> None:
        (function if state.compiled else function.python)(*arguments)

    longest = len(state.statistics.r)
    held = [np.zeros((state.capacity, longest))]
    run(draw_all_dispersions, statistics(), state.sizes, rng)
    return statistics


def reseat_explicit(state: OrderingState, rng: RngState) -> Report:
    """A sweep over all voters with dispersions drawn before."""
    report = reseat(state, with_dispersions(state, rng), rng)
    state.recount()
    return report


def redraw(state: OrderingState, rounds: int, kind: int, rng: RngState) -> None:
    """New orderings of all clusters."""
    state.run(redraw_orderings, state.sizes, *listed(state), rounds, kind, rng)
