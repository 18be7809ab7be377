"""Many points at once, one in each lane of the vector unit: scores in single precision, and a choice for every point by inverting its distribution function.

Single precision serves as a screen. Every lane has a bound on the error of its scores, and a point whose uniform number lies within that bound of a boundary between
two choices is flagged, to be decided in double precision: the choices are those of double precision throughout.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from maitre.numerics.compilation import compiled, compiled_apart

LANES = 128
BATCH = 1024  # points whose statistics are gathered together: a multiple of LANES
RUN_ROWS = 8  # of the work space for that
IMPOSSIBLE = np.float32(-1e30)
NEGLIGIBLE = 45.0  # nats below the best: what such a choice adds to a sum is lost in double precision
FEW_FEATURES = 16  # up to which plain loops beat a matrix product
_UNIT = np.float32(2.0**-24)
_f32 = np.float32
Singles = npt.NDArray[np.float32]


@intrinsic
def _from_bits(typingctx: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


@intrinsic
def _larger(typingctx: Any, a: Any, b: Any) -> Any:
    """The larger of two numbers; Python's own `max` keeps loops from becoming vector instructions."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", args[0], args[1], flags=("nnan", "nsz")), args[0], args[1])

    return types.float32(types.float32, types.float32), codegen


@compiled
def _exp(x: np.float32) -> np.float32:
    """e^x for x ≤ 0 within a relative error of 3e-7; no less than e^−80, which is nothing beside 1."""
    clipped = _larger(x, _f32(-80.0))  # numbers that are not normal would cost a hundred cycles each
    power = np.floor(clipped * _f32(1.44269504) + _f32(0.5))
    r = clipped - power * _f32(0.693359375)
    r = r - power * _f32(-2.12194440e-4)
    p = _f32(1.3981999507e-3)
    p = p * r + _f32(8.3334519073e-3)
    p = p * r + _f32(4.1665795894e-2)
    p = p * r + _f32(1.6666665459e-1)
    p = p * r + _f32(5.0000001201e-1)
    p = p * r * r + r + _f32(1.0)
    return p * _from_bits((np.int32(power) + np.int32(127)) << np.int32(23))


@compiled_apart
def score_lanes(coefficients: Singles, features: Singles, largest: Singles, n_choices: int, scores: Singles, error: Singles) -> None:
    """scores[k, t] = Σ_f coefficients[k, f] · features[f, t], and a bound on the error in each lane t; largest[f] is that of the coefficients."""
    n_features = len(largest)
    odd = n_features & 1
    if n_features > FEW_FEATURES:
        np.dot(coefficients[:n_choices], features, scores[:n_choices])
    else:
        for k in range(n_choices):
            slope = coefficients[k, 0] if odd == 1 else _f32(0.0)
            for t in range(LANES):
                scores[k, t] = slope * features[0, t]
            for f in range(odd, n_features, 2):
                slope, other = coefficients[k, f], coefficients[k, f + 1]
                for t in range(LANES):
                    scores[k, t] += slope * features[f, t] + other * features[f + 1, t]
    scale = _UNIT * _f32(4.0 + 4.0 * np.sqrt(float(n_features)))
    start = largest[0] * scale if odd == 1 else _f32(0.0)
    for t in range(LANES):
        error[t] = start * abs(features[0, t])
    for f in range(odd, n_features, 2):
        size, other = largest[f] * scale, largest[f + 1] * scale
        for t in range(LANES):
            error[t] += size * abs(features[f, t]) + other * abs(features[f + 1, t])


@compiled_apart
def choose_lanes(
    scores: Singles,
    n_choices: int,
    reach: npt.NDArray[np.int32],
    within: bool,
    u: Singles,
    error: Singles,
    work: Singles,
    sums: Singles,
    chosen: npt.NDArray[np.int32],
    near: npt.NDArray[np.int32],
) -> int:
    """For every lane the choice whose interval of the distribution function holds u, and whether u is so `near` a boundary that single precision cannot tell.

    `within`: lane t has only the first reach[t] choices. work[0] becomes the highest score of each lane; its other four rows and `sums` are work space. Returns 0 if no
    lane is near.
    """
    top, total, target, low, high = work[0], work[1], work[2], work[3], work[4]
    if within:
        for k in range(n_choices):
            for t in range(LANES):
                scores[k, t] = scores[k, t] if np.int32(k) < reach[t] else IMPOSSIBLE
    for t in range(LANES):
        top[t] = scores[0, t]
    for k in range(1, n_choices - 3, 4):  # several rows at a time: a loop that stores the larger of two is turned into branches
        for t in range(LANES):
            top[t] = _larger(_larger(_larger(scores[k, t], scores[k + 1, t]), _larger(scores[k + 2, t], scores[k + 3, t])), top[t])
    for k in range(max(1, n_choices - (n_choices - 1) % 4), n_choices):
        for t in range(LANES):
            top[t] = _larger(_larger(scores[k, t], scores[k - 1, t]), top[t])
    for t in range(LANES):
        total[t] = _f32(0.0)
    for k in range(n_choices):
        for t in range(LANES):
            total[t] += _exp(scores[k, t] - top[t])
            sums[k, t] = total[t]
    rounding = _UNIT * _f32(n_choices + 16)
    for t in range(
        LANES
    ):  # a boundary S may be wrong by 2 error min(S, total − S) + rounding total: those between `low` and `high` may be on either side of the target
        goal, whole, slope, slack = u[t] * total[t], total[t], _f32(2.0) * min(error[t], _f32(0.25)), rounding * total[t]
        target[t] = goal
        low[t] = max((goal - slack) / (_f32(1.0) + slope), (goal - slope * whole - slack) / (_f32(1.0) - slope))
        high[t] = min((goal + slack) / (_f32(1.0) - slope), (goal + slope * whole + slack) / (_f32(1.0) + slope))
    for t in range(LANES):
        chosen[t] = np.int32(0)
        near[t] = np.int32(1) if error[t] > _f32(0.25) else np.int32(0)
    for k in range(n_choices):
        for t in range(LANES):
            chosen[t] += np.int32(1) if sums[k, t] <= target[t] else np.int32(0)
    n_near = 0
    for t in range(LANES):  # sums rise: the boundaries next to the target tell
        place: Any = np.int64(chosen[t])
        if place >= n_choices or sums[place, t] <= high[t] or (place > 0 and sums[place - 1, t] >= low[t]):
            near[t] = np.int32(1)
        n_near += near[t]
    return n_near


_lock = threading.Lock()
_users = 0
_limit: Any = None


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_thread_per_product() -> Iterator[None]:
    """While anybody is inside, matrix products run on the thread that asks for them: the threads are ours to share out, and small products are slower on several."""
    global _users, _limit
    with _lock:
        if _users == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limit.restore_original_limits()
                _limit = None
