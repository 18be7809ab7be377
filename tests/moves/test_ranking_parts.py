"""Clusters of rankings dealt into parts: what comes out is the same partition, finer, and only burn-in does it."""

from types import SimpleNamespace

import numpy as np
import pytest

import maitre as mt
from maitre.model import Model
from maitre.moves import mallows as mallows_module
from maitre.moves.mallows import Mallows
from maitre.moves.ranking_parts import deal, parts_of
from maitre.numerics.rng import stream
from maitre.states.rankings import OrderingState

RNG = np.random.default_rng(4)
RANKINGS = [RNG.permutation(4)[: 1 + i % 3].tolist() for i in range(300)]
LABELS = [0] * 200 + [1] * 90 + [2] * 10


def state_with(prior, labels=LABELS):
    family = mt.families.GeneralizedMallows(4)
    family = family.with_defaults(family.validate(RANKINGS))
    return OrderingState(Model.of(family.rows(RANKINGS), family, prior), np.array(labels))


def test_larger_clusters_have_more_parts_and_there_are_not_more_than_wanted():
    sizes = np.array([500, 400, 99, 1])
    for wanted in range(1, 60):
        parts = parts_of(sizes, wanted)
        assert (parts >= 1).all()
        assert (np.diff(parts) <= 0).all()
        assert parts.sum() <= max(wanted, len(sizes)) < parts.sum() + len(sizes)


def test_every_part_is_of_one_cluster_and_counts_are_right():
    state = state_with(mt.priors.DirichletProcess(1.0))
    deal(state, 15, stream(1))
    expected = parts_of(np.bincount(LABELS), 15)
    found = state.canonical_labels()
    assert state.n_clusters == expected.sum() == 14  # none of parts so large is empty
    whose = np.array([np.unique(np.array(LABELS)[found == k]) for k in range(state.n_clusters)])  # which fails if a part is of two clusters
    assert np.bincount(whose.ravel()).tolist() == expected.tolist()
    again = OrderingState.of_variables(state.model, state.variables())
    for name, value in again.derived().items():
        np.testing.assert_allclose(state.derived()[name], value, rtol=1e-12)


def test_no_more_than_there_are_or_the_prior_allows():
    state = state_with(mt.priors.DirichletProcess(1.0))
    deal(state, 3, stream(1))
    assert (state.canonical_labels() == LABELS).all()
    deal(state, 0, stream(1))
    assert (state.canonical_labels() == LABELS).all()
    few = state_with(mt.priors.FiniteDirichlet(5))
    deal(few, 50, stream(1))
    assert 3 < few.n_clusters <= 5
    assert np.isfinite(few.log_joint)


def test_only_the_first_quarter_of_burn_in_deals(monkeypatch):
    dealt, burn_in = [], 80
    move, state = Mallows(parts=7, proposals=(0, 0, 0)), state_with(mt.priors.DirichletProcess(1.0))
    monkeypatch.setattr(mallows_module, "deal", lambda state, wanted, rng: dealt.append((move.iteration, wanted)))
    for iteration in range(2 * burn_in):
        if iteration < burn_in:
            move.burn_in(iteration / burn_in)
        elif iteration == burn_in:
            move.freeze()
        move.step(state, stream(2, iteration))
    assert dealt == [(10, 7)]
    other = Mallows(parts=7, proposals=(0, 0, 0))
    other.recall(move.memory())  # a chain that goes on after burn-in
    for _ in range(11):
        other.step(state, stream(3))
    assert dealt == [(10, 7)]


@pytest.mark.parametrize(("n", "often_equal", "parts"), [(20_000, True, 0), (30_000, True, 300), (30_000, False, 0), (10**6, True, 400)])
def test_how_many_parts_by_default(n, often_equal, parts):
    state = SimpleNamespace(model=SimpleNamespace(data=SimpleNamespace(n=n, often_equal=often_equal)))
    assert Mallows()._n_parts(state) == parts
    assert Mallows(parts=5)._n_parts(state) == 5
