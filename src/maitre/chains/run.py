"""A chain as a generator: one item per iteration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from maitre.moves.compose import Composed
from maitre.numerics.rng import RngState
from maitre.states.base import State


class Iteration(NamedTuple):
    """Where a chain is. `draw` is the number of the draw to keep, or −1."""

    number: int
    draw: int


def run_chain(state: State, moves: Composed, rng: RngState, burn_in: int, draws: int, thin: int) -> Iterator[Iteration]:
    """Run `burn_in` iterations, freeze the moves' schedule, then `draws · thin` more, of which every `thin`-th is a draw.

    >>> # for iteration in run_chain(state, moves, rng, 100, 1000, 1):
    >>> #     if iteration.draw >= 0: keep(state.canonical_labels())
    """
    for number in range(burn_in):
        state.tidy()
        moves.burn_in(number / burn_in)
        moves.step(state, rng)
        yield Iteration(number, -1)
    moves.freeze()
    for number in range(burn_in, burn_in + draws * thin):
        state.tidy()
        moves.step(state, rng)
        done = number - burn_in + 1
        yield Iteration(number, done // thin - 1 if done % thin == 0 else -1)
