"""The moves that parallelise over points: label steps and launched splits as matrices, and draws against enumeration."""

import math
from itertools import product

import numpy as np
import pytest

import maitre as mt
from maitre.engines import Threads
from maitre.families import REGISTRY as FAMILIES
from maitre.model import Model
from maitre.moves import Parallel, label_free, label_free_kernels, label_kernels, launch
from maitre.moves.label_free import LabelFree
from maitre.moves.labels import Explicit, LabelStep
from maitre.moves.split_merge import launch_many
from maitre.numerics.draw import draw_below
from maitre.numerics.rng import stream
from maitre.posterior.diagnostics import effective_sample_size
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState
from maitre.testing import assert_invariant, compare_with_enumeration, enumerate_posterior, follow_branches, transition_matrix

pytestmark = pytest.mark.xdist_group("parallel")  # one process compiles the kernels that these need

X = np.array([[-1.0], [-0.8], [0.1], [0.9], [1.1], [2.0]])
FAMILY = mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.25)


def model_of(n, family=FAMILY):
    return Model.of(X[:n], family, DirichletProcess(1.0))


class Assignments:
    """All assignments of points to K clusters with given weights and parameters, those that leave a cluster empty left out or not, and their law."""

    def __init__(self, n, weights, means, empty):
        self.model, n_clusters = model_of(n), len(weights)
        state = MixtureState(self.model, np.arange(n) % n_clusters, compiled=False)
        self.explicit = Explicit(np.full(state.capacity, -np.inf), np.zeros((state.capacity, 1)), 0.0)
        self.explicit.log_weights[:n_clusters] = np.log(weights)
        self.explicit.theta[:n_clusters, 0] = np.array(means) / 0.5  # the family's points are divided by σ
        scores = np.log(weights) - 0.5 * (X[:n] - np.array(means)) ** 2 / 0.25
        self.states = [z for z in product(range(n_clusters), repeat=n) if empty or len(set(z)) == n_clusters]
        law = np.exp([sum(scores[i, k] for i, k in enumerate(z)) for z in self.states])
        self.probabilities = law / law.sum()

    def matrix(self, step):
        found = np.zeros((len(self.states), len(self.states)))

        def run(rng, z):
            state = MixtureState(self.model, np.zeros(len(z), dtype=int), compiled=False)
            state.labels[:] = z
            state.rebuild()
            step(state, rng)
            return tuple(int(k) for k in state.labels)

        for row, z in enumerate(self.states):
            for after, probability in follow_branches(lambda rng, z=z: run(rng, z)):
                found[row, self.states.index(after)] += probability
        return found


TWO, THREE, SLICED = (4, [0.5, 0.3], [-0.7, 1.0]), (3, [0.5, 0.3, 0.1], [-0.7, 1.0, 0.2]), (2, [0.5, 0.3, 0.1], [-0.7, 1.0, 0.2])


@pytest.mark.parametrize("case", [TWO, THREE], ids=["4 points", "3 clusters"])
def test_labels_half_by_half_leave_their_law_invariant(case):
    law = Assignments(*case, empty=False)
    assert_invariant(law, law.matrix(lambda state, rng: LabelStep(state).half_by_half(law.explicit, rng)))


def test_without_protection_it_fails(monkeypatch):
    """If every cluster counts as open, points leave clusters empty."""
    law = Assignments(*TWO, empty=False)
    counts = LabelStep._counts
    monkeypatch.setattr(LabelStep, "_counts", lambda self, coins: np.maximum(counts(self, coins), (np.arange(self.state.capacity) < 2).astype(int)))
    with pytest.raises(ValueError, match="is not in list"):
        law.matrix(lambda state, rng: LabelStep(state).half_by_half(law.explicit, rng))


def test_numbers_of_points_and_slots_mean_nothing():
    """Points in another order, or clusters in other slots, and the matrix is the same but for that."""
    n, weights, means = THREE
    before, law = Assignments(n, weights, means, empty=False), Assignments(n, weights[::-1], means[::-1], empty=False)

    def half_by_half(law):
        return law.matrix(lambda state, rng: LabelStep(state).half_by_half(law.explicit, rng))

    matrix, slots = half_by_half(before), [law.states.index(tuple(len(weights) - 1 - k for k in z)) for z in before.states]
    np.testing.assert_allclose(half_by_half(law)[np.ix_(slots, slots)], matrix, atol=1e-14)
    law = Assignments(n, weights, means, empty=False)
    law.model = Model.of(X[:n][::-1], FAMILY, DirichletProcess(1.0))
    points = [law.states.index(z[::-1]) for z in before.states]
    np.testing.assert_allclose(half_by_half(law)[np.ix_(points, points)], matrix, atol=1e-14)


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_labels_by_slices_leave_their_law_invariant(share):
    law = Assignments(*SLICED, empty=True)

    def step(state, rng):
        one = LabelStep(state)
        one._pass(one._coins(share, rng), 1, True, np.argsort(-law.explicit.log_weights)[:3], law.explicit, rng, rng)

    assert_invariant(law, law.matrix(step))


def test_slices_of_the_wrong_width_fail(monkeypatch):
    law = Assignments(*SLICED, empty=True)
    monkeypatch.setattr(label_kernels, "draw_reach", lambda log_weights, n, own, rng: own + 1 + draw_below(n - own, rng))

    def step(state, rng):
        one = LabelStep(state)
        one._pass(one._coins(1.0, rng), 1, True, np.argsort(-law.explicit.log_weights)[:3], law.explicit, rng, rng)

    with pytest.raises(AssertionError, match="invariant"):
        assert_invariant(law, law.matrix(step))


@pytest.mark.parametrize(("n", "scans"), [(3, 0), (3, 1), pytest.param(4, 1, marks=pytest.mark.long)])
def test_launched_split_merge_leaves_the_posterior_invariant(n, scans):
    """With the same numbers behind parameters and weights in both directions: the launch is then a function of the pair and of who is with them."""
    model = model_of(n)
    exact = enumerate_posterior(model)
    assert_invariant(exact, transition_matrix(model, lambda state, rng: launch_many(state, 1, scans, rng, stream(7)), exact))


@pytest.mark.long
def test_a_launch_that_knows_the_present_split_fails(monkeypatch):
    model = model_of(4)
    exact = enumerate_posterior(model)
    monkeypatch.setattr(launch, "beta", lambda a, b, rng: 0.5 if a < b else 0.7)  # any function of the sides will do: this is still a launch …
    assert_invariant(exact, transition_matrix(model, lambda state, rng: launch_many(state, 1, 0, rng, stream(7)), exact))
    monkeypatch.setattr(launch, "log_chance", lambda *sizes: 0.0)  # … but the pair's chance matters
    with pytest.raises(AssertionError, match="invariant"):
        assert_invariant(exact, transition_matrix(model, lambda state, rng: launch_many(state, 1, 0, rng, stream(7)), exact))


@pytest.mark.parametrize("scans", [0, 2])
def test_the_ratio_of_a_merge_is_that_of_the_split_it_takes_back(scans, monkeypatch):
    """With the same pair and the same launch: what matrices show for three points, for six and any split of them."""
    state, ratios = MixtureState(model_of(6), np.zeros(6, dtype=int), compiled=False), []
    monkeypatch.setattr(launch, "pick_pair", lambda *_: (1, 4))
    monkeypatch.setattr(launch, "draw_event", lambda log_probability, _: ratios.append(log_probability) is None)
    splits = set()
    for seed in range(10):
        for n_clusters in (2, 1):
            launch_many(state, 1, scans, stream(seed), stream(7))
            assert state.n_clusters == n_clusters
            splits.add(tuple(state.canonical_labels()))
        assert ratios[-1] == pytest.approx(-ratios[-2], abs=1e-9)
    assert len(splits) > 2


def drawn(model, step, n, compiled=True):
    state, rng = MixtureState(model, np.zeros(model.n, dtype=int), compiled), stream(3)
    found = np.empty((n, model.n), dtype=np.int64)
    for t in range(n):
        step(state, rng)
        found[t] = state.canonical_labels()
    state.audit()
    return found


def _slices_alone(state, rng):
    LabelStep(state).slices(Explicit.drawn(state, rng), rng)
    state.rebuild()
    state.log_joint = state.compute_log_joint()


STEPS = {
    "all": Parallel(proposals=2).step,
    "slices": _slices_alone,
    "label-free": lambda state, rng: LabelFree(state).propose(5, rng),
}


@pytest.mark.parametrize("name", STEPS)
def test_draws_have_the_enumerated_law(name):
    model = model_of(6)
    distance, expected = compare_with_enumeration(enumerate_posterior(model), drawn(model, STEPS[name], 4_000))
    assert distance < 2.0 * expected


@pytest.mark.parametrize("step", [STEPS["all"], mt.moves.Superclusters(3).step], ids=["parallel", "superclusters"])
def test_without_data_the_number_of_clusters_is_that_of_the_prior(step):
    """All points at 0 and no freedom: E[K] = Σ α/(α + i)."""
    found = drawn(Model.of(np.zeros((6, 1)), mt.families.KnownCovarianceGaussian(0.0, 1e-14, 1.0), DirichletProcess(1.5)), step, 4_000).max(axis=1) + 1.0
    error = found.std() / math.sqrt(effective_sample_size(found))
    assert abs(found.mean() - sum(1.5 / (1.5 + i) for i in range(6))) < 4.0 * error < 0.3


def test_screened_proposals_have_the_enumerated_law(monkeypatch):
    """Two points, of a pool without the others, decide which proposals are looked at: the second stage makes up for it."""
    model, examined = model_of(5), []
    monkeypatch.setattr(label_free_kernels, "_LOOK", 2)
    monkeypatch.setattr(label_free_kernels, "_SCREEN", 2)
    monkeypatch.setattr(label_free, "pool_of", lambda n: np.array([0, 1, 3, 4]))

    def step(state, rng):
        move = LabelFree(state)
        move.propose(4, rng)
        examined.append(move.examined)
        LabelStep(state).half_by_half(Explicit.drawn(state, rng), rng)

    found = drawn(model, step, 2_000, compiled=False)
    distance, expected = compare_with_enumeration(enumerate_posterior(model), found)
    assert sum(examined) > 500
    assert distance < 2.0 * expected


@pytest.mark.long
@pytest.mark.parametrize("family", ["NormalInverseGamma", "NormalInverseWishart", "GammaPoisson", "Categorical", "DirichletMultinomial"])
def test_draws_of_every_family(family):
    example = FAMILIES[family].EXAMPLES[-1]
    model = Model.of(example.data[:5], example.family, DirichletProcess(1.0))
    distance, expected = compare_with_enumeration(enumerate_posterior(model), drawn(model, Parallel(proposals=2).step, 20_000))
    assert distance < 2.0 * expected


def mixed_data(n):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 2)) + 4.0 * rng.integers(0, 3, size=(n, 1))
    x[0] = 1e7  # so far out that single precision cannot tell
    return x


def families_in_lanes():
    holes = mixed_data(400)
    holes[::7, 1] = np.nan
    product_of = mt.families.Product([([0], mt.families.NormalInverseGamma()), ([1], mt.families.KnownCovarianceGaussian(0.0, 10.0, 1.0))])
    return {
        "known covariance": (mt.families.KnownCovarianceGaussian(0.0, 10.0, 0.01), mixed_data(400)),
        "holes": (mt.families.Product([([0, 1], mt.families.NormalInverseGamma())]), holes),
        "wishart": (mt.families.NormalInverseWishart(), mixed_data(400)),
        "many features": (
            mt.families.KnownCovarianceGaussian(0.0, 10.0, 1.0),
            np.random.default_rng(0).normal(size=(300, 20)) + np.random.default_rng(1).integers(0, 3, (300, 1)),
        ),
        "counts": (mt.families.GammaPoisson(), np.random.default_rng(0).poisson(5.0, (300, 2))),
        "product": (product_of, mixed_data(300)),
    }


@pytest.mark.parametrize(
    "name", ["known covariance", "many features", *(pytest.param(name, marks=pytest.mark.long) for name in ("holes", "wishart", "counts", "product"))]
)
def test_lanes_give_the_labels_of_double_precision(name):
    family, x = families_in_lanes()[name]
    model, chains = Model.of(x, family, DirichletProcess(2.0)), []
    for simply in (False, True):
        state, rng, found = MixtureState(model, np.arange(model.n) % 7), stream(2), []
        for _ in range(6):
            step = LabelStep(state, simply)
            step.half_by_half(step.slices(Explicit.drawn(state, rng), rng, 0.5), rng)
            state.audit()
            found.append(state.labels.copy())
        chains.append(found)
    np.testing.assert_array_equal(chains[0], chains[1])


@pytest.mark.parametrize("name", ["known covariance", *(pytest.param(name, marks=pytest.mark.long) for name in ("holes", "wishart", "counts", "product"))])
@pytest.mark.parametrize("kind", [label_free.SPLIT, label_free.MERGE, label_free.ANEW])
def test_lanes_say_of_a_proposal_what_its_points_say(name, kind):
    """The sums over all points that decide a proposal, outliers of 1e7 among them."""
    family, x = families_in_lanes()[name]
    state = MixtureState(Model.of(x, family, DirichletProcess(2.0)), np.arange(len(x)) % 3)
    proposals = LabelFree(state)
    assert proposals.in_lanes
    explicit = Explicit.drawn(state, stream(1))
    proposals.theta[:] = explicit.theta[[0, 1, 2, 1, 2]]
    found = []
    for proposals.in_lanes in (True, False):
        found.append(math.fsum(proposals._log_mixture(0, 0 if kind == label_free.SPLIT else 1, kind, 0.4, -0.3)))
    assert found[0] == pytest.approx(found[1], rel=1e-12, abs=1e-7)


def test_any_number_of_threads_gives_the_same_chain():
    rng = np.random.default_rng(0)
    model = Model.of(
        rng.normal(size=(140_000, 1)) + 5.0 * rng.integers(0, 4, size=(140_000, 1)), mt.families.KnownCovarianceGaussian(0.0, 40.0, 1.0), DirichletProcess(1.0)
    )
    chains = []
    for n in (1, 3):
        state, rng, move = MixtureState(model, np.zeros(model.n, dtype=int)), stream(1), Parallel()
        with Threads(n) as state.engine:
            assert state.regions().n_regions > 1
            move.burn_in(0.0)
            move.step(state, rng)
            move.burn_in(0.5)
            for _ in range(2):
                move.step(state, rng)
        state.audit()
        chains.append(state.labels.copy())
    assert state.n_clusters >= 4
    np.testing.assert_array_equal(chains[0], chains[1])


def test_adding_a_constant_to_data_and_mean_changes_nothing():
    found = []
    for shift in (0.0, 1024.0):
        model = Model.of(X + shift, mt.families.KnownCovarianceGaussian(shift, 4.0, 0.25), DirichletProcess(1.0))
        found.append(drawn(model, STEPS["all"], 50))
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.long
def test_inside_superclusters():
    model = model_of(5)
    move = mt.moves.Superclusters(2, Parallel(proposals=1))
    distance, expected = compare_with_enumeration(enumerate_posterior(model), drawn(model, move.step, 2_000))
    assert distance < 2.0 * expected


def test_what_is_refused():
    with pytest.raises(ValueError, match="'parallel' does not work with the prior PitmanYor, only with a DirichletProcess"):
        mt.sample(X, prior="PitmanYor", moves="parallel", progress=False)
    with pytest.raises(ValueError, match="sliced is 1"):
        Parallel(sliced=1.5)
