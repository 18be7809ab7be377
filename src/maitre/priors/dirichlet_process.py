"""The Dirichlet process (Chinese restaurant process): V(n, K) = α^K / (α)_n↑, W(m) = Γ(m)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

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
