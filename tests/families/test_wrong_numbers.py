"""Numbers at which double precision gives out: the right answer, by exact arithmetic, or an error in one line."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

import maitre as mt
from maitre.families.statistics import (
    add,
    clear,
    derive,
    log_marginal,
    log_predictive,
    log_predictive_all,
    log_predictive_four,
    log_predictive_raw,
    log_predictive_without,
    refresh,
    remove,
)
from maitre.numerics.compilation import kernel
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState, Model


def exact_log_marginal(x, mean, prior, covariance):
    """Gaussian points in one dimension with a Gaussian mean, the quadratic form in fractions."""
    points = [Fraction(float(value)) - Fraction(mean) for value in x]
    n, s, sigma = len(points), Fraction(prior), Fraction(covariance)
    total, square = sum(points), sum(value * value for value in points)
    quadratic = square / sigma - s * total**2 / (sigma * (sigma + n * s))
    return -0.5 * (n * np.log(2.0 * np.pi * covariance) + np.log1p(n * prior / covariance) + float(quadratic))


def gaussian(x, mean, prior, covariance, labels=None):
    model = Model.of(np.asarray(x)[:, None], mt.families.KnownCovarianceGaussian(mean, prior, covariance), DirichletProcess(1.0))
    return MixtureState(model, np.zeros(model.n, dtype=int) if labels is None else labels, compiled=False).statistics


@pytest.mark.parametrize(("center", "prior"), [(0.0, 4.0), (1e4, 1e10), (1e6, 1e14), (1e6, 1.0), (1e8, 1e18), (1e9, 1e20)])
def test_gaussian_marginals_and_predictives_far_from_the_mean(center, prior):
    x = center + np.random.default_rng(0).normal(size=40)
    s = gaussian(x, 0.0, prior, 1.0)
    whole, rest = exact_log_marginal(x, 0.0, prior, 1.0), exact_log_marginal(x[1:], 0.0, prior, 1.0)
    tolerance = 1e-7 + 1e-13 * abs(whole)
    assert log_marginal(s, 0) == pytest.approx(whole, abs=tolerance)
    assert log_predictive_without(s, 0, 0) == pytest.approx(whole - rest, abs=1e-6 + 1e-12 * abs(whole - rest))
    remove(s, 0, 0)
    refresh(s, 0)
    out, four = np.zeros(1), np.zeros((4, 1))
    log_predictive_all(s, 0, 1, out)
    log_predictive_four(s, 0, 0, 1, 2, 1, four)
    for value in (log_predictive(s, 0, 0), log_predictive_raw(s, 0, 0), out[0], four[0, 0], four[1, 0]):
        assert value == pytest.approx(whole - rest, abs=1e-6 + 1e-12 * abs(whole - rest))


@kernel
def add_and_remove(s, k, i):
    add(s, k, i)
    remove(s, k, i)
    refresh(s, k)


@pytest.mark.parametrize("outlier", [1e9, 1e12])
@pytest.mark.parametrize("use", [add_and_remove, add_and_remove.python], ids=["compiled", "plain"])
def test_an_outlier_that_leaves_a_cluster_leaves_no_trace(outlier, use):
    x = np.append(np.random.default_rng(1).normal(size=10), [outlier, 0.3])
    s = gaussian(x, 0.0, 4.0, 1.0, np.append(np.zeros(10, dtype=int), [1, 2]))
    marginal, predictive = log_marginal(s, 0), log_predictive(s, 0, 11)
    use(s, 0, 10)
    assert log_marginal(s, 0) == pytest.approx(marginal, abs=1e-9)
    assert log_predictive(s, 0, 11) == pytest.approx(predictive, abs=1e-9)
    assert marginal == pytest.approx(exact_log_marginal(x[:10], 0.0, 4.0, 1.0), abs=1e-11)


@pytest.mark.parametrize("prior", [4.0, [4.0, 1.0]], ids=["shared", "not shared"])
def test_far_points_of_two_dimensions_in_machine_code(prior):
    """Compiled and plain Gibbs agree where the distances are taken in place of products."""
    from maitre.moves import Gibbs
    from maitre.numerics.rng import stream

    x = np.random.default_rng(2).normal(size=(80, 2)) + 1e7 * np.random.default_rng(3).integers(0, 2, (80, 1))
    model, runs = Model.of(x, mt.families.KnownCovarianceGaussian(0.0, np.multiply(prior, 1e14), 1.0), DirichletProcess(1.0)), []
    for compiled in (True, False):
        state, rng = MixtureState(model, 2 * (x[:, 0] > 5e6) + np.arange(80) % 2, compiled), stream(5)
        for _ in range(6):
            Gibbs().step(state, rng)
        state.audit(1e-6)
        runs.append(state.canonical_labels())
    assert np.array_equal(*runs)
    assert not set(runs[0][x[:, 0] > 5e6]) & set(runs[0][x[:, 0] < 5e6])


@pytest.mark.parametrize("family", [mt.families.DirichletMultinomial(0.5), mt.families.GammaPoisson(1.0, 1.0)], ids=str)
def test_counts_that_drown_in_rounding_are_refused(family):
    with pytest.raises(ValueError, match=r"the counts add up to 2e\+14; beyond 1e\+11"):
        Model.of([[1e14, 1], [1e14, 2]], family, DirichletProcess(1.0))


@pytest.mark.parametrize(
    "make", [mt.families.Categorical, lambda a: mt.families.BetaBernoulli(a, 1.0), mt.families.DirichletMultinomial], ids=["categorical", "bernoulli", "words"]
)
@pytest.mark.parametrize("value", [1e-20, 1e20])
def test_masses_whose_products_leave_the_range_are_refused(make, value):
    with pytest.raises(ValueError, match="of at least 1e-15 and of at most 1e"):
        make(value)


@pytest.mark.parametrize("family", [mt.families.NormalInverseGamma(), mt.families.NormalInverseWishart(), mt.families.KnownCovarianceGaussian()], ids=str)
def test_data_whose_squares_vanish_are_refused(family):
    with pytest.raises(ValueError, match=r"the values of column 1 differ by .* rescale the column"):
        Model.of(np.random.default_rng(0).normal(size=(20, 2)) * [1.0, 1e-170], family, DirichletProcess(1.0))


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize("wrong", [NAN, INFINITY, "a", [1.0], 1j, True, None, -1.0, 0.0, 10**400], ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        lambda v: mt.Gamma(v, 1.0),
        lambda v: mt.Gamma(1.0, v),
        lambda v: mt.Beta(v, 1.0),
        lambda v: mt.Beta(1.0, v),
        lambda v: mt.families.NormalInverseGamma(kappa=v),
        lambda v: mt.families.NormalInverseGamma(shape=v),
        lambda v: mt.families.NormalInverseWishart(scale_factor=v),
        lambda v: mt.families.KnownCovarianceGaussian(prior_scale=v),
        lambda v: mt.families.GammaPoisson(shape=v),
        lambda v: mt.families.Categorical(v),
        lambda v: mt.families.BetaBernoulli(1.0, v),
        lambda v: mt.priors.DirichletProcess(v),
        lambda v: mt.priors.PitmanYor(1.0, v) if v != 0.0 else mt.priors.PitmanYor(v, 0.0),
        lambda v: mt.priors.FiniteDirichlet(v, 1.0),
        lambda v: mt.priors.FiniteDirichlet(3, v),
        lambda v: mt.priors.MixtureOfFiniteMixtures(v),
        lambda v: mt.priors.MixtureOfFiniteMixtures(0.1, v),
        lambda v: mt.decays.exponential(v),
    ],
)
def test_hyperparameters_that_are_no_numbers_are_refused_in_one_line(make, wrong):
    with pytest.raises(ValueError, match=r"(?s)^[^\n]*$"):
        make(wrong)


@pytest.mark.parametrize("prior", [mt.Gamma, mt.Beta])
def test_extreme_priors_of_hyperparameters_are_refused(prior):
    with pytest.raises(ValueError, match="not extreme"):
        prior(1e300, 1.0)


X = np.random.default_rng(0).normal(size=(6, 2))
WORDS = np.array([[1, 2], [0, 3], [4, 0], [1, 1], [2, 2], [0, 1]])


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (lambda: mt.families.NormalInverseGamma(mean=[0.0, NAN]), "mean is .* expected finite numbers; entry 1 is nan"),
        (lambda: mt.families.NormalInverseGamma(mean=[0.0, 1.0, 2.0]), r"mean has shape \(3,\); the data have 2 columns: give one number, or 2"),
        (lambda: mt.families.NormalInverseGamma(mean="a"), "mean is 'a'; expected finite numbers"),
        (lambda: mt.families.NormalInverseGamma(rate=[1.0, INFINITY]), "rate is .*; entry 1 is inf"),
        (lambda: mt.families.NormalInverseGamma(rate=np.ones((2, 2))), r"rate has shape \(2, 2\)"),
        (lambda: mt.families.NormalInverseWishart(mean=[0.0, 1.0, 2.0]), r"mean has shape \(3,\)"),
        (lambda: mt.families.NormalInverseWishart(scale=[[1.0, NAN], [NAN, 1.0]]), "scale is .* entry 0, 1 is nan"),
        (lambda: mt.families.NormalInverseWishart(scale="wide"), "scale is 'wide'; expected finite numbers"),
        (lambda: mt.families.KnownCovarianceGaussian(mean=[1.0, 2.0, 3.0]), r"mean has shape \(3,\)"),
        (lambda: mt.families.KnownCovarianceGaussian(0.0, 1.0, 1j), "covariance is 1j; expected finite numbers"),
        (lambda: mt.families.KnownCovarianceGaussian(0.0, 1.0, np.ones((3, 3))), r"covariance has shape \(3, 3\)"),
        (lambda: mt.families.KnownCovarianceGaussian(0.0, 1.0, 1e-310), "covariance has variances between"),
        (lambda: mt.families.GammaPoisson(1.0, [1.0, NAN]), "rate is .* entry 1 is nan"),
        (lambda: mt.families.GammaPoisson(1.0, "fast"), "rate is 'fast'"),
        (lambda: mt.families.GammaPoisson(1.0, [1.0, 2.0, 3.0]), r"rate has shape \(3,\)"),
        (lambda: mt.families.DirichletMultinomial([1.0, "b"]), "concentration is .* expected finite numbers"),
        (lambda: mt.families.DirichletMultinomial([1.0, 2.0, 3.0]), r"concentration has shape \(3,\)"),
        (lambda: mt.families.Product([(7, mt.families.NormalInverseGamma())]), "column 7 is not a position in an array with 2 columns"),
        (lambda: mt.families.Product([((0, 0), mt.families.NormalInverseGamma())]), "column 0 is given twice"),
        (lambda: mt.families.Product([(1, mt.families.NormalInverseGamma()), (-1, mt.families.NormalInverseGamma())]), "column 1 is given twice"),
        (lambda: mt.families.Product(5), "takes pairs"),
    ],
)
def test_values_of_the_wrong_kind_or_shape_are_named(family, message):
    def model():
        made = family()
        return Model.of(WORDS if isinstance(made, (mt.families.GammaPoisson, mt.families.DirichletMultinomial)) else X, made, DirichletProcess(1.0))

    with pytest.raises(ValueError, match=message) as caught:
        model()
    assert "\n" not in str(caught.value)


def damaged(form, what):
    matrix = sparse.csr_matrix(WORDS).asformat(form)
    if what == "index":
        indices = matrix.col if form == "coo" else matrix.indices
        indices[1] = 1_000_000
    elif what == "negative":
        (matrix.row if form == "coo" else matrix.indices)[0] = -5
    else:
        matrix.indptr[2] = 10**6
    return matrix


@pytest.mark.parametrize(
    ("form", "what"), [(form, what) for form in ("csr", "csc") for what in ("index", "negative", "pointer")] + [("coo", "index"), ("coo", "negative")]
)
def test_damaged_sparse_matrices_are_refused(form, what):
    with pytest.raises(ValueError, match="the sparse matrix is damaged"):
        mt.sample(damaged(form, what), draws=1, burn_in=0, chains=1, progress=False)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_sparse_matrices_of_every_form_are_the_same_data(form):
    matrix = sparse.csr_matrix(WORDS).asformat(form)
    s = MixtureState(Model.of(matrix, mt.families.DirichletMultinomial(0.5), DirichletProcess(1.0)), np.zeros(6, dtype=int), compiled=False).statistics
    assert s.seen[:, 0].tolist() == WORDS.sum(axis=0).tolist()
    wide = sparse.csr_matrix(WORDS)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert (mt.families.DirichletMultinomial().validate(wide) != sparse.csr_matrix(WORDS)).nnz == 0


def test_statistics_cleared_after_a_change_of_concentration():
    """The prior masses of the words follow the concentration, once for all slots."""
    family = mt.families.DirichletMultinomial(0.5)
    model = Model.of(WORDS, family, DirichletProcess(1.0))
    state = MixtureState(model, np.zeros(6, dtype=int), compiled=False)
    s = family.with_values(state.statistics, {"concentration": 2.0})
    other = MixtureState(Model.of(WORDS, mt.families.DirichletMultinomial(2.0), DirichletProcess(1.0)), np.zeros(6, dtype=int), compiled=False).statistics
    derive(s, 0)
    clear(s, 1)
    derive(s, 1)
    for k in range(2):
        assert log_predictive(s, k, 0) == pytest.approx(log_predictive(other, k, 0), abs=1e-12)
