"""Mixture of finite mixtures (Miller & Harrison 2018): the number of components is itself random.

V(n, K) = Σ_{k≥K} k!/(k−K)! · p(k) / (γk)_n↑,  W(m) = Γ(m + γ) / Γ(γ).  The number of components is geometric, p(k) = q(1−q)^{k−1}, k = 1, 2, …
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from maitre.numerics.arguments import number
from maitre.numerics.arrays import Floats
from maitre.numerics.distributions import Hyperparameter
from maitre.numerics.factorials import digamma_rise, log_rising
from maitre.priors.base import GibbsTypePrior

_NEGLIGIBLE = 45.0  # terms e^−45 below the largest change nothing in double precision
_FIRST = (256, 512, 1024)  # terms that are enough in most cases
_ONE_BY_ONE = 4096  # terms beyond these, if there are many more, are integrated over
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PANELS = 256
_LARGEST = 1e305


@dataclass(frozen=True)
class MixtureOfFiniteMixtures(GibbsTypePrior):
    """A finite but unknown number of components: geometric with success probability `geometric`; weights Dirichlet(`weight`, …).

    >>> import maitre as mt
    >>> prior = mt.priors.MixtureOfFiniteMixtures(geometric=0.1, weight=1.0)
    """

    geometric: float = 0.1
    weight: Hyperparameter = 1.0

    POSITIVE = ("weight",)

    def __post_init__(self) -> None:
        super().__post_init__()
        number("MixtureOfFiniteMixtures: geometric", self.geometric, least=1e-12, below=1.0)

    def _log_terms(self, n: int, k: Any, unused: Any) -> Floats:
        """The terms of V(n, K) with K + unused components; they rise to one peak and fall. Defined for fractions too."""
        components = k + unused
        log_p = math.log(self.geometric) + (components - 1.0) * math.log1p(-self.geometric)
        return log_rising(unused + 1.0, k) + log_p - log_rising(np.minimum(float(self.weight) * components, _LARGEST), n)  # type: ignore[arg-type]

    def _slope(self, n: int, k: float, unused: float) -> float:
        """The slope of the log terms in the number of unused components."""
        mass = min(float(self.weight) * (k + unused), _LARGEST)  # type: ignore[arg-type]
        return float(digamma_rise(unused + 1.0, k) + math.log1p(-self.geometric) - mass * digamma_rise(mass, n) / (k + unused))

    def _log_sum(self, n: int, k: float) -> float:
        """The sum of the terms that count: one by one where there are few; of many, the first ones one by one and the rest by the integral (Euler and Maclaurin)."""
        first, last = self._window(n, k)
        if last - first <= 2 * _ONE_BY_ONE:
            return float(logsumexp(self._log_terms(n, k, first + np.arange(last - first + 1.0))))
        terms = self._log_terms(n, k, first + np.arange(float(_ONE_BY_ONE + 1)))
        edge = first + _ONE_BY_ONE - 0.5  # terms from here on are areas of width 1 around them; their curvature leaves the slope at the edge / 24
        breaks = np.linspace(math.log(edge), math.log(last), _PANELS + 1)
        half = 0.5 * np.diff(breaks)[:, None]
        places = (breaks[:-1, None] + half) + half * _NODES
        areas = self._log_terms(n, k, np.exp(places)) + places + np.log(half * _WEIGHTS)
        highest = max(float(terms.max()), float(areas.max()))
        total = np.exp(terms[:-1] - highest).sum() + np.exp(areas - highest).sum() + (math.exp(terms[-1] - highest) - math.exp(terms[-2] - highest)) / 24.0
        return highest + math.log(total)

    def _window(self, n: int, k: float) -> tuple[float, float]:
        """Between which numbers of unused components the terms count."""
        peak = 0.0 if self._slope(n, k, 0.0) <= 0.0 else _crossing(lambda u: self._slope(n, k, u) > 0.0, 0.0)
        floor = float(self._log_terms(n, k, peak)) - _NEGLIGIBLE
        last = math.ceil(_crossing(lambda u: float(self._log_terms(n, k, u)) > floor, peak) + 1.0)
        if float(self._log_terms(n, k, 0.0)) >= floor:
            return 0.0, last
        return max(0.0, math.floor(peak - _crossing(lambda gap: float(self._log_terms(n, k, max(peak - gap, 0.0))) > floor, 0.0)) - 1.0), last

    def log_v(self, n: int, k: npt.NDArray[np.int64]) -> Floats:
        """The first terms where they are enough, as many for each K; otherwise those that count."""
        values = np.empty(len(k))
        for chunk in np.array_split(np.arange(len(k)), max(1, len(k) // 64)):
            for n_terms in _FIRST:
                terms = self._first_terms(n, k[chunk], n_terms)
                enough = terms[:, -1] < terms.max(axis=1) - _NEGLIGIBLE
                if enough.all():
                    break
            values[chunk] = logsumexp(terms, axis=1)
            for position in np.flatnonzero(~enough):
                values[chunk[position]] = self._log_sum(n, float(k[chunk[position]]))
        return values

    def _first_terms(self, n: int, k: npt.NDArray[np.int64], n_terms: int) -> Floats:
        """The terms with 0, 1, … unused components, a row for each K. But for k!/(k−K)! they depend on the number of components alone, which neighbours share."""
        lowest = int(k.min())
        components = np.arange(lowest, int(k.max()) + n_terms, dtype=np.float64)
        log_p = math.log(self.geometric) + (components - 1.0) * math.log1p(-self.geometric)
        shared = gammaln(components + 1.0) + log_p - log_rising(np.minimum(float(self.weight) * components, _LARGEST), n)  # type: ignore[arg-type]
        return np.lib.stride_tricks.sliding_window_view(shared, n_terms)[k - lowest] - gammaln(np.arange(n_terms) + 1.0)

    def v_table(self, n: int, k_max: int) -> Floats:
        return _table(self, n, k_max).copy()

    def log_w(self, m: npt.NDArray[np.int64]) -> Floats:
        return log_rising(float(self.weight), m)  # type: ignore[arg-type]


MixtureOfFiniteMixtures.EXAMPLES = (MixtureOfFiniteMixtures(0.1, 1.0), MixtureOfFiniteMixtures(0.4, 0.6))


def _crossing(holds: Callable[[float], bool], start: float) -> float:
    """Where a condition that holds at `start` and then up to some point ceases to hold, to a part in a thousand of the way there (and a little beyond)."""
    step = 1.0
    while holds(start + step):
        step *= 2.0
    low, high = 0.0 if step == 1.0 else 0.5 * step, step
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(start + middle) else (low, middle)
    return start + high


@functools.lru_cache(maxsize=16)
def _table(prior: MixtureOfFiniteMixtures, n: int, k_max: int) -> Floats:
    """The last few tables are remembered: a sum over hundreds of terms for each K, asked for again whenever a state is built."""
    return GibbsTypePrior.v_table(prior, n, k_max)
