"""Families of rankings: codes, predictive probabilities, orderings drawn exactly, and what is documented as not exact."""

import itertools
import math

import numpy as np
import pytest

import maitre as mt
from maitre.families import plackett_luce
from maitre.families.codes import count_codes, draw_alone, fill_codes, log_density_alone, set_ordering
from maitre.families.generalized_mallows import find_chance, log_marginal_of, log_predictive
from maitre.families.orderings import fill_costs, fill_pairs, fill_rows, look_ahead, redraw_stagewise, reinsert, stagewise, swap_neighbours
from maitre.families.plackett_luce import draw_worths_alone, lay_out_worths, log_likelihood, redraw_worths
from maitre.model import Model
from maitre.moves import mallows_sweeps
from maitre.moves.mallows_sweeps import with_dispersions
from maitre.moves.meila_chen import with_beta
from maitre.numerics.rng import stream
from maitre.states.rankings import OrderingState
from maitre.testing.transitions import follow_branches


def statistics(family, rankings):
    filled = family.with_defaults(family.validate(rankings))
    return filled.allocate(filled.encode(family.validate(rankings)), 1)


def codes_of(ranking, ordering):
    places, codes = np.argsort(ordering).astype(np.int16), np.zeros(len(ordering), dtype=np.int64)
    fill_codes(np.array(ranking, dtype=np.int16), 0, len(ranking), places, codes)
    return codes[: len(ranking)].tolist()


def test_codes():
    assert codes_of([3, 2, 4], [2, 0, 3, 1, 5, 4]) == [2, 0, 3]
    found = {tuple(codes_of(ranking, [1, 0, 3, 2])) for ranking in itertools.permutations(range(4), 3)}
    assert found == set(itertools.product(range(4), range(3), range(2)))
    rng = np.random.default_rng(0)
    ordering, ranking = rng.permutation(100), rng.permutation(100)[:30]
    places = np.argsort(ordering)
    slow = [sum(places[x] < places[item] for x in range(100) if x not in ranking[: j + 1]) for j, item in enumerate(ranking)]
    assert codes_of(ranking, ordering) == slow  # more items than bits in a word


def test_predictive_probabilities():
    s = statistics(mt.families.GeneralizedMallows(5, 1.0, [0.5, 0.4, 0.4, 0.3]), [[1, 0, 2], [0, 1], [1, 2, 4, 0], [0, 3, 1]])
    set_ordering(s, 0, np.array([1, 0, 2, 4, 3], dtype=np.int16))
    count_codes(s, np.array([0, 1, 2]), 3, s.places[0], s.seen[0], s.total[0])
    assert s.seen[0].tolist() == [3, 3, 2, 1]
    assert s.total[0].tolist() == [1, 1, 1, 0]
    assert log_predictive(s, 0, 3) == pytest.approx(-5.913380330271529, abs=1e-9)
    exact = [0.756524990361, 0.15993370444, 0.051422255687, 0.0214191755693, 0.0106998739424]
    assert [find_chance(s, 0, 0, code) for code in range(5)] == pytest.approx(exact, abs=1e-9)
    by_beta = with_beta(s)
    assert by_beta.log_predictive(0, 3) == pytest.approx(-6.353471837021577, abs=1e-12)
    before = s.seen.copy(), s.total.copy()
    by_beta.add(0, 3)
    assert by_beta.log_predictive_without(0, 3) == pytest.approx(-6.353471837021577, abs=1e-12)
    by_beta.remove(0, 3)
    assert (before[0] == s.seen).all()
    assert (before[1] == s.total).all()
    first = np.exp(by_beta.log_first[0])
    assert first / first.sum() == pytest.approx([0.817142857143, 0.116734693878, 0.0389115646259, 0.0176870748299, 0.00952380952381], abs=1e-9)


def test_one_ranking_alone():
    """Lemma 1, and the law of its ordering."""
    family = mt.families.GeneralizedMallows(4, 1.0, 1.0)
    for ranking in ([2], [2, 0], [2, 0, 3]):
        s = statistics(family, [ranking])
        values = {}
        for ordering in itertools.permutations(range(4)):
            places, count, total = np.argsort(ordering).astype(np.int16), np.zeros(len(ranking), dtype=np.int64), np.zeros(len(ranking), dtype=np.int64)
            count_codes(s, np.array([0]), 1, places, count, total)
            values[ordering] = math.exp(log_marginal_of(s, count, total))
            assert math.exp(log_density_alone(s, 0, places)) == pytest.approx(values[ordering] / math.factorial(4 - len(ranking)), abs=1e-12)
        assert sum(values.values()) / 24 == pytest.approx(math.factorial(4 - len(ranking)) / 24, abs=1e-12)

        def run(rng, s=s):
            ordering = np.zeros(4, dtype=np.int16)
            draw_alone(s, 0, ordering, rng)
            return tuple(int(item) for item in ordering)

        law = dict.fromkeys(values, 0.0)
        for outcome, chance in follow_branches(run):
            law[outcome] += chance
        assert list(law.values()) == pytest.approx(list(np.array(list(values.values())) / sum(values.values())), abs=1e-12)


RANKINGS = [[0, 2, 1], [3], [1, 0], [3, 1, 2]]
THETA = np.array([0.9, 0.4, 1.3])


SHORT = [[2, 0], [2], [2, 0], [0]]  # of items 1 and 3 nothing is known


@pytest.fixture(scope="module", params=[RANKINGS, SHORT])
def target(request):
    rankings = request.param
    s = statistics(mt.families.GeneralizedMallows(4), rankings)
    costs, pairs, rows, listed = np.zeros((4, 4)), np.zeros((4, 4)), np.zeros((4, 4)), np.arange(4)
    fill_costs(s, s.ballot, 4, THETA, costs)
    fill_pairs(s, s.ballot, 4, THETA, pairs)
    listed = listed[: fill_rows(s, np.sort(s.ballot), 4, THETA, rows, listed)]
    assert listed.tolist() == sorted({item for ranking in rankings for item in ranking})
    np.testing.assert_allclose(rows[listed], pairs[listed])
    orders = list(itertools.permutations(range(4)))
    cost = [sum(THETA[j] * code for ranking in rankings for j, code in enumerate(codes_of(ranking, order))) for order in orders]
    np.testing.assert_allclose(cost, [sum(costs[b, a] for a, b in itertools.combinations(order, 2)) for order in orders])
    probabilities = np.exp(-np.array(cost))
    return costs, pairs, listed, orders, probabilities / probabilities.sum()


def law_of(draw, orders):
    law = dict.fromkeys(orders, 0.0)
    for outcome, chance in follow_branches(draw):
        law[outcome] += chance
    return np.array(list(law.values()))


@pytest.mark.parametrize("kernel", [reinsert, swap_neighbours, redraw_stagewise])
def test_moves_of_orderings_are_exact(target, kernel):
    costs, pairs, listed, orders, probabilities = target
    given = {reinsert: (pairs, listed), swap_neighbours: (pairs,), redraw_stagewise: (costs,)}[kernel]
    after = np.zeros(24)
    for order, probability in zip(orders, probabilities, strict=True):

        def run(rng, order=order):
            ordering = np.array(order, dtype=np.int16)
            kernel(*given, ordering, np.zeros((2, 4)), rng)
            return tuple(int(item) for item in ordering)

        after += probability * law_of(run, orders)
    np.testing.assert_allclose(after, probabilities, atol=1e-12)


def test_stagewise_alone_is_not_exact():
    s = statistics(mt.families.GeneralizedMallows(3), [[0]])
    costs = np.zeros((3, 3))
    fill_costs(s, np.array([0]), 1, np.array([1.0]), costs)
    orders = list(itertools.permutations(range(3)))

    def run(rng):
        ordering = np.zeros(3, dtype=np.int16)
        stagewise(costs, ordering, np.zeros((2, 3)), False, rng)
        return tuple(int(item) for item in ordering)

    q = [0.2880584423829146] * 2 + [0.1549416938641758, 0.0569998637529097] * 2
    assert law_of(run, orders) == pytest.approx(np.array(q)[[0, 1, 2, 3, 4, 5]], abs=1e-12)
    assert abs(q[0] - 0.3326204778874109) > 0.04  # what p(σ | θ, x) is


def test_looking_ahead_says_what_it_draws(target):
    _, pairs, _, orders, _ = target
    guess = np.array([1, 0, 3, 2], dtype=np.int16)

    def run(rng):
        ordering = np.zeros(4, dtype=np.int16)
        look_ahead(pairs, guess, ordering, np.zeros((2, 4)), False, rng)
        return tuple(int(item) for item in ordering)

    said = [math.exp(look_ahead(pairs, guess, np.array(order, dtype=np.int16), np.zeros((2, 4)), True, None)) for order in orders]
    np.testing.assert_allclose(law_of(run, orders), said, atol=1e-12)


def test_worths_given_one_ranking():
    """The exact draw and the Gibbs step with times agree, and both with the probability of the ranking."""
    s = statistics(mt.families.PlackettLuce(4, 0.8), [[2, 0]])
    rng, exact, stepped = stream(3), [], []
    for _ in range(4000):
        draw_worths_alone(s, 0, 0, rng)
        exact.append(s.worths[0] / s.whole[0])
        redraw_worths(s, 0, np.array([0]), 1, rng)
        stepped.append(s.worths[0] / s.whole[0])
    error = np.std(exact, axis=0) / math.sqrt(4000)
    assert (np.abs(np.mean(exact, axis=0) - np.mean(stepped, axis=0)) < 5 * error).all()
    prior = np.random.default_rng(0).gamma(0.8, size=(200_000, 4))
    weights = prior / prior.sum(axis=1, keepdims=True)
    likelihood = weights[:, 2] * weights[:, 0] / (1.0 - weights[:, 2])
    assert likelihood.mean() == pytest.approx(1 / 12, rel=0.02)
    assert (np.abs(likelihood @ weights / likelihood.sum() - np.mean(exact, axis=0)) < 6 * error).all()
    s.worths[0], s.whole[0] = [1.0, 2.0, 3.0, 4.0], 10.0
    assert log_likelihood(s, 0, 0) == pytest.approx(math.log(3 / 10 * 1 / 7))


def test_all_slots_at_once():
    """What vector loops over slots say is what each slot says, products that underflow included."""
    rankings, rng = [[2, 0, 5], [1], [6, 5, 4, 3, 2, 1]], np.random.default_rng(2)
    worths = mt.families.PlackettLuce(7)
    s = worths.allocate(worths.encode(worths.rows(rankings)), 9)
    s.worths[:] = rng.gamma(0.5, size=(9, 7)) ** 8
    s.worths[3] = 1e-290
    s.worths[3, 0] = 1.0
    lay_out_worths(s)
    family = mt.families.GeneralizedMallows(7)
    state = OrderingState.of_labels(Model.of(family.rows(rankings * 3), family, mt.priors.DirichletProcess(1.0)), np.arange(9))
    explicit = with_dispersions(state, stream(1))()
    for given, at_once, each in ((s, plackett_luce.log_likelihoods, log_likelihood), (explicit, mallows_sweeps.log_likelihoods, mallows_sweeps.log_likelihood)):
        for d in range(3):
            out = np.full(9, 0.25)
            at_once(given, d, 9, out)
            np.testing.assert_allclose(out, [0.25 + each(given, k, d) for k in range(9)], rtol=1e-12)


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="ranks 1 twice"):
        mt.families.GeneralizedMallows(3).rows([[0, 1, 1]])
    with pytest.raises(ValueError, match="ranks item 3; there are 3 items, 0 to 2"):
        mt.families.GeneralizedMallows(3).rows([[0], [3]])
    with pytest.raises(ValueError, match="ranking of voter 1 is empty"):
        mt.families.PlackettLuce(3).rows([[0], []])
    with pytest.raises(ValueError, match="rankings need from 2 to"):
        mt.families.PlackettLuce().rows([[0], [0]])
    with pytest.raises(ValueError, match="n_items is 1"):
        mt.families.PlackettLuce(1)
    with pytest.raises(ValueError, match="r is"):
        mt.families.GeneralizedMallows(3, r=0.0)


def test_the_last_of_all_items_says_nothing():
    family = mt.families.GeneralizedMallows(3)
    assert family.encode(family.rows([[0, 1, 2]])).items.tolist() == family.encode(family.rows([[0, 1]])).items.tolist()
