"""Hyper-parameters at their most probable values given a clustering: coordinate ascent on the log joint, on the scale of each hyper-parameter's prior."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maitre.families.base import LOWEST_SCALE
from maitre.numerics.distributions import Hyperprior, LogUniform
from maitre.states.mixture import MixtureState

_REACH = 3.0  # how far one step may go on the log or log-odds scale
_WORTHWHILE = 1e-9
_FINE = 1e-6  # on that scale


def _ascend(log_density: Callable[[float], float], value: float, prior: Hyperprior, lowest: float = LOWEST_SCALE, tolerance: float = _FINE) -> float:
    """The value near the present one at which prior and target together are highest, or the present one."""
    from scipy.optimize import minimize_scalar  # which takes 10 MB, for those who need it

    def loss(real: float) -> float:
        candidate = prior.from_real(real)
        return -(prior.log_density(candidate) + log_density(candidate)) if candidate > lowest else float("inf")

    real = prior.to_real(value)
    low, high = (prior.to_real(prior.low), prior.to_real(prior.high)) if isinstance(prior, LogUniform) else (-np.inf, np.inf)
    bounds = (max(low, real - _REACH), min(high, real + _REACH))
    with np.errstate(invalid="ignore"):  # the loss may be infinite near a bound
        found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": tolerance})
    return prior.from_real(float(found.x)) if found.fun < loss(real) - _WORTHWHILE else value


def ascend_arrays(state: MixtureState, rounds: int = 3) -> None:
    """The family's arrays where the log joint is higher, if they can be moved there."""
    for _ in range(rounds if state.arrays else 0):
        before, arrays = state.log_joint, state.arrays
        raised = state.family.arrays_ascended(state.statistics, np.flatnonzero(state.sizes))
        state.set_family({name: raised[name] for name in arrays if name in raised})
        if state.log_joint < before:
            state.set_family(arrays)
        if state.log_joint < before + 0.1:
            break


def ascend_hyperparameters(state: MixtureState, rounds: int = 3, tolerance: float = _FINE) -> float:
    """Raise the log joint by moving each hyper-parameter that carries a prior, until a round gains less than the tolerance; returns by how much. It never falls."""
    start, sizes = state.log_joint, state.sizes[state.sizes > 0]
    for _ in range(rounds):
        before = state.log_joint
        for name, prior in state.model.prior.hyperpriors().items():
            value = float(getattr(state.prior, name))
            better = _ascend(lambda v, name=name: state.prior.at({name: v}).log_probability(sizes), value, prior, tolerance=tolerance)  # type: ignore[misc]
            if better != value:
                state.set_prior({name: better})
        for name, prior in state.model.family.hyperpriors().items():
            value = float(getattr(state.family, name))
            target = state.family.log_likelihood_of_clusters(state.statistics, np.flatnonzero(state.sizes), name)
            if target is None:
                target = lambda v, name=name: state.log_likelihood_at({name: v})  # type: ignore[misc]  # noqa: E731
            better = _ascend(target, value, prior, state.family.lowest(name), tolerance)
            if better != value:
                state.set_family({name: better})
        ascend_arrays(state)
        if state.log_joint < before + max(1e-6, tolerance):
            break
    return state.log_joint - start
