"""Running the chains of a model, from their starts or from checkpoints, into a posterior: on threads, with progress, until the end, a time budget or Ctrl-C."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from maitre.chains.chain import Chain, advance, begin, go_on
from maitre.chains.progress import Progress
from maitre.chains.recorder import MEMORY_BUDGET, Memory, bytes_needed
from maitre.chains.settings import Settings
from maitre.chains.starts import begins_clear, parse_init
from maitre.engines import engine_named, run_all, share
from maitre.engines.base import Engine
from maitre.engines.cores import n_cores
from maitre.model import Model
from maitre.moves import Composed, resolve, state_of
from maitre.numerics.compilation import compiling_seconds
from maitre.numerics.lanes import one_thread_per_product
from maitre.posterior.commits import Checkpoint
from maitre.posterior.folder import Configuration, RunFolder, Stored, locked, reading
from maitre.posterior.kinds import posterior_class
from maitre.posterior.posterior import Posterior
from maitre.posterior.stored import StoredArray, in_memory


@dataclass
class Conditions:
    """What surrounds a run and does not change its draws, but for how many there are: threads, time, progress, and where draws are stored."""

    threads: int | None = None
    time_budget: float | None = None
    progress: bool = True
    store: Path | None = None
    store_data: bool = True
    replacing: tuple[str, ...] | None = None  # an earlier run in the folder may be replaced, with its answers of these names
    notes: dict[str, Any] = field(default_factory=dict)  # what the caller wants to find again in the folder


class Clock:
    """A time budget for all chains together, from now on. Time in which a kernel is compiled, which happens once, is not counted."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.began, self.compiled_before = time.monotonic(), compiling_seconds()

    def is_up(self) -> bool:
        """Whether the time is over."""
        return self.seconds is not None and time.monotonic() - self.began - (compiling_seconds() - self.compiled_before) > self.seconds


class Over(Event):
    """An event that is also set when a clock is up."""

    def __init__(self, stop: Event, clock: Clock) -> None:
        super().__init__()
        self.stop, self.clock = stop, clock

    def is_set(self) -> bool:
        """Whether to stop."""
        return self.stop.is_set() or self.clock.is_up()


@dataclass
class Run:
    """Chains under way."""

    model: Model
    settings: Settings
    moves: Composed
    conditions: Conditions
    recorder: Any
    checkpoints: list[Checkpoint | None]
    chains: list[Chain | None] = field(default_factory=list)
    n_kept: list[int] = field(default_factory=list)
    n_block_workers: int = 1
    keep_alive: Any = None

    def __call__(self) -> Posterior:
        """Run to the end, or until it is stopped."""
        n_chains, total = self.settings.chains, self.settings.n_iterations
        self.chains, self.n_kept = [None] * n_chains, self.recorder.n_kept()
        stop, clock = Event(), Clock(self.conditions.time_budget)
        threads = self.conditions.threads or (max(n_chains, n_cores()) if self.conditions.time_budget else None)
        engine, self.n_block_workers = share(threads, n_chains)
        try:
            with Progress(n_chains * total, self.conditions.progress) as bar, one_thread_per_product():
                _, interrupted = run_all([partial(self._work, number, stop, clock, bar) for number in range(n_chains)], stop, engine, bar.poll)
            return self._posterior(interrupted)
        finally:
            if isinstance(self.recorder, RunFolder):
                self.recorder.close()

    def _work(self, number: int, stop: Event, clock: Clock, bar: Progress) -> None:
        """One chain, on a thread; stops early when `stop` is set or time is up."""
        where = self.checkpoints[number]
        if where is None and stop.is_set() and number > 0:
            return
        if where is None:
            chain = begin(self.model, self.settings, number, self.moves, Over(stop, clock))
        else:
            chain = go_on(self.model, self.settings, number, self.moves, where)
            self.recorder.go_on(number, self.settings.draws_at(where.iteration))
        self.chains[number], self.checkpoints[number] = chain, None
        with engine_named("threads", self.n_block_workers) as engine:
            self._follow(chain, engine, Over(stop, clock).is_set, bar)

    def _follow(self, chain: Chain, engine: Engine, stopped: Callable[[], bool], bar: Progress) -> None:
        """Advance the chain, record its draws and checkpoints, and report its progress."""
        number, at = chain.number, -1 if chain.checkpoint is None else chain.checkpoint.iteration
        for draw in advance(chain, engine, stopped):
            if draw >= 0:
                self.recorder.keep(number, draw, chain.state.kept())
                self.n_kept[number] = max(self.n_kept[number], draw + 1)
            if chain.checkpoint is not None and chain.checkpoint.iteration != at:
                at = chain.checkpoint.iteration
                self.recorder.checkpoint(number, chain.checkpoint)
            bar.report(number, chain.iteration, chain.state.status())
            if stopped():
                break
        if chain.checkpoint is not None:
            self.recorder.checkpoint(number, chain.checkpoint, now=True)

    def _posterior(self, interrupted: bool) -> Posterior:
        settings = self.settings
        begun = [number for number, chain in enumerate(self.chains) if chain is not None]
        in_burn_in = max(self.n_kept) == 0
        which, n_draws = (begun, 1) if in_burn_in else most_complete(self.n_kept)
        outcome = {
            "finished": n_draws == settings.draws and len(which) == settings.chains,
            "interrupted": interrupted or n_draws < int(settings.draws or 0),
            "stopped_in_burn_in": in_burn_in,
            "moves": self.chains[which[0]].moves.summary(),  # type: ignore[union-attr]
        }
        kept = state_of(self.moves).kept_variables(self.model)
        present = {c: self.chains[c].state.kept() for c in which} if in_burn_in else {}  # type: ignore[union-attr]
        for chain in self.chains:
            if chain is not None:
                del chain.state  # its labels would lie beside the draws while these are put together
        source, later = self.recorder, {}
        if isinstance(self.recorder, RunFolder):
            for number, values in present.items():
                self.recorder.show(number, values)
            self.recorder.finish(outcome)
            source = Stored(self.recorder.path, self.recorder.config, self.recorder.commit)
        if in_burn_in:  # what there is, is the present state
            draws = {v.name: in_memory([[np.asarray(values[v.name])] for values in present.values()], v) for v in kept}
        else:
            draws, later = source.draws(which, n_draws), source.later(which, n_draws)
        for array in draws.values():
            if isinstance(array, StoredArray):
                array.keep_alive = self.keep_alive
        return posterior_class(state_of(self.moves))(
            self.model,
            draws,
            settings.public() | {"stopped_in_burn_in": in_burn_in},
            exact=self.moves.exact,
            interrupted=bool(outcome["interrupted"]),
            moves=outcome["moves"],  # type: ignore[arg-type]
            state=state_of(self.moves),
            checkpoints=[where if chain is None else chain.checkpoint for chain, where in zip(self.chains, self.checkpoints, strict=True)],
            numbers=which,
            later=later,
            chain_settings=settings.stored(),
            folder=self.recorder.path if isinstance(self.recorder, RunFolder) else None,
            notes=self.recorder.config.notes if isinstance(self.recorder, RunFolder) else {},
            keep_alive=self.keep_alive,
        )


def most_complete(n_kept: list[int]) -> tuple[list[int], int]:
    """The chains to report and their common number of draws: as many draws in all as possible.

    >>> most_complete([100, 100, 3])
    ([0, 1], 100)
    """
    counts = sorted(n_kept, reverse=True)
    n_draws = max(enumerate(counts, start=1), key=lambda item: item[0] * item[1])[1]
    return [chain for chain, count in enumerate(n_kept) if count >= n_draws], n_draws


def new_run(model: Model, settings: Settings, conditions: Conditions) -> Run:
    """A run from the beginning; everything that can be wrong is found out before anything runs."""
    moves = resolve(settings.moves, model)
    for chain in range(settings.chains if np.ndim(settings.init) == 2 else 1):
        parse_init(settings.init_of(chain), model)
    kind, chains = state_of(moves), settings.chains
    settings = settings.filled(model.n, clear=settings.draws is None and begins_clear(model, settings.init, kind))
    kept = kind.kept_variables(model)
    keep_alive, store = None, conditions.store
    if store is None and bytes_needed(kept, chains, int(settings.draws or 0), model.n) > MEMORY_BUDGET:
        keep_alive = tempfile.TemporaryDirectory(prefix="maitre-draws-")
        store = Path(keep_alive.name) / "run"
    if store is None:
        recorder: Any = Memory(kept, chains)
    else:
        config = Configuration(model, kind, settings.stored(), settings.public(), moves.exact, conditions.notes)
        recorder = RunFolder.create(store, config, chains, int(settings.draws or 0), conditions.store_data and keep_alive is None, conditions.replacing)
    return Run(model, settings, moves, conditions, recorder, [None] * chains, keep_alive=keep_alive)


def resumed_run(path: Path, draws: int | None, data: Any, conditions: Conditions) -> Run | Posterior:
    """A run that goes on from its last commit; the posterior, if there is nothing left to do."""
    stored = reading(path, data, lambda stored: posterior_of(stored) if _draws_wanted(stored, draws) is None else stored)
    if isinstance(stored, Posterior):
        return stored
    lock = locked(path)  # from here on nobody else writes; what was read before may be old
    try:
        stored = stored.again(data)
        wanted = _draws_wanted(stored, draws)
        if wanted is None:
            lock.close()
            return posterior_of(stored)
        settings = Settings(**(stored.config.settings | {"draws": wanted}))
        moves = resolve(settings.moves, stored.config.model)
        folder, checkpoints = RunFolder.reopen(stored, wanted, lock)
    except BaseException:
        lock.close()
        raise
    return Run(stored.config.model, settings, moves, conditions, folder, checkpoints)


def _draws_wanted(stored: Stored, draws: int | None) -> int | None:
    """How many draws of each chain a run is to have in all; None if there is nothing left to do."""
    if not stored.config.settings:
        raise ValueError(f"{str(stored.path)!r} holds the result of a search or an approximation, not a run of chains: there is nothing to go on with")
    made = [chain.draws for chain in stored.commit.chains]
    wanted = stored.commit.draws if draws is None else draws
    if wanted < max(made):
        raise ValueError(f"draws is {wanted}; the run in {str(stored.path)!r} has made {max(made)} already: give at least as many")
    return None if min(made) >= wanted else wanted


def posterior_of(stored: Stored) -> Posterior:
    """The posterior that a folder holds: the draws committed so far."""
    config, commit = stored.config, stored.commit
    counts = [chain.draws for chain in commit.chains]
    in_burn_in = max(counts) == 0
    if in_burn_in and not commit.outcome.get("stopped_in_burn_in"):
        done, burn_in = max(chain.iteration for chain in commit.chains), config.settings.get("burn_in")
        raise ValueError(f"the run in {str(stored.path)!r} has no draws yet: it has done {done} of {burn_in} iterations of burn-in; go on with mt.resume")
    begun = [number for number, chain in enumerate(commit.chains) if chain.checkpoint is not None]
    which, n_draws = (begun, 1) if in_burn_in else most_complete(counts)
    return posterior_class(config.state)(
        config.model,
        stored.draws(which, n_draws),
        config.public | {"draws": commit.draws, "stopped_in_burn_in": in_burn_in},
        exact=config.exact,
        interrupted=bool(commit.outcome.get("interrupted", n_draws < commit.draws)),
        moves=commit.outcome.get("moves", {}),
        state=config.state,
        checkpoints=stored.checkpoints(),
        numbers=which,
        later={} if in_burn_in else stored.later(which, n_draws),
        chain_settings=config.settings,
        folder=stored.path,
        notes=config.notes,
    )
