"""The partition with the least expected loss over draws: many starts of a greedy search (`maitre.partitions.allocation`), or all partitions of a few points.

Starts are draws that do well themselves, and points allocated one after the other in random order. Each is improved point by point until nothing moves; of the best, every
cluster is dissolved in turn, its points allocated anew with and without the right to open a cluster, and what lowers the loss stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from maitre.numerics.arrays import Floats, Ints
from maitre.partitions.allocation import Allocation, fill, mean_loss, reallocate, seat_as
from maitre.partitions.enumeration import all_partitions
from maitre.partitions.labels import canonical
from maitre.partitions.losses import Loss

_CELLS, _LABELS = 32_000_000, 100_000_000  # counts of clusters of draws with clusters of the candidate; labels of draws
_SCREENING = 8e6  # looks at a point and a draw that choosing among draws may take
_WORK = 1.2e8  # the same, times clusters, for all starts together
_MOST_STARTS, _MOST_SWEEPS, _SMALL = 24, 30, 1e6
_ENOUGH = 1e-9
_FEW = 100  # draws, evenly spaced, on which the search begins; what it finds is then improved on all of them


class Estimate(NamedTuple):
    """A partition and the loss that is expected of reporting it."""

    labels: Ints
    loss: float


def enumerated(draws: Any, loss: Loss) -> Estimate:
    """The best of all partitions, for ten points or fewer.

    >>> enumerated(np.array([[0, 0, 1], [0, 0, 1], [0, 1, 1]]), Loss("vi")).labels.tolist()
    [0, 0, 1]
    """
    n = np.shape(draws)[1]
    if n > 10:
        raise ValueError(f"there are {n} points, with more partitions than can be tried; at most 10")
    best = min(all_partitions(n), key=lambda labels: float(loss.of(labels, draws).mean()))
    return Estimate(np.array(best), float(loss.of(best, draws).mean()))


def minimised(draws: Any, loss: Loss, candidates: tuple[Any, ...] = (), starts: int | None = None, seed: int = 0) -> Estimate:
    """The best partition found for draws (T, n) of labels 0, 1, …; never worse than the candidates, which are partitions too.

    >>> minimised(np.array([[0, 0, 1], [0, 0, 1], [0, 1, 1]]), Loss("vi")).labels.tolist()
    [0, 0, 1]
    """
    if (np.asarray(draws) == draws[0]).all():
        return _best_of([canonical(draws[0])], np.asarray(draws)[:1], loss)
    kept, given = within_memory(np.asarray(draws), loss), [canonical(labels) for labels in candidates]
    if kept is None:
        chosen = np.asarray(draws)[:: max(1, len(draws) // 32)]
        return _best_of([*given, *map(canonical, chosen)], chosen, loss)
    rng = np.random.default_rng(seed)
    few = kept[:: max(1, len(kept) // _FEW)]
    found = Search(few, loss, rng).run(given, starts)
    if len(few) < len(kept):
        found = Search(kept, loss, rng).polished([found, *given])
    return _best_of([canonical(found), *given], kept, loss)


def _best_of(partitions: list[Ints], draws: Any, loss: Loss) -> Estimate:
    found = [Estimate(labels, float(loss.of(labels, draws).mean())) for labels in partitions]
    return min(found, key=lambda estimate: estimate.loss)


def within_memory(draws: Any, loss: Loss) -> Any | None:
    """As many draws, evenly spaced, as the search has room for; None if it has room for hardly any."""
    n = draws.shape[1]
    widths = draws.max(axis=1).astype(np.int64) + 1
    slots = n_slots_for(int(widths.max()), n, loss)
    most = int(min(_CELLS // max(int(widths.mean()) * slots, 1), _LABELS // max(n, 1)))
    if most >= len(draws):
        return draws
    return draws[np.unique(np.linspace(0, len(draws) - 1, most).astype(np.int64))] if most >= 8 else None


def n_slots_for(n_clusters: int, n: int, loss: Loss) -> int:
    """Clusters that a candidate may have; losses of pairs like to leave doubtful points alone."""
    return min(n, 3 * n_clusters + 20 if loss.pairs else n_clusters + max(4, n_clusters // 3))


class Search:
    """Draws in the form that the kernels read, and the candidate under way."""

    def __init__(self, draws: Any, loss: Loss, rng: np.random.Generator) -> None:
        n_draws, n = draws.shape
        widths = draws.max(axis=1).astype(np.int64) + 1
        begins = np.concatenate([[0], np.cumsum(widths)])
        f, slots = loss.table(n), n_slots_for(int(widths.max()), n, loss)
        rows = np.ascontiguousarray((draws + begins[:-1, None]).astype(np.int32).T)
        draw_of_row = np.repeat(np.arange(n_draws, dtype=np.int32), widths)
        own: Floats = np.asarray(np.bincount(draw_of_row, f[np.bincount(rows.ravel(), minlength=int(begins[-1]))], minlength=n_draws), dtype=np.float64)
        shape = (int(begins[-1]), slots)
        self.s = Allocation(
            rows, draw_of_row, np.zeros(shape, dtype=np.int32), np.zeros(shape), np.full(n, -1, dtype=np.int32), np.zeros(slots, dtype=np.int64), f,
            np.append(np.diff(f), 0.0), own, np.zeros(n_draws), np.zeros(1), np.zeros(slots), loss.ratio,
        )  # fmt: skip
        self.draws, self.kind, self.rng, self.n, self.slots = draws, loss.kind, rng, n, slots

    def run(self, candidates: list[Ints], starts: int | None = None) -> Ints:
        """The best labels found."""
        work = self.s.rows.size * float(np.mean(self.draws.max(axis=1)) + 1.0)
        starts = int(np.clip(_WORK / (10.0 * work), 2, _MOST_STARTS)) if starts is None else starts
        best, least = np.zeros(self.n, dtype=np.int64), np.inf
        for labels in self._beginnings(candidates, starts):
            fill(self.s, labels)
            self._improve()
            if work < _SMALL:
                self._dissolve_in_turn()
            if self.value() < least - _ENOUGH:
                best, least = self.s.labels.astype(np.int64), self.value()
        if work >= _SMALL:
            fill(self.s, best)
            self._dissolve_in_turn()
            best = self.s.labels.astype(np.int64)
        return best

    def polished(self, candidates: list[Ints]) -> Ints:
        """The best of the candidates and some draws, improved."""
        fill(self.s, next(self._beginnings(candidates, 1)))
        self._improve()
        return canonical(self.s.labels)

    def value(self) -> float:
        """The loss of the candidate as it stands, but for constants."""
        return float(mean_loss(self.s, self.kind))

    def _beginnings(self, candidates: list[Ints], starts: int) -> Iterator[Ints]:
        """The best of the candidates and of some draws, then nobody seated at all."""
        some = int(np.clip(_SCREENING / self.s.rows.size, 4, len(self.draws)))
        chosen = [canonical(self.draws[t]) for t in np.unique(np.linspace(0, len(self.draws) - 1, some).astype(np.int64))]
        fitting = [labels for labels in (*candidates, *chosen) if labels.max() < self.slots]
        values = []
        for labels in fitting:
            fill(self.s, labels)
            values.append(self.value())
        for place in np.argsort(values, kind="stable")[: max(1, starts // 3)]:
            yield fitting[place]
        if starts >= _MOST_STARTS:
            yield np.zeros(self.n, dtype=np.int64)
        for _ in range(starts - max(1, starts // 3)):
            yield np.full(self.n, -1)

    def _improve(self) -> None:
        """Points move, first of all those that have no seat, until hardly any do; slots that have become empty cost no time."""
        for kind in [0, self.kind] if self.kind and self.s.labels[0] < 0 else [self.kind]:
            for _ in range(_MOST_SWEEPS):
                n_moved = reallocate(self.s, self.rng.permutation(self.n), True, kind, self.slots)
                used = np.flatnonzero(self.s.sizes)
                if used[-1] > 1.2 * len(used):
                    fill(self.s, canonical(self.s.labels))
                if n_moved <= self.n // 5000:
                    break

    def _dissolve_in_turn(self) -> None:
        """Every cluster, the smallest first, until all have been tried in vain or often enough."""
        for _ in range(3):
            before = self.value()
            for slot in np.argsort(self.s.sizes, kind="stable"):
                for opening in (False, True):
                    if self.s.sizes[slot] > 0:
                        self._dissolve(int(slot), opening)
            self._improve()
            if self.value() > before - _ENOUGH * max(1.0, abs(before)):
                return

    def _dissolve(self, slot: int, opening: bool) -> None:
        members = self.rng.permutation(np.flatnonzero(self.s.labels == slot))
        if len(members) == self.n and not opening:
            return
        labels, before = self.s.labels[members], self.value()
        seat_as(self.s, members, np.full(len(members), -1, dtype=np.int32))
        reallocate(self.s, members, opening, self.kind, self.slots)
        if self.value() > before - _ENOUGH * max(1.0, abs(before)):
            seat_as(self.s, members, labels)
