"""Every family passes the contract, and a family with a fault does not."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pytest

import maitre as mt
from maitre.families import REGISTRY, ConjugateFamily, Example, slots
from maitre.families.slots import SLOTS, pack, roles, unpack, with_own_scratch, with_points
from maitre.families.statistics import log_predictive_all, merge, mergeable, subtract
from maitre.moves.split_merge import SplitMerge
from maitre.numerics.compilation import kernel
from maitre.numerics.elementary import digamma
from maitre.numerics.rng import stream
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState, Model
from maitre.testing import check_family


@pytest.mark.parametrize("family", [family for name, family in REGISTRY.items() if name != "Product"], ids=lambda family: family.__name__)
def test_contract(family):
    check_family(family)


@pytest.mark.parametrize("example", [0, pytest.param(1, marks=pytest.mark.long)], ids=["two kinds of columns", "four kinds of columns"])
def test_contract_of_products(example):
    check_family(mt.families.Product.EXAMPLES[example].family, mt.families.Product.EXAMPLES[example].data)


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


class HalfPacked(FaultyStatistics):
    """The sum is not declared, so it stays behind when a cluster is packed."""

    x: Annotated[Any, slots.POINTS]
    n: Annotated[Any, SLOTS]


class DeclaredStatistics(FaultyStatistics):
    """Everything is declared."""

    x: Annotated[Any, slots.POINTS]
    n: Annotated[Any, SLOTS]
    total: Annotated[Any, SLOTS]


@dataclass(frozen=True)
class Declared(Faulty):
    """`fault` 0: sound; 5: a field is not declared; 6: the encoding depends on the other points."""

    statistics: ClassVar[type] = DeclaredStatistics

    def encode(self, data):
        return {"x": data}

    def selected(self, encoded, points):
        return {"x": encoded["x"][points] * (1.0 + (0.1 * len(points) if self.fault == 6 else 0.0))}

    def allocate(self, encoded, capacity):
        kind = HalfPacked if self.fault == 5 else DeclaredStatistics
        return kind(encoded["x"], np.zeros(capacity), np.zeros(capacity), self.fault)


POINTS_OF_FIVE = np.array([0.2, 1.3, 0.4, 5.0, 0.7])


def test_declared_roles_are_checked():
    check_family(Declared(0), POINTS_OF_FIVE)


@pytest.mark.parametrize(("fault", "identity"), [(5, "packed and unpacked"), (6, "encoded in blocks")])
def test_wrong_roles_are_found(fault, identity):
    with pytest.raises(AssertionError, match=identity):
        check_family(Declared(fault), POINTS_OF_FIVE)


class WeightedStatistics(DeclaredStatistics):
    """With points that join to an extent; E log F(x; θ) = ψ(shape) − log rate − x shape/rate."""

    def add_weighted(s, k, i, weight):
        s.n[k] += weight * (weight if s.fault == 7 else 1.0)
        s.total[k] += weight * s.x[i]

    def expect(s, k):
        shape, rate = 2.0 + s.n[k], 1.5 + s.total[k]
        s.n[k] = digamma(shape if s.fault != 8 else shape + 1.0) - math.log(rate)
        s.total[k] = shape / rate

    def expected_log_likelihood_all(s, i, n_slots, out):
        for k in range(n_slots):
            out[k] += s.n[k] - s.x[i] * s.total[k]


@dataclass(frozen=True)
class Weighted(Declared):
    """`fault` 0: sound; 7: a weight is counted wrongly; 8: the wrong expectation."""

    statistics: ClassVar[type] = WeightedStatistics

    def allocate(self, encoded, capacity):
        return WeightedStatistics(encoded["x"], np.zeros(capacity), np.zeros(capacity), self.fault)


def test_weights_are_checked():
    check_family(Weighted(0), POINTS_OF_FIVE)
    for fault, identity in ((7, "add_weighted|expected_log"), (8, "expected_log_likelihood_all")):
        with pytest.raises(AssertionError, match=identity):
            check_family(Weighted(fault), POINTS_OF_FIVE)
    with pytest.raises(ValueError, match=r"variational needs the functions add_weighted, expect .* which Declared does not have"):
        mt.approximate.variational(POINTS_OF_FIVE, Declared(0), progress=False)
    with pytest.raises(ValueError, match=r"init 'variational' needs the functions add_weighted"):
        mt.sample(POINTS_OF_FIVE, Declared(0), init="variational", progress=False)
    with pytest.raises(ValueError, match=r"smc needs the function merge .* Declared has none"):
        mt.approximate.smc(POINTS_OF_FIVE, Declared(0), progress=False)


def statistics_of(family, data):
    model = Model.of(data, family, DirichletProcess(1.0))
    return MixtureState(model, np.arange(model.n) % 2, compiled=False).statistics


def test_a_family_that_declares_nothing_says_so():
    s = statistics_of(Faulty(0), POINTS)
    for use in (lambda: pack(s, 0), lambda: unpack(s, 0, np.zeros(2)), lambda: with_points(s, POINTS), lambda: with_own_scratch(s)):
        with pytest.raises(ValueError, match=r"FaultyStatistics do not say .* annotate them"):
            use()


def test_packed_vectors_of_another_shape_are_refused():
    s = statistics_of(mt.families.GammaPoisson(1.0, 1.0), [[1], [2], [3], [4]])
    with pytest.raises(ValueError, match=r"shape \(2,\); a cluster of this family takes 3 numbers"):
        unpack(s, 0, np.zeros(2))


def test_counts_beyond_doubles_are_not_packed():
    s = statistics_of(mt.families.DirichletMultinomial(1.0), [[3_000_000_000, 1], [1, 2]])
    np.testing.assert_array_equal(pack(s, 0)[:2], [3_000_000_000, 1])
    s.seen[0, 0] = 2**53
    with pytest.raises(ValueError, match="too large to be kept as a float"):
        pack(s, 0)


@pytest.mark.parametrize("family", [family for family in REGISTRY.values() if family.__name__ != "Product"], ids=lambda family: family.__name__)
def test_every_array_of_every_family_has_a_role_or_is_a_constant(family):
    example = family.EXAMPLES[0]
    s = statistics_of(example.family, example.data)
    declared = roles(type(s))
    assert all(isinstance(getattr(s, name), np.ndarray) for kind in declared for name in kind)
    other = with_own_scratch(s)
    assert all(getattr(other, name) is not getattr(s, name) for name in declared.scratch)
    assert all(getattr(other, name) is getattr(s, name) for name in s._fields if name not in declared.scratch)


def test_a_reader_of_other_points_remembers_none_of_the_first():
    """The normal–inverse-Wishart keeps the distances of the point scored last, by its number."""
    example = mt.families.NormalInverseWishart.EXAMPLES[1]
    model = Model.of(example.data, example.family, DirichletProcess(1.0))
    s = MixtureState(model, [0, 0, 0, 1, 1], compiled=False).statistics
    log_predictive_all(s, 0, 2, np.zeros(2))
    reader = with_points(s, model.family.selected(model.encoded, np.array([4])))
    assert reader.scored[0] == -1
    assert s.scored[0] == 0


@kernel
def merge_blindly(s, k, other):
    merge(s, k, other)


def test_merging_what_cannot_be_merged_is_an_error():
    s = statistics_of(Faulty(0), POINTS)
    assert not mergeable(s)
    for use in (lambda: merge(s, 0, 1), lambda: subtract(s, 0, 1), lambda: merge_blindly(s, 0, 1)):
        with pytest.raises(TypeError, match=r"do not define '(merge|subtract)'"):
            use()


def test_moves_that_ask_first_work_without_merging():
    model = Model.of(POINTS, Faulty(0), DirichletProcess(1.0))
    state, rng = MixtureState(model, np.zeros(4, dtype=int)), stream(0)
    for _ in range(20):
        SplitMerge().step(state, rng)
        state.audit()
