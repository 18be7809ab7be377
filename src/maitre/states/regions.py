"""The points in a fixed number of ranges, and room for the statistics of each: what a pass over all points, shared between threads, adds up in.

How many ranges there are follows from the numbers of points and slots alone, and their statistics are merged in order, so sums do not depend on the number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from maitre.engines.base import Engine
from maitre.families.slots import copy_slots, reading, slot_bytes, with_own_scratch
from maitre.families.statistics import clear, gather, merge, settle
from maitre.numerics.arrays import Ints, Slots
from maitre.numerics.compilation import Kernel, kernel
from maitre.numerics.queue import take

_POINTS, _MOST = 8_192, 64  # of a range, about; and ranges at most: enough for any number of threads to end at about the same time
_EVEN = 8  # several ranges are a multiple of so many, or two threads would wait for the last of seven
_WIDE = 4  # regions in a range of several
_NUMBERS = 1 << 16  # of a range, about, of an array that is encoded block by block
_BYTES, _BYTES_A_POINT = 2**26, 4  # of all slots together, at most: in all, and …
_FEW = 8  # … from so many ranges on
POINTS_READ = 1 << 15  # from disk at once
_GRANULES = 16_384  # at least, if there are as many points
_LARGEST = 8192
SLOTS_TOGETHER = 8
_MUCH = 2**22  # bytes of slots, from which on several threads see to them


@kernel
def clear_regions(s: Any, slots: Ints, capacity: int, n_regions: int, queue: Ints) -> None:
    """Empty these slots of the regions that are left in the queue."""
    region: Any = take(queue)
    while region < n_regions:
        for k in slots:
            clear(s, region * capacity + k)
        region = take(queue)


@kernel
def merge_regions(s: Any, slots: Ints, capacity: int, n_regions: int, queue: Ints) -> None:
    """These slots of all regions, which have gathered points, into those of the first; so many slots in a row at a time as lie in one line of memory."""
    first: Any = SLOTS_TOGETHER * take(queue)
    while first < len(slots):
        for k in slots[first : first + SLOTS_TOGETHER]:
            for region in range(n_regions):
                settle(s, region * capacity + k)
                if region > 0:
                    merge(s, k, region * capacity + k)
        first = SLOTS_TOGETHER * take(queue)


@kernel
def gather_all(s: Any, labels: Slots, ranges: Ints, base: int, queue: Ints, capacity: int, counts: Ints) -> None:
    """The points of the ranges that are left in the queue are gathered in the slots of their labels, in the region of the range, and counted."""
    turn: Any = take(queue)
    while turn < len(ranges):
        begin, end, region = ranges[turn]
        for i in range(begin, end):
            if labels[i] >= 0:
                gather(s, region * capacity + np.int64(labels[i]), i - base)
                counts[region, labels[i]] += 1
        turn = take(queue)


class Piece(NamedTuple):
    """Points for one call of a kernel: of the `ranges` (first point, last point + 1, region) that it takes from the `queue` until there are none. Other threads take
    from the same queue. Point i is i − `base` in `statistics`; `points` are the encoded ones, if they are not all in memory.
    """

    statistics: Any
    points: Any
    ranges: Ints
    base: int
    queue: Ints


def granule_size(n: int) -> int:
    """Points that share a coin and a stream of random numbers: few, so that coins fall freely even if the points are sorted; more where there are very many."""
    return min(max(n // _GRANULES, 1), _LARGEST)


class Regions:
    """Ranges of the points, and `parts`: as many times the state's slots. `ranges[r]` is (first point, last point + 1, r), both multiples of `granule` but for the end."""

    def __init__(self, state: Any, granule: int) -> None:
        self.capacity = state.capacity
        n, size = state.model.n, slot_bytes(state.statistics, state.capacity)
        room = max(1, min(_BYTES // size, max(_FEW, _BYTES_A_POINT * n // size)))
        n_granules = -(-n // granule)
        wanted = n // (_POINTS if state.model.in_memory else max(_POINTS, _NUMBERS // state.model.valid.shape[1]))
        self.n_regions = max(1, min(_MOST, wanted if wanted < _EVEN // 2 else -(-wanted // _EVEN) * _EVEN, room, n_granules))
        bounds = [min(n, granule * (n_granules * r // self.n_regions)) for r in range(self.n_regions)] + [n]
        self.ranges: Ints = np.array([(begin, end, region) for region, (begin, end) in enumerate(pairwise(bounds))])
        self.wide_ranges: Ints = np.array(
            [(several[0, 0], several[-1, 1], several[0, 2]) for several in np.split(self.ranges, range(_WIDE, self.n_regions, _WIDE))]
        )
        self.parts = state.family.allocate(state.encoded, self.capacity * self.n_regions)
        self.much = size * self.n_regions >= _MUCH
        self._here = threading.local()  # statistics with work space of this thread's own

    def fits(self, state: Any) -> bool:
        """Whether a state, since grown, can still use it."""
        return bool(self.capacity == state.capacity)

    def at_once(self, engine: Engine, task: Callable[[Ints, Ints], Any], few: bool = False) -> None:
        """task(ranges, queue) for every worker of the engine, all with one queue; with ranges of several regions where there is little to do in one."""
        ranges, queue = self.wide_ranges if few else self.ranges, np.zeros(1, dtype=np.int64)
        engine.map(lambda _: task(ranges, queue), range(min(engine.n_workers, len(ranges))))

    def clear(self, state: Any, slots: Any = None) -> None:
        """Empty these slots of all regions, by default all."""
        self._at_parts(clear_regions, state, slots)

    def at_slots(self, engine: Engine, task: Callable[[Ints], Any]) -> None:
        """task(queue) for slots of clusters, on several threads where there is much to do for one."""
        queue = np.zeros(1, dtype=np.int64)
        engine.map(lambda _: task(queue), range(engine.n_workers if self.much else 1))

    def _at_parts(self, function: Kernel, state: Any, slots: Any) -> None:
        run, where = function if state.compiled else function.python, (self._all(slots), self.capacity, self.n_regions)
        self.at_slots(state.engine, lambda queue: run(self._own("parts", self.parts), *where, queue))

    def writer(self, piece: Piece) -> Any:
        """The parts, to gather the points of a piece in."""
        return self._own("parts", self.parts, piece.points)

    def reader(self, statistics: Any, points: Any = None) -> Any:
        """The state's statistics, to score points with: these encoded ones, if not all are in memory."""
        return self._own("read", statistics, points)

    def _own(self, name: str, statistics: Any, points: Any = None) -> Any:
        """Statistics with work space of this thread's own, kept for its next piece, and these points."""
        of, own = getattr(self._here, name, (None, None))
        if of is not statistics:
            own = with_own_scratch(statistics)
            setattr(self._here, name, (statistics, own))
        return own if points is None else reading(own, points)

    def hand_over(self, state: Any, sizes: Ints, slots: Any = None) -> None:
        """What the regions have gathered in these slots, merged in order, becomes the state's clusters; `sizes` is how many points each slot has."""
        self._at_parts(merge_regions, state, slots)
        copy_slots(self.parts, state.statistics, self._all(slots))
        state.adopt(sizes, slots)

    def _all(self, slots: Any) -> Ints:
        return np.arange(self.capacity) if slots is None else np.array(slots)
