"""Superclusters: whole clusters are dealt to P virtual processors, which then sample their own points without looking at each other (Williamson, Dubey & Xing 2013).

A Dirichlet process of concentration α is a mixture of P independent ones of concentration α/P, with Dirichlet weights. With weights and measures integrated out, the
joint of the partition and of the processor π(c) of every cluster is

    p(C, π) = CRP(C; α) · ∏_c 1/P,

so given the partition and the data every cluster's processor is uniform, independently of all else: the *global step* draws them so, and nothing is ever rejected. Given
the processors, the points of each follow a mixture with concentration α/P of their own: the *local step*, any exact move, in parallel. Since processors are drawn afresh
at the beginning of a step they are no variable of the state. P belongs to the model's augmentation, not to the machine: whoever does a block, the draws are the same.

The paper's Eq. 5 would accept the whole deal with probability min(1, ∏ a_ij! / a*_ij!), where a_ij counts clusters of size i on processor j. That is the ratio of the
target on *types* (how many clusters of which size are where), under which the proposal is not symmetric; on clusters the ratio is 1. `global_step="paper-eq5"` has it as
printed, and does not leave the posterior invariant.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from scipy.special import gammaln

from maitre.engines.base import Engine
from maitre.model import Model
from maitre.moves.base import Move, Report
from maitre.moves.dealing import Deal
from maitre.moves.registry import check_move, named_moves
from maitre.numerics.arguments import one_of, truth, whole_number
from maitre.numerics.arrays import Ints
from maitre.numerics.draw import Branching, draw_below, draw_event
from maitre.numerics.rng import RngState, split
from maitre.priors.dirichlet_process import DirichletProcess
from maitre.priors.hierarchical import HierarchicalDirichletProcess
from maitre.states.mixture import MixtureState

GlobalStep = Literal["exact", "paper-eq5", "paper-eq6", "paper-eq6-literal"]
T = TypeVar("T")
logger = logging.getLogger("maitre")


def deal(n_clusters: int, processors: int, rng: Any) -> Ints:
    """A processor for every cluster, uniform and independent."""
    return np.array([draw_below(processors, rng) for _ in range(n_clusters)], dtype=np.int64)


def deal_as_printed(sizes: Ints, present: Ints, processors: int, rng: Any) -> Ints:
    """The paper's global step with its Eq. 5: a uniform deal, taken as a whole or not at all."""
    proposed = deal(len(sizes), processors, rng)
    log_ratio = _log_factorials(sizes, present, processors) - _log_factorials(sizes, proposed, processors)
    return proposed if draw_event(log_ratio, rng) else present


def _log_factorials(sizes: Ints, held_by: Ints, processors: int) -> float:
    """Σ_ij log a_ij!, with a_ij the number of clusters of size i on processor j."""
    _, counts = np.unique(sizes * processors + held_by, return_counts=True)
    return float(gammaln(counts + 1.0).sum())


def streams_of_blocks(processors: int, rng: Any) -> list[Any]:
    """A random stream for each processor."""
    return [rng] * processors if isinstance(rng, Branching) else split(rng, processors)


def largest_first(engine: Engine, local: Callable[[int], T], by_block: list[Any]) -> dict[int, T]:
    """What `local` returns for every block that has points, on the engine's threads, the largest begun first; by the block's number, in order."""
    order = [block for block in sorted(range(len(by_block)), key=lambda block: -len(by_block[block])) if len(by_block[block])]
    return dict(sorted(zip(order, engine.map(local, order), strict=True)))


def run_blocks(state: MixtureState, held_by: Ints, processors: int, moves: list[Move], sweeps: int, rng: Any) -> tuple[Report, float]:
    """The local step: `sweeps` times every move on the points of each processor, `held_by` naming that of every cluster in canonical order.

    Blocks run on the state's engine, the largest first, each with a random stream of its own. Returns the sum of their reports and the largest block's share of the points.
    """
    labels = state.canonical_labels()
    by_block, streams = Deal(labels, held_by, processors, state.engine).by_block, streams_of_blocks(processors, rng)
    prior = DirichletProcess(float(state.prior.concentration) / processors)

    def local(block: int) -> tuple[MixtureState, list[Report]]:
        points = by_block[block]
        part = MixtureState(state.model.restricted(points, state.family, prior), labels[points], state.compiled)
        return part, [move.step(part, streams[block]) for _ in range(sweeps) for move in moves]

    done, n_clusters = largest_first(state.engine, local, by_block), 0
    for block in done:
        part = done[block][0]
        labels[by_block[block]] = part.canonical_labels() + n_clusters
        n_clusters += part.n_clusters
    state.seat(labels)
    reports = [report for _, several in done.values() for report in several]
    largest = max(map(len, by_block)) / state.model.n
    return Report(sum(r.operations for r in reports), sum(r.proposed for r in reports), sum(r.accepted for r in reports)), largest


class Superclusters(Move):
    """Clusters dealt to virtual processors, which sample their points in parallel with the moves of `local`, `sweeps` times each; then they are dealt anew.

    `local` names moves joined by "+", or is one or a list of them; they must be exact and learn nothing. More processors make a sweep cheaper, also on one core,
    because a point looks at its own processor's clusters only; but two clusters exchange points only while they are together. About a third of the number of clusters is
    a good number of processors. The result does not depend on the number of threads.

    `global_step="paper-eq5"` reproduces the acceptance step printed in Williamson, Dubey & Xing (2013), which does not leave the posterior invariant; the result says so.

    For points in groups (`maitre.sample_groups`) see `maitre.moves.dealt_groups`: there `local` is "direct" or "tables", and the printed step is "paper-eq6" or, with its
    misprint, "paper-eq6-literal"; `keep_labels` has draws keep the label of every point.

    >>> import maitre as mt
    >>> move = mt.moves.Superclusters(processors=2, local="gibbs+split_merge")
    >>> mt.sample([[0.0], [0.1], [5.0], [5.2]], moves=[move], draws=20, burn_in=20, chains=1, progress=False).exact
    True
    """

    name = "superclusters"
    prior = DirichletProcess
    needs = ("marginals",)
    REMEMBERS = ("held_by",)

    def __init__(self, processors: int = 8, local: Any = None, sweeps: int = 1, global_step: GlobalStep = "exact", keep_labels: bool = False) -> None:
        self.processors, self.sweeps = whole_number("processors", processors, least=1), whole_number("sweeps", sweeps, least=1)
        self.local, self.global_step = local, one_of("global_step", global_step, get_args(GlobalStep))
        self.keep_labels = truth("keep_labels", keep_labels)  # as draws of partitions always do
        self.exact = self.global_step == "exact"
        self.alone = not self.exact
        self.held_by: Ints | None = None  # the processor of every point, in the paper's version alone: there the next deal depends on the present one
        self._moves: list[Move] | None = None

    @property
    def moves(self) -> list[Move]:
        """The moves of the local step."""
        if self._moves is None:
            self._moves = named_moves("gibbs" if self.local is None else self.local)
            for move in self._moves:
                if move.state is not MixtureState or move.REMEMBERS or not move.exact or isinstance(move, Superclusters):
                    raise ValueError(f"local has {move!r}; expected exact moves over partitions that learn nothing, such as 'gibbs' or 'split_merge'")
        return self._moves

    def fitted_to(self, model: Model) -> Move:
        if not isinstance(model.prior, HierarchicalDirichletProcess):
            return self
        from maitre.moves.dealt_groups import DealtGroups

        return DealtGroups(**self.options())

    def check(self, model: Model) -> None:
        for move in self.moves:
            check_move(move, model)
        if self.global_step not in ("exact", "paper-eq5"):
            raise ValueError(f"global_step={self.global_step!r} is for points in groups; expected 'exact' or 'paper-eq5'")
        if not self.exact:
            logger.warning("global_step='paper-eq5' is the acceptance step as printed in the paper: it does not leave the posterior invariant")

    def step(self, state: MixtureState, rng: RngState) -> Report:
        labels = state.canonical_labels()
        if self.exact or self.held_by is None:
            held_by = deal(state.n_clusters, self.processors, rng)
        else:
            present = np.empty(state.n_clusters, dtype=np.int64)
            present[labels] = self.held_by
            held_by = deal_as_printed(np.bincount(labels), present, self.processors, rng)
        if not self.exact:
            self.held_by = held_by[labels]  # a point never leaves its processor in the local step
        report, largest = run_blocks(state, held_by, self.processors, self.moves, self.sweeps, rng)
        return report._replace(extra={"share of the largest block": largest})
