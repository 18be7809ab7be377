"""Mixture of finite mixtures (Miller & Harrison 2018): the number of components is itself random.

V(n, K) = Σ_{k≥K} k!/(k−K)! · p(k) / (γk)_n↑,  W(m) = Γ(m + γ) / Γ(γ).  The number of components is geometric, p(k) = q(1−q)^{k−1}, k = 1, 2, …
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from maitre.numerics.arrays import Floats
from maitre.numerics.distributions import Hyperparameter
from maitre.priors.base import GibbsTypePrior

_NEGLIGIBLE = 45.0  # terms e^−45 below the largest change nothing in double precision


@dataclass(frozen=True)
class MixtureOfFiniteMixtures(GibbsTypePrior):
    """A finite but unknown number of components: geometric with success probability `geometric`; weights Dirichlet(`weight`, …).

    >>> import maitre as mt
    >>> prior = mt.priors.MixtureOfFiniteMixtures(geometric=0.1, weight=1.0)
    """

    geometric: float = 0.1
    weight: Hyperparameter = 1.0

    POSITIVE = ("weight",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.geometric < 1.0:
            raise ValueError(f"MixtureOfFiniteMixtures: geometric must lie between 0 and 1, not {self.geometric!r}")

    def _log_terms(self, n: int, k: Floats, components: Floats) -> Floats:
        gamma = float(self.weight)  # type: ignore[arg-type]
        log_p = math.log(self.geometric) + (components - 1.0) * math.log1p(-self.geometric)
        return np.asarray(gammaln(components + 1.0) - gammaln(components - k + 1.0) + log_p - gammaln(gamma * components + n) + gammaln(gamma * components))

    def _log_v(self, n: int, k: int) -> float:
        """The sum, lengthened until its last term no longer counts (terms fall after their one peak)."""
        length = 64
        while True:
            terms = self._log_terms(n, np.float64(k), np.arange(k, k + length, dtype=np.float64))  # type: ignore[arg-type]
            if terms[-1] < terms.max() - _NEGLIGIBLE and np.argmax(terms) < length - 1:
                return float(logsumexp(terms))
            length *= 2

    def log_v(self, n: int, k: npt.NDArray[np.int64]) -> Floats:
        return np.array([self._log_v(n, int(each)) for each in k])

    def log_w(self, m: npt.NDArray[np.int64]) -> Floats:
        gamma = float(self.weight)  # type: ignore[arg-type]
        return np.asarray(gammaln(m + gamma) - gammaln(gamma), dtype=np.float64)


MixtureOfFiniteMixtures.EXAMPLES = (MixtureOfFiniteMixtures(0.1, 1.0), MixtureOfFiniteMixtures(0.4, 0.6))
