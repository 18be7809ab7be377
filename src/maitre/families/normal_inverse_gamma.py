"""Gaussian clusters with a diagonal covariance of their own: in every dimension σ² ~ InverseGamma(a0, b0), μ | σ² ~ N(m0, σ²/κ0).

With n points of mean x̄ and scatter M = Σ(x − x̄)²:

    κ_n = κ0 + n,  a_n = a0 + n/2,  m_n = (κ0 m0 + n x̄)/κ_n,  b_n = b0 + M/2 + κ0 n (x̄ − m0)² / (2 κ_n)
    p(x | x_c) = Γ(a_n + ½)/Γ(a_n) · (2πB)^−½ · (1 + (x − m_n)²/(2B))^−(a_n + ½),   B = b_n (κ_n + 1)/κ_n.

Points are centred at m0 and divided by √b0, so that m0 = 0 and b0 = `scale` inside. Missing values are skipped: they add nothing to their dimension.
With complete data the exponent is the same in all dimensions, and the logarithm is taken of products of sixteen factors. All are at least 1: what is left of a predictive
after some dimensions bounds it from above. Without one of its points x a cluster has b_n − κ_n (x − m_n)²/(2 (κ_n − 1)) in place of b_n, so the predictive of x without x takes
one such product, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maitre.data.validation import column_means, column_variances, dense_matrix, row_blocks, within_range
from maitre.families.base import ConjugateFamily, Example
from maitre.families.slots import CACHE, POINTS, SLOTS, Points
from maitre.families.statistics import add, gather, log_predictive, log_predictive_above, log_predictive_raw, refresh
from maitre.numerics.arguments import numbers_of_columns
from maitre.numerics.arrays import Floats, Ints, accumulate, fetch, fetch_at, fill_rows, highest_of, padded, prefetch_row
from maitre.numerics.compilation import compiled
from maitre.numerics.distributions import Hyperparameter
from maitre.numerics.elementary import digamma, fast_lgamma, fast_log
from maitre.numerics.rng import log_gamma_variate, normal

_LOG_TWO_PI = math.log(2.0 * math.pi)
_FAR = 1e6  # in units of √b0: beyond, one logarithm per dimension
_OWN_SHARE = 0.05  # of b_n that others must have left for a point to be taken out of it without cancellation


class NormalInverseGammaStatistics(NamedTuple):
    """Run-time state; D dimensions, C slots."""

    x: Annotated[Floats, POINTS]  # (n, D), centred and scaled; 0 where missing
    observed: Annotated[npt.NDArray[np.uint8], Points(absent=1)]  # (n, D), or (0, D) if nothing is missing
    far: Annotated[npt.NDArray[np.uint8], Points(absent=0)]  # (n,): some value is so far out that products of factors may overflow; (0,) if none is
    log_scale: Floats  # (D,): ½ log b0
    log_scale_sum: float
    kappa: float
    shape: float
    scale: float
    counts: Annotated[Floats, SLOTS]  # (C, D)
    mean: Annotated[Floats, SLOTS]  # (C, D)
    scatter: Annotated[Floats, SLOTS]  # (C, D)
    slope: Annotated[Floats, CACHE]  # (D padded to a multiple of 4, C): 1/√(2B)
    shift: Annotated[Floats, CACHE]  # (D padded to a multiple of 4, C): −m_n/√(2B)
    lines: Annotated[Floats, CACHE]  # (C, 2, D): slope and shift once more, those of a slot side by side
    power: Annotated[Floats, CACHE]  # (C, D): a_n + ½
    constants: Annotated[Floats, CACHE]  # (C, D)
    exponent: Annotated[Floats, CACHE]  # (C,): a_n + ½ in all dimensions, if nothing is missing
    constant: Annotated[Floats, CACHE]  # (C,): the sum of the constants
    own_constant: Annotated[Floats, CACHE]  # (C,): the same for one of the slot's own points, if it has three or more

    def clear(s, k: int) -> None:
        for d in range(len(s.log_scale)):
            s.counts[k, d] = 0.0
            s.mean[k, d] = 0.0
            s.scatter[k, d] = 0.0

    def add(s, k: int, i: int) -> None:
        complete = len(s.observed) == 0
        for d in range(len(s.log_scale)):
            if complete or s.observed[i, d]:
                s.counts[k, d] += 1.0
                gap = s.x[i, d] - s.mean[k, d]
                s.mean[k, d] += gap / s.counts[k, d]
                s.scatter[k, d] += gap * (s.x[i, d] - s.mean[k, d])

    def remove(s, k: int, i: int) -> None:
        complete = len(s.observed) == 0
        for d in range(len(s.log_scale)):
            if complete or s.observed[i, d]:
                s.counts[k, d] -= 1.0
                gap = s.x[i, d] - s.mean[k, d]
                s.mean[k, d] = s.mean[k, d] - gap / s.counts[k, d] if s.counts[k, d] > 0.0 else 0.0
                s.scatter[k, d] = max(0.0, s.scatter[k, d] - gap * (s.x[i, d] - s.mean[k, d])) if s.counts[k, d] > 1.0 else 0.0

    def merge(s, k: int, other: int) -> None:
        for d in range(len(s.log_scale)):
            n, m = s.counts[k, d], s.counts[other, d]
            if m > 0.0:
                gap = s.mean[other, d] - s.mean[k, d]
                s.mean[k, d] += gap * m / (n + m)
                s.scatter[k, d] += s.scatter[other, d] + gap * gap * n * m / (n + m)
                s.counts[k, d] += m

    def subtract(s, k: int, other: int) -> None:
        for d in range(len(s.log_scale)):
            n, m = s.counts[k, d] - s.counts[other, d], s.counts[other, d]
            if n == 0.0:
                s.counts[k, d], s.mean[k, d], s.scatter[k, d] = 0.0, 0.0, 0.0
            elif m > 0.0:
                mean = s.mean[k, d] + (s.mean[k, d] - s.mean[other, d]) * m / n
                gap = s.mean[other, d] - mean
                s.scatter[k, d] = max(0.0, s.scatter[k, d] - s.scatter[other, d] - gap * gap * n * m / (n + m))
                s.mean[k, d] = mean
                s.counts[k, d] = n

    def refresh(s, k: int) -> None:
        total, gammas, lower, upper = 0.0, 0.0, 0.0, 0.0
        for d in range(len(s.log_scale)):
            n = s.counts[k, d]
            kappa, a = s.kappa + n, s.shape + 0.5 * n
            if d == 0 or n != s.counts[k, d - 1]:
                lower, upper = math.lgamma(a), math.lgamma(a + 0.5)
                gammas = upper - lower - 0.5 * math.log(math.pi)
            center = n * s.mean[k, d] / kappa
            b = s.scale + 0.5 * s.scatter[k, d] + 0.5 * s.kappa * n * s.mean[k, d] ** 2 / kappa
            spread = 2.0 * b * (kappa + 1.0) / kappa
            slope = 1.0 / math.sqrt(spread)
            s.slope[d, k] = slope
            s.shift[d, k] = -center * slope
            s.lines[k, 0, d], s.lines[k, 1, d] = slope, -center * slope
            s.power[k, d] = a + 0.5
            constant = gammas - 0.5 * fast_log(spread) - s.log_scale[d]
            s.constants[k, d] = constant
            total += constant
        s.constant[k] = total
        s.exponent[k] = s.power[k, 0]
        kappa, n = s.kappa + s.counts[k, 0], s.counts[k, 0]
        if n > 2.0:
            gammas = 2.0 * lower - upper - math.lgamma(s.shape + 0.5 * n - 0.5)
            s.own_constant[k] = total + len(s.log_scale) * (gammas + 0.5 * math.log1p(-1.0 / (kappa * kappa)))

    def log_marginal(s, k: int) -> float:
        value = 0.0
        for d in range(len(s.log_scale)):
            n = s.counts[k, d]
            if n > 0.0:
                kappa, a = s.kappa + n, s.shape + 0.5 * n
                b = s.scale + 0.5 * s.scatter[k, d] + 0.5 * s.kappa * n * s.mean[k, d] ** 2 / kappa
                value += math.lgamma(a) - math.lgamma(s.shape) + s.shape * math.log(s.scale) - a * math.log(b)
                value += 0.5 * math.log(s.kappa / kappa) - n * (0.5 * _LOG_TWO_PI + s.log_scale[d])
        return value

    def log_predictive(s, k: int, i: int) -> float:
        complete = len(s.observed) == 0
        value = 0.0
        for d in range(len(s.log_scale)):
            if complete or s.observed[i, d]:
                u = s.x[i, d] * s.slope[d, k] + s.shift[d, k]
                value += s.constants[k, d] - s.power[k, d] * math.log(1.0 + u * u)
        return value

    def log_predictive_without(s, k: int, i: int) -> float:
        if len(s.observed) == 0 and s.counts[k, 0] > 2.0 and (len(s.far) == 0 or not s.far[i]):
            value = _complete_without(s, k, i)
            if value < np.inf:
                return value  # type: ignore[no-any-return]
        return _each_without(s, k, i)

    def log_predictive_all(s, i: int, n_slots: int, out: Floats) -> None:
        log_predictive_above(s, i, n_slots, -np.inf, out)

    def log_predictive_above(s, i: int, n_slots: int, floor: float, out: Floats) -> None:
        if len(s.observed) == 0 and (len(s.far) == 0 or not s.far[i]):
            _complete_above(s.x, s.slope, s.shift, s.exponent, s.constant, i, n_slots, floor, out)
        else:
            for k in range(n_slots):
                out[k] += log_predictive(s, k, i)

    def log_predictive_raw(s, k: int, i: int) -> float:
        if _plain(s):
            return _plain_raw(s, k, i)
        refresh(s, k)
        return log_predictive(s, k, i)  # type: ignore[no-any-return]

    def absorb(s, k: int, i: int) -> float:
        if _plain(s):
            return _plain_absorb(s, k, i)
        value = log_predictive_raw(s, k, i)
        add(s, k, i)
        return value  # type: ignore[no-any-return]

    def prefetch(s, i: int) -> None:
        prefetch_row(s.x, i)

    def log_bound(s, i: int) -> float:
        complete = len(s.observed) == 0
        value = 0.0
        for d in range(len(s.log_scale)):
            if complete or s.observed[i, d]:
                value += _log_peak(s, d, len(s.x) - 1.0, s.scale)
        return value

    def log_bound_given(s, k: int, rest: int, i: int) -> float:
        complete = len(s.observed) == 0
        value = 0.0
        for d in range(len(s.log_scale)):
            if complete or s.observed[i, d]:
                n = s.counts[k, d]
                b = s.scale + 0.5 * s.scatter[k, d] + 0.5 * s.kappa * n * s.mean[k, d] ** 2 / (s.kappa + n)
                value += _log_peak(s, d, n + s.counts[rest, d] - 1.0, b)
        return value

    def n_parameters(s) -> int:
        return 2 * len(s.log_scale)

    def draw_parameters(s, k: int, theta: Floats, rng: Any) -> None:
        for d in range(len(s.log_scale)):
            n = s.counts[k, d]
            kappa, a = s.kappa + n, s.shape + 0.5 * n
            b = s.scale + 0.5 * s.scatter[k, d] + 0.5 * s.kappa * n * s.mean[k, d] ** 2 / kappa
            log_precision = log_gamma_variate(a, rng) - math.log(b)
            theta[2 * d] = n * s.mean[k, d] / kappa + normal(rng) * math.exp(-0.5 * log_precision) / math.sqrt(kappa)
            theta[2 * d + 1] = log_precision

    def log_likelihood(s, theta: Floats, i: int) -> float:
        complete = len(s.observed) == 0
        value = 0.0
        for d in range(len(s.log_scale)):
            if complete or s.observed[i, d]:
                gap = s.x[i, d] - theta[2 * d]
                value += 0.5 * (theta[2 * d + 1] - _LOG_TWO_PI - gap * gap * math.exp(theta[2 * d + 1])) - s.log_scale[d]
        return value

    def n_coefficients(s) -> int:
        return 2 * len(s.log_scale) + (1 if len(s.observed) == 0 else len(s.log_scale))

    def set_coefficients(s, theta: Floats, a: Floats, k: int) -> None:
        """Of x, x² and, for all dimensions together or for those that are observed, 1."""
        n_dimensions, complete = len(s.log_scale), len(s.observed) == 0
        for f in range(2 * n_dimensions, len(a)):
            a[f, k] = 0.0
        for d in range(n_dimensions):
            precision = math.exp(theta[2 * d + 1])
            a[d, k] = theta[2 * d] * precision
            a[n_dimensions + d, k] = -0.5 * precision
            a[2 * n_dimensions + (0 if complete else d), k] += 0.5 * (theta[2 * d + 1] - theta[2 * d] * theta[2 * d] * precision)

    def dense_features(s) -> bool:
        return True

    def fill_features(s, points: Any, base: int, count: int, out: Any) -> None:
        n_dimensions, complete = len(s.log_scale), len(s.observed) == 0
        fill_rows(s.x, points, base, count, out)
        for d in range(n_dimensions):
            for t in range(count):
                out[n_dimensions + d, t] = out[d, t] * out[d, t]
        if complete:
            for t in range(count):
                out[2 * n_dimensions, t] = 1.0
        else:
            fill_rows(s.observed, points, base, count, out[2 * n_dimensions :])

    def gather(s, k: int, i: int) -> None:
        """Sums about the slot's first value (kept in `constants`): Σ(x − r) in `mean`, squares in `scatter`."""
        complete = len(s.observed) == 0
        for d in range(len(s.log_scale)):
            if complete or s.observed[i, d]:
                if s.counts[k, d] == 0.0:
                    s.constants[k, d] = s.x[i, d]
                gap = s.x[i, d] - s.constants[k, d]
                s.counts[k, d] += 1.0
                s.mean[k, d] += gap
                s.scatter[k, d] += gap * gap

    def gather_run(s, k: int, points: Ints, begin: int, end: int, base: int, room: Floats) -> None:
        n_dimensions = len(s.log_scale)
        if len(s.observed) > 0 or n_dimensions >= 8:
            for t in range(begin, end):
                gather(s, k, points[t] - base)
        else:
            for d in range(n_dimensions):
                if s.counts[k, d] == 0.0:
                    s.constants[k, d] = s.x[points[begin] - base, d]
                center, total, squares = s.constants[k, d], 0.0, 0.0
                for t in range(begin, end):
                    gap = s.x[points[t] - base, d] - center
                    total += gap
                    squares += gap * gap
                s.counts[k, d] += end - begin
                s.mean[k, d] += total
                s.scatter[k, d] += squares

    def settle(s, k: int) -> None:
        for d in range(len(s.log_scale)):
            n = s.counts[k, d]
            if n > 0.0:
                s.scatter[k, d] = max(0.0, s.scatter[k, d] - s.mean[k, d] * s.mean[k, d] / n)
                s.mean[k, d] = s.constants[k, d] + s.mean[k, d] / n

    def log_likelihood_of(s, theta: Floats, k: int) -> float:
        value = 0.0
        for d in range(len(s.log_scale)):
            n, gap = s.counts[k, d], s.mean[k, d] - theta[2 * d]
            value += 0.5 * (n * (theta[2 * d + 1] - _LOG_TWO_PI) - (s.scatter[k, d] + n * gap * gap) * math.exp(theta[2 * d + 1])) - n * s.log_scale[d]
        return value

    def add_weighted(s, k: int, i: int, weight: float) -> None:
        complete = len(s.observed) == 0
        for d in range(len(s.log_scale)):
            if complete or s.observed[i, d]:
                s.counts[k, d] += weight
                gap = s.x[i, d] - s.mean[k, d]
                s.mean[k, d] += gap * weight / s.counts[k, d]
                s.scatter[k, d] += weight * gap * (s.x[i, d] - s.mean[k, d])

    def expect(s, k: int) -> None:
        """E[log N(x; μ, σ²)] = ½ [ψ(a_n) − log b_n − log 2π − 1/κ_n − a_n/b_n (x − m_n)²] in every dimension."""
        total, psi = 0.0, 0.0
        for d in range(len(s.log_scale)):
            n = s.counts[k, d]
            kappa, a = s.kappa + n, s.shape + 0.5 * n
            if d == 0 or n != s.counts[k, d - 1]:
                psi = digamma(a)
            b = s.scale + 0.5 * s.scatter[k, d] + 0.5 * s.kappa * n * s.mean[k, d] ** 2 / kappa
            slope = math.sqrt(0.5 * a / b)
            s.slope[d, k] = slope
            s.shift[d, k] = -n * s.mean[k, d] / kappa * slope
            s.constants[k, d] = 0.5 * (psi - math.log(b) - _LOG_TWO_PI - 1.0 / kappa) - s.log_scale[d]
            total += s.constants[k, d]
        s.constant[k] = total

    def expected_log_likelihood_all(s, i: int, n_slots: int, out: Floats) -> None:
        if len(s.observed) == 0:
            for k in range(n_slots):
                accumulate(out, k, fetch_at(s.constant, k))
            for d in range(len(s.log_scale)):
                x = s.x[i, d]
                for k in range(n_slots):
                    u = x * fetch(s.slope, d, k) + fetch(s.shift, d, k)
                    accumulate(out, k, -u * u)
        else:
            for d in range(len(s.log_scale)):
                if s.observed[i, d]:
                    for k in range(n_slots):
                        out[k] += s.constants[k, d] - (s.x[i, d] * s.slope[d, k] + s.shift[d, k]) ** 2

    def draw_point(s, theta: Floats, i: int, rng: Any) -> None:
        for d in range(len(s.log_scale)):
            s.x[i, d] = theta[2 * d] + normal(rng) * math.exp(-0.5 * theta[2 * d + 1])


@compiled
def _log_peak(s: Any, d: int, n: float, b: float) -> float:
    """The predictive at zero residual with a_n and κ_n of n points and b_n = b. It rises with n and falls with b; b_n only grows as points join, because the step is
    κ_n/(2(κ_n + 1)) (x − m_n)². So it bounds the predictive of every cluster of at most n points that holds one with b_n = b."""
    kappa, a = s.kappa + n, s.shape + 0.5 * n
    return math.lgamma(a + 0.5) - math.lgamma(a) - 0.5 * (_LOG_TWO_PI + math.log(b * (kappa + 1.0) / kappa)) - s.log_scale[d]


@compiled
def _plain(s: Any) -> bool:
    """Whether no value is missing, and none so far out that products may overflow."""
    return len(s.observed) == 0 and len(s.far) == 0


@compiled
def _four_values(x: Floats, i: int, d: int) -> tuple[float, float, float, float]:
    """Four values of a point from dimension d on; beyond the last dimension 0, where slope and shift are 0 too and the factor is 1."""
    left = x.shape[1] - d
    return (
        fetch(x, i, d) if left > 0 else 0.0,
        fetch(x, i, d + 1) if left > 1 else 0.0,
        fetch(x, i, d + 2) if left > 2 else 0.0,
        fetch(x, i, d + 3) if left > 3 else 0.0,
    )


@compiled
def _four_factors(slope: Floats, shift: Floats, x: tuple[float, float, float, float], d: int, k: int) -> float:
    """The product of 1 + (x − m_n)²/(2B) over four dimensions."""
    u0 = x[0] * fetch(slope, d, k) + fetch(shift, d, k)
    u1 = x[1] * fetch(slope, d + 1, k) + fetch(shift, d + 1, k)
    u2 = x[2] * fetch(slope, d + 2, k) + fetch(shift, d + 2, k)
    u3 = x[3] * fetch(slope, d + 3, k) + fetch(shift, d + 3, k)
    return ((1.0 + u0 * u0) * (1.0 + u1 * u1)) * ((1.0 + u2 * u2) * (1.0 + u3 * u3))


@compiled
def _complete_above(values: Floats, slope: Floats, shift: Floats, exponent: Floats, constant: Floats, i: int, n_slots: int, floor: float, out: Floats) -> None:
    """out[k] += log p(x_i | x_k), or, once all are below the floor, what bounds it from above: one logarithm for the product of sixteen dimensions' factors, and one for
    what is left at the end."""
    n_padded = slope.shape[0]
    for k in range(n_slots):
        accumulate(out, k, fetch_at(constant, k))
    for d in range(0, n_padded - 15, 16):
        x, y, z, w = _four_values(values, i, d), _four_values(values, i, d + 4), _four_values(values, i, d + 8), _four_values(values, i, d + 12)
        for k in range(n_slots):
            low = _four_factors(slope, shift, x, d, k) * _four_factors(slope, shift, y, d + 4, k)
            high = _four_factors(slope, shift, z, d + 8, k) * _four_factors(slope, shift, w, d + 12, k)
            accumulate(out, k, -fetch_at(exponent, k) * fast_log(low * high))
        if highest_of(out, n_slots) < floor:
            return
    d, left = n_padded // 16 * 16, n_padded % 16
    if left == 4:
        x = _four_values(values, i, d)
        for k in range(n_slots):
            accumulate(out, k, -fetch_at(exponent, k) * fast_log(_four_factors(slope, shift, x, d, k)))
    elif left == 8:
        x, y = _four_values(values, i, d), _four_values(values, i, d + 4)
        for k in range(n_slots):
            accumulate(out, k, -fetch_at(exponent, k) * fast_log(_four_factors(slope, shift, x, d, k) * _four_factors(slope, shift, y, d + 4, k)))
    elif left == 12:
        x, y, z = _four_values(values, i, d), _four_values(values, i, d + 4), _four_values(values, i, d + 8)
        for k in range(n_slots):
            low = _four_factors(slope, shift, x, d, k) * _four_factors(slope, shift, y, d + 4, k)
            accumulate(out, k, -fetch_at(exponent, k) * fast_log(low * _four_factors(slope, shift, z, d + 8, k)))


@compiled
def _complete_without(s: Any, k: int, i: int) -> float:
    """The predictive without point i of a cluster of three or more when no value is missing; infinite where the point makes up most of some b_n, so that what the others
    have left of it would be a difference of nearly equal numbers."""
    n, n_dimensions, lines = s.counts[k, 0] - 1.0, s.x.shape[1], s.lines[k]
    kappa = s.kappa + n
    widen = (kappa + 2.0) / kappa
    logs, least = 0.0, 1.0
    for begin in range(0, n_dimensions, 16):
        product = 1.0
        for d in range(begin, min(begin + 16, n_dimensions)):
            u = fetch(s.x, i, d) * fetch(lines, 0, d) + fetch(lines, 1, d)
            left = 1.0 - widen * u * u
            least = min(least, left)
            product *= left
        logs += fast_log(product)
        if least < _OWN_SHARE:
            return np.inf
    return s.own_constant[k] + (s.shape + 0.5 * n) * logs


@compiled
def _spread(s: Any, k: int, i: int, d: int, shrink: float, widen: float, pull: float) -> tuple[float, float]:
    """2B and 2B + (x − m_n)² in one dimension, from the raw statistics."""
    mean = fetch(s.mean, k, d)
    spread = widen * (s.scale + 0.5 * fetch(s.scatter, k, d) + pull * mean * mean)
    residual = fetch(s.x, i, d) - shrink * mean
    return spread, spread + residual * residual


@compiled
def _plain_raw(s: Any, k: int, i: int) -> float:
    """The predictive from the raw statistics when no value is missing or far out: logarithms of products of four dimensions, a quarter of all apart."""
    n_dimensions, n = len(s.log_scale), s.counts[k, 0]
    kappa, a = s.kappa + n, s.shape + 0.5 * n
    shrink, widen, pull = n / kappa, 2.0 * (kappa + 1.0) / kappa, 0.5 * s.kappa * n / kappa
    quarter = n_dimensions // 4
    logs, powers = 0.0, 0.0
    for d in range(quarter):
        p, q = _spread(s, k, i, d, shrink, widen, pull), _spread(s, k, i, quarter + d, shrink, widen, pull)
        r, t = _spread(s, k, i, 2 * quarter + d, shrink, widen, pull), _spread(s, k, i, 3 * quarter + d, shrink, widen, pull)
        below, above = (p[0] * q[0]) * (r[0] * t[0]), (p[1] * q[1]) * (r[1] * t[1])
        logs += fast_log(below)
        powers += fast_log(above / below)
    for d in range(4 * quarter, n_dimensions):
        p = _spread(s, k, i, d, shrink, widen, pull)
        logs += fast_log(p[0])
        powers += fast_log(p[1] / p[0])
    gammas = fast_lgamma(a + 0.5) - fast_lgamma(a) - 0.5 * math.log(math.pi)
    return n_dimensions * gammas - 0.5 * logs - (a + 0.5) * powers - s.log_scale_sum


@compiled
def _b_with(s: Any, k: int, i: int, d: int, inverse: float, grow: float, pull: float) -> float:
    """b_n in one dimension, point i included."""
    before = fetch(s.mean, k, d)
    gap = fetch(s.x, i, d) - before
    mean = before + gap * inverse
    return s.scale + 0.5 * (fetch(s.scatter, k, d) + grow * gap * gap) + pull * mean * mean


@compiled
def _plain_absorb(s: Any, k: int, i: int) -> float:
    """The predictive is a ratio of powers of b_n and b_n+1, whose logarithms are summed over the dimensions; the last sum is kept in `constant`."""
    n_dimensions, n = len(s.log_scale), s.counts[k, 0]
    kappa, a = s.kappa + n, s.shape + 0.5 * n
    before = s.constant[k] if n > 0.0 else n_dimensions * math.log(s.scale)
    inverse, grow, pull = 1.0 / (n + 1.0), n / (n + 1.0), 0.5 * s.kappa * (n + 1.0) / (kappa + 1.0)
    quarter, after = n_dimensions // 4, 0.0
    for d in range(quarter):
        p, q = _b_with(s, k, i, d, inverse, grow, pull), _b_with(s, k, i, quarter + d, inverse, grow, pull)
        r, t = _b_with(s, k, i, 2 * quarter + d, inverse, grow, pull), _b_with(s, k, i, 3 * quarter + d, inverse, grow, pull)
        after += fast_log((p * q) * (r * t))
    for d in range(4 * quarter, n_dimensions):
        after += fast_log(_b_with(s, k, i, d, inverse, grow, pull))
    for d in range(n_dimensions):
        gap = fetch(s.x, i, d) - s.mean[k, d]
        s.mean[k, d] += gap * inverse
        s.scatter[k, d] += grow * gap * gap
        s.counts[k, d] = n + 1.0
    s.constant[k] = after
    gammas = fast_lgamma(a + 0.5) - fast_lgamma(a) - 0.5 * (_LOG_TWO_PI + fast_log((kappa + 1.0) / kappa))
    return n_dimensions * gammas + a * before - (a + 0.5) * after - s.log_scale_sum


@compiled
def _each_without(s: Any, k: int, i: int) -> float:
    """The predictive without point i, dimension by dimension, over those in which it is observed."""
    complete, value = len(s.observed) == 0, 0.0
    for d in range(len(s.log_scale)):
        if complete or s.observed[i, d]:
            x, n = s.x[i, d], s.counts[k, d] - 1.0
            kappa, a = s.kappa + n, s.shape + 0.5 * n
            gap = x - s.mean[k, d]
            mean = s.mean[k, d] - gap / n if n > 0.0 else 0.0
            scatter = max(0.0, s.scatter[k, d] - gap * (x - mean)) if n > 1.0 else 0.0
            spread = 2.0 * (s.scale + 0.5 * scatter + 0.5 * s.kappa * n * mean * mean / kappa) * (kappa + 1.0) / kappa
            residual = x - n * mean / kappa
            gammas = math.lgamma(a + 0.5) - math.lgamma(a) - 0.5 * math.log(math.pi)
            value += gammas - 0.5 * math.log(spread) - s.log_scale[d] - (a + 0.5) * math.log(1.0 + residual * residual / spread)
    return value


@dataclass(frozen=True)
class NormalInverseGamma(ConjugateFamily):
    """Gaussian clusters, each with its own mean and variance in every column: the default for numeric tables.

    `mean` and `rate` are numbers or one per column; `scale` multiplies the rate and may carry a prior, as may `kappa`. Defaults from the data: `mean` the
    columns' means, `rate` half of the columns' variances, so that results do not depend on the units of a column.

    >>> import maitre as mt
    >>> family = mt.families.NormalInverseGamma(mean=0.0, kappa=0.1, shape=2.0, rate=1.0)
    """

    mean: Any = None
    kappa: Hyperparameter = 0.1
    shape: float = 2.0
    rate: Any = None
    scale: Hyperparameter = 1.0

    statistics = NormalInverseGammaStatistics
    STREAMS = True
    POSITIVE = ("kappa", "shape", "scale")
    SCALE = "scale"
    TIGHTER = 0.3
    NOT_SAMPLED = ("mean", "rate")
    SKIPS_MISSING = True

    def validate(self, data: Any, missing: bool = False) -> Floats:
        return dense_matrix(data, missing)

    def defaults(self, x: Floats) -> dict[str, Any]:
        return {"mean": column_means(x), "rate": 0.5 * column_variances(x)}

    def encode(self, x: Floats) -> dict[str, Any]:
        n_dimensions = x.shape[1]
        rate = numbers_of_columns("NormalInverseGamma: rate", self.rate, n_dimensions, above=0.0)
        mean, root = numbers_of_columns("NormalInverseGamma: mean", self.mean, n_dimensions), np.sqrt(rate)
        z, far, observed = np.empty(x.shape), np.zeros(0, np.uint8), np.empty((0, n_dimensions), np.uint8)
        for rows in row_blocks(x):
            block = np.subtract(x[rows], mean, out=z[rows])
            block /= root
            largest = max(block.max(), -block.min())  # not a number, if one is missing
            if np.isnan(largest):
                observed = np.ones(x.shape, np.uint8) if len(observed) == 0 else observed
                missing = np.isnan(block)
                observed[rows] = ~missing
                block[missing] = 0.0
                largest = np.abs(block).max()
            if largest > _FAR:
                far = np.zeros(len(x), np.uint8) if len(far) == 0 else far
                far[rows] = np.abs(within_range(block)).max(axis=1) > _FAR
        log_scale = 0.5 * np.log(rate)
        return {"x": z, "observed": observed, "far": far, "log_scale": log_scale, "log_scale_sum": float(log_scale.sum())}

    def climbs(self) -> bool:
        return True

    def vectors(self, data: Floats, encoded: dict[str, Any]) -> Floats:
        return encoded["x"]  # type: ignore[no-any-return]

    def allocate(self, encoded: dict[str, Any], capacity: int) -> NormalInverseGammaStatistics:
        slots, n_dimensions = padded(capacity), len(encoded["log_scale"])
        raw = {name: np.zeros((slots, n_dimensions)) for name in ("counts", "mean", "scatter")}
        lines = {name: np.zeros(((n_dimensions + 3) // 4 * 4, slots)) for name in ("slope", "shift")}
        tables = {name: np.zeros((slots, n_dimensions)) for name in ("power", "constants")} | {"lines": np.zeros((slots, 2, n_dimensions))}
        sums = {name: np.zeros(slots) for name in ("exponent", "constant", "own_constant")}
        values: dict[str, Any] = {"kappa": float(self.kappa), "shape": float(self.shape), "scale": float(self.scale)}  # type: ignore[arg-type]
        return NormalInverseGammaStatistics(**encoded, **values, **raw, **lines, **tables, **sums)


NormalInverseGamma.EXAMPLES = (
    Example(NormalInverseGamma(0.1, 0.3, 1.5, 0.8), [[-1.0], [-0.8], [0.1], [0.9], [1.1], [2.0]]),
    Example(NormalInverseGamma([0.1, -0.2], 0.5, 2.0, [0.8, 1.4], scale=0.7), [[-1.0, 0.2], [-0.8, 0.0], [0.1, 1.2], [0.9, -0.4], [1.4, 0.9]]),
)
