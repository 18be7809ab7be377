"""Tables in text files: fields between separators, and JSON lines. Separator, decimal sign and encoding are recognised from the first lines, and said.

Rows of unequal length are an error that names the line, where most readers fill the gap in silence.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from maitre.data.texts import SIGNS_OF_GAPS

if TYPE_CHECKING:
    import pandas as pd

TEXTS = {".csv": ",", ".tsv": "\t", ".txt": ",", ".dat": ",", ".data": ","}  # and what separates fields if nothing tells
JSON_LINES = (".jsonl", ".ndjson", ".json")
WHITE_SPACE = " "  # any amount of it
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", WHITE_SPACE: "white space"}
_LOOKED_AT = 100  # lines
_DECIMAL_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+(e[-+]?\d+)?", re.I)
_DECIMAL_POINT = re.compile(r"[-+]?\d*\.\d+(e[-+]?\d+)?", re.I)
_LEADING_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: "utf-8-sig"}


class Layout(NamedTuple):
    """What the first lines of a text file tell: encoding, separator, decimal sign, the names of its columns, and whether they stand in its first row."""

    encoding: str
    separator: str
    decimal: str
    names: list[str]
    has_header: bool

    @property
    def options(self) -> dict[str, Any]:
        """The layout in the words of `pandas.read_csv`; left to itself, pandas makes the names in a header unique."""
        options: dict[str, Any] = {"sep": r"\s+" if self.separator == WHITE_SPACE else self.separator, "decimal": self.decimal, "encoding": self.encoding}
        return options if self.has_header else options | {"header": None, "names": self.names}

    def notes(self, usual: str) -> list[str]:
        """What is not as in most files."""
        notes = [] if self.separator == usual else [f"fields separated by {_NAMES.get(self.separator, repr(self.separator))}"]
        notes += ["decimal commas"] if self.decimal == "," else []
        notes += ["encoded in UTF-16"] if "16" in self.encoding else []
        notes += [] if self.has_header else ["no names in the first row"]
        return [", ".join(notes)] if notes else []


def kind_of(file: Path) -> str:
    """The extension in lower case, without .gz for compressed text.

    >>> kind_of(Path("A.CSV.gz"))
    '.csv'
    """
    name = file.name.lower()
    suffix = Path(name).suffix
    inner = Path(name.removesuffix(".gz")).suffix
    return inner if suffix == ".gz" and inner in (*TEXTS, *JSON_LINES) else suffix


def read_text(file: Path, separator: str | None = None, decimal: str | None = None) -> tuple[pd.DataFrame, Layout]:
    """The table in a text file, and how it was read."""
    try:
        layout = _layout(file, separator, decimal)
        frame = _read_numbers(file, layout)
        return (_read_any(file, layout) if frame is None else frame), layout
    except UnicodeError:
        raise ValueError(f"'{file}' is not UTF-8 text{_undecodable(file)}; expected text in UTF-8 or UTF-16: save the file in that encoding") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _cannot_decompress(file, error) from None
    except MemoryError:
        raise too_large(file) from None
    except csv.Error as error:
        raise ValueError(f"'{file}' cannot be read as text ({one_line(error)}); expected rows of separated values: check its quotation marks") from None


def read_json_lines(file: Path) -> pd.DataFrame:
    """A table from a JSON object per line, or from one list of objects."""
    import pandas as pd

    try:
        with _open(file) as raw, io.TextIOWrapper(raw, encoding=_encoding(file)) as text:
            records = _records(file, text)
    except UnicodeError:
        raise ValueError(f"'{file}' is not UTF-8 text{_undecodable(file)}; expected text in UTF-8 or UTF-16: save the file in that encoding") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _cannot_decompress(file, error) from None
    if not records:
        raise is_empty(file)
    frame = pd.DataFrame(records)
    for name in frame.columns:
        nested = frame[name].map(lambda value: isinstance(value, (dict, list)))
        if nested.any():
            row = int(nested.to_numpy().argmax())
            raise ValueError(
                f"row {row}, column '{name}' of '{file}' is a list or an object; expected a number, a text or a truth value: give every value a column"
            )
    return frame


def _records(file: Path, text: IO[str]) -> list[Any]:
    first = text.read(1)
    while first.isspace():
        first = text.read(1)
    if first == "[":
        try:
            records = json.loads(first + text.read())
        except json.JSONDecodeError as error:
            raise ValueError(f"line {error.lineno} of '{file}' is not JSON ({error.msg}); expected a list of objects, or an object per line") from None
        return [_checked(file, number, record) for number, record in enumerate(records)]
    records = []
    for number, line in enumerate(text, 1):
        whole = first + line if number == 1 else line
        if whole.strip():
            try:
                records.append(_checked(file, len(records), json.loads(whole)))
            except json.JSONDecodeError as error:
                raise ValueError(f'line {number} of \'{file}\' is not JSON ({error.msg}); expected an object per line, as in {{"x": 1.5, "y": 2}}') from None
    return records


def _checked(file: Path, row: int, record: Any) -> Any:
    if isinstance(record, dict):
        return record
    raise ValueError(f'row {row} of \'{file}\' is {str(record)[:40]!r}; expected an object with a value per column, as in {{"x": 1.5, "y": 2}}')


def _open(file: Path) -> IO[bytes]:
    return gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb")  # type: ignore[return-value]


def _encoding(file: Path) -> str:
    """UTF-8, unless a mark at the beginning or zeros in every other byte tell of UTF-16."""
    with _open(file) as raw:
        first = raw.read(1000)
    marked = next((encoding for mark, encoding in _LEADING_MARKS.items() if first.startswith(mark)), None)
    if marked is None and first.count(0) > len(first) // 4:
        return "utf-16-le" if first[1::2].count(0) > first[0::2].count(0) else "utf-16-be"
    return marked or "utf-8-sig"


def _lines(file: Path, encoding: str) -> list[str]:
    """The first lines that are not blank."""
    with _open(file) as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as text:
        return [line for line in islice(text, _LOOKED_AT) if line.strip()]


def _split(lines: Any, separator: str) -> Any:
    return (line.split() for line in lines) if separator == WHITE_SPACE else csv.reader(lines, delimiter=separator)


def _separator(lines: list[str], kind: str) -> str:
    """The separator that gives every line equally many fields, more than one; what is rarer inside of fields comes first.

    >>> _separator(["a;b", "1,5;2,5"], ".csv"), _separator(["a b", "1 2"], ".txt"), _separator(["a", "1"], ".csv")
    (';', ' ', ',')
    """
    for separator in dict.fromkeys(("\t", ";", "|", ",", *([WHITE_SPACE] if kind not in (".csv", ".tsv") else []))):
        with suppress(csv.Error):
            counts = {len(row) for row in _split(lines, separator)}
            if len(counts) == 1 and counts.pop() > 1:
                return separator
    return TEXTS[kind]


def _rows(file: Path, encoding: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a text file that are not blank, each with the number of its (last) line."""
    with _open(file) as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as text:
        if separator == WHITE_SPACE:
            yield from ((number, line.split()) for number, line in enumerate(text, 1) if line.strip())
            return
        reader = csv.reader(text, delimiter=separator)
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                yield reader.line_num, row


def _layout(file: Path, separator: str | None, decimal: str | None) -> Layout:
    encoding = _encoding(file)
    lines = _lines(file, encoding)
    if not lines:
        raise is_empty(file)
    separator = _separator(lines, kind_of(file)) if separator is None else separator
    first = [row for _, row in islice(_rows(file, encoding, separator), 2)]
    if not first:
        raise is_empty(file)
    if decimal is None:
        with suppress(csv.Error):
            decimal = _decimal([field.strip() for row in _split(lines, separator) for field in row]) if separator != "," else "."
    if len({len(row) for row in first}) > 1:
        raise _ragged(file, Layout(encoding, separator, decimal or ".", [], True), None)
    has_header = not _is_data(first[0], decimal or ".") or _is_count(first)
    names = [name.strip() for name in first[0]] if has_header else [f"column_{position}" for position in range(len(first[0]))]
    return Layout(encoding, separator, decimal or ".", names, has_header)


def _decimal(fields: list[str]) -> str:
    commas = sum(bool(_DECIMAL_COMMA.fullmatch(field)) for field in fields)
    return "," if commas > sum(bool(_DECIMAL_POINT.fullmatch(field)) for field in fields) else "."


def _is_data(row: list[str], decimal: str = ".") -> bool:
    """Whether a first row holds numbers rather than names; it may lack some but not all of them, and an empty field is a name left out.

    >>> _is_data(["1", "-2.5e3", "NA"]), _is_data(["", "0", "1"]), _is_data(["nan"]), _is_data(["1,5"], ",")
    (True, False, False, True)
    """
    missing = [bool(field.strip()) and field.strip().lower() in SIGNS_OF_GAPS for field in row]
    return not all(missing) and all(absent or _is_number(field.replace(decimal, ".")) for absent, field in zip(missing, row, strict=True))


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
    if layout.separator == WHITE_SPACE or "16" in layout.encoding or layout.decimal != ".":
        return None
    try:
        frame = pd.read_csv(file, engine="pyarrow", **(layout.options | {"encoding": "utf-8"}))
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
        raise _ragged(file, layout, error) from None
    if frame.iloc[:, -1].isna().any() and _uneven(file, layout):
        raise _ragged(file, layout, None)
    return frame.rename(columns=lambda name: name.strip() if isinstance(name, str) else name)


def _uneven(file: Path, layout: Layout) -> tuple[int, int, int] | None:
    """Line, number of fields and expected number of fields of the first row that is not as long as the first one."""
    expected = 0
    for line, row in _rows(file, layout.encoding, layout.separator):
        expected = expected or len(row)
        if len(row) != expected:
            return line, len(row), expected
    return None


def _ragged(file: Path, layout: Layout, error: Exception | None) -> ValueError:
    found = _uneven(file, layout)
    if found is None:
        return ValueError(f"'{file}' cannot be read as a table ({one_line(error)}); expected rows of separated values: check its quotation marks")
    line, given, expected = found
    advice = "; if these are decimal commas, separate the fields by semicolons" if layout.separator == "," and given == 2 * expected else ""
    return ValueError(
        f"line {line} of '{file}' has {given} fields; expected {expected} as in the first row: add or remove fields, or quote a separator in a text{advice}"
    )


def _undecodable(file: Path) -> str:
    with suppress(EOFError, OSError, zlib.error), _open(file) as raw:
        for number, line in enumerate(raw, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return f" (line {number}, byte 0x{line[error.start]:02x})"
    return ""


def one_line(error: Exception | None) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def too_large(file: Path) -> ValueError:
    """That a file holds more than there is memory for."""
    return ValueError(
        f"'{file}' says it holds more than there is memory for; expected a table that fits: use fewer rows or columns, or write it again if it is damaged"
    )


def is_empty(file: Path) -> ValueError:
    """That a file holds nothing."""
    return ValueError(f"'{file}' is empty; expected a table with at least one row: check how the file was written")


def _cannot_decompress(file: Path, error: Exception) -> ValueError:
    return ValueError(f"'{file}' cannot be decompressed ({one_line(error)}); expected a whole gzip file: copy or compress it again")
