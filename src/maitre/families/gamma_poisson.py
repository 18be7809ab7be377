"""Columns of counts, independent within a cluster: x_d ~ Poisson(λ_d), λ_d ~ Gamma(a, b) (shape and rate).

    p(x | x_c) = Γ(a + S + x)/(Γ(a + S) x!) · ((b + N)/(b + N + 1))^(a + S) · (b + N + 1)^−x,   S = Σx, N the number of points

Missing entries are skipped: they add nothing to their column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from maitre.data.validation import column_means, dense_matrix, whole_numbers
from maitre.families.base import ConjugateFamily, Example
from maitre.families.slots import CACHE, POINTS, SLOTS
from maitre.numerics.arguments import numbers_of_columns, real_numbers
from maitre.numerics.arrays import Floats, fill_rows, padded, prefetch_row
from maitre.numerics.compilation import compiled
from maitre.numerics.distributions import Hyperparameter, Hyperprior
from maitre.numerics.elementary import digamma, fast_lgamma, fast_log
from maitre.numerics.rng import log_gamma_variate, poisson


class GammaPoissonStatistics(NamedTuple):
    """Run-time state; D columns, C slots. Statistics are whole numbers kept as floats: they never drift."""

    x: Annotated[Floats, POINTS]  # (n, D); 0 where missing
    observed: Annotated[npt.NDArray[np.uint8], POINTS]  # (n, D)
    log_factorial: Annotated[Floats, POINTS]  # (n, D): log x!, 0 where missing
    shape: float
    rate: float  # multiplies `rates`
    rates: Floats  # (D,)
    base: Annotated[Floats, SLOTS]  # (C,): Σ log x!
    counts: Annotated[Floats, SLOTS]  # (C, D): N
    total: Annotated[Floats, SLOTS]  # (C, D): S
    mass: Annotated[Floats, CACHE]  # (D, C): a + S
    constant: Annotated[Floats, CACHE]  # (D, C): (a + S) log((b + N)/(b + N + 1)) − log Γ(a + S)
    log_rate: Annotated[Floats, CACHE]  # (D, C): log(b + N + 1)

    def clear(s, k: int) -> None:
        s.base[k] = 0.0
        for d in range(s.x.shape[1]):
            s.counts[k, d] = 0.0
            s.total[k, d] = 0.0

    def add(s, k: int, i: int) -> None:
        for d in range(s.x.shape[1]):
            s.base[k] += s.log_factorial[i, d]
            s.counts[k, d] += s.observed[i, d]
            s.total[k, d] += s.x[i, d]

    def remove(s, k: int, i: int) -> None:
        for d in range(s.x.shape[1]):
            s.base[k] -= s.log_factorial[i, d]
            s.counts[k, d] -= s.observed[i, d]
            s.total[k, d] -= s.x[i, d]

    def merge(s, k: int, other: int) -> None:
        s.base[k] += s.base[other]
        for d in range(s.x.shape[1]):
            s.counts[k, d] += s.counts[other, d]
            s.total[k, d] += s.total[other, d]

    def subtract(s, k: int, other: int) -> None:
        s.base[k] -= s.base[other]
        for d in range(s.x.shape[1]):
            s.counts[k, d] -= s.counts[other, d]
            s.total[k, d] -= s.total[other, d]

    def refresh(s, k: int) -> None:
        for d in range(s.x.shape[1]):
            mass, rate = s.shape + s.total[k, d], s.rate * s.rates[d] + s.counts[k, d]
            s.mass[d, k] = mass
            s.constant[d, k] = mass * math.log(rate / (rate + 1.0)) - fast_lgamma(mass)
            s.log_rate[d, k] = math.log(rate + 1.0)

    def log_marginal(s, k: int) -> float:
        value = -s.base[k]
        for d in range(s.x.shape[1]):
            if s.counts[k, d] > 0.0:
                mass = s.shape + s.total[k, d]
                value += (
                    math.lgamma(mass) - math.lgamma(s.shape) + s.shape * math.log(s.rate * s.rates[d]) - mass * math.log(s.rate * s.rates[d] + s.counts[k, d])
                )
        return value

    def log_predictive(s, k: int, i: int) -> float:
        value = 0.0
        for d in range(s.x.shape[1]):
            if s.observed[i, d]:
                value += s.constant[d, k] + math.lgamma(s.mass[d, k] + s.x[i, d]) - s.x[i, d] * s.log_rate[d, k] - s.log_factorial[i, d]
        return value

    def log_predictive_without(s, k: int, i: int) -> float:
        value = 0.0
        for d in range(s.x.shape[1]):
            if s.observed[i, d]:
                x, rate = s.x[i, d], s.rate * s.rates[d] + s.counts[k, d]
                mass = s.mass[d, k] - x
                value += fast_lgamma(mass + x) - fast_lgamma(mass) + mass * fast_log((rate - 1.0) / rate) - x * fast_log(rate) - s.log_factorial[i, d]
        return value

    def log_predictive_all(s, i: int, n_slots: int, out: Floats) -> None:
        for d in range(s.x.shape[1]):
            if s.observed[i, d]:
                x, log_factorial = s.x[i, d], s.log_factorial[i, d]
                for k in range(n_slots):
                    out[k] += s.constant[d, k] + fast_lgamma(s.mass[d, k] + x) - x * s.log_rate[d, k] - log_factorial

    def prefetch(s, i: int) -> None:
        prefetch_row(s.x, i)

    def log_bound(s, i: int) -> float:
        """The predictive is a mixture of Poissons, and no Poisson gives x more than the one with mean x."""
        value = 0.0
        for d in range(s.x.shape[1]):
            if s.observed[i, d]:
                value += _log_peak(s, i, d)
        return value

    def log_bound_given(s, k: int, rest: int, i: int) -> float:
        value = 0.0
        for d in range(s.x.shape[1]):
            if s.observed[i, d]:
                value += _log_peak_given(s, k, rest, i, d)
        return value

    def n_parameters(s) -> int:
        return s.x.shape[1]

    def draw_parameters(s, k: int, theta: Floats, rng: Any) -> None:
        for d in range(s.x.shape[1]):
            theta[d] = log_gamma_variate(s.shape + s.total[k, d], rng) - math.log(s.rate * s.rates[d] + s.counts[k, d])

    def log_likelihood(s, theta: Floats, i: int) -> float:
        value = 0.0
        for d in range(s.x.shape[1]):
            if s.observed[i, d]:
                value += s.x[i, d] * theta[d] - math.exp(theta[d]) - s.log_factorial[i, d]
        return value

    def n_coefficients(s) -> int:
        return 2 * s.x.shape[1]

    def set_coefficients(s, theta: Floats, a: Floats, k: int) -> None:
        """Of x, and of 1 where it is observed."""
        for d in range(s.x.shape[1]):
            a[d, k] = theta[d]
            a[s.x.shape[1] + d, k] = -math.exp(theta[d])

    def dense_features(s) -> bool:
        return True

    def fill_features(s, points: Any, base: int, count: int, out: Any) -> None:
        fill_rows(s.x, points, base, count, out)
        fill_rows(s.observed, points, base, count, out[s.x.shape[1] :])

    def log_likelihood_of(s, theta: Floats, k: int) -> float:
        value = -s.base[k]
        for d in range(s.x.shape[1]):
            value += s.total[k, d] * theta[d] - s.counts[k, d] * math.exp(theta[d])
        return value

    def add_weighted(s, k: int, i: int, weight: float) -> None:
        for d in range(s.x.shape[1]):
            s.base[k] += weight * s.log_factorial[i, d]
            s.counts[k, d] += weight * s.observed[i, d]
            s.total[k, d] += weight * s.x[i, d]

    def expect(s, k: int) -> None:
        """E[log Poisson(x; λ)] = x (ψ(a + S) − log(b + N)) − (a + S)/(b + N) − log x! in every column."""
        for d in range(s.x.shape[1]):
            mass, rate = s.shape + s.total[k, d], s.rate * s.rates[d] + s.counts[k, d]
            s.log_rate[d, k] = digamma(mass) - math.log(rate)
            s.constant[d, k] = -mass / rate

    def expected_log_likelihood_all(s, i: int, n_slots: int, out: Floats) -> None:
        for d in range(s.x.shape[1]):
            if s.observed[i, d]:
                x, log_factorial = s.x[i, d], s.log_factorial[i, d]
                for k in range(n_slots):
                    out[k] += s.constant[d, k] + x * s.log_rate[d, k] - log_factorial

    def draw_point(s, theta: Floats, i: int, rng: Any) -> None:
        for d in range(s.x.shape[1]):
            if s.observed[i, d]:
                s.x[i, d] = float(poisson(math.exp(theta[d]), rng))
                s.log_factorial[i, d] = math.lgamma(s.x[i, d] + 1.0)


@compiled
def _log_peak(s: Any, i: int, d: int) -> float:
    x = s.x[i, d]
    return (x * math.log(x) if x > 0.0 else 0.0) - x - s.log_factorial[i, d]


@compiled
def _log_peak_given(s: Any, k: int, rest: int, i: int, d: int) -> float:
    """The predictive f(a, b) = Γ(a+x)/(Γ(a) x!) (b/(b+1))^a (b+1)^−x over a₀ ≤ a ≤ a₁, b₀ ≤ b ≤ b₁, what the points to come allow.

    For fixed a, f rises with b up to b = a/x and then falls; for fixed b, log f is concave in a with slope ψ(a+x) − ψ(a) − log(1 + 1/b). So if b₁ ≤ a₀/x and the slope at
    (a₀, b₁) is negative, the largest value is f(a₀, b₁); if b₀ ≥ a₁/x and the slope at (a₁, b₀) is positive, it is f(a₁, b₀). The digamma function is
    bracketed by log z − 1/z < ψ(z) < log z − 1/(2z). Otherwise the bound of the point alone stands."""
    x = s.x[i, d]
    low_a, low_b = s.shape + s.total[k, d], s.rate * s.rates[d] + s.counts[k, d]
    high_a, high_b = low_a + s.total[rest, d] - x, low_b + s.counts[rest, d] - 1.0
    a, b = 0.0, 0.0
    if x == 0.0 or (x * high_b <= low_a and math.log((low_a + x) / low_a) - 0.5 / (low_a + x) + 1.0 / low_a < math.log(1.0 + 1.0 / high_b)):
        a, b = low_a, high_b
    elif x * low_b >= high_a and math.log((high_a + x) / high_a) - 1.0 / (high_a + x) + 0.5 / high_a > math.log(1.0 + 1.0 / low_b):
        a, b = high_a, low_b
    else:
        return _log_peak(s, i, d)
    return math.lgamma(a + x) - math.lgamma(a) - s.log_factorial[i, d] + a * math.log(b / (b + 1.0)) - x * math.log(b + 1.0)


@dataclass(frozen=True)
class GammaPoisson(ConjugateFamily):
    """Columns of counts with a Poisson rate per cluster and column, λ ~ Gamma(shape, rate).

    `rate` is a number (or its prior), or one number per column. Default: shape / the column's mean.

    >>> import maitre as mt
    >>> family = mt.families.GammaPoisson(shape=1.0, rate=0.5)
    """

    shape: Hyperparameter = 1.0
    rate: Any = None

    statistics = GammaPoissonStatistics
    POSITIVE = ("shape",)
    SKIPS_MISSING = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate is not None and not isinstance(self.rate, Hyperprior):
            real_numbers("GammaPoisson: rate", self.rate, above=0.0)

    def validate(self, data: Any, missing: bool = False) -> Floats:
        return whole_numbers(dense_matrix(data, missing), "GammaPoisson takes whole numbers of at least 0: round them, or use a Gaussian family")

    def defaults(self, x: Floats) -> dict[str, Any]:
        shape = float(self.at_prior_means().shape)  # type: ignore[arg-type]
        means = column_means(x)
        return {"rate": shape / np.where(means > 0.0, means, 1.0)}

    def encode(self, x: Floats) -> dict[str, Any]:
        numbers_of_columns("GammaPoisson: rate", self.rate, x.shape[1])
        observed = ~np.isnan(x)
        filled = np.where(observed, x, 0.0)
        return {"x": filled, "observed": observed.astype(np.uint8), "log_factorial": gammaln(filled + 1.0)}

    def allocate(self, encoded: dict[str, Any], capacity: int) -> GammaPoissonStatistics:
        slots, n_columns = padded(capacity), encoded["x"].shape[1]
        rate, rates = (1.0, numbers_of_columns("rate", self.rate, n_columns)) if np.ndim(self.rate) else (float(self.rate), np.ones(n_columns))
        raw = {name: np.zeros((slots, n_columns)) for name in ("counts", "total")}
        derived = {name: np.zeros((n_columns, slots)) for name in ("mass", "constant", "log_rate")}
        values: dict[str, Any] = {"shape": float(self.shape), "rate": rate, "rates": rates}  # type: ignore[arg-type]
        return GammaPoissonStatistics(**encoded, **values, base=np.zeros(slots), **raw, **derived)


GammaPoisson.EXAMPLES = (
    Example(GammaPoisson(1.3, 0.6), [[0, 3], [1, 2], [7, 0], [5, 1], [0, 4]]),
    Example(GammaPoisson(0.8, [0.6, 0.3]), [[0, 3], [1, 2], [7, 0], [5, 1], [0, 4]]),
)
