"""What families of rankings share: how data come in, and products of many probabilities.

In their statistics the points of `maitre.families.statistics` are distinct rankings; whatever slots have that is not integrated out is conditioned on.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from maitre.data.rankings import Ballots, Rankings, as_rankings
from maitre.families.base import Family
from maitre.families.statistics import dispatched
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import compiled, compiled_apart

TINY, LEAST = 1e-100, 1e-290


@compiled
def set_aside(product: float, logs: float) -> tuple[float, float]:
    """A product of probabilities that has become small begins at 1 again, its logarithm set aside."""
    if product < TINY:
        return 1.0, logs + math.log(max(product, LEAST))
    return product, logs


@compiled
def count_copies(ballots: Ints, first: int, n: int) -> int:
    """How many of n rankings, from the given one on, are equal to it."""
    copies = 1
    while first + copies < n and ballots[first + copies] == ballots[first]:
        copies += 1
    return copies


@compiled_apart
def items_left(s: Any, d: int) -> Ints:
    """The items that ranking d does not have."""
    begin, end = s.starts[d], s.starts[d + 1]
    left, ranked, found = np.empty(s.n_items - (end - begin), dtype=np.int64), np.zeros(s.n_items, dtype=np.int64), 0
    for j in range(begin, end):
        ranked[s.items[j]] = 1
    for item in range(s.n_items):
        if ranked[item] == 0:
            left[found] = item
            found += 1
    return left


@dispatched(allocates=True)
def open_with(s: Any, k: int, d: int, rng: Any) -> None:
    """Whatever slot k has that is not integrated out (an ordering, dispersions, worths), drawn given ranking d alone."""


class RankingFamily(Family):
    """A component model of rankings of `n_items` items, of any length."""

    n_items: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_items is not None:
            whole_number("n_items", self.n_items, least=2, most=32_000)

    def rows(self, data: Any) -> Rankings:
        """What a user gave, as rankings."""
        return as_rankings(data, self.n_items)

    def validate(self, data: Any) -> Rankings:
        return self.rows(data)

    def defaults(self, data: Rankings) -> dict[str, Any]:
        return {"n_items": data.n_items}

    def encode(self, data: Rankings) -> Ballots:
        """The last of n items says nothing that the others have not said: rankings are cut off before it."""
        return data.ballots(data.n_items - 1)

    @staticmethod
    def log_alone(n_items: int, longest: int) -> Floats:
        """(longest + 1,): ln (n − t)!/n!, the probability of one ranking of t items alone."""
        return np.array([math.lgamma(n_items - t + 1.0) - math.lgamma(n_items + 1.0) for t in range(longest + 1)])

    @abstractmethod
    def allocate(self, encoded: Ballots, capacity: int) -> Any: ...

    def vectors(self, data: Rankings, encoded: Ballots) -> Floats:
        """The place of every item in every voter's ranking; items not ranked share the mean of the places left."""
        n, matrix = data.n_items, np.empty((data.n, data.n_items))
        rows = []
        for ranking, _ in data.distinct():
            row = np.full(n, 0.5 * (len(ranking) + n - 1))
            row[ranking] = np.arange(len(ranking))
            rows.append(row)
        matrix[:] = np.array(rows)[data.ballot]
        return matrix
