"""The hierarchical Dirichlet process against enumeration: all seatings of the points of each group at tables, and all ways to serve these."""

from itertools import product
from math import exp, lgamma, log

import numpy as np
import pytest
from scipy import integrate, sparse

import maitre as mt
from maitre.data.groups import GroupedRows
from maitre.families.statistics import add, clear, log_marginal
from maitre.families.words import Words
from maitre.model import Model
from maitre.moves import dealt_groups, direct, documents, franchise, tables
from maitre.moves import dishes as dish_moves
from maitre.moves.dishes import AtTables, Seats, move_dishes, seated
from maitre.moves.franchise import Served
from maitre.moves.hyper import FamilyHyperparameters
from maitre.moves.pairs import fill_members
from maitre.numerics.compilation import compiled
from maitre.numerics.distributions import Gamma
from maitre.numerics.prefix import STRIDE, add_lanes, pick_other
from maitre.numerics.rng import stream
from maitre.partitions.labels import canonical
from maitre.posterior.completion import folded_in, perplexity
from maitre.posterior.diagnostics import effective_sample_size
from maitre.priors.hierarchical import HierarchicalDirichletProcess
from maitre.states.franchise import FranchiseState
from maitre.testing.enumeration import all_partitions
from maitre.testing.transitions import follow_branches

DOCUMENTS = sparse.csr_matrix([[2, 1, 0], [1, 1, 1]])


def of_words(prior, eta=0.5):
    return Model.of(GroupedRows.of_counts(DOCUMENTS), Words(eta, 3), prior)


def of_points(prior):
    rows = GroupedRows.of_index([[-1.0], [0.9], [-0.8], [0.1], [1.1]], ["a", "b", "a", "a", "b"])
    return Model.of(rows, mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.25), prior)


def log_group_weight(prior, n_tables, n):
    """log of γ^T Γ(γ)/Γ(γ + n), with a group's own γ integrated out."""

    def value(g):
        return n_tables * log(g) + lgamma(g) - lgamma(g + n)

    if not prior.own:
        return value(float(prior.group))
    return log(integrate.quad(lambda g: exp(prior.group.log_density(g) + value(g)), 0, 60)[0])


def enumerated(model):
    """p(partition of all points into clusters | x) and log p(x), for concentrations that are fixed or each group's own."""
    alpha, totals = float(model.prior.top), {}
    starts, state = model.data.starts, FranchiseState(model, np.zeros(model.n, dtype=int), compiled=False)
    for seatings in product(*(all_partitions(int(n)) for n in np.diff(starts))):
        tables, weight = [], 0.0
        for begin, seating in zip(starts, seatings, strict=False):
            members = [[int(begin) + i for i, t in enumerate(seating) if t == table] for table in range(max(seating) + 1)]
            weight += log_group_weight(model.prior, len(members), len(seating)) + sum(lgamma(len(table)) for table in members)
            tables += members
        for dishes in all_partitions(len(tables)):
            labels = np.empty(model.n, dtype=int)
            for table, dish in zip(tables, dishes, strict=True):
                labels[table] = dish
            sizes = np.bincount(dishes)
            served = len(sizes) * log(alpha) + lgamma(alpha) - lgamma(alpha + len(tables)) + sum(lgamma(m) for m in sizes)
            key = tuple(int(k) for k in canonical(labels))
            totals[key] = totals.get(key, 0.0) + exp(weight + served)
    s = state.statistics
    for key in totals:
        for cluster in range(max(key) + 1):
            clear(s, 0)
            for i in range(model.n):
                if key[i] == cluster:
                    add(s, 0, i)
            totals[key] *= exp(log_marginal(s, 0))
    evidence = sum(totals.values())
    return {key: value / evidence for key, value in totals.items()}, log(evidence)


def split_and_merge(state, proposals, rng):
    seats = seated(state, rng)
    seats.split_and_merge(state, proposals, rng)
    return seats.served(state)


def visited(model, n, sweep=None, weights=franchise.draw_weights):
    """The partitions after n steps, a row each, and γ."""
    state, rng = FranchiseState(model, np.zeros(model.n, dtype=int)), stream(3)
    labels, gammas = np.empty((n, model.n), dtype=int), np.empty(n)
    for t in range(n):
        weights(state, (sweep or direct.sweep)(state, rng), rng)
        labels[t], gammas[t] = state.canonical_labels(), state.gammas[0]
        if t % 500 == 0:
            state.audit()
            state.commit()
    return labels, gammas


def distance_in_errors(values, expected):
    """How many standard errors the mean of a trace is off."""
    error = values.std() / np.sqrt(effective_sample_size(values[None]))
    return abs(values.mean() - expected) / error


def sweep_any(state, rng):
    """The sweep for any family, which words do without."""
    served, rest, place = (
        Served(np.zeros(state.capacity, dtype=np.int64), np.zeros(state.n_groups, dtype=np.int64)),
        np.array([state.rest]),
        np.zeros(2, dtype=np.int64),
    )
    arrays = (np.arange(state.n_groups), state.starts, state.labels, state.sizes, state.beta, rest, *served, float(state.prior.top), state.gammas, place, rng)
    assert state.run(direct.sweep_points, *arrays)
    state.rest = float(rest[0])
    state.touched()
    return served


def test_the_enumeration_has_the_published_evidence():
    probabilities, evidence = enumerated(of_words(HierarchicalDirichletProcess(1.0, 1.3)))
    assert evidence == pytest.approx(-7.56583282, abs=1e-8)
    assert sum((max(key) + 1) * p for key, p in probabilities.items()) == pytest.approx(2.28811851, abs=1e-8)


CASES = {
    "words": (of_words, None),
    "words by the sweep for any family": (of_words, sweep_any),
    "numbers": (of_points, None),
    "numbers, splits and merges alone": (of_points, lambda state, rng: split_and_merge(state, 3, rng)),
    "words by tables": (of_words, lambda state, rng: by_tables(state, rng)),
    "numbers by tables": (of_points, lambda state, rng: by_tables(state, rng)),
    "words with splits and merges": (of_words, lambda state, rng: (direct.sweep(state, rng), split_and_merge(state, 2, rng))[1]),
}


@pytest.mark.parametrize("name", CASES)
def test_draws_have_the_enumerated_law(name):
    make, sweep = CASES[name]
    model = make(HierarchicalDirichletProcess(1.0, 1.3))
    probabilities, _ = enumerated(model)
    labels, _ = visited(model, 8_000, sweep)
    for statistic in (lambda key: max(key) + 1, lambda key: key[0] == key[1], lambda key: key[0] == key[3], lambda key: key[2] == key[4]):
        expected = sum(statistic(key) * p for key, p in probabilities.items())
        assert distance_in_errors(np.array([float(statistic(row)) for row in labels]), expected) < 4.0


def test_draws_with_a_concentration_of_each_groups_own():
    model = of_words(HierarchicalDirichletProcess(1.0, Gamma(3.0, 2.0), own=True))
    probabilities, _ = enumerated(model)
    labels, _ = visited(model, 8_000)
    for statistic in (lambda key: max(key) + 1, lambda key: key[0] == key[1], lambda key: key[0] == key[3]):
        expected = sum(statistic(key) * p for key, p in probabilities.items())
        assert distance_in_errors(np.array([float(statistic(row)) for row in labels]), expected) < 4.0


def followed(move, n, model=None):
    """The partitions after n steps of a move, a row each, and γ."""
    model = of_words(HierarchicalDirichletProcess(1.0, 1.3)) if model is None else model
    move, state, rng = move.fitted_to(model), FranchiseState(model, np.zeros(model.n, dtype=int)), stream(3)
    move.check(model)
    labels, gammas = np.empty((n, model.n), dtype=int), np.empty(n)
    for t in range(n):
        move.step(state, rng)
        labels[t], gammas[t] = state.canonical_labels(), state.gammas[0]
    state.audit()
    return labels, gammas


def by_move(move, n, model=None):
    """The numbers of clusters after n steps of a move."""
    return followed(move, n, model)[0].max(axis=1) + 1.0


# α, γ, and of the posterior of DOCUMENTS the means of K and γ, and how often tokens 0 and 1, 0 and 3, 2 and 4, 0 and 5 are together
SETTINGS = [
    (1.0, Gamma(1.0, 1.0), (2.12192006, 1.17687746, 0.8219094, 0.54643654, 0.52451268, 0.39705023)),
    (2.0, Gamma(2.0, 1.0), (2.86589021, 2.22010952, 0.66868579, 0.3991828, 0.37355791, 0.22452346)),
    (1.0, 1.3, (2.28811851, 1.3, 0.77534047, 0.54630413, 0.5201536, 0.3626914)),
    (1.0, Gamma(3.0, 2.0), (2.28999511, 1.59650064, 0.77141306, 0.54764406, 0.52199541, 0.3659647)),
]
MOVES = {
    "direct": mt.moves.Direct(0),
    "tables": mt.moves.Tables(0),
    "documents": mt.moves.Documents(0.5, 0),
    "dishes": mt.moves.Direct(3),
    "P = 2": mt.moves.Superclusters(2),
    "P = 3": mt.moves.Superclusters(3),
    "P = 2, tables": mt.moves.Superclusters(2, "tables"),
    "P = 3, tables": mt.moves.Superclusters(3, "tables"),
}


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: f"{setting[0]}, {setting[1]}")
@pytest.mark.parametrize("name", MOVES)
def test_every_move_in_every_setting(name, setting):
    top, group, expected = setting
    labels, gammas = followed(MOVES[name], 12_000, of_words(HierarchicalDirichletProcess(top, group)))
    together = [labels[:, i] == labels[:, j] for i, j in ((0, 1), (0, 3), (2, 4), (0, 5))]
    for trace, mean in zip((labels.max(axis=1) + 1.0, gammas, *together), expected, strict=True):
        assert distance_in_errors(trace.astype(float), mean) < 4.5 if trace.std() > 0 else trace[0] == mean


@pytest.mark.parametrize(
    ("processors", "local", "prior", "expected"),
    [
        (2, "direct", HierarchicalDirichletProcess(2.0, Gamma(2.0, 1.0)), 2.86589021),
        (3, "tables", HierarchicalDirichletProcess(1.0, 1.3), 2.28811851),
    ],
)
def test_superclusters_have_the_enumerated_law(processors, local, prior, expected):
    assert distance_in_errors(by_move(mt.moves.Superclusters(processors, local), 5_000, of_words(prior)), expected) < 4.0


@pytest.mark.parametrize("make", [of_words, of_points])
def test_documents_have_the_enumerated_law(make):
    model = make(HierarchicalDirichletProcess(1.0, 1.3))
    probabilities, _ = enumerated(model)
    labels, _ = followed(mt.moves.Documents(0.3, 1), 6_000, model)
    for statistic in (lambda key: max(key) + 1, lambda key: key[0] == key[1], lambda key: key[0] == key[3], lambda key: key[2] == key[4]):
        expected = sum(statistic(key) * p for key, p in probabilities.items())
        assert distance_in_errors(np.array([float(statistic(row)) for row in labels]), expected) < 4.0


def test_probabilities_of_words_have_their_means():
    """φ of a topic is Dirichlet(η + N_w), whatever form the counts have."""
    state, rng = FranchiseState(of_words(HierarchicalDirichletProcess(1.0, 1.3)), [0, 0, 1, 0, 1, 1]), stream(0)
    drawn = np.array([phi[:, :2] / totals[:2] for phi, totals in (documents._draw_topics(state, rng) for _ in range(3_000))])
    counts = state.statistics.seen[:, :2] + 0.5
    expected = counts / counts.sum(axis=0)
    error = np.sqrt(expected * (1.0 - expected) / (counts.sum(axis=0) + 1.0) / len(drawn))
    assert np.abs((drawn.mean(axis=0) - expected) / error).max() < 4.0


def test_clusters_that_are_left_empty_are_noticed(monkeypatch):
    """Every cluster open, and the empty ones forgotten."""

    def all_open(labels, starts, half, which, marked):
        marked[labels] = True

    monkeypatch.setattr(documents, "mark_clusters", all_open)
    assert distance_in_errors(by_move(mt.moves.Documents(0.5, 1), 6_000), 2.28811851) > 5.0


def test_superclusters_with_the_concentration_of_the_whole_are_noticed(monkeypatch):
    """α instead of α/P in each block."""
    plain = HierarchicalDirichletProcess
    monkeypatch.setattr(dealt_groups, "HierarchicalDirichletProcess", lambda top, group: plain(2.0 * top, group))
    assert distance_in_errors(by_move(mt.moves.Superclusters(2), 3_000), 2.28811851) > 8.0


@pytest.mark.parametrize(("step", "n"), [("paper-eq6-literal", 1_500), pytest.param("paper-eq6", 20_000, marks=pytest.mark.long)])
def test_the_acceptance_step_as_printed_is_noticed(step, n):
    move = mt.moves.Superclusters(2, [mt.moves.Tables(0)], global_step=step)
    assert distance_in_errors(by_move(move, n), 2.28811851) > 5.0
    assert not move.exact


def test_what_superclusters_of_groups_refuse():
    groups = [[2, 1, 0], [1, 1, 1]]
    with pytest.raises(ValueError, match="set top to a number"):
        mt.sample_groups(groups, moves=[mt.moves.Superclusters(2, global_step="paper-eq6")])
    with pytest.raises(ValueError, match="global_step"):
        mt.sample_groups(groups, moves=[mt.moves.Superclusters(2, global_step="paper-eq5")])
    with pytest.raises(ValueError, match="points in groups"):
        mt.sample([[0.0], [1.0]], moves=[mt.moves.Superclusters(2, global_step="paper-eq6")])
    with pytest.raises(ValueError, match="local"):
        mt.sample_groups(groups, moves=[mt.moves.Superclusters(2, local="gibbs")])


@pytest.mark.parametrize("move", [mt.moves.Superclusters(3), mt.moves.Documents()])
def test_groups_do_not_depend_on_the_number_of_threads(move):
    options = {"moves": [move], "draws": 10, "burn_in": 5, "chains": 1, "keep_labels": True, "progress": False}
    counts = np.random.default_rng(0).integers(0, 3, size=(20, 12))
    one, two = (mt.sample_groups(counts, threads=threads, **options) for threads in (1, 2))
    np.testing.assert_array_equal(one.labels, two.labels)


# -- the franchise, by following every branch ---------------------------------------------------------------------------------------------------


def franchise_law(model):
    """Every seating with what its tables serve, as (table of each point, cluster of each point), and its probability."""
    starts, s = model.data.starts, FranchiseState(model, np.zeros(model.n, dtype=int), compiled=False).statistics
    alpha, gamma, law = float(model.prior.top), float(model.prior.group), {}
    for seatings in product(*(all_partitions(int(n)) for n in np.diff(starts))):
        offsets = np.cumsum([0, *(max(seating) + 1 for seating in seatings)])
        tables = [t + offset for seating, offset in zip(seatings, offsets, strict=False) for t in seating]
        seats = np.bincount(tables)
        for dishes in all_partitions(len(seats)):
            labels = np.array(dishes)[tables]
            weight = len(seats) * log(gamma) + sum(lgamma(n) for n in seats) + sum(log(alpha) + lgamma(m) for m in np.bincount(dishes))
            weight -= lgamma(alpha + len(seats))
            for cluster in range(max(dishes) + 1):
                clear(s, 0)
                for i in np.flatnonzero(labels == cluster):
                    add(s, 0, i)
                weight += log_marginal(s, 0)
            law[tuple(tables), tuple(int(k) for k in labels)] = exp(weight)
    total = sum(law.values())
    return {key: value / total for key, value in law.items()}


def franchise_matrix(model, law):
    """The exact transition matrix of a sweep over points and tables."""
    keys, matrix = list(law), np.zeros((len(law), len(law)))
    for row, (tables_of, labels) in enumerate(keys):

        def run(rng, tables_of=tables_of, labels=labels):
            state = FranchiseState(model, np.array(labels), compiled=False)
            dishes = np.empty(max(tables_of) + 1, dtype=np.int32)
            dishes[list(tables_of)] = state.labels
            in_group = np.array([len(set(tables_of[a:b])) for a, b in zip(state.starts, state.starts[1:], strict=False)])
            seats = tables.choose_tables(state, Seats.of_tables(np.array(tables_of, dtype=np.int32), dishes, in_group), rng)
            assert [len(set(seats.tables[a:b])) for a, b in zip(state.starts, state.starts[1:], strict=False)] == list(seats.in_group)
            return tuple(int(t) for t in canonical(seats.tables)), tuple(int(k) for k in state.canonical_labels())

        for outcome, probability in follow_branches(run):
            matrix[row, keys.index(outcome)] += probability
    return matrix


def test_the_franchise_leaves_its_law_invariant():
    counts = [[1, 1], [0, 1]]
    model = Model.of(GroupedRows.of_counts(counts), Words(0.5, 2), HierarchicalDirichletProcess(0.8, 1.3))
    law = franchise_law(model)
    pi, matrix = np.array(list(law.values())), franchise_matrix(model, law)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    assert np.abs(pi @ matrix - pi).max() < 1e-12
    of_other = np.array(list(franchise_law(Model.of(GroupedRows.of_counts(counts), Words(0.5, 2), HierarchicalDirichletProcess(0.9, 1.3))).values()))
    assert np.abs(of_other @ matrix - of_other).max() > 1e-4


def dishes_alone(state, rng):
    return split_and_merge(state, 1, rng)


def test_splits_and_merges_alone_have_the_enumerated_law():
    model = of_words(HierarchicalDirichletProcess(1.0, 1.3))
    probabilities, _ = enumerated(model)
    labels, _ = visited(model, 16_000, dishes_alone)
    for statistic in (lambda key: max(key) + 1, lambda key: key[0] == key[3], lambda key: key[2] == key[4]):
        expected = sum(statistic(key) * p for key, p in probabilities.items())
        assert distance_in_errors(np.array([float(statistic(row)) for row in labels]), expected) < 4.0


TABLES = [[0], [1, 2], [3], [4, 5]]


def dish_law(model):
    """p(what the four tables serve | x, seating)."""
    partitions, s = list(all_partitions(len(TABLES))), FranchiseState(model, np.zeros(model.n, dtype=int), compiled=False).statistics
    weights = []
    for dishes in partitions:
        total = 0.0
        for dish, m in enumerate(np.bincount(dishes)):
            clear(s, 0)
            for table, served in zip(TABLES, dishes, strict=True):
                for i in table if served == dish else ():
                    add(s, 0, i)
            total += log(float(model.prior.top)) + lgamma(m) + log_marginal(s, 0)
        weights.append(exp(total))
    return partitions, np.array(weights) / sum(weights)


def dish_matrix(model, partitions):
    """The exact transition matrix of one proposal, by following every branch."""
    sizes, points = np.array([1, 2, 1, 2]), np.array([i for table in TABLES for i in table])
    at, table_of = AtTables(points, np.array([0, 1, 3, 4]), sizes, np.zeros(4, dtype=int)), np.repeat(np.arange(4), sizes)
    matrix = np.zeros((len(partitions), len(partitions)))
    for row, dishes in enumerate(partitions):

        def run(rng, dishes=dishes):
            labels = np.empty(6, dtype=int)
            labels[points] = np.array(dishes)[table_of]
            state = FranchiseState(model, labels, compiled=False)
            slots = np.array([state.labels[table[0]] for table in TABLES], dtype=np.int32)
            served = np.bincount(slots, minlength=state.capacity)
            members, first = np.empty(4, dtype=np.int64), np.empty(state.capacity, dtype=np.int64)
            fill_members(slots, served, members, first)
            move_dishes.python(state.statistics, 1, log(float(model.prior.top)), slots, served, at, members, first, served, rng)
            seen = state.statistics.total  # statistics follow
            assert all(seen[k] == sizes[slots == k].sum() for k in range(state.capacity))
            return tuple(int(k) for k in canonical(slots))

        for outcome, probability in follow_branches(run):
            matrix[row, partitions.index(outcome)] += probability
    return matrix


def test_splits_and_merges_of_tables_leave_their_law_invariant(monkeypatch):
    model = of_words(HierarchicalDirichletProcess(0.8, 1.3))
    partitions, law = dish_law(model)
    matrix = dish_matrix(model, partitions)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    assert np.abs(law @ matrix - law).max() < 1e-12
    monkeypatch.setattr(dish_moves, "log_chance", lambda *sizes: 0.0)
    assert np.abs(law @ dish_matrix(model, partitions) - law).max() > 1e-3


def test_points_in_place_of_tables_are_noticed():
    """β drawn by numbers of points, as if each had a table of its own, is another model."""
    model = of_words(HierarchicalDirichletProcess(1.0, 1.3))
    labels, _ = visited(model, 8_000, weights=lambda state, served, rng: franchise.draw_weights(state, served._replace(of_cluster=state.sizes), rng))
    assert distance_in_errors(labels.max(axis=1) + 1.0, 2.28811851) > 8.0


def test_draws_with_a_sampled_concentration():
    labels, gammas = visited(of_words(HierarchicalDirichletProcess(1.0, Gamma(3.0, 2.0))), 8_000)
    assert distance_in_errors(labels.max(axis=1) + 1.0, 2.28999511) < 4.0
    assert distance_in_errors(gammas, 1.59650064) < 4.0


def log_urn(gamma, n_tables, lengths):
    """log of γ^T ∏ Γ(γ)/Γ(γ + N_m)."""
    return n_tables * log(gamma) + sum(lgamma(gamma) - lgamma(gamma + n) for n in lengths)


def moments(log_density, prior, highest=60.0):
    """E[v] and E[v²] under a density ∝ prior × exp(log_density), by quadrature."""
    total, *moments = (integrate.quad(lambda v, p=p: v**p * exp(prior.log_density(v) + log_density(v)), 0, highest, limit=200)[0] for p in (0, 1, 2))
    return [moment / total for moment in moments]


def assert_moments(values, log_density, prior):
    for power, expected in enumerate(moments(log_density, prior), start=1):
        assert distance_in_errors(values**power, expected) < 4.0


@pytest.mark.parametrize("own", [False, True])
def test_concentrations_have_the_densities_of_quadrature(own):
    """α, γ and a γ of each group's own, given the tables."""
    top, group, rng = Gamma(2.0, 1.0), Gamma(2.0, 1.5), stream(0)
    state = FranchiseState(of_words(HierarchicalDirichletProcess(top, group, own=own)), [0, 0, 1, 0, 1, 2])
    served = Served(np.zeros(state.capacity, dtype=np.int64), np.array([2, 3]))
    served.of_cluster[:3] = [2, 2, 1]
    values = np.empty((6_000, 3))
    for t in range(len(values)):
        franchise.draw_weights(state, served, rng)
        values[t] = state.prior.top, *state.gammas
    assert_moments(values[:, 0], lambda a: 3 * log(a) + lgamma(a) - lgamma(a + 5), top)
    for m in (0, 1):
        lengths, n_tables = ([3], (2, 3)[m]) if own else ([3, 3], 5)
        assert_moments(values[:, 1 + m], lambda g, n_tables=n_tables, lengths=lengths: log_urn(g, n_tables, lengths), group)
    assert np.array_equal(values[:, 1], values[:, 2]) != own
    wrong = moments(lambda g: log_urn(g, 6, [3, 3]), group)[0]  # a table too many
    assert own or distance_in_errors(values[:, 1], wrong) > 5.0


def test_the_concentration_of_words_has_the_density_of_quadrature():
    """η, given the topics."""
    prior, rng, labels = Gamma(2.0, 3.0), stream(0), np.array([0, 0, 1, 0, 1, 2])
    state = FranchiseState(of_words(HierarchicalDirichletProcess(1.0, 1.3), prior), labels)
    counts = np.zeros((3, 3), dtype=int)
    np.add.at(counts, (labels, state.statistics.word), 1)

    def log_likelihood(eta):
        return sum(lgamma(3 * eta) - lgamma(3 * eta + row.sum()) + sum(lgamma(eta + n) - lgamma(eta) for n in row) for row in counts)

    values = np.empty(3_000)
    for t in range(len(values)):
        FamilyHyperparameters().step(state, rng)
        values[t] = state.family.concentration
    assert_moments(values, log_likelihood, prior)
    assert state.log_likelihood() == pytest.approx(log_likelihood(values[-1]), rel=1e-10)


def by_tables(state, rng):
    return tables.choose_tables(state, seated(state, rng), rng).served(state)


def grown(sweep):
    """From one cluster with a large α, more clusters are born in a sweep than there are slots."""
    counts = np.random.default_rng(0).integers(0, 3, size=(20, 60))
    model = Model.of(GroupedRows.of_counts(counts), Words(0.05, 60), HierarchicalDirichletProcess(500.0, 200.0))
    state, rng = FranchiseState(model, np.zeros(model.n, dtype=int)), stream(0)
    franchise.draw_weights(state, sweep(state, rng), rng)
    before = state.capacity
    served = sweep(state, rng)
    assert state.capacity > before
    franchise.draw_weights(state, served, rng)
    return state, served


@pytest.mark.parametrize("sweep", [direct.sweep, by_tables])
def test_slots_that_run_out_in_the_middle_of_a_sweep(sweep):
    """Nothing is lost."""
    state, served = grown(sweep)
    state.audit()
    assert np.all(served.of_cluster[state.sizes > 0] >= 1)
    assert not served.of_cluster[state.sizes == 0].any()
    assert served.in_group.sum() == served.of_cluster.sum()


def test_labels_that_outgrow_their_form_in_the_middle_of_a_sweep(monkeypatch):
    """Labels of four bytes for two from some number of slots on: the same draws."""
    expected, _ = grown(direct.sweep)
    monkeypatch.setattr("maitre.states.franchise._MOST_SHORT", 20)
    state, _ = grown(direct.sweep)
    assert [expected.labels.itemsize, state.labels.itemsize] == [2, 4]
    np.testing.assert_array_equal(state.labels, expected.labels)
    state.audit()


def test_counts_that_outgrow_their_form_in_the_middle_of_a_sweep():
    """A word that is at first spread over three clusters and then nearly all in one, more often than two bytes can count; nothing is lost."""
    n = 70_000
    counts = sparse.csr_matrix((np.ones(n + 5, dtype=int), np.r_[np.zeros(n, dtype=int), np.ones(5, dtype=int)], np.arange(n + 6)), shape=(n + 5, 2))
    model = Model.of(GroupedRows.of_counts(counts), Words(0.5, 2), HierarchicalDirichletProcess(1.0, 1.3))
    state, rng = FranchiseState(model, np.arange(n + 5) % 3, values={"weights": [0.985, 0.005, 0.005], "rest": 0.005}), stream(0)
    assert state.statistics.seen.itemsize == 2
    served = direct.sweep(state, rng)
    assert state.statistics.seen.max() > 2**16
    assert served.of_cluster.sum() == n + 5  # a table for every document
    state.audit()
    seats = seated(state, rng)
    seats.split_and_merge(state, 3, rng)
    state.audit()


@compiled
def add_up(factors, row, base, sums):
    return add_lanes(factors, row, base, sums)


# -- the parts --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [np.float32, np.uint16])
def test_picking_by_lanes_finds_every_place_in_proportion(counts):
    rng = np.random.default_rng(0)
    factors, row = rng.random(2 * STRIDE).astype(np.float32), rng.integers(0, 4, 2 * STRIDE).astype(counts)
    factors[[3, 20, 47]] = 0.0
    sums, own = np.empty_like(factors), 21
    total = add_up(factors, row, np.float32(0.5), sums)
    by_hand = np.empty_like(sums)
    add_lanes(factors, row, np.float32(0.5), by_hand)
    np.testing.assert_allclose(sums, by_hand, rtol=1e-6)
    products = factors * (row + np.float32(0.5))
    assert total == pytest.approx(products.sum(), rel=1e-6)
    grid = (np.arange(200_000) + 0.5) / 200_000 * (total - products[own])
    found = np.bincount([pick_other(sums, factors, own, products[own], x) for x in grid], minlength=len(factors)) / len(grid)
    products[own] = 0.0
    np.testing.assert_allclose(found, products / products.sum(), atol=1e-4)


def test_folding_in_and_perplexity_have_the_published_values():
    phi, a = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]), np.array([0.6, 0.4])
    theta = folded_in(phi.astype(np.float32), a, np.array([0, 1]), np.array([2, 1]))
    np.testing.assert_allclose(theta, [0.82491318, 0.17508682], rtol=1e-6)
    assert exp(-(log(theta @ phi[:, 0]) + 2 * log(theta @ phi[:, 2])) / 3) == pytest.approx(3.62887892, rel=1e-6)
    assert perplexity([(np.full((4, 7), 1 / 7), np.ones(4))], sparse.csr_matrix(np.ones((3, 7), dtype=int)), 0) == pytest.approx(7.0, rel=1e-6)
