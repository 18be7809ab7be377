"""The answer as text, for the terminal and for summary.txt."""

from __future__ import annotations

import io
import itertools
import sys
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from maitre.chains.output import Patient
from maitre.numerics.wording import counted
from maitre.posterior.rankings import n_notable
from maitre.posterior.verdict import WORRYING

MAX_ROWS = 20
MAX_NUMBERS = 9
MAX_PLACES = 4
NEGLIGIBLE = 0.0005
_WORDS = {
    "log_joint": "log joint",
    "n_clusters": "number of clusters",
    "largest_share": "largest share",
    "entropy": "entropy of sizes",
    "distance": "distance (VI)",
}


def terminal(quiet: bool) -> Console:
    """Where a command prints; wide enough for a table where the output is not a terminal, which has a width of its own."""
    stream: Any = Patient(sys.stdout)
    console = Console(file=stream, quiet=quiet, highlight=False, markup=False)
    return console if console.is_terminal else Console(file=stream, quiet=quiet, highlight=False, markup=False, width=120)


def say(console: Console, text: str) -> None:
    """A line that is never broken, so that a path can be copied from it."""
    console.print(text, soft_wrap=True)


def show_model(console: Console, rows: list[tuple[str, str]]) -> None:
    """What is fitted: two columns, names and values."""
    grid = Table.grid(padding=(0, 2))
    for name, value in rows:
        grid.add_row(Text(name, style="bold"), Text(value))
    console.print(grid)


def show_answer(console: Console, summary: dict[str, Any]) -> None:
    """The clusters found, the posterior of their number, and the diagnostics."""
    in_burn_in = summary["settings"].get("stopped_in_burn_in")
    show_clusters(console, summary["clusters"], "the state in which burn-in was stopped") if in_burn_in else show_clusters(console, summary["clusters"])
    if not in_burn_in:
        console.print(f"\n{summary['story']}")
        _show_numbers(console, summary["n_clusters_posterior"])
        _show_diagnostics(console, summary["verdict"]["table"] | summary["diagnostics"], summary["verdict"])
    console.print(_how(summary))
    for note in summary["notes"]:
        console.print(f"\nNote: {note}")


def as_text(rows: list[tuple[str, str]], summary: dict[str, Any]) -> str:
    """The same as plain text."""
    text = io.StringIO()
    console = Console(file=text, width=120, highlight=False, markup=False, color_system=None)
    show_model(console, rows)
    show_answer(console, summary)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def heading(console: Console, text: str) -> None:
    """A line in bold, after an empty one."""
    console.print(f"\n{text}", style="bold")


def table_of(*columns: str) -> Table:
    """A table with these columns, to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(Text(column), justify="right")
    return table


def show_clusters(console: Console, clusters: list[dict[str, Any]], partition: str = "the partition nearest to all draws") -> None:
    """The clusters of a partition, the largest first, with their certainty where it is known and as many columns as there is room for; or with what they prefer."""
    ranked = "ordering" in clusters[0]
    n_shown = min(MAX_ROWS, n_notable([row["size"] for row in clusters]) if ranked else len(clusters))
    names = [] if ranked else _fitting(list(clusters[0]["columns"]), console.width)
    sure = [name for name in ("certainty", "stability") if name in clusters[0]]
    heading(console, f"{counted(len(clusters), 'cluster')} in {partition}")
    table = table_of(
        "cluster", "voters" if ranked else "points", "share", *sure, *map(_short, names), *(["from best to worst (how firm each place is)"] if ranked else [])
    )
    if ranked:
        table.columns[-1].justify = "left"
    for row in clusters[:n_shown]:
        values = [*(f"{row[name]:.0%}" for name in sure), *(_value(row["columns"][name]) for name in names)]
        places = [", ".join(f"{item} ({firm:.0%})" for item, firm in zip(row["ordering"][:MAX_PLACES], row["firmness"], strict=False))] if ranked else []
        table.add_row(*map(Text, (str(row["cluster"]), f"{row['size']:,}", f"{row['share']:.1%}", *values, *places)))
    console.print(table)
    others = clusters[n_shown:]
    if others:
        size = others[0]["size"]
        few = f"of {'at most ' * (size > 1)}{counted(size, 'voter' if ranked else 'point')}"
        console.print(f"… and {counted(len(others), 'smaller one')} {few}, {sum(row['share'] for row in others):.1%} of all; labels.csv has them all.")


def _fitting(names: list[str], width: int) -> list[str]:
    """The first of these columns, as many as there is room for beside the fixed ones.

    >>> _fitting(["length", "width", "a description of some length"], 80)
    ['length', 'width']
    """
    ends = itertools.accumulate((max(len(_short(name)), 9) + 3 for name in names), initial=52)
    return [name for name, end in zip(names, list(ends)[1:], strict=True) if end <= width]


def _show_numbers(console: Console, probabilities: dict[str, float]) -> None:
    """Bars for the most probable numbers of clusters, in the order of the numbers."""
    likely = sorted(probabilities.items(), key=lambda item: -item[1])[:MAX_NUMBERS]
    chosen = sorted((item for item in likely if item[1] >= NEGLIGIBLE), key=lambda item: int(item[0])) or likely
    heading(console, "How many clusters? Posterior probabilities")
    table = table_of("clusters", "probability", "")
    table.columns[2].justify = "left"
    highest = max(probability for _, probability in chosen)
    for number, probability in chosen:
        table.add_row(number, f"{probability:.1%}", Text("█" * max(1, round(30 * probability / highest)), style="blue"))
    console.print(table)


def _show_diagnostics(console: Console, diagnostics: dict[str, dict[str, float | None]], verdict: dict[str, Any]) -> None:
    heading(console, "Have the chains converged?")
    console.print(Text(verdict["sentence"], style="green" if verdict["good"] else "yellow"))
    console.print()
    table = table_of("", "mean", "sd", "effective draws", "R̂")
    table.columns[0].justify = "left"
    for name, row in diagnostics.items():
        r_hat = row["r_hat"]
        style = "yellow" if r_hat is None or r_hat > WORRYING else "green"
        draws = "–" if row["ess"] is None else f"{row['ess']:.0f}"
        table.add_row(Text(_WORDS.get(name, name)), _value(row["mean"]), _value(row["sd"]), draws, Text("–" if r_hat is None else f"{r_hat:.3f}", style=style))
    console.print(table)


def _how(summary: dict[str, Any]) -> str:
    settings, (chains, draws) = summary["settings"], summary["draws_kept"]
    every = f", one every {settings['thin']} iterations," if settings["thin"] > 1 else ""
    moves = " + ".join(name.replace("_", " ") for name in summary["moves"])
    return f"{counted(chains, 'chain')} × {counted(draws, 'draw')}{every} after {settings['burn_in']:,} of burn-in; moves {moves}; seed {settings['seed']}; {summary['seconds']:.1f} s"


def _value(value: Any) -> str:
    """
    >>> _value(1234.5678), _value("red"), _value(None)
    ('1,235', 'red', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return _short(value)
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"


def _short(text: str) -> str:
    return text if len(text) <= 20 else text[:19] + "…"
