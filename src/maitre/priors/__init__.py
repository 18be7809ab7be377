"""Priors over partitions. A number is fixed; `mt.Gamma(shape, rate)` (for a discount `mt.Beta(a, b)`) is sampled."""

from maitre.priors import decays
from maitre.priors.base import GibbsTypePrior, Prior
from maitre.priors.dirichlet_process import DirichletProcess
from maitre.priors.distance_dependent import DistanceDependent
from maitre.priors.finite_dirichlet import FiniteDirichlet
from maitre.priors.hierarchical import HierarchicalDirichletProcess
from maitre.priors.mixture_of_finite_mixtures import MixtureOfFiniteMixtures
from maitre.priors.pitman_yor import PitmanYor

REGISTRY: dict[str, type[GibbsTypePrior]] = {prior.__name__: prior for prior in (DirichletProcess, PitmanYor, FiniteDirichlet, MixtureOfFiniteMixtures)}

__all__ = [
    "REGISTRY",
    "DirichletProcess",
    "DistanceDependent",
    "FiniteDirichlet",
    "GibbsTypePrior",
    "HierarchicalDirichletProcess",
    "MixtureOfFiniteMixtures",
    "PitmanYor",
    "Prior",
    "decays",
]
