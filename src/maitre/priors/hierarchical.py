"""The hierarchical Dirichlet process (Teh, Jordan, Beal & Blei 2006): groups of points with clusters in common.

    G_0 ~ DP(α, H),    G_m ~ DP(γ, G_0) for every group m,    θ_mi ~ G_m,    x_mi ~ F(θ_mi)

α (`top`) says how many clusters there are in all, γ (`group`) how evenly a group takes part in them: one number for all groups, or one for each (`own`).
"""

from __future__ import annotations

from dataclasses import dataclass

from maitre.numerics.arguments import truth
from maitre.numerics.distributions import Gamma, Hyperparameter, Hyperprior
from maitre.priors.base import Prior


@dataclass(frozen=True)
class HierarchicalDirichletProcess(Prior):
    """A Dirichlet process for each group around a common one. `own`: every group has a concentration of its own, with the prior `group`.

    >>> import maitre as mt
    >>> mt.priors.HierarchicalDirichletProcess(top=1.0, group=mt.Gamma(2, 1))
    HierarchicalDirichletProcess(top=1.0, group=Gamma(shape=2, rate=1), own=False)
    """

    top: Hyperparameter = Gamma(1.0, 1.0)
    group: Hyperparameter = Gamma(1.0, 1.0)
    own: bool = False

    POSITIVE = ("top", "group")

    def __post_init__(self) -> None:
        super().__post_init__()
        truth("own", self.own)
        wrong = [name for name, prior in super().hyperpriors().items() if not isinstance(prior, Gamma)]
        if wrong:
            raise ValueError(f"HierarchicalDirichletProcess: {wrong[0]} must be a number or a Gamma, such as mt.Gamma(1, 1)")
        if self.own and not isinstance(self.group, Gamma):
            raise ValueError("HierarchicalDirichletProcess: concentrations of the groups' own need a prior for them, such as group=mt.Gamma(1, 1)")

    def hyperpriors(self) -> dict[str, Hyperprior]:
        """Those that are one number each."""
        return {name: prior for name, prior in super().hyperpriors().items() if name != "group" or not self.own}
