"""Predictions for new data, averaged over draws.

Given one draw with clusters c and K of them, a new point joins c with probability ∝ V(n+1, K) W(|c|+1)/W(|c|) p(x | x_c), or opens a cluster with probability
∝ V(n+1, K+1) W(1) p(x). Divided by V(n, K) the sum of these is the predictive density p(x | draw). Given the new point, draws count in proportion to that density:

    p(x | data) = mean of p(x | draw),    p(cluster | x, data) = mean of p(cluster, x | draw) / p(x | data).

A family without closed marginals is scored with parameters drawn given each cluster's points, and for a new cluster with several drawn from the base measure; their average
over draws has the same expectation.

Under a distance-dependent prior the weights are Σ_{j in c} f(d_j) and the concentration, from the new point's distances: exact if new points come after the others
(`sequential`); otherwise the others' links to the new point, of which nothing is known, are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from maitre.families.statistics import draw_parameters, log_likelihood, log_predictive_all
from maitre.moves.auxiliary import parameter_count
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import kernel
from maitre.numerics.elementary import fast_exp
from maitre.numerics.rng import RngState, stream
from maitre.posterior.together import evenly_spaced

_KEPT_BYTES = 512 * 2**20
_FRESH = 20  # parameters of a new cluster that a draw's points are scored with, where there is no closed marginal

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior


@kernel
def score_new(s: Any, log_prior: Floats, share: Floats, weights: Floats, highest: Floats, totals: Floats) -> None:
    """For every point of s, totals[i, c] += p(x_i, reference cluster c | draw) in units of exp(highest[i]), the largest density so far.

    log_prior[·, k] is the log prior weight of slot k (the last one: a new cluster), in one row for all points or a row for each; share[k, c] the share of slot k's members
    that are in reference cluster c.
    """
    n_slots, n_rows = log_prior.shape[1], log_prior.shape[0]
    for i in range(len(totals)):
        row = i if n_rows > 1 else 0
        for k in range(n_slots):
            weights[k] = log_prior[row, k]
        log_predictive_all(s, i, n_slots, weights)
        top = weights[0]
        for k in range(n_slots):
            top = max(top, weights[k])
        if top == -np.inf:
            continue
        if top > highest[i]:
            factor = fast_exp(highest[i] - top)
            for c in range(share.shape[1]):
                totals[i, c] *= factor
            highest[i] = top
        for k in range(n_slots):
            weight = fast_exp(weights[k] - highest[i])
            if weight > 0.0:
                for c in range(share.shape[1]):
                    totals[i, c] += weight * share[k, c]


@kernel
def log_likelihoods(s: Any, n_clusters: int, theta: Floats, out: Floats, rng: Any) -> None:
    """theta[k] ~ p(θ | x_k) for every cluster and, in the rows after these, from the base measure; out[i, r] = log F(x_i; theta[r])."""
    for r in range(len(theta)):
        draw_parameters(s, min(r, n_clusters), theta[r], rng)
    for i in range(len(out)):
        for r in range(len(theta)):
            out[i, r] = log_likelihood(s, theta[r], i)


def _with_explicit_parameters(state: Any, encoded: Any, n_new: int, rng: RngState) -> Floats:
    """(new points, clusters + 1): log densities given parameters drawn for each cluster and, last, their mean over several draws from the base measure."""
    n_clusters = state.n_clusters
    theta = np.zeros((n_clusters + _FRESH, int(state.run(parameter_count))))
    scores = np.empty((n_new, len(theta)))
    log_likelihoods(state.reading(encoded), n_clusters, theta, scores, rng)
    fresh = logsumexp(scores[:, n_clusters:], axis=1, keepdims=True) - np.log(_FRESH)
    return np.hstack([scores[:, :n_clusters], fresh])


def rows_with_gaps(encoded: Any) -> Ints:
    """Encoded points of which something is missing that the kernels do not know how to skip."""
    gaps = [
        np.isnan(encoded[name]).reshape(len(encoded[name]), -1).any(axis=1)
        for name in ("x", "weight")
        if isinstance(encoded, dict) and _is_real(encoded.get(name))
    ]
    return np.flatnonzero(np.any(gaps, axis=0)) if gaps else np.zeros(0, dtype=np.int64)


def _is_real(array: Any) -> bool:
    return array is not None and array.dtype.kind == "f" and array.ndim > 0


def log_densities_given(state: Any, encoded: Any, n_new: int) -> Floats:
    """log p(x | the clusters of one committed state) of each encoded new point."""
    log_prior, n_slots = state.log_weights_of_a_new_point()[None], state.n_clusters + 1
    by_hand = rows_with_gaps(encoded)
    if len(by_hand) == n_new:
        return np.asarray(logsumexp(log_prior + state.family.log_predictive_with_gaps(state.reading(encoded), by_hand, n_slots), axis=1))
    highest, totals = np.full(n_new, -np.inf), np.zeros((n_new, 1))
    score_new(state.reading(encoded), log_prior, np.ones((n_slots, 1)), np.zeros(n_slots), highest, totals)
    return np.asarray(highest + np.log(totals[:, 0]))


class Draw(NamedTuple):
    """A draw as predictions need it: its state, and where the members of its clusters are in the reported partition."""

    state: Any
    share: Floats  # (clusters + 1, reported clusters + 1)


def draws_for(posterior: Posterior, max_draws: int) -> list[Draw]:
    """Evenly spaced draws, made once and kept if they take little room."""
    key = ("draws for predictions", whole_number("max_draws", max_draws, least=1))
    if key not in posterior.found:
        chosen = [_draw(posterior, chain, draw) for chain, draw in evenly_spaced(posterior.log_joint.shape, max_draws)]
        if sum(_bytes(draw) for draw in chosen) > _KEPT_BYTES:
            return chosen
        posterior.found[key] = chosen
    return cast("list[Draw]", posterior.found[key])


def _draw(posterior: Posterior, chain: int, draw: int) -> Draw:
    state: Any = posterior.state_at(chain, draw)
    reference = posterior.point_estimate()
    labels, n_clusters, n_reference = state.canonical_labels(), state.n_clusters, int(reference.max()) + 1
    share = np.zeros((n_clusters + 1, n_reference + 1))
    np.add.at(share, (labels, reference), 1.0)
    share[:n_clusters] /= np.bincount(labels, minlength=n_clusters)[:, None]
    share[n_clusters, n_reference] = 1.0
    return Draw(state, share)


def _bytes(draw: Draw) -> int:
    """Roughly what a draw holds beside the data."""
    owned = {id(array) for array in _arrays(draw.state.model.encoded)}
    arrays = [array for array in _arrays(tuple(draw.state.statistics)) if id(array) not in owned]
    return sum(int(getattr(array, "nbytes", 0)) for array in arrays) + draw.share.nbytes + 16 * draw.state.model.n


def _arrays(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else None
    return [value] if parts is None else [array for part in parts for array in _arrays(part)]


def predict(posterior: Posterior, new: Any, max_draws: int, distances: Any = None) -> tuple[Floats, Floats]:
    """Probabilities of the reported clusters (and of a new one) and log densities, averaged over draws."""
    model = posterior.model
    by_distance = not hasattr(posterior.state, "log_weights_of_a_new_point")
    if by_distance and not hasattr(posterior.state, "links"):
        raise ValueError(f"{type(model.prior).__name__} does not say where a new point may sit")
    if by_distance and distances is None:
        raise ValueError(
            f"where a new point sits depends on its distances to the others under {type(model.prior).__name__}: give them as distances=, a matrix with a row per new point and a column per point, or sparse with candidates only"
        )
    if not by_distance and distances is not None:
        raise ValueError(f"distances are given, and {type(model.prior).__name__} knows of none: leave them out")
    encoded, n_new = model.encoded_alike(new)
    candidates = _candidates(distances, n_new, model.n) if by_distance else None
    draws, rng = draws_for(posterior, max_draws), stream(0)
    by_hand = rows_with_gaps(encoded) if draws[0].state.collapsed else np.arange(n_new)  # those that the kernel does not score
    complete = np.setdiff1d(np.arange(n_new), by_hand)
    kept = model.family.selected(encoded, complete) if len(by_hand) and len(complete) else encoded
    highest, totals = np.full(n_new, -np.inf), np.zeros((n_new, draws[0].share.shape[1]))
    height, total = np.full(len(complete), -np.inf), np.zeros((len(complete), draws[0].share.shape[1]))
    for state, share in draws:
        log_prior = state.log_weights_of_a_new_point()[None] if candidates is None else _log_weights(state, candidates)
        if len(complete):
            of_complete = log_prior if len(log_prior) == 1 else np.ascontiguousarray(log_prior[complete])
            score_new(state.reading(kept), of_complete, share, np.zeros(log_prior.shape[1]), height, total)
        if len(by_hand):
            log_weights = log_prior if len(log_prior) == 1 else log_prior[by_hand]
            if state.collapsed:
                log_weights = log_weights + state.family.log_predictive_with_gaps(state.reading(encoded), by_hand, log_prior.shape[1])
            else:
                log_weights = log_weights + _with_explicit_parameters(state, encoded, n_new, rng)
            top = np.maximum(highest[by_hand], log_weights.max(axis=1))
            totals[by_hand] = totals[by_hand] * np.exp(highest[by_hand] - top)[:, None] + np.exp(log_weights - top[:, None]) @ share
            highest[by_hand] = top
    highest[complete], totals[complete] = height, total
    density = totals.sum(axis=1)
    return totals / density[:, None], highest + np.log(density / len(draws)) + model.log_jacobian(new)


def _candidates(distances: Any, n_new: int, n: int) -> Any:
    """Distances from each new point to those it may link to, sparse; dense ones may be infinite."""
    if sparse.issparse(distances):
        found = sparse.csr_array(distances, dtype=np.float64)
    else:
        dense = np.atleast_2d(np.asarray(distances, dtype=np.float64))
        kept = np.isfinite(dense)
        found = sparse.csr_array((dense[kept], np.nonzero(kept)), shape=dense.shape)
    if found.shape != (n_new, n):
        raise ValueError(f"distances have shape {found.shape}; expected ({n_new}, {n}): a row per new point and a column per point of the data")
    if len(found.data) and not found.data.min() >= 0.0:
        raise ValueError(f"a distance is {found.data.min()}; expected numbers of at least 0")
    return found


def _log_weights(state: Any, candidates: Any) -> Floats:
    """(new points, clusters + 1): log of Σ_{j in c} f(d_j) for each cluster and, last, of the concentration, normalised (Blei & Frazier 2011)."""
    labels, n_clusters = state.canonical_labels(), state.n_clusters
    rows = np.repeat(np.arange(candidates.shape[0]), np.diff(candidates.indptr))
    weights = np.zeros((candidates.shape[0], n_clusters + 1))
    np.add.at(weights, (rows, labels[candidates.indices]), np.exp(state.prior.decay.log_weight(candidates.data)))
    weights[:, -1] = state.prior.concentration
    weights /= weights.sum(axis=1, keepdims=True)
    return np.log(weights, out=np.full(weights.shape, -np.inf), where=weights > 0.0)
