"""Rankings of any length: ballots, orders of finish, lists of favourites. Equal ones are kept once, with a number for every voter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from maitre.data.rows import KINDS, Rows, _digest
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Ints

_MOST_ITEMS = 32_000
_DISTINCT = 0.8  # of the voters, from which on rankings are not often equal


class Ballots(NamedTuple):
    """Distinct rankings, one after the other, and the voters of each: what kernels read."""

    items: npt.NDArray[np.int16]  # of all distinct rankings, best first
    starts: Ints  # where each begins, and the last ends
    voters: Ints  # those of the first distinct ranking, of the second, …
    first_voter: Ints  # where the voters of each begin, and those of the last end
    ballot: Ints  # the ranking of every voter


class Rankings(Rows):
    """Rankings of `n_items` items, one per voter, best first. `raw` is the object itself."""

    KIND = "rankings"

    def __init__(self, items: Any, starts: Any, ballot: Any, n_items: int, item_names: Sequence[str] | None = None) -> None:
        super().__init__(self)
        self.items = np.asarray(items, dtype=np.int16)
        self.starts, self.ballot = np.asarray(starts, dtype=np.int64), np.asarray(ballot, dtype=np.int64)
        self.n_items = n_items
        self.item_names = None if item_names is None else [str(name) for name in item_names]

    # -- what users may give --------------------------------------------------------------------------------------------------------------

    @classmethod
    def of_lists(cls, rankings: Iterable[Iterable[Any]], n_items: int | None = None, item_names: Sequence[str] | None = None) -> Self:
        """A list of items, best first, for every voter: numbers from 0 (or positions in `item_names`), or names.

        >>> Rankings.of_lists([["tea", "milk"], ["milk"], ["tea", "milk"]]).distinct()
        [([1, 0], 2), ([0], 1)]
        """
        lists = [list(_row(v, ranking)) for v, ranking in enumerate(rankings)]
        if not lists:
            raise ValueError("there are no rankings; expected a list of items, best first, for every voter")
        named = any(isinstance(item, str) for ranking in lists for item in ranking)
        names = [str(name) for name in item_names] if item_names is not None else sorted({str(item) for row in lists for item in row}) if named else None
        if names is not None and len(set(names)) < len(names):
            raise ValueError(f"two items are named {next(name for name in names if names.count(name) > 1)!r}: give every item a name of its own")
        count = whole_number("n_items", n_items, least=2, most=_MOST_ITEMS) if n_items is not None else None
        if names is not None and count is not None and len(names) != count:
            raise ValueError(f"n_items is {count}, but there are {len(names)} names of items: give item_names, one for each")
        count = count or (len(names) if names is not None else 1 + max((_whole(item, v) for v, row in enumerate(lists) for item in row), default=0))
        if not 2 <= count <= _MOST_ITEMS:
            raise ValueError(f"there {'is' if count == 1 else 'are'} {count} item{'s' * (count != 1)}; rankings need from 2 to {_MOST_ITEMS}")
        position = {name: i for i, name in enumerate(names)} if named and names is not None else None
        return cls.of_positions((_checked(row, v, count, position) for v, row in enumerate(lists)), count, names)

    @classmethod
    def of_positions(
        cls, rankings: Iterable[Sequence[int]], n_items: int, item_names: Sequence[str] | None = None, counts: Iterable[int] | None = None
    ) -> Self:
        """Rankings whose items are positions and have been checked, each so many times."""
        number: dict[tuple[int, ...], int] = {}
        found = [number.setdefault(tuple(ranking), len(number)) for ranking in rankings]
        ballot = np.asarray(found, dtype=np.int64) if counts is None else np.repeat(found, np.fromiter(counts, dtype=np.int64))
        starts = np.concatenate([[0], np.cumsum([len(ranking) for ranking in number])])
        return cls([item for ranking in number for item in ranking], starts, ballot, n_items, item_names)

    # -- what kernels read ------------------------------------------------------------------------------------------------------------------

    def ballots(self, longest: int) -> Ballots:
        """The distinct rankings, cut off after `longest` items."""
        lengths = np.minimum(np.diff(self.starts), longest)
        kept = np.arange(self.starts[-1]) - np.repeat(self.starts[:-1], np.diff(self.starts)) < longest
        voters = np.argsort(self.ballot, kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(self.ballot, minlength=len(lengths)))])
        return Ballots(self.items[kept].copy(), np.concatenate([[0], np.cumsum(lengths)]), voters, first.astype(np.int64), self.ballot.copy())

    def ranking(self, number: int) -> list[int]:
        """A distinct ranking."""
        return [int(item) for item in self.items[self.starts[number] : self.starts[number + 1]]]

    def distinct(self) -> list[tuple[list[int], int]]:
        """Every distinct ranking and how many voters have it."""
        counts = np.bincount(self.ballot, minlength=len(self.starts) - 1)
        return [(self.ranking(number), int(count)) for number, count in enumerate(counts)]

    def lists(self) -> list[list[int]]:
        """The ranking of every voter."""
        return [self.ranking(number) for number in self.ballot]

    def name_of(self, item: int) -> str:
        """What an item is called."""
        return str(item) if self.item_names is None else self.item_names[item]

    @property
    def often_equal(self) -> bool:
        """Whether many voters have the same ranking as others, as is the case with ballots."""
        return len(self.starts) - 1 < _DISTINCT * self.n

    # -- rows -------------------------------------------------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        return len(self.ballot)

    @property
    def names(self) -> list[Any] | None:
        return self.item_names

    @property
    def n_columns(self) -> int:
        return self.n_items

    def select(self, rows: Any) -> Self:
        chosen = self.ballot[rows]
        distinct, ballot = np.unique(chosen, return_inverse=True)
        order = np.argsort(np.unique(chosen, return_index=True)[1])
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        lists = [self.ranking(number) for number in distinct[order]]
        starts = np.concatenate([[0], np.cumsum([len(ranking) for ranking in lists])])
        return type(self)([item for ranking in lists for item in ranking], starts, rank[ballot], self.n_items, self.item_names)

    def take(self, columns: Sequence[int]) -> Self:
        raise ValueError("items cannot be left out of rankings: what was ranked below them would change its place")

    def column(self, position: int) -> Any:
        raise ValueError("rankings have no columns")

    def alike(self, new: Any) -> Self:
        if isinstance(new, (str, Path)):
            from maitre.data.preflib import read_preflib

            new = read_preflib(Path(new), known=self.item_names)
        if not isinstance(new, Rankings):
            return type(self).of_lists(new, self.n_items, self.item_names)
        if new.n_items != self.n_items or new.item_names != self.item_names:
            raise ValueError("the new rankings are of other items than the model was fitted to")
        return new  # type: ignore[return-value]

    def concatenate(self, new: Any) -> Self:
        return type(self).of_positions([*self.lists(), *self.alike(new).lists()], self.n_items, self.item_names)

    def fingerprint(self) -> str:
        return _digest(f"{self.KIND} {self.n_items} {self.item_names!r}", self.items, self.starts, self.ballot)

    def save(self, folder: Path) -> str:
        names = np.array([] if self.item_names is None else self.item_names, dtype=str)
        np.savez(folder / "rankings.npz", items=self.items, starts=self.starts, ballot=self.ballot, n_items=self.n_items, names=names)
        return "rankings.npz"

    @classmethod
    def load(cls, file: Path) -> Self:
        with np.load(file, allow_pickle=False) as stored:
            names = [str(name) for name in stored["names"]] or None
            return cls(stored["items"], stored["starts"], stored["ballot"], int(stored["n_items"]), names)


KINDS[Rankings.KIND] = Rankings


def as_rankings(data: Any, n_items: int | None = None) -> Rankings:
    """What a user may give as rankings: `Rankings`, a PrefLib file by its name, or a list of items, best first, for every voter."""
    if isinstance(data, Rankings):
        if n_items is not None and data.n_items != n_items:
            raise ValueError(f"the family is for {n_items} items, the rankings are of {data.n_items}")
        return data
    if isinstance(data, (str, Path)):
        from maitre.data.preflib import read_preflib

        return as_rankings(read_preflib(Path(data)), n_items)
    if data is None or isinstance(data, (bytes, dict)) or not isinstance(data, Iterable):
        raise ValueError(f"the rankings are {type(data).__name__}; expected a list of items, best first, for every voter, or the name of a PrefLib file")
    return Rankings.of_lists(data, n_items)


def _row(voter: int, ranking: Any) -> Iterable[Any]:
    if isinstance(ranking, (str, bytes)) or not isinstance(ranking, Iterable):
        raise ValueError(f"the ranking of voter {voter} is {ranking!r}; expected a list of items, best first")
    return ranking


def _whole(item: Any, voter: int) -> int:
    try:
        value = int(item)
    except (TypeError, ValueError):
        value = -1
    if value != item or value < 0 or isinstance(item, (bool, np.bool_)):
        raise ValueError(f"voter {voter} ranks {item!r}; expected items as whole numbers from 0, or as names")
    return value


def _checked(ranking: list[Any], voter: int, n_items: int, position: dict[str, int] | None) -> list[int]:
    """Items as positions, each once."""
    if not ranking:
        raise ValueError(f"the ranking of voter {voter} is empty: leave the voter out")
    if position is None:
        found = [_whole(item, voter) for item in ranking]
        wrong = next((item for item in found if item >= n_items), None)
        if wrong is not None:
            raise ValueError(f"voter {voter} ranks item {wrong}; there are {n_items} items, 0 to {n_items - 1}")
    else:
        unknown = next((item for item in ranking if str(item) not in position), None)
        if unknown is not None:
            raise ValueError(f"voter {voter} ranks {unknown!r}, which is not one of the {n_items} items")
        found = [position[str(item)] for item in ranking]
    if len(set(found)) < len(found):
        twice = next(item for i, item in enumerate(ranking) if item in ranking[:i])
        raise ValueError(f"voter {voter} ranks {twice!r} twice: a ranking names every item once at most")
    return found
