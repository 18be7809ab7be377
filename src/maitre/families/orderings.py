"""Orderings of items given rankings: costs of pairs, and moves that leave p(σ | θ, x) ∝ exp(−Σ_j θ_j S_j(σ)) invariant or say what they draw from.

Putting l before k costs R[k, l] = Σ θ_j over the rankings that have k at place j and l not before it. Only differences A[k, l] = R[k, l] − R[l, k] matter: an ordering
costs Σ A[k, l] over pairs with l before k, up to a constant.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.codes import Places, count_codes, invert
from maitre.families.rankings import count_copies
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import compiled_apart, compiled_form_of
from maitre.numerics.draw import draw_event, draw_log, shuffle
from maitre.numerics.mallows import mode_of

_ROUNDS = 2
_GAIN = 1e-9


@compiled_apart
def fill_costs(s: Any, ballots: Ints, n: int, theta: Floats, costs: Floats) -> None:
    """R[k, l] for n rankings with these dispersions. Their order matters to rounding alone, and to time: equal ones next to each other are counted together."""
    own = np.zeros(s.n_items)
    for k in range(s.n_items):
        for l in range(s.n_items):  # noqa: E741
            costs[k, l] = 0.0
    i = 0
    while i < n:
        d, copies = ballots[i], count_copies(ballots, i, n)
        i += copies
        begin, end = s.starts[d], s.starts[d + 1]
        for j in range(begin, end):
            item, weight = s.items[j], copies * theta[j - begin]
            own[item] += weight
            for h in range(begin, j):
                costs[item, s.items[h]] -= weight
    for k in range(s.n_items):
        for l in range(s.n_items):  # noqa: E741
            costs[k, l] = own[k] + costs[k, l] if k != l else 0.0


@compiled_apart
def fill_pairs(s: Any, ballots: Ints, n: int, theta: Floats, pairs: Floats) -> None:
    """A[k, l] = R[k, l] − R[l, k]."""
    fill_costs(s, ballots, n, theta, pairs)
    for k in range(s.n_items):
        for l in range(k):  # noqa: E741
            difference = pairs[k, l] - pairs[l, k]
            pairs[k, l], pairs[l, k] = difference, -difference


@compiled_apart
def fill_rows(s: Any, ballots: Ints, n: int, theta: Floats, pairs: Floats, listed: Ints) -> int:
    """The rows of A for the items that any of n rankings has, in time that grows with these; returns how many there are, and `listed` begins with them."""
    own, present, found = np.zeros(s.n_items), np.zeros(s.n_items, dtype=np.int64), 0
    i = 0
    while i < n:
        for j in range(s.starts[ballots[i]], s.starts[ballots[i] + 1]):
            present[s.items[j]] = 1
        i += count_copies(ballots, i, n)
    for item in range(s.n_items):
        if present[item] == 1:
            listed[found] = item
            found += 1
            for other in range(s.n_items):
                pairs[item, other] = 0.0
    i = 0
    while i < n:
        d, copies = ballots[i], count_copies(ballots, i, n)
        i += copies
        for j in range(s.starts[d], s.starts[d + 1]):
            item, weight = s.items[j], copies * theta[j - s.starts[d]]
            own[item] += weight
            for h in range(s.starts[d], j):
                pairs[item, s.items[h]] -= weight
    for a in range(found):
        item = listed[a]
        for other in range(s.n_items):
            pairs[item, other] += own[item]
        pairs[item, item] = 0.0
    for a in range(found):
        for b in range(a):
            difference = pairs[listed[a], listed[b]] - pairs[listed[b], listed[a]]
            pairs[listed[a], listed[b]], pairs[listed[b], listed[a]] = difference, -difference
    return found


@compiled_apart
def best_dispersions(s: Any, count: Ints, total: Ints, theta: Floats) -> None:
    """The mode of every θ_j given N_j and S_j."""
    for j in range(len(theta)):
        theta[j] = mode_of(s.nu * s.r[j] + total[j], s.nu + count[j], s.n_items - 1 - j)


@compiled_apart
def descend(pairs: Floats, ordering: Places) -> None:
    """Each item in turn goes where it costs least, if that is less than where it is."""
    n = len(ordering)
    for item in range(n):
        here = 0
        while ordering[here] != item:
            here += 1
        best, gain, cost = here, -_GAIN, 0.0
        for place in range(here - 1, -1, -1):
            cost -= pairs[item, ordering[place]]
            if cost < gain:
                best, gain = place, cost
        cost = 0.0
        for place in range(here + 1, n):
            cost += pairs[item, ordering[place]]
            if cost < gain:
                best, gain = place, cost
        _move(ordering, here, best)


@compiled_apart
def _move(ordering: Places, here: int, there: int) -> None:
    item, step = ordering[here], 1 if there > here else -1
    while here != there:
        ordering[here] = ordering[here + step]
        here += step
    ordering[there] = item


@compiled_apart
def best_ordering(s: Any, ballots: Ints, n: int, ordering: Places, theta: Floats) -> None:
    """σ*, θ̂: by mean place first (items not ranked share the next), then twice the modes of θ and a descent; a function of the set of rankings. A is left in `s.pairs`."""
    borda, i = np.zeros(s.n_items, dtype=np.int64), 0
    while i < n:
        begin, end, copies = s.starts[ballots[i]], s.starts[ballots[i] + 1], count_copies(ballots, i, n)
        i += copies
        for j in range(begin, end):
            borda[s.items[j]] -= copies * (end - j)
    found = np.argsort(borda, kind="mergesort")
    count, total, places = np.zeros(len(theta), dtype=np.int64), np.zeros(len(theta), dtype=np.int64), np.empty_like(ordering)
    for place in range(s.n_items):
        ordering[place] = found[place]
    for step in range(_ROUNDS + 1):
        invert(ordering, places)
        count_codes(s, ballots, n, places, count, total)
        best_dispersions(s, count, total, theta)
        fill_pairs(s, ballots, n, theta, s.pairs)
        if step < _ROUNDS:
            descend(s.pairs, ordering)


# -- draws ----------------------------------------------------------------------------------------------------------------------------------


def look_ahead(pairs: Floats, guess: Places, ordering: Places, room: Floats, replay: bool, rng: Any) -> float:
    """An ordering drawn place by place: of those left, in the order of `guess`, an item with probability ∝ exp(−cost of pulling it to the front); or, with
    `replay`, the one given. Returns its log probability."""
    n, value = len(guess), 0.0
    left, costs = guess.copy(), np.zeros(n)
    for place in range(n):
        for before in range(place):
            costs[place] += pairs[guess[before], guess[place]]
    for place in range(n):
        remaining = n - place
        for i in range(remaining):
            room[0, i] = -costs[i]
        if replay:
            chosen = 0
            while left[chosen] != ordering[place]:
                chosen += 1
        else:
            chosen = draw_log(room[0], remaining, room[1], rng)
        highest, total = room[0, 0], 0.0
        for i in range(1, remaining):
            highest = max(highest, room[0, i])
        for i in range(remaining):
            total += math.exp(room[0, i] - highest)
        value += room[0, chosen] - highest - math.log(total)
        item = left[chosen]
        ordering[place] = item
        for i in range(chosen, remaining - 1):
            left[i] = left[i + 1]
            costs[i] = costs[i + 1] - pairs[item, left[i]]
    return value


def stagewise(costs: Floats, ordering: Places, room: Floats, replay: bool, rng: Any) -> float:
    """Sample-σ-Stagewise of Meilă & Chen: of the items left, one with probability ∝ exp(−Σ_k R[k, i]), its cost before all others; or, with `replay`, the ordering given.

    Returns Σ ln W over the places, W the sum of these weights. Not a draw from p(σ | θ, x) in general: p/q ∝ ∏ W.
    """
    n, value = len(ordering), 0.0
    left, sums = np.arange(n), np.zeros(n)
    for i in range(n):
        for k in range(n):
            sums[i] += costs[k, i]
    for place in range(n):
        remaining = n - place
        for i in range(remaining):
            room[0, i] = -sums[i]
        if replay:
            chosen = 0
            while left[chosen] != ordering[place]:
                chosen += 1
        else:
            chosen = draw_log(room[0], remaining, room[1], rng)
        highest, total = room[0, 0], 0.0
        for i in range(1, remaining):
            highest = max(highest, room[0, i])
        for i in range(remaining):
            total += math.exp(room[0, i] - highest)
        value += highest + math.log(total)
        item = left[chosen]
        ordering[place] = item
        for i in range(chosen, remaining - 1):
            left[i] = left[i + 1]
            sums[i] = sums[i + 1]
        for i in range(remaining - 1):
            sums[i] -= costs[item, left[i]]
    return value


def redraw_stagewise(costs: Floats, ordering: Places, room: Floats, rng: Any) -> bool:
    """Stagewise as an independence proposal (Metropolis & Hastings): accepted with probability min(1, ∏ W' / ∏ W). Exact."""
    proposed = ordering.copy()
    before = stagewise(costs, ordering, room, True, rng)
    after = stagewise(costs, proposed, room, False, rng)
    accepted = draw_event(after - before, rng)
    if accepted:
        for place in range(len(ordering)):
            ordering[place] = proposed[place]
    return accepted


def reinsert(pairs: Floats, listed: Ints, ordering: Places, room: Floats, rng: Any) -> None:
    """Each item that some ranking has is in turn taken out and put back: Gibbs over all its places. The others, which nothing tells apart, change places at random. Exact."""
    n = len(ordering)
    others, known = np.empty(n, dtype=np.int16), np.zeros(n, dtype=np.int64)
    for item in listed:
        known[item] = 1
        found = 0
        for place in range(n):
            if ordering[place] != item:
                others[found] = ordering[place]
                found += 1
        room[0, 0] = 0.0
        for place in range(n - 1):
            room[0, place + 1] = room[0, place] - pairs[item, others[place]]
        chosen = draw_log(room[0], n, room[1], rng)
        for place in range(chosen):
            ordering[place] = others[place]
        ordering[chosen] = item
        for place in range(chosen, n - 1):
            ordering[place + 1] = others[place]
    unknown = np.empty(n - len(listed), dtype=np.int64)
    found = 0
    for item in range(n):
        if known[item] == 0:
            unknown[found] = item
            found += 1
    shuffle(unknown, rng)
    found = 0
    for place in range(n):
        if known[ordering[place]] == 0:
            ordering[place] = unknown[found]
            found += 1


def swap_neighbours(pairs: Floats, ordering: Places, room: Floats, rng: Any) -> None:
    """Each pair of neighbours, from the front, in one order or the other: Gibbs. Exact."""
    for place in range(len(ordering) - 1):
        a, b = ordering[place], ordering[place + 1]
        room[0, 0], room[0, 1] = 0.0, pairs[b, a]
        if draw_log(room[0], 2, room[1], rng) == 1:
            ordering[place], ordering[place + 1] = b, a


for plain in (look_ahead, stagewise, redraw_stagewise, reinsert, swap_neighbours):
    compiled_form_of(plain, inline=False)(plain)
