"""Points dealt to blocks and taken back: the same lists for any length of the ranges and any number of threads."""

import numpy as np
import pytest

import maitre as mt
from maitre.engines import Serial, Threads
from maitre.moves import dealing
from maitre.states.franchise import FranchiseState


@pytest.mark.parametrize("length", [1, 7, 1_000])
def test_points_go_with_their_clusters_and_come_back(length, monkeypatch):
    monkeypatch.setattr(dealing, "_RANGE", length)
    rng = np.random.default_rng(0)
    labels, held_by = rng.integers(0, 6, 100).astype(np.int32), np.array([2, 0, 2, 3, 0, 2])  # nothing for block 1
    names = rng.permutation(24).reshape(4, 6).astype(np.int32)
    with Threads(2) as threads:
        for engine in (Serial(), threads):
            given = labels.copy()
            dealt = dealing.Deal(given, held_by, 4, engine)
            for block, points in enumerate(dealt.by_block):
                np.testing.assert_array_equal(points, np.flatnonzero(held_by[labels] == block))
            found = rng.integers(0, 6, 100).astype(np.int32)
            dealt.take_back(given, found, names)
            for block, points in enumerate(dealt.by_block):
                np.testing.assert_array_equal(given[points], names[block, found[sum(map(len, dealt.by_block[:block])) :][: len(points)]])


def test_counts_of_words_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(1)
    counts = rng.poisson(0.7, size=(30, 41))
    rows = mt.data.groups.GroupedRows.of_counts(counts)
    model = mt.model.Model.of(rows, mt.families.Words(0.5, 41), mt.priors.HierarchicalDirichletProcess(1.0, 1.0))
    state = FranchiseState(model, rng.integers(0, 5, model.n))
    expected = np.zeros((41, state.capacity))
    np.add.at(expected, (model.encoded["word"], state.labels), 1)
    for workers in (2, 3):
        with Threads(workers) as engine:
            state.engine = engine
            state.recount()
            np.testing.assert_array_equal(state.statistics.seen, expected)
            np.testing.assert_array_equal(state.statistics.total, expected.sum(axis=0))
            np.testing.assert_array_equal(state.sizes, expected.sum(axis=0))
