"""A family for data of which nothing is said: chosen by the types of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.data.columns import TypedRows, with_types
from maitre.data.rows import BlockRows, SparseRows, as_data
from maitre.families.base import Family
from maitre.families.categorical import BetaBernoulli, Categorical
from maitre.families.dirichlet_multinomial import DirichletMultinomial
from maitre.families.gamma_poisson import GammaPoisson
from maitre.families.normal_inverse_gamma import NormalInverseGamma
from maitre.families.product import Product


def choose_family(data: Any) -> Family:
    """Sparse matrices: DirichletMultinomial. Numbers without gaps: NormalInverseGamma. Tables: Product, with NormalInverseGamma for numbers, GammaPoisson for counts and
    Categorical for categories (BetaBernoulli, if all of them have the values 0 and 1); missing values are skipped. What a column is, `maitre.data.columns` decides.

    >>> type(choose_family([[1.0, 2.0], [3.0, 4.0]])).__name__
    'NormalInverseGamma'
    """
    rows = as_data(data)
    if isinstance(rows, SparseRows):
        return DirichletMultinomial()
    if isinstance(rows, BlockRows):
        return NormalInverseGamma()
    if rows.n_columns == 0:
        raise ValueError(f"the data have {rows.n} rows and 0 columns: give at least one column")
    rows = with_types(rows)
    if not isinstance(rows, TypedRows):
        matrix = np.asarray(rows.raw)
        if matrix.dtype == bool:
            return BetaBernoulli()
        gaps = matrix.dtype.kind == "f" and bool(np.isnan(matrix).any())
        return Product([(list(range(rows.n_columns)), NormalInverseGamma())]) if gaps else NormalInverseGamma()
    names = {kind: [column.seen_as for column in rows.columns if column.kind in kinds] for kind, kinds in _KINDS.items()}
    if not names["count"] and not names["category"] and not rows.raw.isna().any(axis=None):
        return NormalInverseGamma()
    families = {"number": NormalInverseGamma(), "count": GammaPoisson(), "category": _of_categories(rows.raw[names["category"]])}
    return Product([(names[kind], family) for kind, family in families.items() if names[kind]])


_KINDS = {"number": ("number", "log"), "count": ("count",), "category": ("category",)}


def _of_categories(table: Any) -> Family:
    """One family for all of them: each kind of family takes its time to compile."""
    levels = {value for name in table.columns for value in table[name].dropna().unique()[:3]}
    return BetaBernoulli() if levels <= {0, 1} else Categorical()
