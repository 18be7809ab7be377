"""Moves with continuous draws: Geweke's joint test and comparison with the enumerated posterior; each must fail for a wrong move."""

import numpy as np
import pytest
from scipy import sparse

import maitre as mt
from maitre.families import (
    BetaBernoulli,
    Categorical,
    DirichletMultinomial,
    GammaPoisson,
    KnownCovarianceGaussian,
    NormalInverseGamma,
    NormalInverseWishart,
    Product,
)
from maitre.model import Model
from maitre.moves import Auxiliary, FamilyHyperparameters, Gibbs, PriorHyperparameters, resolve
from maitre.numerics.rng import stream
from maitre.priors import DirichletProcess, FiniteDirichlet, MixtureOfFiniteMixtures, PitmanYor
from maitre.states.mixture import MixtureState
from maitre.testing import compare_with_enumeration, enumerate_posterior, geweke

G = mt.Gamma
WORDS = sparse.csr_matrix((np.array([2.0, 1.0, 0.0] * 4), np.array([0, 1, 2] * 4), np.arange(0, 13, 3)), shape=(4, 3))  # with stored zeros
ZEROS = np.zeros((4, 2))
FAMILIES = {
    "KnownCovarianceGaussian": (KnownCovarianceGaussian(0.0, 2.0, 0.5, prior_scale=G(3, 3), covariance_scale=G(4, 4)), ZEROS),
    "NormalInverseGamma": (NormalInverseGamma(0.0, G(3, 6), 3.0, 1.0, scale=G(3, 3)), ZEROS),
    "NormalInverseWishart": (NormalInverseWishart(0.0, 0.5, 5.0, 1.0, scale_factor=G(3, 3)), ZEROS),
    "DirichletMultinomial": (DirichletMultinomial(G(2, 2)), WORDS),
    "BetaBernoulli": (BetaBernoulli(G(2, 1), G(2, 1)), ZEROS),
    "Categorical": (Categorical(G(2, 2)), np.array([[0, 1], [1, 0], [2, 2], [0, 1]])),
    "GammaPoisson": (GammaPoisson(G(3, 2), G(3, 3)), ZEROS),
    "Product": (Product([(0, NormalInverseGamma(0.0, 0.5, 3.0, 1.0, scale=G(3, 3))), (1, BetaBernoulli(G(2, 1), 1.0))]), ZEROS),
}
DP = DirichletProcess(G(2, 2))
PRIORS = [PitmanYor(G(2, 2), mt.Beta(2, 3)), FiniteDirichlet(4, G(2, 2)), MixtureOfFiniteMixtures(0.3, G(2, 2))]


def scores(family, prior, moves, n_draws):
    model = Model.of(FAMILIES[family][1], FAMILIES[family][0], prior)
    composed = resolve(moves, model)
    composed.freeze()
    return geweke(model, composed.step, n_draws)


@pytest.mark.parametrize(("family", "moves"), [("NormalInverseWishart", "gibbs"), ("Categorical", "auxiliary")])
def test_geweke(family, moves):
    """A few; every family with every prior and move is among the long tests."""
    found = scores(family, DP, moves, 2000)
    assert max(map(abs, found.values())) < 4.0, found


@pytest.mark.long
def test_geweke_with_another_prior():
    found = scores("NormalInverseGamma", PRIORS[0], "gibbs", 2000)
    assert max(map(abs, found.values())) < 4.0, found


@pytest.mark.long
@pytest.mark.parametrize("moves", ["gibbs", "auxiliary", "gibbs+auxiliary"])
@pytest.mark.parametrize("prior", [DP, *PRIORS], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("family", FAMILIES)
def test_geweke_long(family, prior, moves):
    found = scores(family, prior, moves, 10_000)
    assert max(map(abs, found.values())) < 4.5, found


class _ForgetsThePrior(PriorHyperparameters):
    """A wrong move: the concentration is drawn with one cluster too many."""

    def step(self, state, rng):
        state.occupancy[0] += 1
        report = super().step(state, rng)
        state.occupancy[0] -= 1
        return report


class _ForgetsTheJacobian(FamilyHyperparameters):
    """A wrong move: slice sampling on the log scale as if it were the value's own."""

    def step(self, state, rng):
        full = state.log_likelihood_at
        state.log_likelihood_at = lambda values: full(values) - sum(np.log(v) for v in values.values())
        report = super().step(state, rng)
        state.log_likelihood_at = full
        return report


@pytest.mark.parametrize("wrong", [_ForgetsThePrior, _ForgetsTheJacobian])
def test_geweke_finds_wrong_hyperparameter_moves(wrong):
    model = Model.of(FAMILIES["NormalInverseGamma"][1], FAMILIES["NormalInverseGamma"][0], DP)
    right = FamilyHyperparameters() if wrong is _ForgetsThePrior else PriorHyperparameters()

    def step(state, rng):
        for move in (Gibbs(), right, wrong()):
            move.step(state, rng)

    found = geweke(model, step, 2000)
    assert max(map(abs, found.values())) > 6.0, found


X = [[-1.0], [-0.8], [0.1], [0.9], [1.1]]
ENUMERABLE = {
    "known covariance": KnownCovarianceGaussian(0.0, 4.0, 0.25),
    "own variance": NormalInverseGamma(0.1, 0.3, 1.5, 0.8),
    "own covariance": NormalInverseWishart(0.2, 0.4, 1.5, 0.9),
}
FIXED_PRIORS = [DirichletProcess(1.0), PitmanYor(1.0, 0.25), FiniteDirichlet(3, 1.5), MixtureOfFiniteMixtures(0.4, 0.6)]


def partitions_drawn(model, move, n_draws):
    state, rng = MixtureState(model, np.zeros(model.n, dtype=int)), stream(4, 2)
    drawn = np.empty((n_draws, model.n), dtype=np.int64)
    for t in range(n_draws):
        move.step(state, rng)
        drawn[t] = state.canonical_labels()
    state.audit()
    return drawn


@pytest.mark.parametrize(
    ("family", "prior"),
    [
        ("known covariance", FIXED_PRIORS[0]),
        ("own variance", FIXED_PRIORS[1]),
        pytest.param("own covariance", FIXED_PRIORS[2], marks=pytest.mark.long),
        ("own variance", FIXED_PRIORS[3]),
    ],
)
@pytest.mark.parametrize(
    "move",
    [
        pytest.param(Gibbs(), id="gibbs", marks=pytest.mark.long),
        pytest.param(Auxiliary(1), id="auxiliary-1", marks=pytest.mark.long),
        pytest.param(Auxiliary(3), id="auxiliary-3"),
    ],
)
def test_draws_have_the_enumerated_law(family, prior, move):
    model = Model.of(X, ENUMERABLE[family], prior)
    distance, expected = compare_with_enumeration(enumerate_posterior(model), partitions_drawn(model, move, 20_000))
    assert distance < 2.0 * expected, (distance, expected)


def test_a_wrong_number_of_auxiliary_parameters_is_found():
    """Weighing the fresh parameters as if there were none beside them opens too many clusters."""

    class Wrong(Auxiliary):
        def step(self, state, rng):
            state.log_v = state.log_v + np.log(3.0) * np.arange(len(state.log_v))
            report = super().step(state, rng)
            state.log_v = state.log_v - np.log(3.0) * np.arange(len(state.log_v))
            state.log_joint = state.compute_log_joint()
            return report

    model = Model.of(X, ENUMERABLE["known covariance"], FIXED_PRIORS[0])
    distance, expected = compare_with_enumeration(enumerate_posterior(model), partitions_drawn(model, Wrong(3), 5000))
    assert distance > 3.0 * expected
