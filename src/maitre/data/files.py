"""Tables from files and to files: text with separators and JSON lines (also compressed with gzip), Parquet, and NumPy's .npy and .npz, dense or sparse.

Reading never runs anything a file brings along (no pickles). Rows of unequal length are an error that names the line, where most readers fill the gap
in silence. Writing replaces the old file in one step: a reader sees the old table or the new one, never a half.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, read_array_header_1_0, read_array_header_2_0, read_magic
from scipy import sparse

from maitre.data.blocks import open_blocks
from maitre.data.text_files import JSON_LINES, TEXTS, is_empty, kind_of, one_line, read_json_lines, read_text, too_large

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger("maitre")
STANDARD_INPUT = "-"
READABLE = ".csv, .tsv, .txt, .jsonl (each also .gz), .parquet, .npy or .npz"
WRITTEN = {".csv": ",", ".tsv": "\t"}
WRITABLE = ".csv, .tsv, .csv.gz, .tsv.gz or .parquet"
LARGE = 2**28  # bytes from which on a file is not read into memory
_ROWS_PER_BYTE = 1000  # a sparse matrix with more of them is empty, or its shape is damaged


class Reading(NamedTuple):
    """A table as read from a file, and what a reader should know about how."""

    table: Any
    notes: list[str]


def read_table(path: str | os.PathLike[str], separator: str | None = None, decimal: str | None = None) -> Any:
    """The table in a file: a DataFrame (text, JSON lines, Parquet), an array (.npy, .npz with one array) or a CSR matrix (.npz by `scipy.sparse.save_npz`).

    A text file whose first row is all numbers has no header; its columns are called column_0, column_1, … The separator of its fields and the decimal sign are
    recognised, unless they are given. "-" is the standard input.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = file.write_text("1,2.5\\n3,4\\n")
    >>> read_table(file)
       column_0  column_1
    0         1       2.5
    1         3       4.0
    """
    return read_noted(path, separator, decimal).table


def open_table(path: str | os.PathLike[str]) -> Any:
    """`read_table`, but large files of numbers (.npy, .parquet) and .zarr folders stay on disk and are read block by block."""
    return _read_file(Path(path), on_disk=True).table


def read_noted(path: str | os.PathLike[str], separator: str | None = None, decimal: str | None = None, on_disk: bool = False) -> Reading:
    """The table in a file, or in the standard input ("-"), with notes on how it was read; with `on_disk` large files of numbers stay there."""
    return _read_standard_input(separator, decimal) if os.fspath(path) == STANDARD_INPUT else _read_file(Path(path), separator, decimal, on_disk)


def _read_file(file: Path, separator: str | None = None, decimal: str | None = None, on_disk: bool = False) -> Reading:
    if on_disk and file.suffix.lower() == ".zarr" and file.is_dir():
        return Reading(open_blocks(file), [])
    kind = kind_of(file)
    _check_readable(file, kind)
    if on_disk and kind in (".npy", ".parquet") and file.stat().st_size >= LARGE:
        try:
            return Reading(open_blocks(file), [])
        except ValueError:
            logger.info("'%s' is read into memory: it is not made of rows of numbers", file)
    if kind in TEXTS:
        frame, layout = read_text(file, separator, decimal)
        return Reading(frame, layout.notes(TEXTS[kind]))
    if kind in JSON_LINES:
        return Reading(read_json_lines(file), [])
    return Reading(_read_parquet(file) if kind == ".parquet" else _read_arrays(file), [])


def _read_standard_input(separator: str | None, decimal: str | None) -> Reading:
    """A table from a pipe, of whatever kind its first bytes tell."""
    content = sys.stdin.buffer.read()
    begins = {b"PAR1": ".parquet", MAGIC_PREFIX: ".npy", b"PK\x03\x04": ".npz", b"\x1f\x8b": ".txt.gz"}
    suffix = next((kind for magic, kind in begins.items() if content.startswith(magic)), ".jsonl" if content.lstrip()[:1] == b"{" else ".txt")
    with tempfile.TemporaryDirectory(prefix="maitre-") as folder:
        file = Path(folder, f"standard input{suffix}")
        file.write_bytes(content)
        try:
            return _read_file(file, separator, decimal)
        except ValueError as error:
            raise ValueError(str(error).replace(f"'{file}'", "the standard input")) from None


def _check_readable(file: Path, kind: str) -> None:
    if not file.exists():
        raise FileNotFoundError(f"there is no file '{file}'; expected a table ({READABLE}): check the path")
    if not file.is_file():
        raise ValueError(f"'{file}' is not a file but a {'directory' if file.is_dir() else 'device'}; expected a table: give the path of one {READABLE} file")
    if kind not in {*TEXTS, *JSON_LINES, ".parquet", ".npy", ".npz"}:
        raise ValueError(f"'{file}' has the extension '{kind}'; expected {READABLE}: convert or rename the file")
    if file.stat().st_size == 0:
        raise is_empty(file)


# Parquet and NumPy


def _read_parquet(file: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(file, engine="pyarrow")
    except MemoryError:
        raise too_large(file) from None
    except Exception as error:  # a damaged file brings forth errors of every kind
        raise ValueError(f"'{file}' cannot be read as Parquet ({one_line(error)}); expected a whole Parquet file: write it again") from None


def _read_arrays(file: Path) -> Any:
    with file.open("rb") as raw:
        with _numpy_errors(file):
            if raw.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX:
                raw.seek(0)
                _check_header(raw, file.stat().st_size)
            raw.seek(0)
            loaded = np.load(raw, allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else _only_array(file, loaded)


def _check_header(raw: IO[bytes], n_bytes: int) -> None:
    """A `ValueError` if an array is said to be larger than what there is of it: nobody should ask for so much memory."""
    version = read_magic(raw)
    shape, _, dtype = (read_array_header_1_0 if version == (1, 0) else read_array_header_2_0)(raw)
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > n_bytes:
        raise ValueError("the array is cut off")


def _only_array(file: Path, archive: Any) -> Any:
    names = archive.files
    is_sparse = {"format", "shape", "data"} <= set(names)
    if len(names) != 1 and not is_sparse:
        listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise ValueError(f"'{file}' holds {len(names)} arrays ({listed or 'none'}); expected exactly one: save the table alone, e.g. with numpy.save")
    with _numpy_errors(file):
        for entry in archive.zip.infolist():
            with archive.zip.open(entry) as raw:
                _check_header(raw, entry.file_size)
        return _sparse(file) if is_sparse else archive[names[0]]


@contextmanager
def _numpy_errors(file: Path) -> Iterator[None]:
    """The many errors of an unreadable NumPy file as one line each."""
    try:
        yield
    except MemoryError:
        raise too_large(file) from None
    except Exception as error:  # a damaged file brings forth errors of every kind, from the tokenizer of its header to the matrix
        if "Object arrays" in str(error):
            raise ValueError(f"'{file}' holds Python objects; expected numbers or text, since objects could run code: save it with a plain dtype") from None
        raise ValueError(f"'{file}' cannot be read as NumPy data; expected a whole .npy or .npz file: write it again with numpy.save or save_npz") from None


def _sparse(file: Path) -> sparse.csr_matrix:
    """The sparse matrix as CSR, with its indices checked: a compiled loop would follow a wrong one out of the array."""
    matrix = sparse.load_npz(file)
    if matrix.shape[0] > _ROWS_PER_BYTE * file.stat().st_size:
        raise MemoryError(f"{matrix.shape[0]} rows")
    if matrix.dtype.kind not in "biuf":
        raise ValueError("the matrix does not hold real numbers")
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    return sparse.csr_matrix(matrix)


# Writing


def write_table(path: str | os.PathLike[str], frame: pd.DataFrame) -> None:
    """Write a DataFrame without its index as CSV, TSV (compressed if the name ends in .gz) or Parquet, in one step."""
    file = Path(path)
    kind = kind_of(file)
    if kind not in {*WRITTEN, ".parquet"}:
        raise ValueError(f"'{file}' has the extension '{kind}'; a table is written as {WRITABLE}: choose one of these names")
    with replacing(file) as unfinished:
        if kind == ".parquet":
            frame.to_parquet(unfinished, engine="pyarrow", index=False)
        else:
            compression = "gzip" if file.name.lower().endswith(".gz") else None
            frame.to_csv(unfinished, sep=WRITTEN[kind], index=False, compression=compression, lineterminator="\n")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A name in the same folder to write to; it becomes `path` when the block ends well, and is removed when it does not.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "answer.txt"
    >>> with replacing(file) as unfinished:
    ...     _ = unfinished.write_text("42")
    >>> file.read_text()
    '42'
    """
    file = Path(path)
    if not file.parent.is_dir():
        raise FileNotFoundError(f"there is no folder '{file.parent}' for '{file.name}'; expected an existing folder: create it first")
    if file.is_dir():
        raise ValueError(f"'{file}' is a directory; expected the name of a file to write: add one")
    unfinished = file.with_name(f".{secrets.token_hex(8)}.unfinished")
    try:
        yield unfinished
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)
