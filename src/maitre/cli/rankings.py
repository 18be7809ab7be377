"""`maitre rankings`: clusters of ballots and other rankings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from maitre.chains.rankings import settings_for
from maitre.chains.settings import Settings
from maitre.cli import options
from maitre.cli.folder import check_free
from maitre.cli.job import Job, run_job
from maitre.cli.model import named_prior
from maitre.cli.show import terminal
from maitre.data.preflib import PREFLIB, read_rankings
from maitre.families import RANKINGS
from maitre.numerics.arguments import one_of
from maitre.rankings import ranking_model


def rankings_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"Rankings: PrefLib's {', '.join(PREFLIB)} (plain or .gz), or a table (see --format).")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Of a table: orderings (columns are places, entries items), ranks (columns are items, entries places) or long (voter, rank, item). Never guessed.",
        ),
    ] = None,
    ties: Annotated[str, typer.Option(metavar="NAME", help="Of ties in PrefLib files: refuse, or random (broken at random).")] = "refuse",
    family: Annotated[
        str, typer.Option(metavar="NAME", help=f"auto (whichever predicts held-out rankings better), {', '.join(RANKINGS)}.", rich_help_panel=options.MODEL)
    ] = "auto",
    prior: Annotated[
        str | None, typer.Option(metavar="NAME", help="Prior over partitions; by default one that suits the family.", rich_help_panel=options.MODEL)
    ] = None,
    concentration: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="Fix the prior's concentration; by default it is sampled.", rich_help_panel=options.MODEL)
    ] = None,
    out: options.Out = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    draws: Annotated[int | None, typer.Option(metavar="N", help="Draws kept per chain.", rich_help_panel=options.SAMPLING)] = None,
    burn_in: Annotated[int | None, typer.Option(metavar="N", help="Iterations dropped before them.", rich_help_panel=options.SAMPLING)] = None,
    thin: Annotated[int | None, typer.Option(metavar="N", help="Keep every N-th iteration.", rich_help_panel=options.SAMPLING)] = None,
    chains: Annotated[int, typer.Option(metavar="N", help="Independent chains.", rich_help_panel=options.SAMPLING)] = 2,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same draws.", rich_help_panel=options.SAMPLING)] = 0,
    init: Annotated[str, typer.Option(metavar="NAME", help="Where chains start: auto, one or random:K.", rich_help_panel=options.SAMPLING)] = "auto",
    time_budget: options.TimeBudget = None,
    threads: options.Threads = None,
) -> None:
    """Cluster rankings of any length, without saying how many clusters there are.

    Writes a folder with the cluster of every voter (labels.csv), a picture (clusters.png), a summary (summary.txt, summary.json) and the run itself: 'maitre resume' goes on with it.
    """
    target = Path(f"{Path(file.name.removesuffix('.gz')).stem}-maitre") if out is None else out
    one_of("--family", family, ("auto", *RANKINGS))
    settings = Settings("auto", draws, burn_in, chains=chains, seed=seed, init=init)
    rankings = read_rankings(file, form, ties, seed)
    check_free(target, force)
    if family == "auto":
        terminal(quiet).print("Which family predicts these rankings better? Short runs will tell …")
    partition = None if prior is None else named_prior(prior, concentration)
    model = ranking_model(rankings, family, partition)
    if prior is None and concentration is not None:
        model = replace(model, prior=model.prior.at({"concentration": concentration}))
    run_job(Job(file.name, model, target, settings_for(model, settings, thin), time_budget=time_budget, threads=threads, force=force, quiet=quiet))
