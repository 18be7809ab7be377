"""Mixture of finite mixtures (Miller & Harrison 2018): the number of components is itself random.

V(n, K) = Σ_{k≥K} k!/(k−K)! · p(k) / (γk)_n↑,  W(m) = Γ(m + γ) / Γ(γ).  The number of components is geometric, p(k) = q(1−q)^{k−1}, k = 1, 2, …
"""

from __future__ import annotations

import functools
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

    def _log_terms(self, n: int, k: Floats, unused: Floats) -> Floats:
        """The terms of V(n, K) with K + unused components; they rise to one peak and fall."""
        gamma, components = float(self.weight), k + unused  # type: ignore[arg-type]
        log_p = math.log(self.geometric) + (components - 1.0) * math.log1p(-self.geometric)
        return np.asarray(gammaln(components + 1.0) - gammaln(unused + 1.0) + log_p - gammaln(gamma * components + n) + gammaln(gamma * components))

    def _peak(self, n: int, k: Floats) -> Floats:
        """For each K the number of unused components with the largest term, by bisection on the sign of the step to the next."""
        low, high = np.zeros_like(k), np.full_like(k, 2.0**40)
        while np.any(high - low > 1.0):
            middle = np.floor((low + high) / 2.0)
            rising = self._log_terms(n, k, middle + 1.0) > self._log_terms(n, k, middle)
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        return low

    def log_v(self, n: int, k: npt.NDArray[np.int64]) -> Floats:
        """The sums over a window around the peak, widened until what lies outside no longer counts."""
        values = np.empty(len(k))
        for chunk in np.array_split(np.arange(len(k)), max(1, len(k) // 64)):
            some = k[chunk].astype(np.float64)[:, None]
            peak, width = np.zeros_like(some), 128
            while True:
                first = np.maximum(peak - width, 0.0)
                terms = self._log_terms(n, some, first + np.arange(2 * width))
                below = terms.max(axis=1) - _NEGLIGIBLE
                if np.all(terms[:, -1] < below) and np.all((terms[:, 0] < below) | (first[:, 0] == 0.0)):
                    break
                peak = self._peak(n, some) if width == 128 else peak
                width *= 2
            values[chunk] = logsumexp(terms, axis=1)
        return values

    def v_table(self, n: int, k_max: int) -> Floats:
        return _table(self, n, k_max).copy()

    def log_w(self, m: npt.NDArray[np.int64]) -> Floats:
        gamma = float(self.weight)  # type: ignore[arg-type]
        return np.asarray(gammaln(m + gamma) - gammaln(gamma), dtype=np.float64)


MixtureOfFiniteMixtures.EXAMPLES = (MixtureOfFiniteMixtures(0.1, 1.0), MixtureOfFiniteMixtures(0.4, 0.6))


@functools.lru_cache(maxsize=16)
def _table(prior: MixtureOfFiniteMixtures, n: int, k_max: int) -> Floats:
    """The last few tables are remembered: a sum over hundreds of terms for each K, asked for again whenever a state is built."""
    return GibbsTypePrior.v_table(prior, n, k_max)
