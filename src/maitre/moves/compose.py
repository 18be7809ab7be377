"""Several moves as one, with the work shared evenly.

During burn-in each move's cost is measured in operations (predictive evaluations), never in seconds. The first move sets the pace: a cheaper one is repeated as often
as makes its work equal, a dearer one has its turn only every so many iterations (though in each while a move climbs). Then the schedule is frozen: one that went on
following the state would not leave the target invariant, and one that followed the clock would not repeat.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from maitre.moves.base import Move, Report
from maitre.numerics.rng import RngState

_MOST_REPEATS = 1000
_MEMORY = 0.8  # weight of the past in the running mean of a move's cost


class Composed(Move):
    """`shared` moves in turn, each so often that all do about the same work, then every one of `always` once.

    `followers` is the work of each but the first, in units of the first one's; `steps_of_first` how many steps the first makes in an iteration.
    """

    name = "composed"
    REMEMBERS = ("repeats", "periods", "costs", "iteration", "frozen")

    def __init__(self, shared: Sequence[Move], always: Sequence[Move] = (), followers: float = 1.0, steps_of_first: int = 1) -> None:
        if not shared:
            raise ValueError("no moves were given; expected at least one, e.g. moves='gibbs'")
        self.shared, self.always, self.followers, self.steps_of_first = list(shared), list(always), followers, steps_of_first
        self.repeats = [steps_of_first] + [1] * (len(self.shared) - 1)  # per turn
        self.periods = [1] * len(self.shared)  # iterations from turn to turn
        self.costs: list[float] = [0.0] * len(self.shared)
        self.iteration = 0
        self.frozen = False
        self.totals = [_Totals() for _ in self.parts]
        self.exact = all(move.exact for move in self.parts)

    @property
    def parts(self) -> list[Move]:
        """All moves."""
        return [*self.shared, *self.always]

    def afresh(self) -> Composed:
        """The same moves with nothing learnt."""
        return Composed([move.afresh() for move in self.shared], [move.afresh() for move in self.always], self.followers, self.steps_of_first)

    def memory(self) -> dict[str, Any]:
        """With that of every move, and the sums since burn-in."""
        return super().memory() | {
            "parts": [move.memory() for move in self.parts],
            "totals": [vars(total) | {"extra": dict(total.extra)} for total in self.totals],
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """With that of every move, and the sums since burn-in."""
        super().recall(memory)
        for move, own in zip(self.parts, memory["parts"], strict=True):
            move.recall(own)
        self.totals = [_Totals(**{**total, "extra": Counter(total["extra"])}) for total in memory["totals"]]

    def burn_in(self, share: float) -> None:
        for move in self.parts:
            move.burn_in(share)

    def step(self, state: Any, rng: RngState) -> Report:
        operations = 0
        for position, (move, total) in enumerate(zip(self.parts, self.totals, strict=True)):
            shared = position < len(self.shared)
            if shared and self.iteration % self.periods[position]:
                continue
            repeats = self.repeats[position] if shared else 1
            began = time.thread_time()
            report = move.steps(state, rng, repeats)
            operations += report.operations
            total.count(report, repeats, time.thread_time() - began)
            if shared and not self.frozen:
                self._remember(position, report.operations / repeats)
        if not self.frozen:
            self._balance()
        self.iteration += 1
        return Report(operations)

    def _remember(self, position: int, cost: float) -> None:
        self.costs[position] = _MEMORY * self.costs[position] + (1.0 - _MEMORY) * cost if self.costs[position] else cost

    def _balance(self) -> None:
        pace, climbing = max(1.0, self.costs[0]), any(move.climbing for move in self.shared)
        for position, (move, cost) in enumerate(zip(self.shared, self.costs, strict=True)):
            ratio = self.steps_of_first * (self.followers if position else 1.0) * pace / max(1.0, cost)
            at_most = 1 if move.climbing else 2 * self.repeats[position]  # a first proposal may have been cheap by chance
            self.repeats[position] = min(_MOST_REPEATS, max(1, round(ratio)), at_most)
            self.periods[position] = 1 if climbing else min(_MOST_REPEATS, max(1, round(1.0 / ratio)))

    def freeze(self) -> None:
        """Keep the repeats as they are from here on: the end of burn-in. Counts start afresh."""
        self.frozen = True
        self.totals = [_Totals() for _ in self.totals]
        for move in self.parts:
            move.freeze()

    def summary(self) -> dict[str, dict[str, float]]:
        """For each move, since burn-in: repeats per turn, iterations from turn to turn, operations and CPU seconds per call, the share of proposals accepted, and what else it reports."""
        repeats = [*self.repeats, *(1 for _ in self.always)]
        all_moves = self.parts
        names = [m.name if i == 0 or m.name not in [other.name for other in all_moves[:i]] else f"{m.name} {i + 1}" for i, m in enumerate(all_moves)]
        periods = [*self.periods, *(1 for _ in self.always)]
        return {name: {"repeats": r, "period": p, **total.means()} for name, r, p, total in zip(names, repeats, periods, self.totals, strict=True)}


@dataclass
class _Totals:
    """Sums over a move's steps."""

    calls: int = 0
    operations: int = 0
    proposed: int = 0
    accepted: int = 0
    seconds: float = 0.0
    extra: Counter[str] = field(default_factory=Counter)

    def count(self, report: Report, repeats: int, seconds: float) -> None:
        self.calls += repeats
        self.seconds += seconds
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
