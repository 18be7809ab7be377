"""The folder a command writes to: checked before the work begins, filled in one step when it is done."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ENTRIES = ("labels.csv", "result", "clusters.png", "summary.txt", "summary.json")


def check_free(out: Path, force: bool) -> None:
    """A `ValueError` if results cannot or, without `force`, should not be written to this folder: it holds other things than earlier results.

    >>> check_free(Path(tempfile.mkdtemp()) / "new", force=False)
    """
    place = _nearest(out)
    if not place.is_dir():
        raise ValueError(f"'{place}' is a file; expected a folder for the results: give another name with --out")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ValueError(f"the folder '{place}' may not be written to: give another name with --out")
    if out.is_dir() and any(out.iterdir()) and not _is_result(out) and not force:
        raise ValueError(f"the folder '{out}' exists and is not an earlier result: give another name with --out, or --force to write into it")


@contextmanager
def new_result(out: Path) -> Iterator[Path]:
    """A folder to write into; when the block ends well its entries replace those of `out` (other files there stay), otherwise it is removed.

    >>> out = Path(tempfile.mkdtemp()) / "result"
    >>> with new_result(out) as folder:
    ...     _ = (folder / "summary.txt").write_text("3 clusters")
    >>> [file.name for file in out.iterdir()]
    ['summary.txt']
    """
    target = out.absolute()
    hidden = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=_nearest(target)))
    try:
        fresh, old = hidden / "new", hidden / "old"
        fresh.mkdir()
        old.mkdir()
        yield fresh
        _replace(fresh, target, old)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _replace(fresh: Path, target: Path, old: Path) -> None:
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(fresh, target)
        return
    for entry in list(fresh.iterdir()):
        if os.path.lexists(target / entry.name):
            os.replace(target / entry.name, old / entry.name)
        os.replace(entry, target / entry.name)


def _nearest(path: Path) -> Path:
    """The path itself or the first of the folders above it that exists."""
    return next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())


def _is_result(folder: Path) -> bool:
    return (folder / "summary.json").is_file() and (folder / "result" / "result.json").is_file()
