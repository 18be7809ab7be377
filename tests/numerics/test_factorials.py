"""Rising factorials against exact sums of logarithms."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import digamma

from maitre.numerics.compilation import compiled
from maitre.numerics.exact import product_error, sum_error
from maitre.numerics.factorials import digamma_rise, log_rising


@pytest.mark.parametrize("a", [1e-300, 1e-8, 0.5, 3.0, 15.9, 16.0, 17.3, 1e4, 1e9, 1e15, 1e100, 1e300])
def test_log_rising_is_a_sum_of_logarithms(a):
    for n in (0, 1, 2, 7, 300):
        assert float(log_rising(a, n)) == pytest.approx(sum(np.log(a + j) for j in range(n)), rel=1e-14, abs=1e-13)


def test_differences_of_log_rising_at_large_arguments():
    a, n = 1e12, 20
    assert float(log_rising(a, n)) - n * np.log(a) == pytest.approx(sum(np.log1p(j / a) for j in range(n)), abs=1e-12)


@pytest.mark.parametrize("a", [0.01, 2.0, 15.0, 16.0, 40.0])
def test_digamma_rise(a):
    np.testing.assert_allclose(digamma_rise(a, np.arange(5)), digamma(a + np.arange(5)) - digamma(a), rtol=1e-12, atol=1e-14)
    assert float(digamma_rise(1e300, 5)) == pytest.approx(5e-300, rel=1e-12)


def test_errors_of_sums_and_products_are_exact():
    rng = np.random.default_rng(0)
    for a, b in zip(rng.normal(size=50) * 10.0 ** rng.integers(-10, 10, 50), rng.normal(size=50), strict=True):
        a, b = float(a), float(b)
        assert Fraction(a + b) + Fraction(sum_error(a, b, a + b)) == Fraction(a) + Fraction(b)
        assert Fraction(a * b) + Fraction(product_error(a, b, a * b)) == Fraction(a) * Fraction(b)


@compiled
def errors(a: float, b: float) -> tuple[float, float]:
    return sum_error(a, b, a + b), product_error(a, b, a * b)


def test_machine_code_keeps_the_errors():
    """Kernels are compiled with liberties under which these errors would be zero."""
    for a, b in ((1e16, 1.2345), (0.1, 1e-9), (1e9 + 0.1, 3.7)):
        assert errors(a, b) == (sum_error(a, b, a + b), product_error(a, b, a * b))
        assert errors(a, b) != (0.0, 0.0)
