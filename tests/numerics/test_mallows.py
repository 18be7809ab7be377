"""One stage of a generalized Mallows model: oracles to 30 digits, identities, and exact draws."""

import numpy as np
import pytest
from scipy import special, stats
from scipy.integrate import quad

from maitre.numerics.mallows import draw_dispersion, log_beta_tilde, log_psi, mean_code, mean_dispersion, slice_dispersion
from maitre.numerics.rng import stream

INTEGRALS = [
    (0.5, 2, 3, 0.34261291794173788),
    (1.5, 3, 1, -1.2538700091477442),
    (2, 5, 4, -3.3198473026623058),
    (0.3, 2, 10, 0.94639154229913872),
    (7.25, 11, 19, -12.065661777476283),
    (40, 3, 2, -5.8357313468160966),
    (0.05, 1.2, 6, 2.9832669471050507),
    (250, 501.5, 1, -349.090591055958),
    (600, 502, 10, -760.69868087534781),
    (291, 502, 19, -522.94224672142035),
    (1.7, 1, 5, -0.5306282510621704),
]


@pytest.mark.parametrize(("a", "b", "m", "expected"), INTEGRALS)
def test_the_integral(a, b, m, expected):
    assert log_beta_tilde(float(a), float(b), m) == pytest.approx(expected, abs=1e-10)


def test_log_psi():
    oracles = [(3, 0.7, 0.6236034588039088), (19, 1e-9, 2.995732264053991), (19, 0.01, 2.902394218354377), (4, -0.3, 2.297743153889393)]
    for m, theta, expected in oracles:
        assert log_psi(m, theta) == pytest.approx(expected, abs=1e-13)


def test_the_sum_over_codes_and_the_beta_function_below():
    for a, b, m in [(0.5, 2.0, 3), (3.2, 7.0, 8), (60.0, 40.0, 5)]:
        total = special.logsumexp([log_beta_tilde(a + s, b + 1.0, m) for s in range(m + 1)])
        assert total == pytest.approx(log_beta_tilde(a, b, m), abs=1e-9)
        assert log_beta_tilde(a, b, m) >= special.betaln(a, b)
        assert log_beta_tilde(a, b, 5000) == pytest.approx(special.betaln(a, b), abs=1e-6)


def test_expectations():
    assert mean_dispersion(3.5, 5.0, 4) == pytest.approx(0.98837028504509, abs=1e-9)
    assert mean_dispersion(0.5, 1.0, 3) == pytest.approx(2.5391082025768, rel=1e-3)  # θ itself is not smooth in y where hardly a ranking is
    for m, theta in [(3, 0.4), (19, 0.01), (7, 2.0)]:
        codes = np.arange(m + 1)
        weights = np.exp(-theta * codes)
        assert mean_code(m, theta) == pytest.approx(codes @ weights / weights.sum(), rel=1e-10)


def sliced(a, mass, m, rng):
    """Every tenth of many slice steps."""
    theta, found = 1.0, []
    for step in range(40_000):
        theta = slice_dispersion(theta, a, mass, m, rng)
        if step % 10 == 9:
            found.append(theta)
    return found


@pytest.mark.parametrize("by_slices", [False, True])
@pytest.mark.parametrize(("a", "mass", "m"), [(3.5, 5.0, 4), (0.5, 1.0, 3), (300.0, 40.0, 13), (1300.0, 4000.0, 13), (2.0, 3.0, 0)])
def test_draws_follow_the_density(a, mass, m, by_slices):
    rng = stream(5)
    draws = np.array(sliced(a, mass, m, rng) if by_slices else [draw_dispersion(a, mass, m, rng) for _ in range(4000)])

    def density(theta):
        return np.exp(-a * theta - mass * log_psi(m, theta) - log_beta_tilde(a, mass + 1.0, m))

    points = np.quantile(draws, np.linspace(0.02, 0.98, 25))
    steps = [quad(density, low, high)[0] for low, high in zip([0.0, *points[:-1]], points, strict=True)]
    uniform = np.cumsum(steps)
    assert np.abs(uniform - np.linspace(0.02, 0.98, 25)).max() < stats.kstwo.ppf(1 - 1e-4, 4000)
