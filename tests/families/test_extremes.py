"""Values and hyper-parameters at the edge of double precision: a right answer or an error, never a crash."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import maitre as mt
from maitre.families.statistics import add, clear, derive, log_predictive, log_predictive_without
from maitre.model import Model
from maitre.moves import Gibbs
from maitre.numerics.draw import draw_log
from maitre.numerics.rng import stream
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("weights", [[np.inf, 0.0], [np.nan, 0.0], [-np.inf, -np.inf]])
def test_a_draw_among_impossible_weights_says_so(weights):
    assert draw_log(np.array(weights), 2, np.zeros(2), stream(0)) == -1


def test_densities_that_are_no_numbers_end_in_one_line():
    with pytest.raises(ValueError, match="exceed 1e100"):
        mt.sample(RNG.normal(size=(20, 2)) * 1e149, family=mt.families.KnownCovarianceGaussian(0, 1.0, 1e-12), draws=50, burn_in=50, progress=False)


@pytest.mark.parametrize("eta", [1e-3, 1e-6, 1e-9, 1e-12])
def test_a_lone_long_document(eta):
    model = Model.of(np.array([[100_000, 30, 0], [1, 1, 1]]), mt.families.DirichletMultinomial(eta), DirichletProcess(1.0))
    s = MixtureState(model, [0, 1], compiled=False).statistics
    clear(s, 3)
    derive(s, 3)
    before = log_predictive(s, 3, 0)
    add(s, 3, 0)
    derive(s, 3)
    assert log_predictive_without(s, 3, 0) == pytest.approx(before, rel=1e-9)


def test_word_counts_beyond_four_bytes():
    model = Model.of(np.full((5, 2), 1_000_000_000), mt.families.DirichletMultinomial(0.5), mt.priors.DirichletProcess(1.0))
    state = MixtureState(model, np.zeros(5, dtype=int), compiled=False)
    Gibbs().step(state, stream(0))
    assert state.log_joint < 0
    state.audit()


@pytest.mark.parametrize(
    "family",
    [
        mt.families.NormalInverseGamma(scale=mt.Gamma(1, 1)),
        mt.families.NormalInverseWishart(scale_factor=mt.Gamma(1, 1)),
        mt.families.KnownCovarianceGaussian(),
    ],
)
@pytest.mark.parametrize(
    "data",
    [np.column_stack([RNG.normal(size=100), np.full(100, 5.0)]), np.repeat(RNG.normal(size=(10, 2)), 10, axis=0), [[1.0, 2.0]]],
    ids=["constant", "repeated", "one row"],
)
def test_sampled_scales_survive_constant_columns_and_repeated_points(family, data):
    posterior = mt.sample(data, family=family, draws=100, burn_in=50, chains=1, progress=False)
    assert np.isfinite(posterior.log_joint).all()


def test_far_points_have_their_density():
    x = RNG.normal(size=(50, 16))
    posterior = mt.sample(x, family=mt.families.NormalInverseGamma(0.0, 1.0, 2.0, 1.0), init="one", draws=1, burn_in=0, chains=1, progress=False)
    near, far = posterior.log_density(np.array([[1e10] * 16, [1e12] * 16]))
    assert far - near == pytest.approx(
        -16 * 5.0 * np.log(100.0), rel=1e-6
    )  # Student t tails of the prior predictive, five degrees of freedom halved, in 16 dimensions


def test_an_outlier_beside_one_point():
    model = Model.of([[0.0], [1e8], [1.0], [2.0]], mt.families.NormalInverseGamma(0.0, 0.5, 2.0, 1.0), DirichletProcess(1.0))
    s = MixtureState(model, [0, 0, 1, 1], compiled=False).statistics
    law = stats.t(2 * 2.5, loc=0.0, scale=np.sqrt(1.0 * 2.5 / (2.5 * 1.5)))
    assert log_predictive_without(s, 0, 1) == pytest.approx(law.logpdf(1e8), rel=1e-12)


def test_tiny_concentrations():
    posterior = mt.sample([[1.0]], prior=DirichletProcess(mt.Gamma(0.001, 0.001)), draws=50, burn_in=10, chains=1, progress=False)
    assert (posterior.concentration > 0).all()


def test_what_cannot_be_sampled_is_refused():
    with pytest.raises(ValueError, match="nu cannot be sampled"):
        mt.families.NormalInverseWishart(nu=mt.Gamma(2, 1))
    with pytest.raises(ValueError, match="rate cannot be sampled"):
        mt.families.NormalInverseGamma(rate=mt.Gamma(1, 1))
    assert mt.priors.DirichletProcess(np.int64(2)).concentration == 2


def test_a_density_does_not_depend_on_the_rows_beside_it():
    options = {"moves": "gibbs", "draws": 5, "burn_in": 2, "chains": 1, "progress": False}
    posterior = mt.sample(np.array([[0], [1], [0], [1]]), family=mt.families.Product([(0, mt.families.Categorical())]), **options)
    assert posterior.log_density(np.array([[0]]))[0] == posterior.log_density(np.array([[0], [7]]))[0]
    plain = mt.sample(np.array([[0], [1], [0], [1]]), family=mt.families.Categorical(), **options)
    with pytest.raises(ValueError, match=r"row 1, .* is 7; expected a category known"):
        plain.log_density(np.array([[0], [7]]))


def test_lists_of_mixed_types_keep_their_numbers():
    posterior = mt.sample([["a", 1.0], ["b", 2.5], ["a", 1.1], ["b", 2.4]], draws=2, burn_in=1, chains=1, progress=False)
    kinds = {type(family).__name__: columns for columns, family in posterior.model.family.groups}
    assert kinds == {"HierarchicalNormalInverseWishart": (1,), "Categorical": (0,)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "the data are NoneType"),
        (b"abc", "the data are bytes"),
        ({}, "the data are dict"),
        ([[1.0, 2.0], [3.0]], "different lengths"),
        (pd.DataFrame(index=range(3)), "0 columns"),
        (pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2020-01-02"])}), "no column is left .* dates or times"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "two columns are named 'a'"),
    ],
)
def test_odd_data_are_refused_in_one_line(data, message):
    with pytest.raises(ValueError, match=message):
        mt.sample(data, progress=False)


@pytest.mark.parametrize("family", [mt.families.DirichletMultinomial(1e-15), mt.families.Categorical(1e-15)], ids=str)
def test_a_tiny_concentration_is_not_lost_beside_whole_counts(family):
    z = np.random.default_rng(0).integers(0, 3, (50, 4))
    state, rng = MixtureState(Model.of(z, family, DirichletProcess(1.0)), np.arange(50) % 10), stream(0, 0)
    for _ in range(10):
        Gibbs().step(state, rng)
    assert state.log_joint == pytest.approx(state.compute_log_joint(), abs=1e-6)
