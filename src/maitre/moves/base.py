"""A move changes a state in place and leaves a stated distribution invariant, or says that it does not (`exact = False`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from maitre.numerics.rng import RngState
from maitre.priors.base import GibbsTypePrior, Prior
from maitre.states.mixture import Model


class Report(NamedTuple):
    """What one step did. `operations` counts predictive evaluations: the measure by which hybrids share work, the same on every machine."""

    operations: int
    proposed: int = 0
    accepted: int = 0
    extra: Mapping[str, float] = MappingProxyType({})  # anything else worth its mean over the steps, by name


class Move(ABC):
    """One kernel of a Markov chain."""

    name: ClassVar[str]
    priors: ClassVar[type[Prior]] = GibbsTypePrior  # the kind of prior, and so of state, that the move is for
    exact: bool = True  # after burn-in
    climbing: bool = False  # at present: looking for clusters rather than sampling

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def check(self, model: Model) -> None:
        """Raise a `ValueError` that names the pair if the move cannot run on this model."""

    def burn_in(self, share: float) -> None:  # noqa: B027
        """Called before every step of burn-in with the share of it that is done."""

    def freeze(self) -> None:  # noqa: B027
        """Burn-in is over: from here on, whatever the move adapted stays as it is."""

    @abstractmethod
    def step(self, state: Any, rng: RngState) -> Report:
        """Change the state in place."""

    def steps(self, state: Any, rng: RngState, repeats: int) -> Report:
        """Several steps; their reports summed. A move that saves by doing many at once overrides this."""
        reports = [self.step(state, rng) for _ in range(repeats)]
        extra: Counter[str] = Counter()
        for report in reports:
            extra.update(report.extra)
        return Report(sum(r.operations for r in reports), sum(r.proposed for r in reports), sum(r.accepted for r in reports), extra)
