"""Split–merge leaves the enumerated posterior invariant to 1e-12, both ways to build the proposal, every prior and family; wrong ratios do not."""

import math

import numpy as np
import pytest

import maitre as mt
from maitre.families import REGISTRY as FAMILIES
from maitre.model import Model
from maitre.moves import SplitMerge, split_merge
from maitre.moves.split_merge import propose_many
from maitre.numerics.rng import stream
from maitre.priors import REGISTRY as PRIORS
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState
from maitre.testing import assert_invariant, compare_with_enumeration, enumerate_posterior, transition_matrix

ALL_PRIORS = [p for cls in PRIORS.values() for p in cls.EXAMPLES]
METHODS = {"sams": -1, "restricted-0": 0, "restricted-1": 1}


def matrix_of(model, scans, n_points=None):
    exact = enumerate_posterior(model)
    return exact, transition_matrix(model, lambda state, rng: propose_many(state, 1, scans, rng), exact)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("prior", ALL_PRIORS, ids=str)
def test_every_prior(prior, method):
    example = FAMILIES["KnownCovarianceGaussian"].EXAMPLES[0]
    n = 4 if method == "sams" else 3
    assert_invariant(*matrix_of(Model.of(example.data[:n], example.family, prior), METHODS[method]))


@pytest.mark.parametrize("method", ["sams", "restricted-1"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family, method):
    example = FAMILIES[family].EXAMPLES[-1]
    n = 4 if method == "sams" else 3
    assert_invariant(*matrix_of(Model.of(example.data[:n], example.family, DirichletProcess(0.9)), METHODS[method]))


@pytest.mark.long
@pytest.mark.parametrize("method", ["restricted-0", "restricted-1"])
@pytest.mark.parametrize("prior", ALL_PRIORS, ids=str)
def test_every_prior_with_four_points(prior, method):
    example = FAMILIES["KnownCovarianceGaussian"].EXAMPLES[0]
    assert_invariant(*matrix_of(Model.of(example.data[:4], example.family, prior), METHODS[method]))


@pytest.mark.long
def test_five_points():
    example = FAMILIES["NormalInverseGamma"].EXAMPLES[0]
    assert_invariant(*matrix_of(Model.of(example.data[:5], example.family, PRIORS["PitmanYor"].EXAMPLES[0]), -1))


def _new_cluster_one_percent_too_cheap(state):
    state.log_v = state.log_v + 0.01 * np.arange(len(state.log_v))


def _sizes_left_out(state):
    state.log_w = np.zeros_like(state.log_w)


@pytest.mark.parametrize("spoil", [_new_cluster_one_percent_too_cheap, _sizes_left_out])
@pytest.mark.parametrize("scans", [-1, 1])
def test_wrong_prior_factors_fail(spoil, scans):
    example = FAMILIES["KnownCovarianceGaussian"].EXAMPLES[0]
    model = Model.of(example.data[: 4 if scans < 0 else 3], example.family, DirichletProcess(1.0))
    exact = enumerate_posterior(model)

    def step(state, rng):
        spoil(state)
        propose_many(state, 1, scans, rng)

    with pytest.raises(AssertionError, match="invariant"):
        assert_invariant(exact, transition_matrix(model, step, exact))


class _WrongDensity:
    """Stands in for `math`: log(1 + e^gap) becomes 0, so that a proposal's density is the ratio of weights where it should be the share."""

    log, exp = staticmethod(math.log), staticmethod(math.exp)
    log1p = staticmethod(lambda value: 0.0)


@pytest.mark.parametrize("wrong", [("math", _WrongDensity), ("log_chance", lambda *sizes: 0.0)], ids=["density of the split", "chance of the pair"])
def test_a_wrong_ratio_fails(wrong, monkeypatch):
    monkeypatch.setattr(split_merge, *wrong)
    example = FAMILIES["KnownCovarianceGaussian"].EXAMPLES[0]
    with pytest.raises(AssertionError, match="invariant"):
        assert_invariant(*matrix_of(Model.of(example.data[:4], example.family, DirichletProcess(1.0)), -1))


@pytest.mark.parametrize("name", ["NormalInverseGamma", "NormalInverseWishart", "KnownCovarianceGaussian"])
@pytest.mark.parametrize("method", ["sams", "restricted_gibbs"])
def test_compiled_and_plain_agree_and_keep_every_invariant(name, method):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2)) + 5.0 * rng.integers(0, 3, size=(30, 1))
    model = Model.of(x, FAMILIES[name](), DirichletProcess(1.0))
    runs = []
    for compiled in (True, False):
        state, stream_of, move = MixtureState(model, np.zeros(30, dtype=int), compiled), stream(5), SplitMerge(method, proposals=5)
        labels = []
        for _ in range(20):
            move.step(state, stream_of)
            state.audit()
            labels.append(state.canonical_labels())
        runs.append(np.array(labels))
    assert runs[0].max() > 0
    np.testing.assert_array_equal(runs[0], runs[1])


def test_draws_have_the_enumerated_law():
    model = Model.of([[-1.0], [-0.8], [0.1], [0.9], [1.1]], mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.25), DirichletProcess(1.0))
    state, rng, move = MixtureState(model, np.zeros(5, dtype=int)), stream(2), SplitMerge("restricted_gibbs")
    drawn = np.empty((20_000, 5), dtype=np.int64)
    for t in range(len(drawn)):
        move.step(state, rng)
        drawn[t] = state.canonical_labels()
    distance, expected = compare_with_enumeration(enumerate_posterior(model), drawn)
    assert distance < 2.0 * expected


def test_hybrids_part_clusters_that_gibbs_cannot():
    """Two clusters seated as one in 40 dimensions with a diffuse prior: Gibbs alone never parts them."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 100)
    x = rng.normal(0.0, np.sqrt(2.0), (2, 40))[truth] + rng.normal(size=(200, 40))
    options = {"family": mt.families.KnownCovarianceGaussian(0.0, 100.0, 1.0), "init": "one", "draws": 20, "burn_in": 20, "chains": 1, "progress": False}
    assert mt.sample(x, moves="gibbs", **options).n_clusters[0, -1] == 1
    together = mt.sample(x, moves="gibbs+split_merge", **options)
    assert mt.partitions.adjusted_rand(truth, together.best) == 1.0
    assert together.moves["split_merge"]["operations"] > 1.0


def test_errors():
    with pytest.raises(ValueError, match="expected one of 'sams', 'restricted_gibbs', 'launch'"):
        SplitMerge("best")
    with pytest.raises(ValueError, match="scans is -1"):
        SplitMerge(scans=-1)
