"""The model a command fits, from names and numbers; and the model in words, with the values that were chosen from the data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maitre.cli.show import plural
from maitre.data.columns import in_words
from maitre.data.rankings import Rankings
from maitre.families.product import Product
from maitre.model import Model, as_prior
from maitre.numerics.distributions import Hyperprior, short_text
from maitre.priors.base import Prior


def named_prior(name: str, concentration: float | None) -> Prior:
    """A prior by its name, with a fixed concentration if one is given.

    >>> named_prior("DirichletProcess", 0.5)
    DirichletProcess(concentration=0.5)
    """
    prior = as_prior(name)
    if concentration is None:
        return prior
    if not hasattr(prior, "concentration"):
        raise ValueError(f"{name} has no concentration: leave out --concentration, or use another --prior")
    if math.isinf(concentration):
        raise ValueError(f"--concentration is {concentration}; expected a finite number")
    return dataclasses.replace(prior, concentration=concentration)  # type: ignore[type-var]


def from_data(given: Any, filled: Any) -> list[str]:
    """The fields that were left open and have been filled in from the data."""
    return [name for name, value in given.describe().items() if value is None and filled.describe()[name] is not None]


def described(given: Any, filled: Any) -> dict[str, Any]:
    """A family or prior as JSON: its name, every value used, and which of them came from the data."""
    if isinstance(filled, Product):
        parts = zip(given.groups, filled.groups, strict=True)
        groups = [{"columns": [str(name) for name in columns], **described(before, after)} for (columns, before), (_, after) in parts]
        return {"name": "Product", "groups": groups}
    values = {name: _plain(value) for name, value in filled.describe().items()}
    return {"name": type(filled).__name__, "values": values, "from_data": from_data(given, filled)}


def _plain(value: Any) -> Any:
    if isinstance(value, Hyperprior):
        return {"sampled": type(value).__name__, **dataclasses.asdict(value)}
    return np.asarray(value).tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def model_rows(name: str, model: Model, notes: Sequence[str] = ()) -> list[tuple[str, str]]:
    """The data and the model in words, as rows of a table; `notes` tell how the data were read."""
    assert model.data is not None
    rows = [
        ("data", "; ".join([f"{name}: {_size(model)}", *notes])),
        *in_words(model.columns),
        *model_lines("family", model.given, model.family),
        *([("", model.choice)] if model.choice else []),
        *model_lines("prior", model.prior, model.prior),
    ]
    return [*rows, ("", "≈ marks values chosen from the data")] if _guessed(model.given, model.family) else rows


def _size(model: Model) -> str:
    if isinstance(model.data, Rankings):
        return f"{plural(model.n, 'ranking')} ({len(model.data.starts) - 1:,} distinct) of {plural(model.data.n_items, 'item')}"
    return f"{plural(model.n, 'row')}, {plural(len(model.columns) or model.data.n_columns, 'column')}"  # type: ignore[union-attr]


def _guessed(given: Any, filled: Any) -> bool:
    if isinstance(filled, Product):
        return any(_guessed(before, after) for (_, before), (_, after) in zip(given.groups, filled.groups, strict=True))
    return bool(from_data(given, filled))


def model_lines(title: str, given: Any, filled: Any) -> list[tuple[str, str]]:
    """A family or prior as rows of a table: what it is, then its values.

    >>> model_lines("prior", named_prior("DirichletProcess", 1.0), named_prior("DirichletProcess", 1.0))
    [('prior', 'DirichletProcess(concentration = 1)')]
    """
    if isinstance(filled, Product):
        rows = [(title, "Product: each group of columns has a family of its own")]
        for (columns, before), (_, after) in zip(given.groups, filled.groups, strict=True):
            rows += [("", f"{_shortened([str(name) for name in columns])}: {_values(before, after)}")]
        return rows
    return [(title, _values(given, filled))]


def _values(given: Any, filled: Any) -> str:
    guessed = from_data(given, filled)
    values = [f"{name} {'≈' if name in guessed else '='} {_short(value)}" for name, value in filled.describe().items()]
    return f"{type(filled).__name__}({', '.join(values)})"


def _short(value: Any) -> str:
    if isinstance(value, Hyperprior):
        return f"{type(value).__name__}({', '.join(f'{number:g}' for number in dataclasses.astuple(value))}) sampled"
    return short_text(value)


def _shortened(words: list[str], at_most: int = 6) -> str:
    """
    >>> _shortened(["a", "b", "c"], at_most=2)
    'a, b, … (3 in all)'
    """
    return ", ".join(words) if len(words) <= at_most else f"{', '.join(words[:at_most])}, … ({len(words)} in all)"
