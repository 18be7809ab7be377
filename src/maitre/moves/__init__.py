"""Moves by name. A new move is one file here and one line in `REGISTRY`."""

from __future__ import annotations

from collections.abc import Sequence

from maitre.families.base import ConjugateFamily
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

    Everything a move requires of the model is checked here.
    """
    parts = moves.split("+") if isinstance(moves, str) else [moves] if isinstance(moves, Move) else list(moves)
    always: list[Move] = []
    if model.prior.hyperpriors():
        always.append(PriorHyperparameters())
    if model.family.hyperpriors():
        always.append(FamilyHyperparameters())
    best = "gibbs" if isinstance(model.family, ConjugateFamily) else "auxiliary"
    composed = Composed([part if isinstance(part, Move) else _named(best if part.strip() == "auto" else part.strip()) for part in parts], always)
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
