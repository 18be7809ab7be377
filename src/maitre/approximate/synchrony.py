"""Parallel Gibbs sampling with statistics that are brought up to date once per sweep (after Asuncion, Smyth & Welling 2008). Inexact: it has no invariance to show.

Points are dealt to processors once and for all. In every sweep each processor copies the clusters and redraws the seats of its own points by collapsed Gibbs, as if the other
processors' points stayed where they are; then the changes are put together. Clusters opened in the same sweep by different processors are either taken for one if they were
opened in the same place of each processor's list (`align="id"`, the original rule, which joins clusters that have nothing in common) or kept apart (`align="none"`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.engines.base import Engine
from maitre.families.slots import copy_slots, with_own_slots
from maitre.families.statistics import add, clear, log_predictive_all, log_predictive_without, refresh, remove
from maitre.moves.gibbs import NOT_A_NUMBER
from maitre.numerics.arrays import Floats, Ints, padded
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_log, shuffle
from maitre.numerics.rng import RngState, split
from maitre.partitions.labels import canonical
from maitre.states.clusters import derive_some
from maitre.states.mixture import MixtureState


@kernel
def sweep_alone(
    s: Any, points: Ints, start: int, labels: Ints, sizes: Ints, log_join: Floats, n_slots: int, log_alpha: float, weights: Floats, scratch: Floats, rng: Any
) -> tuple[int, int]:
    """Redraw `labels[t]` of the points[t], t ≥ start, by collapsed Gibbs on a processor's own copy of the clusters.

    Slots 0, …, n_slots − 2 are clusters, the last is empty and becomes the next new cluster; a slot that loses its last point is not used again in this sweep. Returns where
    it stopped (early if there is no room for an empty slot, −1 − t if the density of points[t] is not a number) and the number of slots.
    """
    for t in range(start, len(points)):
        if n_slots > len(sizes):
            return t, n_slots
        i, own = points[t], np.int64(labels[t])
        alone = sizes[own] == 1
        for k in range(n_slots):
            weights[k] = log_join[k]
        weights[n_slots - 1] = -np.inf if alone else log_alpha
        log_predictive_all(s, i, n_slots, weights)
        weights[own] = (log_alpha if alone else math.log(sizes[own] - 1.0)) + log_predictive_without(s, own, i)
        chosen = draw_log(weights, n_slots, scratch, rng)
        if chosen < 0:
            return -1 - t, n_slots
        if chosen != own:
            remove(s, own, i)
            if alone:
                clear(s, own)
            refresh(s, own)
            add(s, chosen, i)
            refresh(s, chosen)
            labels[t] = chosen
            sizes[own] -= 1
            sizes[chosen] += 1
            log_join[own] = -np.inf if alone else math.log(sizes[own])
            log_join[chosen] = math.log(sizes[chosen])
            if chosen == n_slots - 1:
                n_slots += 1
    return len(points), n_slots


def _swept(state: MixtureState, points: Ints, rng: RngState) -> tuple[Ints, Ints]:
    """One processor's points in the order of their visits, and their labels after its sweep: those from K on are new clusters, in the order of their opening."""
    points = points.copy()
    shuffle(points, rng)
    labels, s, sizes, n_slots = state.labels[points].astype(np.int64), with_own_slots(state.statistics), state.sizes.copy(), state.n_clusters + 1
    function = sweep_alone if state.compiled else sweep_alone.python
    log_alpha, begin = math.log(state.prior.concentration), 0
    log_join = np.where(sizes > 0, np.log(np.maximum(sizes, 1)), -np.inf)
    while True:
        room = len(sizes)
        begin, n_slots = function(s, points, begin, labels, sizes, log_join, n_slots, log_alpha, np.zeros(room), np.zeros(room), rng)
        if begin < 0:
            raise ValueError(NOT_A_NUMBER.format(point=points[-1 - begin]))
        if begin == len(points):
            return points, labels
        before, s = s, state.family.allocate(state.encoded, padded(2 * room))
        copy_slots(before, s, np.arange(room))
        (derive_some if state.compiled else derive_some.python)(s, np.arange(padded(2 * room)))
        sizes = np.pad(sizes, (0, padded(2 * room) - room))
        log_join = np.pad(log_join, (0, padded(2 * room) - room), constant_values=-np.inf)


def sweep(state: MixtureState, blocks: list[Ints], align: str, engine: Engine, rng: RngState) -> None:
    """One sweep of all processors, each with its block of points. The state's slots are in canonical order, before and after."""
    n_before = n_after = state.n_clusters
    merged = np.empty(state.model.n, dtype=np.int64)
    for points, labels in engine.map(lambda work: _swept(state, *work), zip(blocks, split(rng, len(blocks)), strict=True)):
        apart = n_after - n_before if align == "none" else 0
        merged[points] = np.where(labels >= n_before, labels + apart, labels)
        n_after = max(n_after, int(merged[points].max()) + 1)
    state.seat(canonical(merged))
