"""Gibbs sampling of links with explicit parameters of the tables (Socher & Manning, equations 3 to 6).

Target: p(links, θ, x) = ∏_i p(c_i) ∏_k G0(θ_k) ∏_i F(x_i; θ_{k(i)}). As in `maitre.moves.links` a step cuts the link of point i; a link to somebody at table k outside X_i, the points
behind i, has the weight w(i, j) ∏_{l∈X_i} F(x_l; θ_k). X_i alone is weighed by the mean over m parameters: the table's own if X_i was a table before the cut (the old link was
within X_i), fresh draws from the base measure otherwise. That is Neal's Algorithm 8 (2000) for links, and exact: a step begins by drawing θ_k | x_k for every table and ends by
forgetting them, so between steps the law of the links is the collapsed one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.statistics import draw_parameters, log_likelihood
from maitre.moves.auxiliary import draw_all_parameters, parameter_count, total_log_likelihood
from maitre.moves.base import Move, Report
from maitre.moves.gibbs import NOT_A_NUMBER
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_log, shuffle
from maitre.numerics.rng import RngState
from maitre.states.link_lists import cut, find_behind, link
from maitre.states.links import SCRATCH, LinksState


@kernel
def relink_with_parameters(
    s: Any,
    order: Ints,
    begin: int,
    candidates: Any,
    seating: Any,
    theta: Floats,
    fresh: Floats,
    log_fresh: Floats,
    factors: Floats,
    scored: Ints,
    weights: Floats,
    scratch: Floats,
    rng: Any,
) -> tuple[int, int]:
    """A new link for every point of `order[begin:]`; theta[k] is the parameter of table k, `fresh` has a row for each parameter that X_i alone may have. Statistics are not kept up to date.

    Returns where it stopped and the number of likelihoods.
    """
    labels, sizes, marks, members = seating.labels, seating.sizes, seating.marks, seating.members
    n_fresh, n_parameters, empty = len(fresh), theta.shape[1], len(sizes) - SCRATCH
    evaluations = 0
    stopped = len(order)
    for t in range(begin, len(order)):
        if seating.n_free[0] == 0:
            stopped = t
            break
        i = int(order[t])
        own: Any = np.int64(labels[i])
        n_members = find_behind(seating, i, -1, len(labels))
        now = seating.clock[0]
        whole = marks[seating.links[i]] == now
        highest = -np.inf
        for a in range(n_fresh):
            if a == 0 and whole:
                for p in range(n_parameters):
                    fresh[0, p] = theta[own, p]
            else:
                draw_parameters(s, empty, fresh[a], rng)
            log_fresh[a] = 0.0
            for position in range(n_members):
                log_fresh[a] += log_likelihood(s, fresh[a], members[position])
            highest = max(highest, log_fresh[a])
        total = 0.0
        for a in range(n_fresh):
            total += math.exp(log_fresh[a] - highest)
        log_alone = highest + math.log(total / n_fresh)
        evaluations += n_fresh * n_members
        row, n_candidates = candidates.start[i], candidates.start[i + 1] - candidates.start[i]
        for c in range(n_candidates):
            j = candidates.targets[row + c]
            k: Any = np.int64(labels[j])
            value = candidates.log_weights[row + c]
            if marks[j] == now:
                value += log_alone
            elif value > -np.inf:
                if scored[k] != now:
                    factors[k] = 0.0
                    for position in range(n_members):
                        factors[k] += log_likelihood(s, theta[k], members[position])
                    scored[k] = now
                    evaluations += n_members
                value += factors[k]
            weights[c] = value
        chosen = draw_log(weights, n_candidates, scratch, rng)
        if chosen < 0:
            stopped = -1 - t
            break
        new = int(candidates.targets[row + chosen])
        k = np.int64(labels[new])
        if marks[new] == now:
            a = draw_log(log_fresh, n_fresh, scratch, rng)
            k = own if whole else seating.free[seating.n_free[0] - 1]
            seating.n_free[0] -= 0 if whole else 1
            for p in range(n_parameters):
                theta[k, p] = fresh[a, p]
        if k != own:
            for position in range(n_members):
                labels[members[position]] = k
            sizes[k] += n_members
            sizes[own] -= n_members
            if sizes[own] == 0:
                seating.free[seating.n_free[0]] = own
                seating.n_free[0] += 1
        cut(seating, i)
        link(seating, i, new)
        seating.choice[i] = chosen
    return stopped, evaluations


class ExplicitLinks(Move):
    """Gibbs over links with explicit table parameters, `n_auxiliary` of them for a new table: for any family that can draw and score parameters."""

    name = "explicit_links"
    state = LinksState
    needs = ("parameters",)

    def __init__(self, n_auxiliary: int = 1) -> None:
        self.n_auxiliary = whole_number("n_auxiliary", n_auxiliary, least=1)

    def step(self, state: LinksState, rng: RngState) -> Report:
        order = np.arange(state.model.n)
        shuffle(order, rng)
        state.rebuild()
        n_parameters = int(state.run(parameter_count))
        theta, fresh = np.zeros((state.capacity, n_parameters)), np.zeros((self.n_auxiliary, n_parameters))
        state.run(draw_all_parameters, state.sizes, theta, rng)
        room, log_fresh = np.zeros((2, max(state.n_most_candidates, self.n_auxiliary))), np.zeros(self.n_auxiliary)
        begin = operations = 0
        while True:
            arrays = (state.candidates, state.seating, theta, fresh, log_fresh, state.factors, state.scored, room[0], room[1])
            stopped, evaluations = state.run(relink_with_parameters, order, begin, *arrays, rng)
            operations += evaluations
            if stopped < 0:
                raise ValueError(NOT_A_NUMBER.format(point=order[-1 - stopped]))
            if stopped == len(order):
                break
            state.make_room()
            theta = np.concatenate([theta, np.zeros((state.capacity - len(theta), n_parameters))])
            begin = stopped
        state.rebuild()
        if not state.collapsed:
            state.explicit_log_likelihood = float(state.run(total_log_likelihood, state.labels, theta))
        state.log_joint = state.compute_log_joint()
        return Report(operations, state.model.n, state.model.n)
