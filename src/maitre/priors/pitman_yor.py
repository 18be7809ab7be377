"""The Pitman–Yor process: V(n, K) = ∏_{j=1}^{K−1} (α + j d) / (α + 1)_{n−1}↑, W(m) = Γ(m − d) / Γ(1 − d)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from maitre.numerics.arrays import Floats
from maitre.numerics.distributions import Gamma, Hyperparameter, Hyperprior
from maitre.priors.base import GibbsTypePrior


@dataclass(frozen=True)
class PitmanYor(GibbsTypePrior):
    """Pitman–Yor process: the number of clusters grows like n^discount, with many small ones; a discount of 0 is the Dirichlet process.

    >>> import maitre as mt
    >>> prior = mt.priors.PitmanYor(concentration=mt.Gamma(1, 1), discount=mt.Beta(1, 3))
    """

    concentration: Hyperparameter = Gamma(1.0, 1.0)
    discount: Hyperparameter = 0.25

    def __post_init__(self) -> None:
        discount = self.discount
        if not isinstance(discount, Hyperprior) and not 0.0 <= discount < 1.0:
            raise ValueError(f"PitmanYor: discount must be at least 0 and below 1, not {discount!r}")
        if not isinstance(self.concentration, Hyperprior):
            lowest = 0.0 if isinstance(discount, Hyperprior) else -discount
            if not self.concentration > lowest:
                raise ValueError(f"PitmanYor: concentration must be above −discount ({lowest:g}), not {self.concentration!r}")

    def log_v(self, n: int, k: npt.NDArray[np.int64]) -> Floats:
        alpha, d = float(self.concentration), float(self.discount)  # type: ignore[arg-type]
        steps = np.log(alpha + d * np.arange(1, int(k.max())))
        opened = np.concatenate([[0.0], np.cumsum(steps)])
        return np.asarray(opened[k - 1] - (gammaln(alpha + n) - gammaln(alpha + 1.0)), dtype=np.float64)

    def log_w(self, m: npt.NDArray[np.int64]) -> Floats:
        d = float(self.discount)  # type: ignore[arg-type]
        return np.asarray(gammaln(m - d) - gammaln(1.0 - d), dtype=np.float64)


PitmanYor.EXAMPLES = (PitmanYor(1.0, 0.25), PitmanYor(-0.2, 0.6))
