"""What the fields of a family's run-time state are for, and what can be done with a family that says so.

The run-time state is one flat `NamedTuple`. Its fields may declare a role by `typing.Annotated`:

    x: Annotated[Floats, POINTS]            encoded points, a row each; read-only while sampling
    start: Annotated[Ints, STARTS]          where the entries of each point begin, for points of different lengths (n + 1 numbers) …
    words: Annotated[Counts, Points("start")]   … and such entries
    n: Annotated[Floats, SLOTS]             raw statistics of the clusters, by slot on the first axis
    seen: Annotated[Counts, SLOTS_LAST]     the same, by slot on the last axis
    coefficients: Annotated[Floats, CACHE]  what follows from raw statistics and hyper-parameters (`derive`)
    product: Annotated[Floats, SCRATCH]     work space, one per thread

All other fields are hyper-parameters and constants. `encode` of such a family returns a dictionary with the fields of encoded points (and constants that go with them),
so that points can be encoded block by block (`Family.joined`, `Family.selected`). A state made of others (`Product`) is treated part by part.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from maitre.families.statistics import derive
from maitre.numerics.arguments import MOST
from maitre.numerics.arrays import Floats, Ints


@dataclass(frozen=True)
class Points:
    """Encoded points: a row each or, with `starts`, entries that begin where that field says. An array without rows may stand for one full of `absent`."""

    starts: str | None = None
    absent: float | None = None


@dataclass(frozen=True)
class Starts:
    """Where the entries of each point begin, and where the last one's end."""


@dataclass(frozen=True)
class Slots:
    """Raw statistics of the clusters; `axis` is that of the slots."""

    axis: int = 0


@dataclass(frozen=True)
class Cache:
    """What follows from raw statistics and hyper-parameters."""


@dataclass(frozen=True)
class Scratch:
    """Work space, one per thread, and what it is filled with at first."""

    fill: float = 0.0


POINTS, STARTS, SLOTS, SLOTS_LAST, CACHE, SCRATCH = Points(), Starts(), Slots(), Slots(-1), Cache(), Scratch()
_KINDS = (Points, Starts, Slots, Cache, Scratch)


class Roles(NamedTuple):
    """The fields of a class of statistics by their role."""

    points: dict[str, Points | Starts]
    slots: dict[str, Slots]
    scratch: dict[str, Scratch]


@functools.cache
def roles(statistics: type) -> Roles:
    """The declared roles of the fields; a `ValueError` for a class that declares none."""
    declared = {
        name: mark
        for name, hint in get_type_hints(statistics, include_extras=True).items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, _KINDS)
    }
    found = Roles(
        {name: mark for name, mark in declared.items() if isinstance(mark, (Points, Starts))},
        {name: mark for name, mark in declared.items() if isinstance(mark, Slots)},
        {name: mark for name, mark in declared.items() if isinstance(mark, Scratch)},
    )
    if not found.points or not found.slots:
        raise ValueError(
            f"the fields of {statistics.__name__} do not say which are encoded points and which the clusters' statistics: "
            "annotate them, e.g. x: Annotated[Any, POINTS] and n: Annotated[Any, SLOTS], with the roles of maitre.families.slots"
        )
    return found


def declares_roles(s: Any) -> bool:
    """Whether a run-time state, and all it is made of, says what its fields are for."""
    try:
        return all(roles(type(part)) for part in parts_of(s))
    except ValueError:
        return False


def parts_of(s: Any) -> tuple[Any, ...]:
    """The statistics that a run-time state is made of: itself, or its parts."""
    return tuple(leaf for part in s.parts for leaf in parts_of(part)) if hasattr(s, "parts") else (s,)


def _views(s: Any, k: int) -> list[Any]:
    """The raw statistics of slot k, as views."""
    return [
        getattr(part, name)[k : k + 1] if mark.axis == 0 else getattr(part, name)[..., k : k + 1]
        for part in parts_of(s)
        for name, mark in roles(type(part)).slots.items()
    ]


def pack(s: Any, k: int) -> Floats:
    """The raw statistics of slot k as one vector, from which `unpack` makes the same cluster in another slot, thread or machine."""
    views = _views(s, k)
    for view in views:
        if view.dtype.kind in "iu" and view.size and max(abs(int(view.min())), abs(int(view.max()))) >= MOST:
            raise ValueError(
                f"a count of {max(abs(int(view.min())), abs(int(view.max())))} in cluster {k} is too large to be kept as a float: scale the counts down"
            )
    return np.concatenate([view.astype(np.float64).ravel() for view in views])


def unpack(s: Any, k: int, vector: Floats) -> None:
    """Slot k becomes the cluster whose statistics were packed, and everything derived from them follows."""
    views = _views(s, k)
    expected = sum(view.size for view in views)
    if np.shape(vector) != (expected,):
        raise ValueError(f"the packed statistics have shape {np.shape(vector)}; a cluster of this family takes {expected} numbers")
    begin = 0
    for view in views:
        view[...] = vector[begin : begin + view.size].reshape(view.shape)
        begin += view.size
    derive(s, k)


def _fresh_scratch(part: Any) -> dict[str, Any]:
    made = {}
    for name, mark in roles(type(part)).scratch.items():
        made[name] = np.empty_like(getattr(part, name))
        made[name].fill(mark.fill)
    return made


def copy_slots(source: Any, target: Any, slots: Ints, into: Ints | None = None) -> None:
    """The raw statistics of some slots of one run-time state into the same ones of another, or `into` others; the target needs `derive` afterwards."""
    for one, other in zip(parts_of(source), parts_of(target), strict=True):
        for name, mark in roles(type(one)).slots.items():
            here, there = (which if mark.axis == 0 else (..., which) for which in (slots, slots if into is None else into))
            getattr(other, name)[there] = getattr(one, name)[here]


def slot_bytes(s: Any, n_slots: int) -> int:
    """About how much memory so many slots take, with all that is kept for each."""
    per_slot = sum(view.nbytes for view in _views(s, 0))
    return 4 * per_slot * n_slots


def with_points(s: Any, encoded: Any) -> Any:
    """The same slots and hyper-parameters reading other encoded points (of the same family), with work space of its own: for scoring rows that are in no cluster."""
    return with_own_scratch(reading(s, encoded))


def reading(s: Any, encoded: Any) -> Any:
    """The same slots, hyper-parameters and work space with other encoded points (of the same family)."""
    if hasattr(s, "parts"):
        return s._replace(parts=tuple(reading(part, own) for part, own in zip(s.parts, encoded, strict=True)))
    return s._replace(**{name: encoded[name] for name in roles(type(s)).points})


def with_own_scratch(s: Any) -> Any:
    """The same points and slots with work space of its own: for one more thread that reads slots while nobody changes them."""
    if hasattr(s, "parts"):
        return s._replace(parts=tuple(with_own_scratch(part) for part in s.parts))
    return s._replace(**_fresh_scratch(s))


def with_own_slots(s: Any) -> Any:
    """The same points with slots and work space of its own, filled as these are: for one more thread that changes its slots."""
    if hasattr(s, "parts"):
        return s._replace(parts=tuple(with_own_slots(part) for part in s.parts))
    points = roles(type(s)).points
    return s._replace(**{name: value.copy() for name, value in s._asdict().items() if isinstance(value, np.ndarray) and name not in points})


def fractional(s: Any) -> Any:
    """The same points and hyper-parameters with empty slots that hold real numbers, so that points can join them to an extent (`add_weighted`)."""
    if hasattr(s, "parts"):
        return s._replace(parts=tuple(fractional(part) for part in s.parts))
    slots = roles(type(s)).slots if declares_roles(s) else ()
    return s._replace(**{name: np.zeros(getattr(s, name).shape) for name in slots})


def joined_points(statistics: type, blocks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Blocks of encoded points one after the other, as if encoded at once."""
    marks = roles(statistics).points
    n_rows = [_n_points(marks, block) for block in blocks]
    return {**blocks[0], **{name: _joined(mark, [block[name] for block in blocks], n_rows) for name, mark in marks.items()}}


def _n_points(marks: dict[str, Points | Starts], encoded: dict[str, Any]) -> int:
    starts = [len(encoded[name]) - 1 for name, mark in marks.items() if isinstance(mark, Starts)]
    return starts[0] if starts else max(len(encoded[name]) for name in marks)


def _joined(mark: Points | Starts, arrays: list[Any], n_rows: list[int]) -> Any:
    if isinstance(mark, Starts):
        before = np.cumsum([0] + [array[-1] for array in arrays[:-1]])
        return np.concatenate([arrays[0][:1], *(array[1:] + shift for array, shift in zip(arrays, before, strict=True))])
    present = [array for array in arrays if len(array)]
    if mark.absent is not None:
        if not present:
            return arrays[0]
        arrays = [array if len(array) else np.full((n, *present[0].shape[1:]), mark.absent, present[0].dtype) for array, n in zip(arrays, n_rows, strict=True)]
    return np.concatenate(arrays)


def selected_points(statistics: type, encoded: dict[str, Any], points: Ints) -> dict[str, Any]:
    """Some of the encoded points, in the order given."""
    marks = roles(statistics).points
    return {**encoded, **{name: _selected(name, mark, encoded, points) for name, mark in marks.items()}}


def _selected(name: str, mark: Points | Starts, encoded: dict[str, Any], points: Ints) -> Any:
    values = encoded[name]
    if isinstance(mark, Starts):
        return np.concatenate([[0], np.cumsum(np.diff(values)[points])]).astype(values.dtype)
    if mark.starts is None:
        return values[points] if len(values) or mark.absent is None else values
    start = encoded[mark.starts]
    lengths = np.diff(start)[points]
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return values[np.repeat(start[points], lengths) + within]
