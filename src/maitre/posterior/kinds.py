"""What the draws of each kind of state are given out as."""

from __future__ import annotations

from typing import Any

from maitre.posterior.groups import GroupPosterior
from maitre.posterior.posterior import Posterior
from maitre.posterior.rankings import RankingPosterior
from maitre.states.base import State
from maitre.states.franchise import FranchiseState
from maitre.states.rankings import RankingState

KINDS: tuple[tuple[Any, type[Posterior]], ...] = ((FranchiseState, GroupPosterior), (RankingState, RankingPosterior))


def posterior_class(state: type[State]) -> type[Posterior]:
    """What the draws of a kind of state are given out as."""
    return next((posterior for kind, posterior in KINDS if issubclass(state, kind)), Posterior)
