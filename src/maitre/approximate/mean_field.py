"""Truncated mean-field variational inference for Dirichlet-process mixtures (Blei & Jordan 2006). Inexact.

The process is cut off at T components (`maitre.approximate.sticks`), and the posterior of assignments, parameters and weights is approximated by the closest product
q(z) q(η) q(v) q(α): q(η_t) is the posterior of a cluster that point n has joined to the extent r_nt, and log r_nt = E log π_t + E log p(x_n | η_t) + constant.

With q(η), q(v) the best for the r, the evidence's lower bound is  Σ_t log p(x weighted by r_·t) + [terms of the weights] − Σ_nt r_nt log r_nt,
because Σ_n r_nt E log p(x_n | η_t) − KL(q(η_t) ‖ H) is the log marginal of the weighted statistics. It rises with every step, towards a local optimum that may be far from the
posterior: components are too certain of their points, and how many there are depends on the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maitre.approximate.sticks import Sticks
from maitre.families.slots import fractional
from maitre.families.statistics import add_weighted, clear, expect, expected_log_likelihood_all, log_marginal
from maitre.model import Model
from maitre.moves.gibbs import NOT_A_NUMBER
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import Kernel, compiled, kernel
from maitre.numerics.draw import Tempered, draw_log
from maitre.numerics.elementary import fast_exp, is_finite
from maitre.numerics.rng import RngState
from maitre.states.clusters import seat_all

LEAST_LOG_SHARE = -46.0  # a share of a point, relative to the largest, that no sum of such shares would show: e^−46 = 1e-20


@compiled
def keep_largest(logs: Floats, n: int, kept: Ints, gaps: Floats) -> int:
    """The k = kept[j] < n whose exp(logs[k]) is not negligible beside the largest, and gaps[j], by how much the log is smaller. Returns how many, 0 if some log is not a number."""
    highest, check = logs[0], 0.0
    for k in range(n):
        highest = max(highest, logs[k])
        check += logs[k]
    n_kept = 0
    for k in range(n if is_finite(check) else 0):
        gap = logs[k] - highest
        kept[n_kept], gaps[n_kept] = k, gap
        n_kept += 1 if gap > LEAST_LOG_SHARE else 0
    return n_kept


@compiled
def normalise(gaps: Floats, n: int) -> float:
    """gaps[j] ← exp(gaps[j]) / Σ exp(gaps), for j < n; returns the entropy of these shares."""
    total, mean = 0.0, 0.0
    for j in range(n):
        share = fast_exp(gaps[j])
        total += share
        mean += share * gaps[j]
        gaps[j] = share
    for j in range(n):
        gaps[j] /= total
    return np.log(total) - mean / total


@kernel
def assign(reader: Any, writer: Any, n: int, log_weights: Floats, sizes: Floats, logs: Floats, kept: Ints, shares: Floats) -> tuple[float, int]:
    """Divide every point over the components as `reader` and the weights have it, and collect the weighted statistics in `writer`, sizes in `sizes`.

    Nothing is kept of a point: memory is that of the components. Returns the entropy of the assignments, and the first point whose density is not a number, or −1.
    """
    n_slots, entropy = len(log_weights), 0.0
    for k in range(n_slots):
        clear(writer, k)
        sizes[k] = 0.0
    for i in range(n):
        for k in range(n_slots):
            logs[k] = log_weights[k]
        expected_log_likelihood_all(reader, i, n_slots, logs)
        n_kept = keep_largest(logs, n_slots, kept, shares)
        if n_kept == 0:
            return entropy, i
        entropy += normalise(shares, n_kept)
        for j in range(n_kept):
            add_weighted(writer, kept[j], i, shares[j])
            sizes[kept[j]] += shares[j]
    return entropy, -1


@kernel
def conclude(s: Any, n_slots: int) -> float:
    """Σ_t log p(x weighted) from the statistics of the components, which are then turned into expectations."""
    total = 0.0
    for k in range(n_slots):
        total += log_marginal(s, k)
        expect(s, k)
    return total


@kernel
def draw_assignments(reader: Any, log_weights: Floats, labels: Slots, logs: Floats, kept: Ints, gaps: Floats, rng: Any) -> None:
    """Rows of labels drawn from q(z)."""
    n_slots = len(log_weights)
    for i in range(labels.shape[1]):
        for k in range(n_slots):
            logs[k] = log_weights[k]
        expected_log_likelihood_all(reader, i, n_slots, logs)
        n_kept = keep_largest(logs, n_slots, kept, gaps)
        for draw in range(labels.shape[0]):
            labels[draw, i] = kept[draw_log(gaps, n_kept, logs, rng)]


class MeanField:
    """q(z) q(η) q(v) q(α) with T components, from labels below T to start with."""

    def __init__(self, model: Model, labels: Ints, truncation: int, compiled: bool = True) -> None:
        self.model, self.compiled = model, compiled
        self.sticks = Sticks(truncation, model.prior.concentration)  # type: ignore[attr-defined]
        family = model.family.at_prior_means()
        self.reader, self.writer = (fractional(family.allocate(model.encoded, truncation)) for _ in range(2))
        self.sizes = np.bincount(labels, minlength=truncation).astype(np.float64)
        self._room = np.zeros(truncation), np.zeros(truncation, dtype=np.int64), np.zeros(truncation)
        self._run(seat_all, self.writer, labels.astype(np.int32), truncation)
        self.elbo = [self._conclude(0.0)]

    def _run(self, function: Kernel, *arguments: Any) -> Any:
        return (function if self.compiled else function.python)(*arguments)

    def _conclude(self, entropy: float) -> float:
        """The best q(v), q(α) and q(η) for the assignments whose statistics have been collected; returns the bound."""
        self.sticks.update(self.sizes)
        log_marginals = self._run(conclude, self.writer, len(self.sizes))
        self.reader, self.writer = self.writer, self.reader
        return float(log_marginals + self.sticks.log_bound + entropy)

    def step(self) -> float:
        """The best q(z), then the rest; returns by how much the bound has risen."""
        entropy, bad = self._run(assign, self.reader, self.writer, self.model.n, self.sticks.log_weights, self.sizes, *self._room)
        if bad >= 0:
            raise ValueError(NOT_A_NUMBER.format(point=bad))
        self.elbo.append(self._conclude(entropy))
        return self.elbo[-1] - self.elbo[-2]

    def climb(self, iterations: int, tolerance: float, over: Callable[[int], bool] = lambda done: False) -> bool:
        """So many steps, until `over` says of their number that it is enough, or until the bound rises by less than `tolerance` per point; returns whether it does."""
        for done in range(1, iterations + 1):
            if self.step() < tolerance * self.model.n:
                return True
            if over(done):
                break
        return False

    def draw_labels(self, draws: int, rng: Any) -> Slots:
        """Labels drawn from q(z), a row each."""
        labels: Slots = np.empty((draws, self.model.n), dtype=np.int32)
        self._run(draw_assignments, self.reader, self.sticks.log_weights, labels, *self._room, rng)
        return labels

    def most_probable(self, rng: RngState) -> Ints:
        """For each point the component it belongs to most."""
        return self.draw_labels(1, Tempered(rng, np.inf))[0].astype(np.int64)
