"""Where a chain starts whose family has a matrix to learn: several clusterings, those that look best climbed from together with the matrix, and the best of them.

A chain that learns what clusters look like while it looks for them stays where it began: with wide clusters expected all points are one, with tight ones they are many.
So it begins with clusterings of many sizes: Ward's (1963) hierarchy of the points as they are and of the points made round as a whole (which parts elongated clusters side by
side, as Scrucca & Raftery 2015 found), cut at several heights. Each is given the hyper-parameters and the matrix that suit it; from the best a few sweeps alternate with
steps up in these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from threading import Event
from typing import Any

import numpy as np
from scipy import sparse
from scipy.cluster import hierarchy

from maitre.families.base import completes_points
from maitre.model import Model
from maitre.moves.base import Move
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.rng import RngState
from maitre.optimize.ascent import ascend_hyperparameters
from maitre.partitions.labels import canonical
from maitre.states.mixture import MixtureState

ROWS = 2000  # of more points, so many are looked at
_NUMBERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # of clusters
_FEWEST = 4  # points per cluster
_CLIMBED = 6  # of the clusterings
_SWEEPS = 8
_ROUGH = 0.05  # precision of hyper-parameters on the way, on the log scale
_ROUND, _TINY = 1e-3, 1e-12  # of the largest variance, and at all: directions with less are not made round


def climbed(model: Model, sweep: Move, rng: RngState, stop: Event | None) -> MixtureState:
    """The best of several starts; of many points, some, by which the others are then seated."""
    some = spread(model.n, ROWS)
    part = model if len(some) == model.n else _restricted(model, some)
    values = _values_at_first(part)
    candidates: list[MixtureState] = []
    for labels in _clusterings(part):
        if candidates and stop is not None and stop.is_set():
            break
        state = MixtureState(part, labels, values=values)
        if math.isfinite(state.log_joint):  # a finite prior may not allow so many
            ascend_hyperparameters(state, rounds=1, tolerance=_ROUGH)
            candidates.append(state)
    candidates.sort(key=lambda state: -state.log_joint)
    best, most = candidates[0], 0.0  # gained by a climb so far
    for state in candidates[:_CLIMBED]:
        before = state.log_joint
        if before + 2.0 * most < best.log_joint or (stop is not None and stop.is_set()):
            break
        _climb(state, sweep, rng)
        most = max(most, state.log_joint - before)
        best = max(best, state, key=lambda one: one.log_joint)
    if part is model:
        return best
    labels = np.full(model.n, -1)
    labels[some] = best.canonical_labels()
    values = {name: value for name, value in best.hypervariables.items() if not completes_points(name)}
    return _completed(model, labels, values | _values_at_first(model), sweep, rng)


def _values_at_first(model: Model) -> dict[str, Any]:
    return {f"family.{name}": value for name, value in model.family.arrays_to_start_from(model.encoded, model.vectors).items()}


def spread(n: int, at_most: int) -> Ints:
    """All points, or so many evenly from all."""
    return np.arange(n) if n <= at_most else np.linspace(0, n - 1, at_most).astype(np.int64)


def _restricted(model: Model, points: Ints) -> Model:
    """Some of the points."""
    part = model.restricted(points, model.family, model.prior)
    vars(part)["vectors"] = model.vectors[points]  # of mixed columns they follow from data that a part does not have
    return part


def _clusterings(model: Model) -> Iterator[Ints]:
    """One cluster, and Ward's of several sizes; of points made round where clusters may be elongated."""
    yield np.zeros(model.n, dtype=np.int64)
    vectors = np.asarray(model.vectors.todense() if sparse.issparse(model.vectors) else model.vectors, dtype=np.float64)
    elongated = vectors.shape[1] > 1 and model.family.arrays(model.encoded)  # a matrix to learn
    for view in (vectors, _made_round(vectors)) if elongated else (vectors,):
        tree = hierarchy.ward(view) if model.n > _FEWEST else None
        for n_clusters in _NUMBERS:
            if tree is not None and _FEWEST * n_clusters <= model.n:
                yield canonical(hierarchy.fcluster(tree, n_clusters, "maxclust"))


def _made_round(vectors: Floats) -> Floats:
    """The points with unit covariance, but for directions in which they hardly spread."""
    centred = vectors - vectors.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    return centred @ (directions / np.sqrt(np.maximum(variances, max(_ROUND * variances[-1], _TINY))))  # type: ignore[no-any-return]


def _completed(model: Model, labels: Ints, values: dict[str, Any], sweep: Move, rng: RngState) -> MixtureState:
    """A state with these labels; points that have none are seated one after the other."""
    state, waiting = MixtureState(model, labels, values=values), np.flatnonzero(labels < 0)
    if len(waiting):
        sweep.seat(state, waiting, rng)  # type: ignore[attr-defined]
        state.commit()
    return state


def _climb(state: MixtureState, sweep: Move, rng: RngState) -> None:
    for _ in range(_SWEEPS):
        sweep.step(state, rng)
        state.tidy()
        ascend_hyperparameters(state, rounds=1, tolerance=_ROUGH)
