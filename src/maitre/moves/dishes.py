"""Split and merge over whole tables, for the hierarchical Dirichlet process: what single points cannot do in any reasonable time.

Given who sits at which table, what the tables serve is a Dirichlet process mixture with tables for points: p ∝ α^K ∏_k Γ(m_k) p(x_k), m_k the number of tables of cluster k,
with the weights β integrated out. So the points of each group are seated first, those of cluster k by a Chinese restaurant process of mass γβ_k. Then pairs of tables are
picked. Two tables of one cluster propose to split it, of two clusters to merge them; the other tables of S, one after the other in random order, go to either side with
probability ∝ m_side p(x_side ∪ x_table)/p(x_side), which gives log q (for a merge, as they are at present). A split is accepted with

    r = α Γ(m_L) Γ(m_R)/Γ(m_S) · p(x_L) p(x_R)/p(x_S) · σ / q,

σ being the ratio of the chances of picking the pair after and before; a merge with 1/r. Afterwards β is drawn given the numbers of tables, which are forgotten.
One table for all points of a group in a cluster would be simpler, and wrong.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.statistics import add, clear, derive, log_predictive_raw, remove
from maitre.moves.franchise import Served
from maitre.moves.pairs import fill_members, list_members, log_chance, pick_pair
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled, compiled_form_of, kernel
from maitre.numerics.draw import draw_below, draw_event, draw_log, draw_part, shuffle
from maitre.numerics.rng import RngState
from maitre.states.franchise import FranchiseState
from maitre.states.group_counts import sizes_of
from maitre.states.mixture import first_empty

_TEMPORARY_SLOTS = 3


@compiled
def seat(labels: Slots, starts: Ints, weights: Floats, gammas: Floats, tables: Slots, dishes: Slots, in_group: Ints, rng: RngState) -> int:
    """tables[i] is where point i sits, among those of its group in its cluster; dishes[t] is table t's cluster. Returns how many tables there are."""
    n_slots, n_tables = len(weights), 0
    counts, begin = np.zeros(n_slots, dtype=np.int64), np.zeros(n_slots, dtype=np.int64)
    longest = 0
    for m in range(len(starts) - 1):
        longest = max(longest, starts[m + 1] - starts[m])
    order = np.empty(longest, dtype=np.int64)
    for m in range(len(starts) - 1):
        for i in range(starts[m], starts[m + 1]):
            counts[labels[i]] += 1
        taken = 0
        for i in range(starts[m], starts[m + 1]):  # places for the points of each cluster, clusters in order of appearance
            k = labels[i]
            if counts[k] > 0:
                begin[k] = taken
                taken += counts[k]
                counts[k] = 0
        for i in range(starts[m], starts[m + 1]):
            k = labels[i]
            sat = counts[k]
            place, mass = begin[k] + sat, gammas[m] * weights[k]
            if sat == 0 or draw_part(mass, mass + sat, rng):
                tables[i], dishes[n_tables] = n_tables, k
                n_tables += 1
                in_group[m] += 1
            else:
                tables[i] = tables[order[begin[k] + draw_below(sat, rng)]]
            order[place] = i
            counts[k] += 1
        for i in range(starts[m], starts[m + 1]):
            counts[labels[i]] = 0
    return n_tables


def join(s: Any, slot: int, table: int, points: Ints, begin: Ints, sizes: Ints) -> float:
    """The points of a table join a slot; returns log p(x_table | x_slot)."""
    value = 0.0
    for place in range(begin[table], begin[table] + sizes[table]):
        value += log_predictive_raw(s, slot, points[place])
        add(s, slot, points[place])
    return value


def leave(s: Any, slot: int, table: int, points: Ints, begin: Ints, sizes: Ints) -> None:
    """The points of a table leave a slot."""
    for place in range(begin[table], begin[table] + sizes[table]):
        remove(s, slot, points[place])


for _function in (join, leave):
    compiled_form_of(_function, inline=False)(_function)


@kernel
def move_dishes(
    s: Any,
    n_moves: int,
    log_top: float,
    dishes: Slots,
    n_served: Ints,
    points: Ints,
    begin: Ints,
    sizes: Ints,
    members: Ints,
    first_member: Ints,
    taken: Ints,
    rng: Any,
) -> tuple[int, int]:
    """Proposals; returns how many were made before slots ran out or an accepted one, and whether one was.

    Table t, of cluster dishes[t], has the points points[begin[t]], …, sizes[t] of them. n_served[k] tables are of cluster k, listed in `members` from first_member[k] on;
    slots with taken[k] = 0 are free.
    """
    n_tables = len(dishes)
    rest, weights, scratch = np.empty(n_tables, dtype=np.int64), np.empty(2), np.empty(2)
    left_slot = first_empty(taken, 0)
    right_slot = first_empty(taken, left_slot + 1) if left_slot >= 0 else -1
    whole = first_empty(taken, right_slot + 1) if right_slot >= 0 else -1
    if whole < 0 or n_tables < 2:
        return 0 if n_tables >= 2 else n_moves, 0
    for made in range(n_moves):
        i, j = pick_pair(dishes, n_served, members, first_member, rng)
        first: Any = np.int64(dishes[i])
        second: Any = np.int64(dishes[j])
        splitting = first == second
        n_rest = 0
        for part in range(1 if splitting else 2):
            k = first if part == 0 else second
            for place in range(first_member[k], first_member[k] + n_served[k]):
                if members[place] != i and members[place] != j:
                    rest[n_rest] = members[place]
                    n_rest += 1
        shuffle(rest[:n_rest], rng)
        log_left, log_right = join(s, left_slot, i, points, begin, sizes), join(s, right_slot, j, points, begin, sizes)
        log_whole = join(s, whole, i, points, begin, sizes) + join(s, whole, j, points, begin, sizes)
        n_left, n_right, log_q = 1, 1, 0.0
        for t in range(n_rest):
            table = rest[t]
            log_whole += join(s, whole, table, points, begin, sizes)
            gain_left, gain_right = join(s, left_slot, table, points, begin, sizes), join(s, right_slot, table, points, begin, sizes)
            weights[0], weights[1] = math.log(n_left) + gain_left, math.log(n_right) + gain_right
            left = draw_log(weights, 2, scratch, rng) <= 0 if splitting else dishes[table] == first
            highest = max(weights[0], weights[1])
            log_q += (weights[0] if left else weights[1]) - highest - math.log(math.exp(weights[0] - highest) + math.exp(weights[1] - highest))
            leave(s, right_slot if left else left_slot, table, points, begin, sizes)
            rest[t] = table if left else -1 - table  # those on the right are marked
            n_left, n_right = n_left + (1 if left else 0), n_right + (0 if left else 1)
            log_left, log_right = log_left + (gain_left if left else 0.0), log_right + (0.0 if left else gain_right)
        log_r = log_top + math.lgamma(n_left) + math.lgamma(n_right) - math.lgamma(n_left + n_right) + log_left + log_right - log_whole - log_q
        log_r += log_chance(n_tables, n_left, n_right, False) - log_chance(n_tables, n_left + n_right, 0, True)
        accepted = draw_event(log_r if splitting else -log_r, rng)
        for t in range(-2, n_rest):  # the two tables picked and all others: out of the temporary slots, and into their new ones
            table = i if t == -2 else j if t == -1 else rest[t] if rest[t] >= 0 else -1 - rest[t]
            on_left = t == -2 or (t >= 0 and rest[t] >= 0)
            leave(s, whole, table, points, begin, sizes)
            leave(s, left_slot if on_left else right_slot, table, points, begin, sizes)
            if accepted and not on_left:
                leave(s, second, table, points, begin, sizes)
                target = right_slot if splitting else first
                dishes[table] = target
        for slot in (left_slot, right_slot, whole):
            clear(s, slot)
            derive(s, slot)
        if accepted:
            target = right_slot if splitting else first
            for t in range(-1, n_rest):
                table = j if t == -1 else -1 - rest[t]
                if t == -1 or rest[t] < 0:
                    join(s, target, table, points, begin, sizes)
            if not splitting:
                clear(s, second)
            for slot in (first, second, target):
                derive(s, slot)
            return made + 1, 1
    return n_moves, 0


class Seats:
    """Where every point sits (`tables`), what each table serves (`dishes`), and how many tables a group has. The weights are to be drawn given these."""

    def __init__(self, tables: Slots, dishes: Slots, in_group: Ints) -> None:
        self.tables, self.dishes, self.in_group = tables, dishes, in_group

    def served(self, state: FranchiseState) -> Served:
        """How many tables there are."""
        return Served(sizes_of(self.dishes, state.capacity), self.in_group)

    def split_and_merge(self, state: FranchiseState, proposals: int, rng: RngState) -> int:
        """So many proposals; returns how many were accepted. Labels follow the tables."""
        n, n_tables = state.model.n, len(self.dishes)
        sizes = sizes_of(self.tables, n_tables).astype(np.int32)
        points, begin = np.empty(n, dtype=np.int32), np.empty(n_tables, dtype=np.int32)
        list_members(self.tables, sizes, points, begin)
        made = accepted = 0
        while made < proposals:
            if state.crowded:
                state.widen()
            served = sizes_of(self.dishes, state.capacity)
            if np.count_nonzero(served == 0) < _TEMPORARY_SLOTS:
                state.relabel(self.tables, self.dishes)
                state.make_room()
                continue
            members, first_member = np.empty(n_tables, dtype=np.int32), np.empty(state.capacity, dtype=np.int64)
            (list_members if state.compiled else fill_members)(self.dishes, served, members, first_member)
            arrays = (self.dishes, served, points, begin, sizes, members, first_member, served)
            done, changed = state.run(move_dishes, proposals - made, math.log(float(state.prior.top)), *arrays, rng)
            made, accepted = made + int(done), accepted + int(changed)
        state.relabel(self.tables, self.dishes)
        return accepted


def seated(state: FranchiseState, rng: RngState) -> Seats:
    """The points of each group at tables, given their clusters and these clusters' weights."""
    tables, dishes, in_group = np.empty(state.model.n, dtype=np.int32), np.empty(state.model.n, dtype=np.int32), np.zeros(state.n_groups, dtype=np.int64)
    function: Any = seat if state.compiled else seat.py_func  # type: ignore[attr-defined]
    n_tables = int(function(state.labels, state.starts, state.beta, state.gammas, tables, dishes, in_group, rng))
    return Seats(tables, dishes[:n_tables].copy(), in_group)
