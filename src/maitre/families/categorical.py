"""Columns of categories, independent within a cluster: the probabilities of column d's levels ~ Dirichlet(a_d1, a_d2, …). Yes/no columns are the case of two levels.

    p(x | x_c) = ∏_d (a_d,x_d + N_d,x_d) / (A_d + N_d)

Missing entries are skipped: they add nothing to their column. All levels of all columns are rows of one table of counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from maitre.data.validation import category_codes, dense_matrix
from maitre.families.base import ConjugateFamily, Example
from maitre.families.counts import LEAST_MASS, MOST_MASS, Counts, add_log_counts
from maitre.families.slots import CACHE, SCRATCH, SLOTS_LAST, STARTS, Points
from maitre.families.statistics import refresh
from maitre.numerics.arguments import number
from maitre.numerics.arrays import Floats, Ints, padded
from maitre.numerics.distributions import Hyperparameter, Hyperprior
from maitre.numerics.elementary import digamma, fast_log
from maitre.numerics.rng import log_gamma_variate, uniform


class CategoricalStatistics(NamedTuple):
    """Run-time state; n points, D columns, R rows (levels of all columns), C slots. Prior masses are `first_mass` for a column's first level, `mass` for the others."""

    start: Annotated[Ints, STARTS]  # (n + 1,): where a point's observed entries begin
    rows: Annotated[Counts, Points("start")]  # row of each observed entry
    columns: Annotated[Counts, Points("start")]  # its column
    zeros: Annotated[Floats, Points("start")]  # as many zeros (the factors count no earlier draws)
    first_row: Ints  # (D + 1,)
    mass: float
    first_mass: float
    base: Annotated[Floats, CACHE]  # (R,)
    column_base: Annotated[Floats, CACHE]  # (D,)
    seen: Annotated[Counts, SLOTS_LAST]  # (R, C)
    column_seen: Annotated[Counts, SLOTS_LAST]  # (D, C)
    log_total: Annotated[Floats, CACHE]  # (C,): Σ_d log(A_d + N_d)
    product: Annotated[Floats, SCRATCH]  # (C,): work space
    minus: Annotated[Floats, SCRATCH]  # (C,): work space

    def clear(s, k: int) -> None:
        for r in range(len(s.base)):
            s.seen[r, k] = 0
        for d in range(len(s.column_base)):
            s.column_seen[d, k] = 0

    def add(s, k: int, i: int) -> None:
        for t in range(s.start[i], s.start[i + 1]):
            s.seen[s.rows[t], k] += 1
            s.column_seen[s.columns[t], k] += 1

    def remove(s, k: int, i: int) -> None:
        for t in range(s.start[i], s.start[i + 1]):
            s.seen[s.rows[t], k] -= 1
            s.column_seen[s.columns[t], k] -= 1

    def merge(s, k: int, other: int) -> None:
        for r in range(len(s.base)):
            s.seen[r, k] += s.seen[r, other]
        for d in range(len(s.column_base)):
            s.column_seen[d, k] += s.column_seen[d, other]

    def subtract(s, k: int, other: int) -> None:
        for r in range(len(s.base)):
            s.seen[r, k] -= s.seen[r, other]
        for d in range(len(s.column_base)):
            s.column_seen[d, k] -= s.column_seen[d, other]

    def refresh(s, k: int) -> None:
        total = 0.0
        for d in range(len(s.column_base)):
            total += fast_log(s.column_base[d] + s.column_seen[d, k])
        s.log_total[k] = total

    def derive(s, k: int) -> None:
        for d in range(len(s.column_base)):
            s.column_base[d] = 0.0
            for r in range(s.first_row[d], s.first_row[d + 1]):
                s.base[r] = s.first_mass if r == s.first_row[d] else s.mass
                s.column_base[d] += s.base[r]
        refresh(s, k)

    def log_marginal(s, k: int) -> float:
        value = 0.0
        for d in range(len(s.column_base)):
            total = 0.0
            for r in range(s.first_row[d], s.first_row[d + 1]):
                base = s.first_mass if r == s.first_row[d] else s.mass
                total += base
                if s.seen[r, k] > 0:
                    value += math.lgamma(base + s.seen[r, k]) - math.lgamma(base)
            value += math.lgamma(total) - math.lgamma(total + s.column_seen[d, k])
        return value

    def log_predictive(s, k: int, i: int) -> float:
        value = 0.0
        for t in range(s.start[i], s.start[i + 1]):
            value += math.log((s.base[s.rows[t]] + s.seen[s.rows[t], k]) / (s.column_base[s.columns[t]] + s.column_seen[s.columns[t], k]))
        return value

    def log_predictive_without(s, k: int, i: int) -> float:
        value = 0.0
        for t in range(s.start[i], s.start[i + 1]):
            value += fast_log((s.base[s.rows[t]] + (s.seen[s.rows[t], k] - 1)) / (s.column_base[s.columns[t]] + (s.column_seen[s.columns[t], k] - 1)))
        return value

    def log_predictive_all(s, i: int, n_slots: int, out: Floats) -> None:
        begin, end = s.start[i], s.start[i + 1]
        add_log_counts(s.seen, s.base, s.rows, s.zeros, begin, end, n_slots, s.product, out)
        if end - begin == len(s.column_base):
            for k in range(n_slots):
                out[k] -= s.log_total[k]
        else:
            for k in range(n_slots):
                s.minus[k] = 0.0
            add_log_counts(s.column_seen, s.column_base, s.columns, s.zeros, begin, end, n_slots, s.product, s.minus)
            for k in range(n_slots):
                out[k] -= s.minus[k]

    def log_bound(s, i: int) -> float:
        return 0.0

    def log_bound_given(s, k: int, rest: int, i: int) -> float:
        """(a + N_r + j)/(A + N + j + …) is largest if exactly the points of the same level join, all of them."""
        value = 0.0
        for t in range(s.start[i], s.start[i + 1]):
            r, d = s.rows[t], s.columns[t]
            joining = s.seen[r, rest] - 1.0
            value += math.log((s.base[r] + s.seen[r, k] + joining) / (s.column_base[d] + s.column_seen[d, k] + joining))
        return value

    def n_parameters(s) -> int:
        return len(s.base)

    def draw_parameters(s, k: int, theta: Floats, rng: Any) -> None:
        for d in range(len(s.column_base)):
            highest, total = -np.inf, 0.0
            for r in range(s.first_row[d], s.first_row[d + 1]):
                theta[r] = log_gamma_variate(s.base[r] + s.seen[r, k], rng)
                highest = max(highest, theta[r])
            for r in range(s.first_row[d], s.first_row[d + 1]):
                total += math.exp(theta[r] - highest)
            for r in range(s.first_row[d], s.first_row[d + 1]):
                theta[r] -= highest + math.log(total)

    def log_likelihood(s, theta: Floats, i: int) -> float:
        value = 0.0
        for t in range(s.start[i], s.start[i + 1]):
            value += theta[s.rows[t]]
        return value

    def n_coefficients(s) -> int:
        return len(s.base)

    def set_coefficients(s, theta: Floats, a: Floats, k: int) -> None:
        for r in range(len(s.base)):
            a[r, k] = theta[r]

    def score_all(s, theta: Floats, a: Floats, i: int, n: int, out: Floats) -> None:
        for t in range(s.start[i], s.start[i + 1]):
            r = s.rows[t]
            for k in range(n):
                out[k] += a[r, k]

    def log_likelihood_of(s, theta: Floats, k: int) -> float:
        value = 0.0
        for r in range(len(s.base)):
            if s.seen[r, k] > 0:
                value += s.seen[r, k] * theta[r]
        return value

    def add_weighted(s, k: int, i: int, weight: float) -> None:
        for t in range(s.start[i], s.start[i + 1]):
            s.seen[s.rows[t], k] += weight
            s.column_seen[s.columns[t], k] += weight

    def expect(s, k: int) -> None:
        """E log p of a level = ψ(a + N_level) − ψ(A + N), which takes the place of its count."""
        for d in range(len(s.column_base)):
            total = s.column_seen[d, k]
            for r in range(s.first_row[d], s.first_row[d + 1]):
                total += s.first_mass if r == s.first_row[d] else s.mass
            for r in range(s.first_row[d], s.first_row[d + 1]):
                s.seen[r, k] = digamma((s.first_mass if r == s.first_row[d] else s.mass) + s.seen[r, k]) - digamma(total)

    def expected_log_likelihood_all(s, i: int, n_slots: int, out: Floats) -> None:
        for t in range(s.start[i], s.start[i + 1]):
            r = s.rows[t]
            for k in range(n_slots):
                out[k] += s.seen[r, k]

    def draw_point(s, theta: Floats, i: int, rng: Any) -> None:
        for t in range(s.start[i], s.start[i + 1]):
            d = s.columns[t]
            left, r = uniform(rng), s.first_row[d]
            while r < s.first_row[d + 1] - 1 and left >= math.exp(theta[r]):
                left -= math.exp(theta[r])
                r += 1
            s.rows[t] = r


def _encode(codes: Ints, n_levels: list[int]) -> dict[str, Any]:
    """Observed entries of all points, row after row of the data."""
    first_row = np.concatenate([[0], np.cumsum(n_levels)]).astype(np.int64)
    observed = codes >= 0
    start = np.concatenate([[0], np.cumsum(observed.sum(axis=1))]).astype(np.int64)
    columns = np.broadcast_to(np.arange(codes.shape[1]), codes.shape)[observed].astype(np.int32)
    rows = (codes + first_row[:-1])[observed].astype(np.int32)
    return {"start": start, "rows": rows, "columns": columns, "zeros": np.zeros(len(rows)), "first_row": first_row}


def _allocate(encoded: dict[str, Any], capacity: int, mass: float, first_mass: float) -> CategoricalStatistics:
    slots, n_rows, n_columns = padded(capacity), int(encoded["first_row"][-1]), len(encoded["first_row"]) - 1
    return CategoricalStatistics(
        **encoded,
        mass=mass,
        first_mass=first_mass,
        base=np.ones(n_rows),
        column_base=np.ones(n_columns),
        seen=np.zeros((n_rows, slots), np.int32),
        column_seen=np.zeros((n_columns, slots), np.int32),
        **{name: np.zeros(slots) for name in ("log_total", "product", "minus")},
    )


def _check_masses(family: ConjugateFamily, *names: str) -> None:
    for name in names:
        if not isinstance(getattr(family, name), Hyperprior):
            number(f"{type(family).__name__}: {name}", getattr(family, name), least=LEAST_MASS, most=MOST_MASS)


@dataclass(frozen=True)
class Categorical(ConjugateFamily):
    """Columns of categories (text, whole numbers, pandas categories); every level of every column has prior mass `concentration`.

    >>> import maitre as mt
    >>> family = mt.families.Categorical(concentration=0.5)
    """

    concentration: Hyperparameter = 0.5
    levels: Any = None  # one list of levels per column; from the data

    statistics = CategoricalStatistics
    POSITIVE = ("concentration",)
    AT_LEAST: ClassVar[dict[str, float]] = {"concentration": LEAST_MASS}
    SKIPS_MISSING = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_masses(self, "concentration")
        if self.levels is not None and not (isinstance(self.levels, (list, tuple)) and all(isinstance(kinds, (list, tuple)) for kinds in self.levels)):
            raise ValueError(f"Categorical: levels is {self.levels!r}; expected a list of levels for each column, e.g. [['red', 'blue'], ['round', 'square']]")

    def validate(self, data: Any, missing: bool = False) -> tuple[Ints, list[Any]]:
        return category_codes(data, missing, self.levels)

    def defaults(self, data: tuple[Ints, list[Any]]) -> dict[str, Any]:
        return {"levels": [[getattr(level, "item", lambda level=level: level)() for level in column] for column in data[1]]}

    def vectors(self, data: tuple[Ints, list[Any]], encoded: Any) -> sparse.csr_matrix:
        """A column of 0 and 1 for each level; a missing entry has none."""
        codes, levels = data
        first = np.concatenate([[0], np.cumsum([len(kinds) for kinds in levels])])
        row, column = np.nonzero(codes >= 0)
        return sparse.csr_matrix((np.ones(len(row)), (row, first[column] + codes[row, column])), shape=(len(codes), int(first[-1])))

    def encode(self, data: tuple[Ints, list[Any]]) -> dict[str, Any]:
        codes, levels = data
        return _encode(codes, [max(1, len(kinds)) for kinds in levels])

    def allocate(self, encoded: dict[str, Any], capacity: int) -> CategoricalStatistics:
        return _allocate(encoded, capacity, float(self.concentration), float(self.concentration))  # type: ignore[arg-type]

    def with_values(self, statistics: CategoricalStatistics, values: dict[str, float]) -> CategoricalStatistics:
        return statistics._replace(mass=values["concentration"], first_mass=values["concentration"])


@dataclass(frozen=True)
class BetaBernoulli(ConjugateFamily):
    """Columns of 0 and 1 (or False and True): the probability of 1 in a cluster ~ Beta(a, b).

    >>> import maitre as mt
    >>> family = mt.families.BetaBernoulli(a=1.0, b=1.0)
    """

    a: Hyperparameter = 1.0
    b: Hyperparameter = 1.0

    statistics = CategoricalStatistics
    POSITIVE = ("a", "b")
    AT_LEAST: ClassVar[dict[str, float]] = {"a": LEAST_MASS, "b": LEAST_MASS}
    SKIPS_MISSING = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_masses(self, "a", "b")

    def validate(self, data: Any, missing: bool = False) -> Ints:
        matrix = dense_matrix(data, missing)
        bad = ~np.isnan(matrix) & (matrix != 0.0) & (matrix != 1.0)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(
                f"row {row}, column {column} is {matrix[row, column]:g}; BetaBernoulli takes 0 and 1: use Categorical or GammaPoisson for other values"
            )
        return np.where(np.isnan(matrix), -1.0, matrix).astype(np.int64)

    def encode(self, codes: Ints) -> dict[str, Any]:
        return _encode(codes, [2] * codes.shape[1])

    def allocate(self, encoded: dict[str, Any], capacity: int) -> CategoricalStatistics:
        return _allocate(encoded, capacity, float(self.a), float(self.b))  # type: ignore[arg-type]

    def with_values(self, statistics: CategoricalStatistics, values: dict[str, float]) -> CategoricalStatistics:
        names = {"a": "mass", "b": "first_mass"}
        return statistics._replace(**{names[name]: value for name, value in values.items()})


Categorical.EXAMPLES = (Example(Categorical(0.7), [["a", "x"], ["b", "x"], ["a", "y"], ["c", "y"], ["c", "y"], ["a", "x"]]),)
BetaBernoulli.EXAMPLES = (Example(BetaBernoulli(0.7, 1.6), [[0, 1, 1], [0, 1, 0], [1, 0, 0], [1, 0, 1], [1, 1, 1]]),)
