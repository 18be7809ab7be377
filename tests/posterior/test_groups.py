"""What comes back from sampling groups, how it is stored, and what is said about input that is none."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse

import maitre as mt
from maitre.chains.starts import initial_labels, start, start_of_groups
from maitre.data.groups import GroupedRows
from maitre.numerics.rng import stream
from maitre.posterior.documents import log_estimates
from maitre.reports.topics import documents_shown
from maitre.sampling import group_model


@pytest.fixture(scope="module")
def corpus():
    """Sixty documents of two kinds, over twelve words, one document empty."""
    rng = np.random.default_rng(0)
    counts = np.zeros((60, 12), dtype=int)
    for m in range(59):
        topic = np.r_[np.full(6, 1 / 6), np.zeros(6)] if m % 2 else np.r_[np.zeros(6), np.full(6, 1 / 6)]
        counts[m] = rng.multinomial(20, topic)
    return sparse.csr_matrix(counts)


@pytest.fixture(scope="module")
def hdp(corpus):
    return mt.sample_groups(corpus, draws=20, burn_in=300, seed=1, progress=False, keep_labels=True)


def test_topics_weights_and_labels_agree(corpus, hdp):
    chain, draw = hdp.best_draw
    k = int(hdp.n_clusters[chain, draw])
    assert hdp.labels.shape == (2, 20, corpus.sum())
    words, groups = np.repeat(corpus.indices, corpus.data), np.repeat(np.arange(60), np.asarray(corpus.sum(axis=1)).ravel())
    labels = np.asarray(hdp.labels[chain, draw])
    topics, shares = np.zeros((k, 12), dtype=int), np.zeros((60, k), dtype=int)
    np.add.at(topics, (labels, words), 1)
    np.add.at(shares, (groups, labels), 1)
    np.testing.assert_array_equal(hdp.topic_counts(chain, draw).toarray(), topics)
    np.testing.assert_array_equal(hdp.group_counts(chain, draw).toarray(), shares)
    np.testing.assert_allclose(hdp.topics(chain, draw).sum(axis=1), 1.0)
    np.testing.assert_allclose(hdp.weights(chain, draw).sum(axis=1), 1.0)
    np.testing.assert_allclose(hdp.shares(chain, draw).sum(), 1.0)


def test_weights_and_topics_are_expectations_given_the_counts_however_many_groups_are_in_a_block(hdp, monkeypatch):
    chain, draw = hdp.best_draw
    shares, gamma, eta = hdp.shares(chain, draw), hdp.group_concentration[chain, draw], hdp.eta(chain, draw)
    urns = np.pad(hdp.group_counts(chain, draw).toarray(), ((0, 0), (0, 1))) + gamma * shares
    words = hdp.topic_counts(chain, draw).toarray() + eta
    np.testing.assert_allclose(hdp.topics(chain, draw), words / words.sum(axis=1, keepdims=True), rtol=1e-12)
    for size in (1000, 7):
        monkeypatch.setattr("maitre.posterior.groups._BLOCK", size)
        np.testing.assert_allclose(hdp.weights(chain, draw), urns / urns.sum(axis=1, keepdims=True), rtol=1e-12)
        np.testing.assert_array_equal(documents_shown(hdp.blocks_of_weights(chain, draw), 60), hdp.weights(chain, draw))
    monkeypatch.setattr("maitre.reports.topics.MAX_DOCUMENTS", 3)
    np.testing.assert_array_equal(documents_shown(hdp.blocks_of_weights(chain, draw), 60), hdp.weights(chain, draw)[[0, 29, 59]])


def test_the_two_kinds_of_documents_are_found(corpus, hdp):
    chain, draw = hdp.best_draw
    counts = hdp.topic_counts(chain, draw).toarray()
    large = counts[counts.sum(axis=1) > 0.1 * counts.sum()]
    halves = np.stack([large[:, :6].sum(axis=1), large[:, 6:].sum(axis=1)])
    assert set(halves.argmax(axis=0)) == {0, 1}
    assert np.all(halves.min(axis=0) <= 0.02 * halves.sum(axis=0))
    assert len(hdp.top_words(chain, draw, 3)[0]) == 3
    mixtures = hdp.transform(corpus[:2])
    assert mixtures[0].argmax() != mixtures[1].argmax()
    assert 5.0 < hdp.perplexity(corpus) < 8.0  # six words each


def test_a_run_that_is_stored_goes_on_bit_for_bit(corpus, tmp_path):
    settings = {"burn_in": 12, "seed": 3, "progress": False, "group": mt.Gamma(2, 1)}
    whole = mt.sample_groups(corpus, draws=30, **settings)
    mt.sample_groups(corpus, draws=9, store=tmp_path / "run", **settings)
    longer = mt.resume(tmp_path / "run", draws=30, progress=False)
    assert isinstance(longer, mt.GroupPosterior)
    assert set(longer.draws) == set(whole.draws)
    for name, values in whole.draws.items():
        np.testing.assert_array_equal(np.asarray(longer.draws[name]), np.asarray(values), err_msg=name)


def test_groups_of_any_family(tmp_path):
    rng = np.random.default_rng(0)
    groups = np.array(["a", "b", "c"])[rng.integers(0, 3, 90)]
    x = rng.normal(size=(90, 2)) + 8.0 * ((groups == "b") | (rng.random(90) < 0.5))[:, None]
    hdp = mt.sample_groups(
        (x, groups), family=mt.families.KnownCovarianceGaussian(4.0, 20.0, 1.0), draws=20, burn_in=60, store=tmp_path / "run", progress=False
    )
    weights = hdp.weights(*hdp.best_draw)
    assert weights[1].max() > 0.9
    assert weights[0].max() < 0.8
    assert np.asarray(mt.load(tmp_path / "run").draws["statistics"]).shape == np.asarray(hdp.draws["statistics"]).shape
    _predictions_by_hand(hdp, x, groups)


def _predictions_by_hand(hdp, x, groups):
    """Σ_k (n_gk + γβ_k) p(x | x_k) / (N_g + γ), with the clusters' points found again among the data, for a group that is known and for one that is not."""
    from scipy.stats import multivariate_normal

    points = np.array([[0.3, -0.2], [8.0, 7.0], [30.0, 30.0]])
    chain, draw = hdp.best_draw
    shares, gamma, counts = hdp.shares(chain, draw), hdp.group_concentration[chain, draw], hdp.group_counts(chain, draw).toarray()
    near = (x.mean(axis=1) > 4.0).astype(int)  # two clusters, far apart
    assert counts.shape[1] == 2
    order = [0, 1] if (counts[0] == np.bincount(near[groups == "a"], minlength=2)).all() else [1, 0]
    densities = []
    for members in [*(x[near == k] for k in order), x[:0]]:
        variance = 1.0 / (1.0 / 20.0 + len(members))
        mean = variance * (4.0 / 20.0 + members.sum(axis=0))
        densities.append(multivariate_normal(mean, np.eye(2) * (1.0 + variance)).pdf(points))
    urn = (np.append(counts[0], 0.0) + gamma * shares) / (counts[0].sum() + gamma)
    for names, weights in (("a", urn), (None, shares), ("elsewhere", shares)):
        joint = weights[:, None] * np.array(densities)
        np.testing.assert_allclose(hdp.predict_proba(points, names), (joint / joint.sum(axis=0)).T, rtol=1e-6)
        assert hdp.predict(points, names).tolist() == joint[:2].argmax(axis=0).tolist()
        np.testing.assert_array_equal(hdp.predict_proba((points, [names] * 3)), hdp.predict_proba(points, names))
    log_density = hdp.log_density(points, max_draws=40, groups=["a", "b", "elsewhere"])
    assert log_density[0] > -5.0
    assert log_density[2] < -15.0
    with pytest.raises(ValueError, match="2 groups are named for 3 new points"):
        hdp.log_density(points, groups=["a", "b"])


def test_labels_are_in_the_order_of_the_rows():
    rng = np.random.default_rng(0)
    truth = np.arange(40) >= 20
    x, groups = rng.normal(size=(40, 1)) + 30.0 * truth[:, None], np.tile(["b", "a"], 20)
    hdp = mt.sample_groups(
        (x, groups), family=mt.families.NormalInverseGamma(), draws=20, burn_in=60, chains=1, keep_labels=True, init=truth.astype(int), progress=False
    )
    assert len(set(zip(hdp.best[truth], [True] * 20, strict=True)) & set(zip(hdp.best[~truth], [True] * 20, strict=True))) == 0
    assert list(hdp.group_names) == ["a", "b"]


def test_a_run_without_its_data_is_given_them_again(corpus, tmp_path):
    mt.sample_groups(corpus, draws=4, burn_in=4, store=tmp_path / "run", store_data=False, progress=False)
    assert mt.resume(tmp_path / "run", draws=6, data=corpus, progress=False).n_clusters.shape == (2, 6)
    with pytest.raises(ValueError, match="not the data of the run"):
        mt.load(tmp_path / "run", data=corpus[:50])


def test_the_corpus_given_is_left_as_it_is_and_empty_documents_have_the_common_weights(hdp):
    counts = sparse.csr_matrix((np.array([1, 2, 0, 3]), np.array([2, 0, 1, 1]), np.array([0, 3, 4])), shape=(2, 12))
    before = counts.copy()
    hdp.transform(counts)
    assert np.array_equal(counts.indices, before.indices)
    shares = hdp.shares(*hdp.best_draw)
    np.testing.assert_allclose(hdp.transform(np.zeros((1, 12)))[0], shares / shares.sum(), rtol=1e-5)
    assert "1 of them empty" in hdp.summary()


def test_labels_that_were_not_kept_are_an_error(corpus):
    hdp = mt.sample_groups(corpus, draws=2, burn_in=2, chains=1, progress=False)
    with pytest.raises(ValueError, match="keep_labels=True"):
        _ = hdp.labels


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[1.5, 2.0]], "word 0 in document 0 is 1.5;"),
        ([[1, 0], [0, -2]], "word 1 in document 1 is -2;"),
        (sparse.csr_matrix(([1, 1], [0, 7], [0, 1, 2]), shape=(2, 3)), "document 1 has the word 7, which is out of range"),
        ([[10**12, 1]], "are these counts"),
        (np.empty((3, 0)), "vocabulary is empty"),
        (np.zeros((3, 4)), "no words in any document"),
        ([3, 1, 2], "a row per document"),
        (([[1.0], [2.0]], ["a"]), "one group per point"),
    ],
)
def test_input_that_is_no_corpus_is_an_error(groups, message):
    with pytest.raises(ValueError, match=message):
        mt.sample_groups(groups, draws=2, burn_in=2, progress=False)


def test_names_of_another_number_are_an_error():
    with pytest.raises(ValueError, match="vocabulary has 1 entries for counts of 2 words"):
        GroupedRows.of_counts([[1, 2]], vocabulary=["ant"])


def test_documents_of_another_vocabulary_are_an_error(hdp):
    with pytest.raises(ValueError, match="the model was fitted to 12"):
        hdp.perplexity(np.ones((2, 5), dtype=int))


def test_the_log_density_of_a_document_is_that_of_all_ways_to_deal_out_its_words():
    """By enumeration: p(w) = Σ_z ∏ φ_{z_n w_n} (a_{z_n} + n_{z_n}) / (Σa + n − 1)."""
    phi, a, words = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]), np.array([0.6, 0.4]), np.array([0, 2, 1, 2])
    exact = 0.0
    for z in product(range(2), repeat=4):
        value, urn = 1.0, a.copy()
        for n, (k, w) in enumerate(zip(z, words, strict=True)):
            value *= phi[k, w] * urn[k] / (a.sum() + n)
            urn[k] += 1.0
        exact += value
    rng, one, found = stream(0), np.empty(2), np.empty((4_000, 2))
    for t in range(len(found)):
        log_estimates(np.ascontiguousarray(phi.T), a, np.array([0, 2, 1, 2, 1]), np.array([0, 4, 5]), rng, one)
        found[t] = np.exp(one)
    np.testing.assert_allclose(found[:, 1], a @ phi[:, 1] / a.sum(), rtol=1e-12)  # one word: no chance is left
    assert abs(found[:, 0].mean() - exact) < 4.0 * found[:, 0].std() / np.sqrt(len(found))


def test_topics_are_matched_to_themselves_and_similarities_are_probabilities(hdp):
    chain, draw = hdp.best_draw
    partners, overlap = hdp.matched_topics(chain, draw, (chain, draw))
    np.testing.assert_array_equal(partners, np.arange(hdp.n_clusters[chain, draw]))
    np.testing.assert_allclose(overlap, 1.0)
    again = hdp.found_again()
    assert np.all((again >= 0.0) & (again <= 1.0))
    similar = hdp.similarity([0, 1, 2])
    assert similar[0, 2] > 2 * similar[0, 1]  # documents take turns between the two kinds
    assert similar.shape == (3, 60)
    assert "topics at random; γ" in hdp.summary()


def test_a_concentration_for_each_group_is_kept_and_goes_on(corpus, tmp_path):
    settings = {"burn_in": 8, "seed": 3, "progress": False, "own": True, "chains": 1}
    whole = mt.sample_groups(corpus, draws=6, **settings)
    mt.sample_groups(corpus, draws=3, store=tmp_path / "run", **settings)
    longer = mt.resume(tmp_path / "run", draws=6, progress=False)
    assert np.asarray(whole.draws["gammas"]).shape == (1, 6, 60)
    np.testing.assert_array_equal(np.asarray(longer.draws["gammas"]), np.asarray(whole.draws["gammas"]))


def test_what_is_missing_of_points_in_groups_is_a_variable():
    from maitre.data.groups import GroupedRows
    from maitre.model import Model
    from maitre.states.franchise import FranchiseState

    x = np.random.default_rng(0).normal(size=(8, 2))
    x[3, 1] = np.nan
    rows = GroupedRows.of_index(x, np.arange(8) % 2)
    model = Model.of(rows, mt.families.HierarchicalNormalInverseWishart(), mt.priors.HierarchicalDirichletProcess(1.0, 1.0))
    state = FranchiseState(model, np.arange(8) % 3, compiled=False)
    before = state.log_joint
    state.set_family({"missing": np.array([2.5])})
    assert np.count_nonzero(state.statistics.x == 2.5) == 1
    assert state.log_joint != before
    state.audit()


def test_points_of_groups_begin_where_a_mixture_of_all_would():
    """From labels at random, clusters that are far apart often ended as one."""
    rng = np.random.default_rng(0)
    x, groups = np.concatenate([rng.normal(-3.0, 1.0, (100, 2)), rng.normal(3.0, 1.0, (100, 2))]) * [1.0, 1000.0], rng.choice(["a", "b", "c"], 200)
    hdp = mt.sample_groups((x, groups), draws=10, burn_in=20, progress=False)
    assert type(hdp.model.family).__name__ == "HierarchicalNormalInverseWishart"
    assert hdp.n_clusters.min() >= 2
    assert "one group" in hdp.start_in_words
    assert set(hdp.predict((x[[0, 150]], ["a", "elsewhere"])).tolist()) == {0, 1}


def test_documents_begin_in_clusters_of_documents(corpus):
    """k-means is of documents, not of the numbers of words: all words of a document begin in one topic."""
    model = group_model(GroupedRows.of_counts(corpus), None)
    labels = initial_labels("kmeans:2", model, stream(0))
    by_document = np.split(labels, model.data.starts[1:-1])
    assert all(len(np.unique(words)) == 1 for words in by_document if len(words))
    assert len(np.unique(labels)) == 2
    automatic = start(model, start_of_groups("auto", model.data), stream(0))
    assert automatic.n_clusters == max(10, model.data.n_groups // 2)
