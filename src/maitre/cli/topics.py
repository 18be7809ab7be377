"""`maitre topics`: the topics of documents."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from maitre.chains.run import Conditions
from maitre.chains.settings import seconds
from maitre.cli import options
from maitre.cli.folder import check_free
from maitre.cli.show import show_model, terminal
from maitre.cli.topic_answers import ANSWERS, model_rows, write_topics
from maitre.data.corpora import FORMATS, Corpus, read_corpus
from maitre.data.groups import GroupedRows
from maitre.families.words import Words
from maitre.numerics.distributions import Gamma
from maitre.numerics.wording import counted
from maitre.posterior.groups import GroupPosterior
from maitre.sampling import group_model, group_settings, sample_model, workers

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
    show_model(console, model_rows(model, notes))
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
