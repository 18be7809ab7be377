"""Clusters whose covariances share a scale W that is sampled: enumeration with W and δ integrated numerically, Geweke's test, resumed runs; wrong moves must fail."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import maitre as mt
from maitre.families import HierarchicalNormalInverseWishart as Hierarchical
from maitre.model import Model
from maitre.moves import FamilyHyperparameters, Gibbs, resolve
from maitre.numerics.rng import stream
from maitre.partitions.enumeration import all_partitions
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState
from maitre.testing import compare_with_enumeration, geweke
from maitre.testing.enumeration import EnumeratedPosterior

X = np.array([[-1.2], [-0.9], [0.8], [1.1]])
FAMILY = Hierarchical(mean=0.0, kappa=0.3, freedom=mt.LogUniform(1.0, 20.0), scale=1.0)


class _NoData(FamilyHyperparameters):
    """A wrong move: covariances are drawn without their points' degrees of freedom."""

    def step(self, state, rng):
        report = super().step(state, rng)
        n = state.statistics.n.copy()
        state.statistics.n[:] = 0.0
        state.set_family(
            state.family.arrays_redrawn(
                state.statistics, np.flatnonzero(state.sizes), state.labels, state.model.encoded, np.random.default_rng(int(rng[0] % 2**32))
            )
        )
        state.statistics.n[:] = n
        state.rebuild()
        state.log_joint = state.compute_log_joint()
        return report


def log_marginal(x, w, delta, kappa):
    """Of one cluster in one dimension: ν = δ + 2, Λ0 = δ w."""
    n, nu = len(x), delta + 2.0
    scale = delta * w
    scatter = scale + ((x - x.mean()) ** 2).sum() + kappa * n / (kappa + n) * x.mean() ** 2
    value = gammaln(0.5 * (nu + n)) - gammaln(0.5 * nu) - 0.5 * n * np.log(np.pi) + 0.5 * np.log(kappa / (kappa + n))
    return value + 0.5 * nu * np.log(scale) - 0.5 * (nu + n) * np.log(scatter)


def enumerated():
    """p(C | x) with W ~ Gamma(3/2, rate 3/2) and log δ uniform, both by the midpoint rule."""
    grid = (np.arange(400) + 0.5) / 400
    w, delta = stats.gamma.ppf(grid, 1.5, scale=1 / 1.5)[:, None], 20.0 ** ((np.arange(60) + 0.5) / 60)[None, :]
    probabilities = {}
    for labels in all_partitions(len(X)):
        sizes = np.bincount(labels)
        total = np.zeros((400, 60)) + sum(gammaln(size) for size in sizes)
        for k in range(len(sizes)):
            total = total + log_marginal(X[np.array(labels) == k, 0], w, delta, 0.3)
        probabilities[tuple(labels)] = float(np.exp(total).mean())
    partitions, values = list(probabilities), np.array(list(probabilities.values()))
    return EnumeratedPosterior(partitions, np.log(values))


def drawn(moves, n_draws=6000):
    model = Model.of(X, FAMILY, DirichletProcess(1.0))
    state, rng = MixtureState(model, np.zeros(len(X), dtype=int)), stream(4, 2)
    labels = np.empty((n_draws, len(X)), dtype=np.int64)
    for t in range(n_draws):
        for move in moves:
            move.step(state, rng)
        labels[t] = state.canonical_labels()
    state.audit()
    return labels


def test_the_partition_has_the_law_with_the_scale_integrated_out():
    distance, expected = compare_with_enumeration(enumerated(), drawn([Gibbs(), FamilyHyperparameters()]))
    assert distance < 2.0 * expected, (distance, expected)


def test_a_scale_drawn_without_the_points_is_found():
    distance, expected = compare_with_enumeration(enumerated(), drawn([Gibbs(), _NoData()], 3000))
    assert distance > 3.0 * expected, (distance, expected)


@pytest.mark.parametrize("n_dimensions", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("wrong", [False, True])
def test_geweke(n_dimensions, wrong):
    scale = [1.0] if n_dimensions == 1 else [[1.0, 0.4], [0.4, 0.7]]
    family = Hierarchical(mean=0.0, kappa=mt.Gamma(3, 6), freedom=mt.LogUniform(2.0, 30.0), scale=scale)
    model = Model.of(np.zeros((4, n_dimensions)), family, DirichletProcess(1.0))
    composed = resolve("gibbs", model)
    composed.freeze()
    moves = [composed, _NoData()] if wrong else [composed]

    def step(state, rng):
        for move in moves:
            move.step(state, rng)

    found = geweke(model, step, 500 if wrong else 2000)
    assert (max(map(abs, found.values())) < 4.0) != wrong, found


def test_the_density_of_the_scale_is_that_of_scipy():
    scale = np.array([[1.0, 0.4], [0.4, 1.0]])
    family, shared = Hierarchical(scale=scale), np.array([[0.8, 0.1], [0.1, 1.3]])
    assert family.log_density_of_arrays({"shared": shared}) == pytest.approx(stats.wishart(4, scale / 4).logpdf(shared) + 1.5 * np.linalg.slogdet(shared)[1])


def test_the_scale_climbs():
    """EM raises log p(C, x, W): after a few steps, at a fixed point."""
    rng = np.random.default_rng(0)
    state = MixtureState(Model.of(rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3)), Hierarchical(), DirichletProcess(1.0)), np.arange(40) % 2, compiled=False)
    reached = [state.log_joint]
    for _ in range(30):
        state.set_family(state.family.arrays_ascended(state.statistics, np.array([0, 1])))
        reached.append(state.log_joint)
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(reached))
    assert reached[-1] - reached[0] > 1.0
    assert reached[-1] - reached[-2] < 0.05


def test_resumed_runs_go_on_bit_for_bit(tmp_path):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 6.0])
    options = {"family": Hierarchical(), "moves": "gibbs", "burn_in": 10, "chains": 1, "seed": 3, "progress": False}
    whole = mt.sample(x, draws=130, **options)
    mt.sample(x, draws=60, store=tmp_path / "run", **options)
    resumed = mt.resume(tmp_path / "run", draws=130, progress=False)
    for name in ("labels", "family.shared", "family.freedom", "family.kappa", "log_joint"):
        np.testing.assert_array_equal(np.asarray(resumed.draws[name]), np.asarray(whole.draws[name]), err_msg=name)
    np.testing.assert_array_equal(resumed.log_density(x[:3]), whole.log_density(x[:3]))


def test_part_of_a_product():
    """Numbers beside categories: the group's matrix is sampled along."""
    x = np.column_stack([np.random.default_rng(2).normal(size=(30, 2)), np.arange(30) % 3])
    family = mt.families.Product([([0, 1], Hierarchical()), (2, mt.families.Categorical())])
    model = Model.of(x, family, DirichletProcess(1.0))
    state = MixtureState(model, np.arange(30) % 2, compiled=False)
    before = state.arrays["0.shared"].copy()
    rng = stream(0)
    for _ in range(8):
        FamilyHyperparameters().step(state, rng)
    assert not np.array_equal(before, state.arrays["0.shared"])
    assert [v.shape for v in MixtureState.declare(model) if v.name == "family.0.shared"] == [(2, 2)]
    state.audit()


@pytest.mark.parametrize(("name", "values"), [("kappa", (0.02, 0.7)), ("freedom", (1.5, 40.0))])
def test_the_likelihood_as_a_function_of_one_number(name, values):
    """The closed forms by which κ and δ are drawn, against the clusters' marginals."""
    rng = np.random.default_rng(0)
    state = MixtureState(
        Model.of(rng.normal(size=(30, 3)) @ rng.normal(size=(3, 3)) + 1.0, Hierarchical(mean=0.0), DirichletProcess(1.0)), np.arange(30) % 3, compiled=False
    )
    function = state.family.log_likelihood_of_clusters(state.statistics, np.arange(3), name)
    expected = [state.log_likelihood_at({name: value}) for value in values]
    assert function(values[1]) - function(values[0]) == pytest.approx(expected[1] - expected[0], abs=1e-9)


GAPPED = np.array([[0.3, -0.5], [np.nan, 1.4], [-1.1, np.nan], [0.9, 0.8]])


def missing_drawn(n_draws, redraw):
    """Draws of the two missing values with all points in one cluster and everything else fixed."""
    family = Hierarchical(0.0, 0.4, 3.0, np.array([[1.0, 0.3], [0.3, 1.0]]), shared=np.array([[0.9, 0.2], [0.2, 0.7]]))
    state, rng, drawn = MixtureState(Model.of(GAPPED, family, DirichletProcess(1.0)), np.zeros(4, dtype=int), compiled=False), np.random.default_rng(0), []
    for _ in range(n_draws):
        state.set_family({"missing": redraw(state, rng)["missing"]})
        drawn.append(state.arrays["missing"].copy())
    state.audit()
    return np.array(drawn), state


def test_missing_values_have_their_law():
    """Against the joint density of one cluster on a grid of the two missing values."""
    drawn, state = missing_drawn(1500, lambda s, rng: s.family.arrays_redrawn(s.statistics, np.array([0]), s.labels, s.model.encoded, rng))
    grid = np.linspace(-12.0, 12.0, 61)
    log_density = np.zeros((61, 61))
    for i, a in enumerate(grid):
        for j, b in enumerate(grid):
            x = state.model.encoded["x"].copy()
            x[1, 0], x[2, 1] = a, b
            n, kappa, nu, mean = 4, 0.4, 6.0, x.mean(axis=0)
            scatter = 3.0 * state.statistics.prior_scale + (x - mean).T @ (x - mean) + kappa * n / (kappa + n) * np.outer(mean, mean)
            log_density[i, j] = -0.5 * (nu + n) * np.linalg.slogdet(scatter)[1]
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    for axis, column in ((0, drawn[:, 0]), (1, drawn[:, 1])):
        law = weights.sum(axis=1 - axis)
        cumulative = np.array([(column <= value + 0.2).mean() for value in grid])
        assert np.abs(cumulative - np.cumsum(law)).max() < 0.05, axis
    wrong, _ = missing_drawn(400, lambda s, rng: {"missing": rng.standard_normal(2)})
    assert np.abs(np.array([(wrong[:, 0] <= value + 0.2).mean() for value in grid]) - np.cumsum(weights.sum(axis=1))).max() > 0.08


def test_new_rows_with_gaps_are_scored_by_what_is_observed():
    """The density of the first column of a row is that of the whole row, integrated over the second."""
    state = MixtureState(Model.of(GAPPED, Hierarchical(kappa=0.005), DirichletProcess(1.0)), np.array([0, 0, 1, 1]), compiled=False)
    family, grid = state.family, np.linspace(-60.0, 60.0, 4001)
    rows = np.column_stack([np.full(len(grid), 0.7), grid])
    s = state.reading(family.encode(np.vstack([rows, [[0.7, np.nan]]])))
    for k in (0, 1, 2):
        density = np.exp([s.log_predictive(k, i) for i in range(len(grid))]).sum() * (grid[1] - grid[0])
        assert family.log_predictive_with_gaps(s, np.array([len(grid)]), 3)[0, k] == pytest.approx(np.log(density), abs=2e-3)


def test_gaps_are_taken_and_imputed():
    """Two groups, of whose second column a fifth is missing; it is drawn near its group's mean, and resumes."""
    rng = np.random.default_rng(1)
    y = np.arange(60) % 2
    x = rng.normal(size=(60, 2)) + 8.0 * y[:, None]
    truth = x[:12, 1].copy()
    x[:12, 1] = np.nan
    posterior = mt.sample(x, Hierarchical(), moves="gibbs", draws=100, burn_in=50, chains=1, seed=1, progress=False)
    assert mt.partitions.adjusted_rand(posterior.best, y) == 1.0
    assert np.abs(posterior.impute()["value"].to_numpy(dtype=float) - truth).max() < 4.0
    assert np.isfinite(posterior.log_density([[8.0, np.nan], [np.nan, 0.0]])).all()
    assert list(posterior.predict([[8.0, np.nan], [0.0, np.nan]])) == [posterior.best[1], posterior.best[0]]
