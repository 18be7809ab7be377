"""A move changes a state in place and leaves a stated distribution invariant, or says that it does not (`exact = False`)."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

from maitre.families.base import ConjugateFamily
from maitre.families.slots import declares_roles
from maitre.families.statistics import mergeable, supports
from maitre.model import Model
from maitre.numerics.rng import RngState
from maitre.priors.base import Prior
from maitre.states.base import State
from maitre.states.mixture import MixtureState


class Report(NamedTuple):
    """What one step did. `operations` counts predictive evaluations: the measure by which hybrids share work, the same on every machine."""

    operations: int
    proposed: int = 0
    accepted: int = 0
    extra: Mapping[str, float] = MappingProxyType({})  # anything else worth its mean over the steps, by name


class Ability(NamedTuple):
    """What a move may need of a family: in words, and whether a model's family has it."""

    words: str
    present: Callable[[Model], bool]


def _merges(model: Model) -> bool:
    return mergeable(model.family.at_prior_means().allocate(model.encoded, 1)) and supports(model.family.statistics, "subtract")


ABILITIES: dict[str, Ability] = {
    "marginals": Ability("the closed marginals of a conjugate family", lambda model: isinstance(model.family, ConjugateFamily)),
    "parameters": Ability(
        "a family that draws and scores parameters (n_parameters, draw_parameters, log_likelihood)",
        lambda model: supports(getattr(model.family, "statistics", object), "n_parameters", "draw_parameters", "log_likelihood"),
    ),
    "roles": Ability(
        "statistics whose fields say what they are for (the roles of maitre.families.slots)",
        lambda model: declares_roles(model.family.at_prior_means().allocate(model.encoded, 1)),
    ),
    "weights": Ability("a family whose points have weights", lambda model: "weights" in model.family.arrays(model.encoded)),
    "merging": Ability("'merge' and 'subtract' of the family's statistics (a few lines each)", _merges),
}


class Move(ABC):
    """One kernel of a Markov chain.

    What a move needs is declared (`state`, `prior`, `needs`) and checked when a model is assembled. Its options are the arguments of its `__init__`, kept under their
    own names; what it learns on the way is named in `REMEMBERS` and must be plain (numbers, text, lists, arrays), so that a chain can be written down and go on.
    """

    name: ClassVar[str]
    state: ClassVar[type[State]] = MixtureState  # the kind of state that the move changes
    prior: ClassVar[type[Prior]] = Prior  # the kind of prior, where it is narrower than the state's
    needs: ClassVar[tuple[str, ...]] = ()  # names of ABILITIES
    streams: ClassVar[bool] = False  # points may stay on disk
    starts: ClassVar[tuple[str, ...]] = ()  # where init="auto" begins, if not where the state does
    REMEMBERS: ClassVar[tuple[str, ...]] = ()
    exact: bool = True  # after burn-in
    alone: bool = False  # no other move may change the partition in between
    climbing: bool = False  # at present: looking for clusters rather than sampling

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(type(self)).parameters.items()}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.options().items() if value != defaults[name])})"

    def options(self) -> dict[str, Any]:
        """The arguments that make this move."""
        try:
            return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        except AttributeError as error:
            raise ValueError(
                f"{type(self).__name__} does not keep its arguments under their own names ({error}): a chain could not make a copy of its own"
            ) from None

    def afresh(self) -> Self:
        """The same move with nothing learnt: a move adapts to its chain."""
        return type(self)(**self.options())

    def memory(self) -> dict[str, Any]:
        """What the move remembers, as plain values."""
        return {name: copy(getattr(self, name)) for name in self.REMEMBERS}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Remember what `memory` said."""
        for name in self.REMEMBERS:
            setattr(self, name, copy(memory[name]))

    def fitted_to(self, model: Model) -> Move:
        """The form of the move for this kind of model, if there are several."""
        return self

    def check(self, model: Model) -> None:  # noqa: B027
        """Raise a `ValueError` if an option of the move does not fit this model; what is declared has been checked before."""

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


def lacking(move: Move | type[Move], model: Model) -> str | None:
    """Why a move cannot run on a model, or None."""
    family, prior = type(model.family).__name__, type(model.prior).__name__
    if not (isinstance(model.prior, move.state.PRIOR) and isinstance(model.prior, move.prior)):
        narrower = move.prior if move.prior is not Prior else move.state.PRIOR
        return f"does not work with the prior {prior}, only with a {narrower.__name__}"
    if not (model.in_memory or move.streams):
        return "needs all points in memory, and the data stay on disk"
    missing = next((ABILITIES[need] for need in move.needs if not ABILITIES[need].present(model)), None)
    return f"needs {missing.words}; {family} has none" if missing is not None else None
