"""Bags of words: a cluster has word probabilities φ ~ Dirichlet(η), a point is a row of word counts.

    p(x | x_c) = Γ(A + N)/Γ(A + N + L) · ∏_w Γ(η_w + N_w + x_w)/Γ(η_w + N_w),   A = Σ η_w, N = Σ N_w, L = Σ x_w

The multinomial coefficient L!/∏ x_w! is a constant of the data and is left out everywhere (`log_coefficient` gives the sum over points). Counts are whole numbers, so
statistics never drift. A count up to 16 is written out as that many factors η_w + N_w + j, whose product takes one logarithm in sixteen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from maitre.data.validation import count_matrix
from maitre.families.base import ConjugateFamily, Example
from maitre.families.counts import Counts, add_log_counts, weighted_counts
from maitre.families.statistics import log_bound
from maitre.numerics.arrays import Floats, Ints, padded
from maitre.numerics.distributions import Hyperprior
from maitre.numerics.elementary import fast_lgamma, fast_log
from maitre.numerics.rng import log_gamma_variate, uniform

_WRITTEN_OUT = 16


class DirichletMultinomialStatistics(NamedTuple):
    """Run-time state; V words, C slots. η_w = concentration · share[w]."""

    start: Ints  # (n + 1,): where a point's words begin
    words: Counts
    counts: Counts
    token_start: Ints  # (n + 1,): where its factors begin
    token_words: Counts
    token_extra: Floats  # j of the factor η_w + N_w + j
    bulk_start: Ints  # (n + 1,): where its counts above 16 begin
    bulk_words: Counts
    bulk_counts: Floats
    length: Floats  # (n,): L
    share: Floats  # (V,)
    concentration: float
    base: Floats  # (V,): η_w
    seen: Counts  # (V, C): N_w
    total: Floats  # (C,): N
    log_gamma_total: Floats  # (C,): log Γ(A + N)
    product: Floats  # (C,): work space

    def clear(s, k: int) -> None:
        if s.total[k] != 0.0:
            s.total[k] = 0.0
            for w in range(len(s.base)):
                s.seen[w, k] = 0

    def add(s, k: int, i: int) -> None:
        s.total[k] += s.length[i]
        for t in range(s.start[i], s.start[i + 1]):
            s.seen[s.words[t], k] += s.counts[t]

    def remove(s, k: int, i: int) -> None:
        s.total[k] -= s.length[i]
        for t in range(s.start[i], s.start[i + 1]):
            s.seen[s.words[t], k] -= s.counts[t]

    def merge(s, k: int, other: int) -> None:
        s.total[k] += s.total[other]
        for w in range(len(s.base)):
            s.seen[w, k] += s.seen[w, other]

    def subtract(s, k: int, other: int) -> None:
        s.total[k] -= s.total[other]
        for w in range(len(s.base)):
            s.seen[w, k] -= s.seen[w, other]

    def refresh(s, k: int) -> None:
        s.log_gamma_total[k] = math.lgamma(s.concentration + s.total[k])

    def derive(s, k: int) -> None:
        for w in range(len(s.base)):
            s.base[w] = s.concentration * s.share[w]
        s.log_gamma_total[k] = math.lgamma(s.concentration + s.total[k])

    def log_marginal(s, k: int) -> float:
        value = math.lgamma(s.concentration) - math.lgamma(s.concentration + s.total[k])
        for w in range(len(s.base)):
            if s.seen[w, k] > 0:
                eta = s.concentration * s.share[w]
                value += fast_lgamma(eta + s.seen[w, k]) - fast_lgamma(eta)
        return value

    def log_predictive(s, k: int, i: int) -> float:
        value = s.log_gamma_total[k] - math.lgamma(s.concentration + s.total[k] + s.length[i])
        for t in range(s.token_start[i], s.token_start[i + 1]):
            value += math.log(s.base[s.token_words[t]] + s.token_extra[t] + s.seen[s.token_words[t], k])
        for t in range(s.bulk_start[i], s.bulk_start[i + 1]):
            mass = s.base[s.bulk_words[t]] + s.seen[s.bulk_words[t], k]
            value += math.lgamma(mass + s.bulk_counts[t]) - math.lgamma(mass)
        return value

    def log_predictive_without(s, k: int, i: int) -> float:
        """Counting down from N_w: the factors are η_w + N_w − 1 − j."""
        value = math.lgamma(s.concentration + (int(s.total[k]) - int(s.length[i]))) - s.log_gamma_total[k]
        product, factors = 1.0, 0
        for t in range(s.token_start[i], s.token_start[i + 1]):
            w = s.token_words[t]
            product *= s.base[w] + (s.seen[w, k] - 1 - int(s.token_extra[t]))  # whole numbers first: a tiny base would be lost beside them
            factors += 1
            if factors == 16:
                value += math.log(product)
                product, factors = 1.0, 0
        for t in range(s.bulk_start[i], s.bulk_start[i + 1]):
            left = s.seen[s.bulk_words[t], k] - s.bulk_counts[t]
            value += math.lgamma(s.base[s.bulk_words[t]] + left + s.bulk_counts[t]) - math.lgamma(s.base[s.bulk_words[t]] + left)
        return value + fast_log(product)

    def log_predictive_all(s, i: int, n_slots: int, out: Floats) -> None:
        length = s.length[i]
        for k in range(n_slots):
            out[k] += s.log_gamma_total[k] - fast_lgamma(s.concentration + s.total[k] + length)
        add_log_counts(s.seen, s.base, s.token_words, s.token_extra, s.token_start[i], s.token_start[i + 1], n_slots, s.product, out)
        for t in range(s.bulk_start[i], s.bulk_start[i + 1]):
            w, count = s.bulk_words[t], s.bulk_counts[t]
            for k in range(n_slots):
                mass = s.base[w] + s.seen[w, k]
                out[k] += fast_lgamma(mass + count) - fast_lgamma(mass)

    def log_bound(s, i: int) -> float:
        """The predictive is a mixture over φ of ∏ φ_w^x_w, and no φ gives the point more than its own shares x_w/L."""
        value = 0.0
        for t in range(s.start[i], s.start[i + 1]):
            if s.counts[t] > 0:
                value += s.counts[t] * math.log(s.counts[t] / s.length[i])
        return value

    def log_bound_given(s, k: int, rest: int, i: int) -> float:
        """Token by token: after q occurrences of w the factor is at most (η_w + N_w + R_w + q)/(A + N + R_w + q), R_w the word's count in the points to come: it rises
        with the number of w among those that join, and others only make it smaller. The bound of the point alone holds as well."""
        value = 0.0
        for t in range(s.start[i], s.start[i + 1]):
            if s.counts[t] > 0:
                w, x = s.words[t], s.counts[t]
                joining = s.seen[w, k] + (s.seen[w, rest] - x)
                mass, total = s.base[w] + joining, s.concentration + (s.total[k] - s.seen[w, k]) + joining
                value += math.lgamma(mass + x) - math.lgamma(mass) + math.lgamma(total) - math.lgamma(total + x)
        return min(value, log_bound(s, i))

    def log_predictive_raw(s, k: int, i: int) -> float:
        mass = s.concentration + s.total[k]
        value = fast_lgamma(mass) - fast_lgamma(mass + s.length[i])
        product, factors = 1.0, 0
        for t in range(s.token_start[i], s.token_start[i + 1]):
            w = s.token_words[t]
            product *= s.base[w] + (s.seen[w, k] + s.token_extra[t])
            factors += 1
            if factors == 16:
                value += fast_log(product)
                product, factors = 1.0, 0
        for t in range(s.bulk_start[i], s.bulk_start[i + 1]):
            weight = s.base[s.bulk_words[t]] + s.seen[s.bulk_words[t], k]
            value += fast_lgamma(weight + s.bulk_counts[t]) - fast_lgamma(weight)
        return value + fast_log(product)

    def n_parameters(s) -> int:
        return len(s.base)

    def draw_parameters(s, k: int, theta: Floats, rng: Any) -> None:
        highest = -np.inf
        for w in range(len(s.base)):
            theta[w] = log_gamma_variate(s.base[w] + s.seen[w, k], rng)
            highest = max(highest, theta[w])
        total = 0.0
        for w in range(len(s.base)):
            total += math.exp(theta[w] - highest)
        for w in range(len(s.base)):
            theta[w] -= highest + math.log(total)

    def log_likelihood(s, theta: Floats, i: int) -> float:
        value = 0.0
        for t in range(s.start[i], s.start[i + 1]):
            if s.counts[t] > 0:
                value += s.counts[t] * theta[s.words[t]]
        return value

    def draw_point(s, theta: Floats, i: int, rng: Any) -> None:
        """Only for points that store an entry, if need be 0, for every word, and whose counts stay at most 16."""
        for t in range(s.start[i], s.start[i + 1]):
            s.counts[t] = 0
        position = s.token_start[i]
        for _ in range(int(s.length[i])):
            left, word = uniform(rng), 0
            while word < len(s.base) - 1 and left >= math.exp(theta[word]):
                left -= math.exp(theta[word])
                word += 1
            s.token_words[position] = word
            s.token_extra[position] = float(s.counts[s.start[i] + word])
            s.counts[s.start[i] + word] += 1
            position += 1


@dataclass(frozen=True)
class DirichletMultinomial(ConjugateFamily):
    """Rows of counts, dense or sparse (CSR). `concentration` is η, the same for every word (a number or a prior), or one number per word.

    >>> import maitre as mt
    >>> family = mt.families.DirichletMultinomial(concentration=0.5)
    """

    concentration: Any = 0.5

    statistics = DirichletMultinomialStatistics

    def __post_init__(self) -> None:
        if isinstance(self.concentration, Hyperprior):
            return
        values = np.asarray(self.concentration, dtype=float)
        if not (np.all(values >= 1e-15) and np.all(np.isfinite(values))):
            raise ValueError(f"DirichletMultinomial: concentration must be positive (at least 1e-15), not {self.concentration!r}")

    def validate(self, data: Any) -> sparse.csr_matrix:
        return count_matrix(data)

    def encode(self, x: sparse.csr_matrix) -> tuple[Any, ...]:
        start, words, counts = x.indptr.astype(np.int64), x.indices.astype(np.int32), x.data.astype(_whole_number_type(x))
        written = np.where(counts <= _WRITTEN_OUT, counts, 0)
        point = np.repeat(np.arange(x.shape[0]), np.diff(start))
        tokens = np.repeat(np.arange(len(words)), written)
        extra = np.arange(len(tokens)) - np.repeat(np.cumsum(written) - written, written)
        bulk = counts > _WRITTEN_OUT
        return (
            start,
            words,
            counts,
            _starts(point[tokens], x.shape[0]),
            words[tokens],
            extra.astype(np.float64),
            _starts(point[bulk], x.shape[0]),
            words[bulk],
            counts[bulk].astype(np.float64),
            np.asarray(x.sum(axis=1), dtype=np.float64).ravel(),
            x.shape[1],
        )

    def vectors(self, x: sparse.csr_matrix, weighting: str = "tfidf") -> sparse.csr_matrix:
        return weighted_counts(x, weighting)

    def allocate(self, encoded: tuple[Any, ...], capacity: int) -> DirichletMultinomialStatistics:
        *arrays, n_words = encoded
        slots = padded(capacity)
        eta = np.broadcast_to(np.asarray(self.concentration, dtype=float), n_words)
        total = float(eta.sum())
        seen = np.zeros((n_words, slots), arrays[2].dtype)
        return DirichletMultinomialStatistics(*arrays, eta / total, total, eta.copy(), seen, *(np.zeros(slots) for _ in range(3)))

    def with_values(self, statistics: DirichletMultinomialStatistics, values: dict[str, float]) -> DirichletMultinomialStatistics:
        return statistics._replace(concentration=values["concentration"] * len(statistics.share))

    def log_coefficient(self, x: sparse.csr_matrix) -> float:
        """Σ_i log(L_i! / ∏ x_iw!): the constant of the data that log joints leave out."""
        return float(gammaln(np.asarray(x.sum(axis=1)) + 1.0).sum() - gammaln(x.data + 1.0).sum())


def _whole_number_type(x: sparse.csr_matrix) -> type:
    """Four bytes where no sum of counts can exceed them: half the memory to read."""
    return np.int32 if float(x.sum()) < 2**31 else np.int64


def _starts(points: Ints, n: int) -> Ints:
    return np.concatenate([[0], np.cumsum(np.bincount(points, minlength=n))]).astype(np.int64)


DirichletMultinomial.EXAMPLES = (
    Example(DirichletMultinomial(0.5), [[2, 1, 0], [1, 2, 0], [0, 0, 3], [0, 1, 2], [1, 0, 0], [0, 1, 0]]),
    Example(DirichletMultinomial([0.5, 1.2, 0.3]), [[2, 1, 0], [25, 2, 0], [0, 0, 30], [0, 1, 2], [3, 0, 0]]),
)
