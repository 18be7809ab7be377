"""New labels for all groups at once: given what each cluster is like (θ_k, for words their probabilities) and each group's shares in the clusters, points are independent.

One pass instantiates parameters and then redraws the groups in two random halves. A cluster is *open* for one half if it has a point in the other: then it cannot become
empty, whatever the half does. A group of the half that is redrawn gets shares ∝ Gamma(γβ_k + n_mk), and each of its points that is in an open cluster chooses among the open
ones with probability ∝ share · p(x_i | θ_k); the others stay. To let points leave a cluster empty, and to forget it then, would be simpler, and is wrong.

No cluster is born in such a pass and none dies. That is left to a sweep of direct assignment (`maitre.moves.direct`) over some of the groups, chosen afresh in each iteration
without a look at the state, and to splits and merges of tables.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from maitre.families.statistics import draw_parameters, log_likelihood, n_parameters
from maitre.families.words import Words
from maitre.moves.base import Report
from maitre.moves.direct import sweep
from maitre.moves.dishes import seated
from maitre.moves.franchise import FranchiseMove, Served, draw_tables
from maitre.moves.superclusters import streams_of_blocks
from maitre.numerics.arguments import number
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled, kernel
from maitre.numerics.draw import draw_below, draw_log
from maitre.numerics.prefix import Singles, add_lanes, pick_other
from maitre.numerics.rng import RngState, gamma, small_gamma, split, uniform
from maitre.states.franchise import FranchiseState

_RANGES = 64  # of groups, and of words: so many streams of random numbers, whatever the number of threads


@compiled
def draw_words(seen: Any, eta: float, sizes: Ints, begin: int, end: int, phi: Singles, totals: Floats, rng: RngState) -> None:
    """phi[w, k] ~ Gamma(η + N_wk) for some of the words: the probabilities of words in cluster k, but for a factor 1 / Σ_w phi[w, k], to which `totals` adds."""
    for w in range(begin, end):
        for k in range(len(sizes)):
            if sizes[k] > 0:
                count = float(seen[w, k])
                value = gamma(eta + count, rng) if count > 0.0 or eta >= 1.0 else small_gamma(eta, rng)
                phi[w, k] = value
                totals[k] += value
            else:
                phi[w, k] = 0.0


@compiled
def choose_words(
    word: Any,
    starts: Ints,
    labels: Slots,
    half: Any,
    now: int,
    opened: Any,
    weights: Floats,
    gammas: Floats,
    phi: Singles,
    totals: Floats,
    begin: int,
    end: int,
    rng: RngState,
) -> None:
    """The points of some groups, those of half `now`, choose among the open clusters."""
    n_slots = len(weights)
    counts, factors, sums = np.zeros(n_slots, dtype=np.int64), np.zeros(n_slots, dtype=np.float32), np.zeros(n_slots, dtype=np.float32)
    for m in range(begin, end):
        if half[m] != now:
            continue
        for k in range(n_slots):
            counts[k] = 0
        for i in range(starts[m], starts[m + 1]):
            counts[labels[i]] += 1
        for k in range(n_slots):
            factors[k] = 0.0
            if opened[k]:
                shape = gammas[m] * weights[k] + counts[k]
                factors[k] = (gamma(shape, rng) if shape >= 1.0 else small_gamma(shape, rng)) / totals[k]
        summed, whole = -1, 0.0
        for i in range(starts[m], starts[m + 1]):
            if opened[labels[i]]:
                if word[i] != summed:
                    summed, whole = word[i], add_lanes(factors, phi[word[i]], np.float32(0.0), sums)
                chosen = pick_other(sums, factors, -1, np.float32(0.0), uniform(rng) * whole)
                if chosen >= 0:
                    labels[i] = chosen


@kernel
def draw_clusters(s: Any, sizes: Ints, theta: Floats, rng: Any) -> None:
    """The parameters of every cluster."""
    for k in range(len(sizes)):
        if sizes[k] > 0:
            draw_parameters(s, k, theta[k], rng)


@kernel
def choose_clusters(
    s: Any, starts: Ints, labels: Slots, half: Any, now: int, opened: Any, weights: Floats, gammas: Floats, theta: Floats, begin: int, end: int, rng: Any
) -> None:
    """`choose_words` for any family."""
    n_slots = len(weights)
    counts, shares, scores, scratch = np.zeros(n_slots, dtype=np.int64), np.empty(n_slots), np.empty(n_slots), np.empty(n_slots)
    for m in range(begin, end):
        if half[m] != now:
            continue
        for k in range(n_slots):
            counts[k] = 0
        for i in range(starts[m], starts[m + 1]):
            counts[labels[i]] += 1
        for k in range(n_slots):
            shares[k] = -np.inf
            if opened[k]:
                shape = gammas[m] * weights[k] + counts[k]
                shares[k] = math.log(max(gamma(shape, rng) if shape >= 1.0 else small_gamma(shape, rng), 1e-300))
        for i in range(starts[m], starts[m + 1]):
            if opened[labels[i]]:
                for k in range(n_slots):
                    scores[k] = shares[k] + log_likelihood(s, theta[k], i) if opened[k] else -np.inf
                labels[i] = draw_log(scores, n_slots, scratch, rng)


@kernel
def parameters_of(s: Any) -> int:
    """How many numbers the parameters of a cluster are."""
    return n_parameters(s)


@compiled
def draw_halves(n_groups: int, rng: RngState) -> Any:
    """The half of every group."""
    half = np.empty(n_groups, dtype=np.int8)
    for m in range(n_groups):
        half[m] = draw_below(2, rng)
    return half


@compiled
def draw_visited(n_groups: int, share: float, rng: RngState) -> Any:
    """Whether each group is one of about this share of all."""
    visited = np.empty(n_groups, dtype=np.bool_)
    for m in range(n_groups):
        visited[m] = uniform(rng) < share
    return visited


@compiled
def mark_clusters(labels: Slots, starts: Ints, half: Any, which: int, marked: Any) -> None:
    """Mark the clusters that have points in this half of some groups."""
    for m in range(len(starts) - 1):
        if half[m] == which:
            for i in range(starts[m], starts[m + 1]):
                marked[labels[i]] = True


@compiled
def draw_all_tables(
    labels: Slots, starts: Ints, weights: Floats, gammas: Floats, begin: int, end: int, of_cluster: Ints, in_group: Ints, rng: RngState
) -> None:
    """At how many tables the points of these groups sit, given their clusters."""
    counts = np.zeros(len(weights), dtype=np.int64)
    for m in range(begin, end):
        for i in range(starts[m], starts[m + 1]):
            counts[labels[i]] += 1
        for i in range(starts[m], starts[m + 1]):
            k = labels[i]
            if counts[k] > 0:
                opened = draw_tables(counts[k], gammas[m] * weights[k], rng)
                of_cluster[k] += opened
                in_group[m] += opened
                counts[k] = 0


class Documents(FranchiseMove):
    """All groups at once, on as many threads as there are; then a sweep of direct assignment over a `share` of the groups, and splits and merges of whole tables.

    >>> import maitre as mt
    >>> hdp = mt.sample_groups([[3, 1, 0, 0], [2, 2, 0, 0], [0, 0, 2, 3]], moves="documents", draws=10, burn_in=10, chains=1, progress=False)
    >>> hdp.exact
    True
    """

    name = "documents"
    needs = ("marginals", "roles", "parameters")
    by_blocks = False

    def __init__(self, share: float = 0.1, proposals: int | None = None, keep_labels: bool = False) -> None:
        super().__init__(proposals, keep_labels)
        self.share = number("share", share, above=0.0, most=1.0)

    def redraw(self, state: FranchiseState, proposals: int, rng: RngState) -> tuple[Served, Report]:
        redraw_groups(state, rng)
        operations = 2 * state.model.n * state.n_clusters
        sweep(state, rng, np.flatnonzero(draw_visited(state.n_groups, self.share, rng)))
        if proposals == 0:
            return tables_of(state, rng), Report(operations)
        seats = seated(state, rng)
        accepted = seats.split_and_merge(state, proposals, rng)
        return seats.served(state), Report(operations, proposals, accepted)


def redraw_groups(state: FranchiseState, rng: RngState) -> None:
    """The protected pass over both halves of the groups."""
    labels, ranges, words = state.labels, group_ranges(state), isinstance(state.family, Words) and state.compiled
    parameters = _draw_topics(state, rng) if words else _draw_parameters(state, rng)
    half = (draw_halves if state.compiled else draw_halves.py_func)(state.n_groups, rng)  # type: ignore[attr-defined]
    for now in (0, 1):
        opened = _clusters_of(state, half, 1 - now, ranges)
        streams = streams_of_blocks(len(ranges), rng)

        def redraw(r: int, now: int = now, opened: Any = opened, streams: Any = streams) -> None:
            arrays = (state.starts, labels, half, now, opened, state.beta, state.gammas, *parameters, *ranges[r], streams[r])
            if words:
                choose_words(state.statistics.word, *arrays)
            else:
                state.run(choose_clusters, *arrays)

        state.engine.map(redraw, range(len(ranges)))
    state.recount()


def _clusters_of(state: FranchiseState, half: Any, which: int, ranges: list[tuple[int, int]]) -> Any:
    """Which clusters have points in this half of the groups."""

    def mark(groups: tuple[int, int]) -> Any:
        marked = np.zeros(state.capacity, dtype=np.bool_)
        mark_clusters(state.labels, state.starts[groups[0] : groups[1] + 1], half[groups[0] : groups[1]], which, marked)
        return marked

    return np.any(state.engine.map(mark, ranges), axis=0)


def tables_of(state: FranchiseState, rng: RngState) -> Served:
    """At how many tables the points sit, given their clusters."""
    ranges, in_group = group_ranges(state), np.zeros(state.n_groups, dtype=np.int64)
    streams = split(rng, len(ranges))

    def draw(r: int) -> Ints:
        served = np.zeros(state.capacity, dtype=np.int64)
        draw_all_tables(state.labels, state.starts, state.beta, state.gammas, *ranges[r], served, in_group, streams[r])
        return served

    return Served(np.sum(state.engine.map(draw, range(len(ranges))), axis=0), in_group)


def group_ranges(state: FranchiseState) -> list[tuple[int, int]]:
    """The groups in ranges of about as many points each."""
    n_ranges = min(_RANGES, state.n_groups)
    bounds = np.searchsorted(state.starts, np.linspace(0, state.model.n, n_ranges + 1)[1:-1])
    return [(int(begin), int(end)) for begin, end in pairwise([0, *bounds, state.n_groups]) if end > begin]


def _draw_topics(state: FranchiseState, rng: RngState) -> tuple[Singles, Floats]:
    """Probabilities of words in every cluster, and by what to divide them."""
    s, n_ranges = state.statistics, min(_RANGES, state.statistics.n_words)
    phi = np.empty(s.seen.shape, dtype=np.float32)
    streams, bounds = split(rng, n_ranges), np.linspace(0, s.n_words, n_ranges + 1).astype(np.int64)

    def draw(r: int) -> Floats:
        totals = np.zeros(state.capacity)
        draw_words(s.seen, float(s.concentration), state.sizes, bounds[r], bounds[r + 1], phi, totals, streams[r])
        return totals

    return phi, np.sum(state.engine.map(draw, range(n_ranges)), axis=0)


def _draw_parameters(state: FranchiseState, rng: RngState) -> tuple[Floats]:
    theta = np.empty((state.capacity, int(state.run(parameters_of))))
    state.run(draw_clusters, state.sizes, theta, rng)
    return (theta,)
