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

    def log_v(self, n: int, k: npt.NDArray[np.int64]) -> Floats:
        """The sums, lengthened until the last terms no longer count (terms fall after their one peak)."""
        gamma = float(self.weight)  # type: ignore[arg-type]
        length = 64
        while True:
            unused = np.arange(length, dtype=np.float64)  # components beyond the K in use
            components = k[:, None] + unused
            log_p = math.log(self.geometric) + (components - 1.0) * math.log1p(-self.geometric)
            terms = gammaln(components + 1.0) - gammaln(unused + 1.0) + log_p - gammaln(gamma * components + n) + gammaln(gamma * components)
            if np.all(terms[:, -1] < terms.max(axis=1) - _NEGLIGIBLE):
                return np.asarray(logsumexp(terms, axis=1), dtype=np.float64)
            length *= 2

    def log_w(self, m: npt.NDArray[np.int64]) -> Floats:
        gamma = float(self.weight)  # type: ignore[arg-type]
        return np.asarray(gammaln(m + gamma) - gammaln(gamma), dtype=np.float64)


MixtureOfFiniteMixtures.EXAMPLES = (MixtureOfFiniteMixtures(0.1, 1.0), MixtureOfFiniteMixtures(0.4, 0.6))
