"""What moves over points in groups have in common: an iteration is new labels, then the concentrations and the weights of the clusters, given at how many tables each is served.

Given the numbers m_k of tables, with T in all,

    (β_1, …, β_K, β_*) ~ Dirichlet(m_1, …, m_K, α),

and α and γ are drawn before, with β integrated out, by the auxiliary variables of Escobar & West (1995) and Teh et al. (2006).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maitre.data.groups import GroupedRows
from maitre.model import Model
from maitre.moves.base import Move, Report
from maitre.moves.hyper import FamilyHyperparameters
from maitre.numerics.arguments import truth, whole_number
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import compiled, compiled_form_of
from maitre.numerics.draw import draw_part
from maitre.numerics.rng import RngState, log_gamma_variate, uniform
from maitre.priors.dirichlet_process import draw_concentration
from maitre.states.franchise import FranchiseState, LabelledFranchiseState

_MANY, _SOME, _EARLY = 20, 5, 300  # splits and merges in an iteration: early ones, and others
_OFTEN = 200_000  # points that are seated at tables in every iteration
HELD = 10  # sweeps of burn-in before γ and η are sampled: from a rough start they would go astray, and not come back soon


class Served(NamedTuple):
    """How many tables there are: of each cluster, and in each group."""

    of_cluster: Ints
    in_group: Ints


def draw_tables(n: int, mass: float, rng: Any) -> int:
    """At how many tables n points sit whose urn has this mass."""
    tables = 1
    for q in range(1, n):
        if draw_part(mass, mass + q, rng):
            tables += 1
    return tables


compiled_form_of(draw_tables)(compiled(draw_tables))


@compiled
def draw_group_concentration(gamma: float, lengths: Ints, n_tables: int, shape: float, rate: float, rng: RngState) -> float:
    """γ | T and the groups' sizes: w_m ~ Beta(γ + 1, N_m) and s_m ~ Bernoulli(N_m / (N_m + γ)) for every group, then a Gamma; its prior has this shape and rate."""
    shape += n_tables
    for length in lengths:
        log_odds = log_gamma_variate(float(length), rng) - log_gamma_variate(gamma + 1.0, rng)
        rate += max(log_odds, 0.0) + math.log1p(math.exp(-abs(log_odds)))
        shape -= 1.0 if uniform(rng) * (length + gamma) < length else 0.0
    return math.exp(min(max(log_gamma_variate(shape, rng) - math.log(rate), -690.0), 690.0))


@compiled
def _draw_own_concentrations(gammas: Floats, lengths: Ints, in_group: Ints, shape: float, rate: float, rng: RngState) -> None:
    """A concentration for each group, from its own tables; from the prior for a group without points."""
    for m in range(len(gammas)):
        gammas[m] = draw_group_concentration(gammas[m], lengths[m : m + 1 if lengths[m] > 0 else m], in_group[m], shape, rate, rng)


def draw_weights(state: FranchiseState, served: Served, rng: RngState, held: bool = False) -> None:
    """Concentrations that are sampled, and the weights, given the numbers of tables; γ is `held` where it is."""
    prior: Any = state.model.prior
    priors, lengths = prior.hyperpriors(), np.diff(state.starts)
    occupied = np.flatnonzero(state.sizes)
    n_tables = int(served.of_cluster.sum())
    if "top" in priors:
        state.set_prior({"top": draw_concentration(float(state.prior.top), n_tables, len(occupied), priors["top"], rng)})
    if "group" in priors and not held:
        gamma = draw_group_concentration(float(state.prior.group), lengths[lengths > 0], n_tables, prior.group.shape, prior.group.rate, rng)
        state.set_prior({"group": gamma})
    elif prior.own and not held:
        _draw_own_concentrations(state.gammas, lengths, served.in_group, prior.group.shape, prior.group.rate, rng)
    shares = draw_shares(np.append(served.of_cluster[occupied], float(state.prior.top)), rng)
    state.beta[:] = 0.0
    state.beta[occupied], state.rest = shares[:-1], float(shares[-1])
    state.touched()


def draw_shares(masses: Any, rng: RngState) -> Floats:
    """Shares ~ Dirichlet(masses), none of them 0."""
    logs = np.array([log_gamma_variate(float(mass), rng) for mass in masses])
    shares = np.exp(logs - logs.max())
    return np.maximum(shares / shares.sum(), 1e-300)


class FranchiseMove(Move):
    """New labels given the weights (`redraw`), then concentrations and weights given the tables, then the family's hyper-parameters.

    `proposals` is how many splits and merges of whole tables (`maitre.moves.dishes`) there are in an iteration; left None, 20 in the first 300 iterations and 5 after
    that; for very many points 5 on average, in some iterations all at once. `keep_labels`: draws keep the label of every point.
    """

    state = FranchiseState
    needs: ClassVar[tuple[str, ...]] = ("marginals", "roles")
    REMEMBERS: ClassVar[tuple[str, ...]] = ("iteration",)
    by_blocks: ClassVar[bool] = True  # `redraw` may run on several parts of the points at once

    def __init__(self, proposals: int | None = None, keep_labels: bool = False) -> None:
        self.proposals = None if proposals is None else whole_number("proposals", proposals)
        self.keep_labels = truth("keep_labels", keep_labels)
        if keep_labels:
            self.state = LabelledFranchiseState  # type: ignore[misc]
        self.iteration = 0
        self._burning = False

    def check(self, model: Model) -> None:
        if not isinstance(model.data, GroupedRows):
            raise ValueError("a hierarchical Dirichlet process is for points in groups: use mt.sample_groups")

    def burn_in(self, share: float) -> None:
        self._burning = True

    def freeze(self) -> None:
        self._burning = False

    def step(self, state: FranchiseState, rng: RngState) -> Report:
        self.iteration += 1
        held = self._burning and self.iteration <= HELD
        served, report = self.redraw(state, self.how_many(state.model.n), rng)
        self.draw_weights(state, served, rng, held)
        if state.model.family.hyperpriors() and not held:
            FamilyHyperparameters().step(state, rng)
        return report

    def draw_weights(self, state: FranchiseState, served: Served, rng: RngState, held: bool) -> None:
        """What follows new labels."""
        draw_weights(state, served, rng, held)

    @abstractmethod
    def redraw(self, state: FranchiseState, proposals: int, rng: RngState) -> tuple[Served, Report]:
        """New labels, given the weights and all concentrations, with so many splits and merges; and the tables."""

    def how_many(self, n: int) -> int:
        """Splits and merges in this iteration: a function of its number alone."""
        if self.proposals is not None:
            return self.proposals
        every = 1 + n // _OFTEN
        return every * (_MANY if every == 1 and self.iteration <= _EARLY else _SOME) if self.iteration % every == 0 else 0
