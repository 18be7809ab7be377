"""Held-out perplexity by document completion: half of a document's words tell its topics, the other half is scored.

The words of a document are shuffled; the first ⌈N/2⌉ are folded in, the rest is scored. Given topics φ and weights a, θ = a/Σa is improved 100 times by r_kw ∝ θ_k φ_kw,
θ ∝ a_k + Σ_w A_w r_kw. Probabilities of words are averaged over draws before the logarithm is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from maitre.numerics.arrays import Floats

_SMOOTHING = 1e-8
_ITERATIONS = 100
Singles = npt.NDArray[np.float32]


def folded_in(phi: Singles, prior: Floats, words: Any, counts: Any) -> Singles:
    """The mixture θ of topics of a document with these counts of words."""
    rows, weights = phi[:, words], prior.astype(np.float32)
    theta = (prior / prior.sum()).astype(np.float32)
    for _ in range(_ITERATIONS):
        theta = weights + theta * (rows @ (counts / (theta @ rows)).astype(np.float32))
        theta /= theta.sum()
    return theta


def smoothed(phi: Floats) -> Singles:
    """Topics in which every word has a chance."""
    topics = phi.astype(np.float32)
    topics *= 1.0 - _SMOOTHING
    topics += _SMOOTHING / phi.shape[1]
    return topics


class Completion:
    """Documents in halves: of each with two words or more, words and counts to fold in, words and counts to score."""

    def __init__(self, counts: Any, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.documents: list[tuple[Any, Any, Any, Any]] = []
        for m in range(counts.shape[0]):
            row = slice(counts.indptr[m], counts.indptr[m + 1])
            tokens = rng.permutation(np.repeat(counts.indices[row], counts.data[row]))
            if len(tokens) >= 2:
                cut = (len(tokens) + 1) // 2
                self.documents.append((*np.unique(tokens[:cut], return_counts=True), *np.unique(tokens[cut:], return_counts=True)))
        if not self.documents:
            raise ValueError("no document has two words that the model knows: there is nothing to score")

    def probabilities(self, phi: Floats, prior: Floats) -> list[Floats]:
        """Of each document, those of the words to score, given topics and their weights."""
        topics = smoothed(phi)
        return [(folded_in(topics, prior, words, times) @ topics[:, scored]).astype(np.float64) for words, times, scored, _ in self.documents]

    def perplexity(self, draws: Iterable[tuple[Floats, Floats]]) -> float:
        """exp(−Σ log p(w) / Σ 1) over all words to score, with p(w) averaged over draws of (φ, a)."""
        totals, n_draws = [np.zeros(len(scored)) for _, _, scored, _ in self.documents], 0
        for n_draws, draw in enumerate(draws, start=1):  # noqa: B007
            for total, more in zip(totals, self.probabilities(*draw), strict=True):
                total += more
        gained = sum(float(times @ np.log(total / n_draws)) for total, (*_, times) in zip(totals, self.documents, strict=True))
        return math.exp(-gained / sum(int(times.sum()) for *_, times in self.documents))


def perplexity(draws: Iterable[tuple[Floats, Floats]], counts: Any, seed: int) -> float:
    """Of documents, given (φ, a) of one or more draws."""
    return Completion(counts, seed).perplexity(draws)
