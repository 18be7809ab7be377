"""The result of sampling mixtures over rankings: clusters with their consensus orderings, how firm each place is, and predictions of new rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from maitre.data.rankings import Ballots, Rankings
from maitre.families.generalized_mallows import find_chance
from maitre.families.plackett_luce import lay_out_worths
from maitre.families.statistics import log_predictive_all
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import kernel
from maitre.numerics.mallows import mean_dispersion
from maitre.posterior.posterior import Posterior
from maitre.posterior.together import evenly_spaced
from maitre.states.base import State
from maitre.states.rankings import OrderingState

_NOTABLE, _SHOWN = 0.01, 5  # the share of the voters that makes a cluster worth showing, and how many of the largest are shown anyway


def n_notable(sizes: Sequence[int]) -> int:
    """How many clusters of rankings are worth showing: those with one in a hundred of the voters, and two; at least the five largest that have two.

    >>> n_notable([60, 30, 8, 1, 1]), n_notable([1, 1, 1])
    (3, 1)
    """
    several = sum(size >= 2 for size in sizes)
    return max(1, min(several, max(_SHOWN, sum(size >= _NOTABLE * sum(sizes) for size in sizes))))


@kernel
def score_rankings(s: Any, out: Floats) -> None:
    """out[d, k] += ln p(ranking d | slot k)."""
    for d in range(len(out)):
        log_predictive_all(s, d, out.shape[1], out[d])


def log_terms(state: Any, ballots: Ballots) -> Floats:
    """(distinct rankings, K + 1): the log probability of each in each cluster of a committed state, with the cluster's weight, and last in a new cluster."""
    own, n_clusters = state.statistics, state.n_clusters
    mallows = isinstance(state, OrderingState)
    s = state.family.allocate(ballots, n_clusters, own.seen.shape[1] if mallows else 1)
    terms = np.empty((len(ballots.starts) - 1, n_clusters + 1))
    scores = np.zeros((len(terms), n_clusters))
    if mallows:
        s.orderings[:], s.places[:] = own.orderings[:n_clusters], own.places[:n_clusters]
        width = own.seen.shape[1]
        s.seen[:, :width], s.total[:, :width] = own.seen[:n_clusters], own.total[:n_clusters]
    else:
        s.worths[:] = own.worths[:n_clusters]
        lay_out_worths(s)
    score_rankings(s, scores)
    terms[:, :-1], terms[:, -1] = scores, s.log_alone[np.diff(ballots.starts)]
    return terms + state.log_weights_of_a_new_point()


@dataclass(repr=False)
class RankingPosterior(Posterior):
    """Draws from the posterior of a mixture over rankings.

    >>> import maitre as mt
    >>> posterior = mt.sample([[0, 1, 2], [0, 2, 1], [2, 1]], family=mt.families.GeneralizedMallows(3), draws=10, burn_in=10, chains=1, progress=False)
    >>> posterior.log_density([[0, 1]]).shape
    (1,)
    """

    state: type[State] = OrderingState

    @property
    def rankings(self) -> Rankings:
        """The data."""
        return self.model.data  # type: ignore[return-value]

    def _clusters(self, chain: int | None, draw: int | None) -> Any:
        """The state of a draw; or, if none is named, that of the point estimate with the best ordering, or worths, that were found for each of its clusters."""
        if chain is not None and draw is not None:
            return self.state_at(chain, draw)
        if "reported" not in self.found:
            self.found["reported"] = self.state.of_variables(self.model, {"labels": self.point_estimate()})
        return self.found["reported"]

    def orderings(self, chain: int | None = None, draw: int | None = None) -> Ints:
        """(K, items): for each cluster of the point estimate, or of a draw, the items from best to worst: its central ordering, or the items by their worths."""
        state = self._clusters(chain, draw)
        if isinstance(state, OrderingState):
            return np.asarray(state.rows[: state.n_clusters], dtype=np.int64)
        return np.argsort(-self.worths(chain, draw), axis=1, kind="stable")

    def worths(self, chain: int | None = None, draw: int | None = None) -> Floats:
        """(K, items): the worth of every item in each cluster, summing to one."""
        state = self._clusters(chain, draw)
        if isinstance(state, OrderingState):
            raise ValueError(f"{type(self.model.family).__name__} has no worths: see `orderings` and `dispersions`")
        worths = state.rows[: state.n_clusters]
        return np.asarray(worths / worths.sum(axis=1, keepdims=True))

    def dispersions(self, chain: int | None = None, draw: int | None = None) -> Floats:
        """(K, places): E[θ_j] of each cluster: how firmly it holds to its ordering at each place; 0 is not at all. NaN where none of its rankings reaches."""
        state = self._clusters(chain, draw)
        if not isinstance(state, OrderingState):
            raise ValueError(f"{type(self.model.family).__name__} has no dispersions: see `worths`")
        s = state.statistics
        found = np.full((state.n_clusters, len(s.r)), np.nan)
        for k, j in np.argwhere(s.seen[: state.n_clusters] > 0):
            found[k, j] = mean_dispersion(s.nu * s.r[j] + s.total[k, j], s.nu + s.seen[k, j], s.n_items - 1 - int(j))
        return found

    def firmness(self, chain: int | None = None, draw: int | None = None) -> Floats:
        """(K, places): how probable it is in each cluster that a ranking which has followed the cluster's ordering so far does so at this place too."""
        state, places = self._clusters(chain, draw), min(self.rankings.n_items - 1, int(np.diff(self.rankings.starts).max()))
        if isinstance(state, OrderingState):
            return np.array([[find_chance(state.statistics, k, j, 0) for j in range(places)] for k in range(state.n_clusters)])
        sorted_worths = -np.sort(-self.worths(chain, draw), axis=1)
        return np.asarray(sorted_worths / np.cumsum(sorted_worths[:, ::-1], axis=1)[:, ::-1])[:, :places]

    def shares(self, chain: int | None = None, draw: int | None = None) -> Floats:
        """(K,): the share of the voters in each cluster."""
        state = self._clusters(chain, draw)
        return np.asarray(state.sizes[: state.n_clusters] / self.model.n)

    def _new(self, new: Any) -> tuple[Rankings, Ballots]:
        rows = self.rankings.alike(new)
        return rows, self.model.family.encode(rows)

    def _chosen(self, max_draws: int) -> list[tuple[int, int]]:
        return evenly_spaced(self.log_joint.shape, whole_number("max_draws", max_draws, least=1))

    def log_density(self, new: Any, max_draws: int = 50, distances: Any = None) -> Floats:
        """log p(ranking | data) of each new ranking, given its length: the predictive probability averaged over draws."""
        rows, ballots = self._new(new)
        draws = self._chosen(max_draws)
        values = [logsumexp(log_terms(self.state_at(*where), ballots), axis=1) for where in draws]
        return np.asarray((logsumexp(values, axis=0) - np.log(len(draws)))[rows.ballot])

    def predict_proba(self, new: Any, max_draws: int = 50, distances: Any = None) -> Floats:
        """(rankings, clusters of the point estimate + 1): where new rankings belong; the last column is a cluster not seen. Draws count in proportion to the density they give the ranking."""
        rows, ballots = self._new(new)
        reference = self.point_estimate()
        n_reference = int(reference.max()) + 1
        total, highest = np.zeros((len(ballots.starts) - 1, n_reference + 1)), np.full((len(ballots.starts) - 1, 1), -np.inf)
        for where in self._chosen(max_draws):
            state: Any = self.state_at(*where)
            share = np.zeros((state.n_clusters + 1, n_reference + 1))
            np.add.at(share, (state.canonical_labels(), reference), 1.0)
            share[:-1] /= share[:-1].sum(axis=1, keepdims=True)
            share[-1, -1] = 1.0
            terms = log_terms(state, ballots)
            top = np.maximum(highest, terms.max(axis=1, keepdims=True))
            total = total * np.exp(highest - top) + np.exp(terms - top) @ share
            highest = top
        return np.asarray((total / total.sum(axis=1, keepdims=True))[rows.ballot])

    def sample_rankings(self, n: int, length: int | None = None, seed: int = 0) -> list[list[int]]:
        """New rankings from the posterior predictive, each of this length (by default as long as one of the data's, at random): clusters of random draws, or the whole unknown."""
        rng, n_items = np.random.default_rng(seed), self.rankings.n_items
        lengths = np.diff(self.rankings.starts)[self.rankings.ballot]
        draws = self._chosen(50)
        found = []
        for which in rng.integers(len(draws), size=whole_number("n", n)):
            chain, draw = draws[which]
            size = int(rng.choice(lengths)) if length is None else whole_number("length", length, least=1, most=n_items)
            weights = np.exp(self.state_at(chain, draw).log_weights_of_a_new_point())  # type: ignore[attr-defined]
            cluster = int(rng.choice(len(weights), p=weights / weights.sum()))
            found.append(self._ranking(chain, draw, cluster, size, rng))
        return found

    def _ranking(self, chain: int, draw: int, cluster: int, size: int, rng: Any) -> list[int]:
        n_items = self.rankings.n_items
        if cluster == int(self.n_clusters[chain, draw]):
            return [int(item) for item in rng.permutation(n_items)[:size]]
        if "worths" in self.draws:
            return [int(item) for item in np.argsort(rng.exponential(size=n_items) / self.worths(chain, draw)[cluster], kind="stable")[:size]]
        state: Any = self.state_at(chain, draw)
        s, left = state.statistics, [int(item) for item in state.statistics.orderings[cluster]]
        chances, ranking = np.empty(n_items), []
        for j in range(size):
            m = n_items - 1 - j
            if j < len(s.r):
                chances[: m + 1] = [find_chance(s, cluster, j, code) for code in range(m + 1)]
            code = int(rng.choice(m + 1, p=chances[: m + 1] / chances[: m + 1].sum())) if j < len(s.r) else int(rng.integers(m + 1))
            ranking.append(left.pop(code))
        return ranking
