"""Where a chain starts: labels by name, or as given, and a state with them."""

from __future__ import annotations

import dataclasses
from threading import Event
from typing import Any

import numpy as np

from maitre.chains.climbs import climbed, worth
from maitre.chains.k_means import k_means
from maitre.data.groups import GroupedRows
from maitre.data.rows import BlockRows, Rows
from maitre.families.base import ConjugateFamily
from maitre.model import Model
from maitre.moves import REGISTRY, Move, resolve, stay_on_disk
from maitre.numerics.arrays import Ints
from maitre.numerics.draw import fill_below, shuffle
from maitre.numerics.rng import RngState
from maitre.optimize.ascent import ascend_hyperparameters
from maitre.optimize.pipeline import search_labels
from maitre.partitions.labels import canonical, renumber
from maitre.priors.base import GibbsTypePrior
from maitre.priors.dirichlet_process import DirichletProcess
from maitre.states import state_for
from maitre.states.base import State
from maitre.states.franchise import FranchiseState
from maitre.states.mixture import MixtureState

NAMES = ("auto", "sequential", "search", "one", "singletons", "random", "kmeans", "variational")
_DEFAULT_CLUSTERS = {"random": 100, "kmeans": 20, "variational": 50}
_MOST_TOPICS = 800  # that words start in
_CLIMB = {"iterations": 30, "tolerance": 1e-3}  # of a variational start


def parse_init(init: Any, model: Model) -> tuple[str, int]:
    """The name of an initialisation and its number of clusters, or a `ValueError`; labels given as such are called "given"."""
    most = most_clusters(model)
    if not isinstance(init, str):
        return "given", int(_given(init, model, most).max()) + 1
    name, _, number = init.partition(":")
    if name not in NAMES or (number and (name not in _DEFAULT_CLUSTERS or not (number.isascii() and number.isdigit()) or int(number) < 1)):
        raise ValueError(
            f"unknown init {init!r}; expected one of {', '.join(NAMES)} ('random', 'kmeans' and 'variational' take a number of clusters, as in 'random:50'), or a label vector"
        )
    if not model.in_memory and looks_at_all_points(init):
        raise ValueError(f"init {name!r} needs all points in memory, and the data stay on disk: use 'one'")
    if name == "singletons" and most < model.n:
        raise ValueError(f"init 'singletons' has {model.n} clusters; {type(model.prior).__name__} allows at most {most}: use 'sequential'")
    if name == "variational":
        from maitre.approximate.assembly import check_weights  # that package starts from here, too

        check_weights("init 'variational'", model)
    return name, min(int(number) if number else _DEFAULT_CLUSTERS.get(name, 1), model.n, most)


def looks_at_all_points(init: Any) -> bool:
    """Whether a start needs all points, encoded, in memory."""
    return isinstance(init, str) and init.partition(":")[0] not in ("auto", "one", "singletons", "random")


def _means_clusters(init: Any) -> bool:
    """Whether the labels of a start are found in the data or given, not drawn or all alike."""
    return not isinstance(init, str) or init.partition(":")[0] in ("search", "kmeans", "variational")


def block_by_block(rows: Rows, moves: Any, init: Any) -> bool:
    """Whether points may be read block by block: the moves can, and so can the start (of data on disk it has to)."""
    return stay_on_disk(moves, rows.n) and (isinstance(rows, BlockRows) or not looks_at_all_points(init))


def _given(init: Any, model: Model, most: int) -> Ints:
    expected = f"give one label per point, or one of {', '.join(NAMES)}"
    try:
        labels = canonical(init)
        if np.asarray(init).dtype.kind == "f" and not np.isfinite(init).all():
            raise ValueError("labels that are no numbers")
    except (TypeError, ValueError):
        raise ValueError(f"init is {type(init).__name__} and no vector of labels: {expected}") from None
    if len(labels) != model.n:
        raise ValueError(f"init has {len(labels)} labels for {model.n} points: {expected}")
    if labels.max() >= most:
        raise ValueError(f"init has {labels.max() + 1} clusters; {type(model.prior).__name__} allows at most {most}")
    return labels


def start_of_groups(init: Any, groups: GroupedRows) -> Any:
    """Words start, unless it is said where, in topics at random, half as many as documents: few topics are hard to part later, and many merge by themselves."""
    if not (isinstance(init, str) and init == "auto") or groups.n_words is None:
        return init
    return f"random:{min(max(groups.n_groups // 2, 10), _MOST_TOPICS)}"


def initial_labels(init: Any, model: Model, rng: RngState) -> Ints:
    """Labels of all points; −1 for points that sequential prediction has yet to seat.

    `init` is "sequential", "search", "one", "singletons", "random" or "random:K", "kmeans" or "kmeans:K", "variational" or "variational:K", or one label
    per point.
    """
    name, n_clusters = parse_init(init, model)
    if name == "given":
        return canonical(init)
    if name == "sequential":
        return np.full(model.n, -1, dtype=np.int64)
    if name == "search":
        return search_labels(model, rng)
    if name == "one":
        return np.broadcast_to(np.int32(0), model.n)  # type: ignore[return-value]  # which takes no memory
    if name == "singletons":
        return np.arange(model.n)
    if name == "random":
        labels: Any = np.empty(model.n, dtype=np.uint16 if n_clusters <= 1 << 16 else np.int32)
        fill_below(labels, n_clusters, rng)
        renumber(labels, n_clusters)
        return labels  # type: ignore[no-any-return]
    start_from = _k_means(model, n_clusters, rng)
    return start_from if name == "kmeans" else _variational(model, start_from, n_clusters, rng)


def most_clusters(model: Model) -> int:
    """The largest number of clusters to which the prior gives a positive probability."""
    prior = model.prior.at_prior_means()
    if not isinstance(prior, GibbsTypePrior):
        return model.n
    low, high = 1, model.n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if np.isfinite(prior.log_v(model.n, np.array([middle]))[0]) else (low, middle)
    return low


def _k_means(model: Model, n_clusters: int, rng: RngState) -> Ints:
    """k-means on the family's vectors, or on the frequencies of words in documents, whose words then are all in one cluster."""
    if isinstance(model.data, GroupedRows) and model.data.n_words is not None:
        return np.repeat(k_means(model.data.frequencies(), n_clusters, rng).astype(np.min_scalar_type(n_clusters)), np.diff(model.data.starts))
    return canonical(k_means(model.vectors, n_clusters, rng))


def _variational(model: Model, labels: Ints, truncation: int, rng: RngState) -> Ints:
    """The most probable component of each point after a short run of mean-field variational inference, under a Dirichlet process whatever the prior."""
    from maitre.approximate.mean_field import MeanField

    prior = model.prior if isinstance(model.prior, DirichletProcess) else DirichletProcess()
    field = MeanField(dataclasses.replace(model, prior=prior), labels, truncation)
    field.climb(**_CLIMB)  # type: ignore[arg-type]
    return canonical(field.most_probable(rng))


def seated(model: Model, labels: Any, rng: RngState, kind: type[State] | None = None) -> State:
    """A state with these labels; points labelled −1 are seated one after the other in random order (sequential prediction)."""
    kind = kind or state_for(model.prior)
    waiting = np.flatnonzero(np.asarray(labels) < 0)
    if len(waiting) and (kind.SEATED_BY is None or not isinstance(model.family, ConjugateFamily)):
        raise ValueError(
            f"init 'sequential' needs the closed marginals of a conjugate family; {type(model.family).__name__} has none: use init='one' or 'random'"
        )
    state = kind.of_labels(model, labels)
    if len(waiting):
        shuffle(waiting, rng)
        REGISTRY[str(kind.SEATED_BY)]().seat(state, waiting, rng)  # type: ignore[attr-defined]
        state.commit()
    return state


def start(
    model: Model, init: Any, rng: RngState, kind: type[State] | None = None, stop: Event | None = None, starts: tuple[str, ...] = (), number: int = 0
) -> State:
    """The state a chain starts from; "auto" makes two sweeps from each of several starts and keeps the best, by log joint and entropy of the labels.

    `starts` names them if the moves have a say; a single one needs no sweeps. `number` is that of the chain, where starts do not differ by chance alone.
    """
    kind = kind or state_for(model.prior)
    if not (isinstance(init, str) and init == "auto"):
        state = seated(model, initial_labels(init, model, rng), rng, kind)
        if _climbs(model, kind) and _means_clusters(init):
            ascend_hyperparameters(state, rounds=1)  # type: ignore[arg-type]  # with clusters as wide as the data expected, the first sweep would forget them
        return state
    if _climbs(model, kind):
        return climbed(model, _sweep(model, kind), rng, stop, number)
    if issubclass(kind, FranchiseState) and model.in_memory and model.family.climbs():
        return _as_if_one_group(model, kind, rng, stop, number)
    starts = starts or kind.STARTS
    sweep = _sweep(model, kind) if kind is state_for(model.prior) and len(starts) > 1 else None
    candidates: list[State] = []
    for labels in _automatic_labels(model, kind, starts, rng):
        if candidates and stop is not None and stop.is_set():
            break
        state = seated(model, labels, rng, kind)
        for _ in range(2 if sweep is not None else 0):
            sweep.step(state, rng)  # type: ignore[union-attr]
        candidates.append(state)
    return max(candidates, key=_worth) if len(candidates) > 1 else candidates[0]


def begins_clear(model: Model, init: Any, kind: type[State]) -> bool:
    """Whether chains begin with clusters that hardly overlap, as far as is known from some of the points, by which the family was chosen."""
    return isinstance(init, str) and init == "auto" and _climbs(model, kind) and model.starts.found is not None and bool(model.starts.found.clear)


def _climbs(model: Model, kind: type[State]) -> bool:
    return kind is MixtureState and model.in_memory and model.family.climbs()


def _as_if_one_group(model: Model, kind: type[FranchiseState], rng: RngState, stop: Event | None, number: int) -> State:
    """Points of groups in the clusters, with the family's hyper-parameters, from which a mixture of all of them would start."""
    mixture = model.exchangeable
    found = climbed(mixture, _sweep(mixture, MixtureState), rng, stop, number)
    values = {name: value for name, value in found.variables().items() if name.startswith("family.")}
    return kind.of_variables(model, kind.of_labels(model, found.canonical_labels()).variables() | values)


def _worth(state: State) -> float:
    return worth(state) if isinstance(state, MixtureState) and state.collapsed else state.log_joint


def _sweep(model: Model, kind: type[State]) -> Move:
    """The move by which starts are compared."""
    seating = kind.SEATED_BY if isinstance(model.family, ConjugateFamily) else None
    return resolve("auto" if seating is None else seating, model).shared[0]


def _automatic_labels(model: Model, kind: type[State], starts: tuple[str, ...], rng: RngState) -> list[Ints]:
    """The starts that "auto" tries: one that ends with few clusters, one with tighter clusters expected, one with many."""
    conjugate = isinstance(model.family, ConjugateFamily)
    names = list(dict.fromkeys("one" if name == "sequential" and not conjugate else name for name in starts))
    labels = [initial_labels(name, model, rng) for name in names if name != "tight"]
    tight = model.family.tightened() if "tight" in names and conjugate else None
    if tight is not None:
        labels.append(seated(dataclasses.replace(model, family=tight), labels[0], rng, kind).canonical_labels())
    return labels
