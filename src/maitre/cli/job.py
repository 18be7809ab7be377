"""One job from a model to a folder of results: show the model, sample into the folder, show the answer, write it beside the draws."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from maitre.chains.run import Conditions
from maitre.chains.settings import Settings, seconds
from maitre.cli.answer import MAX_SIMILARITY, clusters_at_a_glance, rankings_at_a_glance
from maitre.cli.folder import ANSWERS, JOINED, check_free
from maitre.cli.model import described, model_rows
from maitre.cli.options import signs
from maitre.cli.show import as_text, say, show_answer, show_model, terminal
from maitre.data.columns import Column
from maitre.data.files import read_noted, replacing, write_table
from maitre.data.rows import Rows, as_data
from maitre.model import Model
from maitre.numerics.arrays import Floats, Ints
from maitre.partitions import adjusted_rand
from maitre.posterior.folder import versions_used
from maitre.posterior.groups import GroupPosterior
from maitre.posterior.posterior import Posterior
from maitre.posterior.rankings import RankingPosterior
from maitre.sampling import sample_model, workers


class Source(NamedTuple):
    """The file that the data came from: what it is called, how it was read, and its path if it is to be joined with the clusters."""

    name: str
    notes: list[str]
    path: str | None = None
    separator: str | None = None
    decimal: str | None = None

    def table(self) -> Any:
        """The table in the file, or None if it is not there any more."""
        try:
            return None if self.path is None else as_data(read_noted(self.path, *signs(self.separator, self.decimal)).table).frame()
        except (OSError, ValueError):
            return None


@dataclass(frozen=True)
class Job:
    """What to fit and how, and where the results go."""

    name: str
    model: Model
    out: Path
    settings: Settings = Settings()
    truth: Any = None  # labels to compare with
    places: Rows | None = None  # where the points are, for the picture, if the data do not say it
    time_budget: float | None = None
    threads: int | None = None
    force: bool = False
    quiet: bool = False
    store_data: bool = True
    reading: Source | None = None
    joined: Any = None  # the input, to be written with the clusters beside it
    chosen: tuple[int, list[int]] | None = None  # of an array, how many columns it had and which were used

    def notes(self) -> dict[str, Any]:
        """What a resumed run needs to write the same answers."""
        places = None if self.places is None or self.places.numbers is None else np.asarray(self.places.numbers, dtype=np.float64)
        names = None if self.places is None or places is None else list(getattr(self.places.numbers, "columns", [])) or None
        return {
            "name": self.name,
            "truth": None if self.truth is None else np.asarray(self.truth),
            "places": places,
            "place_names": names,
            "chosen": None if self.chosen is None else np.array(self.chosen[1]),
            "n_columns": None if self.chosen is None else self.chosen[0],
            "reading": None if self.reading is None else dict(self.reading._asdict()),
        }


@dataclass(frozen=True)
class Answer:
    """What came out: draws, the clusters of the partition reported, each point's certainty, everything worth telling, and the model in words."""

    posterior: Posterior
    clusters: Ints
    certain: Floats
    summary: dict[str, Any]
    model_in_words: list[tuple[str, str]]


def run_job(job: Job) -> None:
    """Fit, show, write."""
    check_free(job.out, job.force)
    console = terminal(job.quiet)
    show_model(console, model_rows(job.name, job.model, [] if job.reading is None else job.reading.notes))
    conditions = Conditions(
        workers("threads", job.threads), seconds(job.time_budget), not job.quiet, job.out, job.store_data, replacing=(*ANSWERS, JOINED), notes=job.notes()
    )
    began = time.monotonic()
    posterior = sample_model(job.model, job.settings, conditions)
    write_answers(console, posterior, job.out, time.monotonic() - began, job.time_budget, job.joined)


def write_answers(console: Console, posterior: Posterior, out: Path, took: float, time_budget: float | None, joined: Any = None) -> None:
    """Write what a posterior says to the folder of its run, then show it."""
    answer = _answered(posterior, took, time_budget)
    _write(out, answer, joined)
    show_answer(console, answer.summary)
    contents = {
        "labels.csv": "the cluster of every row, and how sure that is",
        "clusters.png": "a picture of the clusters and the chains",
        "summary.txt": "what is printed above; summary.json has it for programs",
    }
    if joined is not None:
        contents[JOINED] = "the input with the clusters beside it"
    show_written(console, out, contents)


def show_written(console: Console, out: Path, contents: dict[str, str]) -> None:
    """The files of a run folder and what they hold."""
    console.print("\nWritten:", style="bold")
    for name, meaning in contents.items():
        say(console, f"  {out / name}  {meaning}")
    say(console, f"  {out}  all draws: in Python maitre.load({str(out)!r}); for more of them maitre resume {out} --draws N")


def facts_of_run(posterior: Posterior | GroupPosterior, took: float) -> dict[str, Any]:
    """Model, settings and what surrounds the draws, for summary.json."""
    model = posterior.model
    return {
        "family": described(model.given, model.family),
        "prior": described(model.prior, model.prior),
        "settings": posterior.settings,
        "draws_kept": list(posterior.log_joint.shape),
        "moves": posterior.moves,
        "exact": posterior.exact,
        "interrupted": posterior.interrupted,
        "seconds": round(took, 3),
        "versions": versions_used(),
    }


def notes_on_end(summary: dict[str, Any]) -> list[str]:
    """Whether the run ended early, and whether its draws are exact."""
    notes = []
    chains, draws = summary["draws_kept"]
    if summary["settings"].get("stopped_in_burn_in"):
        notes.append("stopped during burn-in: this is the state then, not a draw from the posterior; 'maitre resume' goes on from here.")
    elif summary["interrupted"]:
        notes.append(f"stopped early, with {draws} of {summary['settings']['draws']} draws in each of {chains} chains; 'maitre resume' goes on from here.")
    if not summary["exact"]:
        notes.append("some moves used are approximate: these are not draws from the exact posterior.")
    return notes


def _answered(posterior: Posterior, took: float, time_budget: float | None) -> Answer:
    model, notes, labels, verdict = posterior.model, posterior.notes, posterior.point_estimate(), posterior.verdict()
    assert model.data is not None
    certain, stable = posterior.certainty(labels), posterior.stability(labels)
    glance = (
        rankings_at_a_glance(posterior, certain, stable)
        if isinstance(posterior, RankingPosterior)
        else clusters_at_a_glance(model.data, labels, certain, stable)
    )
    agreement = None if notes.get("truth") is None else adjusted_rand(notes["truth"], labels)
    summary = {
        "data": {"name": notes.get("name", ""), "rows": model.n, "columns": model.data.n_columns},
        "n_clusters": int(labels.max()) + 1,
        "story": posterior.story(),
        "verdict": {"good": verdict.good, "sentence": verdict.sentence, "table": verdict.table},
        "log_joint": float(posterior.log_joint.max()),
        "adjusted_rand": agreement,
        "clusters": glance,
        "n_clusters_posterior": {str(k): p for k, p in posterior.k_probabilities().items()},
        "diagnostics": posterior.diagnostics(),
        "columns": columns_in_json(model.columns),
        "choice": model.choice,
        **facts_of_run(posterior, took),
    }
    summary["settings"] = summary["settings"] | {"time_budget": time_budget}
    summary = without_nan(summary)
    read = (notes.get("reading") or {}).get("notes", [])
    return Answer(posterior, labels, certain, summary | {"notes": _notes(summary)}, model_rows(notes.get("name", ""), model, read))


def _notes(summary: dict[str, Any]) -> list[str]:
    """What a reader should know before believing the answer."""
    agreement = summary["adjusted_rand"]
    known = [] if agreement is None else [f"agreement with the given labels (adjusted Rand index, 1 is perfect, 0 is chance): {agreement:.3f}"]
    return [*known, *notes_on_end(summary)]


def without_nan(value: Any) -> Any:
    """The value with null for numbers that JSON does not know."""
    if isinstance(value, dict):
        return {key: without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_text(file: Path, text: str) -> None:
    """A text file, replaced in one step."""
    with replacing(file) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def columns_in_json(columns: tuple[Column, ...]) -> list[dict[str, Any]]:
    """What was decided for each column."""
    return [{"name": str(column.name), "type": column.kind, "why": column.why, "given": column.given} for column in columns]


def write_joined(folder: Path, table: Any, clusters: Ints, certain: Floats | None = None) -> None:
    """The input with the cluster of every row, and how sure that is, in columns whose names are new."""
    added = {"cluster": clusters} | ({} if certain is None else {"probability": certain.round(4)})
    free = {name: name if name not in table.columns else f"maitre_{name}" for name in added}
    write_table(folder / JOINED, table.assign(**{free[name]: values for name, values in added.items()}))


def _write(folder: Path, answer: Answer, joined: Any = None) -> None:
    import pandas as pd

    from maitre.reports.picture import paint_summary
    from maitre.reports.rankings import paint_rankings

    posterior = answer.posterior
    labels = pd.DataFrame({"row": np.arange(len(answer.clusters)), "cluster": answer.clusters, "probability": answer.certain.round(4)})
    if posterior.settings.get("stopped_in_burn_in"):
        labels = labels.drop(columns="probability")  # of a single state that is no draw
    write_table(folder / "labels.csv", labels)
    if joined is not None:
        write_joined(folder, joined, answer.clusters, answer.certain)
    if isinstance(posterior, RankingPosterior):
        paint_rankings(folder / "clusters.png", posterior, posterior.notes.get("name", ""))
    else:
        paint_summary(
            folder / "clusters.png",
            _for_the_picture(posterior),
            answer.clusters,
            posterior.n_clusters,
            posterior.log_joint,
            posterior.similarity() if posterior.model.n <= MAX_SIMILARITY else None,
            posterior.notes.get("name", ""),
        )
    write_text(folder / "summary.txt", as_text(answer.model_in_words, answer.summary))
    write_text(folder / "summary.json", json.dumps(answer.summary, indent=1, ensure_ascii=False, allow_nan=False))


def _for_the_picture(posterior: Posterior) -> Any:
    import pandas as pd

    places, names = posterior.notes.get("places"), posterior.notes.get("place_names")
    assert posterior.model.data is not None
    if places is None:
        return posterior.model.data.numbers
    return pd.DataFrame(places, columns=names) if names else places
