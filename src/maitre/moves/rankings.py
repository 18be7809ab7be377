"""The sweep over voters that mixtures over rankings share.

A voter with ranking π, taken out, joins cluster c with probability ∝ W(|c|+1)/W(|c|) p(π | c) and opens one with ∝ V(n, K+1)/V(n, K) W(1) (n − t)!/n!, in which case whatever is
explicit about it (an ordering, dispersions, worths) is drawn from its posterior given π, exactly. So no auxiliary clusters are needed, and nothing is cut off, for any
Gibbs-type prior. What p(π | c) is, the type of the statistics says. Voters with one and the same ranking are visited one after the other: what the clusters say of it is worked
out once, and after one of them moves only two clusters say something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from maitre.families.rankings import RankingFamily, open_with
from maitre.families.statistics import add, clear, log_predictive, log_predictive_all, log_predictive_without, remove
from maitre.model import Model
from maitre.moves.base import Move, Report
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_log, shuffle
from maitre.numerics.rng import RngState
from maitre.states.mixture import first_empty
from maitre.states.rankings import RankingState, list_ballots

_LOOKED_AT, _RARE, _LESS = 400, 0.01, 4  # proposals of a kind of which fewer than this share was accepted are made so many times less often


@kernel
def sweep(
    s: Any,
    order: Ints,
    place: Ints,
    labels: Slots,
    sizes: Ints,
    occupancy: Ints,
    log_join: Floats,
    log_v: Floats,
    log_w: Floats,
    scores: Floats,
    rng: Any,
) -> bool:
    """The rankings of `order` from the place[0]-th on, in the first of them voters from place[1] on; false if slots run out, with `place` where to go on."""
    like, weights, scratch = scores[0], scores[1], scores[2]
    n_clusters, n_slots, free = occupancy[0], occupancy[1], occupancy[2]
    for t in range(place[0], len(order)):
        d = order[t]
        alone_here = s.log_alone[s.starts[d + 1] - s.starts[d]]
        for k in range(n_slots):
            like[k] = 0.0
        log_predictive_all(s, d, n_slots, like)
        for v in range(max(s.first_voter[d], place[1]), s.first_voter[d + 1]):
            own: Any = np.int64(labels[s.voters[v]])
            alone = sizes[own] == 1
            if free < 0 and not alone:
                place[0], place[1] = t, v
                occupancy[0], occupancy[1], occupancy[2] = n_clusters, n_slots, free
                return False
            others = n_clusters - 1 if alone else n_clusters
            log_new = log_w[1] + log_v[others + 1] - log_v[others] + alone_here
            for k in range(n_slots):
                weights[k] = log_join[k] + like[k]
            if alone:
                weights[own] = log_new
            else:
                weights[own] = log_w[sizes[own]] - log_w[sizes[own] - 1] + log_predictive_without(s, own, d)
                weights[free] = log_new
            chosen = draw_log(weights, n_slots, scratch, rng)
            if chosen == own and not alone:
                continue
            sizes[own] -= 1
            if sizes[own] == 0:
                clear(s, own)
                log_join[own] = -np.inf
                n_clusters -= 1
            else:
                remove(s, own, d)
                log_join[own] = log_w[sizes[own] + 1] - log_w[sizes[own]]
                like[own] = log_predictive(s, own, d)
            if sizes[chosen] == 0:
                open_with(s, chosen, d, rng)
                n_clusters += 1
            add(s, chosen, d)
            sizes[chosen] += 1
            log_join[chosen] = log_w[sizes[chosen] + 1] - log_w[sizes[chosen]]
            like[chosen] = log_predictive(s, chosen, d)
            labels[s.voters[v]] = chosen
            if sizes[chosen] == 1 or sizes[own] == 0:
                free = first_empty(sizes, 0)
                while free >= n_slots:
                    like[n_slots] = 0.0
                    n_slots += 1
        place[1] = 0
    occupancy[0], occupancy[1], occupancy[2] = n_clusters, n_slots, free
    return True


class RankingMove(Move):
    """A move for one family of rankings."""

    family: ClassVar[type[RankingFamily]]

    def check(self, model: Model) -> None:
        """Rankings under the family only."""
        if not isinstance(model.family, self.family):
            raise ValueError(f"move {self.name!r} is for the family {self.family.__name__}, not for {type(model.family).__name__}")


class SplittingMove(RankingMove):
    """A move that also proposes splits and merges of several kinds; unless their numbers are given, it learns in burn-in, from counts alone, which are hardly ever accepted, and makes those less often."""

    KINDS: ClassVar[tuple[str, ...]]
    REMEMBERS: ClassVar[tuple[str, ...]] = ("numbers", "tried", "accepted")

    def __init__(self, proposals: tuple[int, ...] | None) -> None:
        self.proposals = None if proposals is None else tuple(whole_number("proposals", number) for number in proposals)
        self.numbers: list[int] = []
        self.tried, self.accepted = [0] * len(self.KINDS), [0] * len(self.KINDS)
        self.learning = False

    def burn_in(self, share: float) -> None:
        self.learning = True

    def freeze(self) -> None:
        self.learning = False

    def propose(self, state: Any, split_and_merge: Callable[..., Report], usual: tuple[int, ...], rng: RngState) -> Report:
        """An iteration's splits and merges: as many of each kind as was asked for or learnt, at first the usual numbers."""
        numbers = self.proposals or tuple(self.numbers) or usual
        report = split_and_merge(state, numbers, rng)
        if self.learning and self.proposals is None:
            self.numbers = [self._learnt(kind, number, report, usual[kind]) for kind, number in enumerate(numbers)]
        return report

    def _learnt(self, kind: int, number: int, report: Report, usual: int) -> int:
        """How many proposals of a kind are to be made from now on."""
        self.tried[kind] += number
        self.accepted[kind] += int(sum(value for name, value in report.extra.items() if name.startswith(self.KINDS[kind])))
        if self.tried[kind] < _LOOKED_AT:
            return number
        rare = self.accepted[kind] < _RARE * self.tried[kind]
        self.tried[kind] = self.accepted[kind] = 0
        return -(-usual // _LESS) if rare else usual


def reseat(state: RankingState, statistics: Callable[[], Any], rng: RngState, order: Ints | None = None) -> Report:
    """A sweep over all voters, or those of the rankings in `order`; `statistics` gives those of the state's slots, again whenever there are more of these."""
    if order is None:
        order = np.arange(len(state.statistics.starts) - 1)
        shuffle(order, rng)
    place, run = np.zeros(2, dtype=np.int64), sweep if state.compiled else sweep.python
    while not run(
        statistics(),
        order,
        place,
        state.labels,
        state.sizes,
        state.occupancy,
        state.log_join,
        state.log_v,
        state.log_w,
        np.zeros((3, state.capacity)),
        rng,
    ):
        state.make_room()
    return Report(state.model.n * state.n_clusters)


def listed(state: RankingState) -> tuple[Ints, Ints]:
    """The rankings of every cluster's voters, and where those of each slot begin."""
    members, begin = np.empty(state.model.n, dtype=np.int64), np.zeros(state.capacity, dtype=np.int64)
    list_ballots(state.statistics, state.labels, state.sizes, members, begin)
    return members, begin
