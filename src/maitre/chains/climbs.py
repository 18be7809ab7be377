"""Where a chain starts whose family has a matrix to learn: several clusterings, each climbed from together with the matrix, and the best of them.

A chain that learns what clusters look like while it looks for them stays where it began: with wide clusters expected all points are one, with tight ones they are many.
So clusters are searched for under several expectations, and from each clustering a few sweeps alternate with steps up in hyper-parameters and matrix.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import numpy as np

from maitre.families.base import completes_points
from maitre.model import Model
from maitre.moves.base import Move
from maitre.numerics.arrays import Ints
from maitre.numerics.rng import RngState
from maitre.optimize.ascent import ascend_hyperparameters
from maitre.optimize.pipeline import search_labels
from maitre.states.mixture import MixtureState

ROWS = 2000  # of more points, so many are looked at
_SEARCHED = 700  # and so many by searches, whose cost is a multiple of a sweep's
_SEARCH_WORK, _FEWEST = 10_000, 100  # fewer where points have many dimensions: rows × columns
_SWEEPS = 8
_MOST = 0.25  # clusters per point: where there are more, they are single points, not clusters
_ROUGH = 0.05  # precision of hyper-parameters on the way, on the log scale
_K_MEANS = (3, 8)


def climbed(model: Model, sweep: Move, k_means: Callable[[Model, int, RngState], Ints], rng: RngState, stop: Event | None) -> MixtureState:
    """The best of several starts; of many points, some, by which the others are then seated."""
    some = spread(model.n, ROWS)
    part = _restricted(model, some, model.family)
    best: MixtureState | None = None
    for state in _states(part, sweep, k_means, rng):
        if best is not None and stop is not None and stop.is_set():
            break
        if not math.isfinite(state.log_joint):  # more clusters than the prior allows
            continue
        _climb(state, sweep, rng)
        best = state if best is None or state.log_joint > best.log_joint else best
    assert best is not None
    if part is model:
        return best
    labels = np.full(model.n, -1)
    labels[some] = best.canonical_labels()
    values = {name: value for name, value in best.hypervariables.items() if not completes_points(name)}
    return _completed(model, labels, values, sweep, rng)


def spread(n: int, at_most: int) -> Ints:
    """All points, or so many evenly from all."""
    return np.arange(n) if n <= at_most else np.linspace(0, n - 1, at_most).astype(np.int64)


def _restricted(model: Model, points: Ints, family: Any) -> Model:
    """Some of the points, or all, under another family."""
    if len(points) == model.n:
        return model if family is model.family else dataclasses.replace(model, family=family)
    part = model.restricted(points, family, model.prior)
    vars(part)["vectors"] = model.vectors[points]  # of mixed columns they follow from data that a part does not have
    return part


def _states(model: Model, sweep: Move, k_means: Callable[[Model, int, RngState], Ints], rng: RngState) -> Iterator[MixtureState]:
    yield MixtureState(model, np.zeros(model.n, dtype=np.int64))
    n_columns = model.vectors.shape[1]
    for place in model.family.places_to_search(model.encoded):
        some = spread(model.n, int(np.clip(_SEARCH_WORK / n_columns, _FEWEST, _SEARCHED)))
        family = model.family.at_prior_means().at(place)
        labels = np.full(model.n, -1)
        labels[some] = search_labels(_restricted(model, some, family), rng)
        if labels.max() > _MOST * len(some):
            continue
        yield _completed(model, labels, {f"family.{name}": value for name, value in place.items()}, sweep, rng)
    for n_clusters in _K_MEANS:
        if model.n > n_clusters:
            yield MixtureState(model, k_means(model, n_clusters, rng))


def _completed(model: Model, labels: Ints, values: dict[str, Any], sweep: Move, rng: RngState) -> MixtureState:
    """A state with these labels; points that have none are seated one after the other."""
    state, waiting = MixtureState(model, labels, values=values), np.flatnonzero(labels < 0)
    if len(waiting):
        sweep.seat(state, waiting, rng)  # type: ignore[attr-defined]
        state.commit()
    return state


def _climb(state: MixtureState, sweep: Move, rng: RngState) -> None:
    for _ in range(_SWEEPS):
        ascend_hyperparameters(state, rounds=1, tolerance=_ROUGH)
        sweep.step(state, rng)
        state.tidy()
    ascend_hyperparameters(state, rounds=1, tolerance=_ROUGH)
