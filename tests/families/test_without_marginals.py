"""A family that only draws and scores parameters is sampled with explicit ones, and has the law of its conjugate twin."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import maitre as mt
from maitre.model import Model
from maitre.moves import Auxiliary
from maitre.numerics.rng import log_gamma_variate, stream
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState
from maitre.testing import compare_with_enumeration, enumerate_posterior

COUNTS = np.array([0.0, 1.0, 4.0, 6.0, 2.0])


class RatesOnly(NamedTuple):
    x: Any
    n: Any
    total: Any

    def clear(s, k):
        s.n[k], s.total[k] = 0.0, 0.0

    def add(s, k, i):
        s.n[k] += 1.0
        s.total[k] += s.x[i]

    def remove(s, k, i):
        s.n[k] -= 1.0
        s.total[k] -= s.x[i]

    def n_parameters(s):
        return 1

    def draw_parameters(s, k, theta, rng):
        theta[0] = log_gamma_variate(1.3 + s.total[k], rng) - math.log(0.6 + s.n[k])

    def log_likelihood(s, theta, i):
        return s.x[i] * theta[0] - math.exp(theta[0]) - math.lgamma(s.x[i] + 1.0)


@dataclass(frozen=True)
class Rates(mt.families.Family):
    statistics = RatesOnly

    def validate(self, data):
        return np.asarray(data, dtype=float).ravel()

    def encode(self, data):
        return data

    def allocate(self, encoded, capacity):
        return RatesOnly(encoded, np.zeros(capacity), np.zeros(capacity))


def test_partitions_have_the_law_of_the_conjugate_twin():
    prior = DirichletProcess(1.0)
    exact = enumerate_posterior(Model.of(COUNTS[:, None], mt.families.GammaPoisson(1.3, 0.6), prior))
    model = Model.of(COUNTS, Rates(), prior)
    state, rng, move = MixtureState(model, np.zeros(5, dtype=int)), stream(1), Auxiliary(2)
    drawn = np.empty((20_000, 5), dtype=np.int64)
    for t in range(len(drawn)):
        move.step(state, rng)
        drawn[t] = state.canonical_labels()
    state.audit()
    distance, expected = compare_with_enumeration(exact, drawn)
    assert distance < 2.0 * expected


def test_sampling_works_by_default_and_says_what_it_cannot_do():
    posterior = mt.sample(COUNTS, family=Rates(), draws=20, burn_in=10, chains=2, progress=False)
    assert np.isfinite(posterior.log_joint).all()
    assert "auxiliary" in posterior.moves
    with pytest.raises(ValueError, match="'gibbs' needs the closed marginals"):
        mt.sample(COUNTS, family=Rates(), moves="gibbs", progress=False)
    with pytest.raises(ValueError, match="'sequential' needs the closed marginals"):
        mt.sample(COUNTS, family=Rates(), init="sequential", progress=False)


def test_predictions_are_those_of_the_conjugate_twin():
    """Densities given parameters drawn for the clusters, averaged over draws, against those with the parameters integrated out, by enumeration."""
    prior, new = DirichletProcess(1.0), np.array([0.0, 3.0, 9.0])
    posterior = mt.sample(COUNTS, family=Rates(), prior=prior, draws=3000, burn_in=100, chains=1, seed=1, progress=False)
    twin = mt.families.GammaPoisson(1.3, 0.6)

    def log_evidence(counts):
        return enumerate_posterior(Model.of(counts[:, None], twin, prior)).log_evidence

    exact = np.array([log_evidence(np.append(COUNTS, value)) for value in new]) - log_evidence(COUNTS)
    assert posterior.log_density(new, max_draws=3000) == pytest.approx(exact, abs=0.05)
    assert posterior.predict_proba(new).sum(axis=1) == pytest.approx(1.0)


def test_links_have_the_law_of_the_conjugate_twin():
    """With a distance-dependent prior: draws of the default moves, whose tables have explicit parameters."""
    from maitre.testing.links import enumerate_links

    prior = mt.priors.DistanceDependent.neighbours(np.arange(4.0), k=2, concentration=0.8)
    posterior = mt.sample(COUNTS[:4], family=Rates(), prior=prior, draws=6000, burn_in=100, chains=1, progress=False)
    assert np.all(np.isfinite(posterior.log_joint))
    law = enumerate_links(Model.of(COUNTS[:4, None], mt.families.GammaPoisson(1.3, 0.6), prior)).law_of_partitions()
    partitions, counts = np.unique(posterior.labels[0], axis=0, return_counts=True)
    drawn = {tuple(labels): count / 6000 for labels, count in zip(partitions.tolist(), counts, strict=True)}
    distance = 0.5 * sum(abs(drawn.get(labels, 0.0) - p) for labels, p in law.items())
    effective = posterior.diagnostics()["n_clusters"]["ess"]
    assert distance < sum(np.sqrt(2.0 * p * (1.0 - p) / (np.pi * effective)) for p in law.values()), (distance, effective)
