"""Speed of the Gibbs kernels and of the pass that redraws all labels at once, single thread, as a share of a bound measured in the same run.

    make bench-kernels

Gaussian: the bound is the time to score all points against all clusters by one matrix product plus the time to draw a cluster from each row of scores. The other
kernels have a floor in points per second, stated for a machine whose matrix product runs at 48 GFLOP/s; it is scaled here by the speed measured in this run.

The label pass of `parallel` scores in single precision: its bound is the product in that precision plus a draw from each row (for full covariances, whose product has many
more terms, the product alone). The pass also gathers the clusters' statistics, which the bound does not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

import maitre as mt
from maitre.model import Model
from maitre.moves.gibbs import Gibbs
from maitre.moves.labels import Explicit, LabelStep
from maitre.numerics.compilation import compiled
from maitre.numerics.draw import draw_log
from maitre.numerics.lanes import _exp
from maitre.numerics.rng import stream, uniform
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState

DATA = Path(os.environ.get("MAITRE_DATA", "../shared/data"))
REFERENCE_GFLOPS = 48.0


def best_of(function: Callable[[], object], repeats: int = 7) -> float:
    """The shortest of several times, in seconds: what the machine does when nobody else wants it."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def gaussian_data(n: int, n_dimensions: int, n_clusters: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, n_clusters, n)
    return rng.normal(0.0, spread, (n_clusters, n_dimensions))[labels] + rng.normal(size=(n, n_dimensions)), labels


def sweep_rate(family: mt.families.Family, data: object, labels: np.ndarray, order: str) -> tuple[float, int]:
    """Points per second of a Gibbs sweep, and the number of clusters, after a few sweeps."""
    model = Model.of(data, family, DirichletProcess(1.0))
    state, rng, move = MixtureState(model, labels), stream(0), Gibbs(order)
    for _ in range(3):
        state.tidy()
        move.step(state, rng)
    return model.n / best_of(lambda: move.step(state, rng)), state.n_clusters


def first_sweep_rate(family: mt.families.Family, data: object, labels: np.ndarray) -> float:
    """Points per second of the first sweep from these labels, in which nearly every point moves."""
    model = Model.of(data, family, DirichletProcess(1.0))
    seconds = []
    for repeat in range(6):  # the first one may compile
        state, rng = MixtureState(model, labels), stream(repeat)
        started = time.perf_counter()
        Gibbs().step(state, rng)
        seconds.append(time.perf_counter() - started)
    return model.n / min(seconds)


@compiled
def draw_rows(scores: np.ndarray, scratch: np.ndarray, rng: np.ndarray) -> int:
    total = 0
    for i in range(scores.shape[0]):
        total += draw_log(scores[i], scores.shape[1], scratch, rng)
    return total


def gaussian_bound(x: np.ndarray, n_clusters: int) -> tuple[float, float]:
    """Points per second of matrix product plus draw, and the matrix product's GFLOP/s."""
    rng = np.random.default_rng(0)
    coefficients, scores, scratch = rng.normal(size=(x.shape[1], n_clusters)), 5.0 * rng.normal(size=(len(x), n_clusters)), np.zeros(n_clusters)
    out = np.empty_like(scores)
    product = best_of(lambda: np.matmul(x, coefficients, out=out))
    draw_rows(scores[:1], scratch, stream(1))
    draw = best_of(lambda: draw_rows(scores, scratch, stream(1)))
    return len(x) / (product + draw), 2e-9 * x.size * n_clusters / product


@compiled
def draw_rows_singly(scores: np.ndarray, scratch: np.ndarray, rng: np.ndarray) -> int:
    """A cluster for each row, in single precision throughout."""
    total, n_clusters = 0, scores.shape[1]
    for i in range(scores.shape[0]):
        top = scores[i, 0]
        for k in range(1, n_clusters):
            top = max(top, scores[i, k])
        for k in range(n_clusters):
            scratch[k] = _exp(scores[i, k] - top)
        whole = np.float32(0.0)
        for k in range(n_clusters):
            whole += scratch[k]
        rest, k = np.float32(uniform(rng)) * whole - scratch[0], 0
        while rest > 0.0 and k < n_clusters - 1:
            k += 1
            rest -= scratch[k]
        total += k
    return total


def label_pass(family: mt.families.Family, n: int, n_dimensions: int, n_clusters: int) -> float:
    """Points per second of the pass that redraws all labels half by half."""
    x, labels = gaussian_data(n, n_dimensions, n_clusters, 2.0)
    state, rng = MixtureState(Model.of(x, family, DirichletProcess(1.0)), labels), stream(0)
    explicit = Explicit.drawn(state, rng)
    LabelStep(state).half_by_half(explicit, rng)
    return n / best_of(lambda: LabelStep(state).half_by_half(explicit, rng), 5)


def single_bound(n: int, n_features: int, n_clusters: int, drawn: bool) -> float:
    """Points per second of the matrix product in single precision, with or without a draw from each row of scores."""
    rng = np.random.default_rng(0)
    features, coefficients = rng.normal(size=(n, n_features)).astype(np.float32), rng.normal(size=(n_features, n_clusters)).astype(np.float32)
    out, scratch = np.empty((n, n_clusters), dtype=np.float32), np.zeros(n_clusters, dtype=np.float32)
    product = best_of(lambda: np.matmul(features, coefficients, out=out))
    draw_rows_singly(out[:1], scratch, stream(1))
    return n / (product + (best_of(lambda: draw_rows_singly(out, scratch, stream(1))) if drawn else 0.0))


def label_passes() -> None:
    bound, rate = single_bound(200_000, 50, 64, drawn=True), label_pass(mt.families.KnownCovarianceGaussian(0.0, 4.0, 1.0), 200_000, 50, 64)
    row("label pass, Gaussian D=50 K=64 n=200,000", rate, f"{bound:,.0f} (sgemm+draw)", rate / bound, 0.75)
    bound, rate = single_bound(20_000, 50 * 53 // 2 + 1, 64, drawn=False), label_pass(mt.families.NormalInverseWishart(), 60_000, 50, 64)
    row("label pass, normal–inverse-Wishart D=50 K=64 n=60,000", rate, f"{bound:,.0f} (sgemm)", rate / bound, 0.75)
    for n in (1_000_000, 4_000_000):
        rate = label_pass(mt.families.NormalInverseWishart(), n, 2, 6)
        print(f"{f'label pass, normal–inverse-Wishart D=2 K=6 n={n:,}':<52} {rate:>12,.0f} {f'{1e9 / rate:.1f} ns a point':>22}")


def row(name: str, rate: float, bound: str, share: float, floor: float) -> None:
    print(f"{name:<52} {rate:>12,.0f} {bound:>22} {share:>8.2f} {floor:>7.2f}   {'met' if share >= floor else 'NOT MET'}")


def main() -> None:
    with threadpool_limits(1):
        print(f"{'kernel':<52} {'points/s':>12} {'bound or floor':>22} {'share':>8} {'asked':>7}")
        x, labels = gaussian_data(60_000, 50, 64, 2.0)
        bound, gflops = gaussian_bound(x, 64)
        speed = gflops / REFERENCE_GFLOPS
        for order in ("random", "systematic"):
            rate, n_clusters = sweep_rate(mt.families.KnownCovarianceGaussian(0.0, 100.0, 1.0), x, labels, order)
            row(f"Gaussian D=50 K={n_clusters} n=60,000, {order} order", rate, f"{bound:,.0f} (product+draw)", rate / bound, 0.7)
        x, labels = gaussian_data(50_000, 10, 20, 3.0)
        rate, n_clusters = sweep_rate(mt.families.NormalInverseWishart(), x, labels, "random")
        row(f"Normal–inverse-Wishart D=10 K={n_clusters} n=50,000", rate, f"{1e6 * speed:,.0f} (1 M scaled)", rate / (1e6 * speed), 1.0)
        x, labels = gaussian_data(10_000, 40, 40, np.sqrt(2.0))
        rate, n_clusters = sweep_rate(mt.families.NormalInverseGamma(), x, labels, "random")
        print(f"{f'Normal–inverse-gamma D=40 K={n_clusters} n=10,000':<52} {rate:>12,.0f} {'(no floor)':>22}")
        corpus = DATA / "corpora" / "ap_news_counts.npz"
        if corpus.exists():
            counts = sparse.load_npz(corpus)
            start = np.random.default_rng(0).integers(0, 50, counts.shape[0])
            rate = first_sweep_rate(mt.families.DirichletMultinomial(0.5), counts, start)
            row("Dirichlet–multinomial AP, K=50, first sweep", rate, f"{120_000 * speed:,.0f} (120 k scaled)", rate / (120_000 * speed), 1.0)
        else:
            print(f"Dirichlet–multinomial: {corpus} is missing; say where the data are with MAITRE_DATA")
        label_passes()
        print(f"matrix product: {gflops:.1f} GFLOP/s; floors in points/s are scaled by {speed:.2f}")


if __name__ == "__main__":
    main()
