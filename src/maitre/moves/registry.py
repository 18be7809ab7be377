"""Moves by name. `maitre.moves` fills the registry; a move that is made of others finds them here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maitre.model import Model
from maitre.moves.base import Move, lacking

REGISTRY: dict[str, type[Move]] = {}


def named_moves(moves: Any) -> list[Move]:
    """Moves of a chain's own from names joined by "+", one move object, or a list of names and objects."""
    if isinstance(moves, str):
        return [as_move(name) for name in moves.split("+")]
    if isinstance(moves, Move):
        return [as_move(moves)]
    if not isinstance(moves, Sequence) or isinstance(moves, (bytes, bytearray)):
        raise ValueError(f"moves is {moves!r}; expected names joined by '+', such as 'gibbs+split_merge', or a list of move objects")
    return [as_move(part) for part in moves]


def as_move(part: Any) -> Move:
    """A move of a chain's own, from a name or from an object, of which it is a copy with nothing learnt."""
    if isinstance(part, Move):
        return part.afresh()
    name = part.strip() if isinstance(part, str) else part
    if not isinstance(name, str) or name not in REGISTRY:
        raise ValueError(f"unknown move {name!r}; expected one of {', '.join(map(repr, REGISTRY))}, or several joined by '+'")
    return REGISTRY[name]()


def check_move(move: Move, model: Model) -> None:
    """The one place where a move and a model meet."""
    reason = lacking(move, model)
    if reason is not None:
        suited = [name for name, other in REGISTRY.items() if lacking(other, model) is None]
        raise ValueError(f"move {move.name!r} {reason}; those that do are {', '.join(map(repr, suited))}" if suited else f"move {move.name!r} {reason}")
    move.check(model)
