"""Functions on threads of this process. Compiled kernels release the interpreter's lock, so threads run at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

T = TypeVar("T")


def run_all(functions: Sequence[Callable[[], T]], stop: Event, n_threads: int | None = None, poll: Callable[[], None] | None = None) -> tuple[list[T], bool]:
    """The functions' results in order, and whether Ctrl-C was pressed.

    The caller's thread only waits (and calls `poll` ten times a second), so an interruption is seen at once: it sets `stop`, upon which the functions are to
    finish early by themselves.
    """
    interrupted = False
    with ThreadPoolExecutor(max(1, min(n_threads or os.cpu_count() or 1, len(functions)))) as pool:
        futures = [pool.submit(function) for function in functions]
        pending = set(futures)
        while pending:
            try:
                pending = wait(pending, timeout=0.1).not_done
                if poll is not None:
                    poll()
                if any(future.done() and future.exception() for future in futures):
                    stop.set()
            except KeyboardInterrupt:
                interrupted = True
                stop.set()
        return [future.result() for future in futures], interrupted
