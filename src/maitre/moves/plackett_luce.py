"""Mixtures of Plackett–Luce models: an iteration is a sweep over all voters given the clusters' worths (`maitre.moves.rankings`), new worths given the clusters, splits and merges."""

from __future__ import annotations

from typing import Any, ClassVar

from maitre.families.plackett_luce import PlackettLuce, draw_worths_alone, lay_out_worths, redraw_worths
from maitre.moves.base import Report
from maitre.moves.rankings import SplittingMove, listed, reseat
from maitre.moves.worths_split import split_and_merge
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Ints
from maitre.numerics.bits import WORD
from maitre.numerics.compilation import kernel
from maitre.numerics.rng import RngState
from maitre.states.rankings import WorthState

_FEW_ITEMS, _MANY_ITEMS = (20, 20), (4, 4)  # proposals


@kernel
def redraw_all_worths(s: Any, sizes: Ints, members: Ints, begin: Ints, rounds: int, rng: Any) -> None:
    """w | x_c of every cluster: alone exactly, otherwise `rounds` steps of Gibbs."""
    for k in range(len(sizes)):
        if sizes[k] == 1:
            draw_worths_alone(s, k, members[begin[k]], rng)
        elif sizes[k] > 1:
            for _ in range(rounds):
                redraw_worths(s, k, members[begin[k] : begin[k] + sizes[k]], sizes[k], rng)


class Worths(SplittingMove):
    """Exact sampling of partition and worths.

    Parameters
    ----------
    rounds : how often worths are redrawn in an iteration.
    proposals : how many smart splits and merges, and broad ones (merges of clusters alike), an iteration makes (`maitre.moves.worths_split`); by default 20 of each,
        and of more than 64 items, whose worths take long to propose, 4; a quarter of that of a kind of which in burn-in fewer than one in a hundred is accepted.
    """

    name = "plackett_luce"
    state: ClassVar[type[WorthState]] = WorthState
    family = PlackettLuce
    KINDS = ("smart", "broad")

    def __init__(self, rounds: int = 2, proposals: tuple[int, int] | None = None) -> None:
        super().__init__(proposals)
        self.rounds = whole_number("rounds", rounds, least=1)

    def step(self, state: WorthState, rng: RngState) -> Report:
        def statistics() -> Any:
            lay_out_worths(state.statistics)
            return state.statistics

        report = reseat(state, statistics, rng)
        state.run(redraw_all_worths, state.sizes, *listed(state), self.rounds, rng)
        usual = _MANY_ITEMS if state.statistics.n_items > WORD else _FEW_ITEMS
        outcome = self.propose(state, split_and_merge, usual, rng)
        state.log_joint = state.compute_log_joint()
        return outcome._replace(operations=report.operations)
