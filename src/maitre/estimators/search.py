"""The most probable partition as a scikit-learn clusterer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from maitre.chains.progress import compilation_told
from maitre.estimators.mixture import DPMixture, seed_of
from maitre.families.base import Family
from maitre.numerics.arguments import one_of, truth
from maitre.optimize.scores import SCORES
from maitre.priors.base import Prior
from maitre.searching import search


class MAPSearch(DPMixture):
    """Cluster by searching for the most probable partition, without giving the number of clusters.

    Parameters
    ----------
    family, prior : as in `maitre.search`; by default chosen from the types of the columns, and a Dirichlet process whose concentration is estimated.
    beam, heuristic, order, queue, diversity, restarts : how partial clusterings are searched, as in `maitre.search`, where `heuristic` is called `score`.
    refine : whether to climb and anneal from what the search has found: much better partitions.
    rounds, time_budget : how long to go on.
    random_state : a whole number (the seed of `maitre.search`), a `RandomState`, or None for another seed every time.
    progress : whether to show a progress bar.
    types : what some columns are, as in `maitre.DPMixture`.

    Attributes
    ----------
    labels_ : the cluster of each point.
    n_clusters_ : the number of clusters.
    log_joint_ : log p(C, x) of the partition.
    found_ : everything about the search, a `maitre.Found`.
    posterior_ : the partition as a posterior of one draw, which predictions are made from.
    concentration_ : the prior's concentration, estimated or given.
    n_features_in_, feature_names_in_ : the columns.

    >>> import maitre as mt
    >>> x = [[0.0], [0.1], [0.2], [0.3], [9.0], [9.1], [9.2], [9.3]]
    >>> mt.MAPSearch(random_state=0, rounds=5).fit_predict(x)
    array([0, 0, 0, 0, 1, 1, 1, 1])
    """

    def __init__(
        self,
        family: Family | str | None = None,
        prior: Prior | str | None = None,
        beam: int | None = 100,
        heuristic: str = "inadmissible",
        order: str | Sequence[str] = "marginal",
        queue: str = "best-first",
        diversity: int = 10,
        restarts: int = 0,
        refine: bool = True,
        rounds: int | None = None,
        time_budget: float | None = None,
        random_state: Any = None,
        progress: bool = False,
        types: Mapping[Any, str] | None = None,
    ) -> None:
        self.family = family
        self.prior = prior
        self.beam = beam
        self.heuristic = heuristic
        self.order = order
        self.queue = queue
        self.diversity = diversity
        self.restarts = restarts
        self.refine = refine
        self.rounds = rounds
        self.time_budget = time_budget
        self.random_state = random_state
        self.progress = progress
        self.types = types

    def fit(self, X: Any, y: Any = None) -> Self:
        """Search for the most probable partition of the rows of X; y is ignored."""
        with compilation_told(not truth("progress", self.progress)):
            self.found_ = search(
                self._checked(X, reset=True),
                family=self.family,
                prior=self.prior,
                beam=self.beam,
                score=one_of("heuristic", self.heuristic, SCORES),
                order=self.order,
                seed=seed_of(self.random_state),
                queue=self.queue,
                diversity=self.diversity,
                restarts=self.restarts,
                refine=self.refine,
                rounds=self.rounds,
                time_budget=self.time_budget,
                progress=self.progress,
                types=self.types,
            )
        self.posterior_ = self.found_.as_posterior()
        self.labels_, self.n_clusters_, self.log_joint_ = self.found_.labels, self.found_.n_clusters, self.found_.log_joint
        self.concentration_ = float(self.posterior_.concentration[0, 0])
        return self
