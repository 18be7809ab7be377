"""Simulated data have the stated moments; the built-in sets are whole."""

from __future__ import annotations

import numpy as np
import pytest

from maitre.data.simulate import SETS, built_in, gaussian_clusters


def test_the_recipe_is_fixed():
    x, labels = gaussian_clusters(20, 3, 4, separation=9.0, seed=5)
    rng = np.random.default_rng(5)
    means = rng.normal(0, 3.0, (4, 3))
    expected = rng.integers(0, 4, 20)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(x, means[expected] + rng.normal(size=(20, 3)))


def test_the_moments_are_as_stated():
    x, labels = gaussian_clusters(40_000, 2, 400, separation=25.0, seed=0)
    sizes = np.bincount(labels)
    means = np.stack([np.bincount(labels, weights=x[:, d]) / sizes for d in range(2)], axis=1)
    assert np.cov((x - means[labels]).T) == pytest.approx(np.eye(2), abs=0.04)
    assert means.var() == pytest.approx(25.0, rel=0.2)
    assert len(sizes) == 400


def test_the_seed_decides():
    one, again, other = (gaussian_clusters(10, 2, 3, 1.0, seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_separation_zero_is_one_heap():
    x, _ = gaussian_clusters(20_000, 1, 5, 0.0, 0)
    assert abs(x.mean()) < 0.03
    assert x.var() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("arguments", [(-1, 2, 3, 1.0), (5, 0, 3, 1.0), (5, 2, 0, 1.0), (5, 2, 3, -1.0), (5, 2, 3, float("nan")), (5, 2, 3, float("inf"))])
def test_impossible_requests_are_refused(arguments):
    with pytest.raises(ValueError, match="cannot simulate"):
        gaussian_clusters(*arguments, seed=0)


@pytest.mark.parametrize(
    ("name", "shape", "first"),
    [("galaxy", (82, 2), [9172, 9172]), ("faithful", (272, 2), [3.6, 79]), ("iris", (150, 5), [5.1, 3.5, 1.4, 0.2, 0]), ("wine", (178, 14), None)],
)
def test_built_in_sets(name, shape, first):
    frame = built_in(name)
    assert frame.shape == shape
    assert not frame.isna().to_numpy().any()
    assert first is None or frame.iloc[0].tolist() == first


def test_built_in_classes():
    assert built_in("iris")["target"].value_counts().tolist() == [50, 50, 50]
    assert sorted(built_in("wine")["target"].value_counts()) == [48, 59, 71]


def test_galaxy_misprint_is_corrected_in_the_second_column():
    galaxy = built_in("galaxy").to_numpy()
    changed = galaxy[galaxy[:, 0] != galaxy[:, 1]]
    assert 26690 in changed[:, 0]
    assert 26960 in changed[:, 1]


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="'titanic'; expected one of galaxy, faithful, iris, wine"):
        built_in("titanic")
    assert set(SETS) == {"galaxy", "faithful", "iris", "wine"}
