"""Sequential Monte Carlo: unbiased evidence, clusters that are shared and copied rightly, and ancestors found again."""

import numpy as np
import pytest

import maitre as mt
from maitre.approximate.particles import Ancestry, Particles, systematic
from maitre.families.statistics import log_marginal
from maitre.model import Model
from maitre.numerics.rng import stream
from maitre.states.mixture import MixtureState

POINTS = np.array([[-1.0], [-0.8], [0.1], [0.9], [1.1], [2.0]])
GAUSSIAN = mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.25)


def cloud(model, n_particles, seed, resample_below=0.5, compiled=True):
    particles = Particles(model, n_particles, stream(seed), compiled)
    while particles.seated < model.n:
        particles.advance(resample_below)
    return particles


@pytest.mark.parametrize("n_particles", [1, 4])
@pytest.mark.parametrize("resample_below", [0.5, 1.0])
def test_the_evidence_is_unbiased(n_particles, resample_below):
    """Against enumeration, within four standard errors."""
    model = Model.of(POINTS, GAUSSIAN, mt.priors.DirichletProcess(1.0))
    ratios = [np.exp(cloud(model, n_particles, seed, resample_below).log_evidence + 11.50534875) for seed in range(600)]
    assert abs(np.mean(ratios) - 1.0) < 4.0 * np.std(ratios) / np.sqrt(600)
    assert np.std(ratios) > 0.1


def test_many_particles_come_close_to_the_posterior():
    particles = cloud(Model.of(POINTS, GAUSSIAN, mt.priors.DirichletProcess(1.0)), 20_000, 1)
    assert np.sum(np.exp(particles.log_weights) * particles.n_clusters) == pytest.approx(3.05554762, abs=0.05)
    assert particles.log_evidence == pytest.approx(-11.50534875, abs=0.03)


@pytest.mark.parametrize(
    ("family", "data", "compiled"),
    [
        (GAUSSIAN, np.repeat(POINTS, 20, axis=0) + np.linspace(0.0, 0.3, 120)[:, None], True),
        (mt.families.NormalInverseWishart.EXAMPLES[1].family, np.tile(mt.families.NormalInverseWishart.EXAMPLES[1].data, (3, 1)), False),
        (mt.families.DirichletMultinomial.EXAMPLES[0].family, np.tile(mt.families.DirichletMultinomial.EXAMPLES[0].data, (3, 1)), False),
        (mt.families.Product.EXAMPLES[0].family, np.tile(mt.families.Product.EXAMPLES[0].data, (3, 1)), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_clusters_of_a_particle_are_those_of_its_labels(family, data, compiled):
    model = Model.of(data, family, mt.priors.DirichletProcess(3.0))
    particles = cloud(model, 25, 3, compiled=compiled)
    assert len(np.unique(particles.clusters[np.arange(particles.clusters.shape[1]) < particles.n_clusters[:, None]])) < particles.n_clusters.sum()
    for p in range(25):
        labels, slots = particles.labels_of(p), particles.clusters[p, : particles.n_clusters[p]]
        state = MixtureState(model, labels, compiled=compiled)
        assert state.n_clusters == particles.n_clusters[p]
        np.testing.assert_array_equal(particles.sizes[slots], np.bincount(labels))
        assert sum(log_marginal(particles.statistics, int(k)) for k in slots) == pytest.approx(state.log_likelihood())


def test_compiled_and_plain_agree():
    model = Model.of(POINTS, GAUSSIAN, mt.priors.DirichletProcess(1.0))
    plain, machine = (cloud(model, 7, 5, compiled=compiled) for compiled in (False, True))
    assert machine.log_evidence == pytest.approx(plain.log_evidence)
    assert [machine.labels_of(p).tolist() for p in range(7)] == [plain.labels_of(p).tolist() for p in range(7)]


def test_ancestors_are_found_again_and_the_dead_forgotten():
    rng, n_particles = np.random.default_rng(0), 6
    ancestry, histories, parents = Ancestry(), [[] for _ in range(n_particles)], np.arange(n_particles)
    for step in range(40):
        choices = rng.integers(0, 9, size=(step % 3, n_particles)).astype(np.int32)
        histories = [[*histories[q], *choices[:, p]] for p, q in enumerate(parents)]
        ancestry.extend(choices, parents)
        parents = systematic(np.log(rng.random(n_particles)), n_particles, stream(step)) if step % 2 else np.arange(n_particles)
    for p in range(n_particles):
        assert ancestry.choices_of(p).tolist() == histories[p]
    assert ancestry.blocks[0].shape[1] < n_particles / 2


def test_systematic_resampling_is_fair():
    weights = np.log([0.5, 0.05, 0.3, 0.15])
    counts = np.mean([np.bincount(systematic(weights, 10, stream(seed)), minlength=4) for seed in range(400)], axis=0)
    np.testing.assert_allclose(counts, [5.0, 0.5, 3.0, 1.5], atol=0.11)


def test_a_result_is_a_posterior_that_says_it_is_inexact(tmp_path):
    x = np.concatenate([POINTS, POINTS + 20.0])
    posterior = mt.approximate.smc(x, GAUSSIAN, particles=30, draws=5, progress=False)
    assert posterior.labels.shape == (1, 5, 12)
    assert not posterior.exact
    assert posterior.elbo is None
    posterior.save(tmp_path / "result")
    assert mt.load(tmp_path / "result").log_evidence == posterior.log_evidence
    assert posterior.log_density(x).shape == (12,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": mt.priors.FiniteDirichlet(3, 1.0)}, "smc is for Dirichlet processes; the prior is FiniteDirichlet"),
        ({"particles": 0}, "particles is 0; expected a whole number of at least 1"),
        ({"resample_below": 2.0}, "resample_below is 2.0; expected a finite number of at least 0 and of at most 1"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        mt.approximate.smc(POINTS, **({"family": GAUSSIAN, "progress": False} | options))
