"""Codes of rankings by an ordering σ of all items, and orderings drawn given one ranking alone.

The code of ranking π at place j, s_j, is how many items that stand before π(j) in σ are not among π(1), …, π(j−1).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from maitre.families.rankings import count_copies, items_left
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.bits import WORD, count_below
from maitre.numerics.compilation import compiled, compiled_apart, compiled_form_of
from maitre.numerics.draw import draw_log, shuffle

Places = npt.NDArray[np.int16]


@compiled
def fill_codes(items: Any, begin: int, end: int, places: Any, codes: Any) -> None:
    """codes[j] = s_j; `places` is where every item stands in the ordering."""
    if len(places) <= WORD:
        taken = np.uint64(0)
        for j in range(begin, end):
            place = places[items[j]]
            codes[j - begin] = place - count_below(taken, place)
            taken |= np.uint64(1) << np.uint64(place)
    else:
        for j in range(begin, end):
            place = places[items[j]]
            code = np.int64(place)
            for i in range(begin, j):
                if places[items[i]] < place:
                    code -= 1
            codes[j - begin] = code


@compiled
def weigh_codes(s: Any, d: int, places: Places, theta: Floats) -> float:
    """Σ_j θ_j s_j of ranking d."""
    begin, end = s.starts[d], s.starts[d + 1]
    fill_codes(s.items, begin, end, places, s.codes)
    value = 0.0
    for j in range(end - begin):
        value += theta[j] * s.codes[j]
    return value


@compiled_apart
def invert(ordering: Places, places: Places) -> None:
    """Where every item stands."""
    for place in range(len(ordering)):
        places[ordering[place]] = place


@compiled_apart
def set_ordering(s: Any, k: int, ordering: Places) -> None:
    """Slot k has this ordering; its members' codes are to be counted anew."""
    for place in range(s.n_items):
        s.orderings[k, place] = ordering[place]
    invert(ordering, s.places[k])


@compiled_apart
def count_codes(s: Any, ballots: Ints, n: int, places: Places, count: Ints, total: Ints) -> None:
    """N_j and S_j of n rankings by an ordering."""
    for j in range(len(count)):
        count[j], total[j] = 0, 0
    i = 0
    while i < n:
        d, copies = ballots[i], count_copies(ballots, i, n)
        i += copies
        begin, end = s.starts[d], s.starts[d + 1]
        fill_codes(s.items, begin, end, places, s.codes)
        for j in range(end - begin):
            count[j] += copies
            total[j] += copies * s.codes[j]


def draw_alone(s: Any, d: int, ordering: Places, rng: Any) -> None:
    """σ | ranking d, alone in its cluster: item π(j) takes the (s_j + 1)-th free place, s_j from the prior predictive, and items not ranked the rest at random.

    Exact: p(σ | π) ∝ ∏_j p_j(s_j(π|σ)).
    """
    n, begin, end = s.n_items, s.starts[d], s.starts[d + 1]
    free, others = np.arange(n), items_left(s, d)
    for j in range(end - begin):
        code = draw_log(s.log_first[j], n - j, s.room[0], rng)
        ordering[free[code]] = s.items[begin + j]
        for i in range(code, n - 1 - j):
            free[i] = free[i + 1]
    shuffle(others, rng)
    for i in range(len(others)):
        ordering[free[i]] = others[i]


def draw_ordering_alone(s: Any, k: int, d: int, rng: Any) -> None:
    """The same for slot k."""
    draw_alone(s, d, s.orderings[k], rng)
    invert(s.orderings[k], s.places[k])


for plain in (draw_alone, draw_ordering_alone):
    compiled_form_of(plain, inline=False)(plain)


@compiled_apart
def log_density_alone(s: Any, d: int, places: Places) -> float:
    """The log probability that `draw_alone` gives an ordering."""
    begin, end = s.starts[d], s.starts[d + 1]
    fill_codes(s.items, begin, end, places, s.codes)
    value = -math.lgamma(s.n_items - (end - begin) + 1.0)
    for j in range(end - begin):
        value += s.log_first[j, s.codes[j]]
    return value
