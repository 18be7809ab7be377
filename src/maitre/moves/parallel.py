"""The exact sampler for very many points: every step is parallel over points.

An iteration draws explicit weights and parameters, redraws some labels by slices (where clusters are born and die) and all of them half by half (`maitre.moves.labels`),
and makes split and merge proposals in which labels cancel (`maitre.moves.label_free`). Each leaves the posterior invariant. Random numbers belong to granules of points
and sums are merged in a fixed order, so draws do not depend on the number of threads.

The first iteration of burn-in looks for clusters on subsamples, where an iteration costs little: a thousand points, ten thousand, and the pool of about 65,000 that proposals
are made from, and in the end seats all points by what was found. Few points mix freely; splits that only more points can tell are found as they come.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.families.base import completes_points
from maitre.model import POOL, pool_of
from maitre.moves.base import Move, Report
from maitre.moves.gibbs import reseat_points
from maitre.moves.hyper import FamilyHyperparameters
from maitre.moves.label_free import LabelFree
from maitre.moves.labels import Explicit, LabelStep
from maitre.numerics.arguments import number, whole_number
from maitre.numerics.arrays import Ints
from maitre.numerics.draw import shuffle
from maitre.numerics.rng import RngState
from maitre.priors.dirichlet_process import DirichletProcess
from maitre.states.mixture import MixtureState

_SUBSAMPLES = (1_000, 30), (10_000, 30), (POOL, 40)  # points, iterations
_FEW, _COLLAPSED = (
    10_000,
    2_000,
)  # up to so many points, so many are also seated one after the other: where points have many dimensions, clusters are born that way
_WORTHWHILE = 2  # times as many points as a subsample has
_PROPOSALS = 4.0  # per cluster
_MANY = 50_000  # points beyond which there are fewer: proposals that look at all points should not take longer than the labels
_SLICED = 20_000  # points that are redrawn by slices, if there are as many


class Parallel(Move):
    """Labels redrawn all at once given weights and parameters, and split and merge proposals for clusters of any size; for a Dirichlet process.

    `proposals` is how many splits and merges an iteration proposes; left None, it is four for every cluster there is at the end of burn-in. `sliced` is the share of the
    points that are redrawn by slices; left None, about 20,000 of them. `warm_up`: whether burn-in begins with subsamples.

    >>> import maitre as mt
    >>> family = mt.families.KnownCovarianceGaussian(0.0, 10.0, 1.0)
    >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.2]], family, moves="parallel", draws=20, burn_in=20, chains=1, progress=False)
    >>> posterior.exact
    True
    """

    name = "parallel"
    starts = ("one",)
    prior = DirichletProcess
    streams = True
    needs = ("marginals", "parameters", "merging", "roles")

    def __init__(self, proposals: int | None = None, sliced: float | None = None, warm_up: bool = True) -> None:
        self.proposals = None if proposals is None else whole_number("proposals", proposals)
        self.sliced = None if sliced is None else number("sliced", sliced, least=0.0, most=1.0)
        self.warm_up = bool(warm_up)
        self.REMEMBERS = ("settled",) if proposals is None else ()  # type: ignore[misc]
        self.settled: int | None = None  # how many proposals, once burn-in is over
        self._share: float | None = None  # of burn-in that is done

    def burn_in(self, share: float) -> None:
        self._share = share

    def freeze(self) -> None:
        self._share = None

    def step(self, state: MixtureState, rng: RngState) -> Report:
        if self._share == 0.0 and self.warm_up:
            self._look_for_clusters(state, rng)
            if state.stopped():
                return Report(0)
        if self.settled is None or self._share is not None:
            self.settled = _usual_number(state)
        return self._iterate(state, self.settled if self.proposals is None else self.proposals, rng)

    def _iterate(self, state: MixtureState, proposals: int, rng: RngState) -> Report:
        n = state.model.n
        sliced = min(1.0, _SLICED / n) if self.sliced is None else self.sliced
        if state.occupancy[2] < 0:
            state.make_room()
        step, explicit = LabelStep(state), Explicit.drawn(state, rng)
        if sliced > 0.0:
            explicit = step.slices(explicit, rng, sliced)
        step.half_by_half(explicit, rng)
        label_free = LabelFree(state)
        report = label_free.propose(proposals, rng)
        extra = {"clusters examined by all points": float(label_free.examined), "share decided in double precision": step.rechecked / n}
        return report._replace(operations=report.operations + n * state.n_clusters, extra=extra)

    def _look_for_clusters(self, state: MixtureState, rng: RngState) -> None:
        n, found = state.model.n, None
        for n_points, iterations in _SUBSAMPLES:
            if n < _WORTHWHILE * n_points:
                break
            part = _restricted(state, _spread(n, n_points) if n_points < POOL else pool_of(n) if state.model.pool is None else state.model.pool)
            order = np.arange(part.model.n)
            if found is not None:
                _seat(part, found, rng)
            for _ in range(iterations):
                if state.stopped():
                    return
                if n_points <= _FEW:
                    shuffle(order, rng)
                    reseat_points(part, order[:_COLLAPSED], rng)
                self._iterate(part, _usual_number(part), rng)
                if part.arrays:  # what clusters look like is learnt on the way
                    FamilyHyperparameters().step(part, rng)
            if part.arrays:
                state.set_family(_of_family(part))
            found = Explicit.drawn(part, rng)
        if found is not None:
            _seat(state, found, rng)


def _spread(n: int, n_points: int) -> Ints:
    """So many points, evenly from all."""
    return np.linspace(0, n - 1, n_points).astype(np.int64)


def _usual_number(state: MixtureState) -> int:
    """Of proposals in an iteration."""
    return max(2, round(_PROPOSALS * min(1.0, _MANY / state.model.n) * state.n_clusters))


def _restricted(state: MixtureState, points: Ints) -> MixtureState:
    """The state of some of the points alone, with their labels."""
    learning = bool(state.arrays)
    family = state.model.family if learning else state.family
    model = state.model.restricted(points, family, DirichletProcess(float(state.prior.concentration)))
    values = {f"family.{name}": value for name, value in _of_family(state).items()} if learning else None
    part = MixtureState(model, state.labels[points], state.compiled, values)
    part.engine = state.engine
    return part


def _of_family(state: MixtureState) -> dict[str, Any]:
    """Hyper-parameters and arrays of the family, but for missing values."""
    values = {name: float(getattr(state.family, name)) for name in state.model.family.hyperpriors()} | state.arrays
    return {name: value for name, value in values.items() if not completes_points(name)}


def _seat(state: MixtureState, found: Explicit, rng: RngState) -> None:
    """All points are seated by these weights and parameters."""
    if state.capacity < len(found.log_weights):
        state.make_room(len(found.log_weights))
    LabelStep(state).seat(found, rng)
