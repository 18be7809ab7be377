"""Contract tests: identities that every family and every prior must satisfy, from empty and from non-empty clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.families.base import ConjugateFamily, Example, Family
from maitre.families.slots import fractional, pack, parts_of, roles, unpack, with_own_scratch, with_points
from maitre.families.statistics import (
    absorb,
    add,
    add_weighted,
    clear,
    dense_features,
    derive,
    draw_parameters,
    expect,
    expected_log_likelihood_all,
    fill_features,
    gather,
    gather_run,
    log_likelihood,
    log_likelihood_all,
    log_likelihood_of,
    log_marginal,
    log_predictive,
    log_predictive_all,
    log_predictive_raw,
    log_predictive_without,
    merge,
    n_coefficients,
    n_parameters,
    refresh,
    remove,
    score_all,
    set_coefficients,
    settle,
    subtract,
    supports,
    takes_weights,
)
from maitre.model import Model
from maitre.moves.gibbs import Gibbs, reseat_points
from maitre.numerics.arrays import Floats
from maitre.numerics.lanes import BATCH, RUN_ROWS
from maitre.numerics.rng import stream
from maitre.partitions.enumeration import all_partitions
from maitre.priors.base import GibbsTypePrior
from maitre.priors.dirichlet_process import DirichletProcess
from maitre.states.mixture import MixtureState
from maitre.testing.enumeration import enumerate_posterior
from maitre.testing.transitions import assert_invariant, transition_matrix

_TOLERANCE = 1e-9
_STEP = 1e-4  # of numerical differentiation


def check_family(family: type[Family] | Family, data: Any = None) -> None:
    """Raise `AssertionError`, naming the identity, unless the family does what samplers rely on.

    Give a class with `EXAMPLES`, or an object with all its hyper-parameters and four to six points of data.

    >>> import maitre as mt
    >>> check_family(mt.families.GammaPoisson(1.0, 0.5), [[0], [3], [1], [4]])
    """
    examples = family.EXAMPLES if isinstance(family, type) else (Example(family, data),)
    assert examples, f"{family} has no EXAMPLES: add some, or call check_family(family, data)"
    for example in examples:
        model = Model.of(example.data, example.family, DirichletProcess(0.9))
        assert model.n >= 4, f"{model.n} points are too few: give four to six"
        _check_statistics(model)
        _check_gathering(model)
        _check_merging(model)
        _check_slots(model)
        _check_encoding(model)
        _check_parameters(model)
        _check_weights(model)
        check_exact_gibbs(model)
        _check_compilation(model)


def _close(a: float, b: float, identity: str) -> None:
    assert abs(a - b) <= _TOLERANCE * max(1.0, abs(a), abs(b)), f"{identity} fails: {a!r} against {b!r}"


def _fill(s: Any, k: int, points: Any) -> None:
    clear(s, k)
    for i in points:
        add(s, k, int(i))
    derive(s, k)


def _check_statistics(model: Model) -> None:
    """Chain rule, independence of order, removal, and the three forms of the predictive."""
    s = MixtureState(model, np.zeros(model.n, dtype=int), compiled=False).statistics
    n = model.n
    _fill(s, 1, [])
    _close(log_marginal(s, 1), 0.0, "log_marginal of an empty cluster = 0")
    total = 0.0
    for i in range(n):
        predictive = log_predictive(s, 1, i)
        before = log_marginal(s, 1)
        _close(log_predictive_raw(s, 1, i), predictive, f"log_predictive_raw = log_predictive (point {i})")
        add(s, 1, i)
        refresh(s, 1)
        _close(log_marginal(s, 1) - before, predictive, f"log_predictive = difference of log_marginal (point {i} joins {i} others)")
        total += predictive
    _close(log_marginal(s, 1), total, "chain rule p(x1..xn) = p(x1) p(x2|x1) …")
    clear(s, 3)
    _close(sum(absorb(s, 3, i) for i in range(n)), total, "the values that absorb returns sum to log_marginal")
    _close(log_marginal(s, 3), total, "absorb adds the point")
    _fill(s, 3, [])
    _fill(s, 2, range(n - 1, -1, -1))
    _close(log_marginal(s, 2), total, "log_marginal does not depend on the order of the points")
    for i in range(n):
        inside = log_predictive_without(s, 1, i)
        remove(s, 1, i)
        refresh(s, 1)
        _close(inside, log_predictive(s, 1, i), f"log_predictive_without = log_predictive after removal (point {i})")
        out = np.zeros(4)
        log_predictive_all(s, i, 4, out)
        for k in range(4):
            _close(float(out[k]), log_predictive(s, k, i), f"log_predictive_all = log_predictive (slot {k}, point {i})")
        add(s, 1, i)
        refresh(s, 1)
    _close(log_marginal(s, 1), total, "add undoes remove")
    for i in range(n):
        remove(s, 1, i)
        refresh(s, 1)
    _close(log_marginal(s, 1), 0.0, "removing every point leaves an empty cluster")


def _check_gathering(model: Model) -> None:
    s = MixtureState(model, np.zeros(model.n, dtype=int), compiled=False).statistics
    for points in ([], [model.n - 1], range(model.n)):
        clear(s, 1)
        for i in list(points)[:1]:
            gather(s, 1, i)
        if len(points) > 1:
            gather_run(s, 1, np.array(points) + 7, 1, len(points), 7, np.empty((RUN_ROWS, BATCH)))
        settle(s, 1)
        derive(s, 1)
        _fill(s, 2, points)
        _close(log_marginal(s, 1), log_marginal(s, 2), "points that are gathered and settled = points that are added")
        for i in range(model.n):
            _close(log_predictive(s, 1, i), log_predictive(s, 2, i), f"log_predictive after gather and settle = after add (point {i})")


def _check_merging(model: Model) -> None:
    if not supports(model.family.statistics, "merge", "subtract"):
        return
    s = MixtureState(model, np.zeros(model.n, dtype=int), compiled=False).statistics
    half = model.n // 2
    _fill(s, 1, range(model.n))
    whole, first = log_marginal(s, 1), range(half)
    for target, source in ((first, range(half, model.n)), (range(0), range(model.n)), (range(model.n), range(0))):
        _fill(s, 2, target)
        _fill(s, 3, source)
        merge(s, 2, 3)
        derive(s, 2)
        _close(log_marginal(s, 2), whole, "merge of two clusters = the cluster of all their points")
        _close(log_predictive_without(s, 2, 0), log_predictive_without(s, 1, 0), "predictive after merge")
        subtract(s, 2, 3)
        derive(s, 2)
        _fill(s, 3, target)
        _close(log_marginal(s, 2), log_marginal(s, 3), "subtract undoes merge")


def _declares_roles(s: Any) -> bool:
    try:
        return all(roles(type(part)) for part in parts_of(s))  # type: ignore[arg-type]
    except ValueError:
        return False


def _scores(s: Any, k: int, n: int) -> list[float]:
    """All that a slot is for: its log marginal and the log predictives of the points."""
    together = np.zeros((n, k + 1))
    for i in range(n):
        log_predictive_all(s, i, k + 1, together[i])
    return [log_marginal(s, k), *(log_predictive(s, k, i) for i in range(n)), *together[:, k]]


def _check_slots(model: Model) -> None:
    """A cluster can be packed and unpacked elsewhere, and read with other work space; only for families that declare the roles of their fields."""
    s = MixtureState(model, np.zeros(model.n, dtype=int), compiled=False).statistics
    if not _declares_roles(s):
        return
    for members in (range(0), range(1, model.n)):
        _fill(s, 1, members)
        _fill(s, 2, range(model.n))
        unpack(s, 2, pack(s, 1))
        assert np.array_equal(pack(s, 1), pack(s, 2)), "pack after unpack gives the same numbers"
        fresh = model.family.at_prior_means().allocate(model.encoded, 4)
        for k in range(4):
            _fill(fresh, k, [])
        unpack(fresh, 3, pack(s, 1))
        expected = _scores(s, 1, model.n)
        for other, slot, what in ((s, 2, "another slot"), (fresh, 3, "other statistics"), (with_own_scratch(s), 1, "own scratch")):
            for a, b in zip(_scores(other, slot, model.n), expected, strict=True):
                _close(a, b, f"a cluster packed and unpacked or read elsewhere ({what}) is the same cluster")


def _check_encoding(model: Model) -> None:
    """Points can be encoded block by block, selected, and read beside clusters of other points."""
    family, n = model.family.at_prior_means(), model.n
    s = MixtureState(model, np.zeros(n, dtype=int), compiled=False).statistics
    if not _declares_roles(s):
        return
    half = n // 2
    blocks = [family.selected(model.encoded, np.arange(half)), family.selected(model.encoded, np.arange(half, n))]
    backwards = family.selected(family.joined(blocks[::-1]), np.roll(np.arange(n), half))
    _fill(s, 1, range(half))
    expected = _scores(s, 1, n)
    for encoded, what in ((family.joined(blocks), "joined"), (backwards, "joined backwards and reordered")):
        other = family.allocate(encoded, 2)
        _fill(other, 0, [])
        _fill(other, 1, range(half))
        for a, b in zip(_scores(other, 1, n), expected, strict=True):
            _close(a, b, f"points encoded in blocks ({what}) are the points encoded at once")
    reader = with_points(s, blocks[1])
    for i in range(n - half):
        _close(log_predictive(reader, 1, i), log_predictive(s, 1, half + i), f"a new row scored beside old clusters = the row among the others (row {i})")


def _check_parameters(model: Model) -> None:
    """E[F(x; θ)] over draws of θ | x_c is the predictive, within six standard errors, from an empty and a non-empty cluster."""
    if not supports(model.family.statistics, "n_parameters", "draw_parameters", "log_likelihood"):
        return
    s = MixtureState(model, np.zeros(model.n, dtype=int), compiled=False).statistics
    rng = stream(0, 3)
    theta = np.zeros(n_parameters(s))
    for members in (range(0), range(1, model.n)):
        _fill(s, 1, members)
        values = []
        for _ in range(4000):
            draw_parameters(s, 1, theta, rng)
            values.append(np.exp(log_likelihood(s, theta, 0) - log_predictive(s, 1, 0)))
        error = np.std(values) / np.sqrt(len(values))
        assert abs(np.mean(values) - 1.0) < 6.0 * error + 1e-9, (
            f"E[exp log_likelihood] over draw_parameters is {np.mean(values):.4f} ± {error:.4f} times the predictive ({len(members)} points in the cluster)"
        )
    rows, out = np.zeros((3, len(theta))), np.full(3, 0.5)
    for row in rows:
        draw_parameters(s, 1, row, rng)
    log_likelihood_all(s, rows, 0, 2, out)
    for k, row in enumerate(rows[:2]):
        _close(float(out[k]), 0.5 + log_likelihood(s, row, 0), f"log_likelihood_all = log_likelihood (row {k})")
    _close(float(out[2]), 0.5, "log_likelihood_all leaves rows beyond n_slots as they are")
    _check_linear_scores(s, rows, range(1, model.n))


def _check_linear_scores(s: Any, theta: Floats, members: Any) -> None:
    """Scores by coefficients and features differ from log likelihoods by a term in the point alone; slot 1 holds the members."""
    a = np.zeros((n_coefficients(s), len(theta)))
    for k, row in enumerate(theta):
        set_coefficients(s, row, a, k)
        total = log_likelihood_of(s, row, 1)
        if not np.isnan(total):
            _close(total, sum(log_likelihood(s, row, i) for i in members), "log_likelihood_of = the sum of log_likelihood over the cluster's points")
    features = np.zeros((len(a), len(members)))
    fill_features(s, np.array(members) + 7, 7, len(members), features)
    for t, i in enumerate(members):
        out = np.full(len(theta), 0.5)
        score_all(s, theta, a, i, len(theta), out)
        for k in range(1, len(theta)):
            expected = log_likelihood(s, theta[k], i) - log_likelihood(s, theta[0], i)
            _close(float(out[k] - out[0]), expected, f"score_all = log_likelihood up to a term in the point (point {i})")
            if dense_features(s):
                _close(
                    float(features[:, t] @ (a[:, k] - a[:, 0])), expected, f"coefficients times features = log_likelihood up to a term in the point (point {i})"
                )


def _check_weights(model: Model) -> None:
    """Weights of points add up, and E[log F(x_i; θ)] over θ | x_c is the slope of the log marginal as point i begins to join; from an empty and a non-empty cluster."""
    s = model.family.at_prior_means().allocate(model.encoded, 4)
    if not takes_weights(s):
        return
    s = fractional(s)
    for members in (range(0), range(1, model.n)):
        _fill(s, 1, members)
        clear(s, 2)
        for share in (0.25, 0.75):
            for i in members:
                add_weighted(s, 2, i, share)
        _close(log_marginal(s, 2), log_marginal(s, 1), f"add_weighted of a quarter and three quarters = add ({len(members)} points)")
        for i in range(model.n):
            values = [log_marginal(s, 1)]
            for step in (1, 2, 3):
                _fill(s, 2, members)
                add_weighted(s, 2, i, step * _STEP)
                values.append(log_marginal(s, 2))
            slope = np.dot([-11.0, 18.0, -9.0, 2.0], values) / (6.0 * _STEP)
            for k in range(3):
                _fill(s, k, members)
                expect(s, k)
            out = np.full(3, 0.5)
            expected_log_likelihood_all(s, i, 2, out)
            for k, expected in enumerate((0.5 + slope, 0.5 + slope, 0.5)):
                assert abs(out[k] - expected) <= 1e-5 * max(1.0, abs(expected)), (
                    f"expected_log_likelihood_all fails: {out[k]!r}, not the slope {expected!r} of log_marginal in the weight of point {i} ({len(members)} points)"
                )
            for k in range(3):
                clear(s, k)
                _close(log_marginal(s, k), 0.0, "clear empties a slot after expect")
            _fill(s, 1, members)


def check_exact_gibbs(model: Model) -> None:
    """The one-point steps of collapsed Gibbs leave the enumerated posterior invariant to 1e-12."""
    exact = enumerate_posterior(model)
    for i in range(model.n):
        order = np.array([i])
        matrix = transition_matrix(model, lambda state, rng, order=order: reseat_points(state, order, rng), exact)  # type: ignore[misc]
        assert_invariant(exact, matrix)


def _check_compilation(model: Model) -> None:
    """The compiled kernel and plain Python give identical labels for one seed."""
    if not isinstance(model.family, ConjugateFamily):
        return
    runs = []
    for compiled in (True, False):
        state = MixtureState(model, np.zeros(model.n, dtype=int), compiled)
        rng = stream(11, 0)
        labels = []
        for _ in range(20):
            Gibbs().step(state, rng)
            state.audit()
            labels.append(state.canonical_labels())
        runs.append(np.array(labels))
    assert np.array_equal(runs[0], runs[1]), "compiled and plain Python kernels give different labels for one seed"


def check_prior(prior: GibbsTypePrior, n: int = 6) -> None:
    """Raise `AssertionError` unless probabilities sum to one over the partitions of 1, …, n points and agree when the last point is left out.

    >>> import maitre as mt
    >>> check_prior(mt.priors.PitmanYor(0.5, 0.3))
    """
    smaller: dict[tuple[int, ...], float] = {}
    for size in range(1, n + 1):
        table = {labels: float(np.exp(prior.log_probability(np.bincount(labels)))) for labels in all_partitions(size)}
        _close(sum(table.values()), 1.0, f"probabilities of all partitions of {size} points sum to 1")
        for labels, probability in smaller.items():
            extended = sum(p for longer, p in table.items() if longer[:-1] == labels)
            _close(extended, probability, f"the probability of {labels} = the sum over where point {size} may sit")
        smaller = table
