"""The Chinese restaurant franchise (Teh, Jordan, Beal & Blei 2006): points choose tables of their group, tables choose what they serve, and the weights β are integrated out.

Point i of group m, taken out, joins a table of n_t points that serves cluster k with probability ∝ n_t p(x_i | x_k), or opens one, ∝ γ/(T + α) for every

    m_k p(x_i | x_k)    (cluster k, served at m_k of the T tables),        α p(x_i)    (a new one).

Here the cluster is chosen first, with all its tables and a new one together, then the table. When a group's points are done, each of its tables, in the order of their
first points, is served anew: cluster k with probability ∝ m_k p(x_t | x_k), a new one ∝ α p(x_t).

Tables are no variable of the state. The points are seated at the beginning of an iteration, given clusters and weights, and the weights are drawn at its end, given the
tables: both are draws from the conditional distribution. Direct assignment does the same work in far less time; this is the sampler by which it is checked, and the
one of the papers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.statistics import add, clear, derive, log_predictive_all, refresh, remove
from maitre.moves.base import Report
from maitre.moves.dishes import AtTables, Seats, join, leave, seated
from maitre.moves.franchise import FranchiseMove, Served
from maitre.moves.pairs import fill_members
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_log
from maitre.numerics.rng import RngState
from maitre.partitions.labels import renumber
from maitre.states.franchise import FranchiseState
from maitre.states.mixture import first_empty


@kernel
def sweep_tables(
    s: Any,
    starts: Ints,
    labels: Slots,
    sizes: Ints,
    tables: Slots,
    dishes: Slots,
    seats: Ints,
    served: Ints,
    in_group: Ints,
    top: float,
    gammas: Floats,
    place: Ints,
    rng: Any,
) -> bool:
    """Groups from place[0] on, in the first of them points from place[1] on, or tables if place[2]; false if slots run out, with `place` where to go on.

    Tables of a group have numbers from its first point's on: seats[t] points sit at table t, which serves dishes[t]. served[k] tables serve cluster k.
    """
    n_slots, n_tables = len(sizes), 0
    for k in range(n_slots):
        n_tables += served[k]
    longest = 0
    for m in range(len(starts) - 1):
        longest = max(longest, starts[m + 1] - starts[m])
    counts, scores, scratch = np.zeros(n_slots, dtype=np.int64), np.empty(n_slots), np.empty(n_slots)
    choices, weights, room = np.empty(longest + 1, dtype=np.int64), np.empty(longest + 1), np.empty(longest + 1)
    points, begin, origin = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64), np.zeros(longest, dtype=np.int64)
    for m in range(place[0], len(starts) - 1):
        first, last = starts[m], starts[m + 1]
        for k in range(n_slots):
            counts[k] = 0
        used = first  # the numbers of tables in use lie below
        for i in range(first, last):
            counts[labels[i]] += 1
            used = max(used, tables[i] + 1)
        for i in range(max(first, place[1]) if place[2] == 0 else last, last):
            free = first_empty(sizes, 0)
            if free < 0:
                place[0], place[1], place[2] = m, i, 0
                return False
            own: Any = np.int64(labels[i])
            table = np.int64(tables[i])
            remove(s, own, i)
            sizes[own] -= 1
            counts[own] -= 1
            seats[table] -= 1
            if seats[table] == 0:
                served[own] -= 1
                in_group[m] -= 1
                n_tables -= 1
            if sizes[own] == 0:
                clear(s, own)
            refresh(s, own)
            scale = gammas[m] / (n_tables + top)
            for k in range(n_slots):
                scores[k] = math.log(counts[k] + scale * served[k]) if sizes[k] > 0 else -np.inf
            scores[free] = math.log(scale * top)
            log_predictive_all(s, i, n_slots, scores)
            chosen = draw_log(scores, n_slots, scratch, rng)
            vacant, n_choices = used, 1
            weights[0] = math.log(scale * served[chosen]) if sizes[chosen] > 0 else 0.0
            for t in range(first, used):
                if seats[t] == 0:
                    vacant = min(vacant, t)
                elif dishes[t] == chosen:
                    choices[n_choices], weights[n_choices] = t, math.log(seats[t])
                    n_choices += 1
            choices[0] = vacant
            table = choices[draw_log(weights, n_choices, room, rng)]
            if seats[table] == 0:
                dishes[table] = chosen
                served[chosen] += 1
                in_group[m] += 1
                n_tables += 1
                used = max(used, table + 1)
            seats[table] += 1
            tables[i] = table
            add(s, chosen, i)
            refresh(s, chosen)
            labels[i] = chosen
            sizes[chosen] += 1
            counts[chosen] += 1
        for i in range(first, last):
            tables[i] -= first
        fill_members(tables[first:last], seats[first:last], points, begin)
        for i in range(first, last):
            tables[i] += first
            points[i - first] += first
        at = AtTables(points, begin, seats[first:], origin)
        for i in range(max(first, place[1]) if place[2] == 1 else first, last):
            table = np.int64(tables[i])
            if points[begin[table - first]] != i:
                continue
            free = first_empty(sizes, 0)
            if free < 0:
                place[0], place[1], place[2] = m, i, 1
                return False
            own = np.int64(dishes[table])
            leave(s, own, table - first, at)
            served[own] -= 1
            sizes[own] -= seats[table]
            if sizes[own] == 0:
                clear(s, own)
            refresh(s, own)
            for k in range(n_slots):
                scores[k] = math.log(served[k]) if sizes[k] > 0 else -np.inf
            scores[free] = math.log(top)
            if seats[table] == 1:
                log_predictive_all(s, i, n_slots, scores)
            else:
                for k in range(n_slots):
                    if scores[k] > -np.inf:
                        scores[k] += join(s, k, table - first, at)
                        leave(s, k, table - first, at)
                clear(s, free)
                derive(s, free)
            chosen = draw_log(scores, n_slots, scratch, rng)
            join(s, chosen, table - first, at)
            refresh(s, chosen)
            dishes[table] = chosen
            served[chosen] += 1
            sizes[chosen] += seats[table]
            for position in range(begin[table - first], begin[table - first] + seats[table]):
                labels[points[position]] = chosen
        place[1], place[2] = 0, 0
    return True


class Tables(FranchiseMove):
    """Points choose tables, tables choose clusters; then splits and merges of whole tables.

    >>> import maitre as mt
    >>> hdp = mt.sample_groups([[3, 1, 0, 0], [2, 2, 0, 0], [0, 0, 2, 3]], moves="tables", draws=10, burn_in=10, chains=1, progress=False)
    >>> hdp.exact
    True
    """

    name = "tables"

    def redraw(self, state: FranchiseState, proposals: int, rng: RngState) -> tuple[Served, Report]:
        seats = choose_tables(state, seated(state, rng), rng)
        accepted = seats.split_and_merge(state, proposals, rng) if proposals else 0
        return seats.served(state), Report(2 * state.model.n * state.n_clusters, proposals, accepted)


def choose_tables(state: FranchiseState, seats: Seats, rng: Any) -> Seats:
    """A sweep of the franchise."""
    state.widen()
    n = state.model.n
    first = np.repeat(state.starts[:-1], np.diff(state.starts))  # of each point's group
    offset = np.repeat(np.cumsum(seats.in_group) - seats.in_group, np.diff(state.starts))
    of_points = seats.tables
    numbers = of_points + first - offset
    tables, dishes = numbers.astype(np.int32), np.zeros(n, dtype=np.int32)
    dishes[numbers] = seats.dishes[of_points]
    at_table = np.bincount(numbers, minlength=n)
    served, in_group, place = np.bincount(seats.dishes, minlength=state.capacity), seats.in_group.copy(), np.zeros(3, dtype=np.int64)
    while not state.run(
        sweep_tables, state.starts, state.labels, state.sizes, tables, dishes, at_table, served, in_group, float(state.prior.top), state.gammas, place, rng
    ):
        state.make_room()
        served = np.append(served, np.zeros(state.capacity - len(served), dtype=np.int64))
    state.touched()
    renumber(tables, n)
    served_by = np.empty(int(tables.max()) + 1, dtype=np.int32)
    served_by[tables] = state.labels
    return Seats.of_tables(tables, served_by, in_group)
