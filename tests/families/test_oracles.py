"""Marginals and predictives against scipy and quadrature, which share no code with the families."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import maitre as mt
from maitre.families.statistics import (
    absorb,
    add,
    clear,
    derive,
    log_marginal,
    log_predictive,
    log_predictive_above,
    log_predictive_all,
    log_predictive_raw,
    log_predictive_without,
    refresh,
    remove,
)
from maitre.model import Model
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState


def filled(family, data, members):
    """Statistics with `members` in slot 1."""
    model = Model.of(data, family, DirichletProcess(1.0))
    s = MixtureState(model, np.zeros(model.n, dtype=int), compiled=False).statistics
    clear(s, 1)
    for i in members:
        add(s, 1, i)
    derive(s, 1)
    return s


X2 = np.array([[0.3, -1.0], [1.2, 0.4], [-0.7, 0.9], [2.0, 1.5]])


@pytest.mark.parametrize("covariance", [0.7, [0.7, 1.3], [[0.7, 0.2], [0.2, 1.3]]])
def test_known_covariance_is_a_multivariate_normal(covariance):
    prior = np.array([[2.0, -0.5], [-0.5, 1.0]])
    noise = np.diag(np.broadcast_to(covariance, 2)) if np.ndim(covariance) < 2 else np.array(covariance)
    s = filled(mt.families.KnownCovarianceGaussian([0.2, 0.1], prior, covariance, prior_scale=1.2, covariance_scale=0.8), X2, range(4))
    joint = np.kron(np.ones((4, 4)), 1.2 * prior) + np.kron(np.eye(4), 0.8 * noise)
    assert log_marginal(s, 1) == pytest.approx(stats.multivariate_normal(np.tile([0.2, 0.1], 4), joint).logpdf(X2.ravel()), abs=1e-10)


ORACLES = {  # points, concentration: log evidence, E[K], P(K), the likeliest partitions, pairs that share a cluster; known by enumeration elsewhere
    (4, 1.0): (
        -6.81435284,
        2.26233693,
        (0.11449506, 0.54852009, 0.29713772, 0.03984713),
        "0000 .11449506 0001 .23593871 0010 .01345462 0011 .20765883 0012 .12455774 0100 .02595139 0101 .00753480 0102 .03864000 0110 .00552470 0111 .05245704 "
        "0112 .05579209 0120 .00394579 0121 .00777019 0122 .06643191 0123 .03984713",
        {},
    ),
    (5, 1.0): (
        -8.68540812,
        2.59920208,
        (0.02859122, 0.46524653, 0.39321897, 0.1042555, 0.00868777),
        "00111 .21219726 00011 .16432283",
        {(0, 1): 0.69500568, (2, 3): 0.45506162, (0, 4): 0.06332371},
    ),
    (5, 2.0): (-8.529827, 3.03549, (), "", {}),
    (6, 1.0): (
        -11.50534875,
        3.05554762,
        (0.00054031, 0.26961565, 0.45391343, 0.2285535, 0.04444092, 0.00293619),
        "000111 .14401325 001111 .09118836 001222 .07602807 001112 .07171581",
        {(0, 1): 0.71122886, (2, 3): 0.35159039, (0, 5): 0.00215167},
    ),
    (6, 0.5): (-11.98146154, 2.63788242, (), "", {(0, 1): 0.82085460, (2, 3): 0.39368333}),
}


@pytest.mark.parametrize("case", ORACLES, ids=str)
def test_oracle_of_six_points(case):
    from maitre.testing import enumerate_posterior

    (n, alpha), (evidence, expected, law, likeliest, shared) = case, ORACLES[case]
    family, x = mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.25), [[-1.0], [-0.8], [0.1], [0.9], [1.1], [2.0]]
    exact = enumerate_posterior(Model.of(x[:n], family, DirichletProcess(alpha)))
    partitions = np.array(exact.partitions)
    n_clusters = partitions.max(axis=1) + 1
    close = {"abs": 6e-7 if case == (5, 2.0) else 2e-8}
    assert exact.log_evidence == pytest.approx(evidence, **close)
    assert exact.probabilities @ n_clusters == pytest.approx(expected, abs=5e-6 if case == (5, 2.0) else 2e-8)
    for k, p in enumerate(law):
        assert exact.probabilities[n_clusters == k + 1].sum() == pytest.approx(p, **close)
    words = likeliest.split()
    for labels, p in zip(words[::2], words[1::2], strict=True):
        assert exact.probabilities[exact.partitions.index(tuple(map(int, labels)))] == pytest.approx(float(p), **close)
    for (i, j), p in shared.items():
        assert exact.probabilities[partitions[:, i] == partitions[:, j]].sum() == pytest.approx(p, **close)


def test_normal_inverse_gamma_by_quadrature():
    x = np.array([[0.3], [1.2], [-0.7]])
    s = filled(mt.families.NormalInverseGamma(0.2, 0.5, 1.7, 0.9, scale=1.3), x, range(3))

    mean, log_precision = np.linspace(-60.0, 60.0, 6001)[:, None], np.linspace(-12.0, 5.0, 1701)[None, :]
    precision = np.exp(log_precision)
    log_density = sum(stats.norm.logpdf(point, mean, precision**-0.5) for point in x.ravel())
    log_density = (
        log_density + stats.norm.logpdf(mean, 0.2, (0.5 * precision) ** -0.5) + stats.gamma.logpdf(precision, 1.7, scale=1.0 / (0.9 * 1.3)) + log_precision
    )
    value = np.exp(log_density).sum() * 0.02 * 0.01
    assert log_marginal(s, 1) == pytest.approx(np.log(value), abs=1e-5)


def test_normal_inverse_gamma_predictive_is_a_student_t():
    x = np.array([[0.3], [1.2], [-0.7], [0.5]])
    s = filled(mt.families.NormalInverseGamma(0.2, 0.5, 1.7, 0.9), x, range(3))
    kappa, a, mean = 3.5, 1.7 + 1.5, (0.5 * 0.2 + x[:3].sum()) / 3.5
    b = 0.9 + 0.5 * ((x[:3] - x[:3].mean()) ** 2).sum() + 0.5 * 3 * (x[:3].mean() - 0.2) ** 2 / (2 * kappa)
    law = stats.t(2 * a, loc=mean, scale=np.sqrt(b * (kappa + 1) / (a * kappa)))
    assert log_predictive(s, 1, 3) == pytest.approx(law.logpdf(0.5), abs=1e-12)


def test_normal_inverse_wishart_predictive_is_a_multivariate_student_t():
    scale = np.array([[0.8, 0.3], [0.3, 1.1]])
    s = filled(mt.families.NormalInverseWishart([0.1, -0.2], 0.5, 3.5, scale, scale_factor=1.4), X2, range(3))
    kappa, nu, mean = 3.5, 6.5, X2[:3].mean(axis=0)
    center = (0.5 * np.array([0.1, -0.2]) + 3 * mean) / kappa
    gap = mean - [0.1, -0.2]
    posterior = 1.4 * scale + (X2[:3] - mean).T @ (X2[:3] - mean) + 0.5 * 3 / kappa * np.outer(gap, gap)
    law = stats.multivariate_t(center, posterior * (kappa + 1) / (kappa * (nu - 1)), df=nu - 1)
    assert log_predictive(s, 1, 3) == pytest.approx(law.logpdf(X2[3]), abs=1e-12)


def test_dirichlet_multinomial_against_scipy():
    counts = np.array([[2, 1, 0], [25, 0, 3], [0, 4, 1]])
    eta = np.array([0.5, 1.2, 0.3])
    family = mt.families.DirichletMultinomial(eta)
    s = filled(family, counts, range(3))
    coefficient = [family.log_coefficient(family.validate(counts[[i]])) for i in range(3)]
    alone = filled(family, counts, [])
    for i in range(3):
        assert log_predictive(alone, 1, i) + coefficient[i] == pytest.approx(stats.dirichlet_multinomial(eta, counts[i].sum()).logpmf(counts[i]), abs=1e-10)
    pooled = stats.dirichlet_multinomial(eta, counts.sum()).logpmf(counts.sum(axis=0)) - family.log_coefficient(
        family.validate(counts.sum(axis=0, keepdims=True))
    )
    assert log_marginal(s, 1) == pytest.approx(pooled, abs=1e-10)


def test_beta_bernoulli_and_categorical_against_scipy():
    bits = np.array([[0, 1], [1, 1], [1, 0]])
    s = filled(mt.families.BetaBernoulli(0.7, 1.6), bits, range(3))
    expected = sum(stats.betabinom(3, 0.7, 1.6).logpmf(bits[:, d].sum()) - np.log(3) for d in range(2))
    assert log_marginal(s, 1) == pytest.approx(expected, abs=1e-10)
    levels = np.array([["a"], ["b"], ["c"], ["a"]])
    s = filled(mt.families.Categorical(0.7), levels, range(4))
    multinomial = stats.dirichlet_multinomial([0.7] * 3, 4).logpmf([2, 1, 1])
    assert log_marginal(s, 1) == pytest.approx(multinomial - np.log(12), abs=1e-10)


def test_gamma_poisson_predictive_is_negative_binomial():
    x = np.array([[3], [0], [7], [2]])
    s = filled(mt.families.GammaPoisson(1.3, 0.6), x, range(3))
    assert log_predictive(s, 1, 3) == pytest.approx(stats.nbinom(1.3 + 10, 3.6 / 4.6).logpmf(2), abs=1e-10)


def test_product_skips_missing_values():
    """A missing entry changes nothing: the marginal is that of the column without it."""
    table = pd.DataFrame({"height": [1.0, np.nan, 2.0], "colour": ["red", None, "blue"]})
    product = mt.families.Product({"height": mt.families.NormalInverseGamma(0.0, 0.3, 2.0, 1.0), "colour": mt.families.Categorical(0.5)})
    both = log_marginal(filled(product, table, range(3)), 1)
    height = log_marginal(filled(mt.families.NormalInverseGamma(0.0, 0.3, 2.0, 1.0), [[1.0], [2.0]], range(2)), 1)
    colour = log_marginal(filled(mt.families.Categorical(0.5), [["red"], ["blue"]], range(2)), 1)
    assert both == pytest.approx(height + colour, abs=1e-12)


def test_defaults_do_not_depend_on_units():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)) + 5.0 * rng.integers(0, 2, size=(60, 1))
    for family in (mt.families.NormalInverseGamma(), mt.families.NormalInverseWishart(), mt.families.KnownCovarianceGaussian()):
        runs = [
            mt.sample(x * units + 7.0, family=family, draws=10, burn_in=5, chains=1, seed=3, progress=False)
            for units in (np.ones(3), np.array([1e3, 1e-3, 20.0]))
        ]
        np.testing.assert_array_equal(runs[0].labels, runs[1].labels)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mt.families.NormalInverseGamma(kappa=-1.0), "kappa must be a positive number"),
        (lambda: mt.families.DirichletMultinomial(0.0), "concentration is 0.0; expected finite numbers of at least 1e-15"),
        (lambda: mt.families.GammaPoisson(1.0, [1.0, -1.0]), r"rate is \[1.0, -1.0\]; expected finite numbers above 0; entry 1"),
        (lambda: mt.families.Product([("a", "b")]), "takes pairs"),
        (
            lambda: Model.of(X2, mt.families.KnownCovarianceGaussian(0, 1.0, [[1.0, 2.0], [2.0, 1.0]]), DirichletProcess(1.0)),
            "covariance is not positive definite",
        ),
        (lambda: Model.of(X2, mt.families.KnownCovarianceGaussian(0, [1.0, 2.0, 3.0], 1.0), DirichletProcess(1.0)), "prior_covariance has shape"),
        (lambda: Model.of(X2, mt.families.NormalInverseWishart(nu=0.5), DirichletProcess(1.0)), "nu is 0.5; with 2 columns"),
        (lambda: Model.of([[0, 2]], mt.families.BetaBernoulli(), DirichletProcess(1.0)), "column 1 is 2; BetaBernoulli takes 0 and 1"),
        (lambda: Model.of([[0.5]], mt.families.GammaPoisson(), DirichletProcess(1.0)), "whole numbers"),
        (lambda: Model.of([[-1]], mt.families.DirichletMultinomial(), DirichletProcess(1.0)), "must not be negative"),
        (lambda: Model.of([[1.5]], mt.families.DirichletMultinomial(), DirichletProcess(1.0)), "must be whole numbers"),
    ],
)
def test_errors_say_what_to_do(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n_dimensions", [3, 16, 37])
@pytest.mark.parametrize("far", [0.0, 1e7])
def test_products_of_factors_give_the_same_predictives_as_one_dimension_after_the_other(n_dimensions, far):
    rng = np.random.default_rng(n_dimensions)
    x = rng.normal(size=(30, n_dimensions))
    x[20:] += 3.0
    x[0, 0], x[1, 1] = far, 30.0  # one point beyond what products allow, one that makes up most of a cluster's spread
    model = Model.of(x, mt.families.NormalInverseGamma(0.2, 0.01, 1.7, 0.9), mt.priors.DirichletProcess(1.0))
    s = MixtureState(model, np.repeat([0, 1], [20, 10])).statistics
    for k in (0, 1):
        for i in range(20 * k + 1, 20 if k == 0 else 30):  # without the first, whose own predictive is a difference of numbers that are far larger
            inside = log_predictive_without(s, k, i)
            remove(s, k, i)
            refresh(s, k)
            expected = log_predictive(s, k, i)
            np.testing.assert_allclose(inside, expected, rtol=1e-9)
            np.testing.assert_allclose(log_predictive_raw(s, k, i), expected, rtol=1e-9)
            add(s, k, i)
            refresh(s, k)
    alone = 0.0
    clear(s, 2)
    for i in range(20):
        alone += absorb(s, 2, i)
    np.testing.assert_allclose([alone, log_marginal(s, 2)], log_marginal(s, 0), rtol=1e-9)


def test_scores_left_early_bound_those_of_clusters_that_are_out_of_the_question():
    x = np.repeat([[0.0], [9.0]], 10, axis=0) + np.random.default_rng(0).normal(size=(20, 48))
    s = MixtureState(Model.of(x, mt.families.NormalInverseGamma(0.2, 0.01, 1.7, 0.9), mt.priors.DirichletProcess(1.0)), np.repeat([0, 1], 10)).statistics
    whole, early, never = np.zeros((3, 2))
    early[0] = -np.inf  # its own cluster, scored elsewhere
    log_predictive_all(s, 0, 2, whole)
    log_predictive_above(s, 0, 2, whole[0] - 45.0, early)
    log_predictive_above(s, 0, 2, whole[1] - 1.0, never)
    np.testing.assert_array_equal(never, whole)
    assert whole[1] < early[1] < whole[0] - 45.0


@pytest.mark.parametrize("n_dimensions", [3, 16, 37])
@pytest.mark.parametrize("slack", [5.0, 45.0, 400.0])
def test_triangular_systems_left_early_bound_the_scores_of_clusters_that_are_out_of_the_question(n_dimensions, slack):
    rng, labels = np.random.default_rng(n_dimensions), np.arange(60) % 12
    x = (0.3 * np.arange(12.0)[:, None] * np.linspace(0.2, 1.0, n_dimensions))[labels] + rng.normal(size=(60, n_dimensions))
    s = MixtureState(Model.of(x, mt.families.NormalInverseWishart(kappa=0.01), mt.priors.DirichletProcess(1.0)), labels).statistics
    for i in range(12):
        whole, early, reference = np.zeros((3, 12))
        log_predictive_all(s, i, 12, whole)
        reference[:] = [log_predictive(s, k, i) for k in range(12)]
        floor = whole.max() - slack
        early[i] = -np.inf  # its own cluster, scored elsewhere
        log_predictive_above(s, i, 12, floor, early)
        others, near = np.arange(12) != i, whole > floor
        np.testing.assert_allclose(whole, reference, rtol=1e-10)
        np.testing.assert_allclose(early[others & near], whole[others & near], rtol=1e-10)
        assert (early[others & ~near] <= floor + 1e-9).all()
        assert (early[others] >= whole[others] - 1e-9).all()
