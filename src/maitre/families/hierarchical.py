"""Gaussian clusters whose covariances have a scale in common, which is learnt: the default for tables of numbers.

    μ_k | Σ_k ~ N(m0, Σ_k/κ),    Σ_k ~ InverseWishart(ν, δW),    ν = D + 1 + δ,    W ~ Wishart(D + 2, S/(D + 2)),

so that E[Σ_k | W] = W and E[W] = S. κ is small: were it left to the data, it would rise wherever clusters are not quite Gaussian, until a cluster of one point costs nothing
and every outlier is one. With a fixed scale and few degrees of freedom the predictive of a cluster of one point, a heavy-tailed Student t, is nearly as good as
a fitted Gaussian, while a covariance costs D(D + 3)/2 parameters: beyond a dozen dimensions the posterior prefers clusters of one point (Chandra, Canale & Dunson 2023).
Here δ says how much alike the clusters' shapes are, and the data say what δ is: as it grows all clusters share W, and a cluster costs D parameters.

Given κ, δ and W a cluster is a normal–inverse-Wishart one and all collapsed moves apply. W is drawn, exactly, by way of the covariances, which are then forgotten:

    Σ_k | x ~ InverseWishart(ν + n_k, Λ_k),    W | Σ ~ Wishart(D + 2 + Kν, [(D + 2) S⁻¹ + δ Σ_k Σ_k⁻¹]⁻¹).

Its prior is cut off where W falls below 10⁻⁶ S in some direction: of columns that depend on each other the likelihood has no maximum.

Missing values are variables, too. With Σ_k drawn as above and μ_k | Σ_k, x ~ N(m_k, Σ_k/(κ + n_k)), those of a point of cluster k are drawn from their normal law given
what is observed of it; then μ_k and Σ_k are forgotten. New rows with gaps are scored by the Student t density of what is observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import linalg
from scipy.special import gammaln, multigammaln

from maitre.data.blocks import Blocks
from maitre.data.validation import column_means, column_variances, dense_matrix, row_blocks, within_range
from maitre.families.base import ConjugateFamily, Example
from maitre.families.normal_inverse_wishart import NormalInverseWishartStatistics, allocated, prior_matrices
from maitre.numerics.arguments import numbers_of_columns
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.distributions import Hyperparameter, LogUniform
from maitre.numerics.linear import as_covariance, wishart_root

_LOWEST = 1e-6  # of W, relative to S
_FLOOR = 1e-3  # of W when it climbs, relative to S
_LEAST_SHRINKAGE = 1e-4
_DONORS = 1000


@dataclass(frozen=True)
class HierarchicalNormalInverseWishart(ConjugateFamily):
    """Gaussian clusters, each with its own mean and covariance matrix; how large, how elongated and how much alike the covariances are is learnt from the data.

    `scale` is S, a guess at the covariance of a cluster; `shared` is W in units of the standard deviations of `scale`, by default None: sampled. `freedom` is δ, `kappa` κ.
    Defaults from the data: `mean` the mean, `scale` their covariance matrix, its correlations shrunk towards none as Schäfer & Strimmer (2005) do.

    >>> import maitre as mt
    >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.2]], mt.families.HierarchicalNormalInverseWishart(), draws=20, burn_in=20, chains=1, progress=False)
    >>> posterior.draws["family.shared"].shape
    (1, 20, 1, 1)
    """

    mean: Any = None
    kappa: Hyperparameter = LogUniform(0.0005, 0.0025)
    freedom: Hyperparameter = LogUniform(1.0, 1000.0)
    scale: Any = None
    shared: Any = None

    statistics = NormalInverseWishartStatistics
    STREAMS = True
    POSITIVE = ("kappa", "freedom")
    NOT_SAMPLED = ("mean", "scale", "shared")
    AT_LEAST: ClassVar = {"kappa": 1e-6}

    def validate(self, data: Any) -> Floats:
        return dense_matrix(data, missing=not isinstance(data, Blocks))  # data that stay on disk cannot be completed

    def defaults(self, x: Floats) -> dict[str, Any]:
        mean, variances = column_means(x), column_variances(x)
        root = np.sqrt(variances)
        return {"mean": mean, "scale": shrunk_correlations(x, mean, root) * np.outer(root, root)}

    def encode(self, x: Floats) -> dict[str, Any]:
        root = np.sqrt(np.diag(as_covariance(self.scale, x.shape[1], "scale")))
        mean, z = numbers_of_columns("HierarchicalNormalInverseWishart: mean", self.mean, x.shape[1]), np.empty(x.shape)
        for rows in row_blocks(x):
            block = np.subtract(x[rows], mean, out=z[rows])
            block /= root
            within_range(block)
        return {"x": z, "log_jacobian": -float(np.log(root).sum())}

    def climbs(self) -> bool:
        return True

    def absorb_cost(self, encoded: dict[str, Any]) -> int:
        return int(4 + encoded["x"].shape[1] // 4)

    def vectors(self, data: Floats, encoded: dict[str, Any]) -> Floats:
        x = encoded["x"]
        return filled(x) if np.isnan(x).any() else x  # type: ignore[no-any-return]

    def allocate(self, encoded: dict[str, Any], capacity: int) -> NormalInverseWishartStatistics:
        n_dimensions, delta = encoded["x"].shape[1], float(self.freedom)  # type: ignore[arg-type]
        shared = self.correlations(n_dimensions) if self.shared is None else as_covariance(self.shared, n_dimensions, "shared")
        return allocated(encoded, capacity, float(self.kappa), n_dimensions + 1.0 + delta, delta, shared)  # type: ignore[arg-type]

    def with_values(self, statistics: NormalInverseWishartStatistics, values: dict[str, Any]) -> NormalInverseWishartStatistics:
        fields = {"kappa": values["kappa"]} if "kappa" in values else {}
        if "freedom" in values:
            fields |= {"scale_factor": values["freedom"], "nu": statistics.x.shape[1] + 1.0 + values["freedom"]}
        return statistics._replace(**fields, **(prior_matrices(values["shared"]) if "shared" in values else {}))

    # -- the shared scale ---------------------------------------------------------------------------------------------------------------------

    def correlations(self, n_dimensions: int) -> Floats:
        """S in units of its standard deviations."""
        return self._prior(n_dimensions).mean

    def _prior(self, n_dimensions: int) -> _Wishart:
        scale = np.asarray(self.scale, dtype=np.float64)
        return _wishart(n_dimensions, scale.tobytes() if scale.ndim == 2 else b"")

    def arrays(self, encoded: Any) -> dict[str, tuple[int, ...]]:
        n_dimensions, n_missing = encoded["x"].shape[1], int(np.isnan(encoded["x"]).sum())
        shapes: dict[str, tuple[int, ...]] = {} if self.shared is not None else {"shared": (n_dimensions, n_dimensions)}
        return shapes | ({"missing": (n_missing,)} if n_missing else {})

    def completed(self, encoded: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        if "missing" not in values:
            return encoded
        x = encoded["x"].copy()
        x[np.isnan(x)] = values["missing"]
        return {**encoded, "x": x}

    def log_density_of_arrays(self, values: dict[str, Any]) -> float:
        """log p(W) with respect to the measure |W|^−(D+1)/2 dW, in which all scales count alike, and apart from what cutting it off adds.

        With respect to dW a density would be highest where W is small, however little probability there is: log joints could not be compared.
        """
        if "shared" not in values:
            return 0.0
        shared = np.asarray(values["shared"])
        prior, n_dimensions = self._prior(len(shared)), len(shared)
        log_determinant = 2.0 * float(np.log(np.diagonal(np.linalg.cholesky(shared))).sum())
        return prior.log_constant + 0.5 * (n_dimensions + 2.0) * log_determinant - 0.5 * (n_dimensions + 2.0) * float((prior.inverse * shared).sum())

    def arrays_at_prior_means(self, encoded: Any) -> dict[str, Any]:
        shapes = self.arrays(encoded)
        means = {"shared": self.correlations(encoded["x"].shape[1])} if "shared" in shapes else {}
        return means | ({"missing": np.zeros(shapes["missing"])} if "missing" in shapes else {})

    def arrays_to_start_from(self, encoded: Any, vectors: Floats) -> dict[str, Any]:
        gaps = np.isnan(encoded["x"])
        return {"missing": vectors[gaps]} if gaps.any() else {}

    def arrays_from_prior(self, encoded: Any, rng: np.random.Generator) -> dict[str, Any]:
        if self.shared is not None:
            return {}
        n_dimensions = encoded["x"].shape[1]
        root = np.linalg.cholesky(self.correlations(n_dimensions) / (n_dimensions + 2.0)) @ wishart_root(np.array([n_dimensions + 2.0]), n_dimensions, rng)[0]
        return {"shared": root @ root.T}

    def arrays_redrawn(self, s: NormalInverseWishartStatistics, slots: Ints, labels: Any, encoded: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        """W and missing values from their conditionals given the partition and parameters drawn for the purpose; W as it was if the draw lies beyond the cut."""
        n_dimensions, delta, prior = s.x.shape[1], s.scale_factor, self._prior(s.x.shape[1])
        roots = precision_roots(s, slots, rng)
        side_by_side = roots.transpose(1, 0, 2).reshape(n_dimensions, -1)
        precision = (n_dimensions + 2.0) * prior.inverse + delta * (side_by_side @ side_by_side.T)
        inverse = linalg.solve_triangular(np.linalg.cholesky(precision), np.eye(n_dimensions), lower=True)
        root = inverse.T @ wishart_root(np.array([n_dimensions + 2.0 + len(slots) * s.nu]), n_dimensions, rng)[0]
        shared = root @ root.T
        drawn = {"shared": shared} if prior.lowest(shared) > _LOWEST else {}
        return drawn | self.points_redrawn(s, slots, roots, labels, encoded, rng)

    def points_redrawn(self, s: Any, slots: Ints, roots: Floats, labels: Any, encoded: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        """What is not known of the points, given the covariances from which W was drawn, and means: with others the draws would not belong together."""
        gaps = np.isnan(encoded["x"])
        if not gaps.any():
            return {}
        return {"missing": missing_given(s.x, gaps, slots, roots, means_given(s, slots, roots, rng), labels, np.ones(len(gaps)), rng)}

    def places_to_search(self, encoded: Any) -> list[dict[str, Any]]:
        """Clusters as wide as the data and much alike; tighter ones of different shapes; and very tight ones."""
        prior = self.correlations(encoded["x"].shape[1])
        return [{"shared": factor * prior, "freedom": freedom, "kappa": 0.0025} for factor, freedom in ((1.0, 30.0), (0.2, 10.0), (0.02, 30.0))]

    def arrays_ascended(self, s: NormalInverseWishartStatistics, slots: Ints) -> dict[str, Any]:
        """One step of EM: W at the mode of its conditional given the covariances' expected inverses."""
        n_dimensions, delta, prior = s.x.shape[1], s.scale_factor, self._prior(s.x.shape[1])
        roots = _inverse_factors(s, slots)
        below = (roots * np.sqrt(s.nu + s.n[slots])[:, None, None]).reshape(-1, n_dimensions)
        expected = below.T @ below
        shared = (len(slots) * s.nu + n_dimensions + 2.0) * np.linalg.inv((n_dimensions + 2.0) * prior.inverse + delta * expected)
        values, vectors = linalg.eigh(0.5 * (shared + shared.T), prior.mean)
        if values[0] < _FLOOR:
            vectors = prior.mean @ vectors
            shared = (vectors * np.maximum(values, _FLOOR)) @ vectors.T
        return {"shared": 0.5 * (shared + shared.T)}

    def log_likelihood_of_clusters(self, s: NormalInverseWishartStatistics, slots: Ints, name: str) -> Callable[[float], float]:
        """With Q the scatter and m the mean of a cluster: for κ by |δW + Q + c mmᵀ| = |δW + Q| (1 + c mᵀ(δW + Q)⁻¹m), for δ by the eigenvalues of W⁻¹Λ_n."""
        n, mean, n_dimensions, shared = s.n[slots], s.mean[slots], s.x.shape[1], s.prior_scale
        weight = getattr(s, "total", s.n)[slots]
        scatter = np.tril(s.scatter[slots])
        scatter = scatter + np.tril(scatter, -1).transpose(0, 2, 1)
        if name == "kappa":
            q, power = (mean * np.linalg.solve(s.scale_factor * shared + scatter, mean[:, :, None])[:, :, 0]).sum(axis=1), 0.5 * (s.nu + n)

            def of_kappa(kappa: float) -> float:
                return float(0.5 * n_dimensions * np.log(kappa / (kappa + weight)).sum() - power @ np.log1p(kappa * weight / (kappa + weight) * q))

            return of_kappa
        inverse = linalg.solve_triangular(s.prior_factor, np.eye(n_dimensions), lower=True)
        within = scatter + (s.kappa * weight / (s.kappa + weight))[:, None, None] * mean[:, :, None] * mean[:, None, :]
        values = np.maximum(np.linalg.eigvalsh(inverse @ within @ inverse.T), 0.0)
        steps = 0.5 * np.arange(n_dimensions)

        def of_delta(delta: float) -> float:
            nu = n_dimensions + 1.0 + delta
            gammas = gammaln(0.5 * (nu + n)[:, None] - steps).sum() - len(n) * gammaln(0.5 * nu - steps).sum()
            return float(gammas + 0.5 * len(n) * nu * n_dimensions * math.log(delta) - 0.5 * (nu + n) @ np.log(delta + values).sum(axis=1))

        return of_delta

    def log_predictive_with_gaps(self, s: Any, points: Ints, n_slots: int) -> Floats:
        out, n_dimensions = np.zeros((len(points), n_slots)), s.x.shape[1]
        patterns, which = np.unique(~np.isnan(s.x[points]), axis=0, return_inverse=True)
        log_scale = np.log(np.sqrt(np.diag(np.atleast_2d(self.scale)))) if np.ndim(self.scale) == 2 else np.full(n_dimensions, -s.log_jacobian / n_dimensions)
        for number, seen in enumerate(patterns):
            rows = np.flatnonzero(which.ravel() == number)
            for k in range(n_slots if seen.any() else 0):
                out[rows, k] = self.log_density_of_seen(s, k, s.x[points[rows]][:, seen], seen)
            out[rows] -= log_scale[seen].sum()
        return out

    def log_density_of_seen(self, s: Any, k: int, x: Floats, seen: Any) -> Floats:
        """Student t with ν_n − D + 1 degrees of freedom, centre m_n and scale (κ_n + 1)/(κ_n (ν_n − D + 1)) Λ_n, restricted to what is observed."""
        kappa, freedom = s.kappa + s.n[k], s.nu + s.n[k] - s.x.shape[1] + 1.0
        scale = (kappa + 1.0) / (kappa * freedom) * posterior_scale_of_seen(s, k, seen)
        factor, n_seen = np.linalg.cholesky(scale), len(scale)
        squares = (linalg.solve_triangular(factor, (x - s.center[seen, k]).T, lower=True) ** 2).sum(axis=0)
        constant = gammaln(0.5 * (freedom + n_seen)) - gammaln(0.5 * freedom) - 0.5 * n_seen * math.log(freedom * math.pi) - np.log(np.diag(factor)).sum()
        return np.asarray(constant - 0.5 * (freedom + n_seen) * np.log1p(squares / freedom))


def posterior_scale_of_seen(s: Any, k: int, seen: Any) -> Floats:
    """Λ_n of the columns that are observed."""
    factor = np.tril(s.factor[:, :, k])[seen]
    return np.asarray(factor @ factor.T)


def filled(x: Floats) -> Floats:
    """Points with a missing value replaced by that of the point, of at most 1,000, which is nearest in what both have observed; by 0 where none has the value."""
    donors = x[np.linspace(0, len(x) - 1, min(len(x), _DONORS)).astype(np.int64)]
    rows, x = np.flatnonzero(np.isnan(x).any(axis=1)), x.copy()
    seen, theirs = ~np.isnan(x[rows]), ~np.isnan(donors)
    own, other = np.nan_to_num(x[rows]), np.nan_to_num(donors)
    squares = (own**2) @ theirs.T - 2.0 * own @ other.T + seen @ (other**2).T
    distance = squares / np.maximum(seen.astype(np.float64) @ theirs.T, 0.5) + 1e6 * (seen.astype(np.float64) @ theirs.T == 0.0)
    for column in np.flatnonzero(~seen.all(axis=0)):
        lacking = np.flatnonzero(~seen[:, column])
        nearest = np.argmin(np.where(theirs[:, column], distance[lacking], np.inf), axis=1)
        x[rows[lacking], column] = other[nearest, column]
    return x


def precision_roots(s: Any, slots: Ints, rng: np.random.Generator) -> Floats:
    """(K, D, D): draws of R with Σ_k⁻¹ = R Rᵀ."""
    return np.asarray(_inverse_factors(s, slots).transpose(0, 2, 1) @ wishart_root(s.nu + s.n[slots], s.x.shape[1], rng))


def means_given(s: Any, slots: Ints, roots: Floats, rng: np.random.Generator) -> Floats:
    """(K, D): draws of μ_k | Σ_k ~ N(m_n, Σ_k/κ_n), with Σ_k⁻¹ = R Rᵀ."""
    weight = getattr(s, "total", s.n)[slots][:, None]
    noise = np.linalg.solve(roots.transpose(0, 2, 1), rng.standard_normal((len(slots), s.x.shape[1], 1)))[:, :, 0]
    return np.asarray((weight * s.mean[slots] / np.sqrt(s.kappa + weight) + noise) / np.sqrt(s.kappa + weight))


def missing_given(x: Floats, gaps: Any, slots: Ints, roots: Floats, means: Floats, labels: Any, weights: Floats, rng: np.random.Generator) -> Floats:
    """Missing entries from N(μ_M − P_MM⁻¹ P_MO (x_O − μ_O), P_MM⁻¹/u), P = Σ_k⁻¹ = R Rᵀ the precision of the point's cluster and u its weight."""
    x, with_gaps = x.copy(), np.flatnonzero(gaps.any(axis=1))
    for k, root, mean in zip(slots, roots, means, strict=True):
        precision = root @ root.T
        for i in with_gaps[labels[with_gaps] == k]:
            missing = gaps[i]
            factor = np.linalg.cholesky(precision[np.ix_(missing, missing)])
            shift = linalg.cho_solve((factor, True), precision[np.ix_(missing, ~missing)] @ (x[i, ~missing] - mean[~missing]))
            noise = linalg.solve_triangular(factor.T, rng.standard_normal(int(missing.sum())))
            x[i, missing] = mean[missing] - shift + noise / math.sqrt(weights[i])
    return x[gaps]  # type: ignore[no-any-return]


class _Wishart(NamedTuple):
    """The prior of W."""

    mean: Floats
    inverse: Floats
    whiten: Floats  # a matrix T with T S Tᵀ = I
    log_constant: float

    def lowest(self, shared: Floats) -> float:
        """The least of the eigenvalues of W relative to S."""
        return float(np.linalg.eigvalsh(self.whiten @ shared @ self.whiten.T)[0])


@lru_cache(maxsize=16)
def _wishart(n_dimensions: int, scale: bytes) -> _Wishart:
    """What follows from S, given by its bytes; none stands for the unit matrix."""
    matrix = np.frombuffer(scale).reshape(n_dimensions, n_dimensions) if scale else np.eye(n_dimensions)
    root, freedom = np.sqrt(np.diag(matrix)), n_dimensions + 2.0
    mean = matrix / np.outer(root, root)
    factor = np.linalg.cholesky(mean)
    whiten = linalg.solve_triangular(factor, np.eye(n_dimensions), lower=True)
    log_determinant = 2.0 * float(np.log(np.diag(factor)).sum()) + n_dimensions * math.log(2.0 / freedom)
    return _Wishart(mean, whiten.T @ whiten, whiten, -0.5 * freedom * log_determinant - float(multigammaln(0.5 * freedom, n_dimensions)))


def _inverse_factors(s: NormalInverseWishartStatistics, slots: Ints) -> Floats:
    """(K, D, D): the inverses of the Cholesky factors of Λ_n of these slots."""
    factors = np.tril(s.factor[:, :, slots].transpose(2, 0, 1))
    return np.stack([linalg.lapack.dtrtri(factor, lower=1)[0] for factor in factors])  # np.linalg.inv does not know that they are triangular


def shrunk_correlations(x: Any, mean: Floats, root: Floats) -> Floats:
    """(1 − λ) R + λ I."""
    correlations, share = shrinkage(x, mean, root)
    return np.where(np.eye(len(correlations), dtype=bool), 1.0, (1.0 - share) * correlations)


def shrinkage(x: Any, mean: Floats, root: Floats) -> tuple[Floats, float]:
    """R and λ = Σ Var(r_ij)/Σ r_ij² over pairs of columns (Schäfer & Strimmer 2005), between 10⁻⁴ and 1; a missing value counts as the mean."""
    n, n_dimensions = x.shape
    products, squares = np.zeros((n_dimensions, n_dimensions)), np.zeros((n_dimensions, n_dimensions))
    for rows in row_blocks(x):
        z = np.nan_to_num((np.asarray(x[rows], dtype=np.float64) - mean) / root)
        products += z.T @ z
        squares += (z * z).T @ (z * z)
    pairs = ~np.eye(n_dimensions, dtype=bool)
    correlations = products / n
    spread = (n / max(n - 1.0, 1.0) ** 3) * (squares - n * correlations**2)
    signal = float((correlations[pairs] ** 2).sum())
    share = 1.0 if n < 4 or signal == 0.0 else min(1.0, max(_LEAST_SHRINKAGE, float(spread[pairs].sum()) / signal))
    return correlations, share


HierarchicalNormalInverseWishart.EXAMPLES = (
    Example(HierarchicalNormalInverseWishart(0.2, 0.4, 1.5, 0.9, 0.8), [[-1.0], [-0.8], [0.1], [0.9], [1.1]]),
    Example(
        HierarchicalNormalInverseWishart([0.1, -0.2], 0.5, 3.5, [[0.8, 0.3], [0.3, 1.1]], [[0.9, 0.2], [0.2, 0.7]]),
        [[-1.0, 0.2], [-0.8, 0.0], [0.1, 1.2], [0.9, -0.4], [1.4, 0.9]],
    ),
)
