"""The Dirichlet process (Chinese restaurant process): V(n, K) = α^K / (α)_n↑, W(m) = Γ(m)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from maitre.numerics.arguments import number
from maitre.numerics.arrays import Floats
from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.numerics.factorials import digamma_rise, log_rising
from maitre.numerics.rng import RngState, log_gamma_variate, uniform
from maitre.priors.base import GibbsTypePrior

_log_w: Floats = np.zeros(1)  # does not depend on α: one table for all chains, and for all blocks of their points


@dataclass(frozen=True)
class DirichletProcess(GibbsTypePrior):
    """Dirichlet process with the given concentration: about α log(1 + n/α) clusters a priori. Or say how many clusters you expect of all points: the concentration
    follows, when the number of points is known.

    >>> import maitre as mt
    >>> mt.priors.DirichletProcess(concentration=mt.Gamma(1, 1))     # sampled (the default)
    DirichletProcess(concentration=Gamma(shape=1, rate=1))
    >>> prior = mt.priors.DirichletProcess(expected_clusters=5).for_points(100)
    >>> round(float(sum(prior.concentration / (prior.concentration + i) for i in range(100))), 6)
    5.0
    """

    concentration: Hyperparameter = Gamma(1.0, 1.0)
    expected_clusters: float | None = field(default=None, repr=False)

    POSITIVE = ("concentration",)

    def for_points(self, n: int) -> DirichletProcess:
        """With the concentration α at which n points are expected in so many clusters: Σ_i α / (α + i) over i < n, which rises with α."""
        if self.expected_clusters is None:
            return self
        wanted = number("expected_clusters", self.expected_clusters, above=1.0)
        if wanted >= n:
            raise ValueError(f"DirichletProcess: expected_clusters is {self.expected_clusters!r} for {n} points; expected fewer clusters than points")
        low, high = math.log(1e-12), math.log(1e12)
        for _ in range(200):
            middle = 0.5 * (low + high)
            alpha = math.exp(middle)
            low, high = (middle, high) if alpha * float(digamma_rise(alpha, n)) < wanted else (low, middle)
        return DirichletProcess(math.exp(0.5 * (low + high)))

    def describe(self) -> dict[str, Any]:
        return {name: value for name, value in super().describe().items() if name != "expected_clusters" or value is not None}

    def log_v(self, n: int, k: npt.NDArray[np.int64]) -> Floats:
        alpha = float(self.concentration)  # type: ignore[arg-type]
        return np.asarray(k * math.log(alpha) - log_rising(alpha, n), dtype=np.float64)

    def log_w(self, m: npt.NDArray[np.int64]) -> Floats:
        return np.asarray(gammaln(m), dtype=np.float64)

    def w_table(self, m_max: int) -> Floats:
        global _log_w
        if len(_log_w) <= m_max:
            _log_w = super().w_table(m_max)
        return _log_w[: m_max + 1]


DirichletProcess.EXAMPLES = (DirichletProcess(1.0), DirichletProcess(0.37))


def draw_concentration(alpha: float, n: int, n_clusters: int, prior: Gamma, rng: RngState) -> float:
    """α | K, n by the auxiliary variable of Escobar & West (1995): η ~ Beta(α + 1, n), then a mixture of two Gammas."""
    log_odds = log_gamma_variate(float(n), rng) - log_gamma_variate(alpha + 1.0, rng)  # of 1 − η against η
    rate = prior.rate + (math.log1p(math.exp(log_odds)) if log_odds < 0.0 else log_odds + math.log1p(math.exp(-log_odds)))
    more = prior.shape + n_clusters - 1.0
    shape = prior.shape + n_clusters - (0.0 if uniform(rng) < more / (more + n * rate) else 1.0)
    log_alpha = log_gamma_variate(shape, rng) - math.log(rate)
    return math.exp(min(max(log_alpha, -690.0), 690.0))


def _log_density(t: Any, n: int, n_clusters: Any, prior: Gamma) -> Any:
    """log [V(n, K) p(α) α] at α = e^t, up to the prior's normaliser: concave in t, because −Σ_j log(e^t + j) is."""
    alpha = np.exp(t)
    return (prior.shape + n_clusters - 1.0) * t - prior.rate * alpha - log_rising(alpha + 1.0, n - 1)


def _where(rises: Callable[[Floats], Any], low: Floats, high: Floats) -> Floats:
    """By bisection, where each of several decreasing signs changes."""
    for _ in range(70):
        middle = 0.5 * (low + high)
        rising = rises(middle)
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return 0.5 * (low + high)


def _ranges(n: int, counts: Floats, prior: Gamma) -> tuple[Floats, Floats, Floats]:
    """Of log α | K, for each K: where the density has fallen by e^−50 on the left, its mode, and where it has fallen so on the right."""

    def slope(t: Floats) -> Any:  # α (ψ(α + n) − ψ(α)) = Σ_j α / (α + j) rises from 1 to n
        alpha = np.exp(t)
        return prior.shape + counts - 1.0 - prior.rate * alpha - alpha * digamma_rise(alpha + 1.0, n - 1)

    mode = _where(lambda t: slope(t) > 0.0, np.full(len(counts), -700.0), np.full(len(counts), 700.0))
    floor = _log_density(mode, n, counts, prior) - 50.0
    left = -_where(lambda t: _log_density(-t, n, counts, prior) > floor, -mode, np.full(len(counts), 60.0 / prior.shape) + 100.0 - mode)
    return left, mode, _where(lambda t: _log_density(t, n, counts, prior) > floor, mode, np.full(len(counts), 700.0))


def _log_total(left: float, right: float, n: int, n_clusters: int, prior: Gamma) -> float:
    """log ∫ e^density dt by the trapezoid rule, which converges geometrically for such a density: smooth, with tails that reach e^−50."""
    t = np.linspace(left, right, max(400, math.ceil((right - left) / 0.1)))
    return float(logsumexp(_log_density(t, n, n_clusters, prior)) + math.log(t[1] - t[0]))


def integrated_log_v(n: int, counts: npt.NDArray[np.int64], prior: Gamma) -> Floats:
    """log ∫ V_α(n, K) p(α) dα for numbers of clusters K."""
    constant = prior.shape * math.log(prior.rate) - gammaln(prior.shape)
    left, _, right = _ranges(n, counts.astype(np.float64), prior)
    return np.array([constant + _log_total(a, b, n, int(k), prior) for a, b, k in zip(left, right, counts, strict=True)])


def draw_concentration_afresh(n: int, n_clusters: int, prior: Gamma, rng: RngState) -> float:
    """α | K, n, whatever α was before: rejection from Devroye's (1984) envelope of a log-concave density f with mode m, f(t) ≤ f(m) min(1, e^(1 − f(m)|t − m|))."""
    mode, highest, height = _envelope(n, n_clusters, prior)
    while True:
        place = 2.0 * uniform(rng)
        distance, log_bound = (place, 0.0) if place < 1.0 else (1.0 - math.log(place - 1.0), math.log(place - 1.0))
        t = mode + (distance if uniform(rng) < 0.5 else -distance) / height
        if math.log(uniform(rng)) + log_bound <= float(_log_density(min(t, 700.0), n, n_clusters, prior)) - highest - 1e-6:
            return min(max(math.exp(t), 1e-300), 1e300)


@functools.lru_cache(maxsize=1024)
def _envelope(n: int, n_clusters: int, prior: Gamma) -> tuple[float, float, float]:
    """The mode of the density of log α given K, its log there, and the normalised density there, with a margin on the side of more rejections."""
    left, mode, right = (float(bound[0]) for bound in _ranges(n, np.array([float(n_clusters)]), prior))
    highest = float(_log_density(mode, n, n_clusters, prior))
    return mode, highest, math.exp(highest - _log_total(left, right, n, n_clusters, prior)) * (1.0 - 1e-6)
