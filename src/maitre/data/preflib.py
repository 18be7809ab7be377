"""Rankings from files: PrefLib's .soc, .soi, .toc and .toi, tables of orderings or of rank vectors, and tables in long form. Errors name file and line.

Mattei & Walsh (2013), PrefLib: a library for preferences.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maitre.data.rankings import Rankings
from maitre.numerics.arguments import one_of

PREFLIB = (".soc", ".soi", ".toc", ".toi")
_NAME = re.compile(r"#\s*ALTERNATIVE NAME\s+(\d+)\s*:\s*(.*)", re.IGNORECASE)
_ITEMS = re.compile(r"#\s*NUMBER ALTERNATIVES\s*:\s*(\d+)", re.IGNORECASE)
_PLACE = re.compile(r"\d|first|second|third|fourth|fifth|place|rank|choice|best", re.IGNORECASE)
_ONLY_A_PLACE = re.compile(r"(place|rank|choice|position)[ _-]?\d+|\d+(st|nd|rd|th)|(first|second|third|fourth|fifth)( (place|choice))?", re.IGNORECASE)
_TIED = re.compile(r"([^{}]|\{[^{}]*\})*")
_LEFT_OUT = ("", "0", "na", "nan", "-", "none")
TIES = ("refuse", "random")


def read_preflib(path: str | Path, ties: str = "refuse", seed: int = 0, known: Sequence[str] | None = None) -> Rankings:
    """Rankings from a PrefLib file, plain or .gz; items keep the file's names, or are found among those that are known. Ties ({a,b}) are refused, or broken at random."""
    path = Path(path)
    one_of("ties", ties, TIES)
    rng = np.random.default_rng(seed)
    names: dict[int, str] = {}
    named_in: dict[int, int] = {}
    n_items, rankings, counts = 0, [], []
    for number, line in _lines(path):
        where, text = f"{path.name}, line {number}", line.strip()
        if text.startswith("#"):
            name, count = _NAME.match(text), _ITEMS.match(text)
            if name:
                names[int(name[1])], named_in[int(name[1])] = name[2].strip() or name[1], number
            if count:
                n_items = int(count[1])
            continue
        if not text:
            continue
        if not names and not n_items:
            raise ValueError(
                f"{where}: {_cut(text)!r} stands before any '# ALTERNATIVE NAME' or '# NUMBER ALTERNATIVES': this is no PrefLib file of the present form"
            )
        n_items = n_items or max(names)
        count_text, colon, ranking = text.partition(":")
        if not colon or not count_text.strip().isdigit():
            raise ValueError(f"{where}: {_cut(text)!r}; expected a count, a colon and items, as in '12: 3,1,2'")
        for voters, order in _unbound(where, int(count_text), ranking, ties, rng):
            rankings.append([_position(where, item, n_items) for item in order])
            counts.append(voters)
            _once(where, order)
    if not rankings:
        raise ValueError(f"{path.name} has no rankings")
    if n_items < 2:
        raise ValueError(f"{path.name} has {n_items} item; rankings need at least 2")
    lines = [named_in.get(item, 1) for item in range(1, n_items + 1)]
    return _of_items(path, rankings, _named(names, n_items), known, lines, counts)


def _named(names: dict[int, str], n_items: int) -> list[str]:
    found = [names.get(item, str(item)) for item in range(1, n_items + 1)]
    return found if len(set(found)) == n_items else [f"{item} {name}" for item, name in enumerate(found, 1)]


def _unbound(where: str, count: int, ranking: str, ties: str, rng: Any) -> Iterator[tuple[int, list[str]]]:
    """Rankings without ties; broken at random, every voter's own way."""
    if not _TIED.fullmatch(ranking):
        raise ValueError(f"{where}: {_cut(ranking.strip())!r}: braces go around items that are tied, as in '3,{{1,2}}'")
    groups = [[item.strip() for item in part.strip("{}").split(",") if item.strip()] for part in re.findall(r"\{[^}]*\}|[^,{}]+", ranking) if part.strip()]
    if not groups or not any(groups):
        raise ValueError(f"{where}: an empty ranking: leave the line out")
    if all(len(group) == 1 for group in groups):
        yield count, [group[0] for group in groups]
        return
    if ties == "refuse":
        tied = next(group for group in groups if len(group) > 1)
        raise ValueError(
            f"{where}: items {', '.join(tied)} are tied, and a ranking here is an order without ties: break them at random (--ties random), or leave such lines out"
        )
    for _ in range(count):
        yield 1, [group[i] for group in groups for i in rng.permutation(len(group))]


def read_orderings(path: str | Path, known: Sequence[str] | None = None) -> Rankings:
    """A table with a row for each voter, whose columns are places: the item in the first place, in the second, …; empty, 0 or NA after the last. The first row is a heading."""
    path = Path(path)
    rows = _table(path)
    heading, lists, numbers = next(rows)[1], [], []
    if {"voter", "rank", "item"} <= {name.strip().lower() for name in heading}:
        raise ValueError(f"{path.name}, line 1: the columns are {', '.join(heading)}: is this a table in long form? Then say so (--format long)")
    for number, row in rows:
        where = f"{path.name}, line {number}"
        cells = [cell.strip() for cell in row]
        filled = [cell for cell in cells if cell.lower() not in _LEFT_OUT]
        if len(filled) and cells[: len(filled)] != filled:
            gap = next(i for i, cell in enumerate(cells) if cell.lower() in _LEFT_OUT)
            raise ValueError(f"{where}: place {gap + 1} is empty, and later places are not: is this a table of rank vectors? Then say so (--format ranks)")
        if not filled:
            raise ValueError(f"{where}: an empty ranking: leave the line out")
        _once(where, filled)
        lists.append(filled)
        numbers.append(number)
    if lists and not any(_PLACE.search(name) for name in heading) and all(_is_place(item) and float(item) <= len(heading) for row in lists for item in row):
        raise ValueError(
            f"{path.name}, line {numbers[0]}: {', '.join(lists[0])} are places as well as items, and the columns are called {_cut(', '.join(heading))}: is this a table of"
            " rank vectors? Then say so (--format ranks); if not, call the columns 1, 2, …"
        )
    _no_ranking(path, heading, {item for row in lists for item in row})
    return _of_lists(path, lists, numbers, known, len(heading))


def read_ranks(path: str | Path, known: Sequence[str] | None = None) -> Rankings:
    """A table with a row for each voter, whose columns are items, named in the first row: the place of each, 1 the best; empty, 0 or NA for an item not ranked."""
    path = Path(path)
    rows = _table(path)
    names = [name.strip() for name in next(rows)[1]]
    if len(names) < 2:
        raise ValueError(f"{path.name} has {len(names)} column; a table of rank vectors has a column for each of at least 2 items")
    if len(set(names)) < len(names):
        raise ValueError(f"{path.name}, line 1: two items are named {next(name for name in names if names.count(name) > 1)!r}")
    if all(_ONLY_A_PLACE.fullmatch(name) for name in names):
        raise ValueError(
            f"{path.name}, line 1: the columns are called {_cut(', '.join(names))}, like places: is this a table of orderings? Then say so (--format orderings); if"
            " not, call the columns as the items"
        )
    if all(_is_place(name) for name in names):
        _no_ranking(path, names, set(names))
    rankings = []
    for number, row in rows:
        where = f"{path.name}, line {number}"
        if len(row) != len(names):
            raise ValueError(f"{where}: {len(row)} values for {len(names)} items")
        places = {item: cell.strip() for item, cell in enumerate(row) if cell.strip().lower() not in _LEFT_OUT}
        wrong = next((cell for cell in places.values() if not _is_place(cell)), None)
        if wrong is not None:
            raise ValueError(f"{where}: {wrong!r} is no place; expected whole numbers from 1: is this a table of orderings? Then say so (--format orderings)")
        order = sorted(places, key=lambda item: float(places[item]))
        if [float(places[item]) for item in order] != list(range(1, len(order) + 1)):
            raise ValueError(f"{where}: the places are {', '.join(places.values()) or 'all empty'}; expected 1, 2, …, each once")
        if not order:
            raise ValueError(f"{where}: an empty ranking: leave the line out")
        rankings.append(order)
    if not rankings:
        raise ValueError(f"{path.name} has no rankings")
    return _of_items(path, rankings, names, known, [1] * len(names))


def read_long(path: str | Path, known: Sequence[str] | None = None) -> Rankings:
    """A table with columns voter, rank and item, in any order: a row for each item that a voter ranks."""
    path = Path(path)
    rows = _table(path)
    heading = [name.strip().lower() for name in next(rows)[1]]
    missing = [name for name in ("voter", "rank", "item") if name not in heading]
    if missing:
        raise ValueError(f"{path.name}, line 1: no column {missing[0]!r}; a table in long form has the columns voter, rank and item")
    at = [heading.index(name) for name in ("voter", "rank", "item")]
    ballots: dict[str, dict[int, tuple[str, int]]] = {}
    for number, row in rows:
        where = f"{path.name}, line {number}"
        if len(row) < len(heading):
            raise ValueError(f"{where}: {len(row)} values for {len(heading)} columns")
        voter, rank, item = (row[i].strip() for i in at)
        if not _is_place(rank) or not item:
            raise ValueError(f"{where}: rank {rank!r} of item {item!r}; expected a whole number from 1, and an item")
        ballot = ballots.setdefault(voter, {})
        place = int(float(rank))
        if place in ballot:
            raise ValueError(
                f"{where}: voter {voter} has two items at rank {place} ({ballot[place][0]!r} in line {ballot[place][1]}): a ranking here has no ties"
            )
        twice = next((line for known, line in ballot.values() if known == item), None)
        if twice is not None:
            raise ValueError(f"{where}: voter {voter} ranks {item!r} twice (before in line {twice})")
        ballot[place] = item, number
    lists, numbers = [], []
    for voter, ballot in ballots.items():
        order = sorted(ballot)
        if order != list(range(1, len(order) + 1)):
            raise ValueError(
                f"{path.name}, line {ballot[order[0]][1]}: voter {voter} has the ranks {', '.join(map(str, order))}; expected 1, 2, … without gaps"
            )
        lists.append([ballot[place][0] for place in order])
        numbers.append(ballot[order[0]][1])
    return _of_lists(path, lists, numbers, known, 0)


FORMATS = {"orderings": read_orderings, "ranks": read_ranks, "long": read_long}


def read_rankings(path: str | Path, form: str | None = None, ties: str = "refuse", seed: int = 0, known: Sequence[str] | None = None) -> Rankings:
    """Rankings from a file: PrefLib's by its ending, a table in the form that is asked for; of the file's own items, or of those that are known."""
    path = Path(path)
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}")
    if form == "preflib" or (form is None and suffix in PREFLIB):
        return read_preflib(path, ties, seed, known)
    if form is None:
        raise ValueError(
            f"{path.name} may be a table of orderings (columns are places), of rank vectors (columns are items) or in long form (voter, rank, item): say which with --format orderings, ranks or long"
        )
    return FORMATS[one_of("format", form, (*FORMATS, "preflib"))](path, known)


# -- lines ------------------------------------------------------------------------------------------------------------------------------------


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.name.lower().endswith(".gz") else path.open(encoding="utf-8") as file:
            yield from enumerate(file, 1)
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"{path.name} cannot be read as text ({error})") from None


def _table(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows with their line numbers, empty lines left out."""
    lines = (line for _, line in _lines(path))
    first = next(lines, "")
    reader = csv.reader(itertools.chain([first], lines), delimiter=max(",;\t", key=first.count))
    found = False
    for row in reader:
        if any(cell.strip() for cell in row) or (row and found):
            found = True
            yield reader.line_num, row
    if not found:
        raise ValueError(f"{path.name} is empty")


def _of_lists(path: Path, lists: list[list[str]], numbers: list[int], known: Sequence[str] | None, n_places: int) -> Rankings:
    """Rankings of items as they are written in a table: numbers from 1, or names."""
    if not lists:
        raise ValueError(f"{path.name} has no rankings")
    names = {item for row in lists for item in row}
    if all(_is_place(item) for item in names):
        lists = [[str(int(float(item))) for item in row] for row in lists]
        known = known or [str(i + 1) for i in range(max(n_places, *(int(float(item)) for item in names)))]
    known = known or sorted(names)
    if len(known) < 2:
        raise ValueError(f"{path.name} has {len(known)} item; rankings need at least 2")
    position = {name: i for i, name in enumerate(known)}
    for row, number in zip(lists, numbers, strict=True):
        unknown = next((item for item in row if item not in position), None)
        if unknown is not None:
            raise ValueError(f"{path.name}, line {number}: {unknown!r} is not one of the {len(known)} items")
        _once(f"{path.name}, line {number}", row)
    return Rankings.of_positions([[position[item] for item in row] for row in lists], len(known), known)


def _of_items(path: Path, rankings: list[list[int]], names: list[str], known: Sequence[str] | None, lines: list[int], counts: Any = None) -> Rankings:
    """Rankings of the items named in these lines of a file, found among those that are known."""
    if known is None or list(known) == names:
        return Rankings.of_positions(rankings, len(names), names, counts)
    unknown = next((item for item, name in enumerate(names) if name not in known), None)
    if unknown is not None:
        raise ValueError(f"{path.name}, line {lines[unknown]}: {names[unknown]!r} is not one of the {len(known)} items")
    position = [list(known).index(name) for name in names]
    return Rankings.of_positions([[position[item] for item in row] for row in rankings], len(known), known, counts)


def _no_ranking(path: Path, heading: list[str], items: set[str]) -> None:
    """The first row is a heading: not one of the rankings of these items, unless it counts 1, 2, …"""
    cells = [cell.strip() for cell in heading if cell.strip()]
    if cells and set(cells) <= items and cells != [str(i + 1) for i in range(len(cells))]:
        raise ValueError(f"{path.name}, line 1: {_cut(', '.join(cells))}: the first row is a heading, and this looks like a ranking: write a heading above it")


def _position(where: str, item: str, n_items: int) -> int:
    if not item.isdigit() or not 1 <= int(item) <= n_items:
        raise ValueError(f"{where}: {item!r} is not one of the items 1 to {n_items}")
    return int(item) - 1


def _once(where: str, order: Sequence[Any]) -> None:
    if len(set(order)) < len(order):
        twice = next(item for i, item in enumerate(order) if item in order[:i])
        raise ValueError(f"{where}: {twice!r} is ranked twice: a ranking names every item once at most")


def _is_place(text: str) -> bool:
    try:
        return float(text) == int(float(text)) >= 1
    except (ValueError, OverflowError):
        return False


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
