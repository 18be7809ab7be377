"""Bayesian nonparametric clustering: every data point gets a table, and nobody has to say how many tables there are.

>>> import maitre as mt
>>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.2]], draws=20, burn_in=20, chains=1, progress=False)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maitre import approximate, families, moves, partitions, priors
    from maitre.comparing import compare_models
    from maitre.estimators import DistanceDependentMixture, DPMixture, HDPTopics, MAPSearch, RankingMixture
    from maitre.extending import extend
    from maitre.numerics.distributions import Beta, Gamma, LogUniform
    from maitre.posterior.groups import GroupPosterior
    from maitre.posterior.posterior import Posterior
    from maitre.priors import decays
    from maitre.reports import plots
    from maitre.reports.html import report
    from maitre.sampling import load, resume, sample, sample_groups
    from maitre.searching import Found, search

__version__ = "0.1.0"
_HOMES = {
    "Beta": "maitre.numerics.distributions",
    "DPMixture": "maitre.estimators",
    "DistanceDependentMixture": "maitre.estimators",
    "Found": "maitre.searching",
    "GroupPosterior": "maitre.posterior.groups",
    "Gamma": "maitre.numerics.distributions",
    "LogUniform": "maitre.numerics.distributions",
    "HDPTopics": "maitre.estimators",
    "MAPSearch": "maitre.estimators",
    "Posterior": "maitre.posterior.posterior",
    "RankingMixture": "maitre.estimators",
    "compare_models": "maitre.comparing",
    "extend": "maitre.extending",
    "load": "maitre.sampling",
    "report": "maitre.reports.html",
    "resume": "maitre.sampling",
    "sample": "maitre.sampling",
    "sample_groups": "maitre.sampling",
    "search": "maitre.searching",
}
_MODULES = {
    "decays": "maitre.priors.decays",
    **{name: f"maitre.{name}" for name in ("approximate", "families", "moves", "partitions", "priors")},
    "plots": "maitre.reports.plots",
}

__all__ = [
    "Beta",
    "DPMixture",
    "DistanceDependentMixture",
    "Found",
    "Gamma",
    "GroupPosterior",
    "HDPTopics",
    "LogUniform",
    "MAPSearch",
    "Posterior",
    "RankingMixture",
    "approximate",
    "compare_models",
    "decays",
    "extend",
    "families",
    "load",
    "moves",
    "partitions",
    "plots",
    "priors",
    "report",
    "resume",
    "sample",
    "sample_groups",
    "search",
]


def __getattr__(name: str) -> Any:
    """Each name is imported when it is first asked for: `import maitre` costs nothing, and scikit-learn is needed by estimators alone."""
    if name in _MODULES:
        value: Any = import_module(_MODULES[name])
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'maitre' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
