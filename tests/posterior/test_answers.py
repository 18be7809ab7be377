"""The partition to report, how sure it is, and what the chains are worth."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import maitre as mt
from maitre.model import Model
from maitre.partitions.labels import canonical
from maitre.posterior.diagnostics import effective_sample_size, split_r_hat
from maitre.posterior.posterior import Posterior

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(20, 2)), RNG.normal(size=(20, 2)) + 6.0])


def of_labels(labels, log_joint=None, data=None, **settings):
    """A posterior with these draws (chains, draws, n)."""
    labels = np.array([[canonical(draw) for draw in chain] for chain in labels], dtype=np.int32)
    model = Model.of(np.arange(labels.shape[2], dtype=float)[:, None] if data is None else data)
    traces = {"log_joint": np.zeros(labels.shape[:2]) if log_joint is None else log_joint, "n_clusters": labels.max(axis=2) + 1.0}
    return Posterior(model, traces | {"labels": labels}, {"init": "auto", "burn_in": 100} | settings)


def around(centre, n_draws, seed, noise=0.05):
    """Draws in which some points have left their clusters."""
    rng = np.random.default_rng(seed)
    return [np.where(rng.random(len(centre)) < noise, rng.integers(0, max(centre) + 2, len(centre)), centre) for _ in range(n_draws)]


CENTRE = np.repeat([0, 1, 2], [12, 8, 4])


@pytest.fixture(scope="module")
def noisy():
    return of_labels([around(CENTRE, 60, seed) for seed in range(4)], np.random.default_rng(9).normal(size=(4, 60)))


def test_the_centre_of_the_draws_is_reported(noisy):
    assert noisy.point_estimate().tolist() == CENTRE.tolist()
    assert noisy.point_estimate("binder", parting=2.0).tolist() == CENTRE.tolist()
    assert noisy.expected_loss(noisy.point_estimate()) <= noisy.expected_loss(noisy.best)
    noisy.point_estimate()[0] = 7
    assert noisy.point_estimate()[0] == 0


def test_credible_balls():
    draws = [[0, 0, 0, 0], *[[0, 0, 1, 1]] * 6, [0, 0, 1, 2], [0, 1, 2, 3], [0, 1, 0, 1]]
    posterior = of_labels([draws])
    ball = posterior.credible_ball(0.9)
    assert ball.centre.tolist() == [0, 0, 1, 1]
    assert ball.radius == pytest.approx(np.log(2.0))
    assert (ball.upper.tolist(), ball.lower.tolist()) == ([0, 0, 0, 0], [0, 1, 2, 3])
    assert posterior.credible_ball(0.7).lower.tolist() == [0, 0, 1, 2]
    assert posterior.credible_ball(1.0).horizontal.tolist() == [0, 1, 0, 1]
    assert posterior.credible_ball(0.1).radius == 0.0
    with pytest.raises(ValueError, match=r"level is 1.5; expected a share"):
        posterior.credible_ball(1.5)


def test_certainty_affinity_and_stability_by_hand():
    posterior = of_labels([[[0, 0, 0, 1], [0, 0, 1, 1]]])
    reference = np.array([0, 0, 0, 1])
    np.testing.assert_allclose(posterior.certainty(reference), [0.75, 0.75, 0.5, 0.5])
    np.testing.assert_allclose(posterior.affinities(reference), [[0.75, 0.0], [0.75, 0.0], [0.5, 0.5], [1 / 6, 0.5]])
    np.testing.assert_allclose(posterior.stability(reference), [(1 + 2 / 3) / 2, (1 + 1 / 2) / 2])


def test_tables(noisy):
    points = noisy.assignments()
    assert list(points.columns) == ["cluster", "certainty", "second", "second_certainty"]
    assert points["cluster"].tolist() == CENTRE.tolist()
    assert (points["second"] != points["cluster"]).all()
    assert (points["certainty"] > points["second_certainty"]).all()
    clusters = noisy.clusters()
    assert clusters["size"].tolist() == [12, 8, 4]
    assert clusters["share"].sum() == pytest.approx(1.0)
    assert [CENTRE[point] for point in clusters["typical"]] == clusters["cluster"].tolist()
    assert (clusters["column 0 low"] <= clusters["column 0"]).all()
    assert (clusters["column 0"] <= clusters["column 0 high"]).all()


def test_tables_of_mixed_columns_and_of_counts():
    table = pd.DataFrame({"x": [0.0, np.nan, 9.0, 9.5], "kind": ["a", "a", "b", None], "gap": [np.nan, np.nan, 1.0, 2.0]})
    draws = [[[0, 0, 1, 1]] * 5]
    found = of_labels(draws, data=table).clusters()
    assert found["x"].tolist() == [0.0, 9.25]
    assert found["kind"].tolist() == ["a", "b"]
    assert found["kind share"].tolist() == [1.0, 1.0]
    assert np.isnan(found["gap"][0])
    assert of_labels(draws, data=sparse.csr_matrix([[3, 0, 1], [2, 0, 1], [0, 5, 1], [0, 4, 1]])).clusters()["top"].tolist() == ["0, 2", "1"]


def test_some_points_have_a_similarity_and_an_order(noisy):
    whole, some = noisy.similarity(), noisy.typical_points(6)
    np.testing.assert_allclose(noisy.similarity(points=some), whole[np.ix_(some, some)])
    assert CENTRE[some].tolist() == sorted(CENTRE[some])
    assert len(noisy.typical_points(100)) == 24


def test_one_story(noisy):
    assert "3 clusters of 12, 8, 4 points" in noisy.story()
    split = [np.where(np.arange(24) == point, 3, CENTRE) for point in range(24)]
    odd = of_labels([split])
    assert odd.point_estimate().tolist() == CENTRE.tolist()
    assert "4 most often" in odd.story()
    assert "those beyond the largest 3 hold 4.2% of the points" in odd.story()
    assert odd.story() in odd.summary()


# -- the verdict ------------------------------------------------------------------------------------------------------------------------------


def test_chains_that_agree(noisy):
    verdict = noisy.verdict()
    assert verdict.good, verdict
    assert verdict.sentence.startswith("The four chains agree")
    assert verdict.camps == [[0, 1, 2, 3]]
    np.testing.assert_allclose(verdict.adjusted_rand, 1.0)


def test_chains_that_hold_another_partition_are_named():
    other = np.repeat([0, 1], 12)
    posterior = of_labels([around(other if chain in (1, 2) else CENTRE, 60, chain) for chain in range(5)])
    verdict = posterior.verdict()
    assert not verdict.good
    assert verdict.camps == [[0, 3, 4], [1, 2]]
    assert "hains 2 and 3 hold another partition (2 clusters instead of 3" in verdict.sentence


def test_chains_that_still_climb_are_told():
    climbing = np.cumsum(np.random.default_rng(0).normal(size=(4, 60)), axis=1)
    verdict = of_labels([around(CENTRE, 60, seed) for seed in range(4)], climbing).verdict()
    assert not verdict.good
    assert "do not agree on the log joint" in verdict.sentence


@pytest.mark.parametrize("init", ["one", "given labels", "search"])
def test_agreement_of_chains_that_began_alike_proves_nothing(init):
    verdict = of_labels([around(CENTRE, 60, seed) for seed in range(4)], np.random.default_rng(9).normal(size=(4, 60)), init=init).verdict()
    assert not verdict.good
    assert "began at the same partition" in verdict.sentence


def test_few_draws_and_one_chain():
    assert not of_labels([around(CENTRE, 2, 0)]).verdict().good
    assert not of_labels([around(CENTRE, 5, seed) for seed in range(2)]).verdict().good
    assert "One chain" in of_labels([around(CENTRE, 100, 0)]).verdict().sentence
    climbing = np.cumsum(np.ones((4, 10)), axis=1)
    few = of_labels([around(CENTRE, 10, seed) for seed in range(4)], climbing).verdict()
    assert not few.good
    assert "report about the same partition. From 10 draws per chain nobody can tell" in few.sentence


def test_trapped_and_unconverged_chains_of_a_sampler_are_warned_of():
    """Two clusters far apart seated as one or as many, with moves of single points alone."""
    x = np.concatenate([RNG.normal(size=(40, 2)), RNG.normal(size=(40, 2)) + 4.0])
    options = {"family": mt.families.NormalInverseGamma(), "prior": mt.priors.DirichletProcess(1.0), "moves": "gibbs", "progress": False}
    trapped = mt.sample(x, init="one", draws=60, burn_in=0, **options)
    assert not trapped.verdict().good
    early = mt.sample(x, init="random:20", draws=8, burn_in=0, **options)
    assert not early.verdict().good


def test_diagnostics_are_those_of_arviz():
    arviz = pytest.importorskip("arviz")
    rng = np.random.default_rng(3)
    walk = np.cumsum(rng.normal(size=(4, 101)), axis=1)
    for trace in (
        rng.normal(size=(4, 100)),
        walk,
        rng.integers(2, 5, (3, 50)).astype(float),
        rng.normal(size=(2, 7)),
        np.round(walk),
        -(rng.normal(size=(1, 30)) ** 3),
    ):
        assert len(trace) == 1 or split_r_hat(trace) == pytest.approx(float(arviz.rhat(trace)), rel=1e-10)
        assert effective_sample_size(trace) == pytest.approx(float(arviz.ess(trace)), rel=1e-10)
