"""Moves by name. A new move is one file here and one line in `REGISTRY`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maitre.model import Model
from maitre.moves.auxiliary import Auxiliary
from maitre.moves.base import ABILITIES, Move, Report, lacking
from maitre.moves.compose import Composed
from maitre.moves.direct import Direct
from maitre.moves.documents import Documents
from maitre.moves.explicit_links import ExplicitLinks
from maitre.moves.gibbs import Gibbs
from maitre.moves.hyper import FamilyHyperparameters, PriorHyperparameters
from maitre.moves.links import Links
from maitre.moves.mallows import Mallows
from maitre.moves.meila_chen import BetaGibbs, SliceGibbs
from maitre.moves.parallel import Parallel
from maitre.moves.permutation import Permutation
from maitre.moves.plackett_luce import Worths
from maitre.moves.registry import REGISTRY, as_move, check_move, named_moves
from maitre.moves.reweigh import Reweigh
from maitre.moves.split_merge import SplitMerge
from maitre.moves.superclusters import Superclusters
from maitre.moves.tables import Tables
from maitre.states import state_for
from maitre.states.base import State
from maitre.states.clusters import HyperparameterState
from maitre.states.mixture import MANY_POINTS

_VISITS, _MOST_SWEEPS = 1000, 5  # to points, before hyper-parameters are drawn again: over few points a sweep is over before these are

REGISTRY.update(
    {
        move.name: move
        for move in (
            *(Gibbs, Auxiliary, SplitMerge, Permutation, Superclusters, Parallel),
            *(Links, ExplicitLinks, Direct, Documents, Tables),
            *(Mallows, SliceGibbs, BetaGibbs, Worths),
        )
    }
)


def resolve(moves: str | Move | Sequence[str | Move], model: Model) -> Composed:
    """The moves named by a string such as "gibbs+auxiliary", or given as objects, with the hyper-parameter moves that the model calls for.

    Named moves share the work evenly. With "auto", the state's own choice, the first does as much as all others together: they find clusters in burn-in, and it then
    does most of the mixing; over few points it makes several sweeps in an iteration. Everything a move requires of the model is checked here.
    """
    automatic = isinstance(moves, str) and moves.strip() == "auto"
    parts = named_moves(state_for(model.prior).auto_moves(model) if automatic else moves)
    if automatic and isinstance(parts[0], Parallel) and lacking(parts[0], model) is not None:
        parts = named_moves(model.family.MOVES)
    parts = [move.fitted_to(model) for move in parts]
    alone = next((move for move in parts if move.alone), None)
    if alone is not None and len(parts) > 1:
        raise ValueError(f"{alone!r} remembers where the clusters are and cannot share a chain with moves that change them: use it alone")
    if parts and issubclass(parts[0].state, HyperparameterState):
        always: list[Move] = [PriorHyperparameters()] if model.prior.hyperpriors() else []
        always += [Reweigh()] if lacking(Reweigh, model) is None and issubclass(parts[0].state, Reweigh.state) else []
        always += [FamilyHyperparameters()] if model.family.hyperpriors() or model.family.arrays(model.encoded) else []
    else:
        always = []
    several = automatic and always and isinstance(parts[0], Gibbs)
    composed = Composed(parts, always, 1.0 / max(1, len(parts) - 1) if automatic else 1.0, int(np.clip(_VISITS // model.n, 1, _MOST_SWEEPS)) if several else 1)
    for move in (*composed.shared, *composed.always):
        check_move(move, model)
    return composed


def stay_on_disk(moves: Any, n: int) -> bool:
    """Whether these moves can do without all n points in memory, and n is worth it."""
    if isinstance(moves, str) and moves.strip() == "auto":
        return n >= MANY_POINTS
    return all(move.streams for move in named_moves(moves))


def state_of(moves: Composed) -> type[State]:
    """The kind of state that the moves change."""
    return moves.shared[0].state


__all__ = [
    "ABILITIES",
    "REGISTRY",
    "Auxiliary",
    "BetaGibbs",
    "Composed",
    "Direct",
    "Documents",
    "ExplicitLinks",
    "FamilyHyperparameters",
    "Gibbs",
    "Links",
    "Mallows",
    "Move",
    "Parallel",
    "Permutation",
    "PriorHyperparameters",
    "Report",
    "Reweigh",
    "SliceGibbs",
    "SplitMerge",
    "Superclusters",
    "Tables",
    "Worths",
    "as_move",
    "check_move",
    "resolve",
    "state_of",
    "stay_on_disk",
]
