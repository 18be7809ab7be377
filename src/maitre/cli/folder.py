"""The folder a command writes to: a run (`maitre.posterior.folder`) with the answers beside it."""

from __future__ import annotations

from pathlib import Path

from maitre.posterior.commits import COMMIT
from maitre.posterior.folder import check_writable, holds_nothing

ANSWERS = ("labels.csv", "clusters.png", "summary.txt", "summary.json")
JOINED = "joined.csv"  # on request


def check_free(out: Path, force: bool) -> None:
    """A `ValueError` if results cannot or, without `force`, should not be written to this folder: it holds other things than earlier results.

    >>> import tempfile
    >>> check_free(Path(tempfile.mkdtemp()) / "new", force=False)
    """
    check_writable(out, replacing=True)
    if out.is_dir() and not holds_nothing(out) and not (out / COMMIT).is_file() and not force:
        raise ValueError(f"the folder '{out}' exists and is not an earlier result: give another name with --out, or --force to write into it")
    taken = next((out / name for name in (*ANSWERS, JOINED) if (out / name).is_dir()), None)
    if taken is not None:
        raise ValueError(f"'{taken}' is a folder, and a file of that name is to be written: give another name with --out")
    if not out.exists():
        try:
            out.mkdir(parents=True)
            out.rmdir()
        except OSError as error:
            raise ValueError(f"the folder '{out}' cannot be made ({error.strerror}): give another name with --out") from None
