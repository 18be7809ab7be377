"""`mt.sample` with a distance-dependent prior, from data to a saved result; and `maitre fit --neighbours`."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maitre as mt
from maitre.cli.main import run

RNG = np.random.default_rng(0)
PLACES = RNG.uniform(size=(150, 2))
SIDE = (PLACES[:, 0] > 0.5).astype(int)
X = (8.0 * SIDE + RNG.normal(size=150))[:, None]
FAMILY = mt.families.NormalInverseGamma(0.0, 0.1, 2.0, 1.0)
FAST = {"family": FAMILY, "draws": 40, "burn_in": 40, "chains": 2, "progress": False}


def knows_sides(labels):
    """Hardly any cluster has points of both sides."""
    return mt.partitions.mutual_information(SIDE, labels) > 0.95 * np.log(2.0)


def prior(**options):
    return mt.priors.DistanceDependent.neighbours(PLACES, k=8, **options)


def test_a_posterior_with_everything_in_it(tmp_path):
    decay = mt.decays.exponential(mt.Gamma(2, 20))
    posterior = mt.sample(X, prior=prior(decay=decay), seed=1, **FAST)
    assert posterior.labels.shape == (2, 40, 150)
    assert posterior.exact
    assert set(posterior.traces) == {"log_joint", "n_clusters", "concentration", "decay.scale"}
    assert np.array_equal(posterior.labels.max(axis=2) + 1, posterior.n_clusters)
    assert knows_sides(posterior.best)
    assert "150 points, 8 candidates each" in posterior.summary()
    posterior.save(tmp_path / "result")
    loaded = mt.load(tmp_path / "result")
    assert np.array_equal(loaded.labels[:], posterior.labels)
    assert np.array_equal(loaded.concentration, posterior.concentration)
    assert loaded.model.prior.decay == decay
    for name in ("start", "targets", "values"):
        np.testing.assert_array_equal(getattr(loaded.model.prior.distances, name), getattr(posterior.model.prior.distances, name))
    again = mt.sample(X, prior=loaded.model.prior, seed=1, threads=1, **FAST)
    assert np.array_equal(again.labels, posterior.labels)


@pytest.mark.parametrize("init", ["one", "singletons", "sequential", "random:5", SIDE])
def test_chains_start_where_they_are_told_to(init):
    posterior = mt.sample(X, prior=prior(concentration=1e-3), init=init, **FAST)
    assert knows_sides(posterior.best)


def test_a_function_as_decay_saves_and_loads(tmp_path):
    posterior = mt.sample(X[:20], prior=mt.priors.DistanceDependent(np.ones((20, 20)), np.reciprocal, 0.5), **FAST)
    posterior.save(tmp_path / "result")
    assert mt.load(tmp_path / "result").model.prior.decay.function == "reciprocal"


def test_what_does_not_fit_together_is_said():
    with pytest.raises(
        ValueError, match="move 'gibbs' does not work with the prior DistanceDependent, only with a GibbsTypePrior; those that do are 'links', 'explicit_links'"
    ):
        mt.sample(X, prior=prior(), moves="gibbs", progress=False)
    with pytest.raises(ValueError, match="move 'links' does not work with the prior DirichletProcess"):
        mt.sample(X, moves="links", progress=False)
    with pytest.raises(ValueError, match="between 150 points; the data have 10"):
        mt.sample(X[:10], prior=prior(), progress=False)
    with pytest.raises(ValueError, match="DistanceDependent needs distances"):
        mt.sample(X, prior="DistanceDependent", progress=False)
    with pytest.raises(ValueError, match="give them as distances="):
        mt.sample(X, prior=prior(), **FAST).predict(X[:2])
    with pytest.raises(ValueError, match="n_auxiliary is 0"):
        mt.moves.ExplicitLinks(0)


def test_a_family_that_cannot_merge_is_told_so(monkeypatch):
    monkeypatch.delattr(mt.families.NormalInverseGamma.statistics, "merge")
    with pytest.raises(ValueError, match="needs 'merge' and 'subtract' of the family's statistics"):
        mt.sample(np.arange(150.0)[:, None], family=mt.families.NormalInverseGamma(), prior=prior(), progress=False)


# -- the command ----------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"east": PLACES[:, 0], "north": PLACES[:, 1], "value": X[:, 0]}).to_csv("points.csv", index=False)


def fit(*options):
    run(["fit", "points.csv", "--draws", "20", "--burn-in", "30", "--chains", "1", "--family", "NormalInverseGamma", *options])
    return json.loads(Path("points-maitre/summary.json").read_text())


@pytest.mark.usefixtures("table")
def test_fit_with_coordinates():
    summary = fit("--neighbours", "8", "--coordinates", "east,north", "--concentration", "0.001")
    assert summary["data"]["columns"] == 1
    assert summary["prior"]["values"]["distances"] == "150 points, 8 candidates each"
    assert knows_sides(pd.read_csv("points-maitre/labels.csv")["cluster"])


@pytest.mark.usefixtures("table")
def test_fit_by_the_same_columns_for_both():
    summary = fit("--radius", "0.2", "--decay", "exponential:sampled", "--sequential")
    assert summary["data"]["columns"] == 3
    assert "decay.scale" in summary["diagnostics"]
    assert fit("--neighbours", "5", "--columns", "value,east", "--coordinates", "east", "--decay", "window:0.1")["data"]["columns"] == 2


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--decay", "window:0.1"], "add --coordinates, --neighbours or --radius"),
        (["--neighbours", "5", "--coordinates", "west"], "there is no column 'west'"),
        (["--neighbours", "5", "--decay", "linear"], "expected one of exponential, window, logistic"),
        (["--neighbours", "5", "--decay", "window:wide"], "expected a number, or 'sampled'"),
        (["--neighbours", "0"], "k is 0"),
        (["--neighbours", "5", "--prior", "PitmanYor"], "leave out --prior PitmanYor"),
        (["--neighbours", "5", "--moves", "gibbs"], "does not work with the prior DistanceDependent"),
    ],
)
def test_errors_in_one_line(options, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        fit(*options)
    assert exit_.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
