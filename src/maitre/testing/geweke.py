"""Geweke's joint test (2004): two ways to simulate (hyper-parameters, partition, data) that agree if and only if the sampler is right.

*Marginal-conditional*: draw hyper-parameters, partition and data from the model, independently each time. *Successive-conditional*: alternate the moves under test with
a fresh draw of the data given the partition. Functions of the state must have the same expectation; each gets a z-score with the effective sample size of the chain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maitre.families.statistics import draw_parameters, draw_point
from maitre.model import Model
from maitre.moves.auxiliary import parameter_count
from maitre.moves.hyper import generator_of
from maitre.numerics.arrays import Floats, Slots
from maitre.numerics.compilation import kernel
from maitre.numerics.rng import RngState, stream, uniform
from maitre.partitions.enumeration import all_partitions
from maitre.posterior.diagnostics import effective_sample_size
from maitre.states.mixture import MixtureState


@kernel
def redraw_points(s: Any, labels: Slots, n_slots: int, empty: int, theta: Floats, rng: Any) -> None:
    """New data given the partition: for each cluster a parameter from the base measure (slot `empty` holds no point), then its points."""
    for k in range(n_slots):
        seen = False
        for i in range(len(labels)):
            if labels[i] == k:
                if not seen:
                    draw_parameters(s, empty, theta, rng)
                    seen = True
                draw_point(s, theta, i, rng)


def _redraw_data(state: MixtureState, rng: RngState) -> None:
    theta = np.zeros(int(state.run(parameter_count)))
    state.run(redraw_points, state.labels, state.capacity, state.capacity - 1, theta, rng)
    state.rebuild()
    state.log_joint = state.compute_log_joint()


def _draw_hyperparameters(state: MixtureState, rng: RngState) -> None:
    prior = {name: p.draw(rng) for name, p in state.model.prior.hyperpriors().items()}
    family = {name: p.draw(rng) for name, p in state.model.family.hyperpriors().items()}
    if prior:
        state.set_prior(prior)
    family |= state.model.family.at(family).arrays_from_prior(state.model.encoded, generator_of(rng))
    if family:
        state.set_family(family)


def _draw_partition(state: MixtureState, partitions: list[tuple[int, ...]], rng: RngState) -> None:
    n = state.model.n
    log_v, log_w = state.prior.v_table(n, n), state.prior.w_table(n)
    log_p = np.array([log_v[max(labels) + 1] + log_w[np.bincount(labels)].sum() for labels in partitions])
    chosen = int(np.searchsorted(np.cumsum(np.exp(log_p)), uniform(rng)))
    state.labels = np.array(partitions[min(chosen, len(partitions) - 1)], dtype=np.int32)
    state.rebuild()


def _observe(state: MixtureState) -> list[float]:
    sizes = state.sizes[state.sizes > 0]
    hyper = [float(np.log(value)) for value in state.hyperparameters.values()]
    arrays = [number for value in state.arrays.values() for number in _numbers(value)]
    return [float(len(sizes)), float((sizes.astype(float) ** 2).sum()), state.log_likelihood(), *hyper, *arrays]


def _numbers(value: Floats) -> tuple[float, float]:
    """Two numbers that follow from a matrix, or from a vector of positive numbers."""
    if value.ndim == 1:
        return float(np.log(value).mean()), float(np.log(value[0]))
    return float(np.linalg.slogdet(value)[1]), float(value[0].sum())


def geweke(model: Model, step: Callable[[MixtureState, RngState], Any], n_draws: int = 20_000, seed: int = 0) -> dict[str, float]:
    """z-scores of the number of clusters, the sum of squared sizes, the log likelihood, the logs of sampled hyper-parameters, of a family's matrices the log determinant
    and the sum of the first row, and of its vectors the mean logarithm and the first.

    The model's data are overwritten. A right sampler's scores are standard normal; beyond 4 in absolute value is a failure.
    """
    rng = stream(seed, 7)
    partitions = list(all_partitions(model.n))
    state = MixtureState(model, np.arange(model.n))
    independent, successive = [], []
    for _ in range(n_draws):
        _draw_hyperparameters(state, rng)
        _draw_partition(state, partitions, rng)
        _redraw_data(state, rng)
        independent.append(_observe(state))
    for _ in range(n_draws):
        step(state, rng)
        _redraw_data(state, rng)
        successive.append(_observe(state))
    arrays = [f"{what} of {name}" for name in state.arrays for what in ("size", "first entries")]
    names = ["n_clusters", "squared_sizes", "log_likelihood", *state.hyperparameters, *arrays]
    a, b = np.array(independent), np.array(successive)
    scores = {}
    for j, name in enumerate(names):
        error = a[:, j].var() / n_draws + b[:, j].var() / effective_sample_size(b[:, j])
        scores[name] = float((a[:, j].mean() - b[:, j].mean()) / np.sqrt(error)) if error > 0 else 0.0
    return scores
