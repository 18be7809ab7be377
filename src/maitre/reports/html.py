"""A report to look at: one HTML file that needs no network, with linked views; what it says can be read without JavaScript too."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from maitre.data.files import replacing
from maitre.posterior.groups import GroupPosterior
from maitre.posterior.posterior import Posterior
from maitre.posterior.rankings import RankingPosterior
from maitre.reports.picture import paint_summary, shortened

MAX_ROWS = 100
_MAX_COLUMNS = 12
_NAMES = {"n_clusters": "number of clusters", "log_joint": "log joint", "largest_share": "largest cluster's share", "entropy": "entropy of the sizes"}
_NAMES |= {"distance": "distance to the reported partition (VI)"}
_ORDER = (("points", True), ("clusters", False), ("profile", False), ("similarity", False), ("numbers", False), ("traces", True))


def report(posterior: Posterior, path: str | os.PathLike[str], title: str | None = None, values: Any = None) -> None:
    """Write a report of a posterior as one HTML file: verdict first, then clusters, points, profiles, similarity and chains, linked.

    `values` (a row per point) are what the points are drawn at, if not the data themselves: coordinates, say, or a projection of your own.

    >>> import maitre as mt, tempfile, os
    >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], draws=20, burn_in=20, chains=2, progress=False)
    >>> mt.report(posterior, os.path.join(tempfile.mkdtemp(), "report.html"))
    """
    try:
        import bokeh  # noqa: F401
        import jinja2
    except ImportError as error:
        raise ValueError(f"a report needs {error.name}: pip install 'maitre[report]'") from None
    other = next((word for kind, word in ((GroupPosterior, "topics"), (RankingPosterior, "rankings")) if isinstance(posterior, kind)), None)
    if other is not None:
        raise ValueError(f"a report shows points in space; these are {other}: 'maitre {other}' and 'maitre resume' write their tables and picture")
    if posterior.model.data is None:
        raise ValueError("the posterior has no data to show: load it with data=")
    values = places_of(posterior) if values is None else values
    name = str(title or posterior.notes.get("name") or f"{posterior.model.n:,} points")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True)
    template = environment.from_string(Path(__file__).with_name("template.html").read_text(encoding="utf-8"))
    text = template.render(_contents(posterior, name, values))
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def places_of(posterior: Posterior) -> Any:
    """Where the points are, if the run was told, as a table or an array."""
    import pandas as pd

    places, names = posterior.notes.get("places"), posterior.notes.get("place_names")
    return pd.DataFrame(places, columns=names) if places is not None and names else places


def _contents(posterior: Posterior, title: str, values: Any) -> dict[str, Any]:
    """Everything the template asks for."""
    from bokeh.embed import components
    from bokeh.resources import Resources
    from markupsafe import Markup

    from maitre.reports.views import Views

    clusters, assignments = _pandas(posterior.clusters()), _pandas(posterior.assignments())
    views = Views(posterior, clusters, assignments, values)
    figures = views.figures()
    script, divs = components(figures)
    probabilities = posterior.k_probabilities()
    highest = max(probabilities.values())
    columns = [name for name in clusters.columns[6:] if not _is_part(name, clusters.columns)][:_MAX_COLUMNS]
    verdict = posterior.verdict()
    return {
        "title": title,
        "verdict": verdict,
        "story": posterior.story(),
        "notes": posterior._warnings(),
        "columns": columns,
        "texts": [name for name in columns if clusters[name].dtype.kind not in "fiu"],
        "rows": [_row(row, columns, clusters.columns) for _, row in clusters.head(MAX_ROWS).iterrows()],
        "n_more": max(0, len(clusters) - MAX_ROWS),
        "resources": Markup(Resources(mode="inline", components=["bokeh"]).render()),
        "script": Markup(script),
        "divs": {name: Markup(div) for name, div in divs.items()},
        "order": [(name, wide) for name, wide in _ORDER if name in figures],
        "picture": _picture(posterior, values),
        "numbers": [(k, f"{p:.1%}", round(8 * p / highest, 2)) for k, p in probabilities.items() if p >= 0.0005],
        "diagnostics": [_diagnosed(name, row) for name, row in (verdict.table | posterior.diagnostics()).items()],
        "between": _between(verdict),
        "model": [posterior.model.family.in_one_line(), posterior.model.prior.in_one_line(), _how(posterior)],
    }


def _pandas(table: Any) -> Any:
    return table.to_pandas() if hasattr(table, "to_pandas") else table


def _is_part(name: str, names: Any) -> bool:
    """Whether a column of the table of clusters only tells more of another."""
    return any(name.endswith(end) and name.removesuffix(end) in names for end in (" low", " high", " share"))


def _row(row: Any, columns: list[str], names: Any) -> dict[str, Any]:
    cells = {}
    for name in columns:
        cells[name] = _value(row[name])
        if f"{name} low" in names:
            cells[name] += f" [{_value(row[f'{name} low'])}, {_value(row[f'{name} high'])}]"
        elif f"{name} share" in names and row[name] is not None:
            cells[name] += f" ({row[f'{name} share']:.0%})"
    fixed = {"size": f"{int(row['size']):,}", "share": f"{row['share']:.1%}", "certainty": f"{row['certainty']:.0%}", "stability": f"{row['stability']:.0%}"}
    return fixed | {"cluster": int(row["cluster"]), "typical": str(int(row["typical"])), "columns": cells}


def _value(value: Any) -> str:
    if value is None or (isinstance(value, (float, np.floating)) and not np.isfinite(value)):
        return "–"
    if isinstance(value, str):
        return shortened(value, 60)
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def _diagnosed(name: str, row: dict[str, float]) -> dict[str, str]:
    return {"name": _NAMES.get(name, name)} | {
        key: "–" if not np.isfinite(value) else f"{value:.3f}" if key == "r_hat" else _value(value) for key, value in row.items()
    }


def _between(verdict: Any) -> str:
    """How alike the partitions are that each chain alone would report."""
    n_chains = len(verdict.estimates)
    if n_chains < 2:
        return ""
    below = np.tril_indices(n_chains, -1)
    rand, information = verdict.adjusted_rand[below], verdict.variation_of_information[below]
    numbers = ", ".join(str(int(labels.max()) + 1) for labels in verdict.estimates)
    return f"Each chain alone would report {numbers} clusters; between them the adjusted Rand index is {rand.min():.2f} to {rand.max():.2f}, the variation of information {information.min():.2f} to {information.max():.2f}."


def _how(posterior: Posterior) -> str:
    chains, draws = posterior.log_joint.shape
    settings = posterior.settings
    every = f", one every {settings['thin']} iterations," if settings.get("thin", 1) > 1 else ""
    return f"{posterior.model.n:,} points; {chains} chains × {draws:,} draws{every} after {settings.get('burn_in', 0):,} of burn-in; seed {settings.get('seed', '–')}"


def _picture(posterior: Posterior, values: Any) -> str:
    """The summary as a PNG, for readers without JavaScript."""
    shown = values if values is not None else posterior.model.data.numbers  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture.png"
        similarity = posterior.similarity() if posterior.model.n <= 500 else None
        paint_summary(file, shown, posterior.point_estimate(), posterior.n_clusters, posterior.log_joint, similarity)
        return base64.b64encode(file.read_bytes()).decode()
