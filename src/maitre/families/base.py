"""What a family is: hyper-parameters, an encoding of the data, and the run-time statistics that kernels work on.

Two tiers. A `Family` can draw a cluster's parameter and score a point under it, which is enough for the sampler with explicit parameters. A
`ConjugateFamily` can in addition integrate the parameter out, which is what every collapsed sampler and the search need. What a tier requires of
the class of statistics is listed in `maitre.families.statistics`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from maitre.data.validation import column_means
from maitre.families.slots import joined_points, selected_points
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.distributions import Parametrised

LOWEST_SCALE = 1e-12  # priors of scales are cut off here: with repeated points or a constant column the likelihood alone would send a scale to zero


def completes_points(name: str) -> bool:
    """Whether an array that is sampled says something about points that was not observed: such arrays change the encoded points (`Family.completed`) and belong to these alone.

    >>> completes_points("0.missing"), completes_points("shared")
    (True, False)
    """
    return name.rpartition(".")[2] in ("missing", "weights")


@dataclass(frozen=True)
class Example:
    """A family with all its hyper-parameters and a handful of points: what contract and exactness tests run on."""

    family: Family
    data: Any


class Family(Parametrised, ABC):
    """A component model: a frozen dataclass of hyper-parameters. A field left `None` is filled from the data by `with_defaults`."""

    statistics: ClassVar[type]
    EXAMPLES: ClassVar[tuple[Example, ...]] = ()
    SCALE: ClassVar[str | None] = None  # the hyper-parameter that says how wide clusters are expected to be
    TIGHTER: ClassVar[float] = 1.0  # what it is multiplied by to expect tight clusters; 1 if that is no place for a chain to start from
    AT_LEAST: ClassVar[dict[str, float]] = {}  # where priors of other hyper-parameters are cut off
    MOVES: ClassVar[str] = "auxiliary"  # what moves="auto" stands for
    SKIPS_MISSING: ClassVar[bool] = False  # columns are independent within a cluster, and `validate(data, missing=True)` allows missing entries

    STREAMS: ClassVar[bool] = False  # points can be validated and encoded block by block, from `maitre.data.blocks.Blocks`
    EXTRA_BYTES: ClassVar[int] = 0  # that an encoded point takes beyond those of its numbers, if it streams

    @abstractmethod
    def validate(self, data: Any) -> Any:
        """The data in the form `encode` takes, or a `ValueError` that names the offending row and column."""

    def defaults(self, data: Any) -> dict[str, Any]:
        """Values for the fields that the user left `None`, from validated data."""
        return {}

    def with_defaults(self, data: Any) -> Self:
        """The family with every field filled in."""
        if all(value is not None for value in vars(self).values()):
            return self
        missing = {name: value for name, value in self.defaults(data).items() if getattr(self, name) is None}
        return self.at(missing)

    @abstractmethod
    def encode(self, data: Any) -> Any:
        """Validated data in the form the kernels read; done once for a data set. A point's form depends on the point and the hyper-parameters only."""

    def encode_block(self, data: Any) -> Any:
        """The same for kernels that score points by explicit parameters and gather them, called for one block after the other: what others need may be left out."""
        return self.encode(data)

    def joined(self, blocks: Sequence[Any]) -> Any:
        """Points that were encoded block by block, as if encoded at once."""
        return joined_points(self.statistics, blocks)

    def selected(self, encoded: Any, points: Ints) -> Any:
        """Some of the encoded points, in the order given."""
        return selected_points(self.statistics, encoded, points)

    @abstractmethod
    def allocate(self, encoded: Any, capacity: int) -> Any:
        """Run-time statistics (a NamedTuple of the class `statistics`) with at least `capacity` slots, every one empty."""

    def absorb_cost(self, encoded: Any) -> int:
        """About how many evaluations in a sweep of Gibbs one `absorb` takes as long as: what moves that build clusters point by point count their work in."""
        return 6

    def merge_cost(self, encoded: Any) -> int:
        """About how many points can join a cluster one by one in the time that two clusters take to be merged."""
        return 1

    def many_points(self, encoded: Any) -> int:
        """From how many points on moves that redraw all of them at once win."""
        return 50_000

    def tightened(self) -> Self | None:
        """The family with tighter clusters expected a priori (None if it knows no such thing): one of the places a chain may start from, because two clusters
        seated as one are hard to part later."""
        if self.SCALE is None or self.TIGHTER == 1.0:
            return None
        numbers = self.at_prior_means()
        return numbers.at({self.SCALE: self.TIGHTER * getattr(numbers, self.SCALE)})

    def scales(self) -> tuple[str, ...]:
        """The names of the hyper-parameters that say how wide clusters are expected to be."""
        return () if self.SCALE is None else (self.SCALE,)

    def lowest(self, name: str) -> float:
        """Where the prior of a hyper-parameter is cut off."""
        return LOWEST_SCALE if name in self.scales() else self.AT_LEAST.get(name, 0.0)

    def vectors(self, data: Any, encoded: Any) -> Any:
        """Validated data (also given as encoded) as a matrix with a row per point, dense or sparse, for methods that work with distances; missing entries are filled with the column's mean."""
        if sparse.issparse(data):
            return data
        matrix = np.asarray(data, dtype=np.float64)
        return np.where(np.isnan(matrix), column_means(matrix), matrix)

    # -- variables that are arrays: a matrix that clusters share, missing values -----------------------------------------------------------------

    def arrays(self, encoded: Any) -> dict[str, tuple[int, ...]]:
        """Arrays that are sampled along with the partition of these points, by name, with their shapes."""
        return {}

    def arrays_at_prior_means(self, encoded: Any) -> dict[str, Any]:
        """Where they start from."""
        return {}

    def arrays_to_start_from(self, encoded: Any, vectors: Floats) -> dict[str, Any]:
        """Better places for some of them, found from the points as vectors."""
        return {}

    def arrays_from_prior(self, encoded: Any, rng: np.random.Generator) -> dict[str, Any]:
        """A draw of them from their prior."""
        return {}

    def log_density_of_arrays(self, values: dict[str, Any]) -> float:
        """Their log prior density."""
        return 0.0

    def arrays_redrawn(self, statistics: Any, slots: Ints, labels: Any, encoded: Any, rng: np.random.Generator) -> dict[str, Any]:
        """A draw that leaves their conditional law invariant, given the clusters in these slots and the slot of each point; `encoded` are the points as they were given."""
        return {}

    def climbs(self) -> bool:
        """Whether chains begin with climbs from clusterings by distance (`maitre.chains.climbs`)."""
        return False

    def views(self, encoded: Any) -> list[Any]:
        """Parts of the points' vectors whose distances may tell more than those of the whole."""
        return []

    def places_to_search(self, encoded: Any) -> list[dict[str, Any]]:
        """Values of hyper-parameters and arrays at which a search may find clusters that chains do not."""
        return []

    def arrays_ascended(self, statistics: Any, slots: Ints) -> dict[str, Any]:
        """Values of a higher density, for searches; by default none."""
        return {}

    def completed(self, encoded: Any, values: dict[str, Any]) -> Any:
        """The encoded points with missing values as these arrays have them, a copy; the points themselves where none are missing."""
        return encoded

    def log_predictive_with_gaps(self, statistics: Any, points: Ints, n_slots: int) -> Floats | None:
        """(points, slots): log predictive densities of what is observed of these points; None if the kernels see to missing values, or there are none."""
        return None

    def log_likelihood_of_clusters(self, statistics: Any, slots: Ints, name: str) -> Callable[[float], float] | None:
        """Σ log p(x_c) of the clusters in these slots as a function of one hyper-parameter, up to a constant, if that can be had faster than cluster by cluster."""
        return None

    def with_values(self, statistics: Any, values: dict[str, Any]) -> Any:
        """The run-time statistics with other values of the named hyper-parameters (their arrays are shared); slots need `derive` afterwards."""
        return statistics._replace(**values)


class ConjugateFamily(Family):
    """A family whose clusters' marginal likelihood is known in closed form."""

    MOVES = "gibbs+split_merge"
