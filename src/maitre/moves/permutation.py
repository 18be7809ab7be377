"""The permutation-augmented sampler (Liang, Jordan & Taskar 2007): given an order of the points, a whole partition is drawn at once.

Target: p(C, π, x) = p(C, x) p(π | C), where π is an order of the points in which every cluster is contiguous. The move draws π | C and then C | π:

    p(C, π, x) = A(K) ∏_c B(c),    A(K) = V(n, K)/K!,    B(c) = W(|c|) p(x_c) p(order of c),

with the order inside a cluster `uniform`, p = 1/|c|!, or a Markov `scan` (every next point in proportion to its predictive given the one before). Two ways to draw C:

- `exact`: dynamic programming over positions and numbers of clusters, O(n³);
- `metropolis`: A(K) is replaced by e^(slope·K), summed in O(n²), or about O(n) with a beam, and the proposal is accepted with probability
  min{1, [A(K')/A(K)] e^(slope·(K − K'))}. A present partition outside the beam's support has proposal density 0: the move is rejected. The slope is that of log A at
  a number of clusters which must not follow the chain: `adapted` takes it from burn-in; `two_pass` follows K and scores the way back with its own slope and beam.

With `projections` the points of each cluster, and the clusters by their means, are ordered along a random direction, and C is drawn from p(C, x) restricted to the
partitions into segments. p(π | C) is then unknown: a stochastic hill climber, not a sampler. It is what finds the clusters; by default it is used in burn-in only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln

from maitre.families.dirichlet_multinomial import DirichletMultinomial
from maitre.model import Model
from maitre.moves.base import Move, Report
from maitre.moves.climber import Climber
from maitre.moves.segments import SUM
from maitre.moves.workspace import UNLIMITED, Beam, Order, Workspace, local_slope
from maitre.numerics.arguments import number, one_of, truth, whole_number
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.distributions import Gamma
from maitre.numerics.draw import draw_event
from maitre.numerics.rng import RngState
from maitre.priors.dirichlet_process import DirichletProcess, draw_concentration_afresh, integrated_log_v
from maitre.states.mixture import MixtureState

_MOST_POINTS_EXACT = 5000
_CLIMB, _LONGEST_CLIMB = 2.0 / 3.0, 0.9  # of burn-in
ORDERS = ("uniform", "scan", "projections")


class Permutation(Move):
    """A new partition drawn whole, given an order of the points.

    `order` is "uniform" or "scan" (both exact) or "projections" (a hill climber: the posterior is then flagged as not exact); `burn_in_order` is the order used
    before burn-in ends. `method` is "metropolis" or "exact" (O(n³)). `slope` is "adapted", "two_pass", or the number of clusters whose slope is used throughout.
    `integrate_concentration` sums over a Dirichlet process' concentration too, and redraws it afterwards. `weighting` says how rows of counts become vectors
    for the projections: "counts", "sqrt" or "tfidf" (the default for them). `greedy` climbs to the best partition into segments instead of drawing one.
    `epsilon` is the share of the sum that the beam may drop at each position (0: no beam), `probation` the number of points for which every segment is kept, and `widest` the most segments kept.

    >>> import maitre as mt
    >>> moves = [mt.moves.Gibbs(), mt.moves.Permutation(order="scan")]
    """

    name = "permutation"
    needs = ("marginals",)
    REMEMBERS = ("order_now", "frozen", "seen", "reference")

    def __init__(
        self,
        order: Order = "uniform",
        burn_in_order: Order | None = "projections",
        method: Literal["metropolis", "exact"] = "metropolis",
        slope: Literal["adapted", "two_pass"] | float = "adapted",
        epsilon: float = 1e-32,
        probation: int = 20,
        widest: int | None = 100,
        integrate_concentration: bool = False,
        weighting: Literal["counts", "sqrt", "tfidf"] | None = None,
        greedy: bool = False,
    ) -> None:
        self.order: Order = one_of("order", order, ORDERS)  # type: ignore[assignment]
        self.burn_in_order: Order | None = None if burn_in_order is None else one_of("burn_in_order", burn_in_order, ORDERS)  # type: ignore[assignment]
        self.method = one_of("method", method, ("metropolis", "exact"))
        self.slope = one_of("slope", slope, ("adapted", "two_pass")) if isinstance(slope, str) else number("slope", slope, least=1)
        self.epsilon, self.probation = number("epsilon", epsilon, least=0, below=1), whole_number("probation", probation)
        self.widest = None if widest is None else whole_number("widest", widest, least=self.probation + 1)
        self.integrate_concentration = truth("integrate_concentration", integrate_concentration)
        self.weighting = None if weighting is None else one_of("weighting", weighting, ("counts", "sqrt", "tfidf"))
        self.greedy = truth("greedy", greedy)
        self.beam = Beam.of(self.epsilon, self.probation, self.widest)
        self.exact = order != "projections"
        self.climber = Climber(self.beam, self.greedy, self.weighting)
        self.order_now: Order = self.burn_in_order or self.order
        self.frozen = False
        self.seen: list[int] = []  # numbers of clusters in burn-in
        self.reference: float | None = None  # the number of clusters whose slope is used after burn-in
        self._integrated: Floats | None = None  # log V by the number of clusters, without the concentration

    def memory(self) -> dict[str, Any]:
        """With that of the climber."""
        return super().memory() | {"climber": {name: getattr(self.climber, name) for name in self.climber.REMEMBERS}}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """With that of the climber."""
        super().recall(memory)
        for name in self.climber.REMEMBERS:
            setattr(self.climber, name, memory["climber"][name])

    def check(self, model: Model) -> None:
        if self.weighting is not None and not isinstance(model.family, DirichletMultinomial):
            raise ValueError(f"weighting={self.weighting!r} is for rows of counts (DirichletMultinomial), not for {type(model.family).__name__}")
        if self.integrate_concentration and not (isinstance(model.prior, DirichletProcess) and isinstance(model.prior.concentration, Gamma)):
            raise ValueError(f"integrate_concentration needs a DirichletProcess whose concentration has a Gamma prior, not {model.prior}")
        if self.method == "exact" and model.n > _MOST_POINTS_EXACT:
            raise ValueError(f"method 'exact' needs n² numbers and n³ time, too much for {model.n} points (the most is {_MOST_POINTS_EXACT}): use 'metropolis'")

    @property
    def climbing(self) -> bool:  # type: ignore[override]
        """Whether the order in use is the hill climber's."""
        return self.order_now == "projections"

    def burn_in(self, share: float) -> None:
        """The last third of burn-in, or less while climbing still gains, already uses the order of afterwards: what climbing found has to become a draw."""
        if share >= (_LONGEST_CLIMB if self.climbing and self.climber.gaining else _CLIMB):
            self.order_now = self.order

    def freeze(self) -> None:
        """From here on the target is left invariant: an exact order, and a slope that no longer follows the chain."""
        self.frozen = True
        self.order_now = self.order

    def step(self, state: MixtureState, rng: RngState) -> Report:
        if not self.frozen:
            self.seen.append(state.n_clusters)
        if self.climbing:
            return self.climber.step(state, rng)
        room = self.climber.room_for(state)
        cost = room.draw_order(self.order_now, rng)
        report = self._draw_exactly(room, cost, rng) if self.method == "exact" else self._propose(room, cost, rng)
        if self.integrate_concentration:
            redraw_concentration(state, rng)
        return report

    def _propose(self, room: Workspace, cost: int, rng: Any) -> Report:
        state, log_a = room.state, self._log_a(room.state)
        old = state.n_clusters
        slope = local_slope(log_a, self._reference(state), room.n)
        evaluations, supported, kept = room.sum(slope, self.beam, rng)
        labels, new = room.drawn()
        log_ratio = float(log_a(np.array([new]))[0] - log_a(np.array([old]))[0]) + slope * (old - new)
        allowed = math.isfinite(log_ratio)  # by a finite prior
        if self.slope == "two_pass" and new != old and allowed:  # the way back has its own slope, sum and beam
            back, log_sum = local_slope(log_a, new, room.n), room.log_g[-1]
            more, supported, _ = room.sum(back, self.beam, rng, mode=SUM)
            log_ratio += (back - slope) * old + log_sum - room.log_g[-1]
            evaluations += more
        accepted = allowed and supported and draw_event(log_ratio, rng)
        if accepted:
            state.seat(labels)
        return Report(room.cost * (cost + evaluations), 1, int(accepted), {"beam": kept / room.n, "outside_beam": float(not supported)})

    def _draw_exactly(self, room: Workspace, cost: int, rng: Any) -> Report:
        log_b = np.full((room.n, room.n), -np.inf)
        evaluations, _, _ = room.sum(0.0, Beam(0.0, 0, UNLIMITED), rng, mode=SUM, log_b=log_b)
        room.draw_by_number(log_b, self._log_a(room.state)(np.arange(room.n + 1)), rng)
        room.state.seat(room.drawn()[0])
        return Report(room.cost * (cost + evaluations) + room.n**3 // 6, 1, 1)

    def _log_a(self, state: MixtureState) -> Callable[[Ints], Floats]:
        """log A(K) = log V(n, K) − log K!, with the concentration integrated out if asked for."""
        if self.integrate_concentration and self._integrated is None:
            counts = np.arange(1, state.model.n + 1)
            integrated = integrated_log_v(state.model.n, counts, state.model.prior.concentration)  # type: ignore[attr-defined]
            self._integrated = np.concatenate([[-np.inf], integrated])
        table = self._integrated
        return lambda counts: (state.log_v_at(counts) if table is None else table[counts]) - gammaln(counts + 1.0)

    def _reference(self, state: MixtureState) -> float:
        """The number of clusters at which the slope is taken."""
        if not isinstance(self.slope, str):
            return float(self.slope)
        if self.slope == "two_pass" or not self.frozen:
            return state.n_clusters
        if self.reference is None:  # the later half of burn-in; without one, the first state
            self.reference = float(np.mean(self.seen[len(self.seen) // 2 :] or [state.n_clusters]))
        return self.reference


def redraw_concentration(state: MixtureState, rng: Any) -> None:
    """α | K, independent of its present value: with a partition drawn without α the two make one block."""
    state.set_prior({"concentration": draw_concentration_afresh(state.model.n, state.n_clusters, state.model.prior.concentration, rng)})  # type: ignore[attr-defined]
