"""Matrices that stay where they are, on disk, and are read a block of rows at a time.

A NumPy file (or a memory map of one), a Zarr array and a Parquet file become `Blocks`: as much of a matrix as statistics over blocks of rows need. Files are read by
position, each block by itself, so several threads may read at once, and a memory map's pages never pile up in the process.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.lib import format as npy

from maitre.numerics.arrays import Floats, Ints

NUMBERS_TOGETHER = 1 << 15  # of a matrix in memory, looked at together: temporary arrays stay small


class Blocks(ABC):
    """A matrix of numbers, one row per point, of which `matrix[begin:end]` and `matrix[points]` read some rows as float64."""

    shape: tuple[int, int]
    ndim = 2
    names: list[Any] | None = None
    location: str  # a path
    together = 1 << 18  # numbers that are looked at together

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Floats:
        if isinstance(rows, slice):
            begin, end, step = rows.indices(len(self))
            return self.read(begin, max(begin, end))[::step]
        points = np.asarray(rows)
        points = np.flatnonzero(points) if points.dtype == bool else points.astype(np.int64)
        return self._picked(np.where(points < 0, points + len(self), points))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[:], dtype=dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_here"}

    def __setstate__(self, values: dict[str, Any]) -> None:
        vars(self).update(values, _here=_ByThread())

    @abstractmethod
    def read(self, begin: int, end: int) -> Floats:
        """Rows from `begin` to `end`."""

    def _picked(self, points: Ints) -> Floats:
        """Rows by number, read in stretches that lie close together."""
        found, order = np.empty((len(points), self.shape[1])), np.argsort(points, kind="stable")
        sorted_points = points[order]
        cuts = np.flatnonzero(np.diff(sorted_points) > _GAP) + 1
        for stretch in np.split(np.arange(len(points)), cuts) if len(points) else []:
            for part in np.array_split(stretch, -(-len(stretch) * _GAP // _ROWS_AT_ONCE)):
                if len(part):
                    first = sorted_points[part[0]]
                    found[order[part]] = self.read(first, sorted_points[part[-1]] + 1)[sorted_points[part] - first]
        return found


class _ByThread:
    """What each thread has read last. A `threading.local` would go with its thread: at the end of the program, when a reader can no longer be closed."""

    def __init__(self) -> None:
        self._places: dict[int, SimpleNamespace] = {}
        self._lock = threading.Lock()

    def __call__(self) -> SimpleNamespace:
        place = self._places.get(threading.get_ident())
        if place is None:
            with self._lock:
                alive = {thread.ident for thread in threading.enumerate()}
                place = SimpleNamespace()
                self._places = {thread: own for thread, own in self._places.items() if thread in alive} | {threading.get_ident(): place}
        return place


_GAP = 64  # rows that are rather read than skipped
_ROWS_AT_ONCE = 1 << 18
_BUFFER = 1 << 17  # bytes of a column of a Parquet file


class ArrayBlocks(Blocks):
    """The rows of an array in memory, which stays as it is."""

    together = NUMBERS_TOGETHER

    def __init__(self, array: Any) -> None:
        self.array, self.location = array.reshape(len(array), -1), ""
        self.shape = self.array.shape

    def read(self, begin: int, end: int) -> Floats:
        return np.ascontiguousarray(self.array[begin:end], dtype=np.float64)

    def _picked(self, points: Ints) -> Floats:
        return np.ascontiguousarray(self.array[points], dtype=np.float64)


class FileBlocks(Blocks):
    """Rows of numbers in a file, one after the other from `offset` on."""

    def __init__(self, path: str | os.PathLike[str], dtype: Any, shape: Sequence[int], offset: int) -> None:
        self.location, self.dtype, self.offset = os.path.abspath(path), np.dtype(dtype), offset
        self.shape = (int(shape[0]), 1 if len(shape) == 1 else int(shape[1]))

    def read(self, begin: int, end: int) -> Floats:
        width = self.shape[1]
        raw = np.fromfile(self.location, self.dtype, (end - begin) * width, offset=self.offset + begin * width * self.dtype.itemsize)
        if len(raw) < (end - begin) * width:
            raise ValueError(f"'{self.location}' ends before row {end}: it has become shorter while it was read")
        return np.asarray(raw.reshape(end - begin, width), dtype=np.float64)


class ZarrBlocks(Blocks):
    """The rows of a Zarr array; the chunks read last are kept for each thread, since reading one row of a chunk costs as much as all."""

    def __init__(self, array: Any, location: str) -> None:
        self.array, self.location = array, location
        self.shape = (int(array.shape[0]), int(array.shape[1]) if array.ndim > 1 else 1)
        self.step = int(array.chunks[0]) * max(1, NUMBERS_TOGETHER // max(1, self.shape[1]) // int(array.chunks[0]))
        self._here = _ByThread()

    def _block(self, number: int) -> Floats:
        here = self._here()
        if getattr(here, "number", -1) != number:
            values = np.asarray(self.array[number * self.step : (number + 1) * self.step], dtype=np.float64)
            here.number, here.values = number, values.reshape(len(values), self.shape[1])
        return here.values

    def read(self, begin: int, end: int) -> Floats:
        if begin >= end:
            return np.empty((0, self.shape[1]))
        first, last = begin // self.step, (end - 1) // self.step
        return np.concatenate([self._block(b)[max(0, begin - b * self.step) : end - b * self.step] for b in range(first, last + 1)])


class ParquetBlocks(Blocks):
    """The rows of a Parquet file whose columns are numbers, read batch by batch, for each thread on from the batch it read last."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.location = os.path.abspath(path)
        with pq.ParquetFile(self.location) as file:
            metadata, schema = file.metadata, file.schema_arrow
            self.starts = np.cumsum([0] + [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)])
        text = next((field.name for field in schema if not (pa.types.is_integer(field.type) or pa.types.is_floating(field.type))), None)
        if text is not None:
            raise ValueError(f"column {text!r} of '{path}' is not made of numbers: only tables of numbers can be read block by block")
        self.names = list(schema.names)
        self.shape = (int(self.starts[-1]), len(self.names))
        self._here = _ByThread()

    def read(self, begin: int, end: int) -> Floats:
        if begin >= end:
            return np.empty((0, self.shape[1]))
        here = self._here()
        last = self._batch(here, begin)
        parts = [last[begin - here.first :]]
        while here.first + len(last) < end:
            last = self._next_batch(here)
            parts.append(last)
        surplus = here.first + len(last) - end
        parts[-1] = parts[-1][: len(parts[-1]) - surplus]
        return np.concatenate(parts)

    def _batch(self, here: SimpleNamespace, row: int) -> Floats:
        """The batch of rows that this one is in; this thread's next one if that is it."""
        group = int(np.searchsorted(self.starts, row, side="right")) - 1
        if getattr(here, "first", row + 1) > row or here.first + len(here.values) < self.starts[group]:
            here.batches, here.first, here.values = self._batches(group), int(self.starts[group]), np.empty((0, self.shape[1]))
        while here.first + len(here.values) <= row:
            self._next_batch(here)
        return here.values

    def _next_batch(self, here: SimpleNamespace) -> Floats:
        found = next(here.batches, None)
        if found is None:
            raise ValueError(f"'{self.location}' ends before row {self.shape[0]}: it has become shorter while it was read")
        here.first, here.values = here.first + len(here.values), found
        if here.first + len(found) == self.shape[0]:
            here.batches.close()  # with the file and its buffers
        return here.values

    def _batches(self, group: int) -> Iterator[Floats]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.location, pre_buffer=False, buffer_size=_BUFFER) as file:
            for batch in file.iter_batches(max(1, NUMBERS_TOGETHER // self.shape[1]), range(group, file.num_row_groups), use_threads=False):
                yield np.column_stack([_numbers(column) for column in batch.columns]).astype(np.float64, copy=False)


def _numbers(column: Any) -> Any:
    """The numbers of an Arrow array; without gaps its own, for which pandas, that takes 50 MB, is not imported."""
    return np.from_dlpack(column) if column.null_count == 0 else column.to_numpy(zero_copy_only=False)


class ColumnBlocks(Blocks):
    """Some of the columns of others."""

    def __init__(self, blocks: Blocks, columns: Sequence[int]) -> None:
        self.blocks, self.columns, self.location = blocks, list(columns), blocks.location
        self.shape = (blocks.shape[0], len(self.columns))
        self.names = None if blocks.names is None else [blocks.names[c] for c in self.columns]

    def read(self, begin: int, end: int) -> Floats:
        return np.ascontiguousarray(self.blocks.read(begin, end)[:, self.columns])


class PickedBlocks(Blocks):
    """Some of the rows of others."""

    def __init__(self, blocks: Blocks, points: Ints) -> None:
        self.blocks, self.points, self.location, self.together = blocks, points, blocks.location, blocks.together
        self.shape = (len(points), blocks.shape[1])

    def read(self, begin: int, end: int) -> Floats:
        return self.blocks[self.points[begin:end]]


def open_blocks(path: str | os.PathLike[str]) -> Blocks:
    """A matrix on disk: a .npy file, a Parquet file of numbers, or a .zarr folder.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "points.npy"
    >>> np.save(file, np.arange(6.0).reshape(3, 2))
    >>> open_blocks(file)[1:3].tolist()
    [[2.0, 3.0], [4.0, 5.0]]
    """
    kind = Path(path).suffix.lower()
    if kind == ".parquet":
        return ParquetBlocks(path)
    if kind == ".zarr" or Path(path).is_dir():
        import zarr

        return _of_zarr(zarr.open_array(str(path), mode="r"), os.path.abspath(path))
    with open(path, "rb") as file:
        version = npy.read_magic(file)
        shape, fortran, dtype = npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)
        offset = file.tell()
    if fortran or dtype.kind not in "biuf" or not 1 <= len(shape) <= 2:
        raise ValueError(f"'{path}' has shape {shape} of {dtype}{', column by column' if fortran else ''}; expected rows of numbers, one after the other")
    return FileBlocks(path, dtype, shape, offset)


def blocks_of(data: Any) -> Blocks | None:
    """Data that should stay on disk: a memory map of rows, or a Zarr array; None for all others."""
    if isinstance(data, Blocks):
        return data
    if isinstance(data, np.memmap) and data.filename is not None and data.flags.c_contiguous and data.dtype.kind in "biuf" and 1 <= data.ndim <= 2:
        base = data
        while isinstance(base.base, np.memmap):
            base = base.base
        return FileBlocks(data.filename, data.dtype, data.shape, base.offset + (data.ctypes.data - base.ctypes.data))
    kind = f"{type(data).__module__}.{type(data).__name__}"
    if kind.startswith("zarr.") and hasattr(data, "chunks"):
        return _of_zarr(data, str(getattr(data, "store_path", "")).removeprefix("file://"))
    return None


def _of_zarr(array: Any, location: str) -> ZarrBlocks:
    if array.dtype.kind not in "biuf" or not 1 <= array.ndim <= 2:
        raise ValueError(f"the Zarr array has shape {array.shape} of {array.dtype}; expected rows of numbers")
    return ZarrBlocks(array, location)
