"""Direct assignment for the hierarchical Dirichlet process (Teh, Jordan, Beal & Blei 2006): every point's cluster is redrawn given all others' and the common weights β.

A sweep visits the groups one after the other. Point i of group m, taken out, joins cluster k with probability ∝ (n_mk + γβ_k) p(x_i | x_k), a new one ∝ γβ_* p(x_i).
A new cluster breaks its weight off the rest, b ~ Beta(1, α); a cluster that becomes empty gives its weight back. When a group is done, the numbers of tables at which its
points would sit are drawn: of n_mk points, the q-th opens one with probability γβ_k / (γβ_k + q). Given the numbers m_k of tables, with T in all,

    (β_1, …, β_K, β_*) ~ Dirichlet(m_1, …, m_K, α),

and α and γ are drawn before, with β integrated out, by the auxiliary variables of Escobar & West (1995) and Teh et al.

Words have a kernel of their own. The weights of all clusters for a word are one product of two rows, (n_mk + γβ_k)/(V η + N_k) and η + N_kw, summed lane by lane of the vector
unit. It is done once for a run of equal words as long as none of them moves, with the point still in: what its own cluster's weight is without it is known, and whether it
stays is decided first. Sums are in single precision: a chance is right within about 1e-7 of the whole.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maitre.data.groups import GroupedRows
from maitre.families.statistics import add, clear, log_predictive_all, refresh, remove
from maitre.families.words import Words
from maitre.model import Model
from maitre.moves.base import Move, Report
from maitre.moves.dishes import split_and_merge
from maitre.moves.hyper import FamilyHyperparameters
from maitre.numerics.arguments import truth, whole_number
from maitre.numerics.arrays import Floats, Ints, Slots, prefetch_row
from maitre.numerics.compilation import compiled, compiled_form_of, kernel
from maitre.numerics.draw import draw_log
from maitre.numerics.prefix import add_lanes, pick_other
from maitre.numerics.rng import RngState, beta, log_gamma_variate, uniform
from maitre.priors.dirichlet_process import draw_concentration
from maitre.states.franchise import FranchiseState, LabelledFranchiseState
from maitre.states.mixture import first_empty

_MANY, _SOME, _EARLY = 20, 5, 300  # splits and merges in an iteration: early ones, and others
_OFTEN = 200_000  # points that are seated at tables in every iteration
_HELD = 10  # sweeps of burn-in before γ and η are sampled: from a rough start they would go astray, and not come back soon


def draw_tables(n: int, mass: float, rng: Any) -> int:
    """At how many tables n points sit whose urn has this mass."""
    tables = 1
    for q in range(1, n):
        if uniform(rng) * (mass + q) < mass:
            tables += 1
    return tables


compiled_form_of(draw_tables)(compiled(draw_tables))


@kernel
def sweep_points(
    s: Any, starts: Ints, labels: Slots, sizes: Ints, weights: Floats, rest: Floats, tables: Ints, top: float, group: float, place: Ints, rng: Any
) -> bool:
    """Groups from place[0] on, in the first of them points from place[1] on; false if slots run out, with `place` where to go on. rest[0] is β_*."""
    n_slots = len(sizes)
    counts, scores, scratch = np.zeros(n_slots, dtype=np.int64), np.empty(n_slots), np.empty(n_slots)
    for m in range(place[0], len(starts) - 1):
        for k in range(n_slots):
            counts[k] = 0
        for i in range(starts[m], starts[m + 1]):
            counts[labels[i]] += 1
        for i in range(max(starts[m], place[1]), starts[m + 1]):
            free = first_empty(sizes, 0)
            if free < 0:
                place[0], place[1] = m, i
                return False
            own: Any = np.int64(labels[i])
            remove(s, own, i)
            sizes[own] -= 1
            counts[own] -= 1
            if sizes[own] == 0:
                clear(s, own)
                rest[0] += weights[own]
                weights[own] = 0.0
            refresh(s, own)
            for k in range(n_slots):
                scores[k] = math.log(counts[k] + group * weights[k]) if sizes[k] > 0 else -np.inf
            scores[free] = math.log(group * rest[0])
            log_predictive_all(s, i, n_slots, scores)
            chosen = draw_log(scores, n_slots, scratch, rng)
            if sizes[chosen] == 0:
                weights[chosen] = beta(1.0, top, rng) * rest[0]
                rest[0] -= weights[chosen]
            add(s, chosen, i)
            refresh(s, chosen)
            labels[i] = chosen
            sizes[chosen] += 1
            counts[chosen] += 1
        for k in range(n_slots):
            if counts[k] > 0:
                tables[k] += draw_tables(counts[k], group * weights[k], rng)
    return True


@kernel
def sweep_words(
    s: Any, starts: Ints, labels: Slots, sizes: Ints, weights: Floats, rest: Floats, tables: Ints, top: float, group: float, place: Ints, rng: Any
) -> bool:
    """`sweep_points` for words."""
    n_slots = len(sizes)
    mass, base = s.n_words * s.concentration, np.float32(s.concentration)
    counts, factors, sums = np.zeros(n_slots, dtype=np.int64), np.zeros(n_slots, dtype=np.float32), np.zeros(n_slots, dtype=np.float32)
    free = first_empty(sizes, 0)
    for m in range(place[0], len(starts) - 1):
        for k in range(n_slots):
            counts[k] = 0
        for i in range(starts[m], starts[m + 1]):
            counts[labels[i]] += 1
        for k in range(n_slots):
            factors[k] = (counts[k] + group * weights[k]) / (mass + s.total[k])
        if free >= 0:
            factors[free] = group * rest[0] / mass
        valid, whole = False, 0.0
        word: Any = np.int64(-1)
        for i in range(max(starts[m], place[1]), starts[m + 1]):
            if free < 0:
                place[0], place[1] = m, i
                return False
            own: Any = np.int64(labels[i])
            if s.word[i] != word:
                valid, word = False, np.int64(s.word[i])
                following = i + 1
                while following < starts[m + 1] and s.word[following] == word:
                    following += 1
                if following < starts[m + 1]:
                    prefetch_row(s.seen, np.int64(s.word[following]))  # type: ignore[arg-type]
            alone = sizes[own] == 1
            if alone:  # without the point there is no such cluster: its slot is one more for a new one
                rest[0] += weights[own]
                weights[own] = 0.0
                sizes[own], counts[own], s.total[own], s.seen[word, own] = 0, 0, 0.0, np.float32(0.0)
                factors[own] = np.float32(0.0)
                factors[free] = group * rest[0] / mass
                valid = False
            row = s.seen[word]
            if not valid:
                whole = add_lanes(factors, row, base, sums)
                valid = True
            weight = factors[own] * (row[own] + base)
            without = 0.0
            if not alone:
                without = (counts[own] - 1 + group * weights[own]) / (mass + s.total[own] - 1.0) * (row[own] - 1.0 + s.concentration)
            x = uniform(rng) * (whole - weight + without)
            if x < without:
                continue
            chosen = pick_other(sums, factors, own, weight, x - without)
            if chosen < 0:
                chosen = free if alone else own
            if chosen == own:
                continue
            valid = False
            if not alone:
                sizes[own] -= 1
                counts[own] -= 1
                s.total[own] -= 1.0
                row[own] -= np.float32(1.0)
                factors[own] = (counts[own] + group * weights[own]) / (mass + s.total[own])
            labels[i] = chosen
            if sizes[chosen] == 0:
                weights[chosen] = beta(1.0, top, rng) * rest[0]
                rest[0] -= weights[chosen]
            sizes[chosen] += 1
            counts[chosen] += 1
            s.total[chosen] += 1.0
            row[chosen] += np.float32(1.0)
            factors[chosen] = (counts[chosen] + group * weights[chosen]) / (mass + s.total[chosen])
            if chosen == free or alone:
                if free >= 0 and sizes[free] == 0:
                    factors[free] = np.float32(0.0)
                free = first_empty(sizes, 0)
                if free >= 0:
                    factors[free] = group * rest[0] / mass
        for k in range(n_slots):
            if counts[k] > 0:
                tables[k] += draw_tables(counts[k], group * weights[k], rng)
    return True


@compiled
def draw_group_concentration(gamma: float, lengths: Ints, n_tables: int, shape: float, rate: float, rng: RngState) -> float:
    """γ | T and the groups' sizes: w_m ~ Beta(γ + 1, N_m) and s_m ~ Bernoulli(N_m / (N_m + γ)) for every group, then a Gamma; its prior has this shape and rate."""
    shape += n_tables
    for length in lengths:
        log_odds = log_gamma_variate(float(length), rng) - log_gamma_variate(gamma + 1.0, rng)
        rate += max(log_odds, 0.0) + math.log1p(math.exp(-abs(log_odds)))
        shape -= 1.0 if uniform(rng) * (length + gamma) < length else 0.0
    return math.exp(min(max(log_gamma_variate(shape, rng) - math.log(rate), -690.0), 690.0))


class Direct(Move):
    """A sweep over all points, splits and merges of whole tables (`maitre.moves.dishes`), the concentrations, and the weights of the clusters.

    `proposals` is how many splits and merges there are in an iteration; left None, 20 in the first 300 iterations and 5 after that, for very many points in fewer
    iterations and then more. `keep_labels`: draws keep the label of every point.
    """

    name = "direct"
    state = FranchiseState
    needs = ("marginals", "roles")
    REMEMBERS = ("sweeps",)

    def __init__(self, proposals: int | None = None, keep_labels: bool = False) -> None:
        self.proposals = None if proposals is None else whole_number("proposals", proposals)
        self.keep_labels = truth("keep_labels", keep_labels)
        if keep_labels:
            self.state = LabelledFranchiseState  # type: ignore[misc]
        self.sweeps = 0
        self._burning = False

    def check(self, model: Model) -> None:
        if not isinstance(model.data, GroupedRows):
            raise ValueError("a hierarchical Dirichlet process is for points in groups: use mt.sample_groups")

    def burn_in(self, share: float) -> None:
        self._burning = True

    def freeze(self) -> None:
        self._burning = False

    def step(self, state: FranchiseState, rng: RngState) -> Report:
        self.sweeps += 1
        tables = sweep(state, rng)
        proposals, accepted = self._how_many(state.model.n), 0
        if proposals > 0:
            tables, accepted = split_and_merge(state, proposals, rng)
        held = self._burning and self.sweeps <= _HELD
        draw_weights(state, tables, rng, held)
        if state.model.family.hyperpriors() and not held:
            FamilyHyperparameters().step(state, rng)
        return Report(state.model.n * state.n_clusters, proposals, accepted)

    def _how_many(self, n: int) -> int:
        """Proposals in this iteration: a function of its number alone."""
        if self.proposals is not None:
            return self.proposals
        every = 1 + n // _OFTEN
        return every * (_MANY if self.sweeps <= _EARLY else _SOME) if self.sweeps % every == 0 else 0


def sweep(state: FranchiseState, rng: RngState) -> Ints:
    """Every point's cluster is redrawn; returns how many tables each cluster has."""
    tables, rest, place = np.zeros(state.capacity, dtype=np.int64), np.array([state.rest]), np.zeros(2, dtype=np.int64)
    function = sweep_words if isinstance(state.family, Words) and state.compiled else sweep_points
    while not state.run(
        function, state.starts, state.labels, state.sizes, state.beta, rest, tables, float(state.prior.top), float(state.prior.group), place, rng
    ):
        state.make_room()
        tables = np.append(tables, np.zeros(state.capacity - len(tables), dtype=np.int64))
    state.rest = float(rest[0])
    state.touched()
    return tables


def draw_weights(state: FranchiseState, tables: Ints, rng: RngState, held: bool = False) -> None:
    """Concentrations that are sampled, and the weights, given the numbers of tables; γ is `held` where it is."""
    priors: dict[str, Any] = state.model.prior.hyperpriors()
    occupied = np.flatnonzero(state.sizes)
    n_tables = int(tables.sum())
    if "top" in priors:
        state.set_prior({"top": draw_concentration(float(state.prior.top), n_tables, len(occupied), priors["top"], rng)})
    if "group" in priors and not held:
        lengths = np.diff(state.starts)
        state.set_prior(
            {"group": draw_group_concentration(float(state.prior.group), lengths[lengths > 0], n_tables, priors["group"].shape, priors["group"].rate, rng)}
        )
    logs = np.array([log_gamma_variate(float(shape), rng) for shape in (*tables[occupied], float(state.prior.top))])
    shares = np.exp(logs - logs.max())
    shares = np.maximum(shares / shares.sum(), 1e-300)
    state.beta[:] = 0.0
    state.beta[occupied], state.rest = shares[:-1], float(shares[-1])
    state.touched()
