"""Bags of words: a cluster has word probabilities φ ~ Dirichlet(η), a point is a row of word counts.

    p(x | x_c) = Γ(A + N)/Γ(A + N + L) · ∏_w Γ(η_w + N_w + x_w)/Γ(η_w + N_w),   A = Σ η_w, N = Σ N_w, L = Σ x_w

The multinomial coefficient L!/∏ x_w! is a constant of the data and is left out everywhere (`log_coefficient` gives the sum over points). Counts are whole numbers, so
statistics never drift. A count up to 16 is written out as that many factors η_w + N_w + j, whose product takes one logarithm in sixteen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from maitre.data.validation import count_matrix
from maitre.families.base import ConjugateFamily, Example
from maitre.families.counts import LEAST_MASS, MOST_MASS, Counts, add_log_counts, weighted_counts
from maitre.families.slots import CACHE, POINTS, SCRATCH, SLOTS, SLOTS_LAST, STARTS, Points
from maitre.families.statistics import log_bound
from maitre.numerics.arguments import numbers_of_columns, real_numbers
from maitre.numerics.arrays import Floats, Ints, padded
from maitre.numerics.distributions import Hyperprior
from maitre.numerics.elementary import digamma, fast_lgamma, fast_log
from maitre.numerics.rng import log_gamma_variate, uniform

_WRITTEN_OUT = 16


class DirichletMultinomialStatistics(NamedTuple):
    """Run-time state; V words, C slots. η_w = concentration · share[w]."""

    start: Annotated[Ints, STARTS]  # (n + 1,): where a point's words begin
    words: Annotated[Counts, Points("start")]
    counts: Annotated[Counts, Points("start")]
    token_start: Annotated[Ints, STARTS]  # (n + 1,): where its factors begin
    token_words: Annotated[Counts, Points("token_start")]
    token_extra: Annotated[Floats, Points("token_start")]  # j of the factor η_w + N_w + j
    bulk_start: Annotated[Ints, STARTS]  # (n + 1,): where its counts above 16 begin
    bulk_words: Annotated[Counts, Points("bulk_start")]
    bulk_counts: Annotated[Floats, Points("bulk_start")]
    length: Annotated[Floats, POINTS]  # (n,): L
    share: Floats  # (V,)
    concentration: float
    base: Floats  # (V,): η_w
    seen: Annotated[Counts, SLOTS_LAST]  # (V, C): N_w
    total: Annotated[Floats, SLOTS]  # (C,): N
    log_gamma_total: Annotated[Floats, CACHE]  # (C,): log Γ(A + N)
    product: Annotated[Floats, SCRATCH]  # (C,): work space

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

    def n_coefficients(s) -> int:
        return len(s.base)

    def set_coefficients(s, theta: Floats, a: Floats, k: int) -> None:
        for w in range(len(s.base)):
            a[w, k] = theta[w]

    def score_all(s, theta: Floats, a: Floats, i: int, n: int, out: Floats) -> None:
        for t in range(s.start[i], s.start[i + 1]):
            if s.counts[t] > 0:
                w, count = s.words[t], float(s.counts[t])
                for k in range(n):
                    out[k] += count * a[w, k]

    def log_likelihood_of(s, theta: Floats, k: int) -> float:
        value = 0.0
        for w in range(len(s.base)):
            if s.seen[w, k] > 0:
                value += s.seen[w, k] * theta[w]
        return value

    def add_weighted(s, k: int, i: int, weight: float) -> None:
        s.total[k] += weight * s.length[i]
        for t in range(s.start[i], s.start[i + 1]):
            s.seen[s.words[t], k] += weight * s.counts[t]

    def expect(s, k: int) -> None:
        """E log φ_w = ψ(η_w + N_w) − ψ(A + N), which takes the place of the count."""
        psi = digamma(s.concentration + s.total[k])
        for w in range(len(s.base)):
            s.seen[w, k] = digamma(s.base[w] + s.seen[w, k]) - psi
        s.total[k] = -1.0  # even of an empty slot: there is something to clear

    def expected_log_likelihood_all(s, i: int, n_slots: int, out: Floats) -> None:
        for t in range(s.start[i], s.start[i + 1]):
            w, count = s.words[t], s.counts[t]
            for k in range(n_slots):
                out[k] += count * s.seen[w, k]

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
    SCALE = "concentration"

    def __post_init__(self) -> None:
        if not isinstance(self.concentration, Hyperprior):
            real_numbers("DirichletMultinomial: concentration", self.concentration, least=LEAST_MASS, most=MOST_MASS)

    def validate(self, data: Any) -> sparse.csr_matrix:
        return count_matrix(data)

    def encode(self, x: sparse.csr_matrix) -> dict[str, Any]:
        numbers_of_columns("DirichletMultinomial: concentration", self.concentration, x.shape[1])
        start, words, counts = x.indptr.astype(np.int64), x.indices.astype(np.int32), x.data.astype(_whole_number_type(x.data.max(initial=0.0)))
        written = np.where(counts <= _WRITTEN_OUT, counts, 0)
        point = np.repeat(np.arange(x.shape[0]), np.diff(start))
        tokens = np.repeat(np.arange(len(words)), written)
        extra = np.arange(len(tokens)) - np.repeat(np.cumsum(written) - written, written)
        bulk = counts > _WRITTEN_OUT
        return {
            "start": start,
            "words": words,
            "counts": counts,
            "token_start": _starts(point[tokens], x.shape[0]),
            "token_words": words[tokens],
            "token_extra": extra.astype(np.float64),
            "bulk_start": _starts(point[bulk], x.shape[0]),
            "bulk_words": words[bulk],
            "bulk_counts": counts[bulk].astype(np.float64),
            "length": np.asarray(x.sum(axis=1), dtype=np.float64).ravel(),
            "n_words": x.shape[1],
        }

    def merge_cost(self, encoded: dict[str, Any]) -> int:
        entries_per_point = max(1, len(encoded["words"]) // max(1, len(encoded["length"])))
        return max(1, int(encoded["n_words"]) // (2 * entries_per_point))

    def vectors(self, data: sparse.csr_matrix, encoded: Any, weighting: str = "tfidf") -> sparse.csr_matrix:
        return weighted_counts(data, weighting)

    def allocate(self, encoded: dict[str, Any], capacity: int) -> DirichletMultinomialStatistics:
        points = {name: value for name, value in encoded.items() if name != "n_words"}
        slots, n_words = padded(capacity), encoded["n_words"]
        eta = numbers_of_columns("DirichletMultinomial: concentration", self.concentration, n_words)
        total = float(eta.sum())
        sums = {name: np.zeros(slots) for name in ("total", "log_gamma_total", "product")}
        seen = np.zeros((n_words, slots), _whole_number_type(float(encoded["length"].sum())))
        return DirichletMultinomialStatistics(**points, share=eta / total, concentration=total, base=eta, seen=seen, **sums)

    def with_values(self, statistics: DirichletMultinomialStatistics, values: dict[str, float]) -> DirichletMultinomialStatistics:
        total = values["concentration"] * len(statistics.share)
        return statistics._replace(concentration=total, base=total * statistics.share)

    def log_coefficient(self, x: sparse.csr_matrix) -> float:
        """Σ_i log(L_i! / ∏ x_iw!): the constant of the data that log joints leave out."""
        return float(gammaln(np.asarray(x.sum(axis=1)) + 1.0).sum() - gammaln(x.data + 1.0).sum())


def _whole_number_type(most: float) -> type:
    """Four bytes where no count can exceed them: half the memory to read."""
    return np.int32 if most < 2**31 else np.int64


def _starts(points: Ints, n: int) -> Ints:
    return np.concatenate([[0], np.cumsum(np.bincount(points, minlength=n))]).astype(np.int64)


DirichletMultinomial.EXAMPLES = (
    Example(DirichletMultinomial(0.5), [[2, 1, 0], [1, 2, 0], [0, 0, 3], [0, 1, 2], [1, 0, 0], [0, 1, 0]]),
    Example(DirichletMultinomial([0.5, 1.2, 0.3]), [[2, 1, 0], [25, 2, 0], [0, 0, 30], [0, 1, 2], [3, 0, 0]]),
)
