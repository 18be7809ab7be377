"""What an engine is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any


class Engine(ABC):
    n_workers: int = 1

    @abstractmethod
    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]: ...


class Serial(Engine):
    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return [function(item) for item in items]


SERIAL = Serial()
