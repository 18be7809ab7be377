"""Clusters with heavy tails, whose points have weights that are sampled: enumeration with the weights integrated numerically, Geweke's test, statistics against their definition; wrong moves must fail."""

import itertools

import numpy as np
import pytest
from scipy import stats

import maitre as mt
from maitre.chains.choice import assembled
from maitre.chains.tails import degrees_of_freedom
from maitre.families import HierarchicalStudent as Student
from maitre.model import Model
from maitre.moves import FamilyHyperparameters, Gibbs, Reweigh, resolve
from maitre.numerics.rng import stream
from maitre.partitions.enumeration import all_partitions
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState
from maitre.testing import compare_with_enumeration, geweke
from maitre.testing.enumeration import EnumeratedPosterior

X = np.array([[-1.0], [0.4], [3.5]])
TAILS = 3.0
FAMILY = Student(mean=0.0, kappa=0.3, freedom=2.0, scale=1.0, shared=0.6, tails=TAILS)


class _WithoutDistances(FamilyHyperparameters):
    """A wrong move: weights from their prior, whatever the points say."""

    def step(self, state, rng):
        report = super().step(state, rng)
        state.set_family({"weights": np.random.default_rng(int(rng[0] % 2**32)).gamma(0.5 * TAILS, 2.0 / TAILS, state.model.n)})
        return report


def state_with(weights, labels, x=X, family=FAMILY):
    values = {"family.weights": weights}
    return MixtureState(Model.of(x, family, DirichletProcess(1.0)), np.asarray(labels), compiled=False, values=values)


def enumerated():
    """p(C | x), the three weights integrated by quantiles of their prior."""
    grid = stats.gamma.ppf((np.arange(24) + 0.5) / 24, 0.5 * TAILS, scale=2.0 / TAILS)
    partitions, totals = list(all_partitions(3)), []
    for labels in partitions:
        total = 0.0
        for weights in itertools.product(grid, repeat=3):
            total += np.exp(_log_joint(np.array(weights), np.array(labels)))
        totals.append(total)
    return EnumeratedPosterior([tuple(labels) for labels in partitions], np.log(totals))


def _log_joint(weights, labels):
    """log p(C) + Σ log p(x_c | u) written out for one dimension: ν = δ + 2, Λ0 = δ w."""
    from scipy.special import gammaln

    kappa, nu, scale, value = 0.3, 4.0, 2.0 * 0.6, 0.0
    for k in range(labels.max() + 1):
        x, u = X[labels == k, 0], weights[labels == k]
        n, total = len(x), u.sum()
        mean = (u * x).sum() / total
        posterior = scale + (u * (x - mean) ** 2).sum() + kappa * total / (kappa + total) * mean**2
        value += gammaln(n) + gammaln(0.5 * (nu + n)) - gammaln(0.5 * nu) - 0.5 * n * np.log(np.pi) + 0.5 * np.log(u).sum()
        value += 0.5 * np.log(kappa / (kappa + total)) + 0.5 * nu * np.log(scale) - 0.5 * (nu + n) * np.log(posterior)
    return value


def test_marginals_are_those_of_the_definition():
    weights = np.array([0.4, 2.3, 0.7])
    differences = [state_with(weights, labels).log_likelihood() - _log_joint(weights, np.array(labels)) + _log_sizes(labels) for labels in all_partitions(3)]
    assert np.ptp(differences) < 1e-12
    assert abs(differences[0]) < 1e-10


def _log_sizes(labels):
    from scipy.special import gammaln

    return gammaln(np.bincount(labels)).sum()


def test_predictives_are_ratios_of_marginals_in_two_dimensions():
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(8, 2)) + 1.0, rng.gamma(1.0, size=8)
    family = Student.EXAMPLES[1].family
    state = state_with(weights, [0, 0, 0, 0, 1, 1, 1, 2], x, family)
    s = state.statistics
    for k, i in ((0, 4), (1, 0), (2, 3), (3, 5)):
        before = s.log_marginal(k)
        expected = s.log_predictive(k, i)
        scores = np.zeros(4)
        s.log_predictive_all(i, 4, scores)
        s.add(k, i)
        s.refresh(k)
        assert s.log_marginal(k) - before == pytest.approx(expected, abs=1e-9)
        assert scores[k] == pytest.approx(expected, abs=1e-7)
        assert s.log_predictive_without(k, i) == pytest.approx(expected, abs=1e-9)
        s.remove(k, i)
        s.refresh(k)
        assert s.log_marginal(k) == pytest.approx(before, abs=1e-9)
    together = s.log_marginal(0) + s.log_marginal(1)
    s.merge(0, 1)
    s.subtract(0, 1)
    s.derive(0)
    assert s.log_marginal(0) + s.log_marginal(1) == pytest.approx(together, abs=1e-9)
    state.rebuild()
    state.audit()


def drawn(move, n_draws):
    state, rng = MixtureState(Model.of(X, FAMILY, DirichletProcess(1.0)), np.zeros(3, dtype=int)), stream(5, 1)
    labels = np.empty((n_draws, 3), dtype=np.int64)
    gibbs = Gibbs()
    for t in range(n_draws):
        gibbs.step(state, rng)
        move.step(state, rng)
        labels[t] = state.canonical_labels()
    state.audit()
    return labels


@pytest.mark.parametrize("move", [FamilyHyperparameters(), Reweigh()])
def test_the_partition_has_the_law_with_the_weights_integrated_out(move):
    distance, expected = compare_with_enumeration(enumerated(), drawn(move, 6000))
    assert distance < 2.0 * expected, (distance, expected)


class _OtherTails(Reweigh):
    """A wrong ratio: the weights' prior in it is another one."""

    def step(self, state, rng):
        family, state.family = state.family, state.family.at({"tails": 40.0})
        report = super().step(state, rng)
        state.family = family
        state.log_joint = state.compute_log_joint()
        return report


def test_a_wrong_ratio_of_weights_is_found():
    distance, expected = compare_with_enumeration(enumerated(), drawn(_OtherTails(), 6000))
    assert distance > 3.0 * expected, (distance, expected)


def test_weights_without_their_points_are_found():
    exact = enumerated()
    distance, expected = compare_with_enumeration(exact, drawn(_WithoutDistances(), 3000))
    assert distance > 3.0 * expected, (distance, expected)


@pytest.mark.long
@pytest.mark.parametrize("n_dimensions", [1, 2])
@pytest.mark.parametrize("wrong", [False, True])
def test_geweke(n_dimensions, wrong):
    family = Student(mean=0.0, kappa=mt.Gamma(3, 6), freedom=mt.LogUniform(2.0, 30.0), scale=np.eye(n_dimensions), tails=mt.LogUniform(2.0, 20.0))
    model = Model.of(np.zeros((4, n_dimensions)), family, DirichletProcess(1.0))
    composed = resolve("gibbs", model)
    composed.freeze()
    moves = [composed, *([_WithoutDistances()] if wrong else [])]

    def step(state, rng):
        for move in moves:
            move.step(state, rng)

    found = geweke(model, step, 2000 if wrong else 8000)
    assert (max(map(abs, found.values())) < 4.0) != wrong, found


def test_a_new_point_has_the_density_with_its_weight_integrated_out():
    state = state_with(np.array([0.4, 2.3, 0.7]), [0, 0, 1])
    new = np.array([[0.3], [-6.0], [200.0]])
    grid = np.exp(np.linspace(-25.0, 5.0, 6001))
    prior = stats.gamma.pdf(grid, 0.5 * TAILS, scale=2.0 / TAILS) * grid * (30.0 / 6000)
    found = state.family.log_predictive_with_gaps(state.reading(state.family.encode(new)), np.arange(3), 3)
    for i in range(3):
        for k in range(3):
            encoded = state.family.encode(np.full((6001, 1), new[i, 0])) | {"weight": grid}
            s = state.reading(encoded)
            densities = np.exp([s.log_predictive(k, t) for t in range(0, 6001, 5)])
            assert found[i, k] == pytest.approx(np.log(5.0 * (densities * prior[::5]).sum()), abs=1e-3)


def test_noise_with_heavy_tails_is_one_cluster_and_runs_resume(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)) / np.sqrt(rng.chisquare(3, (200, 1)) / 3.0)
    options = {"family": "HierarchicalStudent", "moves": "gibbs", "init": "one", "burn_in": 60, "chains": 1, "seed": 3, "progress": False}
    whole = mt.sample(x, draws=60, **options)
    assert whole.n_clusters.mean() < 2.0
    assert 1.0 < whole.draws["family.tails"].mean() < 15.0
    assert whole.draws["family.weights"][0, -1][np.abs(x).max(axis=1) > 5.0].mean() < 0.5
    mt.sample(x, draws=20, store=tmp_path / "run", **options)
    resumed = mt.resume(tmp_path / "run", draws=60, progress=False)
    for name in ("labels", "family.weights", "family.tails", "log_joint"):
        np.testing.assert_array_equal(np.asarray(resumed.draws[name]), np.asarray(whole.draws[name]), err_msg=name)
    assert np.isfinite(whole.log_density([[0.0] * 4, [50.0] * 4])).all()


def test_heavy_tails_are_noticed_and_chosen():
    rng = np.random.default_rng(2)
    x, labels = np.concatenate([rng.normal(size=(150, 2)), rng.normal(size=(100, 2)) + 8.0]), (np.arange(250) >= 150).astype(int)
    heavy = x[:150] / np.sqrt(rng.chisquare(3, (150, 1)) / 3.0)
    assert degrees_of_freedom(x, labels) > 10.0
    assert degrees_of_freedom(heavy, labels[:150]) < 5.0
    assert type(assembled(x).family).__name__ == "HierarchicalNormalInverseWishart"
    model = assembled(heavy)
    assert type(model.family).__name__ == "HierarchicalStudent"
    assert "heavy tails predict better" in model.choice
