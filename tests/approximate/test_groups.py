"""Inexact topics: they say so, they find what is plain to see, and the parts of them that are exact are."""

import numpy as np
import pytest
from scipy import sparse

import maitre as mt
from maitre.approximate.groups import sweep_apart
from maitre.approximate.topic_counts import TopicCounts
from maitre.data.groups import GroupedRows
from maitre.engines.base import SERIAL
from maitre.families.words import Words
from maitre.model import Model
from maitre.moves.franchise import draw_weights
from maitre.numerics.rng import stream
from maitre.posterior.diagnostics import effective_sample_size
from maitre.priors.hierarchical import HierarchicalDirichletProcess
from maitre.states.franchise import FranchiseState


@pytest.fixture(scope="module")
def corpus():
    """Forty documents of two kinds, over twelve words, one document empty."""
    rng = np.random.default_rng(0)
    kinds = np.repeat(np.eye(2), 6, axis=1) / 6
    return sparse.csr_matrix(np.array([rng.multinomial(20 * (m > 0), kinds[m % 2]) for m in range(40)]))


def check_two_kinds(hdp, corpus):
    assert not hdp.exact
    counts = hdp.topic_counts(0, 0).toarray()
    assert counts.sum() == corpus.sum()
    large = counts[counts.sum(axis=1) > 0.1 * counts.sum()]
    halves = np.stack([large[:, :6].sum(axis=1), large[:, 6:].sum(axis=1)])
    assert np.all(halves.min(axis=0) <= 0.03 * halves.sum(axis=0))
    assert 5.0 < hdp.perplexity(corpus) < 8.0


def test_collapsed_variational_topics(corpus):
    check_two_kinds(mt.approximate.collapsed_variational_topics(corpus, truncation=10, progress=False), corpus)


def test_expected_counts_follow_from_q_and_hyper_parameters_stay_numbers(corpus):
    found = TopicCounts(corpus, 6, 0.1, mt.Gamma(1, 1), mt.Gamma(1, 1), np.random.default_rng(0))
    found.climb(20, 0.0, lambda done, change: False)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0, atol=1e-5)
    kept = found.in_document.copy(), found.of_word.copy(), found.totals.copy()
    found._count()
    for before, again in zip(kept, (found.in_document, found.of_word, found.totals), strict=True):
        np.testing.assert_allclose(before, again, atol=2e-3)
    tables = found.tables()
    assert np.all(tables <= found.totals + 1e-6)
    assert 0.0 < found.gamma < 50.0


def test_with_one_table_per_word_the_expected_tables_are_exact():
    """A single word in a document sits at one table, whatever q says of its topic."""
    found = TopicCounts(sparse.csr_matrix(np.eye(3, dtype=int)), 4, 0.5, 1.0, 1.0, np.random.default_rng(0))
    expected = found.shares.sum(axis=0)  # E l = a q [ψ(a + 1) − ψ(a)] = q
    np.testing.assert_allclose(found.tables(), expected, rtol=1e-4)


@pytest.mark.parametrize(("align", "init"), [("id", "random:8"), ("none", "auto"), ("id", "kmeans:2")])
def test_synchronous_groups(corpus, align, init):
    hdp = mt.approximate.synchronous_groups(corpus, processors=3, sweeps=60, align=align, init=init, progress=False)
    check_two_kinds(hdp, corpus)


def test_synchronous_groups_do_not_depend_on_the_number_of_threads(corpus):
    one, two = (mt.approximate.synchronous_groups(corpus, processors=3, sweeps=12, init="random:8", threads=n, progress=False) for n in (1, 2))
    np.testing.assert_array_equal(one.log_joint, two.log_joint)


def together(blocks, n):
    """How often token 0 of the first document has the topic of token 0, 1 and 2 of the second, step by step."""
    model = Model.of(GroupedRows.of_counts([[2, 1, 0], [1, 1, 1]]), Words(0.5, 3), HierarchicalDirichletProcess(1.0, 1.3))
    state, rng, found = FranchiseState(model, np.zeros(model.n, dtype=int)), stream(3), np.empty((2, n))
    for t in range(n):
        draw_weights(state, sweep_apart(state, blocks, "id", SERIAL, rng), rng)
        found[:, t] = state.labels[0] == state.labels[[3, 5]]
    return found


@pytest.mark.parametrize(("blocks", "exact"), [([np.array([0, 1])], True), ([np.array([0]), np.array([1])], False)])
def test_one_processor_is_exact_and_two_are_not(blocks, exact):
    found = together(blocks, 6_000)
    errors = [abs(x.mean() - p) / (x.std() / np.sqrt(effective_sample_size(x[None]))) for x, p in zip(found, (0.54630413, 0.3626914), strict=True)]
    assert max(errors) < 4.0 if exact else max(errors) > 5.0
