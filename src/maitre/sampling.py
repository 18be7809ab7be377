"""`mt.sample`: names become objects here, chains run, and the result is put together."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from maitre.chains.progress import Progress
from maitre.chains.run import run_chain
from maitre.chains.storage import DrawStore
from maitre.data.validation import as_data
from maitre.engines.threads import run_all
from maitre.families import REGISTRY as FAMILIES
from maitre.families.auto import choose_family
from maitre.families.base import ConjugateFamily, Family
from maitre.moves import Composed, Move, resolve
from maitre.moves.gibbs import reseat_points
from maitre.moves.links import relink_points
from maitre.numerics.draw import shuffle
from maitre.numerics.rng import RngState, stream
from maitre.optimize.pipeline import search_labels
from maitre.posterior.posterior import Posterior
from maitre.priors import REGISTRY as PRIORS
from maitre.priors.base import Prior
from maitre.priors.dirichlet_process import DirichletProcess
from maitre.states.clusters import ClusterState
from maitre.states.initial import automatic_starts, initial_labels, new_state, parse_init
from maitre.states.links import LinksState
from maitre.states.mixture import Model

_POINT_UPDATES = 150_000


def sample(
    data: Any,
    family: Family | str | None = None,
    prior: Prior | str | None = None,
    moves: str | Move | Sequence[str | Move] = "auto",
    draws: int | None = None,
    burn_in: int | None = None,
    thin: int = 1,
    chains: int = 4,
    seed: int = 0,
    init: Any = "auto",
    engine: str = "threads",
    store: str | Path | None = None,
    progress: bool = True,
    time_budget: float | None = None,
    threads: int | None = None,
) -> Posterior:
    """Draw partitions of the data from their posterior.

    Parameters
    ----------
    data : array, table or sparse matrix, one row per point.
    family : component model, or its name; by default chosen from the types of the columns (`maitre.families.auto.choose_family`).
    prior : prior over partitions, or its name; by default a Dirichlet process whose concentration is sampled. For points in space or time see
        `maitre.priors.DistanceDependent`.
    moves : names joined by "+", or move objects; "auto" is the best choice for the family.
    draws, burn_in : iterations kept and dropped, per chain; by default 150,000 visits to points each, between 15 and 1000.
    thin : keep every `thin`-th iteration.
    chains : independent chains, run on threads.
    seed : one seed gives the same draws on any number of threads.
    init : "sequential" (points are seated one after the other), "search" (the best clustering of a short `maitre.search`), "one", "singletons", "random:K", "kmeans:K", or one label per point. "auto" makes two sweeps
        from each of "sequential", "sequential" with tighter clusters expected, and "random:100", and goes on from the best: with a diffuse prior the first alone can
        stay at a few clusters for ever.
    engine : "threads" (or "serial": one thread).
    store : a new folder for the draws; without one they stay in memory if they fit in 512 MB, else go to a temporary folder.
    time_budget : seconds, counted from the first iteration, after which sampling stops with the draws made so far (which then depend on the machine's speed).
    threads : how many chains run at once; by default as many as there are cores, or all of them under a time budget.

    Ctrl-C returns the draws made so far; chains that have made far fewer than the others are left out.

    >>> import maitre as mt
    >>> posterior = mt.sample([[0.0], [0.2], [9.0], [9.1]], draws=100, burn_in=100, chains=2, seed=1, progress=False)
    >>> posterior.n_clusters.shape
    (2, 100)
    """
    data = as_data(data)
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed is {seed!r}; expected a whole number of at least 0")
    model = Model.of(data, as_family(family, data), as_prior(prior))
    default = int(np.clip(_POINT_UPDATES // model.n, 15, 1000))
    draws, burn_in = (_count(value, default, name) for value, name in ((draws, "draws"), (burn_in, "burn_in")))
    thin, chains = _count(thin, 1, "thin"), _count(chains, 4, "chains")
    if draws < 1 or thin < 1 or chains < 1:
        raise ValueError(f"draws={draws}, thin={thin}, chains={chains}: each must be at least 1")
    if engine not in ("threads", "serial"):
        raise ValueError(f"unknown engine {engine!r}; expected 'threads' or 'serial'")
    schedules = [resolve(moves, model) for _ in range(chains)]
    streams = [stream(seed, chain) for chain in range(chains)]
    parse_init(init, model)  # an unknown name is an error before anything runs
    names = [*model.prior.hyperpriors(), *(f"family.{name}" for name in model.family.hyperpriors())]
    kept = DrawStore(chains, draws, model.n, names, store)
    stop, clock = Event(), _Clock(time_budget)
    with Progress(chains * (burn_in + draws * thin), progress) as bar:
        runs = [_Chain(model, schedules[c], streams[c], init, kept, c, bar, burn_in, draws, thin, clock) for c in range(chains)]
        n_threads = 1 if engine == "serial" else threads or (chains if time_budget else None)
        _, interrupted = run_all([partial(run, stop) for run in runs], stop, n_threads, bar.poll)
    kept.flush()
    which, n_draws = kept.most_complete()
    stopped_in_burn_in = any(run.stopped_in_burn_in for run in runs)
    settings = {
        "draws": draws,
        "burn_in": burn_in,
        "thin": thin,
        "chains": chains,
        "seed": seed,
        "init": init if isinstance(init, str) else "given labels",
        "moves": str(moves),
    }
    return Posterior(
        model,
        kept.cut(which, n_draws),
        {name: trace[which, :n_draws] for name, trace in kept.traces.items()},
        settings | {"stopped_in_burn_in": stopped_in_burn_in},
        exact=schedules[0].exact,
        interrupted=interrupted or n_draws < draws,
        moves=schedules[which[0]].summary(),
        keep_alive=kept.folder,
    )


class _Chain:
    """One chain, to be called on a thread; stops early when `stop` is set or time is up, with at least one draw."""

    def __init__(
        self,
        model: Model,
        moves: Composed,
        rng: RngState,
        init: Any,
        store: DrawStore,
        number: int,
        bar: Progress,
        burn_in: int,
        draws: int,
        thin: int,
        clock: _Clock,
    ) -> None:
        self.model, self.moves, self.rng, self.init, self.store, self.number, self.bar = model, moves, rng, init, store, number, bar
        self.burn_in, self.draws, self.thin, self.clock = burn_in, draws, thin, clock
        self.stopped_in_burn_in = False

    def __call__(self, stop: Event) -> None:
        if stop.is_set() and self.number > 0:
            return
        state = starting_state(self.model, self.init, self.rng, stop)
        for iteration in run_chain(state, self.moves, self.rng, self.burn_in, self.draws, self.thin):
            if iteration.draw >= 0:
                self.store.keep(self.number, iteration.draw, state)
            self.bar.report(self.number, iteration.number + 1, f"{state.n_clusters} clusters, log joint {state.log_joint:.1f}")
            if stop.is_set() or self.clock.is_up():
                break
        if self.store.n_kept[self.number] == 0:  # stopped during burn-in: what there is, is the present state
            self.store.keep(self.number, 0, state)
            self.stopped_in_burn_in = True


class _Clock:
    """A time budget for all chains together; it starts with the first question, asked after the first iteration, which may have compiled kernels."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.deadline: float | None = None

    def is_up(self) -> bool:
        if self.seconds is None:
            return False
        if self.deadline is None:
            self.deadline = time.monotonic() + self.seconds
        return time.monotonic() > self.deadline


def starting_state(model: Model, init: Any, rng: RngState, stop: Event | None = None) -> ClusterState:
    """The state a chain starts from; "auto" makes two sweeps from each of several starts and keeps the one with the highest log joint."""
    if _is(init, "search"):
        return seated(model, search_labels(model, rng), rng)
    if not _is(init, "auto"):
        return seated(model, initial_labels(init, model, rng), rng)
    conjugate = isinstance(model.family, ConjugateFamily)
    starts = [initial_labels(name, model, rng) for name in automatic_starts(model)]
    tight = model.family.tightened()
    if conjugate and tight is not None:
        expecting_tight_clusters = dataclasses.replace(model, family=tight)
        starts.append(seated(expecting_tight_clusters, starts[0], rng).canonical_labels())
    sweep = resolve("auto", model).shared[0]
    candidates: list[ClusterState] = []
    for labels in starts:
        if candidates and stop is not None and stop.is_set():
            break
        state = seated(model, labels, rng)
        for _ in range(2):
            sweep.step(state, rng)
        candidates.append(state)
    return max(candidates, key=lambda state: state.log_joint)


def _is(value: Any, name: str) -> bool:
    return isinstance(value, str) and value == name


def seated(model: Model, labels: Any, rng: RngState) -> ClusterState:
    """A state with these labels; points labelled −1 are seated one after the other in random order (sequential prediction)."""
    if not isinstance(model.family, ConjugateFamily) and np.any(np.asarray(labels) < 0):
        raise ValueError(
            f"init 'sequential' needs the closed marginals of a conjugate family; {type(model.family).__name__} has none: use init='one' or 'random'"
        )
    state = new_state(model, labels)
    order = np.flatnonzero(state.labels < 0)
    if len(order):
        shuffle(order, rng)
        seat_points = relink_points if isinstance(state, LinksState) else reseat_points
        seat_points(state, order, rng)  # type: ignore[arg-type]
        state.rebuild()
        state.log_joint = state.compute_log_joint()
    return state


def as_family(family: Family | str | None, data: Any) -> Family:
    """A family from an object, a name, or the data."""
    if isinstance(family, Family):
        return family
    if family is None or family == "auto":
        return choose_family(data)
    if isinstance(family, str) and family in FAMILIES and family != "Product":
        return FAMILIES[family]()
    raise ValueError(
        f"unknown family {family!r}; expected 'auto', one of {', '.join(name for name in FAMILIES if name != 'Product')}, or an object such as mt.families.NormalInverseGamma()"
    )


def as_prior(prior: Prior | str | None) -> Prior:
    """A prior from an object or a name; the default is a Dirichlet process with a sampled concentration."""
    if isinstance(prior, Prior):
        return prior
    if prior is None:
        return DirichletProcess()
    if isinstance(prior, str) and prior in PRIORS:
        return PRIORS[prior]()
    if prior == "DistanceDependent":
        raise ValueError("DistanceDependent needs distances: give an object such as mt.priors.DistanceDependent.neighbours(coordinates, k=10)")
    raise ValueError(f"unknown prior {prior!r}; expected one of {', '.join(PRIORS)}, or an object such as mt.priors.DirichletProcess(1.0)")


def _count(value: int | None, default: int, name: str) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or int(value) != value or value < 0:
        raise ValueError(f"{name} is {value!r}; expected a whole number of at least 0")
    return int(value)
