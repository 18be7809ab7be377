"""Data to try things on: simulated mixtures, and four classical sets that come with the package.

Sources of the sets: "galaxy", velocities (km/s) of 82 galaxies in Corona Borealis (Roeder 1990), as in R's MASS (GPL-2 | GPL-3), and a second column
with the known misprint 26690 corrected to 26960; "faithful", 272 eruptions and waiting times (minutes) of Old Faithful, R's datasets (GPL ≥ 2);
"iris" (Fisher 1936) and "wine" (UCI), scikit-learn's copies, whose last column `target` is the class.
"""

from __future__ import annotations

import math
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from maitre.numerics.arrays import Floats, Ints

if TYPE_CHECKING:
    import pandas as pd

SETS = {"galaxy": "galaxy_velocities_82.csv", "faithful": "old_faithful_272.csv", "iris": "iris_150.csv", "wine": "wine_178.csv"}


def gaussian_clusters(n: int, n_dimensions: int, n_clusters: int, separation: float, seed: int) -> tuple[Floats, Ints]:
    """Points x_i = μ_{z_i} + ε_i with μ_k ~ N(0, separation · I), z_i uniform over the clusters and ε_i ~ N(0, I); returns (x, z).

    >>> x, labels = gaussian_clusters(100, 2, 3, separation=25.0, seed=0)
    >>> x.shape, labels.shape, sorted(set(labels.tolist()))
    ((100, 2), (100,), [0, 1, 2])
    """
    if n < 0 or n_dimensions < 1 or n_clusters < 1 or not 0 <= separation < math.inf:
        given = f"n={n}, n_dimensions={n_dimensions}, n_clusters={n_clusters}, separation={separation}"
        raise ValueError(f"cannot simulate {given}; expected n ≥ 0, at least one dimension and one cluster, and a finite separation ≥ 0")
    rng = np.random.default_rng(seed)
    means = rng.normal(0.0, math.sqrt(separation), (n_clusters, n_dimensions))
    labels = rng.integers(0, n_clusters, n)
    return means[labels] + rng.normal(size=(n, n_dimensions)), labels


def built_in(name: str) -> pd.DataFrame:
    """One of the sets that come with the package: "galaxy", "faithful", "iris" or "wine".

    >>> built_in("faithful").shape
    (272, 2)
    """
    from maitre.data.files import read_table

    if name not in SETS:
        raise ValueError(f"no built-in data set is called {name!r}; expected one of {', '.join(SETS)}: for a file of your own use read_table(path)")
    with resources.as_file(resources.files("maitre.data") / "sets" / SETS[name]) as path:
        return read_table(path)
