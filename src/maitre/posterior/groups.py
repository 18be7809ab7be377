"""The result of sampling groups: clusters that groups have in common, and each group's share in them, draw by draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from maitre.data.groups import counted_words
from maitre.families.words import Words
from maitre.moves.franchise import HELD
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.rng import stream
from maitre.posterior.completion import folded_in, perplexity, smoothed
from maitre.posterior.documents import log_estimates, matched, recognised
from maitre.posterior.grouped_points import in_groups, log_weights
from maitre.posterior.posterior import Posterior, evenly_spaced
from maitre.states.base import State
from maitre.states.franchise import FranchiseState

_MOST_PAIRS = 50_000_000
_BLOCK = 1000  # groups


@dataclass(repr=False)
class GroupPosterior(Posterior):
    """Draws from the posterior of a hierarchical Dirichlet process. A cluster of words is a topic; numbers of clusters mean nothing from one draw to the next.

    >>> import maitre as mt, numpy as np
    >>> counts = np.array([[3, 1, 0, 0], [2, 2, 0, 0], [0, 0, 2, 3]])
    >>> hdp = mt.sample_groups(counts, draws=10, burn_in=10, chains=1, progress=False)
    >>> hdp.weights(0, 0).shape[0]
    3
    """

    state: type[State] = FranchiseState

    def __repr__(self) -> str:
        chains, draws = self.log_joint.shape
        what = "words in {} documents" if isinstance(self.model.family, Words) else "points in {} groups"
        size = f"{self.model.n} {what.format(self.n_groups)}"
        return f"GroupPosterior({size}, {chains} chains × {draws} draws, {self.model.family.in_one_line()}, {self.model.prior.in_one_line()})"

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return int(self.model.data.n_groups)  # type: ignore[union-attr]

    @property
    def labels(self) -> Any:
        """(chains, draws, n): the cluster of every point, in the order in which they were given; words document by document, by word within a document."""
        self._need_labels()
        return self.model.data.in_given_order(self.draws["labels"])  # type: ignore[union-attr]

    def _need_labels(self) -> None:
        if "labels" not in self.draws:
            raise ValueError("draws do not have the labels of all points: sample with keep_labels=True if you need them")

    def state_at(self, chain: int, draw: int) -> State:
        """The state of one draw, if labels were kept; its points stand group by group."""
        self._need_labels()
        return super().state_at(chain, draw)

    @property
    def group_names(self) -> Any:
        """The names of the groups, as they were given; documents are numbered."""
        return self.model.data.group_names  # type: ignore[union-attr]

    @property
    def vocabulary(self) -> Any:
        """The names of the words, or their numbers where the corpus has no names for them."""
        names = self.model.data.vocabulary  # type: ignore[union-attr]
        return np.arange(self._n_words()) if names is None else names

    @property
    def concentration(self) -> Floats:
        """(chains, draws): α, the concentration of the common measure."""
        return self._trace("top")

    @property
    def group_concentration(self) -> Floats:
        """(chains, draws): γ, the concentration of the groups around it; where each has its own, their mean."""
        return np.asarray(self.draws["gammas"]).mean(axis=-1) if "gammas" in self.draws else self._trace("group")

    def group_concentrations(self, chain: int, draw: int) -> Floats:
        """(groups,): γ of every group."""
        shared = self.group_concentration[chain, draw]
        return np.asarray(self.draws["gammas"][chain, draw]) if "gammas" in self.draws else np.full(self.n_groups, shared)

    def _trace(self, name: str) -> Floats:
        return self.draws[name] if name in self.draws else np.full(self.log_joint.shape, float(getattr(self.model.prior, name)))

    @property
    def best_draw(self) -> tuple[int, int]:
        """Chain and number of the draw with the highest log joint."""
        chain, draw = np.unravel_index(int(np.argmax(self.log_joint)), self.log_joint.shape)
        return int(chain), int(draw)

    def shares(self, chain: int, draw: int) -> Floats:
        """(K + 1,): the weights of the clusters in the common measure and, last, of all those not seen."""
        weights = np.asarray(self.draws["weights"][chain, draw])
        return np.append(weights[: int(self.n_clusters[chain, draw])], self.draws["rest"][chain, draw])

    def group_counts(self, chain: int, draw: int) -> sparse.csr_matrix:
        """(groups, K): how many points of a group are in each cluster."""
        n_clusters = int(self.n_clusters[chain, draw])
        return self._cells("group", chain, draw, (self.n_groups, n_clusters), n_clusters)

    def weights(self, chain: int, draw: int) -> Floats:
        """(groups, K + 1): the expected share of each cluster in each group and, last, of clusters not seen."""
        table = np.empty((self.n_groups, int(self.n_clusters[chain, draw]) + 1))
        for number, block in enumerate(self.blocks_of_weights(chain, draw)):
            table[number * _BLOCK :][: len(block)] = block
        return table

    def blocks_of_weights(self, chain: int, draw: int) -> Iterator[Floats]:
        """`weights` of some groups after the other: a table of all of them is large."""
        shares, gammas, counts = self.shares(chain, draw), self.group_concentrations(chain, draw), self.group_counts(chain, draw)
        for begin in range(0, self.n_groups, _BLOCK):
            weights = gammas[begin : begin + _BLOCK, None] * shares
            weights[:, :-1] += counts[begin : begin + _BLOCK].toarray()
            yield weights / weights.sum(axis=1, keepdims=True)

    def _cells(self, name: str, chain: int, draw: int, shape: tuple[int, int], width: int) -> sparse.csr_matrix:
        cells, counts = np.asarray(self.draws[f"{name}_cells"][chain, draw]), np.asarray(self.draws[f"{name}_counts"][chain, draw])
        cells, counts = cells[cells >= 0], counts[: np.count_nonzero(cells >= 0)]
        return sparse.csr_matrix((counts, (cells // width, cells % width)), shape=shape)

    def similarity(self, groups: Any = None, max_draws: int = 50) -> Floats:  # type: ignore[override]
        """(groups, all groups): how probable it is that a new point of the one and a new point of the other are of the same cluster, averaged over draws.

        `groups` has the numbers of some groups; by default all of them.
        """
        rows = np.arange(self.n_groups) if groups is None else np.atleast_1d(np.asarray(groups, dtype=np.int64))
        if len(rows) * self.n_groups > _MOST_PAIRS:
            raise ValueError(f"the similarity of {len(rows)} and {self.n_groups} groups is too large a table: give the numbers of some groups")
        total, some = np.zeros((len(rows), self.n_groups)), self._some(whole_number("max_draws", max_draws, least=1))
        for where in some:
            weights = self.weights(*where)[:, :-1].astype(np.float32)
            total += weights[rows] @ weights.T
        return total / len(some)

    # -- words ------------------------------------------------------------------------------------------------------------------------------

    def topic_counts(self, chain: int, draw: int) -> sparse.csr_matrix:
        """(K, words): how often each word is in each topic."""
        n_words = self._n_words()
        return self._cells("topic", chain, draw, (int(self.n_clusters[chain, draw]), n_words), n_words)

    def topics(self, chain: int, draw: int) -> Floats:
        """(K, words): the expected probabilities of words in each topic."""
        return np.asarray(self._with_rest(chain, draw)[0][:-1])

    def top_words(self, chain: int, draw: int, n: int = 10) -> list[Ints]:
        """For each topic, from the largest to the smallest, the numbers of its most frequent words."""
        counts = self.topic_counts(chain, draw)
        order = np.argsort(-np.asarray(counts.sum(axis=1)).ravel(), kind="stable")
        return [row.indices[np.argsort(-row.data, kind="stable")[:n]] for row in (counts[k] for k in order)]

    def perplexity(self, held_out: Any, seed: int = 0, max_draws: int = 20) -> float:
        """The perplexity of the second half of documents that were held out, given the first half; words' probabilities are averaged over at most `max_draws` draws."""
        counts, max_draws = self._new_documents(held_out), whole_number("max_draws", max_draws, least=1)
        return perplexity((self._with_rest(*where, np.float32) for where in self._some(max_draws)), counts, seed)

    def transform(self, documents: Any, chain: int | None = None, draw: int | None = None) -> Floats:
        """(documents, K + 1): the mixture of topics of new documents in one draw, by default the best; last, of topics not seen."""
        best = self.best_draw
        phi, prior = self._with_rest(best[0] if chain is None else chain, best[1] if draw is None else draw, np.float32)
        counts, topics = self._new_documents(documents), smoothed(phi)
        rows = [slice(counts.indptr[m], counts.indptr[m + 1]) for m in range(counts.shape[0])]
        return np.array([folded_in(topics, prior, counts.indices[row], counts.data[row]) for row in rows], dtype=np.float64)

    def similarity_to(self, documents: Any, max_draws: int = 20) -> Floats:
        """(new documents, groups): how probable it is that a word of a new document and a new word of one of the model's are of the same topic, averaged over draws."""
        counts, some = self._new_documents(documents), self._some(whole_number("max_draws", max_draws, least=1))
        return np.sum([self.transform(counts, *where)[:, :-1] @ self.weights(*where)[:, :-1].T for where in some], axis=0) / len(some)

    def log_density(self, new: Any, max_draws: int = 10, passes: int = 10, seed: int = 0, groups: Any = None) -> Floats:  # type: ignore[override]
        """log p(document | data) of each new document as a sequence of words, averaged over draws and passes of an unbiased estimate (`maitre.posterior.documents`).

        Topics stand at their expectations given a draw. For comparisons between systems, `perplexity` is the steadier number.

        Of points that are no words: log p(x | data) of each, averaged over draws, in the group that `groups` names for it; in a group not seen if none is named.
        """
        if not isinstance(self.model.family, Words):
            new, numbers = in_groups(self, new, groups)
            scores = [logsumexp(log_weights(self, new, numbers, *where), axis=1) for where in self._some(whole_number("max_draws", max_draws, least=1))]
            return np.asarray(logsumexp(scores, axis=0) - np.log(len(scores)))
        counts, some = self._new_documents(new), self._some(whole_number("max_draws", max_draws, least=1))
        passes, rng = whole_number("passes", passes, least=1), stream(whole_number("seed", seed))
        lengths = np.asarray(counts.sum(axis=1)).ravel()
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        words = np.repeat(counts.indices.astype(np.int64), counts.data)
        for begin, end in pairwise(starts):
            words[begin:end] = np.random.default_rng(seed).permutation(words[begin:end])
        found, one = [], np.empty(counts.shape[0])
        for where in some:
            phi, weights = self._with_rest(*where)
            table = np.ascontiguousarray(phi.T)
            for _ in range(passes):
                log_estimates(table, weights, words, starts, rng, one)
                found.append(one.copy())
        return np.asarray(logsumexp(found, axis=0) - np.log(len(found)))

    def matched_topics(self, chain: int, draw: int, other: tuple[int, int]) -> tuple[Ints, Floats]:
        """For each topic of a draw its partner in another draw (−1 without one) and how much their words overlap, 0 to 1. For display: topics of two draws are not the same."""
        return matched(self.topic_counts(chain, draw), self.topic_counts(*other))

    def found_again(self, max_draws: int = 10) -> Floats:
        """For each topic of the best draw, the share of other draws, of all chains, that have a topic with much the same words."""
        best = self.best_draw
        others = (where for where in self._some(whole_number("max_draws", max_draws, least=1)) if where != best)
        return recognised(self.topic_counts(*best), [self.topic_counts(*where) for where in others])

    def _with_rest(self, chain: int, draw: int, dtype: Any = np.float64) -> tuple[Any, Floats]:
        """Topics and their weights γβ, with one topic more that stands for all that have not been seen."""
        counts, n_words = self.topic_counts(chain, draw), self._n_words()
        phi = np.zeros((counts.shape[0] + 1, n_words), dtype=dtype)
        counts.astype(dtype).toarray(out=phi[:-1])
        phi += self.eta(chain, draw)
        phi /= phi.sum(axis=1, keepdims=True, dtype=np.float64)
        return phi, float(self.group_concentration[chain, draw]) * self.shares(chain, draw)

    def _some(self, most: int) -> list[tuple[int, int]]:
        return [(int(chain), int(draw)) for chain, draw in evenly_spaced(self.log_joint.shape, most)]

    def _new_documents(self, documents: Any) -> sparse.csr_matrix:
        n_words, counts = self._n_words(), counted_words(documents)
        if counts.shape[1] != n_words:
            raise ValueError(f"the documents have {counts.shape[1]} words; the model was fitted to {n_words}")
        return counts

    def _n_words(self) -> int:
        if not isinstance(self.model.family, Words):
            raise ValueError(f"the clusters are of {type(self.model.family).__name__}, not of words")
        return int(self.model.family.n_words or 0)

    def eta(self, chain: int, draw: int) -> float:
        """The concentration of the topics' words."""
        self._n_words()
        sampled = self.draws.get("family.concentration")
        return float(self.model.family.concentration if sampled is None else sampled[chain, draw])  # type: ignore[attr-defined]

    # -- points that are no words -------------------------------------------------------------------------------------------------------------

    def predict_proba(self, new: Any, groups: Any = None, chain: int | None = None, draw: int | None = None) -> Floats:  # type: ignore[override]
        """(points, K + 1): where new points of the groups that `groups` names (of a group not seen, if none is) belong in one draw, by default the best; last, in no cluster
        seen so far. Points and groups may also come as a pair, as for `maitre.sample_groups`. For documents see `transform`.

        >>> import maitre as mt, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x, school = np.concatenate([rng.normal(size=(20, 1)), rng.normal(8.0, 1.0, size=(20, 1))]), np.repeat(["north", "south"], 20)
        >>> hdp = mt.sample_groups((x, school), mt.families.NormalInverseGamma(), draws=20, burn_in=50, chains=1, progress=False)
        >>> bool((hdp.predict([[0.0], [8.0]], "north") == hdp.predict([[0.1], [8.1]])).all())
        True
        """
        if isinstance(self.model.family, Words):
            raise ValueError("words are not predicted one by one: use `transform` for documents")
        best = self.best_draw
        where = best[0] if chain is None else chain, best[1] if draw is None else draw
        scores = log_weights(self, *in_groups(self, new, groups), *where)
        return np.asarray(np.exp(scores - logsumexp(scores, axis=1, keepdims=True)))

    def predict(self, new: Any, groups: Any = None, chain: int | None = None, draw: int | None = None) -> Ints:  # type: ignore[override]
        """The most probable cluster of a draw, by default the best, for each new point."""
        return np.asarray(np.argmax(self.predict_proba(new, groups, chain, draw)[:, :-1], axis=1), dtype=np.int64)

    @property
    def start_in_words(self) -> str:
        """Where the chains started."""
        name, _, number = str(self.settings.get("init")).partition(":")
        what = "topics" if isinstance(self.model.family, Words) else "clusters"
        held = f"; γ and the family's hyper-parameters held for the first {HELD} iterations of burn-in" if self.exact else ""
        found = "the clusters found for all points as one group" if name == "auto" else name
        return (f"{number} {what} at random" if name == "random" and number else found) + held

    def summary(self) -> str:
        """A few lines to read."""
        chains, draws = self.log_joint.shape
        n_empty = int(np.count_nonzero(np.diff(self.model.data.starts) == 0))  # type: ignore[union-attr]
        empty = f" ({n_empty} of them empty: kept, with the common weights)" if n_empty else ""
        lines = [f"{self.model.n} points in {self.n_groups} groups{empty}, {chains} chain{'s' * (chains != 1)} × {draws} draws, start: {self.start_in_words}"]
        lines += [f"family: {self.model.family.in_one_line()}", f"prior: {self.model.prior.in_one_line()}"]
        for name, row in self.diagnostics().items():
            lines.append(f"{name:>24}: mean {row['mean']:.4g}, sd {row['sd']:.3g}, effective draws {row['ess']:.0f}, R̂ {row['r_hat']:.3f}")
        return "\n".join(lines + self._warnings())
