"""What mixtures over rankings are compared with by held-out log predictive: mixtures of Plackett–Luce models by EM, and a kernel density with Mallows kernels.

Hunter (2004), MM algorithms for generalized Bradley–Terry models; Gormley & Murphy (2006), Analysis of Irish third-level college applications data;
Lebanon & Mao (2008), Non-parametric modeling of partially ranked data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from maitre.data.rankings import Rankings, as_rankings
from maitre.numerics.arguments import number, whole_number
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.mallows import log_psi

_TUNED_ON = 400  # rankings by which a bandwidth is chosen


def _padded(rankings: Rankings) -> tuple[Ints, Floats]:
    """Distinct rankings, cut off before the last item, filled up with −1; and how many voters have each."""
    lists = rankings.distinct()
    longest = min(max(len(ranking) for ranking, _ in lists), rankings.n_items - 1)
    table = np.full((len(lists), longest), -1, dtype=np.int64)
    for row, (ranking, _) in zip(table, lists, strict=True):
        row[: min(len(ranking), longest)] = ranking[:longest]
    return table, np.array([count for _, count in lists], dtype=np.float64)


@dataclass(frozen=True)
class PlackettLuceEM:
    """A mixture of Plackett–Luce models at a (posterior) maximum: weights (K,), worths (K, items) and the log posterior after every iteration."""

    weights: Floats
    worths: Floats
    trace: Floats
    rankings: Rankings

    def log_density(self, new: Any) -> Floats:
        """ln p(ranking) of each new ranking."""
        rows = self.rankings.alike(new)
        terms = _log_likelihoods(_padded(rows)[0], self.worths)[0]
        return np.asarray(logsumexp(terms + np.log(self.weights), axis=1)[rows.ballot])


def _log_likelihoods(table: Ints, worths: Floats) -> tuple[Floats, list[Floats]]:
    """(rankings, K): ln p(ranking | worths), and for every place what the items left are worth."""
    rest = np.repeat(worths.sum(axis=1)[None], len(table), axis=0)
    value, left = np.zeros_like(rest), []
    for j in range(table.shape[1]):
        there = table[:, j] >= 0
        chosen = worths[:, table[:, j]].T
        left.append(np.where(there[:, None], rest, np.inf))
        value += np.where(there[:, None], np.log(chosen) - np.log(rest), 0.0)
        rest = np.where(there[:, None], np.maximum(rest - chosen, 1e-12), rest)
    return value, left


def plackett_luce_em(rankings: Any, components: int = 20, shape: float = 1.5, rate: float = 1.0, iterations: int = 100, seed: int = 0) -> PlackettLuceEM:
    """A mixture of so many Plackett–Luce models by EM, worths by Hunter's MM under a Gamma(shape, rate) prior. An approximation: one maximum, no uncertainty.

    >>> import maitre as mt
    >>> fitted = mt.approximate.plackett_luce_em([[0, 1, 2], [0, 1], [2, 1], [2]], components=2, iterations=5)
    >>> bool((np.diff(fitted.trace) > -1e-9).all())
    True
    """
    data = as_rankings(rankings)
    n_components, n_items = whole_number("components", components, least=1), data.n_items
    prior, scale = number("shape", shape, least=1.0) - 1.0, number("rate", rate, above=0)
    table, counts = _padded(data)
    rng = np.random.default_rng(seed)
    worths = rng.gamma(2.0, size=(n_components, n_items))
    worths *= (n_items * prior / scale if prior > 0 else 1.0) / worths.sum(axis=1, keepdims=True)
    weights, trace = np.full(n_components, 1.0 / n_components), []
    for _ in range(whole_number("iterations", iterations, least=1)):
        terms, left = _log_likelihoods(table, worths)
        terms += np.log(weights)
        whole = logsumexp(terms, axis=1)
        trace.append(float(counts @ whole) + prior * float(np.log(worths).sum()) - (scale * float(worths.sum()) if prior > 0 else 0.0))
        share = np.exp(terms - whole[:, None]) * counts[:, None]
        weights = np.maximum(share.sum(axis=0) / counts.sum(), 1e-300)
        times = [share / rest for rest in left]
        until, listed = np.cumsum(times, axis=0), np.zeros((n_components, n_items))
        denominator = np.repeat(until[-1].sum(axis=0)[:, None], n_items, axis=1)
        for j in range(table.shape[1]):
            there = np.flatnonzero(table[:, j] >= 0)
            np.add.at(listed.T, table[there, j], share[there])
            np.add.at(denominator.T, table[there, j], (until[j] - until[-1])[there])
        worths = np.maximum((prior + listed) / ((scale if prior > 0 else 0.0) + denominator), 1e-12)
    return PlackettLuceEM(weights, worths, np.array(trace), data)


@dataclass(frozen=True)
class MallowsKernel:
    """The average of Mallows kernels of one dispersion around every ranking, the items it does not rank in all orders."""

    theta: float
    rankings: Rankings

    def log_density(self, new: Any) -> Floats:
        """ln p(ranking) of each new ranking."""
        rows = self.rankings.alike(new)
        table, counts = _padded(self.rankings)
        return _densities(_padded(rows)[0], _places(table, rows.n_items), counts, rows.n_items, self.theta)[rows.ballot]


def mallows_kernel(rankings: Any, theta: float | None = None, seed: int = 0) -> MallowsKernel:
    """A kernel density of rankings; θ, if it is not given, makes some of them most probable given the others. An approximation: nothing is clustered.

    >>> import maitre as mt
    >>> kernel = mt.approximate.mallows_kernel([[0, 1, 2], [0, 1], [2, 1]], theta=1.0)
    >>> round(float(np.exp(kernel.log_density([[0], [1], [2]])).sum()), 12)
    1.0
    """
    data = as_rankings(rankings)
    if theta is None:
        table, counts = _padded(data)
        places = _places(table, data.n_items)
        some, times = np.unique(np.random.default_rng(seed).choice(len(table), _TUNED_ON, p=counts / counts.sum()), return_counts=True)

        def loss(log_theta: float) -> float:
            values = [_densities(table[[i]], places, counts - (np.arange(len(counts)) == i), data.n_items, math.exp(log_theta))[0] for i in some]
            return -float(times @ np.array(values))

        theta = math.exp(minimize_scalar(loss, bounds=(math.log(1e-3), math.log(10.0)), method="bounded", options={"xatol": 0.02}).x)
    return MallowsKernel(number("theta", theta, least=0), data)


def _places(table: Ints, n_items: int) -> Ints:
    """(rankings, items): the place of every item, n for those not ranked."""
    places = np.full((len(table), n_items + 1), n_items)
    for j in range(table.shape[1]):
        places[np.arange(len(table)), table[:, j]] = j
    return places[:, :n_items]


def _densities(table: Ints, places: Ints, counts: Floats, n: int, theta: float) -> Floats:
    """ln Σ_y count_y k(π | y) / Σ count for every ranking π."""
    psi = np.array([log_psi(m, theta) for m in range(n)])
    lengths = (places < n).sum(axis=1)
    found = np.empty(len(table))
    log_counts = np.log(np.maximum(counts, 1e-300))
    for row, ranking in enumerate(table):
        value, taken = np.zeros(len(places)), np.zeros(len(places), dtype=np.int64)
        before: list[Any] = []
        for j, x in enumerate(ranking[ranking >= 0]):
            place = places[:, x]
            listed = place < n
            ahead = sum(((other < place) & (other < n)).astype(np.int64) for other in before) if before else 0
            unlisted = n - lengths - (j - taken)
            u = np.where(listed, place - ahead, lengths - taken)
            rest = psi[np.maximum(unlisted - 1, 0)] - np.log(np.maximum(unlisted, 1))
            value += -theta * u - psi[n - 1 - j] + np.where(listed, 0.0, rest)
            taken = taken + listed
            before.append(place)
        found[row] = logsumexp(value + log_counts)
    return found - math.log(counts.sum())
