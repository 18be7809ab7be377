"""Collapsed variational inference for the hierarchical Dirichlet process over words, with means of counts only: CVB0 (Teh, Kurihara & Welling 2008; Asuncion et al. 2009). Inexact.

At most T topics. q(z) has one distribution for all copies of a word in a document; with n, c the expected counts without one of them,

    q(z_mi = k) ∝ (a_k + n_mk) (η + c_kw) / (V η + c_k),        a_k = G[γ] G[β_k],   G[·] = exp E log ·.

Tables are counted in expectation: with P⁺ = 1 − ∏ (1 − q) the chance that a document has the topic at all, and E⁺, V⁺ mean and variance of its count if it does,

    E l_mk ≈ a_k P⁺ [ψ(a_k + E⁺) − ψ(a_k) + ½ V⁺ ψ''(a_k + E⁺)].

From these follow q(v_k) = Beta(1 + E l_·k, E α + Σ_{l>k} E l_·l) and q(α) (`maitre.approximate.sticks`), and q(γ) = Gamma(shape + E l_··, rate − Σ_m [ψ(E γ) − ψ(E γ + N_m)]).
There is no bound to report.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, polygamma

from maitre.approximate.sticks import Sticks
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import compiled
from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.numerics.rng import RngState, uniform

Shares = npt.NDArray[np.float32]


@compiled
def improve(indptr: Any, words: Any, counts: Any, shares: Shares, in_document: Shares, of_word: Shares, totals: Floats, weights: Shares, eta: float) -> float:
    """One pass over all words of all documents; returns the mean change of q. The expected counts n (documents × T), c (words × T) and c_k are kept up to date."""
    n_topics, mass = len(weights), eta * len(of_word)
    fresh, change, n = np.empty(n_topics, dtype=np.float32), 0.0, 0.0
    small = np.float32(1e-30)
    for m in range(len(indptr) - 1):
        for j in range(indptr[m], indptr[m + 1]):
            w, copies, whole = words[j], np.float32(counts[j]), np.float32(0.0)
            for k in range(n_topics):
                one = shares[j, k]
                value = (weights[k] + max(in_document[m, k] - one, np.float32(0.0))) * (np.float32(eta) + max(of_word[w, k] - one, np.float32(0.0)))
                fresh[k] = value / np.float32(mass + max(totals[k] - one, 0.0))
                whole += fresh[k]
            for k in range(n_topics):
                share = max(fresh[k] / whole, small)
                step = share - shares[j, k]
                shares[j, k] = share
                in_document[m, k] += copies * step
                of_word[w, k] += copies * step
                totals[k] += copies * step
                change += counts[j] * abs(step)
            n += counts[j]
    return change / (2.0 * n)


@compiled
def moments(indptr: Any, counts: Any, shares: Shares, log_absent: Floats, variance: Floats) -> None:
    """Σ log(1 − q) and Σ q (1 − q) of every document and topic."""
    for m in range(len(indptr) - 1):
        for j in range(indptr[m], indptr[m + 1]):
            for k in range(shares.shape[1]):
                share = min(float(shares[j, k]), 1.0 - 1e-7)
                log_absent[m, k] += counts[j] * math.log1p(-share)
                variance[m, k] += counts[j] * share * (1.0 - share)


@compiled
def draw_topics(counts: Any, shares: Shares, rng: RngState, labels: Any) -> None:
    """A topic for every copy of every word, from q."""
    i = 0
    for j in range(len(counts)):
        for _ in range(counts[j]):
            x, chosen = uniform(rng), shares.shape[1] - 1
            for k in range(shares.shape[1]):
                x -= shares[j, k]
                if x < 0.0:
                    chosen = k
                    break
            labels[i] = chosen
            i += 1


class TopicCounts:
    """q of all words' topics, of the weights and of the concentrations."""

    def __init__(self, counts: Any, truncation: int, eta: float, top: Hyperparameter, group: Hyperparameter, rng: np.random.Generator) -> None:
        self.counts, self.eta = counts, eta
        self.lengths: Ints = np.asarray(counts.sum(axis=1)).ravel()
        self.lengths = self.lengths[self.lengths > 0]
        self.shares: Shares = rng.dirichlet(np.ones(truncation), size=counts.nnz).astype(np.float32)
        self.prior = group if isinstance(group, Gamma) else None
        self.q_gamma: Hyperparameter = group
        self.sticks = Sticks(truncation, top)
        self._count()
        self._weigh(np.full(truncation, 1.0 / truncation))

    @property
    def gamma(self) -> float:
        """E γ."""
        return self.q_gamma.mean if isinstance(self.q_gamma, Gamma) else float(self.q_gamma)  # type: ignore[arg-type]

    def _count(self) -> None:
        """Expected counts from q alone."""
        weighted = self.shares * self.counts.data[:, None].astype(np.float32)
        rows = np.repeat(np.arange(self.counts.shape[0]), np.diff(self.counts.indptr))
        n_topics = self.shares.shape[1]
        self.in_document, self.of_word = (
            np.zeros((self.counts.shape[0], n_topics), dtype=np.float32),
            np.zeros((self.counts.shape[1], n_topics), dtype=np.float32),
        )
        np.add.at(self.in_document, rows, weighted)
        np.add.at(self.of_word, self.counts.indices, weighted)
        self.totals: Floats = self.of_word.sum(axis=0, dtype=np.float64)

    def _weigh(self, beta: Floats) -> None:
        q = self.q_gamma
        log_gamma = digamma(q.shape) - math.log(q.rate) if isinstance(q, Gamma) else math.log(self.gamma)
        self.weights: Shares = np.maximum(math.exp(log_gamma) * beta, 1e-12).astype(np.float32)

    def tables(self) -> Floats:
        """E l_·k."""
        shape = self.in_document.shape
        log_absent, variance = np.zeros(shape), np.zeros(shape)
        moments(self.counts.indptr, self.counts.data, self.shares, log_absent, variance)
        a, present = self.weights.astype(np.float64), np.maximum(-np.expm1(log_absent), 1e-12)
        mean = np.maximum(self.in_document, 0.0) / present
        spread = variance / present + mean * mean * present - mean * mean
        expected = digamma(a + mean) - digamma(a) + 0.5 * np.maximum(spread, 0.0) * polygamma(2, a + mean)
        return np.asarray((a * present * np.maximum(expected, 0.0)).sum(axis=0))

    def climb(self, iterations: int, tolerance: float, over: Callable[[int, float], bool]) -> bool:
        """Iterations until q changes by less than `tolerance` on average; whether it does."""
        matrix = self.counts
        for number in range(1, iterations + 1):
            change = improve(matrix.indptr, matrix.indices, matrix.data, self.shares, self.in_document, self.of_word, self.totals, self.weights, self.eta)
            tables = self.tables()
            self.sticks.update(tables)
            if self.prior is not None:
                drop = float((digamma(self.gamma) - digamma(self.gamma + self.lengths)).sum())
                self.q_gamma = Gamma(self.prior.shape + float(tables.sum()), self.prior.rate - drop)
            self._weigh(np.exp(self.sticks.log_weights))
            if over(number, change) or change < tolerance:
                return change < tolerance
        return False
