"""Clusters with heavy tails: Gaussian ones in which every point has a scale of its own, so that one outlier is no cluster.

    x_i | cluster k, u_i ~ N(μ_k, Σ_k/u_i),    u_i ~ Gamma(ω/2, ω/2),

which is a Student t distribution with ω degrees of freedom if u_i is integrated out (Peel & McLachlan 2000); as ω grows it is the Gaussian. Means and covariances are those of
`HierarchicalNormalInverseWishart`. The weights u are variables of the state. Given them a cluster has closed marginals,

    κ_n = κ + Σ u_i,   ν_n = ν + n,   m_n = Σ u_i x_i / κ_n,   Λ_n = δW + Σ u_i (x_i − x̄)(x_i − x̄)ᵀ + κ Σu/κ_n x̄ x̄ᵀ   (x̄ the weighted mean, m0 = 0),
    p(x, u | x_c) ∝ Γ((ν_n+1)/2)/Γ((ν_n+1−D)/2) a^D/2 |Λ_n|^−½ (1 + a q)^−(ν_n+1)/2,   a = u κ_n/(u + κ_n),   q = (x−m_n)ᵀ Λ_n⁻¹ (x−m_n),

and all collapsed moves apply. Given parameters drawn for the purpose, u_i ~ Gamma((ω+D)/2, (ω + (x_i−μ)ᵀΣ⁻¹(x_i−μ))/2); then the parameters are forgotten. ω is drawn given
the weights, and missing values given parameters and weights: those of a point of weight u have the covariance Σ_k/u. New points are scored with their weight integrated out
numerically.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.special import gammaln, logsumexp

from maitre.families.base import Example
from maitre.families.hierarchical import (
    HierarchicalNormalInverseWishart,
    means_given,
    missing_given,
    posterior_scale_of_seen,
    precision_roots,
)
from maitre.families.normal_inverse_wishart import (
    ILL_CONDITIONED,
    combine_scatter,
    derive_factor,
    distance_to,
    distances_to_all,
    draw_mean_and_precision,
    draw_point_given,
    log_determinant_before,
    posterior_factor,
    prior_matrices,
)
from maitre.families.slots import CACHE, POINTS, SCRATCH, SLOTS, Scratch
from maitre.families.statistics import add, clear, log_predictive, refresh, remove
from maitre.numerics.arrays import Floats, Ints, padded, prefetch_row
from maitre.numerics.distributions import Hyperparameter, LogUniform
from maitre.numerics.elementary import fast_log
from maitre.numerics.linear import as_covariance, cholesky_update

_LOG_PI = math.log(math.pi)
_TYPICAL_TAILS = 4.0
_LEAST_LOG_WEIGHT = -20.0  # beyond which the weight of a new point is not looked for


class StudentStatistics(NamedTuple):
    """Run-time state, as that of `NormalInverseWishartStatistics` with a weight for every point."""

    x: Annotated[Floats, POINTS]  # (n, D)
    weight: Annotated[Floats, POINTS]  # (n,): u
    log_jacobian: float
    kappa: float
    nu: float
    scale_factor: float
    prior_scale: Floats  # (D, D)
    prior_factor: Floats  # (D, D): its Cholesky factor
    prior_log_determinant: float
    n: Annotated[Floats, SLOTS]  # (C,)
    total: Annotated[Floats, SLOTS]  # (C,): Σ u
    log_weight: Annotated[Floats, SLOTS]  # (C,): Σ log u
    mean: Annotated[Floats, SLOTS]  # (C, D): weighted
    scatter: Annotated[Floats, SLOTS]  # (C, D, D), weighted, lower triangle
    factor: Annotated[Floats, CACHE]  # (D, D, C): Cholesky factor of Λ_n
    inverse_diagonal: Annotated[Floats, CACHE]  # (D, C)
    center: Annotated[Floats, CACHE]  # (D, C): m_n
    constant: Annotated[Floats, CACHE]  # (C,)
    precision: Annotated[Floats, CACHE]  # (C,): κ_n
    power: Annotated[Floats, CACHE]  # (C,): (ν_n+1)/2
    log_determinant: Annotated[Floats, CACHE]  # (C,)
    solved: Annotated[Floats, SCRATCH]  # (D, C): work space of the triangular solve
    distance: Annotated[Floats, SCRATCH]  # (C,): q of the point scored last
    scored: Annotated[Ints, Scratch(-1)]  # (1,): that point, or −1
    vector: Annotated[Floats, SCRATCH]  # (D,): work space
    matrix: Annotated[Floats, SCRATCH]  # (D, D): work space

    def clear(s, k: int) -> None:
        s.n[k], s.total[k], s.log_weight[k] = 0.0, 0.0, 0.0
        root = math.sqrt(s.scale_factor)
        for i in range(s.x.shape[1]):
            s.mean[k, i] = 0.0
            for j in range(i + 1):
                s.scatter[k, i, j] = 0.0
                s.factor[i, j, k] = root * s.prior_factor[i, j]

    def add(s, k: int, i: int) -> None:
        n_dimensions, u, before = s.x.shape[1], s.weight[i], s.kappa + s.total[k]
        root = math.sqrt(u * before / (u + before))
        for d in range(n_dimensions):
            s.vector[d] = root * (s.x[i, d] - s.total[k] * s.mean[k, d] / before)
        cholesky_update(s.factor, k, s.vector, 1.0)
        total = s.total[k] + u
        for d in range(n_dimensions):
            gap = s.total[k] * u / total * (s.x[i, d] - s.mean[k, d])
            for e in range(d + 1):
                s.scatter[k, d, e] += gap * (s.x[i, e] - s.mean[k, e])
        for d in range(n_dimensions):
            s.mean[k, d] += u / total * (s.x[i, d] - s.mean[k, d])
        s.n[k] += 1.0
        s.total[k] = total
        s.log_weight[k] += math.log(u)

    def remove(s, k: int, i: int) -> None:
        n_dimensions, u = s.x.shape[1], s.weight[i]
        s.n[k] -= 1.0
        if s.n[k] == 0.0:
            clear(s, k)
            return
        left = max(s.total[k] - u, 0.0)
        after = s.kappa + left
        root = math.sqrt(u * (after + u) / after)
        for d in range(n_dimensions):
            s.vector[d] = root * (s.x[i, d] - s.total[k] * s.mean[k, d] / (after + u))
        downdated = left > 0.0 and cholesky_update(s.factor, k, s.vector, -1.0)
        for d in range(n_dimensions):
            s.mean[k, d] -= u / left * (s.x[i, d] - s.mean[k, d]) if left > 0.0 else 0.0
        for d in range(n_dimensions):
            gap = left * u / (left + u) * (s.x[i, d] - s.mean[k, d])
            for e in range(d + 1):
                s.scatter[k, d, e] -= gap * (s.x[i, e] - s.mean[k, e])
        s.total[k] = left
        s.log_weight[k] -= math.log(u)
        if not downdated:
            derive_factor(s, k, s.total[k])

    def merge(s, k: int, other: int) -> None:
        one, more = s.total[k], s.total[other]
        if s.n[other] > 0.0:
            combine_scatter(s, k, other, 1.0, one * more / (one + more))
            for d in range(s.x.shape[1]):
                s.mean[k, d] += (s.mean[other, d] - s.mean[k, d]) * more / (one + more)
            s.n[k] += s.n[other]
            s.total[k] = one + more
            s.log_weight[k] += s.log_weight[other]

    def subtract(s, k: int, other: int) -> None:
        less = s.total[other]
        left = s.total[k] - less
        if s.n[k] == s.n[other]:
            clear(s, k)
        elif s.n[other] > 0.0:
            for d in range(s.x.shape[1]):
                s.mean[k, d] += (s.mean[k, d] - s.mean[other, d]) * less / left
            combine_scatter(s, k, other, -1.0, left * less / (left + less))
            s.n[k] -= s.n[other]
            s.total[k] = left
            s.log_weight[k] -= s.log_weight[other]

    def derive(s, k: int) -> None:
        derive_factor(s, k, s.total[k])
        refresh(s, k)

    def refresh(s, k: int) -> None:
        n_dimensions = s.x.shape[1]
        kappa, nu = s.kappa + s.total[k], s.nu + s.n[k]
        log_determinant = 0.0
        for d in range(n_dimensions):
            s.inverse_diagonal[d, k] = 1.0 / s.factor[d, d, k]
            s.center[d, k] = s.total[k] * s.mean[k, d] / kappa
            log_determinant += 2.0 * math.log(s.factor[d, d, k])
        s.precision[k] = kappa
        s.power[k] = 0.5 * (nu + 1.0)
        s.log_determinant[k] = log_determinant
        gammas = math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * (nu + 1.0 - n_dimensions))
        s.constant[k] = gammas - 0.5 * n_dimensions * _LOG_PI - 0.5 * log_determinant + s.log_jacobian
        s.scored[0] = -1

    def log_marginal(s, k: int) -> float:
        n = s.n[k]
        if n == 0.0:
            return 0.0
        n_dimensions, nu = s.x.shape[1], s.nu + n
        posterior_factor(s, k, s.total[k])
        value = n * s.log_jacobian - 0.5 * n * n_dimensions * _LOG_PI + 0.5 * n_dimensions * (math.log(s.kappa / (s.kappa + s.total[k])) + s.log_weight[k])
        value += 0.5 * s.nu * log_determinant_before(s)
        for d in range(n_dimensions):
            value += math.lgamma(0.5 * (nu - d)) - math.lgamma(0.5 * (s.nu - d)) - nu * math.log(s.matrix[d, d])
        return value

    def log_predictive(s, k: int, i: int) -> float:
        a = s.weight[i] * s.precision[k] / (s.weight[i] + s.precision[k])
        return s.constant[k] + 0.5 * s.x.shape[1] * math.log(a) - s.power[k] * math.log(1.0 + a * distance_to(s, k, i))

    def log_predictive_without(s, k: int, i: int) -> float:
        n_dimensions, u = s.x.shape[1], s.weight[i]
        q = s.distance[k] if s.scored[0] == i else distance_to(s, k, i)
        kappa, nu = s.precision[k], s.nu + s.n[k]
        without = kappa - u
        left = 1.0 - u * kappa / without * q if without > 0.0 else 0.0
        if left < ILL_CONDITIONED:
            remove(s, k, i)
            refresh(s, k)
            value = log_predictive(s, k, i)
            add(s, k, i)
            refresh(s, k)
            return value  # type: ignore[no-any-return]
        gammas = math.lgamma(0.5 * nu) - math.lgamma(0.5 * (nu - n_dimensions))
        shape = 0.5 * n_dimensions * (math.log(u * without / kappa) - _LOG_PI)
        return gammas + shape - 0.5 * s.log_determinant[k] + 0.5 * (nu - 1.0) * math.log(left) + s.log_jacobian

    def log_predictive_all(s, i: int, n_slots: int, out: Floats) -> None:
        distances_to_all(s, i, n_slots)
        u, half = s.weight[i], 0.5 * s.x.shape[1]
        for k in range(n_slots):
            a = u * s.precision[k] / (u + s.precision[k])
            out[k] += s.constant[k] + half * fast_log(a) - s.power[k] * fast_log(1.0 + a * s.distance[k])
        s.scored[0] = i

    def prefetch(s, i: int) -> None:
        prefetch_row(s.x, i)

    def n_parameters(s) -> int:
        n_dimensions = s.x.shape[1]
        return n_dimensions + n_dimensions * n_dimensions + 1

    def draw_parameters(s, k: int, theta: Floats, rng: Any) -> None:
        """Mean; the matrix that maps a residual to Aᵀ(x−μ), with Σ⁻¹ = A Aᵀ; and log |A|."""
        draw_mean_and_precision(s, k, s.total[k], s.n[k], theta, rng)

    def log_likelihood(s, theta: Floats, i: int) -> float:
        n_dimensions, u = s.x.shape[1], s.weight[i]
        distance = 0.0
        for d in range(n_dimensions):
            value = 0.0
            for e in range(n_dimensions):
                value += theta[n_dimensions + d * n_dimensions + e] * (s.x[i, e] - theta[e])
            distance += value * value
        log_density = theta[n_dimensions + n_dimensions * n_dimensions] - 0.5 * (n_dimensions * (_LOG_PI + math.log(2.0) - math.log(u)) + u * distance)
        return s.log_jacobian + log_density

    def draw_point(s, theta: Floats, i: int, rng: Any) -> None:
        draw_point_given(s, theta, i, s.weight[i], rng)


@dataclass(frozen=True)
class HierarchicalStudent(HierarchicalNormalInverseWishart):
    """Clusters with heavy tails, each with its own mean and covariance matrix; `tails` is ω, the degrees of freedom: 1 for very heavy tails, 100 for hardly any.

    The other hyper-parameters are those of `HierarchicalNormalInverseWishart`.

    >>> import maitre as mt
    >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.2]], mt.families.HierarchicalStudent(), draws=20, burn_in=20, chains=1, progress=False)
    >>> posterior.draws["family.weights"].shape
    (1, 20, 4)
    """

    tails: Hyperparameter = LogUniform(1.0, 100.0)

    statistics = StudentStatistics  # type: ignore[assignment]
    STREAMS = False
    POSITIVE = ("kappa", "freedom", "tails")  # type: ignore[assignment]

    def encode(self, x: Floats) -> dict[str, Any]:
        return super().encode(x) | {"weight": np.full(len(x), np.nan)}  # not known

    def allocate(self, encoded: dict[str, Any], capacity: int) -> Any:
        slots, n_dimensions, delta = padded(capacity), encoded["x"].shape[1], float(self.freedom)  # type: ignore[arg-type]
        shared = self.correlations(n_dimensions) if self.shared is None else as_covariance(self.shared, n_dimensions, "shared")
        return StudentStatistics(
            **encoded,
            kappa=float(self.kappa),  # type: ignore[arg-type]
            nu=n_dimensions + 1.0 + delta,
            scale_factor=delta,
            **prior_matrices(shared),
            mean=np.zeros((slots, n_dimensions)),
            scatter=np.zeros((slots, n_dimensions, n_dimensions)),
            factor=np.zeros((n_dimensions, n_dimensions, slots)),
            **{name: np.zeros((n_dimensions, slots)) for name in ("inverse_diagonal", "center", "solved")},
            **{name: np.zeros(slots) for name in ("n", "total", "log_weight", "constant", "precision", "power", "log_determinant", "distance")},
            scored=np.full(1, -1, dtype=np.int64),
            vector=np.zeros(n_dimensions),
            matrix=np.zeros((n_dimensions, n_dimensions)),
        )

    def with_values(self, statistics: Any, values: dict[str, Any]) -> Any:
        return super().with_values(statistics, {name: value for name, value in values.items() if name != "tails"})

    # -- weights ------------------------------------------------------------------------------------------------------------------------------

    def arrays(self, encoded: Any) -> dict[str, tuple[int, ...]]:
        return super().arrays(encoded) | {"weights": (len(encoded["x"]),)}

    def completed(self, encoded: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        return {**super().completed(encoded, values), "weight": np.asarray(values["weights"])}

    def arrays_at_prior_means(self, encoded: Any) -> dict[str, Any]:
        """Weights as they would be in one cluster of all points: a point far out that starts with a weight of one leaves its cluster and hardly finds back."""
        x = np.nan_to_num(encoded["x"])
        distances = (x * np.linalg.solve(self.correlations(x.shape[1]), x.T).T).sum(axis=1)
        return super().arrays_at_prior_means(encoded) | {"weights": (_TYPICAL_TAILS + x.shape[1]) / (_TYPICAL_TAILS + distances)}

    def arrays_from_prior(self, encoded: Any, rng: np.random.Generator) -> dict[str, Any]:
        half = 0.5 * float(self.tails)  # type: ignore[arg-type]
        return super().arrays_from_prior(encoded, rng) | {"weights": rng.gamma(half, 1.0 / half, len(encoded["x"]))}

    def log_density_of_arrays(self, values: dict[str, Any]) -> float:
        return super().log_density_of_arrays(values) + _log_density_of_weights(np.asarray(values["weights"]), float(self.tails))  # type: ignore[arg-type]

    def points_redrawn(self, s: Any, slots: Ints, roots: Floats, labels: Any, encoded: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        """Every point's weight given its cluster's parameters, then its missing values given both."""
        means = means_given(s, slots, roots, rng)
        weights = self.weights_given(_squared_distances(s, slots, roots, means, labels), float(self.tails), s.x.shape[1], rng)  # type: ignore[arg-type]
        gaps = np.isnan(encoded["x"])
        return {"weights": weights} | ({"missing": missing_given(s.x, gaps, slots, roots, means, labels, weights, rng)} if gaps.any() else {})

    def squared_distances(self, s: Any, slots: Ints, labels: Any, rng: np.random.Generator) -> Floats:
        """(x_i − μ)ᵀΣ⁻¹(x_i − μ) of every point, with parameters drawn for its cluster."""
        roots = precision_roots(s, slots, rng)
        return _squared_distances(s, slots, roots, means_given(s, slots, roots, rng), labels)

    @staticmethod
    def weights_given(distances: Floats, tails: float, n_dimensions: int, rng: np.random.Generator) -> Floats:
        """u ~ Gamma((ω+D)/2, (ω + d²)/2)."""
        drawn = rng.standard_gamma(0.5 * (tails + n_dimensions), len(distances)) / (0.5 * (tails + distances))
        return np.maximum(drawn, np.finfo(float).tiny)

    def log_likelihood_of_clusters(self, s: Any, slots: Ints, name: str) -> Callable[[float], float]:
        if name != "tails":
            return super().log_likelihood_of_clusters(s, slots, name)
        total, n = float(np.log(s.weight).sum() - s.weight.sum()), len(s.weight)
        return lambda tails: n * (0.5 * tails * math.log(0.5 * tails) - math.lgamma(0.5 * tails)) + 0.5 * tails * total

    def log_density_of_seen(self, s: Any, k: int, x: Floats, seen: Any) -> Floats:
        """With the weight integrated out, by the trapezoidal rule on the log scale, in steps of its standard deviation."""
        size, half, precision = int(seen.sum()), 0.5 * float(self.tails), s.kappa + s.total[k]  # type: ignore[arg-type]
        freedom = s.nu + s.n[k] - s.x.shape[1] + 1.0
        step = 1.0 / math.sqrt(half + 0.5 * size)
        log_u = np.arange(_LEAST_LOG_WEIGHT, 2.0 + 6.0 / math.sqrt(half), step)
        log_prior = half * (log_u + math.log(half)) - half * np.exp(log_u) - math.lgamma(half) + math.log(step)
        factor = np.linalg.cholesky(posterior_scale_of_seen(s, k, seen))
        q = (linalg.solve_triangular(factor, (x - s.center[seen, k]).T, lower=True) ** 2).sum(axis=0)
        a = np.exp(log_u) * precision / (np.exp(log_u) + precision)
        terms = log_prior + 0.5 * size * np.log(a) - 0.5 * (freedom + size) * np.log1p(a * q[:, None])
        constant = math.lgamma(0.5 * (freedom + size)) - math.lgamma(0.5 * freedom) - 0.5 * size * _LOG_PI - float(np.log(np.diag(factor)).sum())
        return np.asarray(constant + logsumexp(terms, axis=1))


def _squared_distances(s: Any, slots: Ints, roots: Floats, means: Floats, labels: Any) -> Floats:
    distances = np.empty(len(s.x))
    for k, root, mean in zip(slots, roots, means, strict=True):
        members = np.flatnonzero(labels == k)
        distances[members] = (((s.x[members] - mean) @ root) ** 2).sum(axis=1)
    return distances


def _log_density_of_weights(weights: Floats, tails: float) -> float:
    """Σ log Gamma(u; ω/2, ω/2) as a density of log u, in which small weights count as large ones do."""
    half = 0.5 * tails
    return float(len(weights) * (half * math.log(half) - gammaln(half)) + half * (np.log(weights) - weights).sum())


HierarchicalStudent.EXAMPLES = (
    Example(HierarchicalStudent(0.2, 0.4, 1.5, 0.9, 0.8, 4.0), [[-1.0], [-0.8], [0.1], [0.9], [1.1]]),
    Example(
        HierarchicalStudent([0.1, -0.2], 0.5, 3.5, [[0.8, 0.3], [0.3, 1.1]], [[0.9, 0.2], [0.2, 0.7]], 3.0),
        [[-1.0, 0.2], [-0.8, 0.0], [0.1, 1.2], [0.9, -0.4], [1.4, 0.9]],
    ),
)
