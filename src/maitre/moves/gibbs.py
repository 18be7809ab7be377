"""Collapsed Gibbs (Neal's Algorithm 3), for every conjugate family and every Gibbs-type prior.

Target: p(C, x) ∝ V(n, K) ∏_c W(|c|) p(x_c). Each step redraws the seat of one point from its full conditional, so each step, and any order of
steps chosen without looking at the state, leaves the target invariant.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from maitre.families.statistics import (
    add,
    clear,
    log_predictive,
    log_predictive_above,
    log_predictive_four,
    log_predictive_without,
    prefetch,
    refresh,
    remove,
    scores_in_fours,
)
from maitre.moves.base import Move, Report
from maitre.numerics.arguments import one_of
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_log, negligible, shuffle
from maitre.numerics.elementary import fast_exp
from maitre.numerics.rng import RngState
from maitre.states.mixture import MixtureState, first_empty

NOT_A_NUMBER = "the density of point {point} is not a number: its values or the hyper-parameters are too extreme for double precision; rescale the columns, or choose others"
_AHEAD = 6  # points between asking the memory for one and its visit: more than the four that may be scored at once
_OUT_OF_REACH = 45.0  # nats behind the best
CALM = 64  # points without a move after which four points are scored at once: corrections are then rare


@kernel
def reseat(
    s: Any,
    order: Ints,
    start: int,
    labels: Slots,
    sizes: Ints,
    occupancy: Ints,
    log_join: Floats,
    log_v: Floats,
    log_w: Floats,
    weights: Floats,
    scratch: Floats,
    scores: Floats,
    rng: Any,
) -> tuple[int, float, int, int]:
    """Give every point of `order[start:]` a new seat; a point whose label is −1 has none yet.

    One loop rather than several functions: it is the innermost loop of the library. A point is taken out of its cluster only if it moves: the weight of its
    own cluster is the predictive *without* the point. While few points move, four are scored at once where the family can, and the scores of clusters that change
    meanwhile are corrected. Returns where it stopped (early if no empty slot is left), the change of the log joint, the number of
    predictive evaluations and the number of points that moved.
    """
    n_clusters, n_slots, free = occupancy[0], occupancy[1], occupancy[2]
    change, evaluations, moved = 0.0, 0, 0
    stopped = len(order)
    slack = negligible(rng)
    calm, ahead = 0, 4  # points since the last move; how many of the four points scored together are used up
    for t in range(start, len(order)):
        i = order[t]
        if t + _AHEAD < len(order):
            prefetch(s, order[t + _AHEAD])
        if ahead == 4 and calm >= CALM and scores_in_fours(s) and t + 4 <= len(order):
            log_predictive_four(s, order[t], order[t + 1], order[t + 2], order[t + 3], n_slots, scores)
            ahead = 0
        calm += 1
        own: Any = np.int64(labels[i])  # of one type with other slots: a family's functions are compiled for each type
        alone = own >= 0 and sizes[own] == 1
        if free < 0 and not alone:
            stopped = t
            break
        others = n_clusters - 1 if alone else n_clusters
        log_new = log_w[1] + log_v[others + 1] - log_v[others]
        stay = -np.inf
        if own >= 0:
            m = sizes[own]
            stay = (log_new if alone else log_w[m] - log_w[m - 1]) + log_predictive_without(s, own, i)
        if ahead < 4:
            for k in range(n_slots):
                weights[k] = log_join[k] + scores[ahead, k]
            if not alone:
                weights[free] = log_new + scores[ahead, free]
            ahead += 1
        else:
            for k in range(n_slots):
                weights[k] = log_join[k]
            if not alone:
                weights[free] = log_new
            if own >= 0:
                weights[own] = -np.inf
            log_predictive_above(s, i, n_slots, stay - slack, weights)
        if own >= 0:
            weights[own] = stay
        chosen = draw_log(weights, n_slots, scratch, rng)
        evaluations += n_slots
        if chosen < 0:
            stopped = -1 - t
            break
        if chosen == own:
            continue
        moved += 1
        calm = 0
        change += weights[chosen]
        if own >= 0:
            change -= weights[own]
            remove(s, own, i)
            sizes[own] -= 1
            if sizes[own] == 0:
                clear(s, own)
                log_join[own] = -np.inf
                n_clusters -= 1
                if free < 0 or own < free:
                    free = own
            else:
                log_join[own] = log_w[sizes[own] + 1] - log_w[sizes[own]]
            refresh(s, own)
        add(s, chosen, i)
        refresh(s, chosen)
        labels[i] = chosen
        sizes[chosen] += 1
        log_join[chosen] = log_w[sizes[chosen] + 1] - log_w[sizes[chosen]]
        if sizes[chosen] == 1:
            n_clusters += 1
            free = first_empty(sizes, 0)
            if free >= n_slots:
                n_slots, ahead = free + 1, 4
        for row in range(ahead, 4):  # points scored already, before these two clusters changed
            later = order[t + 1 + row - ahead]
            for side in range(2):
                k = chosen if side == 0 else own
                if k >= 0:
                    scores[row, k] = log_predictive(s, k, later)
    occupancy[0], occupancy[1], occupancy[2] = n_clusters, n_slots, free
    return stopped, change, evaluations, moved


@kernel
def surprises(s: Any, points: Ints, labels: Slots, sizes: Ints, occupancy: Ints, log_join: Floats, log_v: Floats, log_w: Floats, weights: Floats) -> float:
    """−Σ over the points of the log probability of a point's seat given all others'."""
    n_clusters, n_slots, free, total = occupancy[0], occupancy[1], occupancy[2], 0.0
    for i in points:
        own: Any = np.int64(labels[i])
        alone = sizes[own] == 1
        others = n_clusters - 1 if alone else n_clusters
        log_new = log_w[1] + log_v[others + 1] - log_v[others]
        stay = (log_new if alone else log_w[sizes[own]] - log_w[sizes[own] - 1]) + log_predictive_without(s, own, i)
        for k in range(n_slots):
            weights[k] = log_join[k]
        if free >= 0 and not alone:
            weights[free] = log_new
        weights[own] = -np.inf
        log_predictive_above(s, i, n_slots, stay - _OUT_OF_REACH, weights)
        weights[own] = stay
        highest = stay
        for k in range(n_slots):
            highest = max(highest, weights[k])
        mass = 0.0
        for k in range(n_slots):
            mass += fast_exp(weights[k] - highest)
        total += highest - stay + math.log(mass)
    return total


def label_surprise(state: MixtureState, points: Ints) -> float:
    """How many nats the log joint lies below the log probability of all partitions like this one, estimated from some of the points.

    A partition's log joint is log p(x) + log p(C | x). Where clusters overlap the second term falls in proportion to the number of points, and a partition into one
    cluster, for which it is 0, may have a higher log joint than any that the posterior would ever draw. What is added here, −Σ log p(seat | others), makes every point count
    with its density under all clusters, wherever it sits: so clusterings with sharp borders can be compared with draws. Its mean over draws is the labels' entropy.
    """
    arrays = (state.labels, state.sizes, state.occupancy, state.log_join, state.log_v, state.log_w, state.weights)
    return float(state.run(surprises, points, *arrays)) * state.model.n / len(points)


def reseat_points(state: MixtureState, order: Ints, rng: Any) -> Report:
    """Redraw the seats of the points in `order`, one after the other, making room for more clusters when needed."""
    start = operations = moved = 0
    while True:
        arrays = (state.labels, state.sizes, state.occupancy, state.log_join, state.log_v, state.log_w, state.weights, state.scratch, state.scores)
        stopped, change, evaluations, changed = state.run(reseat, order, start, *arrays, rng)
        state.log_joint += change
        state.changes += changed
        operations += evaluations
        moved += changed
        if stopped < 0:
            raise ValueError(NOT_A_NUMBER.format(point=order[-1 - stopped]))
        if stopped == len(order):
            return Report(operations, len(order), moved)
        state.make_room()
        start = stopped


class Gibbs(Move):
    """Collapsed Gibbs: every point's seat is redrawn given all others.

    `order="random"` visits the points in a fresh random order each sweep; `"systematic"` in the order of the data.
    """

    name = "gibbs"
    needs = ("marginals",)

    def __init__(self, order: Literal["random", "systematic"] = "random") -> None:
        self.order = one_of("order", order, ("random", "systematic"))

    def seat(self, state: MixtureState, points: Ints, rng: RngState) -> None:
        """Points without a seat get one, one after the other: sequential prediction."""
        reseat_points(state, points, rng)

    def step(self, state: MixtureState, rng: RngState) -> Report:
        order = np.arange(state.model.n)
        if self.order == "random":
            shuffle(order, rng)
        return reseat_points(state, order, rng)
