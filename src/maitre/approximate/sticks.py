"""The weights of truncated stick-breaking under mean-field variational inference: π_t = v_t ∏_{s<t} (1 − v_s), v_t ~ Beta(1, α) for t < T, v_T = 1.

    q(v_t) = Beta(1 + N_t, E α + Σ_{s>t} N_s),   q(α) = Gamma(shape + T − 1, rate − Σ_{t<T} E log(1 − v_t)) if α ~ Gamma(shape, rate)

(Blei & Jordan 2006, equations 18, 19 and appendix). N_t is the expected size of component t. Both are the best there is given the other and the sizes. With q(v) such, the
terms of the evidence's lower bound that concern the weights are Σ_{t<T} [E log α + log B(1 + N_t, E α + Σ_{s>t} N_s)] − KL(q(α) ‖ p(α)).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaln, digamma, gammaln

from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.distributions import Gamma, Hyperparameter


class Sticks:
    """q of the weights, and of the concentration if it carries a prior. Components keep their numbers; `order` says which one is broken off first, second, …"""

    def __init__(self, truncation: int, concentration: Hyperparameter) -> None:
        self.prior = concentration if isinstance(concentration, Gamma) else None
        self.q_concentration = self.prior
        self._fixed = math.nan if isinstance(concentration, Gamma) else float(concentration)  # type: ignore[arg-type]
        self.order: Ints = np.arange(truncation)
        self.log_weights: Floats = np.zeros(truncation)  # E log π by component
        self.log_bound = -math.inf
        self._log_rest: float | None = None  # Σ E log(1 − v)

    @property
    def concentration(self) -> float:
        """E α."""
        return self._fixed if self.q_concentration is None else self.q_concentration.mean

    def update(self, sizes: Floats) -> None:
        """q(α), then q(v), for expected sizes of the components. These are broken off by size unless that lowers the bound (it can, of the last two, if α > 1)."""
        if self.prior is not None and self._log_rest is not None:
            self.q_concentration = Gamma(self.prior.shape + len(sizes) - 1.0, self.prior.rate - self._log_rest)
        by_size = np.argsort(-sizes, kind="stable")
        self.order = max(by_size, self.order, key=lambda order: self._log_sticks(sizes[order]))
        a, b = self._parameters(sizes[self.order])
        log_rest = digamma(b) - digamma(a + b)
        self._log_rest = float(log_rest.sum())
        before = np.concatenate([[0.0], np.cumsum(log_rest)])
        self.log_weights[self.order] = before + np.append(digamma(a) - digamma(a + b), 0.0)
        self.log_bound = self._log_sticks(sizes[self.order]) + len(a) * self._expected_log_concentration() - self._divergence()

    def _parameters(self, sizes: Floats) -> tuple[Floats, Floats]:
        """Of q(v_t), t < T."""
        after = np.cumsum(sizes[::-1])[::-1]
        return 1.0 + sizes[:-1], self.concentration + after[1:]

    def _log_sticks(self, sizes: Floats) -> float:
        return float(betaln(*self._parameters(sizes)).sum())

    def _expected_log_concentration(self) -> float:
        q = self.q_concentration
        return math.log(self._fixed) if q is None else float(digamma(q.shape)) - math.log(q.rate)

    def _divergence(self) -> float:
        """KL(q(α) ‖ p(α)) of two Gamma distributions."""
        q, p = self.q_concentration, self.prior
        if q is None or p is None:
            return 0.0
        shapes = (q.shape - p.shape) * digamma(q.shape) - gammaln(q.shape) + gammaln(p.shape)
        return float(shapes + p.shape * math.log(q.rate / p.rate) + q.shape * (p.rate - q.rate) / q.rate)
