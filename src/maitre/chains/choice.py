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
_ROUNDS, _FINE = 20, 0.01  # of steps up in the hyper-parameters of given clusters, and their precision: three leave full covariances half a nat per row short
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
        if n_columns <= WIDE or type(model.family) is not type(independent_columns()):
            return model
        if model.in_memory:
            looked_at(model.exchangeable)  # in passing: how long chains are depends on what is found
        return model.because(f"independent columns: a covariance of {n_columns} columns has too many parameters")
    plenty = n_columns * (n_columns + 1) * _PLENTY < 2 * model.n
    if not model.in_memory or model.family.arrays(model.encoded).get("missing") or n_columns == 1 or model.n < 8 or (plenty and n_columns < _CHEAP):
        return model
    simpler = Model.of(model.data, independent_columns(), prior)
    with one_thread_per_product():
        chance = _share_of_chance(simpler)
        if chance > _UNCORRELATED:
            return simpler.because(f"independent columns: within clusters {chance:.0%} of what correlates is chance")
        if plenty:
            return model
        return _compared(model, simpler, chance > _LITTLE)


def _compared(model: Model, simpler: Model, little: bool) -> Model:
    """The model, or that with independent columns where these do better on rows that are held out; `little` correlates within their clusters."""
    some, valid = np.random.default_rng(_SEED).permutation(model.n)[:_ROWS], np.asarray(model.valid)
    quarters = np.array_split(some, 4)
    splits = [_Split(valid, np.setdiff1d(some, held), held) for held in (quarters if len(some) <= _FEW else quarters[:1])]
    independent: Any = None
    if little:
        independent = _Fits.of(splits, [split.started(independent_columns()) for split in splits])
        own = _Fits.of(splits, [split.ascended(model.given, state.canonical_labels()) for split, state in zip(splits, independent.states, strict=True)])
        whole = _Fits.of(splits, [split.ascended(model.given, np.zeros(len(split.kept), dtype=np.int64)) for split in splits])
        if independent.surely_better_than(own) and independent.surely_better_than(whole):
            return simpler.because(f"independent columns predict better: {_figures(independent, max(own, whole, key=_mean))} of the same clusters or of one")
    worth_of_full, worth_of_independent = _worth_per_row(model, model.encoded["x"].shape[1]), _worth_per_row(simpler, 0)
    if worth_of_full > worth_of_independent + _CLEAR * model.encoded["x"].shape[1]:
        return model.because(f"full covariances: the best start is worth {worth_of_full:.2f} a row, {worth_of_independent:.2f} with independent columns")
    independent = independent or _Fits.of(splits, [split.started(independent_columns()) for split in splits])
    full = _Fits.of(splits, [split.started(model.given) for split in splits])
    if independent.surely_better_than(full):
        return simpler.because(f"independent columns predict better: {_figures(independent, full)}")
    return model.because(f"full covariances: {_figures(independent, full)}")


class _Split(NamedTuple):
    """Rows that are fitted, and rows that are held out."""

    valid: Any
    kept: Ints
    held: Ints

    def started(self, family: Any) -> Any:
        """The best start found for the rows that are fitted."""
        return start(Model.of(self.valid[self.kept], family), "auto", stream(_SEED, 1))

    def ascended(self, family: Any, labels: Ints) -> Any:
        """These rows with labels given, and the hyper-parameters that suit them."""
        state = MixtureState(Model.of(self.valid[self.kept], family), labels)
        ascend_hyperparameters(state, rounds=_ROUNDS, tolerance=_FINE)
        return state


class _Fits(NamedTuple):
    """States, one for each split, and the log densities of the rows held out."""

    states: list[Any]
    log_densities: Floats

    @classmethod
    def of(cls, splits: list[_Split], states: list[Any]) -> _Fits:
        """The states, committed."""
        found = []
        for split, state in zip(splits, states, strict=True):
            state.commit()
            found.append(log_densities_given(state, state.model.family.at_prior_means().encode(split.valid[split.held]), len(split.held)))
        return cls(states, np.concatenate(found))

    def surely_better_than(self, other: _Fits) -> bool:
        """Whether rows held out have a higher density, and not by chance."""
        gain = self.log_densities - other.log_densities
        return bool(gain.mean() > _CERTAIN * gain.std() / np.sqrt(len(gain)))


def _mean(fits: _Fits) -> float:
    return float(fits.log_densities.mean())


def _figures(independent: _Fits, full: _Fits) -> str:
    return f"held-out log density per row {_mean(independent):.2f} with independent columns, {_mean(full):.2f} with full covariances"


def _worth_per_row(model: Model, n_columns: int) -> float:
    """What the best start is worth (`maitre.chains.climbs.worth`), less ½ log n for every entry of the matrix of so many columns that was fitted to it (Schwarz 1978)."""
    looked = looked_at(model.exchangeable)
    n = looked.part.n
    return (looked.candidates[0].worth - 0.25 * n_columns * (n_columns + 1) * np.log(n)) / n


def _share_of_chance(independent: Model) -> float:
    """By how much correlations within clusters of independent columns are to be shrunk (Schäfer & Strimmer 2005): 1, if there are none."""
    looked = looked_at(independent.exchangeable)
    labels, x = looked.candidates[0].labels, looked.part.encoded["x"]
    sizes = np.bincount(labels)
    centred = x - np.stack([np.bincount(labels, column) / sizes for column in x.T], axis=1)[labels]
    spread = np.sqrt(np.stack([np.bincount(labels, column**2) / sizes for column in centred.T], axis=1))[labels]
    several = sizes[labels] > 2
    z = centred[several] / np.where(spread > 0.0, spread, 1.0)[several]
    return shrinkage(z, np.zeros(x.shape[1]), np.ones(x.shape[1]))[1]
