"""Priors of hyper-parameters. A number where a prior may stand is fixed; a `Gamma`, `Beta` or `LogUniform` is sampled."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from maitre.numerics.arguments import number
from maitre.numerics.rng import RngState, beta, gamma, uniform

_LEAST_SHAPE, _MOST_SHAPE = 1e-9, 1e9  # beyond, differences of log densities are lost in rounding


@dataclass(frozen=True)
class Gamma:
    """Gamma(shape, rate) on the positive numbers, with mean shape / rate.

    >>> Gamma(2.0, 1.0).mean
    2.0
    """

    shape: float
    rate: float

    def __post_init__(self) -> None:
        try:
            number("shape", self.shape, least=_LEAST_SHAPE, most=_MOST_SHAPE)
            number("rate", self.rate, least=1e-100, most=1e100)
        except ValueError as error:
            raise ValueError(f"Gamma(shape={self.shape!r}, rate={self.rate!r}): both must be positive numbers, and not extreme ({error})") from None

    @property
    def mean(self) -> float:
        """The expectation."""
        return self.shape / self.rate

    def log_density(self, value: float) -> float:
        """The log density at a positive value."""
        return float(self.shape * math.log(self.rate) - special.gammaln(self.shape) + (self.shape - 1.0) * math.log(value) - self.rate * value)

    def draw(self, rng: RngState) -> float:
        """A random value."""
        return _within_range(gamma(self.shape, rng) / self.rate)

    def to_real(self, value: float) -> float:
        """The value on the scale where slice steps are taken: its logarithm."""
        return math.log(value)

    def from_real(self, real: float) -> float:
        """The inverse of `to_real`."""
        return _within_range(math.exp(min(real, 700.0)))

    def log_jacobian(self, value: float) -> float:
        """log |d value / d real|."""
        return math.log(value)


@dataclass(frozen=True)
class Beta:
    """Beta(a, b) on the unit interval, for a discount.

    >>> Beta(1.0, 3.0).mean
    0.25
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        try:
            for name in ("a", "b"):
                number(name, getattr(self, name), least=_LEAST_SHAPE, most=_MOST_SHAPE)
        except ValueError as error:
            raise ValueError(f"Beta(a={self.a!r}, b={self.b!r}): both must be positive numbers, and not extreme ({error})") from None

    @property
    def mean(self) -> float:
        """The expectation."""
        return self.a / (self.a + self.b)

    def log_density(self, value: float) -> float:
        """The log density at a value between 0 and 1."""
        return float((self.a - 1.0) * math.log(value) + (self.b - 1.0) * math.log1p(-value) - special.betaln(self.a, self.b))

    def draw(self, rng: RngState) -> float:
        """A random value."""
        return min(max(beta(self.a, self.b, rng), 1e-300), 1.0 - 1e-16)

    def to_real(self, value: float) -> float:
        """The value on the scale where slice steps are taken: its log odds."""
        return math.log(value) - math.log1p(-value)

    def from_real(self, real: float) -> float:
        """The inverse of `to_real`."""
        return min(max(1.0 / (1.0 + math.exp(min(-real, 700.0))), 1e-300), 1.0 - 1e-16)

    def log_jacobian(self, value: float) -> float:
        """log |d value / d real|."""
        return math.log(value) + math.log1p(-value)


@dataclass(frozen=True)
class LogUniform:
    """Uniform on the logarithm between two positive numbers: as likely between 1 and 10 as between 10 and 100.

    >>> round(LogUniform(1.0, 100.0).mean, 12)
    10.0
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        try:
            number("low", self.low, least=1e-100, most=1e100)
            number("high", self.high, above=self.low, most=1e100)
        except ValueError as error:
            raise ValueError(f"LogUniform(low={self.low!r}, high={self.high!r}): both must be positive numbers, the second larger ({error})") from None

    @property
    def mean(self) -> float:
        """The geometric mean, which stands in the middle; the arithmetic one lies near the upper end."""
        return math.sqrt(self.low * self.high)

    def log_density(self, value: float) -> float:
        """The log density at a positive value."""
        return -math.log(value) - math.log(math.log(self.high / self.low)) if self.low <= value <= self.high else -math.inf

    def draw(self, rng: RngState) -> float:
        """A random value."""
        return self.low * (self.high / self.low) ** uniform(rng)

    def to_real(self, value: float) -> float:
        """The value on the scale where slice steps are taken: its logarithm."""
        return math.log(value)

    def from_real(self, real: float) -> float:
        """The inverse of `to_real`."""
        return _within_range(math.exp(min(real, 700.0)))

    def log_jacobian(self, value: float) -> float:
        """log |d value / d real|."""
        return math.log(value)


Hyperprior = Gamma | Beta | LogUniform
Hyperparameter = float | Hyperprior


def _within_range(value: float) -> float:
    """The value kept where its logarithm and its reciprocal are numbers."""
    return min(max(value, 1e-300), 1e300)


class Parametrised:
    """A frozen dataclass some of whose fields are numbers or the priors of numbers."""

    POSITIVE: ClassVar[tuple[str, ...]] = ()
    NOT_SAMPLED: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self.NOT_SAMPLED:
            if isinstance(getattr(self, name), Hyperprior):
                raise ValueError(f"{type(self).__name__}: {name} cannot be sampled: give a number, or put the prior on another hyper-parameter")
        for name in self.POSITIVE:
            value = getattr(self, name)
            if isinstance(value, Hyperprior) or (
                value is None and getattr(type(self), name, 0.0) is None
            ):  # a field whose default is to be filled in from the data
                continue
            try:
                number(name, value, above=0.0)
            except ValueError:
                raise ValueError(f"{type(self).__name__}: {name} must be a positive number or a prior such as mt.Gamma(1, 1), not {value!r}") from None

    def hyperpriors(self) -> dict[str, Hyperprior]:
        """The hyper-parameters that are sampled, by name."""
        return self._hyperpriors

    @cached_property
    def _hyperpriors(self) -> dict[str, Hyperprior]:
        return {name: value for name, value in self.describe().items() if isinstance(value, Hyperprior)}

    def at(self, values: dict[str, Any]) -> Self:
        """The same model with numbers in place of the named hyper-parameters' priors."""
        return dataclasses.replace(self, **values) if values else self  # type: ignore[type-var]

    def at_prior_means(self) -> Self:
        """The same model with every prior replaced by its mean: where a chain starts."""
        return self.at({name: prior.mean for name, prior in self.hyperpriors().items()})

    def describe(self) -> dict[str, Any]:
        """The fields by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)} if dataclasses.is_dataclass(self) else {}

    def in_one_line(self) -> str:
        """The model for people to read, long arrays cut short.

        >>> import maitre as mt, numpy as np
        >>> mt.families.NormalInverseGamma(mean=np.zeros(9), rate=0.5).in_one_line()
        'NormalInverseGamma(mean=[0, 0, 0, …], kappa=0.1, shape=2, rate=0.5, scale=1)'
        """
        return f"{type(self).__name__}({', '.join(f'{name}={short_text(value)}' for name, value in self.describe().items())})"


def short_text(value: Any) -> str:
    """A value for people to read: four digits of what is no whole number, and the first three of a long list.

    >>> short_text([1.0, 2.0, 61188, 4.0])
    '[1, 2, 61188, …]'
    """
    if isinstance(value, Parametrised):
        return value.in_one_line()
    if isinstance(value, (list, tuple, np.ndarray)):
        parts = [short_text(part) for part in list(value)[:3]]
        return f"[{', '.join(parts)}{', …' if len(value) > 3 else ''}]"
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)
