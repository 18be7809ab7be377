"""Decays of the distance-dependent Chinese restaurant process: how the wish to sit with another customer falls with the distance to them.

A decay f is at least 0, does not rise, and goes to 0 at infinity (Blei & Frazier 2011, section 2). Its parameter is a number, or a prior such as `mt.Gamma(2, 1)`
and then sampled. A function of one's own may stand in place of a decay: it is given an array of distances and returns f of each.

>>> import maitre as mt
>>> mt.decays.exponential(2.0).log_weight(np.array([0.0, 4.0])).tolist()
[-0.0, -2.0]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from maitre.numerics.arrays import Floats
from maitre.numerics.distributions import Hyperparameter, Parametrised


class Decay(Parametrised, ABC):
    """A decay: a frozen dataclass with one positive parameter."""

    @abstractmethod
    def log_weight(self, distances: Floats) -> Floats:
        """log f(d) for every distance; −∞ where f is 0."""


@dataclass(frozen=True)
class Exponential(Decay):
    """f(d) = exp(−d / scale)."""

    scale: Hyperparameter

    POSITIVE = ("scale",)

    def log_weight(self, distances: Floats) -> Floats:
        return -distances / float(self.scale)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Window(Decay):
    """f(d) = 1 if d < width, otherwise 0."""

    width: Hyperparameter

    POSITIVE = ("width",)

    def log_weight(self, distances: Floats) -> Floats:
        return np.where(distances < float(self.width), 0.0, -np.inf)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Logistic(Decay):
    """f(d) = exp(scale − d) / (1 + exp(scale − d)): near 1 up to about `scale`, then falling like exp(−d)."""

    scale: Hyperparameter

    POSITIVE = ("scale",)

    def log_weight(self, distances: Floats) -> Floats:
        return -np.logaddexp(0.0, distances - float(self.scale))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Evaluated(Decay):
    """A function of the user's, evaluated once: the distances kept beside it are −log f(d)."""

    function: str

    def log_weight(self, distances: Floats) -> Floats:
        return -distances


def exponential(scale: Hyperparameter) -> Exponential:
    """f(d) = exp(−d / scale)."""
    return Exponential(scale)


def window(width: Hyperparameter) -> Window:
    """f(d) = 1 if d < width, otherwise 0."""
    return Window(width)


def logistic(scale: Hyperparameter) -> Logistic:
    """f(d) = exp(scale − d) / (1 + exp(scale − d))."""
    return Logistic(scale)


__all__ = ["Decay", "exponential", "logistic", "window"]
