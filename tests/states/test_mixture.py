import numpy as np
import pytest
from scipy import sparse

import maitre as mt
from maitre.chains.starts import initial_labels, most_clusters
from maitre.families.statistics import add, refresh, remove
from maitre.model import Model
from maitre.moves.gibbs import Gibbs
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_below
from maitre.numerics.rng import stream
from maitre.partitions import canonical
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) * [1.0, 10.0, 0.1, 3.0] + 5.0 * RNG.integers(0, 3, size=(60, 1))
FAMILIES = {
    "KnownCovarianceGaussian": (mt.families.KnownCovarianceGaussian(0.0, 9.0, 1.0), X),
    "NormalInverseGamma": (mt.families.NormalInverseGamma(), X),
    "NormalInverseWishart": (mt.families.NormalInverseWishart(), X),
    "DirichletMultinomial": (mt.families.DirichletMultinomial(0.5), RNG.poisson(1.0, size=(60, 12))),
    "BetaBernoulli": (mt.families.BetaBernoulli(), RNG.integers(0, 2, size=(60, 5))),
    "GammaPoisson": (mt.families.GammaPoisson(), RNG.poisson(3.0, size=(60, 4))),
    "Categorical": (mt.families.Categorical(), RNG.integers(0, 4, size=(60, 3))),
}


@kernel
def juggle(s, labels, sizes, n_pairs, n_slots, rng):
    """Take a random point out of its cluster and put it into a random one, again and again."""
    for _ in range(n_pairs):
        i = draw_below(len(labels), rng)
        own, to = labels[i], draw_below(n_slots, rng)
        if sizes[own] > 1:
            remove(s, own, i)
            refresh(s, own)
            add(s, to, i)
            refresh(s, to)
            sizes[own] -= 1
            sizes[to] += 1
            labels[i] = to


RAW = ("n", "total", "square", "counts", "mean", "scatter", "seen", "column_seen", "factor")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_million_changes_leave_the_statistics_right(name):
    """Without a single rebuild on the way: raw statistics and the Cholesky factor within 1e-8 of a fresh build."""
    family, data = FAMILIES[name]
    state = MixtureState(Model.of(data, family, DirichletProcess(1.0)), np.arange(60) % 5)
    state.run(juggle, state.labels, state.sizes, 1_000_000, 5, stream(0, 9))
    drifted = {field: getattr(state.statistics, field).copy() for field in RAW if hasattr(state.statistics, field)}
    drifted = {field: values for field, values in drifted.items() if isinstance(values, np.ndarray)}
    state.rebuild()
    assert drifted
    for field, values in drifted.items():
        fresh = getattr(state.statistics, field)
        np.testing.assert_allclose(values, fresh, rtol=1e-8, atol=1e-8 * max(1.0, float(np.abs(fresh).max())), err_msg=field)


def test_audit_finds_every_kind_of_corruption():
    def fresh():
        return MixtureState(Model.of(X, mt.families.NormalInverseGamma(), DirichletProcess(1.0)), np.arange(60) % 3)

    fresh().audit()
    state = fresh()
    state.sizes[0] += 1
    with pytest.raises(AssertionError, match="sizes"):
        state.audit()
    state = fresh()
    state.statistics.mean[0, 0] += 1e-3
    with pytest.raises(AssertionError, match="statistics"):
        state.audit()
    state = fresh()
    state.log_joint += 1e-3
    with pytest.raises(AssertionError, match="log joint"):
        state.audit()
    state = fresh()
    state.log_join[0] += 1e-3
    with pytest.raises(AssertionError, match="prior weights"):
        state.audit()


@pytest.mark.parametrize("name", FAMILIES)
def test_sweeps_from_singletons_keep_every_invariant(name):
    """More clusters than slots to begin with, then far fewer: slots are added, freed and closed up."""
    family, data = FAMILIES[name]
    state, rng = MixtureState(Model.of(data, family, DirichletProcess(0.5)), np.arange(60)), stream(1)
    for _ in range(15):
        state.tidy()
        Gibbs().step(state, rng)
        state.audit()
    assert state.n_clusters < 60


def test_room_is_made_in_the_middle_of_a_sweep():
    """Sequential prediction of far-apart points opens a cluster each, more than the slots there are at first."""
    points = 1000.0 * np.arange(100.0)[:, None]
    posterior = mt.sample(
        points,
        family=mt.families.KnownCovarianceGaussian(0.0, 1e9, 1.0),
        prior=DirichletProcess(5.0),
        init="sequential",
        draws=1,
        burn_in=0,
        chains=1,
        progress=False,
    )
    assert posterior.n_clusters[0, 0] == 100


def test_initial_labels_by_name():
    model, rng = Model.of(X, mt.families.NormalInverseGamma(), DirichletProcess(1.0)), stream(0)
    assert initial_labels("one", model, rng).max() == 0
    assert initial_labels("singletons", model, rng).max() == 59
    assert initial_labels("random:7", model, rng).max() == 6
    assert len(np.unique(initial_labels("kmeans:4", model, rng))) == 4
    assert set(initial_labels("sequential", model, rng)) == {-1}
    assert initial_labels([5] * 30 + [2] * 30, model, rng).tolist() == [0] * 30 + [1] * 30


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ("nonsense", "unknown init"),
        ("random:x", "unknown init"),
        ("one:3", "unknown init"),
        ([0, 1], "init has 2 labels for 60 points"),
        ("random:0", "unknown init"),
    ],
)
def test_unknown_initialisations(init, message):
    model = Model.of(X, mt.families.NormalInverseGamma(), DirichletProcess(1.0))
    with pytest.raises(ValueError, match=message):
        initial_labels(init, model, stream(0))


def test_no_start_beyond_what_the_prior_allows():
    model = Model.of(X, mt.families.NormalInverseGamma(), mt.priors.FiniteDirichlet(5, 1.0))
    assert most_clusters(model) == 5
    assert initial_labels("random", model, stream(0)).max() == 4
    with pytest.raises(ValueError, match="at most 5"):
        initial_labels("singletons", model, stream(0))
    with pytest.raises(ValueError, match="at most 5"):
        initial_labels(np.arange(60), model, stream(0))
    for init in ("auto", "sequential", "kmeans:9"):
        assert mt.sample(X, prior=model.prior, init=init, draws=5, burn_in=2, chains=1, progress=False).n_clusters.max() <= 5


def test_k_means_on_sparse_counts():
    counts = sparse.csr_matrix(RNG.poisson(1.0, size=(40, 30)))
    model = Model.of(counts, mt.families.DirichletMultinomial(), DirichletProcess(1.0))
    assert initial_labels("kmeans:3", model, stream(0)).max() <= 2


def test_canonical_labels():
    state = MixtureState(Model.of(X, mt.families.NormalInverseGamma(), DirichletProcess(1.0)), (np.arange(60) * 7) % 4)
    for _ in range(3):
        Gibbs().step(state, stream(2))
        np.testing.assert_array_equal(state.canonical_labels(), canonical(state.labels))
