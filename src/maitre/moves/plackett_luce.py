"""Mixtures of Plackett–Luce models: an iteration is a sweep over all voters given the clusters' worths, then new worths given the clusters.

A voter with ranking π, taken out, joins cluster c with probability ∝ W(|c|+1)/W(|c|) p(π | w_c) and opens one with ∝ V(n, K+1)/V(n, K) W(1) (n − t)!/n!, in which case its worths
are drawn from their posterior given π, exactly. So no auxiliary clusters are needed, and nothing is cut off, for any Gibbs-type prior.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from maitre.families.plackett_luce import PlackettLuce, draw_worths_alone, log_likelihood, log_likelihoods, redraw_worths
from maitre.model import Model
from maitre.moves.base import Move, Report
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_log, shuffle
from maitre.numerics.rng import RngState
from maitre.states.mixture import first_empty
from maitre.states.rankings import WorthState, list_ballots


@kernel
def sweep_worths(
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
    for t in range(place[0], len(order)):
        d = order[t]
        alone_here = s.log_alone[s.starts[d + 1] - s.starts[d]]
        log_likelihoods(s, d, sizes, n_slots, like)
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
                draw_worths_alone(s, chosen, d, rng)
                like[chosen] = log_likelihood(s, chosen, d)
                n_clusters += 1
            log_join[chosen] = log_w[sizes[chosen] + 1] - log_w[sizes[chosen]]
            labels[s.voters[v]] = chosen
            if sizes[chosen] == 1 or sizes[own] == 0:
                free = first_empty(sizes, 0)
                while free >= n_slots:
                    like[n_slots] = -np.inf
                    n_slots += 1
        place[1] = 0
    occupancy[0], occupancy[1], occupancy[2] = n_clusters, n_slots, free
    return True


@kernel
def redraw_all_worths(s: Any, sizes: Ints, members: Ints, begin: Ints, rounds: int, rng: Any) -> None:
    """w | x_c of every cluster: alone exactly, otherwise `rounds` steps of Gibbs."""
    for k in range(len(sizes)):
        if sizes[k] == 1:
            draw_worths_alone(s, k, members[begin[k]], rng)
        elif sizes[k] > 1:
            for _ in range(rounds):
                redraw_worths(s, k, members[begin[k] : begin[k] + sizes[k]], sizes[k], rng)


class Worths(Move):
    """Exact sampling of partition and worths; `rounds` is how often worths are redrawn in an iteration."""

    name = "plackett_luce"
    state: ClassVar[type[WorthState]] = WorthState

    def __init__(self, rounds: int = 2) -> None:
        self.rounds = whole_number("rounds", rounds, least=1)

    def check(self, model: Model) -> None:
        """Rankings under a Plackett–Luce model only."""
        if not isinstance(model.family, PlackettLuce):
            raise ValueError(f"move 'plackett_luce' is for the family PlackettLuce, not for {type(model.family).__name__}")

    def step(self, state: WorthState, rng: RngState) -> Report:
        order, place = np.arange(len(state.statistics.starts) - 1), np.zeros(2, dtype=np.int64)
        shuffle(order, rng)
        while True:
            arrays = (state.labels, state.sizes, state.occupancy, state.log_join, state.log_v, state.log_w, np.zeros((3, state.capacity)))
            if state.run(sweep_worths, order, place, *arrays, rng):
                break
            state.make_room()
        members, begin = np.empty(state.model.n, dtype=np.int64), np.zeros(state.capacity, dtype=np.int64)
        list_ballots(state.statistics, state.labels, state.sizes, members, begin)
        state.run(redraw_all_worths, state.sizes, members, begin, self.rounds, rng)
        state.log_joint = state.compute_log_joint()
        return Report(state.model.n * state.n_clusters)
