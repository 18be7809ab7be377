"""What topics say about documents: how probable a new one is, which are alike, and which topics of two draws are the same for a reader's eye.

**Probability of a document.** With topics φ and weights a = γβ, the words of a document come from a Pólya urn: p(w_1, …, w_N) = ∏ p(w_n | w_<n). Going through the words once,
the topic z_n of each is drawn from p(z_n | w_n, z_<n) ∝ φ_{k w_n} (a_k + n_k); the product of Σ_k φ_{k w_n} (a_k + n_k)/(Σa + n − 1) is an unbiased estimate of p(w | φ, a)
(sequential importance sampling). It is averaged over several passes and over draws before the logarithm is taken.

**Matching.** Numbers of topics mean nothing from one draw to the next. For tables and pictures, the topics of a draw are matched one to one to those of another by the overlap of
their words, Σ_w √(p_w q_w). This is for display alone: no mean over draws is taken of what was matched.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import compiled
from maitre.numerics.rng import RngState, uniform

_RECOGNISED = 0.5  # from this overlap on a topic counts as found again


@compiled
def log_estimates(phi: Any, weights: Floats, words: Ints, starts: Ints, rng: RngState, out: Floats) -> None:
    """One pass over each document m, whose words are words[starts[m]], …; out[m] is the logarithm of an unbiased estimate of its probability. phi has a row per word."""
    n_topics, total = len(weights), weights.sum()
    urn, scores = np.empty(n_topics), np.empty(n_topics)
    for m in range(len(starts) - 1):
        out[m] = 0.0
        for k in range(n_topics):
            urn[k] = weights[k]
        for i in range(starts[m], starts[m + 1]):
            whole = 0.0
            for k in range(n_topics):
                scores[k] = urn[k] * phi[words[i], k]
                whole += scores[k]
            out[m] += math.log(whole / (total + (i - starts[m])))
            x, chosen = uniform(rng) * whole, n_topics - 1
            for k in range(n_topics):
                x -= scores[k]
                if x < 0.0:
                    chosen = k
                    break
            urn[chosen] += 1.0


def overlaps(one: sparse.csr_matrix, other: sparse.csr_matrix) -> Floats:
    """(topics, topics): Σ_w √(p_w q_w) of the word frequencies of two draws' topics."""

    def roots(counts: sparse.csr_matrix) -> Any:
        return sparse.diags_array(1.0 / np.sqrt(np.asarray(counts.sum(axis=1)).ravel())) @ counts.sqrt()

    return np.asarray((roots(one) @ roots(other).T).toarray())


def matched(one: sparse.csr_matrix, other: sparse.csr_matrix) -> tuple[Ints, Floats]:
    """For each topic of one draw its partner in another, −1 without one, and their overlap (0 without one); every topic has at most one partner."""
    from scipy.optimize import linear_sum_assignment  # which takes 10 MB, for those who need it

    found = overlaps(one, other)
    rows, columns = linear_sum_assignment(-found)
    partners, similar = np.full(one.shape[0], -1, dtype=np.int64), np.zeros(one.shape[0])
    partners[rows], similar[rows] = columns, found[rows, columns]
    return partners, similar


def recognised(one: sparse.csr_matrix, others: Any) -> Floats:
    """For each topic of a draw, the share of other draws in which its partner has an overlap of at least a half."""
    times = [matched(one, other)[1] >= _RECOGNISED for other in others]
    return np.mean(times, axis=0) if times else np.ones(one.shape[0])
