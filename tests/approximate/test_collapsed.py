"""Collapsed variational inference: its prior is the stick-breaking one, and nothing depends on how points are numbered."""

import numpy as np
import pytest

import maitre as mt
from maitre.approximate.collapsed import Collapsed, _count, _expected_log_prior
from maitre.model import Model
from maitre.numerics.rng import stream

RNG = np.random.default_rng(4)
POINTS = np.concatenate([RNG.normal(size=(15, 1)), RNG.normal(size=(15, 1)) + 3.0])
FAMILY = mt.families.KnownCovarianceGaussian(0.0, 25.0, 1.0)
MODEL = Model.of(POINTS, FAMILY, mt.priors.DirichletProcess(1.3))


def run(model, labels, order, steps, compiled=True):
    field = Collapsed(model, labels, 6, compiled)
    for _ in range(steps):
        change = field.step(order)
    return field, change


def test_the_prior_of_a_point_given_certain_others():
    """With every other point's component certain the expansion is exact, and the probabilities sum to one."""
    counts, alpha = np.array([5.0, 0.0, 3.0, 1.0]), 1.3
    tails = counts[::-1].cumsum()[::-1]
    moments = np.array([counts, np.zeros(4), tails, np.zeros(4)])
    out = np.zeros(4)
    _expected_log_prior(moments, alpha, np.zeros(4), out)
    expected, left = [], 1.0
    for t in range(3):
        expected.append(left * (1.0 + counts[t]) / (1.0 + alpha + tails[t]))
        left *= (alpha + tails[t + 1]) / (1.0 + alpha + tails[t])
    np.testing.assert_allclose(np.exp(out), [*expected, left], rtol=1e-12)
    assert np.exp(out).sum() == pytest.approx(1.0)


def test_rows_are_normalised_and_moments_are_those_of_the_rows():
    field, _ = run(MODEL, np.arange(30) % 6, np.arange(30), 3)
    np.testing.assert_allclose(field.shares.sum(axis=1), 1.0, atol=1e-6)
    moments = np.zeros_like(field.moments)
    for i in range(30):
        _count(moments, field.shares, i, 1.0)
    np.testing.assert_allclose(moments, field.moments, atol=1e-9)
    assert np.all(np.diff(field.moments[0]) <= 1e-9)  # the largest component first
    np.testing.assert_allclose(field.moments[0], field.shares.sum(axis=0, dtype=float), atol=1e-6)


def test_points_may_be_numbered_anyhow():
    shuffled = RNG.permutation(30)
    labels, order = RNG.integers(0, 6, 30), np.arange(30)
    field, _ = run(MODEL, labels, order, 4)
    other, _ = run(Model.of(POINTS[shuffled], FAMILY, mt.priors.DirichletProcess(1.3)), labels[shuffled], np.argsort(shuffled), 4)
    np.testing.assert_allclose(other.shares, field.shares[shuffled], atol=1e-5)


def test_compiled_and_plain_agree_and_it_settles():
    labels, order = np.arange(30) % 6, np.arange(30)
    (plain, _), (machine, _) = (run(MODEL, labels, order, 3, compiled) for compiled in (False, True))
    np.testing.assert_allclose(machine.shares, plain.shares, atol=1e-6)
    np.testing.assert_array_equal(machine.draw_labels(3, stream(0)), plain.draw_labels(3, stream(0)))
    assert run(MODEL, labels, order, 100)[1] < 1e-5


def test_a_result_is_a_posterior_that_says_it_is_inexact():
    far = np.concatenate([POINTS[:15], POINTS[15:] + 9.0])
    posterior = mt.approximate.collapsed_variational(far, FAMILY, truncation=6, draws=4, progress=False)
    assert posterior.labels.shape == (1, 4, 30)
    assert mt.partitions.adjusted_rand(posterior.best, np.repeat([0, 1], 15)) > 0.9
    assert not posterior.exact
    assert posterior.elbo is None
    assert posterior.model.prior.concentration == 1.0  # the mean of its prior
    assert posterior.settings["converged"]
