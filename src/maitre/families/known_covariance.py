"""Gaussian clusters that share a known covariance Σ, with means μ ~ N(m0, S0).

Points are centred at m0, whitened by Σ and rotated to the basis in which S0 is diagonal too (such a basis always exists), so that for cluster c with n points
every dimension is independent: with prior variance s, noise variance σ and sum t,

    v = 1 / (1/s + n/σ),    predictive N(v t/σ, σ + v),
    log p(x_c) = −½ [n log 2πσ + log(1 + n s/σ) + (Σx² − t²/n)/σ + t² / (n(σ + n s))].

The log predictive is linear in the features (x, |x|²), or (x, x²) where S0 is not proportional to Σ: a product of a matrix of cluster coefficients with a point. Far from m0
the products cancel, and the squared distances are taken instead. Sums are kept in twice the precision: an outlier that leaves a cluster leaves no trace in it.
`prior_scale` multiplies S0 and `covariance_scale` multiplies Σ; either may carry a prior and is then sampled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from maitre.data.validation import Units, column_means, column_variances, dense_matrix
from maitre.families.base import ConjugateFamily, Example
from maitre.families.slots import CACHE, POINTS, SCRATCH, SLOTS
from maitre.numerics.arguments import numbers_of_columns
from maitre.numerics.arrays import Floats, Ints, accumulate_products, accumulate_row, fetch, fill_rows, four_products, padded, prefetch_row
from maitre.numerics.compilation import compiled
from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.numerics.elementary import fast_log
from maitre.numerics.exact import product_error, sum_error
from maitre.numerics.linear import as_covariance, relative_basis
from maitre.numerics.rng import normal

_LOG_TWO_PI = math.log(2.0 * math.pi)
_FAR = 1e8  # |x|²/σ beyond which products of features with coefficients lose digits


class KnownCovarianceStatistics(NamedTuple):
    """Run-time state; D dimensions, F features, C slots. A sum's second array is what rounding left out of the first."""

    x: Annotated[Floats, POINTS]  # (n, D), centred at m0 and whitened
    norm: Annotated[Floats, POINTS]  # (n, 2): |x|²
    shared: bool  # S0 is proportional to Σ: one prior variance for all dimensions
    variance: Floats  # (D,): S0 in the whitened basis
    log_jacobian: float
    prior_scale: float
    covariance_scale: float
    n: Annotated[Floats, SLOTS]  # (C,)
    total: Annotated[Floats, SLOTS]  # (C, D)
    total_rest: Annotated[Floats, SLOTS]  # (C, D)
    square: Annotated[Floats, SLOTS]  # (C, 2)
    coefficients: Annotated[Floats, CACHE]  # (F, C)
    without: Annotated[Floats, CACHE]  # (C, 3): shrinkage, inverse variance and constant of the predictive with one point fewer, if `shared`
    features: Annotated[Floats, SCRATCH]  # (4, F): those of up to four points: x, |x|², 1 if `shared`, else x, x², 1; then zeros up to a multiple of 8

    def clear(s, k: int) -> None:
        s.n[k] = 0.0
        s.square[k, 0] = 0.0
        s.square[k, 1] = 0.0
        for d in range(len(s.variance)):
            s.total[k, d] = 0.0
            s.total_rest[k, d] = 0.0

    def add(s, k: int, i: int) -> None:
        s.n[k] += 1.0
        for d in range(len(s.variance)):
            _add_exactly(s.total, s.total_rest, k, d, s.x[i, d], 0.0)
        _add_square(s.square, k, s.norm[i, 0], s.norm[i, 1])

    def remove(s, k: int, i: int) -> None:
        s.n[k] -= 1.0
        for d in range(len(s.variance)):
            _add_exactly(s.total, s.total_rest, k, d, -s.x[i, d], 0.0)
        _add_square(s.square, k, -s.norm[i, 0], -s.norm[i, 1])

    def merge(s, k: int, other: int) -> None:
        s.n[k] += s.n[other]
        for d in range(len(s.variance)):
            _add_exactly(s.total, s.total_rest, k, d, s.total[other, d], s.total_rest[other, d])
        _add_square(s.square, k, s.square[other, 0], s.square[other, 1])

    def subtract(s, k: int, other: int) -> None:
        s.n[k] -= s.n[other]
        for d in range(len(s.variance)):
            _add_exactly(s.total, s.total_rest, k, d, -s.total[other, d], -s.total_rest[other, d])
        _add_square(s.square, k, -s.square[other, 0], -s.square[other, 1])

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
            v = 1.0 / (1.0 / (s.prior_scale * s.variance[0]) + max(s.n[k] - 1.0, 0.0) / sigma)
            s.without[k, 0] = v / sigma
            s.without[k, 1] = 1.0 / (sigma + v)
            s.without[k, 2] = constant - 0.5 * n_dimensions * math.log(sigma + v) if s.n[k] > 0.0 else 0.0
        s.coefficients[n_dimensions + 1 if s.shared else 2 * n_dimensions, k] = constant - 0.5 * (log_spread + squares)

    def log_marginal(s, k: int) -> float:
        n, sigma = s.n[k], s.covariance_scale
        if n == 0.0:
            return 0.0
        n_dimensions = len(s.variance)
        value = n * (n_dimensions * (_LOG_TWO_PI + math.log(sigma)) - 2.0 * s.log_jacobian) + _scatter(s.n, s.total, s.total_rest, s.square, k) / sigma
        for d in range(n_dimensions):
            prior = s.prior_scale * s.variance[d]
            value += math.log(1.0 + n * prior / sigma) + s.total[k, d] ** 2 / (n * (sigma + n * prior))
        return -0.5 * value

    def log_predictive(s, k: int, i: int) -> float:
        if s.norm[i, 0] > _FAR * s.covariance_scale:
            return _from_distances(s.x, s.n, s.total, s.variance, s.shared, s.prior_scale, s.covariance_scale, s.log_jacobian, k, i)
        n_dimensions, value = len(s.variance), 0.0
        if s.shared:
            for d in range(n_dimensions):
                value += s.coefficients[d, k] * s.x[i, d]
            return value + s.coefficients[n_dimensions, k] * s.norm[i, 0] + s.coefficients[n_dimensions + 1, k]
        for d in range(n_dimensions):
            value += (s.coefficients[d, k] + s.coefficients[n_dimensions + d, k] * s.x[i, d]) * s.x[i, d]
        return value + s.coefficients[2 * n_dimensions, k]

    def log_predictive_without(s, k: int, i: int) -> float:
        n_dimensions, sigma = len(s.variance), s.covariance_scale
        distance, log_spread = 0.0, 0.0
        if s.shared:
            shrink, spread, constant = s.without[k, 0], s.without[k, 1], s.without[k, 2]
            for d in range(n_dimensions):
                x = s.x[i, d]
                gap = x - shrink * (s.total[k, d] - x)
                distance += gap * gap
            return constant - 0.5 * spread * distance
        for d in range(n_dimensions):
            v = 1.0 / (1.0 / (s.prior_scale * s.variance[d]) + (s.n[k] - 1.0) / sigma)
            x = s.x[i, d]
            gap = x - v / sigma * (s.total[k, d] - x)
            distance += gap * gap / (sigma + v)
            log_spread += fast_log(sigma + v)
        return s.log_jacobian - 0.5 * (n_dimensions * _LOG_TWO_PI + log_spread + distance)

    def log_predictive_raw(s, k: int, i: int) -> float:
        return _from_distances(s.x, s.n, s.total, s.variance, s.shared, s.prior_scale, s.covariance_scale, s.log_jacobian, k, i)

    def log_predictive_all(s, i: int, n_slots: int, out: Floats) -> None:
        if s.norm[i, 0] > _FAR * s.covariance_scale:
            for k in range(n_slots):
                out[k] += _from_distances(s.x, s.n, s.total, s.variance, s.shared, s.prior_scale, s.covariance_scale, s.log_jacobian, k, i)
        else:
            n_direct = len(s.variance) // 8 * 8 if s.shared else 0
            _set_features(s.features, 0, s.x, s.norm, i, s.shared, n_direct)
            accumulate_products(s.coefficients, s.x, i, n_direct, s.features, n_slots, out)

    def scores_in_fours(s) -> bool:
        return True

    def log_predictive_four(s, a: int, b: int, c: int, d: int, n_slots: int, out: Floats) -> None:
        if max(max(s.norm[a, 0], s.norm[b, 0]), max(s.norm[c, 0], s.norm[d, 0])) > _FAR * s.covariance_scale:
            for row in range(4):
                i = a if row == 0 else b if row == 1 else c if row == 2 else d
                for k in range(n_slots):
                    out[row, k] = _from_distances(s.x, s.n, s.total, s.variance, s.shared, s.prior_scale, s.covariance_scale, s.log_jacobian, k, i)
        else:
            n_direct = len(s.variance) // 4 * 4 if s.shared else 0
            _set_features(s.features, 0, s.x, s.norm, a, s.shared, n_direct)
            _set_features(s.features, 1, s.x, s.norm, b, s.shared, n_direct)
            _set_features(s.features, 2, s.x, s.norm, c, s.shared, n_direct)
            _set_features(s.features, 3, s.x, s.norm, d, s.shared, n_direct)
            n_features = len(s.variance) + (2 if s.shared else len(s.variance) + 1)
            four_products(s.coefficients, s.x, a, b, c, d, n_direct, s.features, n_features, n_slots, out)

    def prefetch(s, i: int) -> None:
        prefetch_row(s.x, i)
        prefetch_row(s.norm, i)

    def log_bound(s, i: int) -> float:
        return _log_peak(s, len(s.x) - 1.0)

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
            distance += (s.x[i, d] - theta[d]) ** 2
        sigma = s.covariance_scale
        return s.log_jacobian - 0.5 * (len(s.variance) * (_LOG_TWO_PI + math.log(sigma)) + distance / sigma)

    def n_coefficients(s) -> int:
        return len(s.variance) + 1

    def set_coefficients(s, theta: Floats, a: Floats, k: int) -> None:
        n_dimensions, squares = len(s.variance), 0.0
        for d in range(n_dimensions):
            a[d, k] = theta[d] / s.covariance_scale
            squares += theta[d] * theta[d]
        a[n_dimensions, k] = -0.5 * squares / s.covariance_scale

    def dense_features(s) -> bool:
        return True

    def fill_features(s, points: Any, base: int, count: int, out: Any) -> None:
        n_dimensions = len(s.variance)
        fill_rows(s.x, points, base, count, out)
        for t in range(count):
            out[n_dimensions, t] = 1.0

    def gather(s, k: int, i: int) -> None:
        """Sums about the slot's first point (kept in `total_rest`): Σ(x − r) in `total`, squares in `square`."""
        if s.n[k] == 0.0:
            for d in range(len(s.variance)):
                s.total_rest[k, d] = s.x[i, d]
        s.n[k] += 1.0
        squares = 0.0
        for d in range(len(s.variance)):
            gap = fetch(s.x, i, d) - fetch(s.total_rest, k, d)
            accumulate_row(s.total, k, d, gap)
            squares += gap * gap
        s.square[k, 0] += squares

    def gather_run(s, k: int, points: Ints, begin: int, end: int, base: int, room: Floats) -> None:
        n_dimensions = len(s.variance)
        if s.n[k] == 0.0:
            for d in range(n_dimensions):
                s.total_rest[k, d] = s.x[points[begin] - base, d]
        s.n[k] += end - begin
        squares = 0.0
        if n_dimensions < 8:
            for d in range(n_dimensions):
                center, total = s.total_rest[k, d], 0.0
                for t in range(begin, end):
                    gap = s.x[points[t] - base, d] - center
                    total += gap
                    squares += gap * gap
                s.total[k, d] += total
        else:
            for first in range(begin, end, 2):  # two points at a time
                i, last = points[first] - base, first + 1 == end
                j: Any = i if last else points[first + 1] - base
                share = 0.0 if last else 1.0
                for d in range(n_dimensions):
                    center = fetch(s.total_rest, k, d)
                    gap, other = fetch(s.x, i, d) - center, share * (fetch(s.x, j, d) - center)
                    accumulate_row(s.total, k, d, gap + other)
                    squares += gap * gap + other * other
        s.square[k, 0] += squares

    def settle(s, k: int) -> None:
        """Σx = n r + t and Σ|x|² = q + 2 r·t + n|r|², for sums t and q about r."""
        n = s.n[k]
        for d in range(len(s.variance)):
            r, t = s.total_rest[k, d], s.total[k, d]
            s.total[k, d] = s.total_rest[k, d] = 0.0
            product = n * r
            _add_exactly(s.total, s.total_rest, k, d, product, product_error(n, r, product))
            _add_exactly(s.total, s.total_rest, k, d, t, 0.0)
            high, twice = product * r, 2.0 * r * t
            _add_square(s.square, k, high, product_error(product, r, high) + product_error(n, r, product) * r)
            _add_square(s.square, k, twice, product_error(2.0 * r, t, twice))

    def log_likelihood_of(s, theta: Floats, k: int) -> float:
        n, sigma, n_dimensions = s.n[k], s.covariance_scale, len(s.variance)
        distance = s.square[k, 0]
        for d in range(n_dimensions):
            distance += theta[d] * (n * theta[d] - 2.0 * s.total[k, d])
        return n * s.log_jacobian - 0.5 * (n * n_dimensions * (_LOG_TWO_PI + math.log(sigma)) + distance / sigma)

    def add_weighted(s, k: int, i: int, weight: float) -> None:
        """In plain precision: such sums are made afresh in every iteration, and no point leaves them."""
        s.n[k] += weight
        s.square[k, 0] += weight * s.norm[i, 0]
        for d in range(len(s.variance)):
            s.total[k, d] += weight * s.x[i, d]

    def expect(s, k: int) -> None:
        """E[log N(x; μ, σ)] = log N(x; E μ, σ) − v/(2σ) in every dimension, linear in the features of the predictive."""
        n_dimensions, sigma = len(s.variance), s.covariance_scale
        squares = 0.0
        for d in range(n_dimensions):
            v = 1.0 / (1.0 / (s.prior_scale * s.variance[d]) + s.n[k] / sigma)
            mean = v * s.total[k, d] / sigma
            s.coefficients[d, k] = mean / sigma
            if not s.shared:
                s.coefficients[n_dimensions + d, k] = -0.5 / sigma
            squares += mean * mean + v
        if s.shared:
            s.coefficients[n_dimensions, k] = -0.5 / sigma
        constant = s.log_jacobian - 0.5 * (n_dimensions * (_LOG_TWO_PI + math.log(sigma)) + squares / sigma)
        s.coefficients[n_dimensions + 1 if s.shared else 2 * n_dimensions, k] = constant

    def expected_log_likelihood_all(s, i: int, n_slots: int, out: Floats) -> None:
        if s.norm[i, 0] > _FAR * s.covariance_scale:
            for k in range(n_slots):
                out[k] += _expected_from_distances(s, k, i)
        else:
            n_direct = len(s.variance) // 8 * 8 if s.shared else 0
            _set_features(s.features, 0, s.x, s.norm, i, s.shared, n_direct)
            accumulate_products(s.coefficients, s.x, i, n_direct, s.features, n_slots, out)

    def draw_point(s, theta: Floats, i: int, rng: Any) -> None:
        root = math.sqrt(s.covariance_scale)
        for d in range(len(s.variance)):
            s.x[i, d] = theta[d] + root * normal(rng)
        _set_norm(s.x, s.norm, i)


@register_jitable(inline="always")  # type: ignore[untyped-decorator]
def _from_distances(
    x: Floats, counts: Floats, total: Floats, variance: Floats, shared: bool, prior_scale: float, sigma: float, log_jacobian: float, k: int, i: int
) -> float:
    """The log predictive from squared distances, in which nothing cancels."""
    n_dimensions = len(variance)
    distance, log_spread = 0.0, 0.0
    if shared:
        v = 1.0 / (1.0 / (prior_scale * variance[0]) + counts[k] / sigma)
        shrink = v / sigma
        for d in range(n_dimensions):
            gap = x[i, d] - shrink * total[k, d]
            distance += gap * gap
        distance /= sigma + v
        log_spread = n_dimensions * fast_log(sigma + v)
    else:
        for d in range(n_dimensions):
            v = 1.0 / (1.0 / (prior_scale * variance[d]) + counts[k] / sigma)
            gap = x[i, d] - v / sigma * total[k, d]
            distance += gap * gap / (sigma + v)
            log_spread += fast_log(sigma + v)
    return log_jacobian - 0.5 * (n_dimensions * _LOG_TWO_PI + log_spread + distance)


@compiled
def _expected_from_distances(s: Any, k: int, i: int) -> float:
    """The expected log-likelihood from squared distances, in which nothing cancels."""
    n_dimensions, sigma, distance = len(s.variance), s.covariance_scale, 0.0
    for d in range(n_dimensions):
        distance += (s.x[i, d] - sigma * s.coefficients[d, k]) ** 2 + 1.0 / (1.0 / (s.prior_scale * s.variance[d]) + s.n[k] / sigma)
    return s.log_jacobian - 0.5 * (n_dimensions * (_LOG_TWO_PI + math.log(sigma)) + distance / sigma)


@register_jitable(inline="always")  # type: ignore[untyped-decorator]
def _set_features(features: Floats, row: int, x: Floats, norm: Floats, i: int, shared: bool, first: int) -> None:
    """What the log predictive is linear in, from the feature `first` on, before which it is x itself; made where it is needed, so that it takes no memory for each point."""
    n_dimensions = x.shape[1]
    if shared:
        for d in range(first, n_dimensions):
            features[row, d] = x[i, d]
        features[row, n_dimensions] = norm[i, 0]
        features[row, n_dimensions + 1] = 1.0
    else:
        for d in range(n_dimensions):
            features[row, d] = x[i, d]
            features[row, n_dimensions + d] = x[i, d] * x[i, d]
        features[row, 2 * n_dimensions] = 1.0


@register_jitable(inline="always")  # type: ignore[untyped-decorator]
def _add_exactly(total: Floats, rest: Floats, k: int, d: int, value: float, value_rest: float) -> None:
    """One more value, in two parts, in the sum of slot k in dimension d."""
    before = total[k, d]
    after = before + value
    left = rest[k, d] + sum_error(before, value, after) + value_rest
    total[k, d] = after + left
    rest[k, d] = sum_error(after, left, after + left)


@register_jitable(inline="always")  # type: ignore[untyped-decorator]
def _add_square(square: Floats, k: int, value: float, value_rest: float) -> None:
    before = square[k, 0]
    after = before + value
    left = square[k, 1] + sum_error(before, value, after) + value_rest
    square[k, 0] = after + left
    square[k, 1] = sum_error(after, left, after + left)


@compiled
def _scatter(counts: Floats, total: Floats, total_rest: Floats, square: Floats, k: int) -> float:
    """Σ|x|² − |Σx|²/n, the sum of squared distances from the mean, as (n Σ|x|² − |Σx|²)/n in twice the precision."""
    n, squares, rest = counts[k], 0.0, 0.0
    for d in range(total.shape[1]):
        t = total[k, d]
        product = t * t
        after = squares + product
        rest += sum_error(squares, product, after) + product_error(t, t, product) + 2.0 * t * total_rest[k, d]
        squares = after
    whole = n * square[k, 0]
    gap = whole - squares
    return max(0.0, gap + (sum_error(whole, -squares, gap) + product_error(n, square[k, 0], whole) + n * square[k, 1] - rest)) / n


@compiled
def _set_norm(x: Floats, norm: Floats, i: int) -> None:
    """|x|² of point i in twice the precision."""
    high, low = 0.0, 0.0
    for d in range(x.shape[1]):
        product = x[i, d] * x[i, d]
        after = high + product
        low += sum_error(high, product, after) + product_error(x[i, d], x[i, d], product)
        high = after
    norm[i, 0] = high
    norm[i, 1] = low


@compiled
def _set_norms(x: Floats, norm: Floats) -> None:
    for i in range(len(x)):
        _set_norm(x, norm, i)


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
    STREAMS = True
    EXTRA_BYTES = 16
    MOVES = "gibbs+split_merge+permutation"
    POSITIVE = ("prior_scale", "covariance_scale")
    NOT_SAMPLED = ("mean", "prior_covariance", "covariance")
    SCALE = "covariance_scale"

    def many_points(self, encoded: Any) -> int:
        """Later in many dimensions: collapsed predictives cost no more than scores given parameters, and mix better."""
        return super().many_points(encoded) * max(1, encoded["x"].shape[1] // 10)

    def validate(self, data: Any) -> Floats:
        return dense_matrix(data)

    def defaults(self, x: Floats) -> dict[str, Any]:
        scale = {"covariance_scale": Gamma(2.0, 4.0) if self.covariance is None else 1.0}
        if all(value is not None for value in (self.mean, self.covariance, self.prior_covariance)):
            return scale
        variance = column_variances(x)
        return {"mean": column_means(x), "covariance": variance, "prior_covariance": variance, **scale}

    def encode(self, x: Floats) -> dict[str, Any]:
        encoded = self.encode_block(x)
        _set_norms(encoded["x"], encoded["norm"])
        return encoded

    def encode_block(self, x: Floats) -> dict[str, Any]:
        """Without norms, which collapsed predictives and changes of seat alone look at."""
        units, constants = self._units(x.shape[1])
        return {"x": units.of(x), "norm": np.empty((len(x), 2)), **constants}

    def _units(self, n_dimensions: int) -> tuple[Units, dict[str, Any]]:
        if n_dimensions not in self._known_units:
            covariance, prior = (as_covariance(getattr(self, name), n_dimensions, name) for name in ("covariance", "prior_covariance"))
            transform, variance, log_jacobian = relative_basis(covariance, prior)
            shared = bool(np.ptp(variance) <= 1e-12 * variance.max())
            units = Units(numbers_of_columns("mean", self.mean, n_dimensions), transform.T)
            self._known_units[n_dimensions] = units, {"shared": shared, "variance": variance, "log_jacobian": log_jacobian}
        return self._known_units[n_dimensions]

    @cached_property
    def _known_units(self) -> dict[int, tuple[Units, dict[str, Any]]]:
        """By number of columns: they are asked for with every block of points."""
        return {}

    def vectors(self, data: Floats, encoded: dict[str, Any]) -> Floats:
        return encoded["x"]  # type: ignore[no-any-return]

    def allocate(self, encoded: dict[str, Any], capacity: int) -> KnownCovarianceStatistics:
        slots, n_dimensions = padded(capacity), len(encoded["variance"])
        n_features = (n_dimensions + (2 if encoded["shared"] else n_dimensions + 1) + 7) // 8 * 8
        return KnownCovarianceStatistics(
            **encoded,
            prior_scale=float(self.prior_scale),  # type: ignore[arg-type]
            covariance_scale=float(self.covariance_scale),  # type: ignore[arg-type]
            n=np.zeros(slots),
            total=np.zeros((slots, n_dimensions)),
            total_rest=np.zeros((slots, n_dimensions)),
            square=np.zeros((slots, 2)),
            coefficients=np.zeros((n_features, slots)),
            without=np.zeros((slots, 3)),
            features=np.zeros((4, n_features)),
        )


KnownCovarianceGaussian.EXAMPLES = (
    Example(KnownCovarianceGaussian(0.0, 4.0, 0.25), [[-1.0], [-0.8], [0.1], [0.9], [1.1], [2.0]]),
    Example(KnownCovarianceGaussian([0.1, 0.0], [2.0, 1.0], [0.5, 0.7], prior_scale=1.3), [[-1.0, 0.2], [-0.8, 0.0], [0.1, 1.2], [0.9, -0.4], [1.4, 0.9]]),
    Example(
        KnownCovarianceGaussian(0.0, [[2.0, 0.4], [0.4, 1.0]], [[0.6, -0.2], [-0.2, 0.5]], covariance_scale=0.9),
        [[-1.0, 0.2], [-0.8, 0.0], [0.1, 1.2], [0.9, -0.4], [1.4, 0.9]],
    ),
)
