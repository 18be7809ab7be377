"""`maitre compare`: how far two partitions of the same points are from each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from maitre.cli import options
from maitre.cli.show import say, table_of, terminal
from maitre.data.files import read_table
from maitre.data.rows import as_data
from maitre.partitions import adjusted_rand, binder, mutual_information, pairwise_f1, rand, variation_of_information
from maitre.posterior.commits import COMMIT
from maitre.sampling import load

MEASURES = {
    "adjusted Rand index": (adjusted_rand, "1 equal, 0 chance"),
    "variation of information": (variation_of_information, "nats; 0 equal"),
    "mutual information": (mutual_information, "nats"),
    "Rand index": (rand, "share of pairs treated alike"),
    "Binder distance": (binder, "share of pairs treated differently"),
    "pairwise F1": (pairwise_f1, "1 equal; the first counts as the truth"),
}
_NAMES = ("cluster", "label", "labels", "class", "truth")
_MAX_TABLE = 12


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="A run's folder, or a file with a label per row, such as labels.csv.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The same of the other partition; rows in the same order.")],
    column: Annotated[str | None, typer.Option(metavar="NAME", help="The column with the labels; by default 'cluster', 'label' or the only one.")] = None,
    quiet: options.Quiet = False,
) -> None:
    """Compare two partitions of the same rows by all distances between partitions, and show which clusters share points."""
    a, b = labels_of(first, column), labels_of(second, column)
    console = terminal(quiet)
    say(console, f"{len(a):,} points; {first}: {len(np.unique(a)):,} clusters, {second}: {len(np.unique(b)):,} clusters\n")
    table = table_of("", "value", "")
    table.columns[0].justify = table.columns[2].justify = "left"
    for name, (measure, meaning) in MEASURES.items():
        table.add_row(Text(name), f"{measure(a, b):.4f}", Text(meaning))
    console.print(table)
    _show_shared(console, a, b)


def labels_of(path: Path, column: str | None = None) -> Any:
    """One label per row, as text: of a run the partition it reports, of a file a column."""
    if path.is_dir() and (path / COMMIT).is_file():
        return load(path).point_estimate().astype(str)
    if path.is_dir():
        raise ValueError(f"'{path}' is a folder and holds no run: give a run, or a file with a label per row")
    rows = as_data(read_table(path))
    names = [str(name) for name in rows.names or range(rows.n_columns)]
    wanted = column or next((name for name in _NAMES if name in names), names[0] if len(names) == 1 else None)
    if wanted is None or wanted not in names:
        given = "say which with --column" if column is None else f"there is no column '{column}'"
        raise ValueError(f"which column of '{path}' has the labels? {given}; the columns are {', '.join(names[:20])}")
    return np.asarray(rows.column(names.index(wanted))).astype(str)


def _show_shared(console: Any, a: Any, b: Any) -> None:
    """How many points the clusters have in common, if there are few."""
    first, rows = np.unique(a, return_inverse=True)
    second, columns = np.unique(b, return_inverse=True)
    if max(len(first), len(second)) > _MAX_TABLE:
        return
    counts = np.zeros((len(first), len(second)), dtype=np.int64)
    np.add.at(counts, (rows, columns), 1)
    say(console, "\nPoints in common (rows: the first, columns: the second)")
    table = table_of("", *(str(name)[:12] for name in second))
    for name, row in zip(first, counts, strict=True):
        table.add_row(Text(str(name)[:20]), *(f"{count:,}" if count else "·" for count in row))
    console.print(table)
