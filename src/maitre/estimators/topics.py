"""Topics of documents without a number of topics, in the manner of `sklearn.decomposition.LatentDirichletAllocation`.

The estimator reports the topics of one draw, that with the highest log joint, from the most to the least prevalent; `posterior_` holds all draws. Perplexities are averages over
draws.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from maitre.estimators.mixture import seed_of
from maitre.families.words import Words
from maitre.numerics.arrays import Floats
from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.sampling import sample_groups

_ONE = Gamma(1.0, 1.0)


class HDPTopics(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Topics by sampling a hierarchical Dirichlet process; how many there are is found, not given.

    Parameters
    ----------
    concentration : η of the topics' words: below 1 for topics of few words; by default sampled.
    top, group : the concentrations of the common measure and of the documents around it: numbers, or priors of numbers that are sampled (by default Gamma(1, 1)).
    moves, draws, burn_in, thin, chains, init : as in `maitre.sample_groups`.
    random_state : a whole number (the seed of `maitre.sample_groups`), a `RandomState`, or None for other draws every time.
    progress : whether to show a progress bar.

    Attributes
    ----------
    components_ : (topics, words): how often each word is in each topic, plus η.
    topic_weights_ : (topics,): the share of each topic among all words.
    n_topics_ : how many topics there are.
    posterior_ : all draws, a `maitre.GroupPosterior`.

    >>> import maitre as mt
    >>> topics = mt.HDPTopics(draws=10, burn_in=50, random_state=0).fit([[4, 3, 0, 0], [3, 5, 0, 0], [0, 0, 4, 4]])
    >>> topics.transform([[1, 1, 0, 0]]).shape[1] == topics.n_topics_
    True
    """

    def __init__(
        self,
        concentration: Hyperparameter | None = None,
        top: Hyperparameter = _ONE,
        group: Hyperparameter = _ONE,
        moves: Any = "direct",
        draws: int | None = None,
        burn_in: int | None = None,
        thin: int = 1,
        chains: int = 1,
        init: Any = "auto",
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.concentration = concentration
        self.top = top
        self.group = group
        self.moves = moves
        self.draws = draws
        self.burn_in = burn_in
        self.thin = thin
        self.chains = chains
        self.init = init
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw topics of the documents whose counts of words are the rows of X; y is ignored."""
        counts = self._checked(X, reset=True)
        settings = {name: getattr(self, name) for name in ("top", "group", "moves", "draws", "burn_in", "thin", "chains", "init", "progress")}
        family = None if self.concentration is None else Words(self.concentration)
        self.posterior_ = sample_groups(counts, family, seed=seed_of(self.random_state), **settings)
        chain, draw = self.posterior_.best_draw
        found = self.posterior_.topic_counts(chain, draw).toarray()
        self._order = np.argsort(-found.sum(axis=1), kind="stable")
        self.components_ = found[self._order] + self.posterior_.eta(chain, draw)
        self.topic_weights_ = found.sum(axis=1)[self._order] / found.sum()
        self.n_topics_ = len(found)
        return self

    def transform(self, X: Any) -> Floats:
        """(documents, topics): the mixture of topics of each document."""
        check_is_fitted(self)
        mixtures = self.posterior_.transform(self._checked(X, reset=False))[:, :-1][:, self._order]
        return np.asarray(mixtures / mixtures.sum(axis=1, keepdims=True))

    def perplexity(self, X: Any, seed: int = 0) -> float:
        """The perplexity of the second half of each document given the first, averaged over draws."""
        check_is_fitted(self)
        return self.posterior_.perplexity(self._checked(X, reset=False), seed)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log probability of a word in the second half of documents given the first; higher is better."""
        return -math.log(self.perplexity(X))

    def top_words(self, n: int = 10, names: Any = None) -> list[list[Any]]:
        """The most frequent words of every topic: by number, or by name where `names` has them (such as `CountVectorizer.get_feature_names_out()`)."""
        check_is_fitted(self)
        order = np.argsort(-self.components_, axis=1, kind="stable")[:, :n]
        return [[int(w) if names is None else names[w] for w in row] for row in order]

    @property
    def _n_features_out(self) -> int:
        return self.n_topics_

    def _checked(self, X: Any, reset: bool) -> Any:
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=None, ensure_non_negative=True, ensure_min_features=0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        return tags
