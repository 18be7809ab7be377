"""A finite symmetric Dirichlet with `components` components and total mass α: V(n, K) = k!/(k−K)! / (α)_n↑, W(m) = Γ(m + α/k) / Γ(α/k)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from maitre.numerics.arrays import Floats
from maitre.numerics.distributions import Gamma, Hyperparameter
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
        if int(self.components) != self.components or self.components < 1:
            raise ValueError(f"FiniteDirichlet: components must be a whole number of at least 1, not {self.components!r}")

    def log_v(self, n: int, k: npt.NDArray[np.int64]) -> Floats:
        alpha = float(self.concentration)  # type: ignore[arg-type]
        allowed = k <= self.components
        ways = gammaln(self.components + 1.0) - gammaln(np.where(allowed, self.components - k, 0) + 1.0)
        return np.where(allowed, ways - (gammaln(alpha + n) - gammaln(alpha)), -np.inf)

    def log_w(self, m: npt.NDArray[np.int64]) -> Floats:
        share = float(self.concentration) / self.components  # type: ignore[arg-type]
        return np.asarray(gammaln(m + share) - gammaln(share), dtype=np.float64)


FiniteDirichlet.EXAMPLES = (FiniteDirichlet(3, 1.5), FiniteDirichlet(6, 0.8))
