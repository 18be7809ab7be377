"""Best-first search proves the most probable partition: every family with every prior against enumeration; its bounds hold; and a wrong bound is found out."""

import numpy as np
import pytest

import maitre as mt
from maitre.families import REGISTRY as FAMILIES
from maitre.families.statistics import add, clear, derive, log_bound, log_bound_given, log_predictive
from maitre.model import Model
from maitre.numerics.rng import stream
from maitre.optimize.best_first import BestFirst
from maitre.optimize.level import Level
from maitre.optimize.refine import reseat_tempered
from maitre.optimize.scores import completed_log_prior, log_marginals, ordered, remainders
from maitre.optimize.tree import BEST, N_QUEUED, SCORE, path_labels
from maitre.partitions.enumeration import all_partitions
from maitre.partitions.labels import canonical
from maitre.priors import REGISTRY as PRIORS
from maitre.states.mixture import MixtureState
from maitre.testing import enumerate_posterior

GAUSSIAN = mt.families.KnownCovarianceGaussian(0.0, 9.0, 1.0)
ALL_PRIORS = [prior for cls in PRIORS.values() for prior in cls.EXAMPLES]
EXAMPLES = [pytest.param(example, id=f"{name}-{number}") for name, family in FAMILIES.items() for number, example in enumerate(family.EXAMPLES)]


def searched(model, score, beam=None, order="marginal", compiled=False):
    state = MixtureState(model, np.full(model.n, -1), compiled)
    log_marginal = log_marginals(state)
    points = ordered(order, log_marginal, stream(1))
    search = BestFirst(state, points, remainders(state, score, points, log_marginal), beam, score)
    while not search.advance(50):
        pass
    return search


@pytest.mark.parametrize("example", EXAMPLES)
def test_admissible_scores_find_the_most_probable_partition(example):
    """Half of the priors with each example (all of them in the next test): five points, 52 partitions."""
    for prior in ALL_PRIORS[::2] if example is FAMILIES[type(example.family).__name__].EXAMPLES[0] else ALL_PRIORS[1::2]:
        model = Model.of(example.data[:5], example.family, prior)
        exact = enumerate_posterior(model)
        pushed = {}
        for score in ("trivial", "tight"):
            search = searched(model, score, order="given")
            assert exact.log_joint[exact.index(canonical(search.labels))] == pytest.approx(exact.log_joint.max(), abs=1e-9)
            pushed[score] = search.counts["pushed"]
            assert search.counts["dropped"] == 0
        assert pushed["tight"] <= pushed["trivial"]


@pytest.fixture(scope="module")
def nine_points():
    """Nine points of counts, and the log marginals of all sets of them."""
    counts = np.random.default_rng(3).multinomial(6, [0.4, 0.3, 0.2, 0.1], size=9)
    counts[5:] = counts[5:, ::-1]
    state = MixtureState(Model.of(counts, mt.families.DirichletMultinomial(0.5), ALL_PRIORS[0]), np.full(9, -1), compiled=False)
    log_marginal = np.zeros(2**9)
    for members in range(1, 2**9):
        state.seat(np.where(members >> np.arange(9) & 1, 0, -1))
        log_marginal[members] = state.log_likelihood()
    return counts, log_marginal


@pytest.mark.parametrize("prior", ALL_PRIORS, ids=str)
def test_nine_points(prior, nine_points):
    """All 21,147 partitions; for counts the tight bound needs fewer entries."""
    counts, log_marginal = nine_points
    log_v, log_w = prior.v_table(9, 9), prior.w_table(9)
    best = -np.inf
    for labels in all_partitions(9):
        sets = np.bincount(labels, 1 << np.arange(9)).astype(int)
        best = max(best, log_v[len(sets)] + log_marginal[sets].sum() + log_w[np.bincount(labels)].sum())
    model, pushed = Model.of(counts, mt.families.DirichletMultinomial(0.5), prior), {"trivial": 0, "tight": 0}
    for score in pushed:
        for order in ("marginal", "reverse"):
            search = searched(model, score, order=order)
            assert MixtureState(model, search.labels, compiled=False).log_joint == pytest.approx(best, abs=1e-9)
            pushed[score] += search.counts["pushed"]
    assert pushed["tight"] < pushed["trivial"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_bounds_hold_for_every_set_of_points(example):
    """Both bounds against every predictive there is: each point given every set of the others, with any part of the set seated already."""
    model = Model.of(example.data[:5], example.family, PRIORS["DirichletProcess"].EXAMPLES[0])
    n, rest = model.n, 3
    state = MixtureState(model, np.full(n, -1), compiled=False)
    statistics = state.statistics

    def fill(slot, points):
        clear(statistics, slot)
        for point in points:
            add(statistics, slot, point)
        derive(statistics, slot)

    for i in range(n):
        others = [j for j in range(n) if j != i]
        bound = log_bound(statistics, i)
        for mask in range(2 ** (n - 1)):
            chosen = [j for t, j in enumerate(others) if mask >> t & 1]
            fill(1, chosen)
            predictive = log_predictive(statistics, 1, i)
            assert predictive <= bound + 1e-12
            for seated in (chosen[: len(chosen) // 2], chosen[:1], chosen):
                left_out = {j for j in others if j not in chosen} if mask % 3 else set()  # seated elsewhere, or still to come
                fill(2, seated)
                fill(rest, [i, *(j for j in others if j not in seated and j not in left_out)])
                given = log_bound_given(statistics, 2, rest, i)
                assert predictive <= given + 1e-12
                assert given <= bound + 1e-12


@pytest.mark.parametrize("prior", ALL_PRIORS, ids=str)
def test_largest_prior_of_a_completion(prior):
    """Against all completions of partial clusterings of up to four of seven points."""
    n = 7
    log_v, log_w = prior.v_table(n, n + 1), prior.w_table(n + 1)
    everything = {labels: prior.log_probability(np.bincount(labels)) for labels in all_partitions(n)}
    for r in range(1, 5):
        for partial in all_partitions(r):
            best = max(value for labels, value in everything.items() if labels[:r] == partial)
            sizes = np.bincount(partial)
            found = completed_log_prior(log_v, log_w, len(sizes), int(sizes.max()), n - r, True) + log_w[sizes].sum()
            assert found == pytest.approx(best, abs=1e-10)


def test_a_bound_that_is_none_is_found_out():
    """Negative control: with points to come bounded by their own marginals, the proof fails somewhere."""
    example = FAMILIES["KnownCovarianceGaussian"].EXAMPLES[0]
    misses = 0
    for seed in range(8):
        x = np.random.default_rng(seed).normal(size=(6, 1))
        model = Model.of(x, example.family, PRIORS["DirichletProcess"].EXAMPLES[0])
        exact = enumerate_posterior(model)
        search = searched(model, "inadmissible", order="reverse")
        misses += exact.log_joint[exact.index(canonical(search.labels))] < exact.log_joint.max() - 1e-9
    assert misses > 0


def test_scores_dominate_the_best_completion():
    """Every entry ever pushed scores at least what the best completion of it has."""
    example = FAMILIES["GammaPoisson"].EXAMPLES[0]
    model = Model.of(example.data, example.family, PRIORS["PitmanYor"].EXAMPLES[0])
    exact = enumerate_posterior(model)
    for score in ("trivial", "tight"):
        state = MixtureState(model, np.full(model.n, -1), compiled=False)
        log_marginal = log_marginals(state)
        points = np.arange(model.n)
        search = BestFirst(state, points, remainders(state, score, points, log_marginal), None, score)
        done = False
        while not done:
            done = search.advance(1)
            for position in range(int(search.tree.counts[N_QUEUED])):
                node = int(search.tree.links[position, BEST])
                labels = path_labels(search.tree, node, points)
                seated = tuple(canonical(labels[labels >= 0]))
                best = max(value for partition, value in zip(exact.partitions, exact.log_joint, strict=True) if partition[: len(seated)] == seated)
                assert search.tree.keys[node, SCORE] >= best - 1e-9


@pytest.mark.parametrize("beam", [1, 3, 1000])
def test_beam_limits_the_queue_and_counts_add_up(beam):
    x = np.random.default_rng(0).normal(size=(30, 2))
    model = Model.of(x, GAUSSIAN, mt.priors.DirichletProcess(1.0))
    search = searched(model, "inadmissible", beam, compiled=True)
    counts = search.counts
    queued = int(search.tree.counts[N_QUEUED])
    assert queued <= beam
    assert counts["pushed"] + 1 == counts["popped"] + counts["dropped"] + queued
    assert set(search.labels) == set(range(search.labels.max() + 1))


def test_compiled_and_plain_agree():
    x = np.random.default_rng(2).normal(size=(12, 2)) * 3.0
    model = Model.of(x, GAUSSIAN, mt.priors.PitmanYor(1.0, 0.25))
    plain, fast = (searched(model, "tight", 20, compiled=compiled) for compiled in (False, True))
    assert np.array_equal(plain.labels, fast.labels)
    assert plain.counts == fast.counts


def leveled(model, beam, groups, compiled=True, order="marginal", chunk=7):
    state = MixtureState(model, np.full(model.n, -1), compiled)
    log_marginal = log_marginals(state)
    search = Level(state, ordered(order, log_marginal, stream(0)), log_marginal, beam, groups)
    while not search.advance(chunk):
        pass
    return search


@pytest.mark.parametrize("name", ["KnownCovarianceGaussian", "NormalInverseWishart", "Product"])
def test_level_search_with_room_for_all_is_exhaustive(name):
    example = FAMILIES[name].EXAMPLES[0]
    for prior in ALL_PRIORS[::2]:
        model = Model.of(example.data[:5], example.family, prior)
        exact = enumerate_posterior(model)
        search = leveled(model, 60, 1, compiled=False)
        assert search.counts["dropped"] == 0
        assert exact.log_joint[exact.index(canonical(search.labels))] == pytest.approx(exact.log_joint.max(), abs=1e-9)


@pytest.mark.parametrize("groups", [1, 4])
def test_shared_versions_keep_the_right_statistics(groups):
    """Scores at the end, summed up from predictives of shared versions of clusters, are the log joints of the entries' labels."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(150, 2)) + 3.0 * rng.integers(0, 12, size=(150, 1))
    model = Model.of(x, mt.families.KnownCovarianceGaussian(0.0, 30.0, 0.3), mt.priors.DirichletProcess(1.0))
    search = leveled(model, 40, groups)
    side, n_entries = search.position[:2]
    assert n_entries == 40
    partitions = set()
    for node in search.entries[side, :n_entries, 0]:
        labels = path_labels(search.tree, int(node), search.order)
        assert search.tree.keys[node, SCORE] == pytest.approx(MixtureState(model, labels).log_joint, rel=1e-10)
        partitions.add(tuple(canonical(labels)))
    assert len(partitions) == n_entries
    assert len({max(partition) for partition in partitions}) >= groups


def test_level_search_with_a_beam_of_one_is_greedy_and_compiled_as_plain():
    x = np.random.default_rng(5).normal(size=(40, 2)) * 4.0
    model = Model.of(x, GAUSSIAN, mt.priors.DirichletProcess(1.0))
    state = MixtureState(model, np.full(40, -1))
    search = leveled(model, 1, 1)
    for i in search.order:
        reseat_tempered(state, np.array([i]), np.inf, stream(0))
    assert np.array_equal(canonical(search.labels), state.canonical_labels())
    assert np.array_equal(leveled(model, 10, 2).labels, leveled(model, 10, 2, compiled=False).labels)
