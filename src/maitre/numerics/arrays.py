"""Array types, and access to arrays that lets loops over clusters become vector instructions.

The compiler must assume that a store to one array may change another, and that an index may be negative (counted from the end). In a loop over clusters that reads
sixteen rows of coefficients, the checks that rule this out at run time cost more than the arithmetic (measured: half of the time of a Gaussian predictive). `fetch`
reads an element that no store of the loop changes; `accumulate` adds to an element of an array that the loop reads in no other way; indices are not negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from maitre.numerics.compilation import compiled_form_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int32]


def padded(capacity: int) -> int:
    """The capacity rounded up to an odd number of cache lines: rows of slots then spread evenly over the sets of the cache."""
    return (capacity + 7) // 16 * 16 + 8


def _scopes(module: Any) -> Any:
    """Metadata that separates what `accumulate` writes from what `fetch` reads (LLVM's alias scopes)."""
    domain = module.add_metadata([ir.MetaDataString(module, "maitre")])
    scope = module.add_metadata([ir.MetaDataString(module, "accumulated"), domain])
    return module.add_metadata([scope])


def _address(context: Any, builder: Any, array_type: Any, array: Any, indices: list[Any]) -> Any:
    """The address of an element of a C-ordered array, without treating negative indices."""
    view = arrayobj.make_array(array_type)(context, builder, array)
    strides = cgutils.unpack_tuple(builder, view.strides, array_type.ndim)
    pointer = view.data
    for index, stride in zip(indices[:-1], strides[:-1], strict=True):
        offset = builder.mul(index, stride)
        raw = builder.gep(builder.bitcast(pointer, ir.IntType(8).as_pointer()), [offset])
        pointer = builder.bitcast(raw, view.data.type)
    return builder.gep(pointer, [indices[-1]])


@intrinsic
def _fetch(typingctx: Any, array: Any, i: Any, j: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_address(context, builder, signature.args[0], args[0], [args[1], args[2]]))
        value.set_metadata("noalias", _scopes(builder.module))
        return value

    return array.dtype(array, types.intp, types.intp), codegen


@intrinsic
def _fetch_at(typingctx: Any, array: Any, i: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_address(context, builder, signature.args[0], args[0], [args[1]]))
        value.set_metadata("noalias", _scopes(builder.module))
        return value

    return array.dtype(array, types.intp), codegen


@intrinsic
def _add_at(typingctx: Any, array: Any, i: Any, j: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        indices = [args[1], args[2]][2 - signature.args[0].ndim :]
        pointer = _address(context, builder, signature.args[0], args[0], indices)
        scopes = _scopes(builder.module)
        before = builder.load(pointer)
        before.set_metadata("alias.scope", scopes)
        after = builder.fadd(before, args[3], flags=("nnan", "nsz", "arcp", "contract", "reassoc", "afn"))
        builder.store(after, pointer).set_metadata("alias.scope", scopes)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, types.float64), codegen


def fetch(matrix: Any, i: int, j: int) -> Any:
    """matrix[i, j], for non-negative indices, of an array that the surrounding loop does not change."""
    return matrix[i, j]


def fetch_at(vector: Any, i: int) -> Any:
    """vector[i], for a non-negative index, of an array that the surrounding loop does not change."""
    return vector[i]


def accumulate(out: Floats, k: int, value: float) -> None:
    """out[k] += value."""
    out[k] += value


def highest_of(vector: Floats, n: int) -> float:
    """The largest of the first n numbers."""
    return float(vector[:n].max())


def accumulate_row(out: Floats, row: int, k: int, value: float) -> None:
    """out[row, k] += value."""
    out[row, k] += value


@compiled_form_of(fetch)
def _compiled_fetch(matrix: Any, i: int, j: int) -> Any:
    return _fetch(matrix, i, j)


@compiled_form_of(fetch_at)
def _compiled_fetch_at(vector: Any, i: int) -> Any:
    return _fetch_at(vector, i)


@compiled_form_of(accumulate)
def _compiled_accumulate(out: Floats, k: int, value: float) -> None:
    _add_at(out, 0, k, value)


@compiled_form_of(highest_of)
def _compiled_highest_of(vector: Floats, n: int) -> float:
    highest = vector[0]
    for k in range(1, n):
        highest = max(highest, vector[k])
    return highest


@compiled_form_of(accumulate_row)
def _compiled_accumulate_row(out: Floats, row: int, k: int, value: float) -> None:
    _add_at(out, row, k, value)


def accumulate_products(coefficients: Floats, x: Floats, i: int, n_direct: int, features: Floats, n_slots: int, out: Floats) -> None:
    """out[k] += Σ_f coefficients[f, k] · feature f for k < n_slots: the first `n_direct`, a multiple of 8, are x[i], the rest features[0]; in all a multiple of 8."""
    out[:n_slots] += x[i, :n_direct] @ coefficients[:n_direct, :n_slots] + features[0, n_direct:] @ coefficients[n_direct:, :n_slots]


@compiled_form_of(accumulate_products)
def _accumulate_products(coefficients: Floats, x: Floats, i: int, n_direct: int, features: Floats, n_slots: int, out: Floats) -> None:
    """Eight features a pass: eight multiply-adds for one load and store of out[k]."""
    for f in range(0, features.shape[1], 8):
        if f < n_direct:
            x0, x1, x2, x3 = x[i, f], x[i, f + 1], x[i, f + 2], x[i, f + 3]
            x4, x5, x6, x7 = x[i, f + 4], x[i, f + 5], x[i, f + 6], x[i, f + 7]
        else:
            x0, x1, x2, x3 = features[0, f], features[0, f + 1], features[0, f + 2], features[0, f + 3]
            x4, x5, x6, x7 = features[0, f + 4], features[0, f + 5], features[0, f + 6], features[0, f + 7]
        for k in range(n_slots):
            low = (x0 * fetch(coefficients, f, k) + x1 * fetch(coefficients, f + 1, k)) + (
                x2 * fetch(coefficients, f + 2, k) + x3 * fetch(coefficients, f + 3, k)
            )
            high = (x4 * fetch(coefficients, f + 4, k) + x5 * fetch(coefficients, f + 5, k)) + (
                x6 * fetch(coefficients, f + 6, k) + x7 * fetch(coefficients, f + 7, k)
            )
            accumulate(out, k, low + high)


def four_products(
    coefficients: Floats, x: Floats, a: int, b: int, c: int, d: int, n_direct: int, features: Floats, n_features: int, n_slots: int, out: Floats
) -> None:
    """out[0..3, k] = Σ_f coefficients[f, k] · feature f of the points a, b, c, d over `n_features`: the first `n_direct`, a multiple of 4, are rows of x, the rest
    features[0..3]; what follows up to a multiple of 4 must be zero."""
    rest = features[:, n_direct:n_features] @ coefficients[n_direct:n_features, :n_slots]
    out[:, :n_slots] = x[[a, b, c, d], :n_direct] @ coefficients[:n_direct, :n_slots] + rest


@compiled_form_of(four_products)
def _four_products(
    coefficients: Floats, x: Floats, a: int, b: int, c: int, d: int, n_direct: int, features: Floats, n_features: int, n_slots: int, out: Floats
) -> None:
    """Four features of four points a pass: each coefficient is loaded once for sixteen multiply-adds in all."""
    for k in range(n_slots):
        out[0, k] = 0.0
        out[1, k] = 0.0
        out[2, k] = 0.0
        out[3, k] = 0.0
    for f in range(0, n_features, 4):
        if f < n_direct:
            a0, a1, a2, a3 = x[a, f], x[a, f + 1], x[a, f + 2], x[a, f + 3]
            b0, b1, b2, b3 = x[b, f], x[b, f + 1], x[b, f + 2], x[b, f + 3]
            c0, c1, c2, c3 = x[c, f], x[c, f + 1], x[c, f + 2], x[c, f + 3]
            d0, d1, d2, d3 = x[d, f], x[d, f + 1], x[d, f + 2], x[d, f + 3]
        else:
            a0, a1, a2, a3 = features[0, f], features[0, f + 1], features[0, f + 2], features[0, f + 3]
            b0, b1, b2, b3 = features[1, f], features[1, f + 1], features[1, f + 2], features[1, f + 3]
            c0, c1, c2, c3 = features[2, f], features[2, f + 1], features[2, f + 2], features[2, f + 3]
            d0, d1, d2, d3 = features[3, f], features[3, f + 1], features[3, f + 2], features[3, f + 3]
        for k in range(n_slots):
            w0, w1, w2, w3 = fetch(coefficients, f, k), fetch(coefficients, f + 1, k), fetch(coefficients, f + 2, k), fetch(coefficients, f + 3, k)
            accumulate_row(out, 0, k, (a0 * w0 + a1 * w1) + (a2 * w2 + a3 * w3))
            accumulate_row(out, 1, k, (b0 * w0 + b1 * w1) + (b2 * w2 + b3 * w3))
            accumulate_row(out, 2, k, (c0 * w0 + c1 * w1) + (c2 * w2 + c3 * w3))
            accumulate_row(out, 3, k, (d0 * w0 + d1 * w1) + (d2 * w2 + d3 * w3))


def fill_rows(matrix: Any, points: Ints, base: int, count: int, out: Any) -> None:
    """out[d, t] = matrix[points[t] − base, d] for t < count."""
    out[: matrix.shape[1], :count] = matrix[points[:count] - base].T


@compiled_form_of(fill_rows)
def _fill_rows(matrix: Any, points: Ints, base: int, count: int, out: Any) -> None:
    if matrix.shape[1] < 8:
        for d in range(matrix.shape[1]):
            for t in range(count):
                out[d, t] = matrix[points[t] - base, d]
    else:  # four rows at a time: whole lines of memory are read, and none is written for one number
        whole = count // 4 * 4
        for t in range(0, whole, 4):
            i, j, k, m = points[t] - base, points[t + 1] - base, points[t + 2] - base, points[t + 3] - base
            for d in range(matrix.shape[1]):
                one, two, three, four = matrix[i, d], matrix[j, d], matrix[k, d], matrix[m, d]
                out[d, t] = one
                out[d, t + 1] = two
                out[d, t + 2] = three
                out[d, t + 3] = four
        for t in range(whole, count):
            for d in range(matrix.shape[1]):
                out[d, t] = matrix[points[t] - base, d]


@intrinsic
def _prefetch_address(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        int32 = ir.IntType(32)
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [pointer, int32, int32, int32]), "llvm.prefetch.p0i8")
        builder.call(function, [builder.inttoptr(args[0], pointer), int32(0), int32(3), int32(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), codegen


def prefetch_row(matrix: Any, i: int) -> None:
    """Ask the memory for row i of a C-ordered matrix ahead of its use: random visits then cost little more than ordered ones."""


@compiled_form_of(prefetch_row)
def _prefetch_row(matrix: Any, i: int) -> None:
    n_bytes = matrix.itemsize * matrix.shape[1]
    address = matrix.ctypes.data + i * n_bytes
    for offset in range(0, n_bytes, 64):
        _prefetch_address(address + offset)
    if n_bytes > 16:
        _prefetch_address(address + n_bytes - matrix.itemsize)  # a row that does not begin with a cache line may end in one more
