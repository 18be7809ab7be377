"""The exact posterior of a distance-dependent Chinese restaurant by going through every way to link a few points (5⁵ = 3125).

Nothing here uses the state of links or its moves: components come from scipy, marginals from a mixture's state, weights from the definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from maitre.families.statistics import log_marginal
from maitre.model import Model
from maitre.numerics.arrays import Floats
from maitre.partitions.labels import canonical
from maitre.priors.distance_dependent import DistanceDependent
from maitre.states.links import LinksState
from maitre.states.mixture import MixtureState
from maitre.testing.enumeration import EnumeratedPosterior


@dataclass(frozen=True)
class EnumeratedLinks(EnumeratedPosterior):
    """All possible links of the points (`partitions` holds links here), and log p(links, x) of each."""

    def state_at(self, model: Model, partition: tuple[int, ...]) -> Any:
        return LinksState(model, partition, compiled=False)

    def partition_of(self, state: Any) -> tuple[int, ...]:
        return tuple(int(v) for v in state.links)

    def law_of_partitions(self) -> dict[tuple[int, ...], float]:
        """p(C | x): the sum over all links whose components are C."""
        law: dict[tuple[int, ...], float] = {}
        for links, probability in zip(self.partitions, self.probabilities, strict=True):
            partition = components_of(links)
            law[partition] = law.get(partition, 0.0) + float(probability)
        return law


def components_of(links: Any) -> tuple[int, ...]:
    """Canonical labels of the connected components.

    >>> components_of([1, 1, 2, 0])
    (0, 0, 1, 0)
    """
    n = len(links)
    graph = sparse.csr_array((np.ones(n), (np.arange(n), np.asarray(links))), shape=(n, n))
    return tuple(int(v) for v in canonical(connected_components(graph, directed=False)[1]))


def log_link_probabilities(prior: DistanceDependent) -> Floats:
    """(n, n): log p(c_i = j), −∞ where it is impossible, with hyper-parameters at fixed values."""
    n = prior.distances.n
    weights = np.zeros((n, n))
    weights[prior.distances.rows(), prior.distances.targets] = np.exp(prior.decay.log_weight(prior.distances.values))
    np.fill_diagonal(weights, float(prior.concentration))  # type: ignore[arg-type]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights / weights.sum(axis=1, keepdims=True)))


def enumerate_links(model: Model) -> EnumeratedLinks:
    """log p(links, x) for every possible way to link the model's points, with hyper-parameters at fixed values.

    >>> import maitre as mt
    >>> prior = mt.priors.DistanceDependent([[0.0, 1.0], [1.0, 0.0]], mt.decays.exponential(1.0), 1.0)
    >>> exact = enumerate_links(Model.of([[0.0], [0.5]], mt.families.KnownCovarianceGaussian(0.0, 4.0, 0.25), prior))
    >>> len(exact.partitions)
    4
    """
    prior: Any = model.prior.at_prior_means()
    log_p = log_link_probabilities(prior)
    choices = [np.flatnonzero(row > -np.inf).tolist() for row in log_p]
    log_likelihood: dict[tuple[int, ...], float] = {}
    everything, values = list(product(*choices)), []
    for links in everything:
        partition = components_of(links)
        if partition not in log_likelihood:
            log_likelihood[partition] = _log_likelihood(model, partition)
        values.append(sum(log_p[i, j] for i, j in enumerate(links)) + log_likelihood[partition])
    return EnumeratedLinks(everything, np.array(values))


def _log_likelihood(model: Model, labels: tuple[int, ...]) -> float:
    from maitre.priors.dirichlet_process import DirichletProcess

    mixture = MixtureState(Model(model.family, DirichletProcess(1.0), model.encoded, model.n), labels, compiled=False)
    return float(sum(log_marginal(mixture.statistics, k) for k in range(max(labels) + 1)))
