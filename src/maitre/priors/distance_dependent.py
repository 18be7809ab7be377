"""The distance-dependent Chinese restaurant process (Blei & Frazier 2011; Socher & Manning for points in space).

Customer i links to one customer c_i, independently of all others:

    p(c_i = j) = f(d_ij) / Z_i for j ≠ i,   α / Z_i for j = i,   Z_i = α + Σ_{j≠i} f(d_ij).

Tables are the connected components of the links; cycles are allowed. Not a Gibbs-type prior: the probability of a partition depends on who is in a cluster, so the
state of a sampler is the links (`maitre.states.links`). It is not marginally invariant either: leaving a point out changes the law of the others.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from maitre.data.distances import Distances, as_distances, neighbour_distances
from maitre.numerics.arguments import truth
from maitre.numerics.distributions import Gamma, Hyperparameter, Hyperprior
from maitre.priors.base import Prior
from maitre.priors.decays import Decay, Evaluated, Exponential

DEFAULT_CONCENTRATION = Gamma(1.0, 1.0)


@dataclass(frozen=True)
class DistanceDependent(Prior):
    """Points prefer to sit with points nearby.

    Parameters
    ----------
    distances : (n, n) matrix d_ij from point i to point j; sparse, where a missing entry means that i never links to j, or dense, where infinity does.
    decay : `mt.decays.exponential(scale)`, `window(width)`, `logistic(scale)`, or a function from an array of distances to weights.
    concentration : α, the weight of a link to oneself; more means more clusters.
    sequential : whether points link to earlier points only (time).

    >>> import maitre as mt
    >>> prior = mt.priors.DistanceDependent([[0.0, 1.0], [1.0, 0.0]], mt.decays.exponential(1.0), 0.5)
    >>> prior = mt.priors.DistanceDependent.neighbours([[0.0, 0.0], [0.1, 0.2], [4.0, 4.1]], k=1)
    """

    distances: Any
    decay: Any
    concentration: Hyperparameter = DEFAULT_CONCENTRATION
    sequential: bool = False

    POSITIVE: ClassVar[tuple[str, ...]] = ("concentration",)

    def __post_init__(self) -> None:
        super().__post_init__()
        truth("sequential", self.sequential)
        distances, decay = as_distances(self.distances), self.decay
        if callable(decay) and not isinstance(decay, Decay):
            distances, decay = _evaluated(distances, decay)
        if not isinstance(decay, Decay):
            raise ValueError(f"DistanceDependent: decay is {decay!r}; expected e.g. mt.decays.exponential(1.0), or a function of distances")
        if self.sequential and len(distances.targets) and np.any(distances.targets > distances.rows()):
            distances = distances.kept(distances.targets < distances.rows())
        object.__setattr__(self, "distances", distances)
        object.__setattr__(self, "decay", decay)

    @classmethod
    def neighbours(
        cls,
        points: Any,
        k: int | None = None,
        radius: float | None = None,
        metric: str = "euclidean",
        decay: Any = None,
        concentration: Hyperparameter = DEFAULT_CONCENTRATION,
        sequential: bool = False,
    ) -> DistanceDependent:
        """Candidates from coordinates: the `k` nearest neighbours (`default_neighbours` if nothing is said), or all points within `radius`.

        Without a decay it is exponential with the median distance to a candidate as its scale, which makes the prior invariant to the unit of length.
        """
        if k is None and radius is None:
            k = default_neighbours(len(points) if np.ndim(points) > 0 else 0)
        distances = neighbour_distances(points, k, radius, metric)
        return cls(distances, Exponential(typical_distance(distances)) if decay is None else decay, concentration, sequential)

    def check_size(self, n: int) -> None:
        """A `ValueError` unless there are distances for exactly n points."""
        if self.distances.n != n:
            raise ValueError(
                f"the distances are between {self.distances.n} points; the data have {n}: give one row and one column of distances per row of the data"
            )

    def hyperpriors(self) -> dict[str, Hyperprior]:
        return super().hyperpriors() | {f"decay.{name}": prior for name, prior in self.decay.hyperpriors().items()}

    def __getattr__(self, name: str) -> Any:
        """The decay's parameter by its name "decay.scale"."""
        part, dot, field = name.partition(".")
        if part != "decay" or not dot:
            raise AttributeError(name)
        return getattr(self.decay, field)

    def at(self, values: dict[str, Any]) -> Self:
        own = {name: value for name, value in values.items() if "." not in name}
        decay = {name.partition(".")[2]: value for name, value in values.items() if "." in name}
        return dataclasses.replace(self, **own, decay=self.decay.at(decay)) if values else self

    def describe(self) -> dict[str, Any]:
        """The fields for people to read: how many candidates there are, not which."""
        return {"distances": str(self.distances), "decay": self.decay.in_one_line(), "concentration": self.concentration, "sequential": self.sequential}


def default_neighbours(n: int) -> int:
    """How many candidates a point has if nothing is said: a fifteenth of the points, between 10 and 100.

    Every table needs a cycle, and two points link to each other about n / 2k times: that many tables are expected before the data are seen, whatever α is. With k = 10
    four clean regions of 1,500 points fall into dozens.

    >>> default_neighbours(60), default_neighbours(1500), default_neighbours(100_000)
    (10, 100, 100)
    """
    return int(np.clip(n // 15, 10, 100))


def typical_distance(distances: Distances) -> float:
    """The median distance to a candidate that is not on the same place; 1 if there is none."""
    apart = distances.values[distances.values > 0.0]
    return float(np.median(apart)) if len(apart) else 1.0


def _evaluated(distances: Distances, function: Any) -> tuple[Distances, Evaluated]:
    """Distances −log f(d), which with the decay exp(−d) give the same prior; pairs with f = 0 are no candidates."""
    weights = np.asarray(function(distances.values), dtype=np.float64)
    if weights.shape != distances.values.shape:
        raise ValueError(
            f"the decay gave an array of shape {weights.shape} for distances of shape {distances.values.shape}; expected a weight for each distance"
        )
    bad = ~np.isfinite(weights) | (weights < 0.0)
    if bad.any():
        worst = int(np.flatnonzero(bad)[0])
        raise ValueError(f"the decay is {weights[worst]:g} at distance {distances.values[worst]:g}; expected a finite number of at least 0")
    possible = weights > 0.0
    kept = distances.kept(possible)
    return Distances(kept.start, kept.targets, -np.log(weights[possible])), Evaluated(getattr(function, "__name__", "function"))
