"""Clusters with heavy tails, whose points have weights that are sampled: enumeration with the weights integrated numerically, Geweke's test, statistics against their definition; wrong moves must fail."""

import itertools

import numpy as np
import pytest
from scipy import stats

import maitre as mt
from maitre.chains.choice import assembled
from maitre.chains.tails import degrees_of_freedom
from maitre.families import HierarchicalStudent as Student
from maitre.families.hierarchical import means_given, missing_given, precision_roots
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


class _OwnCovariances(Student):
    """A wrong draw: weights given other covariances than those from which W is drawn."""

    def points_redrawn(self, s, slots, roots, labels, encoded, rng):
        return super().points_redrawn(s, slots, precision_roots(s, slots, rng), labels, encoded, rng)


@pytest.mark.parametrize("kind", [Student, _OwnCovariances])
def test_weights_and_the_shared_scale_have_their_joint_law(kind):
    """The covariance of log W and the logarithm of a weight in one cluster of one dimension, against integration on a grid; drawn with different covariances they depend less."""
    x = np.array([2.5, -0.3, 0.4])
    family = kind(mean=0.0, kappa=0.3, freedom=5.0, scale=1.0, tails=2.0)
    state, rng = MixtureState(Model.of(x[:, None], family, DirichletProcess(1.0)), np.zeros(3, dtype=int)), np.random.default_rng(0)
    drawn = np.empty((12_000, 2))
    for t in range(len(drawn)):
        state.set_family(state.family.arrays_redrawn(state.statistics, np.array([0]), state.labels, state.model.encoded, rng))
        drawn[t] = np.log(state.arrays["shared"][0, 0]), np.log(state.arrays["weights"][0])
    log_w, log_u = np.linspace(-7.0, 4.0, 56), np.linspace(-7.0, 3.0, 41)
    w, a, b, c = np.meshgrid(np.exp(log_w), np.exp(log_u), np.exp(log_u), np.exp(log_u), indexing="ij", sparse=True)
    total = a + b + c
    mean = (a * x[0] + b * x[1] + c * x[2]) / total
    spread = 5.0 * w + a * (x[0] - mean) ** 2 + b * (x[1] - mean) ** 2 + c * (x[2] - mean) ** 2 + 0.3 * total / (0.3 + total) * mean**2
    log_density = 5.0 * np.log(w) - 1.5 * w - 5.0 * np.log(spread) - 0.5 * np.log(0.3 + total)  # of log W: 3/2 of its prior, ν/2 of the marginal
    log_density = log_density + 1.5 * (np.log(a) + np.log(b) + np.log(c)) - total  # of log u: ω/2 of the prior, ½ of the marginal
    law = np.exp(log_density - log_density.max()).sum(axis=(2, 3))
    law /= law.sum()
    expected = (law * log_w[:, None] * log_u).sum() - (law.sum(axis=1) @ log_w) * (law.sum(axis=0) @ log_u)
    assert (abs(np.cov(drawn.T)[0, 1] - expected) < 0.12) == (kind is Student), (np.cov(drawn.T)[0, 1], expected)  # standard error .026


GAPPED = np.array([[0.3, -0.5], [3.0, np.nan], [-1.1, 0.2]])
IN_PLANE = {"mean": 0.0, "kappa": 0.4, "freedom": 3.0, "scale": np.array([[1.0, 0.3], [0.3, 1.0]]), "shared": np.array([[0.9, 0.5], [0.5, 0.7]]), "tails": 2.0}


class _WithoutWeights(Student):
    """A wrong draw: missing values as if all weights were one."""

    def points_redrawn(self, s, slots, roots, labels, encoded, rng):
        drawn = super().points_redrawn(s, slots, roots, labels, encoded, rng)
        means = means_given(s, slots, roots, rng)
        return drawn | {"missing": missing_given(s.x, np.isnan(encoded["x"]), slots, roots, means, labels, np.ones(len(s.x)), rng)}


@pytest.mark.parametrize("kind", [Student, _WithoutWeights])
def test_missing_values_have_their_law(kind):
    """Against the density of one cluster on a grid of the missing value and the three weights."""
    state, rng, drawn = MixtureState(Model.of(GAPPED, kind(**IN_PLANE), DirichletProcess(1.0)), np.zeros(3, dtype=int)), np.random.default_rng(0), []
    for _ in range(6000):
        redrawn = state.family.arrays_redrawn(state.statistics, np.array([0]), state.labels, state.model.encoded, rng)
        state.set_family({name: redrawn[name] for name in ("weights", "missing")})
        drawn.append(state.arrays["missing"][0])
    state.audit()
    values, u = np.linspace(-15.0, 19.0, 69), np.exp(np.linspace(-7.0, 2.5, 30))
    law, kappa, power = np.zeros(len(values)), 0.4, 0.5 * (6.0 + 3)
    weights = np.stack(np.meshgrid(u, u, u, indexing="ij"), axis=-1).reshape(-1, 3)
    total = weights.sum(axis=1)
    log_prior = (2.0 * np.log(weights) - weights).sum(axis=1) - np.log(kappa + total)  # ω/2 of the prior, D/2 of the marginal; of logarithms
    for t, value in enumerate(values):
        x = GAPPED.copy()
        x[1, 1] = value
        mean = weights @ x / total[:, None]
        scatter = (
            3.0 * state.statistics.prior_scale
            + np.einsum("gi,id,ie->gde", weights, x, x)
            - (total**2 / (kappa + total))[:, None, None] * mean[:, :, None] * mean[:, None, :]
        )
        law[t] = np.exp(log_prior - power * np.linalg.slogdet(scatter)[1]).sum()
    cumulative = np.array([(np.array(drawn) <= value + 0.25).mean() for value in values])
    gap = np.abs(cumulative - np.cumsum(law / law.sum())).max()
    assert (gap < 0.03) == (kind is Student), gap


def test_new_rows_with_gaps_are_scored_by_what_is_observed():
    """The density of the first column of a row is that of the whole row, integrated over the second."""
    values = {"family.weights": np.array([0.4, 2.3, 0.7])}
    state = MixtureState(Model.of(np.nan_to_num(GAPPED), Student(**IN_PLANE), DirichletProcess(1.0)), np.array([0, 0, 1]), compiled=False, values=values)
    grid = np.linspace(-400.0, 400.0, 40_001)
    s = state.reading(state.family.encode(np.vstack([np.column_stack([np.full(len(grid), 0.7), grid]), [[0.7, np.nan]]])))
    found = state.family.log_predictive_with_gaps(s, np.arange(len(grid) + 1), 3)
    np.testing.assert_allclose(found[-1], np.log(np.exp(found[:-1]).sum(axis=0) * (grid[1] - grid[0])), atol=5e-3)


def test_heavy_tailed_groups_with_gaps_are_found_imputed_and_predicted():
    rng = np.random.default_rng(1)
    y = np.arange(120) % 2
    x = rng.normal(size=(120, 2)) / np.sqrt(rng.chisquare(3, (120, 1)) / 3.0) + 12.0 * y[:, None]
    x[:20, 1] = np.nan
    posterior = mt.sample(x, "HierarchicalStudent", draws=60, burn_in=60, chains=1, seed=1, progress=False)
    assert mt.partitions.adjusted_rand(posterior.point_estimate(), y) > 0.9
    assert np.isfinite(posterior.log_density([[0.0, np.nan], [12.0, 12.0]])).all()
    assert (posterior.predict([[0.0, np.nan], [12.0, np.nan]]) == posterior.point_estimate()[[20, 21]]).all()
    imputed = posterior.impute()
    assert len(imputed) == 20
    assert np.abs(imputed["value"].to_numpy(dtype=float) - 12.0 * y[imputed["row"]]).max() < 5.0
