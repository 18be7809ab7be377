"""Where a chain starts: labels by name, or as given."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maitre.families.base import ConjugateFamily
from maitre.numerics.arrays import Ints
from maitre.numerics.draw import draw_below, fill_below
from maitre.numerics.rng import RngState
from maitre.partitions.labels import canonical
from maitre.priors.base import GibbsTypePrior
from maitre.priors.distance_dependent import DistanceDependent
from maitre.states.clusters import ClusterState
from maitre.states.links import LinksState
from maitre.states.mixture import MixtureState, Model

NAMES = ("auto", "sequential", "search", "one", "singletons", "random", "kmeans")
_DEFAULT_CLUSTERS = {"random": 100, "kmeans": 20}


def new_state(model: Model, labels: Any) -> ClusterState:
    """The kind of state that the model's prior calls for, with these labels; −1 for points that have no seat yet."""
    return LinksState.of_labels(model, labels) if isinstance(model.prior, DistanceDependent) else MixtureState(model, labels)


def automatic_starts(model: Model) -> list[str]:
    """The initialisations that "auto" tries: one that ends with few clusters, one with many. Random labels would part every point from its neighbours, whom it links to."""
    few = "sequential" if isinstance(model.family, ConjugateFamily) else "one"
    return list(dict.fromkeys([few, "one" if isinstance(model.prior, DistanceDependent) else "random"]))


def parse_init(init: Any, model: Model) -> tuple[str, int]:
    """The name of an initialisation and its number of clusters, or a `ValueError`; labels given as such are called "given"."""
    most = most_clusters(model)
    if not isinstance(init, str):
        labels = canonical(init)
        if len(labels) != model.n:
            raise ValueError(f"init has {len(labels)} labels for {model.n} points: give one label per point, or one of {', '.join(NAMES)}")
        if labels.max() >= most:
            raise ValueError(f"init has {labels.max() + 1} clusters; {type(model.prior).__name__} allows at most {most}")
        return "given", int(labels.max()) + 1
    name, _, number = init.partition(":")
    if name not in NAMES or (number and (name not in _DEFAULT_CLUSTERS or not number.isdigit() or int(number) < 1)):
        raise ValueError(
            f"unknown init {init!r}; expected one of {', '.join(NAMES)} ('random' and 'kmeans' take a number of clusters, as in 'random:50'), or a label vector"
        )
    if name == "singletons" and most < model.n:
        raise ValueError(f"init 'singletons' has {model.n} clusters; {type(model.prior).__name__} allows at most {most}: use 'sequential'")
    return name, min(int(number) if number else _DEFAULT_CLUSTERS.get(name, 1), model.n, most)


def initial_labels(init: Any, model: Model, rng: RngState) -> Ints:
    """Labels of all points; −1 for points that sequential prediction has yet to seat.

    `init` is "sequential", "one", "singletons", "random" or "random:K", "kmeans" or "kmeans:K", or one label per point.
    """
    name, n_clusters = parse_init(init, model)
    if name == "given":
        return canonical(init)
    if name == "sequential":
        return np.full(model.n, -1, dtype=np.int64)
    if name == "one":
        return np.zeros(model.n, dtype=np.int64)
    if name == "singletons":
        return np.arange(model.n)
    if name == "random":
        labels = np.empty(model.n, dtype=np.int64)
        fill_below(labels, n_clusters, rng)
        return canonical(labels)
    return _k_means(model, n_clusters, rng)


def most_clusters(model: Model) -> int:
    """The largest number of clusters to which the prior gives a positive probability."""
    prior = model.prior.at_prior_means()
    if not isinstance(prior, GibbsTypePrior):
        return model.n
    low, high = 1, model.n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if np.isfinite(prior.log_v(model.n, np.array([middle]))[0]) else (low, middle)
    return low


def _k_means(model: Model, n_clusters: int, rng: RngState) -> Ints:
    """k-means on the family's vectors; one thread, so that the result does not depend on how many there are."""
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    vectors = model.family.vectors(model.family.validate(model.data))
    vectors = sparse.csr_matrix(vectors, dtype=np.float64) if sparse.issparse(vectors) else np.asarray(vectors, dtype=np.float64)
    n_distinct = min(n_clusters, model.n)
    with threadpool_limits(1):
        fitted = MiniBatchKMeans(n_distinct, n_init=1, random_state=int(draw_below(2**31, rng)), batch_size=4096).fit(vectors)
    return canonical(fitted.labels_)
