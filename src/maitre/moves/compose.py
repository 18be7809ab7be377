"""Several moves as one, with the work shared evenly.

During burn-in each move's cost is measured in operations (predictive evaluations), never in seconds, and cheap moves are repeated as often as makes their share
equal to that of the dearest. Then the repeats are frozen: a schedule that went on following the state would not leave the target invariant, and one that followed
the clock would not repeat.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from maitre.moves.base import Move, Report
from maitre.numerics.rng import RngState
from maitre.states.mixture import Model

_MOST_REPEATS = 100


class Composed(Move):
    """`shared` moves in turn, each repeated so that all do about the same work, then every one of `always` once."""

    name = "composed"

    def __init__(self, shared: Sequence[Move], always: Sequence[Move] = ()) -> None:
        if not shared:
            raise ValueError("no moves were given; expected at least one, e.g. moves='gibbs'")
        self.shared, self.always = list(shared), list(always)
        self.repeats = [1] * len(self.shared)
        self.frozen = False
        self.totals = [_Totals() for _ in (*self.shared, *self.always)]
        self.exact = all(move.exact for move in (*self.shared, *self.always))

    def check(self, model: Model) -> None:
        for move in (*self.shared, *self.always):
            move.check(model)

    def step(self, state: Any, rng: RngState) -> Report:
        operations = 0
        schedule = [*zip(self.shared, self.repeats, strict=True), *((move, 1) for move in self.always)]
        for total, (move, repeats) in zip(self.totals, schedule, strict=True):
            began = time.thread_time()
            for _ in range(repeats):
                report = move.step(state, rng)
                operations += report.operations
                total.count(report)
            total.seconds += time.thread_time() - began
        if not self.frozen:
            self._balance()
        return Report(operations)

    def _balance(self) -> None:
        costs = [max(1.0, total.operations / total.calls) for total, _ in zip(self.totals, self.shared, strict=False)]
        dearest = max(costs)
        self.repeats = [min(_MOST_REPEATS, max(1, round(dearest / cost))) for cost in costs]

    def freeze(self) -> None:
        """Keep the repeats as they are from here on: the end of burn-in. Counts start afresh."""
        self.frozen = True
        self.totals = [_Totals() for _ in self.totals]
        for move in (*self.shared, *self.always):
            move.freeze()

    def summary(self) -> dict[str, dict[str, float]]:
        """For each move, since burn-in: repeats per iteration, operations and CPU seconds per call, the share of proposals accepted, and what else it reports."""
        repeats = [*self.repeats, *(1 for _ in self.always)]
        all_moves = (*self.shared, *self.always)
        names = [m.name if i == 0 or m.name not in [other.name for other in all_moves[:i]] else f"{m.name} {i + 1}" for i, m in enumerate(all_moves)]
        return {name: {"repeats": r, **total.means()} for name, r, total in zip(names, repeats, self.totals, strict=True)}


@dataclass
class _Totals:
    """Sums over a move's steps."""

    calls: int = 0
    operations: int = 0
    proposed: int = 0
    accepted: int = 0
    seconds: float = 0.0
    extra: Counter[str] = field(default_factory=Counter)

    def count(self, report: Report) -> None:
        self.calls += 1
        self.operations += report.operations
        self.proposed += report.proposed
        self.accepted += report.accepted
        self.extra.update(report.extra)

    def means(self) -> dict[str, float]:
        calls = max(self.calls, 1)
        accepted = self.accepted / self.proposed if self.proposed else float("nan")
        return {"operations": self.operations / calls, "seconds": self.seconds / calls, "accepted": accepted} | {
            name: total / calls for name, total in self.extra.items()
        }
