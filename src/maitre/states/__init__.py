"""Kinds of states by the kind of prior they are for. A new one is one file here and one line in `REGISTRY`; of several that fit, the first is the default."""

from __future__ import annotations

from maitre.priors.base import Prior
from maitre.states.base import State, Variable
from maitre.states.franchise import FranchiseState, LabelledFranchiseState
from maitre.states.links import LinksState
from maitre.states.mixture import MixtureState
from maitre.states.rankings import OrderingState, WorthState

REGISTRY: list[type[State]] = [MixtureState, LinksState, FranchiseState]


def state_for(prior: Prior) -> type[State]:
    """The kind of state that a prior calls for."""
    return next(kind for kind in REGISTRY if isinstance(prior, kind.PRIOR))


__all__ = [
    "REGISTRY",
    "FranchiseState",
    "LabelledFranchiseState",
    "LinksState",
    "MixtureState",
    "OrderingState",
    "State",
    "Variable",
    "WorthState",
    "state_for",
]
