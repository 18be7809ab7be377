"""Data are checked once, here; kernels trust what they get. Every message says what was given, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from maitre.data.blocks import NUMBERS_TOGETHER, Blocks
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.linear import scale_rows, transform_rows

MOST_COUNTS = 1e11  # beyond, differences of log-gamma functions lose the fourth digit
_LEAST_SPREAD = 1e-150  # below, squares are no numbers in full precision
_RAGGED = "the rows of the data have different lengths; expected a table: give every row the same number of columns"


def dense_matrix(data: Any, missing: bool = False) -> Floats:
    """A C-ordered float64 matrix, one row per point; a one-dimensional array is one column. With `missing`, NaN is allowed (but not infinity).

    >>> dense_matrix([1, 2, 3]).shape
    (3, 1)
    """
    if sparse.issparse(data):
        raise ValueError("the data are a sparse matrix; this family takes a dense one: use data.toarray(), or DirichletMultinomial for counts")
    columns = list(getattr(data, "columns", []))
    matrix: Any = data if isinstance(data, Blocks) else _as_floats(data)
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise ValueError(f"the data have {matrix.ndim} dimensions; expected a table of rows and columns: reshape to (n, columns)")
    _check_size(matrix.shape)
    for rows in row_blocks(matrix):
        _check_finite(matrix[rows], rows.start, missing, columns)
    return matrix


def row_blocks(matrix: Any) -> Iterator[slice]:
    """Slices of rows, a few thousand numbers each: work on them needs no temporary array of the data's size."""
    step = max(1, (matrix.together if isinstance(matrix, Blocks) else NUMBERS_TOGETHER) // max(1, matrix.shape[1]))
    for begin in range(0, matrix.shape[0], step):
        yield slice(begin, min(begin + step, matrix.shape[0]))


def _check_finite(block: Floats, first: int, missing: bool, columns: list[Any]) -> None:
    bad = np.isinf(block) if missing else ~np.isfinite(block)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        name = f"'{columns[column]}'" if columns else str(column)
        advice = "remove it" if np.isinf(block[row, column]) else "remove or fill it, or use Product, which skips missing values"
        raise ValueError(f"row {first + row}, column {name} is {block[row, column]}; expected a finite number (neither NaN nor infinity): {advice}")
    if (np.abs(block) > 1e150).any():
        raise ValueError("the data have values beyond 1e150, whose squares are not numbers any more: rescale the columns")


def _as_floats(data: Any) -> Floats:
    """C-ordered float64 numbers, the array itself where it is that already; text, dates, complex numbers and ragged lists are errors rather than numbers by accident."""
    import warnings

    if np.ma.isMaskedArray(data):
        data = np.ma.filled(data.astype(np.float64), np.nan)
    if hasattr(data, "to_numpy") and hasattr(data, "dtypes"):
        data = _table_as_array(data)
    try:
        array = np.asarray(data)
    except ValueError:
        raise ValueError(_RAGGED) from None
    if array.dtype.kind in "mM":
        raise ValueError("the data are dates or times; expected numbers: turn them into e.g. days since the first one")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: the data are complex numbers; expected real ones: give real and imaginary parts as two columns")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.asarray(array, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the data are not all numbers ({error}); this family takes numeric columns: use Product or family='auto' for mixed columns") from None


def _table_as_array(table: Any) -> Any:
    """A DataFrame or Series of numbers as an array, with NaN for every kind of missing value."""
    kinds = table.dtypes if hasattr(table, "columns") else [table.dtype]
    if all(getattr(kind, "kind", "O") in "biuf" for kind in kinds):
        return table.to_numpy(dtype=np.float64, na_value=np.nan)
    return table.to_numpy()


def _check_size(shape: tuple[int, ...]) -> None:
    if shape[0] == 0:
        raise ValueError("the data have no rows (0 sample(s)); at least one point is needed")
    if shape[1] == 0:
        raise ValueError(f"the data have {shape[0]} rows and 0 feature(s) (shape={shape}) while a minimum of 1 is required: give at least one column")


def count_matrix(data: Any) -> sparse.csr_matrix:
    """A CSR matrix of non-negative whole numbers, one row per point, with sorted indices and no duplicates."""
    if sparse.issparse(data) and data.dtype.kind == "c":
        raise ValueError("Complex data not supported: counts must be whole numbers")
    matrix = _sound_csr(data) if sparse.issparse(data) else sparse.csr_matrix(dense_matrix(data))
    matrix.sum_duplicates()
    _check_size(matrix.shape)
    values = matrix.data
    if not np.all(np.isfinite(values)):
        raise ValueError(_at_entry(matrix, ~np.isfinite(values), "counts must be finite"))
    if (values < 0).any():
        raise ValueError(_at_entry(matrix, values < 0, "counts must not be negative"))
    if (values != np.floor(values)).any():
        raise ValueError(_at_entry(matrix, values != np.floor(values), "counts must be whole numbers: round them, or use a Gaussian family"))
    _check_total(float(values.sum()))
    return matrix


def _check_total(total: float) -> None:
    if total > MOST_COUNTS:
        raise ValueError(
            f"the counts add up to {total:.3g}; beyond {MOST_COUNTS:g} their probabilities are lost in rounding: count in larger units, or use a Gaussian family"
        )


def _sound_csr(data: Any) -> sparse.csr_matrix:
    """A copy in CSR form, of a matrix whose indices stay within its shape."""
    if len(data.shape) != 2:
        raise ValueError(f"the sparse data have {len(data.shape)} dimensions; expected a matrix of rows and columns")
    try:
        if data.format in ("csr", "csc", "bsr"):
            data = type(data)((data.data.astype(np.float64), data.indices.copy(), data.indptr.copy()), shape=data.shape)
            data.check_format(full_check=True)
        elif data.format == "coo" and data.nnz:
            for indices, size in zip((data.row, data.col), data.shape, strict=True):
                if indices.min() < 0 or indices.max() >= size:
                    raise ValueError(f"an index of {indices.max() if indices.max() >= size else indices.min()} in a dimension of size {size}")
        return sparse.csr_matrix(data.astype(np.float64))
    except (ValueError, IndexError, OverflowError) as error:
        raise ValueError(
            f"the sparse matrix is damaged ({error}): its indices must be at least 0 and within its shape of {data.shape}; build it anew"
        ) from None


def _at_entry(matrix: sparse.csr_matrix, bad: Any, rule: str) -> str:
    position = int(np.flatnonzero(bad)[0])
    row = int(np.searchsorted(matrix.indptr, position, side="right")) - 1
    return f"row {row}, column {matrix.indices[position]} is {matrix.data[position]}; {rule}"


def whole_numbers(matrix: Floats, rule: str) -> Floats:
    """The matrix itself if every entry that is not NaN is a whole number ≥ 0."""
    total = 0.0
    for rows in row_blocks(matrix):
        block = matrix[rows]
        bad = (block < 0) | (~np.isnan(block) & (block != np.floor(block)))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(f"row {rows.start + row}, column {column} is {block[row, column]:g}; {rule}")
        total += float(np.nansum(block))
    _check_total(total)
    return matrix


def category_codes(data: Any, missing: bool = False, levels: Any = None) -> tuple[Ints, list[Any]]:
    """Codes 0, 1, … per column in the order of the sorted levels (−1 where missing), and the levels of each column.

    With `levels` (one list per column) these are used, and any other value counts as missing.
    """
    import pandas as pd

    if sparse.issparse(data):
        raise ValueError("the data are a sparse matrix; Categorical takes a dense table of categories: use data.toarray()")
    if isinstance(data, pd.Series):
        data = data.to_frame()
    table = data if isinstance(data, pd.DataFrame) else pd.DataFrame(_as_objects(data)).infer_objects()
    _check_size(table.shape)
    if levels is not None and len(levels) != table.shape[1]:
        raise ValueError(f"the data have {table.shape[1]} columns of categories; the model was fitted to {len(levels)}")
    codes = np.empty(table.shape, dtype=np.int64)
    found = []
    for position, name in enumerate(table.columns):
        column = table.iloc[:, position]
        kinds = (
            list(levels[position])
            if levels is not None
            else list(column.cat.categories)
            if isinstance(column.dtype, pd.CategoricalDtype)
            else _sorted_levels(column.dropna().unique())
        )
        codes[:, position] = pd.Index(kinds, dtype=object).get_indexer(column.astype(object))
        if not missing and (codes[:, position] < 0).any():
            row = int(np.flatnonzero(codes[:, position] < 0)[0])
            fault = "is missing; expected a category" if pd.isna(column.iloc[row]) else f"is {column.iloc[row]}; expected a category known from the fit"
            raise ValueError(f"row {row}, column '{name}' {fault}: remove or fill it, or use Product, which skips missing values")
        found.append(kinds)
    return codes, found


def _as_objects(data: Any) -> Any:
    """An array of one or two dimensions; lists keep their entries as they are, so that a missing value does not become the text 'nan'."""
    array = data if isinstance(data, np.ndarray) else np.array(data, dtype=object)
    return array[:, None] if array.ndim == 1 else array


def _sorted_levels(levels: Any) -> list[Any]:
    values = list(levels)
    try:
        return sorted(values)
    except TypeError:  # numbers and texts in one column
        return sorted(values, key=lambda value: (type(value).__name__, str(value)))


def within_range(z: Floats) -> Floats:
    """The data in a model's own units, if their squares and products are numbers."""
    check_range(np.nanmax(np.abs(z), initial=0.0))
    return z


def check_range(largest: float) -> None:
    """A `ValueError` if squares and products of numbers of this size are none."""
    if largest > 1e100:
        raise ValueError("in units of the model's scale the data exceed 1e100: rescale the columns, or choose a wider covariance, scale or rate")


class Units:
    """A model's own units: (x − mean) @ transform row by row, so that a row's numbers do not depend on the others."""

    def __init__(self, mean: Floats, transform: Floats) -> None:
        scale = np.diag(transform).copy()
        diagonal = np.array_equal(transform, np.diag(scale))
        self.mean, self.by, self.change = mean, scale if diagonal else np.ascontiguousarray(transform), scale_rows if diagonal else transform_rows

    def of(self, x: Any) -> Floats:
        """The rows of a matrix, or of one that is read block by block."""
        z = np.empty(x.shape)
        for rows in row_blocks(x) if isinstance(x, Blocks) else [slice(None)]:
            check_range(self.change(x[rows], self.mean, self.by, z[rows]))
        return z


def _columns(matrix: Floats) -> Iterator[Floats]:
    """The columns of a few rows at a time, each in one piece: sums along them are several times as fast as across."""
    for rows in row_blocks(matrix):
        yield np.ascontiguousarray(matrix[rows].T)


def _observed_sums(columns: Floats) -> tuple[Floats, Floats]:
    """Sums of the observed entries of each column, and how many there are."""
    sums, counts = columns.sum(axis=1), np.full(len(columns), float(columns.shape[1]))
    if np.isnan(sums).any():
        sums, counts = np.nansum(columns, axis=1), np.count_nonzero(~np.isnan(columns), axis=1).astype(np.float64)
    return sums, counts


def column_means(matrix: Floats) -> Floats:
    """Means of the observed entries of each column; 0 for a column without any."""
    total, count = np.zeros(matrix.shape[1]), np.zeros(matrix.shape[1])
    for columns in _columns(matrix):
        sums, counts = _observed_sums(columns)
        total, count = total + sums, count + counts
    return total / np.maximum(count, 1)


def column_variances(matrix: Floats) -> Floats:
    """Variances of the observed entries of each column; 1 for a constant column, so that a scale taken from it is usable."""
    means, total = column_means(matrix), np.zeros(matrix.shape[1])
    count, largest, reach = np.zeros(matrix.shape[1]), np.zeros(matrix.shape[1]), np.zeros(matrix.shape[1])
    for columns in _columns(matrix):
        gaps = np.abs(columns - means[:, None])
        squares, counts = _observed_sums(gaps * gaps)
        total, count = total + squares, count + counts
        reach = np.maximum(reach, np.fmax.reduce(gaps, axis=1, initial=0.0))
        largest = np.maximum(largest, np.fmax.reduce(np.abs(columns), axis=1, initial=0.0))
    variances = total / np.maximum(count, 1)
    rounding = np.sqrt(len(matrix)) * np.finfo(float).eps * largest
    tiny = (reach > 2.0 * rounding) & (reach < _LEAST_SPREAD)
    if tiny.any():
        column = int(np.flatnonzero(tiny)[0])
        raise ValueError(
            f"the values of column {column} differ by {reach[column]:.3g} at most, whose square is no number in full precision: rescale the column"
        )
    return np.where(variances > 4.0 * rounding**2, variances, 1.0)
