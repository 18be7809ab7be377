"""`maitre predict`: the clusters of new rows, by a run that is there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from maitre.chains.output import Patient
from maitre.cli import options
from maitre.cli.topic_answers import predicted_documents
from maitre.data.files import read_noted, write_table
from maitre.data.preflib import read_rankings
from maitre.data.rows import Rows, as_data
from maitre.numerics.wording import counted
from maitre.posterior.groups import GroupPosterior
from maitre.posterior.posterior import Posterior
from maitre.posterior.rankings import RankingPosterior
from maitre.sampling import load


def predict_file(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="What 'maitre fit --out RUN', 'maitre search' or mt.sample(store=…) wrote.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Table with the columns of the run and one row per new point; - is the standard input.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A table to write (.csv, .tsv, .parquet); by default CSV goes to the standard output.")
    ] = None,
    join: Annotated[bool, typer.Option("--join", help="With the columns of the input before the answer.")] = False,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    data: Annotated[Path | None, typer.Option(metavar="FILE", help="The data of the run, if its folder has no copy of them.")] = None,
    column: Annotated[str | None, typer.Option(metavar="NAME", help="Of topics: the column of a table that holds texts.")] = None,
    form: Annotated[str | None, typer.Option("--format", metavar="NAME", help="Of rankings in a table: orderings, ranks or long.")] = None,
    ties: Annotated[str, typer.Option(metavar="NAME", help="Of ties in PrefLib files: refuse, or random (broken at random).")] = "refuse",
) -> None:
    """Say to which of the clusters of a run new rows, or rankings, belong; of topics, which ones new documents have.

    For every row: the most probable cluster, numbered as in labels.csv, its probability, the probability of a cluster that was not seen, and the log density of the row.
    Rankings (FILE as for 'maitre rankings') are of the items of the run.
    For every document (FILE as for 'maitre topics'): its length, and the shares of its leading topics, numbered as in topics.csv.
    """
    posterior = load(folder, None if data is None else read_noted(data).table)
    if isinstance(posterior, GroupPosterior):
        return _write(predicted_documents(posterior, file, column), out, "document")
    if isinstance(posterior, RankingPosterior):
        return _write(predicted(posterior, read_rankings(file, form, ties, known=posterior.rankings.item_names)), out, "ranking")
    reading = read_noted(file, *options.signs(separator, decimal))
    rows = as_data(reading.table)
    answer = predicted(posterior, _chosen(posterior, rows))
    if join:
        given = rows.frame()
        if given is None:
            raise ValueError("--join is for tables; the input is a sparse matrix: leave it out")
        taken = {name: f"maitre_{name}" for name in answer.columns if name in given.columns}
        answer = given.assign(**{str(taken.get(name, name)): answer[name].to_numpy() for name in answer.columns if name != "row"})
    return _write(answer, out, "row")


def _write(answer: Any, out: Path | None, what: str) -> None:
    """To the standard output, or to a table."""
    if out is None:
        stream = Patient(sys.stdout)
        stream.write(answer.to_csv(index=False, lineterminator="\n"))
        stream.flush()
        return
    write_table(out, answer)
    print(f"{out}: {counted(len(answer), what)}", file=Patient(sys.stderr))


def predicted(posterior: Posterior, rows: Any) -> Any:
    """A table with the most probable known cluster of each row, its probability, that of a new cluster, and the log density."""
    import pandas as pd

    shares, density = posterior.predict_proba(rows), posterior.log_density(rows)
    known = shares[:, :-1]
    return pd.DataFrame(
        {
            "row": np.arange(len(shares)),
            "cluster": np.argmax(known, axis=1),
            "probability": known.max(axis=1).round(4),
            "new_cluster": shares[:, -1].round(4),
            "log_density": density.round(4),
        }
    )


def _chosen(posterior: Posterior, rows: Rows) -> Rows:
    """Of an array without names, the columns that the run was made from."""
    chosen = posterior.notes.get("chosen")
    if chosen is None or rows.names is not None or rows.n_columns != posterior.notes.get("n_columns"):
        return rows
    return rows.take([int(position) for position in chosen])
