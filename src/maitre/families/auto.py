"""The default model: a family for data of which nothing is said, chosen by the types of the columns. `mt.sample`, `mt.search`, the estimators and the command all ask here.

Numbers get full covariances with a scale of their own that is learnt (`HierarchicalNormalInverseWishart`); beyond 100 columns, where a covariance has thousands of
parameters, independent columns (`NormalInverseGamma`). Where both are possible `maitre.chains.choice` may still find that independent columns predict better. The prior is
a Dirichlet process whose concentration is sampled (`maitre.model.as_prior`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.data.columns import TypedRows, with_types
from maitre.data.rows import BlockRows, Rows, SparseRows, as_data
from maitre.families.base import Family
from maitre.families.categorical import BetaBernoulli, Categorical
from maitre.families.dirichlet_multinomial import DirichletMultinomial
from maitre.families.gamma_poisson import GammaPoisson
from maitre.families.hierarchical import HierarchicalNormalInverseWishart
from maitre.families.normal_inverse_gamma import NormalInverseGamma
from maitre.families.normal_inverse_wishart import NormalInverseWishart
from maitre.families.product import Product
from maitre.numerics.distributions import Gamma

WIDE = 100  # columns beyond which covariances are not estimated
_KAPPA = 0.0025


def numbers_family(n_columns: int) -> Family:
    """The default for so many columns of numbers.

    >>> type(numbers_family(5)).__name__, type(numbers_family(500)).__name__
    ('HierarchicalNormalInverseWishart', 'NormalInverseGamma')
    """
    return HierarchicalNormalInverseWishart() if n_columns <= WIDE else independent_columns()


def independent_columns() -> Family:
    """The default where columns of numbers are taken to be independent within a cluster; κ is the largest that full covariances may have, so that a cluster costs as much."""
    return with_sampled_scale(NormalInverseGamma(kappa=_KAPPA))


def with_sampled_scale(family: Family) -> Family:
    """A Gaussian family with a Gamma(1, 1) prior on the number that says how wide clusters are, if that stands at its default: one taken from the data is only a guess.

    >>> with_sampled_scale(NormalInverseGamma()).scale
    Gamma(shape=1.0, rate=1.0)
    """
    if isinstance(family, Product):
        return Product([(columns, with_sampled_scale(own)) for columns, own in family.groups])
    at_default = isinstance(family, (NormalInverseGamma, NormalInverseWishart)) and getattr(family, str(family.SCALE)) == 1.0
    return family.at({str(family.SCALE): Gamma(1.0, 1.0)}) if at_default else family


def with_fixed_scale(family: Family) -> Family:
    """The inverse of `with_sampled_scale`.

    >>> with_fixed_scale(independent_columns()).scale
    1.0
    """
    if isinstance(family, Product):
        return Product([(columns, with_fixed_scale(own)) for columns, own in family.groups])
    gaussian = isinstance(family, (NormalInverseGamma, NormalInverseWishart))
    return family.at({str(family.SCALE): 1.0}) if gaussian and isinstance(getattr(family, str(family.SCALE)), Gamma) else family


def choose_family(data: Any) -> Family:
    """Sparse matrices: DirichletMultinomial. Numbers: `numbers_family`; those that are missing are drawn along with the partition. Tables: Product, with it for numbers
    (independent columns, if there are gaps beside columns of other kinds: what is missing is skipped), GammaPoisson for counts and Categorical for categories
    (BetaBernoulli, if all of them have the values 0 and 1). What a column is, `maitre.data.columns` decides.

    >>> type(choose_family([[1.0, 2.0], [3.0, 4.0]])).__name__
    'HierarchicalNormalInverseWishart'
    """
    return family_of_types(with_types(as_data(data)))


def family_of_types(rows: Rows) -> Family:
    """`choose_family`, where it has been decided what each column is."""
    if isinstance(rows, SparseRows):
        return DirichletMultinomial()
    if isinstance(rows, BlockRows):
        return numbers_family(rows.n_columns)
    if rows.n_columns == 0:
        raise ValueError(f"the data have {rows.n} rows and 0 columns: give at least one column")
    if not isinstance(rows, TypedRows):
        matrix = np.asarray(rows.raw)
        if matrix.dtype == bool:
            return BetaBernoulli()
        gaps = matrix.dtype.kind == "f" and bool(np.isnan(matrix).any())
        if gaps and rows.n_columns > WIDE:
            return Product([(list(range(rows.n_columns)), independent_columns())])
        return numbers_family(rows.n_columns)
    names = {kind: [column.seen_as for column in rows.columns if column.kind in kinds] for kind, kinds in _KINDS.items()}
    gaps, alone = bool(rows.raw[names["number"]].isna().any(axis=None)), not names["count"] and not names["category"]
    of_numbers = independent_columns() if gaps and not alone else numbers_family(len(names["number"]))
    if alone and not (gaps and isinstance(of_numbers, NormalInverseGamma)):
        return of_numbers
    families = {"number": of_numbers, "count": GammaPoisson(), "category": _of_categories(rows.raw[names["category"]])}
    return Product([(names[kind], family) for kind, family in families.items() if names[kind]])


_KINDS = {"number": ("number", "log"), "count": ("count",), "category": ("category",)}


def _of_categories(table: Any) -> Family:
    """One family for all of them: each kind of family takes its time to compile."""
    levels = {value for name in table.columns for value in table[name].dropna().unique()[:3]}
    return BetaBernoulli() if levels <= {0, 1} else Categorical()
