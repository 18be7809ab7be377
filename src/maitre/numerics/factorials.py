"""Rising factorials (a)_n↑ = a (a + 1) … (a + n − 1), for a of any size: differences of log-gamma functions lose all digits where a is large."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from maitre.numerics.arrays import Floats

_USUAL = 1e3
_LARGE = 16.0  # from here on Stirling's series is exact in double precision


def _stirling_rest(x: Any) -> Any:
    """log Γ(x) − [(x − ½) log x − x + ½ log 2π] for x ≥ 16."""
    w = (1.0 / x) ** 2
    return (
        0.0833333333333333333 + w * (-0.00277777777777777778 + w * (0.000793650793650793651 + w * (-0.000595238095238095238 + w * 0.000841750841750841751)))
    ) / x


def log_rising(a: Any, n: Any, log_a: Any = None) -> Floats:
    """log (a)_n↑ = log Γ(a + n) − log Γ(a) for a > 0 and n ≥ 0; give `log_a` where a itself is too small to be kept exactly.

    For large a, with log Γ(a + n) − log Γ(a) = n log a + (a + n − ½) log(1 + n/a) − n + rest(a + n) − rest(a), nothing large is subtracted.

    >>> float(log_rising(1e300, 2)) == 2 * float(np.log(1e300))
    True
    """
    if _usual(a):
        return np.asarray(gammaln(a + np.asarray(n, dtype=np.float64)) - gammaln(a), dtype=np.float64)
    a, n = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(n, dtype=np.float64))
    log_a = np.log(a) if log_a is None else np.broadcast_to(log_a, a.shape)
    large = a >= _LARGE
    some, b = np.where(large, a, _LARGE), np.where(large, 1.0, a)
    far = n * log_a + (some * _log1p_less(n / some) + (n - 0.5) * np.log1p(n / some)) + (_stirling_rest(some + n) - _stirling_rest(some))
    near = np.where(n > 0.0, log_a + (gammaln(b + n) - gammaln(b + 1.0)), 0.0)
    return np.asarray(np.where(large, far, near), dtype=np.float64)


def _usual(a: Any) -> bool:
    """Whether differences of log-gamma functions keep eleven digits, at a fraction of the cost."""
    return 1e-3 < a < _USUAL if np.ndim(a) == 0 else bool(np.size(a)) and np.min(a) > 1e-3 and np.max(a) < _USUAL


def _log1p_less(x: Floats) -> Floats:
    """log(1 + x) − x for x ≥ 0, by its series where x is small."""
    series = x * x * (-1.0 / 2.0 + x * (1.0 / 3.0 + x * (-1.0 / 4.0 + x * (1.0 / 5.0 + x * (-1.0 / 6.0 + x * (1.0 / 7.0))))))
    return np.where(x < 1e-3, series, np.log1p(x) - x)


def digamma_rise(a: Any, n: Any) -> Floats:
    """ψ(a + n) − ψ(a), the slope of log (a)_n↑ in a, for a > 0 and n ≥ 0."""
    if _usual(a):
        return np.asarray(digamma(a + n) - digamma(a), dtype=np.float64)
    a, n = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(n, dtype=np.float64))
    large = a >= _LARGE
    x, small = np.where(large, a, _LARGE), np.where(large, 1.0, a)
    y, u = x + n, 1.0 / x
    v = 1.0 / y
    far = np.log1p(n * u) + 0.5 * (n * u) * v + (u * u - v * v) / 12.0 - (u**4 - v**4) / 120.0 + (u**6 - v**6) / 252.0 - (u**8 - v**8) / 240.0
    return np.asarray(np.where(large, far, digamma(small + n) - digamma(small)), dtype=np.float64)
