import numpy as np
import pytest

import maitre as mt
from maitre.model import Model
from maitre.moves import Auxiliary, Composed, Gibbs, Move, Parallel, Report, resolve
from maitre.numerics.rng import stream
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState

MODEL = Model.of(np.arange(12.0)[:, None], mt.families.NormalInverseGamma(), DirichletProcess(1.0))


class Costing(Move):
    """A move that does nothing at a given cost."""

    def __init__(self, name, operations):
        self.name, self.operations, self.calls = name, operations, 0

    def check(self, model):
        pass

    def step(self, state, rng):
        self.calls += 1
        return Report(self.operations, 2, 1)


def test_work_is_shared_evenly_and_the_schedule_frozen_after_burn_in():
    dear, cheap = Costing("dear", 100), Costing("cheap", 10)
    composed = Composed([dear, cheap])
    for _ in range(20):
        composed.step(None, None)
    assert composed.repeats == [1, 10]
    composed.freeze()
    cheap.operations = 1000
    calls = cheap.calls
    for _ in range(5):
        composed.step(None, None)
    assert composed.repeats == [1, 10]
    assert cheap.calls - calls == 50
    summary = composed.summary()["dear"]
    assert summary.pop("seconds") >= 0.0
    assert summary == {"repeats": 1, "period": 1, "operations": 100.0, "accepted": 0.5}


def test_the_first_move_sets_the_pace():
    cheap, dear = Costing("cheap", 10), Costing("dear", 100)
    composed = Composed([cheap, dear])
    for _ in range(30):
        composed.step(None, None)
    assert composed.periods == [1, 10]
    composed.freeze()
    calls = dear.calls
    for _ in range(50):
        composed.step(None, None)
    assert dear.calls - calls == 5
    half = Composed([Costing("first", 100), Costing("second", 10)], followers=0.5)
    for _ in range(20):
        half.step(None, None)
    assert half.repeats == [1, 5]


def test_names_become_moves():
    assert [move.name for move in resolve("gibbs+auxiliary", MODEL).shared] == ["gibbs", "auxiliary"]
    assert [move.name for move in resolve([Gibbs("systematic"), "auxiliary"], MODEL).shared] == ["gibbs", "auxiliary"]
    assert resolve("auto", MODEL).exact
    sampled = Model.of([[1.0], [2.0]], mt.families.NormalInverseGamma(scale=mt.Gamma(1, 1)), DirichletProcess(mt.Gamma(1, 1)))
    assert [move.name for move in resolve("gibbs", sampled).always] == ["prior_hyperparameters", "family_hyperparameters"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: resolve("gibs", MODEL), "unknown move 'gibs'; expected one of"),
        (lambda: resolve("", MODEL), "unknown move ''"),
        (lambda: Composed([]), "no moves were given"),
        (lambda: Gibbs("backwards"), "expected one of 'random', 'systematic'"),
        (lambda: resolve(None, MODEL), "moves is None; expected names joined by"),
        (lambda: resolve([3], MODEL), "unknown move 3"),
        (lambda: Auxiliary(0), "n_auxiliary is 0"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_a_move_requires_is_checked_and_the_pair_named():
    class NoParameters:
        pass

    class Bare(type(MODEL.family)):
        statistics = NoParameters

    bare = Model(Bare(0.0, 1.0, 2.0, 1.0), MODEL.prior, None, 3)
    with pytest.raises(ValueError, match=r"'auxiliary' needs a family that draws and scores parameters .*; Bare has none; those that do are 'gibbs'"):
        resolve("auxiliary", bare)

    class Plain(mt.families.Family):
        def validate(self, data): ...
        def encode(self, data): ...
        def allocate(self, encoded, capacity): ...

    with pytest.raises(ValueError, match="'gibbs' needs the closed marginals of a conjugate family; Plain has none"):
        resolve("gibbs", Model(Plain(), MODEL.prior, None, 3))


@pytest.mark.parametrize("checks", [0, 5])
def test_the_search_on_subsamples_ends_when_the_chain_is_to_stop(checks):
    """A time budget cannot wait for it. The step is then no step at all, and is made again when the run goes on."""
    x = np.random.default_rng(0).normal(size=(2000, 1)) + 9.0 * (np.arange(2000) % 3)[:, None]
    model = Model.of(x, mt.families.KnownCovarianceGaussian(9.0, 81.0, 1.0), DirichletProcess(1.0))
    state, move, asked = MixtureState(model, np.zeros(2000, dtype=int)), Parallel(), []
    move.burn_in(0.0)
    state.stopped = lambda: asked.append(1) or len(asked) > checks
    move.step(state, stream(0, 0))
    assert state.n_clusters == 1
    assert len(asked) <= checks + 2
    state.stopped = lambda: False
    move.step(state, stream(0, 0))
    assert state.n_clusters >= 3
