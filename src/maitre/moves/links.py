"""Gibbs sampling of links with tables integrated out (Blei & Frazier 2011; Socher & Manning for links with cycles).

Target: p(links, x) = ∏_i p(c_i) ∏_tables p(x_table). A step cuts the link of one point i and draws a new one from its full conditional. After the cut the points
behind i, X_i, are a table of their own. A link to i itself or to somebody in X_i (which closes a cycle) leaves them alone; a link to j elsewhere joins them to j's table k:

    p(c_i = j | rest) ∝ w(i, j) for j in X_i,    w(i, j) · p(x_k ∪ X_i) / (p(x_k) p(X_i)) otherwise,    w(i, j) = f(d_ij), or α for j = i.

The factor depends on the table only and is computed once for each. Whichever side of a cut is smaller is walked through; the other's statistics follow by subtraction. If X_i
has few points (`patience`, one at least), the factors are products of predictives, p(X_i | x_k), whose cost follows the points' own sizes, not that of a table's statistics: rows
of word counts are much smaller than a vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.families.statistics import (
    add,
    clear,
    derive,
    log_marginal,
    log_predictive,
    log_predictive_without,
    merge,
    refresh,
    remove,
    subtract,
)
from maitre.moves.base import Move, Report
from maitre.moves.gibbs import NOT_A_NUMBER
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_log, shuffle
from maitre.numerics.rng import RngState
from maitre.states.link_lists import cut, find_behind, find_table, link
from maitre.states.links import SCRATCH, LinksState


@kernel
def relink(
    s: Any,
    order: Ints,
    begin: int,
    candidates: Any,
    seating: Any,
    log_marginals: Floats,
    factors: Floats,
    scored: Ints,
    patience: int,
    weights: Floats,
    scratch: Floats,
    rng: Any,
) -> tuple[int, float, int, int]:
    """A new link for every point of `order[begin:]`; a point without a seat gets one.

    One loop rather than several functions: its parts share a dozen local variables and the family's statistics. Returns where it stopped (early if no slot is left),
    the change of the log joint, the number of tables weighed and points walked by, and the number of points that changed tables.
    """
    labels, sizes, marks = seating.labels, seating.sizes, seating.marks
    part, remainder, joined, empty = len(sizes) - 1, len(sizes) - 2, len(sizes) - 3, len(sizes) - SCRATCH
    change, evaluations, moved = 0.0, 0, 0
    stopped = len(order)
    for t in range(begin, len(order)):
        if seating.n_free[0] == 0:
            stopped = t
            break
        i = int(order[t])
        old = int(seating.links[i])
        own: Any = np.int64(labels[i])
        # Which side of the cut is smaller? `behind`: the members are X_i, the points behind i; otherwise they are the others of its table (none if i closes the cycle).
        limit = max(sizes[own] // 2, patience) if own >= 0 else 1
        behind, n_members = True, 1
        if old == i:
            behind, n_members = False, 0
            seating.clock[0] += 1
        else:
            n_members = find_behind(seating, i, old, limit)
            if n_members > limit:
                behind = False
                n_members = find_table(seating, old, i)
        now = seating.clock[0]
        whole = not behind and n_members == 0
        few = behind and n_members <= patience
        if whole:
            now = -1
            if sizes[own] <= patience:
                few, n_members = True, find_table(seating, i, -1)
        # Of few points: log p(X_i | x_k). Of many: statistics of X_i and of what is left of its table, and all factors relative to `log_base`. Slot `empty` is X_i alone.
        alone, log_alone, log_left, log_base = own, 0.0, 0.0, 0.0
        if few:
            if whole:
                factors[empty] = log_marginals[own]
                scored[empty] = seating.clock[0]
            elif own >= 0:
                factors[own] = log_predictive_without(s, own, i)
                if n_members > 1:  # they leave one by one
                    remove(s, own, i)
                    for position in range(1, n_members):
                        refresh(s, own)
                        factors[own] += log_predictive_without(s, own, seating.members[position])
                        remove(s, own, seating.members[position])
        else:
            if whole:
                log_alone = log_marginals[own]
            else:
                clear(s, part)
                for position in range(n_members):
                    add(s, part, seating.members[position])
                clear(s, remainder)
                merge(s, remainder, own)
                subtract(s, remainder, part)
                alone = part if behind else remainder
                for side in (part, remainder):
                    value = log_marginal(s, side)
                    log_alone, log_left = (value, log_left) if side == alone else (log_alone, value)
                factors[own] = log_marginals[own] - log_alone - log_left
                evaluations += n_members
            log_base = log_alone
            factors[empty] = 0.0
            scored[empty] = seating.clock[0]
        if own >= 0:
            scored[own] = seating.clock[0]
        # Weights of the candidates.
        row, n_candidates = candidates.start[i], candidates.start[i + 1] - candidates.start[i]
        for c in range(n_candidates):
            j = int(candidates.targets[row + c])
            k: Any = np.int64(labels[j])
            value = candidates.log_weights[row + c]
            if j == i or (k == own and (marks[j] == now) == behind):
                k = empty
            elif k < 0:
                value = -np.inf
            if value > -np.inf:
                if scored[k] != seating.clock[0]:
                    scored[k] = seating.clock[0]
                    evaluations += 1
                    if few:
                        factors[k] = log_predictive(s, k, i)
                        if n_members > 1:
                            evaluations += n_members
                            add(s, k, i)
                            for position in range(1, n_members):
                                refresh(s, k)
                                factors[k] += log_predictive(s, k, seating.members[position])
                                add(s, k, seating.members[position])
                            for position in range(n_members):
                                remove(s, k, seating.members[position])
                            refresh(s, k)
                    else:
                        clear(s, joined)
                        merge(s, joined, k)
                        merge(s, joined, alone)
                        factors[k] = log_marginal(s, joined) - log_marginals[k] - log_base
                value += factors[k]
            weights[c] = value
        evaluations += 1
        chosen = draw_log(weights, n_candidates, scratch, rng)
        if chosen < 0:
            stopped = -1 - t
            break
        new = int(candidates.targets[row + chosen])
        if own >= 0:
            change += weights[chosen] - weights[seating.choice[i]]
        k = np.int64(labels[new])
        joins = new != i and not (k == own and (marks[new] == now) == behind)
        cut(seating, i)
        seating.choice[i] = chosen
        stays = own >= 0 and (k == own if joins else whole)  # the tables are as before
        if few and not (stays and (whole or n_members == 1)):
            if not stays:
                moved += n_members if whole or not joins else 2 * n_members
                if own >= 0:
                    sizes[own] -= n_members
                    if whole or n_members == 1:
                        for position in range(n_members):
                            remove(s, own, seating.members[position])
                    if not whole:
                        refresh(s, own)
                        log_marginals[own] -= factors[own]
                    else:
                        seating.free[seating.n_free[0]] = own
                        seating.n_free[0] += 1
                if joins:
                    log_marginals[k] += factors[k]
                else:
                    k = np.int64(seating.free[seating.n_free[0] - 1])
                    seating.n_free[0] -= 1
                    clear(s, k)
                    log_marginals[k] = factors[empty]
                sizes[k] += n_members
            for position in range(n_members):
                add(s, k, seating.members[position])
                labels[seating.members[position]] = k
            refresh(s, k)
        if few or stays:
            link(seating, i, new)
            continue
        slot = large = own
        if not whole:  # X_i leaves its table: the smaller side gets a new slot
            slot = int(seating.free[seating.n_free[0] - 1])
            seating.n_free[0] -= 1
            clear(s, slot)
            merge(s, slot, part)
            for position in range(n_members):
                labels[seating.members[position]] = slot
            sizes[slot] = n_members
            log_marginals[slot] = log_alone if behind else log_left
            moved += n_members
            subtract(s, own, slot)
            sizes[own] -= n_members
            log_marginals[own] = log_left if behind else log_alone
            alone = slot if behind else own
        if joins:  # two tables become one: the members of the smaller move
            small, large, point = (alone, k, i) if sizes[alone] <= sizes[k] else (k, alone, new)
            log_joined = factors[k] + log_marginals[k] + log_base
            n_members = find_table(seating, point, -1)
            for position in range(n_members):
                labels[seating.members[position]] = large
            merge(s, large, small)
            sizes[large] += sizes[small]
            sizes[small] = 0
            log_marginals[large] = log_joined
            seating.free[seating.n_free[0]] = small
            seating.n_free[0] += 1
            moved += n_members
        for position in range(3):  # predictives of the tables that are not as before
            changed = own if position == 0 else slot if position == 1 else large
            if changed >= 0 and sizes[changed] > 0:
                derive(s, changed)
        link(seating, i, new)
    return stopped, change, evaluations, moved


def relink_points(state: LinksState, order: Ints, rng: Any) -> Report:
    """Redraw the links of the points in `order`, one after the other, making room for more tables when needed."""
    begin = operations = moved = 0
    patience = state.model.family.merge_cost(state.model.encoded)
    room = np.zeros((2, state.n_most_candidates))
    while True:
        arrays = (state.candidates, state.seating, state.log_marginals, state.factors, state.scored, patience, room[0], room[1])
        stopped, change, evaluations, changed = state.run(relink, order, begin, *arrays, rng)
        state.log_joint += change
        state.changes += changed
        operations += evaluations
        moved += changed
        if stopped < 0:
            raise ValueError(NOT_A_NUMBER.format(point=order[-1 - stopped]))
        if stopped == len(order):
            return Report(operations, len(order), moved)
        state.make_room()
        begin = stopped


class Links(Move):
    """Collapsed Gibbs over links: every point's link is redrawn given all others, and with it moves everybody behind the point."""

    name = "links"
    state = LinksState
    needs = ("marginals", "merging")

    def seat(self, state: LinksState, points: Ints, rng: RngState) -> None:
        """Points without a link get one, one after the other."""
        relink_points(state, points, rng)

    def step(self, state: LinksState, rng: RngState) -> Report:
        order = np.arange(state.model.n)
        shuffle(order, rng)
        return relink_points(state, order, rng)
