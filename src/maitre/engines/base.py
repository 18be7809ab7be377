"""What an engine is, and the one that needs no threads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Engine(ABC):
    """Calls a function for each of several items, up to `n_workers` at once. Results come in the items' order and never depend on how many workers there are."""

    n_workers: int

    @abstractmethod
    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """The function's results in the items' order. After the first exception no item is begun any more, those under way are waited for, and of the exceptions the one
        of the first item is raised."""

    def close(self) -> None:  # noqa: B027  not every engine holds something
        """Let the workers go; the engine takes new ones if it is used again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Serial(Engine):
    """One call after the other, on the caller's own thread.

    >>> Serial().map(abs, [-2, 1])
    [2, 1]
    """

    n_workers = 1

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        return [function(item) for item in items]


SERIAL = Serial()
