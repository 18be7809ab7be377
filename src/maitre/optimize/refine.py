"""Making a clustering better: hill climbing by points, splits and merges, and annealing to get over the next hill.

Every step of `climb` raises the log joint or leaves it: points move to the cluster with the largest weight, a cluster is split (two random members as seeds, the others
to the better side, a few restricted passes) if that raises the log joint, and a cluster is merged with one of its neighbours if that does. The climb ends when a few
rounds of splits with fresh seeds change nothing.

`reheat` makes a few Gibbs sweeps with probabilities raised to a power that grows from well below 1 to above 1: clusters dissolve, more than are needed form, and those that
are not worth it are given up again; then it climbs. `shake` does that with a few neighbouring clusters only, at a cost that goes with their size. What they reach is
kept if it is higher (`kept_if_better`), so the log joint of the result never falls. Nothing here samples from the posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maitre.families.statistics import (
    add,
    clear,
    derive,
    log_marginal,
    log_predictive,
    log_predictive_all,
    log_predictive_without,
    merge,
    mergeable,
    refresh,
    remove,
)
from maitre.moves.gibbs import reseat_points
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import kernel
from maitre.numerics.draw import Tempered, draw_below, shuffle
from maitre.numerics.rng import RngState
from maitre.states.mixture import MixtureState, first_empty

NEIGHBOURS = 4
_PASSES = 3  # restricted passes of a split; sweeps between rounds of splits and merges
_PATIENCE = 3  # rounds without a change after which a climb ends
_NEARLY = 30.0  # a shaken neighbourhood that ends this far below may still gain from the points around it
_CROWD = 0.15  # the largest share of all points to shake at once
_COLD = 2.0  # power at which annealing ends and climbing begins
_SMALLEST = 1e-7  # a change of the log joint below this is rounding


@kernel
def split_clusters(
    s: Any,
    clusters: Ints,
    start: Ints,
    members: Ints,
    labels: Slots,
    sizes: Ints,
    occupancy: Ints,
    log_join: Floats,
    log_v: Floats,
    log_w: Floats,
    sides: Slots,
    rng: Any,
) -> tuple[float, int]:
    """Try one split of each of the clusters, whose members are members[start[c] : start[c + 1]]; returns the gain and how many were made. Needs two empty slots for each.

    One function rather than several: everything that touches statistics is compiled here."""
    gained, accepted = 0.0, 0
    for t in range(len(clusters)):
        c = clusters[t]
        m, base = sizes[c], start[c]
        left = first_empty(sizes, 0)
        right = first_empty(sizes, left + 1)
        i = draw_below(m, rng)
        j = draw_below(m - 1, rng)
        if j >= i:
            j += 1
        for u in range(m):
            sides[u] = -1
        sides[i], sides[j] = left, right
        sizes[left] = sizes[right] = 1
        add(s, left, members[base + i])
        refresh(s, left)
        add(s, right, members[base + j])
        refresh(s, right)
        for scan in range(_PASSES + 1):
            moved = 0
            for u in range(m):
                point, own = members[base + u], sides[u]
                if own >= 0 and (scan == 0 or sizes[own] == 1):
                    continue
                if own < 0:
                    own_weight = log_w[sizes[left] + 1] - log_w[sizes[left]] + log_predictive(s, left, point)
                    other = right
                else:
                    own_weight = log_w[sizes[own]] - log_w[sizes[own] - 1] + log_predictive_without(s, own, point)
                    other = left + right - own
                other_weight = log_w[sizes[other] + 1] - log_w[sizes[other]] + log_predictive(s, other, point)
                side = other if other_weight > own_weight else (left if own < 0 else own)
                if side != own:
                    moved += 1
                    if own >= 0:
                        remove(s, own, point)
                        refresh(s, own)
                        sizes[own] -= 1
                    add(s, side, point)
                    refresh(s, side)
                    sizes[side] += 1
                    sides[u] = side
            if moved == 0:
                break
        k = occupancy[0]
        gain = log_v[k + 1] - log_v[k] + log_w[sizes[left]] + log_w[sizes[right]] - log_w[m]
        gain += log_marginal(s, left) + log_marginal(s, right) - log_marginal(s, c)
        if gain > _SMALLEST:
            gained += gain
            accepted += 1
            occupancy[0] = k + 1
            for u in range(m):
                labels[members[base + u]] = sides[u]
            sizes[c] = 0
            clear(s, c)
            refresh(s, c)
            log_join[c] = -np.inf
            log_join[left] = log_w[sizes[left] + 1] - log_w[sizes[left]]
            log_join[right] = log_w[sizes[right] + 1] - log_w[sizes[right]]
            occupancy[1] = max(occupancy[1], max(left, right) + 1)
        else:
            sizes[left] = sizes[right] = 0
            clear(s, left)
            refresh(s, left)
            clear(s, right)
            refresh(s, right)
    occupancy[2] = first_empty(sizes, 0)
    occupancy[1] = max(occupancy[1], occupancy[2] + 1)
    return gained, accepted


@kernel
def merge_clusters(
    s: Any,
    clusters: Ints,
    start: Ints,
    members: Ints,
    labels: Slots,
    sizes: Ints,
    occupancy: Ints,
    log_join: Floats,
    log_v: Floats,
    log_w: Floats,
    weights: Floats,
    into: Slots,
    rng: Any,
) -> tuple[float, int]:
    """Merge each of the clusters with that of its neighbours with which the log joint rises most, if it does. Needs one empty slot.

    Neighbours are the clusters that a random member would join most readily. `into` says where the points of a slot have gone: itself to begin with."""
    gained, accepted, n_slots = 0.0, 0, occupancy[1]
    room = occupancy[2]
    for t in range(len(clusters)):
        c = clusters[t]
        if sizes[c] == 0:
            continue
        for k in range(n_slots):
            weights[k] = log_join[k]
        log_predictive_all(s, members[start[c] + draw_below(start[c + 1] - start[c], rng)], n_slots, weights)
        weights[c] = -np.inf
        best, highest, k = -1, _SMALLEST, occupancy[0]
        own = log_marginal(s, c)
        for _ in range(NEIGHBOURS):
            near = 0
            for other in range(1, n_slots):
                if weights[other] > weights[near]:
                    near = other
            if sizes[near] == 0 or near == c:
                break
            weights[near] = -np.inf
            clear(s, room)
            merge(s, room, c)
            merge(s, room, near)
            gain = log_v[k - 1] - log_v[k] + log_w[sizes[c] + sizes[near]] - log_w[sizes[c]] - log_w[sizes[near]]
            gain += log_marginal(s, room) - own - log_marginal(s, near)
            if gain > highest:
                best, highest = near, gain
        clear(s, room)
        derive(s, room)
        if best >= 0:
            gained += highest
            accepted += 1
            occupancy[0] = k - 1
            merge(s, best, c)
            derive(s, best)
            sizes[best] += sizes[c]
            log_join[best] = log_w[sizes[best] + 1] - log_w[sizes[best]]
            sizes[c] = 0
            clear(s, c)
            derive(s, c)
            log_join[c] = -np.inf
            into[c] = best
    if accepted > 0:
        for i in range(len(labels)):
            while into[labels[i]] != labels[i]:
                labels[i] = into[labels[i]]
        occupancy[2] = first_empty(sizes, 0)
    return gained, accepted


def _by_cluster(state: MixtureState, clusters: Ints) -> tuple[Ints, Ints]:
    """Where the members of each of these clusters begin, indexed by slot, and all their members, slot after slot."""
    wanted = np.zeros(state.capacity, dtype=bool)
    wanted[clusters] = True
    members = np.flatnonzero(wanted[state.labels])
    members = members[np.argsort(state.labels[members], kind="stable")]
    return np.concatenate([[0], np.cumsum(np.where(wanted, state.sizes, 0))]), members


def try_splits(state: MixtureState, clusters: Ints, rng: RngState) -> int:
    """One attempt to split each of these clusters; returns how many were split."""
    clusters = clusters[state.sizes[clusters] > 1]
    while np.count_nonzero(state.sizes == 0) < len(clusters) + 3:
        state.make_room()
    start, members = _by_cluster(state, clusters)
    arrays = (state.labels, state.sizes, state.occupancy, state.log_join, state.log_v, state.log_w)
    sides = np.empty(int(state.sizes.max()), dtype=np.int32)
    gain, accepted = state.run(split_clusters, clusters, start, members, *arrays, sides, rng)
    state.log_joint += gain
    return int(accepted)


def try_merges(state: MixtureState, clusters: Ints, rng: RngState) -> int:
    """One attempt to merge each of these clusters with a neighbour; returns how many merges were made. A family that cannot merge statistics is left as it is."""
    if not mergeable(state.statistics):
        return 0
    if state.occupancy[2] < 0:
        state.make_room()
    start, members = _by_cluster(state, clusters)
    arrays = (state.labels, state.sizes, state.occupancy, state.log_join, state.log_v, state.log_w, state.weights)
    into = np.arange(state.capacity, dtype=np.int32)
    gain, accepted = state.run(merge_clusters, clusters, start, members, *arrays, into, rng)
    state.log_joint += gain
    return int(accepted)


def reseat_tempered(state: MixtureState, points: Ints, power: float, rng: RngState) -> int:
    """Give these points new seats, in random order, with probabilities raised to a power (infinite: the best seat); returns how many moved."""
    shuffle(points, rng)
    return reseat_points(state, points, Tempered(rng, power)).accepted


def climb_once(state: MixtureState, points: Ints, rng: RngState) -> bool:
    """Splits and merges of the clusters that these points are in, then a few passes over the points; the log joint rises or stays. Whether anything has changed."""
    before, clusters = state.log_joint, np.unique(state.labels[points]).astype(np.int64)
    changed = try_splits(state, clusters, rng)
    changed += try_merges(state, np.unique(state.labels[points]).astype(np.int64) if changed else clusters, rng)
    for _ in range(_PASSES):
        labels = state.labels.copy()
        if reseat_tempered(state, points, np.inf, rng) == 0:
            break
        points = concerned(state, labels, points)
    return changed > 0 or state.log_joint > before + _SMALLEST


def concerned(state: MixtureState, labels: Slots, points: Ints) -> Ints:
    """Those of the points that sit in a cluster which points have joined or left since the labels were these: for the others little has changed."""
    moved = np.flatnonzero(labels != state.labels)
    changed = np.zeros(state.capacity, dtype=bool)
    changed[labels[moved]] = changed[state.labels[moved]] = True
    return points[changed[state.labels[points]]]


def climb(state: MixtureState, rng: RngState, stop: Callable[[], bool]) -> None:
    """Rounds until rounds over all points change nothing any more, or `stop()` is true. After a change only the clusters concerned are looked at, until they are settled."""
    everything = np.arange(state.model.n)
    points, quiet = everything, 0
    while quiet < _PATIENCE and not stop():
        state.tidy()
        labels = state.labels.copy()
        if climb_once(state, points.copy(), rng):
            points, quiet = concerned(state, labels, everything), 0
        else:
            quiet += len(points) == state.model.n
            points = everything


def kept_if_better(state: MixtureState, change: Callable[[], Any]) -> bool:
    """Make a change to the state and undo it unless the log joint is higher afterwards; whether it is."""
    labels, before = state.labels.copy(), state.log_joint
    change()
    if state.log_joint > before + _SMALLEST:
        return True
    state.seat(labels)
    return False


def reheat(state: MixtureState, lowest: float, rng: RngState, stop: Callable[[], bool], sweeps: int = 20) -> None:
    """Sweeps over all points at powers that grow from `lowest` to 2, then a climb."""
    points = np.arange(state.model.n)
    for power in np.geomspace(lowest, _COLD, sweeps):
        if stop():
            return
        state.tidy()
        reseat_tempered(state, points, float(power), rng)
    climb(state, rng, stop)


@kernel
def score_seats(s: Any, i: int, n_slots: int, log_join: Floats, out: Floats) -> None:
    """out[k] = the log weight with which point i would join slot k."""
    for k in range(n_slots):
        out[k] = log_join[k]
    log_predictive_all(s, i, n_slots, out)


def neighbourhood(state: MixtureState, n_clusters: int, rng: RngState) -> Ints:
    """The members of a random cluster and of a few clusters that one of them fits best, leaving out those that would make too large a crowd."""
    occupied = np.flatnonzero(state.sizes > 0)
    first = occupied[draw_below(len(occupied), rng)]
    members = np.flatnonzero(state.labels == first)
    n_slots = int(state.occupancy[1])
    state.run(score_seats, int(members[draw_below(len(members), rng)]), n_slots, state.log_join, state.weights)
    wanted, crowd = np.zeros(state.capacity, dtype=bool), state.sizes[first]
    wanted[first] = True
    for slot in np.argsort(-state.weights[:n_slots], kind="stable"):
        if not wanted[slot] and state.sizes[slot] > 0 and crowd + state.sizes[slot] <= _CROWD * state.model.n:
            wanted[slot] = True
            crowd += state.sizes[slot]
        if np.count_nonzero(wanted) == n_clusters:
            break
    return np.flatnonzero(wanted[state.labels])


def shake(state: MixtureState, n_clusters: int, lowest: float, rng: RngState, sweeps: int = 10) -> None:
    """Reheat a neighbourhood of a few clusters and climb there; if the log joint ends near where it was, the points around follow."""
    before, points = state.log_joint, neighbourhood(state, n_clusters, rng)
    for power in np.geomspace(lowest, _COLD, sweeps):
        reseat_tempered(state, points, float(power), rng)
    while climb_once(state, points, rng):
        pass
    if state.log_joint > before - _NEARLY:
        reseat_tempered(state, np.arange(state.model.n), np.inf, rng)
