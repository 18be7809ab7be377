"""DPMixture keeps scikit-learn's conventions and finds clusters in arrays, tables and sparse counts."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import maitre as mt
from maitre.data.simulate import gaussian_clusters
from maitre.model import Model

FAST = {"draws": 60, "burn_in": 60}


@parametrize_with_checks([mt.DPMixture(**FAST), mt.DPMixture(family="NormalInverseWishart", **FAST)])
def test_keeps_the_conventions(estimator, check):
    check(estimator)


def three_clusters():
    means = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    labels = np.repeat([0, 1, 2], 40)
    return means[labels] + np.random.default_rng(0).normal(size=(120, 2)), labels


@pytest.mark.parametrize("family", [None, "NormalInverseWishart", mt.families.NormalInverseGamma(scale=mt.Gamma(1, 1))])
def test_recovers_three_clusters(family):
    x, truth = three_clusters()
    mixture = mt.DPMixture(family=family, random_state=0, **FAST).fit(x)
    assert mixture.n_clusters_ == 3
    assert adjusted_rand_score(truth, mixture.labels_) > 0.95
    assert np.mean(mixture.predict(x) == mixture.labels_) > 0.95
    assert mixture.concentration_ > 0.0


def test_probabilities_are_over_the_reported_clusters_even_far_away():
    x, _ = three_clusters()
    mixture = mt.DPMixture(random_state=0, **FAST).fit(x)
    probabilities = mixture.predict_proba(np.vstack([x[:5], [[1e6, -1e6]]]))
    assert probabilities.shape == (6, mixture.n_clusters_)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_scores_are_log_densities():
    x, _ = gaussian_clusters(80, 1, 2, 25.0, 1)
    mixture = mt.DPMixture(random_state=0, **FAST).fit(x)
    grid = np.linspace(x.min() - 60, x.max() + 60, 4001)[:, None]
    assert np.trapezoid(np.exp(mixture.score_samples(grid)), grid[:, 0]) == pytest.approx(1.0, abs=0.02)
    assert mixture.score(x) == pytest.approx(mixture.score_samples(x).mean())


def mixed_table():
    rng = np.random.default_rng(1)
    group = np.repeat([0, 1], 40)
    table = pd.DataFrame({"height": 10.0 * group + rng.normal(size=80), "colour": np.where(group, "red", "blue")})
    table.loc[3, "height"] = np.nan
    table.loc[5, "colour"] = None
    return table, group


def test_tables_with_text_and_gaps():
    table, group = mixed_table()
    mixture = mt.DPMixture(random_state=0, **FAST).fit(table)
    assert adjusted_rand_score(group, mixture.labels_) > 0.95
    assert list(mixture.feature_names_in_) == list(table.columns)
    assert np.mean(mixture.predict(table) == mixture.labels_) > 0.95
    with pytest.raises(ValueError, match="feature names should match"):
        mixture.predict(table[["colour", "height"]])


def test_every_kind_of_column_has_its_family():
    table, group = mixed_table()
    model = Model.of(table.assign(round=group == 0))
    kinds = {type(family).__name__: columns for columns, family in model.family.groups}
    assert kinds == {"NormalInverseGamma": ("height",), "Categorical": ("colour", "round")}  # fewer kinds of columns compile faster


def test_arrays_with_gaps():
    x, truth = three_clusters()
    x[::7, 1] = np.nan
    mixture = mt.DPMixture(random_state=0, **FAST).fit(x)
    assert adjusted_rand_score(truth, mixture.labels_) > 0.7
    with pytest.raises(ValueError, match="row 0, column 1 is nan"):
        mt.DPMixture(family="NormalInverseWishart").fit(x)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix])
def test_sparse_counts(container):
    rng = np.random.default_rng(2)
    truth = np.repeat([0, 1], 30)
    rates = np.array([[20.0, 20.0, 0.2, 0.2], [0.2, 0.2, 20.0, 20.0]])
    counts = container(rng.poisson(rates[truth]))
    mixture = mt.DPMixture(random_state=0, **FAST).fit(counts)
    assert adjusted_rand_score(truth, mixture.labels_) > 0.95
    assert np.mean(mixture.predict(counts) == mixture.labels_) > 0.95


@pytest.mark.parametrize("wrong", [0.5, -1.0])
def test_sparse_numbers_that_are_no_counts_are_refused(wrong):
    with pytest.raises(ValueError, match="a sparse matrix is taken as counts"):
        mt.DPMixture().fit(sparse.csr_matrix([[wrong, 0.0], [1.0, 2.0]]))


def test_random_state_repeats():
    x, _ = gaussian_clusters(60, 2, 4, 4.0, 3)
    fits = [mt.DPMixture(random_state=5, **FAST).fit(x) for _ in range(2)]
    assert np.array_equal(fits[0].posterior_.labels, fits[1].posterior_.labels)
    assert np.array_equal(fits[0].posterior_.labels, mt.sample(x, seed=5, chains=1, progress=False, **FAST).labels)
    states = [mt.DPMixture(random_state=np.random.RandomState(5), **FAST).fit(x).posterior_.log_joint for _ in range(2)]
    assert np.array_equal(*states)
    other = clone(fits[0]).set_params(random_state=6).fit(x)
    assert not np.array_equal(other.posterior_.log_joint, fits[0].posterior_.log_joint)


def test_parameters_of_the_prior_and_the_family_can_be_set():
    mixture = mt.DPMixture(family="NormalInverseGamma").set_params(prior__concentration=0.5, family__kappa=0.2)
    assert mixture.prior == mt.priors.DirichletProcess(0.5)
    assert mixture.family == mt.families.NormalInverseGamma(kappa=0.2)
    assert mixture.get_params()["prior__concentration"] == 0.5
    with pytest.raises(ValueError, match=r"Invalid parameter 'prior__discount' .* expected one of .*prior__concentration"):
        mixture.set_params(prior__discount=0.1)


def test_seeds_from_generators():
    from maitre.estimators.mixture import seed_of

    assert seed_of(np.random.default_rng(1)) == seed_of(np.random.default_rng(1))
    assert seed_of(np.random.RandomState(1)) == seed_of(np.random.RandomState(1))
    assert seed_of(None) != seed_of(None)


def test_the_names_of_the_package_are_what_there_is():
    assert dir(mt) == sorted([*mt.__all__, "__version__"])
    assert all(hasattr(mt, name) for name in dir(mt))
