"""Moves by name. A new move is one file here and one line in `REGISTRY`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from maitre.families.base import ConjugateFamily
from maitre.moves.auxiliary import Auxiliary
from maitre.moves.base import Move, Report
from maitre.moves.compose import Composed
from maitre.moves.explicit_links import ExplicitLinks
from maitre.moves.gibbs import Gibbs
from maitre.moves.hyper import FamilyHyperparameters, PriorHyperparameters
from maitre.moves.links import Links
from maitre.moves.permutation import Permutation
from maitre.moves.split_merge import SplitMerge
from maitre.priors.distance_dependent import DistanceDependent
from maitre.states.mixture import Model

REGISTRY: dict[str, type[Move]] = {move.name: move for move in (Gibbs, Auxiliary, SplitMerge, Permutation, Links, ExplicitLinks)}


def resolve(moves: str | Move | Sequence[str | Move], model: Model) -> Composed:
    """The moves named by a string such as "gibbs+auxiliary", or given as objects, with the hyper-parameter moves that the model calls for.

    Named moves share the work evenly. With "auto", the family's own choice, the first does as much as all others together: they find clusters in burn-in, and it then
    does most of the mixing. Everything a move requires of the model is checked here.
    """
    automatic = isinstance(moves, str) and moves.strip() == "auto"
    if isinstance(moves, str):
        moves = (_best(model) if automatic else moves).split("+")
    parts = [moves] if isinstance(moves, Move) else list(moves)
    parts = [deepcopy(part) for part in parts]  # a move adapts to its chain
    always: list[Move] = []
    if model.prior.hyperpriors():
        always.append(PriorHyperparameters())
    if model.family.hyperpriors():
        always.append(FamilyHyperparameters())
    composed = Composed(
        [part if isinstance(part, Move) else _named(part.strip()) for part in parts], always, 1.0 / max(1, len(parts) - 1) if automatic else 1.0
    )
    for move in (*composed.shared, *composed.always):
        _check_prior(move, model)
    composed.check(model)
    return composed


def _best(model: Model) -> str:
    """What "auto" stands for: the family's own choice, or the moves for links where the prior is about links."""
    if not isinstance(model.prior, DistanceDependent):
        return model.family.MOVES
    return "links" if isinstance(model.family, ConjugateFamily) else "explicit_links"


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
    "Permutation",
    "PriorHyperparameters",
    "Report",
    "SplitMerge",
    "resolve",
]
