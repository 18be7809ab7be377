"""Superclusters: every step on (partition, processors) as a matrix. The exact global step leaves the posterior invariant to 1e-12, the printed one fails by what the theory says."""

import logging
from functools import cached_property
from itertools import product

import numpy as np
import pytest

import maitre as mt
from maitre.engines import Threads
from maitre.model import Model
from maitre.moves import Gibbs, SplitMerge, Superclusters
from maitre.moves.superclusters import deal, deal_as_printed, run_blocks
from maitre.numerics.rng import stream
from maitre.partitions.labels import canonical
from maitre.priors import DirichletProcess
from maitre.states.mixture import MixtureState
from maitre.testing import assert_invariant, compare_with_enumeration, enumerate_posterior, follow_branches, transition_matrix

X = np.array([[-1.0], [-0.8], [0.1], [0.9], [1.1], [2.0]])
POSTERIOR = mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.25)
PRIOR_ONLY = mt.families.KnownCovarianceGaussian(0.0, 1e-14, 1.0)  # all points at 0 and no freedom: every partition has the same likelihood


def model_of(family, n):
    return Model.of(X[:n] if family is POSTERIOR else np.zeros((n, 1)), family, DirichletProcess(1.0))


class Augmented:
    """All pairs of a partition and the processors of its clusters in canonical order, with the augmented posterior p(C | x) P^−K."""

    def __init__(self, model, processors):
        self.model, self.processors, exact = model, processors, enumerate_posterior(model)
        pairs = [
            (labels, held_by, p)
            for labels, p in zip(exact.partitions, exact.probabilities, strict=True)
            for held_by in product(range(processors), repeat=max(labels) + 1)
        ]
        self.states = [(labels, held_by) for labels, held_by, _ in pairs]
        self.probabilities = np.array([p * processors ** -len(held_by) for _, held_by, p in pairs])
        self.position = {state: row for row, state in enumerate(self.states)}

    def matrix(self, step):
        """Of `step(labels, held_by, rng)`, which returns the labels and processors of all points."""
        found = np.zeros((len(self.states), len(self.states)))
        for row, (labels, held_by) in enumerate(self.states):
            for (after, points_held_by), probability in follow_branches(lambda rng, a=labels, b=held_by: step(np.array(a), np.array(b), rng)):
                new = canonical(after)
                clusters = tuple(int(points_held_by[np.flatnonzero(new == k)[0]]) for k in range(new.max() + 1))
                found[row, self.position[tuple(new.tolist()), clusters]] += probability
        return found

    def global_exact(self, labels, held_by, rng):
        return labels, deal(len(held_by), self.processors, rng)[labels]

    def global_printed(self, labels, held_by, rng):
        return labels, deal_as_printed(np.bincount(labels), held_by, self.processors, rng)[labels]

    def local(self, labels, held_by, rng):
        state = MixtureState(self.model, labels, compiled=False)
        run_blocks(state, held_by, self.processors, [Gibbs("systematic")], 1, rng)
        return state.labels, held_by[labels]

    @cached_property
    def local_matrix(self):
        return self.matrix(self.local)

    def distance(self, probabilities):
        """Total variation of the partition's marginal."""
        gaps = {}
        for (labels, _), gap in zip(self.states, probabilities - self.probabilities, strict=True):
            gaps[labels] = gaps.get(labels, 0.0) + gap
        return 0.5 * np.abs(list(gaps.values())).sum()


def stationary(matrix):
    values, vectors = np.linalg.eig(matrix.T)
    vector = np.real(vectors[:, np.argmax(np.real(values))])
    return vector / vector.sum()


@pytest.fixture(scope="module", params=[pytest.param(PRIOR_ONLY, marks=pytest.mark.long), POSTERIOR], ids=["prior", "posterior"])
def augmented(request):
    return Augmented(model_of(request.param, 4), 2), request.param is POSTERIOR


def test_the_joint_of_partition_and_processors():
    prior = Augmented(model_of(PRIOR_ONLY, 4), 2)
    assert len(prior.states) == 94
    for (labels, held_by), p in zip(prior.states, prior.probabilities, strict=True):
        expected = np.prod([float(np.prod(np.arange(1, m))) for m in np.bincount(labels)]) / 24 * 0.5 ** len(held_by)
        assert p == pytest.approx(expected, abs=1e-12)


def test_local_and_global_steps_leave_the_augmented_posterior_invariant(augmented):
    pairs, _ = augmented
    local, dealt = pairs.local_matrix, pairs.matrix(pairs.global_exact)
    assert_invariant(pairs, local)
    assert_invariant(pairs, dealt)
    assert pairs.distance(stationary(local @ dealt)) < 1e-12


def test_the_printed_global_step_fails_by_the_known_amount(augmented):
    pairs, posterior = augmented
    printed = pairs.matrix(pairs.global_printed)
    with pytest.raises(AssertionError, match="invariant"):
        assert_invariant(pairs, printed)
    one_step = 0.5 * np.abs(pairs.probabilities @ printed - pairs.probabilities).sum()
    in_the_long_run = pairs.distance(stationary(pairs.local_matrix @ printed))
    print(f"total variation of Eq. 5: {one_step:.4f} after one step, {in_the_long_run:.4f} in the long run")
    assert (one_step, in_the_long_run) == pytest.approx((0.0688, 0.0303) if posterior else (0.0511, 0.0278), abs=5e-5)


@pytest.mark.parametrize(
    ("processors", "local", "n"),
    [pytest.param(2, Gibbs(), 3, marks=pytest.mark.long), (7, Gibbs("systematic"), 3), pytest.param(3, SplitMerge(), 3, marks=pytest.mark.long)],
)
def test_the_move_leaves_the_posterior_invariant(processors, local, n):
    model, move = model_of(POSTERIOR, n), Superclusters(processors, local)
    exact = enumerate_posterior(model)
    assert_invariant(exact, transition_matrix(model, move.step, exact))


def test_the_concentration_of_a_block_matters():
    """With α instead of α/P on every processor the matrix test fails."""
    model = model_of(POSTERIOR, 3)
    exact = enumerate_posterior(model)

    def too_many(state, rng):
        state.prior = DirichletProcess(2.0)
        Superclusters(2, Gibbs("systematic")).step(state, rng)

    with pytest.raises(AssertionError, match="invariant"):
        assert_invariant(exact, transition_matrix(model, too_many, exact))


@pytest.mark.long
@pytest.mark.parametrize(("n", "processors"), [(5, 2), (5, 3)])
def test_five_points(n, processors):
    pairs = Augmented(model_of(POSTERIOR, n), processors)
    assert_invariant(pairs, pairs.local_matrix)
    expected = {2: 0.0296, 3: 0.0460}[processors]
    assert pairs.distance(stationary(pairs.local_matrix @ pairs.matrix(pairs.global_printed))) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("processors", [3, *(pytest.param(p, marks=pytest.mark.long) for p in (1, 2, 7))])
def test_draws_have_the_enumerated_law(processors):
    model = model_of(POSTERIOR, 6)
    state, rng, move = MixtureState(model, np.zeros(6, dtype=int)), stream(2), Superclusters(processors)
    drawn = np.empty((4_000, 6), dtype=np.int64)
    for t in range(len(drawn)):
        move.step(state, rng)
        drawn[t] = state.canonical_labels()
    distance, expected = compare_with_enumeration(enumerate_posterior(model), drawn)
    assert distance < 2.0 * expected


def test_any_number_of_threads_gives_the_same_chain_and_true_statistics():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2)) + 4.0 * rng.integers(0, 6, size=(400, 1))
    model, chains = Model.of(x, mt.families.KnownCovarianceGaussian(0.0, 20.0, 1.0), DirichletProcess(1.0)), []
    for n in (1, 2, 3):
        state, rng = MixtureState(model, np.arange(400) % 20), stream(1)
        with Threads(n) as state.engine:
            labels = []
            for _ in range(10):
                Superclusters(5, "gibbs+split_merge", sweeps=2).step(state, rng)
                labels.append(state.canonical_labels())
                state.audit()
        chains.append(np.array(labels))
    np.testing.assert_array_equal(chains[0], chains[1])
    np.testing.assert_array_equal(chains[0], chains[2])


def test_what_is_refused(caplog):
    with pytest.raises(ValueError, match="'superclusters' does not work with the prior PitmanYor, only with a DirichletProcess; those that do are 'gibbs'"):
        mt.sample(X, prior="PitmanYor", moves="superclusters", progress=False)
    with pytest.raises(ValueError, match="expected exact moves over partitions that learn nothing"):
        mt.sample(X, moves=[Superclusters(local="gibbs+permutation")], progress=False)
    printed = Superclusters(2, global_step="paper-eq5")
    with pytest.raises(ValueError, match="use it alone"):
        mt.sample(X, moves=["gibbs", printed], progress=False)
    with caplog.at_level(logging.WARNING, "maitre"):
        assert not mt.sample(X, moves=printed, draws=3, burn_in=3, chains=1, progress=False).exact
    assert "does not leave the posterior invariant" in caplog.text
