import numpy as np
import pytest
from scipy.special import digamma as scipy_digamma
from scipy.special import gammaln

from maitre.numerics.compilation import compiled
from maitre.numerics.elementary import digamma, fast_exp, fast_lgamma, fast_log


@compiled
def exponentials(x, out):
    for i in range(len(x)):
        out[i] = fast_exp(x[i])


@compiled
def logarithms(x, out):
    for i in range(len(x)):
        out[i] = fast_log(x[i])


@compiled
def log_gammas(x, out):
    for i in range(len(x)):
        out[i] = fast_lgamma(x[i])


@compiled
def digammas(x, out):
    for i in range(len(x)):
        out[i] = digamma(x[i])


def apply(function, x):
    out = np.empty_like(x)
    function(x, out)
    return out


def test_exp_over_the_whole_range():
    x = np.concatenate([np.linspace(-699.9, 0.0, 100_001), np.linspace(-1.0, 20.0, 1001)])
    np.testing.assert_allclose(apply(exponentials, x), np.exp(x), rtol=1e-13)


def test_exp_of_the_impossible_is_exactly_zero():
    assert apply(exponentials, np.array([-np.inf, -1e9, -700.5])).tolist() == [0.0, 0.0, 0.0]
    assert fast_exp(-1e9) == 0.0


def test_log_over_the_whole_range():
    x = np.concatenate([np.exp(np.linspace(-690.0, 700.0, 100_001)), np.linspace(0.5, 2.0, 10_001)])
    np.testing.assert_allclose(apply(logarithms, x), np.log(x), rtol=1e-15, atol=2e-16)


@pytest.mark.parametrize("low", [1e-6, 1e-3, 0.5, 7.9, 8.1, 1e3, 1e7])
def test_log_gamma(low):
    x = np.linspace(low, 2.0 * low + 1.0, 2001)
    np.testing.assert_allclose(apply(log_gammas, x), gammaln(x), rtol=2e-12, atol=5e-13)


@pytest.mark.parametrize("low", [1e-15, 1e-6, 1e-3, 0.5, 9.9, 10.1, 1e3, 1e7])
def test_digamma(low):
    x = np.linspace(low, 2.0 * low + 1.0, 2001)
    np.testing.assert_allclose(apply(digammas, x), scipy_digamma(x), rtol=2e-14, atol=2e-14)
    assert digamma(low) == scipy_digamma(low)
