"""A stochastic hill climber over whole partitions: the points along a random direction, cut into segments at once.

The points of each cluster, and the clusters by their means, are ordered along a random direction, and a partition is drawn from p(C, x) restricted to the partitions
into segments of that order. p(order | C) is unknown, so this is no sampler: it finds the clusters, in burn-in and in searches.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from maitre.families.dirichlet_multinomial import DirichletMultinomial
from maitre.model import Model
from maitre.moves.base import Report
from maitre.moves.segments import DRAW, HIGHEST
from maitre.moves.workspace import Beam, Workspace, local_slope
from maitre.states.mixture import MixtureState

_LONGEST_REST = 7
_LOSS = 0.1  # in log joint, per point, beyond which a step is undone
_WORTHWHILE = 1e-3  # a gain in log joint, per point, for which climbing goes on without rest


class Climber:
    """Climbs, and rests for a while, longer each time, when nothing is gained. `greedy` takes the best partition into segments instead of drawing one."""

    REMEMBERS = ("highest", "pause", "rest")

    def __init__(self, beam: Beam | None = None, greedy: bool = False, weighting: str | None = None) -> None:
        self.beam, self.greedy, self.weighting = beam or Beam.of(), greedy, weighting
        self.highest, self.pause, self.rest = -math.inf, 0, 0  # the best log joint so far; the present pause; calls to sit out
        self._room: Workspace | None = None

    @property
    def gaining(self) -> bool:
        """Whether the last climb was worth while."""
        return self.pause == 0

    def room_for(self, state: MixtureState) -> Workspace:
        """Work space for a state."""
        if self._room is None or self._room.state is not state:
            self._room = Workspace(state, partial(vectors_of, state.model, self.weighting))
        return self._room

    def step(self, state: MixtureState, rng: Any) -> Report:
        """Climb once, unless it is time to rest."""
        if self.rest > 0:
            self.rest -= 1
            return Report(0)
        room = self.room_for(state)
        room.draw_order("projections", rng)
        slope = local_slope(state.log_v_at, state.n_clusters, room.n)
        evaluations, _, kept = room.sum(slope, self.beam, rng, mode=HIGHEST if self.greedy else DRAW)
        labels, n_clusters = room.drawn()
        if np.isfinite(state.log_v_at(np.array([n_clusters]))[0]):  # a finite prior may not allow so many
            before, reached = state.canonical_labels(), state.log_joint
            state.seat(labels)
            if state.log_joint < reached - _LOSS * room.n:  # in many dimensions a random direction may tear every cluster apart
                state.seat(before)
        if state.log_joint > self.highest + _WORTHWHILE * room.n:
            self.pause = 0
        else:  # nothing gained: rest for a while, and longer each time
            self.pause = self.rest = min(2 * self.pause + 1, _LONGEST_REST)
        self.highest = max(self.highest, state.log_joint)
        return Report(room.cost * evaluations, 1, 1, {"beam": kept / room.n})


def vectors_of(model: Model, weighting: str | None) -> Any:
    """The points as vectors for projections; rows of counts by their weighting."""
    if weighting is None or not isinstance(model.family, DirichletMultinomial):
        return model.vectors
    return model.family.vectors(model.valid, model.encoded, weighting)
