"""Moves by name. A new move is one file here and one line in `REGISTRY`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maitre.model import Model
from maitre.moves.auxiliary import Auxiliary
from maitre.moves.base import ABILITIES, Move, Report, lacking
from maitre.moves.compose import Composed
from maitre.moves.explicit_links import ExplicitLinks
from maitre.moves.gibbs import Gibbs
from maitre.moves.hyper import FamilyHyperparameters, PriorHyperparameters
from maitre.moves.links import Links
from maitre.moves.permutation import Permutation
from maitre.moves.split_merge import SplitMerge
from maitre.states import state_for
from maitre.states.base import State
from maitre.states.clusters import ClusterState

REGISTRY: dict[str, type[Move]] = {move.name: move for move in (Gibbs, Auxiliary, SplitMerge, Permutation, Links, ExplicitLinks)}


def resolve(moves: str | Move | Sequence[str | Move], model: Model) -> Composed:
    """The moves named by a string such as "gibbs+auxiliary", or given as objects, with the hyper-parameter moves that the model calls for.

    Named moves share the work evenly. With "auto", the state's own choice, the first does as much as all others together: they find clusters in burn-in, and it then
    does most of the mixing. Everything a move requires of the model is checked here.
    """
    automatic = isinstance(moves, str) and moves.strip() == "auto"
    parts = [as_move(part) for part in _parts(state_for(model.prior).auto_moves(model) if automatic else moves)]
    if parts and issubclass(parts[0].state, ClusterState):
        always: list[Move] = [PriorHyperparameters()] if model.prior.hyperpriors() else []
        always += [FamilyHyperparameters()] if model.family.hyperpriors() else []
    else:
        always = []
    composed = Composed(parts, always, 1.0 / max(1, len(parts) - 1) if automatic else 1.0)
    for move in (*composed.shared, *composed.always):
        check_move(move, model)
    return composed


def state_of(moves: Composed) -> type[State]:
    """The kind of state that the moves change."""
    return moves.shared[0].state


def check_move(move: Move, model: Model) -> None:
    """The one place where a move and a model meet."""
    reason = lacking(move, model)
    if reason is not None:
        suited = [name for name, other in REGISTRY.items() if lacking(other, model) is None]
        raise ValueError(f"move {move.name!r} {reason}; those that do are {', '.join(map(repr, suited))}" if suited else f"move {move.name!r} {reason}")
    move.check(model)


def _parts(moves: Any) -> list[Any]:
    if isinstance(moves, str):
        return moves.split("+")
    if isinstance(moves, Move):
        return [moves]
    if not isinstance(moves, Sequence) or isinstance(moves, (bytes, bytearray)):
        raise ValueError(f"moves is {moves!r}; expected names joined by '+', such as 'gibbs+split_merge', or a list of move objects")
    return list(moves)


def as_move(part: Any) -> Move:
    """A move of a chain's own, from a name or from an object, of which it is a copy with nothing learnt."""
    if isinstance(part, Move):
        return part.afresh()
    name = part.strip() if isinstance(part, str) else part
    if not isinstance(name, str) or name not in REGISTRY:
        raise ValueError(f"unknown move {name!r}; expected one of {', '.join(map(repr, REGISTRY))}, or several joined by '+'")
    return REGISTRY[name]()


__all__ = [
    "ABILITIES",
    "REGISTRY",
    "Auxiliary",
    "Composed",
    "ExplicitLinks",
    "FamilyHyperparameters",
    "Gibbs",
    "Links",
    "Move",
    "Permutation",
    "PriorHyperparameters",
    "Report",
    "SplitMerge",
    "as_move",
    "check_move",
    "resolve",
    "state_of",
]
