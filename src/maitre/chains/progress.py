"""A progress bar that appears once a run has taken two seconds, and says when a kernel is being compiled."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maitre.chains.output import Patient

PATIENCE = 2.0


class Progress:
    """One bar over all iterations of all chains; with `enabled=False` it does nothing."""

    def __init__(self, total: int, enabled: bool, label: str = "sampling") -> None:
        self.total, self.enabled, self.label = total, enabled, label
        self.started = time.monotonic()
        self.done: dict[int, tuple[int, str]] = {}
        self._bar: Any = None
        self._task: Any = None
        self._handler = _CompilationNotes(self)

    def __enter__(self) -> Progress:
        if self.enabled:
            logger = logging.getLogger("maitre")
            self._level = logger.level
            logger.addHandler(self._handler)
            logger.setLevel(logging.INFO)
        return self

    def __exit__(self, *_: object) -> None:
        if self.enabled:
            logger = logging.getLogger("maitre")
            logger.removeHandler(self._handler)
            logger.setLevel(self._level)
        if self._bar is not None:
            self.poll()
            self._bar.stop()

    def report(self, chain: int, done: int, note: str) -> None:
        """A chain has done so many iterations. Called from the chains' threads."""
        self.done[chain] = (done, note)

    def poll(self) -> None:
        """Draw the bar. Called from the thread that waits."""
        if not self.enabled or time.monotonic() - self.started < PATIENCE:
            return
        if self._bar is None:
            self._start()
        counts = list(self.done.values())
        self._bar.update(self._task, completed=sum(done for done, _ in counts), note=counts[0][1] if counts else "")

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}"))
        self._bar = RichProgress(*columns, console=Console(file=Patient(sys.stderr)), refresh_per_second=5)  # type: ignore[arg-type]
        self._task = self._bar.add_task(self.label, total=self.total, note="")
        self._bar.start()

    def say(self, text: str) -> None:
        """A line above the bar."""
        if self._bar is not None:
            self._bar.console.print(text)
        else:
            print(text, file=Patient(sys.stderr), flush=True)


@contextmanager
def compilation_told(wanted: bool) -> Iterator[None]:
    """Where no bar is shown: one line if something is compiled, which takes a while and happens once."""
    logger, handler = logging.getLogger("maitre"), _OneLine()
    level = logger.level
    if wanted:
        logger.addHandler(handler)
        logger.setLevel(min(level or logging.WARNING, logging.INFO))
    try:
        yield
    finally:
        if wanted:
            logger.removeHandler(handler)
            logger.setLevel(level)


class _OneLine(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.told = False

    def emit(self, record: logging.LogRecord) -> None:
        note = record.getMessage()
        if note.startswith("compiling") and not self.told:
            self.told = True
            print(f"maitre: {note.partition(' for ')[0]} and others for {note.partition(' for ')[2]}; kept on disk", file=Patient(sys.stderr), flush=True)


class _CompilationNotes(logging.Handler):
    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.INFO)
        self.progress = progress
        self.said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        note = record.getMessage()
        if note not in self.said:
            self.said.add(note)
            self.progress.say(note)
