"""Mixtures over rankings: kernels as transition matrices over all partitions and orderings, wrong ratios found out, and long chains against enumeration."""

import itertools

import numpy as np
import pytest
from scipy import special

import maitre as mt
from maitre.families.codes import count_codes
from maitre.families.generalized_mallows import log_marginal_of
from maitre.model import Model
from maitre.moves import mallows_split, mallows_sweeps
from maitre.numerics.mallows import draw_dispersion
from maitre.numerics.rng import stream
from maitre.partitions.enumeration import all_partitions
from maitre.posterior.diagnostics import effective_sample_size
from maitre.states.rankings import OrderingState, WorthState
from maitre.testing.enumeration import EnumeratedPosterior, compare_with_enumeration
from maitre.testing.transitions import follow_branches

RANKINGS = [[0, 1], [1], [2, 1]]
FAMILY = mt.families.GeneralizedMallows(3, 1.0, 1.0)  # with whole ν r the integrals are right to rounding
PRIORS = {"dp": mt.priors.DirichletProcess(1.3), "py": mt.priors.PitmanYor(0.7, 0.4), "mfm": mt.priors.MixtureOfFiniteMixtures()}


class Enumeration:
    """All (partition, orderings) of a few rankings with their probabilities."""

    def __init__(self, prior, rankings=RANKINGS, family=FAMILY):
        self.model = Model.of(family.rows(rankings), family, prior)
        n = family.n_items
        orders = list(itertools.permutations(range(n)))
        self.states = [(labels, chosen) for labels in all_partitions(len(rankings)) for chosen in itertools.product(orders, repeat=max(labels) + 1)]
        self.position = {state: k for k, state in enumerate(self.states)}
        log_joint = np.array([self.state(each).log_joint for each in self.states])
        self.probabilities = np.exp(log_joint - np.logaddexp.reduce(log_joint))

    def state(self, which):
        labels, orderings = which
        return OrderingState.of_variables(self.model, {"labels": np.array(labels), "orderings": np.array(orderings)}, compiled=False)

    def where(self, state):
        values = state.variables()
        return tuple(int(v) for v in np.asarray(values["labels"])), tuple(tuple(int(i) for i in row) for row in values["orderings"])

    def error(self, step):
        """max |πP − π| and how far the rows are from summing to one."""
        after, rows = np.zeros(len(self.states)), 0.0
        for which, probability in zip(self.states, self.probabilities, strict=True):
            total = 0.0

            def run(rng, which=which):
                state = self.state(which)
                step(state, rng)
                return self.where(state)

            for outcome, chance in follow_branches(run):
                after[self.position[outcome]] += probability * chance
                total += chance
            rows = max(rows, abs(total - 1.0))
        assert rows < 1e-12
        return float(np.abs(after - self.probabilities).max())


def collapsed(state, rng):
    mallows_sweeps.reseat_collapsed(state, rng, order=np.array([1]))


def smart(state, rng):
    mallows_split.split_and_merge(state, (1, 0, 0), rng)


def resplit(state, rng):
    mallows_split.split_and_merge(state, (0, 1, 0), rng)


def coin(state, rng):
    mallows_split.split_and_merge(state, (0, 0, 1), rng)


@pytest.fixture(scope="module")
def enumerated():
    """Two items and three voters (22 states), or three items and two voters (42) or three (330)."""
    found = {}

    def enumeration(prior, size):
        items, voters = size
        family = mt.families.GeneralizedMallows(items, 1.0, 1.0)
        rankings = [[0], [1], [0]] if items == 2 else RANKINGS[3 - voters :]
        return found.setdefault((prior, size), Enumeration(PRIORS[prior], rankings, family))

    return enumeration


MATRICES = [
    ("dp", (2, 3), collapsed),
    ("py", (2, 3), smart),
    ("dp", (2, 3), resplit),
    ("mfm", (2, 3), coin),
    ("mfm", (3, 2), collapsed),
    ("dp", (3, 2), smart),
    ("py", (3, 2), coin),
    *(pytest.param(prior, (3, 3), step, marks=pytest.mark.long) for prior, step in itertools.product(PRIORS, (collapsed, smart, resplit, coin))),
]


@pytest.mark.parametrize(("prior", "size", "step"), MATRICES)
def test_kernels_leave_the_posterior_invariant(enumerated, prior, size, step):
    assert enumerated(prior, size).error(step) < 1e-12


WRONG = {
    "the chance of the sides left out": ("allocate", smart),
    "the chance of the ordering left out": ("look_ahead", resplit),
    "the chance of the partner left out": ("log_near", coin),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_ratios_are_found_out(monkeypatch, wrong):
    name, step = WRONG[wrong]
    right = getattr(mallows_split, name)
    monkeypatch.setattr(mallows_split, name, lambda *arguments: 0.0 * right(*arguments))
    three = Enumeration(PRIORS["dp"], [[0], [1], [0]], mt.families.GeneralizedMallows(2, 1.0, 1.0))
    assert three.error(step) > 1e-3


# -- chains against enumeration ---------------------------------------------------------------------------------------------------------------


def mallows_evidence(family, rankings):
    """ln p(x_c) of every set of rankings: the mean over all orderings."""
    filled = family.with_defaults(family.validate(rankings))
    s = filled.allocate(filled.encode(filled.validate(rankings)), 1)
    of_voter = s.ballot
    orders = [np.argsort(order).astype(np.int16) for order in itertools.permutations(range(family.n_items))]

    def evidence(voters):
        values = []
        for places in orders:
            count, total = np.zeros(len(s.r), dtype=np.int64), np.zeros(len(s.r), dtype=np.int64)
            count_codes(s, of_voter[voters], len(voters), places, count, total)
            values.append(log_marginal_of(s, count, total))
        return np.logaddexp.reduce(values) - np.log(len(values))

    return evidence


def worths_evidence(family, rankings):
    """The same by quadrature over the worths of three items, which follow a Dirichlet distribution."""
    nodes, weights = special.roots_sh_jacobi(200, 3 * family.shape - 1, family.shape), special.roots_sh_jacobi(200, 2 * family.shape - 1, family.shape)
    first, second = np.meshgrid(nodes[0], weights[0], indexing="ij")
    worth = np.stack([first, (1 - first) * second, (1 - first) * (1 - second)])
    chance = np.outer(nodes[1], weights[1])
    chance /= chance.sum()

    def likelihood(ranking):
        value, left = 1.0, np.ones_like(first)
        for item in ranking[:2]:
            value, left = value * worth[item] / left, left - worth[item]
        return value

    return lambda voters: np.log(np.sum(chance * np.prod([likelihood(rankings[v]) for v in voters], axis=0)))


def enumerated_partitions(prior, rankings, evidence):
    n, memo = len(rankings), {}
    partitions = list(all_partitions(n))
    values = []
    for labels in partitions:
        sets = [tuple(np.flatnonzero(np.array(labels) == k).tolist()) for k in range(max(labels) + 1)]
        for each in sets:
            if each not in memo:
                memo[each] = evidence(list(each))
        values.append(prior.log_probability([len(each) for each in sets]) + sum(memo[each] for each in sets))
    return EnumeratedPosterior(partitions, np.array(values))


A = [[0, 1, 2], [0, 1], [1, 0, 3], [3]]
B = [[0, 1, 2], [0, 1, 2], [1, 0, 2], [3, 2, 1]]  # two voters agree
MALLOWS = mt.families.GeneralizedMallows(4, 1.0, [0.5, 0.4, 0.3])
OF_THREE = [[0, 1], [1], [2, 1], [0, 1], [1]]


def test_the_enumeration_itself():
    exact = enumerated_partitions(mt.priors.DirichletProcess(1.0), A, mallows_evidence(MALLOWS, A))
    assert np.exp(exact.log_evidence) == pytest.approx(3.35802669449492e-5, rel=1e-8)
    assert exact.probabilities[exact.index([0, 0, 1, 2])] == pytest.approx(0.2862087828620, abs=1e-8)


PITMAN_YOR = mt.priors.PitmanYor(0.6, 0.3)
CHAINS = [
    pytest.param(mt.moves.Mallows(collapsed_every=2), MALLOWS, A, mt.priors.DirichletProcess(1.0), id="all moves"),
    pytest.param(mt.moves.Worths(), mt.families.PlackettLuce(3, 0.8), OF_THREE, PITMAN_YOR, id="plackett-luce"),
    *(
        pytest.param(mt.moves.Mallows(proposals=proposals, orderings=kind), MALLOWS, rankings, prior, marks=pytest.mark.long)
        for proposals, kind, rankings, prior in [
            ((0, 0, 0), "reinsertion", B, mt.priors.DirichletProcess(1.0)),
            ((1, 1, 1), "reinsertion", A, mt.priors.DirichletProcess(1.0)),
            ((0, 0, 0), "stagewise", A, PITMAN_YOR),
            ((3, 1, 1), "swaps", B, PITMAN_YOR),
        ]
    ),
    pytest.param(mt.moves.Mallows(collapsed_every=10**9), MALLOWS, B, PRIORS["mfm"], marks=pytest.mark.long),
    pytest.param(mt.moves.Worths(), mt.families.PlackettLuce(3, 0.8), OF_THREE, PRIORS["mfm"], marks=pytest.mark.long),
]


@pytest.mark.parametrize(("move", "family", "rankings", "prior"), CHAINS)
def test_chains_against_enumeration(request, move, family, rankings, prior):
    evidence = (mallows_evidence if isinstance(family, mt.families.GeneralizedMallows) else worths_evidence)(family, rankings)
    exact = enumerated_partitions(prior, rankings, evidence)
    draws = 60_000 if request.node.get_closest_marker("long") else 6_000
    posterior = mt.sample(rankings, family=family, prior=prior, moves=[move], draws=draws, burn_in=200, chains=1, seed=2, init="one", progress=False)
    found, expected = compare_with_enumeration(exact, posterior.labels[0])
    assert found < 2 * expected
    if hasattr(prior, "concentration"):  # as if new clusters had twice their weight
        wrong, expected = compare_with_enumeration(
            enumerated_partitions(prior.at({"concentration": 2.0 * prior.concentration}), rankings, evidence), posterior.labels[0]
        )
        assert wrong > 2 * expected
    if draws == 60_000:
        assert found < 0.015


# -- the samplers of Meilă & Chen -------------------------------------------------------------------------------------------------------------

FOUR, SEVEN = [[0, 1, 2], [2, 3, 0], [1, 3, 2], [3, 0, 1]], [[0, 1], [2, 3], [4, 5], [6, 0]]
PRINTED = mt.moves.SliceGibbs(as_printed=True)
BIASES = [(PRINTED, FOUR, 0.032), (mt.moves.BetaGibbs(), FOUR, 0.194), (PRINTED, SEVEN, 0.212), (mt.moves.BetaGibbs(), SEVEN, 0.096)]


@pytest.mark.long
@pytest.mark.parametrize(("move", "rankings", "bias"), [*BIASES, (mt.moves.SliceGibbs(), FOUR, 0.0), (mt.moves.SliceGibbs(), SEVEN, 0.0)])
def test_as_printed_they_are_as_far_from_the_posterior_as_is_said(move, rankings, bias):
    family = mt.families.GeneralizedMallows(4 if rankings is FOUR else 7)
    family, prior = family.with_defaults(family.validate(rankings)), mt.priors.DirichletProcess(1.0)
    exact = enumerated_partitions(prior, rankings, mallows_evidence(family, rankings))
    posterior = mt.sample(rankings, family=family, prior=prior, moves=[move], draws=20_000, burn_in=100, chains=1, seed=2, init="one", progress=False)
    found, expected = compare_with_enumeration(exact, posterior.labels[0])
    assert posterior.exact == (bias == 0.0)
    assert abs(found - bias) < 0.02 if bias else found < 2 * expected


# -- Geweke's joint test ----------------------------------------------------------------------------------------------------------------------

LENGTHS = [2, 1, 2, 2]


def rankings_given(labels, rows, family, rng):
    """Rankings of these lengths given the clusters, and their worths or orderings, in which case dispersions are drawn from their prior first."""
    if isinstance(family, mt.families.PlackettLuce):
        return [np.argsort(rng.exponential(size=3) / rows[k])[:length].tolist() for k, length in zip(labels, LENGTHS, strict=True)]
    words = rng.integers(2**63, size=4, dtype=np.uint64)
    theta = [[draw_dispersion(family.nu * family.r[j], family.nu, 2 - j, words) for j in range(2)] for _ in rows]
    found = []
    for k, length in zip(labels, LENGTHS, strict=True):
        left = list(rows[k])
        chances = [np.exp(-theta[k][j] * np.arange(3 - j)) for j in range(length)]
        found.append([int(left.pop(rng.choice(len(chance), p=chance / chance.sum()))) for chance in chances])
    return found


def rows_from_prior(n, family, rng):
    return rng.gamma(family.shape, size=(n, 3)) if isinstance(family, mt.families.PlackettLuce) else np.array([rng.permutation(3) for _ in range(n)])


def observed(labels, rows, rankings):
    """Numbers whose expectations must agree: clusters, squared sizes, and what the first voter's cluster says of its ranking."""
    own = rows[labels[0]]
    share = own[rankings[0][0]] / own.sum() if own.dtype.kind == "f" else float(own[0] == rankings[0][0])
    return [len(rows), (np.bincount(labels) ** 2).sum(), share, float(rankings[0][0] == rankings[1][0]), share * (labels[0] == labels[1])]


@pytest.mark.long
@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("move", [mt.moves.Worths(), mt.moves.Mallows(collapsed_every=2, proposals=(2, 1, 1)), mt.moves.SliceGibbs()])
def test_geweke(move, wrong):
    rng, generator, prior, n_draws = stream(11), np.random.default_rng(5), mt.priors.DirichletProcess(1.0), 6000
    worths = isinstance(move, mt.moves.Worths)
    family, simulated = (mt.families.PlackettLuce(3, 0.8), mt.families.PlackettLuce(3, 2.0 if wrong else 0.8)) if worths else (
        mt.families.GeneralizedMallows(3, 1.0, [0.5, 0.3]),
        mt.families.GeneralizedMallows(3, 1.0, [1.5, 0.6] if wrong else [0.5, 0.3]),
    )  # fmt: skip
    kind, name = (WorthState, "worths") if worths else (OrderingState, "orderings")
    partitions = list(all_partitions(4))
    chances = np.exp([prior.log_probability(np.bincount(labels)) for labels in partitions])
    independent, successive = [], []
    for _ in range(n_draws):
        labels = np.array(partitions[generator.choice(len(partitions), p=chances)])
        rows = rows_from_prior(max(labels) + 1, simulated, generator)
        rankings = rankings_given(labels, rows, simulated, generator)
        independent.append(observed(labels, rows, rankings))
    for _ in range(n_draws):
        state = kind.of_variables(Model.of(family.rows(rankings), family, prior), {"labels": labels, name: rows})
        move.step(state, rng)
        labels, rows = (np.asarray(state.variables()[each]) for each in ("labels", name))
        rankings = rankings_given(labels, rows, family, generator)
        successive.append(observed(labels, rows, rankings))
    a, b = np.array(independent), np.array(successive)
    errors = np.sqrt(a.var(axis=0) / n_draws + b.var(axis=0) / [effective_sample_size(column) for column in b.T])
    scores = np.abs(a.mean(axis=0) - b.mean(axis=0)) / errors
    assert (scores.max() > 6) if wrong else (scores.max() < 4)
