"""Clusterings by k-means, to start from."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maitre.numerics.arrays import Ints
from maitre.numerics.draw import draw_below
from maitre.numerics.rng import RngState


def k_means(vectors: Any, n_clusters: int, rng: RngState) -> Ints:
    """Labels of at most so many clusters by scikit-learn's mini-batch k-means; one thread, so that the result does not depend on how many there are."""
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    vectors = sparse.csr_matrix(vectors, dtype=np.float64) if sparse.issparse(vectors) else np.asarray(vectors, dtype=np.float64)
    n_distinct = min(n_clusters, vectors.shape[0])
    with threadpool_limits(1):
        return MiniBatchKMeans(n_distinct, n_init=1, random_state=int(draw_below(2**31, rng)), batch_size=4096).fit(vectors).labels_  # type: ignore[no-any-return]
