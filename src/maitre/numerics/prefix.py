"""Prefix sums of products, lane by lane of the vector unit, and picking by them: a draw from many weights that are a product of two rows.

The loop is written in LLVM's own terms. The compiler does not find it in a loop of ours: that each block of sums begins where the last one ended keeps it from vector
instructions, or makes it wait for the memory in every block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from maitre.numerics.compilation import compiled_form_of

LANES = 16  # rows are a multiple of these
Singles = npt.NDArray[np.float32]


@intrinsic
def _add_lanes(typingctx: Any, factors: Any, row: Any, base: Any, sums: Any, n_blocks: Any) -> Any:
    """Addresses of two rows and of the sums, a number, and how many blocks of lanes there are; returns the sum of all."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, int32, int64 = ir.VectorType(ir.FloatType(), LANES), ir.IntType(32), ir.IntType(64)
        factors, row, sums = (builder.inttoptr(args[position], vector.as_pointer()) for position in (0, 1, 3))
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), args[2], int32(0))
        base = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(int32, LANES), [0] * LANES))
        before, loop, after = builder.block, builder.append_basic_block("lanes"), builder.append_basic_block("lanes.done")
        builder.branch(loop)
        builder.position_at_end(loop)
        block, total = builder.phi(int64), builder.phi(vector)
        block.add_incoming(int64(0), before)
        total.add_incoming(ir.Constant(vector, [0.0] * LANES), before)
        one_row = builder.load(builder.gep(row, [block]), align=4)
        one_factor = builder.load(builder.gep(factors, [block]), align=4)
        product = builder.fmul(one_factor, builder.fadd(one_row, base), flags=("contract",))
        following = builder.fadd(total, product, flags=("contract",))
        builder.store(following, builder.gep(sums, [block]), align=4)
        further = builder.add(block, int64(1))
        block.add_incoming(further, loop)
        total.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", further, args[4]), loop, after)
        builder.position_at_end(after)
        result: Any = ir.Constant(ir.FloatType(), 0.0)
        for lane in range(LANES):
            result = builder.fadd(result, builder.extract_element(following, int32(lane)), flags=("reassoc",))
        return result

    return types.float32(types.uintp, types.uintp, types.float32, types.uintp, types.int64), codegen


def add_lanes(factors: Singles, row: Singles, base: np.float32, sums: Singles) -> float:
    """sums[k] = Σ factors[j] (row[j] + base) over the j ≤ k in the lane of k; returns the sum over all."""
    products = (factors * (row + base)).reshape(-1, LANES)
    sums[:] = np.cumsum(products, axis=0, dtype=np.float32).ravel()
    return float(sums[-LANES:].sum())


@compiled_form_of(add_lanes)
def _compiled_add_lanes(factors: Singles, row: Singles, base: np.float32, sums: Singles) -> Any:
    return np.float64(_add_lanes(factors.ctypes.data, row.ctypes.data, base, sums.ctypes.data, len(sums) // LANES))


def pick_other(sums: Singles, factors: Singles, own: int, weight: Any, x: Any) -> int:
    """The place whose interval holds x, counted lane by lane, with the interval of place `own`, of this weight, left out; −1 if rounding leaves none."""
    width = len(sums)
    last, own_lane = -1, own % LANES
    for lane in range(LANES):
        total = sums[width - LANES + lane] - (weight if lane == own_lane else np.float32(0.0))
        if x < total:
            low, high = 0, width // LANES - 1  # the first block of the lane whose sum exceeds x
            while low < high:
                middle = (low + high) // 2
                k = middle * LANES + lane
                if x < sums[k] - (weight if lane == own_lane and k >= own else np.float32(0.0)):
                    high = middle
                else:
                    low = middle + 1
            k = low * LANES + lane
            if k != own and factors[k] > np.float32(0.0):
                return k
            for k in range(lane, width, LANES):  # rounding has led to a place without weight: the last one that has some before x
                if k != own and factors[k] > np.float32(0.0) and (last < 0 or k <= low * LANES + lane):
                    last = k
            return last
        x -= total
    for k in range(width):
        if k != own and factors[k] > np.float32(0.0):
            last = k
    return last


compiled_form_of(pick_other)(pick_other)
