"""Ctrl-C while work is under way: a wish to stop soon, not an exception in the middle of something.

An exception raised by a signal can strike between any two instructions: while results are handed over, or inside a lock. For as long as a run is under way the
signal is therefore only counted, and whoever waits for the run looks at the count.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Self

GIVE_UP = 4  # presses of Ctrl-C that end a run at once, with nothing kept
_ONE_PRESS = 0.2  # seconds: a terminal and a wrapper of the command may both send the signal


class _Presses:
    """All presses since the program began, or since it began something new."""

    def __init__(self) -> None:
        self.n = 0
        self._last = -float("inf")

    def add(self) -> bool:
        """One more press; false if it is the echo of the last."""
        now = time.monotonic()
        echo = now - self._last <= _ONE_PRESS
        if not echo:
            self._last = now
            self.n += 1
        return not echo


_all = _Presses()


def forget_presses() -> None:
    """The program begins something new."""
    global _all
    _all = _Presses()


def interrupt(number: int, frame: FrameType | None) -> None:
    """A handler for programs: raises `KeyboardInterrupt` at the first press. After a press that did, or that has stopped a run whose results are now being kept, it takes
    as many more as it takes to give up. They are counted, not timed: Python hears of a press when a long call of compiled code is over."""
    if _all.add() and (_all.n == 1 or _all.n >= GIVE_UP):
        raise KeyboardInterrupt


class Interruptions:
    """Counts presses of Ctrl-C inside a `with` block; the last of `GIVE_UP` raises `KeyboardInterrupt`.

    Only Python's own handler, or `interrupt`, is replaced, and only on the main thread, the only one that signals reach: a program that has other plans for Ctrl-C
    keeps them. Where an exception comes through all the same, `count` may be told by hand.

    >>> with Interruptions() as presses:
    ...     presses.count()
    >>> presses.n
    1
    """

    def __init__(self) -> None:
        self.n = 0
        self._replaced = False

    def count(self) -> None:
        """One more press, unless it is the echo of the last."""
        self.n += _all.add()
        if self.n >= GIVE_UP:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if self._before in (signal.default_int_handler, interrupt):
                signal.signal(signal.SIGINT, lambda number, frame: self.count())
                self._replaced = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._replaced:
            signal.signal(signal.SIGINT, self._before)
