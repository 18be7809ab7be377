"""Direct assignment for the hierarchical Dirichlet process (Teh, Jordan, Beal & Blei 2006): every point's cluster is redrawn given all others' and the common weights β.

A sweep visits the groups one after the other. Point i of group m, taken out, joins cluster k with probability ∝ (n_mk + γβ_k) p(x_i | x_k), a new one ∝ γβ_* p(x_i).
A new cluster breaks its weight off the rest, b ~ Beta(1, α); a cluster that becomes empty gives its weight back. When a group is done, the numbers of tables at which its
points would sit are drawn: of n_mk points, the q-th opens one with probability γβ_k / (γβ_k + q). The weights follow from these (`maitre.moves.franchise`).

Words have a kernel of their own. The weights of all clusters for a word are one product of two rows, (n_mk + γβ_k)/(V η + N_k) and η + N_kw, summed lane by lane of the vector
unit. It is done once for a run of equal words as long as none of them moves, with the point still in: what its own cluster's weight is without it is known, and whether it
stays is decided first. Sums are in single precision: a chance is right within about 1e-7 of the whole.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.statistics import add, clear, log_predictive_all, refresh, remove
from maitre.families.words import Words
from maitre.moves.base import Report
from maitre.moves.dishes import seated
from maitre.moves.franchise import FranchiseMove, Served, draw_tables
from maitre.numerics.arrays import Floats, Ints, Slots, prefetch_row
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_log
from maitre.numerics.prefix import add_lanes, pick_other
from maitre.numerics.rng import RngState, beta, uniform
from maitre.states.franchise import FranchiseState
from maitre.states.mixture import first_empty

_SHORT = np.iinfo(np.uint16).max
_AHEAD = 3  # points: the row of counts for the word there is asked for when a new word is begun. To look for the next other word instead takes longer


@kernel
def sweep_points(
    s: Any,
    groups: Ints,
    starts: Ints,
    labels: Slots,
    sizes: Ints,
    weights: Floats,
    rest: Floats,
    served: Ints,
    in_group: Ints,
    top: float,
    gammas: Floats,
    place: Ints,
    rng: Any,
) -> bool:
    """These groups from the place[0]-th on, in the first of them points from place[1] on; false if slots run out (or counts), with `place` where to go on. rest[0] is β_*."""
    n_slots = len(sizes)
    counts, scores, scratch = np.zeros(n_slots, dtype=np.int64), np.empty(n_slots), np.empty(n_slots)
    for g in range(place[0], len(groups)):
        m = groups[g]
        group = gammas[m]
        for k in range(n_slots):
            counts[k] = 0
        for i in range(starts[m], starts[m + 1]):
            counts[labels[i]] += 1
        for i in range(max(starts[m], place[1]), starts[m + 1]):
            free = first_empty(sizes, 0)
            if free < 0:
                place[0], place[1] = g, i
                return False
            own: Any = np.int64(labels[i])
            remove(s, own, i)
            sizes[own] -= 1
            counts[own] -= 1
            if sizes[own] == 0:
                clear(s, own)
                rest[0] += weights[own]
                weights[own] = 0.0
            refresh(s, own)
            for k in range(n_slots):
                scores[k] = math.log(counts[k] + group * weights[k]) if sizes[k] > 0 else -np.inf
            scores[free] = math.log(group * rest[0])
            log_predictive_all(s, i, n_slots, scores)
            chosen = draw_log(scores, n_slots, scratch, rng)
            if sizes[chosen] == 0:
                weights[chosen] = beta(1.0, top, rng) * rest[0]
                rest[0] -= weights[chosen]
            add(s, chosen, i)
            refresh(s, chosen)
            labels[i] = chosen
            sizes[chosen] += 1
            counts[chosen] += 1
        for k in range(n_slots):
            if counts[k] > 0:
                opened = draw_tables(counts[k], group * weights[k], rng)
                served[k] += opened
                in_group[m] += opened
    return True


@kernel
def sweep_words(
    s: Any,
    groups: Ints,
    starts: Ints,
    labels: Slots,
    sizes: Ints,
    weights: Floats,
    rest: Floats,
    served: Ints,
    in_group: Ints,
    top: float,
    gammas: Floats,
    place: Ints,
    rng: Any,
) -> bool:
    """`sweep_points` for words."""
    n_slots = len(sizes)
    mass, base = s.n_words * s.concentration, np.float32(s.concentration)
    counts, factors, sums = np.zeros(n_slots, dtype=np.int64), np.zeros(n_slots, dtype=np.float32), np.zeros(n_slots, dtype=np.float32)
    free = first_empty(sizes, 0)
    for g in range(place[0], len(groups)):
        m = groups[g]
        group = gammas[m]
        for k in range(n_slots):
            counts[k] = 0
        for i in range(starts[m], starts[m + 1]):
            counts[labels[i]] += 1
        for k in range(n_slots):
            factors[k] = (counts[k] + group * weights[k]) / (mass + s.total[k])
        if free >= 0:
            factors[free] = group * rest[0] / mass
        valid, whole = False, 0.0
        word: Any = np.int64(-1)
        for i in range(max(starts[m], place[1]), starts[m + 1]):
            if free < 0:
                place[0], place[1] = g, i
                return False
            own: Any = np.int64(labels[i])
            if s.word[i] != word:
                valid, word = False, np.int64(s.word[i])
                prefetch_row(s.seen, np.int64(s.word[min(i + _AHEAD, starts[m + 1] - 1)]))  # type: ignore[arg-type]
            alone = sizes[own] == 1
            if alone:  # without the point there is no such cluster: its slot is one more for a new one
                rest[0] += weights[own]
                weights[own] = 0.0
                sizes[own], counts[own], s.total[own], s.seen[word, own] = 0, 0, 0.0, np.float32(0.0)
                factors[own] = np.float32(0.0)
                factors[free] = group * rest[0] / mass
                valid = False
            row = s.seen[word]
            if not valid:
                whole = add_lanes(factors, row, base, sums)
                valid = True
            weight, without = np.float32(0.0), 0.0
            if not alone:
                weight = factors[own] * (np.float32(row[own]) + base)
                without = (counts[own] - 1 + group * weights[own]) / (mass + s.total[own] - 1.0) * (row[own] - 1.0 + s.concentration)
            x = uniform(rng) * (whole - weight + without)
            if x < without:
                continue
            chosen = pick_other(sums, factors, own, weight, x - without)
            if chosen < 0:
                chosen = own if not alone else free
            if chosen == own:
                continue
            valid = False
            if not alone:
                sizes[own] -= 1
                counts[own] -= 1
                s.total[own] -= 1.0
                row[own] -= np.float32(1.0)
                factors[own] = (counts[own] + group * weights[own]) / (mass + s.total[own])
            labels[i] = chosen
            if sizes[chosen] == 0:
                weights[chosen] = beta(1.0, top, rng) * rest[0]
                rest[0] -= weights[chosen]
            sizes[chosen] += 1
            counts[chosen] += 1
            s.total[chosen] += 1.0
            row[chosen] += np.float32(1.0)
            if s.seen.itemsize == 2 and row[chosen] == _SHORT:  # as many as a short count can hold: there must be larger ones before it goes on
                place[0], place[1] = g, i + 1
                return False
            factors[chosen] = (counts[chosen] + group * weights[chosen]) / (mass + s.total[chosen])
            if chosen == free or alone:
                if free >= 0 and sizes[free] == 0:
                    factors[free] = np.float32(0.0)
                free = first_empty(sizes, 0)
                if free >= 0:
                    factors[free] = group * rest[0] / mass
        for k in range(n_slots):
            if counts[k] > 0:
                opened = draw_tables(counts[k], group * weights[k], rng)
                served[k] += opened
                in_group[m] += opened
    return True


class Direct(FranchiseMove):
    """A sweep over all points, then splits and merges of whole tables."""

    name = "direct"

    def redraw(self, state: FranchiseState, proposals: int, rng: RngState) -> tuple[Served, Report]:
        served, accepted = sweep(state, rng), 0
        if proposals > 0:
            seats = seated(state, rng)
            accepted = seats.split_and_merge(state, proposals, rng)
            served = seats.served(state)
        return served, Report(state.model.n * state.n_clusters, proposals, accepted)


def sweep(state: FranchiseState, rng: RngState, groups: Ints | None = None) -> Served:
    """Every point's cluster is redrawn, or those of some groups; returns how many tables they have."""
    groups = np.arange(state.n_groups) if groups is None else groups
    served, in_group, rest, place = (
        np.zeros(state.capacity, dtype=np.int64),
        np.zeros(state.n_groups, dtype=np.int64),
        np.array([state.rest]),
        np.zeros(2, dtype=np.int64),
    )
    function = sweep_words if isinstance(state.family, Words) and state.compiled else sweep_points
    while not state.run(
        function, groups, state.starts, state.labels, state.sizes, state.beta, rest, served, in_group, float(state.prior.top), state.gammas, place, rng
    ):
        state.make_room()
        served = np.append(served, np.zeros(state.capacity - len(served), dtype=np.int64))
    state.rest = float(rest[0])
    state.touched()
    return Served(served, in_group)
