"""What comes in, as one type: points as rows, whatever they are made of. `as_data` is the door; nothing behind it asks again what kind of thing the user gave.

A new kind of input (ragged rankings, groups, blocks of a file) is a class here with one line in `KINDS`.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from maitre.data.blocks import ColumnBlocks, blocks_of, open_blocks
from maitre.data.files import open_table

_RAGGED = "the rows of the data have different lengths; expected a table: give every row the same number of columns"
_BLOCK = 2**18  # rows that are read or hashed at once


class Rows(ABC):
    """Points as rows. `raw` is what a family's `validate` is given."""

    KIND: ClassVar[str]
    given: Any = None  # what the user gave, without its rows, if answers are to be tables of that kind (Polars)

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    @property
    @abstractmethod
    def n(self) -> int:
        """How many points there are."""

    @property
    def names(self) -> list[Any] | None:
        """The names of the columns, if they have any."""
        return None

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """How many columns there are."""

    @abstractmethod
    def select(self, rows: Any) -> Self:
        """Some of the rows, by position."""

    @abstractmethod
    def take(self, columns: Sequence[int]) -> Self:
        """Some of the columns, by position."""

    @abstractmethod
    def column(self, position: int) -> Any:
        """One column as an array."""

    @abstractmethod
    def alike(self, new: Any) -> Self:
        """New rows in the form of these, with the same columns; a `ValueError` where that cannot be."""

    @abstractmethod
    def concatenate(self, new: Any) -> Self:
        """These rows above new ones."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of all values, to know the data again."""

    @abstractmethod
    def save(self, folder: Path) -> str:
        """Write the data to a folder; returns the file's name."""

    @classmethod
    @abstractmethod
    def load(cls, file: Path) -> Self:
        """Data that `save` wrote."""

    def positions(self, columns: Sequence[Any]) -> list[int]:
        """The positions of columns given by name, or by position where there are no names."""
        names = self.names
        if names is None:
            bad = [c for c in columns if isinstance(c, bool) or not (isinstance(c, (int, np.integer)) and -self.n_columns <= c < self.n_columns)]
            if bad:
                raise ValueError(
                    f"column {bad[0]!r} is not a position in an array with {self.n_columns} columns: give positions from 0, or a pandas DataFrame with names"
                )
            return [int(c) for c in columns]
        unknown = [name for name in columns if name not in names]
        if unknown:
            raise ValueError(f"the table has no column {unknown[0]!r}; it has {', '.join(map(repr, names))}")
        return [names.index(name) for name in columns]

    @property
    def numbers(self) -> Any:
        """The part of the data that a scatter plot or a mean can show, or None."""
        return None

    def frame(self) -> Any:
        """The data as a table for people to read, or None."""
        return None


class ArrayRows(Rows):
    """An array of numbers or truth values."""

    KIND = "array"

    @property
    def n(self) -> int:
        return int(self.raw.shape[0]) if self.raw.ndim else 1

    @property
    def n_columns(self) -> int:
        return int(self.raw.shape[1]) if self.raw.ndim > 1 else 1

    def select(self, rows: Any) -> Self:
        return type(self)(self.raw[rows])

    def _matrix(self) -> Any:
        return self.raw[:, None] if self.raw.ndim == 1 else self.raw

    def take(self, columns: Sequence[int]) -> Self:
        return type(self)(self._matrix()[:, list(columns)])

    def column(self, position: int) -> Any:
        return self._matrix()[:, position]

    def alike(self, new: Any) -> Self:
        more = as_data(new).raw
        more = more.toarray() if sparse.issparse(more) else np.asarray(more)
        more = more[:, None] if more.ndim == 1 and self.raw.ndim == 2 else more
        old = self._matrix() if more.ndim == 2 else self.raw
        if old.shape[1:] != more.shape[1:]:
            raise ValueError(f"the new data have {_counted(more.shape)}; the model was fitted to {_counted(old.shape)}")
        return type(self)(more)

    def concatenate(self, new: Any) -> Self:
        more = self.alike(new).raw
        return type(self)(np.concatenate([self._matrix() if more.ndim == 2 else self.raw, more]))

    def fingerprint(self) -> str:
        return _digest(self.KIND, self.raw)

    def save(self, folder: Path) -> str:
        np.save(folder / "data.npy", np.asarray(self.raw), allow_pickle=False)
        return "data.npy"

    @classmethod
    def load(cls, file: Path) -> Self:
        return cls(np.load(file, allow_pickle=False))

    @property
    def numbers(self) -> Any:
        return self.raw if self.raw.dtype.kind in "iuf" else None

    def frame(self) -> Any:
        import pandas as pd

        return pd.DataFrame(self.raw.reshape(self.n, -1)).add_prefix("column ")


class BlockRows(Rows):
    """A matrix on disk, read block by block. A stored run keeps its path instead of a copy."""

    KIND = "blocks"

    @property
    def n(self) -> int:
        return int(self.raw.shape[0])

    @property
    def n_columns(self) -> int:
        return int(self.raw.shape[1])

    @property
    def names(self) -> list[Any] | None:
        return self.raw.names  # type: ignore[no-any-return]

    def in_memory(self, rows: Any = slice(None)) -> ArrayRows | TableRows:
        """Some or all of the rows, read."""
        values = self.raw[rows]
        if self.names is None:
            return ArrayRows(values)
        import pandas as pd

        return TableRows(pd.DataFrame(values, columns=self.names))

    def select(self, rows: Any) -> Any:
        return self.in_memory(rows)

    def take(self, columns: Sequence[int]) -> Self:
        return type(self)(ColumnBlocks(self.raw, columns))

    def column(self, position: int) -> Any:
        return np.concatenate([self.raw[begin : begin + _BLOCK][:, position] for begin in range(0, self.n, _BLOCK)])

    def alike(self, new: Any) -> Any:
        return new if isinstance(new, BlockRows) else self.in_memory(slice(1)).alike(new)

    def concatenate(self, new: Any) -> Any:
        return self.in_memory().concatenate(new)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.KIND} {self.raw.shape} {self.names!r}".encode())
        for begin in range(0, self.n, _BLOCK):
            digest.update(self.raw[begin : begin + _BLOCK].data)
        return digest.hexdigest()

    def save(self, folder: Path) -> str:
        columns = self.raw.columns if isinstance(self.raw, ColumnBlocks) else None
        (folder / "data.json").write_text(json.dumps({"path": self.raw.location, "columns": columns}))
        return "data.json"

    @classmethod
    def load(cls, file: Path) -> Self:
        source = json.loads(file.read_text())
        try:
            blocks = open_blocks(source["path"])
        except OSError:
            raise ValueError(f"the data of this run are in {source['path']!r}, which cannot be read: put the file back, or give the data yourself") from None
        return cls(blocks if source["columns"] is None else ColumnBlocks(blocks, source["columns"]))


class SparseRows(Rows):
    """A sparse matrix."""

    KIND = "sparse"

    @property
    def n(self) -> int:
        return int(self.raw.shape[0])

    @property
    def n_columns(self) -> int:
        return int(self.raw.shape[1])

    def select(self, rows: Any) -> Self:
        return type(self)(sparse.csr_matrix(self.raw)[rows])

    def take(self, columns: Sequence[int]) -> Self:
        return type(self)(sparse.csr_matrix(self.raw)[:, list(columns)])

    def column(self, position: int) -> Any:
        return sparse.csr_matrix(self.raw)[:, [position]].toarray().ravel()

    def alike(self, new: Any) -> Self:
        more = as_data(new).raw
        more = more if sparse.issparse(more) else sparse.csr_matrix(np.atleast_2d(more))
        if more.shape[1] != self.n_columns:
            raise ValueError(f"the new data have {_counted(more.shape)}; the model was fitted to {_counted(self.raw.shape)}")
        return type(self)(more)

    def concatenate(self, new: Any) -> Self:
        return type(self)(sparse.vstack([self.raw, self.alike(new).raw], format="csr"))

    def fingerprint(self) -> str:
        matrix = sparse.csr_matrix(self.raw)
        return _digest(self.KIND, np.asarray(matrix.shape), matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)

    def save(self, folder: Path) -> str:
        sparse.save_npz(folder / "data.npz", sparse.csr_matrix(self.raw))
        return "data.npz"

    @classmethod
    def load(cls, file: Path) -> Self:
        return cls(sparse.csr_matrix(sparse.load_npz(file)))


class TableRows(Rows):
    """A table (DataFrame) with named columns."""

    KIND = "table"

    @property
    def n(self) -> int:
        return len(self.raw)

    @property
    def n_columns(self) -> int:
        return int(self.raw.shape[1])

    @property
    def names(self) -> list[Any]:
        return list(self.raw.columns)

    def select(self, rows: Any) -> Self:
        return type(self)(self.raw.iloc[rows].reset_index(drop=True))

    def take(self, columns: Sequence[int]) -> Self:
        return type(self)(self.raw.iloc[:, list(columns)])

    def column(self, position: int) -> Any:
        return self.raw.iloc[:, position].to_numpy()

    def alike(self, new: Any) -> Self:
        import pandas as pd

        rows = as_data(new)
        frame = rows.raw if isinstance(rows, TableRows) else pd.DataFrame(rows.raw.toarray() if sparse.issparse(rows.raw) else rows.raw)
        if not (isinstance(new, Rows) or hasattr(new, "columns")):
            if frame.shape[1] != self.n_columns:
                raise ValueError(f"the new data have {_counted(frame.shape)}; the model was fitted to {_counted(self.raw.shape)}")
            frame = frame.set_axis(self.names, axis=1)
        missing = [name for name in self.names if name not in frame.columns]
        if missing:
            raise ValueError(f"the new data lack the column {missing[0]!r} that the model was fitted to")
        return type(self)(frame[self.names].reset_index(drop=True))

    def concatenate(self, new: Any) -> Self:
        import pandas as pd

        return type(self)(pd.concat([self.raw, self.alike(new).raw], ignore_index=True))

    def fingerprint(self) -> str:
        import pandas as pd

        hashes = pd.util.hash_pandas_object(self.raw, index=False).to_numpy()
        return _digest(f"{self.KIND} {self.names!r} {[str(kind) for kind in self.raw.dtypes]!r}", hashes)

    def save(self, folder: Path) -> str:
        """Columns are numbered in the file: names may be anything; the run's configuration has them."""
        import pyarrow as pa

        try:
            self.raw.set_axis([str(position) for position in range(self.n_columns)], axis=1).reset_index(drop=True).to_parquet(folder / "data.parquet")
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise ValueError(
                f"the table cannot be stored ({' '.join(str(error).split())}): give every column one type, or leave the data out with store_data=False"
            ) from None
        return "data.parquet"

    @classmethod
    def load(cls, file: Path) -> Self:
        import pandas as pd

        return cls(pd.read_parquet(file))

    def renamed(self, names: Sequence[Any]) -> TableRows:
        """The same table with these column names."""
        return TableRows(self.raw.set_axis(list(names), axis=1))

    @property
    def numbers(self) -> Any:
        numbers = self.raw.select_dtypes("number")
        return numbers.astype(np.float64) if numbers.shape[1] else None

    def frame(self) -> Any:
        return self.raw


KINDS: dict[str, type[Rows]] = {kind.KIND: kind for kind in (ArrayRows, BlockRows, SparseRows, TableRows)}


def as_data(data: Any) -> Rows:
    """What a user may give, as rows: a table (DataFrame), a sparse matrix, an array of numbers or truth values, or the path of a file with one of these.

    Memory maps, Zarr arrays, `maitre.data.blocks.open_blocks(path)` and large files of numbers stay on disk. Lists and arrays with text in them become tables, so that numbers beside text stay numbers. A one-dimensional array is one column.

    >>> as_data([["a", 1.0], ["b", 2.5]]).raw.dtypes.tolist()[1]
    dtype('float64')
    """
    if isinstance(data, Rows):
        return data
    blocks = blocks_of(data)
    if blocks is not None:
        return BlockRows(blocks)
    if sparse.issparse(data):  # first: a matrix in the form of a dictionary of keys is a dictionary
        return SparseRows(data)
    if isinstance(data, (str, os.PathLike)):
        return as_data(open_table(data))
    if data is None or isinstance(data, (bytes, dict)):
        raise ValueError(f"the data are {type(data).__name__}; expected an array, a table (DataFrame), a sparse matrix or a file with one row per point")
    if hasattr(data, "to_pandas"):
        table = as_data(data.to_pandas())
        table.given = data[:0] if hasattr(data, "height") else None
        return table
    if hasattr(data, "collect") and hasattr(data, "collect_schema"):  # a lazy frame
        return as_data(data.collect())
    if hasattr(data, "columns") or hasattr(data, "to_frame"):
        return _table(data if hasattr(data, "columns") else data.to_frame())
    if np.ma.isMaskedArray(data):
        return ArrayRows(np.ma.filled(data.astype(np.float64), np.nan))
    try:
        array = np.asarray(data)
    except ValueError:
        raise ValueError(_RAGGED) from None
    if array.ndim == 0:
        raise ValueError(f"the data are {type(data).__name__}; expected an array, a table (DataFrame) or a sparse matrix with one row per point")
    if array.dtype.kind not in "OUS" or array.ndim > 2:
        return ArrayRows(array)
    import pandas as pd

    rows = [row if isinstance(row, (list, tuple, np.ndarray)) else [row] for row in (data if isinstance(data, (list, tuple)) else array.tolist())]
    if len({len(row) for row in rows}) > 1:
        raise ValueError(_RAGGED)
    return _table(pd.DataFrame(rows).infer_objects())


def _table(frame: Any) -> TableRows:
    names = list(frame.columns)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two columns are named {twice!r}: give every column a name of its own")
    return TableRows(frame)


def _counted(shape: tuple[int, ...]) -> str:
    columns = shape[1] if len(shape) > 1 else 1
    return f"{columns} column{'s' * (columns != 1)}"


def _digest(head: str, *arrays: Any) -> str:
    digest = hashlib.sha256(head.encode())
    for array in arrays:
        values = np.asarray(array)
        digest.update(f"{values.dtype.str}{values.shape}".encode())
        for start in range(0, len(values) if values.ndim else 0, _BLOCK):
            digest.update(np.ascontiguousarray(values[start : start + _BLOCK]).data)
    return digest.hexdigest()
