"""Distances from every point to its candidates, the points it may link to: from a matrix, dense or sparse, or from points and a metric.

Memory follows the number of candidates: n · k for k nearest neighbours. Distances need not be symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from maitre.data.validation import dense_matrix
from maitre.numerics.arguments import number, one_of, whole_number
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.distributions import Parametrised

if TYPE_CHECKING:
    from scipy.spatial import KDTree

METRICS = {"euclidean": 2.0, "manhattan": 1.0, "chebyshev": np.inf}
EARTH_RADIUS = 6371.0088  # km, the mean radius


@dataclass(frozen=True, eq=False)
class Distances(Parametrised):
    """Candidates of every point, row by row, without the point itself: point i may link to targets[start[i]:start[i + 1]]."""

    start: Ints  # (n + 1,)
    targets: Slots
    values: Floats

    def __post_init__(self) -> None:
        for name, kind in (("start", np.int64), ("targets", np.int32), ("values", np.float64)):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=kind))

    @property
    def n(self) -> int:
        """How many points there are."""
        return len(self.start) - 1

    def rows(self) -> Ints:
        """The point to which each entry belongs."""
        return np.repeat(np.arange(self.n), np.diff(self.start))

    def kept(self, which: Any) -> Distances:
        """Only the entries for which `which` is true."""
        counts = np.bincount(self.rows()[which], minlength=self.n)
        return Distances(np.concatenate([[0], np.cumsum(counts)]), self.targets[which], self.values[which])

    def __str__(self) -> str:
        return f"{self.n} points, {len(self.targets) / max(self.n, 1):.3g} candidates each"


def as_distances(given: Any) -> Distances:
    """Distances from a square matrix: dense, where infinity means no candidate, or sparse, where a missing entry does. The diagonal is not looked at.

    >>> str(as_distances([[0.0, 1.0, np.inf], [2.0, 0.0, 1.0], [np.inf, 1.0, 0.0]]))
    '3 points, 1.33 candidates each'
    """
    if isinstance(given, Distances):
        return given
    matrix = _csr(given) if sparse.issparse(given) else _csr_of_dense(given)
    whole = Distances(matrix.indptr, matrix.indices, matrix.data)
    others = whole.kept(whole.targets != whole.rows())
    _check(others)
    return others.kept(np.isfinite(others.values))


def _csr(given: Any) -> Any:
    _check_square(given.shape)
    if given.format == "dia":
        raise ValueError("a sparse matrix in diagonal form cannot tell a distance of 0 from no entry: give it as CSR or COO")
    matrix = sparse.csr_array(given, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    if matrix.nnz < given.nnz:
        raise ValueError("the sparse distances have two entries in one place: give every distance once")
    return matrix


def _csr_of_dense(given: Any) -> Any:
    try:
        matrix = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("the distances are not a matrix of numbers; expected one row and one column per point") from None
    _check_square(matrix.shape)
    n = len(matrix)
    return sparse.csr_array((matrix.ravel(), np.tile(np.arange(n, dtype=np.int32), n), np.arange(0, n * n + 1, max(n, 1))), shape=(n, n))


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ValueError(
            f"the distances have shape {shape}; expected a square matrix with one row and one column per point (for coordinates of points use DistanceDependent.neighbours)"
        )


def _check(distances: Distances) -> None:
    bad = np.isnan(distances.values) | (distances.values < 0.0)
    if bad.any():
        position = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"the distance in row {distances.rows()[position]}, column {distances.targets[position]} is {distances.values[position]:g}; expected a number of at least 0 (infinity, or no entry, for points that are not to be linked)"
        )


def neighbour_distances(points: Any, k: int | None = None, radius: float | None = None, metric: str = "euclidean") -> Distances:
    """Distances from every point to its `k` nearest neighbours, or to those within `radius`, or both conditions at once.

    `metric` is "euclidean", "manhattan", "chebyshev", or "haversine": latitude and longitude in degrees, distances along the Earth's surface in km.

    >>> neighbour_distances([0.0, 1.0, 3.0], k=1).targets.tolist()
    [1, 0, 1]
    """
    if k is None and radius is None:
        raise ValueError("give k, a number of neighbours, or radius, a distance")
    k = None if k is None else whole_number("k", k, least=1)
    radius = None if radius is None else number("radius", radius, above=0)
    one_of("metric", metric, [*METRICS, "haversine"])
    from scipy.spatial import KDTree  # which takes 10 MB, for those who need it

    places, exponent = _places(points, metric)
    tree = KDTree(places)
    found = _within(tree, _chord(radius, metric), exponent) if k is None else _nearest(tree, int(k), _chord(radius, metric), exponent)
    return found if metric != "haversine" else Distances(found.start, found.targets, 2.0 * EARTH_RADIUS * np.arcsin(np.minimum(found.values / 2.0, 1.0)))


def _places(points: Any, metric: str) -> tuple[Floats, float]:
    """The points in a space whose Minkowski distances have the order of the metric, and the exponent; places on Earth become points on the unit sphere."""
    if np.ndim(points) == 0:
        raise ValueError(f"points is {points!r}; expected coordinates, a row for each point")
    matrix = dense_matrix(points)
    if metric in METRICS:
        return matrix, METRICS[metric]
    if matrix.shape[1] != 2 or np.abs(matrix[:, 0]).max() > 90.0:
        raise ValueError("metric 'haversine' takes two columns, latitude (−90 to 90 degrees) and longitude")
    latitude, longitude = np.radians(matrix).T
    return np.column_stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)]), 2.0


def _chord(radius: float | None, metric: str) -> float:
    if radius is None:
        return np.inf
    return 2.0 * float(np.sin(min(radius / EARTH_RADIUS, np.pi) / 2.0)) if metric == "haversine" else float(radius)


def _nearest(tree: KDTree, k: int, radius: float, exponent: float) -> Distances:
    """Ties broken by position; a point is never its own neighbour, also where others sit on the same place."""
    n = tree.n
    k = min(k, n - 1)
    distances, targets = tree.query(
        tree.data, k=np.arange(1, k + 2), p=exponent, distance_upper_bound=np.nextafter(radius, np.inf)
    )  # the bound itself is left out
    own = targets == np.arange(n)[:, None]
    own[:, -1] |= ~own.any(axis=1)  # hidden behind k + 1 others on its own place: the last of them goes
    distances, targets = distances[~own].reshape(n, k), targets[~own].reshape(n, k)
    order = np.argsort(targets, axis=1, kind="stable")
    distances, targets = (np.take_along_axis(a, order, axis=1) for a in (distances, targets))
    return Distances(np.arange(0, n * k + 1, k) if k else np.zeros(n + 1), targets.ravel(), distances.ravel()).kept(np.isfinite(distances.ravel()))


def _within(tree: KDTree, radius: float, exponent: float) -> Distances:
    found = sparse.csr_array(tree.sparse_distance_matrix(tree, radius, p=exponent, output_type="coo_matrix"))
    found.sort_indices()
    whole = Distances(found.indptr, found.indices, found.data)
    return whole.kept(whole.targets != whole.rows())
