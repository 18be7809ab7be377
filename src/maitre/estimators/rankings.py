"""Clusters of rankings without a number of clusters: ballots, lists of favourites, orders of finish."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from maitre.data.rankings import Rankings, as_rankings
from maitre.estimators.mixture import seed_of
from maitre.numerics.arrays import Floats, Ints
from maitre.rankings import sample_rankings


class RankingMixture(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters of rankings; how many there are is found, not given.

    Parameters
    ----------
    family : "GeneralizedMallows" (every cluster has a central ordering and says how firmly it holds to it at each place), "PlackettLuce" (every cluster gives the items
        worths), a family object, or "auto": whichever predicts a fifth of the rankings better from the rest.
    prior : over partitions; by default a Dirichlet process with sampled concentration for generalized Mallows, a Pitman–Yor process of discount ¼ for Plackett–Luce models.
    items : names of the items, where rankings have numbers.
    moves, draws, burn_in, thin, chains, init : as in `maitre.sample`, with numbers that suit rankings.
    random_state : a whole number, a `RandomState`, or None for other draws every time.
    progress : whether to show a progress bar.

    Attributes
    ----------
    labels_ : (voters,): the cluster of every voter in the partition with the least expected loss (`Posterior.point_estimate`).
    centers_ : for each cluster the names of the items, from best to worst.
    dispersions_ : (clusters, places): E[θ_j], how firmly a cluster holds to its ordering at each place (generalized Mallows); None otherwise.
    weights_ : (clusters,): the share of the voters in each.
    choice_ : with family="auto", a sentence that says why this family.
    posterior_ : all draws, a `maitre.posterior.rankings.RankingPosterior`.

    >>> import maitre as mt
    >>> fitted = mt.RankingMixture("GeneralizedMallows", draws=5, burn_in=20, random_state=0).fit([["tea", "milk", "juice"], ["tea", "milk"], ["juice", "milk"]])
    >>> fitted.log_density([["tea"]]).shape
    (1,)
    """

    def __init__(
        self,
        family: Any = "auto",
        prior: Any = None,
        items: Any = None,
        moves: Any = "auto",
        draws: int | None = None,
        burn_in: int | None = None,
        thin: int | None = None,
        chains: int = 1,
        init: Any = "auto",
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.family = family
        self.prior = prior
        self.items = items
        self.moves = moves
        self.draws = draws
        self.burn_in = burn_in
        self.thin = thin
        self.chains = chains
        self.init = init
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw clusters of rankings: a list of items, best first, for every voter, or the name of a PrefLib file; y is ignored."""
        rankings = self._read(X)
        options = {name: getattr(self, name) for name in ("family", "prior", "moves", "draws", "burn_in", "thin", "chains", "init", "progress")}
        self.posterior_ = posterior = sample_rankings(rankings, seed=seed_of(self.random_state), **options)
        self.family_, self.choice_ = posterior.model.family, posterior.model.choice
        self.labels_: Ints = posterior.point_estimate()
        self.weights_ = posterior.shares()
        self.centers_ = [[rankings.name_of(int(item)) for item in row] for row in posterior.orderings()]
        self.dispersions_: Floats | None = posterior.dispersions() if "orderings" in posterior.draws else None
        self.n_clusters_ = len(self.centers_)
        return self

    def _read(self, X: Any) -> Rankings:
        return as_rankings(X) if self.items is None or isinstance(X, Rankings) else Rankings.of_lists(X, len(self.items), self.items)

    def predict_proba(self, X: Any) -> Floats:
        """(rankings, clusters + 1): where rankings belong; last, in a cluster not seen."""
        check_is_fitted(self)
        return self.posterior_.predict_proba(X)

    def predict(self, X: Any) -> Ints:
        """The most probable of the clusters for each ranking."""
        check_is_fitted(self)
        return self.posterior_.predict(X)

    def log_density(self, X: Any) -> Floats:
        """log p(ranking | data), given its length, of each new ranking."""
        check_is_fitted(self)
        return self.posterior_.log_density(X)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `log_density`."""
        return float(np.mean(self.log_density(X)))

    def sample(self, n: int = 1, length: int | None = None, random_state: int = 0) -> list[list[str]]:
        """New rankings, by the items' names, from the posterior predictive."""
        check_is_fitted(self)
        found = self.posterior_.sample_rankings(n, length, random_state)
        return [[self.posterior_.rankings.name_of(item) for item in row] for row in found]
