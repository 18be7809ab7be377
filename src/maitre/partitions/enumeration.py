"""All partitions of a few points: what exact answers are summed over."""

from __future__ import annotations

from collections.abc import Iterator


def all_partitions(n: int) -> Iterator[tuple[int, ...]]:
    """Every partition of n points once, as canonical labels, in lexicographic order (restricted growth strings).

    >>> list(all_partitions(3))
    [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 1, 2)]
    """
    _check(n)
    return _grown(n)


def _grown(n: int) -> Iterator[tuple[int, ...]]:
    """The last point joins each cluster of each partition of the others, or opens its own."""
    if n == 0:
        yield ()
        return
    for others in _grown(n - 1):
        for label in range(max(others, default=-1) + 2):
            yield (*others, label)


def bell_number(n: int) -> int:
    """The number of partitions of n points, from Bell's triangle: a row starts with the last entry of the row before, then adds the entry above.

    >>> [bell_number(n) for n in range(7)]
    [1, 1, 2, 5, 15, 52, 203]
    """
    _check(n)
    row = [1]
    for _ in range(n):
        following = [row[-1]]
        for above in row:
            following.append(following[-1] + above)
        row = following
    return row[0]


def _check(n: int) -> None:
    if n < 0:
        raise ValueError(f"n is {n}; expected a number of points, 0 or more")
