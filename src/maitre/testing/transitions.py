"""A move's transition matrix, exactly: the move runs as plain Python with a stand-in for the random stream that follows every branch.

A move whose randomness is discrete has finitely many paths; each ends in a partition and has a probability. From all of them comes the matrix P, and the claim
"leaves the posterior π invariant" becomes an identity to check to rounding: πP = π.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from maitre.model import Model
from maitre.numerics.arrays import Floats
from maitre.numerics.draw import Branching
from maitre.testing.enumeration import EnumeratedPosterior

T = TypeVar("T")


class _Path(Branching):
    """Follows given choices, then always the first possible one, and notes the paths not taken."""

    def __init__(self, choices: list[int]) -> None:
        self.given = len(choices)
        self.choices = choices
        self.taken = 0
        self.probability = 1.0
        self.others: list[list[int]] = []

    def choose(self, probabilities: Floats) -> int:
        if self.taken == self.given:
            possible = np.flatnonzero(probabilities > 0.0)
            self.others.extend([*self.choices, int(other)] for other in possible[1:])
            self.choices = [*self.choices, int(possible[0])]
            self.given += 1
        choice = self.choices[self.taken]
        self.taken += 1
        self.probability *= float(probabilities[choice])
        return choice


def follow_branches(run: Callable[[Branching], T]) -> Iterator[tuple[T, float]]:
    """Every outcome of `run(rng)` with its probability; `run` must start from the same state each time.

    >>> from maitre.numerics.draw import draw_below
    >>> sorted(follow_branches(lambda rng: draw_below(2, rng) + draw_below(2, rng)))
    [(0, 0.25), (1, 0.25), (1, 0.25), (2, 0.25)]
    """
    pending: list[list[int]] = [[]]
    while pending:
        path = _Path(pending.pop())
        outcome = run(path)
        yield outcome, path.probability
        pending.extend(path.others)


def transition_matrix(model: Model, step: Callable[[Any, Any], Any], exact: EnumeratedPosterior) -> Floats:
    """P[a, b]: the probability that `step(state, rng)` takes partition a (or links a, from `enumerate_links`) to b. `step` may make discrete draws only."""
    positions = {labels: k for k, labels in enumerate(exact.partitions)}
    matrix = np.zeros((len(positions), len(positions)))

    for labels, row in positions.items():
        if exact.log_joint[row] == -np.inf:  # no chain is ever there
            matrix[row, row] = 1.0
            continue

        def run(rng: Branching, labels: tuple[int, ...] = labels) -> tuple[int, ...]:
            state = exact.state_at(model, labels)
            step(state, rng)
            return exact.partition_of(state)

        for outcome, probability in follow_branches(run):
            matrix[row, positions[outcome]] += probability
    return matrix


def assert_invariant(exact: EnumeratedPosterior, matrix: Floats, tolerance: float = 1e-12) -> None:
    """Raise `AssertionError` unless the matrix is stochastic and leaves the posterior invariant."""
    rows = float(np.abs(matrix.sum(axis=1) - 1.0).max())
    assert rows < tolerance, f"the probabilities of a step sum to 1 only within {rows:.2g}"
    pi = exact.probabilities
    error = float(np.abs(pi @ matrix - pi).max())
    assert error < tolerance, f"the step moves the posterior by {error:.3g} (more than {tolerance:.0e}): it does not leave it invariant"
