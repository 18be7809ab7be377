"""`mt.sample`, `mt.sample_groups`, `mt.resume` and `mt.load`: assembly only. Names become objects, and the chains run (`maitre.chains`)."""

from __future__ import annotations

import numbers
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from maitre.chains.choice import assembled
from maitre.chains.run import Conditions, new_run, posterior_of, resumed_run
from maitre.chains.settings import Settings, seconds
from maitre.chains.starts import block_by_block, start_of_groups
from maitre.data.groups import GroupedRows, as_groups
from maitre.engines.sharing import ENGINES
from maitre.families.base import Family
from maitre.families.dirichlet_multinomial import DirichletMultinomial
from maitre.families.words import Words
from maitre.model import Model, as_family, rows_of
from maitre.moves import Move
from maitre.moves.registry import named_moves
from maitre.numerics.arguments import one_of, truth, whole_number
from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.posterior.folder import reading
from maitre.posterior.groups import GroupPosterior
from maitre.posterior.posterior import Posterior
from maitre.priors.base import Prior
from maitre.priors.hierarchical import HierarchicalDirichletProcess

_ONE = Gamma(1.0, 1.0)
_LONGER = 5  # times that a run is made twice as long
_VISITS_KEPT, _VISITS_DROPPED = 40_000_000, 200_000_000


def sample(
    data: Any,
    family: Family | str | None = None,
    prior: Prior | str | None = None,
    moves: str | Move | Sequence[str | Move] = "auto",
    draws: int | None = None,
    burn_in: int | None = None,
    thin: int = 1,
    chains: int = 4,
    seed: Any = 0,
    init: Any = "auto",
    engine: str = "threads",
    store: str | Path | None = None,
    progress: bool = True,
    time_budget: float | None = None,
    threads: int | None = None,
    store_data: bool = True,
    until: str | None = None,
    types: Mapping[Any, str] | None = None,
) -> Posterior:
    """Draw partitions of the data from their posterior.

    Parameters
    ----------
    data : array, table or sparse matrix, one row per point, or the path of a file with one. Memory maps, Zarr arrays and large files of numbers stay on disk
        (`maitre.data.blocks`).
    family : component model, or its name; by default chosen from the types of the columns (`maitre.families.auto.choose_family`).
    prior : prior over partitions, or its name; by default a Dirichlet process whose concentration is sampled. For points in space or time see
        `maitre.priors.DistanceDependent`.
    moves : names joined by "+", or move objects; "auto" is the best choice for the family, and "parallel" for 50,000 points or more.
    draws, burn_in : iterations kept and dropped, per chain; by default 1000 draws for up to 150 points, 430 for 350, 170 for 1,800, 30 for 5,000 and 15 for 10,000 and more,
        after half as many (10 to 400). Where a family is chosen and finds clusters that hardly overlap, 10 draws of 5,000 points or more, after 7.
    thin : keep every `thin`-th iteration.
    chains : independent chains, run on threads.
    seed : one seed gives the same draws on any number of threads. A whole number, a NumPy `Generator` to draw it from, or None for another one every time.
    init : "sequential" (points are seated one after the other), "search" (the best clustering of a short `maitre.search`), "one", "singletons", "random:K", "kmeans:K",
        "variational:K" (a short run of `maitre.approximate.variational` with K components), or one label per point. "auto" makes two sweeps
        from each of "sequential", "sequential" with tighter clusters expected, and "random:100", and goes on from the best: with a diffuse prior the first alone can
        stay at a few clusters for ever. The default families for numbers climb from Ward's clusterings instead (`maitre.chains.climbs`).
    engine : "threads" (or "serial": one thread).
    store : a new folder for the run: its configuration, data, draws as they come, and checkpoints. `maitre.load` reads it, also while the run goes on, and `maitre.resume`
        goes on with it. Without one, draws stay in memory if they fit in 512 MB, else go to a temporary folder.
    time_budget : seconds (compilation not counted) after which sampling stops with the draws made so far (how many depends on the machine's speed).
    threads : how many chains run at once; by default as many as there are cores, or all of them under a time budget.
    store_data : whether the folder gets a copy of the data; without one they must be given to `maitre.resume` and `maitre.load`.
    until : "converged" goes on, with twice as many draws each time, until all chains are in one camp with R̂ below 1.05 and 100 effective draws
        (`Posterior.verdict`), or the time budget is up, or 32 times as many draws have been made. Where the first half was too early it is left out.
    types : what some columns are, by name or position: "number", "log" (its logarithm), "count", "category" or "out" (left out). The others are decided from what
        they hold, if no family is given (`maitre.data.columns`); `posterior.model.columns` tells.

    Ctrl-C returns the draws made so far; chains that have made far fewer than the others are left out.

    >>> import maitre as mt
    >>> posterior = mt.sample([[0.0], [0.2], [9.0], [9.1]], draws=100, burn_in=100, chains=2, seed=1, progress=False)
    >>> posterior.n_clusters.shape
    (2, 100)
    """
    settings = Settings(moves, draws, burn_in, thin, chains, seed, init)
    conditions = Conditions(workers(engine, threads), seconds(time_budget), truth("progress", progress), _folder(store), truth("store_data", store_data))
    rows = rows_of(data, family)
    model = assembled(rows, family, prior, on_disk=block_by_block(rows, moves, init), types=types)
    if until is None:
        return sample_model(model, settings, conditions)
    one_of("until", until, ("converged",))
    return sample_until_converged(model, settings, conditions)


def sample_until_converged(model: Model, settings: Settings, conditions: Conditions) -> Posterior:
    """`sample_model`, made longer until the chains agree."""
    began, folder, settings = time.monotonic(), None, settings.filled(model.n)
    if conditions.store is None:
        folder = tempfile.TemporaryDirectory(prefix="maitre-draws-")
        conditions = replace(conditions, store=Path(folder.name) / "run")
    posterior = sample_model(model, settings, conditions)
    for _ in range(_LONGER):
        if posterior.interrupted or _converged(posterior):
            break
        left = None if conditions.time_budget is None else conditions.time_budget - (time.monotonic() - began)
        if left is not None and left <= 0.0:
            break
        following = resumed_run(Path(str(conditions.store)), 2 * posterior.log_joint.shape[1], model.data, replace(conditions, time_budget=left, store=None))
        posterior = following if isinstance(following, Posterior) else following()
    if not posterior.verdict().converged and _converged(posterior):
        posterior = posterior.without_first(posterior.log_joint.shape[1] // 2)
    posterior.keep_alive = folder
    return posterior


def _converged(posterior: Posterior) -> bool:
    """Whether all draws, or those of the later half, are worth reporting."""
    half = posterior.log_joint.shape[1] // 2
    return posterior.verdict().converged or (half >= 4 and posterior.without_first(half).verdict().converged)


def sample_groups(
    groups: Any,
    family: Family | str | None = None,
    top: Hyperparameter = _ONE,
    group: Hyperparameter = _ONE,
    moves: str | Move | Sequence[str | Move] = "direct",
    draws: int | None = None,
    burn_in: int | None = None,
    thin: int = 1,
    chains: int = 2,
    seed: Any = 0,
    init: Any = "auto",
    keep_labels: bool = False,
    own: bool = False,
    engine: str = "threads",
    store: str | Path | None = None,
    progress: bool = True,
    time_budget: float | None = None,
    threads: int | None = None,
    store_data: bool = True,
) -> GroupPosterior:
    """Draw clusters that groups have in common (a hierarchical Dirichlet process): topics of documents, types of cells in patients.

    Parameters
    ----------
    groups : counts of words (columns) in documents (rows), sparse or dense; or a pair (data, group of each point) for any family.
    family : component model of the points of a pair, as in `maitre.sample`; of words `Words(concentration)` or `DirichletMultinomial(concentration)`, by default with a
        concentration that is sampled.
    top, group : the concentrations α of the common measure and γ of the groups around it; numbers are fixed, priors are sampled (by default Gamma(1, 1)).
    moves : "direct" (the fastest on one core), "documents" (all groups at once, on several threads), "tables" (the Chinese restaurant franchise), or
        `maitre.moves.Superclusters` (clusters dealt to virtual processors).
    draws, burn_in : iterations kept and dropped, per chain; by default 40 million and 200 million visits to points, between 20 or 50 and 1000 iterations.
    init : "auto" puts words into topics at random, half as many as there are documents, at most 800: few topics are hard to part later, and many merge by themselves. Other
        points begin in the clusters that `maitre.sample` would begin with if they were one group, or those of k-means. Otherwise "one", "kmeans:K" (of
        words: k-means of documents, all words of one in its cluster), "random:K", or one label per point (words: document by document, by word within a document).
    keep_labels : whether draws keep the cluster of every point.
    own : whether every group has a γ of its own, with the prior `group`; else they have one in common.
    thin, chains, seed, engine, store, progress, time_budget, threads, store_data : as in `maitre.sample`.

    >>> import maitre as mt
    >>> hdp = mt.sample_groups([[3, 1, 0, 0], [2, 2, 0, 0], [0, 0, 2, 3]], draws=10, burn_in=10, progress=False)
    >>> hdp.n_clusters.shape
    (2, 10)
    """
    rows = as_groups(groups)
    settings = group_settings(rows, moves, draws, burn_in, thin, chains, seed, init, keep_labels)
    conditions = Conditions(workers(engine, threads), seconds(time_budget), truth("progress", progress), _folder(store), truth("store_data", store_data))
    return cast(GroupPosterior, sample_model(group_model(rows, family, top, group, own), settings, conditions))


def group_model(rows: GroupedRows, family: Any, top: Hyperparameter = _ONE, group: Hyperparameter = _ONE, own: bool = False) -> Model:
    """The model of points in groups."""
    family = as_family(family, rows.rows) if rows.n_words is None else _of_words(family, rows.n_words)
    return Model.of(rows, family, HierarchicalDirichletProcess(top, group, own))


def group_settings(
    rows: GroupedRows,
    moves: Any = "direct",
    draws: int | None = None,
    burn_in: int | None = None,
    thin: int = 1,
    chains: int = 2,
    seed: int = 0,
    init: Any = "auto",
    keep_labels: bool = False,
) -> Settings:
    """The settings of `sample_groups`, with what was left open filled in."""
    moves = "direct" if isinstance(moves, str) and moves.strip() == "auto" else moves
    if truth("keep_labels", keep_labels):
        parts = [(move, move.options()) for move in named_moves(moves)]
        moves = [type(move)(**(options | {"keep_labels": True})) if "keep_labels" in options else move for move, options in parts]
    if not isinstance(init, str) and rows.order is not None and np.shape(init) == (rows.n,):
        init = np.asarray(init)[rows.order]
    return Settings(
        moves,
        int(np.clip(_VISITS_KEPT // rows.n, 20, 1000)) if draws is None else draws,
        int(np.clip(_VISITS_DROPPED // rows.n, 50, 1000)) if burn_in is None else burn_in,
        thin,
        chains,
        seed,
        start_of_groups(init, rows),
    )


def _of_words(family: Any, n_words: int) -> Words:
    """The family of the words of a corpus."""
    if family is None or (isinstance(family, str) and family in ("auto", "Words", "DirichletMultinomial")):
        return Words(n_words=n_words)
    if isinstance(family, Words) and family.n_words in (None, n_words):
        return family.at({"n_words": n_words})
    if isinstance(family, DirichletMultinomial):
        if isinstance(family.concentration, (numbers.Real, Gamma)):
            return Words(family.concentration, n_words)  # type: ignore[arg-type]
        raise ValueError("words of topics have one concentration in common: give a number, or a prior such as mt.Gamma(1, 10)")
    raise ValueError(
        f"the family of {n_words} words is {family!r}; expected mt.families.Words(concentration), or a pair (data, group of each point) for other families"
    )


def sample_model(model: Model, settings: Settings, conditions: Conditions) -> Posterior:
    """`sample` for a model that is put together already."""
    return new_run(model, settings, conditions)()


def resume(
    path: str | Path,
    draws: int | None = None,
    data: Any = None,
    progress: bool = True,
    time_budget: float | None = None,
    threads: int | None = None,
    engine: str = "threads",
) -> Posterior:
    """Go on with a run that was interrupted, killed, or is to be longer; its draws are the same, bit for bit, as if it had never stopped.

    Parameters
    ----------
    path : the folder given as `store`, or written by `Posterior.save` or `maitre fit`.
    draws : so many draws of each chain in all; by default as many as were asked for.
    data : the data, if the folder has none.
    progress, time_budget, threads, engine : as in `maitre.sample`.

    >>> import maitre as mt, tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> posterior = mt.sample([[0.0], [0.2], [9.0], [9.1]], draws=10, burn_in=10, chains=2, store=folder, progress=False)
    >>> mt.resume(folder, draws=30, progress=False).labels.shape
    (2, 30, 4)
    """
    total = None if draws is None else whole_number("draws", draws, least=1, most=10**12)
    conditions = Conditions(workers(engine, threads), seconds(time_budget), truth("progress", progress))
    run = resumed_run(_existing(path), total, data, conditions)
    return run if isinstance(run, Posterior) else run()


def load(path: str | Path, data: Any = None) -> Posterior:
    """Read a result that `Posterior.save` or a run with `store` wrote, also while the run goes on; draws are read from disk as they are asked for.

    `data` are needed only if the folder has none. Whatever is damaged is an error, never a wrong value; nothing that a folder brings along is run.

    >>> import maitre as mt, tempfile, os
    >>> posterior = mt.sample([[0.0], [0.1], [5.0]], draws=5, burn_in=5, chains=1, seed=0, progress=False)
    >>> folder = os.path.join(tempfile.mkdtemp(), "result")
    >>> posterior.save(folder)
    >>> bool((mt.load(folder).labels[0] == posterior.labels[0]).all())
    True
    """
    return reading(_existing(path), data, posterior_of)


def workers(engine: Any, threads: Any) -> int | None:
    """How many chains run at once, as asked for; None leaves it to the machine."""
    one_of("engine", engine, ENGINES)
    at_once = None if threads is None else whole_number("threads", threads, least=1, most=4096)
    return 1 if engine == "serial" else at_once


def _existing(path: Any) -> Path:
    if isinstance(path, (str, os.PathLike)):
        return Path(path)
    raise ValueError(f"path is {path!r}; expected the name of a folder that mt.sample(store=…), Posterior.save or `maitre fit` wrote")


def _folder(store: Any) -> Path | None:
    if store is None or isinstance(store, (str, Path)):
        return None if store is None else Path(store)
    raise ValueError(f"store is {store!r}; expected the name of a new folder")
