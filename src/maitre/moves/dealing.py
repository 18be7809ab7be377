"""Points dealt out to blocks with their clusters, and their labels taken back: passes over ranges of points, each of which any thread may do."""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.engines.base import Engine
from maitre.numerics.arrays import Ints, Slots
from maitre.numerics.compilation import compiled

_RANGE = 131_072  # points


@compiled
def _count_points(labels: Any, held_by: Ints, begin: int, end: int, n_blocks: int) -> Ints:
    """How many of these points are in each block."""
    counts = np.zeros(n_blocks, dtype=np.int64)
    for i in range(begin, end):
        counts[held_by[labels[i]]] += 1
    return counts


@compiled
def _list_points(labels: Any, held_by: Ints, begin: int, end: int, first: Ints, points: Slots) -> None:
    """These points into the list, those of block j from first[j] on."""
    places = first.copy()  # of this thread alone: what stands beside `first` is written by another
    for i in range(begin, end):
        block = held_by[labels[i]]
        points[places[block]] = i
        places[block] += 1


@compiled
def _take_back(labels: Any, points: Slots, first: Ints, counts: Ints, found: Slots, names: Slots) -> None:
    """What was found for the points of the list in these places becomes their label, by its name in the block."""
    for block in range(len(first)):
        for place in range(first[block], first[block] + counts[block]):
            labels[points[place]] = names[block, found[place]]


class Deal:
    """The points of every block in order (`by_block`), from the blocks of the labels."""

    def __init__(self, labels: Ints | Slots, held_by: Ints, n_blocks: int, engine: Engine) -> None:
        self._engine = engine
        ranges = [(begin, min(begin + _RANGE, len(labels))) for begin in range(0, len(labels), _RANGE)]
        self._counts = np.array(engine.map(lambda points: _count_points(labels, held_by, *points, n_blocks), ranges))
        sizes = self._counts.sum(axis=0)
        self._first = np.cumsum(sizes) - sizes + np.cumsum(self._counts, axis=0) - self._counts  # where in the list the points of a range and block begin
        self._points = np.empty(len(labels), dtype=np.int32)
        engine.map(lambda r: _list_points(labels, held_by, *ranges[r], self._first[r], self._points), range(len(ranges)))
        self.by_block: list[Any] = np.split(self._points, np.cumsum(sizes)[:-1])

    def take_back(self, labels: Any, found: Slots, names: Slots) -> None:
        """New labels: names[j, k] for a point of block j for which k was `found`, block by block."""
        self._engine.map(lambda r: _take_back(labels, self._points, self._first[r], self._counts[r], found, names), range(len(self._counts)))
