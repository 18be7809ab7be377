"""Compiled passes over points in groups: their statistics, the probability of their labels, and counts by group, cluster and word."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.families.statistics import add, derive
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.compilation import compiled, kernel
from maitre.numerics.elementary import fast_lgamma


@kernel
def fill_slots(s: Any, labels: Slots, begin: int, end: int) -> None:
    """Statistics of these slots, which are empty, from the labels."""
    for i in range(len(labels)):
        if begin <= labels[i] < end:
            add(s, np.int64(labels[i]), i)
    for k in range(begin, end):
        derive(s, k)


@compiled
def fill_words(word: Any, labels: Slots, seen: Any, begin: int, end: int) -> None:
    """Counts of these words, which are 0, from the labels. Words stand in order within a group, so that it is foreseeable which are met."""
    for i in range(len(labels)):
        if begin <= word[i] < end:
            seen[word[i], labels[i]] += 1


@compiled
def log_urns(labels: Slots, starts: Ints, weights: Floats, gammas: Floats, counts: Ints) -> float:
    """Σ_m log [Γ(γ)/Γ(γ+N_m) ∏_k Γ(γβ_k + n_mk)/Γ(γβ_k)], with γ of each group."""
    total, group = 0.0, 0.0
    mass, base = np.empty(len(weights)), np.empty(len(weights))
    for m in range(len(starts) - 1):
        if gammas[m] != group:
            group = gammas[m]
            for k in range(len(mass)):
                mass[k] = group * weights[k]
                base[k] = math.lgamma(mass[k]) if mass[k] > 0.0 else 0.0
        total += math.lgamma(group) - math.lgamma(group + (starts[m + 1] - starts[m]))
        for i in range(starts[m], starts[m + 1]):
            counts[labels[i]] += 1
        for i in range(starts[m], starts[m + 1]):
            k = labels[i]
            if counts[k] > 0:
                total += math.log(mass[k]) if counts[k] == 1 else fast_lgamma(mass[k] + counts[k]) - base[k]
                counts[k] = 0
    return total


def cells_of_groups(labels: Slots, starts: Ints, slots: Ints, capacity: int) -> tuple[Ints, Any]:
    """The clusters in these slots of each group, as (group · number of clusters + cluster), in order, and how many points the group has in each."""
    numbers = np.zeros(capacity, dtype=np.int64)
    numbers[slots] = np.arange(len(slots))
    n_cells = _count_cells(labels, starts, capacity)
    cells, counts = np.empty(n_cells, dtype=np.int64), np.empty(n_cells, dtype=np.int32)
    _list_clusters(labels, starts, numbers, len(slots), cells, counts)
    return cells, counts


@compiled
def _count_cells(labels: Slots, starts: Ints, capacity: int) -> int:
    found, last = 0, np.full(capacity, -1, dtype=np.int64)
    for m in range(len(starts) - 1):
        for i in range(starts[m], starts[m + 1]):
            if last[labels[i]] != m:
                last[labels[i]] = m
                found += 1
    return found


@compiled
def _list_clusters(labels: Slots, starts: Ints, numbers: Ints, n_clusters: int, cells: Ints, counts: Any) -> None:
    found = 0
    here = np.zeros(n_clusters, dtype=np.int64)
    for m in range(len(starts) - 1):
        begin = found
        for i in range(starts[m], starts[m + 1]):
            k = numbers[labels[i]]
            if here[k] == 0:
                cells[found] = k
                found += 1
            here[k] += 1
        cells[begin:found].sort()
        for c in range(begin, found):
            k = cells[c]
            cells[c], counts[c] = m * n_clusters + k, here[k]
            here[k] = 0


def largest_count(words: Any, labels: Slots, some: Ints, n_clusters: int) -> int:
    """How often one of some words is in a cluster, at most."""
    row = np.full(int(words.max()) + 1, -1, dtype=np.int64)
    row[some] = np.arange(len(some))
    counts = np.zeros((len(some), n_clusters), dtype=np.int64)
    _count_some(words, labels, row, counts)
    return int(counts.max())


@compiled
def _count_some(words: Any, labels: Slots, row: Ints, counts: Ints) -> None:
    for i in range(len(labels)):
        if row[words[i]] >= 0:
            counts[row[words[i]], labels[i]] += 1


@compiled
def sizes_of(labels: Slots, capacity: int) -> Ints:
    """How many points each slot has."""
    sizes = np.zeros(capacity, dtype=np.int64)
    for i in range(len(labels)):
        sizes[labels[i]] += 1
    return sizes


@compiled
def follow_tables(at: Any, dishes: Slots, labels: Slots) -> None:
    """labels[i] is what the table of point i serves."""
    for table in range(len(dishes)):
        for place in range(at.begin[table], at.begin[table] + at.sizes[table]):
            labels[np.int64(at.first[table]) + at.points[place]] = dishes[table]


@compiled
def first_places(labels: Slots, capacity: int, n_clusters: int) -> Ints:
    """The place of the first point of each cluster; their number for slots without one."""
    first, found = np.full(capacity, len(labels)), 0
    for i in range(len(labels)):
        if first[labels[i]] > i:
            first[labels[i]] = i
            found += 1
            if found == n_clusters:
                break
    return first


def cells_of_topics(seen: Any, slots: Ints) -> tuple[Ints, Any]:
    """The words of the topics in these slots, as (position of the topic · number of words + word), in order, and how often each is in its topic."""
    ends = np.zeros(seen.shape[1], dtype=np.int64)
    _count_different(seen, ends)
    sizes = ends[slots]
    ends[slots] = np.cumsum(sizes) - sizes  # where each topic begins
    cells, counts, position = np.empty(sizes.sum(), dtype=np.int64), np.empty(sizes.sum(), dtype=np.int32), np.zeros(seen.shape[1], dtype=np.int64)
    position[slots] = np.arange(len(slots))
    _list_words(seen, position, ends, cells, counts)
    return cells, counts


@compiled
def _count_different(seen: Any, different: Ints) -> None:
    for w in range(seen.shape[0]):
        for k in range(seen.shape[1]):
            different[k] += 1 if seen[w, k] > 0 else 0


@compiled
def _list_words(seen: Any, position: Ints, places: Ints, cells: Ints, counts: Any) -> None:
    for w in range(seen.shape[0]):
        for k in range(seen.shape[1]):
            if seen[w, k] > 0:
                cells[places[k]], counts[places[k]] = position[k] * seen.shape[0] + w, seen[w, k]
                places[k] += 1
