"""The picture shows what it is given: panels, bars, points and legends are counted, and no text covers another."""

from __future__ import annotations

import os
from itertools import combinations

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.image import imread
from scipy import sparse

from maitre.data.simulate import built_in, gaussian_clusters
from maitre.reports import picture
from maitre.reports.picture import paint_summary


@pytest.fixture
def figures(monkeypatch):
    """Every figure that is drawn, for a look at what is on it."""
    drawn = []

    class Recorded(picture.Figure):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            drawn.append(self)

    monkeypatch.setattr(picture, "Figure", Recorded)
    return drawn


def chains(n_chains=2, n_draws=60, centre=3):
    rng = np.random.default_rng(0)
    return rng.integers(centre, centre + 3, (n_chains, n_draws)), -500 + rng.normal(size=(n_chains, n_draws))


def draw(tmp_path, figures, values, labels, centre=3, **options):
    n_clusters, log_joint = chains(centre=centre)
    paint_summary(tmp_path / "picture.png", values, labels, n_clusters, log_joint, **options)
    assert os.listdir(tmp_path) == ["picture.png"]
    return figures[-1]


def similarity_of(labels):
    return (np.asarray(labels)[:, None] == np.asarray(labels)).astype(float)


def galaxy():
    column = built_in("galaxy").iloc[:, 0]
    return column, np.digitize(column, [15000, 21000, 30000])


@pytest.fixture
def drawn_texts(monkeypatch):
    """Every text that reaches the paper, with the box around it (a figure also holds tick labels beyond its axes, which do not)."""
    drawn = []
    original = RendererAgg.draw_text

    def recording(renderer, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        drawn.append((s, mtext.get_window_extent(renderer)))
        return original(renderer, gc, x, y, s, prop, angle, ismath, mtext)

    monkeypatch.setattr(RendererAgg, "draw_text", recording)
    return drawn


CASES = {
    "galaxy": lambda: (*galaxy(), 3),
    "plane": lambda: (*gaussian_clusters(300, 2, 3, 30.0, 1), 3),
    "forty": lambda: (*gaussian_clusters(2000, 40, 40, 4.0, 2), 39),
    "one": lambda: (*gaussian_clusters(80, 2, 1, 1.0, 3), 1),
    "twelve": lambda: (*gaussian_clusters(500, 5, 12, 9.0, 4), 11),
    "sizes": lambda: (None, np.random.default_rng(0).geometric(0.02, 900), 100),
}


@pytest.mark.parametrize("with_similarity", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_no_text_covers_another_or_leaves_the_picture(tmp_path, figures, drawn_texts, case, with_similarity):
    values, labels, centre = CASES[case]()
    title = "A title" if with_similarity and case != "one" else ""
    figure = draw(tmp_path, figures, values, labels, centre, similarity=similarity_of(labels) if with_similarity else None, title=title)
    assert len(drawn_texts) > 20
    assert [(a, b) for (a, first), (b, second) in combinations(drawn_texts, 2) if first.padded(-1).overlaps(second.padded(-1))] == []
    paper = figure.bbox.padded(1)
    assert [text for text, box in drawn_texts if box.x0 < paper.x0 or box.y0 < paper.y0 or box.x1 > paper.x1 or box.y1 > paper.y1] == []


def test_the_file_is_a_picture_with_something_on_it(tmp_path, figures):
    draw(tmp_path, figures, *galaxy())
    pixels = imread(tmp_path / "picture.png")
    assert pixels.shape[0] > 500
    assert pixels.shape[1] > 1000
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 50


def test_panels(tmp_path, figures):
    values, labels = galaxy()
    assert len(draw(tmp_path, figures, values, labels).get_axes()) == 3
    figure = draw(tmp_path, figures, values, labels, similarity=similarity_of(labels))
    titles = [axes.get_title(loc="left") for axes in figure.get_axes()]
    assert "Probability that two points share a cluster" in titles


def test_histogram_counts_every_point(tmp_path, figures):
    values, labels = galaxy()
    axes = draw(tmp_path, figures, values, labels).get_axes()[0]
    assert np.nansum([bar.get_height() for bar in axes.patches]) == 82
    assert axes.get_xlabel() == "velocity_km_s_mass"
    assert sum(len(lines.get_segments()) for lines in axes.collections) == 82


def test_two_columns_are_shown_as_they_are(tmp_path, figures):
    frame = built_in("faithful")
    labels = (frame["eruptions"] > 3).to_numpy()
    axes = draw(tmp_path, figures, frame, labels).get_axes()[0]
    points = np.concatenate([collection.get_offsets() for collection in axes.collections])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("eruptions", "waiting")
    np.testing.assert_allclose(np.sort(points[:, 0]), np.sort(frame["eruptions"]))


def test_more_columns_are_projected_on_their_principal_components(tmp_path, figures):
    values, labels = gaussian_clusters(200, 6, 3, 20.0, 0)
    axes = draw(tmp_path, figures, values, np.zeros_like(labels)).get_axes()[0]
    points = np.asarray(axes.collections[0].get_offsets())
    standard = (values - values.mean(axis=0)) / values.std(axis=0)
    expected = np.sort(np.linalg.eigvalsh(standard.T @ standard))[::-1]
    np.testing.assert_allclose((points**2).sum(axis=0), expected[:2], rtol=1e-6)
    assert f"({100 * expected[0] / expected.sum():.0f} % of variance)" in axes.get_xlabel()


def test_many_points_are_sampled(tmp_path, figures):
    values, labels = gaussian_clusters(30_000, 3, 4, 9.0, 0)
    axes = draw(tmp_path, figures, values, labels).get_axes()[0]
    assert sum(len(collection.get_offsets()) for collection in axes.collections) == 20_000
    assert "30,000 points (20,000 shown)" in axes.get_title(loc="left")


@pytest.mark.parametrize(("n_clusters", "expected"), [(1, False), (2, True), (12, True), (13, False)])
def test_a_legend_only_for_few_clusters(tmp_path, figures, n_clusters, expected):
    labels = np.arange(130) % n_clusters
    axes = draw(tmp_path, figures, np.random.default_rng(0).normal(size=(130, 2)), labels).get_axes()[0]
    assert (axes.get_legend() is not None) == expected
    assert not expected or len(axes.get_legend().get_texts()) == n_clusters


def test_forty_clusters_look_different():
    assert len({picture.style(cluster) for cluster in range(40)}) == 40


@pytest.mark.parametrize(
    "values",
    [None, pd.DataFrame({"a": ["x", "y"] * 5, "b": range(10)}), np.array(["x"] * 10), sparse.eye(10).tocsr(), [[1, 2], [3]] * 5, np.empty((10, 0))],
    ids=["none", "mixed", "text", "sparse", "ragged", "no columns"],
)
def test_what_is_not_a_table_of_numbers_is_shown_by_sizes(tmp_path, figures, values):
    axes = draw(tmp_path, figures, values, [0] * 2 + [1] * 5 + [2] * 3).get_axes()[0]
    assert [bar.get_height() for bar in axes.patches] == [5, 3, 2]


def test_the_largest_of_very_many_clusters(tmp_path, figures):
    axes = draw(tmp_path, figures, None, np.arange(300)).get_axes()[0]
    assert len(axes.patches) == 40
    assert "largest 40 of 300" in axes.get_xlabel()


@pytest.mark.parametrize(
    "values", [[1.0, np.nan, 3.0, np.inf], [[1.0, 5.0, np.nan], [2.0, 5.0, 1.0], [4.0, 5.0, 0.0], [-np.inf, 5.0, 2.0]], [7.0] * 4, [[7.0] * 3] * 4]
)
def test_gaps_and_constants_are_no_obstacle(tmp_path, figures, values):
    axes = draw(tmp_path, figures, np.array(values), [0, 0, 1, 1]).get_axes()[0]
    assert axes.get_title(loc="left") == "4 points in 2 clusters"


def test_shares_of_the_number_of_clusters(tmp_path, figures):
    n_clusters = np.array([[2, 2, 3, 2], [2, 3, 5, 2]])
    paint_summary(tmp_path / "p.png", None, [0, 1, 1], n_clusters, np.zeros((2, 4)))
    bars = figures[-1].get_axes()[1].patches
    assert {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in bars} == {2: 5 / 8, 3: 2 / 8, 5: 1 / 8}


def test_traces_show_each_chain(tmp_path, figures):
    log_joint = np.random.default_rng(0).normal(size=(3, 50))
    paint_summary(tmp_path / "p.png", None, [0, 1, 1], np.full((3, 50), 2), log_joint)
    lines = figures[-1].get_axes()[2].lines
    np.testing.assert_array_equal([line.get_ydata() for line in lines], log_joint)


def test_one_chain_of_one_draw(tmp_path, figures):
    paint_summary(tmp_path / "p.png", [1.0], [0], [1], [-3.5])
    assert [line.get_ydata().tolist() for line in figures[-1].get_axes()[2].lines] == [[-3.5]]


def test_similarity_is_sorted_by_cluster(tmp_path, figures):
    labels = np.array([0, 1, 0, 1, 1])
    figure = draw(tmp_path, figures, None, labels, similarity=similarity_of(labels))
    image = next(axes for axes in figure.get_axes() if axes.images).images[0].get_array()
    np.testing.assert_array_equal(image, similarity_of(np.array([0, 0, 0, 1, 1])))


def test_names_may_hold_any_sign(tmp_path, figures):
    frame = pd.DataFrame({"price in $ ^_{": [1.0, 2.0, 3.0], "x" * 300: [1.0, 2.0, 1.0]})
    figure = draw(tmp_path, figures, frame, [0, 0, 1], title="costs $\\frac{")
    assert figure.get_axes()[0].get_xlabel() == "price in $ ^_{"
    assert len(figure.get_axes()[0].get_ylabel()) == 50


def test_unequal_lengths_are_refused_and_leave_nothing(tmp_path):
    n_clusters, log_joint = chains()
    with pytest.raises(ValueError, match="the values have 3 rows and there are 2 labels"):
        paint_summary(tmp_path / "p.png", np.ones((3, 2)), [0, 1], n_clusters, log_joint)
    with pytest.raises(ValueError, match=r"the similarity has shape \(3, 3\); expected \(2, 2\)"):
        paint_summary(tmp_path / "p.png", None, [0, 1], n_clusters, log_joint, similarity=np.ones((3, 3)))
    assert os.listdir(tmp_path) == []


def test_global_settings_are_left_alone(tmp_path, figures):
    before = dict(matplotlib.rcParams)
    draw(tmp_path, figures, *galaxy())
    assert dict(matplotlib.rcParams) == before
