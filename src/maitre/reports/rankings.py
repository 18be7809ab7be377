"""A picture of clusters of rankings: what each prefers, place by place, how firmly, and how many voters it has; how many clusters there are, and whether the chains agree."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from maitre.data.files import replacing
from maitre.posterior.rankings import RankingPosterior, n_notable
from maitre.reports.picture import COLOURS, INK, paint_number, paint_traces, prepare, shortened

_MOST_CLUSTERS, _MOST_PLACES, _LONGEST, _LINES = 12, 6, 20, 5


def shown(posterior: RankingPosterior) -> tuple[int, int]:
    """How many clusters and places are worth showing, as there is room for."""
    return min(n_notable(np.bincount(posterior.point_estimate()).tolist()), _MOST_CLUSTERS), min(posterior.firmness().shape[1], _MOST_PLACES)


def paint_profiles(axes: Axes, posterior: RankingPosterior) -> None:
    """A row for each of the largest clusters with its items, place by place, the darker the firmer."""
    rows, places = shown(posterior)
    shares, orderings, firmness = posterior.shares(), posterior.orderings(), posterior.firmness()
    order = np.argsort(-shares, kind="stable")[:rows]
    axes.imshow(firmness[order, :places], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for row, k in enumerate(order):
        for j in range(places):
            name, dark = shortened(posterior.rankings.name_of(int(orderings[k, j])), _LONGEST), firmness[k, j] > 0.6
            axes.text(j, row, name, ha="center", va="center", fontsize=8, color="white" if dark else INK, parse_math=False)
    axes.set_xticks(range(places), [str(j + 1) for j in range(places)])
    axes.set_yticks(range(rows), [f"{k}  ({shares[k]:.1%})" for k in order])
    more = f"the {rows} largest of {len(shares)} clusters" if len(shares) > rows else f"{len(shares)} cluster{'s' * (len(shares) != 1)}"
    prepare(axes, f"From best to worst: {more}", "place (the darker, the firmer)", "cluster (share of the voters)")


def paint_firmness(axes: Axes, posterior: RankingPosterior) -> None:
    """How probable it is at each place that a ranking goes on as its cluster does, in the largest clusters."""
    firmness = posterior.firmness()
    for line, k in enumerate(np.argsort(-posterior.shares(), kind="stable")[: min(_LINES, shown(posterior)[0])]):
        axes.plot(np.arange(1, firmness.shape[1] + 1), firmness[k], color=COLOURS[line], lw=1.5, label=f"cluster {k}")
    prepare(axes, "How firm is each place?", "place", "probability")
    axes.set_ylim(0.0, 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.legend(frameon=False, fontsize=8, ncols=2)


def paint_rankings(path: str | os.PathLike[str], posterior: RankingPosterior, title: str = "") -> None:
    """Write a PNG of the clusters of the point estimate."""
    rows, places = shown(posterior)
    figure = Figure(
        figsize=(6.0 + 1.55 * places, max(7.5, 2.0 + 0.5 * rows)), dpi=110, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1), facecolor="white"
    )
    FigureCanvasAgg(figure)
    columns: Any = figure.subfigures(1, 2, width_ratios=[1.0 + 1.55 * places, 5.0])
    paint_profiles(columns[0].subplots(), posterior)
    upper, middle, lower = columns[1].subplots(3)
    paint_number(upper, posterior.n_clusters, len(posterior.shares()))
    paint_firmness(middle, posterior)
    paint_traces(lower, np.asarray(posterior.log_joint, dtype=np.float64))
    if title:
        figure.suptitle(shortened(title, 110), fontsize=15, fontweight="bold", color=INK, parse_math=False)
    with replacing(path) as unfinished:
        figure.savefig(unfinished, format="png")
