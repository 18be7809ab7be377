"""Bayesian nonparametric clustering: every data point gets a table, and nobody has to say how many tables there are.

>>> import maitre as mt
>>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.2]], draws=20, burn_in=20, chains=1, progress=False)
"""

from __future__ import annotations

from typing import Any

from maitre import families, moves, partitions, priors
from maitre.numerics.distributions import Beta, Gamma
from maitre.posterior.posterior import Posterior
from maitre.priors import decays
from maitre.sampling import load, resume, sample
from maitre.searching import Found, search

__version__ = "0.1.0"
_ESTIMATORS = ("DPMixture", "DistanceDependentMixture", "MAPSearch")

__all__ = [
    "Beta",
    "DPMixture",
    "DistanceDependentMixture",
    "Found",
    "Gamma",
    "MAPSearch",
    "Posterior",
    "decays",
    "families",
    "load",
    "moves",
    "partitions",
    "priors",
    "resume",
    "sample",
    "search",
]


def __getattr__(name: str) -> Any:
    """scikit-learn is imported only when an estimator is asked for."""
    if name in _ESTIMATORS:
        from maitre import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'maitre' has no attribute {name!r}")
