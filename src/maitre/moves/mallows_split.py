"""Splits and merges of clusters of rankings that carry an explicit ordering each, θ integrated out.

Whatever a proposal is made from is a function of the *set* S of rankings at stake and of fresh randomness, never of how S is parted now. For a set c, q(σ | c) starts from the
best ordering σ* that a descent finds and its dispersions θ̂ and draws place by place, looking ahead (`maitre.families.orderings.look_ahead`); of one ranking alone it is p(σ | π).
With (A, B) a split of S,

    ln r = ln V(n, K+1)/V(n, K) + ln W(A)W(B)/W(S) + ln m(A|σ_A) m(B|σ_B)/m(S|σ_S) − ln I! − ln q(A, B | S) − ln q(σ_A|A) q(σ_B|B) + ln q(σ_S|S) + ln (choice of S),

m(c|σ) the marginal likelihood, K the number of clusters when merged. *Smart* proposals part S around two anchors by three rounds of hard assignment; they find splits.
*Re-splits* part two clusters anew. *Coins* part a cluster at random, which is hopeless as a split, but is what lets two clusters merge that are one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.codes import Places, count_codes, draw_alone, invert, log_density_alone, set_ordering, weigh_codes
from maitre.families.generalized_mallows import empty_slot, log_marginal_of
from maitre.families.orderings import best_ordering, look_ahead
from maitre.moves.base import Report
from maitre.moves.ranking_pairs import find_member, members_of, position_of, seat_sides, seat_together
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled, compiled_apart, compiled_form_of, kernel
from maitre.numerics.draw import draw_below, draw_event, draw_log
from maitre.numerics.mallows import log_psi
from maitre.numerics.rng import RngState
from maitre.states.mixture import first_empty
from maitre.states.rankings import OrderingState

_ROUNDS = 3
_SAME = 0.5  # the probability of an anchor's partner in its own cluster
_NEAR = 0.3  # how much rarer a partner becomes with each pair of items that two orderings do not agree on
_LOOKED_AT = 20  # items at the front of an ordering by which it is compared with others


def propose_ordering(s: Any, ballots: Ints, n: int, ordering: Places, replay: bool, rng: Any) -> float:
    """σ ~ q(· | these rankings), or, with `replay`, the one given; returns ln m(c | σ) − ln q(σ | c)."""
    places, theta = np.empty(s.n_items, dtype=np.int16), np.zeros(len(s.r))
    if n == 1:
        if not replay:
            draw_alone(s, ballots[0], ordering, rng)
        invert(ordering, places)
        log_q = log_density_alone(s, ballots[0], places)
    else:
        guess = np.empty(s.n_items, dtype=np.int16)
        best_ordering(s, ballots, n, guess, theta)
        log_q = look_ahead(s.pairs, guess, ordering, s.room, replay, rng)
        invert(ordering, places)
    count, total = np.zeros(len(s.r), dtype=np.int64), np.zeros(len(s.r), dtype=np.int64)
    count_codes(s, ballots, n, places, count, total)
    return log_marginal_of(s, count, total) - log_q


compiled_form_of(propose_ordering, inline=False)(propose_ordering)


@compiled
def log_likelihood_of(s: Any, d: int, places: Places, theta: Floats, log_psis: Floats) -> float:
    """ln p(ranking d | σ, θ)."""
    value = -weigh_codes(s, d, places, theta)
    for j in range(s.starts[d + 1] - s.starts[d]):
        value -= log_psis[j]
    return value


@compiled_apart
def _gather(ballots: Ints, sides: Ints, side: int, out: Ints) -> int:
    found = 0
    for t in range(len(ballots)):
        if sides[t] == side:
            out[found] = ballots[t]
            found += 1
    return found


@compiled_apart
def launch(s: Any, ballots: Ints, first: int, second: int, rounds: int) -> Floats:
    """ln odds that each ranking goes with the first anchor and not with the second; a function of the set and the two anchors (positions in `ballots`)."""
    n = len(ballots)
    chances, sides, part = np.empty(n), np.zeros(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    ordering, places, theta, log_psis = (
        np.empty((2, s.n_items), dtype=np.int16),
        np.empty((2, s.n_items), dtype=np.int16),
        np.zeros((2, len(s.r))),
        np.zeros((2, len(s.r))),
    )
    whole = np.empty(s.n_items, dtype=np.int16)
    best_ordering(s, ballots, n, whole, theta[0])
    for side in range(2):
        d = ballots[first if side == 0 else second]
        begin, end = s.starts[d], s.starts[d + 1]
        listed = np.zeros(s.n_items, dtype=np.int64)
        for j in range(begin, end):
            ordering[side, j - begin] = s.items[j]
            listed[s.items[j]] = 1
        found = end - begin
        for place in range(s.n_items):
            if listed[whole[place]] == 0:
                ordering[side, found] = whole[place]
                found += 1
        invert(ordering[side], places[side])
        for j in range(len(s.r)):
            theta[side, j] = 0.5
    log_odds = 0.0
    for step in range(rounds + 1):
        for side in range(2):
            for j in range(len(s.r)):
                log_psis[side, j] = log_psi(s.n_items - 1 - j, theta[side, j])
        count = 0
        for t in range(n):
            d = ballots[t]
            if t > 0 and d == ballots[t - 1]:
                chances[t] = chances[t - 1]
            else:
                chances[t] = log_odds + log_likelihood_of(s, d, places[0], theta[0], log_psis[0]) - log_likelihood_of(s, d, places[1], theta[1], log_psis[1])
            sides[t] = 0 if (chances[t] >= 0.0 and t != second) or t == first else 1
            count += 1 - sides[t]
        if step < rounds:
            for side in range(2):
                found = _gather(ballots, sides, side, part)
                best_ordering(s, part, found, ordering[side], theta[side])
                invert(ordering[side], places[side])
            log_odds = math.log((count + 1.0) / (n - count + 1.0))
    return chances


def allocate(s: Any, chances: Floats, sides: Ints, first: int, second: int, replay: bool, rng: Any) -> float:
    """Sides (0 or 1) of all members but the anchors, drawn independently, or, with `replay`, as given; returns their log probability."""
    value = 0.0
    for t in range(len(chances)):
        if t == first:
            sides[t] = 0
        elif t == second:
            sides[t] = 1
        else:
            if not replay:
                s.room[2, 0], s.room[2, 1] = chances[t], 0.0
                sides[t] = draw_log(s.room[2], 2, s.room[3], rng)
            x = chances[t] if sides[t] == 0 else -chances[t]
            value += -math.log1p(math.exp(-x)) if x > 0.0 else x - math.log1p(math.exp(x))
    return value


compiled_form_of(allocate, inline=False)(allocate)


@compiled_apart
def orderings_of(s: Any, a: int, b: int) -> Places:
    """The orderings of two slots."""
    found = np.empty((2, s.n_items), dtype=np.int16)
    for place in range(s.n_items):
        found[0, place], found[1, place] = s.orderings[a, place], s.orderings[b, place]
    return found


@compiled_apart
def settle_cluster(s: Any, k: int, ordering: Places, ballots: Ints, n: int) -> None:
    """A slot's new ordering and members."""
    set_ordering(s, k, ordering)
    count_codes(s, ballots, n, s.places[k], s.seen[k], s.total[k])


def propose_sides(s: Any, ballots: Ints, sides: Ints, replay: bool, orderings: Places, rng: Any) -> tuple[float, int, Ints]:
    """Orderings of the two sides; returns Σ ln m − ln q, the size of the first, and the rankings of both."""
    parts = np.empty((2, len(ballots)), dtype=np.int64)
    n_first = _gather(ballots, sides, 0, parts[0])
    n_second = _gather(ballots, sides, 1, parts[1])
    value = propose_ordering(s, parts[0], n_first, orderings[0], replay, rng)
    return value + propose_ordering(s, parts[1], n_second, orderings[1], replay, rng), n_first, parts


def part(s: Any, chances: Floats, ballots: Ints, sides: Ints, first: int, second: int, replay: bool, orderings: Places, rng: Any) -> tuple[float, int, Ints]:
    """Sides and their orderings; returns Σ ln m − ln q(σ) less the log probability of the sides, the size of the first, and the rankings of both."""
    log_q = allocate(s, chances, sides, first, second, replay, rng)
    value, n_first, parts = propose_sides(s, ballots, sides, replay, orderings, rng)
    return value - log_q, n_first, parts


for plain in (propose_sides, part):
    compiled_form_of(plain, inline=False)(plain)


@compiled_apart
def commit_split(s: Any, labels: Slots, sizes: Ints, voters: Ints, sides: Ints, a: int, b: int, orderings: Places, parts: Ints) -> None:
    """The two sides become the clusters of slots a and b."""
    seat_sides(labels, sizes, voters, sides, a, b)
    settle_cluster(s, a, orderings[0], parts[0], sizes[a])
    settle_cluster(s, b, orderings[1], parts[1], sizes[b])


@compiled_apart
def commit_merge(s: Any, labels: Slots, sizes: Ints, voters: Ints, ballots: Ints, a: int, b: int, ordering: Places) -> None:
    """Two clusters become that of slot a."""
    seat_together(labels, sizes, voters, a, b)
    settle_cluster(s, a, ordering, ballots, len(voters))
    empty_slot(s, b)


@kernel
def smart(s: Any, labels: Slots, sizes: Ints, log_v: Floats, log_w: Floats, rounds: int, rng: Any) -> int:
    """A split or a merge around two anchors; 1 or 2 if accepted. The second anchor is in the first one's cluster with probability ½."""
    n = len(labels)
    n_clusters = np.count_nonzero(sizes)
    i = draw_below(n, rng)
    a: Any = np.int64(labels[i])
    b: Any = a
    if draw_event(math.log(_SAME), rng):
        if sizes[a] == 1:
            return 0
        j = find_member(labels, a, True, draw_below(sizes[a] - 1, rng), i)
    else:
        if sizes[a] == n:
            return 0
        j = find_member(labels, a, False, draw_below(n - sizes[a], rng), i)
        b = np.int64(labels[j])
    voters, ballots, sides = members_of(s, labels, sizes, a, b)
    size, merged, orderings = len(voters), a == b, orderings_of(s, a, b)
    whole = orderings[0].copy()
    n_clusters = n_clusters if merged else n_clusters - 1
    first, second = position_of(voters, i), position_of(voters, j)
    chances = launch(s, ballots, first, second, rounds)
    value, n_first, parts = part(s, chances, ballots, sides, first, second, not merged, orderings, rng)
    value -= propose_ordering(s, ballots, size, whole, merged, rng) + math.lgamma(s.n_items + 1.0)
    value += log_v[n_clusters + 1] - log_v[n_clusters] + log_w[n_first] + log_w[size - n_first] - log_w[size]
    value += math.log((1.0 - _SAME) * (size - 1) / (_SAME * (n - n_first)))
    if merged and draw_event(value, rng):
        commit_split(s, labels, sizes, voters, sides, a, first_empty(sizes, 0), orderings, parts)
        return 1
    if not merged and draw_event(-value, rng):
        commit_merge(s, labels, sizes, voters, ballots, a, b, whole)
        return 2
    return 0


@kernel
def resplit(s: Any, labels: Slots, sizes: Ints, log_w: Floats, rounds: int, rng: Any) -> int:
    """Two clusters, found by two anchors, are parted anew around these; 1 if accepted."""
    n = len(labels)
    if n < 2:
        return 0
    i, j = draw_below(n, rng), draw_below(n - 1, rng)
    j = j + 1 if j >= i else j
    a: Any = np.int64(labels[i])
    b: Any = np.int64(labels[j])
    if a == b:
        return 0
    voters, ballots, sides = members_of(s, labels, sizes, a, b)
    size, orderings = len(voters), orderings_of(s, a, b)
    first, second = position_of(voters, i), position_of(voters, j)
    chances = launch(s, ballots, first, second, rounds)
    present, n_first, parts = part(s, chances, ballots, sides, first, second, True, orderings, rng)
    present += log_w[n_first] + log_w[size - n_first]
    value, n_first, parts = part(s, chances, ballots, sides, first, second, False, orderings, rng)
    value += log_w[n_first] + log_w[size - n_first]
    if draw_event(value - present, rng):
        commit_split(s, labels, sizes, voters, sides, a, b, orderings, parts)
        return 1
    return 0


@compiled_apart
def disagreement(ordering: Places, places: Places) -> int:
    """How many pairs among the first items of an ordering stand the other way round in another."""
    found = 0
    for q in range(1, min(len(ordering), _LOOKED_AT)):
        for p in range(q):
            if places[ordering[p]] > places[ordering[q]]:
                found += 1
    return found


@compiled_apart
def log_near(s: Any, sizes: Ints, a: int, b: int, first: Places, second: Places) -> float:
    """ln q(b | a): the chance that cluster a, with the ordering `first`, chooses b, with the ordering `second`, to merge with. Slots a and b themselves are not looked at."""
    places = np.empty(s.n_items, dtype=np.int16)
    invert(second, places)
    own = -_NEAR * disagreement(first, places)
    total = math.exp(own)
    for k in range(len(sizes)):
        if sizes[k] > 0 and k != a and k != b:
            total += math.exp(-_NEAR * disagreement(first, s.places[k]))
    return own - math.log(total)


@kernel
def coin(s: Any, labels: Slots, sizes: Ints, log_v: Floats, log_w: Floats, scores: Floats, rng: Any) -> int:
    """A cluster is parted at random, or merged with one whose ordering is like its own; 1 or 2 if accepted."""
    n_clusters: Any = np.count_nonzero(sizes)
    splitting = draw_event(math.log(0.5), rng)
    if not splitting and n_clusters == 1:
        return 0
    number, a = draw_below(n_clusters, rng), -1
    while number >= 0:
        a += 1
        if sizes[a] > 0:
            number -= 1
    b = first_empty(sizes, 0)
    if not splitting:
        for k in range(len(sizes)):
            scores[0, k] = -_NEAR * disagreement(s.orderings[a], s.places[k]) if sizes[k] > 0 and k != a else -np.inf
        b = draw_log(scores[0], len(sizes), scores[1], rng)
        n_clusters -= 1
    voters, ballots, sides = members_of(s, labels, sizes, a, b)
    size, orderings = len(voters), orderings_of(s, a, b)
    whole = orderings[0].copy()
    if splitting:
        counts = np.ones(2)
        for t in range(size):  # Pólya's urn: a coin whose bias is integrated out
            s.room[2, 0], s.room[2, 1] = math.log(counts[0]), math.log(counts[1])
            sides[t] = draw_log(s.room[2], 2, s.room[3], rng)
            counts[sides[t]] += 1.0
        if counts[0] == 1.0 or counts[1] == 1.0:
            return 0
    value, n_first, parts = propose_sides(s, ballots, sides, not splitting, orderings, rng)
    n_second = size - n_first
    value -= propose_ordering(s, ballots, size, whole, splitting, rng) + math.lgamma(s.n_items + 1.0)
    value += log_v[n_clusters + 1] - log_v[n_clusters] + log_w[n_first] + log_w[n_second] - log_w[size]
    forth, back = log_near(s, sizes, a, b, orderings[0], orderings[1]), log_near(s, sizes, b, a, orderings[1], orderings[0])
    value += max(forth, back) + math.log1p(math.exp(-abs(forth - back))) - math.log(n_clusters + 1.0)
    value -= math.log(2.0 / n_clusters) + math.lgamma(n_first + 1.0) + math.lgamma(n_second + 1.0) - math.lgamma(size + 2.0)
    if splitting and draw_event(value, rng):
        commit_split(s, labels, sizes, voters, sides, a, b, orderings, parts)
        return 1
    if not splitting and draw_event(-value, rng):
        commit_merge(s, labels, sizes, voters, ballots, a, b, whole)
        return 2
    return 0


def split_and_merge(state: OrderingState, proposals: tuple[int, ...], rng: RngState) -> Report:
    """So many smart proposals, re-splits and coins."""
    accepted = np.zeros(3)
    for kind, number in enumerate(proposals):
        for _ in range(number):
            if first_empty(state.sizes, 0) < 0:
                state.make_room()
            shared = (state.labels, state.sizes)
            if kind == 0:
                outcome = state.run(smart, *shared, state.log_v, state.log_w, _ROUNDS, rng)
            elif kind == 1:
                outcome = state.run(resplit, *shared, state.log_w, _ROUNDS, rng)
            else:
                outcome = state.run(coin, *shared, state.log_v, state.log_w, np.zeros((2, state.capacity)), rng)
            accepted[kind] += outcome > 0
    state._count(state.sizes)
    return Report(0, sum(proposals), int(accepted.sum()), {"smart": accepted[0], "resplit": accepted[1], "coin": accepted[2]})
