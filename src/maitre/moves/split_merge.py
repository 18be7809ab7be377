"""Split–merge: two random points propose to part their cluster, or to join their two clusters.

Target: p(C, x) ∝ V(n, K) ∏_c W(|c|) p(x_c). Two points i ≠ j are picked uniformly. With S the other members of their cluster or clusters, a proposal density q over
the ways to share S between i's side and j's side is built from (S, i, j) and fresh randomness only, never from the present split. If i and j sit together, a split
c → (a, b) is drawn from q; otherwise the merge is proposed and q is evaluated at the present split. The Metropolis–Hastings ratio of the split is

    [V(n, K+1) / V(n, K)] · W(|a|) W(|b|) / W(|c|) · p(x_a) p(x_b) / p(x_c) / q(split),

and that of the merge its inverse, so the posterior is left invariant. Two ways to build q:

- `sams` (Dahl 2003): S in random order, each point to a side with probability ∝ W-ratio × predictive given the points placed before it;
- `restricted_gibbs` (Jain & Neal 2004): fair coins, `scans` restricted Gibbs scans (the launch state), then one more scan, whose probabilities make up q.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from maitre.families.base import ConjugateFamily
from maitre.families.statistics import add, clear, log_marginal, log_predictive, log_predictive_without, refresh, remove
from maitre.moves.base import Move, Report
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_below, draw_event, draw_log
from maitre.numerics.elementary import is_finite
from maitre.numerics.rng import RngState
from maitre.states.mixture import MixtureState, Model, first_empty

_TEMPORARY_SLOTS = 3


@kernel
def propose(
    s: Any,
    scans: int,
    labels: Slots,
    sizes: Ints,
    occupancy: Ints,
    log_join: Floats,
    log_v: Floats,
    log_w: Floats,
    members: Ints,
    sides: Slots,
    scratch: Floats,
    rng: Any,
) -> tuple[bool, float, int]:
    """One proposal; `scans` < 0 means sequential allocation. Needs three empty slots.

    Returns whether it was accepted, the change of the log joint, and the cost. A proposal whose ratio is no number (a prior that allows no more clusters, or a density
    that underflows) is rejected. One function rather than several: its parts share a dozen local variables.
    """
    n = len(labels)
    i = draw_below(n, rng)
    j = draw_below(n - 1, rng)
    if j >= i:
        j += 1
    first, second = np.int64(labels[i]), np.int64(labels[j])
    splitting = first == second
    left = first_empty(sizes, 0)
    right = first_empty(sizes, left + 1)
    whole = first_empty(sizes, right + 1)
    n_members = 0
    for k in range(n):
        if (labels[k] == first or labels[k] == second) and k != i and k != j:
            members[n_members] = k
            n_members += 1
    for t in range(n_members - 1, 0, -1):
        other = draw_below(t + 1, rng)
        members[t], members[other] = members[other], members[t]

    sizes[left] = sizes[right] = 1
    add(s, left, i)
    refresh(s, left)
    add(s, right, j)
    refresh(s, right)
    weights = scratch[:2]
    room = scratch[2:]
    if scans >= 0:  # the launch state starts from fair coins
        for t in range(n_members):
            side = left if draw_below(2, rng) == 0 else right
            add(s, side, members[t])
            sizes[side] += 1
            sides[t] = side
        refresh(s, left)
        refresh(s, right)
    log_q, impossible = 0.0, False
    for scan in range(max(scans, 0) + 1):
        last = scan == max(scans, 0)
        for t in range(n_members):
            point = members[t]
            own = sides[t] if scans >= 0 else -1
            for position in range(2):
                side = left if position == 0 else right
                m = sizes[side] - 1 if side == own else sizes[side]
                score = log_predictive_without(s, side, point) if side == own else log_predictive(s, side, point)
                weights[position] = log_w[m + 1] - log_w[m] + score
            if last and not splitting:
                chosen = 0 if labels[point] == first else 1
            else:
                chosen = draw_log(weights, 2, room, rng)
                impossible = impossible or chosen < 0
                chosen = max(chosen, 0)
            if last:
                highest = max(weights[0], weights[1])
                log_q += weights[chosen] - highest - math.log(math.exp(weights[0] - highest) + math.exp(weights[1] - highest))
            side = left if chosen == 0 else right
            if side != own:
                if own >= 0:
                    remove(s, own, point)
                    refresh(s, own)
                    sizes[own] -= 1
                add(s, side, point)
                refresh(s, side)
                sizes[side] += 1
            sides[t] = side
    n_clusters = occupancy[0]
    fewer = n_clusters if splitting else n_clusters - 1
    if splitting:
        together = log_marginal(s, first)
    else:
        add(s, whole, i)
        add(s, whole, j)
        for t in range(n_members):
            add(s, whole, members[t])
        refresh(s, whole)
        together = log_marginal(s, whole)
    total = n_members + 2
    apart = log_marginal(s, left) + log_marginal(s, right)
    log_ratio = log_v[fewer + 1] - log_v[fewer] + log_w[sizes[left]] + log_w[sizes[right]] - log_w[total] + apart - together
    change = log_ratio if splitting else -log_ratio
    impossible = impossible or not is_finite(change) or not is_finite(log_q)
    accepted = not impossible and draw_event(change - log_q if splitting else change + log_q, rng)
    if accepted and splitting:
        labels[i], labels[j] = left, right
        for t in range(n_members):
            labels[members[t]] = sides[t]
        sizes[first] = 0
        clear(s, first)
        refresh(s, first)
        n_clusters += 1
    elif accepted:
        labels[i] = labels[j] = whole
        for t in range(n_members):
            labels[members[t]] = whole
        sizes[first] = sizes[second] = 0
        sizes[whole] = total
        for emptied in (first, second):
            clear(s, emptied)
            refresh(s, emptied)
        n_clusters -= 1
    if not (accepted and splitting):
        sizes[left] = sizes[right] = 0
        clear(s, left)
        refresh(s, left)
        clear(s, right)
        refresh(s, right)
        if not accepted:
            clear(s, whole)
            refresh(s, whole)
    for slot in (first, second, left, right, whole):
        log_join[slot] = log_w[sizes[slot] + 1] - log_w[sizes[slot]] if sizes[slot] > 0 else -np.inf
    occupancy[0] = n_clusters
    occupancy[2] = first_empty(sizes, 0)
    occupancy[1] = max(occupancy[1], max(left, max(right, whole)) + 1, occupancy[2] + 1)
    return accepted, change if accepted else 0.0, 2 * n_members * (max(scans, 0) + 1)


def propose_once(state: MixtureState, scans: int, rng: Any) -> tuple[bool, int]:
    """One split or merge proposal on a state; returns whether it was accepted and its cost in predictive evaluations."""
    while np.count_nonzero(state.sizes == 0) < _TEMPORARY_SLOTS:
        state.make_room()
    n = state.model.n
    room = (np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int32), np.zeros(4))
    accepted, change, cost = state.run(propose, scans, state.labels, state.sizes, state.occupancy, state.log_join, state.log_v, state.log_w, *room, rng)
    state.log_joint += change
    state.changes += cost // 2 if accepted else 0
    return bool(accepted), int(cost)


class SplitMerge(Move):
    """Split and merge proposals: `method` is "sams" (sequential allocation) or "restricted_gibbs" with `scans` scans in the launch state."""

    name = "split_merge"

    def __init__(self, method: Literal["sams", "restricted_gibbs"] = "sams", scans: int = 3, proposals: int = 1) -> None:
        if method not in ("sams", "restricted_gibbs"):
            raise ValueError(f"method is {method!r}; expected 'sams' or 'restricted_gibbs'")
        if scans < 0 or proposals < 1:
            raise ValueError(f"scans={scans}, proposals={proposals}: at least 0 and 1 are needed")
        self.method, self.proposals = method, proposals
        self.scans = -1 if method == "sams" else scans

    def check(self, model: Model) -> None:
        if not isinstance(model.family, ConjugateFamily):
            raise ValueError(
                f"move 'split_merge' needs the closed marginals of a conjugate family; {type(model.family).__name__} has none: use moves='auxiliary'"
            )

    def step(self, state: MixtureState, rng: RngState) -> Report:
        if state.model.n < 2:
            return Report(0)
        outcomes = [propose_once(state, self.scans, rng) for _ in range(self.proposals)]
        return Report(sum(cost for _, cost in outcomes), len(outcomes), sum(accepted for accepted, _ in outcomes))
