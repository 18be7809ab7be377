"""`maitre rankings`: clusters of ballots and other rankings."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from maitre.chains.run import Conditions
from maitre.chains.settings import Settings, seconds
from maitre.cli import options
from maitre.cli.folder import ANSWERS, check_free
from maitre.cli.model import described, named_prior
from maitre.cli.show import heading, plural, say, show_model, table_of, terminal
from maitre.data.files import replacing, write_table
from maitre.data.preflib import PREFLIB, read_rankings
from maitre.families import RANKINGS
from maitre.numerics.arguments import one_of
from maitre.partitions.labels import numbered_by_size
from maitre.posterior.folder import versions_used
from maitre.posterior.rankings import RankingPosterior
from maitre.rankings import family_of, held_out, prior_for, sample_rankings
from maitre.sampling import workers

_TOP, _ROWS = 5, 20
_WORRYING = 1.05


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
    Settings("auto", draws, burn_in, thin or 1, chains, seed, init)
    rankings = read_rankings(file, form, ties, seed)
    check_free(target, force)
    console = terminal(quiet)
    distinct = len(rankings.starts) - 1
    show_model(console, [("data", f"{file.name}: {plural(rankings.n, 'ranking')} ({distinct:,} distinct) of {plural(rankings.n_items, 'item')}")])
    comparison = held_out(rankings, seed, None if prior is None else named_prior(prior, concentration), progress=not quiet) if family == "auto" else None
    chosen = family_of(family if comparison is None else max(comparison, key=lambda name: comparison[name]))
    partition = prior_for(chosen, None) if prior is None else named_prior(prior, concentration)
    if prior is None and concentration is not None:
        partition = partition.at({"concentration": concentration})
    conditions = Conditions(
        workers("threads", threads), seconds(time_budget), not quiet, target, True, replacing=ANSWERS, notes={"name": file.name, "held_out": comparison}
    )
    began = time.monotonic()
    posterior = sample_rankings(rankings, chosen, partition, "auto", draws, burn_in, thin, chains, init, seed=seed, conditions=conditions)
    write_ranking_answers(console, posterior, target, time.monotonic() - began)


def write_ranking_answers(console: Console, posterior: RankingPosterior, out: Path, took: float) -> None:
    """Show what a posterior says, and write it to the folder of its run."""
    import pandas as pd

    from maitre.reports.rankings import paint_rankings

    chain, draw = posterior.best_draw
    shares = posterior.shares(chain, draw)
    order = np.argsort(-shares, kind="stable")
    centers = [[posterior.rankings.name_of(int(item)) for item in row] for row in posterior.orderings(chain, draw)[order]]
    firmness, certain = posterior.firmness(chain, draw)[order], posterior.certainty()
    summary = _summary(posterior, centers, firmness, shares[order], took)
    _show(console, summary)
    clusters = numbered_by_size(np.asarray(posterior.labels[chain, draw]))
    write_table(out / "labels.csv", pd.DataFrame({"voter": np.arange(len(clusters)), "cluster": clusters, "probability": certain.round(4)}))
    paint_rankings(out / "clusters.png", centers, firmness, shares[order], posterior.n_clusters, posterior.notes.get("name", ""))
    text = io.StringIO()
    _show(Console(file=text, width=120, highlight=False, markup=False, color_system=None), summary)
    for name, content in (("summary.txt", text.getvalue()), ("summary.json", json.dumps(summary, indent=1, ensure_ascii=False))):
        with replacing(out / name) as unfinished:
            unfinished.write_text(content, encoding="utf-8")
    console.print("\nWritten:", style="bold")
    for name, meaning in (
        ("labels.csv", "the cluster of every voter"),
        ("clusters.png", "a picture of the clusters"),
        ("summary.txt", "what is printed above"),
    ):
        say(console, f"  {out / name}  {meaning}")
    say(console, f"  {out}  all draws: in Python maitre.load({str(out)!r}); for more of them maitre resume {out} --draws N")


def _summary(posterior: RankingPosterior, centers: list[list[str]], firmness: Any, shares: Any, took: float) -> dict[str, Any]:
    model, held = posterior.model, posterior.notes.get("held_out")
    rows = [
        {"cluster": k + 1, "share": float(share), "ordering": center, "firmness": [round(float(p), 4) for p in firm]}
        for k, (share, center, firm) in enumerate(zip(shares, centers, firmness, strict=True))
    ]
    diagnostics = {name: {key: float(v) if np.isfinite(v) else None for key, v in row.items()} for name, row in posterior.diagnostics().items()}
    notes = []
    if held:
        better, worse = sorted(held, key=lambda name: -held[name])
        notes.append(
            f"{better} predicts these rankings better than {worse}: held-out rankings are {held[better]:.3f} nats each on average, against {held[worse]:.3f}; it was used."
        )
    worst = [row["r_hat"] for row in diagnostics.values()]
    if None in worst or max(v for v in worst if v is not None) > _WORRYING:
        notes.append(
            "the chains have not settled on one number of clusters: clusters of ballots overlap, and each chain shows one way to part them; raise --burn-in, and compare."
        )
    if posterior.interrupted:
        notes.append("stopped early; 'maitre resume' goes on from here.")
    return {
        "data": {"name": posterior.notes.get("name", ""), "rankings": model.n, "items": posterior.rankings.n_items},
        "family": described(model.given, model.family),
        "prior": described(model.prior, model.prior),
        "held_out": held,
        "n_clusters": len(rows),
        "clusters": rows,
        "n_clusters_posterior": {str(k): p for k, p in posterior.k_probabilities().items()},
        "diagnostics": diagnostics,
        "settings": posterior.settings,
        "exact": posterior.exact,
        "interrupted": posterior.interrupted,
        "seconds": round(took, 3),
        "notes": notes,
        "versions": versions_used(),
    }


def _show(console: Console, summary: dict[str, Any]) -> None:
    heading(console, f"{plural(summary['n_clusters'], 'cluster')} in the most probable draw ({summary['family']['name']})")
    table = table_of("cluster", "share", "from best to worst (in brackets, how firm each place is)")
    table.columns[2].justify = "left"
    for row in summary["clusters"][:_ROWS]:
        places = [f"{item} ({firm:.0%})" for item, firm in zip(row["ordering"][:_TOP], row["firmness"], strict=False)]
        table.add_row(*map(Text, (str(row["cluster"]), f"{row['share']:.1%}", ", ".join(places))))
    console.print(table)
    if len(summary["clusters"]) > _ROWS:
        console.print(f"… and {len(summary['clusters']) - _ROWS} smaller ones; summary.json has them all.")
    likely = sorted(summary["n_clusters_posterior"].items(), key=lambda item: -item[1])[:5]
    console.print("\nNumber of clusters: " + ", ".join(f"{k} ({p:.0%})" for k, p in likely))
    settings = summary["settings"]
    console.print(
        f"{plural(settings['chains'], 'chain')} × {plural(settings['draws'], 'draw')} after {settings['burn_in']} of burn-in; seed {settings['seed']}"
    )
    for note in summary["notes"]:
        console.print(f"\nNote: {note}")
