"""Truncated variational inference for Dirichlet-process mixtures with the weights integrated out (Kurihara, Welling & Teh 2007). Inexact.

q(z) q(η) with T components. Without point n, the stick-breaking prior gives component t the probability

    p(z_n = t | z_−n) = (1 + N_t)/(1 + α + N_≥t) ∏_{s<t} (α + N_>s)/(1 + α + N_≥s)      (t = T: without the first factor),

and log r_nt = E[its logarithm] + E log p(x_n | η_t) + constant, where each count is a sum of independent indicators under q, so that to second order
E log(c + N) ≈ log(c + E N) − Var N / (2 (c + E N)²). This expansion makes the objective no bound of the evidence: none is reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maitre.approximate.mean_field import conclude, keep_largest, normalise
from maitre.families.slots import fractional
from maitre.families.statistics import add_weighted, clear, expected_log_likelihood_all
from maitre.model import Model
from maitre.moves.gibbs import NOT_A_NUMBER
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import Kernel, compiled, kernel
from maitre.numerics.draw import draw_log
from maitre.numerics.elementary import fast_log
from maitre.numerics.rng import RngState

Shares = npt.NDArray[np.float32]


@compiled
def _expected_log(offset: float, mean: float, variance: float) -> float:
    """E log(offset + N) to second order."""
    center = offset + max(mean, 0.0)
    return fast_log(center) - 0.5 * max(variance, 0.0) / (center * center)


@compiled
def _count(moments: Floats, shares: Shares, i: int, sign: float) -> None:
    """Point i joins (or leaves) the moments: rows E N_t, Var N_t, E N_≥t, Var N_≥t."""
    tail = 0.0
    for t in range(shares.shape[1] - 1, -1, -1):
        share = np.float64(shares[i, t])
        tail += share
        moments[0, t] += sign * share
        moments[1, t] += sign * share * (1.0 - share)
        moments[2, t] += sign * tail
        moments[3, t] += sign * tail * (1.0 - tail)


@compiled
def _expected_log_prior(moments: Floats, alpha: float, stay: Floats, out: Floats) -> None:
    """out[t] ← E log p(z_n = t | z_−n) for the moments without point n; `stay` is room for as many numbers."""
    last = len(out) - 1
    for t in range(last):
        broken = _expected_log(1.0 + alpha, moments[2, t], moments[3, t])
        out[t] = _expected_log(1.0, moments[0, t], moments[1, t]) - broken
        stay[t] = _expected_log(alpha, moments[2, t + 1], moments[3, t + 1]) - broken
    out[last] = 0.0
    passed = 0.0
    for t in range(last):
        out[t] += passed
        passed += stay[t]
    out[last] = passed


@kernel
def revise(reader: Any, order: Ints, shares: Shares, moments: Floats, alpha: float, logs: Floats, kept: Ints, row: Floats) -> tuple[float, int]:
    """A new r_n for every point of `order`, one after the other. Returns Σ |change| / 2 and the first point whose density is not a number, or −1."""
    n_slots, change = shares.shape[1], 0.0
    for i in order:
        _count(moments, shares, i, -1.0)
        _expected_log_prior(moments, alpha, row, logs)
        expected_log_likelihood_all(reader, i, n_slots, logs)
        n_kept = keep_largest(logs, n_slots, kept, row)
        if n_kept == 0:
            return change, i
        normalise(row, n_kept)
        for t in range(n_slots):
            logs[t] = 0.0
        for j in range(n_kept):
            logs[kept[j]] = row[j]
        for t in range(n_slots):
            change += 0.5 * abs(logs[t] - shares[i, t])
            shares[i, t] = logs[t]
        _count(moments, shares, i, 1.0)
    return change, -1


@kernel
def collect(writer: Any, sorted_columns: Ints, shares: Shares, moments: Floats, row: Floats) -> None:
    """The columns of r in another order; weighted statistics and moments from them."""
    n_slots = shares.shape[1]
    for t in range(n_slots):
        clear(writer, t)
        for moment in range(4):
            moments[moment, t] = 0.0
    for i in range(len(shares)):
        for t in range(n_slots):
            row[t] = shares[i, sorted_columns[t]]
        for t in range(n_slots):
            shares[i, t] = row[t]
            if row[t] > 0.0:
                add_weighted(writer, t, i, row[t])
        _count(moments, shares, i, 1.0)


@compiled
def _draw(shares: Shares, labels: Slots, logs: Floats, scratch: Floats, rng: Any) -> None:
    for i in range(len(shares)):
        for t in range(len(logs)):
            logs[t] = np.log(shares[i, t]) if shares[i, t] > 0.0 else -np.inf
        for draw in range(len(labels)):
            labels[draw, i] = draw_log(logs, len(logs), scratch, rng)


class Collapsed:
    """q(z) q(η), with the r of all points: n × T numbers of four bytes. Columns are in the order in which the components are broken off, by expected size."""

    def __init__(self, model: Model, labels: Ints, truncation: int, compiled: bool = True) -> None:
        self.model, self.compiled = model, compiled
        self.concentration = float(model.prior.concentration)  # type: ignore[attr-defined]
        self.reader, self.writer = (fractional(model.family.allocate(model.encoded, truncation)) for _ in range(2))
        self.shares: Shares = np.zeros((model.n, truncation), dtype=np.float32)
        self.shares[np.arange(model.n), labels] = 1.0
        self.moments = np.zeros((4, truncation))
        self.moments[0] = np.bincount(labels, minlength=truncation)
        self._logs, self._row, self._kept = np.zeros(truncation), np.zeros(truncation), np.zeros(truncation, dtype=np.int64)
        self._collect()

    def _run(self, function: Kernel, *arguments: Any) -> Any:
        return (function if self.compiled else function.python)(*arguments)

    def _collect(self) -> None:
        """Components by size, and q(η) for the present r."""
        self._run(collect, self.writer, np.argsort(-self.moments[0], kind="stable"), self.shares, self.moments, self._row)
        self._run(conclude, self.writer, len(self._row))
        self.reader, self.writer = self.writer, self.reader

    def step(self, order: Ints) -> float:
        """Revise the r of all points in this order, then q(η); returns the mean change of a point's r, in total variation."""
        change, bad = self._run(revise, self.reader, order, self.shares, self.moments, self.concentration, self._logs, self._kept, self._row)
        if bad >= 0:
            raise ValueError(NOT_A_NUMBER.format(point=bad))
        self._collect()
        return float(change) / self.model.n

    def draw_labels(self, draws: int, rng: RngState) -> Slots:
        """Labels drawn from q(z), a row each."""
        labels: Slots = np.empty((draws, self.model.n), dtype=np.int32)
        _draw(self.shares, labels, self._logs, self._row, rng)
        return labels
