"""Missing cells, and columns predicted from others: p(value | the row's known cells, data) ∝ p(value, known cells | data), evaluated at the values a column may have.

So nothing but the predictive density is needed, whatever the column's family and the prior: numbers are evaluated on a grid over their range and a good deal beyond,
categories and counts at each value. Several gaps of a row are treated one by one, each with the others unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maitre.families.categorical import BetaBernoulli, Categorical
from maitre.families.gamma_poisson import GammaPoisson
from maitre.families.hierarchical import HierarchicalNormalInverseWishart
from maitre.families.product import Product
from maitre.numerics.arrays import Floats

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior

_GRID = 201
_BEYOND = 2.0  # standard deviations
_ROWS_AT_ONCE = 50_000


def imputed(posterior: Posterior, new: Any, level: float, max_draws: int) -> Any:
    """A row for each missing cell."""
    import pandas as pd

    from maitre.posterior.tables import as_given

    model = posterior.model
    if not isinstance(model.family, (Product, HierarchicalNormalInverseWishart)):
        raise ValueError(
            f"cells are imputed under a family that takes gaps, HierarchicalNormalInverseWishart or a Product; the family is {type(model.family).__name__}"
        )
    assert model.data is not None
    known = model.data.frame()
    frame = (model.data if new is None else model.data.alike(new)).frame()
    found = []
    for group, family in _groups(model):
        for position in group:
            name = known.columns[position]
            rows = np.flatnonzero(frame[name].isna().to_numpy())
            if len(rows):
                found += _column(posterior, frame, rows, name, position, _values(known[name], family), level, max_draws)
    names = ["row", "column", "value", "probability", "low", "high"]
    found.sort(key=lambda row: (row[0], row[1]))
    return as_given(posterior, pd.DataFrame([(row, name, *rest) for row, _, name, *rest in found], columns=names))


def _groups(model: Any) -> list[tuple[Any, Any]]:
    """Positions of columns, and the family that they have in common."""
    if isinstance(model.family, Product):
        return [(model.data.positions(columns), family) for columns, family in model.family.groups]
    return [(range(model.data.n_columns), model.family)]


def _values(column: Any, family: Any) -> tuple[list[Any], bool]:
    """The values to try, in order, and whether they are points of a continuum."""
    if isinstance(family, (Categorical, BetaBernoulli)):
        return sorted(column.dropna().unique().tolist(), key=str), False
    numbers = column.dropna().to_numpy(dtype=np.float64)
    if isinstance(family, GammaPoisson):
        return list(range(int(2 * numbers.max()) + 10)), False
    spread = _BEYOND * (float(numbers.std()) or 1.0)
    return np.linspace(numbers.min() - spread, numbers.max() + spread, _GRID).tolist(), True


def _column(
    posterior: Posterior, frame: Any, rows: Any, name: Any, position: int, values: tuple[list[Any], bool], level: float, max_draws: int
) -> list[tuple[Any, ...]]:
    """For each of these rows: row, position, name, value, probability, low, high."""
    tried, continuous = values
    step, found = max(1, _ROWS_AT_ONCE // len(tried)), []
    for begin in range(0, len(rows), step):
        some = rows[begin : begin + step]
        filled = frame.iloc[np.repeat(some, len(tried))].reset_index(drop=True)
        filled[name] = (tried * len(some)) if filled[name].dtype.kind not in "fi" else np.tile(np.asarray(tried, dtype=np.float64), len(some))
        log_density = posterior.log_density(filled if posterior.model.data.names is not None else filled.to_numpy(), max_draws).reshape(len(some), -1)  # type: ignore[union-attr]
        weights = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        found += [(int(row), position, name, *_summarised(tried, own, continuous, level)) for row, own in zip(some, weights, strict=True)]
    return found


def _summarised(values: list[Any], weights: Floats, continuous: bool, level: float) -> tuple[Any, float, Any, Any]:
    """The mean of numbers with an interval, or the most probable value with its probability."""
    best = int(np.argmax(weights))
    if isinstance(values[best], (str, bool)) or values[best] is None:
        return values[best], float(weights[best]), None, None
    below, tail = np.cumsum(weights), (1.0 - level) / 2.0
    if continuous:
        low, high = (float(np.interp(q, below - 0.5 * weights, values)) for q in (tail, 1.0 - tail))
        return float(np.dot(weights, values)), float("nan"), low, high
    low, high = (values[min(int(np.searchsorted(below, q)), len(values) - 1)] for q in (tail, 1.0 - tail))
    return values[best], float(weights[best]), low, high
