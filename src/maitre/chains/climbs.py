"""Where a chain starts whose family has a matrix to learn: several clusterings, those that look best climbed from together with the matrix, and the best of them.

A chain that learns what clusters look like while it looks for them stays where it began: with wide clusters expected all points are one, with tight ones they are many.
So it begins with clusterings of many sizes: Ward's (1963) hierarchy of the points as they are and of the points made round as a whole (which parts elongated clusters side by
side, as Scrucca & Raftery 2015 found), cut at several heights, each given the hyper-parameters and the matrix that suit it, and then cut where that is best at these. From
the best a few sweeps alternate with steps up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maitre.chains.k_means import k_means
from maitre.families.base import completes_points
from maitre.model import Model
from maitre.moves.base import Move
from maitre.moves.gibbs import label_surprise
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.lanes import one_thread_per_product
from maitre.numerics.rng import RngState
from maitre.optimize.ascent import ascend_hyperparameters
from maitre.states.clusters import move_all, total_log_marginal
from maitre.states.mixture import MixtureState

_ROWS = 2000  # of more points, so many are looked at, …
_FEWER_ROWS = 1000  # … and so many where there is no matrix to learn
_NUMBERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # of clusters
_AT_LEAST, _FALLS = 8, 3  # with a matrix to learn, numbers up to which are tried; beyond, until clusterings have become worse so often in a row …
_FAR = 0.5  # … and are so many nats per point worse than the best: half as many clusters as there are may be worse than few
_FEWEST = 4  # points per cluster
_PRUNED = 2  # clusterings that cut a tree where it is best
_CLIMBED = 6  # of the clusterings
_SWEEPS = 8
_MORE_ROWS, _NUMBERS_OF_ROWS = 20_000, 300_000  # that are looked at where clusters overlap, and of all their columns together
_NUMBERS_OF_MORE = (8, 16, 32, 64, 128)
_SWEEPS_AT_FIRST = 2
_CLEAR = 0.02  # nats per point by which labels may surprise
_NARROW = 32  # columns
_ROUGH = 0.05  # precision of hyper-parameters on the way, on the log scale
_ROUND, _TINY = 1e-3, 1e-12  # of the largest variance, and at all: directions with less are not made round


class Candidate(NamedTuple):
    """A clustering, the hyper-parameters and arrays that suit it, and what it is worth."""

    labels: Ints
    values: dict[str, Any]
    worth: float


class Looked(NamedTuple):
    """The points from which a start is found, the model of these, clusterings of them, the best first, and whether that has clusters which hardly overlap."""

    points: Ints
    part: Model
    candidates: list[Candidate]
    clear: bool


def climbed(model: Model, sweep: Move, rng: RngState, stop: Event | None, number: int = 0) -> MixtureState:
    """The best of several starts; of many points, some, by which the others are then seated. Another chain, by its `number`, does without the first ones, to begin elsewhere."""
    looked = looked_at(model, stop)
    some, part = looked.points, looked.part
    best = _best_climb(part, looked.candidates[min(number, len(looked.candidates) - 1) :], sweep, rng, stop)
    if len(some) == model.n or _is_clear(best):
        return _completed(model, some, best, sweep, rng)
    more = _more(model)
    larger = model if len(more) == model.n else _restricted(model, more)
    state = max([_completed(larger, np.searchsorted(more, some), best, sweep, rng), *_second_look(larger, sweep, rng, stop)], key=worth)
    return state if larger is model else _completed(model, more, state, sweep, rng)


def _more(model: Model) -> Ints:
    """The points that are looked at where clusters overlap: not too many for as many columns."""
    return spread(model.n, max(_ROWS, min(_MORE_ROWS, _NUMBERS_OF_ROWS // max(1, model.vectors.shape[1]))))


def _is_clear(state: MixtureState) -> bool:
    """Whether there are clusters and hardly any overlap: more points then would show nothing new."""
    points = spread(state.model.n, _ROWS)
    return state.n_clusters > 1 and label_surprise(state, points) < _CLEAR * state.model.n


def _best_climb(model: Model, candidates: list[Candidate], sweep: Move, rng: RngState, stop: Event | None) -> MixtureState:
    """The best state reached by climbing from the clusterings that look best, until no other can be expected to get as high."""
    best, highest, most = None, -math.inf, math.nan  # gained by a climb from several clusters so far
    for candidate in candidates[:_CLIMBED]:
        if best is not None and (candidate.worth + 2.0 * most < highest or (stop is not None and stop.is_set())):
            break
        state = MixtureState(model, candidate.labels, values=candidate.values)
        if stop is None or not stop.is_set():
            _climb(state, sweep, rng, _SWEEPS)
        reached = worth(state)
        if candidate.labels.any():
            most = np.fmax(most, max(reached - candidate.worth, 0.0))
        if best is None or reached > highest:
            best, highest = state, reached
    assert best is not None
    return best


def _second_look(model: Model, sweep: Move, rng: RngState, stop: Event | None) -> list[MixtureState]:
    """Clusterings of many more points by k-means, climbed from: of clusters that overlap, a few points each tell too little to find them, or even that they are there."""
    best: MixtureState | None = None
    numbers: tuple[int, ...] = _NUMBERS_OF_MORE
    highest, place = -math.inf, 0
    for view in _views(model):
        worse = 0
        for n_clusters in numbers:
            if worse == 2 or n_clusters * _FEWEST > model.n or (stop is not None and stop.is_set()):
                break
            state = MixtureState(model, k_means(view, n_clusters, rng), values=_values_at_first(model))
            if math.isfinite(state.log_joint):
                ascend_hyperparameters(state, rounds=1, tolerance=_ROUGH)
                _climb(state, sweep, rng, _SWEEPS_AT_FIRST)
                reached, worse = worth(state), worse + 1
                if reached > highest:
                    best, highest, worse, place = state, reached, 0, _NUMBERS_OF_MORE.index(n_clusters)
        numbers = _NUMBERS_OF_MORE[max(0, place - 1) : place + 2]  # other views are tried with about as many
    if best is None:
        return []
    if stop is None or not stop.is_set():
        _climb(best, sweep, rng, _SWEEPS)
    return [best]


def looked_at(model: Model, stop: Event | None = None) -> Looked:
    """Clusterings of some of the points. Found once: all chains of a model begin with them."""
    with model.starts.lock, one_thread_per_product():
        if model.starts.found is not None:
            return model.starts.found  # type: ignore[no-any-return]
        more = _more(model)
        some = more[spread(len(more), _ROWS if model.family.arrays(model.encoded) else _FEWER_ROWS)]
        part = model if len(some) == model.n else _restricted(model, some)
        candidates = _candidates(part, stop)
        found = Looked(some, part, candidates, _is_clear(MixtureState(part, candidates[0].labels, values=candidates[0].values)))
        if not (stop is not None and stop.is_set()):
            model.starts.found = found
        return found


def _candidates(model: Model, stop: Event | None) -> list[Candidate]:
    """Clusterings with hyper-parameters that suit them, the best first: one cluster, cuts of Ward's trees at several heights, and the best cuts given what these have found."""
    values, found = _values_at_first(model), []

    def consider(labels: Ints, values: dict[str, Any]) -> float:
        state = MixtureState(model, labels, values=values)
        if not math.isfinite(state.log_joint):  # a finite prior may not allow so many
            return -math.inf
        ascend_hyperparameters(state, rounds=1, tolerance=_ROUGH)
        found.append(Candidate(state.canonical_labels(), state.hypervariables, worth(state)))
        return found[-1].worth

    costly, of_one = bool(model.family.arrays(model.encoded)), consider(np.zeros(model.n, dtype=np.int64), values)
    for tree in _trees(model):
        before, falls = of_one, 0
        for n_clusters in _NUMBERS:
            hopeless = costly and n_clusters > _AT_LEAST and falls >= _FALLS and before < max(found, key=_worth_of).worth - _FAR * model.n
            if n_clusters * _FEWEST > model.n or hopeless or before == -math.inf or (stop is not None and stop.is_set()):
                break
            reached = consider(cut(tree, n_clusters)[1], values)
            before, falls = reached, falls + 1 if reached < before else 0
        for _ in range(_PRUNED):
            best = max(found, key=_worth_of)
            consider(_best_cut(MixtureState(model, best.labels, values=best.values), tree, min(_NUMBERS[-1], model.n // _FEWEST)), best.values)
    return sorted(found, key=_worth_of, reverse=True)


def _worth_of(candidate: Candidate) -> float:
    return candidate.worth


def worth(state: MixtureState) -> float:
    """By which starts are compared: the log joint and, where clusters overlap, how many other partitions like this one there are.

    Of fewer points the second term would be off by hundreds of nats, and the best of many starts the luckiest: one cluster, of which it is 0, would lose to eight.
    """
    return state.log_joint + label_surprise(state, spread(state.model.n, _MORE_ROWS))


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


def _trees(model: Model) -> Iterator[Floats]:
    """Ward's tree of the points and, where clusters may be elongated, that of the points made round; the same of numbers among other columns."""
    from scipy.cluster import hierarchy  # which takes 15 MB, for those who need it

    if model.n <= _FEWEST:
        return
    for view in _views(model):
        yield hierarchy.linkage(view if view.shape[1] <= _NARROW else _distances(view), "ward")


def _views(model: Model) -> Iterator[Floats]:
    """The points as numbers and, where clusters may be elongated, made round; the same of numbers among other columns."""
    elongated = model.family.arrays(model.encoded)  # a matrix to learn
    for vectors in (model.vectors, *model.family.views(model.encoded)):
        whole = np.asarray(vectors.todense() if sparse.issparse(vectors) else vectors, dtype=np.float64)
        yield whole
        if elongated and whole.shape[1] > 1:
            yield _made_round(whole)


def _distances(x: Floats) -> Floats:
    """Of all pairs of points, as SciPy has them; by products, which in many columns are quicker."""
    squares, products = (x**2).sum(axis=1), x @ x.T
    distances = np.concatenate([squares[i] + squares[i + 1 :] - 2.0 * products[i, i + 1 :] for i in range(len(x))])
    return np.sqrt(np.maximum(distances, 0.0, out=distances), out=distances)


def cut(tree: Floats, n_clusters: int) -> tuple[Ints, Ints]:
    """The nodes that are left when a tree is cut into so many clusters, and for each point the position of its own among them.

    >>> from scipy.cluster import hierarchy
    >>> cut(hierarchy.linkage([[0.0], [0.1], [5.0], [5.3]], "ward"), 2)[1]
    array([0, 0, 1, 1])
    """
    n = len(tree) + 1
    joined = np.arange(n - n_clusters)
    top = np.arange(2 * n - 1)
    top[tree[joined, :2].astype(np.int64)] = n + joined[:, None]
    while not np.array_equal(higher := top[top], top):
        top = higher
    chosen = np.bincount(top[:n], minlength=2 * n - 1) > 0
    return np.flatnonzero(chosen), (np.cumsum(chosen) - 1)[top[:n]]


class _Branch(NamedTuple):
    """A branch of a tree: its slot, how many points it has, its leaves, and the best clusters of leaves, with their part of the log joint."""

    slot: int
    size: int
    leaves: list[int]
    worth: float
    clusters: list[list[int]]


def _best_cut(like: MixtureState, tree: Floats, n_leaves: int) -> Ints:
    """The clustering of the highest log joint among all that cut the uppermost branches of a tree anywhere, at the hyper-parameters of a state: from the leaves up, two
    branches become one cluster if that is better than the best for each of them."""
    nodes, labels = cut(tree, n_leaves)
    state = MixtureState(like.model, labels, values=like.hypervariables)
    per_cluster = float(np.diff(like.log_v_at(np.array([like.n_clusters, like.n_clusters + 1])))[0])

    def as_one(slot: int, size: int, leaves: list[int]) -> _Branch:
        alone = np.zeros(state.capacity, dtype=np.int64)
        alone[slot] = size
        worth = float(state.run(total_log_marginal, alone)) + float(state.log_w[size]) + per_cluster
        return _Branch(slot, size, leaves, worth, [leaves])

    slots, sizes = state.labels[np.unique(labels, return_index=True)[1]], np.bincount(labels)
    branches = {int(node): as_one(int(slots[leaf]), int(sizes[leaf]), [leaf]) for leaf, node in enumerate(nodes)}
    for row in range(len(tree) + 1 - n_leaves, len(tree)):
        left, right = branches.pop(int(tree[row, 0])), branches.pop(int(tree[row, 1]))
        state.run(move_all, left.slot, right.slot)
        joined = as_one(left.slot, left.size + right.size, left.leaves + right.leaves)
        apart = joined._replace(worth=left.worth + right.worth, clusters=left.clusters + right.clusters)
        branches[len(tree) + 1 + row] = max(joined, apart, key=lambda branch: branch.worth)
    cluster_of = np.zeros(n_leaves, dtype=np.int64)
    for branch in branches.values():
        for number, leaves in enumerate(branch.clusters):
            cluster_of[leaves] = number
    return cluster_of[labels]


def _made_round(vectors: Floats) -> Floats:
    """The points with unit covariance, but for directions in which they hardly spread."""
    centred = vectors - vectors.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    return centred @ (directions / np.sqrt(np.maximum(variances, max(_ROUND * variances[-1], _TINY))))  # type: ignore[no-any-return]


def _completed(model: Model, some: Ints, part: MixtureState, sweep: Move, rng: RngState) -> MixtureState:
    """A state in which some points sit as they do in a state of these alone, and the others are seated one after the other."""
    labels = np.full(model.n, -1)
    labels[some] = part.canonical_labels()
    values = {name: value for name, value in part.hypervariables.items() if not completes_points(name)}
    state, waiting = MixtureState(model, labels, values=values | _values_at_first(model)), np.flatnonzero(labels < 0)
    if len(waiting):
        sweep.seat(state, waiting, rng)  # type: ignore[attr-defined]
        state.commit()
    return state


def _climb(state: MixtureState, sweep: Move, rng: RngState, n_sweeps: int) -> None:
    for _ in range(n_sweeps):
        sweep.step(state, rng)
        state.tidy()
        ascend_hyperparameters(state, rounds=1, tolerance=_ROUGH)
