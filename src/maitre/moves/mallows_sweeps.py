"""Sweeps over voters for generalized Mallows models, and new orderings of all clusters.

The collapsed sweep has every θ integrated out (exact version of Meilă & Chen's Beta-Gibbs); the explicit one draws θ of every cluster first and forgets it afterwards (their
Slice-Gibbs with exact draws). Both leave p(C, σ | x) invariant. Voters with one and the same ranking are visited one after the other: what the clusters say of it is worked out once,
and after one of them moves only two clusters say something else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.families.generalized_mallows import (
    change_members,
    count_codes,
    draw_alone,
    empty_slot,
    forget_tables,
    log_predictive,
    log_predictive_without,
    log_predictives,
    set_ordering,
)
from maitre.families.orderings import fill_costs, fill_pairs, invert, redraw_stagewise, reinsert, swap_neighbours
from maitre.families.rankings import fill_codes
from maitre.moves.base import Report
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.bits import WORD, count_below
from maitre.numerics.compilation import compiled_apart, kernel
from maitre.numerics.draw import draw_log, shuffle
from maitre.numerics.mallows import draw_dispersion, log_psi
from maitre.numerics.rng import RngState
from maitre.states.mixture import first_empty
from maitre.states.rankings import OrderingState, list_ballots


@kernel
def sweep_collapsed(
    s: Any,
    order: Ints,
    place: Ints,
    labels: Slots,
    sizes: Ints,
    occupancy: Ints,
    log_join: Floats,
    log_v: Floats,
    log_w: Floats,
    scores: Floats,
    rng: Any,
) -> bool:
    """The rankings of `order` from the place[0]-th on, in the first of them voters from place[1] on; false if slots run out, with `place` where to go on."""
    like, weights, scratch = scores[0], scores[1], scores[2]
    n_clusters, n_slots, free = occupancy[0], occupancy[1], occupancy[2]
    ordering = np.empty(s.n_items, dtype=np.int16)
    for t in range(place[0], len(order)):
        d = order[t]
        alone_here = s.log_alone[s.starts[d + 1] - s.starts[d]]
        log_predictives(s, d, sizes, n_slots, like)
        for v in range(max(s.first_voter[d], place[1]), s.first_voter[d + 1]):
            own: Any = np.int64(labels[s.voters[v]])
            alone = sizes[own] == 1
            if free < 0 and not alone:
                place[0], place[1] = t, v
                occupancy[0], occupancy[1], occupancy[2] = n_clusters, n_slots, free
                return False
            others = n_clusters - 1 if alone else n_clusters
            log_new = log_w[1] + log_v[others + 1] - log_v[others] + alone_here
            for k in range(n_slots):
                weights[k] = log_join[k] + like[k]
            if alone:
                weights[own] = log_new
            else:
                weights[own] = log_w[sizes[own]] - log_w[sizes[own] - 1] + log_predictive_without(s, own, d)
                weights[free] = log_new
            chosen = draw_log(weights, n_slots, scratch, rng)
            if chosen == own and not alone:
                continue
            sizes[own] -= 1
            if sizes[own] == 0:
                empty_slot(s, own)
                log_join[own], like[own] = -np.inf, -np.inf
                n_clusters -= 1
            else:
                change_members(s, own, d, -1)
                log_join[own] = log_w[sizes[own] + 1] - log_w[sizes[own]]
                like[own] = log_predictive(s, own, d)
            if sizes[chosen] == 0:
                draw_alone(s, d, ordering, rng)
                set_ordering(s, chosen, ordering)
                n_clusters += 1
            change_members(s, chosen, d, 1)
            sizes[chosen] += 1
            log_join[chosen] = log_w[sizes[chosen] + 1] - log_w[sizes[chosen]]
            like[chosen] = log_predictive(s, chosen, d)
            labels[s.voters[v]] = chosen
            free = first_empty(sizes, 0)
            while free >= n_slots:
                like[n_slots] = -np.inf
                n_slots += 1
        place[1] = 0
    occupancy[0], occupancy[1], occupancy[2] = n_clusters, n_slots, free
    return True


@compiled_apart
def log_likelihoods(s: Any, d: int, sizes: Ints, n_slots: int, theta: Floats, log_psis: Floats, out: Floats) -> None:
    """ln p(ranking d | σ_k, θ_k) for every occupied slot; log_psis[k, t] = Σ_{j≤t} ln ψ."""
    begin, end = s.starts[d], s.starts[d + 1]
    for k in range(n_slots):
        if sizes[k] == 0:
            out[k] = -np.inf
            continue
        value = -log_psis[k, end - begin]
        if s.n_items <= WORD:
            taken = np.uint64(0)
            for j in range(begin, end):
                where = s.places[k, s.items[j]]
                value -= theta[k, j - begin] * (where - count_below(taken, where))
                taken |= np.uint64(1) << np.uint64(where)
        else:
            fill_codes(s.items, begin, end, s.places[k], s.codes)
            for j in range(end - begin):
                value -= theta[k, j] * s.codes[j]
        out[k] = value


@compiled_apart
def draw_dispersions(s: Any, count: Ints, total: Ints, theta: Floats, rng: Any) -> None:
    """θ_j | σ, x for every place."""
    for j in range(len(s.r)):
        theta[j] = draw_dispersion(s.nu * s.r[j] + total[j], s.nu + count[j], s.n_items - 1 - j, rng)


@compiled_apart
def sum_log_psis(s: Any, theta: Floats, log_psis: Floats) -> None:
    """Σ_{j≤t} ln ψ_{n−j}(θ_j) for t = 0, …, T."""
    log_psis[0] = 0.0
    for j in range(len(s.r)):
        log_psis[j + 1] = log_psis[j] + log_psi(s.n_items - 1 - j, theta[j])


@kernel
def sweep_explicit(
    s: Any,
    order: Ints,
    place: Ints,
    labels: Slots,
    sizes: Ints,
    occupancy: Ints,
    log_join: Floats,
    log_v: Floats,
    log_w: Floats,
    scores: Floats,
    theta: Floats,
    log_psis: Floats,
    rng: Any,
) -> bool:
    """The same with the dispersions of every cluster given; N_j and S_j are not kept up to date."""
    like, weights, scratch = scores[0], scores[1], scores[2]
    n_clusters, n_slots, free = occupancy[0], occupancy[1], occupancy[2]
    ordering = np.empty(s.n_items, dtype=np.int16)
    one = np.empty(1, dtype=np.int64)
    for t in range(place[0], len(order)):
        d = order[t]
        alone_here = s.log_alone[s.starts[d + 1] - s.starts[d]]
        log_likelihoods(s, d, sizes, n_slots, theta, log_psis, like)
        for v in range(max(s.first_voter[d], place[1]), s.first_voter[d + 1]):
            own: Any = np.int64(labels[s.voters[v]])
            alone = sizes[own] == 1
            if free < 0 and not alone:
                place[0], place[1] = t, v
                occupancy[0], occupancy[1], occupancy[2] = n_clusters, n_slots, free
                return False
            others = n_clusters - 1 if alone else n_clusters
            log_new = log_w[1] + log_v[others + 1] - log_v[others] + alone_here
            for k in range(n_slots):
                weights[k] = log_join[k] + like[k]
            if alone:
                weights[own] = log_new
            else:
                weights[own] = log_w[sizes[own]] - log_w[sizes[own] - 1] + like[own]
                weights[free] = log_new
            chosen = draw_log(weights, n_slots, scratch, rng)
            if chosen == own and not alone:
                continue
            sizes[own] -= 1
            if sizes[own] == 0:
                log_join[own], like[own] = -np.inf, -np.inf
                n_clusters -= 1
            else:
                log_join[own] = log_w[sizes[own] + 1] - log_w[sizes[own]]
            sizes[chosen] += 1
            if sizes[chosen] == 1:
                draw_alone(s, d, ordering, rng)
                set_ordering(s, chosen, ordering)
                one[0] = d
                count_codes(s, one, 1, s.places[chosen], s.seen[chosen], s.total[chosen])
                draw_dispersions(s, s.seen[chosen], s.total[chosen], theta[chosen], rng)
                sum_log_psis(s, theta[chosen], log_psis[chosen])
                n_clusters += 1
                free = first_empty(sizes, 0)
                while free >= n_slots:
                    like[n_slots] = -np.inf
                    n_slots += 1
                log_likelihoods(s, d, sizes, n_slots, theta, log_psis, like)
            elif sizes[own] == 0:
                free = first_empty(sizes, 0)
            log_join[chosen] = log_w[sizes[chosen] + 1] - log_w[sizes[chosen]]
            labels[s.voters[v]] = chosen
        place[1] = 0
    occupancy[0], occupancy[1], occupancy[2] = n_clusters, n_slots, free
    return True


@kernel
def redraw_orderings(s: Any, sizes: Ints, members: Ints, begin: Ints, rounds: int, kind: int, rng: Any) -> None:
    """σ | x_c of every cluster: alone exactly, otherwise `rounds` times θ | σ, then σ | θ by reinsertion (kind 0), after a stagewise proposal (1), or by swaps (2)."""
    ordering, theta = np.empty(s.n_items, dtype=np.int16), np.zeros(len(s.r))
    for k in range(len(sizes)):
        if sizes[k] == 0:
            continue
        ballots = members[begin[k] : begin[k] + sizes[k]]
        if sizes[k] == 1:
            draw_alone(s, ballots[0], ordering, rng)
            set_ordering(s, k, ordering)
            count_codes(s, ballots, 1, s.places[k], s.seen[k], s.total[k])
            continue
        for _ in range(rounds):
            draw_dispersions(s, s.seen[k], s.total[k], theta, rng)
            if kind == 1:
                fill_costs(s, ballots, sizes[k], theta, s.pairs)
                redraw_stagewise(s.pairs, s.orderings[k], s.room, rng)
            fill_pairs(s, ballots, sizes[k], theta, s.pairs)
            if kind == 2:
                swap_neighbours(s.pairs, s.orderings[k], s.room, rng)
            else:
                reinsert(s.pairs, s.orderings[k], s.room, rng)
            invert(s.orderings[k], s.places[k])
            count_codes(s, ballots, sizes[k], s.places[k], s.seen[k], s.total[k])


@kernel
def draw_all_dispersions(s: Any, sizes: Ints, theta: Floats, log_psis: Floats, rng: Any) -> None:
    """θ | σ, x of every cluster."""
    for k in range(len(sizes)):
        if sizes[k] > 0:
            draw_dispersions(s, s.seen[k], s.total[k], theta[k], rng)
            sum_log_psis(s, theta[k], log_psis[k])


@kernel
def forget_all(s: Any) -> None:
    """All predictive probabilities are to be worked out again."""
    for k in range(len(s.seen)):
        forget_tables(s, k)


def reseat_collapsed(state: OrderingState, rng: RngState, order: Ints | None = None) -> Report:
    """A sweep over all voters, or those of the rankings in `order`, θ integrated out."""
    order, place = _shuffled(state, rng) if order is None else order, np.zeros(2, dtype=np.int64)
    forget = True
    while True:
        if forget:
            state.run(forget_all)
        forget = False
        arrays = (state.labels, state.sizes, state.occupancy, state.log_join, state.log_v, state.log_w, np.zeros((3, state.capacity)))
        if state.run(sweep_collapsed, order, place, *arrays, rng):
            return Report(state.model.n * state.n_clusters)
        state.make_room()
        forget = True


def reseat_explicit(state: OrderingState, rng: RngState) -> Report:
    """A sweep over all voters with dispersions drawn before."""
    order, place = _shuffled(state, rng), np.zeros(2, dtype=np.int64)
    longest = len(state.statistics.r)
    theta, log_psis = np.zeros((state.capacity, longest)), np.zeros((state.capacity, longest + 1))
    state.run(draw_all_dispersions, state.sizes, theta, log_psis, rng)
    while True:
        arrays = (state.labels, state.sizes, state.occupancy, state.log_join, state.log_v, state.log_w, np.zeros((3, state.capacity)))
        if state.run(sweep_explicit, order, place, *arrays, theta, log_psis, rng):
            state.recount()
            return Report(state.model.n * state.n_clusters)
        state.make_room()
        theta, log_psis = (np.concatenate([old, np.zeros((state.capacity - len(old), old.shape[1]))]) for old in (theta, log_psis))


def redraw(state: OrderingState, rounds: int, kind: int, rng: RngState) -> None:
    """New orderings of all clusters."""
    members, begin = np.empty(state.model.n, dtype=np.int64), np.zeros(state.capacity, dtype=np.int64)
    list_ballots(state.statistics, state.labels, state.sizes, members, begin)
    state.run(redraw_orderings, state.sizes, members, begin, rounds, kind, rng)


def _shuffled(state: OrderingState, rng: RngState) -> Ints:
    order = np.arange(len(state.statistics.starts) - 1)
    shuffle(order, rng)
    return order
