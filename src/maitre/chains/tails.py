"""Are clusters heavier-tailed than Gaussian ones? Then outliers would be clusters of their own, and `HierarchicalStudent` describes the data better.

Student t distributions with degrees of freedom in common are fitted, in NumPy, to the large clusters of the best start with Gaussian ones: a matter of milliseconds, after which
most tables are done with. Only if their tails are heavy both families are sampled for a moment on three quarters of the rows, and judged by the density of the rest: heavy
tails must gain more than a standard error, so that few rows do not get them by chance.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from maitre.chains.climbs import looked_at
from maitre.chains.starts import start
from maitre.families.hierarchical import HierarchicalNormalInverseWishart
from maitre.families.student import HierarchicalStudent
from maitre.model import Model
from maitre.moves import resolve
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.lanes import one_thread_per_product
from maitre.numerics.rng import stream
from maitre.posterior.prediction import log_densities_given
from maitre.states.mixture import MixtureState

_MOST_ROWS = 5000  # every draw keeps a weight for each
_MOST_COLUMNS = 20  # beyond which the start takes longer than it is worth
_ROWS = 2000
_LEAST = 20  # rows from which on tails can be told
_LARGE = 0.05  # share of the points that a cluster must have to tell of tails
_HEAVY = 12.0  # degrees of freedom; few Gaussian points may have as few by chance, and the held-out rows decide
_GRID = np.geomspace(1.0, 100.0, 40)
_ROUNDS = 15
_SETTLING, _JUDGED = 60, 60  # iterations
_SEED = 0  # the choice depends on the data alone


def with_tails(model: Model, prior: Any) -> Model:
    """The model, or that with heavy tails where these predict better; `choice` then says so."""
    if not isinstance(model.family, HierarchicalNormalInverseWishart) or model.family.arrays(model.encoded).get("missing"):
        return model
    if not (_LEAST <= model.n <= _MOST_ROWS and model.encoded["x"].shape[1] <= _MOST_COLUMNS):
        return model
    with one_thread_per_product():
        looked = looked_at(model.exchangeable)
        if degrees_of_freedom(looked.part.encoded["x"], looked.candidates[0].labels) > _HEAVY:
            return model
        valid = np.asarray(model.valid)
        some = np.random.default_rng(_SEED).permutation(model.n)[:_ROWS]
        held, kept = some[: len(some) // 4], np.sort(some[len(some) // 4 :])
        labels = start(Model.of(valid[kept], model.given), "auto", stream(_SEED, 2)).canonical_labels()  # type: ignore[union-attr]
        students = HierarchicalStudent(model.given.mean, model.given.kappa, model.given.freedom, model.given.scale)  # type: ignore[union-attr]
        gaussian, student = (_held_out(Model.of(valid[kept], family), labels, valid[held]) for family in (model.given, students))
    gain = student - gaussian
    if gain.mean() < gain.std() / np.sqrt(len(gain)):
        return model
    figures = f"held-out log density per row {student.mean():.2f} with heavy tails, {gaussian.mean():.2f} without"
    return dataclasses.replace(Model.of(model.data, students, prior), choice=f"{model.choice}; heavy tails predict better: {figures}".removeprefix("; "))


def degrees_of_freedom(x: Floats, labels: Ints) -> float:
    """Of Student t distributions fitted to the large clusters, to each of which the points nearest to it belong; infinite if there are none."""
    n, n_dimensions = x.shape
    large = [k for k, size in enumerate(np.bincount(labels)) if size >= max(_LARGE * n, n_dimensions + 2)]
    if not large:
        return float("inf")
    means = np.array([x[labels == k].mean(axis=0) for k in large])
    scales = np.array([np.cov(x[labels == k].T).reshape(n_dimensions, n_dimensions) + 1e-6 * np.eye(n_dimensions) for k in large])
    tails, nearest = 10.0, np.zeros(n, dtype=np.int64)
    for _ in range(_ROUNDS):
        distances = np.stack(
            [((gaps @ inverse) * gaps).sum(axis=1) for inverse, gaps in ((np.linalg.inv(s), x - m) for s, m in zip(scales, means, strict=True))], axis=1
        )
        log_determinants = np.linalg.slogdet(scales)[1]
        nearest = (-0.5 * log_determinants - 0.5 * (tails + n_dimensions) * np.log1p(distances / tails)).argmax(axis=1)
        own = distances[np.arange(n), nearest]
        weights = (tails + n_dimensions) / (tails + own)
        for k in range(len(large)):
            members = nearest == k
            if members.sum() > n_dimensions + 1:
                u = weights[members]
                means[k] = u @ x[members] / u.sum()
                gap = x[members] - means[k]
                scales[k] = (u[:, None] * gap).T @ gap / members.sum() + 1e-6 * np.eye(n_dimensions)
        grid = _GRID[:, None]
        constants = gammaln(0.5 * (_GRID + n_dimensions)) - gammaln(0.5 * _GRID) - 0.5 * n_dimensions * np.log(_GRID)
        tails = float(_GRID[(n * constants - 0.5 * (_GRID + n_dimensions) * np.log1p(own / grid).sum(axis=1)).argmax()])
    return tails


def _held_out(model: Model, labels: Ints, new: Any) -> Floats:
    """Log predictive densities of rows that were held out, averaged over a short chain from these labels."""
    state, moves, rng, found = MixtureState(model, labels), resolve(model.family.MOVES, model), stream(_SEED, 3), []
    encoded = model.family.at_prior_means().encode(new)
    moves.freeze()
    for t in range(_SETTLING + _JUDGED):
        moves.step(state, rng)
        if t >= _SETTLING and t % 6 == 0:
            state.commit()
            found.append(log_densities_given(state, encoded, len(new)))
    return np.asarray(logsumexp(found, axis=0) - np.log(len(found)))
