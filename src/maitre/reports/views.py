"""The linked views of a report, in Bokeh: clusters, points, profile, similarity and chains. Choosing a cluster in one shows it in all.

Clusters differ by colour, marker and number, so that the views can be read in greyscale too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maitre.numerics.arrays import Floats, Ints
from maitre.posterior.posterior import Posterior
from maitre.reports.picture import COLOURS, _numeric, _principal_components, _sample, _shortened, _spread

MARKERS = ("circle", "triangle", "square", "diamond", "inverted_triangle", "hex", "star", "square_pin", "plus", "asterisk")
MAX_POINTS = 5_000
MAX_SIMILARITY = 300
MAX_TRACE = 400
MAX_PROFILE = 24
MAX_BARS = 25
_HOVERED = 4  # columns shown beside a point


class Shown(NamedTuple):
    """What the views show: points in two dimensions (or one, with noise across), the clusters' profiles and their intervals."""

    points: Ints  # which rows of the data
    x: Floats
    y: Floats
    axes: tuple[str, str]
    columns: list[str]  # of the profile
    means: Floats  # (clusters, columns), in standard deviations from the mean of all points
    low: Floats
    high: Floats


def shown(posterior: Posterior, clusters: Any, values: Any = None) -> Shown:
    """What there is to show of a posterior; `values` replace the data as what the points are drawn at, e.g. coordinates."""
    points = _sample(posterior.model.n, MAX_POINTS)
    x, y, axes = _places(posterior, values, points)
    return Shown(points, x, y, axes, *_profile(posterior, clusters))


def _places(posterior: Posterior, values: Any, points: Ints) -> tuple[Floats, Floats, tuple[str, str]]:
    data = posterior.model.data
    matrix, names = _numeric(values if values is not None else None if data is None else data.numbers)
    if matrix is None or (data is not None and values is None and matrix.shape[1] < data.n_columns and matrix.shape[1] != 2):
        found = posterior.model.vectors if posterior.model.in_memory else None
        matrix, names = (None, []) if found is None else _numeric(found.toarray() if hasattr(found, "toarray") else np.asarray(found, dtype=np.float64))
    if matrix is None:
        return points.astype(np.float64), np.zeros(len(points)), ("row", "")
    if matrix.shape[1] == 1:
        noise = np.random.default_rng(0).uniform(-1.0, 1.0, len(points))
        return matrix[points, 0], noise, (names[0], "")
    here, names = (matrix[points], names) if matrix.shape[1] == 2 else _principal_components(matrix[points])
    return here[:, 0], here[:, 1], (names[0], names[1])


def _profile(posterior: Posterior, clusters: Any) -> tuple[list[str], Floats, Floats, Floats]:
    """Means with intervals of numeric columns in standard deviations, those that differ most between clusters."""
    names = [name for name in clusters.columns if f"{name} low" in clusters.columns]
    if not names:
        nothing = np.zeros((len(clusters), 0))
        return [], nothing, nothing, nothing
    frame = posterior.model.data.frame()  # type: ignore[union-attr]
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)[names].astype(np.float64)
    centre, spread = frame.mean().to_numpy(), frame.std(ddof=0).to_numpy()
    spread = np.where(spread > 0.0, spread, 1.0)
    parts = [(clusters[[f"{name}{end}" for name in names]].to_numpy(dtype=np.float64) - centre) / spread for end in ("", " low", " high")]
    weights = clusters["share"].to_numpy()
    order = np.argsort(-np.nansum(weights[:, None] * parts[0] ** 2, axis=0), kind="stable")[:MAX_PROFILE]
    means, low, high = (part[:, order] for part in parts)
    return [names[j] for j in order], means, low, high


def style(number: int) -> tuple[str, str]:
    """Colour and marker of the cluster with this number, counted from 0, the largest first."""
    return COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)] if number < len(COLOURS) else MARKERS[
        (number + number // len(COLOURS)) % len(MARKERS)
    ]


class Views:
    """The figures, and what links them."""

    def __init__(self, posterior: Posterior, clusters: Any, assignments: Any, values: Any = None) -> None:
        from bokeh.models import ColumnDataSource

        self.posterior, self.clusters = posterior, clusters
        self.shown = shown(posterior, clusters, values)
        self.labels = [int(label) for label in clusters["cluster"]]  # of the clusters, the largest first
        self.rank = np.empty(len(clusters), dtype=np.int64)  # from label to place in that order
        self.rank[clusters["cluster"].to_numpy()] = np.arange(len(clusters))
        self.points = ColumnDataSource(self._points(assignments), name="points")
        self.bars = ColumnDataSource(self._bars(), name="clusters")
        self.profile = ColumnDataSource(self._profile_of(0), name="profile")

    def figures(self) -> dict[str, Any]:
        """By name."""
        found = {"clusters": self._cluster_bars(), "points": self._scatter(), "numbers": self._numbers(), "traces": self._traces()}
        if self.shown.columns:
            found["profile"] = self._profile_figure()
        if self.posterior.log_joint.size > 1:
            found["similarity"] = self._similarity()
        self._link(found)
        return found

    # -- data -------------------------------------------------------------------------------------------------------------------------------

    def _points(self, assignments: Any) -> dict[str, Any]:
        some = assignments.iloc[self.shown.points]
        numbers = self.rank[some["cluster"].to_numpy()]
        second = some["second"].to_numpy()
        looks = [style(int(number)) for number in numbers]
        table = {
            "x": self.shown.x,
            "y": self.shown.y,
            "row": self.shown.points,
            "cluster": some["cluster"].to_numpy(),
            "certainty": [f"{value:.0%}" for value in some["certainty"]],
            "second": [f"{k} ({share:.0%})" if k >= 0 else "none" for k, share in zip(second, some["second_certainty"], strict=True)],
            "colour": [colour for colour, _ in looks],
            "marker": [marker for _, marker in looks],
            "alpha": 0.3 + 0.65 * some["certainty"].to_numpy(),
            "ring": ["#d62728" if sure < 0.5 else "#ffffff" for sure in some["certainty"]],
            "width": [1.4 if sure < 0.5 else 0.4 for sure in some["certainty"]],
        }
        frame = None if self.posterior.model.data is None else self.posterior.model.data.frame()
        if frame is not None:
            for position in range(min(_HOVERED, frame.shape[1])):
                table[f"value{position}"] = [_text(value) for value in frame.iloc[self.shown.points, position]]
        return table

    def _bars(self) -> dict[str, Any]:
        table = self.clusters.head(MAX_BARS)
        looks = [style(number) for number in range(len(table))]
        return {
            "number": np.arange(1, len(table) + 1),
            "name": [str(label) for label in self.labels[: len(table)]],
            "size": table["size"],
            "share": [f"{share:.1%}" for share in table["share"]],
            "certainty": [f"{value:.0%}" for value in table["certainty"]],
            "stability": table["stability"],
            "firmness": [f"{value:.0%}" for value in table["stability"]],
            "colour": [colour for colour, _ in looks],
            "marker": [marker for _, marker in looks],
            "firm": table["size"] * table["stability"],
        }

    def _profile_of(self, number: int) -> dict[str, Any]:
        means, low, high = (np.nan_to_num(part[number]) if len(part) else part for part in (self.shown.means, self.shown.low, self.shown.high))
        return {"column": [_shortened(name, 24) for name in self.shown.columns], "mean": means, "low": low, "high": high}

    # -- figures ----------------------------------------------------------------------------------------------------------------------------

    def _figure(self, title: str, height: int = 320, **options: Any) -> Any:
        from bokeh.plotting import figure

        made = figure(title=title, height=height, sizing_mode="stretch_width", toolbar_location="above", **({"tools": "pan,wheel_zoom,reset"} | options))
        made.toolbar.logo, made.toolbar.autohide = None, True
        made.min_border_left, made.min_border_right = 12, 12
        made.background_fill_color = made.border_fill_color = None
        made.outline_line_color, made.grid.grid_line_color = None, "#8a8f98"
        made.grid.grid_line_alpha = 0.25
        made.title.text_font_size, made.axis.axis_label_text_font_size = "14px", "12px"
        made.axis.axis_label_text_font_style = "normal"
        made.toolbar.active_scroll = None
        made.axis.minor_tick_line_color = None
        return made

    def _cluster_bars(self) -> Any:
        from bokeh.models import HoverTool, TapTool

        n = len(self.bars.data["name"])
        names = list(self.bars.data["name"])[::-1]
        title = "Clusters by size; the dark part is stable" + (f" (largest {MAX_BARS})" if len(self.clusters) > MAX_BARS else "")
        made = self._figure(title, max(180, 26 * n + 90), y_range=names, tools="")
        made.hbar(y="name", right="size", height=0.74, source=self.bars, color="colour", alpha=0.35, nonselection_alpha=0.12, selection_alpha=0.55)
        made.hbar(y="name", right="firm", height=0.74, source=self.bars, color="colour", alpha=0.95, nonselection_alpha=0.3)
        made.add_tools(
            TapTool(), HoverTool(tooltips=[("cluster", "@name"), ("points", "@size (@share)"), ("certainty", "@certainty"), ("stability", "@firmness")])
        )
        made.x_range.start, made.xaxis.axis_label, made.yaxis.axis_label = 0, "points", "cluster"
        made.ygrid.grid_line_color = None
        return made

    def _scatter(self) -> Any:
        from bokeh.models import ColumnDataSource, HoverTool

        n = len(self.shown.points)
        note = f" ({n:,} of {self.posterior.model.n:,})" if n < self.posterior.model.n else ""
        made = self._figure(
            f"Points{note}; red rings: less than half sure", 460 if self.shown.axes[1] else 260, tools="pan,wheel_zoom,box_zoom,tap,lasso_select,reset"
        )
        size = float(np.clip(260 / np.sqrt(n), 4, 10))
        made.scatter(
            "x", "y", source=self.points, size=size, marker="marker", fill_color="colour", line_color="ring", line_width="width", fill_alpha="alpha", line_alpha=0.9,
            nonselection_fill_alpha=0.06, nonselection_line_alpha=0.06,
        )  # fmt: skip
        named = [name for name in self.points.data if name.startswith("value")]
        columns = [] if not named else list(self.posterior.model.data.frame().columns)  # type: ignore[union-attr]
        values = [(_shortened(str(columns[position]), 30), f"@{name}") for position, name in enumerate(named)]
        made.add_tools(HoverTool(tooltips=[("row", "@row"), ("cluster", "@cluster"), ("certainty", "@certainty"), ("second choice", "@second"), *values]))
        made.xaxis.axis_label, made.yaxis.axis_label = (_shortened(name, 60) for name in self.shown.axes)
        if not self.shown.axes[1]:
            made.yaxis.visible, made.ygrid.grid_line_color = False, None
            made.y_range.start, made.y_range.end = -2.5, 2.5
        numbers = np.asarray(self.points.data["cluster"])
        middle = [(float(np.median(self.shown.x[numbers == k])), float(np.median(self.shown.y[numbers == k])), str(k)) for k in np.unique(numbers)[:MAX_BARS]]
        labels = ColumnDataSource({"x": [m[0] for m in middle], "y": [m[1] for m in middle], "name": [m[2] for m in middle]})
        made.text(
            "x", "y", text="name", source=labels, text_font_size="15px", text_font_style="bold", text_align="center", text_baseline="middle",
            text_color="#111418", text_outline_color="#ffffff", name="numbers",
        )  # fmt: skip
        return made

    def _profile_figure(self) -> Any:
        from bokeh.models import HoverTool, Span, Whisker

        columns = list(self.profile.data["column"])
        made = self._figure(f"Profile of cluster {self.labels[0]}", max(180, 24 * len(columns) + 90), y_range=list(dict.fromkeys(columns))[::-1], tools="")
        made.add_layout(Span(location=0, dimension="height", line_color="#8a8f98", line_dash="dashed"))
        made.add_layout(Whisker(base="column", upper="high", lower="low", source=self.profile, dimension="width", line_color="#8a8f98", level="underlay"))
        made.scatter(x="mean", y="column", source=self.profile, size=9, color=COLOURS[0], line_color="#33373d", name="means")
        made.add_tools(HoverTool(tooltips=[("column", "@column"), ("mean", "@mean{0.00}"), ("95 % of draws", "@low{0.00} to @high{0.00}")]))
        every = [part[np.isfinite(part)] for part in (self.shown.low, self.shown.high)]
        low, high = min(float(every[0].min(initial=0.0)), -0.5), max(float(every[1].max(initial=0.0)), 0.5)
        made.x_range.start, made.x_range.end = 1.05 * low, 1.05 * high
        made.xaxis.axis_label = "standard deviations from the mean"
        return made

    def _numbers(self) -> Any:
        from bokeh.models import NumeralTickFormatter

        found = self.posterior.k_probabilities()
        made = self._figure("How many clusters draws have", 260, tools="")
        reported = len(self.clusters)
        colours = ["#33373d" if k == reported else COLOURS[0] for k in found]
        made.vbar(x=list(found), top=list(found.values()), width=0.8, color=colours, name="probabilities")
        made.y_range.start, made.yaxis.formatter = 0, NumeralTickFormatter(format="0 %")
        made.xaxis.axis_label, made.yaxis.axis_label = f"clusters (dark: the {reported} reported)", "share of draws"
        made.xaxis.ticker = list(range(min(found), max(found) + 1, 1 + (max(found) - min(found)) // 15))
        made.xgrid.grid_line_color = None
        return made

    def _traces(self) -> Any:
        trace = np.asarray(self.posterior.log_joint)
        some = _spread(trace.shape[1], MAX_TRACE)
        made = self._figure("Log joint, chain by chain", 260)
        dashes = ("solid", "dashed", "dotted", "dotdash", "dashdot")
        for chain in range(len(trace)):
            name = {"legend_label": f"chain {chain + 1}"} if len(trace) <= 8 else {}
            made.line(some + 1, trace[chain, some], color=COLOURS[chain % len(COLOURS)], line_dash=dashes[chain % len(dashes)], line_width=1.2, **name)
        if 1 < len(trace) <= 8:
            made.legend.orientation, made.legend.click_policy, made.legend.label_text_font_size = "horizontal", "hide", "11px"
            made.legend.background_fill_alpha, made.legend.border_line_color, made.legend.padding = 0.0, None, 2
            made.add_layout(made.legend[0], "below")
        made.xaxis.axis_label, made.yaxis.axis_label = "draw", "log joint"
        return made

    def _similarity(self) -> Any:
        from bokeh.models import ColorBar, LinearColorMapper
        from bokeh.palettes import Greys256

        order = self.posterior.typical_points(MAX_SIMILARITY)
        image = np.round(100.0 * self.posterior.similarity(points=order)).astype(np.uint8)[::-1]
        made = self._figure("How often two points share a cluster (%)", 340, tools="", x_range=(0, len(order)), y_range=(0, len(order)))
        mapper = LinearColorMapper(palette=Greys256[::-1], low=0, high=100)
        made.image([image], x=0, y=0, dw=len(order), dh=len(order), color_mapper=mapper)
        made.add_layout(ColorBar(color_mapper=mapper, width=10, padding=4, background_fill_color=None), "right")
        made.axis.visible, made.grid.grid_line_color = False, None
        made.xaxis.visible, made.xaxis.axis_label = (
            True,
            "points, cluster by cluster" + (f" ({len(order)} shown)" if len(order) < self.posterior.model.n else ""),
        )
        made.xaxis.major_label_text_font_size, made.xaxis.major_tick_line_color, made.xaxis.minor_tick_line_color = "0px", None, None
        return made

    def _link(self, found: dict[str, Any]) -> None:
        """A chosen cluster's points are chosen, and the profile is its own; nothing chosen shows everything."""
        from bokeh.models import CustomJS

        parts = {
            name: np.nan_to_num(part[:MAX_BARS]).tolist() for name, part in (("mean", self.shown.means), ("low", self.shown.low), ("high", self.shown.high))
        }
        figure = found.get("profile")
        arguments = {"points": self.points, "profile": self.profile, "parts": parts, "labels": self.labels, "title": None if figure is None else figure.title}
        self.bars.selected.js_on_change("indices", CustomJS(args=arguments, code=_CHOOSE))


_CHOOSE = """
const chosen = cb_obj.indices;
const wanted = new Set(chosen.map(i => labels[i]));
const indices = [];
const numbers = points.data["cluster"];
for (let i = 0; i < numbers.length; i++) if (wanted.has(numbers[i])) indices.push(i);
points.selected.indices = indices;
const k = chosen.length ? chosen[0] : 0;
if (title !== null && k < parts.mean.length) {
    profile.data = {...profile.data, mean: parts.mean[k], low: parts.low[k], high: parts.high[k]};
    title.text = `Profile of cluster ${labels[k]}`;
}
document.dispatchEvent(new CustomEvent("maitre-chosen", {detail: chosen.length ? k : -1}));
"""


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else _shortened(str(value), 30)
