"""Which family describes the data better, where nothing was said: full covariances, or columns that are independent within a cluster.

Clusters with independent columns are found first, in at most 1,000 rows, among the cuts of Ward's trees. If nothing correlates within them, they are taken. A full covariance
has D(D + 1)/2 parameters, and the clusters share most of what there is to learn about them: where rows are many times as many it never does worse, and is taken. Otherwise
families are fitted to three quarters of at most 2,000 rows and judged by the density they give to the rest; of few rows every quarter is left out in turn. If little correlates,
and independent columns do better than full covariances of their own clusters and of one cluster, that is enough. If the best start of full covariances is clearly better than
that of independent columns, these are taken. Else clusters are found for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from maitre.chains.climbs import looked_at
from maitre.chains.rankings import better_model
from maitre.chains.starts import start
from maitre.chains.tails import with_tails
from maitre.data.rankings import Rankings
from maitre.data.rows import Rows
from maitre.families.auto import WIDE, independent_columns
from maitre.families.base import Family
from maitre.families.hierarchical import HierarchicalNormalInverseWishart, shrinkage
from maitre.model import Model, is_open
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.lanes import one_thread_per_product
from maitre.numerics.rng import stream
from maitre.optimize.ascent import ascend_hyperparameters
from maitre.posterior.prediction import log_densities_given
from maitre.priors.base import Prior
from maitre.states.mixture import MixtureState

_ROWS = 2000
_PLENTY = 10  # rows per parameter of a covariance beyond which nothing is compared
_CHEAP = 8  # columns below which full covariances take about as long as independent columns
_FEW = 500  # rows of which every quarter is left out in turn
_CLEAR = 0.1  # nats per row and column by which the best start with full covariances must be better for densities not to be compared
_UNCORRELATED = 0.9  # the share of correlations within clusters that is chance, from which on columns count as independent …
_LITTLE = 0.3  # … and from which on, if they do better than full covariances of the same clusters
_CERTAIN = 2.0  # standard errors by which independent columns must do better
_SEED = 0  # the choice depends on the data alone


def assembled(
    data: Any, family: Family | str | None = None, prior: Prior | str | None = None, on_disk: bool = False, types: Mapping[Any, str] | None = None
) -> Model:
    """`Model.of`, with the family that predicts better where none is named: the one place in which samplers, searches, estimators and the command get their model.

    >>> import numpy as np
    >>> type(assembled(np.random.default_rng(0).normal(size=(30, 2))).family).__name__
    'HierarchicalNormalInverseWishart'
    """
    if isinstance(data, Rankings) and is_open(family):
        return better_model(data, prior)
    model = Model.of(data, family, prior, on_disk=on_disk, types=types)
    if isinstance(data, Model) or not is_open(family) or not isinstance(model.data, Rows):
        return model
    return with_tails(_full_or_independent(model, prior), prior)


def _full_or_independent(model: Model, prior: Prior | str | None) -> Model:
    """The model, or that with independent columns where these predict better."""
    assert isinstance(model.data, Rows)
    n_columns = model.data.n_columns
    if not isinstance(model.family, HierarchicalNormalInverseWishart):
        wide = n_columns > WIDE and type(model.family) is type(independent_columns())
        return model.because(f"independent columns: a covariance of {n_columns} columns has too many parameters") if wide else model
    plenty = n_columns * (n_columns + 1) * _PLENTY < 2 * model.n
    if not model.in_memory or model.family.arrays(model.encoded).get("missing") or n_columns == 1 or model.n < 8 or (plenty and n_columns < _CHEAP):
        return model
    some, simpler = np.random.default_rng(_SEED).permutation(model.n)[:_ROWS], Model.of(model.data, independent_columns(), prior)
    with one_thread_per_product():
        chance = _share_of_chance(simpler)
        if chance > _UNCORRELATED:
            return simpler.because(f"independent columns: within clusters {chance:.0%} of what correlates is chance")
        if plenty:
            return model
        quarters = np.array_split(some, 4)
        splits = [_Split(np.asarray(model.valid), np.setdiff1d(some, held), held) for held in (quarters if len(some) <= _FEW else quarters[:1])]
        independent: list[Any] | None = None
        if chance > _LITTLE:
            independent = [split.started(independent_columns()) for split in splits]
            fits = ([state.canonical_labels() for state in independent], [np.zeros(state.model.n, dtype=np.int64) for state in independent])
            full = [[split.ascended(model.given, labels) for split, labels in zip(splits, fit, strict=True)] for fit in fits]
            comparisons = [_Comparison.of(splits, independent, states) for states in full]
            if all(one.certain for one in comparisons):
                return simpler.because(f"independent columns predict better: {comparisons[0].figures} of the same clusters")
        worth_of_full, worth_of_independent = _worth_per_row(model, n_columns), _worth_per_row(simpler, 0)
        if worth_of_full > worth_of_independent + _CLEAR * n_columns:
            return model.because(f"full covariances: the best start is worth {worth_of_full:.2f} a row, {worth_of_independent:.2f} with independent columns")
        independent = independent or [split.started(independent_columns()) for split in splits]
        comparison = _Comparison.of(splits, independent, [split.started(model.given) for split in splits])
    if comparison.certain:
        return simpler.because(f"independent columns predict better: {comparison.figures}")
    return model.because(f"full covariances: {comparison.figures}")


class _Split(NamedTuple):
    """Rows that are fitted, and rows that are held out."""

    valid: Any
    kept: Ints
    held: Ints

    def started(self, family: Any) -> Any:
        """The best start found for the rows that are fitted."""
        return start(Model.of(self.valid[self.kept], family), "auto", stream(_SEED, 1))

    def ascended(self, family: Any, labels: Ints) -> Any:
        """These rows with labels given."""
        state = MixtureState(Model.of(self.valid[self.kept], family), labels)
        ascend_hyperparameters(state)
        return state

    def log_densities(self, state: Any) -> Floats:
        """Of the rows held out."""
        state.commit()
        return log_densities_given(state, state.model.family.at_prior_means().encode(self.valid[self.held]), len(self.held))


class _Comparison(NamedTuple):
    """Log densities per row of what is held out."""

    of_independent: Floats
    of_full: Floats

    @classmethod
    def of(cls, splits: list[_Split], independent: list[Any], full: list[Any]) -> _Comparison:
        """Of states with independent columns and others with full covariances."""
        return cls(*(np.concatenate([split.log_densities(state) for split, state in zip(splits, states, strict=True)]) for states in (independent, full)))

    @property
    def certain(self) -> bool:
        """Whether independent columns do better, and not by chance."""
        gain = self.of_independent - self.of_full
        return bool(gain.mean() > _CERTAIN * gain.std() / np.sqrt(len(gain)))

    @property
    def figures(self) -> str:
        """For people to read."""
        return f"held-out log density per row {self.of_independent.mean():.2f} with independent columns, {self.of_full.mean():.2f} with full covariances"


def _worth_per_row(model: Model, n_columns: int) -> float:
    """What the best start is worth (`maitre.chains.climbs.worth`), less ½ log n for every entry of the matrix of so many columns that was fitted to it (Schwarz 1978)."""
    _, part, candidates, _ = looked_at(model.exchangeable)
    return (candidates[0].worth - 0.25 * n_columns * (n_columns + 1) * np.log(part.n)) / part.n


def _share_of_chance(independent: Model) -> float:
    """By how much correlations within clusters of independent columns are to be shrunk (Schäfer & Strimmer 2005): 1, if there are none."""
    _, part, candidates, _ = looked_at(independent.exchangeable)
    labels, x = candidates[0].labels, part.encoded["x"]
    sizes = np.bincount(labels)
    centred = x - np.stack([np.bincount(labels, column) / sizes for column in x.T], axis=1)[labels]
    spread = np.sqrt(np.stack([np.bincount(labels, column**2) / sizes for column in centred.T], axis=1))[labels]
    several = sizes[labels] > 2
    z = centred[several] / np.where(spread > 0.0, spread, 1.0)[several]
    return shrinkage(z, np.zeros(x.shape[1]), np.ones(x.shape[1]))[1]
