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

_MOST_WORDS = 2**31 - 1
_AT_ONCE = 2**18  # entries of a matrix


class GroupedRows(Rows):
    """Rows with the place where each group begins, and where the last one ends. `order[i]` is which of the rows that were given stands at place i, if not the i-th.

    Groups of words have `n_words` of them, and may have a `vocabulary` with their names.
    """

    KIND = "groups"

    def __init__(
        self, rows: Rows, starts: Ints, order: Ints | None = None, group_names: Any = None, n_words: int | None = None, vocabulary: Any = None
    ) -> None:
        super().__init__(rows.raw)
        self.rows, self.starts, self.order, self.n_words = rows, starts, order, n_words
        self.vocabulary = None if vocabulary is None else np.asarray(vocabulary, dtype=str)
        self.group_names = np.arange(len(starts) - 1) if group_names is None else np.asarray(group_names)

    @classmethod
    def of_counts(cls, counts: Any, vocabulary: Any = None, names: Any = None) -> Self:
        """A corpus: counts of words (columns) in documents (rows), and what these are called. The columns of a table have names."""
        vocabulary = [str(name) for name in counts.columns] if vocabulary is None and hasattr(counts, "columns") else vocabulary
        matrix = counted_words(counts)
        if matrix.nnz == 0:
            raise ValueError("there are no words in any document")
        for what, given, expected in (("vocabulary", vocabulary, matrix.shape[1]), ("list of names", names, matrix.shape[0])):
            if given is not None and len(given) != expected:
                raise ValueError(f"the {what} has {len(given)} entries for counts of {matrix.shape[1]} words in {matrix.shape[0]} documents")
        starts = np.concatenate([[0], np.cumsum(np.asarray(matrix.sum(axis=1)))]).astype(np.int64)
        words, place = np.empty(starts[-1], dtype=np.int32), 0
        for first in range(0, matrix.nnz, _AT_ONCE):
            found = np.repeat(matrix.indices[first : first + _AT_ONCE], matrix.data[first : first + _AT_ONCE])
            words[place : place + len(found)] = found
            place += len(found)
        return cls(ArrayRows(words), starts, None, names, matrix.shape[1], vocabulary)

    @classmethod
    def of_index(cls, data: Any, groups: Any) -> Self:
        """Rows of data with a group each, given as numbers or names; groups stand in the order of these."""
        rows, index = as_data(data), np.asarray(groups)
        if index.ndim != 1 or len(index) != rows.n:
            raise ValueError(f"the groups have shape {index.shape} for {rows.n} points: give one group per point")
        try:
            names, codes = np.unique(index, return_inverse=True)
        except TypeError:
            raise ValueError("the groups are of different types, or missing for some points: give one number or name per point") from None
        if names.dtype.kind == "f" and np.isnan(names).any():
            raise ValueError(f"the group of point {int(np.flatnonzero(np.isnan(index))[0])} is missing")
        order = np.argsort(codes, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(names)))]).astype(np.int64)
        return cls(rows.select(order), starts, order, names if names.dtype.kind != "O" else names.astype(str))

    def frequencies(self) -> Any:
        """The square roots of the shares of words in documents, a sparse row of length 1 for each that is not empty."""
        words, begins = self.rows.raw, np.ones(self.n, dtype=np.bool_)
        begins[1:] = words[1:] != words[:-1]
        begins[self.starts[:-1][np.diff(self.starts) > 0]] = True
        first = np.flatnonzero(begins)
        counts, places = np.diff(np.append(first, self.n)), np.searchsorted(first, self.starts)
        shares = counts / np.repeat(np.diff(self.starts), np.diff(places))
        return sparse.csr_matrix((np.sqrt(shares), words[first], places), shape=(self.n_groups, self.n_words))

    def in_given_order(self, values: Any) -> Any:
        """Values over points, last, in the order in which the points were given."""
        if self.order is None:
            return values
        back = np.empty_like(self.order)
        back[self.order] = np.arange(len(self.order))
        return np.asarray(values)[..., back]

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
        return type(self)(self.rows.take(columns), self.starts, self.order, self.group_names)

    def column(self, position: int) -> Any:
        return self.rows.column(position)

    def alike(self, new: Any) -> Any:
        return self.rows.alike(new)

    def concatenate(self, new: Any) -> Any:
        raise ValueError("points cannot be added to groups that have been sampled: sample all of them")

    def renamed(self, names: Any) -> GroupedRows:
        """The same groups with these column names, if there are names."""
        return GroupedRows(self.rows.renamed(names), self.starts, self.order, self.group_names) if isinstance(self.rows, TableRows) else self

    def fingerprint(self) -> str:
        return f"{self.rows.fingerprint()}-{ArrayRows(self.starts).fingerprint()}"

    def save(self, folder: Path) -> str:
        inner = self.rows.save(folder)
        order = np.empty(0, dtype=np.int64) if self.order is None else self.order
        words = np.empty(0, dtype="U1") if self.vocabulary is None else self.vocabulary
        values: dict[str, Any] = {"names": self.group_names, "n_words": self.n_words or 0, "vocabulary": words}
        np.savez(folder / "groups.npz", starts=self.starts, order=order, inner=inner, kind=self.rows.KIND, **values)
        return "groups.npz"

    @classmethod
    def load(cls, file: Path) -> Self:
        with np.load(file, allow_pickle=False) as stored:
            starts, order, inner, kind = stored["starts"], stored["order"], str(stored["inner"]), str(stored["kind"])
            names, n_words, words = stored["names"], int(stored["n_words"]) or None, stored["vocabulary"]
        return cls(KINDS[kind].load(file.parent / inner), starts, order if len(order) else None, names, n_words, words if len(words) else None)


KINDS[GroupedRows.KIND] = GroupedRows


def as_groups(groups: Any) -> GroupedRows:
    """What a user may give: counts of words, a row per document, or a pair (data, group of each point)."""
    if isinstance(groups, GroupedRows):
        return groups
    return GroupedRows.of_index(*groups) if isinstance(groups, tuple) and len(groups) == 2 else GroupedRows.of_counts(groups)


def counted_words(counts: Any) -> Any:
    """A sparse matrix of whole numbers, words sorted within documents, or a `ValueError` that says where it is none. It may be the one that was given."""
    try:
        if np.ndim(counts) == 1:
            raise ValueError
        matrix = sparse.csr_matrix(counts)
    except (TypeError, ValueError):
        raise ValueError(
            "the counts of words are no matrix of numbers with a row per document: use scikit-learn's CountVectorizer for texts, or give a pair (data, group of each point)"
        ) from None
    if matrix.shape[1] == 0:
        raise ValueError("the vocabulary is empty: the counts have no columns")
    bad = np.flatnonzero((matrix.indices < 0) | (matrix.indices >= matrix.shape[1]))
    if len(bad):
        raise ValueError(
            f"document {_row(matrix, bad[0])} has the word {matrix.indices[bad[0]]}, which is out of range: words are numbered from 0 to {matrix.shape[1] - 1}"
        )
    good = matrix.data >= 0
    if matrix.data.dtype.kind not in "iub":
        good &= np.isfinite(matrix.data) & (matrix.data == np.floor(matrix.data))
    bad = np.flatnonzero(~good)
    if len(bad):
        raise ValueError(
            f"the count of word {matrix.indices[bad[0]]} in document {_row(matrix, bad[0])} is {matrix.data[bad[0]]}; counts are whole numbers of at least 0"
        )
    whole = matrix.data if matrix.data.dtype.kind in "iu" and np.can_cast(matrix.data.dtype, np.int64) else matrix.data.astype(np.int64)
    if not matrix.has_canonical_format or not np.all(whole):
        matrix = sparse.csr_matrix((whole.astype(np.int64), matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    elif whole is not matrix.data:
        matrix = sparse.csr_matrix((whole, matrix.indices, matrix.indptr), shape=matrix.shape)
    total = float(matrix.data.sum(dtype=np.float64))
    if total > _MOST_WORDS:
        raise ValueError(f"there are {total:,.0f} words in all; at most {_MOST_WORDS:,} can be sampled: are these counts?")
    return matrix


def _row(matrix: Any, place: int) -> int:
    """The row that a stored entry of a matrix is in."""
    return int(np.searchsorted(matrix.indptr, place, side="right")) - 1
