"""Predictions for new points of groups: in one draw, the weight of each cluster in the point's group times its predictive density there.

A draw keeps the statistics of its clusters, so no labels are needed. A group that has not been seen has the weights of the common measure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maitre.families.slots import unpack
from maitre.families.statistics import clear, derive, log_predictive_all
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import kernel

if TYPE_CHECKING:
    from maitre.posterior.groups import GroupPosterior


@kernel
def score_points(s: Any, out: Floats) -> None:
    """out[i, k] = log p(x_i | the points of slot k)."""
    for i in range(len(out)):
        for k in range(out.shape[1]):
            out[i, k] = 0.0
        log_predictive_all(s, i, out.shape[1], out[i])


def log_weights(posterior: GroupPosterior, new: Any, rows: Ints, chain: int, draw: int) -> Floats:
    """(new points, K + 1): log of weight times density of each cluster and, last, of those not seen; `rows` has the number of each point's group, or that of groups for a new one."""
    model, n_clusters = posterior.model, int(posterior.n_clusters[chain, draw])
    values = {name.removeprefix("family."): values[chain, draw] for name, values in posterior.draws.items() if name.startswith("family.")}
    family: Any = model.family.at_prior_means().at({name: np.asarray(value) if np.ndim(value) else float(value) for name, value in values.items()})
    encoded, n_new = model.encoded_alike(new)
    statistics, scores = family.allocate(encoded, n_clusters + 1), np.empty((n_new, n_clusters + 1))
    for k, packed in enumerate(np.asarray(posterior.draws["statistics"][chain, draw])[:n_clusters]):
        unpack(statistics, k, packed)
    clear(statistics, n_clusters)
    derive(statistics, n_clusters)
    score_points(statistics, scores)
    shares = np.vstack([posterior.weights(chain, draw), posterior.shares(chain, draw)])
    with np.errstate(divide="ignore"):
        return np.asarray(scores + np.log(shares[rows]))


def in_groups(posterior: GroupPosterior, new: Any, groups: Any) -> tuple[Any, Ints]:
    """New points, or a pair of these and their groups as for `sample_groups`, and the number of each one's group; that of all groups where its name is not known, or not given."""
    if groups is None and isinstance(new, tuple) and len(new) == 2:
        new, groups = new
    n_new = posterior.model.data.alike(new).n  # type: ignore[union-attr]
    known = {name: number for number, name in enumerate(np.asarray(posterior.group_names).tolist())}
    names = [None] * n_new if groups is None else np.asarray(groups).tolist() if np.ndim(groups) else [np.asarray(groups).item()] * n_new
    if len(names) != n_new:
        raise ValueError(f"{len(names)} groups are named for {n_new} new points: name one for each, or one for all")
    return new, np.array([known.get(name, posterior.n_groups) for name in names], dtype=np.int64)
