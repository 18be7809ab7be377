"""Seat and weight of every point together, for families whose points have weights (`maitre.families.student`).

Target: p(C, u, x). A point far out is at home in a cluster only with a small weight, which it does not have while it sits alone: one after the other they hardly change. So the
point is taken out, a new weight u' is proposed by a random walk on the log scale, and its seat is summed over: with Z(u) = Σ_k p(seat k) p(x | seat k, u),

    r = Z(u') p(u') u' / (Z(u) p(u) u),

and the seat is then drawn given the weight that is kept. Both are Gibbs or Metropolis–Hastings updates of the pair, so the target is left invariant.

Degrees of freedom ω that are sampled hardly move given all weights. So parameters are drawn for every cluster, ω given these with the weights summed out (points are then
Student t distributed), and the weights given both; then the parameters are forgotten.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.statistics import add, clear, log_predictive_all, refresh, remove
from maitre.moves.base import Move, Report
from maitre.moves.hyper import generator_of, slice_hyperparameter
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import kernel
from maitre.numerics.distributions import Hyperprior
from maitre.numerics.draw import draw_event, draw_log, shuffle
from maitre.numerics.rng import RngState, normal
from maitre.states.mixture import MixtureState, first_empty

_STEP = 1.5  # of the random walk


@kernel
def reweigh_points(
    s: Any,
    order: Ints,
    start: int,
    tails: float,
    labels: Slots,
    sizes: Ints,
    occupancy: Ints,
    log_join: Floats,
    log_v: Floats,
    log_w: Floats,
    room: Floats,
    rng: Any,
) -> tuple[int, int]:
    """New weights and seats for the points of `order[start:]`; returns where it stopped (early if no empty slot is left) and how many weights were accepted."""
    n_clusters, n_slots, free, half, accepted = occupancy[0], occupancy[1], occupancy[2], 0.5 * tails, 0
    stopped = len(order)
    for t in range(start, len(order)):
        if free < 0:
            stopped = t
            break
        i = order[t]
        own: Any = np.int64(labels[i])
        remove(s, own, i)
        sizes[own] -= 1
        if sizes[own] == 0:
            clear(s, own)
            log_join[own] = -np.inf
            n_clusters -= 1
            free = min(free, own)
        else:
            log_join[own] = log_w[sizes[own] + 1] - log_w[sizes[own]]
        refresh(s, own)
        present = s.weight[i]
        other = present * math.exp(_STEP * normal(rng))
        gain = half * (math.log(other / present) - other + present)
        for row in range(2):
            s.weight[i] = other if row == 1 else present
            for k in range(n_slots):
                room[row, k] = log_join[k]
            room[row, free] = log_w[1] + log_v[n_clusters + 1] - log_v[n_clusters]
            log_predictive_all(s, i, n_slots, room[row])
            top, total = -np.inf, 0.0
            for k in range(n_slots):
                top = max(top, room[row, k])
            for k in range(n_slots):
                total += math.exp(room[row, k] - top)
            gain += (top + math.log(total)) * (1.0 if row == 1 else -1.0)
        moved = draw_event(gain, rng)
        s.weight[i] = other if moved else present
        accepted += 1 if moved else 0
        chosen = draw_log(room[1 if moved else 0], n_slots, room[2], rng)
        add(s, chosen, i)
        refresh(s, chosen)
        sizes[chosen] += 1
        labels[i] = chosen
        log_join[chosen] = log_w[sizes[chosen] + 1] - log_w[sizes[chosen]]
        if sizes[chosen] == 1:
            n_clusters += 1
            free = first_empty(sizes, 0)
            n_slots = max(n_slots, free + 1)
    occupancy[0], occupancy[1], occupancy[2] = n_clusters, n_slots, free
    return stopped, accepted


class Reweigh(Move):
    """Weights and seats of all points, one point after the other."""

    name = "reweigh"
    needs = ("marginals", "weights")

    def step(self, state: MixtureState, rng: RngState) -> Report:
        order, n = np.arange(state.model.n), state.model.n
        shuffle(order, rng)
        weights = state.arrays["weights"].copy()
        start = accepted = operations = 0
        while True:
            state.replace_points({"weights": weights})
            arrays = (state.labels, state.sizes, state.occupancy, state.log_join, state.log_v, state.log_w, np.empty((3, state.capacity)))
            stopped, changed = state.run(reweigh_points, order, start, float(state.family.tails), *arrays, rng)  # type: ignore[attr-defined]
            accepted, operations = accepted + changed, operations + 2 * (stopped - start) * int(state.occupancy[1])
            if stopped == n:
                break
            state.make_room()
            start = stopped
        state.changes += n
        prior = state.model.family.hyperpriors().get("tails")
        if prior is None:
            state.log_joint = state.compute_log_joint()
        else:
            _redraw_tails(state, prior, rng)
        return Report(operations, n, accepted)


def _redraw_tails(state: Any, prior: Hyperprior, rng: RngState) -> None:
    """Degrees of freedom and all weights, given parameters drawn for the purpose."""
    family, s, generator = state.family, state.statistics, generator_of(rng)
    distances, n_dimensions = family.squared_distances(s, np.flatnonzero(state.sizes), state.labels, generator), s.x.shape[1]

    def log_likelihood(tails: float) -> float:
        constant = math.lgamma(0.5 * (tails + n_dimensions)) - math.lgamma(0.5 * tails) - 0.5 * n_dimensions * math.log(tails)
        return len(distances) * constant - 0.5 * (tails + n_dimensions) * float(np.log1p(distances / tails).sum())

    tails, _ = slice_hyperparameter(log_likelihood, float(family.tails), prior, rng, family.lowest("tails"))
    state.set_family({"tails": tails, "weights": family.weights_given(distances, tails, n_dimensions, generator)})
