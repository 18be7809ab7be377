"""DistanceDependentMixture keeps scikit-learn's conventions and finds clusters that hold together in space and time."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import maitre as mt

FAST = {"draws": 60, "burn_in": 60}


@parametrize_with_checks([mt.DistanceDependentMixture(family="NormalInverseGamma", draws=10, burn_in=10)])
def test_keeps_the_conventions(estimator, check):
    check(estimator)


def four_fields():
    """Two values in a chequered field: only their places part the fields of one value."""
    rng = np.random.default_rng(0)
    places = rng.uniform(size=(400, 2))
    quarter = 2 * (places[:, 0] > 0.5) + (places[:, 1] > 0.5)
    values = np.array([0.0, 6.0, 6.0, 0.0])[quarter] + rng.normal(size=400)
    return pd.DataFrame({"east": places[:, 0], "north": places[:, 1], "value": values}), quarter


def test_values_in_fields():
    table, quarter = four_fields()
    mixture = mt.DistanceDependentMixture(
        family="NormalInverseGamma", coordinates=["east", "north"], neighbours=8, concentration=1e-6, random_state=0, **FAST
    ).fit(table)
    assert mt.partitions.mutual_information(quarter, mixture.labels_) > 0.9 * np.log(4.0)  # hardly any cluster has points of two fields
    assert mixture.n_features_in_ == 3
    assert mixture.concentration_ == pytest.approx(1e-6)
    assert mixture.posterior_.model.data.raw.shape == (400, 1)
    array = clone(mixture).set_params(coordinates=[0, 1]).fit(table.to_numpy())
    np.testing.assert_array_equal(array.labels_, mixture.labels_)


def test_distances_of_ones_own():
    table, _ = four_fields()
    places, values = table[["east", "north"]].to_numpy()[:60], table[["value"]].to_numpy()[:60]
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    mixture = mt.DistanceDependentMixture(family="NormalInverseGamma", decay=mt.decays.window(0.2), random_state=0, **FAST).fit(values, distances=distances)
    assert mixture.labels_.shape == (60,)
    with pytest.raises(ValueError, match="say how links decay"):
        mt.DistanceDependentMixture().fit(values, distances=distances)


def test_errors():
    table, _ = four_fields()
    with pytest.raises(ValueError, match="no column 'west'"):
        mt.DistanceDependentMixture(coordinates=["west"]).fit(table)
    with pytest.raises(ValueError, match="all columns are coordinates"):
        mt.DistanceDependentMixture(coordinates=[0, 1, 2]).fit(table.to_numpy())
    with pytest.raises(ValueError, match="k is 0"):
        mt.DistanceDependentMixture(neighbours=0).fit(table)
