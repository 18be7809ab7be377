"""What a posterior says, in the form that is shown and written: clusters from the largest to the smallest, each point's certainty, columns at a glance."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maitre.numerics.arrays import Floats, Ints
from maitre.partitions.labels import numbered_by_size as numbered_by_size
from maitre.posterior.posterior import Posterior, evenly_spaced

MAX_DRAWS = 200
MAX_COLUMNS = 5
MAX_SIMILARITY = 1500


def certainty(posterior: Posterior, reference: Ints) -> Floats:
    """For each point the share of its mates in the reference partition that sit with it, averaged over draws; for a point without mates, how often it is alone."""
    draws = evenly_spaced(posterior.log_joint.shape, MAX_DRAWS)
    total = np.zeros(len(reference))
    for chain, draw in draws:
        total += _share_of_mates(np.asarray(posterior.labels[chain, draw], dtype=np.int64), reference)
    return total / len(draws)


def _share_of_mates(labels: Ints, reference: Ints) -> Floats:
    """
    >>> _share_of_mates(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])).tolist()
    [0.5, 0.5, 0.0, 0.0]
    """
    width = int(reference.max()) + 1
    _, cell, shared = np.unique(labels * width + reference, return_inverse=True, return_counts=True)
    mates = np.bincount(reference)[reference] - 1
    alone = np.bincount(labels)[labels] == 1
    return np.asarray(np.where(mates > 0, (shared[cell] - 1) / np.maximum(mates, 1), alone), dtype=np.float64)


def similarity(posterior: Posterior) -> Floats | None:
    """(n, n): how often two points share a cluster; None where that is too large for a picture."""
    n = posterior.model.n
    if n > MAX_SIMILARITY:
        return None
    draws = evenly_spaced(posterior.log_joint.shape, MAX_DRAWS)
    together = np.zeros((n, n), dtype=np.int32)
    for chain, draw in draws:
        labels = np.asarray(posterior.labels[chain, draw])
        together += labels[:, None] == labels[None, :]
    return together / len(draws)


def numeric_columns(data: Any) -> Any:
    """The part of the data that a scatter plot or a mean can show: a table's numeric columns, a dense array, or None."""
    if sparse.issparse(data):
        return None
    if hasattr(data, "columns"):
        numbers = data.select_dtypes("number")
        return numbers.astype(np.float64) if numbers.shape[1] else None
    return data if np.asarray(data).dtype.kind in "iuf" else None


def clusters_at_a_glance(data: Any, clusters: Ints, certain: Floats) -> list[dict[str, Any]]:
    """For each cluster its size, share, mean certainty, and the first few columns: the mean of numbers, the commonest of other values."""
    sizes = np.bincount(clusters)[1:]
    means = np.bincount(clusters, certain)[1:] / sizes
    columns = _columns(data, clusters)
    return [
        {"cluster": k + 1, "size": int(size), "share": float(size / len(clusters)), "certainty": float(means[k])}
        | {"columns": {name: values[k] for name, values in columns.items()}}
        for k, size in enumerate(sizes)
    ]


def _columns(data: Any, clusters: Ints) -> dict[str, list[Any]]:
    import pandas as pd

    if sparse.issparse(data):
        return {}
    frame = data if hasattr(data, "columns") else pd.DataFrame(np.asarray(data).reshape(len(clusters), -1)).add_prefix("column ")
    frame = frame.iloc[:, :MAX_COLUMNS]
    return {str(name): _by_cluster(frame[name], clusters) for name in frame.columns}


def _by_cluster(column: Any, clusters: Ints) -> list[Any]:
    import pandas as pd

    groups = column.groupby(clusters)
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return [float(mean) if pd.notna(mean) else None for mean in groups.mean()]
    return [_commonest(values) for _, values in groups]


def _commonest(values: Any) -> str | None:
    counts = values.value_counts()
    return str(counts.index[0]) if len(counts) and counts.iloc[0] else None
