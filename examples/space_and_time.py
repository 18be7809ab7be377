"""Clusters that hold together in space or time: an image in segments, earthquakes by depth and place, change points of a time series.

    python examples/space_and_time.py [--output FOLDER]

Writes image.png, earthquakes.png and change_points.png. The earthquakes (1000 near Fiji since 1964, R's `quakes`) are read from small/fiji_earthquakes_1000.csv in the
folder MAITRE_DATA (default ../shared/data).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection
from sklearn.datasets import load_sample_image

import maitre as mt

DATA = Path(os.environ.get("MAITRE_DATA", "../shared/data"))
SERIES = {"draws": 400, "burn_in": 400}
IMAGE = {"draws": 100, "burn_in": 200}
COLOURS = ["#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"]


def image(output: Path) -> str:
    """A photograph in segments: pixels link to their four neighbours, a segment has a mean colour and a covariance."""
    photograph = load_sample_image("china.jpg")[:424, :640].reshape(106, 4, 160, 4, 3).mean(axis=(1, 3)) / 255.0
    height, width, _ = photograph.shape
    pixels = photograph.reshape(-1, 3)
    places = np.indices((height, width)).reshape(2, -1).T
    prior = mt.priors.DistanceDependent.neighbours(places, radius=1.0, decay=mt.decays.window(2.0), concentration=1e-6)
    family = mt.families.NormalInverseWishart(kappa=0.01, nu=20.0, scale=20.0 * 0.06**2)
    posterior = mt.sample(pixels, family=family, prior=prior, chains=1, seed=0, progress=False, **IMAGE)
    labels = posterior.best.reshape(height, width)
    means = np.array([pixels[posterior.best == k].mean(axis=0) for k in range(labels.max() + 1)])

    figure, axes = plt.subplots(1, 3, figsize=(15, 3.7), layout="constrained")
    axes[0].imshow(photograph)
    axes[0].set_title(f"{height} × {width} pixels")
    axes[1].imshow(means[labels])
    axes[1].add_collection(LineCollection(_boundaries(labels), colors="white", linewidths=0.5))
    axes[1].set_title(f"{labels.max() + 1} segments in their mean colours")
    drawn = axes[2].imshow(np.mean([_edges(draw.reshape(height, width)) for draw in posterior.labels[0]], axis=0), cmap="magma", vmin=0.0, vmax=1.0)
    axes[2].set_title("probability of a boundary")
    figure.colorbar(drawn, ax=axes[2], fraction=0.046)
    for axis in axes:
        axis.set_axis_off()
    return _written(figure, output / "image.png", f"{labels.max() + 1} segments")


def _boundaries(labels: np.ndarray) -> list[list[tuple[float, float]]]:
    """Lines between neighbouring pixels of different segments."""
    rows, columns = np.nonzero(labels[:, :-1] != labels[:, 1:])
    lines = [[(c + 0.5, r - 0.5), (c + 0.5, r + 0.5)] for r, c in zip(rows, columns, strict=True)]
    rows, columns = np.nonzero(labels[:-1] != labels[1:])
    return lines + [[(c - 0.5, r + 0.5), (c + 0.5, r + 0.5)] for r, c in zip(rows, columns, strict=True)]


def _edges(labels: np.ndarray) -> np.ndarray:
    """1 for pixels whose neighbour to the right or below belongs to another segment."""
    edges = np.zeros(labels.shape)
    edges[:, :-1] = labels[:, :-1] != labels[:, 1:]
    edges[:-1] = np.maximum(edges[:-1], labels[:-1] != labels[1:])
    return edges


def earthquakes(output: Path) -> str:
    """Earthquakes whose depths are alike and which are near each other on the map."""
    path = DATA / "small" / "fiji_earthquakes_1000.csv"
    if not path.exists():
        return f"earthquakes.png: {path} is missing; say where the data are with MAITRE_DATA"
    quakes = pd.read_csv(path)
    prior = mt.priors.DistanceDependent.neighbours(quakes[["lat", "long"]], k=30, metric="haversine", concentration=1e-3)
    posterior = mt.sample(quakes[["depth"]], family=mt.families.NormalInverseGamma(), prior=prior, chains=1, seed=0, progress=False, **SERIES)
    order = np.argsort(-np.bincount(posterior.best), kind="stable")
    clusters = np.argsort(order)[posterior.best]

    figure, axes = plt.subplots(1, 2, figsize=(12, 5.6), layout="constrained")
    for k in range(clusters.max(), -1, -1):
        here, style = clusters == k, {"s": 16, "color": COLOURS[k] if k < 10 else "#d9dce1", "edgecolors": "none" if k < 10 else "#a0a4aa", "linewidths": 0.4}
        label = f"{here.sum()} quakes" if k < 10 else "smaller ones" if k == 10 else None
        axes[0].scatter(quakes["long"][here], quakes["lat"][here], label=label, **style)
        axes[1].scatter(quakes["long"][here], quakes["depth"][here], **style)
    axes[0].set(xlabel="longitude (°E)", ylabel="latitude (°)", title="on the map", aspect=1.0 / np.cos(np.radians(20.0)))
    axes[1].set(xlabel="longitude (°E)", ylabel="depth (km)", title="from the side")
    axes[1].invert_yaxis()
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside right center", frameon=False)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return _written(figure, output / "earthquakes.png", f"{clusters.max() + 1} clusters")


def change_points(output: Path) -> str:
    """A simulated series: every time links to the one before it or starts a new stretch, with a mean and a variance of its own."""
    rng = np.random.default_rng(3)
    lengths, means, deviations = [90, 60, 110, 25, 80, 35], [0.0, 2.5, 1.0, 4.0, 1.2, 1.2], [0.6, 0.6, 1.1, 0.5, 0.4, 1.4]
    series = np.concatenate([rng.normal(m, s, n) for n, m, s in zip(lengths, means, deviations, strict=True)])
    times = np.arange(len(series), dtype=float)
    prior = mt.priors.DistanceDependent.neighbours(times, radius=1.0, decay=mt.decays.window(1.5), concentration=mt.Gamma(1, 50), sequential=True)
    posterior = mt.sample(series, family=mt.families.NormalInverseGamma(), prior=prior, chains=4, seed=0, progress=False, **SERIES)
    draws = posterior.labels.reshape(-1, len(series))
    changes = (np.diff(draws, axis=1) != 0).mean(axis=0)
    best = posterior.best

    figure, axes = plt.subplots(2, 1, figsize=(11, 5.2), sharex=True, layout="constrained", height_ratios=[2.2, 1.0])
    axes[0].plot(times, series, ".", color="#94a4a2", markersize=4)
    for k in range(best.max() + 1):
        here = np.flatnonzero(best == k)
        middle, spread = series[here].mean(), series[here].std()
        axes[0].fill_between(times[here], middle - spread, middle + spread, color="#3f90da", alpha=0.2, linewidth=0)
        axes[0].plot(times[here], np.full(len(here), middle), color="#3f90da", linewidth=2)
    axes[0].set(ylabel="value", title=f"{best.max() + 1} stretches: mean ± standard deviation")
    axes[1].bar(times[1:], changes, width=1.5, color="#bd1f01", label="posterior")
    axes[1].plot(np.cumsum(lengths)[:-1], np.full(len(lengths) - 1, 1.07), "v", color="#33373d", markersize=6, clip_on=False, label="true change")
    axes[1].set(ylabel="probability\nof a change", xlabel="time", ylim=(0.0, 1.0))
    axes[1].legend(loc="upper right", frameon=False, ncols=2, bbox_to_anchor=(1.0, 1.0))
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return _written(figure, output / "change_points.png", f"{best.max() + 1} stretches, {len(lengths)} in truth")


def _written(figure: Any, path: Path, found: str) -> str:
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return f"{path.name}: {found}"


def draw_all(output: Path) -> Iterator[str]:
    """Draw every picture, and say what it shows."""
    output.mkdir(parents=True, exist_ok=True)
    for picture in (change_points, earthquakes, image):
        line = picture(output)
        print(line, flush=True)
        yield line


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("space-and-time"), help="folder for the pictures")
    list(draw_all(parser.parse_args().output))
