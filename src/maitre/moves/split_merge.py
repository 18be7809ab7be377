"""Split–merge: two random points propose to part their cluster, or to join their two clusters.

Target: p(C, x) ∝ V(n, K) ∏_c W(|c|) p(x_c). Point i is picked uniformly; j, with probability ½, among the others of i's cluster (if there are any), else among all
others. With S the other members of their cluster or clusters, a proposal density q over the ways to share S between i's side and j's side is built from (S, i, j)
and fresh randomness only, never from the present split. If i and j sit together, a split c → (a, b) is drawn from q; otherwise the merge is proposed and q is
evaluated at the present split. The Metropolis–Hastings ratio of the split is

    [V(n, K+1) / V(n, K)] · W(|a|) W(|b|) / W(|c|) · p(x_a) p(x_b) / p(x_c) · P(pick i, j | a, b) / P(pick i, j | c) / q(split),

and that of the merge its inverse, so the posterior is left invariant. A merge's ratio without q needs merged statistics only, and q ≤ 1: nearly all hopeless merges are
rejected before q is computed, by a first coin with that ratio, and a second one with what q adds to it. Two ways to build q:

- `sams` (Dahl 2003): S in random order, each point to a side with probability ∝ W-ratio × predictive given the points placed before it;
- `restricted_gibbs` (Jain & Neal 2004): fair coins, `scans` restricted Gibbs scans (the launch state), then one more scan, whose probabilities make up q.

A third, `launch`, has explicit parameters in its scans (`maitre.moves.launch`).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from maitre.families.statistics import (
    add,
    clear,
    derive,
    log_marginal,
    log_predictive,
    log_predictive_raw,
    log_predictive_without,
    merge,
    mergeable,
    refresh,
    remove,
)
from maitre.moves.base import Move, Report
from maitre.moves.launch import propose_launched
from maitre.moves.pairs import fill_members, list_members, log_chance, pick_pair
from maitre.numerics.arguments import one_of, whole_number
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import draw_below, draw_event, draw_log, shuffle
from maitre.numerics.elementary import is_finite
from maitre.numerics.rng import RngState
from maitre.states.mixture import MixtureState, first_empty

_TEMPORARY_SLOTS = 3
_COST = 12  # one evaluation here, with its share of an update, takes about as long as so many in a sweep of Gibbs, unless to absorb a point takes longer


@kernel
def propose(
    s: Any,
    proposals: int,
    scans: int,
    labels: Slots,
    sizes: Ints,
    occupancy: Ints,
    log_join: Floats,
    log_v: Floats,
    log_w: Floats,
    members: Ints,
    begin: Ints,
    rest: Ints,
    sides: Slots,
    scratch: Floats,
    rng: Any,
) -> tuple[int, int, float, int, int]:
    """Make proposals until they are done or fewer than three slots are empty; `scans` < 0 means sequential allocation.

    Returns how many were made and accepted, the change of the log joint, the cost in evaluations, and the number of points that changed seat. A proposal whose
    ratio is no number (a prior that allows no more clusters, or a density that underflows) is rejected. One function rather than several: its parts share a dozen
    local variables. `members` is room for two numbers per point, `rest` and `sides` for one.
    """
    n = len(labels)
    taken = fill_members(labels, sizes, members, begin)
    n_accepted, total_change, cost, moved = 0, 0.0, 0, 0
    left = right = whole = -1
    for proposal in range(proposals):
        if left < 0:  # empty slots for i's side, j's side and their union
            left = first_empty(sizes, 0)
            right = first_empty(sizes, left + 1) if left >= 0 else -1
            whole = first_empty(sizes, right + 1) if right >= 0 else -1
            if whole < 0:
                return proposal, n_accepted, total_change, cost, moved
        i, j = pick_pair(labels, sizes, members, begin, rng)
        first: Any = np.int64(labels[i])
        second: Any = np.int64(labels[j])
        splitting = first == second
        cost += 1

        fewer = occupancy[0] if splitting else occupancy[0] - 1
        total = sizes[first] if splitting else sizes[first] + sizes[second]
        change, passed = 0.0, True  # of the log joint, if this is a merge
        if not splitting:
            if mergeable(s):
                for slot in (first, second):
                    merge(s, whole, slot)
            else:
                for slot in (first, second):
                    for t in range(begin[slot], begin[slot] + sizes[slot]):
                        add(s, whole, members[t])
            change = log_v[fewer] - log_v[fewer + 1] + log_w[total] - log_w[sizes[first]] - log_w[sizes[second]]
            for slot in (whole, first, second):
                change += log_marginal(s, slot) if slot == whole else -log_marginal(s, slot)
            odds = change + log_chance(n, total, 0, True) - log_chance(n, sizes[first], sizes[second], False)
            passed = is_finite(odds) and draw_event(odds, rng)
        accepted = False
        if passed:
            n_rest = 0
            for part in range(1 if splitting else 2):
                slot = first if part == 0 else second
                for t in range(begin[slot], begin[slot] + sizes[slot]):
                    if members[t] != i and members[t] != j:
                        rest[n_rest] = members[t]
                        n_rest += 1
            shuffle(rest[:n_rest], rng)
            cost += 2 * n_rest * (max(scans, 0) + 1)
            for t in range(-2, n_rest if scans >= 0 else 0):  # i, j, and in a launch state the others by fair coins
                side = left if t == -2 or (t >= 0 and draw_below(2, rng) == 0) else right
                add(s, side, rest[t] if t >= 0 else i if t == -2 else j)
                sizes[side] += 1
                if t >= 0:
                    sides[t] = side
            if scans >= 0:
                for slot in (left, right):
                    refresh(s, slot)
            weights, room = scratch[:2], scratch[2:]
            log_q, impossible = 0.0, False
            for scan in range(max(scans, 0) + 1):
                last = scan == max(scans, 0)
                for t in range(n_rest):
                    point = rest[t]
                    own = sides[t] if scans >= 0 else -1
                    for position in range(2):
                        side = left if position == 0 else right
                        m = sizes[side] - 1 if side == own else sizes[side]
                        if scans < 0:
                            score = log_predictive_raw(s, side, point)
                        elif side == own:
                            score = log_predictive_without(s, side, point)
                        else:
                            score = log_predictive(s, side, point)
                        weights[position] = log_w[m + 1] - log_w[m] + score
                    if last and not splitting:
                        chosen = 0 if labels[point] == first else 1
                    else:
                        chosen = draw_log(weights, 2, room, rng)
                        impossible = impossible or chosen < 0
                        chosen = max(chosen, 0)
                    if last:
                        gap = weights[1 - chosen] - weights[chosen]
                        log_q -= gap + math.log1p(math.exp(-gap)) if gap > 0.0 else math.log1p(math.exp(gap))
                    side = left if chosen == 0 else right
                    if side != own:
                        add(s, side, point)
                        sizes[side] += 1
                        if own >= 0:
                            remove(s, own, point)
                            sizes[own] -= 1
                            for slot in (left, right):
                                refresh(s, slot)
                    sides[t] = side
            if splitting:
                change = log_v[fewer + 1] - log_v[fewer] + log_w[sizes[left]] + log_w[sizes[right]] - log_w[total]
                for slot in (left, right, first):
                    change += -log_marginal(s, slot) if slot == first else log_marginal(s, slot)
                odds = change + log_chance(n, sizes[left], sizes[right], False) - log_chance(n, total, 0, True) - log_q
            else:
                odds = min(0.0, odds + log_q) - min(0.0, odds)
            accepted = not impossible and is_finite(odds) and draw_event(odds, rng)

        if accepted:
            n_accepted += 1
            moved += total
            total_change += change
            if splitting:
                labels[i], labels[j] = left, right
                for t in range(n_rest):
                    labels[rest[t]] = sides[t]
                begin[left], begin[right] = begin[first], begin[first] + sizes[left]
                at_left, at_right = begin[left], begin[right]
                members[at_left], members[at_right] = i, j
                for t in range(n_rest):
                    if sides[t] == left:
                        at_left += 1
                        members[at_left] = rest[t]
                    else:
                        at_right += 1
                        members[at_right] = rest[t]
            else:
                labels[i] = labels[j] = whole
                for t in range(n_rest):
                    labels[rest[t]] = whole
                sizes[whole] = total
            sizes[first] = sizes[second] = 0
            occupancy[0] += 1 if splitting else -1
        if passed and not (accepted and splitting):
            sizes[left] = sizes[right] = 0
        for slot in (left, right, whole, first, second):
            used = accepted or (passed and slot in (left, right)) or (slot == whole and not splitting)
            if used and sizes[slot] == 0:
                clear(s, slot)
                refresh(s, slot)
            elif used:
                derive(s, slot)
        if accepted:
            for slot in (first, second, left, right, whole):
                log_join[slot] = log_w[sizes[slot] + 1] - log_w[sizes[slot]] if sizes[slot] > 0 else -np.inf
            occupancy[2] = first_empty(sizes, 0)
            occupancy[1] = max(occupancy[1], max(left, max(right, whole)) + 1, occupancy[2] + 1)
            if not splitting:
                if taken + total > len(members):
                    taken = fill_members(labels, sizes, members, begin)
                else:
                    begin[whole] = taken
                    members[taken], members[taken + 1] = i, j
                    for t in range(n_rest):
                        members[taken + 2 + t] = rest[t]
                    taken += total
            left = -1
    return proposals, n_accepted, total_change, cost, moved


def propose_many(state: MixtureState, proposals: int, scans: int, rng: Any) -> Report:
    """Split or merge proposals on a state, making room for more clusters when needed."""
    n, made, accepted, cost = state.model.n, 0, 0, 0
    if n < 2:
        return Report(0)
    room = (np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int32), np.zeros(4))
    while made < proposals:
        while np.count_nonzero(state.sizes == 0) < _TEMPORARY_SLOTS:
            state.make_room()
        lists = (np.empty(2 * n, dtype=np.int64), np.empty(state.capacity, dtype=np.int64))
        arrays = (state.labels, state.sizes, state.occupancy, state.log_join, state.log_v, state.log_w, *lists, *room)
        done, successes, change, evaluations, moved = state.run(propose, proposals - made, scans, *arrays, rng)
        state.log_joint += change
        state.changes += int(moved)
        made, accepted, cost = made + int(done), accepted + int(successes), cost + int(evaluations)
    return Report(max(_COST, state.model.family.absorb_cost(state.model.encoded)) * cost, made, accepted)


def launch_many(state: MixtureState, proposals: int, scans: int, rng: Any, noise: Any = None) -> Report:
    """Split or merge proposals whose launch has explicit parameters; `noise` is where these come from, if not from `rng`."""
    n, accepted, fresh = state.model.n, 0, True
    for _ in range(proposals if n > 1 else 0):
        while np.count_nonzero(state.sizes == 0) < _TEMPORARY_SLOTS:
            state.make_room()
            fresh = True
        if fresh:
            members, begin = np.empty(n, dtype=np.int64), np.empty(state.capacity, dtype=np.int64)
            (list_members if state.compiled else fill_members)(state.labels, state.sizes, members, begin)
        arrays = (state.labels, state.sizes, state.n_clusters, state.log_v, state.log_w, members, begin)
        fresh = bool(state.run(propose_launched, scans, *arrays, rng, rng if noise is None else noise))
        if fresh:
            accepted += 1
            state.rebuild()
            state.log_joint = state.compute_log_joint()
    return Report(_COST * 2 * (scans + 1) * n // max(1, state.n_clusters) * proposals, proposals, accepted)


class SplitMerge(Move):
    """Split and merge proposals: `method` is "sams" (sequential allocation), or "restricted_gibbs" or "launch" with `scans` scans in the launch state.

    >>> import maitre as mt
    >>> moves = [mt.moves.Gibbs(), mt.moves.SplitMerge("restricted_gibbs", scans=3)]
    """

    name = "split_merge"
    needs = ("marginals",)

    def __init__(self, method: Literal["sams", "restricted_gibbs", "launch"] = "sams", scans: int = 3, proposals: int = 1) -> None:
        self.method = one_of("method", method, ("sams", "restricted_gibbs", "launch"))
        self.needs = ("marginals", "parameters") if method == "launch" else ("marginals",)  # type: ignore[misc, assignment]
        self.scans, self.proposals = whole_number("scans", scans), whole_number("proposals", proposals, least=1)

    def step(self, state: MixtureState, rng: RngState) -> Report:
        return self.steps(state, rng, 1)

    def steps(self, state: MixtureState, rng: RngState, repeats: int) -> Report:
        if self.method == "launch":
            return launch_many(state, repeats * self.proposals, self.scans, rng)
        return propose_many(state, repeats * self.proposals, -1 if self.method == "sams" else self.scans, rng)
