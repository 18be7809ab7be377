"""The permutation-augmented sampler leaves the enumerated posterior invariant to 1e-12 in every exact form; the hill climber and wrong ratios do not."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp

import maitre as mt
from maitre.families import REGISTRY as FAMILIES
from maitre.model import Model
from maitre.moves import Gibbs, Permutation
from maitre.moves import permutation as module
from maitre.numerics.rng import stream
from maitre.priors import REGISTRY as PRIORS
from maitre.priors import DirichletProcess
from maitre.priors.dirichlet_process import draw_concentration_afresh, integrated_log_v
from maitre.states.mixture import MixtureState
from maitre.testing import assert_invariant, compare_with_enumeration, enumerate_posterior, transition_matrix

FIRST_AND_OTHERS = [pytest.param(p, marks=[pytest.mark.long] * (i > 0)) for cls in PRIORS.values() for i, p in enumerate(cls.EXAMPLES)]
FORMS = {
    "exact": {"method": "exact"},
    "metropolis": {"slope": 2, "epsilon": 0.0},
    "beam": {"slope": 2, "epsilon": 0.2, "probation": 0},
    "probation": {"slope": 1, "epsilon": 0.3, "probation": 1},
    "widest": {"slope": 2, "epsilon": 1e-9, "probation": 0, "widest": 1},
    "two_pass": {"slope": "two_pass", "epsilon": 0.0},
    "two_pass_beam": {"slope": "two_pass", "epsilon": 0.2, "probation": 0},
}


def matrix_of(model, **options):
    exact = enumerate_posterior(model)

    def step(state, rng):
        move = Permutation(burn_in_order=None, **options)
        move.freeze()
        move.step(state, rng)

    return exact, transition_matrix(model, step, exact)


def gaussian(n, prior):
    example = FAMILIES["KnownCovarianceGaussian"].EXAMPLES[0]
    return Model.of(example.data[:n], example.family, prior)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ["uniform", pytest.param("scan", marks=pytest.mark.long)])
@pytest.mark.parametrize("prior", FIRST_AND_OTHERS, ids=str)
def test_every_prior(prior, order, form):
    assert_invariant(*matrix_of(gaussian(3, prior), order=order, **FORMS[form]))


@pytest.mark.parametrize(
    ("order", "form"),
    [
        ("uniform", "two_pass_beam"),
        ("scan", "beam"),
        *(pytest.param(o, f, marks=pytest.mark.long) for o in ("uniform", "scan") for f in ("exact", "beam", "two_pass_beam")),
    ],
)
def test_four_points(order, form):
    assert_invariant(*matrix_of(gaussian(4, PRIORS["PitmanYor"].EXAMPLES[0]), order=order, **FORMS[form]))


@pytest.mark.parametrize("order", ["uniform", "scan"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family, order):
    example = FAMILIES[family].EXAMPLES[-1]
    assert_invariant(*matrix_of(Model.of(example.data[:3], example.family, DirichletProcess(0.9)), order=order, **FORMS["beam"]))


@pytest.mark.parametrize("method", ["exact", "metropolis"])
def test_concentration_integrated_out(method, monkeypatch):
    """The chain of partitions alone: its target is the posterior with the concentration integrated out, here by adaptive quadrature."""
    monkeypatch.setattr(module, "redraw_concentration", lambda state, rng: None)
    model = gaussian(3, DirichletProcess(mt.Gamma(1.3, 0.7)))
    fixed = enumerate_posterior(gaussian(3, DirichletProcess(1.0)))

    def weight(k):  # ∫ p(α) α^K / (α)_n dα against 1/(1)_n at α = 1
        density = lambda a: np.exp(mt.Gamma(1.3, 0.7).log_density(a)) * a**k / (a * (a + 1.0) * (a + 2.0)) * 6.0  # noqa: E731
        return quad(density, 0.0, 1.0, epsabs=1e-15, epsrel=1e-13)[0] + quad(density, 1.0, np.inf, epsabs=1e-15, epsrel=1e-13)[0]

    counts = [max(labels) + 1 for labels in fixed.partitions]
    weights = fixed.probabilities * np.array([weight(k) for k in counts])

    def step(state, rng):
        move = Permutation(burn_in_order=None, method=method, slope=2, integrate_concentration=True)
        move.check(model)
        move.freeze()
        move.step(state, rng)

    matrix = transition_matrix(model, step, fixed)
    target = weights / weights.sum()
    assert np.abs(target @ matrix - target).max() < 1e-11
    assert np.abs(fixed.probabilities @ matrix - fixed.probabilities).max() > 1e-4  # at any one concentration it is another chain


def test_a_concentration_drawn_afresh_has_its_law():
    prior, n, n_clusters = mt.Gamma(0.6, 0.9), 50, 4
    rng = stream(3)
    drawn = np.sort([draw_concentration_afresh(n, n_clusters, prior, rng) for _ in range(4000)])
    density = lambda t: np.exp(prior.shape * t - prior.rate * np.exp(t) + n_clusters * t + gammaln(np.exp(t)) - gammaln(np.exp(t) + n) + 60.0)  # noqa: E731
    total = quad(density, -60.0, 5.0, points=[-1.0, 0.0, 1.0], limit=200)[0]
    cumulative = np.array([quad(density, -60.0, np.log(a), points=[-1.0, 0.0], limit=200)[0] / total for a in drawn[::400]])
    assert np.abs(cumulative - np.arange(0, 4000, 400) / 4000).max() < 1.63 / np.sqrt(4000)  # Kolmogorov's 1 % point


# -- negative controls -------------------------------------------------------------------------------------------------------------------


def assert_not_invariant(model, **options):
    with pytest.raises(AssertionError, match="invariant"):
        assert_invariant(*matrix_of(model, **options))


def test_hill_climbing_is_not_exact():
    """One dimension: the direction is up or down, so that the climber too has a transition matrix."""
    assert not Permutation(order="projections").exact
    assert_not_invariant(gaussian(4, DirichletProcess(1.0)), order="projections")


def test_a_slope_that_follows_the_chain_fails():
    model = gaussian(3, DirichletProcess(1.0))
    exact = enumerate_posterior(model)
    with pytest.raises(AssertionError, match="invariant"):  # never frozen
        assert_invariant(exact, transition_matrix(model, lambda state, rng: Permutation(burn_in_order=None, epsilon=0.0).step(state, rng), exact))


def test_orders_of_the_clusters_left_out_fail(monkeypatch):
    monkeypatch.setattr(module, "gammaln", lambda counts: 0.0 * counts)
    assert_not_invariant(gaussian(3, DirichletProcess(1.0)), **FORMS["metropolis"])


@pytest.mark.parametrize("form", ["beam", "two_pass_beam"])
def test_a_beam_whose_support_is_not_checked_fails(form, monkeypatch):
    plain = module.Workspace.sum

    def always_supported(self, *arguments, **options):
        evaluations, _, kept = plain(self, *arguments, **options)
        return evaluations, True, kept

    monkeypatch.setattr(module.Workspace, "sum", always_supported)
    assert_not_invariant(gaussian(3, DirichletProcess(1.0)), **FORMS[form])


def test_a_scan_weighed_as_uniform_fails(monkeypatch):
    plain = module.Workspace.draw_order

    def forget(self, order, rng):
        cost = plain(self, order, rng)
        self.scan_room = None
        return cost

    monkeypatch.setattr(module.Workspace, "draw_order", forget)
    assert_not_invariant(gaussian(3, DirichletProcess(1.0)), order="scan", **FORMS["metropolis"])


# -- the compiled move -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "order"),
    [
        pytest.param(name, order, marks=[pytest.mark.long] if order == "scan" and name != "NormalInverseGamma" else [])
        for name in ("NormalInverseGamma", "NormalInverseWishart", "KnownCovarianceGaussian")
        for order in ("uniform", "scan", "projections")
    ],
)
def test_compiled_and_plain_agree_and_keep_every_invariant(name, order):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2)) + 5.0 * rng.integers(0, 3, size=(30, 1))
    model = Model.of(x, FAMILIES[name](), DirichletProcess(1.0))
    runs = []
    for compiled in (True, False):
        state, stream_of, move, gibbs = (
            MixtureState(model, np.zeros(30, dtype=int), compiled),
            stream(5),
            Permutation(order=order, burn_in_order=order),
            Gibbs(),
        )
        labels = []
        for _ in range(6):
            move.step(state, stream_of)
            state.audit()
            gibbs.step(state, stream_of)
            labels.append(state.canonical_labels())
        runs.append(np.array(labels))
    assert runs[0].max() > 0
    np.testing.assert_array_equal(runs[0], runs[1])


@pytest.mark.parametrize("options", [{"method": "exact"}, {"order": "scan"}, {"slope": "two_pass"}], ids=str)
def test_draws_have_the_enumerated_law(options):
    model = Model.of([[-1.0], [-0.8], [0.1], [0.9], [1.1]], mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.25), DirichletProcess(1.0))
    state, rng, move = MixtureState(model, np.zeros(5, dtype=int)), stream(2), Permutation(burn_in_order=None, **options)
    move.freeze()
    drawn = np.empty((10_000, 5), dtype=np.int64)
    for t in range(len(drawn)):
        move.step(state, rng)
        drawn[t] = state.canonical_labels()
    distance, expected = compare_with_enumeration(enumerate_posterior(model), drawn)
    assert distance < 2.0 * expected


def test_more_open_segments_than_there_is_room_for():
    model = Model.of(np.random.default_rng(0).normal(size=(200, 1)), mt.families.KnownCovarianceGaussian(0.0, 4.0, 1.0), DirichletProcess(1.0))
    wide, narrow = (MixtureState(model, np.zeros(200, dtype=int)) for _ in range(2))
    move = Permutation(burn_in_order=None, slope=3, epsilon=0.0)
    report = move.step(wide, stream(1))
    assert report.extra["beam"] == pytest.approx(100.5)  # every segment is kept
    wide.audit()
    Permutation(burn_in_order=None, slope=3).step(narrow, stream(1))
    narrow.audit()


def test_projections_find_clusters_that_gibbs_cannot_and_the_result_is_exact():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(6), 40)
    x = rng.normal(0.0, np.sqrt(2.0), (6, 40))[truth] + rng.normal(size=(240, 40))
    options = {"family": mt.families.KnownCovarianceGaussian(0.0, 100.0, 1.0), "init": "one", "draws": 10, "burn_in": 20, "chains": 1, "progress": False}
    assert mt.sample(x, moves="gibbs", **options).n_clusters[0, -1] == 1
    found = mt.sample(x, moves="gibbs+permutation", **options)
    assert mt.partitions.adjusted_rand(truth, found.best) == 1.0
    assert found.exact
    assert found.moves["permutation"]["beam"] > 1.0
    assert found.moves["permutation"]["outside_beam"] < 1.0
    climber = mt.sample(x, moves=[Gibbs(), Permutation(order="projections")], **options)
    assert not climber.exact


@pytest.mark.parametrize("weighting", ["counts", "sqrt", "tfidf"])
def test_rows_of_counts(weighting):
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 2], 30)
    counts = np.array([rng.multinomial(40, p) for p in rng.dirichlet(np.full(50, 0.2), 3)[truth]])
    model = Model.of(counts, mt.families.DirichletMultinomial(0.5), DirichletProcess(1.0))
    state, stream_of, move = MixtureState(model, np.zeros(90, dtype=int)), stream(0), Permutation(weighting=weighting)
    for _ in range(5):
        move.step(state, stream_of)
        Gibbs().step(state, stream_of)
        state.audit()
    assert mt.partitions.adjusted_rand(truth, state.canonical_labels()) > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "sorted"}, "order is 'sorted'; expected one of"),
        ({"method": "fast"}, "expected one of 'metropolis', 'exact'"),
        ({"slope": "steep"}, "expected one of 'adapted', 'two_pass'"),
        ({"slope": 0}, "at least 1"),
        ({"slope": np.inf}, "finite number of at least 1"),
        ({"epsilon": 1.0}, "of at least 0 and below 1"),
        ({"weighting": "log"}, "weighting is 'log'"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        Permutation(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"weighting": "sqrt"}, "rows of counts"), ({"integrate_concentration": True}, "Gamma prior"), ({"method": "exact"}, "too much for 6000 points")],
)
def test_what_the_model_does_not_allow(options, message):
    model = Model.of(np.zeros((6000, 1)) + np.arange(6000.0)[:, None], mt.families.KnownCovarianceGaussian(0.0, 4.0, 1.0), DirichletProcess(1.0))
    with pytest.raises(ValueError, match=message):
        Permutation(**options).check(model)


def test_climbing_respects_a_finite_prior_and_given_moves_are_not_shared_between_chains():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 3)) + 20.0 * rng.integers(0, 6, size=(200, 1))
    move = Permutation()
    posterior = mt.sample(
        x,
        family=mt.families.KnownCovarianceGaussian(0.0, 400.0, 1.0),
        prior=mt.priors.FiniteDirichlet(3, 1.0),
        moves=[Gibbs(), move],
        draws=5,
        burn_in=15,
        progress=False,
    )
    assert posterior.n_clusters.max() <= 3
    assert np.isfinite(posterior.log_joint).all()
    assert not move.frozen
    again = mt.sample(
        x,
        family=mt.families.KnownCovarianceGaussian(0.0, 400.0, 1.0),
        prior=mt.priors.FiniteDirichlet(3, 1.0),
        moves=[Gibbs(), move],
        draws=5,
        burn_in=15,
        threads=1,
        progress=False,
    )
    np.testing.assert_array_equal(posterior.labels, again.labels)


@pytest.mark.long
@pytest.mark.parametrize("slope", ["two_pass", 10])
def test_a_finite_prior_and_a_slope_beyond_it(slope):
    model = gaussian(4, mt.priors.FiniteDirichlet(2, 1.0))
    assert_invariant(*matrix_of(model, slope=slope, epsilon=0.0))


@pytest.mark.parametrize(
    ("n", "count", "prior"),
    [(2000, 1000, mt.Gamma(1.0, 1.0)), (6, 5, mt.Gamma(1000.0, 1000.0)), (100, 5, mt.Gamma(0.01, 0.01)), (50, 50, mt.Gamma(0.5, 0.001))],
)
def test_the_integral_over_the_concentration(n, count, prior):
    """Against a rule with forty thousand points around the peak."""
    t = np.linspace(-6000.0, 60.0, 2_000_001) if prior.shape < 0.1 else np.linspace(-60.0, 15.0, 2_000_001)
    alpha = np.exp(t)
    log_density = (prior.shape + count - 1) * t - prior.rate * alpha + gammaln(alpha + 1.0) - gammaln(alpha + n)
    reference = logsumexp(log_density) + np.log(t[1] - t[0]) + prior.shape * np.log(prior.rate) - gammaln(prior.shape)
    assert integrated_log_v(n, np.array([count]), prior)[0] == pytest.approx(reference, abs=1e-9)


def test_a_table_with_counts_among_its_columns_can_be_projected():
    rng = np.random.default_rng(0)
    family = mt.families.Product(
        [((0, 1), mt.families.NormalInverseGamma()), ((2, 3, 4), mt.families.DirichletMultinomial(0.5)), ((5,), mt.families.Categorical(0.5))]
    )
    data = np.hstack([rng.normal(size=(12, 2)), rng.poisson(1, (12, 3)), rng.integers(0, 3, (12, 1))])
    vectors = Model.of(data, family, DirichletProcess(1.0)).vectors
    assert vectors.shape == (12, 8)
    dense = vectors.toarray()
    np.testing.assert_allclose(dense.var(axis=0)[dense.std(axis=0) > 0], 1.0)
