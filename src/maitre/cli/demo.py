"""`maitre demo`: the whole way from data to a picture, on data that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maitre.chains.choice import assembled
from maitre.chains.settings import Settings
from maitre.cli.job import Job, run_job
from maitre.cli.show import say, terminal
from maitre.data.simulate import built_in


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo-output"),
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed gives other draws of the same answer.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write into the folder even if it holds something else than earlier results.")] = False,
) -> None:
    """Show what comes out: cluster 272 eruptions of the geyser Old Faithful.

    Takes a few seconds, and half a minute more when it compiles for the first time.
    """
    console = terminal(quiet=False)
    say(console, "Old Faithful: how long 272 eruptions took, and the wait for the next one (minutes).")
    say(console, "How many kinds of eruption are there? Nobody says; the posterior does.\n")
    model = assembled(built_in("faithful"))
    run_job(Job("Old Faithful", model, out, Settings(draws=2000, burn_in=400, seed=seed), force=force))
    say(console, "\nYour own data: maitre fit FILE --out FOLDER   (maitre fit --help tells more)")
