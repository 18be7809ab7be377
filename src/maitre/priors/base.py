"""Gibbs-type priors over partitions: p(C) = V(n, K) ∏_c W(|c|).

A prior gives `log_v` and `log_w` and nothing else; samplers see only the two tables made from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from maitre.numerics.arrays import Floats
from maitre.numerics.distributions import Parametrised


class Prior(Parametrised):
    """A prior over partitions: a frozen dataclass of hyper-parameters, each a number or a prior of its own."""

    def check_size(self, n: int) -> None:
        """A `ValueError` if the prior is not one for n points."""

    def for_points(self, n: int) -> Prior:
        """The prior with what depends on the number of points filled in."""
        return self


class GibbsTypePrior(Prior, ABC):
    """A prior of the form V(n, K) ∏ W(|c|) (core of every collapsed sampler here).

    The exchangeable priors of the field are of this form; Gnedin & Pitman (2006), Exchangeable Gibbs partitions and Stirling triangles.
    """

    EXAMPLES: ClassVar[tuple[Any, ...]] = ()

    @abstractmethod
    def log_v(self, n: int, k: npt.NDArray[np.int64]) -> Floats:
        """log V(n, K) for every K ≥ 1 in `k`; −∞ where the prior allows no such K."""

    @abstractmethod
    def log_w(self, m: npt.NDArray[np.int64]) -> Floats:
        """log W(m) for every cluster size m ≥ 1 in `m`."""

    def v_table(self, n: int, k_max: int) -> Floats:
        """log V(n, K) for K = 0, …, k_max. K = 0 (no point seated yet) is given the value that makes the first table free."""
        values = self.log_v(n, np.arange(1, k_max + 1))
        return np.concatenate([values[:1], values])

    def w_table(self, m_max: int) -> Floats:
        """log W(m) for m = 0, …, m_max, with log W(0) = 0."""
        return np.concatenate([[0.0], self.log_w(np.arange(1, m_max + 1))])

    def log_probability(self, sizes: npt.ArrayLike) -> float:
        """The log prior probability of one partition with these cluster sizes.

        >>> import maitre as mt
        >>> round(mt.priors.DirichletProcess(1.0).log_probability([2, 1]), 6)
        -1.791759
        """
        m = np.asarray(sizes, dtype=np.int64)
        return float(self.log_v(int(m.sum()), np.array([len(m)]))[0] + self.log_w(m).sum())
