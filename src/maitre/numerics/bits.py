"""Sets of up to 64 positions as one word."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from maitre.numerics.compilation import compiled_form_of

WORD = 64


@intrinsic
def _ctpop(typingctx: Any, word: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


def count_below(mask: np.uint64, place: int) -> int:
    """How many of the positions in the set are below `place`.

    >>> count_below(np.uint64(0b10110), 4)
    2
    """
    return (int(mask) & ((1 << int(place)) - 1)).bit_count()


@compiled_form_of(count_below)
def _count_below(mask: np.uint64, place: int) -> int:
    return _ctpop(mask & ((np.uint64(1) << np.uint64(place)) - np.uint64(1)))
