"""One job from data to a folder of results: show the model, sample, show the answer, write everything in one step."""

from __future__ import annotations

import json
import math
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from maitre.cli.answer import certainty, clusters_at_a_glance, numbered_by_size, numeric_columns, similarity
from maitre.cli.folder import check_free, new_result
from maitre.cli.model import described, from_data, model_lines
from maitre.cli.show import WORRYING, as_text, plural, say, show_answer, show_model, terminal
from maitre.data.files import write_table
from maitre.families.base import Family
from maitre.families.product import Product
from maitre.numerics.arrays import Floats, Ints
from maitre.partitions import adjusted_rand
from maitre.posterior.posterior import Posterior
from maitre.priors.base import Prior
from maitre.sampling import sample


@dataclass(frozen=True)
class Job:
    """What to fit and how, and where the results go."""

    name: str
    data: Any
    family: Family
    prior: Prior
    out: Path
    truth: Any = None  # labels to compare with
    places: Any = None  # where the points are, for the picture, if the data do not say it
    moves: str = "auto"
    draws: int | None = None
    burn_in: int | None = None
    thin: int = 1
    chains: int = 4
    seed: int = 0
    init: str = "auto"
    time_budget: float | None = None
    threads: int | None = None
    force: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class Answer:
    """What came out: draws, the clusters of the best partition numbered by size, each point's certainty, and everything worth telling."""

    posterior: Posterior
    clusters: Ints
    certain: Floats
    summary: dict[str, Any]
    model: list[tuple[str, str]]


def run_job(job: Job) -> None:
    """Fit, show, write. Nothing is left behind in `job.out` by a job that fails."""
    _check(job)
    console = terminal(job.quiet)
    filled = job.family.with_defaults(job.family.validate(job.data))
    model = model_rows(job, filled)
    show_model(console, model)
    began = time.monotonic()
    posterior = _sampled(job, filled)
    answer = _answered(job, posterior, model, time.monotonic() - began)
    show_answer(console, answer.summary)
    with new_result(job.out) as folder:
        _write(folder, job, answer)
    _say_where(console, job.out)


def _check(job: Job) -> None:
    if job.time_budget is not None and not job.time_budget > 0:
        raise ValueError(f"--time-budget is {job.time_budget:g}; expected a number of seconds above 0")
    if job.threads is not None and job.threads < 1:
        raise ValueError(f"--threads is {job.threads}; expected at least 1")
    if job.seed < 0:
        raise ValueError(f"--seed is {job.seed}; expected a whole number of at least 0")
    check_free(job.out, job.force)


def _sampled(job: Job, family: Family) -> Posterior:
    """All chains at once unless told otherwise: if time runs out or someone presses Ctrl-C, every one of them has draws."""
    return sample(
        job.data,
        family=family,
        prior=job.prior,
        moves=job.moves,
        draws=job.draws,
        burn_in=job.burn_in,
        thin=job.thin,
        chains=job.chains,
        seed=job.seed,
        init=job.init,
        progress=not job.quiet,
        time_budget=job.time_budget,
        threads=job.threads,
    )


def model_rows(job: Job, filled: Family) -> list[tuple[str, str]]:
    """The data and the model in words, as rows of a table."""
    n, n_columns = len(job.data) if not hasattr(job.data, "shape") else job.data.shape[0], n_columns_of(job.data)
    rows = [
        ("data", f"{job.name}: {plural(n, 'row')}, {plural(n_columns, 'column')}"),
        *model_lines("family", job.family, filled),
        *model_lines("prior", job.prior, job.prior),
    ]
    return [*rows, ("", "≈ marks values chosen from the data")] if _guessed(job.family, filled) else rows


def _guessed(given: Family, filled: Family) -> bool:
    if isinstance(given, Product) and isinstance(filled, Product):
        return any(_guessed(before, after) for (_, before), (_, after) in zip(given.groups, filled.groups, strict=True))
    return bool(from_data(given, filled))


def n_columns_of(data: Any) -> int:
    """How many columns the data have."""
    shape = np.shape(data) if not hasattr(data, "shape") else data.shape
    return int(shape[1]) if len(shape) > 1 else 1


def _answered(job: Job, posterior: Posterior, model: list[tuple[str, str]], seconds: float) -> Answer:
    best = posterior.best
    clusters, certain = numbered_by_size(best), certainty(posterior, best)
    agreement = None if job.truth is None else adjusted_rand(job.truth, best)
    summary = {
        "data": {"name": job.name, "rows": posterior.model.n, "columns": n_columns_of(job.data)},
        "n_clusters": int(best.max()) + 1,
        "log_joint": float(posterior.log_joint.max()),
        "adjusted_rand": agreement,
        "clusters": clusters_at_a_glance(job.data, clusters, certain),
        "n_clusters_posterior": {str(k): p for k, p in posterior.k_probabilities().items()},
        "diagnostics": posterior.diagnostics(),
        "family": described(job.family, posterior.model.family),
        "prior": described(job.prior, posterior.model.prior),
        "settings": posterior.settings | {"time_budget": job.time_budget},
        "draws_kept": list(posterior.log_joint.shape),
        "moves": posterior.moves,
        "exact": posterior.exact,
        "interrupted": posterior.interrupted,
        "seconds": round(seconds, 3),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in ("maitre", "numpy", "scipy", "numba")},
    }
    summary = without_nan(summary)
    return Answer(posterior, clusters, certain, summary | {"notes": _notes(summary)}, model)


def _notes(summary: dict[str, Any]) -> list[str]:
    """What a reader should know before believing the answer."""
    notes = []
    chains, draws = summary["draws_kept"]
    if summary["adjusted_rand"] is not None:
        notes.append(f"agreement with the given labels (adjusted Rand index, 1 is perfect, 0 is chance): {summary['adjusted_rand']:.3f}")
    likeliest = max(summary["n_clusters_posterior"].items(), key=lambda item: item[1])
    if int(likeliest[0]) != summary["n_clusters"]:
        found = f"the partition above has {plural(summary['n_clusters'], 'cluster')}, the likeliest number is {likeliest[0]} ({likeliest[1]:.0%})"
        notes.append(f"{found}: clusters with a low certainty are split or merged in many draws.")
    if summary["interrupted"]:
        notes.append(f"stopped early, with {draws} of {summary['settings']['draws']} draws in each of {chains} chains.")
    if not summary["exact"]:
        notes.append("some moves used are approximate: these are not draws from the exact posterior.")
    worst = [row["r_hat"] for row in summary["diagnostics"].values()]
    if None in worst or max(worst) > WORRYING:
        notes.append("the chains have not settled yet, so probabilities are rough: raise --draws and --burn-in, or try other --moves.")
    return notes


def without_nan(value: Any) -> Any:
    """The value with null for numbers that JSON does not know."""
    if isinstance(value, dict):
        return {key: without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write(folder: Path, job: Job, answer: Answer) -> None:
    import pandas as pd

    from maitre.reports.picture import paint_summary

    labels = pd.DataFrame({"row": np.arange(len(answer.clusters)), "cluster": answer.clusters, "probability": answer.certain.round(4)})
    write_table(folder / "labels.csv", labels)
    answer.posterior.save(folder / "result")
    posterior = answer.posterior
    paint_summary(
        folder / "clusters.png",
        numeric_columns(job.data if job.places is None else job.places),
        answer.clusters,
        posterior.n_clusters,
        posterior.log_joint,
        similarity(posterior),
        job.name,
    )
    (folder / "summary.txt").write_text(as_text(answer.model, answer.summary), encoding="utf-8")
    (folder / "summary.json").write_text(json.dumps(answer.summary, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")


def _say_where(console: Console, out: Path) -> None:
    console.print("\nWritten:", style="bold")
    contents = {
        "labels.csv": "the cluster of every row, and how sure that is",
        "clusters.png": "a picture of the clusters and the chains",
        "summary.txt": "what is printed above; summary.json has it for programs",
        "result": "all draws; in Python: maitre.load(folder)",
    }
    for name, meaning in contents.items():
        say(console, f"  {out / name}  {meaning}")
