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
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import gammaln

from maitre.families.base import ConjugateFamily
from maitre.families.dirichlet_multinomial import DirichletMultinomial
from maitre.moves.base import Move, Report
from maitre.moves.gibbs import NOT_A_NUMBER as NOT_A_NUMBER_MESSAGE
from maitre.moves.projections import heights_of
from maitre.moves.segments import DRAW, FULL, HIGHEST, NOT_A_NUMBER, SUM, draw_by_number, group, order_by_scan, sum_segments, trace_back
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.distributions import Gamma
from maitre.numerics.draw import draw_below, draw_event, shuffle
from maitre.numerics.rng import RngState
from maitre.priors.dirichlet_process import DirichletProcess, draw_concentration_afresh, integrated_log_v
from maitre.states.clusters import seat_all
from maitre.states.mixture import MixtureState, Model

_MOST_POINTS_EXACT = 5000
_FIRST_CAPACITY = 63  # segments open at once
_UNLIMITED = 2**60
_COST = 6  # one evaluation here, with the update of a segment, takes about as long as this many in a sweep of Gibbs
_CLIMB, _LONGEST_CLIMB = 2.0 / 3.0, 0.9  # of burn-in
_LONGEST_REST = 7
_WORTHWHILE = 1e-3  # a gain in log joint, per point, for which climbing goes on without rest
_NO_MATRIX: Floats = np.zeros((0, 0))
Order = Literal["uniform", "scan", "projections"]


class Beam(NamedTuple):
    """Which segments the dynamic program goes on with (see `sum_segments`)."""

    epsilon: float
    probation: int
    widest: int


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
        for name in (order, burn_in_order):
            if name not in ("uniform", "scan", "projections") and (name is not None or name is order):
                raise ValueError(f"unknown order {name!r}; expected 'uniform', 'scan' or 'projections'")
        if method not in ("metropolis", "exact"):
            raise ValueError(f"method is {method!r}; expected 'metropolis' or 'exact'")
        if (isinstance(slope, str) and slope not in ("adapted", "two_pass")) or (not isinstance(slope, str) and not 1 <= slope < math.inf):
            raise ValueError(f"slope is {slope!r}; expected 'adapted', 'two_pass', or a number of clusters of at least 1")
        if weighting not in (None, "counts", "sqrt", "tfidf"):
            raise ValueError(f"unknown weighting {weighting!r}; expected 'counts', 'sqrt' or 'tfidf'")
        if not 0.0 <= epsilon < 1.0 or probation < 0 or (widest is not None and widest <= probation):
            raise ValueError(
                f"epsilon={epsilon}, probation={probation}, widest={widest}: expected a share from 0 to below 1, a number of points of at least 0, and more segments than that"
            )
        self.order_after, self.method, self.slope = order, method, slope
        self.beam = Beam(epsilon, probation, _UNLIMITED if widest is None or epsilon == 0.0 else widest)
        self.greedy, self.weighting = greedy, weighting
        self.order: Order = burn_in_order or order
        self.integrate_concentration = integrate_concentration
        self._integrated: Floats | None = None  # log V by the number of clusters, without the concentration
        self.exact = order != "projections"
        self.frozen = False
        self._seen: list[int] = []  # numbers of clusters in burn-in
        self._kept_reference: float | None = None
        self._highest, self._pause, self._rest = -math.inf, 0, 0  # of the climber: the best log joint, and calls to sit out
        self._room: Workspace | None = None

    def check(self, model: Model) -> None:
        if not isinstance(model.family, ConjugateFamily):
            raise ValueError(
                f"move 'permutation' needs the closed marginals of a conjugate family; {type(model.family).__name__} has none: use moves='auxiliary'"
            )
        if self.weighting is not None and not isinstance(model.family, DirichletMultinomial):
            raise ValueError(f"weighting={self.weighting!r} is for rows of counts (DirichletMultinomial), not for {type(model.family).__name__}")
        if self.integrate_concentration and not (isinstance(model.prior, DirichletProcess) and isinstance(model.prior.concentration, Gamma)):
            raise ValueError(f"integrate_concentration needs a DirichletProcess whose concentration has a Gamma prior, not {model.prior}")
        if self.method == "exact" and model.n > _MOST_POINTS_EXACT:
            raise ValueError(f"method 'exact' needs n² numbers and n³ time, too much for {model.n} points (the most is {_MOST_POINTS_EXACT}): use 'metropolis'")

    def _vectors(self, model: Model) -> Any:
        if self.weighting is None or not isinstance(model.family, DirichletMultinomial):
            return model.vectors
        return model.family.vectors(model.family.validate(model.data), self.weighting)

    @property
    def climbing(self) -> bool:  # type: ignore[override]
        """Whether the order in use is the hill climber's."""
        return self.order == "projections"

    def burn_in(self, share: float) -> None:
        """The last third of burn-in, or less while climbing still gains, already uses the order of afterwards: what climbing found has to become a draw."""
        gaining = self.climbing and self._pause == 0
        if share >= (_LONGEST_CLIMB if gaining else _CLIMB):
            self.order = self.order_after

    def freeze(self) -> None:
        """From here on the target is left invariant: an exact order, and a slope that no longer follows the chain."""
        self.frozen = True
        self.order = self.order_after

    def step(self, state: MixtureState, rng: RngState) -> Report:
        if not self.frozen:
            self._seen.append(state.n_clusters)
        if self._room is None or self._room.state is not state:
            self._room = Workspace(state, partial(self._vectors, state.model))
        room = self._room
        if self.climbing and self._rest > 0:
            self._rest -= 1
            return Report(0)
        cost = room.draw_order(self.order, rng)
        if self.climbing:
            return self._climb(room, cost, rng)
        report = self._draw_exactly(room, cost, rng) if self.method == "exact" else self._propose(room, cost, rng)
        if self.integrate_concentration:
            redraw_concentration(state, rng)
        return report

    def _climb(self, room: Workspace, cost: int, rng: Any) -> Report:
        """Draw from p(C, x) restricted to segments, with the local slope of log V."""
        slope = local_slope(room.state.log_v_at, room.state.n_clusters, room.n)
        evaluations, _, kept = room.sum(slope, self.beam, rng, mode=HIGHEST if self.greedy else DRAW)
        labels, n_clusters = room.drawn()
        if np.isfinite(room.state.log_v_at(np.array([n_clusters]))[0]):  # a finite prior may not allow so many
            room.state.seat(labels)
        if room.state.log_joint > self._highest + _WORTHWHILE * room.n:
            self._pause = 0
        else:  # nothing gained: rest for a while, and longer each time
            self._pause = self._rest = min(2 * self._pause + 1, _LONGEST_REST)
        self._highest = max(self._highest, room.state.log_joint)
        return Report(_COST * (cost + evaluations), 1, 1, {"beam": kept / room.n})

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
        return Report(_COST * (cost + evaluations), 1, int(accepted), {"beam": kept / room.n, "outside_beam": float(not supported)})

    def _draw_exactly(self, room: Workspace, cost: int, rng: Any) -> Report:
        log_b = np.full((room.n, room.n), -np.inf)
        evaluations, _, _ = room.sum(0.0, Beam(0.0, 0, _UNLIMITED), rng, mode=SUM, log_b=log_b)
        room.draw_by_number(log_b, self._log_a(room.state)(np.arange(room.n + 1)), rng)
        room.state.seat(room.drawn()[0])
        return Report(_COST * (cost + evaluations) + room.n**3 // 6, 1, 1)

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
            return self.slope
        if self.slope == "two_pass" or not self.frozen:
            return state.n_clusters
        if self._kept_reference is None:  # the later half of burn-in; without one, the first state
            self._kept_reference = float(np.mean(self._seen[len(self._seen) // 2 :] or [state.n_clusters]))
        return self._kept_reference


def local_slope(log_a: Callable[[Ints], Floats], n_clusters: float, n: int) -> float:
    """The slope of a function of the number of clusters, from the neighbours of that number, or of the nearest that is possible."""
    values = log_a(np.arange(1, min(n, round(n_clusters) + 1) + 1))
    possible = np.flatnonzero(np.isfinite(values))
    high = int(possible[-1]) if len(possible) else 0
    low = max(high - 2, 0)
    return float(values[high] - values[low]) / (high - low) if high > low else 0.0


def redraw_concentration(state: MixtureState, rng: Any) -> None:
    """α | K, independent of its present value: with a partition drawn without α the two make one block."""
    state.set_prior({"concentration": draw_concentration_afresh(state.model.n, state.n_clusters, state.model.prior.concentration, rng)})  # type: ignore[attr-defined]


class Workspace:
    """What the move needs beside a state: slots for segments, an order, and the arrays of the dynamic program."""

    def __init__(self, state: MixtureState, get_vectors: Callable[[], Any]) -> None:
        self.state, self.get_vectors = state, get_vectors
        self.n = state.model.n
        self.order, self.old_start, self.back = np.empty(self.n, dtype=np.int64), np.empty(self.n, dtype=np.int64), np.zeros(self.n + 1, dtype=np.int64)
        self.log_g: Floats = np.zeros(self.n + 1)
        self.log_factorial: Floats = gammaln(np.arange(self.n + 2) + 1.0)
        self.scan_room: Floats | None = None
        self.capacity = _FIRST_CAPACITY

    @cached_property
    def vectors(self) -> Any:
        """The points as vectors; asked for only by projections."""
        return self.get_vectors()

    @property
    def capacity(self) -> int:
        """How many segments may be open at once."""
        return len(self.start) - 1

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        self.start: Ints = np.empty(capacity + 1, dtype=np.int64)
        self.log_weight, self.weights, self.scratch = (np.zeros(capacity + 1) for _ in range(3))
        self.statistics = None

    def slots(self) -> Any:
        """Statistics for segments, with the present hyper-parameters of the family."""
        if self.statistics is None or self.family is not self.state.family:
            self.family = self.state.family
            self.statistics = self.family.allocate(self.state.model.encoded, self.capacity + 1)
            (seat_all if self.state.compiled else seat_all.python)(self.statistics, self.state.labels[:0], self.capacity + 1)
        return self.statistics

    # -- orders -----------------------------------------------------------------------------------------------------------------------------

    def draw_order(self, order: Order, rng: Any) -> int:
        """An order of the points in which every cluster is contiguous; returns the number of predictive evaluations it took."""
        state = self.state
        clusters, rank = np.flatnonzero(state.sizes), np.empty(state.capacity, dtype=np.int64)
        if order != "projections":
            shuffle(clusters, rng)
        self._group(clusters, np.arange(self.n), rank)
        if order == "projections":
            heights = heights_of(self.vectors, False, self.order, self.old_start, state.compiled, rng)
            means = np.bincount(state.labels, heights, minlength=state.capacity)[clusters] / state.sizes[clusters]
            if self.vectors.shape[1] > 1 and draw_below(2, rng) == 0:
                heights = heights_of(self.vectors, True, self.order, self.old_start, state.compiled, rng)
            self._group(clusters[np.argsort(means)], np.argsort(heights), rank)
        self.log_size: Floats = state.log_w.copy()
        self.scan_room = None
        if order == "projections":
            return 0
        if order == "uniform":
            self.log_size -= self.log_factorial
            for end in np.flatnonzero(self.old_start >= 0):
                shuffle(self.order[self.old_start[end] : end + 1], rng)
            return 0
        self.log_size[1:] -= np.log(np.arange(1, self.n + 2))
        self.scan_room = np.zeros((4, self.n))
        run = order_by_scan if state.compiled else order_by_scan.python
        evaluations = int(run(self.slots(), self.order, self.old_start, self.capacity, np.zeros(self.n), np.zeros(self.n), rng))
        if evaluations < 0:
            raise ValueError(NOT_A_NUMBER_MESSAGE.format(point=self.order[-1 - evaluations]))
        return evaluations

    def _group(self, clusters: Ints, points: Ints, rank: Ints) -> None:
        rank[clusters] = np.arange(len(clusters))
        group(self.state.labels, rank, points, len(clusters), self.order, self.old_start)

    # -- sums -------------------------------------------------------------------------------------------------------------------------------

    def sum(self, slope: float, beam: Beam, rng: Any, mode: int = DRAW, log_b: Floats = _NO_MATRIX) -> tuple[int, bool, int]:
        """Sum over all partitions into segments of the present order (see `sum_segments`)."""
        run = sum_segments if self.state.compiled else sum_segments.python
        while True:
            evaluations, supported, kept = run(
                self.slots(), self.order, self.old_start, self.log_size, slope, *beam, mode,
                self.start, self.log_weight, self.weights, self.scratch, self.log_g, self.back, log_b, self.scan_room, rng,
            )  # fmt: skip
            if evaluations == NOT_A_NUMBER:
                raise ValueError(NOT_A_NUMBER_MESSAGE.format(point=self.order[kept]))
            if evaluations != FULL:
                return int(evaluations), bool(supported), int(kept)
            self.capacity = 2 * self.capacity

    def draw_by_number(self, log_b: Floats, log_a: Floats, rng: Any) -> None:
        """Draw segments from A(K) ∏ B(c)."""
        run: Any = draw_by_number
        (run if self.state.compiled else run.py_func)(log_b, log_a, np.empty((self.n + 1, self.n + 1)), np.empty(self.n), np.empty(self.n), self.back, rng)

    def drawn(self) -> tuple[Ints, int]:
        """Labels of the segments drawn, and their number."""
        labels = np.empty(self.n, dtype=np.int64)
        return labels, int(trace_back(self.order, self.back, labels))
