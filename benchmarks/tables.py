"""Default fits of classical and simulated tables beside scikit-learn's BayesianGaussianMixture and R's mclust, in one run.

    python benchmarks/tables.py [name …] [--seeds N]

Nothing is set: `mt.DPMixture(random_state=seed)` on all rows gives K, the adjusted Rand index of `labels_` and CPU seconds; fitted to three quarters of the rows it gives the log
density of the rest, per row, in the units of the standardised columns (the others get the columns standardised by all rows, as their manuals advise). BayesianGaussianMixture has
20 components and full covariances; mclust chooses among its own models and 1–9 clusters by BIC, in R (`apt-get install r-cran-mclust`); without R its columns stay empty.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture

import maitre as mt

DATA = Path(os.environ.get("MAITRE_DATA", "../shared/data"))
Table = tuple[Any, Any]
R_SCRIPT = """
suppressMessages(library(mclust)); a <- commandArgs(TRUE)
all <- as.matrix(read.csv(a[1])); train <- as.matrix(read.csv(a[2])); test <- as.matrix(read.csv(a[3]))
began <- proc.time()[1]; m <- Mclust(all, verbose=FALSE); spent <- proc.time()[1] - began
h <- Mclust(train, verbose=FALSE)
d <- log(dens(data=test, modelName=h$modelName, parameters=h$parameters))
cat(m$G, m$modelName, spent, mean(d), "\\n"); cat(m$classification, "\\n")
"""


def crabs() -> Table:
    """Five measurements of 200 crabs of two colours and sexes."""
    table = pd.read_csv(DATA / "small" / "crabs_200.csv")
    numbers = [name for name in table.select_dtypes("number").columns if name.lower() not in ("index", "rownames")]
    kinds = table.select_dtypes(exclude="number")
    return table[numbers].to_numpy(dtype=float), pd.factorize(kinds.iloc[:, -2].astype(str) + kinds.iloc[:, -1].astype(str))[0]


def principal(load: Callable[..., Any], n_components: int, scaled: bool) -> Table:
    """Principal components of a table of scikit-learn's."""
    x, y = load(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0) if scaled else x
    return PCA(n_components, random_state=0).fit_transform(x), y


def correlated(n_dimensions: int, n_clusters: int = 6, n: int = 600) -> Table:
    """Gaussian clusters, each with a covariance of its own."""
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(0, n_clusters, n))
    shapes = [rng.normal(size=(n_dimensions, n_dimensions)) / np.sqrt(n_dimensions) + 0.3 * np.eye(n_dimensions) for _ in range(n_clusters)]
    centres = 2.0 * rng.normal(size=(n_clusters, n_dimensions))
    return np.array([rng.normal(size=n_dimensions) @ shapes[k] + centres[k] for k in y]), y


def blobs() -> Table:
    """Twelve round clusters in fifty dimensions."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 12, 1000)
    return 3.0 * rng.normal(size=(12, 50))[y] + rng.normal(size=(1000, 50)), y


def noise(n_dimensions: int, kind: str = "normal") -> Table:
    """500 points without clusters."""
    rng = np.random.default_rng(n_dimensions)
    draw = {
        "normal": rng.standard_normal,
        "lognormal": lambda size: rng.lognormal(size=size),
        "uniform": rng.random,
        "t5": lambda size: rng.standard_t(5, size=size),
    }
    return draw[kind](size=(500, n_dimensions)), np.zeros(500, dtype=int)


TABLES: dict[str, Callable[[], Table]] = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "crabs": crabs,
    "breast cancer, 5 components": lambda: principal(datasets.load_breast_cancer, 5, True),
    "digits, 20 components": lambda: principal(datasets.load_digits, 20, False),
    "correlated, D=10": lambda: correlated(10),
    "blobs, D=50": blobs,
    **{f"noise, D={d}": lambda d=d: noise(d) for d in (2, 5, 10, 20, 50, 100)},  # type: ignore[misc]
    **{f"{kind} noise, D=5": lambda kind=kind: noise(5, kind) for kind in ("lognormal", "uniform", "t5")},  # type: ignore[misc]
}


def halves(n: int) -> tuple[Any, Any]:
    """Rows to fit and rows to score."""
    order = np.random.default_rng(0).permutation(n)
    return np.sort(order[n // 4 :]), np.sort(order[: n // 4])


def ours(x: Any, seed: int) -> tuple[Any, float, float]:
    """Labels, CPU seconds, held-out log density per row."""
    began = time.process_time()
    labels = mt.DPMixture(random_state=seed).fit(x).labels_
    spent = time.process_time() - began
    train, test = halves(len(x))
    return labels, spent, float(mt.DPMixture(random_state=seed).fit(x[train]).score(x[test]))


def theirs(x: Any, seed: int) -> tuple[Any, float, float]:
    """The same of BayesianGaussianMixture."""

    def model() -> BayesianGaussianMixture:
        return BayesianGaussianMixture(n_components=20, random_state=seed, max_iter=300)

    began = time.process_time()
    labels = model().fit_predict(x)
    spent = time.process_time() - began
    train, test = halves(len(x))
    return labels, spent, float(model().fit(x[train]).score(x[test]))


def mclust(x: Any) -> tuple[Any, float, float] | None:
    """The same of R's mclust; None without it, or if it takes longer than ten minutes."""
    if shutil.which("Rscript") is None or len(x) > 1000 or x.shape[1] > 20:
        return None
    train, test = halves(len(x))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.csv" for name in ("all", "train", "test")]
        for path, rows in zip(paths, (x, x[train], x[test]), strict=True):
            pd.DataFrame(rows).to_csv(path, index=False)
        done = subprocess.run(["Rscript", "-e", R_SCRIPT, *map(str, paths)], capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        print(f"   mclust is left out: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'it failed'}")
        return None
    head, labels = done.stdout.strip().splitlines()[-2:]
    return np.array(labels.split(), dtype=int), float(head.split()[2]), float(head.split()[3])


def line(name: str, found: tuple[Any, float, float] | None, truth: Any) -> str:
    """One row of the table."""
    if found is None:
        return f"   {name:<24} –"
    labels, spent, density = found
    return (
        f"   {name:<24} K {len(np.unique(labels)):>4}   adjusted Rand {adjusted_rand_score(truth, labels):6.3f}   held-out {density:8.3f}   {spent:6.2f} CPU s"
    )


def main() -> None:
    """Every table named, by all three."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="tables (a part of a name will do); all by default")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="sklearn")
    if shutil.which("Rscript") is None:
        print("R is not here: mclust is left out (apt-get install r-cran-mclust)")
    mt.DPMixture(draws=2, burn_in=2, random_state=0).fit(np.random.default_rng(0).normal(size=(60, 12)))  # compiles; that is not what is measured
    for name, table in TABLES.items():
        if options.names and not any(part in name for part in options.names):
            continue
        x, truth = table()
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        print(f"{name}: {x.shape[0]} × {x.shape[1]}", flush=True)
        for seed in range(options.seeds):
            print(line(f"maitre, seed {seed}", ours(x, seed), truth), flush=True)
        print(line("BayesianGaussianMixture", theirs(x, 0), truth))
        print(line("mclust", mclust(x), truth), flush=True)


if __name__ == "__main__":
    main()
