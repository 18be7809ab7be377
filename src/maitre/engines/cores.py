"""How many threads there may be."""

from __future__ import annotations

import os

from maitre.numerics.arguments import whole_number


def n_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count(threads: int | None) -> int:
    """A number of threads as given, or one for each core.

    >>> thread_count(3)
    3
    >>> thread_count(0)
    Traceback (most recent call last):
    ValueError: threads is 0; expected a whole number of at least 1
    """
    return n_cores() if threads is None else whole_number("threads", threads, least=1)
