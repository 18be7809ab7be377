"""Clusters dealt at random into parts, by which a chain over ballots forgets in burn-in what it started from.

Clusters of ballots overlap. A cluster that should be ten is hardly ever parted by a split, whose two sides would both have to be right at once, and grows ten out of single voters
only slowly; clusters that are one too many lose their members to the others in sweeps. So a chain that starts from few clusters goes to its equilibrium much more slowly than one
that starts from many. Parts of one cluster are alike at first and become different by the sweeps that follow. No distribution is left invariant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.numerics.arrays import Ints
from maitre.numerics.compilation import compiled
from maitre.numerics.draw import draw_below
from maitre.numerics.rng import RngState
from maitre.states.rankings import RankingState


@compiled
def deal_members(labels: Ints, parts: Ints, first: Ints, rng: Any) -> None:
    """The voters of cluster k go to its parts[k] parts at random: itself, and first[k], first[k] + 1, …"""
    for i in range(len(labels)):
        k = labels[i]
        if parts[k] > 1:
            part = draw_below(parts[k], rng)
            if part > 0:
                labels[i] = first[k] + part - 1


def parts_of(sizes: Ints, wanted: int) -> Ints:
    """Into how many parts each cluster is dealt: larger ones into more, and all together into no more than are wanted, unless there are more clusters already.

    >>> parts_of(np.array([70, 20, 10]), 13).tolist()
    [8, 3, 2]
    """
    return 1 + sizes * max(0, wanted - len(sizes)) // sizes.sum()


def deal(state: RankingState, wanted: int, rng: RngState) -> None:
    """Clusters are dealt into parts until there are about as many as wanted, or as the prior allows."""
    if wanted <= state.n_clusters:
        return
    possible = np.isfinite(state.log_v_at(np.arange(1, wanted + 1)))
    labels = np.array(state.canonical_labels(), dtype=np.int64)
    parts = parts_of(np.bincount(labels), int(np.count_nonzero(possible)))
    if parts.max() > 1:
        deal_members(labels, parts, len(parts) + np.cumsum(parts - 1) - (parts - 1), rng)
        state.seat(labels)
