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

LANES = 16
STRIDE = 2 * LANES  # rows are a multiple of these: two blocks of lanes are added up at a time, so that one addition does not wait for the last
Singles = npt.NDArray[np.float32]


def _generator(short: bool) -> Any:
    """The loop over rows of single precision or of short whole numbers: addresses of two rows and of the sums, a number, and how many strides there are."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, int32, int64 = ir.VectorType(ir.FloatType(), LANES), ir.IntType(32), ir.IntType(64)
        factors, sums = (builder.inttoptr(args[position], vector.as_pointer()) for position in (0, 3))
        row = builder.inttoptr(args[1], (ir.VectorType(ir.IntType(16), LANES) if short else vector).as_pointer())
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), args[2], int32(0))
        base = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(int32, LANES), [0] * LANES))
        before, loop, after = builder.block, builder.append_basic_block("lanes"), builder.append_basic_block("lanes.done")

        def product(block: Any) -> Any:
            one_row = builder.load(builder.gep(row, [block]), align=2 if short else 4)
            if short:
                one_row = builder.sitofp(builder.zext(one_row, ir.VectorType(int32, LANES)), vector)
            return builder.fmul(builder.load(builder.gep(factors, [block]), align=4), builder.fadd(one_row, base), flags=("contract",))

        builder.branch(loop)
        builder.position_at_end(loop)
        stride, total = builder.phi(int64), builder.phi(vector)
        stride.add_incoming(int64(0), before)
        total.add_incoming(ir.Constant(vector, [0.0] * LANES), before)
        first = builder.mul(stride, int64(2))
        second = builder.add(first, int64(1))
        one_product = product(first)
        two_products = builder.fadd(one_product, product(second), flags=("contract",))
        following = builder.fadd(total, two_products)
        builder.store(builder.fadd(total, one_product), builder.gep(sums, [first]), align=4)
        builder.store(following, builder.gep(sums, [second]), align=4)
        further = builder.add(stride, int64(1))
        stride.add_incoming(further, loop)
        total.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", further, args[4]), loop, after)
        builder.position_at_end(after)
        result: Any = ir.Constant(ir.FloatType(), 0.0)
        for lane in range(LANES):
            result = builder.fadd(result, builder.extract_element(following, int32(lane)), flags=("reassoc",))
        return result

    return codegen


@intrinsic
def _add_singles(typingctx: Any, factors: Any, row: Any, base: Any, sums: Any, n_strides: Any) -> Any:
    return types.float32(types.uintp, types.uintp, types.float32, types.uintp, types.int64), _generator(short=False)


@intrinsic
def _add_shorts(typingctx: Any, factors: Any, row: Any, base: Any, sums: Any, n_strides: Any) -> Any:
    return types.float32(types.uintp, types.uintp, types.float32, types.uintp, types.int64), _generator(short=True)


def add_lanes(factors: Singles, row: Any, base: np.float32, sums: Singles) -> float:
    """sums[k] = Σ factors[j] (row[j] + base) over the j ≤ k in the lane of k; returns the sum over all. Rows are of single precision, or of short whole numbers."""
    products = (factors * (row + base)).reshape(-1, LANES)
    sums[:] = np.cumsum(products, axis=0, dtype=np.float32).ravel()
    return float(sums[-LANES:].sum())


@compiled_form_of(add_lanes)
def _compiled_add_lanes(factors: Singles, row: Any, base: np.float32, sums: Singles) -> Any:
    if row.itemsize == 2:
        return np.float64(_add_shorts(factors.ctypes.data, row.ctypes.data, base, sums.ctypes.data, len(sums) // STRIDE))
    return np.float64(_add_singles(factors.ctypes.data, row.ctypes.data, base, sums.ctypes.data, len(sums) // STRIDE))


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
