"""The options of `maitre fit` for points in space or time: from words to a distance-dependent prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maitre.data.distances import Distances, neighbour_distances
from maitre.data.rows import Rows
from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.priors import decays
from maitre.priors.decays import Decay
from maitre.priors.distance_dependent import DEFAULT_CONCENTRATION, DistanceDependent, default_neighbours, typical_distance

DECAYS = {"exponential": decays.exponential, "window": decays.window, "logistic": decays.logistic}


@dataclass(frozen=True)
class Space:
    """How near points are: which points one may link to, and how links become rarer with distance."""

    neighbours: int | None
    radius: float | None
    metric: str
    decay: str
    sequential: bool
    has_coordinates: bool = False

    @property
    def asked_for(self) -> bool:
        """Whether the model is to know about distances at all."""
        return self.neighbours is not None or self.radius is not None or self.has_coordinates

    @property
    def note(self) -> str | None:
        """What to know if no columns were named as coordinates."""
        if self.has_coordinates or not self.asked_for:
            return None
        return "all columns say both where a row is and what it is like, which cuts clusters into pieces of space: name the former with --coordinates"

    def on_the_map(self, places: Rows) -> Rows:
        """Coordinates in the order in which a picture shows them: longitude across, latitude up."""
        return places.take(range(places.n_columns)[::-1]) if self.metric == "haversine" else places

    def prior(self, places: Any, concentration: float | None) -> DistanceDependent:
        """The prior for points at these places.

        >>> Space(1, None, "euclidean", "window:3", False).prior([[0.0], [1.0], [5.0]], 0.5).decay
        Window(width=3.0)
        """
        k = default_neighbours(len(places)) if self.neighbours is None and self.radius is None else self.neighbours
        distances = neighbour_distances(places, k, self.radius, self.metric)
        return DistanceDependent(
            distances, parse_decay(self.decay, distances), DEFAULT_CONCENTRATION if concentration is None else concentration, self.sequential
        )


def parse_decay(text: str, distances: Distances) -> Decay:
    """A decay from "name", "name:number" or "name:sampled"; without a number its parameter comes from the distances.

    >>> parse_decay("exponential", neighbour_distances([0.0, 2.0, 4.0], k=1))
    Exponential(scale=2.0)
    """
    name, _, value = text.partition(":")
    if name not in DECAYS:
        raise ValueError(
            f"--decay is '{text}'; expected one of {', '.join(DECAYS)}, alone or with a number as in exponential:0.5, or sampled as in exponential:sampled"
        )
    typical = typical_distance(distances)
    guess = float(np.max(distances.values, initial=0.0)) * (1.0 + 1e-9) if name == "window" and len(distances.values) else typical
    parameter: Hyperparameter = guess or 1.0
    if value == "sampled":
        parameter = Gamma(2.0, 2.0 / typical)
    elif value:
        try:
            parameter = float(value)
        except ValueError:
            raise ValueError(f"--decay is '{text}'; expected a number, or 'sampled', after the colon") from None
    return DECAYS[name](parameter)
