"""What a posterior says, in the form that is shown and written: clusters from the largest to the smallest, columns at a glance."""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.data.rows import Rows
from maitre.numerics.arrays import Floats, Ints
from maitre.posterior.rankings import RankingPosterior

MAX_COLUMNS = 5
MAX_SIMILARITY = 1500


def clusters_at_a_glance(data: Rows, clusters: Ints, certain: Floats, stable: Floats | None = None) -> list[dict[str, Any]]:
    """For each cluster, the largest first, its number, size, share, mean certainty, stability, and the first few columns: the mean of numbers, the commonest of other values."""
    sizes = np.bincount(clusters)
    means = np.bincount(clusters, certain) / sizes
    columns = _columns(data, clusters)
    return [
        {"cluster": int(k), "size": int(sizes[k]), "share": float(sizes[k] / len(clusters)), "certainty": float(means[k])}
        | ({} if stable is None else {"stability": float(stable[k])})
        | {"columns": {name: values[k] for name, values in columns.items()}}
        for k in np.argsort(-sizes, kind="stable")
    ]


def rankings_at_a_glance(posterior: RankingPosterior, certain: Floats, stable: Floats) -> list[dict[str, Any]]:
    """The same for rankings, with what each cluster prefers, from best to worst, and how firm each place is."""
    labels, firmness = posterior.point_estimate(), posterior.firmness()
    shares, means = posterior.shares(), np.bincount(labels, certain) / np.bincount(labels)
    names = [[posterior.rankings.name_of(int(item)) for item in row] for row in posterior.orderings()]
    return [
        {"cluster": int(k), "size": round(shares[k] * len(labels)), "share": float(shares[k]), "certainty": float(means[k]), "stability": float(stable[k])}
        | {"ordering": names[k], "firmness": [round(float(p), 4) for p in firmness[k]]}
        for k in np.argsort(-shares, kind="stable")
    ]


def _columns(data: Rows, clusters: Ints) -> dict[str, list[Any]]:
    frame = data.take(range(min(MAX_COLUMNS, data.n_columns))).frame()
    return {} if frame is None else {str(name): _by_cluster(frame[name], clusters) for name in frame.columns}


def _by_cluster(column: Any, clusters: Ints) -> list[Any]:
    import pandas as pd

    groups = column.groupby(clusters)
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return [float(mean) if pd.notna(mean) else None for mean in groups.mean()]
    return [_commonest(values) for _, values in groups]


def _commonest(values: Any) -> str | None:
    counts = values.value_counts()
    return str(counts.index[0]) if len(counts) and counts.iloc[0] else None
