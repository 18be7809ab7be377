"""The moves over groups as transition matrices: every branch of their discrete draws is followed; weights, sticks and parameters, which are continuous, are frozen.

What is frozen has its conditional distribution in the moves; that this is the right one is checked as an identity of densities, at weights drawn at random.
"""

from itertools import product
from math import exp, lgamma, log

import numpy as np
import pytest
from scipy.stats import dirichlet

from maitre.data.groups import GroupedRows
from maitre.families.statistics import add, clear, log_marginal
from maitre.families.words import Words
from maitre.model import Model
from maitre.moves import Tables, dealt_groups, direct, documents, tables
from maitre.moves.dishes import Seats, seated
from maitre.moves.franchise import draw_tables
from maitre.moves.superclusters import deal
from maitre.partitions.labels import canonical
from maitre.priors.hierarchical import HierarchicalDirichletProcess
from maitre.states.franchise import FranchiseState
from maitre.testing.enumeration import all_partitions
from maitre.testing.transitions import follow_branches

ALPHA, GAMMA = 0.8, 1.3


def model_of(counts):
    return Model.of(GroupedRows.of_counts(counts), Words(0.5, len(counts[0])), HierarchicalDirichletProcess(ALPHA, GAMMA))


FOUR, THREE = model_of([[1, 1], [1, 1]]), model_of([[1, 1], [0, 1]])


def matrix_of(keys, run):
    """The transition matrix of run(key, rng) over these keys; what ends elsewhere is lost."""
    matrix = np.zeros((len(keys), len(keys)))
    for row, key in enumerate(keys):
        for outcome, probability in follow_branches(lambda rng, key=key: run(key, rng)):
            if outcome in keys:
                matrix[row, keys.index(outcome)] += probability
    return matrix


def error_of(law, matrix):
    """By how much a step moves a law {key: weight}."""
    pi = np.array(list(law.values())) / sum(law.values())
    return np.abs(pi @ matrix - pi).max()


def log_marginals(model, labels):
    """Σ_k log p(x_k)."""
    s, total = FranchiseState(model, np.zeros(model.n, dtype=int), compiled=False).statistics, 0.0
    for cluster in set(labels):
        clear(s, 0)
        for i in np.flatnonzero(np.array(labels) == cluster):
            add(s, 0, i)
        total += log_marginal(s, 0)
    return total


def plain(labels):
    return tuple(int(k) for k in canonical(np.array(labels)))


# -- direct assignment: one point, the weights of all others' clusters given, and the stick of a new one -----------------------------------------

WEIGHTS, STICK = (0.3, 0.25, 0.2), 0.35


def state_without_doubt(labels, i):
    """The state in which the clusters of the points other than i have the first of WEIGHTS, in order; that of i alone a stick of the rest."""
    others = [k for place, k in enumerate(labels) if place != i]
    weights = dict(zip(dict.fromkeys(others), WEIGHTS, strict=False))
    rest = 1.0 - sum(weights.values())
    if labels[i] not in weights:
        weights[labels[i]], rest = STICK * rest, (1.0 - STICK) * rest
    values = {"weights": [weights[k] for k in dict.fromkeys(labels)], "rest": rest}
    return FranchiseState(FOUR, np.array(labels), compiled=False, values=values)


def law_of_one_point(i):
    """{partition: density}; where i is alone, of the stick, and over the density from which it is drawn."""
    law = {}
    for labels in all_partitions(FOUR.n):
        state = state_without_doubt(labels, i)
        density = state.compute_log_joint() - np.log(state.variables()["weights"]).sum() - log(state.rest)  # weights not on the log scale
        if labels.count(labels[i]) == 1:
            density += log(state.rest / (1.0 - STICK)) - log(ALPHA) - (ALPHA - 1.0) * log(1.0 - STICK)
        law[labels] = exp(density)
    return law


def visit(labels, i, gamma, rng):
    """The sweep over one point, the last of its group."""
    state, group = state_without_doubt(labels, i), int(np.searchsorted(FOUR.data.starts, i, side="right")) - 1
    rest, served, in_group = np.array([state.rest]), np.zeros(state.capacity, dtype=np.int64), np.zeros(2, dtype=np.int64)
    arrays = (np.array([group]), state.starts, state.labels, state.sizes, state.beta, rest, served, in_group, ALPHA, np.full(2, gamma))
    assert state.run(direct.sweep_points, *arrays, np.array([0, i]), rng)
    state.rest, after = float(rest[0]), plain(state.labels)
    expected = state_without_doubt(after, i)
    np.testing.assert_allclose(state.variables()["weights"], expected.variables()["weights"], rtol=1e-12)
    assert state.rest == pytest.approx(expected.rest, rel=1e-12)
    return after


@pytest.mark.parametrize("i", [1, 3])
def test_direct_assignment_leaves_its_law_invariant(i, monkeypatch):
    monkeypatch.setattr(direct, "beta", lambda a, b, rng: STICK)
    monkeypatch.setattr(direct, "draw_tables", lambda n, mass, rng: 1)
    law = law_of_one_point(i)
    matrix = matrix_of(list(law), lambda labels, rng: visit(labels, i, GAMMA, rng))
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    assert error_of(law, matrix) < 1e-12
    assert error_of(law, matrix_of(list(law), lambda labels, rng: visit(labels, i, 1.1 * GAMMA, rng))) > 1e-4
    without = {labels: weight * (STICK if labels.count(labels[i]) == 1 else 1.0) for labels, weight in law.items()}
    assert error_of(without, matrix) > 1e-3


# -- tables given labels and weights, and weights given tables ---------------------------------------------------------------------------------


def test_numbers_of_tables_have_their_law():
    mass, n, found = 0.7, 5, np.zeros(6)
    for opened, probability in follow_branches(lambda rng: draw_tables(n, mass, rng)):
        found[opened] += probability
    rising = np.poly1d([1.0])
    for q in range(n):
        rising *= np.poly1d([1.0, q])  # its coefficients are Stirling numbers of the first kind
    np.testing.assert_allclose(found, rising.coeffs[::-1] * mass ** np.arange(n + 1) / rising(mass), atol=1e-14)


def log_seating(tables_of, labels):
    """log p(tables, labels) with weights integrated out, without the points."""
    seats, served = np.bincount(tables_of), np.bincount([labels[tables_of.index(t)] for t in range(max(tables_of) + 1)])
    value = len(seats) * log(GAMMA) + sum(lgamma(n) for n in seats) + sum(log(ALPHA) + lgamma(m) for m in served)
    return value + lgamma(ALPHA) - lgamma(ALPHA + len(seats)) + sum(lgamma(GAMMA) - lgamma(GAMMA + n) for n in np.diff(FOUR.data.starts))


@pytest.mark.parametrize("labels", [(0, 0, 0, 0), (0, 0, 0, 1), (0, 1, 1, 1)])
def test_seating_and_weights_are_draws_from_one_joint(labels):
    """p(labels, β) p(tables | labels, β) = p(labels, tables) Dirichlet(β; m, α): points in place of tables, and the equation does not hold."""
    for seed in range(3):
        drawn = np.random.default_rng(seed).dirichlet(np.ones(max(labels) + 2))
        values = {"weights": drawn[:-1], "rest": drawn[-1]}

        def run(rng, values=values):
            state = FranchiseState(FOUR, np.array(labels), compiled=False, values=values)
            seats = seated(state, rng)
            assert [len(set(seats.tables[a:b])) for a, b in ((0, 2), (2, 4))] == list(seats.in_group)
            return tuple(int(t) for t in seats.tables), tuple(int(m) for m in seats.served(state).of_cluster[: max(labels) + 1])

        state = FranchiseState(FOUR, np.array(labels), compiled=False, values=values)
        density = state.log_prior_of_partition() - np.log(drawn).sum()
        seatings = {}
        for outcome, probability in follow_branches(run):
            seatings[outcome] = seatings.get(outcome, 0.0) + probability
        assert sum(seatings.values()) == pytest.approx(1.0, abs=1e-12)
        for (tables_of, served), probability in seatings.items():
            other = log_seating(tables_of, labels) + dirichlet.logpdf(drawn, [*served, ALPHA])
            assert density + log(probability) == pytest.approx(other, abs=1e-12)
        wrong = log_seating(tables_of, labels) + dirichlet.logpdf(drawn, [*np.bincount(labels), ALPHA])
        assert tuple(np.bincount(labels)) == served or abs(density + log(probability) - wrong) > 1e-3


# -- superclusters -----------------------------------------------------------------------------------------------------------------------------


def seated_law(processors, xi, alpha=ALPHA):
    """{(table of each point, cluster of each point, processor of each cluster): weight}, given the processors' shares; without shares, with these integrated out."""
    starts, law, mass = THREE.data.starts, {}, alpha / processors
    for seatings in product(*(all_partitions(int(n)) for n in np.diff(starts))):
        offsets = np.cumsum([0, *(max(seating) + 1 for seating in seatings)])
        tables_of = tuple(int(t + offset) for seating, offset in zip(seatings, offsets, strict=False) for t in seating)
        seats = np.bincount(tables_of)
        for dishes in all_partitions(len(seats)):
            labels, served = plain(np.array(dishes)[list(tables_of)]), np.bincount(dishes)
            value = len(seats) * log(GAMMA) + sum(lgamma(n) for n in seats) + sum(log(mass) + lgamma(m) for m in served) + log_marginals(THREE, labels)
            for held_by in product(range(processors), repeat=len(served)):
                on = np.bincount(held_by, served, minlength=processors)
                shares = -lgamma(alpha + len(seats)) if xi is None else on @ np.log(xi) - sum(lgamma(t + mass) for t in on)
                law[tables_of, labels, held_by] = exp(value + shares)
    return law


def local_step(key, xi, monkeypatch, rng):
    """The blocks' sweeps from a seating, given the processors' shares."""
    tables_of, labels, held_by = (np.array(part) for part in key)
    weights, rests, after = np.empty(len(held_by)), np.array(xi), np.empty(THREE.n, dtype=int)
    for block in set(held_by):  # any weights that add up to the shares
        weights[held_by == block] = 0.5 * xi[block] / np.count_nonzero(held_by == block)
        rests[block] *= 0.5
    state = FranchiseState(THREE, labels, compiled=False, values={"weights": weights, "rest": rests.sum()})

    def seat(part, rng):
        block = int(np.argmin(np.abs(part.gammas[0] - GAMMA * np.array(xi))))
        points = np.flatnonzero(held_by[labels] == block)
        numbers = canonical(tables_of[points])
        dishes = np.empty(numbers.max() + 1, dtype=np.int32)
        dishes[numbers] = part.labels
        groups = np.searchsorted(THREE.data.starts, points, side="right") - 1
        part.points = points
        return Seats.of_tables(numbers.astype(np.int32), dishes, np.array([len(set(numbers[groups == m])) for m in range(2)]))

    def sweep(part, seats, rng):
        found = choose(part, seats, rng)
        after[part.points] = found.tables + 100 * part.points[0]
        return found

    choose = tables.choose_tables
    with monkeypatch.context() as patch:
        patch.setattr(tables, "seated", seat)
        patch.setattr(tables, "choose_tables", sweep)
        patch.setattr(dealt_groups, "draw_weights", lambda part, served, rng: None)
        dealt_groups.run_blocks(state, held_by, rests, [Tables(0)], 1, 0, rng)
    found = plain(state.labels)
    return plain(after), found, tuple(int(held_by[labels[found.index(k)]]) for k in range(max(found) + 1))


@pytest.mark.parametrize("processors", [2, pytest.param(3, marks=pytest.mark.long)])
def test_superclusters_of_groups_leave_their_law_invariant(processors, monkeypatch):
    xi = np.array([0.5, 0.3, 0.2])[:processors] / sum([0.5, 0.3, 0.2][:processors])
    law = seated_law(processors, xi)
    matrix = matrix_of(list(law), lambda key, rng: local_step(key, xi, monkeypatch, rng))
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    assert error_of(law, matrix) < 1e-12
    assert error_of(seated_law(processors, xi, processors * ALPHA), matrix) > 1e-3  # the law of blocks that have α in place of α/P


@pytest.mark.parametrize("processors", [2, 3])
def test_the_global_step_leaves_the_law_invariant(processors):
    law = seated_law(processors, None)
    matrix = matrix_of(list(law), lambda key, rng: (*key[:2], tuple(int(j) for j in deal(len(key[2]), processors, rng))))
    assert error_of(law, matrix) < 1e-12
    drawn = np.random.default_rng(0).dirichlet(np.ones(2 + processors))  # two clusters' weights, and what each processor has of the rest
    split = dirichlet.logpdf(drawn[2:] / drawn[2:].sum(), np.full(processors, ALPHA / processors)) - (processors - 1) * log(drawn[2:].sum())
    together = dirichlet.logpdf([*drawn[:2], drawn[2:].sum()], [3.0, 1.0, ALPHA])
    assert together + split == pytest.approx(dirichlet.logpdf(drawn, [3.0, 1.0, *np.full(processors, ALPHA / processors)]), abs=1e-12)


@pytest.mark.parametrize(("literal", "least"), [(None, 0.0), (False, 1e-3), (True, 1e-2)])
def test_the_printed_ratio_does_not_leave_the_law_invariant(literal, least):
    """A uniform deal at given shares, accepted by the ratio of the conditional law (None) or by Eq. 6, with its misprint mended or as it is."""
    state, xi, dishes = FranchiseState(FOUR, np.array([0, 1, 2, 0]), compiled=False), np.array([0.6, 0.4]), np.array([0, 1, 2, 0])
    seats = Seats.of_tables(np.arange(4, dtype=np.int32), state.labels.copy(), np.array([2, 2]))
    keys, served = list(product(range(2), repeat=3)), np.bincount(dishes)

    def log_law(held_by):
        on = np.bincount(held_by, served, minlength=2)
        return float(on @ np.log(xi) - sum(lgamma(t + ALPHA / 2) for t in on))

    def log_value(held_by):
        return log_law(held_by) if literal is None else dealt_groups._log_printed(state, seats, dishes, np.array(held_by), xi, literal)

    matrix = np.zeros((8, 8))
    for row, present in enumerate(keys):
        for column, proposed in enumerate(keys):
            accepted = min(1.0, exp(log_value(proposed) - log_value(present))) / 8
            matrix[row, column] += accepted
            matrix[row, row] += 1 / 8 - accepted
    error = error_of({key: exp(log_law(key)) for key in keys}, matrix)
    assert error < 1e-12 if literal is None else error > least


# -- all groups at once, given parameters and shares ---------------------------------------------------------------------------------------------

OWN, PHI = np.array([0.2, 0.35, 0.25]), np.log([[0.6, 0.4], [0.1, 0.9], [0.5, 0.5]])  # weights by which clusters are known, and their words


def share(k):
    return 0.2 + GAMMA * OWN[k]


def redraw(labels, rng):
    """A pass over both halves from labels that are names of clusters."""
    names = list(dict.fromkeys(labels))
    state = FranchiseState(FOUR, np.array(labels), compiled=False, values={"weights": OWN[names], "rest": 1.0 - OWN[names].sum()})
    documents.redraw_groups(state, rng)
    return tuple(int(np.argmin(np.abs(OWN - state.beta[k]))) for k in state.labels)


@pytest.mark.parametrize("n_clusters", [2, pytest.param(3, marks=pytest.mark.long)])
def test_redrawing_all_groups_leaves_the_law_invariant(n_clusters, monkeypatch):
    def parameters(state, rng):
        return (PHI[np.argmin(np.abs(OWN[:, None] - state.beta), axis=0)],)

    mark = documents.mark_clusters
    monkeypatch.setattr(documents, "_draw_parameters", parameters)
    for name in ("gamma", "small_gamma"):  # whose shape is γβ_k and a whole number
        monkeypatch.setattr(documents, name, lambda shape, rng: 0.2 + shape % 1.0)
    words = FOUR.encoded["word"]
    states = [labels for labels in product(range(n_clusters), repeat=FOUR.n) if len(set(labels)) == n_clusters]
    law = {labels: exp(sum(log(share(k)) + PHI[k, w] for k, w in zip(labels, words, strict=True))) for labels in states}
    matrix = matrix_of(states, redraw)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    assert error_of(law, matrix) < 1e-12
    assert np.count_nonzero(matrix - np.diag(np.diag(matrix))) > 0

    def wrong_half(labels, starts, half, which, marked):  # open where the half itself has points: then clusters may be left empty
        mark(labels, starts, half, 1 - which, marked)

    monkeypatch.setattr(documents, "mark_clusters", wrong_half)
    assert error_of(law, matrix_of(states, redraw)) > 1e-3
