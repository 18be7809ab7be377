"""Figures 2 and 3 of Liang, Jordan & Taskar (2007), A permutation-augmented sampler for DP mixture models.

    python benchmarks/liang2007.py [--quick] [--output FOLDER] [--panels abc…]

Four samplers, GIBBS, GIBBS+SPLITMERGE, GIBBS+PERM and GIBBS+SPLITMERGE+PERM, from the start of a chain: log joint against CPU seconds, five seeds, bars from the
lowest to the highest. Permutations are random projections in the first two thirds of the time and uniform afterwards (k, l: uniform throughout). The concentration is
resampled in every iteration; what is drawn is log p(C, x) at concentration 1 without its constant −log n!, which is comparable between the samplers.

(a–c) n = 10,000, 40 dimensions, 40 clusters, means N(0, 2), identity covariance, inference with N(0, 100): from one cluster, 100 random ones, n singletons;
(d–f) 20, 40, 80 clusters, (g–h) 10 and 80 dimensions, (i) 10,000 MNIST digits × 50 components, covariance 16·I, (j) 2246 AP documents, η = 0.5: from sequential
prediction; (k–l) 1000 digits × 2 components, covariance 4·I: autocorrelation of the number of clusters and of the largest cluster's size.

Writes liang2007.png and liang2007.md. MNIST and AP come from the folder MAITRE_DATA (default ../shared/data); without it their panels are left out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from datasets import corpus, mnist_digits, present
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator
from scipy.special import gammaln
from threadpoolctl import threadpool_limits

import maitre as mt
from maitre.chains.starts import initial_labels, seated
from maitre.model import Model
from maitre.moves import Composed, Gibbs, Permutation, PriorHyperparameters, SplitMerge
from maitre.moves.segments import SUM
from maitre.moves.workspace import Beam, Workspace, local_slope
from maitre.numerics.rng import RngState, stream
from maitre.states.mixture import MixtureState

SAMPLERS = {"GIBBS": "g", "GIBBS+SPLITMERGE": "gs", "GIBBS+PERM": "gp", "GIBBS+SPLITMERGE+PERM": "gsp"}
COLOURS = dict(zip(SAMPLERS, ("#888888", "#d98032", "#3b76af", "#2f8f4e"), strict=True))
PANELS = {
    "a": ("40 dimensions, 40 clusters, from one cluster", "gaussian", (40, 40), "one"),
    "b": ("the same, from 100 random clusters", "gaussian", (40, 40), "random:100"),
    "c": ("the same, from n singletons", "gaussian", (40, 40), "singletons"),
    "d": ("40 dimensions, 20 clusters", "gaussian", (40, 20), "sequential"),
    "e": ("40 dimensions, 40 clusters", "gaussian", (40, 40), "sequential"),
    "f": ("40 dimensions, 80 clusters", "gaussian", (40, 80), "sequential"),
    "g": ("10 dimensions, 40 clusters", "gaussian", (10, 40), "sequential"),
    "h": ("80 dimensions, 40 clusters", "gaussian", (80, 40), "sequential"),
    "i": ("MNIST digits", "mnist", (50, 16.0), "sequential"),
    "j": ("2246 AP documents", "ap", (), "sequential"),
}


@dataclass(frozen=True)
class Size:
    """How much is run."""

    n: int
    seconds: float
    seeds: int
    mixing_draws: int


FULL, QUICK = Size(10_000, 3.0, 5, 10_000), Size(2_000, 0.6, 2, 2_000)


def gaussian_data(n: int, n_dimensions: int, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    means = rng.normal(0.0, np.sqrt(2.0), (n_clusters, n_dimensions))
    truth = rng.integers(0, n_clusters, n)
    return means[truth] + rng.normal(size=(n, n_dimensions)), truth


def model_of(kind: str, parameters: Any, n: int) -> tuple[Model, np.ndarray | None]:
    """The model of a panel, and the true labels where there are any."""
    prior, truth = mt.priors.DirichletProcess(mt.Gamma(1.0, 1.0)), None
    if kind == "gaussian":
        data, truth = gaussian_data(n, *parameters)
        family: Any = mt.families.KnownCovarianceGaussian(0.0, 100.0, 1.0)
    elif kind == "mnist":
        data, family = mnist_digits(n, parameters[0]), mt.families.KnownCovarianceGaussian(0.0, 100.0, parameters[1])
    else:
        data, family = corpus("ap_news"), mt.families.DirichletMultinomial(0.5)
    return Model.of(data, family, prior), truth


def sampler(letters: str, **options: Any) -> Composed:
    moves = {"g": Gibbs(), "s": SplitMerge(), "p": Permutation(**options)}
    return Composed([moves[letter] for letter in letters], [PriorHyperparameters()])


def value_of(state: MixtureState) -> float:
    """log p(C, x) at concentration 1, without −log n!."""
    return float(gammaln(state.sizes[state.sizes > 0]).sum()) + state.log_likelihood()


def start(model: Model, init: str, rng: RngState) -> MixtureState:
    return seated(model, initial_labels(init, model, rng), rng)


def warm_up(model: Model, letters: str) -> None:
    """Compile, so that no measured second goes there."""
    state = start(model, "sequential", stream(0))
    sampler(letters).step(state, stream(0))


def burn_in(job: tuple[str, str, int, Size]) -> tuple[str, str, int, list[tuple[float, float, int]]]:
    """One chain of panels (a) to (j): CPU seconds, log joint and number of clusters after each iteration."""
    panel, name, seed, size = job
    _, kind, parameters, init = PANELS[panel]
    with threadpool_limits(1):
        model, _ = model_of(kind, parameters, size.n)
        warm_up(model, SAMPLERS[name])
        moves, rng, trace = sampler(SAMPLERS[name]), stream(seed), []
        began = time.process_time()
        state = start(model, init, rng)
        while (used := time.process_time() - began) < size.seconds:
            state.tidy()
            moves.burn_in(used / size.seconds)
            moves.step(state, rng)
            trace.append((time.process_time() - began, value_of(state), state.n_clusters))
    return panel, name, seed, trace


def mixing(job: tuple[str, int, Size]) -> tuple[str, int, np.ndarray, float]:
    """One chain of panels (k) and (l): number of clusters and largest size per iteration, and CPU seconds per iteration."""
    name, seed, size = job
    with threadpool_limits(1):
        model = Model.of(mnist_digits(1000, 2), mt.families.KnownCovarianceGaussian(0.0, 100.0, 4.0), mt.priors.DirichletProcess(mt.Gamma(1.0, 1.0)))
        moves, rng = sampler(SAMPLERS[name], burn_in_order=None), stream(seed)
        state = start(model, "sequential", rng)
        for t in range(size.mixing_draws // 10):
            state.tidy()
            moves.burn_in(t / (size.mixing_draws // 10))
            moves.step(state, rng)
        moves.freeze()
        drawn = np.empty((2, size.mixing_draws))
        began = time.process_time()
        for t in range(size.mixing_draws):
            state.tidy()
            moves.step(state, rng)
            drawn[:, t] = state.n_clusters, state.sizes.max()
    return name, seed, drawn, (time.process_time() - began) / size.mixing_draws


def autocorrelation(x: np.ndarray, lags: np.ndarray) -> np.ndarray:
    centred = (x - x.mean()) / x.std()
    return np.array([centred[: len(x) - lag] @ centred[lag:] / (len(x) - lag - 1) for lag in lags])


# -- Figure 2 and the beam ------------------------------------------------------------------------------------------------------------------


def workspace(n: int, seed: int = 0) -> tuple[Workspace, RngState]:
    """A state at the truth of panel (a)'s data, with an order of the points by random projection."""
    model, truth = model_of("gaussian", (40, 40), n)
    state, rng = MixtureState(model, truth), stream(seed)
    room = Workspace(state, lambda: model.vectors)
    room.draw_order("uniform", rng)
    return room, rng


def profiles(axes: Any) -> str:
    """Figure 2: the terms of g(r) by segment length, and what the beam keeps of g(n)."""
    n = 500
    room, rng = workspace(n)
    slope = local_slope(lambda k: room.state.log_v_at(k) - gammaln(k + 1.0), room.state.n_clusters, n)
    log_b = np.full((n, n), -np.inf)
    room.sum(slope, Beam(0.0, 0, 2**60), rng, SUM, log_b)
    log_g = room.log_g.copy()
    for r in (100, 200, 300, 400, 500):
        terms = log_g[:r] + slope + log_b[:r, r - 1]
        lengths = r - np.arange(r)
        axes[0].plot(lengths, terms, lw=1, label=f"r = {r}")
        axes[1].plot(lengths, np.exp(terms - log_g[r]), lw=1, marker=".", ms=4)
    lines = []
    for probation in (0, 20):
        _, _, kept = room.sum(slope, Beam(1e-32, probation, 2**60), rng, SUM)
        share = np.exp(room.log_g[n] - log_g[n])
        lines.append(
            f"n = 500, ε = 1e-32, probation {probation}: the beam keeps {share:.4f} of g'(n) with {kept / n:.1f} segments on average (of {(n + 1) / 2:.0f})."
        )
    axes[0].set(ylabel="log contribution", title="Figure 2: summation profiles")
    axes[1].set(xlabel="segment length m (up to 60)", ylabel="share of g(r)", xlim=(0, 60))
    axes[0].legend(fontsize=7)
    return "\n".join(lines)


def growth(sizes: tuple[int, ...]) -> Iterator[str]:
    """CPU seconds of one permutation move against n."""
    yield "| n | CPU s, projections | segments | CPU s, uniform | segments |\n|---|---|---|---|---|"
    for n in sizes:
        room, rng = workspace(n)
        cells = []
        for order in ("projections", "uniform"):
            move = Permutation(burn_in_order=order, slope=40)
            move.step(room.state, rng)
            seconds, beams = [], []
            for _ in range(3):
                move.climber.rest = 0
                began = time.process_time()
                report = move.step(room.state, rng)
                seconds.append(time.process_time() - began)
                beams.append(report.extra["beam"])
            cells.append(f"{np.median(seconds):.4f} | {np.mean(beams):.1f}")
        yield f"| {n:,} | {' | '.join(cells)} |"


# -- pictures and tables --------------------------------------------------------------------------------------------------------------------


def at_times(trace: list[tuple[float, float, int]], grid: np.ndarray) -> np.ndarray:
    """The value after the last iteration that ended before each time."""
    times, values = np.array([t for t, _, _ in trace]), np.array([v for _, v, _ in trace])
    position = np.searchsorted(times, grid, side="right") - 1
    return np.where(position >= 0, values[np.maximum(position, 0)], np.nan)


def draw_panel(axis: Any, panel: str, traces: dict[str, list[Any]], truth: float | None, seconds: float) -> None:
    grid = np.geomspace(seconds / 60.0, seconds, 10)
    for shift, name in enumerate(SAMPLERS):
        values = np.array([at_times(trace, grid) for trace in traces[name]])
        known = ~np.isnan(values).any(axis=0)
        if not known.any():
            continue
        low, mean, high = values[:, known].min(axis=0), values[:, known].mean(axis=0), values[:, known].max(axis=0)
        axis.errorbar(
            grid[known] * 1.02**shift, mean, np.maximum([mean - low, high - mean], 0.0), color=COLOURS[name], lw=1.4, elinewidth=0.8, capsize=2, label=name
        )
    if truth is not None:
        axis.axhline(truth, color="k", lw=0.7, ls=":")
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(10, (1.0, 3.0)))
    axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_title(f"({panel}) {PANELS[panel][0]}", fontsize=9)
    axis.tick_params(labelsize=7)


def panel_rows(panel: str, traces: dict[str, list[Any]], truth: float | None) -> Iterator[str]:
    goal = truth - 1e-4 * abs(truth) if truth is not None else None
    for name in SAMPLERS:
        finals = [trace[-1] for trace in traces[name]]
        values = [v for _, v, _ in finals]
        reached = [next((t for t, v, _ in trace if v >= goal), None) for trace in traces[name]] if goal is not None else []
        times = [t for t in reached if t is not None]
        when = "–" if goal is None else f"{len(times)} of {len(reached)}" + (f", {np.mean(times):.2f} s" if times else "")
        yield f"| ({panel}) | {name} | {np.mean(values):,.0f} | {min(values):,.0f} … {max(values):,.0f} | {np.mean([k for _, _, k in finals]):.1f} | {when} |"


def mean_final(traces: dict[str, list[Any]], name: str) -> float:
    return float(np.mean([trace[-1][1] for trace in traces[name]]))


def findings(results: dict[str, dict[str, list[Any]]], truths: dict[str, float | None], acf: dict[str, dict[str, float]]) -> Iterator[str]:
    """The paper's findings, each with the figures that bear it out or do not."""

    def verdict(holds: bool, claim: str, figures: str) -> str:
        return f"- {'reproduced' if holds else 'NOT reproduced'}: {claim} {figures}"

    perm = ("GIBBS+PERM", "GIBBS+SPLITMERGE+PERM")
    if {"a", "b", "c"} <= set(results):
        spread = {name: np.ptp([mean_final(results[p], name) for p in "abc"]) for name in SAMPLERS}
        holds = max(spread[name] for name in perm) < 0.1 * spread["GIBBS"]
        yield verdict(
            holds,
            "permutation moves are insensitive to the initialisation (a–c).",
            "Final means differ by " + ", ".join(f"{n} {s:,.0f}" for n, s in spread.items()) + " nats.",
        )
    if {"d", "e", "f"} <= set(results):
        gaps = {name: [truths[p] - mean_final(results[p], name) for p in "def"] for name in SAMPLERS}
        holds = all(max(gaps[name]) <= 1e-4 * abs(truths["f"]) for name in perm)
        yield verdict(
            holds,
            "they do not degrade with more true clusters (d–f).",
            "Short of the truth by " + "; ".join(f"{n} {', '.join(f'{g:,.0f}' for g in gaps[n])}" for n in SAMPLERS) + " nats.",
        )
    if {"g", "h"} <= set(results):
        gains = {p: mean_final(results[p], "GIBBS+PERM") - mean_final(results[p], "GIBBS") for p in "gh"}
        yield verdict(
            gains["h"] > gains["g"] > 0,
            "the gain is larger in high dimensions (g–h).",
            f"GIBBS+PERM over GIBBS: {gains['g']:,.0f} nats in 10 dimensions, {gains['h']:,.0f} in 80.",
        )
    if "i" in results:
        gain = mean_final(results["i"], "GIBBS+PERM") - mean_final(results["i"], "GIBBS")
        yield verdict(gain > 0, "permutations help on MNIST (i).", f"GIBBS+PERM over GIBBS: {gain:,.0f} nats.")
    if "j" in results:
        finals = {name: mean_final(results["j"], name) for name in SAMPLERS}
        holds = finals["GIBBS+PERM"] < finals["GIBBS+SPLITMERGE"] and finals["GIBBS+SPLITMERGE+PERM"] > finals["GIBBS+PERM"]
        yield verdict(
            holds, "on AP permutations need split–merge beside them (j).", "Final means: " + ", ".join(f"{n} {v:,.0f}" for n, v in finals.items()) + "."
        )
    if acf:
        k, largest = acf["number of clusters"], acf["largest cluster"]
        holds = max(largest["GIBBS+SPLITMERGE"], largest["GIBBS+SPLITMERGE+PERM"]) < min(largest["GIBBS"], largest["GIBBS+PERM"])
        times = ", ".join(f"{n} {v * 1e3:.2f}" for n, v in largest.items())
        yield verdict(
            holds,
            "in the mixing phase split–merge helps the largest cluster's size (l).",
            f"Integrated autocorrelation time in CPU ms: {times}; of the number of clusters: " + ", ".join(f"{n} {v * 1e3:.2f}" for n, v in k.items()) + ".",
        )


def mixing_panels(axes: Any, chains: list[tuple[str, int, np.ndarray, float]]) -> dict[str, dict[str, float]]:
    """Panels (k) and (l), against CPU time; returns integrated autocorrelation times in CPU seconds."""
    summary: dict[str, dict[str, float]] = {}
    longest = max(seconds for *_, seconds in chains) * 100
    for row, (axis, statistic) in enumerate(zip(axes, ("number of clusters", "largest cluster"), strict=True)):
        summary[statistic] = {}
        for name in SAMPLERS:
            own = [(drawn[row], seconds) for n, _, drawn, seconds in chains if n == name]
            seconds = float(np.mean([s for _, s in own]))
            lags = np.unique(np.round(np.linspace(0, longest / seconds, 40)).astype(int))
            lags = lags[lags < own[0][0].size // 4]
            curves = np.array([autocorrelation(x, lags) for x, _ in own])
            axis.plot(lags * seconds * 1e3, curves.mean(axis=0), color=COLOURS[name], lw=1.4, label=name)
            axis.fill_between(lags * seconds * 1e3, curves.min(axis=0), curves.max(axis=0), color=COLOURS[name], alpha=0.15)
            summary[statistic][name] = seconds * float(np.mean([integrated_time(x) for x, _ in own]))
        axis.axhline(0.0, color="k", lw=0.5)
        axis.set_xlabel("CPU milliseconds", fontsize=8)
        axis.set_title(f"({'kl'[row]}) autocorrelation, {statistic}", fontsize=9)
        axis.tick_params(labelsize=7)
    return summary


def integrated_time(x: np.ndarray) -> float:
    """1 + 2 Σ acf(τ), up to the first window of five times itself (Sokal)."""
    total = 1.0
    for lag in range(1, x.size // 4):
        total += 2.0 * autocorrelation(x, np.array([lag]))[0]
        if lag > 5.0 * total:
            break
    return total


def run(size: Size, panels: str, output: Path, workers: int) -> None:
    began = time.time()
    chosen = [p for p in PANELS if p in panels]
    if any(p in panels for p in "ikl") and not present("mnist"):
        chosen, panels = [p for p in chosen if p != "i"], panels.replace("k", "").replace("l", "")
    if "j" in chosen and not present("corpora"):
        chosen.remove("j")
    for p in chosen:  # one process compiles and fills the cache; the workers then only read it
        model, _ = model_of(*PANELS[p][1:3], 200)
        warm_up(model, "gsp")
    figure, axes = plt.subplots(4, 4, figsize=(17, 14), layout="constrained")
    places = axes.ravel()
    beam = profiles(places[0:2])
    jobs = [(p, name, seed, size) for p in chosen for name in SAMPLERS for seed in range(size.seeds)]
    results: dict[str, dict[str, list[Any]]] = {p: {name: [] for name in SAMPLERS} for p in chosen}
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for done, (p, name, _, trace) in enumerate(pool.imap(burn_in, jobs), start=1):
            results[p][name].append(trace)
            print(f"\r{done} of {len(jobs)} chains", end="", flush=True)
        chains = pool.map(mixing, [(name, seed, size) for name in SAMPLERS for seed in range(size.seeds)]) if "k" in panels or "l" in panels else []
    print()
    truths: dict[str, float | None] = {}
    rows = ["| panel | sampler | mean final log joint | range | clusters | chains that reach the truth |", "|---|---|---|---|---|---|"]
    for place, p in zip(places[2:], chosen, strict=False):
        model, labels = model_of(*PANELS[p][1:3], size.n)
        truths[p] = None if labels is None else value_of(MixtureState(model, labels))
        draw_panel(place, p, results[p], truths[p], size.seconds)
        rows += panel_rows(p, results[p], truths[p])
    acf = mixing_panels(places[12:14], chains) if chains else {}
    for place in places[2 + len(chosen) : 12]:
        place.axis("off")
    for place in places[12 if not chains else 14 :]:
        place.axis("off")
    handles, names = (places[2] if chosen else places[12]).get_legend_handles_labels()
    places[15].legend(handles, names, loc="center", fontsize=11, title="log joint against CPU seconds; bars: range over seeds; dotted: the truth")
    output.mkdir(parents=True, exist_ok=True)
    figure.savefig(output / "liang2007.png", dpi=110)
    table = list(growth((1_000, 3_000, 10_000) if size is QUICK else (1_000, 3_000, 10_000, 30_000, 100_000)))
    minutes = (time.time() - began) / 60.0
    text = [
        f"# Liang, Jordan & Taskar (2007): n = {size.n:,}, {size.seconds:g} CPU seconds per chain, {size.seeds} seeds, {minutes:.1f} minutes in all",
        *([] if size is FULL else ["A quick run: fewer points, seeds and seconds than the paper's; run without --quick for the findings."]),
        "## The beam",
        beam,
        "\n".join(table),
        "## Panels (a) to (j)",
        "\n".join(rows),
        "## Findings",
        "\n".join(findings(results, truths, acf)) or "none: no panels",
    ]
    (output / "liang2007.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    print("\n\n".join(text))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller data, two seeds, half a second per chain: about two minutes")
    parser.add_argument("--panels", default="abcdefghijkl", help="which panels of Figure 3 (default: all)")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"), help="folder for the picture and the table")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    run(QUICK if arguments.quick else FULL, arguments.panels, arguments.output, arguments.workers)
