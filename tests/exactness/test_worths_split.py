"""Splits and merges of clusters with explicit worths: the proposals' density, the ratio written out again, chains against enumeration, and wrong ratios found out."""

import math

import numpy as np
import pytest
from scipy import stats

import maitre as mt
from maitre.families.plackett_luce import fit_worths, list_distinct
from maitre.families.worth_proposals import curvature, propose_worths, ranked_items
from maitre.model import Model
from maitre.moves import worths_split
from maitre.moves.plackett_luce import redraw_all_worths
from maitre.moves.rankings import listed
from maitre.numerics.rng import stream
from maitre.states.rankings import WorthState
from maitre.testing.enumeration import compare_with_enumeration

from .test_rankings import OF_THREE, enumerated_partitions, worths_evidence

FAMILY = mt.families.PlackettLuce(3, 0.8)
PRIORS = {"dp": mt.priors.DirichletProcess(1.0), "py": mt.priors.PitmanYor(0.6, 0.3), "mfm": mt.priors.MixtureOfFiniteMixtures()}
LONGER = [[0, 1, 2], [0, 1], [1, 0, 3], [3], [2, 3, 1], [0, 1]]


def state_of(rankings, labels, worths, prior, family=FAMILY):
    model = Model.of(family.rows(rankings), family, prior)
    return WorthState.of_variables(model, {"labels": np.array(labels), "worths": np.array(worths, dtype=float)}, compiled=False)


# -- the density of worths --------------------------------------------------------------------------------------------------------------------


def log_likelihood(ranking, worths):
    left, value = float(np.sum(worths)), 0.0
    for item in ranking:
        value += math.log(worths[item] / left)
        left -= worths[item]
    return value


def curvature_by_choices(rankings, copies, guess, rate):
    """Λ of all items, choice by choice."""
    found = np.diag(rate * guess)
    for ranking, number in zip(rankings, copies, strict=True):
        left = np.ones(len(guess))
        for item in ranking:
            chances = left * guess / (left * guess).sum()
            found += number * (np.diag(chances) - np.outer(chances, chances))
            left[item] = 0.0
    return found


def log_density(rankings, copies, guess, scale, worths, shape, rate):
    """ln q of ln w, by scipy."""
    steps, ranked = np.log(worths / guess), sorted({item for ranking in rankings for item in ranking})
    factor = np.linalg.cholesky(curvature_by_choices(rankings, copies, guess, rate)[np.ix_(ranked, ranked)])
    e, k = factor.T @ steps[ranked] / np.diag(factor), np.maximum(scale * np.diag(factor) ** 2, shape / 2)
    others = [x for x in range(len(guess)) if x not in ranked]
    e, k = np.r_[e, steps[others]], np.r_[k, np.full(len(others), shape)]
    return float(stats.loggamma(k, loc=-np.log(k)).logpdf(e).sum())


def log_prior(worths, shape, rate):
    return float((stats.gamma(shape, scale=1 / rate).logpdf(worths) + np.log(worths)).sum())


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_worths_are_drawn_from_the_density_that_is_said(scale):
    """Weighted by posterior over proposal, draws give the marginal likelihood."""
    state = state_of(OF_THREE, [0] * 5, [[1.0, 1.0, 1.0]], PRIORS["dp"])
    s, rng = state.statistics, stream(3)
    distinct, copies = list_distinct(np.sort(s.ballot), 5)
    guess, worths = np.empty(3), np.empty(3)
    fit_worths(s, distinct, copies, guess)
    weights = []
    for _ in range(20_000):
        ratio = propose_worths(s, distinct, copies, guess, scale, worths, False, rng)
        assert propose_worths(s, distinct, copies, guess, scale, worths, True, rng) == pytest.approx(ratio, abs=1e-9)
        weights.append(math.exp(ratio + sum(log_likelihood(ranking[:2], worths) for ranking in OF_THREE)))
    exact = math.exp(worths_evidence(FAMILY, OF_THREE)(list(range(5))))
    assert np.mean(weights) == pytest.approx(exact, abs=4 * np.std(weights) / math.sqrt(len(weights)))
    assert scale < 1.0 or np.std(weights) < exact  # a good approximation


def test_curvature():
    family = mt.families.PlackettLuce(5, 0.7, 2.0)
    state = state_of(LONGER, [0] * 6, [np.ones(5)], PRIORS["dp"], family)
    distinct, copies = np.arange(len(state.statistics.starts) - 1), np.array([0.5, 1.0, 2.0, 0.1, 1.0])
    guess = np.array([0.5, 2.0, 0.3, 0.9, 0.1])
    ranked = ranked_items(state.statistics, distinct)
    assert ranked.tolist() == [0, 1, 2, 3]
    rankings = [state.statistics.items[state.statistics.starts[d] : state.statistics.starts[d + 1]].tolist() for d in distinct]
    expected = curvature_by_choices(rankings, copies, guess, 2.0)[:4, :4]
    np.testing.assert_allclose(curvature(state.statistics, distinct, copies, guess, ranked), expected, atol=1e-12)


# -- the ratio --------------------------------------------------------------------------------------------------------------------------------


def log_chance_of_partner(state, a, b, pair):
    """ln ν(R | L) among the clusters of the split state."""
    others = [state.statistics.worths[k] for k in np.flatnonzero(state.sizes) if k not in (a, b)]

    def affinity(other):
        return -20.0 * (1.0 - np.sqrt(pair[0] / pair[0].sum() * other / other.sum()).sum())

    return affinity(pair[1]) - np.logaddexp.reduce([affinity(pair[1]), *map(affinity, others)])


def watch(monkeypatch):
    """Every proposal's ratio is noted, and what it is made from; all are refused."""
    seen = {}

    def keep(name, function, result=lambda arguments, value: (arguments, value)):
        def noting(*arguments):
            value = function(*arguments)
            seen.setdefault(name, []).append(result([np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments], value))
            return value

        return noting

    monkeypatch.setattr(worths_split, "propose_worths", keep("together", propose_worths))
    monkeypatch.setattr(worths_split, "propose_pair", keep("pair", worths_split.propose_pair))
    monkeypatch.setattr(worths_split, "position_of", keep("anchor", worths_split.position_of))
    right = worths_split.draw_event

    def event(log_probability, rng):
        if log_probability == math.log(0.5):
            return right(log_probability, rng)
        seen["ratio"] = log_probability
        return False

    monkeypatch.setattr(worths_split, "draw_event", event)
    return seen


def errors_of_ratios(monkeypatch, prior, scale, wrong=lambda: None):
    """How far the ratios of merges are from everything again: the two states' log joints, scipy's densities, and the sides' probabilities."""
    family, found = mt.families.PlackettLuce(5, 0.7, 2.0), []
    generator, rng = np.random.default_rng(4), stream(8)
    for _ in range(40):
        labels = np.array([0, 1, 0, 1, 2, 1])
        state = state_of(LONGER, labels, generator.gamma(0.7, size=(3, 5)) + 1e-3, PRIORS[prior], family)
        seen = watch(monkeypatch)
        wrong()
        worths_split.split_or_merge.python(state.statistics, state.labels, state.sizes, state.log_v, state.log_w, scale, np.zeros((2, state.capacity)), rng)
        monkeypatch.undo()
        if "ratio" in seen and seen["pair"][0][0][7] > 0.0:  # a merge
            found.append(-seen["ratio"] - log_ratio(state, labels, scale, seen))
    assert len(found) > 5
    return np.abs(found)


def log_ratio(state, labels, scale, seen):
    """Of the split that undoes a merge."""
    (voters, i), j = seen["anchor"][0][0], seen["anchor"][1][0][1]
    a, b, s = labels[i], labels[j], state.statistics
    (share, _), (_, distinct, copies, anchors, whole, _, pair, *_) = seen["pair"][0][1], seen["pair"][0][0]
    together, n_first, n_second = seen["together"][0][0][5], int(state.sizes[a]), int(state.sizes[b])
    rankings = [s.items[s.starts[d] : s.starts[d + 1]].tolist() for d in distinct]
    if scale == 0.0:
        guesses, parts = np.empty((2, 5)), np.empty((2, len(distinct)))
        worths_split.part_by_em(s, distinct, copies, anchors, guesses, parts)
        q_pair = sum(log_density(rankings, parts[side], guesses[side], 0.5, pair[side], 0.7, 2.0) for side in range(2))
        q_pair += stats.beta(1 + parts[0].sum() / 2, 1 + parts[1].sum() / 2).logpdf(share)
    else:
        q_pair = sum(log_density(rankings, copies, whole, scale, pair[side], 0.7, 2.0) for side in range(2))
    for v in set(voters.tolist()) - {i, j}:
        left, right = math.log(share) + log_likelihood(LONGER[v], pair[0]), math.log1p(-share) + log_likelihood(LONGER[v], pair[1])
        q_pair += (left if labels[v] == a else right) - np.logaddexp(left, right)
    to_split = q_pair - math.log(n_first + n_second - 1)
    to_merge = log_chance_of_partner(state, a, b, pair) - math.log(n_second)
    to_merge += stats.beta(n_first, n_second).logpdf(share) + log_density(rankings, copies, whole, 1.0, together, 0.7, 2.0)
    jacobian = np.log(pair).sum() - np.log(together).sum()  # log joints are densities of worths, proposals of their logarithms
    merged = np.where(labels == b, a, labels)
    rows = [together if v in voters else s.worths[labels[v]] for v in [np.flatnonzero(merged == k)[0] for k in dict.fromkeys(merged.tolist())]]
    values = {"labels": np.unique(merged, return_inverse=True)[1], "worths": np.array(rows)}
    return state.compute_log_joint() - WorthState.of_variables(state.model, values, compiled=False).compute_log_joint() + jacobian + to_merge - to_split


@pytest.mark.parametrize("scale", [0.0, 0.1])
@pytest.mark.parametrize("prior", PRIORS)
def test_the_ratio_is_that_of_joint_densities_and_proposals(monkeypatch, prior, scale):
    assert errors_of_ratios(monkeypatch, prior, scale).max() < 1e-8


@pytest.mark.parametrize("name", ["log_near", "log_beta_density"])
def test_wrong_ratios_are_not(monkeypatch, name):
    wrong = getattr(worths_split, name)
    found = errors_of_ratios(monkeypatch, "py", 0.0, lambda: monkeypatch.setattr(worths_split, name, lambda *arguments: 0.0 * wrong(*arguments)))
    assert found.max() > 1e-2


# -- chains against enumeration ---------------------------------------------------------------------------------------------------------------


def partitions_drawn(prior, proposals, n_draws, compiled=True):
    """No voter moves alone: splits, merges and new worths only."""
    model = Model.of(FAMILY.rows(OF_THREE), FAMILY, prior)
    state, rng, found = WorthState(model, [0] * 5, compiled), stream(12), []
    for _ in range(n_draws):
        worths_split.split_and_merge(state, proposals, rng)
        state.run(redraw_all_worths, state.sizes, *listed(state), 1, rng)
        found.append(state.canonical_labels())
    return np.array(found)


LONG = [("dp", (4, 0)), ("py", (0, 4)), ("mfm", (2, 2))]


@pytest.mark.parametrize(("prior", "proposals", "n_draws"), [("dp", (3, 3), 8_000), *(pytest.param(*each, 150_000, marks=pytest.mark.long) for each in LONG)])
def test_splits_and_merges_alone_against_enumeration(prior, proposals, n_draws):
    exact = enumerated_partitions(PRIORS[prior], OF_THREE, worths_evidence(FAMILY, OF_THREE))
    found, expected = compare_with_enumeration(exact, partitions_drawn(PRIORS[prior], proposals, n_draws))
    assert found < 2 * expected
    if n_draws > 100_000:
        assert found < 0.015


def test_a_wrong_ratio_is_found_out(monkeypatch):
    right = worths_split.log_near
    monkeypatch.setattr(worths_split, "log_near", lambda *arguments: 0.0 * right(*arguments))
    exact = enumerated_partitions(PRIORS["dp"], OF_THREE, worths_evidence(FAMILY, OF_THREE))
    found, expected = compare_with_enumeration(exact, partitions_drawn(PRIORS["dp"], (2, 2), 4_000, compiled=False))
    assert found > 2 * expected
