"""Label-free splits and merges, number by number: their ratio against both densities written out, and what both stages of the decision make of it in both directions."""

import math
from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import beta

import maitre as mt
from maitre.families import REGISTRY as FAMILIES
from maitre.families.statistics import add, clear, draw_parameters, log_likelihood, log_marginal
from maitre.model import Model
from maitre.moves import label_free, label_free_kernels
from maitre.moves.label_free import ANEW, MERGE, SPLIT, LabelFree
from maitre.moves.label_free_kernels import lay_out, pick_members, screen
from maitre.numerics.draw import Branching
from maitre.numerics.rng import log_gamma_variate, seek, stream
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState
from maitre.testing import follow_branches

log_beta = beta.logpdf


def log_ratio_written_out(state, members, left, b, theta, halves, n_clusters):
    """log r of a split from the posterior's ratio and both densities, with nothing cancelled; H(θ) alone is left out, which all densities share."""
    s = state.statistics
    empty = int(state.occupancy[2])

    def log_f(points):
        clear(s, empty)
        for i in points:
            add(s, empty, i)
        return log_marginal(s, empty)

    def at(row, points):
        return sum(log_likelihood(s, theta[row], i) for i in points)

    right = [i for i in members if i not in left]
    n_left, n_right, n = len(left), len(right), len(members)
    log_target = math.log(float(state.prior.concentration)) + math.lgamma(n_left) + math.lgamma(n_right) - math.lgamma(n)
    log_target += log_f(left) + log_f(right) - log_f(members)
    reverse = math.log(0.5 * 2 / ((n_clusters + 1) * n_clusters)) + log_beta(b, n_left, n_right)
    reverse += at(0, left) - log_f(left) + at(1, right) - log_f(right)
    forward = math.log(0.5 / n_clusters)
    ways = []
    for a, c, share in ((halves[0], halves[1], b), (halves[1], halves[0], 1.0 - b)):
        one = log_beta(share, len(halves[0]) + 1, len(halves[1]) + 1)
        ways.append(one + at(0, a) - log_f(a) + at(1, c) - log_f(c))
    forward += math.log(2.0) + np.logaddexp(*ways) - math.log(2.0)
    for i in members:
        here, there = math.log(b) + at(0, [i]), math.log1p(-b) + at(1, [i])
        forward += (here if i in left else there) - np.logaddexp(here, there)
    return log_target + reverse - forward


@pytest.mark.parametrize("family", ["KnownCovarianceGaussian", "NormalInverseWishart", "GammaPoisson"])
def test_the_ratio_of_a_label_free_split_is_that_of_target_and_densities(family, monkeypatch):
    """For splits and merges alike, and whatever the labels, which cancel. Two clusters parted anew: the ratio of two such ratios."""
    example = FAMILIES[family].EXAMPLES[0]
    model = Model.of(example.data[:5], example.family, DirichletProcess(0.8))
    kept = {}

    def keep(self, slots, outcome, rng):
        kept["slots"], kept["outcome"] = slots.copy(), outcome.copy()
        return False

    monkeypatch.setattr(LabelFree, "_decide", keep)
    rng, checked = stream(5), {SPLIT: 0, MERGE: 0, ANEW: 0}
    while min(checked.values()) < 3:
        state = MixtureState(model, [0, 0, 1, 1, 0], compiled=False)
        move = LabelFree(state)
        kept.clear()
        move.propose(1, rng)
        if "slots" not in kept:
            continue
        first, second, kind, n_sample = (int(k) for k in kept["slots"])
        members = [i for i in range(5) if state.labels[i] in (first, second)]
        sample, sides = [int(i) for i in move.rest[0, :n_sample]], move.sides[0, :n_sample]
        halves = [[i for i, side in zip(sample, sides, strict=True) if side == half] for half in (0, 1)]
        odds, first_stage, constant, total, present = kept["outcome"]
        log_r = constant + total
        assert first_stage == pytest.approx(log_r, abs=1e-12)  # every member was in the sample, so the first stage is all there is
        now = [i for i in members if state.labels[i] == first]
        against = 0.0
        if kind == ANEW:
            against = log_ratio_written_out(state, members, now, 1.0 / (1.0 + math.exp(-present)), move.theta[3:], halves, 1)
        for left in (now,) if kind == MERGE else ([members[0]], members[: len(members) // 2], members[1:]):
            expected = log_ratio_written_out(state, members, left, 1.0 / (1.0 + math.exp(-odds)), move.theta, halves, 2 if kind == SPLIT else 1)
            assert log_r == pytest.approx(expected - against, rel=1e-9, abs=1e-9)
        checked[kind] += 1


POOL = np.array([0, 1, 2, 4, 5, 6, 7, 9, 10, 11, 12])  # two points of the cluster can never be in a sample
REST = 12  # points from this number on are in a cluster of their own
RNG = np.random.default_rng(4)
SPREAD = RNG.normal(size=(14, 2)) + 1.5 * RNG.integers(0, 2, size=(14, 1))
MODELS = {
    "known covariance": Model.of(SPREAD, mt.families.KnownCovarianceGaussian(0.0, 4.0, 1.0), DirichletProcess(0.8)),
    "wishart": Model.of(SPREAD, mt.families.NormalInverseWishart(), DirichletProcess(0.8)),
    "counts": Model.of(RNG.poisson(np.exp(1.0 + 0.5 * SPREAD)), mt.families.GammaPoisson(), DirichletProcess(0.8)),
}


class Script(Branching):
    """One proposal: its choices are given, and their probabilities kept. So are weights and parameters, in the order in which they are drawn; what is not given is drawn."""

    def __init__(self, choices, log_gammas=(), parameters=(), seed=0):
        self.choices, self.log_gammas, self.parameters, self.stream = list(choices), list(log_gammas), list(parameters), stream(seed)
        self.chances, self.posteriors = [], []

    def choose(self, probabilities):
        self.chances.append(float(probabilities[self.choices[0]]))
        return self.choices.pop(0)

    def log_gamma(self, shape):
        return self.log_gammas.pop(0) if self.log_gammas else log_gamma_variate(shape, self.stream)

    def draw_parameters(self, s, slot, theta):
        self.posteriors.append(log_marginal(s, slot))
        if self.parameters:
            theta[:] = self.parameters.pop(0)
        else:
            draw_parameters(s, slot, theta, self.stream)

    @property
    def log_acceptance(self):
        """log of the probability to pass both stages."""
        assert [*self.choices, *self.log_gammas, *self.parameters] == []
        return math.log(self.chances[-2]) + math.log(self.chances[-1])


def freeze(monkeypatch, seed):
    """What is random but has the same law in a move and its reverse, for it follows from who is in the cluster alone, is the same in both: the order of the first points
    looked at (those behind are left as they are listed), and the two parts of the subsample. Labels are drawn with numbers of their own."""

    def pick(members, begin, counts, first, second, n_wanted, rest, rng):
        n_rest = pick_members(members, begin, counts, first, second, 0, rest, rng)
        listed = rest[:n_rest].tolist()
        picked = np.random.default_rng(seed).permutation(sorted(listed)).tolist()[:n_wanted]
        rest[:n_rest] = picked + [i for i in listed if i not in picked]
        return n_rest

    def parameters(s, slot, theta, rng):
        return rng.draw_parameters(s, slot, theta) if isinstance(rng, Script) else draw_parameters(s, slot, theta, rng)

    frozen = {
        "pick_members": pick,
        "lay_out": lambda *arguments: lay_out(*arguments[:-1], stream(seed)),
        "draw_parameters": parameters,
        "log_gamma_variate": lambda shape, rng: rng.log_gamma(shape) if isinstance(rng, Script) else log_gamma_variate(shape, rng),
        "seek": lambda key, number, words: seek(stream(seed), number, words),
    }
    for name, function in (frozen | {"_GLANCE": 2, "_LOOK": 4, "_SCREEN": 4, "_CLEAR": 4.0, "_DOUBT": 0.5, "_SMALLEST": 4}).items():
        monkeypatch.setattr(label_free_kernels, name, function)
    monkeypatch.setattr(label_free, "pool_of", lambda n: POOL)


def there_and_back(model, kind, size, launched, seed):
    """A split and the merge that undoes it, or two clusters parted anew and back: log r₁ there, that of the way back, and log [α₁α₂ there / α₁α₂ back] − log r.
    Nothing if the partition stays as it is."""
    points, members = np.arange(model.n), list(range(REST))
    state = MixtureState(model, np.where(points < REST, points % 2 if kind == ANEW else 0, 2), compiled=False)
    before, now, move = state.canonical_labels(), [i for i in members if state.labels[i] == 0], LabelFree(state)
    there = Script([kind, 0, *([0] if kind == ANEW else []), size, launched, seed % 2, 1, 1], seed=seed)
    move.propose(1, there)
    if (state.canonical_labels() == before).all():
        return None
    theta, (odds, first_stage, _, total, present), n_sample = *(of[0].copy() for of in move.found[:2]), move.found[2][0, 3]
    assert math.isnan(total)  # so the second stage has looked at all points
    halves = [POOL[move.rest[0, :n_sample][move.sides[0, :n_sample] == half]].tolist() for half in (0, 1)]
    left = [i for i in members if state.labels[i] == 0]
    if kind == ANEW:
        back = Script([ANEW, 0, 0, size, launched, 0, 1, 1], [odds, 0.0, present, 0.0], [*theta[3:], *theta[:2]], seed)
    else:
        back = Script([MERGE, 0, 1, size, launched, 1, 1], [odds, 0.0], [theta[2], *theta[:2]])
    move = LabelFree(state)
    move.propose(1, back)
    if kind == SPLIT:
        assert (state.canonical_labels() == before).all()
        # the parameter for all points is drawn given all of them, in both directions
        assert back.posteriors[0] == pytest.approx(there.posteriors[2], abs=1e-10)
    plain = MixtureState(model, before, compiled=False)
    log_r = log_ratio_written_out(plain, members, left, 1.0 / (1.0 + math.exp(-odds)), theta, halves, 2)
    log_r -= log_ratio_written_out(plain, members, now, 1.0 / (1.0 + math.exp(-present)), theta[3:], halves, 2) if kind == ANEW else 0.0
    return first_stage, move.found[1][0, 1], there.log_acceptance - back.log_acceptance - log_r


def many_there_and_back(name, kind, monkeypatch):
    found = []
    for size, launched, seed in product(range(2), range(2), range(6)):
        with monkeypatch.context() as patches:
            freeze(patches, seed)
            found.append(there_and_back(MODELS[name], kind, size, launched, seed))
    return np.array([row for row in found if row is not None]).T


def assert_two_stages_have_the_ratio(name, kind, monkeypatch):
    """The reverse move inverts r₁, and both stages together have the ratio r."""
    first_stage, of_reverse, gap = many_there_and_back(name, kind, monkeypatch)
    np.testing.assert_allclose(of_reverse, first_stage if kind == SPLIT else -first_stage, rtol=0, atol=1e-10)  # that of a merge is kept as that of its split
    np.testing.assert_allclose(gap, 0.0, atol=1e-10)
    assert min(np.sum(first_stage > 0.1), np.sum(first_stage < -0.1)) > 0


both_kinds = pytest.mark.parametrize("kind", [SPLIT, ANEW], ids=["split and merge", "anew"])


@both_kinds
@pytest.mark.parametrize("name", MODELS)
def test_both_stages_together_have_the_ratio(name, kind, monkeypatch):
    assert_two_stages_have_the_ratio(name, kind, monkeypatch)


@both_kinds
@pytest.mark.parametrize(("share", "excess"), [(0.0, 1.0), (-1.0, 2.0)], ids=["left out", "wrong sign"])
def test_a_second_stage_without_the_first_fails(share, excess, kind, monkeypatch):
    """With r₁ left out of the second stage both together have the ratio r r₁, and r r₁² if its sign is wrong."""
    decide = LabelFree._decide
    monkeypatch.setattr(LabelFree, "_decide", lambda self, slots, outcome, rng: decide(self, slots, outcome * np.array([1.0, share, 1.0, 1.0, 1.0]), rng))
    first_stage, _, gap = many_there_and_back("counts", kind, monkeypatch)
    np.testing.assert_allclose(gap, excess * first_stage, atol=1e-10)
    assert np.mean(np.abs(gap) > 0.5) > 0.5
    with pytest.raises(AssertionError):
        assert_two_stages_have_the_ratio("counts", kind, monkeypatch)


def test_a_screen_in_favour_of_the_proposal_fails(monkeypatch):
    """One nat more for the proposal is not inverted on the way back where clusters are parted anew. A merge inverts what the screen says of its split, whatever that is."""
    monkeypatch.setattr(label_free_kernels, "screen", lambda *arguments: screen(*arguments) + 1.0)
    assert_two_stages_have_the_ratio("counts", SPLIT, monkeypatch)
    _, _, gap = many_there_and_back("counts", ANEW, monkeypatch)
    assert np.mean(np.abs(gap) > 0.5) > 0.5


def law_of_first_places(n_places, n_wanted, *clusters):
    """Of the points that a proposal looks at, if they are in these clusters."""
    members, counts, law = np.concatenate(clusters), np.array([len(cluster) for cluster in clusters]), Counter()

    def run(rng):
        rest = np.empty(len(members), dtype=np.int64)
        pick_members(members, np.cumsum(counts) - counts, counts, 0, len(clusters) - 1, n_wanted, rest, rng)
        return tuple(rest[:n_places].tolist())

    for places, probability in follow_branches(run):
        law[places] += probability
    return law


@pytest.mark.parametrize("n_places", [2, 3, 4])
def test_the_points_looked_at_have_the_same_law_for_a_split_and_its_merge(n_places):
    """All orders are equally likely, whoever sits with whom; only behind the places asked for do points stand as they are listed."""
    for clusters in ([[0, 1, 2, 3]], [[1, 2], [0, 3]], [[3], [0, 1, 2]]):
        law = law_of_first_places(n_places, n_places, *clusters)
        assert law == pytest.approx(dict.fromkeys(permutations(range(4), n_places), 1.0 / math.perm(4, n_places)))
    assert law_of_first_places(n_places, 1, [0, 1, 2, 3]) != pytest.approx(law_of_first_places(n_places, 1, [1, 2], [0, 3]))
