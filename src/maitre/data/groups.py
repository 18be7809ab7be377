"""Points in groups: the words of documents, the cells of patients, the pupils of schools.

Points of one group stand together, groups one after the other. Words of a corpus come as a sparse matrix of counts, a row per document: in a document they are
sorted by number, a word's copies side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse

from maitre.data.rows import KINDS, ArrayRows, Rows, TableRows, as_data
from maitre.numerics.arrays import Ints


class GroupedRows(Rows):
    """Rows with the place where each group begins, and where the last one ends. `order[i]` is which of the rows that were given stands at place i, if not the i-th."""

    KIND = "groups"

    def __init__(self, rows: Rows, starts: Ints, order: Ints | None = None) -> None:
        super().__init__(rows.raw)
        self.rows, self.starts, self.order = rows, starts, order

    @classmethod
    def of_counts(cls, counts: Any) -> Self:
        """A corpus: counts of words (columns) in documents (rows)."""
        matrix = counted_words(counts)
        words = np.repeat(matrix.indices.astype(np.int32), matrix.data)
        lengths = np.asarray(matrix.sum(axis=1)).ravel()
        return cls(ArrayRows(words), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    @classmethod
    def of_index(cls, data: Any, groups: Any) -> Self:
        """Rows of data with a group each, given as numbers or names; groups stand in the order of these."""
        rows, index = as_data(data), np.asarray(groups)
        if index.ndim != 1 or len(index) != rows.n:
            raise ValueError(f"the groups have shape {index.shape} for {rows.n} points: give one group per point")
        names, codes = np.unique(index, return_inverse=True)
        order = np.argsort(codes, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(names)))]).astype(np.int64)
        return cls(rows.select(order), starts, order)

    @property
    def n(self) -> int:
        return self.rows.n

    @property
    def n_groups(self) -> int:
        """How many groups there are, empty ones among them."""
        return len(self.starts) - 1

    @property
    def n_columns(self) -> int:
        return self.rows.n_columns

    @property
    def names(self) -> list[Any] | None:
        return self.rows.names

    def select(self, rows: Any) -> Any:
        return self.rows.select(rows)

    def take(self, columns: Sequence[int]) -> Any:
        return type(self)(self.rows.take(columns), self.starts, self.order)

    def column(self, position: int) -> Any:
        return self.rows.column(position)

    def alike(self, new: Any) -> Any:
        return self.rows.alike(new)

    def concatenate(self, new: Any) -> Any:
        raise ValueError("points cannot be added to groups that have been sampled: sample all of them")

    def renamed(self, names: Any) -> GroupedRows:
        """The same groups with these column names, if there are names."""
        return GroupedRows(self.rows.renamed(names), self.starts, self.order) if isinstance(self.rows, TableRows) else self

    def fingerprint(self) -> str:
        return f"{self.rows.fingerprint()}-{ArrayRows(self.starts).fingerprint()}"

    def save(self, folder: Path) -> str:
        inner = self.rows.save(folder)
        np.savez(
            folder / "groups.npz", starts=self.starts, order=np.empty(0, dtype=np.int64) if self.order is None else self.order, inner=inner, kind=self.rows.KIND
        )
        return "groups.npz"

    @classmethod
    def load(cls, file: Path) -> Self:
        with np.load(file, allow_pickle=False) as stored:
            starts, order, inner, kind = stored["starts"], stored["order"], str(stored["inner"]), str(stored["kind"])
        return cls(KINDS[kind].load(file.parent / inner), starts, order if len(order) else None)


KINDS[GroupedRows.KIND] = GroupedRows


def counted_words(counts: Any) -> Any:
    """A sparse matrix of whole numbers, words sorted within documents, or a `ValueError` that says where it is none."""
    matrix = sparse.csr_matrix(counts)
    matrix = matrix.copy() if matrix is counts else matrix
    matrix.sum_duplicates()
    matrix.sort_indices()
    if matrix.shape[1] == 0:
        raise ValueError("the vocabulary is empty: the counts have no columns")
    bad = np.flatnonzero(~(np.isfinite(matrix.data) & (matrix.data >= 0) & (matrix.data == np.floor(matrix.data))))
    if len(bad):
        document = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        raise ValueError(
            f"the count of word {matrix.indices[bad[0]]} in document {document} is {matrix.data[bad[0]]!r}; counts are whole numbers of at least 0"
        )
    matrix.eliminate_zeros()
    matrix.data = matrix.data.astype(np.int64)
    if matrix.nnz == 0:
        raise ValueError("there are no words in any document")
    return matrix
