"""One picture of topics: the most prevalent with their words, which documents they are in, and whether the chains agree."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

from maitre.data.files import replacing
from maitre.numerics.arrays import Floats
from maitre.numerics.wording import counted
from maitre.reports.picture import COLOURS, INK, STEPS, paint_traces, prepare, shortened, spread

MAX_TOPICS = 15
MAX_DOCUMENTS = 1500


def documents_shown(mixtures: Iterable[Floats], n_documents: int) -> Floats:
    """The mixtures of the documents, evenly spread, that the picture shows, out of those of all, which come in blocks."""
    shown, begin, found = spread(n_documents, MAX_DOCUMENTS), 0, []
    for block in mixtures:
        found.append(block[shown[(shown >= begin) & (shown < begin + len(block))] - begin])
        begin += len(block)
    return np.vstack(found)


def paint_topics(
    path: str | os.PathLike[str],
    words: Sequence[str],
    prevalence: Any,
    mixtures: Floats,
    n_documents: int,
    n_topics: Any,
    log_joint: Any,
    title: str = "",
) -> None:
    """Write a PNG. `words` has the leading words of each topic as one line, `prevalence` their shares of all words; topics stand from the most to the least prevalent.

    `mixtures` (documents × topics) has the share of each topic in the documents shown, out of `n_documents`; `n_topics` and `log_joint` are (chains, draws).
    """
    prevalence = np.asarray(prevalence, dtype=np.float64)
    figure = Figure(figsize=(16.5, 7.0), dpi=110, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1), facecolor="white")
    FigureCanvasAgg(figure)
    columns: Any = figure.subfigures(1, 3, width_ratios=[2.3, 1.3, 1.3])
    _paint_words(columns[0].subplots(), words, prevalence)
    _paint_documents(columns[1].subplots(), mixtures, n_documents)
    upper, lower = columns[2].subplots(2)
    _paint_numbers(upper, np.atleast_2d(n_topics))
    paint_traces(lower, np.atleast_2d(np.asarray(log_joint, dtype=np.float64)))
    if title:
        figure.suptitle(shortened(title, 110), fontsize=15, fontweight="bold", color=INK, parse_math=False)
    with replacing(path) as unfinished:
        figure.savefig(unfinished, format="png")


def _paint_words(axes: Axes, words: Sequence[str], prevalence: Floats) -> None:
    """A bar for the share of each of the first topics, with its words on it."""
    shown = min(MAX_TOPICS, len(prevalence))
    places = list(range(shown))
    axes.barh(places, prevalence[:shown], height=0.82, color=COLOURS[0], alpha=0.35)
    for place in places:
        axes.text(0.0, place, f" {shortened(words[place], 78)}", va="center", ha="left", fontsize=10, color=INK, parse_math=False)
    rest = "" if shown == len(prevalence) else f"; {len(prevalence) - shown:,} more hold {100 * prevalence[shown:].sum():.0f} % of all words"
    prepare(axes, f"The most prevalent of {counted(len(prevalence), 'topic')}", f"share of all words{rest}")
    axes.set_yticks(places, [str(place) for place in places])
    axes.set_ylim(max(shown, 5) - 0.4, -0.6)
    axes.set_xlim(0.0, 1.15 * float(prevalence.max()))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=STEPS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    axes.tick_params(axis="y", length=0)


def _paint_documents(axes: Axes, some: Floats, n_documents: int) -> None:
    """Documents (rows, sorted by their main topic) and the shares of the first topics in them."""
    shown = min(MAX_TOPICS, some.shape[1])
    order = np.lexsort((-some.max(axis=1), np.argmax(some, axis=1)))
    image = axes.imshow(
        some[order, :shown], cmap="Blues", vmin=0.0, vmax=max(0.3, float(np.quantile(some[:, :shown], 0.99))), aspect="auto", interpolation="nearest"
    )
    prepare(axes, f"{counted(n_documents, 'document')}, by main topic", f"topics 0 to {shown - 1}")
    axes.set_xticks(np.arange(shown), [str(k) for k in range(shown)])
    axes.set_yticks([])
    bar = axes.figure.colorbar(image, ax=axes, orientation="horizontal", shrink=0.9, aspect=40, pad=0.02)
    bar.ax.tick_params(labelsize=9, colors=INK)
    bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    bar.outline.set_visible(False)  # type: ignore[operator]


def _paint_numbers(axes: Axes, n_topics: Any) -> None:
    """The number of topics, draw by draw: of a large corpus each draw has another one."""
    draws = spread(n_topics.shape[1], 5_000)
    for chain, values in enumerate(n_topics):
        axes.plot(draws + 1, values[draws], color=COLOURS[chain % len(COLOURS)], linewidth=0.9, marker="o" if len(draws) == 1 else None)
    prepare(axes, "Number of topics", "draw", "topics")
    axes.set_xlim(0, n_topics.shape[1] + 1)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, steps=STEPS))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, steps=STEPS))
