"""Tables from files and to files: CSV and TSV (also compressed with gzip), Parquet, and NumPy's .npy and .npz, dense or sparse.

Reading never runs anything a file brings along (no pickles). Rows of unequal length are an error that names the line, where most readers fill the gap
in silence. Writing replaces the old file in one step: a reader sees the old table or the new one, never a half.
"""

from __future__ import annotations

import csv
import gzip
import io
import logging
import math
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, read_array_header_1_0, read_array_header_2_0, read_magic
from scipy import sparse

from maitre.data.blocks import open_blocks

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger("maitre")
SEPARATORS = {".csv": ",", ".tsv": "\t"}
READABLE = ".csv, .tsv, .csv.gz, .tsv.gz, .parquet, .npy or .npz"
WRITABLE = ".csv, .tsv, .csv.gz, .tsv.gz or .parquet"
LARGE = 2**28  # bytes from which on a file is not read into memory
_ROWS_PER_BYTE = 1000  # a sparse matrix with more of them is empty, or its shape is damaged


class Layout(NamedTuple):
    """What the first lines of a text file tell: its separator, the names of its columns, and whether they stand in its first row."""

    separator: str
    names: list[str]
    has_header: bool

    @property
    def options(self) -> dict[str, Any]:
        """The layout in the words of `pandas.read_csv`; left to itself, pandas makes the names in a header unique."""
        return {"sep": self.separator} if self.has_header else {"sep": self.separator, "header": None, "names": self.names}


def read_table(path: str | os.PathLike[str]) -> Any:
    """The table in a file: a DataFrame (text, Parquet), an array (.npy, .npz with one array) or a CSR matrix (.npz by `scipy.sparse.save_npz`).

    A text file whose first row is all numbers has no header; its columns are called column_0, column_1, …

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = file.write_text("1,2.5\\n3,4\\n")
    >>> read_table(file)
       column_0  column_1
    0         1       2.5
    1         3       4.0
    """
    file = Path(path)
    kind = _kind(file)
    _check_readable(file, kind)
    if kind == ".parquet":
        return _read_parquet(file)
    return _read_arrays(file) if kind in (".npy", ".npz") else _read_text(file)


def open_table(path: str | os.PathLike[str]) -> Any:
    """`read_table`, but large files of numbers (.npy, .parquet) and .zarr folders stay on disk and are read block by block."""
    file = Path(path)
    if file.suffix.lower() == ".zarr" and file.is_dir():
        return open_blocks(file)
    kind = _kind(file)
    _check_readable(file, kind)
    if kind in (".npy", ".parquet") and file.stat().st_size >= LARGE:
        try:
            return open_blocks(file)
        except ValueError:
            logger.info("'%s' is read into memory: it is not made of rows of numbers", file)
    return read_table(path)


def _kind(file: Path) -> str:
    """The extension in lower case, without .gz for compressed text.

    >>> _kind(Path("A.CSV.gz"))
    '.csv'
    """
    name = file.name.lower()
    suffix = Path(name).suffix
    inner = Path(name.removesuffix(".gz")).suffix
    return inner if suffix == ".gz" and inner in SEPARATORS else suffix


def _check_readable(file: Path, kind: str) -> None:
    if not file.exists():
        raise FileNotFoundError(f"there is no file '{file}'; expected a table ({READABLE}): check the path")
    if not file.is_file():
        raise ValueError(f"'{file}' is not a file but a {'directory' if file.is_dir() else 'device'}; expected a table: give the path of one {READABLE} file")
    if kind not in {*SEPARATORS, ".parquet", ".npy", ".npz"}:
        raise ValueError(f"'{file}' has the extension '{kind}'; expected {READABLE}: convert or rename the file")
    if file.stat().st_size == 0:
        raise _is_empty(file)


def _is_empty(file: Path) -> ValueError:
    return ValueError(f"'{file}' is empty; expected a table with at least one row: check how the file was written")


# Text


def _read_text(file: Path) -> pd.DataFrame:
    try:
        layout = _layout(file)
        frame = _read_numbers(file, layout)
        return _read_any(file, layout) if frame is None else frame
    except UnicodeDecodeError:
        raise ValueError(f"'{file}' is not UTF-8 text{_undecodable(file)}; expected text in UTF-8: save the file in that encoding") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"'{file}' cannot be decompressed ({_one_line(error)}); expected a whole gzip file: copy or compress it again") from None
    except MemoryError:
        raise _too_large(file) from None
    except csv.Error as error:
        raise ValueError(f"'{file}' cannot be read as text ({_one_line(error)}); expected rows of separated values: check its quotation marks") from None


def _open(file: Path) -> IO[bytes]:
    return gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb")  # type: ignore[return-value]


def _rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a text file that are not blank, each with the number of its (last) line."""
    with _open(file) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, delimiter=SEPARATORS[_kind(file)])
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                yield reader.line_num, row


def _layout(file: Path) -> Layout:
    first = [row for _, row in islice(_rows(file), 2)]
    if not first:
        raise _is_empty(file)
    if len({len(row) for row in first}) > 1:
        raise _ragged(file, None)
    has_header = not _is_data(first[0]) or _is_count(first)
    names = first[0] if has_header else [f"column_{position}" for position in range(len(first[0]))]
    return Layout(SEPARATORS[_kind(file)], names, has_header)


def _is_data(row: list[str]) -> bool:
    """Whether a first row holds numbers rather than names; it may lack some but not all of them, and an empty field is a name left out.

    >>> _is_data(["1", "-2.5e3", "NA"]), _is_data(["", "0", "1"]), _is_data(["nan"])
    (True, False, False)
    """
    missing = [field.strip().lower() in ("na", "nan") for field in row]
    return not all(missing) and all(absent or _is_number(field) for absent, field in zip(missing, row, strict=True))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def _is_count(rows: list[list[str]]) -> bool:
    """Whether 0, 1, 2, … stand above a row with decimals: the header that pandas writes for columns without names."""
    head, body = rows[0], rows[-1]
    return len(head) > 1 and head == [str(position) for position in range(len(head))] and any("." in field for field in body)


def _read_numbers(file: Path, layout: Layout) -> pd.DataFrame | None:
    """The table by the fast, multi-threaded and strict reader, if every column is numeric; of other columns it sees dates and truth values too eagerly."""
    import pandas as pd

    if len(set(layout.names)) < len(layout.names) or not all(name and name.isprintable() for name in layout.names):
        return None  # pandas has its own names for these, and the two readers do not agree on them
    try:
        frame = pd.read_csv(file, engine="pyarrow", **layout.options)
    except ValueError:  # unequal rows, or a column that turns from whole numbers to others far down: the other reader tells
        return None
    numeric = all(dtype.kind in "iuf" for dtype in frame.dtypes)
    return frame if numeric and len(frame) else None


def _read_any(file: Path, layout: Layout) -> pd.DataFrame:
    """The table by pandas' own reader, which fills up short rows: a gap in the last column has the rows counted."""
    import pandas as pd

    try:
        frame = pd.read_csv(file, engine="c", index_col=False, low_memory=False, **layout.options)
    except pd.errors.ParserError as error:
        raise _ragged(file, error) from None
    if frame.iloc[:, -1].isna().any() and _uneven(file):
        raise _ragged(file, None)
    return frame


def _uneven(file: Path) -> tuple[int, int, int] | None:
    """Line, number of fields and expected number of fields of the first row that is not as long as the first one."""
    expected = 0
    for line, row in _rows(file):
        expected = expected or len(row)
        if len(row) != expected:
            return line, len(row), expected
    return None


def _ragged(file: Path, error: Exception | None) -> ValueError:
    found = _uneven(file)
    if found is None:
        return ValueError(f"'{file}' cannot be read as a table ({_one_line(error)}); expected rows of separated values: check its quotation marks")
    line, given, expected = found
    return ValueError(
        f"line {line} of '{file}' has {given} fields; expected {expected} as in the first row: add or remove fields, or quote a separator in a text"
    )


def _undecodable(file: Path) -> str:
    with suppress(EOFError, OSError, zlib.error), _open(file) as raw:
        for number, line in enumerate(raw, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return f" (line {number}, byte 0x{line[error.start]:02x})"
    return ""


def _one_line(error: Exception | None) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# Parquet and NumPy


def _too_large(file: Path) -> ValueError:
    return ValueError(
        f"'{file}' says it holds more than there is memory for; expected a table that fits: use fewer rows or columns, or write it again if it is damaged"
    )


def _read_parquet(file: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(file, engine="pyarrow")
    except MemoryError:
        raise _too_large(file) from None
    except Exception as error:  # a damaged file brings forth errors of every kind
        raise ValueError(f"'{file}' cannot be read as Parquet ({_one_line(error)}); expected a whole Parquet file: write it again") from None


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
        raise _too_large(file) from None
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
    kind = _kind(file)
    if kind not in {*SEPARATORS, ".parquet"}:
        raise ValueError(f"'{file}' has the extension '{kind}'; a table is written as {WRITABLE}: choose one of these names")
    with replacing(file) as unfinished:
        if kind == ".parquet":
            frame.to_parquet(unfinished, engine="pyarrow", index=False)
        else:
            compression = "gzip" if file.name.lower().endswith(".gz") else None
            frame.to_csv(unfinished, sep=SEPARATORS[kind], index=False, compression=compression, lineterminator="\n")


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
