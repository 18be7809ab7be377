"""`maitre report`: a run as one HTML file to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maitre.cli import options
from maitre.cli.show import say, terminal
from maitre.data.files import read_table
from maitre.sampling import load


def report_run(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="What 'maitre fit --out RUN' or mt.sample(store=…) wrote.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The file to write; by default report.html in the run's folder.")] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="What stands at the top; by default the name of the data.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="FILE", help="The data, if the folder has no copy of them.")] = None,
    quiet: options.Quiet = False,
) -> None:
    """Write a report of a run: one HTML file that opens offline, with the verdict on the chains, the clusters, their points and profiles, linked."""
    from maitre.reports.html import report  # which imports a library of pictures

    target = folder / "report.html" if out is None else out
    report(load(folder, None if data is None else read_table(data)), target, title)
    say(terminal(quiet), f"Written: {target}")
