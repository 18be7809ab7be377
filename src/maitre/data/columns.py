"""What each column of a table is: a number, the logarithm of one, a count, a category, or nothing to cluster by. Decided here, once, and kept with the data.

A Gaussian finds a narrow cluster in every value that many rows share, so few-valued whole numbers are categories or counts; a constant says nothing; a running number and a
text that no two rows share name the rows. What is decided is said in words (`Column.why`) and may be overruled column by column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from maitre.data.rows import KINDS, ArrayRows, BlockRows, Rows, TableRows, as_data
from maitre.data.texts import as_numbers, numbers_in, without_signs_of_gaps

TYPES = {"number": "numbers", "log": "logarithms", "count": "counts", "category": "categories", "out": "left out"}
_FEW = 20  # different whole numbers that are categories, if each has five rows or more
_FEW_OTHERS = 5  # the same for numbers that are not whole
_ROWS_EACH = 5
_LEAST_ROWS = 10  # with fewer nothing is decided but what the types of the columns say
_MANY_TEXTS = 50
_NAMES_OF_IDS = re.compile(
    r"^(unnamed: ?\d+|index|key|uuid|guid|(row|record|sample|subject|patient|customer|user|case)?[ _.-]?(id|nr|no|number|code))$|[ _.-]id$", re.I
)
_SKEWED = 2.0
_GLANCE = 200  # rows


@dataclass(frozen=True)
class Column:
    """What one column is taken for (a key of `TYPES`) and why; `sign` is the decimal sign of texts that are read as numbers."""

    name: Any
    kind: str
    why: str = ""
    given: bool = False
    sign: str = ""

    @property
    def used(self) -> bool:
        """Whether clusters are made by it."""
        return self.kind != "out"

    @property
    def seen_as(self) -> Any:
        """Its name in the table that a family is given."""
        return f"log({self.name})" if self.kind == "log" else self.name


class TypedRows(TableRows):
    """A table whose columns have types: `raw` holds the columns that are used, texts that are numbers as such, and logarithms where they were asked for."""

    KIND = "typed"

    def __init__(self, raw: Any, columns: Sequence[Column]) -> None:
        super().__init__(raw)
        self.columns = tuple(columns)

    @classmethod
    def of(cls, data: Any, columns: Sequence[Column]) -> Self:
        """A table as people have it, seen in this way."""
        return cls(_prepared(_frame(as_data(data), columns), columns), columns)

    def select(self, rows: Any) -> Self:
        return type(self)(self.raw.iloc[rows].reset_index(drop=True), self.columns)

    def take(self, columns: Sequence[int]) -> Self:
        used = [column for column in self.columns if column.used]
        return type(self)(self.raw.iloc[:, list(columns)], [used[position] for position in columns])

    def alike(self, new: Any) -> Self:
        rows = as_data(new)
        return rows if isinstance(rows, type(self)) else type(self).of(rows, self.columns)  # type: ignore[return-value]

    def concatenate(self, new: Any) -> Self:
        import pandas as pd

        return type(self)(pd.concat([self.raw, self.alike(new).raw], ignore_index=True), self.columns)

    def renamed(self, names: Sequence[Any]) -> Self:
        """The same table with these column names."""
        return type(self)(self.raw.set_axis(list(names), axis=1), self.columns)

    def log_jacobian(self) -> Any:
        """log |d log x / dx| of every row: what turns a density of logarithms into one of the columns themselves."""
        logs = [column.seen_as for column in self.columns if column.kind == "log"]
        return -np.nansum(self.raw[logs].to_numpy(dtype=np.float64), axis=1)

    @classmethod
    def load(cls, file: Path) -> Self:
        """The table alone; whoever stored it has the types."""
        return cls(TableRows.load(file).raw, ())


KINDS[TypedRows.KIND] = TypedRows


def with_types(data: Any, types: Mapping[Any, str] | None = None, decide: bool = True) -> Rows:
    """Rows whose columns have types: those given by name (or position), the others decided from what they hold, or all taken as they are without `decide`.

    Sparse matrices and data on disk are what they are. Arrays of numbers that need nothing stay arrays.

    >>> rows = with_types([[i**0.5, i % 2, 7.5] for i in range(30)])
    >>> [(column.name, column.kind) for column in rows.columns]
    [(0, 'number'), (1, 'category'), (2, 'out')]
    """
    rows = as_data(data)
    if isinstance(rows, TypedRows) or not isinstance(rows, (ArrayRows, TableRows)):
        _check_untyped(rows, types)
        return rows
    given = _given(rows, types)
    if (isinstance(rows, ArrayRows) and not _decidable(rows)) or not (decide or given) or rows.n_columns == 0:
        return rows
    if isinstance(rows, ArrayRows) and not given and _all_plain(np.asarray(rows.raw)):
        return rows
    frame = _frame(rows, None)
    columns = [_of_type(frame[name], given[name]) if name in given else _decided(frame[name]) if decide else _as_it_is(frame[name]) for name in frame.columns]
    columns = _some_left(frame, columns)
    if isinstance(rows, ArrayRows) and all(column.kind == "number" and not column.why for column in columns):
        return rows
    typed = TypedRows.of(frame, columns)
    typed.given = rows.given
    return typed


def columns_of(data: Any) -> tuple[Column, ...]:
    """What was decided for the columns of a model's data; empty where there was nothing to decide."""
    return data.columns if isinstance(data, TypedRows) else ()


def in_words(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """What was decided, as rows of a table for people to read: a kind, and its columns.

    >>> in_words([Column("a", "number"), Column("b", "category", "2 different values"), Column("id", "out", "a running number")])
    [('numbers', 'a'), ('categories', 'b (2 different values)'), ('left out', 'id (a running number)')]
    """
    rows = []
    for kind, title in TYPES.items():
        some = [column for column in columns if column.kind == kind]
        plain = [str(column.name) for column in some if not column.why]
        told = [f"{column.name} ({column.why})" for column in some if column.why]
        listed = [*_shortened(told, 20), *_shortened(plain, 12)] if kind != "out" else _shortened([*told, *plain], 20)
        if some:
            rows.append((title, ", ".join(listed)))
    return rows


def parse_types(texts: Sequence[str]) -> dict[str, str]:
    """Types of columns from "NAME=TYPE".

    >>> parse_types(["year=category", "a=b=log"])
    {'year': 'category', 'a=b': 'log'}
    """
    types = {}
    for text in texts:
        name, sign, kind = text.rpartition("=")
        if not sign or not name:
            raise ValueError(f"'{text}' says no type of a column; expected NAME=TYPE with one of {', '.join(TYPES)}, as in year=category")
        types[name] = kind
    return types


# Deciding


def _decided(column: Any) -> Column:
    import pandas as pd

    name, kind = column.name, column.dtype
    if pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind):
        return Column(name, "out", "dates or times; for a number give e.g. days since the first one")
    if pd.api.types.is_bool_dtype(kind):
        return Column(name, "category" if column.nunique() > 1 or len(column) < _LEAST_ROWS else "out", "" if column.nunique() > 1 else "always the same")
    if isinstance(kind, pd.CategoricalDtype):
        return _of_levels(column)
    if not pd.api.types.is_numeric_dtype(kind):
        return _of_texts(column)
    if pd.api.types.is_complex_dtype(kind):
        return Column(name, "number")
    return _of_numbers(name, column.to_numpy(dtype=np.float64, na_value=np.nan), "")


def _all_plain(matrix: Any) -> bool:
    """Whether a glance tells that all columns are numbers of which nothing is to be said: complete, of both signs, not whole, and many different ones in the first rows."""
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or len(matrix) < _GLANCE:
        return False
    first = np.sort(matrix[:_GLANCE], axis=0)
    many = (first[1:] != first[:-1]).sum(axis=0) > _FEW
    lowest, highest = matrix.min(axis=0), matrix.max(axis=0)
    return bool((many & (first != np.floor(first)).any(axis=0) & (lowest <= 0.0) & np.isfinite(lowest) & np.isfinite(highest)).all())


def _of_texts(column: Any) -> Column:
    read = numbers_in(column)
    if read is None:
        return _of_levels(without_signs_of_gaps(column))
    found = _of_numbers(column.name, read.values, read.sign)
    return found if found.kind == "out" else replace(found, why=", ".join(filter(None, (read.why, found.why))))


def _of_levels(column: Any) -> Column:
    n, levels = int(column.notna().sum()), int(column.nunique())
    if len(column) >= _LEAST_ROWS and levels <= 1:
        return Column(column.name, "out", "always the same" if n else "no values at all")
    if (n >= _LEAST_ROWS and levels == n) or (levels > _MANY_TEXTS and levels > 0.5 * n):
        return Column(column.name, "out", f"{levels:,} different texts in {n:,} rows: a name or an identifier")
    return Column(column.name, "category", f"{levels} different values" if levels else "")


def _of_numbers(name: Any, values: Any, sign: str) -> Column:
    """A number unless it is constant, names the rows, or has few different values."""
    here = values[~np.isnan(values)]
    if len(values) < _LEAST_ROWS or not np.isfinite(here).all():
        return Column(name, "number", sign=sign)
    different = np.unique(here)
    n, levels = len(here), len(different)
    whole = bool((different == np.floor(different)).all())
    if levels <= 1:
        return Column(name, "out", "always the same" if n else "no values at all", sign=sign)
    if whole and levels == n and n == len(values) and (different[-1] - different[0] == n - 1 or _NAMES_OF_IDS.search(str(name))):
        return Column(name, "out", "a running number" if different[-1] - different[0] == n - 1 else f"{n:,} different whole numbers: an identifier", sign=sign)
    if levels == 2 or (n >= _ROWS_EACH * levels and levels <= (_FEW if whole else _FEW_OTHERS)):
        return _of_few(name, here, levels, whole, sign)
    gaps = "" if sign or n == len(values) else f"{len(values) - n:,} missing, the first in row {int(np.isnan(values).argmax())}"
    return Column(name, "number", ", ".join(filter(None, (gaps, _offer_of_a_log(here)))), sign=sign)


def _of_few(name: Any, values: Any, levels: int, whole: bool, sign: str) -> Column:
    """Few different numbers: counts if they begin with 0 and spread as widely as a Poisson's, otherwise categories."""
    spread = values.var() / max(values.mean(), 1e-300)
    if whole and levels > 2 and values.min() == 0 and 0.6 < spread < 1.5:
        return Column(name, "count", f"whole numbers up to {values.max():g}", sign=sign)
    return Column(name, "category", f"{levels} different {'whole ' * whole}numbers", sign=sign)


def _offer_of_a_log(values: Any) -> str:
    """That a logarithm would make a positive column less skewed, if it would make it at least half as skewed."""
    if values.min() <= 0.0 or values.max() > 1e100:
        return ""
    skewed, less = _skewness(values), _skewness(np.log(values))
    return f"skewed, positive: the type log may suit it better, skewness {skewed:.1f} → {less:.1f}" if skewed > _SKEWED and abs(less) < 0.5 * skewed else ""


def _skewness(values: Any) -> float:
    """
    >>> round(_skewness(np.array([0.0, 0.0, 0.0, 1.0])), 3)
    1.155
    """
    gaps = values - values.mean()
    spread = float(np.sqrt(np.mean(gaps**2)))
    return float(np.mean((gaps / spread) ** 3)) if spread > 0.0 else 0.0


def _as_it_is(column: Any) -> Column:
    import pandas as pd

    is_number = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)
    return Column(column.name, "number" if is_number else "category")


def _of_type(column: Any, kind: str) -> Column:
    """The column as the user wants it; texts must then be numbers where numbers are asked for."""
    import pandas as pd

    if kind in ("category", "out") or pd.api.types.is_numeric_dtype(column.dtype):
        return Column(column.name, kind, given=True)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        raise ValueError(f"column {column.name!r} holds dates or times and is to be a {kind}: turn it into e.g. days since the first one")
    read = numbers_in(column, wanted=True)
    if read is None:
        raise ValueError(f"column {column.name!r} is to be a {kind} and has no numbers in it: leave it out, or make it a category")
    return Column(column.name, kind, read.why, True, read.sign)


def _some_left(frame: Any, columns: list[Column]) -> list[Column]:
    """At least one column to cluster by: where all would be left out by themselves, those made of numbers stay."""
    if any(column.used for column in columns):
        return columns
    import pandas as pd

    numeric = {column.name for column in columns if pd.api.types.is_numeric_dtype(frame[column.name].dtype) and frame[column.name].notna().any()}
    if not numeric or all(column.given for column in columns):
        told = "; ".join(f"{column.name!r}: {column.why or 'as you say'}" for column in columns[:5])
        raise ValueError(
            f"no column is left to cluster by ({told}): give more columns, or say what type one of them has, e.g. types={{{columns[0].name!r}: 'category'}}"
        )
    return [replace(column, kind="number", why="") if column.name in numeric and not column.given else column for column in columns]


# Giving and preparing


def _given(rows: Rows, types: Mapping[Any, str] | None) -> dict[Any, str]:
    """The types that were given, by the names of the columns; columns without names go by their positions."""
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        raise ValueError(f"types is {types!r}; expected a type for some columns, e.g. {{'year': 'category'}}")
    names = list(range(rows.n_columns)) if rows.names is None else list(rows.names)
    by_text = {str(name): name for name in names}
    found = {}
    for name, kind in types.items():
        if name not in names and str(name) not in by_text:
            raise ValueError(f"types: there is no column {name!r}; the columns are {', '.join(map(str, _shortened(list(map(str, names)), 20)))}")
        if kind not in TYPES:
            raise ValueError(f"types: column {name!r} is to be {kind!r}; expected one of {', '.join(TYPES)}")
        found[name if name in names else by_text[str(name)]] = kind
    return found


def _check_untyped(rows: Rows, types: Any) -> None:
    if types and isinstance(rows, (BlockRows, TypedRows)):
        raise ValueError("the columns of these data have no types of their own (they stay on disk, or were prepared before): read them into memory first")
    if types:
        raise ValueError("types are for columns of a table; a sparse matrix holds counts: use data.toarray()")


def _decidable(rows: ArrayRows) -> bool:
    return rows.raw.ndim <= 2 and rows.raw.dtype.kind in "iuf"


def _frame(rows: Rows, columns: Sequence[Column] | None) -> Any:
    """The rows as a table with the names of these columns."""
    import pandas as pd

    if isinstance(rows, TableRows):
        return rows.raw.reset_index(drop=True)
    matrix = rows.raw.toarray() if hasattr(rows.raw, "toarray") else np.asarray(rows.raw)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if columns is not None and matrix.shape[1] != len(columns):
        given, expected = matrix.shape[1], len(columns)
        raise ValueError(f"the new data have {given} column{'s' * (given != 1)}; the model was fitted to {expected} column{'s' * (expected != 1)}")
    return pd.DataFrame(matrix, columns=None if columns is None else [column.name for column in columns])


def _prepared(frame: Any, columns: Sequence[Column]) -> Any:
    import pandas as pd

    used = [column for column in columns if column.used]
    missing = [column.name for column in used if column.name not in frame.columns]
    if missing:
        raise ValueError(f"the new data lack the column {missing[0]!r} that the model was fitted to")
    if all(column.kind in ("number", "count") and not column.sign for column in used) and len(used) == frame.shape[1]:
        return frame[[column.name for column in used]]
    return pd.DataFrame({column.seen_as: _seen(frame[column.name], column) for column in used}, index=frame.index)


def _seen(column: Any, how: Column) -> Any:
    import pandas as pd

    is_text = not pd.api.types.is_numeric_dtype(column.dtype) and not isinstance(column.dtype, pd.CategoricalDtype)
    if how.kind == "category":
        return without_signs_of_gaps(column) if is_text else column
    values = as_numbers(column, how.sign or ".") if is_text else column
    return values if how.kind != "log" else _logarithms(values)


def _logarithms(column: Any) -> Any:
    import pandas as pd

    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(values <= 0.0)
    if len(bad):
        raise ValueError(f"row {bad[0]}, column '{column.name}' is {values[bad[0]]:g}; the type log takes numbers above 0: use the type number")
    return pd.Series(np.log(values), index=column.index)


def _shortened(words: list[str], at_most: int) -> list[str]:
    return words if len(words) <= at_most else [*words[:at_most], f"… ({len(words):,} in all)"]
