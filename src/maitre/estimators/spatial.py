"""A mixture whose clusters hold together in space or time: the distance-dependent Chinese restaurant process, in the manner of scikit-learn.

The estimator reports one partition, that with the least expected variation of information; `posterior_` holds all draws. There is no `predict`: where a new point sits depends on
its distances to all others (`posterior_.predict(new, distances=…)` takes them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from maitre.chains.choice import assembled
from maitre.data.rows import as_data
from maitre.estimators.mixture import SampledClustering
from maitre.families.base import Family
from maitre.moves import Move
from maitre.numerics.distributions import Hyperparameter
from maitre.priors.distance_dependent import DEFAULT_CONCENTRATION, DistanceDependent


class DistanceDependentMixture(SampledClustering):
    """Cluster points that prefer to sit with points nearby, without a number of clusters.

    Parameters
    ----------
    family : model of a cluster, or its name; by default chosen from the types of the columns.
    coordinates : the columns (names, or positions from 0) that say where a point is; the others are what is observed there. By default all columns are both, which
        cuts clusters into pieces of space: give them where you can.
    neighbours : each point may link to so many nearest neighbours ; if neither this nor a radius is given, a fifteenth of the points, between 10 and 100.
    radius : each point may link to points within this distance; with `neighbours` both conditions hold.
    metric : "euclidean", "manhattan", "chebyshev", or "haversine" for latitude and longitude in degrees (distances in km).
    decay : how links become rarer with distance, e.g. `mt.decays.window(2.0)`; by default exponential with the median distance to a candidate as its scale.
    concentration : weight of a link to oneself: a number, or a prior (the default) and then sampled.
    sequential : whether points link to earlier rows only.
    moves, draws, burn_in, thin, chains, init, random_state, progress, types : as in `maitre.DPMixture`; moves are "links" or "explicit_links".

    Attributes
    ----------
    labels_, n_clusters_, posterior_, concentration_, n_features_in_, feature_names_in_ : as in `maitre.DPMixture`.

    >>> import maitre as mt
    >>> x = [[0.0, 5.0], [0.1, 5.1], [0.2, 4.9], [0.3, 5.0], [0.4, 1.0], [0.5, 1.1], [0.6, 0.9], [0.7, 1.0]]
    >>> mt.DistanceDependentMixture(coordinates=[0], neighbours=2, draws=100, burn_in=100, random_state=0).fit_predict(x)
    array([0, 0, 0, 0, 1, 1, 1, 1])
    """

    def __init__(
        self,
        family: Family | str | None = None,
        coordinates: Sequence[Any] | None = None,
        neighbours: int | None = None,
        radius: float | None = None,
        metric: str = "euclidean",
        decay: Any = None,
        concentration: Hyperparameter | None = None,
        sequential: bool = False,
        moves: str | Move | Sequence[str | Move] = "auto",
        draws: int | None = None,
        burn_in: int | None = None,
        thin: int = 1,
        chains: int = 1,
        init: Any = "auto",
        random_state: Any = None,
        progress: bool = False,
        types: Mapping[Any, str] | None = None,
    ) -> None:
        self.family = family
        self.coordinates = coordinates
        self.neighbours = neighbours
        self.radius = radius
        self.metric = metric
        self.decay = decay
        self.concentration = concentration
        self.sequential = sequential
        self.moves = moves
        self.draws = draws
        self.burn_in = burn_in
        self.thin = thin
        self.chains = chains
        self.init = init
        self.random_state = random_state
        self.progress = progress
        self.types = types

    def fit(self, X: Any, y: Any = None, distances: Any = None) -> Self:
        """Draw links between the rows of X and report the partition nearest to all draws; y is ignored. With `distances`, a matrix, dense or sparse, no coordinates are needed."""
        data = self._checked(X, reset=True)
        observed, places = (data, data) if self.coordinates is None else split_columns(data, self.coordinates, getattr(self, "feature_names_in_", None))
        concentration = DEFAULT_CONCENTRATION if self.concentration is None else self.concentration
        if distances is None:
            prior = DistanceDependent.neighbours(places, self.neighbours, self.radius, self.metric, self.decay, concentration, self.sequential)
        elif self.decay is None:
            raise ValueError("with distances of your own say how links decay with them, e.g. decay=mt.decays.exponential(1.0)")
        else:
            prior = DistanceDependent(distances, self.decay, concentration, self.sequential)
        self._sample(assembled(observed, self.family, prior, types=self.types))
        return self

    def __sklearn_tags__(self) -> Any:
        """Coordinates must be numbers, all of them known."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = False
        return tags


def split_columns(data: Any, coordinates: Sequence[Any], names: Any = None) -> tuple[Any, Any]:
    """The columns that are observed, and those that say where, given by name or position.

    >>> import numpy as np
    >>> observed, places = split_columns(np.array([[1.0, 2.0, 3.0]]), [0, 1])
    >>> observed.tolist(), places.tolist()
    ([[3.0]], [[1.0, 2.0]])
    """
    table = as_data(data)
    names = list(range(table.n_columns)) if names is None else list(names)
    wanted = [coordinates] if isinstance(coordinates, (str, int)) else list(coordinates)
    unknown = [name for name in wanted if name not in names and not (isinstance(name, int) and 0 <= name < len(names))]
    if unknown:
        raise ValueError(f"there is no column {unknown[0]!r} for coordinates; the columns are {', '.join(map(str, names[:20]))}")
    where: list[int] = [names.index(name) if name in names else int(name) for name in wanted]
    other = [position for position in range(len(names)) if position not in where]
    if not other:
        raise ValueError("all columns are coordinates, so nothing is observed: leave coordinates=None to cluster by them as well")
    return table.take(other).raw, table.take(where).raw
