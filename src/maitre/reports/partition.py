"""One picture of one partition: the clusters, and what each part of the search reached."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from maitre.data.files import replacing
from maitre.partitions.labels import numbered_by_size
from maitre.reports.picture import COLOURS, INK, PALE, check_shapes, largest_first, paint_data, paint_sizes, prepare, shortened


def paint_partition(path: str | os.PathLike[str], values: Any, labels: Any, stages: Sequence[tuple[str, float]], title: str = "") -> None:
    """Write a PNG with the data by cluster, the sizes of the clusters, and the log joint after every stage (pairs of name and log joint)."""
    clusters, names = numbered_by_size(labels) - 1, largest_first(labels)
    check_shapes(clusters, values, None)
    figure = Figure(figsize=(11.5, 6.2), dpi=110, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1), facecolor="white")
    FigureCanvasAgg(figure)
    columns: Any = figure.subfigures(1, 2, width_ratios=[2.0, 1.35])
    paint_data(columns[0].subplots(), values, clusters, names)
    upper, lower = columns[1].subplots(2)
    paint_sizes(upper, clusters)
    _paint_stages(lower, stages)
    if title:
        figure.suptitle(shortened(title, 110), fontsize=15, fontweight="bold", color=INK, parse_math=False)
    with replacing(path) as unfinished:
        figure.savefig(unfinished, format="png")


def _paint_stages(axes: Axes, stages: Sequence[tuple[str, float]]) -> None:
    """Bars from the first stage's log joint: what each stage has gained."""
    prepare(axes, "What each stage reached", "log joint above the first stage")
    first = stages[0][1]
    gains = [log_joint - first for _, log_joint in stages]
    places = np.arange(len(stages))[::-1]
    axes.barh(places, gains, color=PALE, height=0.6)
    axes.plot(gains, places, "o", color=COLOURS[0], ms=6)
    axes.set_yticks(places, [f"{name}  {log_joint:,.1f}" for name, log_joint in stages])
    axes.set_xlim(0.0, max(1.0, 1.08 * max(gains)))
