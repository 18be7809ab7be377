"""One set of defaults: the same model for the same data whoever asks, and the family that predicts better where two are possible."""

import numpy as np
import pytest

import maitre as mt
from maitre.chains.choice import assembled
from maitre.chains.climbs import looked_at
from maitre.cli.main import run
from maitre.data.simulate import gaussian_clusters

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(20, 2)), RNG.normal(size=(20, 2)) + 7.0])


def fields(model):
    return {name: np.asarray(value).tolist() if isinstance(value, np.ndarray) else value for name, value in model.family.describe().items()}, model.prior


def by_command(command, path, *options):
    file = path / "x.csv"
    np.savetxt(file, X, delimiter=",", header="a,b", comments="")
    run([command, str(file), "--out", str(path / command), "--quiet", *options])
    return mt.load(path / command).model


def test_everybody_gets_the_same_model(tmp_path):
    short = {"draws": 2, "burn_in": 2}
    expected = fields(assembled(X))
    assert isinstance(assembled(X).family, mt.families.HierarchicalNormalInverseWishart)
    models = {
        "sample": mt.sample(X, chains=1, progress=False, **short).model,
        "DPMixture": mt.DPMixture(**short).fit(X).posterior_.model,
        "search": mt.search(X, progress=False).model,
        "MAPSearch": mt.MAPSearch(rounds=0).fit(X).found_.model,
        "maitre fit": by_command("fit", tmp_path, "--draws", "2", "--burn-in", "2", "--chains", "1"),
        "maitre search": by_command("search", tmp_path, "--rounds", "0"),
    }
    for name, model in models.items():
        assert fields(model) == expected, name


@pytest.mark.parametrize(("factor", "why"), [(6.0, "the best start is worth"), (0.8, "with full covariances"), (0.0, "is chance")])
def test_the_family_that_predicts_better_is_chosen(factor, why):
    """Three clusters: twelve columns that a common factor correlates, clearly or less so, or forty that are independent, with few rows for forty columns."""
    rng = np.random.default_rng(1)
    y, n_columns = np.arange(150) % 3, 12 if factor else 40
    x = rng.normal(size=(150, n_columns)) + 5.0 * rng.normal(size=(3, n_columns))[y]
    x += factor * rng.normal(size=(150, 1))
    model = assembled(x)
    assert isinstance(model.family, mt.families.HierarchicalNormalInverseWishart if factor else mt.families.NormalInverseGamma), model.choice
    assert why in model.choice


def test_overlapping_clusters_of_independent_columns_need_no_search_with_full_covariances():
    """Merged clusters correlate, but on what was found full covariances are no better, and one of them for all points neither."""
    x, _ = gaussian_clusters(1500, 60, 10, 0.3, seed=0)
    model = assembled(x)
    assert isinstance(model.family, mt.families.NormalInverseGamma)
    assert "of the same clusters or of one" in model.choice
    correlated = assembled(x + 1.5 * RNG.normal(size=(1500, 2)) @ RNG.normal(size=(2, 60)))
    assert isinstance(correlated.family, mt.families.HierarchicalNormalInverseWishart), correlated.choice


def test_starts_are_found_once_also_under_a_prior_that_is_not_exchangeable():
    x = RNG.normal(size=(40, 9)) + 6.0 * RNG.normal(size=(40, 1))
    model = assembled(x, prior=mt.priors.DistanceDependent(np.abs(np.subtract.outer(np.arange(40.0), np.arange(40.0))), mt.decays.exponential(5.0), 1.0))
    assert isinstance(model.exchangeable.prior, mt.priors.DirichletProcess)
    assert model.starts.found is not None
    assert looked_at(model.exchangeable) is model.starts.found


def test_the_choice_is_stored(tmp_path):
    posterior = mt.sample(RNG.normal(size=(20, 120)), draws=2, burn_in=2, chains=1, store=tmp_path / "run", progress=False)
    assert posterior.model.choice
    assert mt.load(tmp_path / "run").model.choice == posterior.model.choice


def test_very_wide_tables_have_independent_columns():
    model = assembled(RNG.normal(size=(10, 120)))
    assert isinstance(model.family, mt.families.NormalInverseGamma)
    assert isinstance(model.family.scale, mt.Gamma)
    assert "120 columns" in model.choice
