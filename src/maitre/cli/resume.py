"""`maitre resume`: go on with a run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from maitre.cli import options
from maitre.cli.job import Source, write_answers
from maitre.cli.model import model_rows
from maitre.cli.show import say, show_model, terminal
from maitre.cli.topic_answers import write_groups
from maitre.data.files import read_table
from maitre.posterior.groups import GroupPosterior
from maitre.sampling import resume


def resume_run(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What 'maitre fit --out FOLDER' or mt.sample(store=…) wrote.")],
    draws: Annotated[int | None, typer.Option(metavar="N", help="So many draws per chain in all; by default as many as were asked for.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="FILE", help="The data, if the folder has no copy of them.")] = None,
    time_budget: options.TimeBudget = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Go on with a run that was interrupted or killed, or make it longer.

    The draws are the same, bit for bit, as if the run had never stopped. The answers in the folder (labels.csv, clusters.png, summary.txt, summary.json) are written again.
    """
    console, began = terminal(quiet), time.monotonic()
    posterior = resume(folder, draws, None if data is None else read_table(data), not quiet, time_budget, threads)
    if isinstance(posterior, GroupPosterior):
        write_groups(console, posterior, folder, time.monotonic() - began)
        return
    show_model(console, model_rows(posterior.notes.get("name", str(folder)), posterior.model, (posterior.notes.get("reading") or {}).get("notes", [])))
    if not posterior.interrupted:
        say(console, f"{posterior.settings['draws']} draws in each of {posterior.settings['chains']} chains")
    reading = posterior.notes.get("reading")
    write_answers(console, posterior, folder, time.monotonic() - began, time_budget, None if reading is None else Source(**reading).table())
