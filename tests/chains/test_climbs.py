"""Where chains of the default families start: cuts of trees."""

import itertools

import numpy as np
import pytest
from scipy.cluster import hierarchy
from scipy.special import logsumexp

from maitre.chains.choice import assembled
from maitre.chains.climbs import _best_cut, cut, looked_at, worth
from maitre.chains.run import Conditions, new_run
from maitre.chains.settings import Settings
from maitre.chains.starts import start
from maitre.data.simulate import gaussian_clusters
from maitre.families import NormalInverseGamma
from maitre.families.hierarchical import HierarchicalNormalInverseWishart, filled
from maitre.model import Model
from maitre.moves.gibbs import label_surprise
from maitre.numerics.rng import stream
from maitre.optimize.ascent import ascend_hyperparameters
from maitre.partitions import adjusted_rand
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState


def cuts(tree, node, n):
    """All ways to cut the branch below a node, as lists of clusters."""
    if node < n:
        return [[[node]]]
    left, right = (cuts(tree, int(child), n) for child in tree[node - n, :2])
    points = [point for cluster in left[0] + right[0] for point in cluster]
    return [[points]] + [a + b for a, b in itertools.product(left, right)]


@pytest.mark.parametrize("n", [2, 3, 40])
def test_a_tree_is_cut_where_its_last_joins_are(n):
    x = np.round(np.random.default_rng(n).normal(size=(n, 2)), 1)  # with ties
    tree = hierarchy.linkage(x, "ward")
    for n_clusters in {1, 2, n}:
        clusters = {node: [node] for node in range(n)}
        for row, (left, right) in enumerate(tree[: n - n_clusters, :2].astype(int)):
            clusters[n + row] = clusters.pop(left) + clusters.pop(right)
        nodes, labels = cut(tree, n_clusters)
        assert nodes.tolist() == sorted(clusters)
        assert {node: np.flatnonzero(labels == place).tolist() for place, node in enumerate(nodes)} == {node: sorted(own) for node, own in clusters.items()}


def test_numbers_of_clusters_are_tried_until_they_have_become_worse():
    """Not many are tried of one cluster; but all of a chessboard, of which half as many clusters as it has fields are worse than few."""
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(600, 3))
    fields = 8.0 * np.array(np.meshgrid(range(7), range(7))).reshape(2, -1).T
    few, many = (
        looked_at(Model.of(x, HierarchicalNormalInverseWishart())).candidates for x in (noise, fields[np.arange(400) % 49] + rng.normal(size=(400, 2)))
    )
    assert len(few) < len(many)
    assert many[0].labels.max() > 40


def test_clear_clusters_get_fewer_draws_unless_it_is_said_how_many():
    """Labels of clear clusters hardly differ from draw to draw. Of overlapping ones, and where chains begin elsewhere or a family is given, there are as many as ever."""
    clear, overlapping = (gaussian_clusters(5000, 10, 3, spread, seed=1)[0] for spread in (100.0, 0.1))

    def lengths(x, family=None, **options):
        settings = new_run(assembled(x, family), Settings(**options), Conditions(progress=False)).settings
        return settings.draws, settings.burn_in

    assert lengths(clear) == (10, 7)
    assert lengths(overlapping) == lengths(clear, init="one") == lengths(clear, NormalInverseGamma()) == (30, 15)
    assert lengths(clear, draws=20) == (20, 15)
    assert lengths(clear, burn_in=2) == (10, 2)


def test_the_best_cut_of_a_tree_is_the_best_of_all():
    x = np.concatenate([np.random.default_rng(3).normal(size=(5, 2)), np.random.default_rng(4).normal((4.0, 0.0), size=(4, 2))])
    model = Model.of(x, HierarchicalNormalInverseWishart(0.0, 0.3, 6.0, 1.0, 1.0), DirichletProcess(1.0))
    tree, n = hierarchy.linkage(x, "ward"), len(x)

    def log_joint(clusters):
        labels = np.zeros(n, dtype=int)
        for number, points in enumerate(clusters):
            labels[points] = number
        return MixtureState(model, labels).log_joint

    all_cuts = cuts(tree, 2 * n - 2, n)
    found = MixtureState(model, _best_cut(MixtureState(model, np.zeros(n, dtype=int)), tree, n))
    reached = [log_joint(clusters) for clusters in all_cuts]
    assert found.log_joint == max(reached)
    assert 1 < found.n_clusters < n
    uppermost = MixtureState(model, _best_cut(found, tree, 3))
    assert uppermost.log_joint == max(value for value, clusters in zip(reached, all_cuts, strict=True) if _coarser(clusters, cut(tree, 3)[1]))


def _coarser(clusters, labels):
    return all(len(clusters) <= 3 and set(np.flatnonzero(np.isin(labels, labels[points]))) == set(points) for points in clusters)


def test_gaps_are_filled_from_the_nearest_row():
    x = np.array([[0.0, 1.0], [5.0, 7.0], [4.8, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(filled(x)[2], [4.8, 7.0])
    assert np.isfinite(filled(x)).all()
    assert np.isnan(x[2, 1])


def test_labels_that_are_given_get_hyperparameters_that_suit_them():
    """With clusters as wide as all the data expected, as the prior has it, sweeps may seat all points together."""
    y = np.arange(90) % 3
    x = np.random.default_rng(0).normal(size=(90, 2)) + np.outer(6.0 * y, [1.0, -1.0])
    model = Model.of(x, HierarchicalNormalInverseWishart(), DirichletProcess(1.0))
    given, one = start(model, y, stream(0, 0)), start(model, "one", stream(0, 0))
    assert given.log_joint > MixtureState(model, y).log_joint + 50.0
    np.testing.assert_array_equal(given.canonical_labels(), y)
    assert one.log_joint == MixtureState(model, 0 * y).log_joint


def test_the_surprise_of_labels_is_that_of_every_seat_given_the_others():
    x = np.random.default_rng(2).normal(size=(9, 2))
    model, labels = Model.of(x, HierarchicalNormalInverseWishart(0.0, 0.3, 6.0, 1.0, 1.0), DirichletProcess(1.0)), np.array([0, 0, 0, 1, 1, 1, 1, 2, 0])
    expected = 0.0
    for i in range(9):
        seats = [np.where(np.arange(9) == i, k, labels) for k in np.unique([*np.delete(labels, i), 3])]
        log_joints = np.array([MixtureState(model, seat).log_joint for seat in seats])
        expected -= MixtureState(model, labels).log_joint - logsumexp(log_joints)
    for compiled in (False, True):
        np.testing.assert_allclose(label_surprise(MixtureState(model, labels, compiled=compiled), np.arange(9)), expected, rtol=1e-6)


def test_overlapping_clusters_are_not_taken_for_one():
    """Of clusters that overlap, one for all points has the higher log joint, and yet hardly any probability."""
    x, truth = gaussian_clusters(1500, 5, 6, 2.0, seed=0)
    model = Model.of(x, HierarchicalNormalInverseWishart(), DirichletProcess())
    found, one = start(model, "auto", stream(0, 1)), MixtureState(model, np.zeros(len(x), dtype=int))
    ascend_hyperparameters(one)
    assert one.log_joint > found.log_joint
    assert worth(one) < worth(found)
    assert adjusted_rand(truth, found.canonical_labels()) > 0.3


def test_clusters_that_few_points_do_not_show_are_found_from_more():
    """A second look at points when the first has left no clear picture."""
    x, truth = gaussian_clusters(5000, 20, 30, 1.0, seed=0)
    found = start(Model.of(x, HierarchicalNormalInverseWishart(), DirichletProcess()), "auto", stream(0, 1))
    assert adjusted_rand(truth, found.canonical_labels()) > 0.7


def test_many_points_of_one_cluster_stay_together():
    """Starts are compared by all points that are looked at: with a tenth of them, the luckiest of many clusterings of noise would win."""
    for seed in (0, 2):
        x = np.random.default_rng(seed).normal(size=(20_000, 4))
        assert start(Model.of(x, HierarchicalNormalInverseWishart(), DirichletProcess()), "auto", stream(0, 1)).n_clusters == 1
