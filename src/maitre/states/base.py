"""A state is its variables: all that the next step of a chain depends on, as plain arrays. Everything else (slots, statistics, tables, caches) follows from them.

A state *declares* its variables, can be written as arrays and rebuilt from these alone, and has a `commit` after which nothing the next step depends on lies outside
them. That is what makes a checkpoint, a draw, an audit and a chain on another machine one mechanism.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from maitre.model import Model
from maitre.numerics.arrays import Floats, Ints
from maitre.priors.base import Prior

Over = Literal["point", "cluster", "group", "link", "cell", "scalar"]  # cells: as many entries as a draw happens to have


@dataclass(frozen=True)
class Variable:
    """One variable of a state: its name, what it ranges over, and whether draws keep it.

    `shape` is that of one entry: () for a number, (D, D) for a matrix. Entries over clusters stand in the canonical order of the clusters.
    """

    name: str
    over: Over
    kept: bool = True
    dtype: str = "float64"
    shape: tuple[int, ...] = ()


Values = Mapping[str, Any]  # arrays by the names of variables


def going_on() -> bool:
    """Whether a chain is to stop that nobody stops: no."""
    return False


class State(ABC):
    """Variables and what follows from them. Moves change a state in place.

    `compiled=False` runs every kernel as plain Python, for tests that follow all branches of a move. `engine` is where moves may run blocks of their work, `stopped` says
    whether the chain is to stop: a step of burn-in that takes long then comes to an end early, and is done again from the last checkpoint if the chain ever goes on.
    """

    PRIOR: ClassVar[type[Prior]]  # the kind of prior the state is for
    STARTS: ClassVar[tuple[str, ...]] = ("one",)  # where init="auto" begins
    SEATED_BY: ClassVar[str | None] = None  # the move that can seat points which have no seat yet, for init="sequential"

    model: Model
    compiled: bool
    log_joint: float

    @classmethod
    @abstractmethod
    def declare(cls, model: Model) -> tuple[Variable, ...]:
        """The variables of a state of this kind for a model."""

    @classmethod
    @abstractmethod
    def of_variables(cls, model: Model, values: Values, compiled: bool = True) -> Self:
        """The state with these variables, and nothing else remembered."""

    @classmethod
    @abstractmethod
    def of_labels(cls, model: Model, labels: Any) -> Self:
        """A state to start from whose clusters are those of the labels, as far as that can be; −1 for points that have no seat yet."""

    @classmethod
    @abstractmethod
    def auto_moves(cls, model: Model) -> str:
        """What moves="auto" stands for."""

    @abstractmethod
    def variables(self) -> dict[str, Any]:
        """The present values of all declared variables; arrays (`np.asarray` of them) to be looked at before the state changes."""

    @abstractmethod
    def commit(self) -> None:
        """Make the state equal to its own rebuild: numbers of slots, sums that have drifted, room that has grown are as the variables alone would have them."""

    @abstractmethod
    def derived(self) -> dict[str, Any]:
        """What follows from the variables, in words and in an order that does not depend on the numbers of slots: what an audit compares."""

    @property
    @abstractmethod
    def n_clusters(self) -> int:
        """How many clusters the points are in."""

    @abstractmethod
    def canonical_labels(self) -> Ints:
        """The partition of the points, clusters numbered in order of first appearance."""

    def status(self) -> str:
        """A few words on how things stand, for a progress bar."""
        return f"{self.n_clusters} clusters, log joint {self.log_joint:.1f}"

    @property
    def untidy(self) -> bool:
        """Whether a commit is worth its cost now; a function of the state alone."""
        return False

    def tidy(self) -> None:
        """Between sweeps: a commit if it is worth its cost."""
        if self.untidy:
            self.commit()

    def kept(self) -> dict[str, Any]:
        """What a draw keeps: log joint, number of clusters, labels, and the variables that are declared so."""
        values = {"log_joint": self.log_joint, "n_clusters": float(self.n_clusters)} | self.variables()
        if "labels" not in values:
            values["labels"] = self.canonical_labels()
        return {variable.name: values[variable.name] for variable in self.kept_variables(self.model)}

    @classmethod
    def kept_variables(cls, model: Model) -> tuple[Variable, ...]:
        """The declaration of what a draw keeps."""
        summary = (Variable("log_joint", "scalar"), Variable("n_clusters", "scalar"), Variable("labels", "point", dtype="int32"))
        return (*summary, *(v for v in cls.declare(model) if v.kept and v.name != "labels"))

    def audit(self, tolerance: float = 1e-8) -> None:
        """Raise `AssertionError` unless the state equals its own rebuild."""
        fresh = type(self).of_variables(self.model, self.variables(), self.compiled)
        theirs = fresh.derived()
        for name, mine in self.derived().items():
            expected = np.asarray(theirs[name], dtype=np.float64)
            found: Floats = np.asarray(mine, dtype=np.float64)
            assert found.shape == expected.shape, f"{name}: {found.shape} values, {expected.shape} after a rebuild"
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=f"{name}: not as after a rebuild")
