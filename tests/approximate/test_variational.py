"""Mean-field inference: its bound rises and is one, whatever the family and the truncation; and what comes out of it."""

import itertools
import math
import os
import signal
import threading

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln, logsumexp

import maitre as mt
from maitre.approximate.assembly import attended
from maitre.approximate.mean_field import MeanField
from maitre.approximate.sticks import Sticks
from maitre.families import REGISTRY
from maitre.families.product import _MIXED
from maitre.model import Model
from maitre.numerics.rng import stream
from maitre.states.mixture import MixtureState
from maitre.testing import enumerate_posterior

POINTS = np.array([[-1.0], [-0.8], [0.1], [0.9], [1.1], [2.0]])
GAUSSIAN = mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.25)
EXAMPLES = [
    (GAUSSIAN, POINTS[:4]),
    *((family.EXAMPLES[-1].family, family.EXAMPLES[-1].data[:4]) for name, family in REGISTRY.items() if name != "Product"),
    (mt.families.Product.EXAMPLES[1].family, _MIXED[:4]),
]
RNG = np.random.default_rng(3)
BLOBS = np.concatenate([RNG.normal(size=(40, 1)), RNG.normal(size=(40, 1)) + 9.0])
WIDE = mt.families.KnownCovarianceGaussian(0.0, 25.0, 1.0)


def truncated_evidence(model, truncation):
    """log p(x) of the process cut off at so many components, as a function of the concentration, by going through all assignments."""
    assignments = list(itertools.product(range(truncation), repeat=model.n))
    marginals = np.array([MixtureState(model, z, compiled=False).log_likelihood() for z in assignments])
    sizes = np.array([np.bincount(z, minlength=truncation) for z in assignments])
    after = sizes[:, ::-1].cumsum(axis=1)[:, ::-1]
    return lambda alpha: float(logsumexp(marginals + np.sum(betaln(1.0 + sizes[:, :-1], alpha + after[:, 1:]) + math.log(alpha), axis=1)))


def climbed(model, truncation, compiled=False, steps=60):
    field = MeanField(model, np.arange(model.n) % truncation, truncation, compiled)
    for _ in range(steps):
        field.step()
    return field


@pytest.mark.parametrize(("family", "data"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_the_bound_rises_and_is_one(family, data):
    model = Model.of(data, family, mt.priors.DirichletProcess(1.7))
    for truncation in (1, 2, 3):
        elbo = np.array(climbed(model, truncation).elbo)
        exact = truncated_evidence(model, truncation)(1.7)
        assert np.all(np.diff(elbo) >= -1e-10)
        assert np.all(elbo <= exact + 1e-10)
        if truncation == 1:
            np.testing.assert_allclose(elbo, exact)  # nothing is left to approximate
    assert climbed(model, 5).elbo[-1] <= enumerate_posterior(model).log_evidence


@pytest.mark.parametrize(("n", "alpha", "evidence"), [(4, 1.0, -6.81435284), (5, 2.0, -8.529827), (6, 0.5, -11.98146154)])
def test_bounds_of_known_evidence(n, alpha, evidence):
    for truncation in (n, 2 * n):
        elbo = climbed(Model.of(POINTS[:n], GAUSSIAN, mt.priors.DirichletProcess(alpha)), truncation).elbo
        assert np.all(np.diff(elbo) >= -1e-10)
        assert evidence - 4.0 < elbo[-1] < evidence


def test_the_bound_with_an_uncertain_concentration():
    """log p(x) = log ∫ p(α) p(x | α) dα, with as many components as the approximation has."""
    prior = mt.Gamma(2.0, 1.5)
    model = Model.of(POINTS[:4], GAUSSIAN, mt.priors.DirichletProcess(prior))
    for truncation in (1, 3):
        elbo = np.array(climbed(model, truncation).elbo)
        given = truncated_evidence(model, truncation)
        evidence = math.log(quad(lambda a, given=given: math.exp(prior.log_density(a) + given(a)), 1e-9, 30.0, epsabs=1e-10)[0])
        assert np.all(np.diff(elbo) >= -1e-10)
        assert elbo[-1] < evidence + (1e-6 if truncation == 1 else 0.0)
        if truncation == 1:
            np.testing.assert_allclose(elbo, evidence, rtol=1e-6)


@pytest.mark.parametrize("alpha", [0.3, 4.0, mt.Gamma(2.0, 1.0)])
def test_components_are_broken_off_by_size_unless_that_lowers_the_bound(alpha):
    for sizes in RNG.gamma(0.7, 3.0, size=(20, 4)):
        sticks = Sticks(4, alpha)
        sticks.update(sizes)
        before, first = sticks.order.copy(), sticks.log_bound
        sticks.q_concentration, sticks._log_rest = sticks.prior, None
        sticks.update(sizes)
        assert sticks.log_bound >= first - 1e-12
        assert np.all(np.diff(sizes[before][:3]) <= 0.0) or np.array_equal(before, np.arange(4))
        assert np.exp(sticks.log_weights).sum() <= 1.0  # E log π is below log E π


def test_a_controls_bound_is_too_high():
    """Without the constants of the sticks the bound is none: the test above can fail."""
    field = climbed(Model.of(POINTS[:4], GAUSSIAN, mt.priors.DirichletProcess(1.0)), 4)
    assert field.elbo[-1] - field.sticks.log_bound > -6.81435284


def test_compiled_and_plain_agree():
    model = Model.of(POINTS, GAUSSIAN, mt.priors.DirichletProcess(mt.Gamma(1, 1)))
    plain, machine = climbed(model, 4), climbed(model, 4, compiled=True)
    np.testing.assert_allclose(machine.elbo, plain.elbo, rtol=1e-10)
    np.testing.assert_array_equal(machine.draw_labels(5, stream(1)), plain.draw_labels(5, stream(1)))
    np.testing.assert_array_equal(machine.most_probable(stream(1)), plain.most_probable(stream(1)))


@pytest.mark.long
@pytest.mark.parametrize(("family", "data"), EXAMPLES[1:], ids=lambda value: type(value).__name__)
def test_compiled_and_plain_agree_for_every_family(family, data):
    model = Model.of(data, family, mt.priors.DirichletProcess(1.0))
    np.testing.assert_allclose(climbed(model, 3, compiled=True, steps=10).elbo, climbed(model, 3, steps=10).elbo, rtol=1e-10)


def test_draws_follow_q():
    field = climbed(Model.of(POINTS, GAUSSIAN, mt.priors.DirichletProcess(1.0)), 3, compiled=True, steps=3)
    labels = field.draw_labels(4000, stream(5))
    field.step()
    counts = np.array([(labels == k).sum() for k in range(3)]) / 4000
    np.testing.assert_allclose(counts, field.sizes, atol=4 * np.sqrt(0.25 * 6 / 4000))


def test_a_result_is_a_posterior_that_says_it_is_inexact(tmp_path):
    posterior = mt.approximate.variational(BLOBS, WIDE, truncation=10, seed=2, draws=7, progress=False)
    again = mt.approximate.variational(BLOBS, WIDE, truncation=10, seed=2, draws=7, progress=False)
    np.testing.assert_array_equal(posterior.labels, again.labels)
    assert posterior.labels.shape == (1, 7, 80)
    assert mt.partitions.adjusted_rand(posterior.best, np.repeat([0, 1], 40)) == 1.0
    assert not posterior.exact
    assert "not draws from the exact posterior" in posterior.summary()
    assert posterior.settings["converged"]
    assert posterior.log_evidence is None
    assert posterior.concentration.std() > 0.0
    assert posterior.predict([[0.0], [9.0]]).tolist() == posterior.point_estimate()[[0, -1]].tolist()
    assert posterior.similarity().shape == (80, 80)
    state = posterior.state_at(0, 3)
    assert state.log_joint == pytest.approx(posterior.log_joint[0, 3])
    posterior.save(tmp_path / "result")
    loaded = mt.load(tmp_path / "result")
    np.testing.assert_array_equal(loaded.elbo, posterior.elbo)
    assert not loaded.exact
    assert mt.sample(BLOBS, WIDE, moves="gibbs", draws=2, burn_in=2, chains=1, progress=False).elbo is None


def test_ctrl_c_ends_the_climb():
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may have told their children to ignore it
    try:
        timer.start()
        assert attended(lambda stop, bar: stop.wait(60.0), 1, "waiting", False) == (True, True)
    finally:
        signal.signal(signal.SIGINT, before)
    field = MeanField(Model.of(POINTS, GAUSSIAN, mt.priors.DirichletProcess(1.0)), np.arange(6) % 3, 3, compiled=False)
    assert not field.climb(100, 0.0, lambda done: done == 3)
    assert len(field.elbo) == 4


def test_a_variational_start():
    for prior in (mt.priors.DirichletProcess(1.0), mt.priors.PitmanYor(1.0, 0.2), mt.priors.FiniteDirichlet(3, 1.0)):
        posterior = mt.sample(BLOBS, WIDE, prior, moves="gibbs", init="variational:10", draws=3, burn_in=2, chains=1, progress=False)
        assert mt.partitions.adjusted_rand(posterior.best, np.repeat([0, 1], 40)) > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": mt.priors.PitmanYor(1.0, 0.2)}, r"variational is for Dirichlet processes; the prior is PitmanYor"),
        ({"truncation": 0}, "truncation is 0; expected a whole number of at least 1"),
        ({"tolerance": -1.0}, "tolerance is -1.0; expected a finite number of at least 0"),
        ({"iterations": "many"}, "iterations is 'many'; expected a whole number"),
        ({"draws": 0}, "draws is 0; expected a whole number of at least 1"),
        ({"init": np.arange(80), "truncation": 5}, "init has 80 clusters; truncation is 5: give at least 80"),
        ({"init": "best"}, "unknown init 'best"),
        ({"progress": 1}, "progress is 1; expected True or False"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    for method in (mt.approximate.variational, mt.approximate.collapsed_variational):
        with pytest.raises(ValueError, match=message.replace("variational is", f"{method.__name__} is")):
            method(BLOBS, **({"family": WIDE, "progress": False} | options))
