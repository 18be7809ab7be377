"""A picture of clusters of rankings: what each prefers, place by place, how firmly, and how many voters it has."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from maitre.data.files import replacing
from maitre.numerics.arrays import Floats
from maitre.reports.picture import COLOURS, INK

_MOST_CLUSTERS, _MOST_PLACES, _LONGEST = 12, 6, 17


def paint_rankings(path: str | os.PathLike[str], centers: list[list[str]], firmness: Floats, shares: Floats, n_clusters: Any, title: str = "") -> None:
    """Write a PNG: a row for each of the largest clusters with its items, place by place, the darker the firmer; beside it the posterior of the number of clusters and firmness by place."""
    rows, places = min(len(centers), _MOST_CLUSTERS), min(firmness.shape[1], _MOST_PLACES)
    figure = Figure(figsize=(4.5 + 1.75 * places, 2.4 + 0.42 * max(rows, 6)), dpi=110, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1), facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2, width_ratios=[1.0 + 0.62 * places, 1.9])
    table, numbers, firm = figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
    table.imshow(firmness[:rows, :places], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for k in range(rows):
        for j in range(places):
            table.text(j, k, _short(centers[k][j]), ha="center", va="center", fontsize=8, color="white" if firmness[k, j] > 0.6 else INK)
    table.set_xticks(range(places), [str(j + 1) for j in range(places)])
    table.set_yticks(range(rows), [f"{k + 1}  ({shares[k]:.1%})" for k in range(rows)])
    table.set_xlabel("place (the darker, the firmer)")
    table.set_ylabel("cluster (share of the voters)")
    more = f"; the {rows} largest of {len(centers)} clusters" if len(centers) > rows else ""
    table.set_title(f"{title}{more}".strip("; "), loc="left", fontsize=10, color=INK)
    found, counts = np.unique(np.asarray(n_clusters), return_counts=True)
    numbers.bar(found, counts / counts.sum(), color=COLOURS[0], width=0.8)
    numbers.set_title("how many clusters", loc="left", fontsize=10, color=INK)
    for k in range(min(rows, 5)):
        firm.plot(np.arange(1, firmness.shape[1] + 1), firmness[k], color=COLOURS[k], lw=1.5, label=f"cluster {k + 1}")
    firm.set_title("how firm each place is", loc="left", fontsize=10, color=INK)
    firm.set_xlabel("place")
    firm.set_ylim(0.0, 1.0)
    firm.legend(frameon=False, fontsize=7)
    for axes in (numbers, firm):
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    with replacing(path) as unfinished:  # type: ignore[arg-type]
        figure.savefig(unfinished, format="png")


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
