"""What a partial clustering is worth, and the order in which points are seated (Daumé 2007).

The score of a clustering of the first r points is (in logarithms) the largest prior of any completion, plus the marginals of the clusters so far, plus a term for each
point to come: an upper bound of any predictive of that point (`trivial`), an upper bound that looks at the clusters there are (`tight`), or the point's own
marginal (`inadmissible`: not a bound, and far quicker). With a bound and no limit on the queue, the first complete clustering that best-first search reaches is the
most probable one.

The largest prior: for a Gibbs-type prior V(n, K) ∏ W(|c|) every consistent W has ratios W(m + 1)/W(m) = m − σ that rise with m (Gnedin & Pitman 2006), so log W is convex,
and of the M points to come, once j of them have opened clusters, all others do best in the largest one:

    max_j V(n, K + j) W(1)^j W(n_max + M − j) / W(n_max) · ∏_k W(n_k).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.families.statistics import log_bound, log_predictive, supports
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import compiled, kernel
from maitre.numerics.draw import shuffle
from maitre.numerics.rng import RngState
from maitre.states.mixture import MixtureState

SCORES = ("trivial", "tight", "inadmissible")
ORDERS = ("marginal", "random", "reverse", "given")


@kernel
def all_log_marginals(s: Any, blank: int, out: Floats) -> None:
    """out[i] = log p(x_i), `blank` an empty slot."""
    for i in range(len(out)):
        out[i] = log_predictive(s, blank, i)


@kernel
def all_log_bounds(s: Any, out: Floats) -> None:
    """out[i] = an upper bound of any log predictive of point i."""
    for i in range(len(out)):
        out[i] = log_bound(s, i)


@compiled
def completed_log_prior(log_v: Floats, log_w: Floats, n_clusters: int, largest: int, left: int, every: bool) -> float:
    """The largest log V(n, K + j) W(1)^j W(n_max + M − j)/W(n_max) over j = 0, …, M, or (unless `every`) over the two ends.

    The ends are where the maximum is for a Dirichlet process and a Pitman–Yor process, whose log V is convex in K; for other priors they make an estimate that does for
    the inadmissible score."""
    best = -np.inf
    for j in range(0, left + 1, 1 if every else max(left, 1)):
        if n_clusters + j < len(log_v):
            best = max(best, log_v[n_clusters + j] + j * log_w[1] + log_w[largest + left - j] - log_w[largest])
    return best


def log_marginals(state: MixtureState) -> Floats:
    """log p(x_i) of every point."""
    out: Floats = np.zeros(state.model.n)
    state.run(all_log_marginals, int(state.occupancy[2]), out)
    return out


def ordered(name: str, log_marginal: Floats, rng: RngState) -> Ints:
    """The points by increasing marginal ("marginal"), by decreasing marginal ("reverse"), in random order, or as given."""
    points = np.arange(len(log_marginal))
    if name == "random":
        shuffle(points, rng)
    elif name != "given":
        points = np.argsort(log_marginal if name == "marginal" else -log_marginal, kind="stable")
    return points


def remainders(state: MixtureState, score: str, order: Ints, log_marginal: Floats) -> Floats:
    """For r = 0, …, n the sum of the terms of the points to come after r of them are seated (for `tight` an upper bound: the trivial one)."""
    terms = log_marginal
    if score != "inadmissible":
        terms = np.zeros(state.model.n)
        state.run(all_log_bounds, terms)
    return np.concatenate([np.cumsum(terms[order][::-1])[::-1], [0.0]])


def has_bounds(statistics: Any) -> bool:
    """Whether a family's statistics, and all their parts, say how large a predictive can be."""
    parts = [part for part in getattr(statistics, "parts", ()) if hasattr(part, "_fields")]
    return supports(type(statistics), "log_bound") and all(map(has_bounds, parts))
