"""The Pitman–Yor process: V(n, K) = ∏_{j=1}^{K−1} (α + j d) / (α + 1)_{n−1}↑, W(m) = Γ(m − d) / Γ(1 − d)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from maitre.numerics.arguments import number
from maitre.numerics.arrays import Floats
from maitre.numerics.distributions import Gamma, Hyperparameter, Hyperprior
from maitre.numerics.factorials import log_rising
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
        discount, lowest = self.discount, 0.0
        if not isinstance(discount, Hyperprior):
            lowest = -number("PitmanYor: discount", discount, least=0.0, below=1.0)
        if not isinstance(self.concentration, Hyperprior):
            value = number("PitmanYor: concentration", self.concentration)
            if not value > lowest:
                raise ValueError(f"PitmanYor: concentration must be above −discount ({lowest:g}), not {self.concentration!r}")

    def log_v(self, n: int, k: npt.NDArray[np.int64]) -> Floats:
        alpha, d = float(self.concentration), float(self.discount)  # type: ignore[arg-type]
        steps = np.log(alpha + d * np.arange(1, int(k.max())))
        opened = np.concatenate([[0.0], np.cumsum(steps)])
        return np.asarray(opened[k - 1] - log_rising(alpha + 1.0, n - 1), dtype=np.float64)

    def log_w(self, m: npt.NDArray[np.int64]) -> Floats:
        return log_rising(1.0 - float(self.discount), m - 1)  # type: ignore[arg-type]


PitmanYor.EXAMPLES = (PitmanYor(1.0, 0.25), PitmanYor(-0.2, 0.6))
