"""Mixtures over rankings: kernels as transition matrices over all partitions and orderings, wrong ratios found out, and long chains against enumeration."""

import itertools

import numpy as np
import pytest

import maitre as mt
from maitre.model import Model
from maitre.moves import mallows_split, mallows_sweeps
from maitre.partitions.enumeration import all_partitions
from maitre.states.rankings import OrderingState
from maitre.testing.transitions import follow_branches

RANKINGS = [[0, 1], [1], [2, 1]]
FAMILY = mt.families.GeneralizedMallows(3, 1.0, 1.0)  # with whole ν r the integrals are right to rounding
PRIORS = {"dp": mt.priors.DirichletProcess(1.3), "py": mt.priors.PitmanYor(0.7, 0.4), "mfm": mt.priors.MixtureOfFiniteMixtures()}


class Enumeration:
    """All (partition, orderings) of a few rankings with their probabilities."""

    def __init__(self, prior, rankings=RANKINGS, family=FAMILY):
        self.model = Model.of(family.rows(rankings), family, prior)
        n = family.n_items
        orders = list(itertools.permutations(range(n)))
        self.states = [(labels, chosen) for labels in all_partitions(len(rankings)) for chosen in itertools.product(orders, repeat=max(labels) + 1)]
        self.position = {state: k for k, state in enumerate(self.states)}
        log_joint = np.array([self.state(each).log_joint for each in self.states])
        self.probabilities = np.exp(log_joint - np.logaddexp.reduce(log_joint))

    def state(self, which):
        labels, orderings = which
        return OrderingState.of_variables(self.model, {"labels": np.array(labels), "orderings": np.array(orderings)}, compiled=False)

    def where(self, state):
        values = state.variables()
        return tuple(int(v) for v in values["labels"]), tuple(tuple(int(i) for i in row) for row in values["orderings"])

    def error(self, step):
        """max |πP − π| and how far the rows are from summing to one."""
        after, rows = np.zeros(len(self.states)), 0.0
        for which, probability in zip(self.states, self.probabilities, strict=True):
            total = 0.0

            def run(rng, which=which):
                state = self.state(which)
                step(state, rng)
                return self.where(state)

            for outcome, chance in follow_branches(run):
                after[self.position[outcome]] += probability * chance
                total += chance
            rows = max(rows, abs(total - 1.0))
        assert rows < 1e-12
        return float(np.abs(after - self.probabilities).max())


def collapsed(state, rng):
    mallows_sweeps.reseat_collapsed(state, rng, order=np.array([1]))


def smart(state, rng):
    mallows_split.split_and_merge(state, (1, 0, 0), rng)


def resplit(state, rng):
    mallows_split.split_and_merge(state, (0, 1, 0), rng)


def coin(state, rng):
    mallows_split.split_and_merge(state, (0, 0, 1), rng)


@pytest.fixture(scope="module")
def enumerated():
    """Two items and three voters (22 states), or three items and two voters (42) or three (330)."""
    found = {}

    def enumeration(prior, size):
        items, voters = size
        family = mt.families.GeneralizedMallows(items, 1.0, 1.0)
        rankings = [[0], [1], [0]] if items == 2 else RANKINGS[3 - voters :]
        return found.setdefault((prior, size), Enumeration(PRIORS[prior], rankings, family))

    return enumeration


MATRICES = [
    ("dp", (2, 3), collapsed),
    ("py", (2, 3), smart),
    ("dp", (2, 3), resplit),
    ("mfm", (2, 3), coin),
    ("mfm", (3, 2), collapsed),
    ("dp", (3, 2), smart),
    ("py", (3, 2), coin),
    *(pytest.param(prior, (3, 3), step, marks=pytest.mark.long) for prior, step in itertools.product(PRIORS, (collapsed, smart, resplit, coin))),
]


@pytest.mark.parametrize(("prior", "size", "step"), MATRICES)
def test_kernels_leave_the_posterior_invariant(enumerated, prior, size, step):
    assert enumerated(prior, size).error(step) < 1e-12
