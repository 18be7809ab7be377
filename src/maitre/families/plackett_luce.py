"""Plackett–Luce model of rankings: a cluster gives every item a worth w_x ~ Gamma(shape, rate), and a ranking is made place by place by choice in proportion to worth,

    p(π | w) = ∏_{j≤t} w_{π(j)} / Σ_{x ∉ π(1), …, π(j−1)} w_x.

It is the order of arrival of items with times T_x ~ Exp(w_x). Times are exchangeable when worths are integrated out, so that one ranking alone has probability (n − t)!/n! and
its worths can be drawn exactly: n times of Lomax(shape, rate), the earliest for the items ranked in their order and the others at random, then w_x | T_x ~ Gamma(shape + 1, rate + T_x).

Luce (1959), Individual choice behavior; Plackett (1975), The analysis of permutations; Caron & Doucet (2012), Efficient Bayesian inference for generalized Bradley–Terry models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maitre.data.rankings import Ballots
from maitre.families.base import Example
from maitre.families.rankings import LEAST, TINY, RankingFamily, count_copies, items_left, set_aside
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import compiled, compiled_apart, compiled_form_of
from maitre.numerics.draw import shuffle
from maitre.numerics.elementary import fast_log
from maitre.numerics.rng import gamma, uniform

_FITTED = 30  # rounds


class PlackettLuceStatistics(NamedTuple):
    """Run-time state; n items, C slots."""

    items: Any  # `maitre.data.rankings.Ballots`
    starts: Ints
    voters: Ints
    first_voter: Ints
    ballot: Ints
    n_items: int
    shape: float
    rate: float
    log_alone: Floats  # (T + 1,): ln (n − t)!/n!
    worths: Floats  # (C, n)
    whole: Floats  # (C,): their sums
    by_item: Floats  # (n, C): the worths again, a column per slot
    room: Floats  # (2, C)

    def clear(s, k: int) -> None:
        pass

    def add(s, k: int, d: int) -> None:
        pass

    def remove(s, k: int, d: int) -> None:
        pass

    def log_predictive(s, k: int, d: int) -> float:
        return log_likelihood(s, k, d)

    def log_predictive_without(s, k: int, d: int) -> float:
        return log_likelihood(s, k, d)

    def log_predictive_all(s, d: int, n_slots: int, out: Floats) -> None:
        log_likelihoods(s, d, n_slots, out)

    def open_with(s, k: int, d: int, rng: Any) -> None:
        draw_worths_alone(s, k, d, rng)


@compiled
def log_likelihood_of(s: Any, d: int, worths: Floats, whole: float) -> float:
    """ln p(ranking d | worths, whose sum is given)."""
    product, logs, rest = 1.0, 0.0, whole
    for j in range(s.starts[d], s.starts[d + 1]):
        worth = worths[s.items[j]]
        product, logs = set_aside(product * (worth / max(rest, worth)), logs)
        rest -= worth
    return logs + math.log(product)


@compiled
def log_likelihood(s: Any, k: int, d: int) -> float:
    """ln p(ranking d | worths of slot k)."""
    return log_likelihood_of(s, d, s.worths[k], s.whole[k])


@compiled_apart
def log_likelihoods(s: Any, d: int, n_slots: int, out: Floats) -> None:
    """out[k] += ln p(ranking d | worths of slot k) for every slot; all loops over slots are of vector instructions, but for products that are too small."""
    rest, product = s.room[0], s.room[1]
    for k in range(n_slots):
        rest[k], product[k] = s.whole[k], 1.0
    for j in range(s.starts[d], s.starts[d + 1]):
        worths = s.by_item[s.items[j]]
        for k in range(n_slots):
            product[k] *= worths[k] / max(rest[k], worths[k])
            rest[k] -= worths[k]
    for k in range(n_slots):
        out[k] += fast_log(max(product[k], LEAST))
    for k in range(n_slots):
        if product[k] < TINY:
            out[k] += log_likelihood(s, k, d) - math.log(max(product[k], LEAST))


@compiled_apart
def sum_of(values: Floats) -> float:
    """The sum, in a loop that stores nothing: one that does may add in another order when arrays lie close to each other in memory."""
    total = 0.0
    for value in values:
        total += value
    return total


@compiled_apart
def set_worths(s: Any, k: int, worths: Floats) -> None:
    """Slot k has these worths, and its column."""
    for x in range(s.n_items):
        s.worths[k, x] = worths[x]
        s.by_item[x, k] = worths[x]
    s.whole[k] = sum_of(worths)


@compiled_apart
def lay_out_worths(s: Any) -> None:
    """Columns and sums of all slots' worths."""
    for k in range(len(s.whole)):
        set_worths(s, k, s.worths[k])


@compiled_apart
def scale_worths(s: Any, k: int, rng: Any) -> None:
    """The sum of the worths, of which no ranking says anything, drawn from its prior: Gamma(n · shape, rate)."""
    factor = gamma(s.n_items * s.shape, rng) / s.rate / sum_of(s.worths[k])
    for x in range(s.n_items):
        s.worths[k, x] = max(s.worths[k, x] * factor, LEAST)
    s.whole[k] = sum_of(s.worths[k])


def draw_worths_alone(s: Any, k: int, d: int, rng: Any) -> None:
    """Worths of slot k given ranking d alone, exactly."""
    n, begin, end = s.n_items, s.starts[d], s.starts[d + 1]
    times, items = np.empty(n), np.empty(n, dtype=np.int64)
    for x in range(n):
        times[x] = s.rate * math.expm1(-math.log(uniform(rng)) / s.shape)
    times.sort()
    others = items_left(s, d)
    shuffle(others, rng)
    for place in range(n):
        items[place] = s.items[begin + place] if place < end - begin else others[place - (end - begin)]
    s.whole[k] = 0.0
    for place in range(n):
        s.worths[k, items[place]] = max(gamma(s.shape + 1.0, rng) / (s.rate + min(times[place], 1e280)), LEAST)
        s.by_item[items[place], k] = s.worths[k, items[place]]
        s.whole[k] += s.worths[k, items[place]]


compiled_form_of(draw_worths_alone, inline=False)(draw_worths_alone)


@compiled_apart
def redraw_worths(s: Any, k: int, ballots: Ints, n: int, rng: Any) -> None:
    """Worths of slot k given its rankings (equal ones next to each other) and its present worths: for every ranking and place the time that the choice takes,
    ~ Exp(worth of those left), then w_x ~ Gamma(shape + times ranked, rate + Σ times of choices in which x was left), then their sum."""
    ranked, spared, total = np.zeros(s.n_items), np.zeros(s.n_items), 0.0
    i = 0
    while i < n:
        d, copies = ballots[i], count_copies(ballots, i, n)
        i += copies
        begin, end = s.starts[d], s.starts[d + 1]
        rest, here = s.whole[k], 0.0
        for j in range(begin, end):
            item = s.items[j]
            time = (-math.log(uniform(rng)) if copies == 1 else gamma(float(copies), rng)) / max(rest, s.worths[k, item])
            here += time
            rest -= s.worths[k, item]
            ranked[item] += copies
            spared[item] += here
        for j in range(begin, end):
            spared[s.items[j]] -= here  # minus the times after the item was chosen
        total += here
    for x in range(s.n_items):
        s.worths[k, x] = max(gamma(s.shape + ranked[x], rng) / (s.rate + total + min(spared[x], 0.0)), LEAST)
    scale_worths(s, k, rng)


@compiled_apart
def list_distinct(ballots: Ints, n: int) -> tuple[Ints, Floats]:
    """The different ones of n rankings, equal ones next to each other, and how many there are of each."""
    distinct, copies, found, i = np.empty(n, dtype=np.int64), np.zeros(n), 0, 0
    while i < n:
        distinct[found], copies[found] = ballots[i], count_copies(ballots, i, n)
        i += int(copies[found])
        found += 1
    return distinct[:found], copies[:found]


@compiled_apart
def start_worths(s: Any, worths: Floats) -> None:
    """All worths alike, their sum as expected."""
    for x in range(s.n_items):
        worths[x] = s.shape / s.rate


@compiled_apart
def improve_worths(s: Any, distinct: Ints, copies: Floats, worths: Floats) -> None:
    """A step to more probable log worths given so many copies of rankings: Gibbs with expectations in place of draws (Hunter 2004)."""
    ranked, spared, total, whole = np.zeros(s.n_items), np.zeros(s.n_items), 0.0, 0.0
    for x in range(s.n_items):
        whole += worths[x]
    for i in range(len(distinct)):
        d, rest, here = distinct[i], whole, 0.0
        for j in range(s.starts[d], s.starts[d + 1]):
            item = s.items[j]
            here += copies[i] / max(rest, worths[item])
            rest -= worths[item]
            ranked[item] += copies[i]
            spared[item] += here
        for j in range(s.starts[d], s.starts[d + 1]):
            spared[s.items[j]] -= here  # minus the times after the item was chosen
        total += here
    for x in range(s.n_items):
        worths[x] = (s.shape + ranked[x]) / (s.rate + total + min(spared[x], 0.0))
    whole = sum_of(worths)
    for x in range(s.n_items):  # their sum, of which no ranking says anything, as expected
        worths[x] = max(worths[x] * s.n_items * s.shape / s.rate / whole, LEAST)


@compiled_apart
def fit_worths(s: Any, distinct: Ints, copies: Floats, worths: Floats) -> None:
    """The most probable log worths given so many copies of rankings."""
    start_worths(s, worths)
    for _ in range(_FITTED):
        improve_worths(s, distinct, copies, worths)


@dataclass(frozen=True)
class PlackettLuce(RankingFamily):
    """Rankings, best first, of any length. Items' worths in a cluster are Gamma(`shape`, `rate`): a small shape lets few items stand out; the rate is a matter of units only.

    >>> import maitre as mt
    >>> mt.families.PlackettLuce(4).in_one_line()
    'PlackettLuce(n_items=4, shape=0.5, rate=1)'
    """

    n_items: int | None = None
    shape: float = 0.5
    rate: float = 1.0

    POSITIVE = ("shape", "rate")
    NOT_SAMPLED = ("shape", "rate")
    MOVES = "plackett_luce"
    statistics = PlackettLuceStatistics

    def allocate(self, encoded: Ballots, capacity: int, places: int = 1) -> PlackettLuceStatistics:
        """Slots without members; those of a state get their worths from it."""
        n = int(self.n_items or 2)
        longest = int(np.diff(encoded.starts).max(initial=places))
        log_alone = self.log_alone(n, longest)
        worths, whole, columns, room = np.ones((capacity, n)), np.full(capacity, float(n)), np.ones((n, capacity)), np.zeros((2, capacity))
        return PlackettLuceStatistics(*encoded, n, float(self.shape), float(self.rate), log_alone, worths, whole, columns, room)


PlackettLuce.EXAMPLES = (Example(PlackettLuce(4, 0.7), [[0, 1, 2], [0, 1], [1, 0, 3], [3]]), Example(PlackettLuce(3, 1.3), [[0, 1], [1], [2, 1], [0, 2], [1]]))
