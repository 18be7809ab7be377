import time

import numpy as np
import pytest
from scipy import integrate, stats

import maitre as mt
from maitre.numerics.rng import stream
from maitre.priors import REGISTRY, DirichletProcess, GibbsTypePrior, MixtureOfFiniteMixtures, PitmanYor
from maitre.priors.dirichlet_process import draw_concentration
from maitre.testing import check_prior

EXAMPLES = [prior for cls in REGISTRY.values() for prior in cls.EXAMPLES]


@pytest.mark.parametrize("prior", EXAMPLES, ids=str)
def test_probabilities_sum_to_one_and_are_consistent(prior):
    check_prior(prior, 7)


def test_a_wrong_prior_is_found():
    class Wrong(DirichletProcess):
        def log_w(self, m):
            return super().log_w(m) + 0.01 * m * m

    with pytest.raises(AssertionError, match="sum to 1"):
        check_prior(Wrong(1.0))


def test_pitman_yor_without_discount_is_the_dirichlet_process():
    k, m = np.arange(1, 50), np.arange(1, 1001)
    np.testing.assert_allclose(PitmanYor(1.7, 0.0).log_v(1000, k), DirichletProcess(1.7).log_v(1000, k), rtol=1e-13)
    np.testing.assert_allclose(PitmanYor(1.7, 0.0).log_w(m), DirichletProcess(1.7).log_w(m), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "prior", [MixtureOfFiniteMixtures(0.1, 1.0), MixtureOfFiniteMixtures(0.001, 0.5), PitmanYor(-0.2, 0.6), DirichletProcess(3.0)], ids=str
)
@pytest.mark.parametrize("n", [1000, 1_000_000])
def test_one_more_point_at_many_points(prior, n):
    """V(n, K) = V(n+1, K) Σ_c W(|c|+1)/W(|c|) + V(n+1, K+1) W(1), an identity that sums no series."""
    for n_clusters in (1, 7, 200):
        sizes = np.full(n_clusters, n // n_clusters)
        sizes[0] += n - sizes.sum()
        join = np.exp(prior.log_w(sizes + 1) - prior.log_w(sizes)).sum()
        now = prior.log_v(n, np.array([n_clusters]))[0]
        later = prior.log_v(n + 1, np.array([n_clusters, n_clusters + 1]))
        total = join * np.exp(later[0] - now) + np.exp(later[1] - now + prior.log_w(np.array([1]))[0])
        assert total == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DirichletProcess(0.0), "concentration must be a positive number"),
        (lambda: DirichletProcess(-1.0), "concentration must be a positive number"),
        (lambda: DirichletProcess(float("nan")), "concentration must be a positive number"),
        (lambda: PitmanYor(-0.5, 0.25), "above −discount"),
        (lambda: PitmanYor(1.0, 1.0), "discount is 1.0; expected a finite number of at least 0 and below 1"),
        (lambda: mt.priors.FiniteDirichlet(0), "components is 0; expected a whole number of at least 1"),
        (lambda: MixtureOfFiniteMixtures(1.5), "geometric is 1.5; expected a finite number of at least 1e-12 and below 1"),
        (lambda: mt.Gamma(0.0, 1.0), "both must be positive"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_escobar_west_against_quadrature():
    """The step leaves p(α | K, n) invariant: a long run has the density's mean and variance."""
    n, n_clusters, hyperprior = 30, 6, mt.Gamma(2.0, 1.5)

    def density(alpha):
        return np.exp(n_clusters * np.log(alpha) + stats.gamma(2.0, scale=1 / 1.5).logpdf(alpha) - np.sum(np.log(alpha + np.arange(n))))

    total, mean = (integrate.quad(lambda a, power=power: a**power * density(a), 0.0, 60.0)[0] for power in (0, 1))
    rng, alpha, draws = stream(0, 1), 1.0, []
    for _ in range(40_000):
        alpha = draw_concentration(alpha, n, n_clusters, hyperprior, rng)
        draws.append(alpha)
    assert np.mean(draws) == pytest.approx(mean / total, rel=0.02)


def test_a_prior_needs_no_more_than_v_and_w():
    assert GibbsTypePrior.__abstractmethods__ == {"log_v", "log_w"}


MAGNITUDES = [1e-300, 1e-100, 1e-20, 1e-5, 0.3, 17.0, 1e3, 1e8, 1e15, 1e16, 1e100, 1e300]


@pytest.mark.parametrize("value", MAGNITUDES)
@pytest.mark.parametrize(
    "make",
    [
        DirichletProcess,
        lambda a: PitmanYor(a, 0.3),
        lambda a: mt.priors.FiniteDirichlet(3, a),
        lambda a: mt.priors.FiniteDirichlet(10**15, a),
        lambda a: MixtureOfFiniteMixtures(0.4, a),
    ],
    ids=["DP", "PY", "finite", "many components", "MFM"],
)
def test_priors_at_all_magnitudes(make, value):
    check_prior(make(value), 5)


@pytest.mark.parametrize("geometric", [1e-12, 1e-6, 0.001, 0.1, 0.999])
@pytest.mark.parametrize("weight", [1e-6, 0.5, 100.0])
def test_mixtures_of_finite_mixtures_of_every_kind_are_quick_and_right(geometric, weight):
    prior = MixtureOfFiniteMixtures(geometric, weight)
    check_prior(prior, 5)
    started = time.perf_counter()
    prior.log_v(20, np.arange(1, 21))
    assert time.perf_counter() - started < 2.0


@pytest.mark.parametrize("alpha", [1e-300, 1e-10, 1e10, 1e300])
@pytest.mark.parametrize("rate", [1e-100, 1.0, 1e100])
def test_escobar_west_at_extreme_values(alpha, rate):
    rng = stream(0, 7)
    for _ in range(50):
        alpha = draw_concentration(alpha, 20, 3, mt.Gamma(1.0, rate), rng)
        assert 1e-300 <= alpha <= 1e300
