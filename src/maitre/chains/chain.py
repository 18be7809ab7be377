"""A chain is a value: model, variables, what its moves remember, and how many iterations it has done. Advancing it is a function that any thread, process or machine can run.

Every so many iterations, by count and never by the clock, the state is committed, after which nothing the next step depends on lies outside the variables. Random numbers
follow from (seed, chain, iteration). So a chain that goes on from a checkpoint, which is always taken at such a commit, makes the same draws bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event

from maitre.chains.settings import Settings
from maitre.chains.starts import start
from maitre.engines.base import SERIAL, Engine
from maitre.model import Model
from maitre.moves import Composed, state_of
from maitre.numerics.rng import stream, stream_at
from maitre.posterior.commits import Checkpoint, set_aside
from maitre.states.base import State, going_on


def commit_every(n: int) -> int:
    """Iterations from commit to commit: a commit costs a fifth of a sweep at most, for few points more because of Python's own time."""
    return min(max(10, 20_000 // n), 100)


@dataclass
class Chain:
    """One chain. `checkpoint` is the last one taken; what happened since follows from it."""

    model: Model
    settings: Settings
    number: int
    moves: Composed
    state: State
    iteration: int = 0
    checkpoint: Checkpoint | None = None

    def commit(self) -> None:
        """Commit the state and take a checkpoint."""
        self.checkpoint = None
        self.state.commit()
        self.checkpoint = Checkpoint(self.iteration, {name: set_aside(value) for name, value in self.state.variables().items()}, self.moves.memory())


def begin(model: Model, settings: Settings, number: int, moves: Composed, stop: Event | None = None) -> Chain:
    """A chain at its start."""
    moves = moves.afresh()
    state = start(model, settings.init_of(number), stream(settings.seed, number), state_of(moves), stop, moves.shared[0].starts, number)
    return Chain(model, settings, number, moves, state)


def go_on(model: Model, settings: Settings, number: int, moves: Composed, checkpoint: Checkpoint) -> Chain:
    """A chain as it was when the checkpoint was taken."""
    moves = moves.afresh()
    moves.recall(checkpoint.memory)
    return Chain(model, settings, number, moves, state_of(moves).of_variables(model, checkpoint.values), checkpoint.iteration, checkpoint)


def advance(chain: Chain, engine: Engine = SERIAL, stopped: Callable[[], bool] = going_on) -> Iterator[int]:
    """Run the chain to its end, or, if it is stopped, until nobody asks for more. After each iteration the number of the draw to keep, or −1.

    `burn_in` iterations come first, then the moves' schedule is frozen, and of `draws · thin` more every `thin`-th is a draw.
    """
    settings, every = chain.settings, commit_every(chain.model.n)
    burn_in, key = int(settings.burn_in or 0), stream(settings.seed, chain.number, 0)
    chain.state.engine, chain.state.stopped = engine, stopped  # type: ignore[attr-defined]
    while chain.iteration < settings.n_iterations:
        if chain.iteration % every == 0:
            chain.commit()
        else:
            chain.state.tidy()
        if chain.iteration < burn_in:
            chain.moves.burn_in(chain.iteration / burn_in)
        elif chain.iteration == burn_in:
            chain.moves.freeze()
        chain.moves.step(chain.state, stream_at(key, chain.iteration))
        chain.iteration += 1
        done = chain.iteration - burn_in
        yield done // settings.thin - 1 if done > 0 and done % settings.thin == 0 else -1
