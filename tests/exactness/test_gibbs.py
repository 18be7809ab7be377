"""Collapsed Gibbs leaves the enumerated posterior invariant to 1e-12: every family with every prior; and wrong weights do not."""

import numpy as np
import pytest

from maitre.families import REGISTRY as FAMILIES
from maitre.model import Model
from maitre.moves.gibbs import reseat_points
from maitre.priors import REGISTRY as PRIORS
from maitre.testing import assert_invariant, enumerate_posterior, transition_matrix

CASES = [
    pytest.param(name, number, prior, id=f"{name}-{number}-{prior}", marks=[] if number == 0 else [pytest.mark.long])
    for name, family in FAMILIES.items()
    for number in range(len(family.EXAMPLES))
    for prior in (p for cls in PRIORS.values() for p in cls.EXAMPLES)
]


def first_points(data, n):
    return data[:n]


@pytest.mark.parametrize(("family", "number", "prior"), CASES)
def test_one_point_steps_are_exact(family, number, prior):
    example = FAMILIES[family].EXAMPLES[number]
    model = Model.of(first_points(example.data, 4), example.family, prior)
    exact = enumerate_posterior(model)
    for i in range(model.n):
        matrix = transition_matrix(model, lambda state, rng, i=i: reseat_points(state, np.array([i]), rng), exact)
        assert_invariant(exact, matrix)
    two = transition_matrix(model, lambda state, rng: reseat_points(state, np.array([1, 3]), rng), exact)
    assert_invariant(exact, two)


def _without_sizes(state, rng):
    state.log_join[state.sizes > 0] = 0.0
    reseat_points(state, np.array([0]), rng)


def _cheap_new_clusters(state, rng):
    state.log_v = state.log_v + 0.01 * np.arange(len(state.log_v))
    reseat_points(state, np.array([0]), rng)


def _stale_coefficients(state, rng):
    """Statistics that a point has left without a refresh."""
    from maitre.families.statistics import remove

    if state.sizes[state.labels[1]] > 1:
        remove(state.statistics, state.labels[1], 1)
    reseat_points(state, np.array([0]), rng)


@pytest.mark.parametrize("wrong", [_without_sizes, _cheap_new_clusters, _stale_coefficients])
def test_wrong_steps_fail(wrong):
    example = FAMILIES["NormalInverseGamma"].EXAMPLES[0]
    model = Model.of(first_points(example.data, 4), example.family, PRIORS["DirichletProcess"].EXAMPLES[0])
    exact = enumerate_posterior(model)
    with pytest.raises(AssertionError, match="invariant"):
        assert_invariant(exact, transition_matrix(model, wrong, exact))


def _four_points(monkeypatch, correction=None):
    """The transition matrix of a sweep over four points that are scored together from the first on."""
    monkeypatch.setattr("maitre.moves.gibbs.CALM", 0)
    if correction is not None:
        monkeypatch.setattr("maitre.moves.gibbs.log_predictive", correction)
    example = FAMILIES["KnownCovarianceGaussian"].EXAMPLES[1]
    model = Model.of(first_points(example.data, 4), example.family, PRIORS["DirichletProcess"].EXAMPLES[0])
    exact = enumerate_posterior(model)
    return exact, transition_matrix(model, lambda state, rng: reseat_points(state, np.array([2, 0, 3, 1]), rng), exact)


def test_scoring_four_points_together_is_exact(monkeypatch):
    assert_invariant(*_four_points(monkeypatch))


def test_scores_that_are_not_corrected_fail(monkeypatch):
    with pytest.raises(AssertionError, match="invariant"):
        assert_invariant(*_four_points(monkeypatch, correction=lambda s, k, i: -1.0))


def test_compiled_and_plain_sweeps_agree_when_four_points_are_scored_together():
    """Separated clusters with a few points between them: long calm stretches, and moves that must correct the scores."""
    from maitre.families import KnownCovarianceGaussian
    from maitre.moves.gibbs import Gibbs
    from maitre.numerics.rng import stream
    from maitre.states.mixture import MixtureState

    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(290, 2)) + 12.0 * rng.integers(0, 2, size=(290, 1)), rng.normal(size=(10, 2)) + 6.0])
    model = Model.of(x, KnownCovarianceGaussian(0.0, 50.0, 1.0), PRIORS["DirichletProcess"].EXAMPLES[0])
    runs = []
    for compiled in (True, False):
        state, stream_of = MixtureState(model, np.zeros(300, dtype=int), compiled), stream(3)
        labels = []
        for _ in range(12):
            Gibbs().step(state, stream_of)
            state.audit()
            labels.append(state.canonical_labels())
        runs.append(np.array(labels))
    assert (np.diff(runs[0], axis=0) != 0).any()
    np.testing.assert_array_equal(runs[0], runs[1])
