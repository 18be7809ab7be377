"""Superclusters for points in groups (Williamson, Dubey & Xing 2013): clusters are dealt to P virtual processors, which redraw the labels of their own points.

The common measure is a mixture of P independent ones, G_0 = Σ ξ_j G_0j with G_0j ~ DP(α/P, H) and ξ ~ Dirichlet(α/P, …, α/P). Given G_0, a group's measure has the shares
Dirichlet(γξ) in them and, within each, a Dirichlet process DP(γξ_j, G_0j): so the points of processor j are a hierarchical Dirichlet process of their own, with
concentrations α/P and γξ_j. The joint of all else and of the clusters' processors is that of the plain model times P^(−K). Hence the *global step*: every cluster's
processor is uniform; what is left of the common measure, β_*, is shared out by Dirichlet(α/P, …, α/P); and ξ_j is what processor j then has. Nothing is rejected, and γ may
have any prior. The *local step* is any move over groups.

The paper accepts a uniform deal and a ξ from its prior with the probability of its Eq. 6, which counts tables and clusters of equal sizes as if they could not be told
apart, as Eq. 5 does for mixtures, and leaves out the density of the proposed ξ. Its Γ(α/P + T_j) stands in numerator and denominator alike; "paper-eq6" has T*_j in the
denominator, as must be meant, "paper-eq6-literal" what is printed. Neither leaves the posterior invariant.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from maitre.model import Model
from maitre.moves.base import Report
from maitre.moves.dealing import Deal
from maitre.moves.dishes import Seats, seated
from maitre.moves.franchise import FranchiseMove, Served, draw_shares, draw_weights
from maitre.moves.registry import check_move, named_moves
from maitre.moves.superclusters import GlobalStep, deal, largest_first, logger, streams_of_blocks
from maitre.numerics.arguments import one_of, whole_number
from maitre.numerics.arrays import Floats, Ints, Slots
from maitre.numerics.draw import draw_event
from maitre.numerics.rng import RngState
from maitre.priors.hierarchical import HierarchicalDirichletProcess
from maitre.states.franchise import FranchiseState


class _Block(NamedTuple):
    """What a processor found: its clusters, in order of their first points (which are places among all points), and how they were found."""

    slots: Ints
    first: Slots
    weights: Floats
    sizes: Ints
    served: Ints
    in_group: Ints
    rest: float
    capacity: int
    reports: list[Report]


def run_blocks(state: FranchiseState, held_by: Ints, rests: Floats, moves: list[FranchiseMove], sweeps: int, proposals: int, rng: Any) -> tuple[Served, Report]:
    """The local step: `held_by` has the processor of every cluster in canonical order, `rests` what each processor has of β_*, which is brought up to date."""
    slots, processors = state.slots_in_order(), len(rests)
    weights, holder = state.beta[slots], np.zeros(state.capacity, dtype=np.int64)
    holder[slots] = held_by
    dealt, streams = Deal(state.labels, holder, processors, state.engine), streams_of_blocks(processors, rng)
    prior, each = HierarchicalDirichletProcess(float(state.prior.top) / processors, 1.0), -(-proposals // processors)
    labels = np.empty(state.model.n, dtype=np.int32)  # slots of the blocks, whose points stand one after the other
    of_block = np.split(labels, np.cumsum([len(points) for points in dealt.by_block[:-1]]))

    def local(block: int) -> _Block:
        points, own, stream = dealt.by_block[block], weights[held_by == block], streams[block]
        xi = own.sum() + rests[block]
        values = {"weights": own / xi, "rest": rests[block] / xi, "gammas": xi * state.gammas}
        model = state.model.restricted(points, state.family, prior)
        part = FranchiseState(model, state.labels[points], state.compiled, values, np.searchsorted(points, state.starts))
        reports = []
        for move in moves * sweeps:
            served, report = move.redraw(part, each if move.proposals is None else move.proposals, stream)
            draw_weights(part, served, stream)
            reports.append(report)
        of_block[block][:] = part.labels
        slots = part.slots_in_order()
        first = points[part.first_points()[slots]]
        return _Block(slots, first, xi * part.beta[slots], part.sizes[slots], served.of_cluster[slots], served.in_group, xi * part.rest, part.capacity, reports)

    done = largest_first(state.engine, local, dealt.by_block)
    order = np.argsort(np.concatenate([block.first for block in done.values()]))
    names = np.zeros((processors, max(block.capacity for block in done.values())), dtype=np.int32)
    canonical, begin = np.argsort(order), 0
    for number, block in done.items():
        names[number, block.slots] = canonical[begin : begin + len(block.slots)]
        begin, rests[number] = begin + len(block.slots), block.rest
    state.widen_labels(len(order))
    dealt.take_back(state.labels, labels, names)
    found, sizes, served = (np.concatenate(several)[order] for several in zip(*((b.weights, b.sizes, b.served) for b in done.values()), strict=True))
    state.renew(found, sizes, float(rests.sum()))
    of_cluster = np.zeros(state.capacity, dtype=np.int64)
    of_cluster[: len(order)] = served
    reports = [report for block in done.values() for report in block.reports]
    extra = {"share of the largest block": max(map(len, dealt.by_block)) / state.model.n}
    in_group = np.sum([block.in_group for block in done.values()], axis=0)
    return Served(of_cluster, in_group), Report(sum(r.operations for r in reports), sum(r.proposed for r in reports), sum(r.accepted for r in reports), extra)


class DealtGroups(FranchiseMove):
    """`maitre.moves.Superclusters` for points in groups."""

    name = "superclusters"
    REMEMBERS = ("iteration", "held_by", "rests")

    def __init__(self, processors: int = 8, local: Any = None, sweeps: int = 1, global_step: GlobalStep = "exact", keep_labels: bool = False) -> None:
        super().__init__(None, keep_labels)
        self.processors, self.sweeps = whole_number("processors", processors, least=1), whole_number("sweeps", sweeps, least=1)
        self.local, self.global_step = local, one_of("global_step", global_step, ("exact", "paper-eq6", "paper-eq6-literal"))
        self.exact = self.global_step == "exact"
        self.alone = not self.exact
        self.held_by: Ints | None = None  # the processor of every point, and …
        self.rests: Floats | None = None  # … what each processor has of β_*; in the paper's version alone, where the next deal depends on the present one
        self._moves: list[Any] | None = None

    @property
    def moves(self) -> list[Any]:
        """The moves of the local step."""
        if self._moves is None:
            self._moves = named_moves("direct" if self.local is None else self.local)
            for move in self._moves:
                if not isinstance(move, FranchiseMove) or isinstance(move, DealtGroups) or not move.by_blocks:
                    raise ValueError(f"local has {move!r}; expected exact moves over groups, such as 'direct' or 'tables'")
        return self._moves

    def check(self, model: Model) -> None:
        super().check(model)
        for move in self.moves:
            check_move(move, model)
        if not self.exact:
            if "top" in model.prior.hyperpriors():
                raise ValueError(f"global_step={self.global_step!r} is for a concentration that is given: set top to a number")
            logger.warning("global_step=%r is the acceptance step as printed in the paper: it does not leave the posterior invariant", self.global_step)

    def redraw(self, state: FranchiseState, proposals: int, rng: RngState) -> tuple[Served, Report]:
        top = float(state.prior.top)
        if self.exact:
            held_by = deal(state.n_clusters, self.processors, rng)
            rests = state.rest * draw_shares(np.full(self.processors, top / self.processors), rng)
        else:
            held_by, rests = self._deal_as_printed(state, rng)
        if not self.exact:
            self.held_by, self.rests = held_by[state.canonical_labels()], rests  # a point never leaves its processor in the local step
        return run_blocks(state, held_by, rests, self.moves, self.sweeps, proposals, rng)

    def draw_weights(self, state: FranchiseState, served: Served, rng: RngState, held: bool) -> None:
        weights, rest = state.beta.copy(), state.rest
        super().draw_weights(state, served, rng, held)
        if not self.exact:  # ξ stays as it is until a deal is accepted, and the weights with it
            state.beta[:], state.rest = weights, rest

    def _deal_as_printed(self, state: FranchiseState, rng: Any) -> tuple[Ints, Floats]:
        """The paper's global step with its Eq. 6: a uniform deal with ξ from its prior, taken as a whole or not at all. Weights follow from the tables."""
        seats, labels = seated(state, rng), state.canonical_labels()
        top, weights, n_clusters = float(state.prior.top), state.variables()["weights"], state.n_clusters
        if self.held_by is None or self.rests is None:
            held_by = deal(n_clusters, self.processors, rng)
            rests = state.rest * draw_shares(np.full(self.processors, top / self.processors), rng)
        else:
            held_by, rests = np.empty(n_clusters, dtype=np.int64), np.array(self.rests, dtype=np.float64)
            held_by[labels] = self.held_by
        xi = np.bincount(held_by, weights, minlength=self.processors) + rests
        proposed, proposed_xi = deal(n_clusters, self.processors, rng), draw_shares(np.full(self.processors, top / self.processors), rng)
        dishes = np.empty(len(seats.dishes), dtype=np.int64)
        dishes[seats.tables] = labels
        literal = self.global_step == "paper-eq6-literal"
        log_ratio = _log_printed(state, seats, dishes, proposed, proposed_xi, literal) - _log_printed(state, seats, dishes, held_by, xi, literal)
        if draw_event(log_ratio, rng):
            held_by, xi = proposed, proposed_xi
        served, weights = np.bincount(dishes, minlength=n_clusters), np.empty(n_clusters)
        for block in range(self.processors):  # weights within each processor's share, given the tables
            shares = draw_shares(np.append(served[held_by == block], top / self.processors), rng)
            weights[held_by == block], rests[block] = xi[block] * shares[:-1], xi[block] * shares[-1]
        state.seat(labels, weights, float(rests.sum()))
        return held_by, rests


def _log_printed(state: FranchiseState, seats: Seats, dishes: Ints, held_by: Ints, xi: Floats, literal: bool) -> float:
    """The logarithm of one side of Eq. 6; dishes[t] is what table t serves, numbered as the clusters of `held_by`."""
    processors, mass = len(xi), float(state.prior.top) / len(xi)
    holders = held_by[dishes]  # of every table
    tables = np.bincount(holders, minlength=processors)
    served, sizes = np.bincount(dishes), seats.at.sizes
    groups = np.repeat(np.arange(state.n_groups), seats.in_group)
    _, equal_clusters = np.unique(np.stack([held_by, served]), axis=1, return_counts=True)
    _, equal_tables = np.unique(np.stack([holders, groups, sizes]), axis=1, return_counts=True)
    value = (tables + mass) @ np.log(xi) + gammaln(tables + 1.0).sum() - gammaln(equal_clusters + 1.0).sum() - gammaln(equal_tables + 1.0).sum()
    return float(value if literal else value - gammaln(mass + tables).sum())
