"""One picture of an answer: the clusters, how many there are, whether the chains agree, and which points belong together.

Colours are Petroff's ten (2021, Accessible color sequences for data visualization), chosen to be told apart by colour-blind readers. They are dealt out
by decreasing size of cluster; from the eleventh cluster on they return with another marker or hatch.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator
from scipy import sparse
from scipy.sparse.linalg import svds

from maitre.data.files import replacing
from maitre.data.validation import column_means
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.wording import counted
from maitre.partitions.labels import numbered_by_size

COLOURS = ("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd")
MARKERS = ("o", "^", "s", "D", "v", "P")
HATCHES = ("", "////", "....", "xxxx", "----", "oo")
INK = "#33373d"
PALE = "#d9dce1"
STEPS = [1, 2, 2.5, 5, 10]
MAX_POINTS = 20_000
MAX_RUG = 2_000
MAX_BARS = 40
MAX_LEGEND = 12
MAX_TRACE = 5_000
MAX_SIMILARITY = 2_000


def paint_summary(
    path: str | os.PathLike[str],
    values: Any,
    labels: Any,
    n_clusters: Any,
    log_joint: Any,
    similarity: Any = None,
    title: str = "",
) -> None:
    """Write a PNG with the data by cluster, the posterior of the number of clusters and the traces of the log joint, both of shape (chains, draws).

    `values` may be a table, an array, or anything that is not a table of numbers (then cluster sizes are shown). `similarity` (n × n, in the order
    of the data) adds a map of the co-clustering probabilities with the points sorted by cluster.
    """
    clusters, names = numbered_by_size(labels) - 1, largest_first(labels)
    check_shapes(clusters, values, similarity)
    figure = Figure(
        figsize=(16.5, 6.2) if similarity is not None else (11.5, 6.2), dpi=110, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1), facecolor="white"
    )
    FigureCanvasAgg(figure)
    columns: Any = figure.subfigures(1, 2 if similarity is None else 3, width_ratios=[2.0, 1.35] if similarity is None else [2.0, 1.4, 1.55])
    paint_data(columns[0].subplots(), values, clusters, names)
    upper, lower = columns[1].subplots(2)
    paint_number(upper, np.atleast_2d(n_clusters), int(clusters.max(initial=-1)) + 1)
    paint_traces(lower, np.atleast_2d(np.asarray(log_joint, dtype=np.float64)))
    if similarity is not None:
        paint_similarity(columns[2].subplots(), similarity, clusters)
    if title:
        figure.suptitle(shortened(title, 110), fontsize=15, fontweight="bold", color=INK, parse_math=False)
    with replacing(path) as unfinished:
        figure.savefig(unfinished, format="png")


def shortened(text: str, length: int) -> str:
    """The text on one line of limited length.

    >>> shortened("acceleration", 6)
    'accel…'
    """
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def check_shapes(clusters: Ints, values: Any, similarity: Any) -> None:
    n = len(clusters)
    n_rows = n if values is None else values.shape[0] if hasattr(values, "shape") else len(values)
    if n_rows != n:
        raise ValueError(f"the values have {n_rows} rows and there are {n} labels; expected one label per row")
    if similarity is not None and np.shape(similarity) != (n, n):
        raise ValueError(f"the similarity has shape {np.shape(similarity)}; expected ({n}, {n}), one row and column per label")


def prepare(axes: Axes, title: str, x: str = "", y: str = "") -> None:
    """Titles and labels in one voice; no formulae in them, since names of columns may hold any sign."""
    axes.set_title(title, fontsize=12.5, loc="left", color=INK, pad=8)
    axes.set_xlabel(shortened(x, 60), fontsize=11, color=INK, parse_math=False)
    axes.set_ylabel(shortened(y, 50), fontsize=11, color=INK, parse_math=False)
    axes.tick_params(labelsize=10, colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#9aa0a8")


def style(cluster: int) -> tuple[str, int]:
    """The colour of a cluster, and how often the colours have been dealt out before it."""
    return COLOURS[cluster % len(COLOURS)], cluster // len(COLOURS) % len(MARKERS)


# The data


def largest_first(labels: Any) -> list[Any]:
    """The labels of the clusters, the largest first: their names in a legend.

    >>> largest_first([0, 1, 1, 2])
    [1, 0, 2]
    """
    names, sizes = np.unique(np.asarray(labels), return_counts=True)
    return names[np.argsort(-sizes, kind="stable")].tolist()  # type: ignore[no-any-return]


def paint_data(axes: Axes, values: Any, clusters: Ints, labels: list[Any]) -> None:
    matrix, names = numeric(values)
    if matrix is None:
        paint_sizes(axes, clusters)
    elif matrix.shape[1] == 1:
        _paint_histogram(axes, matrix[:, 0], clusters, names[0], labels)
    else:
        _paint_points(axes, matrix, clusters, names, labels)


def numeric(values: Any) -> tuple[Floats | None, list[str]]:
    """The values as a matrix with gaps filled by the column's mean, or None if they are not numbers, and the names of the columns."""
    if values is None or sparse.issparse(values):
        return None, []
    try:
        matrix = np.asarray(values)
    except ValueError:  # rows of unequal length, such as rankings
        return None, []
    if matrix.dtype.kind not in "iuf" or matrix.ndim not in (1, 2) or matrix.size == 0:
        return None, []
    matrix = matrix.astype(np.float64).reshape(len(matrix), -1)
    matrix[np.isinf(matrix)] = np.nan
    given = getattr(values, "columns", [getattr(values, "name", None) or "value"] if matrix.shape[1] == 1 else range(matrix.shape[1]))
    names = [str(name) if isinstance(name, str) else f"column {name}" for name in given]
    return np.where(np.isnan(matrix), column_means(matrix), matrix), names


def sample(n: int, size: int) -> Ints:
    """At most `size` of n positions, the same every time."""
    return np.arange(n) if n <= size else np.sort(np.random.default_rng(0).choice(n, size, replace=False))


def _paint_points(axes: Axes, matrix: Floats, clusters: Ints, names: list[str], labels: list[Any]) -> None:
    chosen = sample(len(matrix), MAX_POINTS)
    points, names = (matrix[chosen], names) if matrix.shape[1] == 2 else principal_components(matrix[chosen])
    shown = clusters[chosen]
    size = float(np.clip(10_000 / max(len(chosen), 1), 5, 42))
    edge = 0.4 if len(chosen) < 1000 else 0.0
    for cluster in np.unique(shown):
        colour, turn = style(cluster)
        here = points[shown == cluster]
        axes.scatter(here[:, 0], here[:, 1], s=size, color=colour, marker=MARKERS[turn], alpha=0.85, linewidths=edge, edgecolors="white")
    prepare(axes, _data_title(clusters, len(chosen)), *names)
    axes.margins(0.04)
    _legend(axes, clusters, labels, as_markers=True)


def _data_title(clusters: Ints, n_shown: int) -> str:
    note = f" ({n_shown:,} shown)" if n_shown < len(clusters) else ""
    return f"{counted(len(clusters), 'point')}{note} in {counted(int(clusters.max(initial=-1)) + 1, 'cluster')}"


def principal_components(matrix: Floats) -> tuple[Floats, list[str]]:
    """Scores on the first two principal components of the standardised columns, and axis names with their shares of the variance."""
    centred = matrix - matrix.mean(axis=0)
    scale = centred.std(axis=0)
    centred = np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 1e-12 * np.abs(matrix).max(axis=0))
    total = float((centred**2).sum())
    if min(centred.shape) <= 2 or total == 0:
        left, singular, right = np.linalg.svd(centred, full_matrices=False)
    else:
        left, singular, right = svds(centred, k=2, v0=np.ones(min(centred.shape)), solver="arpack")
    order = np.argsort(-singular)[:2]
    signs = np.sign(right[order].sum(axis=1) + 1e-300)
    scores = np.zeros((len(matrix), 2))
    scores[:, : len(order)] = left[:, order] * singular[order] * signs
    shares = [100 * float(value) ** 2 / max(total, 1e-300) for value in singular[order]] + [0.0]
    return scores, [f"{rank} principal component ({share:.0f} % of variance)" for rank, share in zip(("first", "second"), shares, strict=False)]


def _paint_histogram(axes: Axes, column: Floats, clusters: Ints, name: str, labels: list[Any]) -> None:
    """A histogram with the clusters stacked from left to right, and every point as a tick below it."""
    found = np.arange(clusters.max() + 1)
    n_bins = int(np.clip(3.2 * np.sqrt(len(column)), 10, 80))
    edges = np.histogram_bin_edges(column, n_bins)
    base = np.zeros(n_bins)
    for cluster in sorted(found, key=lambda cluster: column[clusters == cluster].mean()):
        colour, turn = style(cluster)
        heights = np.histogram(column[clusters == cluster], edges)[0]
        axes.bar(edges[:-1], heights, np.diff(edges), base, align="edge", color=colour, hatch=HATCHES[turn], edgecolor="white", linewidth=0.6)
        base += heights
    chosen = sample(len(column), MAX_RUG)
    ticks = [to_rgba(style(cluster)[0], 0.9) for cluster in clusters[chosen]]
    axes.vlines(column[chosen], -0.055 * base.max(), -0.015 * base.max(), colors=ticks, linewidth=1.1)
    axes.set_ylim(-0.07 * base.max(), 1.05 * base.max())
    prepare(axes, _data_title(clusters, len(clusters)), name, "points")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, steps=STEPS))
    axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= 1.05 * base.max()])
    _legend(axes, clusters, labels, as_markers=False)


def paint_sizes(axes: Axes, clusters: Ints) -> None:
    sizes = np.bincount(clusters)
    shown = sizes[:MAX_BARS]
    axes.bar(np.arange(1, len(shown) + 1), shown, width=0.78 if len(shown) > 1 else 0.4, color=COLOURS[0])
    note = f"cluster, by size (largest {MAX_BARS} of {len(sizes):,})" if len(sizes) > MAX_BARS else "cluster, by size"
    prepare(axes, _data_title(clusters, len(clusters)), note, "points")
    axes.set_xlim(0.3, max(len(shown), 3) + 0.7)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, steps=STEPS))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, steps=STEPS))
    if len(shown) <= MAX_LEGEND:
        for position, size in enumerate(shown, 1):
            axes.annotate(f"{size:,}", (position, size), (0, 3), textcoords="offset points", ha="center", fontsize=10, color=INK)


def _legend(axes: Axes, clusters: Ints, labels: list[Any], as_markers: bool) -> None:
    """The clusters from the largest on, each with its size; below the panel, where it covers no points."""
    sizes = np.bincount(clusters)
    if not 1 < len(sizes) <= MAX_LEGEND:
        return
    for cluster, size in enumerate(sizes):
        colour, turn = style(cluster)
        name = f"{labels[cluster]}: {counted(int(size), 'point')}"
        if as_markers:
            axes.scatter([], [], s=46, color=colour, marker=MARKERS[turn], label=name)
        else:
            axes.bar(np.nan, np.nan, color=colour, hatch=HATCHES[turn], edgecolor="white", label=name)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=min(len(sizes), 4), frameon=False, fontsize=10, labelcolor=INK, handletextpad=0.4)


# The chains


def paint_number(axes: Axes, n_clusters: Any, reported: int) -> None:
    """The share of draws with each number of clusters; the number of the partition shown is dark, or a dashed line if no draw has it."""
    values, counts = np.unique(n_clusters, return_counts=True)
    shares = counts / counts.sum()
    low, high = int(min(values[0], reported)), int(max(values[-1], reported))
    axes.bar(values, shares, width=0.8 if high - low < 40 else 1.0, color=[INK if value == reported else COLOURS[0] for value in values])
    if reported not in values:
        axes.axvline(reported, color=INK, linewidth=1.4, linestyle=(0, (4, 3)))
    start = max(0.4, low - 0.6 - max(0, 5 - (high - low)) / 2)
    axes.set_xlim(start, max(high + 0.6, start + 6.2))
    sign = "dark" if reported in values else "dashed"
    prepare(axes, "Posterior of the number of clusters", f"number of clusters ({sign}: the {reported} shown)", "share of draws")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=STEPS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    axes.set_ylim(0, 1.06 * float(shares.max()))


def paint_traces(axes: Axes, log_joint: Floats) -> None:
    n_chains, n_draws = log_joint.shape
    draws = spread(n_draws, MAX_TRACE)
    for chain in range(n_chains):
        marker = "o" if len(draws) == 1 else None
        axes.plot(draws + 1, log_joint[chain, draws], color=COLOURS[chain % len(COLOURS)], linewidth=0.8, alpha=0.8, marker=marker)
    prepare(axes, f"Log joint, {counted(n_chains, 'chain')}", "draw", "log joint")
    axes.set_xlim(0, n_draws + 1)
    axes.ticklabel_format(axis="y", style="plain", useOffset=False)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, steps=STEPS))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=STEPS))


def spread(n: int, size: int) -> Ints:
    """At most `size` of n positions, evenly spread.

    >>> spread(7, 3).tolist()
    [0, 3, 6]
    """
    return np.unique(np.linspace(0, max(n - 1, 0), min(n, size)).astype(np.int64))


def paint_similarity(axes: Axes, similarity: Any, clusters: Ints) -> None:
    order = np.argsort(clusters, kind="stable")[spread(len(clusters), MAX_SIMILARITY)]
    image = axes.imshow(np.asarray(similarity)[np.ix_(order, order)], cmap="Blues", vmin=0, vmax=1, interpolation="antialiased", aspect="equal")
    edges = np.flatnonzero(np.diff(clusters[order])) + 0.5
    if len(edges) < MAX_LEGEND:
        axes.hlines(edges, -0.5, len(order) - 0.5, color=INK, linewidth=0.5)
        axes.vlines(edges, -0.5, len(order) - 0.5, color=INK, linewidth=0.5)
    prepare(axes, "Probability that two points share a cluster", "points, sorted by cluster")
    axes.set(xticks=[], yticks=[], anchor="N")
    axes.spines[["left", "bottom", "top", "right"]].set(visible=True, color="#9aa0a8")
    bar = axes.figure.colorbar(image, cax=axes.inset_axes((0.0, -0.12, 1.0, 0.035)), orientation="horizontal")
    bar.ax.tick_params(labelsize=10, colors=INK)
    bar.outline.set_visible(False)
