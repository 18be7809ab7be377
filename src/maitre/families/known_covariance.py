"""Gaussian clusters that share a known covariance Σ, with means μ ~ N(m0, S0).

Points are centred at m0, whitened by Σ and rotated to the basis in which S0 is diagonal too (such a basis always exists), so that for cluster c with n points
every dimension is independent: with prior variance s, noise variance σ and sum t,

    v = 1 / (1/s + n/σ),    predictive N(v t/σ, σ + v),
    log p(x_c) = −½ [n log 2πσ + log(1 + n s/σ) + Σx²/σ − s t² / (σ(σ + n s))].

The log predictive is linear in the features (x, |x|²), or (x, x²) where S0 is not proportional to Σ: a product of a matrix of cluster coefficients with a point.
`prior_scale` multiplies S0 and `covariance_scale` multiplies Σ; either may carry a prior and is then sampled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maitre.data.validation import column_means, column_variances, dense_matrix, within_range
from maitre.families.base import ConjugateFamily, Example
from maitre.numerics.arrays import Floats, accumulate_products, four_products, padded, prefetch_row
from maitre.numerics.compilation import compiled
from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.numerics.elementary import fast_log
from maitre.numerics.linear import as_covariance, relative_basis
from maitre.numerics.rng import normal

_LOG_TWO_PI = math.log(2.0 * math.pi)


class KnownCovarianceStatistics(NamedTuple):
    """Run-time state; D dimensions, F features, C slots."""

    features: Floats  # (n, F): x, then |x|² if `shared`, else x²; a 1; then zeros up to a whole number of cache lines
    shared: bool  # S0 is proportional to Σ: one prior variance for all dimensions
    variance: Floats  # (D,): S0 in the whitened basis
    log_jacobian: float
    prior_scale: float
    covariance_scale: float
    n: Floats  # (C,)
    total: Floats  # (C, D)
    square: Floats  # (C,)
    coefficients: Floats  # (F, C)
    without: Floats  # (C, 3): shrinkage, inverse variance and constant of the predictive with one point fewer, if `shared`

    def clear(s, k: int) -> None:
        s.n[k] = 0.0
        s.square[k] = 0.0
        for d in range(len(s.variance)):
            s.total[k, d] = 0.0

    def add(s, k: int, i: int) -> None:
        n_dimensions = len(s.variance)
        s.n[k] += 1.0
        for d in range(n_dimensions):
            s.total[k, d] += s.features[i, d]
        for f in range(n_dimensions, n_dimensions + (1 if s.shared else n_dimensions)):
            s.square[k] += s.features[i, f]

    def remove(s, k: int, i: int) -> None:
        n_dimensions = len(s.variance)
        s.n[k] -= 1.0
        for d in range(n_dimensions):
            s.total[k, d] -= s.features[i, d]
        for f in range(n_dimensions, n_dimensions + (1 if s.shared else n_dimensions)):
            s.square[k] -= s.features[i, f]

    def merge(s, k: int, other: int) -> None:
        s.n[k] += s.n[other]
        s.square[k] += s.square[other]
        for d in range(len(s.variance)):
            s.total[k, d] += s.total[other, d]

    def subtract(s, k: int, other: int) -> None:
        s.n[k] -= s.n[other]
        s.square[k] -= s.square[other]
        for d in range(len(s.variance)):
            s.total[k, d] -= s.total[other, d]

    def refresh(s, k: int) -> None:
        n_dimensions = len(s.variance)
        sigma = s.covariance_scale
        constant = s.log_jacobian - 0.5 * n_dimensions * _LOG_TWO_PI
        v = 1.0 / (1.0 / (s.prior_scale * s.variance[0]) + s.n[k] / sigma)
        spread = 1.0 / (sigma + v)
        squares = 0.0
        log_spread = n_dimensions * math.log(sigma + v) if s.shared else 0.0
        for d in range(n_dimensions):
            if not s.shared:
                v = 1.0 / (1.0 / (s.prior_scale * s.variance[d]) + s.n[k] / sigma)
                spread = 1.0 / (sigma + v)
                log_spread += math.log(sigma + v)
                s.coefficients[n_dimensions + d, k] = -0.5 * spread
            mean = v * s.total[k, d] / sigma
            s.coefficients[d, k] = mean * spread
            squares += mean * mean * spread
        if s.shared:
            s.coefficients[n_dimensions, k] = -0.5 * spread
            v = 1.0 / (1.0 / (s.prior_scale * s.variance[0]) + (s.n[k] - 1.0) / sigma)
            s.without[k, 0] = v / sigma
            s.without[k, 1] = 1.0 / (sigma + v)
            s.without[k, 2] = constant - 0.5 * n_dimensions * math.log(sigma + v) if s.n[k] > 0.0 else 0.0
        s.coefficients[n_dimensions + (1 if s.shared else n_dimensions), k] = constant - 0.5 * (log_spread + squares)

    def log_marginal(s, k: int) -> float:
        n, sigma = s.n[k], s.covariance_scale
        if n == 0.0:
            return 0.0
        n_dimensions = len(s.variance)
        value = n * (n_dimensions * (_LOG_TWO_PI + math.log(sigma)) - 2.0 * s.log_jacobian) + s.square[k] / sigma
        for d in range(n_dimensions):
            prior = s.prior_scale * s.variance[d]
            value += math.log(1.0 + n * prior / sigma) - prior * s.total[k, d] ** 2 / (sigma * (sigma + n * prior))
        return -0.5 * value

    def log_predictive(s, k: int, i: int) -> float:
        value = 0.0
        for f in range(s.features.shape[1]):
            value += s.coefficients[f, k] * s.features[i, f]
        return value

    def log_predictive_without(s, k: int, i: int) -> float:
        n_dimensions, sigma = len(s.variance), s.covariance_scale
        distance, log_spread = 0.0, 0.0
        if s.shared:
            shrink, spread, constant = s.without[k, 0], s.without[k, 1], s.without[k, 2]
            for d in range(n_dimensions):
                x = s.features[i, d]
                gap = x - shrink * (s.total[k, d] - x)
                distance += gap * gap
            return constant - 0.5 * spread * distance
        for d in range(n_dimensions):
            v = 1.0 / (1.0 / (s.prior_scale * s.variance[d]) + (s.n[k] - 1.0) / sigma)
            x = s.features[i, d]
            gap = x - v / sigma * (s.total[k, d] - x)
            distance += gap * gap / (sigma + v)
            log_spread += fast_log(sigma + v)
        return s.log_jacobian - 0.5 * (n_dimensions * _LOG_TWO_PI + log_spread + distance)

    def log_predictive_raw(s, k: int, i: int) -> float:
        n_dimensions, sigma = len(s.variance), s.covariance_scale
        distance, log_spread = 0.0, 0.0
        if s.shared:
            v = 1.0 / (1.0 / (s.prior_scale * s.variance[0]) + s.n[k] / sigma)
            shrink = v / sigma
            for d in range(n_dimensions):
                gap = s.features[i, d] - shrink * s.total[k, d]
                distance += gap * gap
            distance /= sigma + v
            log_spread = n_dimensions * fast_log(sigma + v)
        else:
            for d in range(n_dimensions):
                v = 1.0 / (1.0 / (s.prior_scale * s.variance[d]) + s.n[k] / sigma)
                gap = s.features[i, d] - v / sigma * s.total[k, d]
                distance += gap * gap / (sigma + v)
                log_spread += fast_log(sigma + v)
        return s.log_jacobian - 0.5 * (n_dimensions * _LOG_TWO_PI + log_spread + distance)

    def log_predictive_all(s, i: int, n_slots: int, out: Floats) -> None:
        accumulate_products(s.coefficients, s.features, i, n_slots, out)

    def scores_in_fours(s) -> bool:
        return True

    def log_predictive_four(s, a: int, b: int, c: int, d: int, n_slots: int, out: Floats) -> None:
        four_products(s.coefficients, s.features, a, b, c, d, n_slots, out)

    def prefetch(s, i: int) -> None:
        prefetch_row(s.features, i)

    def log_bound(s, i: int) -> float:
        return _log_peak(s, len(s.features) - 1.0)

    def log_bound_given(s, k: int, rest: int, i: int) -> float:
        return _log_peak(s, s.n[k] + s.n[rest] - 1.0)

    def n_parameters(s) -> int:
        return len(s.variance)

    def draw_parameters(s, k: int, theta: Floats, rng: Any) -> None:
        sigma = s.covariance_scale
        for d in range(len(s.variance)):
            v = 1.0 / (1.0 / (s.prior_scale * s.variance[d]) + s.n[k] / sigma)
            theta[d] = v * s.total[k, d] / sigma + math.sqrt(v) * normal(rng)

    def log_likelihood(s, theta: Floats, i: int) -> float:
        distance = 0.0
        for d in range(len(s.variance)):
            distance += (s.features[i, d] - theta[d]) ** 2
        sigma = s.covariance_scale
        return s.log_jacobian - 0.5 * (len(s.variance) * (_LOG_TWO_PI + math.log(sigma)) + distance / sigma)

    def draw_point(s, theta: Floats, i: int, rng: Any) -> None:
        n_dimensions = len(s.variance)
        root, square = math.sqrt(s.covariance_scale), 0.0
        for d in range(n_dimensions):
            x = theta[d] + root * normal(rng)
            s.features[i, d] = x
            square += x * x
            if not s.shared:
                s.features[i, n_dimensions + d] = x * x
        if s.shared:
            s.features[i, n_dimensions] = square


@compiled
def _log_peak(s: Any, n: float) -> float:
    """The predictive density of a cluster of n points at its mean. Its variance σ + v falls with n, so no cluster of at most n points gives any point more."""
    value = s.log_jacobian - 0.5 * len(s.variance) * _LOG_TWO_PI
    for d in range(len(s.variance)):
        value -= 0.5 * math.log(s.covariance_scale + 1.0 / (1.0 / (s.prior_scale * s.variance[d]) + n / s.covariance_scale))
    return value


@dataclass(frozen=True)
class KnownCovarianceGaussian(ConjugateFamily):
    """Gaussian clusters with one known covariance; each argument may be a number (times the identity), a vector (a diagonal) or a matrix.

    Defaults from the data: `mean` the data's mean, `prior_covariance` and `covariance` each column's variance; a covariance that is not given is known up to a
    factor only, so `covariance_scale` then has the prior Gamma(2, 4) and is sampled.

    >>> import maitre as mt
    >>> family = mt.families.KnownCovarianceGaussian(mean=0.0, prior_covariance=4.0, covariance=1.0)
    """

    mean: Any = None
    prior_covariance: Any = None
    covariance: Any = None
    prior_scale: Hyperparameter = 1.0
    covariance_scale: Hyperparameter | None = None

    statistics = KnownCovarianceStatistics
    MOVES = "gibbs+split_merge+permutation"
    POSITIVE = ("prior_scale", "covariance_scale")

    def validate(self, data: Any) -> Floats:
        return dense_matrix(data)

    def defaults(self, x: Floats) -> dict[str, Any]:
        variance = column_variances(x)
        scale = Gamma(2.0, 4.0) if self.covariance is None else 1.0
        return {"mean": column_means(x), "covariance": variance, "prior_covariance": variance, "covariance_scale": scale}

    def encode(self, x: Floats) -> tuple[Floats, bool, Floats, float]:
        n_dimensions = x.shape[1]
        covariance = as_covariance(self.covariance, n_dimensions, "covariance")
        prior = as_covariance(self.prior_covariance, n_dimensions, "prior_covariance")
        transform, variance, log_jacobian = relative_basis(covariance, prior)
        z = within_range((x - np.asarray(self.mean, dtype=float)) @ transform.T)
        shared = bool(np.ptp(variance) <= 1e-12 * variance.max())
        squares = np.sum(z**2, axis=1, keepdims=True) if shared else z**2
        used = np.hstack([z, squares, np.ones((len(z), 1))])
        features = np.zeros((len(z), padded(used.shape[1])))
        features[:, : used.shape[1]] = used
        return features, shared, variance, log_jacobian

    def vectors(self, x: Floats) -> Floats:
        return np.ascontiguousarray(self.encode(x)[0][:, : x.shape[1]])  # type: ignore[no-any-return]

    def allocate(self, encoded: tuple[Floats, bool, Floats, float], capacity: int) -> KnownCovarianceStatistics:
        features, shared, variance, log_jacobian = encoded
        slots, n_features = padded(capacity), features.shape[1]
        return KnownCovarianceStatistics(
            features,
            shared,
            variance,
            log_jacobian,
            float(self.prior_scale),  # type: ignore[arg-type]
            float(self.covariance_scale),  # type: ignore[arg-type]
            np.zeros(slots),
            np.zeros((slots, len(variance))),
            np.zeros(slots),
            np.zeros((n_features, slots)),
            np.zeros((slots, 3)),
        )


KnownCovarianceGaussian.EXAMPLES = (
    Example(KnownCovarianceGaussian(0.0, 4.0, 0.25), [[-1.0], [-0.8], [0.1], [0.9], [1.1], [2.0]]),
    Example(KnownCovarianceGaussian([0.1, 0.0], [2.0, 1.0], [0.5, 0.7], prior_scale=1.3), [[-1.0, 0.2], [-0.8, 0.0], [0.1, 1.2], [0.9, -0.4], [1.4, 0.9]]),
    Example(
        KnownCovarianceGaussian(0.0, [[2.0, 0.4], [0.4, 1.0]], [[0.6, -0.2], [-0.2, 0.5]], covariance_scale=0.9),
        [[-1.0, 0.2], [-0.8, 0.0], [0.1, 1.2], [0.9, -0.4], [1.4, 0.9]],
    ),
)
