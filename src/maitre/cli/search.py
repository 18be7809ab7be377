"""`maitre search`: the most probable clustering of the rows of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from maitre.chains.choice import assembled
from maitre.cli import options
from maitre.cli.answer import clusters_at_a_glance
from maitre.cli.fit import selected, shown, split_names, stem
from maitre.cli.folder import ANSWERS, check_free
from maitre.cli.job import columns_in_json, without_nan, write_joined, write_text
from maitre.cli.model import described, model_rows, named_prior
from maitre.cli.show import heading, say, show_clusters, show_model, table_of, terminal
from maitre.data.columns import parse_types, with_types
from maitre.data.files import read_noted, write_table
from maitre.data.rows import as_data
from maitre.families.auto import with_fixed_scale
from maitre.model import as_family, is_open
from maitre.numerics.wording import counted
from maitre.optimize.scores import ORDERS, SCORES
from maitre.partitions import adjusted_rand
from maitre.posterior.saving import save
from maitre.searching import QUEUES, Found, search

_SEARCH = "Search"


def search_file(
    file: options.File,
    out: options.Out = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    columns: options.Columns = None,
    drop: options.Drop = None,
    label_column: options.LabelColumn = None,
    types: options.Types = None,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    join: options.Join = False,
    family: options.FamilyName = "auto",
    fixed_scale: Annotated[
        bool,
        typer.Option(
            "--fixed-scale", help="Fix the width of clusters at a value guessed from the data instead of estimating it.", rich_help_panel=options.MODEL
        ),
    ] = False,
    prior: options.PriorName = "DirichletProcess",
    concentration: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER", help="Fix the prior's concentration (more means more clusters); by default it is estimated.", rich_help_panel=options.MODEL
        ),
    ] = None,
    beam: Annotated[
        int, typer.Option(metavar="N", help="How many partial clusterings are kept; 0 keeps all: a proof with an admissible score.", rich_help_panel=_SEARCH)
    ] = 100,
    score: Annotated[
        str, typer.Option(metavar="NAME", help=f"What a partial clustering is worth: {', '.join(SCORES)}.", rich_help_panel=_SEARCH)
    ] = "inadmissible",
    order: Annotated[
        str,
        typer.Option(metavar="NAMES", help=f"In which order points are seated: {', '.join(ORDERS)}; of several joined by + the best.", rich_help_panel=_SEARCH),
    ] = "marginal",
    queue: Annotated[str, typer.Option(metavar="NAME", help=f"Which entries are extended next: {', '.join(QUEUES)}.", rich_help_panel=_SEARCH)] = "best-first",
    restarts: Annotated[int, typer.Option(metavar="N", help="So many random orders more.", rich_help_panel=_SEARCH)] = 0,
    refine: Annotated[bool, typer.Option("--refine/--no-refine", help="Improve what the search has found.", rich_help_panel=_SEARCH)] = True,
    rounds: Annotated[
        int | None, typer.Option(metavar="N", help="Rounds of refinement; by default 100, or as many as there is time for.", rich_help_panel=_SEARCH)
    ] = None,
    time_budget: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop after so long, with the best clustering so far.", rich_help_panel=_SEARCH)
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same clustering.", rich_help_panel=_SEARCH)] = 0,
) -> None:
    """Find the most probable clustering of the rows of a table, without saying how many clusters there are.

    One answer instead of draws, and fast; 'maitre fit' also tells how sure it is. Writes a folder with the cluster of every row (labels.csv), a picture (clusters.png), a
    summary (summary.txt, summary.json) and the model (result). Ctrl-C stops early and keeps the best clustering so far.
    """
    target = Path(f"{stem(file)}-maitre") if out is None else out
    check_free(target, force)
    reading = read_noted(file, *options.signs(separator, decimal))
    table = as_data(reading.table)
    data, truth = selected(table, split_names(columns), split_names(drop), label_column)
    data = with_types(data, parse_types(types or []), decide=is_open(family))
    model = assembled(data, with_fixed_scale(as_family(family, data)) if fixed_scale else family, named_prior(prior, concentration))
    console, rows = terminal(quiet), model_rows(shown(file), model, reading.notes)
    show_model(console, rows)
    found = search(
        model, None, None, beam or None, score, [name.strip() for name in order.split("+")], seed, queue,
        restarts=restarts, refine=refine, rounds=rounds, time_budget=time_budget, progress=not quiet,
    )  # fmt: skip
    summary = summary_of(shown(file), truth, found)
    _write(target, shown(file), found, summary, rows)
    if join:
        write_joined(target, table.frame(), found.labels)
    show_found(console, summary)
    say(console, f"\nWritten: {target}/labels.csv, clusters.png, summary.txt, summary.json, and the model (in Python: maitre.load({str(target)!r}))")


def summary_of(name: str, truth: Any, found: Found) -> dict[str, Any]:
    """Everything worth telling, as JSON."""
    model, clusters = found.model, found.labels
    assert model.data is not None
    glance = clusters_at_a_glance(model.data, clusters, np.ones(len(clusters)))
    summary = {
        "data": {"name": name, "rows": model.n, "columns": model.data.n_columns},
        "n_clusters": found.n_clusters,
        "log_joint": found.log_joint,
        "log_likelihood": found.log_likelihood,
        "optimal": found.optimal,
        "complete": found.complete,
        "entries": {"popped": found.popped, "pushed": found.pushed, "dropped": found.dropped},
        "adjusted_rand": None if truth is None else adjusted_rand(truth, found.labels),
        "clusters": [{name: value for name, value in row.items() if name != "certainty"} for row in glance],  # a search does not say how sure it is
        "columns": columns_in_json(model.columns),
        "hyperparameters": {name: value for name, value in found.hyperparameters.items() if np.ndim(value) == 0},
        "stages": [stage._asdict() for stage in found.stages],
        "family": described(model.given, model.family),
        "prior": described(model.prior, model.prior),
        "settings": found.settings,
    }
    return without_nan(summary)  # type: ignore[no-any-return]


def show_found(console: Console, summary: dict[str, Any]) -> None:
    """The clusters, and how they were found."""
    show_clusters(console, summary["clusters"], "the most probable partition found")
    heading(console, "How it was found")
    table = table_of("", "log joint", "clusters", "CPU seconds")
    table.columns[0].justify = "left"
    for stage in summary["stages"]:
        table.add_row(Text(stage["name"]), f"{stage['log_joint']:,.2f}", str(stage["n_clusters"]), f"{stage['seconds']:.2f}")
    console.print(table)
    for name, value in summary["hyperparameters"].items():
        console.print(f"{name} estimated at {value:.4g}")
    entries = summary["entries"]
    console.print(f"{counted(entries['popped'], 'partial clustering')} extended, {entries['pushed']:,} made, {entries['dropped']:,} dropped")
    if summary["optimal"]:
        console.print("\nProven: no partition of these points has a higher log joint.")
    if summary["adjusted_rand"] is not None:
        console.print(f"\nNote: agreement with the given labels (adjusted Rand index, 1 is perfect, 0 is chance): {summary['adjusted_rand']:.3f}")
    if not summary["complete"]:
        console.print("\nNote: stopped early, with the best clustering so far.")


def _write(folder: Path, name: str, found: Found, summary: dict[str, Any], rows: list[tuple[str, str]]) -> None:
    import io

    import pandas as pd

    from maitre.reports.partition import paint_partition

    clusters = found.labels
    save(found.as_posterior(), folder, replacing=ANSWERS)
    write_table(folder / "labels.csv", pd.DataFrame({"row": np.arange(len(clusters)), "cluster": clusters}))
    assert found.model.data is not None
    paint_partition(folder / "clusters.png", found.model.data.numbers, clusters, [(stage.name, stage.log_joint) for stage in found.stages], name)
    text = io.StringIO()
    plain = Console(file=text, width=120, highlight=False, markup=False, color_system=None)
    show_model(plain, rows)
    show_found(plain, summary)
    write_text(folder / "summary.txt", "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n")
    write_text(folder / "summary.json", json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False))
