"""Mixtures of generalized Mallows models: an iteration is a sweep over all voters, new orderings of all clusters, and splits and merges."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from maitre.families.generalized_mallows import GeneralizedMallows
from maitre.moves.base import Report
from maitre.moves.mallows_split import split_and_merge
from maitre.moves.mallows_sweeps import redraw, reseat_collapsed, reseat_explicit
from maitre.moves.ranking_parts import deal
from maitre.moves.rankings import SplittingMove
from maitre.numerics.arguments import one_of, whole_number
from maitre.numerics.bits import WORD
from maitre.numerics.rng import RngState
from maitre.states.rankings import OrderingState

_KINDS = ("reinsertion", "stagewise", "swaps")
_MANY_VOTERS = 20_000
_DEALT_EVERY, _DEALT_UNTIL = 10, 0.25  # iterations, of burn-in
_VOTERS_OF_PART, _MOST_PARTS = 100, 400
_FEW_ITEMS, _MANY_BALLOTS, _MANY_ITEMS = (6, 2, 2), (20, 2, 10), (1, 0, 1)  # proposals


class Mallows(SplittingMove):
    """Exact sampling of partition and orderings, the dispersions θ integrated out.

    Parameters
    ----------
    collapsed_every : sweeps with θ integrated out come so often; between them θ is drawn first, which is faster. By default all of up to 20,000 voters, one in 25 of more.
    rounds : how often θ and the orderings are redrawn in an iteration.
    proposals : how many smart splits and merges, re-splits of two clusters, and coins (merges of clusters alike) an iteration makes; by default 6, 2 and 2, for more than
        20,000 voters, who have many clusters, 20, 2 and 10, and of more than 64 items, whose orderings take long to propose, 1, 0 and 1; a quarter of that of a kind of
        which in burn-in fewer than one in a hundred is accepted.
    orderings : "reinsertion" (each item to any place), "stagewise" (a proposal of a whole ordering first, accepted or not), or "swaps" (neighbours).
    parts : in the first quarter of burn-in, every tenth iteration begins with clusters dealt at random into parts, until there are about so many: the chain forgets what it started
        from (`maitre.moves.ranking_parts`). By default one for 100 voters, at most 400, of more than 20,000 voters who often agree; of others none.
    """

    name = "mallows"
    state: ClassVar[type[OrderingState]] = OrderingState
    family = GeneralizedMallows
    KINDS = ("smart", "resplit", "coin")
    REMEMBERS = (*SplittingMove.REMEMBERS, "iteration")

    def __init__(
        self,
        collapsed_every: int | None = None,
        rounds: int = 2,
        proposals: tuple[int, int, int] | None = None,
        orderings: Literal["reinsertion", "stagewise", "swaps"] = "reinsertion",
        parts: int | None = None,
    ) -> None:
        super().__init__(proposals)
        self.collapsed_every = None if collapsed_every is None else whole_number("collapsed_every", collapsed_every, least=1)
        self.rounds = whole_number("rounds", rounds, least=1)
        self.orderings = one_of("orderings", orderings, _KINDS)
        self.parts = None if parts is None else whole_number("parts", parts)
        self.iteration = 0
        self.dealing = False

    def burn_in(self, share: float) -> None:
        super().burn_in(share)
        self.dealing = share < _DEALT_UNTIL

    def freeze(self) -> None:
        super().freeze()
        self.dealing = False

    def step(self, state: OrderingState, rng: RngState) -> Report:
        many = state.model.n > _MANY_VOTERS
        if self.dealing and self.iteration % _DEALT_EVERY == 0 and self.iteration > 0:
            deal(state, self._n_parts(state), rng)
        every = self.collapsed_every or (25 if many else 1)
        sweep = reseat_collapsed if self.iteration % every == 0 else reseat_explicit
        self.iteration += 1
        operations = sweep(state, rng).operations
        redraw(state, self.rounds, _KINDS.index(self.orderings), rng)
        usual = _MANY_ITEMS if state.statistics.n_items > WORD else _MANY_BALLOTS if many else _FEW_ITEMS
        report = self.propose(state, split_and_merge, usual, rng)
        state.touched()
        return report._replace(operations=operations)

    def _n_parts(self, state: OrderingState) -> int:
        """How many clusters burn-in deals until there are."""
        if self.parts is not None:
            return self.parts
        rankings: Any = state.model.data
        return min(_MOST_PARTS, rankings.n // _VOTERS_OF_PART) if rankings.n > _MANY_VOTERS and rankings.often_equal else 0
