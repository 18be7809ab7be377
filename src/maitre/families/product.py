"""Tables with columns of several kinds: within a cluster the groups of columns are independent, each with a family of its own.

    p(x_c) = ∏_g p_g(x_c restricted to the columns of group g)

Missing values are skipped per column by the families whose columns are independent (NormalInverseGamma, Categorical, BetaBernoulli, GammaPoisson).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numba import literal_unroll
from scipy import sparse

from maitre.data.rows import SparseRows, as_data
from maitre.data.validation import column_variances
from maitre.families.base import ConjugateFamily, Example, Family
from maitre.families.categorical import BetaBernoulli, Categorical
from maitre.families.gamma_poisson import GammaPoisson
from maitre.families.normal_inverse_gamma import NormalInverseGamma
from maitre.families.statistics import (
    absorb,
    add,
    add_weighted,
    clear,
    dense_features,
    derive,
    draw_parameters,
    draw_point,
    expect,
    expected_log_likelihood_all,
    fill_features,
    gather,
    gather_run,
    log_bound,
    log_bound_given,
    log_likelihood,
    log_likelihood_all,
    log_likelihood_of,
    log_marginal,
    log_predictive,
    log_predictive_all,
    log_predictive_raw,
    log_predictive_without,
    merge,
    n_coefficients,
    n_parameters,
    prefetch,
    refresh,
    remove,
    score_all,
    set_coefficients,
    settle,
    subtract,
)
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.distributions import Hyperprior


class ProductStatistics(NamedTuple):
    """Run-time state: the statistics of every group."""

    parts: tuple[Any, ...]

    def clear(s, k: int) -> None:
        for part in literal_unroll(s.parts):
            clear(part, k)

    def add(s, k: int, i: int) -> None:
        for part in literal_unroll(s.parts):
            add(part, k, i)

    def remove(s, k: int, i: int) -> None:
        for part in literal_unroll(s.parts):
            remove(part, k, i)

    def merge(s, k: int, other: int) -> None:
        for part in literal_unroll(s.parts):
            merge(part, k, other)

    def subtract(s, k: int, other: int) -> None:
        for part in literal_unroll(s.parts):
            subtract(part, k, other)

    def refresh(s, k: int) -> None:
        for part in literal_unroll(s.parts):
            refresh(part, k)

    def derive(s, k: int) -> None:
        for part in literal_unroll(s.parts):
            derive(part, k)

    def log_marginal(s, k: int) -> float:
        value = 0.0
        for part in literal_unroll(s.parts):
            value += log_marginal(part, k)
        return value

    def log_predictive(s, k: int, i: int) -> float:
        value = 0.0
        for part in literal_unroll(s.parts):
            value += log_predictive(part, k, i)
        return value

    def log_predictive_without(s, k: int, i: int) -> float:
        value = 0.0
        for part in literal_unroll(s.parts):
            value += log_predictive_without(part, k, i)
        return value

    def log_predictive_all(s, i: int, n_slots: int, out: Floats) -> None:
        for part in literal_unroll(s.parts):
            log_predictive_all(part, i, n_slots, out)

    def log_predictive_raw(s, k: int, i: int) -> float:
        value = 0.0
        for part in literal_unroll(s.parts):
            value += log_predictive_raw(part, k, i)
        return value

    def absorb(s, k: int, i: int) -> float:
        value = 0.0
        for part in literal_unroll(s.parts):
            value += absorb(part, k, i)
        return value

    def prefetch(s, i: int) -> None:
        for part in literal_unroll(s.parts):
            prefetch(part, i)

    def log_bound(s, i: int) -> float:
        value = 0.0
        for part in literal_unroll(s.parts):
            value += log_bound(part, i)
        return value

    def log_bound_given(s, k: int, rest: int, i: int) -> float:
        value = 0.0
        for part in literal_unroll(s.parts):
            value += log_bound_given(part, k, rest, i)
        return value

    def n_parameters(s) -> int:
        count = 0
        for part in literal_unroll(s.parts):
            count += n_parameters(part)
        return count

    def draw_parameters(s, k: int, theta: Floats, rng: Any) -> None:
        begin = 0
        for part in literal_unroll(s.parts):
            end = begin + n_parameters(part)
            draw_parameters(part, k, theta[begin:end], rng)
            begin = end

    def log_likelihood(s, theta: Floats, i: int) -> float:
        value, begin = 0.0, 0
        for part in literal_unroll(s.parts):
            end = begin + n_parameters(part)
            value += log_likelihood(part, theta[begin:end], i)
            begin = end
        return value

    def log_likelihood_all(s, theta: Floats, i: int, n_slots: int, out: Floats) -> None:
        begin = 0
        for part in literal_unroll(s.parts):
            end = begin + n_parameters(part)
            log_likelihood_all(part, theta[:, begin:end], i, n_slots, out)
            begin = end

    def n_coefficients(s) -> int:
        count = 0
        for part in literal_unroll(s.parts):
            count += n_coefficients(part)
        return count

    def set_coefficients(s, theta: Floats, a: Floats, k: int) -> None:
        begin, first = 0, 0
        for part in literal_unroll(s.parts):
            end, last = begin + n_parameters(part), first + n_coefficients(part)
            set_coefficients(part, theta[begin:end], a[first:last], k)
            begin, first = end, last

    def score_all(s, theta: Floats, a: Floats, i: int, n: int, out: Floats) -> None:
        begin, first = 0, 0
        for part in literal_unroll(s.parts):
            end, last = begin + n_parameters(part), first + n_coefficients(part)
            score_all(part, theta[:, begin:end], a[first:last], i, n, out)
            begin, first = end, last

    def dense_features(s) -> bool:
        dense = True
        for part in literal_unroll(s.parts):
            dense = dense and dense_features(part)
        return dense

    def fill_features(s, points: Any, base: int, count: int, out: Any) -> None:
        first = 0
        for part in literal_unroll(s.parts):
            last = first + n_coefficients(part)
            fill_features(part, points, base, count, out[first:last])
            first = last

    def gather(s, k: int, i: int) -> None:
        for part in literal_unroll(s.parts):
            gather(part, k, i)

    def gather_run(s, k: int, points: Ints, begin: int, end: int, base: int, room: Floats) -> None:
        for part in literal_unroll(s.parts):
            gather_run(part, k, points, begin, end, base, room)

    def settle(s, k: int) -> None:
        for part in literal_unroll(s.parts):
            settle(part, k)

    def log_likelihood_of(s, theta: Floats, k: int) -> float:
        value, begin = 0.0, 0
        for part in literal_unroll(s.parts):
            end = begin + n_parameters(part)
            value += log_likelihood_of(part, theta[begin:end], k)
            begin = end
        return value

    def add_weighted(s, k: int, i: int, weight: float) -> None:
        for part in literal_unroll(s.parts):
            add_weighted(part, k, i, weight)

    def expect(s, k: int) -> None:
        for part in literal_unroll(s.parts):
            expect(part, k)

    def expected_log_likelihood_all(s, i: int, n_slots: int, out: Floats) -> None:
        for part in literal_unroll(s.parts):
            expected_log_likelihood_all(part, i, n_slots, out)

    def draw_point(s, theta: Floats, i: int, rng: Any) -> None:
        begin = 0
        for part in literal_unroll(s.parts):
            end = begin + n_parameters(part)
            draw_point(part, theta[begin:end], i, rng)
            begin = end


@dataclass(frozen=True)
class Product(ConjugateFamily):
    """A family for each group of columns: pairs (column or list of columns, family), or a mapping from column to family.

    Columns are names for a table with names, otherwise positions.

    >>> import maitre as mt
    >>> family = mt.families.Product([(["height", "weight"], mt.families.NormalInverseGamma()), ("smoker", mt.families.BetaBernoulli())])
    """

    groups: Any

    statistics = ProductStatistics
    MOVES = "gibbs+permutation"  # split–merge takes long to compile for many kinds of columns

    def __post_init__(self) -> None:
        try:
            pairs = self.groups.items() if isinstance(self.groups, Mapping) else self.groups
            groups = tuple((_as_columns(columns), family) for columns, family in pairs)
        except (TypeError, ValueError):
            groups = ()
        if not groups or not all(columns and isinstance(family, Family) for columns, family in groups):
            raise ValueError(
                "Product takes pairs (columns, family), e.g. [('height', mt.families.NormalInverseGamma()), ('smoker', mt.families.BetaBernoulli())]"
            )
        _check_once([column for columns, _ in groups for column in columns])
        object.__setattr__(self, "groups", groups)

    def hyperpriors(self) -> dict[str, Hyperprior]:
        return {f"{g}.{name}": prior for g, (_, family) in enumerate(self.groups) for name, prior in family.hyperpriors().items()}

    def __getattr__(self, name: str) -> Any:
        """A group's hyper-parameter by its name "group.field"."""
        group, dot, field = name.partition(".")
        if not dot:
            raise AttributeError(name)
        return getattr(self.groups[int(group)][1], field)

    def at(self, values: dict[str, Any]) -> Self:
        return type(self)([(columns, family.at(_of_group(values, g))) for g, (columns, family) in enumerate(self.groups)])

    def tightened(self) -> Self | None:
        tight = [(columns, family.tightened()) for columns, family in self.groups]
        if all(family is None for _, family in tight):
            return None
        return type(self)([(columns, family or before.at_prior_means()) for (columns, family), (_, before) in zip(tight, self.groups, strict=True)])

    def scales(self) -> tuple[str, ...]:
        return tuple(f"{g}.{name}" for g, (_, family) in enumerate(self.groups) for name in family.scales())

    def lowest(self, name: str) -> float:
        group, _, field = name.partition(".")
        return float(self.groups[int(group)][1].lowest(field))

    def validate(self, data: Any) -> tuple[Any, ...]:
        rows = as_data(data)
        if isinstance(rows, SparseRows):
            raise ValueError("the data are a sparse matrix; Product takes a table or a dense array: use data.toarray()")
        if np.ndim(rows.raw) > 2 or rows.n_columns == 0:
            raise ValueError(f"the data have shape {np.shape(rows.raw)}; expected a table of rows and columns")
        places = [rows.positions(columns) for columns, _ in self.groups]
        _check_once([place % rows.n_columns for group in places for place in group])
        return tuple(_validate(family, rows.take(where).raw) for where, (_, family) in zip(places, self.groups, strict=True))

    def with_defaults(self, data: tuple[Any, ...]) -> Self:
        return type(self)([(columns, family.with_defaults(part)) for (columns, family), part in zip(self.groups, data, strict=True)])

    def vectors(self, data: tuple[Any, ...], encoded: tuple[Any, ...]) -> Any:
        """The groups' vectors side by side, each column scaled to unit variance; sparse if one of them is."""
        blocks = [family.vectors(part, own) for (_, family), part, own in zip(self.groups, data, encoded, strict=True)]
        if not any(sparse.issparse(block) for block in blocks):
            joined = np.hstack([np.asarray(block, dtype=np.float64) for block in blocks])
            return joined / np.sqrt(column_variances(joined))
        stacked = sparse.csr_matrix(sparse.hstack(blocks), dtype=np.float64)
        means = np.asarray(stacked.mean(axis=0)).ravel()
        variances = np.asarray(stacked.multiply(stacked).mean(axis=0)).ravel() - means**2
        scale = 1.0 / np.sqrt(np.where(variances > 0.0, variances, 1.0))
        stacked.data *= scale[stacked.indices]
        return stacked

    def encode(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(family.encode(part) for (_, family), part in zip(self.groups, data, strict=True))

    def joined(self, blocks: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        return tuple(family.joined([block[g] for block in blocks]) for g, (_, family) in enumerate(self.groups))

    def selected(self, encoded: tuple[Any, ...], points: Ints) -> tuple[Any, ...]:
        return tuple(family.selected(part, points) for (_, family), part in zip(self.groups, encoded, strict=True))

    def allocate(self, encoded: tuple[Any, ...], capacity: int) -> ProductStatistics:
        return ProductStatistics(tuple(family.allocate(part, capacity) for (_, family), part in zip(self.groups, encoded, strict=True)))

    def arrays(self, encoded: tuple[Any, ...]) -> dict[str, tuple[int, ...]]:
        return self._named(family.arrays(part) for (_, family), part in zip(self.groups, encoded, strict=True))

    def arrays_at_prior_means(self, encoded: tuple[Any, ...]) -> dict[str, Any]:
        return self._named(family.arrays_at_prior_means(part) for (_, family), part in zip(self.groups, encoded, strict=True))

    def arrays_from_prior(self, encoded: tuple[Any, ...], rng: np.random.Generator) -> dict[str, Any]:
        return self._named(family.arrays_from_prior(part, rng) for (_, family), part in zip(self.groups, encoded, strict=True))

    def log_density_of_arrays(self, values: dict[str, Any]) -> float:
        return sum(family.log_density_of_arrays(_of_group(values, g)) for g, (_, family) in enumerate(self.groups))

    def arrays_redrawn(self, statistics: ProductStatistics, slots: Ints, labels: Any, encoded: tuple[Any, ...], rng: np.random.Generator) -> dict[str, Any]:
        parts = zip(self.groups, statistics.parts, encoded, strict=True)
        return self._named(family.arrays_redrawn(part, slots, labels, own, rng) for (_, family), part, own in parts)

    def completed(self, encoded: tuple[Any, ...], values: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(family.completed(part, _of_group(values, g)) for g, ((_, family), part) in enumerate(zip(self.groups, encoded, strict=True)))

    def climbs(self) -> bool:
        return any(family.climbs() for _, family in self.groups)

    def views(self, encoded: tuple[Any, ...]) -> list[Any]:
        """The numbers without the other columns, among which they may be lost."""
        return [family.vectors(None, part) for (_, family), part in zip(self.groups, encoded, strict=True) if family.climbs()] if len(self.groups) > 1 else []

    def places_to_search(self, encoded: tuple[Any, ...]) -> list[dict[str, Any]]:
        own = [family.places_to_search(part) for (_, family), part in zip(self.groups, encoded, strict=True)]
        return [self._named(places[which] if which < len(places) else {} for places in own) for which in range(max(map(len, own)))]

    def arrays_ascended(self, statistics: ProductStatistics, slots: Ints) -> dict[str, Any]:
        return self._named(family.arrays_ascended(part, slots) for (_, family), part in zip(self.groups, statistics.parts, strict=True))

    def log_likelihood_of_clusters(self, statistics: ProductStatistics, slots: Ints, name: str) -> Callable[[float], float] | None:
        group, _, field = name.partition(".")
        return self.groups[int(group)][1].log_likelihood_of_clusters(statistics.parts[int(group)], slots, field)  # type: ignore[no-any-return]

    def _named(self, parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
        return {f"{g}.{name}": value for g, part in enumerate(parts) for name, value in part.items()}

    def with_values(self, statistics: ProductStatistics, values: dict[str, Any]) -> ProductStatistics:
        parts = zip(self.groups, statistics.parts, strict=True)
        chosen = [(family, part, _of_group(values, g)) for g, ((_, family), part) in enumerate(parts)]
        return ProductStatistics(tuple(family.with_values(part, own) if own else part for family, part, own in chosen))


def _as_columns(columns: Any) -> tuple[Any, ...]:
    return (columns,) if isinstance(columns, str) or not isinstance(columns, Iterable) else tuple(columns)


def _check_once(columns: list[Any]) -> None:
    twice = [column for position, column in enumerate(columns) if column in columns[:position]]
    if twice:
        raise ValueError(f"Product: column {twice[0]!r} is given twice; every column belongs to one family")


def _of_group(values: dict[str, Any], group: int) -> dict[str, Any]:
    return {name.partition(".")[2]: value for name, value in values.items() if name.partition(".")[0] == str(group)}


def _validate(family: Family, data: Any) -> Any:
    return family.validate(data, missing=True) if family.SKIPS_MISSING else family.validate(data)  # type: ignore[call-arg]


_MIXED = np.array([[-1.0, 0, 2, 1], [-0.8, 1, np.nan, 1], [0.1, 1, 0, np.nan], [np.nan, 2, 5, 0], [1.1, 2, 7, 0]])

Product.EXAMPLES = (
    Example(Product([(0, NormalInverseGamma(0.1, 0.3, 1.5, 0.8)), (1, Categorical(0.7))]), _MIXED[:, :2]),
    Example(Product([(0, NormalInverseGamma(0.1, 0.3, 1.5, 0.8)), (1, Categorical(0.7)), (2, GammaPoisson(1.2, 0.4)), (3, BetaBernoulli(0.7, 1.2))]), _MIXED),
)
