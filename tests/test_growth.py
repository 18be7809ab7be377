"""More rows, more draws, gaps, other models, other libraries."""

import numpy as np
import pandas as pd
import pytest

import maitre as mt
from maitre.partitions import adjusted_rand

RNG = np.random.default_rng(0)
TRUTH = np.repeat([0, 1], 30)
X = 7.0 * TRUTH[:, None] + RNG.normal(size=(60, 2))
FAST = {"draws": 40, "burn_in": 30, "chains": 2, "progress": False}
GIBBS = {"family": mt.families.NormalInverseGamma(), "prior": mt.priors.DirichletProcess(1.0), "moves": "gibbs"}


def test_more_rows_join_the_chains():
    first = mt.sample(X[::2], **GIBBS, **FAST)
    more = mt.extend(first, X[1::2], progress=False)
    assert more.labels.shape == (2, 40, 60)
    assert more.settings["burn_in"] == 20
    assert more.settings["init"] == "labels of each chain"
    np.testing.assert_array_equal(more.model.family.mean, first.model.family.mean)
    assert adjusted_rand(more.point_estimate(), np.concatenate([TRUTH[::2], TRUTH[1::2]])) == 1.0
    again = mt.extend(more, X[:3], draws=10, progress=False)
    assert again.model.n == 63
    np.testing.assert_array_equal(mt.extend(first, X[1::2], progress=False).labels, more.labels)


def test_each_chain_goes_on_from_its_own_last_draw():
    starts = np.array([np.zeros(60, dtype=int), TRUTH])
    begun = mt.sample(X, **GIBBS, **(FAST | {"draws": 1, "burn_in": 0}), init=starts)
    assert begun.settings["init"] == "labels of each chain"
    assert adjusted_rand(begun.labels[1, 0], TRUTH) > 0.9
    with pytest.raises(ValueError, match="init has 59 labels for 60 points"):
        mt.sample(X, **GIBBS, **FAST, init=starts[:, 1:])


def test_what_cannot_be_extended_is_told():
    with pytest.raises(ValueError, match="a search, an approximation"):
        mt.extend(mt.sample(X[:6], **GIBBS, **FAST).without_first(3), X[:1])
    linked = mt.sample(X[:10, :1], prior=mt.priors.DistanceDependent.neighbours(X[:10], k=3), **FAST)
    with pytest.raises(ValueError, match="DistanceDependent: put them among the data"):
        mt.extend(linked, X[:1, :1])


def test_partial_fit():
    mixture = mt.DPMixture(**GIBBS, draws=40, burn_in=30, random_state=0)
    mixture.partial_fit(X[::2]).partial_fit(X[1::2])
    assert adjusted_rand(mixture.labels_, np.concatenate([TRUTH[::2], TRUTH[1::2]])) == 1.0
    assert len(mixture.labels_) == 60


def test_until_converged(tmp_path):
    options = GIBBS | {"prior": mt.priors.DirichletProcess(0.05), "chains": 2, "progress": False, "init": "random:10"}
    short = mt.sample(X, draws=30, burn_in=0, **options)
    assert not short.verdict().converged
    run = mt.sample(X, draws=30, burn_in=0, until="converged", store=tmp_path / "run", **options)
    assert run.log_joint.shape[1] > 30
    assert run.verdict().converged
    np.testing.assert_array_equal(mt.load(tmp_path / "run").labels[:, :30], short.labels)
    with pytest.raises(ValueError, match="until"):
        mt.sample(X, until="tomorrow", **options)


def test_early_draws_can_be_left_out():
    posterior = mt.sample(X, **GIBBS, **FAST)
    later = posterior.without_first(15)
    np.testing.assert_array_equal(later.labels, posterior.labels[:, 15:])
    assert (later.settings["burn_in"], later.settings["draws"]) == (45, 25)


@pytest.mark.parametrize(("n", "wanted"), [(10, 1.5), (100, 5.0), (5000, 40), (50, 49.5)])
def test_concentration_from_the_number_of_clusters_expected(n, wanted):
    prior = mt.priors.DirichletProcess(expected_clusters=wanted).for_points(n)
    alpha = prior.concentration
    assert float(np.sum(alpha / (alpha + np.arange(n)))) == pytest.approx(wanted)
    assert prior.in_one_line() == f"DirichletProcess(concentration={alpha:.4g})"


def test_expected_clusters_are_checked_and_used():
    posterior = mt.sample(X, **(GIBBS | {"prior": mt.priors.DirichletProcess(expected_clusters=3)}), **(FAST | {"draws": 2}))
    alpha = posterior.concentration[0, 0]
    assert float(np.sum(alpha / (alpha + np.arange(60)))) == pytest.approx(3.0)
    with pytest.raises(ValueError, match="fewer clusters than points"):
        mt.sample(X, prior=mt.priors.DirichletProcess(expected_clusters=60), **FAST)
    with pytest.raises(ValueError, match="expected_clusters"):
        mt.sample(X, prior=mt.priors.DirichletProcess(expected_clusters=0.5), **FAST)


def test_the_model_that_predicts_better_comes_first():
    narrow = mt.families.NormalInverseGamma(0.0, 1.0, 50.0, 0.05)
    table = mt.compare_models(X, {"narrow": GIBBS | {"family": narrow}, "fitting": GIBBS}, folds=3, **FAST)
    assert table["model"].tolist() == ["fitting", "narrow"]
    assert table["difference"][0] == 0.0
    assert table["difference"][1] < -3 * table["difference_error"][1]
    with pytest.raises(ValueError, match="no models"):
        mt.compare_models(X, {})


def test_arviz():
    pytest.importorskip("arviz")
    posterior = mt.sample(X, **(GIBBS | {"prior": mt.priors.DirichletProcess()}), **FAST)
    data = posterior.to_arviz()
    assert dict(data.posterior["labels"].sizes)["draw"] == 40
    np.testing.assert_array_equal(data.posterior["concentration"], posterior.concentration)
    np.testing.assert_array_equal(data.sample_stats["lp"], posterior.log_joint)


# -- gaps ---------------------------------------------------------------------------------------------------------------------------------------


def with_gaps():
    table = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "kind": np.where(TRUTH, "far", "near")})
    table.loc[[3, 40], "y"] = np.nan
    table.loc[[5, 50], "kind"] = None
    return table


@pytest.fixture(scope="module")
def gapped():
    return mt.sample(with_gaps(), **FAST)


def test_gaps_are_filled_with_what_their_cluster_has(gapped):
    found = gapped.impute().set_index(["row", "column"])
    assert list(found.index) == [(3, "y"), (5, "kind"), (40, "y"), (50, "kind")]
    assert found.loc[(5, "kind"), "value"] == "near"
    assert found.loc[(50, "kind"), "value"] == "far"
    assert found.loc[(50, "kind"), "probability"] > 0.8
    for row, centre in ((3, 0.0), (40, 7.0)):
        cell = found.loc[(row, "y")]
        assert cell["low"] < cell["value"] < cell["high"]
        assert cell["value"] == pytest.approx(centre, abs=1.0)


def test_a_cell_by_hand():
    """One column given another, from the joint density: the mean over a fine grid is that of the coarse one."""
    posterior = mt.sample(with_gaps()[["x", "y"]], draws=5, burn_in=20, chains=1, progress=False)
    new = pd.DataFrame({"x": [6.5], "y": [np.nan]})
    cell = posterior.impute(new, max_draws=5).iloc[0]
    grid = np.linspace(-60.0, 70.0, 20_001)
    weights = np.exp(posterior.log_density(pd.DataFrame({"x": 6.5, "y": grid}), max_draws=5))
    weights /= weights.sum()
    assert cell["value"] == pytest.approx(float(weights @ grid), abs=0.1)
    below = np.cumsum(weights)
    assert cell["low"] == pytest.approx(grid[np.searchsorted(below, 0.025)], abs=0.15)
    assert cell["high"] == pytest.approx(grid[np.searchsorted(below, 0.975)], abs=0.15)


def test_imputation_needs_columns_that_may_have_gaps():
    posterior = mt.sample(X, **GIBBS, **FAST)
    with pytest.raises(ValueError, match="a family that takes gaps"):
        posterior.impute()


# -- distances ------------------------------------------------------------------------------------------------------------------------------------


def test_new_points_join_those_they_are_near_to():
    """Two heaps of equal values, told apart by where they are alone."""
    places = np.concatenate([np.arange(10), 1000.0 + np.arange(10)])[:, None]
    values = RNG.normal(size=(20, 1))
    prior = mt.priors.DistanceDependent(np.abs(places - places.T), mt.decays.window(5.0), 0.01)
    posterior = mt.sample(values, family=mt.families.NormalInverseGamma(), prior=prior, **FAST)
    new = np.array([[4.5], [1004.5], [5000.0]])
    probabilities = posterior.predict_proba([[0.0], [0.0], [0.0]], distances=np.abs(new - places.T))
    labels = posterior.point_estimate()
    assert probabilities[0, labels[4]] > 0.8
    assert probabilities[1, labels[14]] > 0.8
    assert probabilities[2, -1] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="give them as distances="):
        posterior.predict([[0.0]])
    with pytest.raises(ValueError, match=r"expected \(1, 20\)"):
        posterior.predict([[0.0]], distances=np.zeros((2, 20)))
    with pytest.raises(ValueError, match="knows of none"):
        mt.sample(X, **GIBBS, **FAST).predict(X[:1], distances=np.zeros((1, 60)))


# -- plots ------------------------------------------------------------------------------------------------------------------------------------------


def test_plots(gapped):
    plain = mt.sample(X, **GIBBS, **FAST)
    for plot in (mt.plots.traces, mt.plots.n_clusters, mt.plots.similarity, mt.plots.points, mt.plots.profiles, mt.plots.density):
        axes = plot(plain)
        axes.figure.canvas.draw()
        assert axes.get_title(loc="left")
    assert len(mt.plots.traces(plain, "n_clusters").lines) == 2
    assert mt.plots.profiles(gapped).get_yticklabels()
    with pytest.raises(ValueError, match="one or two numeric columns"):
        mt.plots.density(gapped)
    with pytest.raises(ValueError, match="no trace 'phi'"):
        mt.plots.traces(plain, "phi")
    with pytest.raises(ValueError, match="no links"):
        mt.plots.links(plain)
    with pytest.raises(ValueError, match="sparse counts"):
        mt.plots.top_words(plain)
