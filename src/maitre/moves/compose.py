"""Several moves as one, with the work shared evenly.

During burn-in each move's cost is measured in operations (predictive evaluations), never in seconds, and cheap moves are repeated as often as makes their share
equal to that of the dearest. Then the repeats are frozen: a schedule that went on following the state would not leave the target invariant, and one that followed
the clock would not repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        self.totals = [[0, 0, 0, 0] for _ in (*self.shared, *self.always)]  # calls, operations, proposed, accepted
        self.exact = all(move.exact for move in (*self.shared, *self.always))

    def check(self, model: Model) -> None:
        for move in (*self.shared, *self.always):
            move.check(model)

    def step(self, state: Any, rng: RngState) -> Report:
        operations = 0
        schedule = [*zip(self.shared, self.repeats, strict=True), *((move, 1) for move in self.always)]
        for total, (move, repeats) in zip(self.totals, schedule, strict=True):
            for _ in range(repeats):
                report = move.step(state, rng)
                operations += report.operations
                for position, value in enumerate((1, *report)):
                    total[position] += value
        if not self.frozen:
            self._balance()
        return Report(operations)

    def _balance(self) -> None:
        costs = [max(1.0, total[1] / total[0]) for total, _ in zip(self.totals, self.shared, strict=False)]
        dearest = max(costs)
        self.repeats = [min(_MOST_REPEATS, max(1, round(dearest / cost))) for cost in costs]

    def freeze(self) -> None:
        """Keep the repeats as they are from here on: the end of burn-in. Counts start afresh."""
        self.frozen = True
        self.totals = [[0, 0, 0, 0] for _ in self.totals]

    def summary(self) -> dict[str, dict[str, float]]:
        """For each move: repeats per iteration, operations per call and the share of proposals accepted since burn-in."""
        repeats = [*self.repeats, *(1 for _ in self.always)]
        all_moves = (*self.shared, *self.always)
        names = [m.name if i == 0 or m.name not in [other.name for other in all_moves[:i]] else f"{m.name} {i + 1}" for i, m in enumerate(all_moves)]
        return {
            name: {"repeats": r, "operations": t[1] / max(t[0], 1), "accepted": t[3] / t[2] if t[2] else float("nan")}
            for name, r, t in zip(names, repeats, self.totals, strict=True)
        }
