"""Numbers in texts as people write them: "1,200", "$12.5", "3,14", "45 %", with a stray "?" among them. What is read is always said."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from maitre.numerics.arrays import Floats

SIGNS_OF_GAPS = ("", "?", "na", "n/a", "nan", "null", "#n/a", "#na", "<na>")  # in any column
_IN_NUMBERS = (*SIGNS_OF_GAPS, "-", "--", ".", "..", "none", "nil", "missing", "unknown", "inf.", "#value!", "#div/0!", "x")  # among numbers
_MOSTLY = 0.9  # of the texts are numbers where the others are mistakes
_PLAIN = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.I)
_POINT = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)(\.\d*)?")
_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+)(,\d*)?(e[-+]?\d+)?", re.I)
_AROUND = re.compile(r"^[$€£¥]\s*|\s*[%$€£¥]$")
_CODE = re.compile(r"0\d+")  # a leading zero makes a code, not a number


class NumbersInTexts(NamedTuple):
    """The numbers that a column of texts holds (NaN for gaps), the decimal sign, and what was read as what."""

    values: Floats
    sign: str
    why: str


def numbers_in(column: Any, wanted: bool = False) -> NumbersInTexts | None:
    """The numbers in a column of texts, or None if they are not (nearly) all numbers; a mistake among numbers is an error that names it.

    >>> import pandas as pd
    >>> numbers_in(pd.Series(["$1,200.5", "7", "?", "8"], name="price")).values.tolist()
    [1200.5, 7.0, nan, 8.0]
    >>> numbers_in(pd.Series(["red", "blue"])) is None
    True
    """
    texts = column.astype(object).where(column.notna(), None)
    texts = texts.map(lambda value: value if value is None else str(value).strip())
    kinds = texts.dropna().unique().tolist()
    signs = [text for text in kinds if text.lower() in _IN_NUMBERS]
    others = [text for text in kinds if text.lower() not in _IN_NUMBERS]
    sign = _sign(others)
    wrong = [text for text in others if _number(text, sign) is None]
    if not others or (not wanted and sum(bool(_CODE.fullmatch(text)) for text in others) > 0):
        return None
    n_wrong, n_all = int(texts.isin(wrong).sum()), int(texts.isin(others).sum())
    if n_wrong and (n_all - n_wrong < _MOSTLY * n_all or len(others) - len(wrong) < 3) and not wanted:
        return None
    if wrong:
        row = int(np.flatnonzero(texts.isin(wrong))[0])
        raise ValueError(
            f"row {row}, column '{column.name}' is '{texts.iloc[row]}', where {(n_all - n_wrong) / n_all:.1%} of the column are numbers: mend it or leave it empty"
            f"{f' (and {n_wrong - 1:,} more like it)' if n_wrong > 1 else ''}, or give the column the type category or out"
        )
    return NumbersInTexts(as_numbers(column, sign).to_numpy(dtype=np.float64), sign, _told(texts, signs, others, sign))


def as_numbers(column: Any, sign: str = ".") -> Any:
    """Texts as numbers, with NaN for whatever is none."""
    import pandas as pd

    known = {value: _number(str(value).strip(), sign) for value in column.dropna().unique()}
    return pd.Series([np.nan if value is None else value for value in (known.get(each) for each in column)], index=column.index, name=column.name, dtype=float)


def without_signs_of_gaps(column: Any) -> Any:
    """A column of texts in which "?" and "N/A" are gaps."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        return column
    signs = [value for value in column.dropna().unique() if isinstance(value, str) and value.strip().lower() in SIGNS_OF_GAPS]
    return (column.mask(column.isin(signs)) if signs else column).infer_objects()


def _sign(texts: list[str]) -> str:
    """The decimal sign: a comma if more of the texts are numbers with it than with a point.

    >>> _sign(["3,14", "2,5"]), _sign(["1,200", "7"]), _sign(["1.5"])
    (',', '.', '.')
    """
    point = sum(_number(text, ".") is not None for text in texts)
    return "," if sum(_number(text, ",") is not None for text in texts) > point else "."


def _number(text: str, sign: str) -> float | None:
    """
    >>> _number("1,200", "."), _number("1.200,5", ","), _number("(12)", "."), _number("$12.5", "."), _number("abc", ".")
    (1200.0, 1200.5, -12.0, 12.5, None)
    """
    if text.startswith("(") and text.endswith(")"):
        inner = _number(text[1:-1], sign)
        return None if inner is None else -inner
    bare = _AROUND.sub("", text.replace("\u2212", "-").replace("\u00a0", "").replace("\u202f", ""))
    bare = re.sub(r"^-[$€£¥]", "-", bare)
    if sign == "." and (_PLAIN.fullmatch(bare) or _POINT.fullmatch(bare)):
        return float(bare.replace(",", ""))
    if sign == "," and _COMMA.fullmatch(bare):
        return float(bare.replace(".", "").replace(",", "."))
    return float(bare) if bare.lower().lstrip("+-") in ("inf", "infinity") else None


def _told(texts: Any, signs: list[str], others: list[str], sign: str) -> str:
    """What was read as what, with an example of each."""
    odd = next((text for text in others if not _PLAIN.fullmatch(text)), None)
    told = [] if odd is None else [f"'{odd}' read as {_number(odd, sign):g}"]
    gaps = texts.isin([text for text in signs if text])
    if gaps.any():
        row = int(np.flatnonzero(gaps)[0])
        more = f" and in {int(gaps.sum()) - 1:,} more" if gaps.sum() > 1 else ""
        told.append(f"'{texts.iloc[row]}' in row {row}{more} read as missing")
    return ", ".join(told)
