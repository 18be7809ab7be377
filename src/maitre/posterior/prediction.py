"""Predictions for new data, averaged over draws.

Given one draw with clusters c and K of them, a new point joins c with probability ∝ V(n+1, K) W(|c|+1)/W(|c|) p(x | x_c), or opens a cluster with probability
∝ V(n+1, K+1) W(1) p(x). Divided by V(n, K) the sum of these is the predictive density p(x | draw). Given the new point, draws count in proportion to that density:

    p(x | data) = mean of p(x | draw),    p(cluster | x, data) = mean of p(cluster, x | draw) / p(x | data).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maitre.families.base import ConjugateFamily
from maitre.families.statistics import log_predictive_all
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import kernel
from maitre.numerics.elementary import fast_exp
from maitre.posterior.together import evenly_spaced

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior


@kernel
def score_new(s: Any, log_prior: Floats, share: Floats, weights: Floats, highest: Floats, totals: Floats) -> None:
    """For every point of s, totals[i, c] += p(x_i, reference cluster c | draw) in units of exp(highest[i]), the largest density so far.

    log_prior[k] is the log prior weight of slot k (the last one: a new cluster); share[k, c] the share of slot k's members that are in reference cluster c.
    """
    n_slots = len(log_prior)
    for i in range(len(totals)):
        for k in range(n_slots):
            weights[k] = log_prior[k]
        log_predictive_all(s, i, n_slots, weights)
        top = weights[0]
        for k in range(n_slots):
            top = max(top, weights[k])
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


def rows_with_gaps(encoded: Any) -> Ints:
    """Encoded points of which something is missing that the kernels do not know how to skip."""
    x = encoded.get("x") if isinstance(encoded, dict) else None
    return np.flatnonzero(np.isnan(x).any(axis=1)) if x is not None and x.ndim == 2 and x.dtype.kind == "f" else np.zeros(0, dtype=np.int64)


def predict(posterior: Posterior, new: Any, max_draws: int) -> tuple[Floats, Floats]:
    """Probabilities of the reference clusters (and of a new one) and log densities, averaged over draws."""
    model = posterior.model
    if not hasattr(posterior.state, "log_weights_of_a_new_point"):
        raise ValueError(
            f"predictions need a prior that says where a new point may sit; {type(model.prior).__name__} does not know its distances to the others: put the new points among the data and sample again"
        )
    if not isinstance(model.family, ConjugateFamily):
        raise ValueError(f"predictions need the closed marginals of a conjugate family; {type(model.family).__name__} has none")
    chosen = evenly_spaced(posterior.log_joint.shape, whole_number("max_draws", max_draws, least=1))
    encoded, n_new = model.encoded_alike(new)
    reference = posterior.best
    n_reference = int(reference.max()) + 1
    gaps = rows_with_gaps(encoded)
    complete = np.setdiff1d(np.arange(n_new), gaps)
    kept = model.family.selected(encoded, complete) if len(gaps) else encoded
    highest, totals = np.full(n_new, -np.inf), np.zeros((n_new, n_reference + 1))
    height, total = np.full(len(complete), -np.inf), np.zeros((len(complete), n_reference + 1))
    for chain, draw in chosen:
        state: Any = posterior.state_at(chain, draw)
        labels, n_clusters = state.canonical_labels(), state.n_clusters
        share = np.zeros((n_clusters + 1, n_reference + 1))
        np.add.at(share, (labels, reference), 1.0)
        share[:n_clusters] /= state.sizes[:n_clusters, None]
        share[n_clusters, n_reference] = 1.0
        log_prior = state.log_weights_of_a_new_point()
        score_new(state.reading(kept), log_prior, share, np.zeros(n_clusters + 1), height, total)
        if len(gaps):
            log_weights = log_prior + state.family.log_predictive_with_gaps(state.reading(encoded), gaps, n_clusters + 1)
            top = np.maximum(highest[gaps], log_weights.max(axis=1))
            totals[gaps] = totals[gaps] * np.exp(highest[gaps] - top)[:, None] + np.exp(log_weights - top[:, None]) @ share
            highest[gaps] = top
    highest[complete], totals[complete] = height, total
    density = totals.sum(axis=1)
    return totals / density[:, None], highest + np.log(density / len(chosen))
