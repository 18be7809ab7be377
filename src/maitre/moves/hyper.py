"""Moves for hyper-parameters: the concentration of a Dirichlet process by Escobar & West's auxiliary variable, everything else by slice sampling.

Targets: p(value | C) ∝ p(value) p(C | value) for the prior's, p(value | C, x) ∝ p(value) ∏_c p(x_c | value) for the family's. The univariate slice sampler with
stepping out and shrinkage (Neal 2003) leaves any density on the line invariant; values are sampled on the log or log-odds scale with the Jacobian.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from maitre.moves.base import Move, Report
from maitre.numerics.distributions import Gamma, Hyperprior
from maitre.numerics.rng import RngState, next_bits, uniform
from maitre.priors.dirichlet_process import DirichletProcess, draw_concentration
from maitre.states.clusters import ClusterState, HyperparameterState

_STEPS = 20
_FEW = 1000  # points


def slice_step(log_density: Callable[[float], float], x: float, rng: RngState, width: float = 1.0) -> tuple[float, int]:
    """One slice-sampling update of x on the line; returns the new value and the number of evaluations."""
    start = log_density(x)
    if not math.isfinite(start):
        raise ValueError("a hyper-parameter has left the range in which its density is a number: give it a tighter prior, or fix it")
    height = start + math.log(uniform(rng))
    left = x - width * uniform(rng)
    right = left + width
    evaluations = 1
    budget = int(_STEPS * uniform(rng))
    for _ in range(budget):
        evaluations += 1
        if log_density(left) <= height:
            break
        left -= width
    for _ in range(_STEPS - 1 - budget):
        evaluations += 1
        if log_density(right) <= height:
            break
        right += width
    while True:
        proposal = left + (right - left) * uniform(rng)
        evaluations += 1
        if log_density(proposal) > height or proposal == x:  # x itself is in the slice, whatever rounding says
            return proposal, evaluations
        left, right = (proposal, right) if proposal < x else (left, proposal)


def slice_hyperparameter(log_target: Callable[[float], float], value: float, prior: Hyperprior, rng: RngState, lowest: float = 0.0) -> tuple[float, int]:
    """A slice update of a hyper-parameter on the scale of its prior, which is cut off below `lowest`."""

    def log_density(real: float) -> float:
        v = prior.from_real(real)
        density = prior.log_density(v) + prior.log_jacobian(v) + log_target(v) if v >= lowest else -math.inf
        return -math.inf if math.isnan(density) else density

    real, evaluations = slice_step(log_density, prior.to_real(value), rng)
    return prior.from_real(real), evaluations


class PriorHyperparameters(Move):
    """Resample the concentration (and discount, and weight) of the prior over partitions given the partition."""

    name = "prior_hyperparameters"
    state = HyperparameterState
    streams = True

    def step(self, state: HyperparameterState, rng: RngState) -> Report:
        evaluations = 0
        for name, hyperprior in state.model.prior.hyperpriors().items():
            value = float(getattr(state.prior, name))
            if isinstance(state.prior, DirichletProcess) and isinstance(hyperprior, Gamma):
                value, count = draw_concentration(value, state.model.n, state.n_clusters, hyperprior, rng), 1
            else:
                value, count = slice_hyperparameter(lambda v, name=name: state.log_prior_at({name: v}), value, hyperprior, rng)  # type: ignore[misc]
            state.set_prior({name: value})
            evaluations += count
        return Report(evaluations)


class FamilyHyperparameters(Move):
    """Resample the family's hyper-parameters that carry a prior, then its arrays, given the partition and the data.

    Arrays take longer than a sweep over few points does: then a coin says whether this is done.
    """

    name = "family_hyperparameters"
    state = ClusterState
    streams = True
    needs = ("marginals",)

    def step(self, state: ClusterState, rng: RngState) -> Report:
        if state.arrays and state.model.n < _FEW and uniform(rng) < 0.5:
            return Report(0)
        drawn: dict[str, float] = {}
        evaluations, slots = 0, np.flatnonzero(state.sizes)
        family, statistics = state.family, state.statistics
        for name, hyperprior in state.model.family.hyperpriors().items():
            target = family.log_likelihood_of_clusters(statistics, slots, name)
            if target is None:
                target = lambda v, name=name, drawn=drawn: state.log_likelihood_at(drawn | {name: v})  # type: ignore[misc]  # noqa: E731
            drawn[name], count = slice_hyperparameter(target, float(getattr(state.family, name)), hyperprior, rng, family.lowest(name))
            statistics = family.with_values(statistics, {name: drawn[name]})
            evaluations += count * state.n_clusters
        if drawn:
            state.set_family(drawn)
        if state.arrays:
            redrawn = state.family.arrays_redrawn(state.statistics, slots, state.labels, state.model.encoded, generator_of(rng))
            state.set_family({name: redrawn[name] for name in state.arrays if name in redrawn})
            evaluations += state.n_clusters
        return Report(evaluations)


def generator_of(rng: RngState) -> np.random.Generator:
    """A generator of NumPy's that follows from the present place of a stream, which moves on."""
    return np.random.Generator(np.random.PCG64([int(next_bits(rng)) for _ in range(2)]))
