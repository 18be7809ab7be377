"""Sums kept as two numbers, a value and what its rounding left out: twice the precision, so that what leaves a sum leaves no trace.

Knuth's two-sum and the fused multiply-add give the rounding error of a sum or product exactly (Ogita, Rump & Oishi 2005, Accurate sum and dot product). Compiled without
the liberties that kernels are otherwise compiled with, under which a compiler would conclude that these errors are zero.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic, overload

_STRICT: dict[str, Any] = {"forceinline": True, "fastmath": False}
_SPLITTER = 134217729.0  # 2^27 + 1


@intrinsic
def _product_error(typingctx: Any, a: Any, b: Any, product: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(args[0], args[1], builder.fneg(args[2]))

    return types.float64(types.float64, types.float64, types.float64), codegen


def sum_error(a: float, b: float, total: float) -> float:
    """What rounding left out of total = a + b."""
    shifted = total - a
    return (a - (total - shifted)) + (b - shifted)


def product_error(a: float, b: float, product: float) -> float:
    """What rounding left out of product = a · b."""
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _upper_half(a: float) -> float:
    """The leading 26 bits of a."""
    shifted = _SPLITTER * a
    return shifted - (shifted - a)


@overload(sum_error, strict=False, jit_options=_STRICT)
def _sum_error(a: Any, b: Any, total: Any) -> Any:
    return sum_error


@overload(product_error, strict=False, jit_options=_STRICT)
def _compiled_product_error(a: Any, b: Any, product: Any) -> Any:
    return lambda a, b, product: _product_error(a, b, product)
