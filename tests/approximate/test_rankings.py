"""Comparisons for mixtures over rankings: laws that sum to one, and a likelihood that never falls."""

import itertools

import numpy as np
import pytest

import maitre as mt

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_densities_sum_to_one(length):
    data = [[0, 1, 2, 3], [2], [3, 1], [3, 0, 2], [0, 1]]
    every = list(itertools.permutations(range(4), length))
    for fitted in (mt.approximate.mallows_kernel(data, theta=0.7), mt.approximate.plackett_luce_em(data, 2, iterations=5)):
        assert np.exp(fitted.log_density(every)).sum() == pytest.approx(1.0, abs=1e-9)


def test_a_kernel_is_the_mean_over_completions():
    kernel = mt.approximate.mallows_kernel([[2]], theta=0.9)
    completed = [mt.approximate.mallows_kernel([[2, *rest]], theta=0.9) for rest in itertools.permutations([0, 1])]
    for ranking in itertools.permutations(range(3), 2):
        expected = np.mean([np.exp(other.log_density([ranking])[0]) for other in completed])
        assert np.exp(kernel.log_density([ranking])[0]) == pytest.approx(expected, abs=1e-12)


def test_em_climbs_and_finds_worths():
    worths = np.array([[0.4, 0.3, 0.15, 0.1, 0.05], [0.05, 0.1, 0.15, 0.3, 0.4]])
    data = [[int(x) for x in np.argsort(RNG.exponential(size=5) / worths[int(i % 5 < 2)])[: 1 + i % 4]] for i in range(3000)]
    fitted = mt.approximate.plackett_luce_em(data, 2, shape=1.01, rate=0.01, iterations=200, seed=1)
    assert (np.diff(fitted.trace) > -1e-6).all()
    order = np.argsort(-fitted.weights)
    found = fitted.worths[order] / fitted.worths[order].sum(axis=1, keepdims=True)
    assert np.abs(found - worths).max() < 0.06
    assert fitted.weights[order] == pytest.approx([0.6, 0.4], abs=0.08)


def test_a_bandwidth_is_chosen():
    data = [[0, 1, 2, 3]] * 30 + [[3, 2, 1, 0]] * 30 + [[int(x) for x in RNG.permutation(4)] for _ in range(20)]
    assert 0.1 < mt.approximate.mallows_kernel(data).theta < 5.0
