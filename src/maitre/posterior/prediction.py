"""Predictions for new data, averaged over draws.

Given one draw with clusters c and K of them, a new point joins c with probability ∝ V(n+1, K) W(|c|+1)/W(|c|) p(x | x_c), or opens a cluster with probability
∝ V(n+1, K+1) W(1) p(x). Divided by V(n, K) the sum of these is the predictive density.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from maitre.families.base import ConjugateFamily
from maitre.families.statistics import log_predictive_all
from maitre.numerics.arrays import Floats
from maitre.numerics.compilation import kernel
from maitre.numerics.elementary import fast_exp
from maitre.priors.base import GibbsTypePrior
from maitre.states.mixture import MixtureState, Model

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior


@kernel
def score_new(s: Any, first: int, log_prior: Floats, share: Floats, weights: Floats, probabilities: Floats, densities: Floats) -> None:
    """For every point from `first` on: densities[i] += its log predictive density; probabilities[i] += its clusters' probabilities times `share`.

    log_prior[k] is the log prior weight of slot k (the last one: a new cluster); share[k, c] the share of slot k's members that are in reference cluster c.
    """
    n_slots = len(log_prior)
    for i in range(len(densities)):
        for k in range(n_slots):
            weights[k] = log_prior[k]
        log_predictive_all(s, first + i, n_slots, weights)
        highest = weights[0]
        for k in range(n_slots):
            highest = max(highest, weights[k])
        total = 0.0
        for k in range(n_slots):
            weights[k] = fast_exp(weights[k] - highest)
            total += weights[k]
        densities[i] = highest + np.log(total)
        for k in range(n_slots):
            if weights[k] > 1e-12 * total:
                for c in range(share.shape[1]):
                    probabilities[i, c] += weights[k] / total * share[k, c]


def concatenate(data: Any, new: Any) -> Any:
    """Old rows above new ones, whatever the data are: a table, a sparse matrix or an array."""
    if hasattr(data, "columns"):
        import pandas as pd

        frame = new if hasattr(new, "columns") else pd.DataFrame(new, columns=data.columns)
        missing = [name for name in data.columns if name not in frame.columns]
        if missing:
            raise ValueError(f"the new data lack the column {missing[0]!r} that the model was fitted to")
        return pd.concat([data, frame[list(data.columns)]], ignore_index=True)
    if sparse.issparse(new) and not sparse.issparse(data):
        new = new.toarray()
    if sparse.issparse(data):
        return sparse.vstack([data, sparse.csr_matrix(new)], format="csr")
    old, more = np.asarray(data), np.asarray(new)
    more = more[:, None] if more.ndim == 1 and old.ndim == 2 else more
    if old.ndim == 1 and more.ndim == 2:
        old = old[:, None]
    if old.shape[1:] != more.shape[1:]:
        raise ValueError(f"the new data have {more.shape[1:]} columns; the model was fitted to {old.shape[1:]}")
    return np.concatenate([old, more])


def predict(posterior: Posterior, new: Any, max_draws: int) -> tuple[Floats, Floats]:
    """Probabilities of the reference clusters (and of a new one) and log densities, averaged over draws."""
    from maitre.posterior.posterior import evenly_spaced

    if max_draws < 1:
        raise ValueError(f"max_draws is {max_draws}; at least one draw is needed")
    model = posterior.model
    if not isinstance(model.prior, GibbsTypePrior):
        raise ValueError(
            f"predictions need a prior that says where a new point may sit; {type(model.prior).__name__} does not know its distances to the others: put the new points among the data and sample again"
        )
    if not isinstance(model.family, ConjugateFamily):
        raise ValueError(f"predictions need the closed marginals of a conjugate family; {type(model.family).__name__} has none")
    n = model.n
    joined = concatenate(model.data, new)
    model.family.validate(
        joined[n:] if not hasattr(joined, "columns") else joined.iloc[n:].reset_index(drop=True)
    )  # so that an error names the row of the new data
    valid = model.family.validate(joined)
    both = Model(model.family, model.prior, model.family.at_prior_means().encode(valid), joined.shape[0], joined)
    n_new = both.n - n
    reference = posterior.best
    n_reference = int(reference.max()) + 1
    probabilities = np.zeros((n_new, n_reference + 1))
    chosen = evenly_spaced(posterior.log_joint.shape, max_draws)
    log_densities = np.zeros((len(chosen), n_new))
    for position, (chain, draw) in enumerate(chosen):
        labels = np.asarray(posterior.labels[chain, draw], dtype=np.int64)
        state = _state_of_draw(posterior, both, labels, chain, draw)
        _score(state, labels, reference, n_reference, probabilities, log_densities[position])
    highest = log_densities.max(axis=0)
    density = highest + np.log(np.mean(np.exp(log_densities - highest), axis=0))
    return probabilities / len(chosen), density


def _state_of_draw(posterior: Posterior, both: Model, labels: Any, chain: int, draw: int) -> MixtureState:
    """The clusters of one draw, with its hyper-parameters and room for new points that have no seat."""
    state = MixtureState(both, np.concatenate([labels, np.full(both.n - len(labels), -1)]))
    values = {name: float(trace[chain, draw]) for name, trace in posterior.traces.items()}
    prior = {name: values[name] for name in both.prior.hyperpriors()}
    family = {name: values[f"family.{name}"] for name in both.family.hyperpriors()}
    if prior:
        state.set_prior(prior)
    if family:
        state.set_family(family)
    return state


def _score(state: MixtureState, labels: Any, reference: Any, n_reference: int, probabilities: Floats, log_density: Floats) -> None:
    n, n_clusters = len(labels), state.n_clusters
    log_v = state.prior.log_v(n + 1, np.array([n_clusters, n_clusters + 1])) - state.prior.log_v(n, np.array([n_clusters]))
    sizes = state.sizes[:n_clusters]
    log_prior = np.append(state.log_w[sizes + 1] - state.log_w[sizes] + log_v[0], state.log_w[1] + log_v[1])
    share = np.zeros((n_clusters + 1, n_reference + 1))
    np.add.at(share, (labels, reference), 1.0)
    share[:n_clusters] /= sizes[:, None]
    share[n_clusters, n_reference] = 1.0
    state.run(score_new, n, log_prior, share, np.zeros(n_clusters + 1), probabilities, log_density)
