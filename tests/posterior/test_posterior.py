import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

import maitre as mt
from maitre.posterior.diagnostics import effective_sample_size, split_r_hat
from maitre.posterior.stored import PackedArray

RNG = np.random.default_rng(1)
X = np.concatenate([RNG.normal(size=(30, 2)), RNG.normal(size=(30, 2)) + 7.0])


def fitted(data=X, **options):
    return mt.sample(data, **({"draws": 40, "burn_in": 40, "chains": 2, "seed": 2, "progress": False} | options))


@pytest.fixture(scope="module")
def posterior():
    return fitted()


def test_prediction_puts_points_where_they_belong(posterior):
    new = np.array([[0.0, 0.0], [7.0, 7.0], [0.5, -0.5]])
    labels = posterior.predict(new)
    assert labels[0] == labels[2] == posterior.point_estimate()[0]
    assert labels[1] == posterior.point_estimate()[-1]
    probabilities = posterior.predict_proba(new)
    assert probabilities.shape == (3, posterior.point_estimate().max() + 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("prior", ["DirichletProcess", "PitmanYor", "FiniteDirichlet", "MixtureOfFiniteMixtures"])
def test_the_predictive_density_integrates_to_one(prior):
    one = fitted(X[:, 0], prior=prior, family=mt.families.NormalInverseGamma(scale=mt.Gamma(2, 2)))
    grid = np.linspace(-300.0, 300.0, 60_001)
    assert np.trapezoid(np.exp(one.log_density(grid[:, None], max_draws=10)), grid) == pytest.approx(1.0, abs=2e-3)


def test_the_density_of_one_draw_by_hand():
    """One point at 0, known variance 1, prior variance 4, α = 1: ½ N(0; 0.8-shrunk, 1.8) + ½ N(0, 5)."""
    one = mt.sample(
        [[1.0]], family=mt.families.KnownCovarianceGaussian(0.0, 4.0, 1.0), prior=mt.priors.DirichletProcess(1.0), draws=3, burn_in=0, chains=1, progress=False
    )
    expected = 0.5 * stats.norm(0.8, np.sqrt(1.8)).pdf(0.3) + 0.5 * stats.norm(0.0, np.sqrt(5.0)).pdf(0.3)
    assert one.log_density([[0.3]])[0] == pytest.approx(np.log(expected), abs=1e-12)


def test_draws_count_by_the_density_they_give_a_new_point():
    """P(new cluster | x) by enumeration of four points is 0.226; draws that all count the same would give 0.621."""
    from maitre.model import Model
    from maitre.testing import enumerate_posterior

    family, prior, x, new = mt.families.NormalInverseGamma(0.0, 0.1, 3.0, 0.01), mt.priors.DirichletProcess(1.0), [[0.9], [-0.5], [1.8]], [-3.8]
    exact = enumerate_posterior(Model.of([*x, new], family, prior))
    alone = float(exact.probabilities[[labels.count(labels[-1]) == 1 for labels in exact.partitions]].sum())
    drawn = mt.sample(x, family=family, prior=prior, draws=4000, burn_in=100, chains=1, progress=False)
    assert alone == pytest.approx(0.2256, abs=1e-4)
    assert drawn.predict_proba([new], max_draws=4000)[0, -1] == pytest.approx(alone, abs=0.03)


def test_prediction_checks_the_new_data(posterior):
    with pytest.raises(ValueError, match="columns"):
        posterior.predict([[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="row 1, column 1 is inf"):
        posterior.predict([[0.0, 0.0], [1.0, np.inf]])
    assert np.isfinite(posterior.log_density([[0.0, np.nan]])).all()  # a gap is none of its business
    with pytest.raises(ValueError, match="row 1, column 1 is nan"):
        mt.sample(X, family="NormalInverseWishart", draws=2, burn_in=1, chains=1, progress=False).predict([[0.0, 0.0], [1.0, np.nan]])


def test_tables_and_sparse_counts_are_predicted():
    table = pd.DataFrame({"x": X[:, 0], "kind": np.where(X[:, 1] > 3.5, "far", "near")})
    mixed = fitted(table)
    assert mixed.predict(table.iloc[[0, -1]]).tolist() == [mixed.point_estimate()[0], mixed.point_estimate()[-1]]
    unknown = pd.DataFrame({"x": [0.0], "kind": ["elsewhere"]})
    assert mixed.predict(unknown).tolist() == [mixed.point_estimate()[0]]
    with pytest.raises(ValueError, match="lack the column 'kind'"):
        mixed.predict(table[["x"]])
    counts = sparse.csr_matrix(np.repeat([[5, 0, 0, 1], [0, 5, 5, 0]], 10, axis=0))
    words = fitted(counts)
    assert words.predict(counts[[0, 19]]).tolist() == [words.point_estimate()[0], words.point_estimate()[-1]]


@pytest.mark.parametrize(
    "family",
    [
        mt.families.NormalInverseGamma(scale=mt.Gamma(1, 1)),
        mt.families.NormalInverseWishart(),
        mt.families.KnownCovarianceGaussian(0.0, [3.0, 4.0], 1.0),
        mt.families.Product([((0, 1), mt.families.NormalInverseGamma())]),
    ],
    ids=lambda f: type(f).__name__,
)
def test_saved_results_come_back(tmp_path, family):
    before = fitted(family=family, prior=mt.priors.PitmanYor(discount=mt.Beta(1, 3)))
    before.save(tmp_path / "result")
    after = mt.load(tmp_path / "result")
    np.testing.assert_array_equal(np.asarray(after.labels[:]), before.labels)
    np.testing.assert_array_equal(after.log_joint, before.log_joint)
    np.testing.assert_allclose(after.log_density(X[:5]), before.log_density(X[:5]), rtol=1e-12)
    assert after.summary() == before.summary()
    before.save(tmp_path / "result")
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_saving_and_loading_refuse_what_is_not_a_result(tmp_path, posterior):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("…")
    with pytest.raises(ValueError, match="not a saved result"):
        posterior.save(tmp_path / "precious")
    with pytest.raises(FileNotFoundError, match="not a saved result"):
        mt.load(tmp_path / "precious")


def test_posterior_of_the_number_of_clusters(posterior):
    probabilities = posterior.k_probabilities()
    assert sum(probabilities.values()) == pytest.approx(1.0)
    assert max(probabilities, key=probabilities.get) == 2


def test_effective_sample_size_of_an_autoregression():
    """An AR(1) with coefficient ρ is worth n(1−ρ)/(1+ρ) draws."""
    rng, rho, n = np.random.default_rng(0), 0.8, 50_000
    noise, chain = rng.normal(size=n), np.zeros(n)
    for t in range(1, n):
        chain[t] = rho * chain[t - 1] + noise[t]
    assert effective_sample_size(chain[None]) == pytest.approx(n * 0.2 / 1.8, rel=0.15)
    assert effective_sample_size(noise[None]) == pytest.approx(n, rel=0.1)


def test_r_hat_sees_chains_that_disagree():
    rng = np.random.default_rng(0)
    same = rng.normal(size=(4, 1000))
    assert split_r_hat(same) < 1.01
    assert split_r_hat(same + np.array([[0.0], [0.0], [0.0], [1.0]])) > 1.05
    assert split_r_hat(same + np.linspace(0.0, 2.0, 1000)) > 1.05
    assert split_r_hat(np.ones((2, 10))) == 1.0
    assert split_r_hat([[0.0] * 10, [1.0] * 10]) == np.inf
    assert np.isnan(split_r_hat([[1.0]]))


def test_very_many_labels_stay_packed_and_behave_like_an_array(monkeypatch):
    """The same indexing, arithmetic and methods as the array that few labels make up, also after a pickle."""
    data = np.random.default_rng(0).normal(size=(40, 2))
    plain = mt.sample(data, draws=6, burn_in=2, chains=2, seed=0, progress=False)
    monkeypatch.setattr("maitre.posterior.stored._MOST_UNPACKED", 100)
    packed = mt.sample(data, draws=6, burn_in=2, chains=2, seed=0, progress=False)
    assert isinstance(packed.labels, PackedArray)
    assert isinstance(plain.labels, np.ndarray)
    assert all(draw.dtype == np.uint8 for chain in packed.labels.values for draw in chain)
    keys = [0, -1, (1, 2), (slice(None), 3), (..., 5), (0, slice(1, 5, 2), slice(3)), (1, [4, 0]), (0, np.arange(6) > 2), ([0, 1], [2, 3]), (0, [1, 2], [3, 4])]
    for key in [*keys, (..., None), None, (0, None), slice(0, 0), plain.labels == 0, (1, 2, 3), (slice(None), slice(2, 2)), (0, [[1, 2]])]:
        found, expected = packed.labels[key], plain.labels[key]
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(packed.labels == 0, plain.labels == 0)
    np.testing.assert_array_equal(1 + packed.labels, 1 + plain.labels)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(packed)).labels.reshape(12, 40), plain.labels.reshape(12, 40))
    assert packed.labels.max() == plain.labels.max()
    assert packed.labels.size == plain.labels.size
    assert 0 in packed.labels
    with pytest.raises(TypeError, match="cannot be changed"):
        packed.labels += 1
    assert not hasattr(packed.labels, "no_such_method")
    np.testing.assert_array_equal(packed.point_estimate(), plain.point_estimate())


def test_a_stop_in_burn_in_leaves_a_state_also_of_very_many_points(monkeypatch):
    monkeypatch.setattr("maitre.posterior.stored._MOST_UNPACKED", 100)
    posterior = mt.sample(np.random.default_rng(0).normal(size=(80, 2)), draws=10**6, burn_in=10**6, chains=2, time_budget=0.05, progress=False)
    assert posterior.settings["stopped_in_burn_in"]
    assert posterior.labels[0, 0].shape == (80,)
    assert posterior.best.shape == (80,)
