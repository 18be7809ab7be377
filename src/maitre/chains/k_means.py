"""Clusterings by k-means, to start from."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from maitre.numerics.arrays import Ints
from maitre.numerics.draw import draw_below
from maitre.numerics.rng import RngState


def k_means(vectors: Any, n_clusters: int, rng: RngState) -> Ints:
    """Labels of at most so many clusters by scikit-learn's mini-batch k-means; one thread, so that the result does not depend on how many there are."""
    from sklearn.cluster import MiniBatchKMeans

    vectors = sparse.csr_matrix(vectors, dtype=np.float64) if sparse.issparse(vectors) else np.asarray(vectors, dtype=np.float64)
    n_distinct = min(n_clusters, vectors.shape[0])
    with _controller().limit(limits=1):
        return MiniBatchKMeans(n_distinct, n_init=1, random_state=int(draw_below(2**31, rng))).fit(vectors).labels_  # type: ignore[no-any-return]


@cache
def _controller() -> Any:
    """Of the libraries that scikit-learn has brought along: to look for them takes longer than a small k-means."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
