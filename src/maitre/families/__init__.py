"""Component models. A new family is one file here and one line in `REGISTRY`; its `EXAMPLES` make the tests find it."""

from maitre.families.base import ConjugateFamily, Example, Family
from maitre.families.categorical import BetaBernoulli, Categorical
from maitre.families.dirichlet_multinomial import DirichletMultinomial
from maitre.families.gamma_poisson import GammaPoisson
from maitre.families.generalized_mallows import GeneralizedMallows
from maitre.families.hierarchical import HierarchicalNormalInverseWishart
from maitre.families.known_covariance import KnownCovarianceGaussian
from maitre.families.normal_inverse_gamma import NormalInverseGamma
from maitre.families.normal_inverse_wishart import NormalInverseWishart
from maitre.families.plackett_luce import PlackettLuce
from maitre.families.product import Product
from maitre.families.student import HierarchicalStudent
from maitre.families.words import Words

REGISTRY: dict[str, type[Family]] = {
    family.__name__: family
    for family in (
        KnownCovarianceGaussian,
        NormalInverseGamma,
        NormalInverseWishart,
        HierarchicalNormalInverseWishart,
        DirichletMultinomial,
        BetaBernoulli,
        GammaPoisson,
        Categorical,
        Words,
        Product,
    )
}

LATENT: dict[str, type[Family]] = {HierarchicalStudent.__name__: HierarchicalStudent}  # with a variable for every point, without which nothing can be scored
RANKINGS: dict[str, type[Family]] = {family.__name__: family for family in (GeneralizedMallows, PlackettLuce)}  # of rankings, which have states of their own

__all__ = ["LATENT", "RANKINGS", "REGISTRY", "ConjugateFamily", "Example", "Family", *REGISTRY, *LATENT, *RANKINGS]
