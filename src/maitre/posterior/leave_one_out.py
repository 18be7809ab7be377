"""How well each point is predicted by the others, from one run: leave-one-out predictive densities by Pareto-smoothed importance sampling.

A draw C of the partition of all points, with point i taken out of its seat, is a draw of C₋ᵢ given *all* data. Divided by p(x_i | C₋ᵢ, x₋ᵢ), in which the seat of i is summed
over, it counts as one given the others alone:

    1 / p(x_i | x₋ᵢ) = E[1 / p(x_i | C₋ᵢ, x₋ᵢ)],   the expectation over draws given all points.

The largest of these importance ratios are replaced by quantiles of a generalized Pareto distribution fitted to them, whose shape k says whether the estimate can be
believed (below about 0.7; Vehtari, Simpson, Gelman, Yao & Gabry 2024, Pareto smoothed importance sampling). The fit is that of Zhang & Stephens (2009).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from maitre.families.base import ConjugateFamily, completes_points
from maitre.families.statistics import log_predictive_all, log_predictive_without
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import kernel
from maitre.posterior.together import evenly_spaced
from maitre.states.mixture import MixtureState

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior

RELIABLE = 0.7  # shapes of the tail up to which the estimate of a point can be believed
_LEAST_TAIL = 5
_NO_TAIL = math.log(2.0)  # ratios that lie so close together have no tail, whatever a fit would say of the largest of them


class LeftOut(NamedTuple):
    """Leave-one-out log predictive densities."""

    log_density: Floats  # of each point given the others
    pareto_k: Floats  # of each point; beyond 0.7 its density is not to be relied on
    mean: float
    standard_error: float

    @property
    def n_unreliable(self) -> int:
        """For how many points the draws do not tell what leaving them out would do."""
        return int(np.count_nonzero(self.pareto_k > RELIABLE))


@kernel
def score_left_out(s: Any, labels: Slots, log_join: Floats, log_rejoin: Floats, log_factor: Floats, sizes: Ints, weights: Floats, out: Floats) -> None:
    """out[i] = log p(x_i | the others and their seats). The last entry of log_join is for a new cluster; those of the other two are for points of that slot."""
    n_slots = len(log_join)
    for i in range(len(labels)):
        own: Any = np.int64(labels[i])
        for k in range(n_slots):
            weights[k] = log_join[k]
        log_predictive_all(s, i, n_slots, weights)
        weights[own] = log_rejoin[own] + log_predictive_without(s, own, i)
        top, total = -np.inf, 0.0
        for k in range(n_slots - (1 if sizes[own] == 1 else 0)):  # a point alone leaves an empty cluster behind, which is the new one
            top = max(top, weights[k])
        for k in range(n_slots - (1 if sizes[own] == 1 else 0)):
            total += math.exp(weights[k] - top)
        out[i] = log_factor[own] + top + math.log(total)


def log_densities_left_out(state: MixtureState) -> Floats:
    """log p(x_i | C₋ᵢ, x₋ᵢ) of every point, given a committed state."""
    n, n_clusters = state.model.n, state.n_clusters
    sizes, alone = state.sizes[:n_clusters], state.sizes[:n_clusters] == 1
    numbers = np.maximum([n_clusters - 1, n_clusters, n_clusters + 1], 1)
    log_v, log_w1 = state.prior.log_v(n, numbers), float(state.prior.log_w(np.array([1]))[0])
    before = state.prior.log_v(n - 1, numbers[:2])
    log_join = np.append(state.log_join[:n_clusters], log_w1 + log_v[2] - log_v[1])
    rejoin = state.prior.log_w(sizes) - state.prior.log_w(np.maximum(sizes - 1, 1))
    out = np.empty(n)
    arrays = (log_join, np.where(alone, log_w1 + log_v[1] - log_v[0], rejoin), np.where(alone, log_v[0] - before[0], log_v[1] - before[1]), sizes)
    state.run(score_left_out, state.labels, *arrays, np.empty(n_clusters + 1), out)
    return out


def leave_one_out(posterior: Posterior, max_draws: int) -> LeftOut:
    """Of a mixture whose points are exchangeable."""
    model = posterior.model
    problem = (
        "draws that are not from the posterior"
        if not posterior.exact
        else f"a state such as {posterior.state.__name__}, where other points depend on the one left out"
        if posterior.state is not MixtureState
        else f"the closed marginals that {type(model.family).__name__} does not have"
        if not isinstance(model.family, ConjugateFamily)
        else "points of which something is sampled"
        if any(completes_points(name) for name in model.family.arrays(model.encoded))
        else "data that stay on disk"
        if not model.in_memory
        else "less than two points"
        if model.n < 2
        else None
    )
    if problem is not None:
        raise ValueError(f"leaving points out one by one is not possible for {problem}: compare by cross-validation, `mt.compare_models(…, folds=5)`")
    draws = evenly_spaced(posterior.log_joint.shape, whole_number("max_draws", max_draws, least=1))
    scores = np.array([log_densities_left_out(posterior.state_at(chain, draw)) for chain, draw in draws])  # type: ignore[arg-type]
    found = [smoothed(-own) for own in scores.T]
    log_density = np.array([logsumexp(weights + own) for (weights, _), own in zip(found, scores.T, strict=True)])
    error = float(log_density.std(ddof=1) / math.sqrt(model.n))
    return LeftOut(log_density, np.array([k for _, k in found]), float(log_density.mean()), error)


def smoothed(log_ratios: Floats) -> tuple[Floats, float]:
    """Log importance weights that sum to one, the largest of them smoothed, and the shape of their tail; infinite if there are too few draws to tell."""
    weights, n_draws = log_ratios - log_ratios.max(), len(log_ratios)
    n_tail = math.ceil(min(0.2 * n_draws, 3.0 * math.sqrt(n_draws)))
    order, k = np.argsort(weights, kind="stable"), math.inf
    if np.ptp(weights) < _NO_TAIL:
        k = -math.inf
    elif n_tail >= _LEAST_TAIL and n_tail < n_draws:
        tail, cutoff = order[n_draws - n_tail :], max(weights[order[n_draws - n_tail - 1]], math.log(np.finfo(float).tiny))
        tail = tail[weights[tail] > cutoff]
        if len(tail) >= _LEAST_TAIL:
            k, scale = fitted_pareto(np.exp(weights[tail]) - math.exp(cutoff))
            probabilities = (np.arange(len(tail)) + 0.5) / len(tail)
            weights[tail] = np.minimum(np.log(math.exp(cutoff) + _quantiles(probabilities, k, scale)), 0.0)
    return weights - logsumexp(weights), k


def fitted_pareto(excesses: Floats) -> tuple[float, float]:
    """Shape and scale of a generalized Pareto distribution from sorted excesses (Zhang & Stephens 2009), the shape drawn a little towards one half."""
    n = len(excesses)
    trials = np.arange(1, 31 + int(math.sqrt(n)))
    theta = 1.0 / excesses[-1] + (1.0 - np.sqrt(len(trials) / (trials - 0.5))) / (3.0 * excesses[int(n / 4.0 + 0.5) - 1])
    shapes = np.log1p(-theta[:, None] * excesses).mean(axis=1)
    profile = n * (np.log(-theta / shapes) - shapes - 1.0)
    weights = np.exp(profile - logsumexp(profile))
    kept = weights >= 10.0 * np.finfo(float).eps
    best = float((theta[kept] * weights[kept]).sum() / weights[kept].sum())
    shape = float(np.log1p(-best * excesses).mean())
    return (n * shape + 5.0) / (n + 10.0), -shape / best


def _quantiles(probabilities: Floats, shape: float, scale: float) -> Floats:
    return -scale * np.log1p(-probabilities) if abs(shape) < 1e-10 else scale * np.expm1(-shape * np.log1p(-probabilities)) / shape
