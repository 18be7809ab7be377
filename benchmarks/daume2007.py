"""Fast MAP search: the experiments of Daumé (2007), beside this library's samplers given more time, and beside scikit-learn.

    python benchmarks/daume2007.py [artificial] [mnist] [nips] [plot]     # an hour of CPU time, nearly all of it the samplers'

Data come from the folder MAITRE_DATA (default ../shared/data). Times are CPU seconds of one thread with kernels compiled beforehand; reading and preparing data is not counted.
Conventions: MNIST log joints are given as the library has them and as log p in units in which the covariance is the identity and without the prior's normaliser, which is
the library's plus n·D/2·log 16 + log (α)_n↑. Counts: log p *with* the multinomial coefficient, a constant of the data that the library leaves out.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from datasets import corpus, mnist_digits, present
from defaults import cpu_seconds
from scipy import sparse
from scipy.special import gammaln
from sklearn.mixture import BayesianGaussianMixture
from threadpoolctl import threadpool_limits

import maitre as mt
from maitre.chains.chain import advance, begin
from maitre.chains.settings import Settings
from maitre.model import Model
from maitre.moves import resolve

SAMPLERS = ("gibbs", "gibbs+split_merge", "gibbs+permutation", "gibbs+split_merge+permutation")
SEEDS = range(5)
GIVEN = 10  # how many times the search's time a sampler gets
PAPER = {3000: "2.04e5 in 11 s", 12000: "8.02e5 in 105 s", 60000: "3.96e6 in 15 min"}
ROUNDS = {3000: 20, 12000: 20, 60000: 0}  # of refinement, so that results do not depend on how busy the machine is
GAUSSIAN = mt.families.KnownCovarianceGaussian(0.0, 100.0, 16.0)


def sampler_trace(model: Model, moves: str, seed: int, seconds: float) -> Iterator[tuple[float, float]]:
    """CPU seconds and the best log joint so far, after every iteration. All of it is burn-in: the permutation move then climbs along random projections, its best mode."""
    best = -np.inf
    schedule, began = resolve(moves, model), time.process_time()
    chain = begin(model, Settings(moves, draws=1, burn_in=10**9, chains=1, seed=seed), 0, schedule)
    for _ in advance(chain):
        best = max(best, chain.state.log_joint)
        spent = time.process_time() - began
        yield spent, best
        if spent > seconds:
            return


def best_of_sampler(model: Model, moves: str, seed: int, seconds: float) -> float:
    return max(best for _, best in sampler_trace(model, moves, seed, seconds))


# -- artificial data ------------------------------------------------------------------------------------------------------------------------------


def artificial(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points of 30 tokens over 10 words; a clustering from the Chinese restaurant process with α = 2; word probabilities from Dirichlet(0.5)."""
    labels: list[int] = []
    for i in range(n):
        sizes = np.bincount(labels) if labels else np.zeros(0)
        labels.append(int(rng.choice(len(sizes) + 1, p=np.append(sizes, 2.0) / (i + 2.0))))
    words = rng.dirichlet(np.full(10, 0.5), max(labels) + 1)
    return np.array([rng.multinomial(30, words[k]) for k in labels]), np.array(labels)


def artificial_figures(seconds: float = 1.0) -> None:
    """Seconds, entries pushed and the ratio of −log p to the best seen by any method (1 is best), averaged over replicates."""
    family, prior = mt.families.DirichletMultinomial(0.5), mt.priors.DirichletProcess(2.0)
    fast = [("inadmissible", beam, "best-first") for beam in (100, 10, 1)] + [("inadmissible", 100, "level")]
    slow = [(score, beam, "best-first") for score in ("trivial", "tight") for beam in (None, 1000, 100, 10)]
    print(f"Artificial data: 30 tokens over 10 words, α = 2, η = 0.5, ten replicates; a search is given up after {seconds:g} s (share finished)")
    print(f"{'n':>5} {'queue':>10} {'score':>13} {'beam':>5} {'ratio of −log p':>16} {'seconds':>8} {'pushed':>10} {'finished':>9} {'proven':>7}")
    for n in (10, 15, 20, 30, 50, 100, 200, 500, 1000):
        sets = [artificial(n, np.random.default_rng(seed))[0] for seed in range(10)]
        coefficient = [family.log_coefficient(sparse.csr_matrix(x)) for x in sets]
        reference = [mt.search(x, family, prior, queue="level", refine=True, rounds=20, progress=False).log_joint for x in sets]
        rows = []
        for score, beam, queue in fast if n > 30 else slow + fast:  # admissible scores need exponential time
            found = [mt.search(x, family, prior, beam, score, queue=queue, time_budget=seconds, progress=False) for x in sets]
            rows.append((score, beam, queue, found))
            reference = [max(best, result.log_joint) for best, result in zip(reference, found, strict=True)]
        for score, beam, queue, found in rows:
            ratio = np.mean([(f.log_joint + c) / (best + c) for f, best, c in zip(found, reference, coefficient, strict=True)])
            numbers = [np.mean([getattr(f, name) for f in found]) for name in ("pushed", "complete", "optimal")]
            spent = np.mean([f.stages[-1].seconds for f in found])
            print(
                f"{n:>5} {queue:>10} {score:>13} {beam or '∞':>5} {ratio:>16.5f} {spent:>8.3f} {numbers[0]:>10,.0f} {numbers[1]:>9.0%} {numbers[2]:>7.0%}",
                flush=True,
            )


# -- MNIST ----------------------------------------------------------------------------------------------------------------------------------------


def mnist_table(sizes: tuple[int, ...] = (3000, 12000, 60000)) -> None:
    if not present("mnist"):
        return
    prior = mt.priors.DirichletProcess(1.0)
    warm = mnist_digits(500)
    mt.search(warm, GAUSSIAN, prior, progress=False)
    mt.search(warm, GAUSSIAN, prior, queue="level", refine=True, rounds=3, progress=False)
    for moves in SAMPLERS:
        best_of_sampler(Model.of(warm, GAUSSIAN, prior), moves, 0, 0.1)
    for n in sizes:
        mnist_of_size(n, prior)


def peak_megabytes(x: np.ndarray) -> float:
    """The largest memory, interpreter and data included, of a fresh process that does nothing but the search."""
    program = "import sys, re, numpy as np, maitre as mt; x = np.load(sys.argv[1])\n"
    program += "mt.search(x, mt.families.KnownCovarianceGaussian(0.0, 100.0, 16.0), mt.priors.DirichletProcess(1.0), progress=False)\n"
    program += "print(int(re.search('VmHWM:\\\\s*([0-9]+)', open('/proc/self/status').read()).group(1)) / 1024)"
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", x)
        return float(subprocess.run([sys.executable, "-c", program, f"{folder}/x.npy"], capture_output=True, text=True, check=True).stdout)


def mnist_of_size(n: int, prior: mt.priors.DirichletProcess) -> None:
    x = mnist_digits(n)
    constant = n * 25.0 * np.log(16.0) + gammaln(n + 1.0)
    print(f"\nMNIST {n:,} × 50, covariance 16·I, mean prior 100·I, α = 1. The paper's search, in its own units: −log p {PAPER[n]}")
    print(f"{'':<44} {'CPU s':>7} {'log joint':>13} {'in units of Σ':>14} {'K':>4}")

    def row(name: str, seconds: float, log_joint: float, n_clusters: Any = "") -> None:
        print(f"{name:<44} {seconds:>7.2f} {log_joint:>13,.0f} {log_joint + constant:>14,.0f} {n_clusters:>4}", flush=True)

    for queue, beam in (("best-first", 100), ("best-first", 1), ("level", 1), ("level", 100)):
        found, seconds = cpu_seconds(lambda q=queue, b=beam: mt.search(x, GAUSSIAN, prior, b, queue=q, progress=False))
        row(f"{queue}, beam {beam}", seconds, found.log_joint, found.n_clusters)
    print(f"  peak memory of a process that loads these data and searches (best-first, beam 100): {peak_megabytes(x):.0f} MB")
    lowest = np.inf
    for seed in SEEDS:
        found, seconds = cpu_seconds(lambda s=seed: mt.search(x, GAUSSIAN, prior, 20, queue="level", refine=True, rounds=ROUNDS[n], seed=s, progress=False))
        lowest = min(lowest, found.log_joint)
        for stage in found.stages if seed == 0 else found.stages[-1:]:
            row(f"level, beam 20, refined, seed {seed}: {stage.name}", stage.seconds, stage.log_joint, stage.n_clusters)
    highest = -np.inf
    for moves in SAMPLERS:
        best = max(best_of_sampler(Model.of(x, GAUSSIAN, prior), moves, seed, GIVEN * seconds) for seed in SEEDS)
        highest = max(highest, best)
        row(f"{moves}, best of {len(SEEDS)} seeds", GIVEN * seconds, best)
    print(f"worst refined search − best sampler with {GIVEN} times its time: {lowest - highest:+,.0f} nats   {'met' if lowest >= highest else 'NOT MET'}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, seconds = cpu_seconds(lambda: BayesianGaussianMixture(n_components=100, covariance_type="spherical", random_state=0).fit(x) if n <= 12000 else None)
    print(f"scikit-learn's BayesianGaussianMixture(100 components, spherical): {seconds:.1f} s" if n <= 12000 else "scikit-learn: left out at this size")


# -- NIPS -----------------------------------------------------------------------------------------------------------------------------------------


def nips_table() -> None:
    if not present("corpora"):
        return
    counts = corpus("nips_1-12")
    words = np.argsort(-np.asarray(counts.sum(axis=0)).ravel(), kind="stable")[10:1010]
    x = sparse.csr_matrix(counts[:, words])
    prior = mt.priors.DirichletProcess(1.0)
    family = mt.families.DirichletMultinomial(1.0)
    coefficient = family.log_coefficient(x)
    mt.search(x[:50], family, prior, progress=False)
    mt.search(x[:50], family, prior, queue="level", refine=True, rounds=2, progress=False)
    print("\nNIPS 1–12, 1740 papers × 1000 words, η = 1, α = 1; −log p with the multinomial coefficient")
    print("the paper: search 2.441e6 in 32 s (random order 2.449e6, reverse 2.474e6), Gibbs 3.2e6 in 1 h, split–merge 3.0e6 in 1.5 h")

    def row(name: str, function: Callable[[], mt.Found]) -> float:
        found, seconds = cpu_seconds(function)
        print(f"{name:<44} {-(found.log_joint + coefficient):>12,.0f} {seconds:>7.2f} s  K {found.n_clusters}", flush=True)
        return seconds

    for queue, beam in (("best-first", 100), ("level", 20)):
        row(f"{queue}, beam {beam}, marginal order", lambda q=queue, b=beam: mt.search(x, family, prior, b, queue=q, progress=False))
        row(f"{queue}, beam {beam}, reverse order", lambda q=queue, b=beam: mt.search(x, family, prior, b, order="reverse", queue=q, progress=False))
        for seed in range(3):
            row(
                f"{queue}, beam {beam}, random order {seed}",
                lambda q=queue, b=beam, s=seed: mt.search(x, family, prior, b, order="random", queue=q, seed=s, progress=False),
            )
    seconds = row("best-first, refined for 5 s", lambda: mt.search(x, family, prior, refine=True, time_budget=5.0, progress=False))
    for moves in SAMPLERS:
        best = max(best_of_sampler(Model.of(x, family, prior), moves, seed, seconds) for seed in SEEDS)
        print(f"{moves + ', same time, best of 5 seeds':<44} {-(best + coefficient):>12,.0f}", flush=True)


# -- picture --------------------------------------------------------------------------------------------------------------------------------------


def plot(path: str = "docs/search.png", n: int = 12000, seconds: float = 20.0) -> None:
    """Log joint against CPU time: refined search beside the samplers, three seeds each."""
    import matplotlib.pyplot as plt

    x, prior = mnist_digits(n), mt.priors.DirichletProcess(1.0)
    model = Model.of(x, GAUSSIAN, prior)
    figure, axes = plt.subplots(figsize=(8.0, 4.6), layout="constrained")
    colours = itertools.cycle(("#b0b0b0", "#8da0cb", "#66a61e", "#e6ab02"))
    for moves, colour in zip(SAMPLERS, colours, strict=False):
        best_of_sampler(model, moves, 9, 0.2)
        for seed in range(3):
            trace = np.array(list(sampler_trace(model, moves, seed, seconds)))
            axes.plot(trace[:, 0], trace[:, 1] / 1000.0, color=colour, label=moves.replace("_", "–") if seed == 0 else None, lw=1.2)
    for seed in range(3):
        found = mt.search(x, GAUSSIAN, prior, 20, queue="level", refine=True, rounds=30, seed=seed, progress=False)
        stages = np.array([(stage.seconds, stage.log_joint / 1000.0) for stage in found.stages])
        axes.plot(stages[:, 0], stages[:, 1], color="#c0392b", marker="o", ms=4, lw=1.6, label="mt.search, level queue, refined" if seed == 0 else None)
    axes.set(
        xscale="log",
        xlabel="CPU seconds",
        ylabel="best log joint so far (thousands)",
        title=f"MNIST, {n:,} digits × 50 components: best clustering against time",
    )
    low = axes.get_ylim()[1] - 16.0
    axes.set_ylim(low, None)
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    print(f"written: {path}")


PARTS: dict[str, Callable[[], None]] = {"artificial": artificial_figures, "mnist": mnist_table, "nips": nips_table, "plot": plot}

if __name__ == "__main__":
    with threadpool_limits(1):
        for part in sys.argv[1:] or ("artificial", "mnist", "nips"):
            PARTS[part]()
