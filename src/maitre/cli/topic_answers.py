"""The answers of `maitre topics` and `maitre resume`: topics with their words, documents with their topics, a picture and a summary; new documents for `maitre predict`."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from maitre.cli.job import facts_of_run, notes_on_end, show_written, without_nan, write_text
from maitre.cli.model import model_lines
from maitre.cli.show import heading, show_model, table_of
from maitre.data.corpora import read_documents
from maitre.data.files import write_table
from maitre.families.words import Words
from maitre.model import Model
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.wording import counted
from maitre.posterior.groups import GroupPosterior
from maitre.posterior.verdict import WORRYING

ANSWERS = {
    "topics.csv": "the topics: how prevalent they are, and their words",
    "documents.csv": "the documents: how long they are, and their topics",
    "topics.png": "a picture of the topics, the documents and the chains",
    "summary.txt": "what is printed above; summary.json has it for programs",
}
_SHOWN, _WORDS, _TOPICS_PER_DOCUMENT = 20, 20, 5


def model_rows(model: Model, notes: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("data", f"{notes.get('name', '')}: {notes.get('corpus', f'{model.n:,} words')}"),
        *model_lines("topics", model.given, model.family),
        *model_lines("prior", model.prior, model.prior),
    ]


def write_topics(console: Console, posterior: GroupPosterior, out: Path, took: float) -> None:
    """Show what a posterior of topics says, and write it to the folder of its run."""
    chain, draw = posterior.best_draw
    counts = posterior.topic_counts(chain, draw)
    order = np.argsort(-np.asarray(counts.sum(axis=1)).ravel(), kind="stable")
    frame = _topics_table(posterior, counts[order], order)
    del counts

    def mixtures() -> Iterator[Floats]:
        return (block[:, order] for block in posterior.blocks_of_weights(chain, draw))

    summary = _summary(posterior, frame, took)
    text = _as_text(model_rows(posterior.model, posterior.notes), frame, summary)
    write_table(out / "topics.csv", frame)
    write_table(out / "documents.csv", _documents_table(posterior.group_names, np.diff(posterior.model.data.starts), mixtures()))  # type: ignore[union-attr]
    _paint(out / "topics.png", posterior, frame, mixtures())
    write_text(out / "summary.txt", text)
    write_text(out / "summary.json", json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False))
    _show(console, frame, summary)
    show_written(console, out, ANSWERS)


def write_groups(console: Console, posterior: GroupPosterior, out: Path, took: float) -> None:
    """The answers for any groups: topics of words, and of other points a summary."""
    if isinstance(posterior.model.family, Words):
        show_model(console, model_rows(posterior.model, posterior.notes))
        return write_topics(console, posterior, out, took)
    console.print(posterior.summary())
    return write_text(out / "summary.txt", posterior.summary() + "\n")


def _topics_table(posterior: GroupPosterior, counts: Any, order: Any) -> Any:
    """The topics of the best draw, numbered from 0, the most prevalent."""
    import pandas as pd

    names, totals = posterior.vocabulary, np.asarray(counts.sum(axis=1)).ravel()
    chain, draw = posterior.best_draw
    in_documents = np.bincount(posterior.group_counts(chain, draw).indices, minlength=len(order))[order]
    leading = [[str(names[w]) for w in row.indices[np.argsort(-row.data, kind="stable")[:_WORDS]]] for row in counts]
    return pd.DataFrame(
        {
            "topic": np.arange(len(order)),
            "prevalence": (totals / totals.sum()).round(6),
            "words_in_all": totals,
            "documents": in_documents,
            "found_again": posterior.found_again()[order].round(3),
            "words": [" ".join(words) for words in leading],
        }
    )


def predicted_documents(posterior: GroupPosterior, file: Path, column: str | None) -> Any:
    """New documents with their leading topics, in the numbers of topics.csv, and the share of topics that were not seen."""
    names = posterior.model.data.vocabulary  # type: ignore[union-attr]
    corpus = read_documents(file, None if names is None else list(names), column)
    totals = np.asarray(posterior.topic_counts(*posterior.best_draw).sum(axis=1)).ravel()
    mixtures = posterior.transform(corpus.counts)
    documents = np.arange(len(mixtures)) if corpus.documents is None else corpus.documents
    table = _documents_table(documents, np.asarray(corpus.counts.sum(axis=1)).ravel(), [mixtures[:, np.argsort(-totals, kind="stable")]])
    return table.assign(new_topics=mixtures[:, -1].round(4))


def _documents_table(documents: Any, lengths: Any, mixtures: Iterable[Floats]) -> Any:
    """Documents with their leading topics, in the numbers of topics.csv; their mixtures of topics come in blocks."""
    import pandas as pd

    leading, shares = (np.vstack(parts) for parts in zip(*map(_leading, mixtures), strict=True))
    table: dict[str, Any] = {"document": documents, "words": lengths}
    for place in range(leading.shape[1]):
        table |= {f"topic_{place + 1}": leading[:, place], f"share_{place + 1}": shares[:, place]}
    return pd.DataFrame(table)


def _leading(mixtures: Floats) -> tuple[Ints, Floats]:
    """The leading topics of some documents, and their shares."""
    topics = np.argsort(-mixtures, axis=1, kind="stable")[:, :_TOPICS_PER_DOCUMENT]
    return topics, np.take_along_axis(mixtures, topics, axis=1).round(4)


def _paint(file: Path, posterior: GroupPosterior, frame: Any, mixtures: Iterable[Floats]) -> None:
    from maitre.reports.topics import documents_shown, paint_topics

    shown = documents_shown(mixtures, posterior.n_groups)
    title = posterior.notes.get("name", "")
    paint_topics(file, list(frame["words"]), frame["prevalence"], shown, posterior.n_groups, posterior.n_clusters, posterior.log_joint, title)


def _summary(posterior: GroupPosterior, frame: Any, took: float) -> dict[str, Any]:
    n_most = int(np.searchsorted(np.cumsum(frame["prevalence"]), 0.99)) + 1
    summary = {
        "data": {
            "name": posterior.notes.get("name", ""),
            "corpus": posterior.notes.get("corpus", ""),
            "documents": posterior.n_groups,
            "words": posterior.model.n,
        },
        "n_topics": len(frame),
        "n_topics_holding_99_percent": min(n_most, len(frame)),
        "n_topics_drawn": {"mean": float(posterior.n_clusters.mean()), "least": int(posterior.n_clusters.min()), "most": int(posterior.n_clusters.max())},
        "topics": frame.head(_SHOWN).to_dict("records"),
        "start": posterior.start_in_words,
        "diagnostics": posterior.diagnostics(),
        **facts_of_run(posterior, took),
    }
    return dict(without_nan(summary | {"notes": _notes(summary)}))


def _notes(summary: dict[str, Any]) -> list[str]:
    """What a reader should know before believing the answer."""
    notes = [
        "these are the topics of one draw, that with the highest log joint. 'found again' is the share of other draws, of all chains, with a topic of much the same words; "
        "topics are matched across draws for this alone.",
        *notes_on_end(summary),
    ]
    worst = [row["r_hat"] for row in summary["diagnostics"].values()]
    if not all(np.isfinite(worst)) or max(worst) > WORRYING:
        notes.append(
            "the chains have not settled yet, as is usual for topics: they predict well long before that (posterior.perplexity), but numbers of topics are rough; "
            "raise --draws and --burn-in for more."
        )
    return notes


def _show(console: Console, frame: Any, summary: dict[str, Any]) -> None:
    """The topics found, the diagnostics, and what to know."""
    drawn = summary["n_topics_drawn"]
    heading(console, f"{counted(len(frame), 'topic')} in the most probable draw; {summary['n_topics_holding_99_percent']:,} of them hold 99 % of all words")
    table = table_of("topic", "prevalence", "documents", "found again", "words")
    table.columns[4].justify = "left"
    room = console.width - 48
    for row in frame.head(_SHOWN).itertuples():
        table.add_row(
            *map(
                Text,
                (
                    str(row.topic),
                    f"{row.prevalence:.1%}",
                    f"{row.documents:,}",
                    f"{row.found_again:.0%}",
                    textwrap.shorten(row.words, max(room, 20), placeholder=" …"),
                ),
            )
        )
    console.print(table)
    if len(frame) > _SHOWN:
        console.print(f"… and {len(frame) - _SHOWN:,} less prevalent ones; topics.csv has them all.")
    heading(console, "Have the chains converged? R̂ near 1 and many effective draws say yes")
    table = table_of("", "mean", "sd", "effective draws", "R̂")
    table.columns[0].justify = "left"
    for name, values in summary["diagnostics"].items():
        cells = ["–" if values[key] is None else f"{values[key]:.{digits}f}" for key, digits in (("ess", 0), ("r_hat", 3))]
        table.add_row(Text(_IN_WORDS.get(name, name)), f"{values['mean']:,.4g}", f"{values['sd']:.3g}", *cells)
    console.print(table)
    settings, (chains, draws) = summary["settings"], summary["draws_kept"]
    console.print(
        f"{counted(chains, 'chain')} × {counted(draws, 'draw')} after {settings['burn_in']:,} iterations of burn-in; seed {settings['seed']}; {summary['seconds']:.1f} s\n"
        f"start: {summary['start']}\ntopics per draw: {drawn['least']:,} to {drawn['most']:,}, mean {drawn['mean']:,.1f}"
    )
    for note in summary["notes"]:
        console.print(f"\nNote: {note}")


_IN_WORDS = {
    "log_joint": "log joint",
    "n_clusters": "number of topics",
    "rest": "weight of topics not seen",
    "top": "α, of the common measure",
    "group": "γ, of the documents",
    "family.concentration": "η, of the topics' words",
}


def _as_text(rows: list[tuple[str, str]], frame: Any, summary: dict[str, Any]) -> str:
    text = io.StringIO()
    console = Console(file=text, width=140, highlight=False, markup=False, color_system=None)
    show_model(console, rows)
    _show(console, frame, summary)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"
