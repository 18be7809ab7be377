"""Moves by name. A new move is one file here and one line in `REGISTRY`."""

from __future__ import annotations

from collections.abc import Sequence

from maitre.moves.auxiliary import Auxiliary
from maitre.moves.base import Move, Report
from maitre.moves.compose import Composed
from maitre.moves.gibbs import Gibbs
from maitre.moves.hyper import FamilyHyperparameters, PriorHyperparameters
from maitre.moves.permutation import Permutation
from maitre.moves.split_merge import SplitMerge
from maitre.states.mixture import Model

REGISTRY: dict[str, type[Move]] = {move.name: move for move in (Gibbs, Auxiliary, SplitMerge, Permutation)}


def resolve(moves: str | Move | Sequence[str | Move], model: Model) -> Composed:
    """The moves named by a string such as "gibbs+auxiliary", or given as objects, with the hyper-parameter moves that the model calls for.

    Named moves share the work evenly. With "auto", the family's own choice, the first does as much as all others together: they find clusters in burn-in, and it then
    does most of the mixing. Everything a move requires of the model is checked here.
    """
    automatic = isinstance(moves, str) and moves.strip() == "auto"
    if isinstance(moves, str):
        moves = (model.family.MOVES if automatic else moves).split("+")
    parts = [moves] if isinstance(moves, Move) else list(moves)
    always: list[Move] = []
    if model.prior.hyperpriors():
        always.append(PriorHyperparameters())
    if model.family.hyperpriors():
        always.append(FamilyHyperparameters())
    composed = Composed(
        [part if isinstance(part, Move) else _named(part.strip()) for part in parts], always, 1.0 / max(1, len(parts) - 1) if automatic else 1.0
    )
    composed.check(model)
    return composed


def _named(name: str) -> Move:
    if name not in REGISTRY:
        raise ValueError(f"unknown move {name!r}; expected one of {', '.join(map(repr, REGISTRY))}, or several joined by '+'")
    return REGISTRY[name]()


__all__ = [
    "REGISTRY",
    "Auxiliary",
    "Composed",
    "FamilyHyperparameters",
    "Gibbs",
    "Move",
    "Permutation",
    "PriorHyperparameters",
    "Report",
    "SplitMerge",
    "resolve",
]
