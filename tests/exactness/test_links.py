"""Gibbs over links leaves the enumerated posterior of all links invariant to 1e-12, whatever the family, the decay and the distances; wrong steps do not."""

import numpy as np
import pytest
from scipy import sparse

import maitre as mt
from maitre.families import REGISTRY as FAMILIES
from maitre.model import Model
from maitre.moves import ExplicitLinks, Links, PriorHyperparameters
from maitre.moves import explicit_links as explicit_module
from maitre.moves import links as links_module
from maitre.moves.links import relink_points
from maitre.numerics.rng import stream
from maitre.partitions.enumeration import all_partitions
from maitre.posterior.diagnostics import effective_sample_size
from maitre.priors import DirichletProcess, DistanceDependent
from maitre.states.links import LinksState
from maitre.testing import assert_invariant, compare_with_enumeration, enumerate_links, transition_matrix
from maitre.testing.links import components_of

X = [[-1.0], [-0.8], [0.1], [0.9], [1.1]]
OWN_VARIANCE = mt.families.NormalInverseGamma(0.1, 0.3, 1.5, 0.8)
GAUSSIAN = mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.25)
RNG = np.random.default_rng(0)
SYMMETRIC = np.abs(np.subtract.outer(np.ravel(X), np.ravel(X)))
ASYMMETRIC = RNG.gamma(2.0, 0.7, size=(5, 5))
SPARSE = sparse.csr_array((ASYMMETRIC.ravel(), np.indices((5, 5)).reshape(2, -1)), shape=(5, 5)).multiply(RNG.random((5, 5)) < 0.55).tocsr()


def reciprocal(d):
    return 1.0 / (1.0 + d)


PRIORS = {
    "exponential": DistanceDependent(SYMMETRIC, mt.decays.exponential(0.8), 0.7),
    "window": DistanceDependent(SYMMETRIC, mt.decays.window(1.2), 0.4),
    "logistic": DistanceDependent(SYMMETRIC, mt.decays.logistic(0.6), 1.3),
    "function": DistanceDependent(SYMMETRIC, reciprocal, 0.9),
    "asymmetric": DistanceDependent(ASYMMETRIC, mt.decays.exponential(1.0), 0.5),
    "sparse": DistanceDependent(SPARSE, mt.decays.exponential(1.5), 0.5),
    "neighbours": DistanceDependent.neighbours(X, k=2, concentration=0.6),
    "radius": DistanceDependent.neighbours(X, radius=1.05, concentration=0.6),
    "sequential": DistanceDependent(ASYMMETRIC, mt.decays.exponential(1.0), 0.8, sequential=True),
}


def restricted(prior, n):
    """The same prior for the first n points."""
    d = prior.distances
    inside = (d.rows() < n) & (d.targets < n)
    kept = d.kept(inside)
    return DistanceDependent(type(d)(kept.start[: n + 1], kept.targets, kept.values), prior.decay, prior.concentration)


def one_link(i):
    return lambda state, rng: relink_points(state, np.array([i]), rng)


CASES = [
    pytest.param(name, n, id=f"{name}-{n}", marks=[pytest.mark.long] if n == 4 and len(PRIORS[name].distances.targets) == 20 and name != "asymmetric" else [])
    for name in PRIORS
    for n in (3, 4)
]


@pytest.mark.parametrize(("name", "n"), CASES)
def test_one_link_steps_are_exact_for_every_prior(name, n):
    model = Model.of(X[:n], GAUSSIAN, restricted(PRIORS[name], n))
    exact = enumerate_links(model)
    for i in range(n) if n == 3 else (1,):
        assert_invariant(exact, transition_matrix(model, one_link(i), exact))


@pytest.mark.parametrize("name", [pytest.param("asymmetric", marks=pytest.mark.long), "sequential", "neighbours"])
@pytest.mark.parametrize("patience", [2, pytest.param(4, marks=pytest.mark.long)])
def test_groups_that_move_point_by_point(name, patience, monkeypatch):
    """Where few points sit behind one, their factors are products of predictives."""
    monkeypatch.setattr(mt.families.KnownCovarianceGaussian, "merge_cost", lambda self, encoded: patience)
    model = Model.of(X[:4], GAUSSIAN, restricted(PRIORS[name], 4))
    exact = enumerate_links(model)
    assert_invariant(exact, transition_matrix(model, one_link(1), exact))
    assert_invariant(exact, transition_matrix(model, lambda state, rng: relink_points(state, np.array([2, 0]), rng), exact))


def test_groups_with_predictives_that_are_one_percent_off_fail(monkeypatch):
    monkeypatch.setattr(mt.families.KnownCovarianceGaussian, "merge_cost", lambda self, encoded: 4)
    real = links_module.log_predictive
    monkeypatch.setattr(links_module, "log_predictive", lambda s, k, i: real(s, k, i) + 0.01)
    model = Model.of(X[:4], GAUSSIAN, restricted(PRIORS["asymmetric"], 4))
    exact = enumerate_links(model)
    with pytest.raises(AssertionError, match="invariant"):
        assert_invariant(exact, transition_matrix(model, one_link(1), exact))


def test_steps_in_turn_are_exact():
    model = Model.of(X[:4], GAUSSIAN, restricted(PRIORS["neighbours"], 4))
    exact = enumerate_links(model)
    assert_invariant(exact, transition_matrix(model, lambda state, rng: relink_points(state, np.array([2, 0]), rng), exact))


@pytest.mark.parametrize("family", FAMILIES)
def test_one_link_steps_are_exact_for_every_family(family):
    example = FAMILIES[family].EXAMPLES[0]
    model = Model.of(example.data[:4], example.family, restricted(PRIORS["neighbours"], 4))
    exact = enumerate_links(model)
    for i in (0, 2):
        assert_invariant(exact, transition_matrix(model, one_link(i), exact))


@pytest.mark.parametrize("name", ["neighbours", pytest.param("asymmetric", marks=pytest.mark.long)])
def test_five_points(name):
    """All ways to link five points: 3125 where everybody is a candidate."""
    model = Model.of(X, GAUSSIAN, PRIORS[name])
    exact = enumerate_links(model)
    assert len(exact.partitions) == (5**5 if name == "asymmetric" else 3**5)
    for i in range(5):
        assert_invariant(exact, transition_matrix(model, one_link(i), exact))


def test_the_state_says_what_enumeration_says():
    model = Model.of(X[:4], GAUSSIAN, restricted(PRIORS["asymmetric"], 4))
    exact = enumerate_links(model)
    for links, value in zip(exact.partitions, exact.log_joint, strict=True):
        state = LinksState(model, links, compiled=False)
        assert tuple(state.canonical_labels()) == components_of(links)
        assert state.log_joint == pytest.approx(value, abs=1e-12)


def test_sequential_links_with_a_constant_decay_are_the_chinese_restaurant():
    n = 6
    prior = DistanceDependent(np.ones((n, n)), lambda d: np.ones_like(d), 0.7, sequential=True)
    exact = enumerate_links(Model.of(np.zeros((n, 1)), GAUSSIAN, prior))
    weights = exact.log_joint - np.array([_likelihood(n, components_of(links)) for links in exact.partitions])
    law = {}
    for links, weight in zip(exact.partitions, np.exp(weights), strict=True):
        law[components_of(links)] = law.get(components_of(links), 0.0) + weight
    crp = DirichletProcess(0.7)
    for labels in all_partitions(n):
        assert law[labels] == pytest.approx(np.exp(crp.log_probability(np.bincount(labels))), abs=1e-13)


def _likelihood(n, labels):
    from maitre.testing.links import _log_likelihood

    return _log_likelihood(Model.of(np.zeros((n, 1)), GAUSSIAN, DirichletProcess(1.0)), labels)


# -- wrong steps must fail -----------------------------------------------------------------------------------------------------------------


def fails(step):
    model = Model.of(X[:4], GAUSSIAN, restricted(PRIORS["asymmetric"], 4))
    exact = enumerate_links(model)
    with pytest.raises(AssertionError, match="invariant"):
        assert_invariant(exact, transition_matrix(model, step, exact))


def test_forgetting_links_that_close_a_cycle_fails():
    """As if links into the points behind were impossible, as they are for points in time."""

    def step(state, rng):
        from maitre.states.link_lists import find_behind

        behind = state.seating.members[: find_behind(state.seating, 0, -1, 4)].copy()
        row = slice(state.candidates.start[0], state.candidates.start[1])
        forbidden = np.isin(state.candidates.targets[row], behind[1:]) & (np.arange(row.stop - row.start) != state.seating.choice[0])
        state.candidates.log_weights[row][forbidden] = -np.inf
        relink_points(state, np.array([0]), rng)

    fails(step)


def test_moving_the_point_without_those_behind_it_fails(monkeypatch):
    """The factor of one point instead of everybody who sits behind it."""
    real = links_module.add

    def only_the_first(s, k, i):
        if not only_the_first.seen:
            real(s, k, i)
        only_the_first.seen = True

    def step(state, rng):
        only_the_first.seen = False
        relink_points(state, np.array([0]), rng)

    monkeypatch.setattr(links_module, "add", only_the_first)
    fails(step)


def test_a_factor_that_is_one_percent_off_fails():
    def step(state, rng):
        state.log_marginals[state.sizes > 0] *= 1.01
        relink_points(state, np.array([0]), rng)

    fails(step)


def test_a_concentration_that_is_one_percent_off_fails():
    def step(state, rng):
        state.candidates.log_weights[state.candidates.start[1:] - 1] += 0.01
        relink_points(state, np.array([0]), rng)

    fails(step)


# -- moves with continuous draws ---------------------------------------------------------------------------------------------------------


def links_drawn(model, move, n_draws, compiled=True):
    state, rng = LinksState(model, np.arange(model.n), compiled), stream(4, 2)
    drawn = np.empty((n_draws, model.n), dtype=np.int64)
    for t in range(n_draws):
        move.step(state, rng)
        drawn[t] = state.links
    state.audit()
    return drawn


@pytest.mark.parametrize("move", [Links(), ExplicitLinks(1), ExplicitLinks(3)], ids=["collapsed", "explicit-1", "explicit-3"])
@pytest.mark.parametrize("prior", ["neighbours", "asymmetric"])
def test_draws_have_the_enumerated_law(move, prior):
    n = 5 if prior == "neighbours" else 4
    model = Model.of(X[:n], OWN_VARIANCE, restricted(PRIORS[prior], n))
    distance, expected = compare_with_enumeration(enumerate_links(model), links_drawn(model, move, 10_000))
    assert distance < 2.0 * expected, (distance, expected)


def test_a_wrong_weight_of_fresh_parameters_is_found(monkeypatch):
    """Weighing each of three fresh parameters as if it were the only one makes new tables three times too likely."""

    class NotDivided:
        log = staticmethod(lambda value: np.log(3.0 * value))
        exp = staticmethod(np.exp)

    monkeypatch.setattr(explicit_module, "math", NotDivided)
    model = Model.of(X[:3], OWN_VARIANCE, restricted(PRIORS["asymmetric"], 3))
    distance, expected = compare_with_enumeration(enumerate_links(model), links_drawn(model, ExplicitLinks(3), 1500, compiled=False))
    assert distance > 3.0 * expected, (distance, expected)


GRID = np.exp(np.linspace(np.log(1e-3), np.log(40.0), 120))


@pytest.mark.parametrize("which", ["concentration", "decay.scale"])
def test_hyperparameters_have_the_law_that_quadrature_gives(which):
    """p(value | x) ∝ p(value) Σ_links p(links | value) p(x | links), on a grid."""
    prior = restricted(DistanceDependent(ASYMMETRIC, mt.decays.exponential(mt.Gamma(3, 3)), mt.Gamma(2, 3)), 3)
    fixed = {"concentration": 0.6, "decay.scale": 0.9}
    other = next(name for name in fixed if name != which)
    prior = prior.at({other: fixed[other]})
    model = Model.of(X[:3], OWN_VARIANCE, prior)
    log_p = np.array(
        [
            enumerate_links(Model.of(X[:3], OWN_VARIANCE, prior.at({which: value}))).log_evidence + prior.hyperpriors()[which].log_density(value)
            for value in GRID
        ]
    )
    p = np.exp(log_p - log_p.max()) * GRID
    exact = float((p * np.log(GRID)).sum() / p.sum())
    state, rng, values = LinksState(model, np.arange(3)), stream(3), []
    for _ in range(6000):
        Links().step(state, rng)
        PriorHyperparameters().step(state, rng)
        values.append(np.log(state.hyperparameters[which]))
    state.audit()
    error = np.std(values) / np.sqrt(effective_sample_size(np.array([values])))
    assert abs(np.mean(values) - exact) < 4.0 * error, (np.mean(values), exact, error)


@pytest.mark.parametrize(
    "name",
    [
        "NormalInverseGamma",
        pytest.param("NormalInverseWishart", marks=pytest.mark.long),
        pytest.param("KnownCovarianceGaussian", marks=pytest.mark.long),
        pytest.param("DirichletMultinomial", marks=pytest.mark.long),
    ],
)
def test_compiled_and_plain_agree_and_keep_every_invariant(name, monkeypatch):
    if name == "NormalInverseGamma":
        monkeypatch.setattr(FAMILIES[name], "merge_cost", lambda self, encoded: 5)  # groups of up to five move point by point
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2)) + 5.0 * rng.integers(0, 3, size=(40, 1))
    data = rng.poisson(np.exp(0.3 * np.abs(x))) if name == "DirichletMultinomial" else x
    model = Model.of(data, FAMILIES[name](), DistanceDependent.neighbours(x, k=6))
    runs = []
    for compiled in (True, False):
        state, stream_of = LinksState(model, np.arange(40), compiled), stream(5)
        links = []
        for _ in range(10):
            state.tidy()
            Links().step(state, stream_of)
            PriorHyperparameters().step(state, stream_of)
            state.audit()
            links.append(state.links.copy())
        runs.append(np.array(links))
    assert (np.diff(runs[0], axis=0) != 0).any()
    np.testing.assert_array_equal(runs[0], runs[1])
