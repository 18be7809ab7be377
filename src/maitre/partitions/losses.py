"""Losses between a reported partition and the true one, and what is expected of them over draws.

A loss compares by information (m log m) or by pairs (m(m−1)/2); both are sums over the cells and margins of the contingency table (`maitre.partitions.allocation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maitre.numerics.arrays import Floats
from maitre.partitions.allocation import ADJUSTED_RAND, LINEAR, NORMALISED

NAMES = ("vi", "binder", "adjusted_rand", "nvi")
_MEANINGS = "vi (variation of information), binder (pairs put wrongly), adjusted_rand (one minus the adjusted Rand index), nvi (variation of information per joint entropy)"


@dataclass(frozen=True)
class Loss:
    """A loss by its name; for Binder's, what it costs to part two points that belong together and to join two that do not.

    >>> Loss("vi").of([0, 0, 1, 1], [[0, 0, 0, 0], [0, 0, 1, 1]]).round(6).tolist()
    [0.693147, 0.0]
    """

    name: str = "vi"
    parting: float = 1.0
    joining: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"unknown loss {self.name!r}; expected one of {_MEANINGS}")
        if not (np.isfinite(self.parting) and np.isfinite(self.joining) and self.parting > 0.0 and self.joining > 0.0):
            raise ValueError(f"parting and joining are {self.parting!r} and {self.joining!r}; expected what the two mistakes cost, above 0")
        if self.name != "binder" and (self.parting, self.joining) != (1.0, 1.0):
            raise ValueError(f"parting and joining are costs of Binder's loss, and the loss is {self.name!r}: give loss='binder'")

    @property
    def kind(self) -> int:
        """How A, B and G make the loss."""
        return {"adjusted_rand": ADJUSTED_RAND, "nvi": NORMALISED}.get(self.name, LINEAR)

    @property
    def ratio(self) -> float:
        """What G counts for, relative to A, in a linear loss; the others are approached by the linear loss they are made of."""
        return (self.parting + self.joining) / self.joining

    @property
    def pairs(self) -> bool:
        """Whether it counts pairs; the others measure information."""
        return self.name in ("binder", "adjusted_rand")

    def table(self, n: int) -> Floats:
        """f(0), …, f(n)."""
        sizes = np.arange(n + 1, dtype=np.float64)
        return sizes * (sizes - 1.0) / 2.0 if self.pairs else sizes * np.log(np.maximum(sizes, 1.0))

    def of(self, labels: Any, draws: Any) -> Floats:
        """The loss of reporting these labels, for each draw (a row of labels 0, 1, …) if it were the truth."""
        reported, f = np.asarray(labels, dtype=np.int64), self.table(len(labels))
        n, width = len(reported), int(reported.max(initial=0)) + 1
        total, values = float(f[np.bincount(reported)].sum()), np.empty(len(draws))
        for t, draw in enumerate(draws):
            truth = np.asarray(draw, dtype=np.int64)
            cells = truth * width + reported
            n_cells = (int(truth.max(initial=0)) + 1) * width
            counts = np.bincount(cells) if n_cells <= 8 * n + 1024 else np.unique(cells, return_counts=True)[1]
            values[t] = self._value(n, total, float(f[np.bincount(truth)].sum()), float(f[counts].sum()))
        return values

    def _value(self, n: int, total: float, own: float, shared: float) -> float:
        """From A, B and G, scaled: nats for "vi", the share of all pairs for "binder", numbers up to about 1 for the others."""
        if self.name == "vi":
            return max(0.0, (total + own - 2.0 * shared) / max(n, 1))
        if self.name == "binder":
            return max(0.0, (self.parting * (own - shared) + self.joining * (total - shared)) / max(0.5 * n * (n - 1), 1.0))
        if self.name == "nvi":
            joint = n * np.log(max(n, 1)) - shared
            return 0.0 if joint <= 1e-12 else max(0.0, (total + own - 2.0 * shared) / joint)
        chance = total * own / max(0.5 * n * (n - 1), 1.0)
        most = 0.5 * (total + own) - chance
        return 0.0 if most <= 0.0 else 1.0 - (shared - chance) / most
