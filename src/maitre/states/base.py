"""What a chain needs to know of a state, whatever it is made of: a partition with statistics, links, tables and dishes, explicit parameters."""

from __future__ import annotations

from typing import Protocol

from maitre.numerics.arrays import Ints


class State(Protocol):
    """Arrays and their invariants. Moves change a state in place; a chain only reads what is below."""

    log_joint: float

    @property
    def n_clusters(self) -> int:
        """How many clusters the points are in."""
        ...

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Present values of everything that is traced beside the partition."""
        ...

    def canonical_labels(self) -> Ints:
        """The partition of the points, clusters numbered in order of first appearance."""
        ...

    def tidy(self) -> None:
        """Housekeeping between iterations; changes nothing that the state says."""
        ...

    def audit(self, tolerance: float = 1e-8) -> None:
        """Raise `AssertionError` unless every derived quantity agrees with a fresh build."""
        ...
