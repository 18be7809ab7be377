"""Splits and merges of clusters of rankings with explicit worths, in which labels cancel (`maitre.moves.label_free`), for any Gibbs-type prior.

Two anchors i and j are chosen. A split of their cluster S draws a share b and worths w_L, w_R from a density h(b) g(w_L) g'(w_R) that is a function of the *set* S, the anchors and
fresh randomness, and only then the other members' sides, each with the first anchor with probability b p(x|w_L) against (1−b) p(x|w_R). The merge of L ∋ i and R ∋ j draws
b ~ Beta(|L|, |R|) and worths w_S ~ q(· | S). All that depends on the sides cancels but a factor of the prior, which is 1 for a Dirichlet process:

    r = V(n, K+1)/V(n, K) · [W(|L|) W(|R|)/W(|S|)] · [Γ(|S|)/Γ(|L|)Γ(|R|)] · p(x_i|w_L) p(x_j|w_R) ∏_{x∈S∖ij} [b p(x|w_L) + (1−b) p(x|w_R)] / ∏_{x∈S} p(x|w_S)
        · p(w_L) p(w_R)/p(w_S) · q(w_S|S) / (h(b) g(w_L) g'(w_R)) · ν(R|L) (|S| − 1)/|R|,

K the number of clusters when merged. The first anchor is any voter; the second one of its cluster for a split, and for a merge one of a cluster whose worths are like its own, chosen
with probability ν. *Smart* densities come from a mixture of two that begins at the anchors' rankings (EM); they find splits. *Broad* ones are those of S itself with a smaller
curvature for both sides, which is hopeless as a split, but is what lets two clusters merge that are one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.plackett_luce import fit_worths, improve_worths, list_distinct, log_likelihood_of, set_worths, sum_of
from maitre.families.worth_proposals import propose_worths
from maitre.moves.base import Report
from maitre.moves.ranking_pairs import find_member, members_of, position_of, seat_sides, seat_together
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled, compiled_apart, compiled_form_of, kernel
from maitre.numerics.draw import draw_below, draw_event, draw_log
from maitre.numerics.rng import RngState, beta, uniform
from maitre.states.mixture import first_empty
from maitre.states.rankings import WorthState

_ROUNDS = 12  # of EM
_SMART_SCALE = 0.5  # of curvatures: sides are not known
_BROAD_SCALES = np.array([0.5, 0.1, 0.02])
_NEAR = 20.0  # how much rarer a partner becomes as the worths' affinity goes from 1 to 0


@compiled_apart
def log_affinity(first: Floats, second: Floats) -> float:
    """−λ (1 − Σ √(p q)), p and q the chances of items to come first."""
    shared, one, other = 0.0, 0.0, 0.0
    for x in range(len(first)):
        shared += math.sqrt(first[x] * second[x])
        one += first[x]
        other += second[x]
    return -_NEAR * (1.0 - shared / math.sqrt(one * other))


@compiled_apart
def log_near(s: Any, sizes: Ints, a: int, b: int, first: Floats, second: Floats) -> float:
    """ln ν(b | a), with `first` and `second` for the worths of slots a and b."""
    own = log_affinity(first, second)
    total = math.exp(own)
    for k in range(len(sizes)):
        if sizes[k] > 0 and k != a and k != b:
            total += math.exp(log_affinity(first, s.worths[k]))
    return own - math.log(total)


@compiled
def log_mixture(s: Any, d: int, log_share: float, log_other: float, pair: Floats, sums: Floats) -> tuple[float, float]:
    """ln [b p(x|w_L) + (1−b) p(x|w_R)] of ranking d, and the log odds of the left."""
    left, right = log_share + log_likelihood_of(s, d, pair[0], sums[0]), log_other + log_likelihood_of(s, d, pair[1], sums[1])
    return max(left, right) + math.log1p(math.exp(-abs(left - right))), left - right


@compiled_apart
def part_by_em(s: Any, distinct: Ints, copies: Floats, anchors: tuple[int, int], guesses: Floats, parts: Floats) -> None:
    """The worths of two components, each at first those of an anchor's ranking, and how many of each ranking's copies are theirs; a function of the set and the anchors."""
    one, sums, odds = np.empty(1, dtype=np.int64), np.empty(2), 0.0
    for side in range(2):
        one[0] = anchors[side]
        fit_worths(s, one, np.ones(1), guesses[side])
    for _ in range(_ROUNDS):
        sums[0], sums[1] = sum_of(guesses[0]), sum_of(guesses[1])
        for i in range(len(distinct)):
            log_odds = log_mixture(s, distinct[i], odds, 0.0, guesses, sums)[1]
            parts[0, i] = copies[i] / (1.0 + math.exp(min(-log_odds, 700.0)))
            parts[1, i] = copies[i] - parts[0, i]
        for side in range(2):
            improve_worths(s, distinct, parts[side], guesses[side])
        odds = math.log((sum_of(parts[0]) + 1.0) / (sum_of(parts[1]) + 1.0))


@compiled_apart
def log_beta_density(share: float, first: float, second: float) -> float:
    return math.lgamma(first + second) - math.lgamma(first) - math.lgamma(second) + (first - 1.0) * math.log(share) + (second - 1.0) * math.log1p(-share)


def propose_pair(
    s: Any, distinct: Ints, copies: Floats, anchors: tuple[int, int], guess: Floats, scale: float, pair: Floats, share: float, rng: Any
) -> tuple[float, float]:
    """b, w_L and w_R drawn, or, if the share is above 0, as given; returns b and ln p(w_L) p(w_R) / h g g'. Smart with scale 0, otherwise broad, with `guess` the best worths of all."""
    guesses, parts = np.empty((2, s.n_items)), np.empty((2, len(distinct)))
    replay, first, second = share > 0.0, 1.0, 1.0
    if scale == 0.0:
        part_by_em(s, distinct, copies, anchors, guesses, parts)
        scale, first, second = _SMART_SCALE, 1.0 + _SMART_SCALE * sum_of(parts[0]), 1.0 + _SMART_SCALE * sum_of(parts[1])
    else:
        for side in range(2):
            guesses[side] = guess
            parts[side] = copies
    if not replay:
        share = min(max(beta(first, second, rng), 1e-12), 1.0 - 1e-12)
    value = -log_beta_density(share, first, second)
    for side in range(2):
        value += propose_worths(s, distinct, parts[side], guesses[side], scale, pair[side], replay, rng)
    return share, value


compiled_form_of(propose_pair, inline=False)(propose_pair)


@kernel
def split_or_merge(s: Any, labels: Slots, sizes: Ints, log_v: Floats, log_w: Floats, scale: float, scores: Floats, rng: Any) -> int:
    """A proposal, smart with scale 0 and otherwise broad; 1 or 2 if a split or a merge was accepted."""
    n_clusters: Any = np.count_nonzero(sizes)
    i = draw_below(len(labels), rng)
    a: Any = np.int64(labels[i])
    b: Any = np.int64(first_empty(sizes, 0))
    splitting = draw_event(math.log(0.5), rng)
    if splitting:
        if sizes[a] == 1:
            return 0
        j = find_member(labels, a, True, draw_below(sizes[a] - 1, rng), i)
    else:
        if n_clusters == 1:
            return 0
        for k in range(len(sizes)):
            scores[0, k] = log_affinity(s.worths[a], s.worths[k]) if sizes[k] > 0 and k != a else -np.inf
        b = np.int64(draw_log(scores[0], len(sizes), scores[1], rng))
        j = find_member(labels, b, True, draw_below(sizes[b], rng), -1)
        n_clusters -= 1
    voters, ballots, sides = members_of(s, labels, sizes, a, b)
    first, second, size = position_of(voters, i), position_of(voters, j), len(voters)
    distinct, copies = list_distinct(ballots, size)
    pair, guess, together, sums, share = np.empty((2, s.n_items)), np.empty(s.n_items), s.worths[a].copy(), np.empty(2), 0.0
    if not splitting:
        pair[0], pair[1] = s.worths[a], s.worths[b]
        share = min(max(beta(float(sizes[a]), float(sizes[b]), rng), 1e-12), 1.0 - 1e-12)
    fit_worths(s, distinct, copies, guess)
    value = -propose_worths(s, distinct, copies, guess, 1.0, together, splitting, rng)
    share, gain = propose_pair(s, distinct, copies, (ballots[first], ballots[second]), guess, scale, pair, share, rng)
    value += gain
    sums[0], sums[1], whole = sum_of(pair[0]), sum_of(pair[1]), sum_of(together)
    log_share, log_other = math.log(share), math.log1p(-share)
    for t in range(len(distinct)):
        value += copies[t] * (log_mixture(s, distinct[t], log_share, log_other, pair, sums)[0] - log_likelihood_of(s, distinct[t], together, whole))
    for anchor, side in ((first, 0), (second, 1)):
        value += log_likelihood_of(s, ballots[anchor], pair[side], sums[side]) - log_mixture(s, ballots[anchor], log_share, log_other, pair, sums)[0]
    if splitting:
        for t in range(size):
            log_odds = log_mixture(s, ballots[t], log_share, log_other, pair, sums)[1]
            sides[t] = 0 if t == first or (t != second and uniform(rng) * (1.0 + math.exp(min(-log_odds, 700.0))) < 1.0) else 1
    n_second: Any = np.int64(sides.sum())
    n_first = size - n_second
    value += log_v[n_clusters + 1] - log_v[n_clusters] + log_w[n_first] + log_w[n_second] - log_w[size]
    value += math.lgamma(size) - math.lgamma(n_first) - math.lgamma(n_second)
    value += log_near(s, sizes, a, b, pair[0], pair[1]) + math.log((size - 1.0) / n_second)
    if splitting and draw_event(value, rng):
        seat_sides(labels, sizes, voters, sides, a, b)
        set_worths(s, a, pair[0])
        set_worths(s, b, pair[1])
        return 1
    if not splitting and draw_event(-value, rng):
        seat_together(labels, sizes, voters, a, b)
        set_worths(s, a, together)
        return 2
    return 0


def split_and_merge(state: WorthState, proposals: tuple[int, ...], rng: RngState) -> Report:
    """So many smart and broad proposals."""
    accepted = np.zeros((2, 3))
    for kind, number in enumerate(proposals):
        for _ in range(number):
            if first_empty(state.sizes, 0) < 0:
                state.make_room()
            scale = 0.0 if kind == 0 else float(_BROAD_SCALES[draw_below(len(_BROAD_SCALES), rng)])
            outcome = state.run(split_or_merge, state.labels, state.sizes, state.log_v, state.log_w, scale, np.zeros((2, state.capacity)), rng)
            accepted[kind, outcome] += 1
    state._count(state.sizes)
    found = {"smart splits": accepted[0, 1], "smart merges": accepted[0, 2], "broad splits": accepted[1, 1], "broad merges": accepted[1, 2]}
    return Report(0, sum(proposals), int(accepted[:, 1:].sum()), found)
