"""One stage of a generalized Mallows model: a code s ∈ {0, …, m} with probability e^{−θs} / ψ_m(θ), ψ_m(θ) = Σ_{k=0}^m e^{−kθ}, and its conjugate integral

    B̃eta(a, b, m) = ∫_0^∞ e^{−aθ} ψ_m(θ)^{−(b−1)} dθ.

The integral is taken by Gauss and Legendre's rule in y = e^{−a₀θ}, a₀ = a/⌈a⌉ for a < 6 and 1 beyond, over the window in which the log density is within 32 of its peak:
the integrand is then smooth, a small a or not (errors of the logarithm at most 1e-10 over the tests' cases).

Fligner & Verducci (1986), Distance based ranking models; Meilă & Chen (2010), Dirichlet process mixtures of generalized Mallows models.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.numerics.arrays import Floats
from maitre.numerics.compilation import compiled, compiled_apart
from maitre.numerics.rng import uniform

NODES = 32
_X, _W = np.polynomial.legendre.leggauss(NODES)
_DROP = 32.0
_FAR = 700.0


@compiled
def log_psi(m: int, theta: float) -> float:
    """ln ψ_m(θ), also for θ near 0 and below.

    >>> round(log_psi(3, 0.7), 12), round(log_psi(4, -0.3), 12)
    (0.623603458804, 2.297743153889)
    """
    if m == 0:
        return 0.0
    if abs((m + 1) * theta) < 1e-4:
        return math.log(m + 1.0) - 0.5 * m * theta + m * (m + 2.0) * theta * theta / 24.0
    if theta < 0.0:
        return -m * theta + math.log(math.expm1((m + 1) * theta) / math.expm1(theta))
    return math.log(math.expm1(-(m + 1) * theta) / math.expm1(-theta))


@compiled
def mean_code(m: int, theta: float) -> float:
    """μ_m(θ) = E[s] for θ ≥ 0.

    >>> mean_code(3, 0.0)
    1.5
    """
    width = (m + 1) * theta
    if width < 1e-3:
        return 0.5 * m - theta * m * (m + 2.0) / 12.0
    return 1.0 / math.expm1(min(theta, _FAR)) - ((m + 1) / math.expm1(width) if width < _FAR else 0.0)


@compiled
def _variance(m: int, theta: float) -> float:
    width = (m + 1) * theta
    if width < 1e-2:
        return m * (m + 2.0) / 12.0
    half, whole = 0.5 * min(theta, _FAR), 0.5 * width
    return 0.25 / math.sinh(half) ** 2 - (0.25 * ((m + 1) / math.sinh(whole)) ** 2 if width < _FAR else 0.0)


@compiled_apart
def mode_of(a: float, mass: float, m: int) -> float:
    """Where −aθ − M ln ψ_m(θ) is highest on θ ≥ 0: the root of M μ_m(θ) = a, or 0."""
    if a >= 0.5 * mass * m:
        return 0.0
    wanted = a / mass
    low, high = 0.0, math.log1p(1.0 / wanted)  # the root for m = ∞
    theta = high
    for _ in range(60):
        difference = mean_code(m, theta) - wanted
        if difference > 0.0:
            low = theta
        else:
            high = theta
        step = difference / _variance(m, theta)
        following = theta + step
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - theta) <= 1e-14 * (1.0 + theta) or high - low <= 1e-15 * high:
            return following
        theta = following
    return theta


@compiled
def _log_density(theta: float, a: float, mass: float, m: int) -> float:
    return -a * theta - mass * log_psi(m, theta)


@compiled_apart
def _where_dropped(a: float, mass: float, m: int, mode: float, by: float, upwards: bool) -> float:
    """The θ above or below the mode where the log density has dropped by so much; 0 if it never does below."""
    peak = _log_density(mode, a, mass, m)
    if not upwards and (mode == 0.0 or peak - _log_density(0.0, a, mass, m) <= by):
        return 0.0
    spread = 1.0 / math.sqrt(mass * _variance(m, mode) + 1e-300)
    inner, step = mode, min(max(math.sqrt(2.0 * by) * spread, 1e-12), 2.0 * by / a)
    outer = mode
    while True:
        outer = mode + step if upwards else max(mode - step, 0.0)
        if peak - _log_density(outer, a, mass, m) >= by:
            break
        inner = outer
        step *= 1.6
    for _ in range(12):  # near enough: the drop itself need not be exact
        middle = 0.5 * (inner + outer)
        drop = peak - _log_density(middle, a, mass, m)
        if drop >= by:
            outer = middle
            if drop < 1.05 * by:
                break
        else:
            inner = middle
    return outer


@compiled_apart
def place_nodes(a: float, mass: float, m: int, theta: Floats, log_psis: Floats, weights: Floats) -> float:
    """Nodes θ_q, ln ψ_m(θ_q) and weights w_q with B̃eta(a, M + 1, m) = e^g Σ w_q; returns g, the log density at its peak.

    The weights are the density at the nodes times those of the rule, so that Σ w_q f(θ_q) / Σ w_q is the expectation of f.
    """
    mode = mode_of(a, mass, m)
    peak = _log_density(mode, a, mass, m)
    low = _where_dropped(a, mass, m, mode, _DROP, False)
    high = _where_dropped(a, mass, m, mode, _DROP, True)
    base = a / math.ceil(a) if a < 6.0 else 1.0
    bottom = math.exp(-base * high)
    span = bottom * math.expm1(base * (high - low))
    for q in range(NODES):
        y = bottom + 0.5 * (_X[q] + 1.0) * span
        theta[q] = -math.log(y) / base
        log_psis[q] = log_psi(m, theta[q])
        weights[q] = 0.5 * span * _W[q] / (base * y) * math.exp(-a * theta[q] - mass * log_psis[q] - peak)
    return peak


@compiled_apart
def log_beta_tilde(a: float, b: float, m: int) -> float:
    """ln B̃eta(a, b, m) for a > 0, b ≥ 1.

    >>> abs(round(log_beta_tilde(1.5, 3.0, 1) - math.log(math.pi / 4 - 0.5), 9))
    0.0
    """
    if m == 0 or b == 1.0:
        return -math.log(a)
    theta, log_psis, weights = np.empty(NODES), np.empty(NODES), np.empty(NODES)
    peak, total = place_nodes(a, b - 1.0, m, theta, log_psis, weights), 0.0
    for q in range(NODES):
        total += weights[q]
    return peak + math.log(total)


@compiled_apart
def mean_dispersion(a: float, mass: float, m: int) -> float:
    """E[θ] under the density ∝ exp(−aθ − M ln ψ_m(θ)).

    >>> round(mean_dispersion(3.5, 5.0, 4), 9)
    0.988370285
    """
    theta, log_psis, weights = np.empty(NODES), np.empty(NODES), np.empty(NODES)
    place_nodes(a, mass, m, theta, log_psis, weights)
    total, first = 0.0, 0.0
    for q in range(NODES):
        total += weights[q]
        first += weights[q] * theta[q]
    return first / total


@compiled_apart
def draw_dispersion(a: float, mass: float, m: int, rng: Any) -> float:
    """θ with density ∝ exp(−aθ − M ln ψ_m(θ)) on θ ≥ 0, exactly: rejection from the flat and exponential pieces above a concave log density."""
    if m == 0:
        return -math.log(uniform(rng)) / a
    mode = mode_of(a, mass, m)
    peak = _log_density(mode, a, mass, m)
    right = _where_dropped(a, mass, m, mode, 1.0, True)
    slope = -a + mass * mean_code(m, right)  # below 0
    flat_end = right + (peak - _log_density(right, a, mass, m)) / slope
    left = _where_dropped(a, mass, m, mode, 1.0, False)
    rise, flat_start, left_area = 0.0, 0.0, 0.0
    if left > 0.0:
        rise = -a + mass * mean_code(m, left)
        flat_start = max(left + (peak - _log_density(left, a, mass, m)) / rise, 0.0)
        left_area = -math.expm1(-rise * flat_start) / rise
    right_area, flat_area = -1.0 / slope, flat_end - flat_start
    while True:
        u = uniform(rng) * (left_area + flat_area + right_area)
        if u < flat_area:
            theta, bound = flat_start + u, peak
        elif u < flat_area + right_area:
            theta = flat_end + math.log(uniform(rng)) / slope
            bound = peak + slope * (theta - flat_end)
        else:
            theta = flat_start + math.log(1.0 - uniform(rng) * -math.expm1(-rise * flat_start)) / rise
            bound = peak + rise * (theta - flat_start)
        if theta >= 0.0 and math.log(uniform(rng)) < _log_density(theta, a, mass, m) - bound:
            return theta


@compiled_apart
def slice_dispersion(theta: float, a: float, mass: float, m: int, rng: Any) -> float:
    """A slice step from θ that leaves the same density invariant: a window of width 1 is moved out to both sides, then shrunk (Neal 2003)."""
    height = _log_density(theta, a, mass, m) + math.log(uniform(rng))
    low = theta - uniform(rng)
    high = low + 1.0
    while low > 0.0 and _log_density(low, a, mass, m) > height:
        low -= 1.0
    low = max(low, 0.0)
    while _log_density(high, a, mass, m) > height:
        high += 1.0
    while True:
        proposed = low + (high - low) * uniform(rng)
        if _log_density(proposed, a, mass, m) > height:
            return proposed
        if proposed < theta:
            low = proposed
        else:
            high = proposed
