"""Distances from matrices and from points, decays, and the prior made of them; whatever is wrong is named."""

import numpy as np
import pytest
from scipy import sparse

import maitre as mt
from maitre.data.distances import as_distances, neighbour_distances
from maitre.priors import DistanceDependent

POINTS = np.random.default_rng(0).normal(size=(30, 2))


def as_dense(distances):
    dense = np.full((distances.n, distances.n), np.inf)
    dense[distances.rows(), distances.targets] = distances.values
    return dense


@pytest.mark.parametrize(("metric", "order"), [("euclidean", 2), ("manhattan", 1), ("chebyshev", np.inf)])
def test_nearest_neighbours(metric, order):
    found = neighbour_distances(POINTS, k=4, metric=metric)
    every = np.linalg.norm(POINTS[:, None] - POINTS[None], ord=order, axis=2)
    np.fill_diagonal(every, np.inf)
    cutoff = np.sort(every, axis=1)[:, 3:4]
    np.testing.assert_allclose(as_dense(found), np.where(every <= cutoff, every, np.inf))
    near = neighbour_distances(POINTS, radius=0.8, metric=metric)
    np.testing.assert_allclose(as_dense(near), np.where(every <= 0.8, every, np.inf))
    both = neighbour_distances(POINTS, k=4, radius=0.8, metric=metric)
    np.testing.assert_allclose(as_dense(both), np.where((every <= cutoff) & (every < 0.8), every, np.inf))


def test_places_on_earth():
    across_the_date_line = neighbour_distances([[0.0, 179.5], [0.0, -179.5]], k=1, metric="haversine").values
    np.testing.assert_allclose(across_the_date_line, 111.195, rtol=1e-4)
    assert len(neighbour_distances([[0.0, 179.5], [0.0, -179.5], [60.0, 0.0]], radius=112.0, metric="haversine").values) == 2
    with pytest.raises(ValueError, match="latitude"):
        neighbour_distances([[100.0, 0.0], [0.0, 0.0]], k=1, metric="haversine")


def test_points_on_one_place_are_neighbours_of_each_other_and_not_of_themselves():
    for options in ({"k": 3}, {"radius": 0.5}):
        found = neighbour_distances(np.zeros((6, 1)), **options)
        assert np.all(found.targets != found.rows())
        assert np.all(np.diff(found.start) == (3 if "k" in options else 5))
    assert DistanceDependent.neighbours(np.zeros((6, 1)), k=3).decay == mt.decays.exponential(1.0)


def test_one_point_has_no_neighbours():
    posterior = mt.sample([[1.0]], mt.families.NormalInverseGamma(), prior=DistanceDependent.neighbours([[0.0]]), draws=3, burn_in=1, chains=1, progress=False)
    assert posterior.labels.tolist() == [[[0]] * 3]


def test_dense_and_sparse_matrices_say_the_same():
    dense = np.random.default_rng(1).gamma(1.0, size=(5, 5))
    dense[0, 3] = 0.0  # a distance of 0 is a distance, infinity is none
    dense[2, 4] = np.inf
    rows, columns = np.nonzero(np.isfinite(dense))
    stored = sparse.coo_array((dense[rows, columns], (rows, columns)), shape=(5, 5))
    np.testing.assert_array_equal(as_dense(as_distances(dense)), as_dense(as_distances(stored)))
    assert len(as_distances(dense).targets) == 19
    assert as_dense(as_distances(dense))[0, 3] == 0.0


@pytest.mark.parametrize(
    ("distances", "message"),
    [
        ([[0.0, np.nan], [1.0, 0.0]], "row 0, column 1 is nan"),
        ([[0.0, 1.0], [-2.0, 0.0]], "row 1, column 0 is -2"),
        (sparse.csr_array(np.array([[0.0, 1.0], [-2.0, 0.0]])), "row 1, column 0 is -2"),
        ([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0]], r"shape \(2, 3\)"),
        ([0.0, 1.0], r"shape \(2,\)"),
        ([["a", "b"], ["c", "d"]], "not a matrix of numbers"),
        (sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2)), "two entries in one place"),
    ],
)
def test_wrong_distances_are_named(distances, message):
    with pytest.raises(ValueError, match=message):
        DistanceDependent(distances, mt.decays.exponential(1.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [({}, "give k"), ({"k": 0}, "k is 0"), ({"radius": -1.0}, "radius is -1"), ({"k": 2, "metric": "cosine"}, "metric is 'cosine'; expected one of")],
)
def test_wrong_neighbourhoods_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        neighbour_distances(POINTS, **options)


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        (mt.decays.exponential(2.0), np.exp(-np.array([0.0, 1.0, 3.0]) / 2.0)),
        (mt.decays.window(1.0), [1.0, 0.0, 0.0]),
        (mt.decays.logistic(1.5), np.exp(1.5 - np.array([0.0, 1.0, 3.0])) / (1.0 + np.exp(1.5 - np.array([0.0, 1.0, 3.0])))),
    ],
)
def test_decays(decay, expected):
    np.testing.assert_allclose(np.exp(decay.log_weight(np.array([0.0, 1.0, 3.0]))), expected)
    assert np.all(np.exp(decay.log_weight(np.array([1e9]))) == 0.0)


def test_wrong_decays_are_named():
    for decay, message in (
        (lambda d: -d, "is -1 at distance 1"),
        (lambda d: 1.0, "a weight for each distance"),
        (3.0, "decay is 3.0"),
    ):
        with pytest.raises(ValueError, match=message):
            DistanceDependent(np.ones((3, 3)), decay)
    with pytest.raises(ValueError, match="scale must be a positive number"):
        mt.decays.exponential(-1.0)
    with pytest.raises(ValueError, match="concentration must be a positive number"):
        DistanceDependent(np.ones((3, 3)), mt.decays.window(2.0), 0.0)


def test_sequential_priors_keep_links_to_earlier_points_only():
    prior = DistanceDependent.neighbours(POINTS, k=5, sequential=True)
    assert np.all(prior.distances.targets < prior.distances.rows())


def test_the_default_scale_follows_the_unit_of_length():
    scales = [DistanceDependent.neighbours(unit * POINTS, k=5).decay.scale for unit in (1.0, 1000.0)]
    assert scales[1] == pytest.approx(1000.0 * scales[0])


def test_hyperparameters_of_the_decay_have_names():
    prior = DistanceDependent(np.ones((3, 3)), mt.decays.exponential(mt.Gamma(2, 1)), mt.Gamma(1, 1))
    assert list(prior.hyperpriors()) == ["concentration", "decay.scale"]
    fixed = prior.at({"concentration": 0.5, "decay.scale": 3.0})
    assert (fixed.concentration, fixed.decay.scale, fixed.hyperpriors()) == (0.5, 3.0, {})
    assert "3 points, 2 candidates each" in fixed.in_one_line()


def test_neighbours_at_exactly_the_radius_count():
    grid = np.array([[i, j] for i in range(3) for j in range(3)], dtype=float)
    assert str(neighbour_distances(grid, k=8, radius=1.0)) == str(neighbour_distances(grid, radius=1.0))


def test_the_diagonal_is_not_looked_at():
    assert as_distances([[np.nan, 1.0], [1.0, np.nan]]).values.tolist() == [1.0, 1.0]
