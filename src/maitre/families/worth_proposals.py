"""A density of worths given some rankings that can be drawn from and evaluated: what Metropolis & Hastings need where the posterior has no closed form.

Let η = ln w, η̂ the most probable one (`maitre.families.plackett_luce.fit_worths`) and Λ = L Lᵀ the curvature there,

    Λ = diag(rate ŵ) + Σ_choices [diag(p) − p pᵀ],   p the chances of the items left.

Then e_x = Σ_{y ≥ x} L_yx (η_y − η̂_y) / L_xx are independent, each the logarithm of a Gamma number with its mode at 0 and curvature L_xx². For many rankings that is Laplace's
approximation; an item that none of them has keeps its own skewed law, Gamma(shape, rate + times it was left), so that e alone is what is drawn. A `scale` below 1 makes curvatures
smaller, as if there were so much fewer rankings.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import compiled_apart, compiled_form_of
from maitre.numerics.linear import cholesky_in_place
from maitre.numerics.rng import log_gamma_variate

_FAR = 700.0


@compiled_apart
def ranked_items(s: Any, distinct: Ints) -> Ints:
    """The items that some of the rankings have."""
    seen = np.zeros(s.n_items, dtype=np.int64)
    for d in distinct:
        for j in range(s.starts[d], s.starts[d + 1]):
            seen[s.items[j]] = 1
    return np.flatnonzero(seen)


@compiled_apart
def curvature(s: Any, distinct: Ints, copies: Floats, guess: Floats, ranked: Ints) -> Floats:
    """Λ among the items that are ranked.

    A pair is left together at all choices of a ranking up to the first that takes one of the two: what comes after that is taken off the sums over all choices.
    """
    n, n_ranked = s.n_items, len(ranked)
    place, whole = np.full(n, -1), 0.0
    for u in range(n_ranked):
        place[ranked[u]] = u
    for x in range(n):
        whole += guess[x]
    ones, squares, total, total_of_squares = np.zeros(n_ranked), np.zeros((n_ranked, n_ranked)), 0.0, 0.0
    for i in range(len(distinct)):
        begin, end = s.starts[distinct[i]], s.starts[distinct[i] + 1]
        rest, here, here_of_squares = whole, 0.0, 0.0
        taken = np.zeros(n_ranked, dtype=np.int64)
        sums = np.empty((2, end - begin))
        for j in range(begin, end):
            left = max(rest, guess[s.items[j]])
            here += copies[i] / left
            here_of_squares += copies[i] / (left * left)
            sums[0, j - begin], sums[1, j - begin] = here, here_of_squares
            rest -= guess[s.items[j]]
        for j in range(begin, end):
            u, after = place[s.items[j]], here_of_squares - sums[1, j - begin]
            ones[u] -= here - sums[0, j - begin]
            for v in range(n_ranked):
                if taken[v] == 0:
                    squares[u, v] -= after
                    if u != v:
                        squares[v, u] -= after
            taken[u] = 1
        total += here
        total_of_squares += here_of_squares
    for u in range(n_ranked):
        for v in range(n_ranked):
            squares[u, v] = -guess[ranked[u]] * guess[ranked[v]] * (total_of_squares + squares[u, v])
        squares[u, u] += guess[ranked[u]] * (s.rate + total + ones[u])
    return squares


@compiled_apart
def log_density_of_innovation(e: float, curvature: float) -> float:
    """That of ln (G / k), G ~ Gamma(k), with k the curvature at its mode 0."""
    return curvature * (math.log(curvature) + e - math.exp(min(e, _FAR))) - math.lgamma(curvature)


@compiled_apart
def log_prior(s: Any, worths: Floats) -> float:
    """The log density of ln w under the prior."""
    value = s.n_items * (s.shape * math.log(s.rate) - math.lgamma(s.shape))
    for x in range(s.n_items):
        value += s.shape * math.log(worths[x]) - s.rate * worths[x]
    return value


def propose_worths(s: Any, distinct: Ints, copies: Floats, guess: Floats, scale: float, worths: Floats, replay: bool, rng: Any) -> float:
    """Worths drawn given so many copies of rankings, or, with `replay`, those given; returns ln p(w) − ln q(w)."""
    ranked = ranked_items(s, distinct)
    n_ranked, value = len(ranked), 0.0
    factor = curvature(s, distinct, copies, guess, ranked)
    cholesky_in_place(factor)
    known, steps = np.zeros(s.n_items, dtype=np.int64), np.zeros(n_ranked)
    for back in range(n_ranked):
        u = n_ranked - 1 - back
        x, k, carried = ranked[u], max(scale * factor[u, u] * factor[u, u], 0.5 * s.shape), 0.0
        known[x] = 1
        for v in range(u + 1, n_ranked):
            carried += factor[v, u] * steps[v]
        carried /= factor[u, u]
        if replay:
            steps[u] = math.log(worths[x] / guess[x])
        else:
            steps[u] = log_gamma_variate(k, rng) - math.log(k) - carried
            worths[x] = guess[x] * math.exp(steps[u])
        value -= log_density_of_innovation(steps[u] + carried, k)
    for x in range(s.n_items):
        if known[x] == 0:
            if not replay:
                worths[x] = guess[x] * math.exp(log_gamma_variate(s.shape, rng) - math.log(s.shape))
            value -= log_density_of_innovation(math.log(worths[x] / guess[x]), s.shape)
    return value + log_prior(s, worths)


compiled_form_of(propose_worths, inline=False)(propose_worths)
