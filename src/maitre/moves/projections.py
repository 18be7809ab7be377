"""Heights of the points along random directions, by which hill climbing orders them.

A direction is either one for all points, uniform on the sphere, or one for each cluster: the difference of two of its members, which parts two groups seated as one
far more often than a uniform direction does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled, compiled_form_of
from maitre.numerics.draw import draw_below
from maitre.numerics.rng import normal


def heights_of(vectors: Any, own: bool, order: Ints, old_start: Ints, run_compiled: bool, rng: Any) -> Floats:
    """Each point's height along one random direction, or along its cluster's `own`; clusters are the stretches of `order` that `old_start` tells."""
    heights: Floats = np.empty(len(order))
    direction: Floats = np.zeros(vectors.shape[1])
    matrix = (vectors.indptr, vectors.indices, vectors.data) if sparse.issparse(vectors) else (vectors,)
    function: Any = _sparse_heights if sparse.issparse(vectors) else _dense_heights
    (function if run_compiled else function.py_func)(*matrix, direction, own, order, old_start, heights, rng)
    return heights


def _draw_direction(direction: Floats, rng: Any) -> None:
    """Uniform on the sphere, up to its length; up or down in one dimension."""
    if len(direction) == 1:
        direction[0] = 1.0 - 2.0 * draw_below(2, rng)
    else:
        for d in range(len(direction)):
            direction[d] = normal(rng)


compiled_form_of(_draw_direction)(compiled(_draw_direction))


@compiled
def _dense_heights(x: Floats, direction: Floats, own: bool, order: Ints, old_start: Ints, heights: Floats, rng: Any) -> None:
    if not own:
        _draw_direction(direction, rng)
    for end in range(len(order)):
        begin = old_start[end]
        if begin < 0:
            continue
        if own:
            a, b = order[begin + draw_below(end + 1 - begin, rng)], order[begin + draw_below(end + 1 - begin, rng)]
            for d in range(len(direction)):
                direction[d] = x[a, d] - x[b, d]
        for r in range(begin, end + 1):
            height = 0.0
            for d in range(len(direction)):
                height += x[order[r], d] * direction[d]
            heights[order[r]] = height


@compiled
def _sparse_heights(
    start: Slots, columns: Slots, values: Floats, direction: Floats, own: bool, order: Ints, old_start: Ints, heights: Floats, rng: Any
) -> None:
    if not own:
        _draw_direction(direction, rng)
    for end in range(len(order)):
        begin = old_start[end]
        if begin < 0:
            continue
        a, b = order[begin], order[begin]
        if own:
            a, b = order[begin + draw_below(end + 1 - begin, rng)], order[begin + draw_below(end + 1 - begin, rng)]
            for t in range(start[a], start[a + 1]):
                direction[columns[t]] += values[t]
            for t in range(start[b], start[b + 1]):
                direction[columns[t]] -= values[t]
        for r in range(begin, end + 1):
            height = 0.0
            for t in range(start[order[r]], start[order[r] + 1]):
                height += values[t] * direction[columns[t]]
            heights[order[r]] = height
        if own:
            for point in (a, b):
                for t in range(start[point], start[point + 1]):
                    direction[columns[t]] = 0.0
