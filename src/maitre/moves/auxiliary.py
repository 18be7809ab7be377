"""Neal's Algorithm 8: points choose between clusters with explicit parameters and m fresh draws from the base measure.

Target: p(C, θ, x) ∝ V(n, K) ∏_c W(|c|) G0(θ_c) ∏_{i∈c} F(x_i; θ_c). Exact: the m auxiliary parameters are part of an augmented state in which each choice is a Gibbs
draw (Neal 2000, section 6). A step begins by drawing θ_c | x_c for every cluster and ends by forgetting θ, so between steps the state is the partition alone
and the law of the partition is the collapsed one. A family without closed marginals needs no more than draws of θ | x_c; its log joint is then
log p(C) + Σ log F(x_i; θ) at the parameters drawn last.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.statistics import add, clear, draw_parameters, log_likelihood, n_parameters, refresh, remove
from maitre.moves.base import Move, Report
from maitre.moves.gibbs import NOT_A_NUMBER
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_log, shuffle
from maitre.numerics.rng import RngState
from maitre.states.mixture import MixtureState, first_empty


@kernel
def parameter_count(s: Any) -> int:
    """How many numbers one cluster's parameter takes."""
    return n_parameters(s)  # type: ignore[no-any-return]


@kernel
def draw_all_parameters(s: Any, sizes: Ints, theta: Floats, rng: Any) -> None:
    """theta[k] ~ p(θ | x_k) for every occupied slot."""
    for k in range(len(sizes)):
        if sizes[k] > 0:
            draw_parameters(s, k, theta[k], rng)


@kernel
def total_log_likelihood(s: Any, labels: Slots, theta: Floats) -> float:
    """Σ_i log F(x_i; θ of its cluster)."""
    total = 0.0
    for i in range(len(labels)):
        total += log_likelihood(s, theta[labels[i]], i)
    return total


@kernel
def reseat_with_parameters(
    s: Any,
    order: Ints,
    start: int,
    labels: Slots,
    sizes: Ints,
    occupancy: Ints,
    log_join: Floats,
    log_v: Floats,
    log_w: Floats,
    theta: Floats,
    fresh: Floats,
    weights: Floats,
    scratch: Floats,
    rng: Any,
) -> tuple[int, int]:
    """Algorithm 8 for the points of `order[start:]`; `fresh` has a row for each auxiliary parameter. Returns where it stopped and the number of likelihoods."""
    n_clusters, n_slots, free = occupancy[0], occupancy[1], occupancy[2]
    n_fresh = len(fresh)
    evaluations = 0
    stopped = len(order)
    for t in range(start, len(order)):
        if free < 0:
            stopped = t
            break
        i = order[t]
        own = np.int64(labels[i])
        alone = sizes[own] == 1
        remove(s, own, i)
        sizes[own] -= 1
        if alone:  # its parameter becomes the first auxiliary one
            clear(s, own)
            log_join[own] = -np.inf
            n_clusters -= 1
            for p in range(theta.shape[1]):
                fresh[0, p] = theta[own, p]
            free = min(free, own)
        else:
            log_join[own] = log_w[sizes[own] + 1] - log_w[sizes[own]]
        refresh(s, own)
        for j in range(1 if alone else 0, n_fresh):
            draw_parameters(s, free, fresh[j], rng)
        log_new = log_w[1] + log_v[n_clusters + 1] - log_v[n_clusters] - math.log(n_fresh)
        for k in range(n_slots):
            weights[k] = log_join[k] + log_likelihood(s, theta[k], i) if sizes[k] > 0 else -np.inf
        for j in range(n_fresh):
            weights[n_slots + j] = log_new + log_likelihood(s, fresh[j], i)
        evaluations += n_clusters + n_fresh
        chosen = draw_log(weights, n_slots + n_fresh, scratch, rng)
        if chosen < 0:
            stopped = -1 - t
            break
        if chosen >= n_slots:
            for p in range(theta.shape[1]):
                theta[free, p] = fresh[chosen - n_slots, p]
            chosen = free
            n_clusters += 1
        add(s, chosen, i)
        refresh(s, chosen)
        sizes[chosen] += 1
        labels[i] = chosen
        log_join[chosen] = log_w[sizes[chosen] + 1] - log_w[sizes[chosen]]
        free = first_empty(sizes, 0)
        n_slots = max(n_slots, free + 1)
    occupancy[0], occupancy[1], occupancy[2] = n_clusters, n_slots, free
    return stopped, evaluations


class Auxiliary(Move):
    """Gibbs with explicit cluster parameters and `n_auxiliary` fresh ones per visit: for any family that can draw and score parameters."""

    name = "auxiliary"
    needs = ("parameters",)

    def __init__(self, n_auxiliary: int = 3) -> None:
        self.n_auxiliary = whole_number("n_auxiliary", n_auxiliary, least=1)

    def step(self, state: MixtureState, rng: RngState) -> Report:
        order = np.arange(state.model.n)
        shuffle(order, rng)
        n_parameters = int(state.run(parameter_count))
        theta = np.zeros((state.capacity, n_parameters))
        fresh = np.zeros((self.n_auxiliary, n_parameters))
        state.run(draw_all_parameters, state.sizes, theta, rng)
        start = operations = 0
        while True:
            room = np.zeros((2, state.capacity + self.n_auxiliary))
            arrays = (state.labels, state.sizes, state.occupancy, state.log_join, state.log_v, state.log_w, theta, fresh, room[0], room[1])
            stopped, evaluations = state.run(reseat_with_parameters, order, start, *arrays, rng)
            operations += evaluations
            if stopped < 0:
                raise ValueError(NOT_A_NUMBER.format(point=order[-1 - stopped]))
            if stopped == len(order):
                break
            state.make_room()
            theta = np.concatenate([theta, np.zeros((state.capacity - len(theta), n_parameters))])
            start = stopped
        state.changes += state.model.n
        if not state.collapsed:
            state.explicit_log_likelihood = float(state.run(total_log_likelihood, state.labels, theta))
        state.log_joint = state.compute_log_joint()
        return Report(operations, state.model.n, state.model.n)
