"""Moves by name. A new move is one file here and one line in `REGISTRY`."""

from __future__ import annotations

from collections.abc import Sequence

from maitre.families.base import ConjugateFamily
from maitre.moves.auxiliary import Auxiliary
from maitre.moves.base import Move, Report
from maitre.moves.compose import Composed
from maitre.moves.explicit_links import ExplicitLinks
from maitre.moves.gibbs import Gibbs
from maitre.moves.hyper import FamilyHyperparameters, PriorHyperparameters
from maitre.moves.links import Links
from maitre.moves.split_merge import SplitMerge
from maitre.priors.distance_dependent import DistanceDependent
from maitre.states.mixture import Model

REGISTRY: dict[str, type[Move]] = {move.name: move for move in (Gibbs, Auxiliary, SplitMerge, Links, ExplicitLinks)}


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
    collapsed, explicit = ("links", "explicit_links") if isinstance(model.prior, DistanceDependent) else ("gibbs", "auxiliary")
    best = collapsed if isinstance(model.family, ConjugateFamily) else explicit
    composed = Composed([part if isinstance(part, Move) else _named(best if part.strip() == "auto" else part.strip()) for part in parts], always)
    for move in (*composed.shared, *composed.always):
        _check_prior(move, model)
    composed.check(model)
    return composed


def _check_prior(move: Move, model: Model) -> None:
    if not isinstance(model.prior, move.priors):
        suited = [name for name, other in REGISTRY.items() if isinstance(model.prior, other.priors)]
        raise ValueError(f"move {move.name!r} does not work with the prior {type(model.prior).__name__}; those that do are {', '.join(map(repr, suited))}")


def _named(name: str) -> Move:
    if name not in REGISTRY:
        raise ValueError(f"unknown move {name!r}; expected one of {', '.join(map(repr, REGISTRY))}, or several joined by '+'")
    return REGISTRY[name]()


__all__ = [
    "REGISTRY",
    "Auxiliary",
    "Composed",
    "ExplicitLinks",
    "FamilyHyperparameters",
    "Gibbs",
    "Links",
    "Move",
    "PriorHyperparameters",
    "Report",
    "SplitMerge",
    "resolve",
]
