"""The door for arguments: each kind of value is checked by one function, which returns it as a plain Python value or raises a `ValueError` that says what was given,
what was expected and, where it helps, what to do. Data have a door of their own (`maitre.data.validation`)."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
MOST = 2**53  # whole numbers up to here are exact as floats


def _wrong(name: str, value: Any, expected: str) -> ValueError:
    return ValueError(f"{name} is {_shown(value)}; expected {expected}")


def _shown(value: Any) -> str:
    """A value as it was given, on one line of limited length."""
    try:
        line = " ".join(repr(value).split())
    except Exception:  # a whole number of more digits than Python writes, or an object that cannot be shown
        line = f"a value of type {type(value).__name__}"
    return line if len(line) <= 80 else line[:77] + "…"


def whole_number(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """A whole number between two bounds; a float that is one counts, a truth value does not.

    >>> whole_number("draws", 10.0)
    10
    >>> whole_number("draws", -1)
    Traceback (most recent call last):
    ValueError: draws is -1; expected a whole number of at least 0
    """
    expected = f"a whole number of at least {least}" + (f" and at most {most}" if most != MOST else "")
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise _wrong(name, value, expected)
    try:
        result = int(value)  # type: ignore[call-overload]
    except (ValueError, OverflowError):  # not a number, or infinite
        raise _wrong(name, value, expected) from None
    if result > most:
        raise _wrong(name, value, f"a whole number of at least {least} and at most {most}")
    if result != value or result < least:
        raise _wrong(name, value, expected)
    return result


def as_seed(seed: Any) -> int:
    """A seed: a whole number, or one drawn from a NumPy `Generator` or `RandomState`, or with None a new one every time.

    >>> as_seed(7), as_seed(np.random.default_rng(0)) == as_seed(np.random.default_rng(0)), as_seed(None) == as_seed(None)
    (7, True, False)
    """
    if seed is None:
        seed = np.random.default_rng()
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    if isinstance(seed, np.random.RandomState):
        return int(seed.randint(2**31 - 1))
    return whole_number("seed", seed, 0, 2**128)


def number(name: str, value: Any, above: float | None = None, least: float | None = None, below: float | None = None, most: float | None = None) -> float:
    """A finite real number within bounds.

    >>> number("time_budget", 2, above=0)
    2.0
    """
    limits = [f"{word} {limit:g}" for word, limit in (("above", above), ("of at least", least), ("below", below), ("of at most", most)) if limit is not None]
    expected = " ".join(["a finite number", " and ".join(limits)]).strip()
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise _wrong(name, value, expected)
    try:
        result = float(value)
    except OverflowError:
        raise _wrong(name, value, expected) from None
    inside = (above is None or result > above) and (least is None or result >= least) and (below is None or result < below) and (most is None or result <= most)
    if not math.isfinite(result) or not inside:
        raise _wrong(name, value, expected)
    return result


def one_of(name: str, value: Any, known: Iterable[str]) -> str:
    """One of several words.

    >>> one_of("queue", "level", ("best-first", "level"))
    'level'
    """
    names = tuple(known)
    if not isinstance(value, str) or value not in names:
        raise _wrong(name, value, f"one of {', '.join(map(repr, names))}")
    return value


def truth(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise _wrong(name, value, "True or False")
    return bool(value)


def real_numbers(name: str, value: Any, above: float | None = None, least: float | None = None, most: float | None = None) -> Floats:
    """A number or an array of them, each finite and within bounds.

    >>> real_numbers("rate", [1, 2], above=0)
    array([1., 2.])
    """
    limits = [f"{word} {limit:g}" for word, limit in (("above", above), ("of at least", least), ("of at most", most)) if limit is not None]
    expected = " ".join(["finite numbers", " and ".join(limits)]).strip()
    try:
        array = np.asarray(value)
    except ValueError:
        raise _wrong(name, value, expected) from None
    if array.dtype.kind not in "iuf":
        raise _wrong(name, value, expected)
    array = array.astype(np.float64)
    bad = ~np.isfinite(array)
    bad |= (array <= above) if above is not None else (array < least) if least is not None else False
    bad |= (array > most) if most is not None else False
    if bad.any():
        worst = "" if array.ndim == 0 else f"; entry {', '.join(map(str, np.argwhere(bad)[0]))} is {array[bad][0]:g}"
        raise ValueError(str(_wrong(name, value, expected)) + worst)
    return array


def numbers_of_columns(name: str, value: Any, n_columns: int, above: float | None = None) -> Floats:
    """One finite number for each column of the data, from one for all or one for each.

    >>> numbers_of_columns("mean", 0.5, 2)
    array([0.5, 0.5])
    """
    array = real_numbers(name, value, above)
    if array.ndim > 1 or array.size not in (1, n_columns):
        raise ValueError(f"{name} has shape {array.shape}; the data have {n_columns} columns: give one number, or {n_columns}")
    return np.broadcast_to(array, (n_columns,)).copy()
