"""A finite symmetric Dirichlet with `components` components and total mass α: V(n, K) = k!/(k−K)! / (α)_n↑, W(m) = Γ(m + α/k) / Γ(α/k)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats
from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.numerics.factorials import log_rising
from maitre.priors.base import GibbsTypePrior


@dataclass(frozen=True)
class FiniteDirichlet(GibbsTypePrior):
    """At most `components` clusters, weights Dirichlet(α/components, …).

    >>> import maitre as mt
    >>> prior = mt.priors.FiniteDirichlet(components=10, concentration=1.0)
    """

    components: int = 100
    concentration: Hyperparameter = Gamma(1.0, 1.0)

    POSITIVE = ("concentration",)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("FiniteDirichlet: components", self.components, least=1)

    def log_v(self, n: int, k: npt.NDArray[np.int64]) -> Floats:
        alpha = float(self.concentration)  # type: ignore[arg-type]
        allowed = k <= self.components
        ways = log_rising(np.where(allowed, self.components - k, 0) + 1.0, np.where(allowed, k, 0))
        return np.where(allowed, ways - log_rising(alpha, n), -np.inf)

    def log_w(self, m: npt.NDArray[np.int64]) -> Floats:
        alpha = float(self.concentration)  # type: ignore[arg-type]
        return log_rising(alpha / self.components, m, np.log(alpha) - np.log(float(self.components)))


FiniteDirichlet.EXAMPLES = (FiniteDirichlet(3, 1.5), FiniteDirichlet(6, 0.8))
