"""The distance-dependent Chinese restaurant process: the digits table of Socher & Manning, and seconds against n.

    python benchmarks/socher_ddcrp.py [--output benchmarks/results/ddcrp] [--only table|scaling|pictures]

**Table.** The first 1000 training digits 1–4 of MNIST (folder MAITRE_DATA, default ../shared/data). Features: pixels in [0, 1], 20 principal components, then the spectral
reduction of Ng, Jordan & Weiss (2001) to three dimensions with rows of unit length; the width of its Gaussian similarity is, by their own rule, the one of a grid that
gives k-means with four clusters the least distortion (still smaller widths, where single digits take a dimension to themselves, are not in the grid). (The paper: features of an autoencoder.) Settings are the paper's: f(d) = exp(−d/0.01), α = 1e−6,
NIW with m0 = 0, κ0 = 1, ν0 = the number of dimensions, Λ0 = 0.005·I. All samplers start from k-means with 20 clusters; five runs of 200 sweeps, figures over the last
hundred. "Stable after": the first sweep whose log joint is within two standard deviations of the mean over the last hundred.

**Scaling.** Clusters of 1000 points each in the plane, 20 nearest neighbours; at each point two numbers are observed, Gaussian with the cluster's own means. CPU seconds on one thread, compiled beforehand.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import os
import resource
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

import maitre as mt
from maitre.chains.starts import seated
from maitre.model import Model
from maitre.moves import Links
from maitre.numerics.rng import stream
from maitre.partitions import adjusted_rand, mutual_information, rand

DATA = Path(os.environ.get("MAITRE_DATA", "../shared/data"))
ROOT = Path(__file__).resolve().parent.parent
RUNS, SWEEPS, KEPT = 5, 200, 100
SCALE, CONCENTRATION, SPREAD = 0.01, 1e-6, 0.005
WHY = """Why so many tables where the decay is short: α is the weight of a link to oneself only, and links that close a cycle open a table whatever α is. And as the same
features give the distances and the observations, cutting a cluster into contiguous pieces fits better and costs the prior only the links along the cut, where a CRP
would pay for every point. Mutual information does not punish pieces of one digit; the adjusted Rand index does. With a longer decay (a = 1) few tables are expected,
and the dd-CRP finds about those of the CRP. Collapsed and explicit samplers have one target; the explicit one moves more slowly through it, so after 200 sweeps its figures differ."""


def digits(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The first n training images of digits 1–4, pixels in [0, 1], and the digits."""
    arrays = []
    for name, offset in (("train-images-idx3-ubyte.gz", 16), ("train-labels-idx1-ubyte.gz", 8)):
        with gzip.open(DATA / "mnist" / name) as file:
            arrays.append(np.frombuffer(file.read(), np.uint8, offset=offset))
    images, labels = arrays[0].reshape(-1, 784), arrays[1]
    chosen = np.flatnonzero((labels >= 1) & (labels <= 4))[:n]
    return images[chosen] / 255.0, labels[chosen].astype(int)


def spectral(points: np.ndarray, n_dimensions: int, width: float) -> np.ndarray:
    """Ng, Jordan & Weiss: leading eigenvectors of D^−½ A D^−½ with A = exp(−d²/2σ²) and zero diagonal; rows scaled to unit length."""
    similarity = np.exp(-(cdist(points, points) ** 2) / (2.0 * width**2))
    np.fill_diagonal(similarity, 0.0)
    root = similarity.sum(axis=1) ** -0.5
    _, vectors = np.linalg.eigh(root[:, None] * similarity * root)
    leading = vectors[:, -n_dimensions:]
    return np.asarray(leading / np.linalg.norm(leading, axis=1, keepdims=True))


def features(images: np.ndarray, n_dimensions: int = 3) -> tuple[np.ndarray, float]:
    """The reduced digits and the width that was chosen, in units of the median distance to the seventh neighbour."""
    points = PCA(20, random_state=0).fit_transform(images)
    unit = float(np.median(np.sort(cdist(points, points), axis=1)[:, 7]))
    reduced = {factor: spectral(points, n_dimensions, factor * unit) for factor in (0.35, 0.5, 0.7, 1.0, 1.4)}
    distortion = {factor: KMeans(4, n_init=10, random_state=0).fit(z).inertia_ for factor, z in reduced.items()}
    best = min(distortion, key=lambda factor: distortion[factor])
    return reduced[best], best


def row(name: str, truth: np.ndarray, labelings: list[np.ndarray], note: str = "") -> str:
    """One line of the table: means over labelings, and the standard deviation of the mutual information."""
    scores = np.array([[mutual_information(truth, labels), rand(truth, labels), adjusted_rand(truth, labels)] for labels in labelings])
    sizes = [np.bincount(labels)[np.unique(labels)] for labels in labelings]
    clusters, large = np.mean([len(s) for s in sizes]), np.mean([(s >= 10).sum() for s in sizes])
    mi, ri, ari = scores.mean(axis=0)
    return f"{name:<36} {mi:5.2f} ± {scores[:, 0].std():4.2f}  {ri:5.2f}  {ari:5.2f}  {clusters:6.1f}  {large:5.1f}  {note}"


def stable_after(log_joint: np.ndarray) -> int:
    """The first sweep whose log joint is within two standard deviations of the mean over the last half."""
    last = log_joint[-KEPT:]
    return int(np.argmax(log_joint >= last.mean() - 2.0 * last.std())) + 1


def sampled(name: str, z: np.ndarray, truth: np.ndarray, prior: Any, moves: Any) -> str:
    """Five independent runs of a sampler as one line."""
    family = mt.families.NormalInverseWishart(0.0, 1.0, float(z.shape[1]), SPREAD)
    options: dict[str, Any] = {"family": family, "prior": prior, "moves": moves, "init": "kmeans:20", "burn_in": 0, "progress": False}
    mt.sample(z, draws=1, chains=1, **options)  # compiles
    started = time.process_time()
    posterior = mt.sample(z, draws=SWEEPS, chains=RUNS, engine="serial", **options)
    seconds = (time.process_time() - started) / (RUNS * SWEEPS)
    kept = [np.asarray(posterior.labels[run, draw]) for run in range(RUNS) for draw in range(SWEEPS - KEPT, SWEEPS, 10)]
    stable = np.median([stable_after(trace) for trace in posterior.log_joint])
    return row(name, truth, kept, f"log joint {posterior.log_joint[:, -KEPT:].mean():6.0f}, stable after {stable:3.0f} sweeps, {1000 * seconds:.1f} ms each")


def tables_a_priori(prior: Any, n_draws: int = 20) -> float:
    """The mean number of tables of links drawn from the prior."""
    from maitre.testing.links import components_of, log_link_probabilities

    cumulative = np.cumsum(np.exp(log_link_probabilities(prior)), axis=1)
    rng = np.random.default_rng(0)
    drawn = [(rng.random((len(cumulative), 1)) * cumulative[:, -1:] > cumulative).sum(axis=1) for _ in range(n_draws)]
    return float(np.mean([max(components_of(links)) + 1 for links in drawn]))


def table() -> list[str]:
    if not (DATA / "mnist").exists():
        lines = [f"digits: {DATA / 'mnist'} is missing; say where the data are with MAITRE_DATA"]
        print(lines[0])
        return lines
    images, truth = digits(1000)
    z, width = features(images)
    lines = [
        f"Digits 1–4, n = {len(z)}, {z.shape[1]} spectral dimensions (similarity width {width:g} × median distance to the seventh neighbour), {RUNS} runs",
        f"{'method':<36} {'mutual inf.':<12}  Rand  adj.R       K   K≥10",
        row("perfect", truth, [truth], "paper: 1.38 1.00"),
        row("oracle: a Gaussian per digit", truth, [QuadraticDiscriminantAnalysis().fit(z, truth).predict(z)], "paper: 0.98 0.90"),
        row("k-means (K = 4)", truth, [KMeans(4, n_init=10, random_state=run).fit_predict(z) for run in range(RUNS)], "paper: 0.93 0.88"),
        row("Gaussian mixture by BIC (K ≤ 9)", truth, [by_bic(z, run) for run in range(RUNS)], "paper: 0.96 0.86, K = 5"),
    ]
    print("\n".join(lines), flush=True)
    crp, distances = mt.priors.DirichletProcess(CONCENTRATION), cdist(z, z)
    cases = [("CRP, collapsed", crp, "gibbs"), ("CRP, explicit parameters", crp, mt.moves.Auxiliary(1))]
    expected = []
    for scale in (SCALE, 10 * SCALE, 100 * SCALE):
        prior = mt.priors.DistanceDependent(distances, mt.decays.exponential(scale), CONCENTRATION)
        note = "" if scale == SCALE else f", a = {scale:g}"
        cases += [(f"dd-CRP, collapsed{note}", prior, "links"), (f"dd-CRP, explicit parameters{note}", prior, "explicit_links")]
        expected.append(f"{tables_a_priori(prior):.0f} for a = {scale:g}")
    for name, prior, moves in cases:
        lines.append(sampled(name, z, truth, prior, moves))
        print(lines[-1], flush=True)
    lines += ["paper: CRP 0.72 0.82, K = 4.2; dd-CRP 0.98 0.86, K = 6.0", f"tables before the data are seen: {', '.join(expected)}", WHY]
    print("\n".join(lines[-3:]), flush=True)
    return lines


def by_bic(z: np.ndarray, seed: int) -> np.ndarray:
    """The Gaussian mixture with the best BIC over 1 to 9 components and four kinds of covariance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            GaussianMixture(k, covariance_type=kind, n_init=2, random_state=seed).fit(z) for k in range(1, 10) for kind in ("full", "tied", "diag", "spherical")
        ]
    return np.asarray(min(fits, key=lambda fit: fit.bic(z)).predict(z))


def scaling(sizes: tuple[int, ...] = (1_000, 3_000, 10_000, 30_000, 100_000), n_neighbours: int = 20) -> list[str]:
    lines = [
        f"{n_neighbours} neighbours, clusters of 1000 points (at most n/2)",
        f"{'n':>8} {'neighbours':>11} {'first seats':>12} {'sweep':>8} {'µs/point':>9} {'tables':>7} {'adj.R':>6} {'arrays':>9}",
    ]
    print("\n".join(lines), flush=True)
    timed(200, n_neighbours)  # compiles
    for n in sizes:
        lines.append(timed(n, n_neighbours))
        print(lines[-1], flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines.append(f"peak memory of the process: {peak:.0f} MB")
    print(lines[-1], flush=True)
    return lines


def timed(n: int, n_neighbours: int) -> str:
    """CPU seconds for the neighbours, the first seats (sequential prediction) and, on average over five after five, a sweep."""
    rng = np.random.default_rng(0)
    n_clusters = max(2, n // 1000)
    side = int(np.ceil(np.sqrt(n_clusters)))
    truth = np.arange(n) % n_clusters
    places = 10.0 * np.column_stack([truth % side, truth // side]) + rng.normal(size=(n, 2))
    observed = rng.normal(0.0, 10.0, (n_clusters, 2))[truth] + rng.normal(size=(n, 2))
    clock = [time.process_time()]
    prior = mt.priors.DistanceDependent.neighbours(places, k=n_neighbours, concentration=1e-3)
    clock.append(time.process_time())
    model, chain = Model.of(observed, mt.families.NormalInverseGamma(0.0, 0.01, 2.0, 1.0), prior), stream(0)
    state = seated(model, np.full(n, -1), chain)
    clock.append(time.process_time())
    for _ in range(5):
        state.tidy()
        Links().step(state, chain)
    clock.append(time.process_time())
    for _ in range(5):
        state.tidy()
        Links().step(state, chain)
    sweep = (time.process_time() - clock[-1]) / 5
    found = adjusted_rand(truth, state.canonical_labels())
    held = sum(a.nbytes for a in (*state.candidates, *state.seating, *state.statistics) if isinstance(a, np.ndarray)) / 2**20  # type: ignore[attr-defined]
    return f"{n:>8} {clock[1] - clock[0]:>10.2f}s {clock[2] - clock[1]:>11.2f}s {sweep:>7.3f}s {1e6 * sweep / n:>9.2f} {state.n_clusters:>7} {found:>6.3f} {held:>6.1f} MB"


def pictures(output: Path) -> list[str]:
    """The three pictures of examples/space_and_time.py."""
    path = ROOT / "examples" / "space_and_time.py"
    specification = importlib.util.spec_from_file_location("space_and_time", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return list(module.draw_all(output))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "ddcrp", help="folder for tables and pictures")
    parser.add_argument("--only", choices=["table", "scaling", "pictures"], help="only this part")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    parts = {"scaling": scaling, "table": table, "pictures": lambda: pictures(arguments.output)}
    with threadpool_limits(1):
        for name, part in parts.items():
            if arguments.only in (None, name):
                (arguments.output / f"{name}.txt").write_text("\n".join(part()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
