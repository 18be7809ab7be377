"""Work that compiled code on several threads shares out among itself: numbers taken from a queue, each by one thread only, without Python in between."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from maitre.numerics.arrays import Ints
from maitre.numerics.compilation import compiled_form_of


def _atomically(operation: str) -> Any:
    """An intrinsic: the first number of an array of int64 becomes `operation` of itself and another, in one step that no thread can divide; returns the one before."""

    @intrinsic
    def change(typingctx: Any, array: Any, number: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            first = context.make_array(signature.args[0])(context, builder, args[0]).data
            return builder.atomic_rmw(operation, builder.bitcast(first, ir.IntType(64).as_pointer()), args[1], "seq_cst")

        return types.int64(array, types.int64), codegen

    return change


_add, _min = _atomically("add"), _atomically("min")


def take(queue: Ints) -> int:
    """The next number, which nobody else gets.

    >>> import numpy as np
    >>> queue = np.zeros(1, dtype=np.int64)
    >>> take(queue), take(queue)
    (0, 1)
    """
    number = int(queue[0])
    queue[0] = number + 1
    return number


def lower(least: Ints, number: int) -> None:
    """The number becomes the least, if it is."""
    least[0] = min(int(least[0]), number)


@compiled_form_of(take)
def _take(queue: Ints) -> int:
    return _add(queue, 1)  # type: ignore[no-any-return]


@compiled_form_of(lower)
def _lower(least: Ints, number: int) -> None:
    _min(least, number)
