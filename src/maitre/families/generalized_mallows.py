"""Generalized Mallows model of rankings (Fligner & Verducci 1986; Meilă & Chen 2010): a cluster has an ordering σ of all items and a dispersion θ_j for every place j.

A ranking π of length t is made place by place: its j-th item is the (s_j + 1)-th of those left, in the order of σ, with probability ∝ e^{−θ_j s_j}, s_j = 0, …, n − j:

    p(π | σ, θ) = ∏_{j≤t} e^{−θ_j s_j(π|σ)} / ψ_{n−j}(θ_j),        p(σ, θ) ∝ exp(−ν Σ_j [r_j θ_j + ln ψ_{n−j}(θ_j)]).

θ is integrated out, σ is not. With N_j rankings of at least j items in the cluster and S_j the sum of their codes,

    p(x_c | σ) = ∏_j B̃eta(ν r_j + S_j, ν + N_j + 1, n − j) / B̃eta(ν r_j, ν + 1, n − j),

and the next ranking has code s at place j with probability B̃eta(a + s, b + 1, m) / B̃eta(a, b, m) (`maitre.numerics.mallows`). One ranking alone has probability
(n − t)!/n!, whatever ν and r.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maitre.data.rankings import Ballots, Rankings
from maitre.families.base import Example
from maitre.families.codes import Places, draw_ordering_alone, fill_codes
from maitre.families.rankings import TINY, RankingFamily, set_aside
from maitre.numerics.arguments import real_numbers
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import compiled, compiled_apart
from maitre.numerics.elementary import fast_exp
from maitre.numerics.mallows import NODES, log_beta_tilde, mean_code, place_nodes

FEW = 16  # rankings at a place up to which integrals are looked up by (N, S); beyond, sums over nodes are updated
_MEMO = 4_000_000  # integrals remembered, at most
_UNKNOWN = 1e300
_GROWTH = 0.15  # of N after which nodes are placed anew
_HUGE = 1e100


class MallowsStatistics(NamedTuple):
    """Run-time state; n items, T places at most, C slots, Q nodes."""

    items: Any  # `maitre.data.rankings.Ballots`
    starts: Ints
    voters: Ints
    first_voter: Ints
    ballot: Ints
    n_items: int
    nu: float
    r: Floats  # (T,)
    log_alone: Floats  # (T + 1,): ln (n − t)!/n!
    memo: Floats  # ln B̃eta by (j, N ≤ FEW + 1, S)
    memo_start: Ints  # (T,); −1 where there is no memo
    orderings: Places  # (C, n): σ
    places: Places  # (C, n): where every item stands in σ
    seen: Ints  # (C, T): N_j
    total: Ints  # (C, T): S_j
    chance: Floats  # (C, T, n): predictive probabilities of codes, −1 where not known yet
    theta: Floats  # (C, T, Q): nodes, with their ln ψ and the weights
    log_psis: Floats
    mass: Floats
    whole: Floats  # (C, T): sum of the weights
    stale: Ints  # (C, T): 1 where nodes are not there
    placed: Floats  # (C, T, 3): N, a/M when they were placed, and how far that may go
    codes: Ints  # (n,): room
    log_first: Floats  # (T, n): log probabilities of the codes of one ranking alone
    room: Floats  # (4, n)
    pairs: Floats  # (n, n)

    def log_marginal(s, k: int) -> float:
        """ln p(x_k | σ_k), without the 1/n! of σ."""
        return log_marginal_of(s, s.seen[k], s.total[k])

    def clear(s, k: int) -> None:
        empty_slot(s, k)

    def add(s, k: int, d: int) -> None:
        change_members(s, k, d, 1)

    def remove(s, k: int, d: int) -> None:
        change_members(s, k, d, -1)

    def log_predictive(s, k: int, d: int) -> float:
        return log_predictive(s, k, d)

    def log_predictive_without(s, k: int, d: int) -> float:
        return log_predictive_without(s, k, d)

    def log_predictive_all(s, d: int, n_slots: int, out: Floats) -> None:
        log_predictives(s, d, n_slots, out)

    def open_with(s, k: int, d: int, rng: Any) -> None:
        draw_ordering_alone(s, k, d, rng)


@compiled
def log_integral(s: Any, j: int, n: int, total: int) -> float:
    """ln B̃eta at place j for n rankings whose codes sum to this."""
    m = s.n_items - 1 - j
    if s.memo_start[j] >= 0 and n <= FEW + 1:
        at = s.memo_start[j] + m * (n * (n - 1) // 2) + n + total
        if s.memo[at] >= _UNKNOWN:
            s.memo[at] = log_beta_tilde(s.nu * s.r[j] + total, s.nu + n + 1.0, m)
        return s.memo[at]
    return log_beta_tilde(s.nu * s.r[j] + total, s.nu + n + 1.0, m)


@compiled
def log_marginal_of(s: Any, count: Ints, total: Ints) -> float:
    """ln p(x_c | σ) from N_j and S_j."""
    value = 0.0
    for j in range(len(count)):
        if count[j] > 0:
            value += log_integral(s, j, count[j], total[j]) - log_integral(s, j, 0, 0)
    return value


@compiled_apart
def _place(s: Any, k: int, j: int) -> None:
    """Nodes of slot k at place j for its present statistics."""
    a, mass, m = s.nu * s.r[j] + s.total[k, j], s.nu + s.seen[k, j], s.n_items - 1 - j
    place_nodes(a, mass, m, s.theta[k, j], s.log_psis[k, j], s.mass[k, j])
    whole = 0.0
    for q in range(NODES):
        whole += s.mass[k, j, q]
    s.whole[k, j] = whole
    ratio = a / mass
    s.placed[k, j, 0], s.placed[k, j, 1], s.placed[k, j, 2] = s.seen[k, j], ratio, math.sqrt(ratio * (1.0 + ratio) / mass)
    s.stale[k, j] = 0


@compiled_apart
def find_chance(s: Any, k: int, j: int, code: int) -> float:
    """The predictive probability of a code, remembered."""
    n, total = s.seen[k, j], s.total[k, j]
    if n < FEW:
        value = math.exp(log_integral(s, j, n + 1, total + code) - log_integral(s, j, n, total))
    else:
        if s.stale[k, j] == 1:
            _place(s, k, j)
        value = 0.0
        for q in range(NODES):
            value += s.mass[k, j, q] * fast_exp(-code * s.theta[k, j, q] - s.log_psis[k, j, q])
        value /= s.whole[k, j]
    s.chance[k, j, code] = value
    return value


@compiled
def score(s: Any, k: int, d: int) -> float:
    """ln p(ranking d | slot k)."""
    begin, end = s.starts[d], s.starts[d + 1]
    fill_codes(s.items, begin, end, s.places[k], s.codes)
    product, logs = 1.0, 0.0
    for j in range(end - begin):
        p = s.chance[k, j, s.codes[j]]
        if p < 0.0:
            p = find_chance(s, k, j, s.codes[j])
        product, logs = set_aside(product * p, logs)
    return logs + math.log(product)


@compiled_apart
def log_predictive(s: Any, k: int, d: int) -> float:
    """ln p(ranking d | slot k)."""
    return score(s, k, d)


@compiled_apart
def log_predictives(s: Any, d: int, n_slots: int, out: Floats) -> None:
    """out[k] += ln p(ranking d | slot k) for every slot: the statistics are handed over once, which takes as long as a score."""
    for k in range(n_slots):
        out[k] += score(s, k, d)


@compiled_apart
def log_predictive_without(s: Any, k: int, d: int) -> float:
    """ln p(ranking d | slot k without it)."""
    begin, end = s.starts[d], s.starts[d + 1]
    fill_codes(s.items, begin, end, s.places[k], s.codes)
    value = 0.0
    for j in range(end - begin):
        code, n = s.codes[j], s.seen[k, j]
        if n <= FEW:
            value += log_integral(s, j, n, s.total[k, j]) - log_integral(s, j, n - 1, s.total[k, j] - code)
        else:
            if s.stale[k, j] == 1:
                _place(s, k, j)
            without = 0.0
            for q in range(NODES):
                without += s.mass[k, j, q] * fast_exp(code * s.theta[k, j, q] + s.log_psis[k, j, q])
            value += math.log(s.whole[k, j] / without)
    return value


@compiled_apart
def change_members(s: Any, k: int, d: int, sign: int) -> None:
    """Ranking d joins (+1) or leaves (−1) slot k: counts, and what the next predictive needs."""
    begin, end = s.starts[d], s.starts[d + 1]
    fill_codes(s.items, begin, end, s.places[k], s.codes)
    for j in range(end - begin):
        code = s.codes[j]
        s.seen[k, j] += sign
        s.total[k, j] += sign * code
        for c in range(s.n_items - j):
            s.chance[k, j, c] = -1.0
        n = s.seen[k, j]
        ratio = (s.nu * s.r[j] + s.total[k, j]) / (s.nu + n)
        moved = abs(ratio - s.placed[k, j, 1]) > s.placed[k, j, 2] or abs(n - s.placed[k, j, 0]) > _GROWTH * s.placed[k, j, 0]
        if s.stale[k, j] == 1 or n < FEW or moved:
            s.stale[k, j] = 1
            continue
        whole = 0.0
        for q in range(NODES):
            s.mass[k, j, q] *= fast_exp(-sign * (code * s.theta[k, j, q] + s.log_psis[k, j, q]))
            whole += s.mass[k, j, q]
        s.whole[k, j] = whole
        if not TINY < whole < _HUGE:
            s.whole[k, j] = 1.0
            for q in range(NODES):
                s.mass[k, j, q] /= whole


@compiled_apart
def forget_tables(s: Any, k: int) -> None:
    """Nothing is known of slot k but its ordering and counts."""
    for j in range(len(s.r)):
        s.stale[k, j] = 1
        for c in range(s.n_items - j):
            s.chance[k, j, c] = -1.0


@compiled_apart
def empty_slot(s: Any, k: int) -> None:
    """Slot k has no members."""
    for j in range(len(s.r)):
        s.seen[k, j], s.total[k, j] = 0, 0
    forget_tables(s, k)


@dataclass(frozen=True)
class GeneralizedMallows(RankingFamily):
    """Rankings, best first, of any length. Left None, `n_items` is one more than the largest item; r_j, the code expected at place j, is that of θ_j = 1; ν is worth so many rankings.

    >>> import maitre as mt
    >>> mt.families.GeneralizedMallows(4, nu=1.0, r=[0.5, 0.4, 0.3]).in_one_line()
    'GeneralizedMallows(n_items=4, nu=1, r=[0.5, 0.4, 0.3])'
    """

    n_items: int | None = None
    nu: float = 1.0
    r: Any = None

    POSITIVE = ("nu",)
    NOT_SAMPLED = ("nu", "r")
    MOVES = "mallows"
    statistics = MallowsStatistics

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.r is not None:
            r = real_numbers("r", self.r, above=0)
            if r.ndim > 1 or (r.ndim == 1 and self.n_items is not None and len(r) not in (1, self.n_items - 1)):
                raise ValueError(
                    f"r has shape {r.shape}; expected a number, or one for each of the {'n_items' if self.n_items is None else self.n_items} − 1 places"
                )
            object.__setattr__(self, "r", tuple(r.tolist()) if r.ndim else float(r))

    def defaults(self, data: Rankings) -> dict[str, Any]:
        n = data.n_items if self.n_items is None else self.n_items
        return {"n_items": n, "r": tuple(float(mean_code(n - j, 1.0)) for j in range(1, n))}

    def allocate(self, encoded: Ballots, capacity: int, places: int = 1) -> MallowsStatistics:
        """Slots without members, for rankings of at least so many places; those of a state get their orderings from it."""
        n = int(self.n_items or 2)
        longest = int(np.diff(encoded.starts).max(initial=places))
        r = np.broadcast_to(np.asarray(self.r, dtype=np.float64), (n - 1,))[:longest].copy()
        shape = (capacity, longest)
        sizes = np.array([(n - 1 - j) * (FEW + 2) * (FEW + 1) // 2 + FEW + 2 for j in range(longest)])
        ends = np.cumsum(sizes)
        kept = ends <= _MEMO
        log_first = np.zeros((longest, n))
        for j in range(longest):
            m = n - 1 - j
            base = log_beta_tilde(self.nu * r[j], self.nu + 1.0, m)
            log_first[j, : m + 1] = [log_beta_tilde(self.nu * r[j] + code, self.nu + 2.0, m) - base for code in range(m + 1)]
        orderings = np.tile(np.arange(n, dtype=np.int16), (capacity, 1))
        return MallowsStatistics(
            *encoded,
            n_items=n,
            nu=float(self.nu),
            r=r,
            log_alone=self.log_alone(n, longest),
            memo=np.full(int(sizes[kept].sum()), _UNKNOWN),
            memo_start=np.where(kept, ends - sizes, -1),
            orderings=orderings,
            places=orderings.copy(),
            seen=np.zeros(shape, dtype=np.int64),
            total=np.zeros(shape, dtype=np.int64),
            chance=np.full((*shape, n), -1.0),
            theta=np.zeros((*shape, NODES)),
            log_psis=np.zeros((*shape, NODES)),
            mass=np.zeros((*shape, NODES)),
            whole=np.zeros(shape),
            stale=np.ones(shape, dtype=np.int64),
            placed=np.zeros((*shape, 3)),
            codes=np.zeros(n, dtype=np.int64),
            log_first=log_first,
            room=np.zeros((4, n)),
            pairs=np.zeros((n, n)),
        )


GeneralizedMallows.EXAMPLES = (
    Example(GeneralizedMallows(4, 1.0, [0.5, 0.4, 0.3]), [[0, 1, 2], [0, 1], [1, 0, 3], [3]]),
    Example(GeneralizedMallows(3, 1.3, 1.0), [[0, 1], [1], [2, 1], [0, 2], [1]]),
)
