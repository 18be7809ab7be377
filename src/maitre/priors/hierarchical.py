"""The hierarchical Dirichlet process (Teh, Jordan, Beal & Blei 2006): groups of points with clusters in common.

    G_0 ~ DP(α, H),    G_m ~ DP(γ, G_0) for every group m,    θ_mi ~ G_m,    x_mi ~ F(θ_mi)

α (`top`) says how many clusters there are in all, γ (`group`) how evenly a group takes part in them.
"""

from __future__ import annotations

from dataclasses import dataclass

from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.priors.base import Prior


@dataclass(frozen=True)
class HierarchicalDirichletProcess(Prior):
    """A Dirichlet process for each group around a common one.

    >>> import maitre as mt
    >>> mt.priors.HierarchicalDirichletProcess(top=1.0, group=mt.Gamma(2, 1))
    HierarchicalDirichletProcess(top=1.0, group=Gamma(shape=2, rate=1))
    """

    top: Hyperparameter = Gamma(1.0, 1.0)
    group: Hyperparameter = Gamma(1.0, 1.0)

    POSITIVE = ("top", "group")

    def __post_init__(self) -> None:
        super().__post_init__()
        wrong = [name for name, prior in self.hyperpriors().items() if not isinstance(prior, Gamma)]
        if wrong:
            raise ValueError(f"HierarchicalDirichletProcess: {wrong[0]} must be a number or a Gamma, such as mt.Gamma(1, 1)")
