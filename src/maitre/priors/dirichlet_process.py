"""The Dirichlet process (Chinese restaurant process): V(n, K) = α^K / (α)_n↑, W(m) = Γ(m)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, logsumexp

from maitre.numerics.arrays import Floats
from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.numerics.rng import RngState, beta, gamma, uniform
from maitre.priors.base import GibbsTypePrior


@dataclass(frozen=True)
class DirichletProcess(GibbsTypePrior):
    """Dirichlet process with the given concentration: about α log(1 + n/α) clusters a priori.

    >>> import maitre as mt
    >>> mt.priors.DirichletProcess(concentration=mt.Gamma(1, 1))     # sampled (the default)
    DirichletProcess(concentration=Gamma(shape=1, rate=1))
    """

    concentration: Hyperparameter = Gamma(1.0, 1.0)

    POSITIVE = ("concentration",)

    def log_v(self, n: int, k: npt.NDArray[np.int64]) -> Floats:
        alpha = float(self.concentration)  # type: ignore[arg-type]
        return k * math.log(alpha) - (gammaln(alpha + n) - gammaln(alpha))

    def log_w(self, m: npt.NDArray[np.int64]) -> Floats:
        return np.asarray(gammaln(m), dtype=np.float64)


DirichletProcess.EXAMPLES = (DirichletProcess(1.0), DirichletProcess(0.37))


def draw_concentration(alpha: float, n: int, n_clusters: int, prior: Gamma, rng: RngState) -> float:
    """α | K, n by the auxiliary variable of Escobar & West (1995): η ~ Beta(α + 1, n), then a mixture of two Gammas."""
    log_eta = math.log(beta(alpha + 1.0, float(n), rng))
    rate = prior.rate - log_eta
    odds = (prior.shape + n_clusters - 1.0) / (n * rate)
    shape = prior.shape + n_clusters - (0.0 if uniform(rng) < odds / (1.0 + odds) else 1.0)
    return min(max(gamma(shape, rng) / rate, 1e-300), 1e300)


def _log_density_of_log_concentration(t: Any, n: int, n_clusters: int, prior: Gamma) -> Any:
    """log [V(n, K) p(α) α] at α = e^t, up to the prior's normaliser: concave in t, because −Σ_j log(e^t + j) is."""
    alpha = np.exp(t)
    return (prior.shape + n_clusters) * t - prior.rate * alpha + gammaln(alpha) - gammaln(alpha + n)


def _grid(n: int, prior: Gamma) -> Floats:
    """Points in t = log α for the trapezoid rule, which converges geometrically here: the integrand is analytic within π of the line and both tails reach e^−45."""
    low = min(-45.0 / prior.shape, 0.0) + math.log(prior.shape / prior.rate) - 10.0
    return np.arange(low, math.log((n + prior.shape + 800.0) / prior.rate), 0.1)


def integrated_log_v(n: int, counts: npt.NDArray[np.int64], prior: Gamma) -> Floats:
    """log ∫ V_α(n, K) p(α) dα for numbers of clusters K."""
    t = _grid(n, prior)
    constant = prior.shape * math.log(prior.rate) - gammaln(prior.shape) + math.log(t[1] - t[0])
    return np.array([constant + logsumexp(_log_density_of_log_concentration(t, n, int(k), prior)) for k in counts])


def draw_concentration_afresh(n: int, n_clusters: int, prior: Gamma, rng: RngState) -> float:
    """α | K, n, whatever α was before: rejection from Devroye's (1984) envelope of a log-concave density f with mode m, f(t) ≤ f(m) min(1, e^(1 − f(m)|t − m|))."""
    grid = _grid(n, prior)
    values = _log_density_of_log_concentration(grid, n, n_clusters, prior)
    best = int(np.argmax(values))
    found = minimize_scalar(
        lambda t: -_log_density_of_log_concentration(t, n, n_clusters, prior),
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]),
        method="bounded",
    )
    highest = -float(found.fun)
    height = (
        1.0 / float(np.sum(np.exp(values - highest)) * (grid[1] - grid[0])) * (1.0 - 1e-6)
    )  # f(m), with a margin for its own error on the side of more rejections
    while True:
        place = 2.0 * uniform(rng)
        distance, log_bound = (place, 0.0) if place < 1.0 else (1.0 - math.log(place - 1.0), math.log(place - 1.0))
        t = float(found.x) + (distance if uniform(rng) < 0.5 else -distance) / height
        if math.log(uniform(rng)) + log_bound <= float(_log_density_of_log_concentration(t, n, n_clusters, prior)) - highest - 1e-6:
            return math.exp(t)
