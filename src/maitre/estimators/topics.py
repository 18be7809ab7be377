"""Topics of documents without a number of topics, in the manner of `sklearn.decomposition.LatentDirichletAllocation`.

The estimator reports the topics of one draw, that with the highest log joint, from the most to the least prevalent; `posterior_` holds all draws. Perplexities are averages over
draws.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from maitre.data.groups import GroupedRows, as_groups
from maitre.estimators.mixture import seed_of
from maitre.families.words import Words
from maitre.numerics.arrays import Floats
from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.posterior.groups import GroupPosterior
from maitre.sampling import resume, sample_groups

_ONE = Gamma(1.0, 1.0)


class HDPTopics(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Topics by sampling a hierarchical Dirichlet process; how many there are is found, not given.

    Parameters
    ----------
    concentration : η of the topics' words: below 1 for topics of few words; by default sampled.
    top, group : the concentrations of the common measure and of the documents around it: numbers, or priors of numbers that are sampled; by default Gamma(1, 1).
    moves, draws, burn_in, thin, chains, init : as in `maitre.sample_groups`.
    warm_start : whether `fit` to the same documents goes on from where the chains stand, with `draws` more of them, instead of beginning anew.
    random_state : a whole number (the seed of `maitre.sample_groups`), a `RandomState`, or None for other draws every time.
    progress : whether to show a progress bar.

    Attributes
    ----------
    components_ : (topics, words): how often each word is in each topic, plus η; in single precision.
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
        top: Hyperparameter | None = None,
        group: Hyperparameter | None = None,
        moves: Any = "direct",
        draws: int | None = None,
        burn_in: int | None = None,
        thin: int = 1,
        chains: int = 1,
        init: Any = "auto",
        warm_start: bool = False,
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
        self.warm_start = warm_start
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw topics of the documents whose counts of words are the rows of X; y is ignored."""
        rows = as_groups(self._checked(X, reset=not (self.warm_start and hasattr(self, "posterior_"))))
        before = getattr(self, "posterior_", None) if self.warm_start else None
        goes_on = before is not None and before.model.data.fingerprint() == rows.fingerprint()
        self.posterior_ = self._continued(before) if before is not None and goes_on else self._sampled(rows)
        chain, draw = self.posterior_.best_draw
        found = self.posterior_.topic_counts(chain, draw)
        sizes = np.asarray(found.sum(axis=1)).ravel()
        self._order = np.argsort(-sizes, kind="stable")
        self.components_ = found[self._order].astype(np.float32).toarray()
        self.components_ += self.posterior_.eta(chain, draw)
        self.topic_weights_ = sizes[self._order] / sizes.sum()
        self.n_topics_ = len(sizes)
        return self

    def _sampled(self, rows: GroupedRows) -> GroupPosterior:
        settings = {name: getattr(self, name) for name in ("moves", "draws", "burn_in", "thin", "chains", "init", "progress")}
        family = None if self.concentration is None else Words(self.concentration)
        top, group = (_ONE if value is None else value for value in (self.top, self.group))
        return sample_groups(rows, family, top, group, seed=seed_of(self.random_state), **settings)

    def _continued(self, before: GroupPosterior) -> GroupPosterior:
        """The same chains with as many draws more as are asked for, or as there were."""
        made = before.log_joint.shape[1]
        with tempfile.TemporaryDirectory(prefix="maitre-topics-") as folder:
            before.save(Path(folder) / "run")
            longer = resume(Path(folder) / "run", made + (made if self.draws is None else self.draws), progress=self.progress)
            longer.draws, longer.folder = {name: np.asarray(values) for name, values in longer.draws.items()}, None
            longer.later = {chain: {name: np.asarray(values) for name, values in draws.items()} for chain, draws in longer.later.items()}
        return cast(GroupPosterior, longer)

    def transform(self, X: Any) -> Floats:
        """(documents, topics): the mixture of topics of each document."""
        check_is_fitted(self)
        mixtures = self.posterior_.transform(self._checked(X, reset=False))[:, :-1][:, self._order]
        return np.asarray(mixtures / mixtures.sum(axis=1, keepdims=True))

    def perplexity(self, X: Any, seed: int = 0) -> float:
        """The perplexity of the second half of each document given the first, averaged over draws."""
        check_is_fitted(self)
        return self.posterior_.perplexity(self._checked(X, reset=False), seed)

    def log_density(self, X: Any) -> Floats:
        """The log probability of each document, averaged over draws (`maitre.GroupPosterior.log_density`)."""
        check_is_fitted(self)
        return self.posterior_.log_density(self._checked(X, reset=False))

    def similarity(self, X: Any = None) -> Floats:
        """(documents, documents fitted): how probable it is that two words, one of each, are of the same topic, averaged over draws; X are new documents, by default those fitted."""
        check_is_fitted(self)
        return self.posterior_.similarity() if X is None else self.posterior_.similarity_to(self._checked(X, reset=False))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log probability of a word in the second half of documents given the first; higher is better."""
        return -math.log(self.perplexity(X))

    def top_words(self, n: int = 10, names: Any = None) -> list[list[Any]]:
        """The most frequent words of every topic: by number, or by name where `names` has them (such as `CountVectorizer.get_feature_names_out()`)."""
        check_is_fitted(self)
        return [[int(w) if names is None else names[w] for w in np.argsort(-topic, kind="stable")[:n]] for topic in self.components_]

    @property
    def _n_features_out(self) -> int:
        return self.n_topics_

    def _checked(self, X: Any, reset: bool) -> Any:
        return validate_data(self, X, reset=reset, accept_sparse="csr", ensure_non_negative=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        return tags
