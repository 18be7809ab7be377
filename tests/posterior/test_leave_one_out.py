"""Densities of points given the others: against enumeration, and Pareto smoothing as ArviZ has it."""

import numpy as np
import pytest

import maitre as mt
from maitre.model import Model
from maitre.posterior.leave_one_out import log_densities_left_out, smoothed
from maitre.states.mixture import MixtureState
from maitre.testing import enumerate_posterior

X = np.array([[-1.0], [0.2], [0.4], [3.0], [3.3]])
FAMILY = mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.5)
PRIORS = [
    mt.priors.DirichletProcess(0.7),
    mt.priors.PitmanYor(0.5, 0.3),
    mt.priors.MixtureOfFiniteMixtures(weight=1.0),
    mt.priors.FiniteDirichlet(4, 0.8),
]


def log_evidence(x, prior):
    return enumerate_posterior(Model.of(x, FAMILY, prior)).log_evidence


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_ratios_average_to_the_density_of_a_point_given_the_others(prior):
    """Σ_C p(C | x) / p(x_i | C₋ᵢ, x₋ᵢ) = p(x₋ᵢ) / p(x), exactly; with the point's own seat not summed over it would not."""
    model = Model.of(X, FAMILY, prior)
    exact = enumerate_posterior(model)
    possible = np.flatnonzero(exact.probabilities > 0.0)
    partitions, probabilities = [exact.partitions[p] for p in possible], exact.probabilities[possible]
    scores = np.array([log_densities_left_out(MixtureState(model, labels, compiled=False)) for labels in partitions])
    for i in range(len(X)):
        expected = exact.log_evidence - log_evidence(np.delete(X, i, axis=0), prior)
        assert -np.log(probabilities @ np.exp(-scores[:, i])) == pytest.approx(expected, abs=1e-10)


def test_smoothing_is_that_of_arviz():
    arviz = pytest.importorskip("arviz")
    rng = np.random.default_rng(0)
    for ratios in (rng.normal(size=400), 2.0 * rng.standard_exponential(1000), rng.standard_t(2, 250)):
        weights, k = smoothed(ratios)
        theirs, their_k = arviz.psislw(ratios)
        assert weights == pytest.approx(np.asarray(theirs), abs=1e-8)
        assert k == pytest.approx(float(their_k), abs=1e-8)


def test_an_outlier_is_told_and_models_are_compared():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(size=(60, 1)), rng.normal(6.0, 1.0, size=(60, 1)), [[40.0]]])
    common = {"draws": 200, "burn_in": 50, "chains": 2, "seed": 0, "progress": False, "moves": "gibbs"}
    found = mt.sample(x, mt.families.KnownCovarianceGaussian(3.0, 20.0, 1.0), **common).leave_one_out()
    assert found.log_density.argmin() == 120
    assert found.n_unreliable <= 2
    models = {
        "narrow": {"family": mt.families.KnownCovarianceGaussian(3.0, 20.0, 0.2)},
        "right": {"family": mt.families.KnownCovarianceGaussian(3.0, 20.0, 1.0)},
    }
    by_loo, by_folds = (mt.compare_models(x[:120], models, method=method, **common) for method in ("loo", "cross-validation"))
    assert by_loo["model"].tolist() == by_folds["model"].tolist() == ["right", "narrow"]
    assert by_loo["log_density"][0] == pytest.approx(by_folds["log_density"][0], abs=0.05)
    assert by_loo["unreliable"].max() <= 2


def test_what_cannot_be_left_out_is_said():
    x = np.arange(6.0)[:, None]
    links = mt.sample(x, FAMILY, mt.priors.DistanceDependent.neighbours(x, k=2), draws=10, burn_in=5, chains=1, progress=False)
    with pytest.raises(ValueError, match="other points depend on the one left out"):
        links.leave_one_out()
    with pytest.raises(ValueError, match="method is 'bic'"):
        mt.compare_models(x, {"a": {}}, method="bic")
