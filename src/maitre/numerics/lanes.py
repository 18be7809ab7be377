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
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from maitre.numerics.compilation import compiled, compiled_apart

LANES = 128
PANEL = 32  # lanes whose features lie side by side in memory; a divisor of LANES
_WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
_VECTOR, TILE = (16, 8) if _WIDE else (8, 3)  # numbers in a register; rows of coefficients for which a panel's sums stay in registers
BATCH = 1024  # points whose statistics are gathered together: a multiple of LANES
RUN_ROWS = 8  # of the work space for that
IMPOSSIBLE = np.float32(-1e30)
NEGLIGIBLE = 45.0  # nats below the best: what such a choice adds to a sum is lost in double precision
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


def _tile_of(n_rows: int, absolute: bool) -> Any:
    """An intrinsic: out[r, t] = Σ_f coefficients[r, f] · features[f, t], or |features[f, t]|, for so many rows and PANEL lanes.

    It takes the addresses of three C-ordered arrays; rows of `out` are LANES apart. The sums stay in registers, which the compiler does not see to in a loop written
    out; features and coefficients are read where they are, where a library's product would first copy them: twice its speed where vectors are 512 bits wide, and no less
    where they are 256.
    """

    @intrinsic
    def tile(typingctx: Any, coefficients: Any, features: Any, n_features: Any, out: Any) -> Any:
        return types.void(types.intp, types.intp, types.intp, types.intp), codegen

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, index, n_parts = ir.FloatType(), ir.IntType(64), PANEL // _VECTOR
        vector = ir.VectorType(number, _VECTOR)
        undefined, zero, first = (
            ir.Constant(vector, ir.Undefined),
            ir.Constant(vector, [0.0] * _VECTOR),
            ir.Constant(ir.VectorType(ir.IntType(32), _VECTOR), None),
        )
        multiply_add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{_VECTOR}f32")
        size_of = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector]), f"llvm.fabs.v{_VECTOR}f32")
        count = args[2]
        slopes, points, sums_at = (builder.inttoptr(args[k], number.as_pointer()) for k in (0, 1, 3))
        rows = [builder.gep(slopes, [builder.mul(count, index(r))]) for r in range(n_rows)]

        def part(pointer: Any, offset: Any) -> Any:
            return builder.bitcast(builder.gep(pointer, [offset]), vector.as_pointer())

        before, loop, after = builder.block, builder.append_basic_block("features"), builder.append_basic_block("sums")
        builder.branch(loop)
        builder.position_at_end(loop)
        f, sums = builder.phi(index), [builder.phi(vector) for _ in range(n_rows * n_parts)]
        values = [builder.load(part(points, builder.add(builder.mul(f, index(PANEL)), index(p * _VECTOR))), align=4) for p in range(n_parts)]
        values = [builder.call(size_of, [value]) for value in values] if absolute else values
        made = []
        for r in range(n_rows):
            one = builder.insert_element(undefined, builder.load(builder.gep(rows[r], [f])), ir.IntType(32)(0))
            slope = builder.shuffle_vector(one, undefined, first)
            made += [builder.call(multiply_add, [slope, values[p], sums[r * n_parts + p]]) for p in range(n_parts)]
        following = builder.add(f, index(1))
        for phi, start, later in zip((f, *sums), (index(0), *[zero] * len(sums)), (following, *made), strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(later, loop)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
        builder.position_at_end(after)
        for r in range(n_rows):
            for p in range(n_parts):
                builder.store(made[r * n_parts + p], part(sums_at, index(r * LANES + p * _VECTOR)), align=4)
        return context.get_dummy_value()

    return tile


_score_tile, _size_tile = _tile_of(TILE, absolute=False), _tile_of(1, absolute=True)


def in_tiles(n: int) -> int:
    """The number of rows, a multiple of TILE, that so many choices take."""
    return -(-n // TILE) * TILE


@compiled_apart
def score_lanes(coefficients: Singles, features: Singles, largest: Singles, n_choices: int, scores: Singles, error: Singles) -> None:
    """scores[k, t] = Σ_f coefficients[k, f] · features[t // PANEL, f, t % PANEL], and a bound on the error in each lane t; largest[f] is that of the coefficients.

    Coefficients and scores have `in_tiles` rows.
    """
    n_features, width = len(largest), coefficients.itemsize
    for panel in range(LANES // PANEL):
        here, lane = features.ctypes.data + panel * n_features * PANEL * width, panel * PANEL
        for k in range(0, n_choices, TILE):
            _score_tile(coefficients.ctypes.data + k * n_features * width, here, n_features, scores.ctypes.data + (k * LANES + lane) * width)
        _size_tile(largest.ctypes.data, here, n_features, error.ctypes.data + lane * width)
    scale = _UNIT * _f32(4.0 + 4.0 * np.sqrt(float(n_features)))
    for t in range(LANES):
        error[t] *= scale


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
