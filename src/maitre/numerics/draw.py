"""Every discrete random choice of every move goes through this file.

Compiled (and in ordinary plain Python) a choice consumes the stream `rng`. When `rng` is a `Branching` object instead, the choice is handed to it
together with the probabilities: that is how `maitre.testing` follows every branch of a move and builds its transition matrix exactly. When it is a `Tempered`
stream, probabilities are raised to a power, which turns a sampler into an annealer and, at an infinite power, into a hill climber.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import JIT_OPTIONS, compiled, compiled_form_of
from maitre.numerics.elementary import fast_exp, is_finite
from maitre.numerics.rng import RngState, next_bits, uniform

_BLOCK = 16
_NEGLIGIBLE = 45.0


class Branching(ABC):
    """A stand-in for a random stream that decides discrete choices itself."""

    @abstractmethod
    def choose(self, probabilities: Floats) -> int:
        """The index chosen, given the probabilities of all of them."""


class Tempered(NamedTuple):
    """A random stream under which `draw_log` chooses with probability ∝ exp(power · log weight); an infinite power chooses the largest weight (the first of equals).

    Not for a Markov chain: no posterior is left invariant. It is how `maitre.optimize` anneals and climbs with the kernels of the samplers.
    """

    rng: RngState
    power: float


def draw_log(log_weights: Floats, n: int, scratch: Floats, rng: Any) -> int:
    """An index below `n` with probability ∝ exp(log_weights); −1 if a weight is not a number or none is possible. `scratch` is room for n numbers."""
    if isinstance(rng, Branching):
        weights = np.exp(log_weights[:n] - np.max(log_weights[:n]))
        return rng.choose(weights / weights.sum())
    if isinstance(rng, Tempered):
        return int(_draw_tempered(log_weights, n, scratch, rng))
    return int(_draw_log(log_weights, n, scratch, rng))


def negligible(rng: Any) -> float:
    """How many nats below the best a choice lies that `draw_log` need not be told of: 53 binary digits of a uniform number do not reach it."""
    return _NEGLIGIBLE / min(1.0, rng.power) if isinstance(rng, Tempered) else _NEGLIGIBLE


def draw_below(n: int, rng: Any) -> int:
    """A whole number uniform on 0, …, n − 1."""
    return rng.choose(np.full(n, 1.0 / n)) if isinstance(rng, Branching) else int(_draw_below(n, rng))


def draw_event(log_probability: float, rng: Any) -> bool:
    """True with probability min(1, exp(log_probability)): the acceptance step of Metropolis and Hastings."""
    if isinstance(rng, Branching):
        p = math.exp(min(0.0, log_probability))
        return rng.choose(np.array([1.0 - p, p])) == 1
    return bool(_draw_event(log_probability, rng))


def draw_part(part: float, whole: float, rng: Any) -> bool:
    """True with probability part / whole."""
    if isinstance(rng, Branching):
        return rng.choose(np.array([1.0 - part / whole, part / whole])) == 1
    return bool(_draw_part(part, whole, rng))


@compiled
def _draw_log(log_weights: Floats, n: int, scratch: Floats, rng: Any) -> int:
    return pick_log(log_weights, n, scratch, uniform(rng))


@compiled
def pick_log(log_weights: Floats, n: int, scratch: Floats, u: float) -> int:
    """`draw_log` with the uniform number given. Exponentials and their sum in one vector loop; then a search by sums of 16, and of the 16 that hold the target."""
    highest = log_weights[0]
    for k in range(1, n):
        highest = max(highest, log_weights[k])
    total = 0.0
    for k in range(n):
        weight = fast_exp(log_weights[k] - highest)
        scratch[k] = weight
        total += weight
    if not (is_finite(highest) and is_finite(total)):
        return -1
    target = u * total
    start = 0
    while start + _BLOCK <= n:
        partial = 0.0
        for k in range(start, start + _BLOCK):
            partial += scratch[k]
        if partial > target:
            break
        target -= partial
        start += _BLOCK
    for k in range(start, n):
        target -= scratch[k]
        if target < 0.0:
            return k
    last = n - 1
    while last > 0 and scratch[last] == 0.0:  # rounding carried the target past the last weight
        last -= 1
    return last


@compiled
def _draw_tempered(log_weights: Floats, n: int, scratch: Floats, tempered: Any) -> int:
    best = 0
    for k in range(1, n):
        if log_weights[k] > log_weights[best]:
            best = k
    highest = log_weights[best]
    if not is_finite(tempered.power):
        return best if is_finite(highest) else -1
    for k in range(n):
        scratch[k] = tempered.power * (log_weights[k] - highest)
    return _draw_log(scratch, n, scratch, tempered.rng)


@overload(draw_log, strict=False, jit_options=JIT_OPTIONS | {"forceinline": True})
def _choose_form(log_weights: Any, n: Any, scratch: Any, rng: Any) -> Any:
    form: Any = _draw_tempered if isinstance(rng, types.NamedTuple) else _draw_log
    return form.py_func


@overload(negligible, strict=False, jit_options=JIT_OPTIONS | {"forceinline": True})
def _negligible(rng: Any) -> Any:
    return (lambda rng: _NEGLIGIBLE / min(1.0, rng.power)) if isinstance(rng, types.NamedTuple) else (lambda rng: _NEGLIGIBLE)


@compiled_form_of(draw_below)
@compiled
def _draw_below(n: int, rng: Any) -> int:
    """Lemire's multiply-shift on 32 bits with rejection: uniform without bias for n < 2³²."""
    bound = np.uint64(n)
    threshold = (np.uint64(4294967296) - bound) % bound
    while True:
        product = (next_bits(rng) >> np.uint64(32)) * bound
        if (product & np.uint64(0xFFFFFFFF)) >= threshold:
            return np.int64(product >> np.uint64(32))


@compiled_form_of(draw_event)
@compiled
def _draw_event(log_probability: float, rng: Any) -> bool:
    return math.log(uniform(rng)) < log_probability


@compiled_form_of(draw_part)
@compiled
def _draw_part(part: float, whole: float, rng: Any) -> bool:
    return uniform(rng) * whole < part


def shuffle(order: Ints, rng: Any) -> None:
    """Put `order` in uniformly random order, in place."""
    if isinstance(rng, Branching):
        for i in range(len(order) - 1, 0, -1):
            j = draw_below(i + 1, rng)
            order[i], order[j] = order[j], order[i]
    else:
        _shuffle(order, rng)


@compiled_form_of(shuffle)
@compiled
def _shuffle(order: Ints, rng: Any) -> None:
    for i in range(len(order) - 1, 0, -1):
        j = _draw_below(i + 1, rng)
        held = order[i]
        order[i] = order[j]
        order[j] = held


@compiled
def _fill_below(out: Any, n: int, rng: Any) -> None:
    for i in range(len(out)):
        out[i] = _draw_below(n, rng)


def fill_below(out: Ints | Slots, n: int, rng: Any) -> None:
    """Whole numbers uniform on 0, …, n − 1, in place."""
    _fill_below(out, n, rng)
