"""The exact posterior of a few points by going through every partition (Bell(7) = 877)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from maitre.model import Model
from maitre.numerics.arrays import Floats, Ints
from maitre.partitions.enumeration import all_partitions
from maitre.posterior.diagnostics import effective_sample_size
from maitre.states.mixture import MixtureState


@dataclass(frozen=True)
class EnumeratedPosterior:
    """All partitions of the points (canonical labels), log p(C, x) of each, and the normalised probabilities."""

    partitions: list[tuple[int, ...]]
    log_joint: Floats

    @property
    def log_evidence(self) -> float:
        """log p(x)."""
        return float(logsumexp(self.log_joint))

    @property
    def probabilities(self) -> Floats:
        """p(C | x)."""
        return np.exp(self.log_joint - self.log_evidence)

    def index(self, labels: Any) -> int:
        """The position of a partition given by canonical labels."""
        return self.partitions.index(tuple(int(v) for v in labels))

    def state_at(self, model: Model, partition: tuple[int, ...]) -> Any:
        """A state there, whose kernels run as plain Python."""
        return MixtureState(model, partition, compiled=False)

    def partition_of(self, state: Any) -> tuple[int, ...]:
        """Where a state is."""
        return tuple(int(v) for v in state.canonical_labels())


def enumerate_posterior(model: Model) -> EnumeratedPosterior:
    """log p(C, x) for every partition C of the model's points, with hyper-parameters at fixed values.

    >>> import maitre as mt
    >>> from maitre.model import Model
    >>> family = mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.25)
    >>> exact = enumerate_posterior(Model.of([[-1.0], [-0.8], [0.1], [0.9]], family, mt.priors.DirichletProcess(1.0)))
    >>> round(exact.log_evidence, 8)
    -6.81435284
    """
    partitions = list(all_partitions(model.n))
    values = []
    for labels in partitions:
        sizes = np.bincount(labels)
        state = MixtureState(model, labels, compiled=False)
        values.append(state.prior.log_probability(sizes) + state.log_likelihood())
    return EnumeratedPosterior(partitions, np.array(values))


def compare_with_enumeration(exact: EnumeratedPosterior, draws: Ints) -> tuple[float, float]:
    """Total variation between the drawn partitions (a row each) and the exact posterior, and what Monte-Carlo error alone would give.

    The second number is the expected total variation of as many independent draws as the chain is worth, ½ Σ √(2 p (1−p) / (π · effective draws)). A sampler of
    the exact posterior stays near it; twice as much is a failure.
    """
    positions = {labels: k for k, labels in enumerate(exact.partitions)}
    visited = np.array([positions[tuple(row)] for row in np.asarray(draws).tolist()])
    frequencies = np.bincount(visited, minlength=len(positions)) / len(visited)
    p = exact.probabilities
    traces = [exact.log_joint[visited], np.asarray(draws).max(axis=1).astype(float)]
    effective = min(effective_sample_size(trace) for trace in traces)
    expected = 0.5 * float(np.sum(np.sqrt(2.0 * p * (1.0 - p) / (np.pi * effective))))
    return 0.5 * float(np.abs(frequencies - p).sum()), expected
