"""The default model: a family for data of which nothing is said, chosen by the types of the columns. `mt.sample`, `mt.search`, the estimators and the command all ask here.

Numbers get full covariances with a scale of their own that is learnt (`HierarchicalNormalInverseWishart`); beyond 100 columns, where a covariance has thousands of
parameters, independent columns (`NormalInverseGamma`). Where both are possible `maitre.chains.choice` may still find that independent columns predict better. The prior is
a Dirichlet process whose concentration is sampled (`maitre.model.as_prior`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.data.rows import BlockRows, SparseRows, TableRows, as_data
from maitre.families.base import Family
from maitre.families.categorical import BetaBernoulli, Categorical
from maitre.families.dirichlet_multinomial import DirichletMultinomial
from maitre.families.hierarchical import HierarchicalNormalInverseWishart
from maitre.families.normal_inverse_gamma import NormalInverseGamma
from maitre.families.normal_inverse_wishart import NormalInverseWishart
from maitre.families.product import Product
from maitre.numerics.distributions import Gamma

_FEW_LEVELS = 50
WIDE = 100  # columns beyond which covariances are not estimated


def numbers_family(n_columns: int) -> Family:
    """The default for so many columns of numbers.

    >>> type(numbers_family(5)).__name__, type(numbers_family(500)).__name__
    ('HierarchicalNormalInverseWishart', 'NormalInverseGamma')
    """
    return HierarchicalNormalInverseWishart() if n_columns <= WIDE else independent_columns()


def independent_columns() -> Family:
    """The default where columns of numbers are taken to be independent within a cluster."""
    return with_sampled_scale(NormalInverseGamma())


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
    """Sparse matrices: DirichletMultinomial. Numbers: `numbers_family`. Tables: Product, with it for numeric columns, BetaBernoulli for columns of two truth values and
    Categorical for text and categories. Missing numbers are drawn along with
    the partition; beside other columns numbers with gaps are taken to be independent, and what is missing is skipped.

    >>> type(choose_family([[1.0, 2.0], [3.0, 4.0]])).__name__
    'HierarchicalNormalInverseWishart'
    """
    rows = as_data(data)
    if isinstance(rows, SparseRows):
        return DirichletMultinomial()
    if isinstance(rows, BlockRows):
        return numbers_family(rows.n_columns)
    if not isinstance(rows, TableRows):
        matrix = np.asarray(rows.raw)
        if matrix.dtype == bool:
            return BetaBernoulli()
        gaps = matrix.dtype.kind == "f" and bool(np.isnan(matrix).any())
        if gaps and rows.n_columns > WIDE:
            return Product([(list(range(rows.n_columns)), independent_columns())])
        return numbers_family(rows.n_columns)
    data = rows.raw
    if len(data.columns) == 0:
        raise ValueError(f"the data have {len(data)} rows and 0 columns: give at least one column")
    kinds = {name: _kind(data.iloc[:, position]) for position, name in enumerate(data.columns)}
    numbers = [name for name in data.columns if kinds[name] == "number"]
    gaps, alone = bool(data[numbers].isna().any().any()), len(numbers) == len(data.columns)
    of_numbers = independent_columns() if gaps and not alone else numbers_family(len(numbers))
    if alone and not (gaps and isinstance(of_numbers, NormalInverseGamma)):
        return of_numbers
    families = {"number": of_numbers, "truth": BetaBernoulli(), "category": Categorical()}
    groups = [([name for name in data.columns if kinds[name] == kind], family) for kind, family in families.items()]
    return Product([(names, family) for names, family in groups if names])


def _kind(column: Any) -> str:
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
        raise ValueError(f"column '{column.name}' holds dates or times: leave it out, or turn it into a number such as days since the first one")
    if pd.api.types.is_bool_dtype(column.dtype):
        return "truth"
    if pd.api.types.is_numeric_dtype(column.dtype):
        return "number"
    levels = column.nunique()
    if levels > _FEW_LEVELS and levels > 0.5 * len(column):
        raise ValueError(
            f"column '{column.name}' has {levels} different texts in {len(column)} rows, which looks like a name or an identifier: leave it out, or make it a category"
        )
    return "category"
