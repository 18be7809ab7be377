"""What the permutation-augmented sampler and its climber work with: slots for segments, an order of the points, and the arrays of the dynamic program."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import gammaln

from maitre.moves.gibbs import NOT_A_NUMBER as NOT_A_NUMBER_MESSAGE
from maitre.moves.projections import heights_of
from maitre.moves.segments import DRAW, FULL, NOT_A_NUMBER, draw_by_number, group, order_by_scan, sum_segments, trace_back
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.draw import draw_below, shuffle
from maitre.states.clusters import seat_all
from maitre.states.mixture import MixtureState

_FIRST_CAPACITY = 63  # segments open at once
UNLIMITED = 2**60
_NO_MATRIX: Floats = np.zeros((0, 0))
Order = Literal["uniform", "scan", "projections"]


class Beam(NamedTuple):
    """Which segments the dynamic program goes on with (see `sum_segments`)."""

    epsilon: float
    probation: int
    widest: int

    @classmethod
    def of(cls, epsilon: float = 1e-32, probation: int = 20, widest: int | None = 100) -> Beam:
        """At each position the beam drops at most the share `epsilon` of the sum (0: no beam); every segment is kept for `probation` points, and at most `widest` of them."""
        return cls(epsilon, probation, UNLIMITED if widest is None or epsilon == 0.0 else widest)


def local_slope(log_a: Callable[[Ints], Floats], n_clusters: float, n: int) -> float:
    """The slope of a function of the number of clusters, from the neighbours of that number, or of the nearest that is possible."""
    values = log_a(np.arange(1, min(n, round(n_clusters) + 1) + 1))
    possible = np.flatnonzero(np.isfinite(values))
    high = int(possible[-1]) if len(possible) else 0
    low = max(high - 2, 0)
    return float(values[high] - values[low]) / (high - low) if high > low else 0.0


class Workspace:
    """What the move needs beside a state: slots for segments, an order, and the arrays of the dynamic program."""

    def __init__(self, state: MixtureState, get_vectors: Callable[[], Any]) -> None:
        self.state, self.get_vectors = state, get_vectors
        self.n = state.model.n
        self.cost = state.model.family.absorb_cost(state.model.encoded)
        self.order, self.old_start, self.back = np.empty(self.n, dtype=np.int64), np.empty(self.n, dtype=np.int64), np.zeros(self.n + 1, dtype=np.int64)
        self.log_g: Floats = np.zeros(self.n + 1)
        self.log_factorial: Floats = gammaln(np.arange(self.n + 2) + 1.0)
        self.scan_room: Floats | None = None
        self.capacity = _FIRST_CAPACITY

    @cached_property
    def vectors(self) -> Any:
        """The points as vectors; asked for only by projections."""
        return self.get_vectors()

    @property
    def capacity(self) -> int:
        """How many segments may be open at once."""
        return len(self.start) - 1

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        self.start: Ints = np.empty(capacity + 1, dtype=np.int64)
        self.log_weight, self.weights, self.scratch = (np.zeros(capacity + 1) for _ in range(3))
        self.statistics = None

    def slots(self) -> Any:
        """Statistics for segments, with the present hyper-parameters of the family."""
        if self.statistics is None or self.family is not self.state.family:
            self.family = self.state.family
            self.statistics = self.family.allocate(self.state.encoded, self.capacity + 1)
            (seat_all if self.state.compiled else seat_all.python)(self.statistics, self.state.labels[:0], self.capacity + 1)
        return self.statistics

    # -- orders -----------------------------------------------------------------------------------------------------------------------------

    def draw_order(self, order: Order, rng: Any) -> int:
        """An order of the points in which every cluster is contiguous; returns the number of predictive evaluations it took."""
        state = self.state
        clusters, rank = np.flatnonzero(state.sizes), np.empty(state.capacity, dtype=np.int64)
        if order != "projections":
            shuffle(clusters, rng)
        self._group(clusters, np.arange(self.n), rank)
        if order == "projections":
            heights = heights_of(self.vectors, False, self.order, self.old_start, state.compiled, rng)
            means = np.bincount(state.labels, heights, minlength=state.capacity)[clusters] / state.sizes[clusters]
            if self.vectors.shape[1] > 1 and draw_below(2, rng) == 0:
                heights = heights_of(self.vectors, True, self.order, self.old_start, state.compiled, rng)
            self._group(clusters[np.argsort(means)], np.argsort(heights), rank)
        self.log_size: Floats = state.log_w.copy()
        self.scan_room = None
        if order == "projections":
            return 0
        if order == "uniform":
            self.log_size -= self.log_factorial
            for end in np.flatnonzero(self.old_start >= 0):
                shuffle(self.order[self.old_start[end] : end + 1], rng)
            return 0
        self.log_size[1:] -= np.log(np.arange(1, self.n + 2))
        self.scan_room = np.zeros((4, self.n))
        run = order_by_scan if state.compiled else order_by_scan.python
        evaluations = int(run(self.slots(), self.order, self.old_start, self.capacity, np.zeros(self.n), np.zeros(self.n), rng))
        if evaluations < 0:
            raise ValueError(NOT_A_NUMBER_MESSAGE.format(point=self.order[-1 - evaluations]))
        return evaluations

    def _group(self, clusters: Ints, points: Ints, rank: Ints) -> None:
        rank[clusters] = np.arange(len(clusters))
        group(self.state.labels, rank, points, len(clusters), self.order, self.old_start)

    # -- sums -------------------------------------------------------------------------------------------------------------------------------

    def sum(self, slope: float, beam: Beam, rng: Any, mode: int = DRAW, log_b: Floats = _NO_MATRIX) -> tuple[int, bool, int]:
        """Sum over all partitions into segments of the present order (see `sum_segments`)."""
        run = sum_segments if self.state.compiled else sum_segments.python
        before = rng.copy() if isinstance(rng, np.ndarray) else None
        while True:
            evaluations, supported, kept = run(
                self.slots(), self.order, self.old_start, self.log_size, slope, *beam, mode,
                self.start, self.log_weight, self.weights, self.scratch, self.log_g, self.back, log_b, self.scan_room, rng,
            )  # fmt: skip
            if evaluations == NOT_A_NUMBER:
                raise ValueError(NOT_A_NUMBER_MESSAGE.format(point=self.order[kept]))
            if evaluations != FULL:
                return int(evaluations), bool(supported), int(kept)
            self.capacity = 2 * self.capacity
            if before is not None:  # what is drawn must not depend on how much room there was
                rng[:] = before

    def draw_by_number(self, log_b: Floats, log_a: Floats, rng: Any) -> None:
        """Draw segments from A(K) ∏ B(c)."""
        run: Any = draw_by_number
        (run if self.state.compiled else run.py_func)(log_b, log_a, np.empty((self.n + 1, self.n + 1)), np.empty(self.n), np.empty(self.n), self.back, rng)

    def drawn(self) -> tuple[Ints, int]:
        """Labels of the segments drawn, and their number."""
        labels = np.empty(self.n, dtype=np.int64)
        return labels, int(trace_back(self.order, self.back, labels))
