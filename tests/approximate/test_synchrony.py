"""Synchronous Gibbs: bookkeeping is right, threads do not matter, one processor is exact and several are not."""

import numpy as np
import pytest

import maitre as mt
from maitre.approximate.synchrony import sweep
from maitre.engines import Serial, Threads
from maitre.model import Model
from maitre.numerics.rng import stream
from maitre.states.mixture import MixtureState
from maitre.testing import compare_with_enumeration, enumerate_posterior

POINTS = np.array([[-1.0], [-0.8], [0.1], [0.9], [1.1]])
GAUSSIAN = mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.25)
MANY = np.random.default_rng(5).normal(size=(60, 1)) * 3.0


@pytest.mark.parametrize("align", ["id", "none"])
def test_statistics_are_those_of_the_labels_on_any_number_of_threads(align):
    """From one cluster, so that many are opened at once and room runs out."""
    model = Model.of(MANY, mt.families.KnownCovarianceGaussian(0.0, 9.0, 0.01), mt.priors.DirichletProcess(9.0))
    runs = []
    for engine in (Serial(), Threads(2)):
        state, blocks, labels = MixtureState(model, np.zeros(60, dtype=int)), np.array_split(np.arange(60), 4), []
        for number in range(8):
            sweep(state, blocks, align, engine, stream(1, number))
            state.audit()
            labels.append(state.canonical_labels())
        runs.append(np.array(labels))
    np.testing.assert_array_equal(runs[0], runs[1])
    assert runs[0].max() > 16


def test_compiled_and_plain_agree():
    model = Model.of(MANY[:20], GAUSSIAN, mt.priors.DirichletProcess(2.0))
    states = [MixtureState(model, np.zeros(20, dtype=int), compiled) for compiled in (True, False)]
    for number in range(5):
        for state in states:
            sweep(state, [np.arange(0, 20, 2), np.arange(1, 20, 2)], "id", Serial(), stream(2, number))
    np.testing.assert_array_equal(states[0].canonical_labels(), states[1].canonical_labels())


@pytest.mark.parametrize("sweeps", [1000, pytest.param(20_000, marks=pytest.mark.long)])
def test_one_processor_is_exact_and_five_are_not(sweeps):
    model = Model.of(POINTS, GAUSSIAN, mt.priors.DirichletProcess(1.0))
    exact = enumerate_posterior(model)
    distances = []
    for processors in (1, 5):
        options = {"processors": processors, "sweeps": sweeps, "burn_in": 50, "threads": 1, "init": "one", "progress": False}
        posterior = mt.approximate.synchronous(POINTS, GAUSSIAN, mt.priors.DirichletProcess(1.0), **options)
        distances.append(compare_with_enumeration(exact, posterior.labels[0]))
        assert not posterior.exact
    assert distances[0][0] < 2.0 * distances[0][1]
    assert distances[1][0] > 2.0 * distances[1][1]


def test_a_result_is_a_posterior_with_sampled_hyperparameters():
    family = mt.families.KnownCovarianceGaussian(0.0, 9.0, 0.25, covariance_scale=mt.Gamma(2, 2))
    options = {"processors": 3, "sweeps": 6, "init": "one", "progress": False}
    first, second = (mt.approximate.synchronous(MANY, family, threads=threads, **options) for threads in (1, 2))
    np.testing.assert_array_equal(first.labels, second.labels)
    assert first.labels.shape == (1, 3, 60)
    assert all(len(np.unique(first.traces[name])) == 3 for name in ("concentration", "family.covariance_scale"))
    assert first.state_at(0, 2).log_joint == pytest.approx(first.log_joint[0, 2])


def test_new_clusters_are_joined_or_kept_apart():
    """Four distant points in one cluster with a fifth: each processor opens a cluster for its own point, or would if it were not joined with the others'."""
    x = np.array([[0.0], [50.0], [100.0], [150.0], [0.1], [-0.1]])
    found = {}
    for align in ("id", "none"):
        state = MixtureState(Model.of(x, GAUSSIAN, mt.priors.DirichletProcess(1.0)), np.zeros(6, dtype=int))
        sweep(state, [np.array([i]) for i in range(6)], align, Serial(), stream(0))
        found[align] = state.n_clusters
    assert found["id"] < found["none"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": mt.priors.PitmanYor(1.0, 0.2)}, "synchronous is for Dirichlet processes"),
        ({"processors": 0}, "processors is 0; expected a whole number of at least 1"),
        ({"align": "size"}, "align is 'size'; expected one of 'id', 'none'"),
        ({"sweeps": 10, "burn_in": 10}, "burn_in is 10; expected a whole number of at least 0 and at most 9"),
        ({"threads": 0}, "threads is 0; expected a whole number of at least 1"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        mt.approximate.synchronous(POINTS, **({"family": GAUSSIAN, "progress": False} | options))
