"""Refinement never lowers the log joint, keeps its books in order, and mends what greedy search does wrong."""

import numpy as np
import pytest

import maitre as mt
from maitre.data.simulate import gaussian_clusters
from maitre.families import REGISTRY as FAMILIES
from maitre.model import Model
from maitre.numerics.draw import Tempered, draw_log
from maitre.numerics.rng import stream
from maitre.optimize.ascent import ascend_hyperparameters
from maitre.optimize.refine import climb, climb_once, kept_if_better, reheat, reseat_tempered, shake, try_merges, try_splits
from maitre.priors import REGISTRY as PRIORS
from maitre.states.mixture import MixtureState
from maitre.testing import enumerate_posterior


def never():
    return False


def test_tempered_draws():
    weights, scratch = np.log(np.array([0.2, 0.5, 0.3])), np.zeros(3)
    rng = stream(0)
    assert {draw_log(weights, 3, scratch, Tempered(rng, np.inf)) for _ in range(10)} == {1}
    drawn = np.bincount([draw_log(weights, 3, scratch, Tempered(rng, 3.0)) for _ in range(20000)], minlength=3) / 20000
    expected = np.exp(3.0 * weights)
    np.testing.assert_allclose(drawn, expected / expected.sum(), atol=0.015)
    assert draw_log(np.full(3, -np.inf), 3, scratch, Tempered(rng, np.inf)) == -1


def _split(state, points, power, rng):
    return try_splits(state, np.flatnonzero(state.sizes > 0), rng)


def _merge(state, points, power, rng):
    return try_merges(state, np.flatnonzero(state.sizes > 0), rng)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_step_raises_the_log_joint_or_leaves_it(name):
    example = FAMILIES[name].EXAMPLES[0]
    for prior in (cls.EXAMPLES[0] for cls in PRIORS.values()):
        model = Model.of(example.data, example.family, prior)
        state, rng = MixtureState(model, np.zeros(model.n, dtype=int), compiled=False), stream(4)
        points = np.arange(model.n)
        for _ in range(3):
            for step in (_split, _merge, reseat_tempered):
                before = state.log_joint
                changed = step(state, points, np.inf, rng)
                assert state.log_joint >= before
                assert (state.log_joint > before) == (changed > 0)
                state.audit()


@pytest.mark.parametrize("start", ["one", "singletons"])
def test_a_climb_finds_clusters_from_either_end(start):
    x, truth = gaussian_clusters(300, 3, 8, 60.0, 2)
    model = Model.of(x, mt.families.KnownCovarianceGaussian(0.0, 60.0, 1.0), mt.priors.DirichletProcess(1.0))
    state = MixtureState(model, np.zeros(300, dtype=int) if start == "one" else np.arange(300))
    climb(state, stream(0), never)
    state.audit()
    assert mt.partitions.adjusted_rand(truth, state.canonical_labels()) > 0.98


def test_annealing_reaches_the_most_probable_partition_of_a_few_points():
    x = np.random.default_rng(8).normal(size=(8, 1)) * 2.0
    model = Model.of(x, mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.5), mt.priors.PitmanYor(1.0, 0.25))
    exact = enumerate_posterior(model)
    state, rng = MixtureState(model, np.zeros(8, dtype=int)), stream(1)
    kept_if_better(state, lambda: reheat(state, 0.2, rng, never))
    for _ in range(20):
        kept_if_better(state, lambda: shake(state, 3, 0.2, rng))
    state.audit()
    assert state.log_joint == pytest.approx(exact.log_joint.max(), abs=1e-9)


def test_what_is_not_better_is_undone():
    x, _ = gaussian_clusters(120, 2, 5, 30.0, 0)
    model = Model.of(x, mt.families.KnownCovarianceGaussian(0.0, 30.0, 1.0), mt.priors.DirichletProcess(1.0))
    state, rng = MixtureState(model, np.zeros(120, dtype=int)), stream(0)
    climb(state, rng, never)
    labels, log_joint = state.canonical_labels(), state.log_joint
    assert not kept_if_better(state, lambda: reseat_tempered(state, np.arange(120), 0.01, rng))
    state.audit()
    assert np.array_equal(state.canonical_labels(), labels)
    assert state.log_joint == pytest.approx(log_joint, abs=1e-8)
    assert not climb_once(state, np.arange(120), rng)


def test_hyperparameters_climb_to_the_top():
    x, _ = gaussian_clusters(200, 2, 4, 30.0, 1)
    family = mt.families.KnownCovarianceGaussian(0.0, 30.0, 1.0, covariance_scale=mt.Gamma(2.0, 1.0))
    model = Model.of(x, family, mt.priors.PitmanYor(mt.Gamma(2.0, 1.0), mt.Beta(2.0, 4.0)))
    state = MixtureState(model, np.arange(200) % 4)
    gain = ascend_hyperparameters(state)
    state.audit()
    assert gain > 0.0
    top = state.log_joint
    for name in ("concentration", "discount"):
        value = getattr(state.prior, name)
        for factor in (0.98, 1.02):
            state.set_prior({name: value * factor})
            assert state.log_joint < top + 1e-6
        state.set_prior({name: value})
    value = state.family.covariance_scale
    for factor in (0.98, 1.02):
        state.set_family({"covariance_scale": value * factor})
        assert state.log_joint < top + 1e-6
