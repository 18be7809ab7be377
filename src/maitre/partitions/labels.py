"""Labels are names; the canonical ones number the clusters in order of first appearance."""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.numerics.arrays import Ints, Slots
from maitre.numerics.compilation import compiled


def canonical(labels: Any) -> Ints:
    """The same partition with clusters numbered 0, 1, … in order of first appearance; negative labels (no seat) stay −1.

    >>> canonical([7, 7, 2, 7, 0]).tolist()
    [0, 0, 1, 0, 2]
    """
    values = np.asarray(labels)
    if values.ndim != 1:
        raise ValueError(f"labels have {values.ndim} dimensions; expected one label per point")
    if values.dtype.kind in "iu" and len(values) and int(values.max()) < 4 * len(values) + 64:
        return canonical_slots(np.where(values < 0, -1, values).astype(np.int32), int(values.max()) + 1)
    seated = values >= 0 if np.issubdtype(values.dtype, np.number) else np.ones(len(values), dtype=bool)
    result = np.full(len(values), -1, dtype=np.int64)
    if seated.any():
        _, first, inverse = np.unique(values[seated], return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        result[seated] = rank[inverse]
    return result


def numbered_by_size(labels: Any) -> Ints:
    """Clusters numbered 1, 2, … from the largest to the smallest; equal ones in the order of their labels (of canonical labels: of first appearance).

    >>> numbered_by_size([0, 1, 1, 2]).tolist()
    [2, 1, 1, 3]
    """
    _, codes, sizes = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    number = np.empty(len(sizes), dtype=np.int64)
    number[np.argsort(-sizes, kind="stable")] = np.arange(1, len(sizes) + 1)
    return number[codes]


def canonical_slots_of(labels: Any, dtype: Any = np.int32) -> Slots:
    """`canonical` as a new array of 32-bit numbers, or of a type that holds all labels."""
    values = np.asarray(labels)
    if values.ndim != 1 or values.dtype.kind not in "iu" or not len(values) or int(values.max()) >= 4 * len(values) + 64:
        return canonical(values).astype(dtype)
    copy: Slots = values.astype(dtype)
    renumber(copy, int(copy.max()) + 1)
    return copy


def renumber(slots: Slots, capacity: int) -> None:
    """`canonical` in place, for labels below `capacity`."""
    _rename(slots, Numbered(slots, capacity, slots.dtype).names, slots)


@compiled
def replace(slots: Slots, old: int, new: int) -> None:
    """One label by another, in place."""
    for i in range(len(slots)):
        if slots[i] == old:
            slots[i] = new


@compiled
def _name(slots: Any, names: Ints) -> None:
    """The numbers of clusters, in order of first appearance."""
    n_named = 0
    for i in range(len(slots)):
        k = slots[i]
        if k >= 0 and names[k] < 0:
            names[k] = n_named
            n_named += 1


@compiled
def _rename(slots: Any, names: Ints, result: Any) -> None:
    for i in range(len(slots)):
        result[i] = names[slots[i]] if slots[i] >= 0 else -1


class Numbered:
    """`canonical` for labels known to lie below `capacity`, worked out when asked for: `np.asarray(numbered)`, or some of the points; true as long as the labels stay.

    >>> numbered = Numbered(np.array([7, 7, 2, 7, 0], dtype=np.int32), 8, np.uint8)
    >>> np.asarray(numbered).tolist(), numbered[2:4].tolist(), int(numbered[4])
    ([0, 0, 1, 0, 2], [1, 0], 2)
    """

    ndim = 1

    def __init__(self, slots: Any, capacity: int, dtype: Any) -> None:
        self.slots, self.names, self.dtype = slots, np.full(max(capacity, 1), -1, dtype=np.int64), np.dtype(dtype)
        _name(slots, self.names)

    def __len__(self) -> int:
        return len(self.slots)

    def __getitem__(self, points: Any) -> Any:
        chosen = np.asarray(self.slots[points])
        result = np.empty(chosen.size, dtype=self.dtype)
        _rename(chosen.reshape(-1), self.names, result)
        return result.reshape(chosen.shape)[()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[:], dtype=dtype)


def canonical_slots(slots: Slots, capacity: int) -> Ints:
    """`canonical` for labels known to lie below `capacity`, without sorting.

    >>> canonical_slots(np.array([7, 7, 2, 7, 0], dtype=np.int32), 8).tolist()
    [0, 0, 1, 0, 2]
    """
    return Numbered(slots, capacity, np.int64)[:]
