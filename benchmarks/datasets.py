"""The real data sets of the benchmarks, from the folder MAITRE_DATA (default ../shared/data)."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA

DATA = Path(os.environ.get("MAITRE_DATA", "../shared/data"))


def present(name: str) -> bool:
    """Whether a part of the data is there; says so on the screen if it is not."""
    found = (DATA / name).exists()
    if not found:
        print(f"{DATA / name} is missing, so what needs it is left out: say where the data are with MAITRE_DATA", file=sys.stderr)
    return found


def mnist_digits(n: int, n_components: int = 50) -> np.ndarray:
    """The first n training digits: pixels z-scored, constant ones dropped, principal components."""
    with gzip.open(DATA / "mnist" / "train-images-idx3-ubyte.gz") as file:
        raw = file.read()
    pixels = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 784)[:n].astype(float)
    pixels = pixels[:, pixels.std(axis=0) > 0]
    return PCA(n_components, random_state=0).fit_transform((pixels - pixels.mean(axis=0)) / pixels.std(axis=0))


def corpus(name: str) -> sparse.csr_matrix:
    """Word counts, documents by words."""
    return sparse.csr_matrix(sparse.load_npz(DATA / "corpora" / f"{name}_counts.npz"))
