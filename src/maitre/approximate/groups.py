"""Inexact inference for groups with clusters in common: collapsed variational inference over words, and direct assignment on processors that hear of each other between sweeps."""

from __future__ import annotations

from threading import Event
from typing import Any

import numpy as np

from maitre.approximate.assembly import attended, shown
from maitre.approximate.topic_counts import TopicCounts, draw_topics
from maitre.chains.progress import Progress
from maitre.chains.recorder import Memory
from maitre.chains.starts import start, start_of_groups
from maitre.data.groups import GroupedRows, as_groups, counted_words
from maitre.engines import engine_named
from maitre.engines.base import Engine
from maitre.families.base import ConjugateFamily
from maitre.families.slots import copy_slots, with_own_slots
from maitre.families.words import Words
from maitre.model import Model, as_family
from maitre.moves.direct import sweep_points, sweep_words
from maitre.moves.dishes import seated
from maitre.moves.franchise import HELD, Served, draw_weights
from maitre.moves.hyper import FamilyHyperparameters
from maitre.numerics.arguments import number, one_of, truth, whole_number
from maitre.numerics.arrays import Ints
from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.numerics.rng import RngState, split, stream
from maitre.partitions.labels import canonical
from maitre.posterior.groups import GroupPosterior
from maitre.priors.hierarchical import HierarchicalDirichletProcess
from maitre.states.clusters import derive_some
from maitre.states.franchise import FranchiseState

_ONE = Gamma(1.0, 1.0)


def _posterior(model: Model, memory: Memory, kept: int, settings: dict[str, Any], interrupted: bool) -> GroupPosterior:
    public = {"draws": kept, "chains": 1, "burn_in": 0, "stopped_in_burn_in": False} | settings
    return GroupPosterior(model, memory.draws([0], kept), public, exact=False, interrupted=interrupted)


def collapsed_variational_topics(
    counts: Any,
    concentration: float = 0.1,
    top: Hyperparameter = _ONE,
    group: Hyperparameter = _ONE,
    truncation: int = 100,
    iterations: int = 200,
    tolerance: float = 1e-3,
    draws: int = 10,
    seed: int = 0,
    progress: bool = True,
) -> GroupPosterior:
    """Approximate the posterior of topics by collapsed variational inference with means of counts, CVB0 (Teh, Kurihara & Welling 2008). Inexact.

    The result's draws are topics of all words drawn from q, with tables and weights given these.

    Parameters
    ----------
    counts : counts of words (columns) in documents (rows).
    concentration : η of the topics' words, a number.
    top, group : α and γ; with a prior they have a q of their own.
    truncation : the largest number of topics T. Memory is 4 T bytes for every different word of every document.
    iterations, tolerance : at most so many; fewer if q changes by less than `tolerance` on average.

    Ctrl-C returns what has been reached so far.

    >>> import maitre as mt
    >>> topics = mt.approximate.collapsed_variational_topics([[3, 1, 0, 0], [2, 2, 0, 0], [0, 0, 2, 3]], truncation=5, progress=False)
    >>> topics.exact, topics.n_clusters.shape
    (False, (1, 10))
    """
    truncation, iterations = whole_number("truncation", truncation, least=2, most=100_000), whole_number("iterations", iterations, least=1)
    tolerance, draws, seed, show = (
        number("tolerance", tolerance, least=0.0),
        whole_number("draws", draws, least=1),
        whole_number("seed", seed),
        truth("progress", progress),
    )
    matrix, eta = counted_words(counts), number("concentration", concentration, above=0.0)
    model = Model.of(GroupedRows.of_counts(matrix), Words(eta, matrix.shape[1]), HierarchicalDirichletProcess(top, group))

    def work(stop: Event, bar: Progress) -> tuple[TopicCounts, bool]:
        found = TopicCounts(matrix, truncation, eta, top, group, np.random.default_rng(seed))

        def over(done: int, change: float) -> bool:
            bar.report(0, done, f"q changes by {change:.4f}")
            return stop.is_set()

        return found, found.climb(iterations, tolerance, over)

    (found, converged), interrupted = attended(work, iterations, "collapsed variational", show)
    memory, rng, labels = Memory(FranchiseState.kept_variables(model), 1), stream(seed, 1), np.empty(model.n, dtype=np.int64)
    beta, concentrations = np.exp(found.sticks.log_weights), {"top": found.sticks.concentration, "group": found.gamma}
    for place in range(draws):
        draw_topics(matrix.data, found.shares, rng, labels)
        _, first = np.unique(labels, return_index=True)
        weights = beta[labels[np.sort(first)]]
        rest = max(1.0 - float(weights.sum()), 1e-6)
        values = {name: concentrations[name] for name in model.prior.hyperpriors()} | {
            "weights": weights / (weights.sum() + rest),
            "rest": rest / (weights.sum() + rest),
        }
        state = FranchiseState(model, canonical(labels), values=values)
        draw_weights(state, seated(state, rng).served(state), rng, held=True)
        memory.keep(0, place, state.kept())
    settings = {"truncation": truncation, "iterations": iterations, "tolerance": tolerance, "init": "random shares", "seed": seed, "converged": converged}
    return _posterior(model, memory, draws, settings, interrupted)


def synchronous_groups(
    groups: Any,
    family: Any = None,
    top: Hyperparameter = _ONE,
    group: Hyperparameter = _ONE,
    processors: int = 8,
    sweeps: int = 200,
    burn_in: int | None = None,
    align: str = "id",
    init: Any = "random:100",
    seed: int = 0,
    threads: int | None = None,
    progress: bool = True,
) -> GroupPosterior:
    """Sample groups by direct assignment on processors that hear of each other only between sweeps (after Asuncion, Smyth & Welling 2008). Inexact.

    Groups are dealt to processors at the beginning. With one processor it is the exact sampler, and `maitre.sample_groups` the better way to run it.

    Parameters
    ----------
    groups, family, top, group : as in `maitre.sample_groups`.
    processors, sweeps, burn_in, align, init, seed, threads : as in `maitre.approximate.synchronous`.

    >>> import maitre as mt
    >>> hdp = mt.approximate.synchronous_groups([[3, 1, 0, 0], [2, 2, 0, 0], [0, 0, 2, 3]], processors=2, sweeps=20, init="random:3", progress=False)
    >>> hdp.exact, hdp.n_clusters.shape
    (False, (1, 10))
    """
    processors, sweeps = whole_number("processors", processors, least=1, most=100_000), whole_number("sweeps", sweeps, least=1)
    dropped = sweeps // 2 if burn_in is None else whole_number("burn_in", burn_in, most=sweeps - 1)
    align, seed, show = one_of("align", align, ("id", "none")), whole_number("seed", seed), truth("progress", progress)
    rows, engine = as_groups(groups), engine_named("threads", threads)
    init = start_of_groups(init, rows)
    family = Words(n_words=rows.n_words) if family is None and rows.n_words is not None else as_family(family, rows.rows)
    family = family.at({"n_words": rows.n_words}) if isinstance(family, Words) else family
    model = Model.of(rows, family, HierarchicalDirichletProcess(top, group))
    if not isinstance(model.family, ConjugateFamily):
        raise ValueError(f"synchronous_groups needs the closed marginals of a conjugate family; {type(model.family).__name__} has none")
    memory = Memory(FranchiseState.kept_variables(model), 1)

    def work(stop: Event, bar: Progress) -> int:
        state = start(model, init, stream(seed), FranchiseState)
        assert isinstance(state, FranchiseState)
        blocks = [np.sort(block) for block in np.array_split(np.random.default_rng(seed).permutation(state.n_groups), processors) if len(block)]
        kept = 0
        with engine:
            for done in range(1, sweeps + 1):
                rng, held = stream(seed, done), done <= min(HELD, dropped)
                draw_weights(state, sweep_apart(state, blocks, align, engine, rng), rng, held)
                if state.model.family.hyperpriors() and not held:
                    FamilyHyperparameters().step(state, rng)
                last = stop.is_set()
                if done > dropped or last:
                    memory.keep(0, kept, state.kept())
                    kept += 1
                bar.report(0, done, state.status())
                if last:
                    break
        return kept

    kept, interrupted = attended(work, sweeps, "synchronous sweeps", show)
    settings = {"processors": processors, "sweeps": sweeps, "burn_in": dropped, "align": align, "init": shown(init), "seed": seed}
    return _posterior(model, memory, kept, settings, interrupted)


def sweep_apart(state: FranchiseState, blocks: list[Ints], align: str, engine: Engine, rng: RngState) -> Served:
    """One sweep of all processors, each with its groups and its own copy of all clusters; returns the numbers of tables."""
    before = state.sizes.copy()
    lengths = np.diff(state.starts)
    labels = state.labels.astype(np.int32)  # every processor writes to its own groups' part

    def local(work: tuple[Ints, RngState]) -> tuple[Ints, Ints]:
        groups, own = work
        s, sizes, weights, rest = with_own_slots(state.statistics), before.copy(), state.beta.copy(), np.array([state.rest])
        served, in_group, place = np.zeros(len(sizes), dtype=np.int64), np.zeros(state.n_groups, dtype=np.int64), np.zeros(2, dtype=np.int64)
        kernel = sweep_words if isinstance(state.family, Words) and state.compiled else sweep_points
        run = kernel if state.compiled else kernel.python
        while not run(s, groups, state.starts, labels, sizes, weights, rest, served, in_group, float(state.prior.top), state.gammas, place, own):
            s = _with_more_slots(state, s, len(sizes))
            sizes, weights, served = np.append(sizes, 0 * sizes), np.append(weights, 0.0 * weights), np.append(served, 0 * served)
        return served, in_group

    found = engine.map(local, zip(blocks, split(rng, len(blocks)), strict=True))
    width = max(len(served) for served, _ in found)
    existed = np.pad(before > 0, (0, width - len(before)))
    tables: dict[int, int] = {}
    names, in_groups = labels.astype(np.int64), np.zeros(state.n_groups, dtype=np.int64)
    for turn, (groups, (served, in_group)) in enumerate(zip(blocks, found, strict=True)):
        apart = (turn + 1) * width if align == "none" else 0
        mine = np.repeat(np.isin(np.arange(state.n_groups), groups), lengths)
        names[mine] = np.where(existed[names[mine]], names[mine], names[mine] + apart)
        for slot in np.flatnonzero(served):
            name = int(slot if existed[slot] else slot + apart)
            tables[name] = tables.get(name, 0) + int(served[slot])
        in_groups += in_group
    present, merged = np.unique(names, return_inverse=True)
    order = state.seat(merged, np.full(len(present), 1.0 / (len(present) + 1)), 1.0 / (len(present) + 1))
    of_cluster = np.zeros(state.capacity, dtype=np.int64)
    of_cluster[: len(order)] = [tables[int(present[k])] for k in order]
    return Served(of_cluster, in_groups)


def _with_more_slots(state: FranchiseState, s: Any, room: int) -> Any:
    """Twice as many slots, the first of them as they are."""
    if isinstance(state.family, Words):
        return s._replace(seen=np.pad(s.seen.astype(np.float32), ((0, 0), (0, room))), total=np.pad(s.total, (0, room)))
    more = state.family.allocate(state.model.encoded, 2 * room)
    copy_slots(s, more, np.arange(room))
    (derive_some if state.compiled else derive_some.python)(more, np.arange(2 * room))
    return more
