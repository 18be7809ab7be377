"""Gaussian clusters with a full covariance of their own: Σ ~ InverseWishart(ν0, Λ0), μ | Σ ~ N(m0, Σ/κ0).

    κ_n = κ0 + n,  ν_n = ν0 + n,  m_n = (κ0 m0 + n x̄)/κ_n,  Λ_n = Λ0 + Q + κ0 n/κ_n (x̄ − m0)(x̄ − m0)ᵀ
    p(x | x_c) = π^−D/2 Γ((ν_n+1)/2)/Γ((ν_n+1−D)/2) (κ_n/(κ_n+1))^D/2 |Λ_n|^−½ (1 + κ_n/(κ_n+1) · q)^−(ν_n+1)/2,   q = (x−m_n)ᵀ Λ_n⁻¹ (x−m_n).

Each slot keeps the raw mean and scatter Q, and the Cholesky factor of Λ_n, which a point's arrival or departure changes by rank one. The predictive
without a point that is in the cluster needs no downdate: |Λ_n − κ_n/(κ_n−1)(x−m_n)(x−m_n)ᵀ| = |Λ_n| (1 − κ_n/(κ_n−1) q).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from numba.extending import register_jitable
from scipy import linalg

from maitre.data.validation import Units, column_means, column_variances, dense_matrix
from maitre.families.base import ConjugateFamily, Example
from maitre.families.slots import CACHE, POINTS, SCRATCH, SLOTS, Scratch
from maitre.families.statistics import add, clear, derive, log_predictive_above, refresh
from maitre.numerics.arguments import numbers_of_columns
from maitre.numerics.arrays import Floats, Ints, accumulate_row, fetch, fetch_at, fill_rows, padded, prefetch_row
from maitre.numerics.compilation import compiled
from maitre.numerics.distributions import Hyperparameter
from maitre.numerics.elementary import digamma, fast_lgamma, fast_log
from maitre.numerics.linear import as_covariance, cholesky_in_place, cholesky_update
from maitre.numerics.rng import log_gamma_variate, normal

_LOG_PI = math.log(math.pi)
_ROWS = 8  # of triangular systems that are solved for all slots before it is asked which are still near
_ONE_BY_ONE = 4  # how many times as long a slot takes by itself
ILL_CONDITIONED = 1e-4  # below this the closed form without a point loses digits and the downdate is done afresh


class NormalInverseWishartStatistics(NamedTuple):
    """Run-time state; D dimensions, C slots. Points are centred at m0 and scaled, so that m0 = 0 and Λ0 = `scale_factor`·`prior_scale` inside."""

    x: Annotated[Floats, POINTS]  # (n, D)
    log_jacobian: float
    kappa: float
    nu: float
    scale_factor: float
    prior_scale: Floats  # (D, D)
    prior_factor: Floats  # (D, D): its Cholesky factor
    prior_log_determinant: float
    n: Annotated[Floats, SLOTS]  # (C,)
    mean: Annotated[Floats, SLOTS]  # (C, D)
    scatter: Annotated[Floats, SLOTS]  # (C, D, D), lower triangle
    factor: Annotated[Floats, CACHE]  # (D, D, C): Cholesky factor of Λ_n
    inverse_diagonal: Annotated[Floats, CACHE]  # (D, C)
    center: Annotated[Floats, CACHE]  # (D, C): m_n
    constant: Annotated[Floats, CACHE]  # (C,)
    shrink: Annotated[Floats, CACHE]  # (C,): κ_n/(κ_n+1)
    power: Annotated[Floats, CACHE]  # (C,): (ν_n+1)/2
    log_determinant: Annotated[Floats, CACHE]  # (C,)
    solved: Annotated[Floats, SCRATCH]  # (D, C): work space of the triangular solve
    distance: Annotated[Floats, SCRATCH]  # (C,): q of the point scored last
    scored: Annotated[Ints, Scratch(-1)]  # (1,): that point, or −1
    vector: Annotated[Floats, SCRATCH]  # (D,): work space
    matrix: Annotated[Floats, SCRATCH]  # (D, D): work space

    def clear(s, k: int) -> None:
        s.n[k] = 0.0
        root = math.sqrt(s.scale_factor)
        for i in range(s.x.shape[1]):
            s.mean[k, i] = 0.0
            for j in range(i + 1):
                s.scatter[k, i, j] = 0.0
                s.factor[i, j, k] = root * s.prior_factor[i, j]

    def add(s, k: int, i: int) -> None:
        n_dimensions = s.x.shape[1]
        before = s.kappa + s.n[k]
        root = math.sqrt(before / (before + 1.0))
        for d in range(n_dimensions):
            s.vector[d] = root * (s.x[i, d] - s.n[k] * s.mean[k, d] / before)
        cholesky_update(s.factor, k, s.vector, 1.0)
        s.n[k] += 1.0
        weight = (s.n[k] - 1.0) / s.n[k]
        for d in range(n_dimensions):
            gap = s.x[i, d] - s.mean[k, d]
            for e in range(d + 1):
                s.scatter[k, d, e] += weight * gap * (s.x[i, e] - s.mean[k, e])
        for d in range(n_dimensions):
            s.mean[k, d] += (s.x[i, d] - s.mean[k, d]) / s.n[k]

    def remove(s, k: int, i: int) -> None:
        n_dimensions = s.x.shape[1]
        after = s.kappa + s.n[k] - 1.0
        root = math.sqrt((after + 1.0) / after)
        for d in range(n_dimensions):
            s.vector[d] = root * (s.x[i, d] - s.n[k] * s.mean[k, d] / (after + 1.0))
        downdated = cholesky_update(s.factor, k, s.vector, -1.0)
        s.n[k] -= 1.0
        if s.n[k] == 0.0:
            clear(s, k)
            return
        for d in range(n_dimensions):
            s.mean[k, d] -= (s.x[i, d] - s.mean[k, d]) / s.n[k]
        weight = s.n[k] / (s.n[k] + 1.0)
        for d in range(n_dimensions):
            gap = s.x[i, d] - s.mean[k, d]
            for e in range(d + 1):
                s.scatter[k, d, e] -= weight * gap * (s.x[i, e] - s.mean[k, e])
        if not downdated:
            derive_factor(s, k, s.n[k])

    def merge(s, k: int, other: int) -> None:
        n, m = s.n[k], s.n[other]
        if m > 0.0:
            combine_scatter(s, k, other, 1.0, n * m / (n + m))
            for d in range(s.x.shape[1]):
                s.mean[k, d] += (s.mean[other, d] - s.mean[k, d]) * m / (n + m)
            s.n[k] = n + m

    def subtract(s, k: int, other: int) -> None:
        m = s.n[other]
        n = s.n[k] - m
        if n == 0.0:
            clear(s, k)
        elif m > 0.0:
            for d in range(s.x.shape[1]):
                s.mean[k, d] += (s.mean[k, d] - s.mean[other, d]) * m / n
            combine_scatter(s, k, other, -1.0, n * m / (n + m))
            s.n[k] = n

    def derive(s, k: int) -> None:
        derive_factor(s, k, s.n[k])
        refresh(s, k)

    def refresh(s, k: int) -> None:
        n_dimensions = s.x.shape[1]
        kappa, nu = s.kappa + s.n[k], s.nu + s.n[k]
        log_determinant = 0.0
        for d in range(n_dimensions):
            s.inverse_diagonal[d, k] = 1.0 / s.factor[d, d, k]
            s.center[d, k] = s.n[k] * s.mean[k, d] / kappa
            log_determinant += 2.0 * math.log(s.factor[d, d, k])
        s.shrink[k] = kappa / (kappa + 1.0)
        s.power[k] = 0.5 * (nu + 1.0)
        s.log_determinant[k] = log_determinant
        gammas = math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * (nu + 1.0 - n_dimensions))
        s.constant[k] = gammas + 0.5 * n_dimensions * (math.log(s.shrink[k]) - _LOG_PI) - 0.5 * log_determinant + s.log_jacobian
        s.scored[0] = -1

    def log_marginal(s, k: int) -> float:
        n = s.n[k]
        if n == 0.0:
            return 0.0
        n_dimensions = s.x.shape[1]
        nu = s.nu + n
        posterior_factor(s, k, n)
        value = n * s.log_jacobian - 0.5 * n * n_dimensions * _LOG_PI + 0.5 * n_dimensions * math.log(s.kappa / (s.kappa + n))
        value += 0.5 * s.nu * log_determinant_before(s)
        for d in range(n_dimensions):
            value += math.lgamma(0.5 * (nu - d)) - math.lgamma(0.5 * (s.nu - d)) - nu * math.log(s.matrix[d, d])
        return value

    def log_predictive(s, k: int, i: int) -> float:
        return s.constant[k] - s.power[k] * math.log(1.0 + s.shrink[k] * distance_to(s, k, i))

    def log_predictive_without(s, k: int, i: int) -> float:
        n_dimensions = s.x.shape[1]
        q = s.distance[k] if s.scored[0] == i else distance_to(s, k, i)
        kappa, nu = s.kappa + s.n[k], s.nu + s.n[k]
        without = s.kappa + (s.n[k] - 1.0)
        left = 1.0 - kappa / without * q
        if left < ILL_CONDITIONED:
            return _predictive_after_removal(s, k, i)
        gammas = math.lgamma(0.5 * nu) - math.lgamma(0.5 * (nu - n_dimensions))
        return (
            gammas
            + 0.5 * n_dimensions * (math.log(without / kappa) - _LOG_PI)
            - 0.5 * s.log_determinant[k]
            + 0.5 * (nu - 1.0) * math.log(left)
            + s.log_jacobian
        )

    def log_predictive_all(s, i: int, n_slots: int, out: Floats) -> None:
        log_predictive_above(s, i, n_slots, -np.inf, out)

    def log_predictive_above(s, i: int, n_slots: int, floor: float, out: Floats) -> None:
        """Distances only grow from row to row of a triangular system: all slots are looked at every few rows, until few are left of which more has to be known."""
        n_dimensions, solved = s.x.shape[1], 0
        for k in range(n_slots):
            s.distance[k] = 0.0
            out[k] += s.constant[k]
        while solved < n_dimensions:
            until = min(solved + _ROWS, n_dimensions) if floor > -np.inf and solved + 2 * _ROWS <= n_dimensions else n_dimensions
            _solve_rows(s, i, n_slots, solved, until)
            solved = until
            near = 0
            for k in range(n_slots if solved < n_dimensions else 0):
                near += 1 if out[k] - s.power[k] * fast_log(1.0 + s.shrink[k] * s.distance[k]) > floor else 0
            if solved < n_dimensions and near * _ONE_BY_ONE < n_slots:
                break
        for k in range(n_slots):
            out[k] -= s.power[k] * fast_log(1.0 + s.shrink[k] * s.distance[k])
        if solved < n_dimensions:
            for k in range(n_slots):
                if out[k] > floor:
                    out[k] = _finished(s, k, i, solved, out[k], floor)
        s.scored[0] = i if solved == n_dimensions else -1

    def absorb(s, k: int, i: int) -> float:
        """From |Λ_n+1| = |Λ_n| (1 + κ_n/(κ_n+1) q): the update of the factor gives the predictive, and no triangular system is solved."""
        n_dimensions = s.x.shape[1]
        n, before = s.n[k], s.log_determinant[k] if s.n[k] > 0.0 else log_determinant_before(s)
        kappa, nu = s.kappa + n, s.nu + n
        add(s, k, i)
        after = 0.0
        for d in range(n_dimensions):
            after += 2.0 * fast_log(s.factor[d, d, k])
        s.log_determinant[k] = after
        s.scored[0] = -1
        gammas = fast_lgamma(0.5 * (nu + 1.0)) - fast_lgamma(0.5 * (nu + 1.0 - n_dimensions))
        return gammas + 0.5 * n_dimensions * (fast_log(kappa / (kappa + 1.0)) - _LOG_PI) - 0.5 * before - 0.5 * (nu + 1.0) * (after - before) + s.log_jacobian

    def prefetch(s, i: int) -> None:
        prefetch_row(s.x, i)

    def log_bound(s, i: int) -> float:
        return _log_peak(s, len(s.x) - 1.0, log_determinant_before(s))

    def log_bound_given(s, k: int, rest: int, i: int) -> float:
        return _log_peak(s, s.n[k] + s.n[rest] - 1.0, s.log_determinant[k])

    def n_parameters(s) -> int:
        n_dimensions = s.x.shape[1]
        return n_dimensions + n_dimensions * n_dimensions + 1

    def draw_parameters(s, k: int, theta: Floats, rng: Any) -> None:
        """Mean; lower-triangular A with Σ⁻¹ = A Aᵀ stored as the matrix that maps a residual to Aᵀ(x−μ); and log |A|.

        Bartlett: Σ⁻¹ = L⁻ᵀ B Bᵀ L⁻¹ with B lower triangular, B_dd² ~ χ²(ν_n − d), B_de ~ N(0, 1), and L the Cholesky factor of Λ_n.
        """
        draw_mean_and_precision(s, k, s.n[k], s.n[k], theta, rng)

    def log_likelihood(s, theta: Floats, i: int) -> float:
        n_dimensions = s.x.shape[1]
        distance = 0.0
        for d in range(n_dimensions):
            value = 0.0
            for e in range(n_dimensions):
                value += theta[n_dimensions + d * n_dimensions + e] * (s.x[i, e] - theta[e])
            distance += value * value
        return s.log_jacobian + theta[n_dimensions + n_dimensions * n_dimensions] - 0.5 * (n_dimensions * (_LOG_PI + math.log(2.0)) + distance)

    def n_coefficients(s) -> int:
        n_dimensions = s.x.shape[1]
        return n_dimensions * (n_dimensions + 3) // 2 + 1

    def set_coefficients(s, theta: Floats, a: Floats, k: int) -> None:
        """−½ (x − μ)ᵀ P (x − μ) + log |A| with P = MᵀM, M the stored matrix: first x, then 1, then the products x_d x_e with e ≤ d."""
        n_dimensions = s.x.shape[1]
        f, constant = n_dimensions + 1, theta[n_dimensions + n_dimensions * n_dimensions]
        for d in range(n_dimensions):
            a[d, k] = 0.0
            for e in range(d + 1):
                s.matrix[d, e] = 0.0
        for row in range(1, n_dimensions + 1):  # rows of M one after the other, as they lie in memory
            for d in range(n_dimensions):
                own = theta[row * n_dimensions + d]
                for e in range(d + 1):
                    accumulate_row(s.matrix, d, e, own * fetch_at(theta, row * n_dimensions + e))
        for d in range(n_dimensions):
            for e in range(d + 1):
                product = s.matrix[d, e]
                a[f, k] = -0.5 * product if d == e else -product
                f += 1
                a[d, k] += product * theta[e]
                if d != e:
                    a[e, k] += product * theta[d]
        for d in range(n_dimensions):
            constant -= 0.5 * a[d, k] * theta[d]
        a[n_dimensions, k] = constant

    def dense_features(s) -> bool:
        return True

    def fill_features(s, points: Any, base: int, count: int, out: Any) -> None:
        n_dimensions = s.x.shape[1]
        fill_rows(s.x, points, base, count, out)
        for t in range(count):
            out[n_dimensions, t] = 1.0
        f = n_dimensions + 1
        for d in range(n_dimensions):
            for e in range(d + 1):
                for t in range(count):
                    out[f, t] = out[d, t] * out[e, t]
                f += 1

    def gather(s, k: int, i: int) -> None:
        """Sums about the slot's first point (kept in `center`): Σ(x − r) in `mean`, products in `scatter`."""
        n_dimensions = s.x.shape[1]
        if s.n[k] == 0.0:
            for d in range(n_dimensions):
                s.center[d, k] = s.x[i, d]
        s.n[k] += 1.0
        for d in range(n_dimensions):
            s.vector[d] = s.x[i, d] - s.center[d, k]
        scatter = s.scatter[k]
        for d in range(n_dimensions):
            gap = s.vector[d]
            s.mean[k, d] += gap
            for e in range(d + 1):
                accumulate_row(scatter, d, e, gap * fetch_at(s.vector, e))

    def gather_run(s, k: int, points: Ints, begin: int, end: int, base: int, room: Floats) -> None:
        n_dimensions, count, scatter = s.x.shape[1], end - begin, s.scatter[k]
        if s.n[k] == 0.0:
            for d in range(n_dimensions):
                s.center[d, k] = s.x[points[begin] - base, d]
        s.n[k] += count
        if n_dimensions < 8:
            for d in range(n_dimensions):
                center, total = s.center[d, k], 0.0
                for t in range(count):
                    gap = s.x[points[begin + t] - base, d] - center
                    room[d, t] = gap
                    total += gap
                s.mean[k, d] += total
                for e in range(d + 1):
                    total = 0.0
                    for t in range(count):
                        total += room[d, t] * room[e, t]
                    scatter[d, e] += total
        else:
            for d in range(n_dimensions):
                s.vector[d] = s.center[d, k]
            for first in range(begin, end, 4):  # four points at a time: each entry of the scatter is loaded and stored once for all of them
                for t in range(4):
                    if first + t < end:
                        i = points[first + t] - base
                        for d in range(n_dimensions):
                            s.matrix[t, d] = s.x[i, d] - s.vector[d]
                    else:
                        for d in range(n_dimensions):
                            s.matrix[t, d] = 0.0
                for d in range(n_dimensions):
                    a, b, c, f = s.matrix[0, d], s.matrix[1, d], s.matrix[2, d], s.matrix[3, d]
                    s.mean[k, d] += (a + b) + (c + f)
                    for e in range(d + 1):
                        products = (a * fetch(s.matrix, 0, e) + b * fetch(s.matrix, 1, e)) + (c * fetch(s.matrix, 2, e) + f * fetch(s.matrix, 3, e))
                        accumulate_row(scatter, d, e, products)

    def settle(s, k: int) -> None:
        n = s.n[k]
        if n > 0.0:
            for d in range(s.x.shape[1]):
                for e in range(d + 1):
                    rest = s.scatter[k, d, e] - s.mean[k, d] * s.mean[k, e] / n
                    s.scatter[k, d, e] = max(0.0, rest) if d == e else rest
            for d in range(s.x.shape[1]):
                s.mean[k, d] = s.center[d, k] + s.mean[k, d] / n

    def log_likelihood_of(s, theta: Floats, k: int) -> float:
        n, n_dimensions, distance = s.n[k], s.x.shape[1], 0.0
        for row in range(n_dimensions):
            value = 0.0
            for d in range(n_dimensions):
                own = theta[n_dimensions + row * n_dimensions + d]
                value += own * (s.mean[k, d] - theta[d])
                distance += own * own * s.scatter[k, d, d]
                for e in range(d):
                    distance += 2.0 * own * theta[n_dimensions + row * n_dimensions + e] * s.scatter[k, d, e]
            distance += n * value * value
        return n * (s.log_jacobian + theta[n_dimensions + n_dimensions * n_dimensions]) - 0.5 * (n * n_dimensions * (_LOG_PI + math.log(2.0)) + distance)

    def add_weighted(s, k: int, i: int, weight: float) -> None:
        n_dimensions, n = s.x.shape[1], s.n[k]
        s.n[k] += weight
        share = weight / s.n[k]
        for d in range(n_dimensions):
            gap = n * share * (s.x[i, d] - s.mean[k, d])
            for e in range(d + 1):
                s.scatter[k, d, e] += gap * (s.x[i, e] - s.mean[k, e])
        for d in range(n_dimensions):
            s.mean[k, d] += share * (s.x[i, d] - s.mean[k, d])

    def expect(s, k: int) -> None:
        """E[log N(x; μ, Σ)] = ½ [Σ_d ψ((ν_n − d)/2) − log |Λ_n| − D log π − D/κ_n − ν_n q], d from 0."""
        n_dimensions = s.x.shape[1]
        kappa, nu = s.kappa + s.n[k], s.nu + s.n[k]
        derive(s, k)
        value = -s.log_determinant[k] - n_dimensions * (_LOG_PI + 1.0 / kappa)
        for d in range(n_dimensions):
            value += digamma(0.5 * (nu - d))
        s.constant[k] = 0.5 * value + s.log_jacobian
        s.power[k] = 0.5 * nu

    def expected_log_likelihood_all(s, i: int, n_slots: int, out: Floats) -> None:
        distances_to_all(s, i, n_slots)
        for k in range(n_slots):
            out[k] += s.constant[k] - s.power[k] * s.distance[k]

    def draw_point(s, theta: Floats, i: int, rng: Any) -> None:
        draw_point_given(s, theta, i, 1.0, rng)


@compiled
def draw_point_given(s: Any, theta: Floats, i: int, weight: float, rng: Any) -> None:
    """x = μ + M⁻¹ z/√u for the stored matrix M and a point of weight u, by Gaussian elimination without pivoting (M = Bᵀ L⁻¹ has an LU form)."""
    n_dimensions = s.x.shape[1]
    for d in range(n_dimensions):
        s.vector[d] = normal(rng) / math.sqrt(weight)
        for e in range(n_dimensions):
            s.matrix[d, e] = theta[n_dimensions + d * n_dimensions + e]
    for d in range(n_dimensions - 1, 0, -1):  # M is upper times lower: eliminate upwards from the last row
        for row in range(d):
            ratio = s.matrix[row, d] / s.matrix[d, d]
            s.vector[row] -= ratio * s.vector[d]
            for e in range(d + 1):
                s.matrix[row, e] -= ratio * s.matrix[d, e]
    for d in range(n_dimensions):
        value = s.vector[d]
        for e in range(d):
            value -= s.matrix[d, e] * s.vector[e]
        s.vector[d] = value / s.matrix[d, d]
        s.x[i, d] = theta[d] + s.vector[d]
    s.scored[0] = -1


@compiled
def draw_mean_and_precision(s: Any, k: int, weight: float, n: float, theta: Floats, rng: Any) -> None:
    """Parameters given the points of slot k, n of them, of this weight in all; see `draw_parameters`."""
    n_dimensions = s.x.shape[1]
    kappa, nu = s.kappa + weight, s.nu + n
    log_determinant = 0.0
    for d in range(n_dimensions):
        for e in range(d):
            s.matrix[d, e] = normal(rng)
        log_root = 0.5 * (math.log(2.0) + log_gamma_variate(0.5 * (nu - d), rng))
        s.matrix[d, d] = math.exp(log_root)
        log_determinant += log_root - math.log(s.factor[d, d, k])
    for column in range(n_dimensions):  # residual → Bᵀ L⁻¹ residual, one column of the matrix at a time
        for d in range(n_dimensions):
            value = 1.0 if d == column else 0.0
            for e in range(d):
                value -= s.factor[d, e, k] * s.vector[e]
            s.vector[d] = value / s.factor[d, d, k]
        for d in range(n_dimensions):
            value = 0.0
            for e in range(d, n_dimensions):
                value += s.matrix[e, d] * s.vector[e]
            theta[n_dimensions + d * n_dimensions + column] = value
    for d in range(n_dimensions - 1, -1, -1):  # μ = m_n + L B⁻ᵀ z / √κ_n
        value = normal(rng)
        for e in range(d + 1, n_dimensions):
            value -= s.matrix[e, d] * s.vector[e]
        s.vector[d] = value / s.matrix[d, d]
    for d in range(n_dimensions):
        value = 0.0
        for e in range(d + 1):
            value += s.factor[d, e, k] * s.vector[e]
        theta[d] = weight * s.mean[k, d] / kappa + value / math.sqrt(kappa)
    theta[n_dimensions + n_dimensions * n_dimensions] = log_determinant


@compiled
def log_determinant_before(s: Any) -> float:
    """log |Λ0|."""
    return s.x.shape[1] * math.log(s.scale_factor) + s.prior_log_determinant


@compiled
def _log_peak(s: Any, n: float, log_determinant: float) -> float:
    """The predictive at q = 0 with ν_n and κ_n of n points and log |Λ_n| given. It rises with n (the ratio of gamma functions does, as the digamma function rises) and
    falls with |Λ_n|, which only grows as points join. So it bounds the predictive of every cluster of at most n points that holds one with this |Λ|."""
    n_dimensions = s.x.shape[1]
    kappa, nu = s.kappa + n, s.nu + n
    gammas = math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * (nu + 1.0 - n_dimensions))
    return gammas + 0.5 * n_dimensions * (math.log(kappa / (kappa + 1.0)) - _LOG_PI) - 0.5 * log_determinant + s.log_jacobian


@compiled
def posterior_factor(s: Any, k: int, weight: float) -> None:
    """s.matrix ← the Cholesky factor of Λ_n from the raw statistics of slot k, whose points weigh so much in all."""
    pull = s.kappa * weight / (s.kappa + weight)
    for d in range(s.x.shape[1]):
        for e in range(d + 1):
            s.matrix[d, e] = s.scatter[k, d, e] + pull * s.mean[k, d] * s.mean[k, e] + s.scale_factor * s.prior_scale[d, e]
    cholesky_in_place(s.matrix)


@compiled
def derive_factor(s: Any, k: int, weight: float) -> None:
    """The Cholesky factor of slot k from the raw statistics."""
    posterior_factor(s, k, weight)
    for d in range(s.x.shape[1]):
        for e in range(d + 1):
            s.factor[d, e, k] = s.matrix[d, e]


@compiled
def combine_scatter(s: Any, k: int, other: int, sign: float, weight: float) -> None:
    """Scatter of k plus or minus that of `other`, with the term between their means."""
    for d in range(s.x.shape[1]):
        gap = s.mean[other, d] - s.mean[k, d]
        for e in range(d + 1):
            s.scatter[k, d, e] += sign * (s.scatter[other, d, e] + weight * gap * (s.mean[other, e] - s.mean[k, e]))


@register_jitable(inline="always")  # type: ignore[untyped-decorator]
def distances_to_all(s: Any, i: int, n_slots: int) -> None:
    """s.distance[k] ← q = (x − m_n)ᵀ Λ_n⁻¹ (x − m_n) for every slot below n_slots."""
    for k in range(n_slots):
        s.distance[k] = 0.0
    _solve_rows(s, i, n_slots, 0, s.x.shape[1])


@register_jitable(inline="always")  # type: ignore[untyped-decorator]
def _solve_rows(s: Any, i: int, n_slots: int, begin: int, end: int) -> None:
    """Rows of the triangular systems of all slots, those before `begin` being solved; their squares are added to the distances."""
    for d in range(begin, end):
        x = s.x[i, d]
        for k in range(n_slots):
            s.solved[d, k] = x - s.center[d, k]
        whole = d // 4 * 4
        for e in range(0, whole, 4):
            for k in range(n_slots):
                s.solved[d, k] -= (s.factor[d, e, k] * s.solved[e, k] + s.factor[d, e + 1, k] * s.solved[e + 1, k]) + (
                    s.factor[d, e + 2, k] * s.solved[e + 2, k] + s.factor[d, e + 3, k] * s.solved[e + 3, k]
                )
        for e in range(whole, d):
            for k in range(n_slots):
                s.solved[d, k] -= s.factor[d, e, k] * s.solved[e, k]
        for k in range(n_slots):
            y = s.solved[d, k] * s.inverse_diagonal[d, k]
            s.solved[d, k] = y
            s.distance[k] += y * y


@compiled
def _finished(s: Any, k: int, i: int, solved: int, value: float, floor: float) -> float:
    """The log predictive of a slot of whose triangular system some rows are solved, `value` being what they make of it; or a bound from above that is below the floor."""
    distance, before = s.distance[k], fast_log(1.0 + s.shrink[k] * s.distance[k])
    enough = (math.exp((value - floor) / s.power[k] + before) - 1.0) / s.shrink[k]
    for d in range(solved):
        s.vector[d] = s.solved[d, k]
    for d in range(solved, s.x.shape[1]):
        rest = s.x[i, d] - s.center[d, k]
        for e in range(d):
            rest -= s.factor[d, e, k] * s.vector[e]
        s.vector[d] = rest * s.inverse_diagonal[d, k]
        distance += s.vector[d] * s.vector[d]
        if distance > enough:
            break
    return value + s.power[k] * (before - fast_log(1.0 + s.shrink[k] * distance))


@compiled
def distance_to(s: Any, k: int, i: int) -> float:
    """q = (x − m_n)ᵀ Λ_n⁻¹ (x − m_n) for one slot."""
    distance = 0.0
    for d in range(s.x.shape[1]):
        value = s.x[i, d] - s.center[d, k]
        for e in range(d):
            value -= s.factor[d, e, k] * s.vector[e]
        s.vector[d] = value * s.inverse_diagonal[d, k]
        distance += s.vector[d] * s.vector[d]
    return distance


@compiled
def _predictive_after_removal(s: Any, k: int, i: int) -> float:
    """log p(x_i | x_c without x_i) by building Λ without the point: for the few points that dominate their cluster."""
    n_dimensions = s.x.shape[1]
    n = s.n[k] - 1.0
    kappa, nu = s.kappa + n, s.nu + n
    weight = n / (n + 1.0)
    pull = s.kappa * n / kappa
    for d in range(n_dimensions):
        s.vector[d] = s.mean[k, d] - (s.x[i, d] - s.mean[k, d]) / n if n > 0.0 else 0.0  # the mean without the point
    for d in range(n_dimensions):
        for e in range(d + 1):
            without = s.scatter[k, d, e] - weight * (s.x[i, d] - s.vector[d]) * (s.x[i, e] - s.vector[e]) if n > 1.0 else 0.0
            s.matrix[d, e] = without + pull * s.vector[d] * s.vector[e] + s.scale_factor * s.prior_scale[d, e]
    cholesky_in_place(s.matrix)
    log_determinant, distance = 0.0, 0.0
    for d in range(n_dimensions):
        value = s.x[i, d] - n * s.vector[d] / kappa
        s.solved[d, k] = value
    for d in range(n_dimensions):
        value = s.solved[d, k]
        for e in range(d):
            value -= s.matrix[d, e] * s.vector[e]
        s.vector[d] = value / s.matrix[d, d]
        distance += s.vector[d] * s.vector[d]
        log_determinant += 2.0 * math.log(s.matrix[d, d])
    gammas = math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * (nu + 1.0 - n_dimensions))
    shrink = kappa / (kappa + 1.0)
    return (
        gammas
        + 0.5 * n_dimensions * (math.log(shrink) - _LOG_PI)
        - 0.5 * log_determinant
        - 0.5 * (nu + 1.0) * math.log(1.0 + shrink * distance)
        + s.log_jacobian
    )


@dataclass(frozen=True)
class NormalInverseWishart(ConjugateFamily):
    """Gaussian clusters, each with its own mean and full covariance matrix.

    `scale` is Λ0 (a number, a vector or a matrix); `scale_factor` multiplies it and may carry a prior, as may `kappa`. Defaults from the data with D columns:
    `mean` the mean, `nu` D + 2, `scale` half of the columns' variances on the diagonal (then E Σ = Λ0).

    >>> import maitre as mt
    >>> family = mt.families.NormalInverseWishart(mean=0.0, kappa=0.1, nu=4, scale=1.0)
    """

    mean: Any = None
    kappa: Hyperparameter = 0.1
    nu: float | None = None
    scale: Any = None
    scale_factor: Hyperparameter = 1.0

    statistics = NormalInverseWishartStatistics
    STREAMS = True
    MOVES = "gibbs+split_merge+permutation"
    POSITIVE = ("kappa", "nu", "scale_factor")
    SCALE = "scale_factor"
    TIGHTER = 0.3
    NOT_SAMPLED = ("mean", "nu", "scale")

    def validate(self, data: Any) -> Floats:
        return dense_matrix(data)

    def defaults(self, x: Floats) -> dict[str, Any]:
        return {"mean": column_means(x), "nu": x.shape[1] + 2.0, "scale": 0.5 * column_variances(x)}

    def encode(self, x: Floats) -> dict[str, Any]:
        n_dimensions = x.shape[1]
        if self.nu is None or self.nu <= n_dimensions - 1:
            raise ValueError(f"NormalInverseWishart: nu is {self.nu}; with {n_dimensions} columns it must be above {n_dimensions - 1}")
        units, log_jacobian = self._units(n_dimensions)
        return {"x": units.of(x), "log_jacobian": log_jacobian}

    def _units(self, n_dimensions: int) -> tuple[Units, float]:
        if n_dimensions not in self._known_units:
            mean = numbers_of_columns("NormalInverseWishart: mean", self.mean, n_dimensions)
            factor = np.linalg.cholesky(as_covariance(self.scale, n_dimensions, "scale"))
            units = Units(mean, linalg.solve_triangular(factor, np.eye(n_dimensions), lower=True).T)
            self._known_units[n_dimensions] = units, -float(np.sum(np.log(np.diag(factor))))
        return self._known_units[n_dimensions]

    @cached_property
    def _known_units(self) -> dict[int, tuple[Units, float]]:
        """By number of columns: they are asked for with every block of points."""
        return {}

    def absorb_cost(self, encoded: dict[str, Any]) -> int:
        return int(4 + encoded["x"].shape[1] // 4)  # a factor is updated where a sweep only solves with it

    def vectors(self, data: Floats, encoded: dict[str, Any]) -> Floats:
        return encoded["x"]  # type: ignore[no-any-return]

    def allocate(self, encoded: dict[str, Any], capacity: int) -> NormalInverseWishartStatistics:
        kappa, nu, scale_factor = float(self.kappa), float(self.nu), float(self.scale_factor)  # type: ignore[arg-type]
        return allocated(encoded, capacity, kappa, nu, scale_factor, np.eye(encoded["x"].shape[1]))


def allocated(encoded: dict[str, Any], capacity: int, kappa: float, nu: float, scale_factor: float, prior_scale: Floats) -> NormalInverseWishartStatistics:
    """Empty slots for encoded points."""
    slots, n_dimensions = padded(capacity), encoded["x"].shape[1]
    return NormalInverseWishartStatistics(
        **encoded,
        kappa=kappa,
        nu=nu,
        scale_factor=scale_factor,
        **prior_matrices(prior_scale),
        mean=np.zeros((slots, n_dimensions)),
        scatter=np.zeros((slots, n_dimensions, n_dimensions)),
        factor=np.zeros((n_dimensions, n_dimensions, slots)),
        **{name: np.zeros((n_dimensions, slots)) for name in ("inverse_diagonal", "center", "solved")},
        **{name: np.zeros(slots) for name in ("n", "constant", "shrink", "power", "log_determinant", "distance")},
        scored=np.full(1, -1, dtype=np.int64),
        vector=np.zeros(n_dimensions),
        matrix=np.zeros((n_dimensions, n_dimensions)),
    )


def prior_matrices(scale: Floats) -> dict[str, Any]:
    """The fields of the run-time state that hold Λ0, up to its factor."""
    factor = np.linalg.cholesky(scale)
    return {
        "prior_scale": np.ascontiguousarray(scale),
        "prior_factor": np.ascontiguousarray(factor),
        "prior_log_determinant": 2.0 * float(np.log(np.diag(factor)).sum()),
    }


NormalInverseWishart.EXAMPLES = (
    Example(NormalInverseWishart(0.2, 0.4, 1.5, 0.9), [[-1.0], [-0.8], [0.1], [0.9], [1.1]]),
    Example(
        NormalInverseWishart([0.1, -0.2], 0.5, 3.5, [[0.8, 0.3], [0.3, 1.1]], scale_factor=0.8), [[-1.0, 0.2], [-0.8, 0.0], [0.1, 1.2], [0.9, -0.4], [1.4, 0.9]]
    ),
)
