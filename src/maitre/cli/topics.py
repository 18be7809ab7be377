"""`maitre topics`: the topics of documents."""

from __future__ import annotations

import io
import json
import textwrap
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from maitre.chains.run import Conditions
from maitre.chains.settings import seconds
from maitre.cli import options
from maitre.cli.folder import check_free
from maitre.cli.job import without_nan, write_text
from maitre.cli.model import described, model_lines
from maitre.cli.show import heading, say, show_model, table_of, terminal
from maitre.data.corpora import FORMATS, Corpus, read_corpus, read_documents
from maitre.data.files import write_table
from maitre.data.groups import GroupedRows
from maitre.families.words import Words
from maitre.model import Model
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.distributions import Gamma
from maitre.numerics.wording import counted
from maitre.posterior.folder import versions_used
from maitre.posterior.groups import GroupPosterior
from maitre.posterior.verdict import WORRYING
from maitre.sampling import group_model, group_settings, sample_model, workers

ANSWERS = {
    "topics.csv": "the topics: how prevalent they are, and their words",
    "documents.csv": "the documents: how long they are, and their topics",
    "topics.png": "a picture of the topics, the documents and the chains",
    "summary.txt": "what is printed above; summary.json has it for programs",
}
_SHOWN, _WORDS, _TOPICS_PER_DOCUMENT = 20, 20, 5
_CORPUS = "Words"


def topics(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"Documents: {FORMATS}.")],
    out: options.Out = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    vocabulary: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A word per line: what the columns of counts stand for, or which words of texts to use.", rich_help_panel=_CORPUS),
    ] = None,
    column: Annotated[str | None, typer.Option(metavar="NAME", help="The column of a table that holds texts.", rich_help_panel=_CORPUS)] = None,
    stop_words: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Words to leave out: english (default for texts), none, or a file with a word per line.", rich_help_panel=_CORPUS),
    ] = None,
    min_documents: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Leave out words in fewer documents; by default 2 for texts.", rich_help_panel=_CORPUS)
    ] = None,
    min_count: Annotated[int, typer.Option(metavar="N", min=0, help="Leave out words with fewer occurrences in all.", rich_help_panel=_CORPUS)] = 0,
    eta: Annotated[
        float | None,
        typer.Option(
            "--eta",
            metavar="NUMBER",
            help="Fix the concentration of the topics' words (less means topics of fewer words); by default it is sampled.",
            rich_help_panel=options.MODEL,
        ),
    ] = None,
    top: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Fix the concentration of the common measure (more means more topics).", rich_help_panel=options.MODEL),
    ] = None,
    group: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="Fix the concentration of documents (more means more topics in each).", rich_help_panel=options.MODEL)
    ] = None,
    moves: Annotated[
        str, typer.Option(metavar="NAME", help="Moves of the sampler: direct, documents, tables or superclusters.", rich_help_panel=options.SAMPLING)
    ] = "direct",
    draws: Annotated[
        int | None, typer.Option(metavar="N", help="Draws kept per chain; by default 20 to 1000, fewer for more words.", rich_help_panel=options.SAMPLING)
    ] = None,
    burn_in: Annotated[
        int | None, typer.Option(metavar="N", help="Iterations dropped before them; by default 50 to 1000.", rich_help_panel=options.SAMPLING)
    ] = None,
    thin: Annotated[int, typer.Option(metavar="N", help="Keep every N-th iteration.", rich_help_panel=options.SAMPLING)] = 1,
    chains: Annotated[int, typer.Option(metavar="N", help="Independent chains; several show whether they agree.", rich_help_panel=options.SAMPLING)] = 2,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same draws, on any number of threads.", rich_help_panel=options.SAMPLING)] = 0,
    init: Annotated[
        str, typer.Option(metavar="NAME", help="Where chains start: auto (many topics at random), random:K, or one.", rich_help_panel=options.SAMPLING)
    ] = "auto",
    time_budget: options.TimeBudget = None,
    threads: options.Threads = None,
) -> None:
    """Find the topics of documents, without saying how many there are.

    Writes a folder with the topics and their words (topics.csv), the documents and their topics (documents.csv), a picture (topics.png), a summary (summary.txt, summary.json)
    and the run itself: 'maitre resume' goes on with it. Ctrl-C stops sampling early and keeps what has been drawn.
    """
    from maitre.cli.fit import stem

    corpus = read_corpus(file, vocabulary, column, stop_words, min_documents, min_count)
    rows, notes = GroupedRows.of_counts(corpus.counts, corpus.vocabulary, corpus.documents), {"name": file.name, "corpus": corpus_in_words(corpus)}
    del corpus  # a large one takes memory that the chains can use
    alpha, gamma = (Gamma(1.0, 1.0) if value is None else value for value in (top, group))
    model = group_model(rows, None if eta is None else Words(eta), alpha, gamma)
    settings = group_settings(rows, moves, draws, burn_in, thin, chains, seed, init)
    target = Path(f"{stem(file)}-maitre") if out is None else out
    check_free(target, force)
    console = terminal(quiet)
    show_model(console, _model_rows(model, notes))
    conditions = Conditions(workers("threads", threads), seconds(time_budget), not quiet, target, replacing=(*ANSWERS, "summary.json"), notes=notes)
    began = time.monotonic()
    posterior = sample_model(model, settings, conditions)
    assert isinstance(posterior, GroupPosterior)
    write_topics(console, posterior, target, time.monotonic() - began)


def corpus_in_words(corpus: Corpus) -> str:
    """How large a corpus is, with a word on empty documents.

    >>> from scipy import sparse
    >>> corpus_in_words(Corpus(sparse.csr_matrix([[2, 1], [0, 0]])))
    '2 documents (1 of them empty: it is kept, and has the common mixture of topics), 2 different words, 3 words in all'
    """
    n_documents, n_words = corpus.counts.shape
    kept = "it is kept, and has" if corpus.n_empty == 1 else "they are kept, and have"
    empty = f" ({corpus.n_empty:,} of them empty: {kept} the common mixture of topics)" if corpus.n_empty else ""
    return f"{counted(n_documents, 'document')}{empty}, {n_words:,} different words, {int(corpus.counts.sum()):,} words in all"


def _model_rows(model: Model, notes: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("data", f"{notes.get('name', '')}: {notes.get('corpus', f'{model.n:,} words')}"),
        *model_lines("topics", model.given, model.family),
        *model_lines("prior", model.prior, model.prior),
    ]


# -- answers --------------------------------------------------------------------------------------------------------------------------------------


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
    text = _as_text(_model_rows(posterior.model, posterior.notes), frame, summary)
    write_table(out / "topics.csv", frame)
    write_table(out / "documents.csv", _documents_table(posterior.group_names, np.diff(posterior.model.data.starts), mixtures()))  # type: ignore[union-attr]
    _paint(out / "topics.png", posterior, frame, mixtures())
    write_text(out / "summary.txt", text)
    write_text(out / "summary.json", json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False))
    _show(console, frame, summary)
    console.print("\nWritten:", style="bold")
    for name, meaning in ANSWERS.items():
        say(console, f"  {out / name}  {meaning}")
    say(console, f"  {out}  all draws: in Python maitre.load({str(out)!r}); for more of them maitre resume {out} --draws N")


def write_groups(console: Console, posterior: GroupPosterior, out: Path, took: float) -> None:
    """The answers for any groups: topics of words, and of other points a summary."""
    if isinstance(posterior.model.family, Words):
        show_model(console, _model_rows(posterior.model, posterior.notes))
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
        "family": described(posterior.model.given, posterior.model.family),
        "prior": described(posterior.model.prior, posterior.model.prior),
        "settings": posterior.settings,
        "draws_kept": list(posterior.log_joint.shape),
        "moves": posterior.moves,
        "exact": posterior.exact,
        "interrupted": posterior.interrupted,
        "seconds": round(took, 3),
        "versions": versions_used(),
    }
    return dict(without_nan(summary | {"notes": _notes(posterior, summary)}))


def _notes(posterior: GroupPosterior, summary: dict[str, Any]) -> list[str]:
    """What a reader should know before believing the answer."""
    notes = [
        "these are the topics of one draw, that with the highest log joint. 'found again' is the share of other draws, of all chains, with a topic of much the same words; "
        "topics are matched across draws for this alone."
    ]
    chains, draws = summary["draws_kept"]
    if posterior.settings.get("stopped_in_burn_in"):
        notes.append("stopped during burn-in: these are the topics then, no draw from the posterior; 'maitre resume' goes on from here.")
    elif posterior.interrupted:
        notes.append(f"stopped early, with {draws} of {posterior.settings['draws']} draws in each of {chains} chains; 'maitre resume' goes on from here.")
    if not posterior.exact:
        notes.append("some moves used are approximate: these are not draws from the exact posterior.")
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
