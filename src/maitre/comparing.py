"""`mt.compare_models`: which model predicts rows best that it has not seen, by cross-validation or by leaving out one row at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maitre.data.rows import as_data
from maitre.numerics.arguments import one_of, whole_number
from maitre.sampling import sample


def compare_models(data: Any, models: Mapping[str, Mapping[str, Any]], folds: int = 5, seed: int = 0, method: str = "cross-validation", **options: Any) -> Any:
    """A table with a row for each model, the best first: the mean log predictive density of held-out rows with its standard error, the difference from the best with the standard
    error of that, and the mean number of clusters.

    By cross-validation, the rows are dealt into `folds` parts, each is predicted from the others, and all models see the same parts. Defaults are taken from the rows that are
    fitted, never from those held out. With method="loo" every model is fitted once, to all rows, and each row's density given the others follows from the draws
    (`Posterior.leave_one_out`): as many times faster as there are folds, with defaults taken from all rows, and with one column more, the number of rows for which it cannot
    be told in this way.

    Parameters
    ----------
    data : as in `maitre.sample`.
    models : by name, what to give to `maitre.sample`, e.g. {"diagonal": {"family": "NormalInverseGamma"}, "full": {"family": "NormalInverseWishart"}}.
    folds : how many parts.
    seed : of the parts and of the chains.
    method : "cross-validation" or "loo".
    options : of `maitre.sample`, the same for all models (draws, burn_in, chains, …).

    >>> import maitre as mt, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(40, 1))
    >>> models = {"wide": {"prior": mt.priors.DirichletProcess(20.0)}, "default": {}}
    >>> mt.compare_models(x, models, folds=2, draws=30, burn_in=20, chains=1, progress=False).columns.tolist()
    ['model', 'log_density', 'standard_error', 'difference', 'difference_error', 'n_clusters']
    """
    import pandas as pd

    rows = as_data(data)
    folds = whole_number("folds", folds, least=2, most=max(rows.n, 2))
    if not models:
        raise ValueError("there are no models to compare: give names and what to sample with, e.g. {'full': {'family': 'NormalInverseWishart'}}")
    arguments = {name: {"seed": seed, **options, **model} for name, model in models.items()}
    if one_of("method", method, ("cross-validation", "loo")) == "loo":
        found = {name: _left_out(rows, own) for name, own in arguments.items()}
    else:
        parts = np.random.default_rng(seed).permutation(rows.n) % folds
        found = {name: _held_out(rows, parts, own) for name, own in arguments.items()}
    best = max(found, key=lambda name: found[name][0].mean())
    table = [
        (name, own.mean(), _error(own), (own - found[best][0]).mean(), _error(own - found[best][0]), n_clusters, *unreliable)
        for name, (own, n_clusters, *unreliable) in found.items()
    ]
    names = ["model", "log_density", "standard_error", "difference", "difference_error", "n_clusters"] + ["unreliable"] * (method == "loo")
    return pd.DataFrame(table, columns=names).sort_values("log_density", ascending=False, ignore_index=True)


def _held_out(rows: Any, parts: Any, arguments: dict[str, Any]) -> tuple[Any, ...]:
    """The log density of every row given the parts it is not in, and the mean number of clusters."""
    density, n_clusters = np.empty(rows.n), []
    for part in range(int(parts.max()) + 1):
        posterior = sample(rows.select(np.flatnonzero(parts != part)), **arguments)
        density[parts == part] = posterior.log_density(rows.select(np.flatnonzero(parts == part)))
        n_clusters.append(float(posterior.n_clusters.mean()))
    return density, float(np.mean(n_clusters))


def _left_out(rows: Any, arguments: dict[str, Any]) -> tuple[Any, ...]:
    """The log density of every row given all others, the mean number of clusters, and for how many rows it cannot be told."""
    posterior = sample(rows, **arguments)
    found = posterior.leave_one_out()
    return found.log_density + posterior.model.log_jacobian(rows), float(posterior.n_clusters.mean()), found.n_unreliable


def _error(values: Any) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))
