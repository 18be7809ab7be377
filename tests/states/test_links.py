"""A state of links starts where it is told to, keeps as many slots as tables need, and is found out by its audit when anything is wrong."""

import numpy as np
import pytest

import maitre as mt
from maitre.model import Model
from maitre.moves import ExplicitLinks, Links
from maitre.moves.links import relink_points
from maitre.numerics.rng import stream
from maitre.priors import DistanceDependent
from maitre.states.links import LinksState

RNG = np.random.default_rng(0)
PLACES = RNG.uniform(size=(200, 2))
X = np.where(PLACES[:, :1] > 0.5, 5.0, 0.0) + RNG.normal(size=(200, 1))
FAMILY = mt.families.NormalInverseGamma(0.0, 0.1, 2.0, 1.0)


def model_of(n=200, **options):
    return Model.of(X[:n], FAMILY, DistanceDependent.neighbours(PLACES[:n], k=8, **options))


def test_labels_become_links_as_far_as_candidates_allow():
    labels = (PLACES[:, 0] > 0.5).astype(int)
    state = LinksState.of_labels(model_of(), labels)
    found = state.canonical_labels()
    assert state.n_clusters < 6
    for table in range(found.max() + 1):
        assert len(set(labels[found == table])) == 1
    state.audit()
    assert LinksState.of_labels(model_of(), np.arange(200)).n_clusters == 200


def test_links_that_are_no_candidates_are_refused():
    with pytest.raises(ValueError, match="point 0 cannot link to point"):
        LinksState(model_of(), np.full(200, int(np.argmax(np.linalg.norm(PLACES - PLACES[0], axis=1)))))


def test_slots_follow_the_number_of_tables():
    state, rng = LinksState(model_of(concentration=1e-6), np.full(200, -1)), stream(0)
    relink_points(state, np.arange(200), rng)
    state.log_joint = state.compute_log_joint()
    state.audit()
    assert state.capacity < 100
    crowded = LinksState(model_of(concentration=1e-6), np.arange(200))
    for _ in range(10):
        Links().step(crowded, rng)
        crowded.tidy()
    crowded.audit()
    assert crowded.n_clusters < 30
    assert crowded.capacity < 150


@pytest.mark.long
def test_many_sweeps_do_not_drift():
    model = Model.of(X[:30], mt.families.NormalInverseWishart(0.0, 0.1, 3.0, 1.0), DistanceDependent.neighbours(PLACES[:30], k=5))
    state, rng = LinksState(model, np.arange(30)), stream(1)
    for _ in range(3000):
        state.tidy()
        Links().step(state, rng)
    state.audit(1e-7)


@pytest.mark.parametrize("move", [Links(), ExplicitLinks(2)])
def test_room_is_made_for_more_tables(move):
    """From one table to many: a concentration so high that nobody wants company."""
    state, rng = LinksState.of_labels(model_of(concentration=1e9), np.zeros(200, dtype=int)), stream(2)
    before = state.capacity
    move.step(state, rng)
    state.audit()
    assert state.n_clusters > max(before, 100)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda state: state.seating.labels.__setitem__(3, state.labels[np.flatnonzero(state.labels != state.labels[3])[0]]), "components"),
        (lambda state: state.seating.sizes.__setitem__(int(state.labels[0]), 0), "sizes"),
        (lambda state: state.seating.choice.__setitem__(0, (state.seating.choice[0] + 1) % 8), "candidate"),
        (lambda state: state.seating.first.__setitem__(int(np.argmax(state.seating.first)), -1), "lists of those"),
        (lambda state: setattr(state, "log_joint", state.log_joint + 1.0), "log joint"),
        (lambda state: state.log_marginals.__setitem__(int(state.labels[0]), 0.0), "statistics"),
    ],
)
def test_the_audit_finds_what_is_wrong(spoil, message):
    state = LinksState(model_of(40), np.arange(40))
    for _ in range(3):
        Links().step(state, stream(3))
    state.audit()
    spoil(state)
    with pytest.raises(AssertionError, match=message):
        state.audit()
