"""Every family passes the contract, and a family with a fault does not."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from maitre.families import REGISTRY, ConjugateFamily, Example
from maitre.testing import check_family


@pytest.mark.parametrize("family", REGISTRY.values(), ids=REGISTRY)
def test_contract(family):
    check_family(family)


class FaultyStatistics(NamedTuple):
    """Exponential points with a Gamma rate; `fault` names what is wrong."""

    x: Any
    n: Any
    total: Any
    fault: int

    def clear(s, k):
        s.n[k] = 0.0
        s.total[k] = 0.0

    def add(s, k, i):
        s.n[k] += 1.0
        s.total[k] += s.x[i]

    def remove(s, k, i):
        s.n[k] -= 1.0
        s.total[k] -= s.x[i] * (0.9 if s.fault == 1 else 1.0)

    def log_marginal(s, k):
        shape = 2.0 + s.n[k] * (1.1 if s.fault == 2 else 1.0)
        constant = 0.1 if s.fault == 3 else 0.0
        return math.lgamma(shape) - math.lgamma(2.0) + 2.0 * math.log(1.5) - shape * math.log(1.5 + s.total[k]) + constant

    def log_predictive(s, k, i):
        shape, rate = 2.0 + s.n[k], 1.5 + s.total[k]
        value = math.log(shape) + shape * math.log(rate) - (shape + 1.0) * math.log(rate + s.x[i])
        return value + (0.05 * s.n[k] if s.fault == 4 else 0.0)


@dataclass(frozen=True)
class Faulty(ConjugateFamily):
    fault: int = 0
    statistics: ClassVar[type] = FaultyStatistics

    def validate(self, data):
        return np.asarray(data, dtype=float)

    def encode(self, data):
        return data

    def allocate(self, encoded, capacity):
        return FaultyStatistics(encoded, np.zeros(capacity), np.zeros(capacity), self.fault)


POINTS = np.array([0.2, 1.3, 0.4, 5.0])


def test_a_sound_family_of_a_user_passes():
    check_family(Faulty(0), POINTS)


@pytest.mark.parametrize(("fault", "identity"), [(1, "remov|undoes"), (2, "log_predictive"), (3, "empty cluster"), (4, "log_predictive")])
def test_faults_are_found_and_named(fault, identity):
    with pytest.raises(AssertionError, match=identity):
        check_family(Faulty(fault), POINTS)


def test_examples_are_required():
    with pytest.raises(AssertionError, match="EXAMPLES"):
        check_family(Faulty)
    assert Example(Faulty(0), POINTS).family == Faulty(0)
