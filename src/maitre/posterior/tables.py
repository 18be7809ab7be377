"""Answers as tables: the clusters of the point estimate, and the assignment of every point."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from maitre.numerics.arrays import Floats, Ints
from maitre.posterior.together import _table, evenly_spaced

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior

MAX_COLUMNS = 50
_TOP = 5  # features that are named of sparse counts


def assignments(posterior: Posterior, max_draws: int) -> Any:
    """A row per point: cluster, certainty, second choice and how much of it sits with the point (−1 and 0 if there is no other cluster)."""
    import pandas as pd

    labels = posterior.point_estimate()
    shares = posterior.affinities(labels, max_draws)
    points = np.arange(len(labels))
    certain, others = shares[points, labels], shares.copy()
    others[points, labels] = -1.0
    second = np.argmax(others, axis=1)
    none = others.max(axis=1) <= 0.0
    second[none] = -1
    table = {"cluster": labels, "certainty": certain, "second": second, "second_certainty": np.where(none, 0.0, others[points, second])}
    return as_given(posterior, pd.DataFrame(table))


def clusters(posterior: Posterior, level: float, max_draws: int) -> Any:
    """A row per cluster, the largest first."""
    import pandas as pd

    labels = posterior.point_estimate()
    certain, sizes = posterior.certainty(labels, max_draws), np.bincount(labels)
    order = np.argsort(-sizes, kind="stable")
    columns: dict[str, Any] = {
        "cluster": np.arange(len(sizes)),
        "size": sizes,
        "share": sizes / len(labels),
        "certainty": np.bincount(labels, certain) / sizes,
        "stability": posterior.stability(labels, max_draws),
        "typical": typical(posterior, labels, certain),
    }
    table = pd.DataFrame(columns | described_columns(posterior, labels, level, max_draws)).iloc[order].reset_index(drop=True)
    return as_given(posterior, table)


def as_given(posterior: Posterior, table: Any) -> Any:
    """The table as the kind that the data came as: Polars if they did, else pandas."""
    raw = getattr(posterior.model.data, "given", None)
    if type(raw).__module__.partition(".")[0] != "polars":
        return table
    import polars

    return polars.from_pandas(table)


def typical(posterior: Posterior, labels: Ints, certain: Floats) -> Ints:
    """Of each cluster the surest point; of several that are, the one nearest to the cluster's mean."""
    distance = np.zeros(len(labels))
    vectors = _vectors(posterior)
    if vectors is not None:
        for k in range(int(labels.max()) + 1):
            members = np.flatnonzero(labels == k)
            distance[members] = ((vectors[members] - vectors[members].mean(axis=0)) ** 2).sum(axis=1)
    order = np.lexsort((distance, -certain.round(2), labels))
    return order[np.concatenate([[0], np.flatnonzero(np.diff(labels[order])) + 1])]


def _vectors(posterior: Posterior) -> Any:
    """Standardised vectors of the points, if the family has dense ones that are in memory."""
    model = posterior.model
    if not model.in_memory or model.valid is None:
        return None
    try:
        found = model.vectors
    except (TypeError, ValueError, AttributeError):
        return None
    if sparse.issparse(found) or getattr(found, "dtype", None) is None or found.dtype.kind != "f" or found.ndim != 2:
        return None
    scale = found.std(axis=0)
    return found / np.where(scale > 0.0, scale, 1.0)


def described_columns(posterior: Posterior, labels: Ints, level: float, max_draws: int) -> dict[str, Any]:
    """By column: the mean of numbers with the interval of the means of the nearest clusters of draws; of other values the commonest and its share; of counts the top features."""
    data = posterior.model.data
    if data is None:
        return {}
    raw = data.raw
    if sparse.issparse(raw):
        return {"top": top_features(sparse.csr_matrix(raw), labels, data.names)}
    frame = data.take(range(min(MAX_COLUMNS, data.n_columns))).frame()
    if frame is None:
        return {}
    import pandas as pd

    found: dict[str, Any] = {}
    numeric = [name for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name].dtype) and not pd.api.types.is_bool_dtype(frame[name].dtype)]
    if numeric:
        values = frame[numeric].to_numpy(dtype=np.float64, na_value=np.nan)
        means, low, high = _means_with_intervals(posterior, values, labels, level, max_draws)
    for name in frame.columns:
        if name in numeric:
            place = numeric.index(name)
            found |= {str(name): means[:, place], f"{name} low": low[:, place], f"{name} high": high[:, place]}
        else:
            commonest = [_commonest(group) for _, group in frame[name].groupby(labels)]
            found |= {str(name): [value for value, _ in commonest], f"{name} share": [share for _, share in commonest]}
    return found


def _means_with_intervals(posterior: Posterior, values: Floats, labels: Ints, level: float, max_draws: int) -> tuple[Floats, Floats, Floats]:
    """(clusters, columns) each: means, and quantiles over draws of the means of the clusters that overlap most."""
    means = _means(values, labels, int(labels.max()) + 1)
    sizes, drawn = np.bincount(labels), []
    for chain, draw in evenly_spaced(posterior.log_joint.shape, max_draws):
        other = np.asarray(posterior.labels[chain, draw], dtype=np.int64)
        shared = _table(other, labels)
        nearest = (shared / (sizes + np.bincount(other)[:, None] - shared)).argmax(axis=0)
        drawn.append(_means(values, other, int(other.max()) + 1)[nearest])
    tail = (1.0 - level) / 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column of which nothing is known in a cluster has no interval
        low, high = np.nanquantile(np.array(drawn), [tail, 1.0 - tail], axis=0)
    return means, low, high


def _means(values: Floats, labels: Ints, n_clusters: int) -> Floats:
    """(clusters, columns): means of what is known; NaN where nothing is."""
    known = ~np.isnan(values)
    filled, member = np.where(known, values, 0.0), sparse.csr_matrix((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(n_clusters, len(labels)))
    counts = member @ known.astype(np.float64)
    return np.asarray(np.divide(member @ filled, counts, out=np.full(counts.shape, np.nan), where=counts > 0.0))


def _commonest(values: Any) -> tuple[str | None, float]:
    counts = values.value_counts()
    return (str(counts.index[0]), float(counts.iloc[0] / counts.sum())) if len(counts) and counts.iloc[0] else (None, float("nan"))


def top_features(counts: Any, labels: Ints, names: Any = None) -> list[str]:
    """Of each cluster the features whose share of its counts exceeds their share of all counts the most, weighted by how common they are."""
    member = sparse.csr_matrix((np.ones(len(labels)), (labels, np.arange(len(labels)))))
    inside = np.asarray((member @ counts).todense(), dtype=np.float64)
    overall = inside.sum(axis=0) / max(inside.sum(), 1.0)
    shares = inside / np.maximum(inside.sum(axis=1, keepdims=True), 1.0)
    lift = shares * np.log(np.where(shares > 0.0, shares, 1.0) / np.where(overall > 0.0, overall, 1.0))
    return [", ".join(str(j if names is None else names[j]) for j in np.argsort(-row, kind="stable")[:_TOP] if row[j] > 0.0) for row in lift]
