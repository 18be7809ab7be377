"""Data are checked once, here; kernels trust what they get. Every message says what was given, what was expected and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maitre.numerics.arrays import Floats, Ints


def dense_matrix(data: Any, missing: bool = False) -> Floats:
    """A C-ordered float64 matrix, one row per point; a one-dimensional array is one column. With `missing`, NaN is allowed (but not infinity).

    >>> dense_matrix([1, 2, 3]).shape
    (3, 1)
    """
    if sparse.issparse(data):
        raise ValueError("the data are a sparse matrix; this family takes a dense one: use data.toarray(), or DirichletMultinomial for counts")
    columns = list(getattr(data, "columns", []))
    try:
        matrix = np.array(data, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"the data are not numbers ({error}); this family takes numeric columns: use Product or family='auto' for mixed columns") from None
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise ValueError(f"the data have {matrix.ndim} dimensions; expected a table of rows and columns: reshape to (n, columns)")
    _check_size(matrix.shape)
    bad = np.isinf(matrix) if missing else ~np.isfinite(matrix)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        name = f"'{columns[column]}'" if columns else str(column)
        advice = "remove it" if np.isinf(matrix[row, column]) else "remove or fill it, or use Product, which skips missing values"
        raise ValueError(f"row {row}, column {name} is {matrix[row, column]}; expected a finite number (neither NaN nor infinity): {advice}")
    return matrix


def _check_size(shape: tuple[int, ...]) -> None:
    if shape[0] == 0:
        raise ValueError("the data have no rows (0 sample(s)); at least one point is needed")
    if shape[1] == 0:
        raise ValueError(f"the data have {shape[0]} rows and 0 feature(s) (shape={shape}) while a minimum of 1 is required: give at least one column")


def count_matrix(data: Any) -> sparse.csr_matrix:
    """A CSR matrix of non-negative whole numbers, one row per point, with sorted indices and no duplicates."""
    matrix = sparse.csr_matrix(data) if sparse.issparse(data) else sparse.csr_matrix(dense_matrix(data))
    matrix = matrix.copy()
    matrix.sum_duplicates()
    _check_size(matrix.shape)
    values = matrix.data
    if not np.all(np.isfinite(np.asarray(values, dtype=np.float64))):
        raise ValueError(_at_entry(matrix, ~np.isfinite(values), "counts must be finite"))
    if (values < 0).any():
        raise ValueError(_at_entry(matrix, values < 0, "counts must not be negative"))
    if (values != np.floor(values)).any():
        raise ValueError(_at_entry(matrix, values != np.floor(values), "counts must be whole numbers: round them, or use a Gaussian family"))
    return matrix


def _at_entry(matrix: sparse.csr_matrix, bad: Any, rule: str) -> str:
    position = int(np.flatnonzero(bad)[0])
    row = int(np.searchsorted(matrix.indptr, position, side="right")) - 1
    return f"row {row}, column {matrix.indices[position]} is {matrix.data[position]}; {rule}"


def whole_numbers(matrix: Floats, rule: str) -> Floats:
    """The matrix itself if every entry that is not NaN is a whole number ≥ 0."""
    bad = ~np.isnan(matrix) & ((matrix < 0) | (matrix != np.floor(matrix)))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"row {row}, column {column} is {matrix[row, column]:g}; {rule}")
    return matrix


def category_codes(data: Any, missing: bool = False) -> tuple[Ints, list[Any]]:
    """Codes 0, 1, … per column in the order of the sorted levels (−1 where missing), and the levels of each column."""
    import pandas as pd

    table = data if isinstance(data, pd.DataFrame) else pd.DataFrame(np.atleast_2d(np.asarray(data).T).T)
    _check_size(table.shape)
    codes = np.empty(table.shape, dtype=np.int64)
    levels = []
    for position, name in enumerate(table.columns):
        column = table[name]
        kinds = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else np.unique(column.dropna().to_numpy())
        codes[:, position] = pd.Categorical(column, categories=kinds).codes
        if not missing and (codes[:, position] < 0).any():
            row = int(np.flatnonzero(codes[:, position] < 0)[0])
            raise ValueError(f"row {row}, column '{name}' is missing; expected a category: remove or fill it, or use Product, which skips missing values")
        levels.append(list(kinds))
    return codes, levels


def column_means(matrix: Floats) -> Floats:
    """Means of the observed entries of each column; 0 for a column without any."""
    observed = ~np.isnan(matrix)
    return np.where(observed, matrix, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)


def column_variances(matrix: Floats) -> Floats:
    """Variances of the observed entries of each column; 1 for a constant column, so that a scale taken from it is usable."""
    observed = ~np.isnan(matrix)
    gaps = np.where(observed, matrix - column_means(matrix), 0.0)
    variances = (gaps**2).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    floor = (1e-10 * np.max(np.abs(np.where(observed, matrix, 0.0)), axis=0)) ** 2
    return np.where(variances > floor, variances, 1.0)
