"""How far two partitions are from each other, and how much they share.

Everything follows from the contingency table n_ij (points in cluster i of one partition and j of the other), of which only the cells that hold a
point are kept: at most n, whatever the numbers of clusters. Logarithms are natural. Labels are names of any kind; every value, also −1, names a
cluster. With fewer than two points no pair can disagree, and the partitions count as equal.

Meilă (2007), Comparing clusterings: an information based distance; Hubert & Arabie (1985), Comparing partitions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maitre.numerics.arrays import Ints


class Contingency(NamedTuple):
    """The cells of the contingency table that hold a point."""

    n: int
    cells: Ints  # n_ij
    rows: Ints  # n_i, once for each cell
    columns: Ints  # n_j, once for each cell
    row_sizes: Ints  # n_i, once for each cluster
    column_sizes: Ints


class Pairs(NamedTuple):
    """Numbers of pairs of points: in one cluster of both partitions, of the first, of the second, and all there are."""

    both: int
    first: int
    second: int
    total: int


def _codes(labels: Any) -> Ints:
    """Labels as 0, 1, …; found by hashing, so that a million of them take milliseconds."""
    import pandas as pd

    values = np.asarray(labels)
    if values.ndim != 1:
        raise ValueError(f"labels have {values.ndim} dimensions; expected one label per point: give a flat array")
    return np.asarray(pd.factorize(values, use_na_sentinel=False)[0], dtype=np.int64)


def contingency(a: Any, b: Any) -> Contingency:
    """The sparse contingency table of two label arrays.

    >>> contingency(["x", "x", "y"], [5, 6, 6]).cells.tolist()
    [1, 1, 1]
    """
    row, column = _codes(a), _codes(b)
    if len(row) != len(column):
        raise ValueError(
            f"the partitions have {len(row)} and {len(column)} labels; expected one label per point in both: compare partitions of the same points"
        )
    row_sizes, column_sizes = np.bincount(row), np.bincount(column)
    cell = _codes(row * len(column_sizes) + column)
    cells = np.bincount(cell)
    rows, columns = np.empty_like(cells), np.empty_like(cells)
    rows[cell], columns[cell] = row_sizes[row], column_sizes[column]
    return Contingency(len(row), cells, rows, columns, row_sizes, column_sizes)


def _n_pairs(sizes: Ints) -> int:
    return int((sizes * (sizes - 1) // 2).sum())


def _pairs(a: Any, b: Any) -> Pairs:
    table = contingency(a, b)
    return Pairs(_n_pairs(table.cells), _n_pairs(table.row_sizes), _n_pairs(table.column_sizes), table.n * (table.n - 1) // 2)


def variation_of_information(a: Any, b: Any) -> float:
    """H(a | b) + H(b | a) = Σ_ij n_ij/n · (log n_i/n_ij + log n_j/n_ij), in nats: a metric, 0 for equal partitions and at most log n.

    >>> round(variation_of_information([0, 0, 1, 1], [0, 0, 0, 0]), 6)
    0.693147
    """
    table = contingency(a, b)
    surprise = np.log(table.rows / table.cells) + np.log(table.columns / table.cells)
    return float((table.cells * surprise).sum() / max(table.n, 1))


def mutual_information(a: Any, b: Any) -> float:
    """Σ_ij n_ij/n · log(n n_ij / (n_i n_j)), in nats: what one partition tells about the other.

    >>> round(mutual_information([0, 0, 1, 1], [1, 1, 0, 0]), 6)
    0.693147
    """
    table = contingency(a, b)
    lift = np.log(table.cells / table.rows) + np.log(table.n / table.columns)
    return max(0.0, float((table.cells * lift).sum() / max(table.n, 1)))


def binder(a: Any, b: Any) -> float:
    """The share of pairs on which the partitions disagree (together in one, apart in the other): Binder's loss with equal costs, 1 − Rand.

    >>> binder([0, 0, 1], [0, 1, 1]) == 2 / 3
    True
    """
    pairs = _pairs(a, b)
    return (pairs.first + pairs.second - 2 * pairs.both) / max(pairs.total, 1)


def rand(a: Any, b: Any) -> float:
    """The share of pairs on which the partitions agree.

    >>> rand([0, 0, 1], [0, 1, 1]) == 1 / 3
    True
    """
    pairs = _pairs(a, b)
    disagreements = pairs.first + pairs.second - 2 * pairs.both
    return (pairs.total - disagreements) / pairs.total if pairs.total else 1.0


def adjusted_rand(a: Any, b: Any) -> float:
    """The Rand index corrected for chance: (TP − E) / ((A + B)/2 − E) with E = AB/T, A and B the pairs together in each partition, T all pairs.

    0 is what random labels of the same sizes give on average, 1 is equality. In whole numbers until the last division.

    >>> adjusted_rand([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    """
    pairs = _pairs(a, b)
    range_ = (pairs.first + pairs.second) * pairs.total - 2 * pairs.first * pairs.second
    return 2 * (pairs.both * pairs.total - pairs.first * pairs.second) / range_ if range_ else 1.0


def pairwise_f1(truth: Any, labels: Any) -> float:
    """F1 = 2 TP / (A + B) over pairs: TP pairs together in both, A in the truth, B in the labels; 1 if neither puts any pair together.

    >>> pairwise_f1([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 2])
    0.5
    """
    pairs = _pairs(truth, labels)
    together = pairs.first + pairs.second
    return 2 * pairs.both / together if together else 1.0
