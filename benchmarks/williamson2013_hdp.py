"""Figure 2 of Williamson, Dubey & Xing (2013): topics of NIPS papers in parallel, with controls and rivals, by one evaluator.

    python benchmarks/williamson2013_hdp.py [--quick] [--seconds 60] [--corpus nips_1-12] [--output benchmarks/results/williamson2013_hdp]

**Data.** Papers of NIPS 1 to 12, a tenth of them held out (MAITRE_DATA says where the corpora are). The paper's own corpus is larger and its η, α and preprocessing are not stated; here
α, γ and η are sampled.

**Measure.** Perplexity of the second half of each held-out document given the first, the same halves for all systems (`maitre.posterior.completion`). Each system gives topics φ and
weights a of its own; "neutral" is the same φ with a = 0.1 for every topic.

**Panels.** (a) perplexity against time for P = 1, 2, 4, 8 virtual processors from the paper's start, documents in 80 k-means clusters; (b) all systems, seconds of one processor: the
library's default and the same from the paper's start, protected steps over all documents, CVB0 and Synch (inexact), tomotopy's LDA with 100 and 400 topics given and its HDP, gensim's HDP;
(c) seconds until the perplexity that every P reaches in the end, on all cores and, as a control, with P virtual processors on one; (d) seconds of a sweep in the
local step, which runs in parallel, and in the global one. A second of (a), (c) and (d) is one of the processor, of the busiest thread where several are at work: what a clock on
the wall shows where nothing else runs.

Compilation and measuring are not counted. What has been measured is kept in a .json beside the table: a run that was stopped goes on from there. tomotopy and gensim are left out, with a word, where they are not installed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from threading import get_ident
from typing import Any, cast

os.environ.setdefault("OMP_NUM_THREADS", "1")  # matrix products of other libraries

import matplotlib
import numpy as np
from datasets import DATA, present
from sklearn.cluster import MiniBatchKMeans
from sklearn.preprocessing import normalize
from topic_rivals import Ledger, Split, Topics, Trace, follow, gensim_hdp, tomotopy_hdp, tomotopy_lda

import maitre as mt
from maitre.chains.chain import advance, begin
from maitre.data.groups import GroupedRows
from maitre.engines import engine_named
from maitre.engines.base import Engine
from maitre.model import Model
from maitre.moves import resolve
from maitre.numerics.rng import stream
from maitre.sampling import group_model, group_settings
from maitre.states.franchise import FranchiseState

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PROCESSORS, START = (1, 2, 4, 8), 80
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
Steps = Iterator[tuple[Callable[[], Topics], int]]


def topics_of(state: FranchiseState) -> Topics:
    """φ at its expectation, with one topic more for all that have not been seen, and a = γβ."""
    occupied, n_words = np.flatnonzero(state.sizes), state.statistics.n_words
    counts, eta = state.statistics.seen[:, occupied].T.astype(np.float32), float(state.family.concentration)
    phi = (counts + eta) / (counts.sum(axis=1, keepdims=True) + eta * n_words)
    return np.vstack([phi, np.full(n_words, 1.0 / n_words)]), float(state.prior.group) * np.append(state.beta[occupied], state.rest)


def of_posterior(hdp: mt.GroupPosterior) -> Topics:
    """The same of a result's last draw."""
    return hdp._with_rest(0, hdp.log_joint.shape[1] - 1)


class Corpus(Split):
    """With the model, and the paper's start: the words of a document are all in its k-means cluster."""

    def __init__(self, name: str, documents: int | None = None) -> None:
        super().__init__(name, documents)
        self.rows = GroupedRows.of_counts(self.train)
        self.model: Model = group_model(self.rows, None)
        clusters = min(START, self.train.shape[0] // 5)
        fitted = MiniBatchKMeans(clusters, n_init=1, random_state=0, batch_size=1024).fit(normalize(self.train.astype(np.float64)))
        self.k_means = np.repeat(fitted.labels_, np.diff(self.rows.starts))


def chain(data: Corpus, moves: Any, init: Any, threads: int = 1) -> Steps:
    """A chain of the library from its start on."""
    settings = group_settings(data.rows, moves, draws=10**6, burn_in=100, chains=1, init=init)
    one = begin(data.model, settings, 0, resolve(settings.moves, data.model))
    with engine_named("threads", threads) as engine:
        for _ in advance(one, engine):
            yield lambda: topics_of(one.state), data.n_tokens


class Busiest(Engine):
    """An engine that knows how long its calls keep the busiest thread at work, and all threads together."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.n_workers, self.seconds, self.of_all = engine, engine.n_workers, 0.0, 0.0

    def map(self, function: Any, items: Any) -> list[Any]:
        spent: dict[int, float] = {}

        def timed(item: Any) -> Any:
            began = time.thread_time()
            try:
                return function(item)
            finally:
                spent[get_ident()] = spent.get(get_ident(), 0.0) + time.thread_time() - began

        try:
            return self.engine.map(timed, items)
        finally:
            self.seconds, self.of_all = self.seconds + max(spent.values(), default=0.0), self.of_all + sum(spent.values())

    def clock(self) -> float:
        """Seconds of the processor, of the busiest thread where several are at work."""
        return time.process_time() - self.of_all + self.seconds

    def close(self) -> None:
        self.engine.close()


class Blocks:
    """Superclusters from the paper's start on some threads, and what a sweep's two steps take."""

    def __init__(self, data: Corpus, processors: int, threads: int, seconds: tuple[float, ...]) -> None:
        self.sweeps, self.total = 0, 0.0
        self.engine = Busiest(engine_named("threads", threads))
        self.trace = follow(data, Trace(f"superclusters, P = {processors}, {threads} threads"), self._steps(data, processors), seconds, self.engine.clock)
        self.engine.close()
        self.trace.local, self.trace.rest = self.engine.seconds / self.sweeps, (self.total - self.engine.seconds) / self.sweeps

    def _steps(self, data: Corpus, processors: int) -> Steps:
        state, move = FranchiseState.of_labels(data.model, data.k_means), mt.moves.Superclusters(processors).fitted_to(data.model)
        state.engine = self.engine
        move.burn_in(0.0)
        while True:
            began = self.engine.clock()
            move.step(state, stream(0, processors, self.sweeps))
            self.total += self.engine.clock() - began
            self.sweeps += 1
            yield lambda: topics_of(state), data.n_tokens


def approximation(data: Corpus, name: str, seconds: float, method: Callable[[int], mt.GroupPosterior]) -> Trace:
    """An inexact method with as many iterations as about fill the time."""
    method(2)  # compiles
    began = time.process_time()
    method(2)
    two = time.process_time() - began
    method(6)
    one = max(1e-3, (time.process_time() - began - 2.0 * two) / 4.0)  # the rest is setting up

    def steps() -> Steps:
        hdp = method(max(2, 2 + int((seconds - two) / one)))
        yield lambda: of_posterior(hdp), 0

    return follow(data, Trace(name, exact=False), steps(), (seconds,))


def systems(data: Corpus, seconds: float, at: tuple[float, ...]) -> dict[str, Callable[[], Trace | None]]:
    """All that is compared on one core."""

    def ours(name: str, moves: str, init: Any) -> Trace:
        return follow(data, Trace(name), chain(data, moves, init), at)

    def variational(n: int) -> mt.GroupPosterior:
        return mt.approximate.collapsed_variational_topics(data.train, truncation=100, iterations=n, tolerance=0.0, draws=1, progress=False)

    def synchronous(n: int) -> mt.GroupPosterior:
        return mt.approximate.synchronous_groups(data.train, processors=8, sweeps=n, burn_in=n - 1, init=data.k_means, threads=1, progress=False)

    return {
        "direct": lambda: ours("maitre direct, default start", "direct", "auto"),
        "direct, k-means": lambda: ours("maitre direct, 80 k-means", "direct", data.k_means),
        "documents": lambda: ours("maitre documents, default start", "documents", "auto"),
        "CVB0": lambda: approximation(data, "CVB0, T = 100", seconds, variational),
        "Synch": lambda: approximation(data, "Synch, P = 8, from 80 k-means", seconds, synchronous),
        "LDA 100": lambda: tomotopy_lda(data, 100, at),
        "LDA 400": lambda: tomotopy_lda(data, 400, at),
        "tomotopy HDP": lambda: tomotopy_hdp(data, at),
        "gensim HDP": lambda: gensim_hdp(data, at),
    }


def run(corpus: str, documents: int | None, seconds: float, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []

    def say(text: str) -> None:
        print(text, flush=True)
        lines.append(text)

    warm = Corpus(corpus, 60)
    for moves in ("direct", "documents", [mt.moves.Superclusters(2)]):
        follow(warm, Trace(""), chain(warm, moves, "random:10", 2), (0.3,))
    data = Corpus(corpus, documents)
    say(f"{corpus}: {data.train.shape[0]:,} documents and {data.n_tokens:,} words to learn from, {data.test.shape[0]} documents held out; {CORES} cores\n")
    at = tuple(float(s) for s in np.round(seconds * np.array([0.1, 0.25, 0.5, 1.0]), 2))
    often = tuple(float(s) for s in np.round(np.geomspace(0.03, 1.0, 9) * seconds / 2, 3))
    ledger, blocks = Ledger(output.with_suffix(".json"), f"{corpus} {documents} {at} {often} {CORES}"), {}
    for p, threads in product(PROCESSORS, sorted({1, CORES})):
        blocks[p, threads] = cast(Trace, ledger.trace(f"P = {p}, {threads}", lambda p=p, threads=threads: Blocks(data, p, threads, often).trace))
    common = max(min(trace.perplexity) for trace in blocks.values())
    say(
        f"{'P':>2} {'threads':>7} {'sweep s':>8} {'local':>7} {'global':>7} {'s to ' + format(common, '.0f'):>12} {'perplexity':>10} {'topics':>6} {'M tokens/CPU s':>14}"
    )
    for (p, threads), t in blocks.items():
        rate = t.tokens_per_second / 1e6
        times = f"{t.local + t.rest:>8.3f} {t.local:>7.3f} {t.rest:>7.3f} {reached(t, common):>12.1f}"
        say(f"{p:>2} {threads:>7} {times} {t.perplexity[-1]:>10.0f} {t.topics[-1]:>6} {rate:>14.2f}")
    say(f"\n{'system':<46} {'CPU s':>7} {'perplexity':>10} {'neutral':>8} {'topics':>6} {'M tokens/CPU s':>14}")
    methods: list[Trace] = []

    def row(trace: Trace | None) -> None:
        if trace is None:
            return
        methods.append(trace)
        rate = f"{trace.tokens_per_second / 1e6:>14.2f}" if trace.tokens_per_second > 0 else f"{'–':>14}"
        for place in (-2, -1) if len(trace.cpu) > 1 else (-1,):
            mark = "" if trace.exact else " (inexact)"
            say(
                f"{trace.name + mark:<46} {trace.cpu[place]:>7.1f} {trace.perplexity[place]:>10.0f} {trace.neutral[place]:>8.0f} {trace.topics[place]:>6} {rate}"
            )

    for name, make in systems(data, seconds, at).items():
        row(ledger.trace(name, make))
    output.with_suffix(".txt").write_text("\n".join(lines) + "\n")
    draw(blocks, methods, common, f"{corpus}: {data.n_tokens:,} words", output.with_suffix(".png"))
    print(f"\n{output.with_suffix('.png')} and {output.with_suffix('.txt')} written")


def reached(trace: Trace, level: float) -> float:
    """Seconds until the perplexity is this low, on a straight line between two measurements."""
    lowest = np.minimum.accumulate(trace.perplexity)
    return float(np.interp(-level, -lowest, trace.seconds))


def draw(blocks: dict[tuple[int, int], Trace], methods: list[Trace], common: float, title: str, file: Path) -> None:
    figure, ((a, b), (c, d)) = plt.subplots(2, 2, figsize=(15, 9), constrained_layout=True)
    for p in PROCESSORS:
        trace = blocks[p, CORES]
        a.plot(trace.seconds, trace.perplexity, marker=".", label=f"P = {p}")
    a.set(title=f"(a) superclusters on {CORES} cores", xlabel="seconds", ylabel="perplexity of held-out halves")
    a.legend()
    for trace in methods:
        single = len(trace.cpu) == 1
        b.plot(
            trace.cpu,
            trace.perplexity,
            marker="s" if single else ".",
            linestyle="-" if trace.exact else ":",
            label=trace.name + ("" if trace.exact else " (inexact)"),
        )
    b.set(title="(b) all systems, one core", xlabel="CPU seconds", ylabel="perplexity of held-out halves", yscale="log")
    for ticks in (b.yaxis.set_major_formatter, b.yaxis.set_minor_formatter):
        ticks("{x:.0f}")
    b.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    places = np.arange(len(PROCESSORS))
    for offset, (name, threads) in zip((-0.2, 0.2), ((f"{CORES} cores", CORES), ("one core", 1)), strict=True):
        c.bar(places + offset, [reached(blocks[p, threads], common) for p in PROCESSORS], 0.4, label=name)
    c.set(title=f"(c) seconds until a perplexity of {common:.0f}, which every P reaches", xlabel="P", ylabel="seconds", xticks=places, xticklabels=PROCESSORS)
    c.legend()
    local, rest = ([getattr(blocks[p, CORES], name) for p in PROCESSORS] for name in ("local", "rest"))
    d.bar(places, local, 0.6, label="local step")
    d.bar(places, rest, 0.6, bottom=local, label="global step")
    d.set(title=f"(d) a sweep on {CORES} cores", xlabel="P", ylabel="seconds", xticks=places, xticklabels=PROCESSORS)
    d.legend()
    figure.suptitle(title)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="400 documents, 1.5 seconds each: under two minutes")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each system; half as many for each P")
    parser.add_argument("--corpus", default="nips_1-12")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/williamson2013_hdp"))
    given = parser.parse_args()
    if not present(f"corpora/{given.corpus}_counts.npz"):
        raise SystemExit(f"there is no corpus {given.corpus!r} in {DATA}: set MAITRE_DATA")
    run(given.corpus, 400 if given.quick else None, 1.5 if given.quick else given.seconds, given.output)


if __name__ == "__main__":
    main()
