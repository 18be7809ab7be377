"""Corpora with held-out documents, one evaluator for all systems, and other libraries' topic models behind it (tomotopy and gensim, if they are installed).

A system gives topics φ (K × words) and weights a of the topics in a document; the evaluator is document completion (`maitre.posterior.completion`), the same halves of
the same documents for all. How each library's numbers become (φ, a) is said where it is done.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from datasets import corpus

from maitre.posterior.completion import Completion

NEUTRAL = 0.1  # a symmetric weight of topics, the same for every system


class Split:
    """A corpus in two parts; words that no training document has are left out."""

    def __init__(self, name: str, documents: int | None = None, seed: int = 0) -> None:
        counts = corpus(name)
        order = np.random.default_rng(seed).permutation(counts.shape[0])[:documents]
        n_held_out = round(0.1 * len(order))
        train, test = counts[np.sort(order[n_held_out:])], counts[np.sort(order[:n_held_out])]
        known = np.flatnonzero(np.asarray(train.sum(axis=0)).ravel())
        self.name, self.train, self.test = name, train[:, known].tocsr(), test[:, known].tocsr()
        self.n_tokens = int(self.train.sum())
        self.completion = Completion(self.test, seed)

    def words(self) -> Iterator[list[str]]:
        """The training documents as lists of words, which are called by their numbers."""
        names = np.array([str(w) for w in range(self.train.shape[1])])
        for m in range(self.train.shape[0]):
            row = slice(self.train.indptr[m], self.train.indptr[m + 1])
            yield list(np.repeat(names[self.train.indices[row]], self.train.data[row]))


@dataclass
class Trace:
    """What a system reached, and when: seconds of the processor, and of its own clock, without those of measuring."""

    name: str
    exact: bool = True
    cpu: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    perplexity: list[float] = field(default_factory=list)
    neutral: list[float] = field(default_factory=list)
    topics: list[int] = field(default_factory=list)
    tokens_per_second: float = float("nan")
    local: float = float("nan")  # seconds of a sweep in parallel steps …
    rest: float = float("nan")  # … and in others


class Ledger:
    """Traces by name in a file, written as they are made: a run that was stopped goes on with the next one. Other settings begin a new file."""

    def __init__(self, file: Path, settings: str) -> None:
        self.file, self.settings = file, settings
        stored = json.loads(file.read_text()) if file.exists() else {}
        self.traces = {name: trace and Trace(**trace) for name, trace in stored.get("traces", {}).items()} if stored.get("settings") == settings else {}

    def trace(self, name: str, make: Callable[[], Trace | None]) -> Trace | None:
        """The trace of this name, made if there is none yet."""
        if name not in self.traces:
            self.traces[name] = make()
            written = {name: trace and asdict(trace) for name, trace in self.traces.items()}
            self.file.write_text(json.dumps({"settings": self.settings, "traces": written}))
        return self.traces[name]


Topics = tuple[Any, Any]  # φ and a


def follow(
    split: Split, trace: Trace, steps: Iterator[tuple[Callable[[], Topics], int]], at: tuple[float, ...], clock: Callable[[], float] = time.process_time
) -> Trace:
    """Let a system run and measure it when so many seconds of its clock have passed; each step gives its present topics and how many tokens it has visited."""
    waiting, cpu, seconds, visited = list(at), 0.0, 0.0, 0
    steps = iter(steps)
    while waiting:
        began = time.process_time(), clock()
        found = next(steps, None)
        cpu, seconds = cpu + time.process_time() - began[0], seconds + clock() - began[1]
        if found is not None:
            visited += found[1]
            last = found[0]
        if found is None or seconds >= waiting[0]:
            while waiting and (found is None or seconds >= waiting[0]):
                waiting.pop(0)
            phi, a = last()
            trace.cpu.append(cpu)
            trace.seconds.append(seconds)
            trace.perplexity.append(split.completion.perplexity([(phi, a)]))
            trace.neutral.append(split.completion.perplexity([(phi, np.full(len(phi), NEUTRAL))]))
            trace.topics.append(len(phi))
    trace.tokens_per_second = visited / cpu
    return trace


def library(name: str) -> Any:
    """A module, or None, which is said."""
    try:
        return import_module(name)
    except ImportError:
        print(f"{name} is not installed, so it is left out: pip install {name}", file=sys.stderr)
        return None


def tomotopy_lda(split: Split, k: int, at: tuple[float, ...], seed: int = 0) -> Trace | None:
    """tomotopy's collapsed Gibbs sampler with K given, η = 0.1, α learnt: φ its word distributions, a its α."""
    tomotopy = library("tomotopy")
    if tomotopy is None:
        return None
    model = tomotopy.LDAModel(k=k, eta=0.1, seed=seed)
    for words in split.words():
        model.add_doc(words)
    model.train(0, workers=1)
    columns = np.array([int(word) for word in model.used_vocabs])

    def topics() -> Topics:
        phi = np.zeros((k, split.train.shape[1]))
        phi[:, columns] = [model.get_topic_word_dist(topic) for topic in range(k)]
        return phi, np.array(model.alpha, dtype=np.float64)

    def steps() -> Iterator[tuple[Callable[[], Topics], int]]:
        while True:
            model.train(5, workers=1)
            yield topics, 5 * split.n_tokens

    return follow(split, Trace(f"tomotopy LDA, K = {k} given"), steps(), at)


def tomotopy_hdp(split: Split, at: tuple[float, ...], seed: int = 0) -> Trace | None:
    """tomotopy's HDP, η = 0.1: φ the word distributions of live topics, a their shares of all words times its α."""
    tomotopy = library("tomotopy")
    if tomotopy is None:
        return None
    model = tomotopy.HDPModel(eta=0.1, initial_k=100, seed=seed)
    for words in split.words():
        model.add_doc(words)
    model.train(0, workers=1)
    columns = np.array([int(word) for word in model.used_vocabs])

    def topics() -> Topics:
        live = [k for k in range(model.k) if model.is_live_topic(k)]
        phi = np.zeros((len(live), split.train.shape[1]))
        phi[:, columns] = [model.get_topic_word_dist(topic) for topic in live]
        shares = np.asarray(model.get_count_by_topics(), dtype=np.float64)[live]
        return phi, np.maximum(float(model.alpha) * shares / shares.sum(), 1e-8)

    def steps() -> Iterator[tuple[Callable[[], Topics], int]]:
        while True:
            model.train(5, workers=1)
            yield topics, 5 * split.n_tokens

    return follow(split, Trace("tomotopy HDP"), steps(), at)


def gensim_hdp(split: Split, at: tuple[float, ...], seed: int = 0) -> Trace | None:
    """gensim's online variational HDP, passed over the corpus again and again: (a, φ) by its own `hdp_to_lda`."""
    models = library("gensim.models")
    if models is None:
        return None
    from gensim.corpora import Dictionary
    from gensim.matutils import Sparse2Corpus

    names = {w: str(w) for w in range(split.train.shape[1])}
    dictionary = Dictionary.from_corpus([[(w, 1) for w in names]], id2word=names)
    documents = list(Sparse2Corpus(split.train.T.tocsc()))
    model = models.HdpModel(
        documents, dictionary, max_chunks=1, chunksize=1, random_state=seed
    )  # it must see the corpus to know its size; one document for a start
    model.max_chunks, model.chunksize = None, 256

    def topics() -> Topics:
        a, beta = model.hdp_to_lda()
        return np.asarray(beta), np.maximum(np.asarray(a), 1e-8)

    def steps() -> Iterator[tuple[Callable[[], Topics], int]]:
        while True:
            for begin in range(0, len(documents), 256):
                model.update(documents[begin : begin + 256])
                yield topics, int(split.train[begin : begin + 256].sum())

    return follow(split, Trace("gensim HdpModel", exact=False), steps(), at)
