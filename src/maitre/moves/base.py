"""A move changes a state in place and leaves a stated distribution invariant, or says that it does not (`exact = False`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from maitre.numerics.rng import RngState
from maitre.priors.base import GibbsTypePrior, Prior
from maitre.states.mixture import Model


class Report(NamedTuple):
    """What one step did. `operations` counts predictive evaluations: the measure by which hybrids share work, the same on every machine."""

    operations: int
    proposed: int = 0
    accepted: int = 0


class Move(ABC):
    """One kernel of a Markov chain."""

    name: ClassVar[str]
    priors: ClassVar[type[Prior]] = GibbsTypePrior  # the kind of prior, and so of state, that the move is for
    exact: bool = True

    @abstractmethod
    def check(self, model: Model) -> None:
        """Raise a `ValueError` that names the pair if the move cannot run on this model."""

    @abstractmethod
    def step(self, state: Any, rng: RngState) -> Report:
        """Change the state in place."""
