"""A new kind of state is its own file and one registration line: a finite mixture with explicit weights, which runs, keeps its weights in the draws, saves, resumes and is audited."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import gammaln

import maitre as mt
from maitre import moves, states
from maitre.families.statistics import add, log_predictive_all, log_predictive_without, refresh, remove
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_log
from maitre.numerics.rng import log_gamma_variate
from maitre.partitions import canonical
from maitre.states.base import Variable
from maitre.states.clusters import ClusterState, seat_all


@dataclass(frozen=True)
class KnownComponents(mt.priors.Prior):
    components: int = 4
    concentration: float = 1.0


@kernel
def reseat_by_weights(s, labels, sizes, log_weights, scores, scratch, rng):
    for i in range(len(labels)):
        own = labels[i]
        scores[:] = log_weights
        log_predictive_all(s, i, len(scores), scores)
        scores[own] = log_weights[own] + log_predictive_without(s, own, i)
        chosen = draw_log(scores, len(scores), scratch, rng)
        if chosen != own:
            remove(s, own, i)
            refresh(s, own)
            add(s, chosen, i)
            refresh(s, chosen)
            sizes[own] -= 1
            sizes[chosen] += 1
            labels[i] = chosen


class WeightedState(ClusterState):
    PRIOR = KnownComponents

    def __init__(self, model, components, weights, compiled=True):
        super().__init__(model, compiled)
        self.labels, self.weights = np.array(components, dtype=np.int32), np.array(weights, dtype=float)
        self.allocate(len(self.weights))
        self.rebuild()
        self.log_joint = self.compute_log_joint()

    @classmethod
    def declare(cls, model):
        return (Variable("components", "point", kept=False, dtype="int32"), Variable("weights", "cluster"), *super().declare(model))

    @classmethod
    def of_variables(cls, model, values, compiled=True):
        return cls(model, values["components"], values["weights"], compiled)

    @classmethod
    def of_labels(cls, model, labels):
        k = model.prior.components
        return cls(model, np.asarray(labels) % k, np.full(k, 1.0 / k))

    @classmethod
    def auto_moves(cls, model):
        return "weights"

    def variables(self):
        return {"components": self.labels.copy(), "weights": self.weights.copy(), **super().variables()}

    def rebuild(self):
        self.sizes = np.bincount(self.labels, minlength=self.capacity)
        self.run(seat_all, self.labels, self.capacity)

    def commit(self):
        self.rebuild()
        self.log_joint = self.compute_log_joint()

    n_clusters = property(lambda self: int(np.count_nonzero(self.sizes)))

    def canonical_labels(self):
        return canonical(self.labels)

    def log_prior_of_partition(self):
        share = self.prior.concentration / len(self.weights)
        return float((self.sizes + share - 1.0) @ np.log(self.weights) + gammaln(self.prior.concentration) - len(self.weights) * gammaln(share))


class Weights(moves.Move):
    name = "weights"
    state = WeightedState
    needs = ("marginals",)

    def step(self, state, rng):
        share = state.prior.concentration / state.capacity
        log_weights = np.array([log_gamma_variate(share + size, rng) for size in state.sizes])
        state.weights = np.exp(log_weights - np.logaddexp.reduce(log_weights))
        room = np.zeros((2, state.capacity))
        state.run(reseat_by_weights, state.labels, state.sizes, np.log(state.weights), room[0], room[1], rng)
        state.log_joint = state.compute_log_joint()
        return moves.Report(len(state.labels) * state.capacity)


RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(25, 1)), RNG.normal(size=(15, 1)) + 9.0])


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setattr(states, "REGISTRY", [*states.REGISTRY, WeightedState])
    monkeypatch.setitem(moves.REGISTRY, "weights", Weights)


def sampled(draws=30, **options):
    return mt.sample(X, family="NormalInverseGamma", prior=KnownComponents(), draws=draws, burn_in=20, chains=2, progress=False, **options)


def test_it_runs_and_keeps_its_weights():
    posterior = sampled()
    weights = posterior.draws["weights"]
    assert weights.shape == (2, 30, 4)
    np.testing.assert_allclose(weights.sum(axis=2), 1.0)
    assert mt.partitions.adjusted_rand(np.repeat([0, 1], [25, 15]), posterior.best) > 0.9
    assert "components" not in posterior.draws


def test_it_is_saved_resumed_and_audited(tmp_path):
    sampled(20, store=tmp_path / "run")
    longer, whole = mt.resume(tmp_path / "run", draws=30, progress=False), sampled()
    for name in ("labels", "weights", "log_joint"):
        np.testing.assert_array_equal(np.asarray(longer.draws[name]), whole.draws[name])
    np.testing.assert_array_equal(np.asarray(mt.load(tmp_path / "run").draws["weights"]), whole.draws["weights"])
    state = WeightedState.of_variables(longer.model, longer.checkpoints[0].values)
    state.audit()
    state.sizes[0] += 1
    with pytest.raises(AssertionError, match="cluster sizes"):
        state.audit()


def test_what_does_not_fit_it_is_said():
    with pytest.raises(ValueError, match="move 'gibbs' does not work with the prior KnownComponents, only with a GibbsTypePrior; those that do are 'weights'"):
        sampled(moves="gibbs")
