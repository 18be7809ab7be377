"""A family for data of which nothing is said: chosen by the types of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.data.rows import BlockRows, SparseRows, TableRows, as_data
from maitre.families.base import Family
from maitre.families.categorical import BetaBernoulli, Categorical
from maitre.families.dirichlet_multinomial import DirichletMultinomial
from maitre.families.normal_inverse_gamma import NormalInverseGamma
from maitre.families.product import Product

_FEW_LEVELS = 50


def choose_family(data: Any) -> Family:
    """Sparse matrices: DirichletMultinomial. Numbers without gaps: NormalInverseGamma. Tables: Product, with NormalInverseGamma for numeric columns,
    BetaBernoulli for columns of two truth values and Categorical for text and categories; missing values are skipped.

    >>> type(choose_family([[1.0, 2.0], [3.0, 4.0]])).__name__
    'NormalInverseGamma'
    """
    rows = as_data(data)
    if isinstance(rows, SparseRows):
        return DirichletMultinomial()
    if isinstance(rows, BlockRows):
        return NormalInverseGamma()
    if not isinstance(rows, TableRows):
        matrix = np.asarray(rows.raw)
        if matrix.dtype == bool:
            return BetaBernoulli()
        gaps = matrix.dtype.kind == "f" and bool(np.isnan(matrix).any())
        return Product([(list(range(rows.n_columns)), NormalInverseGamma())]) if gaps else NormalInverseGamma()
    data = rows.raw
    if len(data.columns) == 0:
        raise ValueError(f"the data have {len(data)} rows and 0 columns: give at least one column")
    kinds = {name: _kind(data.iloc[:, position]) for position, name in enumerate(data.columns)}
    if set(kinds.values()) == {"number"} and not data.isna().any().any():
        return NormalInverseGamma()
    families = {"number": NormalInverseGamma(), "truth": BetaBernoulli(), "category": Categorical()}
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
