"""`mt.compare_models`: which model predicts rows best that it has not seen, by cross-validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maitre.data.rows import as_data
from maitre.numerics.arguments import whole_number
from maitre.sampling import sample


def compare_models(data: Any, models: Mapping[str, Mapping[str, Any]], folds: int = 5, seed: int = 0, **options: Any) -> Any:
    """A table with a row for each model, the best first: the mean log predictive density of held-out rows with its standard error, the difference from the best with the standard
    error of that, and the mean number of clusters.

    The rows are dealt into `folds` parts, each is predicted from the others, and all models see the same parts. Defaults are taken from the rows that are fitted, never from
    those held out.

    Parameters
    ----------
    data : as in `maitre.sample`.
    models : by name, what to give to `maitre.sample`, e.g. {"diagonal": {"family": "NormalInverseGamma"}, "full": {"family": "NormalInverseWishart"}}.
    folds : how many parts.
    seed : of the parts and of the chains.
    options : of `maitre.sample`, the same for all models (draws, burn_in, chains, …).

    >>> import maitre as mt, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(40, 1))
    >>> models = {"wide": {"prior": mt.priors.DirichletProcess(20.0)}, "default": {}}
    >>> mt.compare_models(x, models, folds=2, draws=30, burn_in=20, chains=1, progress=False).columns.tolist()
    ['model', 'log_density', 'standard_error', 'difference', 'difference_error', 'n_clusters']
    """
    import pandas as pd

    rows = as_data(data)
    n, folds = rows.n, whole_number("folds", folds, least=2, most=max(rows.n, 2))
    if not models:
        raise ValueError("there are no models to compare: give names and what to sample with, e.g. {'full': {'family': 'NormalInverseWishart'}}")
    part = np.random.default_rng(seed).permutation(n) % folds
    density, n_clusters = {name: np.empty(n) for name in models}, {name: [] for name in models}  # type: ignore[var-annotated]
    for fold in range(folds):
        inside, outside = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
        for name, model in models.items():
            posterior = sample(rows.select(inside), **{"seed": seed, **options, **model})
            density[name][outside] = posterior.log_density(rows.select(outside))
            n_clusters[name].append(float(posterior.n_clusters.mean()))
    best = max(models, key=lambda name: density[name].mean())
    table = [
        (name, own.mean(), _error(own), (own - density[best]).mean(), _error(own - density[best]), float(np.mean(n_clusters[name])))
        for name, own in density.items()
    ]
    names = ["model", "log_density", "standard_error", "difference", "difference_error", "n_clusters"]
    return pd.DataFrame(table, columns=names).sort_values("log_density", ascending=False, ignore_index=True)


def _error(values: Any) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))
