"""From a model to its most probable clustering: search with a queue, complete, re-estimate hyper-parameters, refine."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from maitre.families.base import ConjugateFamily
from maitre.families.statistics import mergeable
from maitre.model import Model
from maitre.moves.climber import Climber
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.rng import RngState
from maitre.optimize.ascent import ascend_hyperparameters
from maitre.optimize.best_first import BestFirst
from maitre.optimize.level import Level
from maitre.optimize.refine import climb, kept_if_better, neighbourhood, reheat, reseat_tempered, shake, try_merges, try_splits
from maitre.optimize.scores import log_marginals, ordered, remainders
from maitre.priors.base import GibbsTypePrior
from maitre.priors.dirichlet_process import DirichletProcess
from maitre.states.mixture import MixtureState

ROUNDS = 100  # shakes if neither a number nor a time is given
_WORK = 200_000  # predictive evaluations between two looks at the clock
_OUTER = 5  # searches with re-estimated hyper-parameters
_ASCEND_EVERY = 20
_HOT = 0.1  # power at which a reheat of everything begins
_LOWEST = (0.05, 0.1, 0.2)  # powers at which a shake begins, in turn
_NEIGHBOURS = (3, 5, 8, 4)  # clusters that are shaken together, in turn


@dataclass(frozen=True)
class Plan:
    """What to do: the queue and its settings, the orders to try, and how far to refine."""

    beam: int | None = 100
    score: str = "inadmissible"
    queue: str = "best-first"
    orders: tuple[str, ...] = ("marginal",)
    diversity: int = 10
    refine: bool = False
    rounds: int | None = None  # None: as many as there is time for


class Stage(NamedTuple):
    """Where a search was after one of its parts; `seconds` are CPU seconds of this process since it began."""

    name: str
    log_joint: float
    n_clusters: int
    seconds: float


@dataclass
class Outcome:
    """The clustering found, with the trail that led there."""

    state: MixtureState
    order: str
    counts: dict[str, int]
    complete: bool = True
    proven: bool = False
    stages: list[Stage] = field(default_factory=list)


Watch = Callable[[float, str], None]


class Search:
    """One search, run by calling it. `stop()` is asked often; `watch` is told the share of the work done and what there is to say."""

    def __init__(self, model: Model, plan: Plan, rng: RngState, stop: Callable[[], bool], watch: Watch) -> None:
        self.model, self.plan, self.rng, self.stop, self.watch = model, plan, rng, stop, watch
        self.began = time.process_time()

    def __call__(self) -> Outcome:
        like = self._empty_state({})
        if like.hypervariables:
            outcome = self._best_of_places(like)
        else:
            outcome = self._best_of_orders(like)
            self._note(outcome, "search")
            admissible = self.plan.queue == "level" or self.plan.score != "inadmissible"  # a level search that has dropped nothing has seen every partition
            outcome.proven = admissible and outcome.complete and outcome.counts["dropped"] == 0
        if self.plan.refine and not outcome.proven and not self.stop():
            self._refine(outcome)
        return outcome

    def _best_of_places(self, like: MixtureState) -> Outcome:
        """Searches that begin at the prior's means of the hyper-parameters and, where clusters may look very different, at others."""
        best: Outcome | None = None
        for place in ({}, *self.model.family.places_to_search(self.model.encoded)):
            if best is not None and self.stop():
                best.complete = False
                break
            outcome = self._best_of_orders(self._empty_state({f"family.{name}": value for name, value in place.items()}) if place else like)
            self._note(outcome, "search")
            outcome = self._with_hyperparameters(outcome)
            best = outcome if best is None or outcome.state.log_joint > best.state.log_joint else best
        assert best is not None
        return best

    def _note(self, outcome: Outcome, name: str) -> None:
        outcome.stages.append(Stage(name, outcome.state.log_joint, outcome.state.n_clusters, time.process_time() - self.began))

    def _empty_state(self, values: dict[str, Any]) -> MixtureState:
        """A state without points at these values of the hyper-parameters."""
        return MixtureState(self.model, np.full(self.model.n, -1), values=values)

    # -- search ---------------------------------------------------------------------------------------------------------------------------

    def _best_of_orders(self, like: MixtureState) -> Outcome:
        log_marginal = log_marginals(like)
        outcomes: list[Outcome] = []
        for number, name in enumerate(self.plan.orders):
            if outcomes and self.stop():
                break
            outcomes.append(self._one_order(like, name, log_marginal, number / len(self.plan.orders)))
        best = max(outcomes, key=lambda outcome: outcome.state.log_joint)
        best.complete = best.complete and len(outcomes) == len(self.plan.orders)
        return best

    def _one_order(self, like: MixtureState, name: str, log_marginal: Floats, done: float) -> Outcome:
        plan, n = self.plan, self.model.n
        order = ordered(name, log_marginal, self.rng)
        state = self._empty_state(like.hypervariables)
        under_way: BestFirst | Level
        if plan.queue == "level":
            under_way = Level(state, order, log_marginal, plan.beam or 1, min(plan.diversity, plan.beam or 1))
            step = _WORK // (20 * (plan.beam or 1)) + 1
        else:
            under_way = BestFirst(state, order, remainders(state, plan.score, order, log_marginal), plan.beam, plan.score)
            step = _WORK // (20 * n if plan.score == "tight" else 20) + 1
        complete = under_way.advance(step)
        while not complete and not self.stop():
            share = (1.0 if not plan.refine else 0.2) * (done + under_way.depth / n / len(plan.orders))
            queued, score = under_way.outlook
            self.watch(share, f"{under_way.depth} points seated, {queued:,} entries in the queue, best score {score:.1f}")
            complete = under_way.advance(step)
        return Outcome(self._completed(like, under_way.labels), name, under_way.counts, complete)

    def _completed(self, like: MixtureState, labels: Ints) -> MixtureState:
        """A state with these labels; points without a seat get the best one, one after the other."""
        state = self._empty_state(like.hypervariables)
        state.seat(labels)
        waiting = np.flatnonzero(labels < 0)
        if len(waiting):
            reseat_tempered(state, waiting, np.inf, self.rng)
            state.seat(state.labels)
        return state

    def _with_hyperparameters(self, outcome: Outcome) -> Outcome:
        """Search and ascent in turn while the log joint rises (the outer loop)."""
        ascend_hyperparameters(outcome.state)
        self._note(outcome, "hyper-parameters")
        for _ in range(_OUTER - 1):
            if self.stop():
                break
            again = self._best_of_orders(outcome.state)
            ascend_hyperparameters(again.state)
            if again.state.log_joint < outcome.state.log_joint + 1e-3:
                break
            again.stages = outcome.stages
            outcome = again
            self._note(outcome, "search again")
        return outcome

    # -- refinement -----------------------------------------------------------------------------------------------------------------------

    def _refine(self, outcome: Outcome) -> None:
        state, rng, rounds = outcome.state, self.rng, self.plan.rounds
        self._climb(state)
        self._note(outcome, "climb")
        kept_if_better(state, self._permute(state))
        self._note(outcome, "permutation")
        kept_if_better(state, lambda: reheat(state, _HOT, rng, self.stop))
        self._note(outcome, "reheat")
        done = 0
        while (rounds is None or done < rounds) and not self.stop():
            lowest, near = _LOWEST[done % len(_LOWEST)], _NEIGHBOURS[done % len(_NEIGHBOURS)]
            kept_if_better(state, lambda lowest=lowest, near=near: shake(state, near, lowest, rng))  # type: ignore[misc]
            state.tidy()
            done += 1
            if done % _ASCEND_EVERY == 0:
                ascend_hyperparameters(state)
            self.watch(
                0.3 + 0.7 * done / rounds if rounds else float("nan"), f"{state.n_clusters} clusters, log joint {state.log_joint:.1f} after {done} shakes"
            )
        self._climb(state)
        state.seat(state.labels)
        outcome.complete = outcome.complete and (rounds is None or done == rounds)
        self._note(outcome, f"{done} shakes")

    def _permute(self, state: MixtureState) -> Callable[[], None]:
        """The best partition into segments of an order along a random projection (a permutation sweep at temperature zero), then a climb."""

        def change() -> None:
            Climber(greedy=True).step(state, self.rng)
            climb(state, self.rng, self.stop)

        return change

    def _climb(self, state: MixtureState) -> None:
        climb(state, self.rng, self.stop)
        while ascend_hyperparameters(state) > 1e-3 and not self.stop():
            climb(state, self.rng, self.stop)


def warm_up(model: Model, plan: Plan, rng: RngState) -> None:
    """Compile (or read from the disk cache) every kernel the plan needs, by calls that do nothing, so that a time budget is spent on searching."""
    state = MixtureState(model, np.zeros(model.n, dtype=np.int64))
    log_marginal, nothing = log_marginals(state), np.zeros(0, dtype=np.int64)
    order, empty = np.arange(model.n), MixtureState(model, np.full(model.n, -1))
    if plan.queue == "level":
        Level(empty, order, log_marginal, 1).advance(0)
    else:
        BestFirst(empty, order, remainders(empty, plan.score, order, log_marginal), plan.beam, plan.score).advance(0)
    reseat_tempered(state, nothing, np.inf, rng)
    if plan.refine:
        try_splits(state, nothing, rng)
        try_merges(state, nothing, rng)
        neighbourhood(state, 1, rng)
        Climber(greedy=True).step(state, rng)


def search_labels(model: Model, rng: RngState) -> Ints:
    """A clustering to start a chain from: a search in a random order, so that chains differ, then a climb."""
    if not isinstance(model.family, ConjugateFamily):
        raise ValueError(f"init 'search' needs the closed marginals of a conjugate family; {type(model.family).__name__} has none: use init='one' or 'random'")
    if not isinstance(model.prior, GibbsTypePrior):  # a prior of links: the partition that a Dirichlet process would find is a start too
        model = dataclasses.replace(model, prior=DirichletProcess())
    merges = mergeable(MixtureState(model, np.zeros(model.n, dtype=np.int64)).statistics)
    plan = Plan(beam=20, queue="level" if merges else "best-first", orders=("random",), refine=True, rounds=0)
    return Search(model, plan, rng, lambda: False, lambda share, note: None)().state.canonical_labels()
