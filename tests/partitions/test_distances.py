"""Distances between partitions against scikit-learn and against a loop over all pairs."""

from __future__ import annotations

import math
import time
from itertools import combinations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, mutual_info_score, rand_score

from maitre.partitions import adjusted_rand, all_partitions, binder, mutual_information, pairwise_f1, rand, variation_of_information
from maitre.partitions.distances import contingency

MEASURES = [variation_of_information, binder, pairwise_f1, rand, adjusted_rand, mutual_information]
SMALL = list(all_partitions(4))


def random_labels(n, n_clusters, seed):
    return np.random.default_rng(seed).integers(0, n_clusters, n)


def entropy(labels):
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    return -(shares * np.log(shares)).sum()


def pair_counts(a, b):
    together_a = [a[i] == a[j] for i, j in combinations(range(len(a)), 2)]
    together_b = [b[i] == b[j] for i, j in combinations(range(len(b)), 2)]
    both = sum(x and y for x, y in zip(together_a, together_b, strict=True))
    return both, sum(together_a), sum(together_b), len(together_a)


@pytest.mark.parametrize(("n", "n_a", "n_b"), [(2, 2, 2), (30, 3, 5), (200, 1, 7), (200, 150, 40), (5000, 12, 9)])
@pytest.mark.parametrize(
    ("ours", "theirs"), [(rand, rand_score), (adjusted_rand, adjusted_rand_score), (mutual_information, mutual_info_score)], ids=lambda f: f.__name__
)
def test_scikit_learn_agrees(n, n_a, n_b, ours, theirs):
    a, b = random_labels(n, n_a, 1), random_labels(n, n_b, 2)
    assert ours(a, b) == pytest.approx(theirs(a, b), rel=1e-10, abs=1e-12)


def test_every_pair_of_small_partitions_agrees_with_a_loop_over_pairs():
    for a in SMALL:
        for b in SMALL:
            both, first, second, total = pair_counts(a, b)
            disagreements = first + second - 2 * both
            assert binder(a, b) == pytest.approx(disagreements / total)
            assert rand(a, b) == pytest.approx(1 - disagreements / total)
            assert pairwise_f1(a, b) == pytest.approx(2 * both / (first + second) if first + second else 1.0)
            assert adjusted_rand(a, b) == pytest.approx(adjusted_rand_score(a, b))


def test_variation_of_information_is_built_from_entropies():
    a, b = random_labels(300, 6, 3), random_labels(300, 11, 4)
    assert variation_of_information(a, b) == pytest.approx(entropy(a) + entropy(b) - 2 * mutual_info_score(a, b))


def test_variation_of_information_is_a_metric():
    distance = {(a, b): variation_of_information(a, b) for a in SMALL for b in SMALL}
    for a in SMALL:
        for b in SMALL:
            assert (distance[a, b] == 0) == (a == b)
            assert distance[a, b] == pytest.approx(distance[b, a])
            assert all(distance[a, b] <= distance[a, c] + distance[c, b] + 1e-12 for c in SMALL)
    assert max(distance.values()) == pytest.approx(math.log(4))


def test_pairwise_f1_of_the_toy():
    assert pairwise_f1([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 2]) == 0.5
    assert pairwise_f1([0, 1, 2], [5, 6, 7]) == 1.0
    assert pairwise_f1([0, 1, 2], [0, 0, 1]) == 0.0


@pytest.mark.parametrize("measure", MEASURES)
def test_labels_are_only_names(measure):
    a, b = random_labels(60, 4, 5), random_labels(60, 5, 6)
    expected = measure(a, b)
    assert measure(np.array(["d", "a", "c", "b"])[a], b.tolist()) == pytest.approx(expected)
    assert measure(np.array(["d", "a", "c", "b"], dtype=object)[a], 10**12 * (b - 2)) == pytest.approx(expected)


def test_minus_one_is_a_cluster_like_any_other():
    assert rand([-1, -1, 0], [1, 1, 0]) == 1.0
    assert binder([-1, -1, 0], [1, 2, 0]) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("measure", "expected"), list(zip(MEASURES, [0, 0, 1, 1, 1, 0], strict=True)))
@pytest.mark.parametrize("labels", [[], [3]])
def test_without_pairs_the_partitions_are_equal(measure, expected, labels):
    assert measure(labels, labels) == expected


@pytest.mark.parametrize("measure", MEASURES)
def test_unequal_lengths_are_one_line(measure):
    with pytest.raises(ValueError, match="have 3 and 2 labels; expected one label per point") as caught:
        measure([0, 0, 1], [0, 1])
    assert "\n" not in str(caught.value)


def test_a_matrix_of_labels_is_refused():
    with pytest.raises(ValueError, match="labels have 2 dimensions"):
        rand([[0, 1]], [[0, 1]])


def test_contingency_keeps_only_cells_with_points():
    table = contingency([0, 0, 1, 2], ["a", "a", "b", "a"])
    assert sorted(zip(table.cells.tolist(), table.rows.tolist(), table.columns.tolist(), strict=True)) == [(1, 1, 1), (1, 1, 3), (2, 2, 3)]


def test_a_million_points_neither_overflow_nor_take_long():
    n = 10**6
    one, singletons = np.zeros(n, dtype=np.int32), np.arange(n, dtype=np.int32)
    start = time.perf_counter()
    assert binder(one, singletons) == 1.0
    assert variation_of_information(one, singletons) == pytest.approx(math.log(n))
    assert mutual_information(singletons, singletons[::-1]) == pytest.approx(math.log(n))
    assert adjusted_rand(one, singletons) == 0.0
    assert pairwise_f1(one, one) == 1.0
    assert time.perf_counter() - start < 20  # about one second; a table of n × n cells could not even be allocated


def test_very_many_clusters_on_both_sides_do_not_collide():
    a, b = random_labels(300_000, 100_000, 7).astype(np.int32), random_labels(300_000, 100_000, 8).astype(np.int32)
    expected = len(np.unique(np.stack([a, b], axis=1).view(np.int64)))
    assert len(contingency(a, b).cells) == expected
    assert mutual_information(a, b) == pytest.approx(mutual_info_score(a, b), rel=1e-10)
