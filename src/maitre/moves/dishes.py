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
from typing import Any, NamedTuple

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


class AtTables(NamedTuple):
    """Points at tables. Those of table t have the numbers first[t] + points[begin[t]], …, sizes[t] of them: first[t] is the first point of its group."""

    points: Any
    begin: Any
    sizes: Any
    first: Any


@compiled
def seat(labels: Any, starts: Ints, weights: Floats, gammas: Floats, at: Any, dishes: Slots, in_group: Ints, rng: RngState) -> int:
    """The points of each group at tables (`at`, to be filled), given their clusters; dishes[t] is table t's cluster. Returns how many tables there are."""
    n_slots, n_tables = len(weights), 0
    counts, places = np.zeros(n_slots, dtype=np.int64), np.zeros(n_slots, dtype=np.int64)
    longest = 0
    for m in range(len(starts) - 1):
        longest = max(longest, starts[m + 1] - starts[m])
    order, table = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    for m in range(len(starts) - 1):
        here, first_table = labels[starts[m] : starts[m + 1]], n_tables
        for i in range(len(here)):
            counts[here[i]] += 1
        taken = 0
        for i in range(len(here)):  # places for the points of each cluster, clusters in order of appearance
            k = here[i]
            if counts[k] > 0:
                places[k] = taken
                taken += counts[k]
                counts[k] = 0
        for i in range(len(here)):
            k = here[i]
            sat = counts[k]
            mass = gammas[m] * weights[k]
            if sat == 0 or draw_part(mass, mass + sat, rng):
                table[i], dishes[n_tables], at.sizes[n_tables], at.first[n_tables] = n_tables, k, 0, starts[m]
                n_tables += 1
                in_group[m] += 1
            else:
                table[i] = table[order[places[k] + draw_below(sat, rng)]]
            order[places[k] + sat] = i
            counts[k] += 1
            at.sizes[table[i]] += 1
        place = starts[m]
        for t in range(first_table, n_tables):
            at.begin[t] = place
            place += at.sizes[t]
        for i in range(len(here)):
            at.points[at.begin[table[i]]] = i
            at.begin[table[i]] += 1
            counts[here[i]] = 0
        for t in range(first_table, n_tables):
            at.begin[t] -= at.sizes[t]
    return n_tables


def join(s: Any, slot: int, table: int, at: Any) -> float:
    """The points of a table join a slot; returns log p(x_table | x_slot)."""
    value = 0.0
    for place in range(at.begin[table], at.begin[table] + at.sizes[table]):
        point = np.int64(at.first[table]) + at.points[place]
        value += log_predictive_raw(s, slot, point)
        add(s, slot, point)
    return value


def leave(s: Any, slot: int, table: int, at: Any) -> None:
    """The points of a table leave a slot."""
    for place in range(at.begin[table], at.begin[table] + at.sizes[table]):
        remove(s, slot, np.int64(at.first[table]) + at.points[place])


for _function in (join, leave):
    compiled_form_of(_function, inline=False)(_function)


@kernel
def move_dishes(
    s: Any,
    n_moves: int,
    log_top: float,
    dishes: Slots,
    n_served: Ints,
    at: Any,
    members: Ints,
    first_member: Ints,
    taken: Ints,
    rng: Any,
) -> tuple[int, int]:
    """Proposals; returns how many were made before slots ran out or an accepted one, and whether one was.

    Table t (`at`) is of cluster dishes[t]. n_served[k] tables are of cluster k, listed in `members` from first_member[k] on; slots with taken[k] = 0 are free.
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
        log_left, log_right = join(s, left_slot, i, at), join(s, right_slot, j, at)
        log_whole = join(s, whole, i, at) + join(s, whole, j, at)
        n_left, n_right, log_q = 1, 1, 0.0
        for t in range(n_rest):
            table = rest[t]
            log_whole += join(s, whole, table, at)
            gain_left, gain_right = join(s, left_slot, table, at), join(s, right_slot, table, at)
            weights[0], weights[1] = math.log(n_left) + gain_left, math.log(n_right) + gain_right
            left = draw_log(weights, 2, scratch, rng) <= 0 if splitting else dishes[table] == first
            highest = max(weights[0], weights[1])
            log_q += (weights[0] if left else weights[1]) - highest - math.log(math.exp(weights[0] - highest) + math.exp(weights[1] - highest))
            leave(s, right_slot if left else left_slot, table, at)
            rest[t] = table if left else -1 - table  # those on the right are marked
            n_left, n_right = n_left + (1 if left else 0), n_right + (0 if left else 1)
            log_left, log_right = log_left + (gain_left if left else 0.0), log_right + (0.0 if left else gain_right)
        log_r = log_top + math.lgamma(n_left) + math.lgamma(n_right) - math.lgamma(n_left + n_right) + log_left + log_right - log_whole - log_q
        log_r += log_chance(n_tables, n_left, n_right, False) - log_chance(n_tables, n_left + n_right, 0, True)
        accepted = draw_event(log_r if splitting else -log_r, rng)
        for t in range(-2, n_rest):  # the two tables picked and all others: out of the temporary slots, and into their new ones
            table = i if t == -2 else j if t == -1 else rest[t] if rest[t] >= 0 else -1 - rest[t]
            on_left = t == -2 or (t >= 0 and rest[t] >= 0)
            leave(s, whole, table, at)
            leave(s, left_slot if on_left else right_slot, table, at)
            if accepted and not on_left:
                leave(s, second, table, at)
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
                    join(s, target, table, at)
            if not splitting:
                clear(s, second)
            for slot in (first, second, target):
                derive(s, slot)
            return made + 1, 1
    return n_moves, 0


class Seats:
    """Where every point sits (`at`), what each table serves (`dishes`), and how many tables a group has. The weights are to be drawn given these."""

    def __init__(self, at: AtTables, dishes: Slots, in_group: Ints) -> None:
        self.at, self.dishes, self.in_group = at, dishes, in_group

    @classmethod
    def of_tables(cls, tables: Any, dishes: Any, in_group: Ints) -> Seats:
        """By the table of every point; those of a group have consecutive numbers."""
        sizes = np.bincount(tables, minlength=len(dishes))
        begin = np.cumsum(sizes) - sizes
        first = np.repeat(np.append(begin, 0)[np.cumsum(in_group) - in_group], in_group)  # of each group
        points = np.argsort(tables, kind="stable") - np.repeat(first, sizes)
        return cls(AtTables(*(np.asarray(each, dtype=np.int32) for each in (points, begin, sizes, first))), np.asarray(dishes, dtype=np.int32), in_group)

    @property
    def tables(self) -> Ints:
        """The table of every point."""
        tables: Ints = np.empty(len(self.at.points), dtype=np.int64)
        tables[np.repeat(self.at.first.astype(np.int64), self.at.sizes) + self.at.points] = np.repeat(np.arange(len(self.dishes)), self.at.sizes)
        return tables

    def served(self, state: FranchiseState) -> Served:
        """How many tables there are."""
        return Served(sizes_of(self.dishes, state.capacity), self.in_group)

    def split_and_merge(self, state: FranchiseState, proposals: int, rng: RngState) -> int:
        """So many proposals; returns how many were accepted. Labels follow the tables."""
        n_tables, made, accepted = len(self.dishes), 0, 0
        while made < proposals:
            if state.crowded:
                state.widen()
            served = sizes_of(self.dishes, state.capacity)
            if np.count_nonzero(served == 0) < _TEMPORARY_SLOTS:
                state.relabel(self.at, self.dishes)
                state.make_room()
                continue
            members, first_member = np.empty(n_tables, dtype=np.int32), np.empty(state.capacity, dtype=np.int64)
            (list_members if state.compiled else fill_members)(self.dishes, served, members, first_member)
            arrays = (self.dishes, served, self.at, members, first_member, served)
            done, changed = state.run(move_dishes, proposals - made, math.log(float(state.prior.top)), *arrays, rng)
            made, accepted = made + int(done), accepted + int(changed)
        state.relabel(self.at, self.dishes)
        return accepted


def seated(state: FranchiseState, rng: RngState) -> Seats:
    """The points of each group at tables, given their clusters and these clusters' weights."""
    n, longest, in_group = state.model.n, int(np.diff(state.starts).max(initial=0)), np.zeros(state.n_groups, dtype=np.int64)
    begin, sizes, first, dishes = (np.empty(n, dtype=np.int32) for _ in range(4))  # of what is never written to there is nothing in memory
    at = AtTables(np.empty(n, dtype=np.uint16 if longest <= 1 << 16 else np.int32), begin, sizes, first)
    function: Any = seat if state.compiled else seat.py_func  # type: ignore[attr-defined]
    n_tables = int(function(state.labels, state.starts, state.beta, state.gammas, at, dishes, in_group, rng))
    return Seats(AtTables(at.points, begin[:n_tables], sizes[:n_tables], first[:n_tables]), dishes[:n_tables], in_group)
