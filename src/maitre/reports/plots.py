"""Plots, one function each. Every one draws on the axes it is given, or on a figure of its own, and returns the axes.

>>> import maitre as mt
>>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], draws=20, burn_in=20, chains=2, progress=False)
>>> axes = mt.plots.traces(posterior)
>>> axes.figure.savefig("traces.png")                                            # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from maitre.partitions.labels import numbered_by_size
from maitre.posterior.posterior import Posterior
from maitre.posterior.rankings import RankingPosterior
from maitre.posterior.tables import top_features
from maitre.reports.html import places_of
from maitre.reports.picture import (
    COLOURS,
    INK,
    MARKERS,
    _numeric,
    _paint_data,
    _paint_number,
    _paint_similarity,
    _paint_traces,
    _prepare,
    _principal_components,
    _sample,
    _style,
    largest_first,
)
from maitre.reports.rankings import paint_profiles, shown

_UNCERTAIN = 0.5
_GRID = 400
_PLANE = 80
_MAX_COLUMNS = 30


def _axes(axes: Axes | None, width: float = 7.0, height: float = 5.0) -> Axes:
    if axes is not None:
        return axes
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure.subplots()  # type: ignore[no-any-return]


def _clusters(posterior: Posterior) -> Any:
    return numbered_by_size(posterior.point_estimate()) - 1


def traces(posterior: Posterior, name: str = "log_joint", axes: Axes | None = None) -> Axes:
    """A trace of every chain: the log joint, "n_clusters", or a sampled hyper-parameter by its name."""
    if name not in posterior.traces:
        raise ValueError(f"there is no trace {name!r}; there are {', '.join(posterior.traces)}")
    axes = _axes(axes)
    _paint_traces(axes, np.asarray(posterior.traces[name], dtype=np.float64))
    if name != "log_joint":
        _prepare(axes, f"{name}, {len(posterior.log_joint)} chains", "draw", name)
    return axes


def n_clusters(posterior: Posterior, axes: Axes | None = None) -> Axes:
    """The posterior of the number of clusters."""
    axes = _axes(axes)
    _paint_number(axes, posterior.n_clusters, int(posterior.point_estimate().max()) + 1)
    return axes


def similarity(posterior: Posterior, max_points: int = 1500, axes: Axes | None = None) -> Axes:
    """How often two points share a cluster, points sorted by cluster and by certainty; of many points some."""
    axes, order = _axes(axes, 6.0, 6.5), posterior.typical_points(max_points)
    _paint_similarity(axes, posterior.similarity(points=order), _clusters(posterior)[order])
    return axes


def points(posterior: Posterior, values: Any = None, axes: Axes | None = None) -> Axes:
    """Points by cluster in two dimensions (two columns as they are, more as principal components), those that are less than half sure ringed; one column as a histogram."""
    axes, shown = _axes(axes, 7.5, 6.0), _values(posterior, values)
    clusters = _clusters(posterior)
    _paint_data(axes, shown, clusters, largest_first(posterior.point_estimate()))
    matrix, _ = _numeric(shown)
    if matrix is not None and matrix.shape[1] > 1:
        chosen = _sample(len(matrix), 20_000)
        places = matrix[chosen] if matrix.shape[1] == 2 else _principal_components(matrix[chosen])[0]
        doubtful = posterior.certainty()[chosen] < _UNCERTAIN
        axes.scatter(places[doubtful, 0], places[doubtful, 1], s=70, facecolors="none", edgecolors=INK, linewidths=0.9)
    return axes


def _values(posterior: Posterior, values: Any) -> Any:
    if values is not None:
        return values
    places = places_of(posterior)
    assert posterior.model.data is not None
    return posterior.model.data.numbers if places is None else places


def profiles(posterior: Posterior, axes: Axes | None = None) -> Axes:
    """What numeric columns are like in each cluster: means with 95 % of the draws, in standard deviations from the mean of all points."""
    from maitre.reports.views import _profile

    table = posterior.clusters()
    table = table.to_pandas() if hasattr(table, "to_pandas") else table
    columns, means, low, high = _profile(posterior, table)
    if not columns:
        raise ValueError("the data have no numeric columns to draw profiles of")
    axes = _axes(axes, 8.0, 1.5 + 0.4 * len(columns))
    shown = min(len(means), 12)
    for k in range(shown):
        colour, turn = _style(k)
        y = np.arange(len(columns)) + 0.7 * (k / max(shown - 1, 1) - 0.5)
        axes.errorbar(
            means[k],
            y,
            xerr=[np.maximum(means[k] - low[k], 0.0), np.maximum(high[k] - means[k], 0.0)],
            fmt=MARKERS[turn],
            color=colour,
            ms=5,
            lw=1.2,
            label=str(k + 1),
        )
    axes.axvline(0.0, color=INK, lw=0.8, ls=(0, (4, 3)))
    axes.set_yticks(np.arange(len(columns)), columns)
    _prepare(axes, "Profiles of the clusters", "standard deviations from the mean of all points")
    axes.legend(title="cluster", frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes


def density(posterior: Posterior, axes: Axes | None = None, max_draws: int = 100) -> Axes:
    """The predictive density of one or two columns, over the points."""
    matrix, names = _numeric(posterior.model.data.numbers if posterior.model.data is not None else None)
    if matrix is None or matrix.shape[1] > 2 or matrix.shape[1] != posterior.model.data.n_columns:  # type: ignore[union-attr]
        raise ValueError("densities are drawn of one or two numeric columns: take others for a look, e.g. mt.plots.points")
    axes = _axes(axes)
    margin = 0.15 * (matrix.max(axis=0) - matrix.min(axis=0))
    low, high = matrix.min(axis=0) - margin, matrix.max(axis=0) + margin
    if matrix.shape[1] == 1:
        x = np.linspace(low[0], high[0], _GRID)
        axes.hist(matrix[:, 0], bins=min(60, 10 + len(matrix) // 10), density=True, color="#d9dce1")
        axes.plot(x, np.exp(posterior.log_density(_like(posterior, x[:, None]), max_draws)), color=COLOURS[0], lw=1.8)
        _prepare(axes, "Predictive density", names[0], "density")
        return axes
    x, y = np.linspace(low[0], high[0], _PLANE), np.linspace(low[1], high[1], _PLANE)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    height = np.exp(posterior.log_density(_like(posterior, grid), max_draws)).reshape(_PLANE, _PLANE)
    axes.contourf(x, y, height**0.5, levels=14, cmap="Blues")
    chosen = _sample(len(matrix), 2_000)
    axes.scatter(matrix[chosen, 0], matrix[chosen, 1], s=7, color=INK, alpha=0.5, linewidths=0)
    _prepare(axes, "Predictive density", *names)
    return axes


def _like(posterior: Posterior, grid: Any) -> Any:
    import pandas as pd

    names = posterior.model.data.names  # type: ignore[union-attr]
    return grid if names is None else pd.DataFrame(grid, columns=list(names))


def links(posterior: Posterior, coordinates: Any = None, axes: Axes | None = None) -> Axes:
    """Points on a map with the links of the draw with the highest log joint, under a distance-dependent prior."""
    if "links" not in posterior.draws:
        raise ValueError("there are no links to draw: they belong to a distance-dependent prior")
    places, names = _numeric(_values(posterior, coordinates))
    if places is None or places.shape[1] != 2:
        raise ValueError("give coordinates, two columns with a row per point")
    chain, draw = np.unravel_index(int(np.argmax(posterior.log_joint)), posterior.log_joint.shape)
    target = np.asarray(posterior.draws["links"][int(chain), int(draw)])
    axes, clusters = _axes(axes, 7.0, 6.5), _clusters(posterior)
    for k in np.unique(clusters):
        members = np.flatnonzero(clusters == k)
        ends = np.stack([places[members], places[target[members]], np.full((len(members), 2), np.nan)], axis=1).reshape(-1, 2)
        colour, turn = _style(int(k))
        axes.plot(ends[:, 0], ends[:, 1], color=colour, lw=0.7, alpha=0.6)
        axes.scatter(places[members, 0], places[members, 1], s=12, color=colour, marker=MARKERS[turn], linewidths=0)
    _prepare(axes, f"Links of one draw, {int(clusters.max()) + 1} clusters", *names)
    return axes


def top_words(posterior: Posterior, axes: Axes | None = None) -> Axes:
    """The features, such as words, that mark each cluster of sparse counts."""
    from scipy import sparse

    data = posterior.model.data
    if data is None or not sparse.issparse(data.raw):
        raise ValueError("top features are of sparse counts, and the data are none")
    clusters = _clusters(posterior)
    words, sizes = top_features(sparse.csr_matrix(data.raw), clusters, data.names), np.bincount(clusters)
    shown = min(len(words), _MAX_COLUMNS)
    axes = _axes(axes, 8.0, 1.0 + 0.32 * shown)
    axes.barh(np.arange(shown), sizes[:shown], color="#d9dce1")
    for k in range(shown):
        axes.annotate(words[k], (0.01 * sizes.max(), k), va="center", fontsize=9, color=INK)
    axes.set_yticks(np.arange(shown), [str(k + 1) for k in range(shown)])
    axes.invert_yaxis()
    _prepare(axes, "Top features of the clusters", "points", "cluster")
    return axes


def rankings(posterior: Posterior, axes: Axes | None = None) -> Axes:
    """What each cluster of rankings prefers, place by place, the darker the firmer."""
    if not isinstance(posterior, RankingPosterior):
        raise ValueError("the data are no rankings: see mt.plots.profiles and mt.plots.top_words")
    rows, places = shown(posterior)
    axes = _axes(axes, 2.0 + 1.5 * places, 1.5 + 0.45 * rows)
    paint_profiles(axes, posterior)
    return axes
