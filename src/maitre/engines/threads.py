"""Functions on threads of this process. Compiled kernels release the interpreter's lock, so threads run at once."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from threading import Event
from typing import Any, TypeVar

from maitre.engines.base import A, B, Engine, Serial
from maitre.engines.cores import thread_count
from maitre.engines.interruption import GIVE_UP, Interruptions

T = TypeVar("T")
logger = logging.getLogger("maitre")
_LOOK = 0.1  # seconds between two looks at Ctrl-C and the progress bar
_here = threading.local()  # .engines: those on whose threads the present call runs, one inside the other


class _Batch:
    """The items of one call of `map`. Workers take them in order; the caller waits until `over`."""

    def __init__(self, function: Callable[[Any], Any], items: Sequence[Any], engines: tuple[int, ...]) -> None:
        self.function, self.items, self.engines = function, items, engines
        self.results: list[Any] = [None] * len(items)
        self.errors: dict[int, BaseException] = {}
        self.over = Event()
        self._lock, self._next, self._under_way, self._cancelled = threading.Lock(), 0, 0, False

    def work(self, presses: Interruptions | None = None) -> None:
        """Take items until there are none, or Ctrl-C is pressed."""
        before, _here.engines = _engines_here(), self.engines
        while not (presses is not None and presses.n) and (index := self._take()) is not None:
            try:
                self.results[index] = self.function(self.items[index])
            except BaseException as error:
                self.errors[index] = error
                self.cancel()
            finally:
                self._done()
        _here.engines = before

    def cancel(self) -> None:
        """Begin no other items."""
        with self._lock:
            self._cancelled = True
            self._end_if_done()

    def _take(self) -> int | None:
        with self._lock:
            if self._cancelled or self._next == len(self.items):
                return None
            self._next, self._under_way = self._next + 1, self._under_way + 1
            return self._next - 1

    def _done(self) -> None:
        with self._lock:
            self._under_way -= 1
            self._end_if_done()

    def _end_if_done(self) -> None:
        if self._under_way == 0 and (self._cancelled or self._next == len(self.items)):
            self.over.set()


def _worker(batches: SimpleQueue[_Batch | None]) -> None:
    """The life of a thread. It holds nothing of a batch while it waits for the next."""
    while (batch := batches.get()) is not None:
        batch.work()
        del batch


class _Crew:
    """The threads of an engine, hired when they are first needed. They are daemons: nobody waits for them at the end of the program."""

    def __init__(self) -> None:
        self.batches: SimpleQueue[_Batch | None] = SimpleQueue()
        self.n, self.process = 0, os.getpid()
        self._lock = threading.Lock()

    def hire(self, n: int) -> None:
        """See that there are n threads, or as many of them as the system gives."""
        with self._lock:
            while self.n < n:
                try:
                    threading.Thread(target=_worker, args=(self.batches,), name=f"maitre-{self.n}", daemon=True).start()
                except RuntimeError as error:
                    if self.n == 0:
                        raise MemoryError("the system gives no thread") from error
                    break
                self.n += 1

    def dismiss(self) -> None:
        for _ in range(self.n):
            self.batches.put(None)


class Threads(Engine):
    """Up to n calls at once, each on a thread of a pool that lasts until `close` or the engine's end.

    Called from inside one of its own calls, `map` runs there, one item after the other: a thread that waited for the others could wait for ever.

    >>> with Threads(2) as engine:
    ...     engine.map(abs, [-3, 2, -1])
    [3, 2, 1]
    """

    def __init__(self, n: int | None = None) -> None:
        self.n_workers = thread_count(n)
        self._crew: _Crew | None = None

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        waiting = list(items)
        if self.n_workers == 1 or len(waiting) < 2 or id(self) in _engines_here():
            return Serial().map(function, waiting)
        results, interrupted = self.run(function, waiting)
        if interrupted:
            raise KeyboardInterrupt
        return results

    def run(self, function: Callable[[A], B], items: Sequence[A], stop: Event | None = None, poll: Callable[[], None] | None = None) -> tuple[list[B], bool]:
        """`map` for long calls, and whether Ctrl-C was pressed: that, or an exception, sets `stop`, upon which the calls are to end early by themselves.

        The caller's thread only waits (and calls `poll` ten times a second). Without a `stop` it works too, so that short calls need not wait until a thread has
        woken up, and Ctrl-C lets the calls under way end and begins no others.
        """
        if not items or id(self) in _engines_here():
            return Serial().map(function, items), False
        batch = _Batch(function, items, (*_engines_here(), id(self)))
        with Interruptions() as presses:
            self._begin(batch, min(self.n_workers, len(items)) - (stop is None))
            try:
                if stop is None:
                    batch.work(presses)
                    if presses.n:
                        batch.cancel()
                _wait(batch, presses, stop, poll)
            except BaseException:  # from `poll`, or the last press of Ctrl-C
                batch.cancel()
                if stop is not None:
                    stop.set()
                if presses.n < GIVE_UP:
                    batch.over.wait()
                raise
        if batch.errors:
            raise batch.errors[min(batch.errors)]
        return batch.results, presses.n > 0

    def _begin(self, batch: _Batch, n: int) -> None:
        """Give the batch to n threads."""
        if self._crew is None or self._crew.process != os.getpid():  # a fork of the process has no threads
            self._crew = _Crew()
            weakref.finalize(self, self._crew.dismiss)
        self._crew.hire(n)
        for _ in range(n):
            self._crew.batches.put(batch)

    def close(self) -> None:
        """Let the threads go when they have done what they were given."""
        if self._crew is not None:
            self._crew.dismiss()
            self._crew = None


def _engines_here() -> tuple[int, ...]:
    return getattr(_here, "engines", ())


def _wait(batch: _Batch, presses: Interruptions, stop: Event | None, poll: Callable[[], None] | None) -> None:
    told = 0
    while not batch.over.is_set():
        try:
            batch.over.wait(_LOOK)
            if poll is not None:
                poll()
        except KeyboardInterrupt:  # where signals could not be caught
            presses.count()
        if presses.n and stop is None:
            batch.cancel()
        elif (presses.n or batch.errors) and stop is not None:
            stop.set()
        if presses.n > told and not batch.over.is_set():
            told = presses.n
            _tell(told)


def _tell(n_presses: int) -> None:
    if n_presses == 1:
        logger.info("stopping after the present iteration")
    else:
        left = GIVE_UP - n_presses
        logger.warning(
            "finishing the present iteration; press Ctrl-C %s to give up and lose what has been done", "once more" if left == 1 else f"{left} more times"
        )


def run_all(
    functions: Sequence[Callable[[], T]], stop: Event, n_threads: int | Engine | None = None, poll: Callable[[], None] | None = None
) -> tuple[list[T], bool]:
    """The functions' results in order, and whether Ctrl-C was pressed; see `Threads.run`. They run on an engine's threads, or on so many of their own.

    >>> run_all([lambda: 1, lambda: 2], Event(), 2)
    ([1, 2], False)
    """
    if isinstance(n_threads, Threads):
        return n_threads.run(_call, functions, stop, poll)
    with Threads(n_threads.n_workers if isinstance(n_threads, Engine) else n_threads) as engine:
        return engine.run(_call, functions, stop, poll)


def _call(function: Callable[[], T]) -> T:
    return function()
