"""A mixture without a number of components, in the manner of `sklearn.mixture.GaussianMixture`.

The estimator reports one partition, that with the least expected variation of information; `posterior_` holds all draws and with them the uncertainty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from maitre.chains.choice import assembled
from maitre.chains.progress import compilation_told
from maitre.chains.run import Conditions
from maitre.chains.settings import Settings
from maitre.data.validation import count_matrix
from maitre.extending import extend
from maitre.families import REGISTRY as FAMILIES
from maitre.families.base import Family
from maitre.families.categorical import Categorical
from maitre.families.dirichlet_multinomial import DirichletMultinomial
from maitre.families.product import Product
from maitre.model import Model, as_prior, is_open
from maitre.moves import Move
from maitre.numerics.arguments import as_seed, truth
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.distributions import Parametrised
from maitre.posterior.posterior import Posterior
from maitre.priors import REGISTRY as PRIORS
from maitre.priors.base import Prior
from maitre.sampling import sample_model


class SampledClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """What estimators that sample partitions share: which data they take, and what they report."""

    family: Family | str | None
    random_state: Any
    progress: bool

    def _sample(self, model: Model) -> None:
        settings = Settings(seed=seed_of(self.random_state), **{name: getattr(self, name) for name in ("moves", "draws", "burn_in", "thin", "chains", "init")})
        with compilation_told(not truth("progress", self.progress)):
            posterior = sample_model(model, settings, Conditions(progress=self.progress))
        self._report(posterior)

    def _report(self, posterior: Posterior) -> None:
        self.posterior_ = posterior
        self.labels_ = posterior.point_estimate()
        self.n_clusters_ = int(self.labels_.max()) + 1
        self.concentration_ = float(posterior.concentration.mean())

    def _checked(self, X: Any, reset: bool) -> Any:
        """A table as it is where its columns have types of their own, anything else as scikit-learn's array; NaN and infinity are left to the family, which names the entry."""
        if reset:
            self._is_table = _is_mixed(X) or self._takes_categories(X) or (hasattr(X, "columns") and is_open(self.family))
        if self._is_table:
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        checked = validate_data(self, X, reset=reset, accept_sparse="csr", ensure_all_finite=False)
        if sparse.issparse(checked):
            _check_counts(checked)
        return checked

    def _takes_categories(self, X: Any) -> bool:
        """Whether the family names columns or takes text, so that X must stay as it is."""
        if not (isinstance(self.family, (Categorical, Product)) or self._family_is("Categorical")):
            return False
        return hasattr(X, "columns") or np.asarray(X).dtype.kind in "OUS"

    def _family_is(self, name: str) -> bool:
        return isinstance(self.family, str) and self.family == name

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; with `deep` also those of the prior and the family, as in prior__concentration."""
        params = dict(super().get_params(deep=False))
        if deep:
            for name, part in self._parts().items():
                params |= {f"{name}__{field}": value for field, value in part.describe().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also single ones of the prior or the family, as in `set_params(prior__concentration=0.5)`."""
        super().set_params(**{name: value for name, value in params.items() if "__" not in name})
        for name, value in params.items():
            owner, inner, field = name.partition("__")
            if inner:
                part = self._parts().get(owner)
                if part is None or field not in part.describe():
                    known = [each for each in self.get_params() if "__" in each]
                    raise ValueError(f"Invalid parameter {name!r} for estimator {type(self).__name__}; expected one of {', '.join(known)}")
                setattr(self, owner, part.at({field: value}))
        return self

    def _parts(self) -> dict[str, Parametrised]:
        """The prior and the family as objects, where there are any before the data are known."""
        family: Any = getattr(self, "family", None)
        if isinstance(family, str) and not is_open(family) and family in FAMILIES and family != "Product":
            family = FAMILIES[family]()
        prior: Any = getattr(self, "prior", False)
        prior = as_prior(prior) if prior is None or (isinstance(prior, str) and prior in PRIORS) else prior
        return {name: part for name, part in (("family", family), ("prior", prior)) if isinstance(part, Parametrised)}

    def __sklearn_tags__(self) -> Any:
        """Sparse matrices are taken if they hold counts, which the tag for any sparse matrix cannot say: it is set only where a family of counts is asked for."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = self._family_is("DirichletMultinomial") or isinstance(self.family, DirichletMultinomial)
        tags.input_tags.allow_nan = self.family is None or self._family_is("auto") or isinstance(self.family, Product)
        return tags


class DPMixture(SampledClustering):
    """Cluster by sampling a mixture whose number of components is found, not given.

    Parameters
    ----------
    family : component model, or its name; by default chosen from the types of the columns. A DataFrame may mix numbers, truth values and text, and lack values.
    prior : prior over partitions, or its name; by default a Dirichlet process whose concentration is sampled.
    moves : names joined by "+", or move objects; "auto" is the best choice for the family.
    draws, burn_in, thin, chains : as in `maitre.sample`; by default one chain whose length follows from the number of points.
    init : where chains start: "auto", "sequential", "one", "singletons", "random:K", "kmeans:K", "variational:K", or one label per point.
    random_state : a whole number (the seed of `maitre.sample`), a `RandomState` or `Generator`, or None for other draws every time.
    progress : whether to show a progress bar.
    types : what some columns are ("number", "log", "count", "category" or "out"), by name or position; the others are decided (`posterior_.model.columns`).

    Attributes
    ----------
    labels_ : the cluster of each point in the partition with the least expected loss (`Posterior.point_estimate`).
    n_clusters_ : the number of clusters of that partition.
    posterior_ : all draws, a `maitre.Posterior`.
    concentration_ : posterior mean of the prior's concentration.
    n_features_in_ : the number of columns.
    feature_names_in_ : their names, if the data came as a DataFrame.

    >>> import maitre as mt
    >>> x = [[0.0], [0.1], [0.2], [0.3], [9.0], [9.1], [9.2], [9.3]]
    >>> mixture = mt.DPMixture(draws=200, burn_in=100, random_state=0).fit(x)
    >>> mixture.labels_
    array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> mixture.predict([[0.15], [9.15]])
    array([0, 1])
    """

    def __init__(
        self,
        family: Family | str | None = None,
        prior: Prior | str | None = None,
        moves: str | Move | Sequence[str | Move] = "auto",
        draws: int | None = None,
        burn_in: int | None = None,
        thin: int = 1,
        chains: int = 1,
        init: Any = "auto",
        random_state: Any = None,
        progress: bool = False,
        types: Mapping[Any, str] | None = None,
    ) -> None:
        self.family = family
        self.prior = prior
        self.moves = moves
        self.draws = draws
        self.burn_in = burn_in
        self.thin = thin
        self.chains = chains
        self.init = init
        self.random_state = random_state
        self.progress = progress
        self.types = types

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw partitions of the rows of X and report the one nearest to all of them; y is ignored."""
        self._sample(assembled(self._checked(X, reset=True), self.family, self.prior, types=self.types))
        return self

    @available_if(lambda self: hasattr(self, "draws"))  # a search cannot go on
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """More rows: seated by their predictive among those there are, then sampled on (`maitre.extend`); `labels_` are those of all rows. The first call fits."""
        if not hasattr(self, "posterior_"):
            return self.fit(X, y)
        self._report(extend(self.posterior_, self._checked(X, reset=False), draws=self.draws, burn_in=self.burn_in, progress=truth("progress", self.progress)))
        return self

    def predict(self, X: Any) -> Ints:
        """The most probable cluster of `labels_` for each row of X."""
        return np.asarray(np.argmax(self.predict_proba(X), axis=1), dtype=np.int64)

    def predict_proba(self, X: Any) -> Floats:
        """(rows, n_clusters_): the probabilities of the clusters of `labels_`, given that the row belongs to one of them.

        A row so far from all of them that it surely opens a cluster of its own gets the clusters' shares of the points.
        """
        check_is_fitted(self)
        known = self.posterior_.predict_proba(self._checked(X, reset=False))[:, :-1]
        total = known.sum(axis=1, keepdims=True)
        shares = np.bincount(self.labels_) / len(self.labels_)
        return np.where(total > 0.0, known / np.where(total > 0.0, total, 1.0), shares)

    def score_samples(self, X: Any) -> Floats:
        """The log predictive density of each row of X."""
        check_is_fitted(self)
        return self.posterior_.log_density(self._checked(X, reset=False))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log predictive density of the rows of X; y is ignored."""
        return float(self.score_samples(X).mean())


def seed_of(random_state: Any) -> int:
    """The seed itself if it is a number, otherwise drawn from the random state.

    >>> seed_of(7)
    7
    """
    return as_seed(check_random_state(random_state) if random_state is None or random_state is np.random else random_state)


def _is_mixed(X: Any) -> bool:
    """Whether X is a table that an array of numbers could not hold."""
    import pandas as pd

    if not isinstance(X, pd.DataFrame):
        return False
    return any(not isinstance(dtype, np.dtype) or dtype.kind not in "iufc" for dtype in X.dtypes) or bool(X.isna().any(axis=None))


def _check_counts(X: Any) -> None:
    try:
        count_matrix(X)
    except ValueError as error:
        raise ValueError(f"a sparse matrix is taken as counts, and {error}; for other numbers than counts give a dense array: X.toarray()") from None
