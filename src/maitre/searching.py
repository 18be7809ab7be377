"""`mt.search`: the most probable partition, found directly rather than by sampling (Daumé 2007), and made better from there."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import numpy as np

from maitre.chains.choice import assembled
from maitre.chains.progress import Progress
from maitre.chains.settings import seconds
from maitre.engines.threads import run_all
from maitre.families.base import ConjugateFamily, Family
from maitre.families.statistics import mergeable
from maitre.model import Model
from maitre.numerics.arguments import as_seed, one_of, truth, whole_number
from maitre.numerics.arrays import Ints
from maitre.numerics.lanes import one_thread_per_product
from maitre.numerics.rng import stream
from maitre.optimize.pipeline import ROUNDS, Outcome, Plan, Search, Stage, warm_up
from maitre.optimize.scores import ORDERS, SCORES, has_bounds
from maitre.posterior.posterior import Posterior
from maitre.priors.base import GibbsTypePrior, Prior
from maitre.states.mixture import MixtureState

QUEUES = ("best-first", "level")
_MOST_RESTARTS = 1_000_000


@dataclass
class Found:
    """What a search has found.

    `optimal` is true if it is proven that no partition has a higher log joint: an admissible score, nothing dropped, nothing re-estimated. `complete` is false if the search
    was stopped by Ctrl-C or a time budget before its end: the points left were then seated greedily. `popped`, `pushed` and `dropped` count entries of the queue.
    `stages` tells what each part of the work reached, in CPU seconds since the beginning.

    >>> import maitre as mt
    >>> found = mt.search([[0.0], [0.1], [0.2], [0.3], [9.0], [9.1], [9.2], [9.3]], prior=mt.priors.DirichletProcess(1.0), progress=False)
    >>> found.labels
    array([0, 0, 0, 0, 1, 1, 1, 1])
    """

    model: Model
    labels: Ints
    log_joint: float
    log_likelihood: float
    hyperparameters: dict[str, Any]  # numbers and, of some families, arrays
    optimal: bool
    complete: bool
    popped: int
    pushed: int
    dropped: int
    order: str
    stages: list[Stage]
    settings: dict[str, Any]

    @property
    def n_clusters(self) -> int:
        """K."""
        return int(self.labels.max()) + 1

    def as_posterior(self) -> Posterior:
        """The partition as a posterior of a single draw, which can predict and be saved; it is not a draw, so `exact` is false."""
        traces = {"log_joint": self.log_joint, "n_clusters": float(self.n_clusters), **self.hyperparameters}
        draws = {name: np.array([[value]]) for name, value in traces.items()} | {"labels": self.labels[None, None].astype(np.int32)}
        return Posterior(self.model, draws, self.settings, exact=False, interrupted=not self.complete)

    def summary(self) -> str:
        """A few lines to read."""
        sizes = np.sort(np.bincount(self.labels))[::-1]
        proof = "proven to be the most probable partition" if self.optimal else "not proven to be the best"
        lines = [
            f"{len(self.labels)} points in {self.n_clusters} clusters of sizes {', '.join(map(str, sizes[:20]))}{' …' if len(sizes) > 20 else ''}",
            f"log joint {self.log_joint:.2f}, {proof}; order {self.order}, {self.popped} entries popped, {self.pushed} pushed, {self.dropped} dropped",
        ]
        lines += [f"{stage.name:>16}: log joint {stage.log_joint:.2f}, {stage.n_clusters} clusters, {stage.seconds:.2f} s" for stage in self.stages]
        lines += [f"{name:>16}: {value:.4g}" for name, value in self.hyperparameters.items() if np.ndim(value) == 0]
        return "\n".join(lines if self.complete else [*lines, "stopped early: points that had no seat were seated greedily"])


def search(
    data: Any,
    family: Family | str | None = None,
    prior: Prior | str | None = None,
    beam: int | None = 100,
    score: str = "inadmissible",
    order: str | Sequence[str] = "marginal",
    seed: Any = 0,
    queue: str = "best-first",
    diversity: int = 10,
    restarts: int = 0,
    refine: bool = False,
    rounds: int | None = None,
    time_budget: float | None = None,
    progress: bool = True,
    types: Mapping[Any, str] | None = None,
) -> Found:
    """Find a partition of the data with as high a log joint as possible.

    Without `refine` this is the search of Daumé (2007): clusterings of the first points of an order are extended by the next point, the most promising first. It takes one
    pass over the data. With `refine` its result is improved for as long as you like; that beats any sampler at the same time.

    Parameters
    ----------
    data, family, prior : as in `maitre.sample`; the family must be conjugate. A hyper-parameter that carries a prior is set to its most probable value, search and
        ascent in turn.
    beam : how many partial clusterings are kept; None keeps all (with an admissible score the answer is then proven, but the work may grow exponentially).
    score : "inadmissible" (fast), or the admissible "trivial" and "tight".
    order : in which order points are seated: "marginal" (the least probable first), "reverse", "random", "given", or several of them, of which the best result is taken.
    seed : for random orders and refinement; one seed gives the same result, unless time runs out.
    queue : "best-first", or "level": the best partial clusterings of each length advance together.
    diversity : for "level": entries compete only if their numbers of clusters are equal modulo this, so that several numbers stay in play.
    restarts : so many random orders more.
    refine : climb from the result by moving points, splitting and merging clusters, then anneal all of it, then parts of it again and again.
    rounds : so many parts; by default 100, or as many as there is time for.
    time_budget : seconds (compilation not counted) after which the best so far is returned.
    types : what some columns are, as in `maitre.sample`.

    Ctrl-C also returns the best so far, flagged as not `complete`.

    >>> import maitre as mt
    >>> family, prior = mt.families.NormalInverseGamma(), mt.priors.DirichletProcess(1.0)
    >>> found = mt.search([[0.0], [0.2], [9.0], [9.1]], family, prior, score="tight", beam=None, progress=False)
    >>> found.labels, found.optimal
    (array([0, 0, 1, 1]), True)
    """
    seed, show = as_seed(seed), truth("progress", progress)
    budget = seconds(time_budget)
    rounds = None if rounds is None else whole_number("rounds", rounds)
    plan = Plan(
        None if beam is None else whole_number("beam", beam, least=1),
        one_of("score", score, SCORES),
        one_of("queue", queue, QUEUES),
        _orders(order, whole_number("restarts", restarts, most=_MOST_RESTARTS)),
        whole_number("diversity", diversity, least=1),
        truth("refine", refine),
        rounds if rounds is not None or budget is not None else ROUNDS,
    )
    model = assembled(data, family, prior, types=types)
    _check(model, plan)
    settings = {
        "beam": plan.beam,
        "score": plan.score,
        "order": list(plan.orders),
        "seed": seed,
        "queue": plan.queue,
        "refine": plan.refine,
        "rounds": rounds,
        "time_budget": budget,
    }
    stop = Event()
    with Progress(100, show, "searching") as bar, one_thread_per_product():
        results, interrupted = run_all([partial(_run, model, plan, seed, stop, budget, bar)], stop, 1, bar.poll)
    outcome: Outcome = results[0]
    outcome.complete = outcome.complete and not interrupted
    return _found(model, outcome, settings)


def _orders(order: Any, restarts: int) -> tuple[str, ...]:
    """The orders to try, by name, and a random one for every restart.

    >>> _orders(["marginal", "given"], 1)
    ('marginal', 'given', 'random')
    """
    names = order if isinstance(order, (list, tuple)) and len(order) else [order]
    return (*(one_of("order", name, ORDERS) for name in names), *["random"] * restarts)


def _run(model: Model, plan: Plan, seed: int, stop: Event, seconds: float | None, bar: Progress) -> Outcome:
    rng = stream(seed)
    warm_up(model, plan, stream(seed, 1))
    began = time.monotonic()

    def over() -> bool:
        return stop.is_set() or (seconds is not None and time.monotonic() - began > seconds)

    def watch(share: float, note: str) -> None:
        done = share if share == share else min(1.0, (time.monotonic() - began) / (seconds or 1.0))  # without a number of rounds: the share of the time
        bar.report(0, int(100 * done), note)

    return Search(model, plan, rng, over, watch)()


def _found(model: Model, outcome: Outcome, settings: dict[str, Any]) -> Found:
    state, counts = outcome.state, outcome.counts
    return Found(
        model,
        state.canonical_labels(),
        state.log_joint,
        state.log_likelihood(),
        state.hypervariables,
        outcome.proven,
        outcome.complete,
        counts["popped"],
        counts["pushed"],
        counts["dropped"],
        outcome.order,
        outcome.stages,
        settings,
    )


def _check(model: Model, plan: Plan) -> None:
    """A `ValueError` if this model cannot be searched as planned."""
    if not isinstance(model.prior, GibbsTypePrior):
        raise ValueError(f"search is for priors of partitions, not of links: {type(model.prior).__name__} needs mt.sample")
    name, statistics = type(model.family).__name__, MixtureState(model, np.zeros(model.n, dtype=np.int64)).statistics
    if not isinstance(model.family, ConjugateFamily):
        raise ValueError(f"search needs the closed marginals of a conjugate family; {name} has none: use mt.sample with moves='auxiliary'")
    if plan.queue == "level":
        if plan.score != "inadmissible":
            raise ValueError(
                "queue='level' compares entries of equal length only, for which the points to come count the same: leave out score, or use queue='best-first'"
            )
        if plan.beam is None:
            raise ValueError("queue='level' needs a beam: give a number, or use queue='best-first'")
        if not mergeable(statistics):
            raise ValueError(f"queue='level' needs the function merge of the family's statistics, and {name} has none: write it, or use queue='best-first'")
    if plan.score != "inadmissible" and not has_bounds(statistics):
        raise ValueError(
            f"score={plan.score!r} needs the function log_bound of the family's statistics, and {name} has none: write it, or use score='inadmissible'"
        )
