"""The functions through which kernels see a family's run-time state, dispatched on its type.

A family's run-time state is a `NamedTuple` that holds the encoded data and, for each of a number of *slots*, the sufficient statistics of one cluster. Its
class defines the functions below as methods (first argument: the tuple itself). In plain Python they are looked up on the class; in a compiled
kernel the same functions are compiled in. Required of a conjugate family:

    clear(s, k)           empty slot k
    add(s, k, i)          point i joins slot k
    remove(s, k, i)       point i leaves slot k
    log_marginal(s, k)    log p(x_c), the points of slot k with the cluster's parameter integrated out

Optional, with the defaults given here (right for every family, faster when written for one):

    refresh(s, k)                        bring the predictive's cached coefficients of slot k up to date after add / remove (nothing to do)
    log_predictive(s, k, i)              log p(x_i | x_c), point i not in slot k (add, compare marginals, remove)
    log_predictive_without(s, k, i)      the same for a point that is in slot k (remove, predict, add)
    log_predictive_all(s, i, n_slots, out)   out[k] += log p(x_i | x_k) for every slot below n_slots (a loop); empty slots may get anything finite
    log_predictive_above(s, i, n_slots, floor, out)   the same, but an out[k] that is below the floor may be left at a bound from above that is, too (log_predictive_all)
    scores_in_fours(s), log_predictive_four(s, a, b, c, d, n_slots, out)   four points at once (no)
    log_predictive_raw(s, k, i)          the same from the raw statistics alone, whatever the cached coefficients, which may be stale afterwards (refresh, predict)
    absorb(s, k, i)                      point i joins slot k, which has been cleared and has only absorbed points since; returns log p(x_i | x_c) of before (predict from raw, add)
    prefetch(s, i)                       ask the memory for a point that will be visited soon (nothing)
    derive(s, k)                         recompute everything derived from slot k's raw statistics, after a change of hyper-parameters (refresh)
    merge(s, k, other) / subtract(s, k, other)   the points of slot `other` join / leave slot k (an error: moves that join whole clusters ask `mergeable` first)

For the sampler with explicit parameters (`auxiliary`):

    draw_parameters(s, k, theta, rng)    theta[:] ~ p(θ | x_c); for an empty slot this is a draw from the base measure
    log_likelihood(s, theta, i)          log F(x_i; θ)
    n_parameters(s)                      how many numbers θ takes
    log_likelihood_all(s, theta, i, n_slots, out)   out[k] += log F(x_i; theta[k]) for every k below n_slots (a loop)

For the sampler that redraws all points at once (`parallel`). If log F(x_i; θ) = Σ_f A_f(θ) φ_f(x_i) + (a term in x_i alone), the next five make it fast; the rest serve any family:

    n_coefficients(s)                    how many terms the sum has (0: no such sum)
    set_coefficients(s, theta, a, k)     a[:, k] = A(θ)
    score_all(s, theta, a, i, n, out)    out[k] += log F(x_i; theta[k]) up to a term in x_i alone, for every k below n; sums over features that are mostly 0 use a (log_likelihood_all)
    dense_features(s)                    whether `fill_features` is there (no)
    fill_features(s, points, base, count, out)   out[f, t] = φ_f of point points[t] − base for t < count
    gather(s, k, i)                      point i joins slot k, which has been cleared and has only gathered points since (add)
    gather_run(s, k, points, begin, end, base, room)   the same for the points points[begin:end] − base; `room` is work space, RUN_ROWS × BATCH (a loop) …
    settle(s, k)                         … after which the raw statistics are those of its points; `derive` is still to come (nothing)
    log_likelihood_of(s, theta, k)       Σ log F(x_i; θ) over the points of slot k, from its statistics (not a number: unknown)

For search that proves its answer (`maitre.optimize`); any valid bound will do, a tighter one makes the search shorter:

    log_bound(s, i)                      an upper bound of log p(x_i | x_S) over all sets S of other points
    log_bound_given(s, k, rest, i)       the same over the sets that hold slot k and some points of slot `rest`, which holds point i too (log_bound)

For variational inference (`maitre.approximate`), on statistics whose slots hold real numbers (`maitre.families.slots.fractional`):

    add_weighted(s, k, i, weight)        point i joins slot k to the extent of `weight` > 0; `derive` or `expect` before any prediction
    expect(s, k)                         from the raw statistics of slot k, coefficients of E[log F(x; θ)] over θ | x_c, in whatever memory the slot has: until it is
                                         cleared it can only be read by the next function
    expected_log_likelihood_all(s, i, n_slots, out)   out[k] += E[log F(x_i; θ)] over θ | x_k for every slot below n_slots

For Geweke's test (`maitre.testing`):

    draw_point(s, theta, i, rng)         replace point i by a draw from F(·; θ)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import overload

from maitre.numerics.compilation import INNER, JIT_OPTIONS


def dispatched(default: Callable[..., Any] | None = None, allocates: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Turn a function into one that dispatches on the class of its first argument, in plain Python and when compiled; say so if it makes arrays."""

    def decorate(declaration: Callable[..., Any]) -> Callable[..., Any]:
        name = declaration.__name__

        def plain(s: Any, *arguments: Any) -> Any:
            function = getattr(type(s), name, default)
            if function is None:
                raise TypeError(f"{type(s).__name__} does not define {name!r}")
            return function(s, *arguments)

        plain.__name__ = plain.__qualname__ = name
        plain.__doc__ = declaration.__doc__

        @overload(plain, strict=False, jit_options=INNER | {"forceinline": True, "_nrt": allocates})
        def _(s: Any, *arguments: Any) -> Any:
            return getattr(s.instance_class, name, default)

        return plain

    return decorate


def _nothing(s: Any, k: int) -> None:
    pass


def _refresh(s: Any, k: int) -> None:
    refresh(s, k)


def _log_predictive(s: Any, k: int, i: int) -> float:
    before = log_marginal(s, k)
    add(s, k, i)
    after = log_marginal(s, k)
    remove(s, k, i)
    return after - before  # type: ignore[no-any-return]


def _log_predictive_without(s: Any, k: int, i: int) -> float:
    remove(s, k, i)
    refresh(s, k)
    value = log_predictive(s, k, i)
    add(s, k, i)
    refresh(s, k)
    return value  # type: ignore[no-any-return]


def _log_predictive_all(s: Any, i: int, n_slots: int, out: Any) -> None:
    for k in range(n_slots):
        out[k] += log_predictive(s, k, i)


def _log_predictive_above(s: Any, i: int, n_slots: int, floor: float, out: Any) -> None:
    log_predictive_all(s, i, n_slots, out)


def _log_bound_given(s: Any, k: int, rest: int, i: int) -> float:
    return log_bound(s, i)  # type: ignore[no-any-return]


def _log_predictive_raw(s: Any, k: int, i: int) -> float:
    refresh(s, k)
    return log_predictive(s, k, i)  # type: ignore[no-any-return]


def _absorb(s: Any, k: int, i: int) -> float:
    value = log_predictive_raw(s, k, i)
    add(s, k, i)
    return value  # type: ignore[no-any-return]


def _cannot_merge(s: Any, k: int, other: int) -> None:
    raise TypeError("the family's statistics do not define 'merge': clusters cannot be joined as a whole")


def _cannot_subtract(s: Any, k: int, other: int) -> None:
    raise TypeError("the family's statistics do not define 'subtract': clusters cannot be parted as a whole")


def _no(s: Any) -> bool:
    return False


def _never_called(s: Any, a: int, b: int, c: int, d: int, n_slots: int, out: Any) -> None:
    pass


def _log_likelihood_all(s: Any, theta: Any, i: int, n_slots: int, out: Any) -> None:
    for k in range(n_slots):
        out[k] += log_likelihood(s, theta[k], i)


def _none(s: Any) -> int:
    return 0


def _no_coefficients(s: Any, theta: Any, a: Any, k: int) -> None:
    pass


def _score_all(s: Any, theta: Any, a: Any, i: int, n: int, out: Any) -> None:
    log_likelihood_all(s, theta, i, n, out)


def _no_features(s: Any, points: Any, base: int, count: int, out: Any) -> None:
    pass


def _add(s: Any, k: int, i: int) -> None:
    add(s, k, i)


def _gather_run(s: Any, k: int, points: Any, begin: int, end: int, base: int, room: Any) -> None:
    for t in range(begin, end):
        gather(s, k, points[t] - base)


def _unknown(s: Any, theta: Any, k: int) -> float:
    return math.nan


@dispatched()
def clear(s: Any, k: int) -> None:
    """Empty slot k."""


@dispatched()
def add(s: Any, k: int, i: int) -> None:
    """Point i joins slot k."""


@dispatched()
def remove(s: Any, k: int, i: int) -> None:
    """Point i leaves slot k."""


@dispatched(_nothing)
def refresh(s: Any, k: int) -> None:
    """Bring the cached coefficients of slot k's predictive up to date."""


@dispatched(_nothing)
def prefetch(s: Any, i: int) -> None:
    """Ask the memory for point i, which will be visited soon."""


@dispatched(_refresh)
def derive(s: Any, k: int) -> None:
    """Recompute everything that slot k derives from its raw statistics: after a change of hyper-parameters, a merge, or a long run."""


@dispatched()
def log_marginal(s: Any, k: int) -> float:
    """log p(x_c) of slot k, from the raw statistics alone; 0 for an empty slot."""


@dispatched(_log_predictive)
def log_predictive(s: Any, k: int, i: int) -> float:
    """log p(x_i | x_c) for a point that is not in slot k."""


@dispatched(_log_predictive_without)
def log_predictive_without(s: Any, k: int, i: int) -> float:
    """log p(x_i | x_c without x_i) for a point that is in slot k."""


@dispatched(_log_predictive_raw)
def log_predictive_raw(s: Any, k: int, i: int) -> float:
    """log p(x_i | x_c) for a point that is not in slot k, whatever the cached coefficients, which may be stale afterwards."""


@dispatched(_absorb)
def absorb(s: Any, k: int, i: int) -> float:
    """Point i joins slot k, which has been cleared and has only absorbed points since; returns log p(x_i | x_c) as it was before.

    Cached coefficients may be stale afterwards: `derive` before any other prediction.
    """


@dispatched(_log_predictive_all)
def log_predictive_all(s: Any, i: int, n_slots: int, out: Any) -> None:
    """out[k] += log p(x_i | x_k) for every slot below n_slots, as if point i were in none of them."""


@dispatched(_log_predictive_above)
def log_predictive_above(s: Any, i: int, n_slots: int, floor: float, out: Any) -> None:
    """out[k] += log p(x_i | x_k) for every slot below n_slots; one that falls below the floor may stay at an upper bound of it that does, too."""


@dispatched(_no)
def scores_in_fours(s: Any) -> bool:
    """Whether the family scores four points at once faster than one after the other."""


@dispatched(_never_called)
def log_predictive_four(s: Any, a: int, b: int, c: int, d: int, n_slots: int, out: Any) -> None:
    """out[0..3, k] = log p(x | x_k) of four points for every slot below n_slots, if `scores_in_fours`."""


@dispatched(_cannot_merge)
def merge(s: Any, k: int, other: int) -> None:
    """The points of slot `other` join slot k (slot `other` is left as it is)."""


@dispatched(_cannot_subtract)
def subtract(s: Any, k: int, other: int) -> None:
    """The points of slot `other`, all of them in slot k, leave slot k."""


@dispatched()
def log_bound(s: Any, i: int) -> float:
    """At least log p(x_i | x_S) for every set S of other points."""


@dispatched(_log_bound_given)
def log_bound_given(s: Any, k: int, rest: int, i: int) -> float:
    """At least log p(x_i | x_k ∪ x_S) for every set S of points of slot `rest` other than i; slot `rest` holds point i, slot k does not."""


@dispatched()
def n_parameters(s: Any) -> int:
    """How many numbers one cluster's parameter θ takes."""


@dispatched()
def draw_parameters(s: Any, k: int, theta: Any, rng: Any) -> None:
    """theta[:] ~ p(θ | x_c); for an empty slot, a draw from the base measure."""


@dispatched()
def log_likelihood(s: Any, theta: Any, i: int) -> float:
    """log F(x_i; θ)."""


@dispatched(_log_likelihood_all)
def log_likelihood_all(s: Any, theta: Any, i: int, n_slots: int, out: Any) -> None:
    """out[k] += log F(x_i; theta[k]) for every k below n_slots; `theta` has a row per cluster."""


@dispatched(_none)
def n_coefficients(s: Any) -> int:
    """How many terms the log likelihood has as a sum of coefficients times features; 0 if it is none."""


@dispatched(_no_coefficients)
def set_coefficients(s: Any, theta: Any, a: Any, k: int) -> None:
    """a[:, k] becomes the coefficients of the parameter θ."""


@dispatched(_score_all)
def score_all(s: Any, theta: Any, a: Any, i: int, n: int, out: Any) -> None:
    """out[k] += log F(x_i; theta[k]), up to a term in x_i alone, for every k below n; `a` holds the parameters' coefficients."""


@dispatched(_no)
def dense_features(s: Any) -> bool:
    """Whether `fill_features` gives the features of a point."""


@dispatched(_no_features)
def fill_features(s: Any, points: Any, base: int, count: int, out: Any) -> None:
    """out[f, t] = feature f of point points[t] − base for t < count."""


@dispatched(_add)
def gather(s: Any, k: int, i: int) -> None:
    """Point i joins slot k, which has been cleared and has only gathered points since; `settle` makes its statistics of them."""


@dispatched(_gather_run)
def gather_run(s: Any, k: int, points: Any, begin: int, end: int, base: int, room: Any) -> None:
    """The points points[begin:end] − base join slot k as by `gather`; `room` is work space."""


@dispatched(_nothing)
def settle(s: Any, k: int) -> None:
    """The raw statistics of a slot that has gathered its points; what follows from them needs `derive`."""


@dispatched(_unknown)
def log_likelihood_of(s: Any, theta: Any, k: int) -> float:
    """Σ log F(x_i; θ) over the points of slot k; not a number if the family does not say."""


@dispatched()
def add_weighted(s: Any, k: int, i: int, weight: float) -> None:
    """Point i joins slot k to the extent of `weight`; cached coefficients are stale afterwards."""


@dispatched()
def expect(s: Any, k: int) -> None:
    """Turn slot k from statistics into the coefficients of E[log F(x; θ)], θ | x_c, which is all it can be asked for until it is cleared."""


@dispatched()
def expected_log_likelihood_all(s: Any, i: int, n_slots: int, out: Any) -> None:
    """out[k] += E[log F(x_i; θ)] over θ | x_k for every slot below n_slots, all of them turned by `expect`."""


@dispatched()
def draw_point(s: Any, theta: Any, i: int, rng: Any) -> None:
    """Replace point i by a draw from F(·; θ)."""


def mergeable(s: Any) -> bool:
    """Whether the statistics, and those they are made of, define `merge`."""
    return (hasattr(type(s), "merge") or not hasattr(s, "_fields")) and all(mergeable(part) for part in s if isinstance(part, tuple))


def _type_is_mergeable(kind: Any) -> bool:
    own = not hasattr(kind, "instance_class") or hasattr(kind.instance_class, "merge")
    return own and all(_type_is_mergeable(part) for part in kind.types if isinstance(part, types.BaseTuple))


@overload(mergeable, strict=False, jit_options=JIT_OPTIONS)
def _mergeable(s: Any) -> Any:
    return (lambda s: True) if _type_is_mergeable(s) else (lambda s: False)


def supports(statistics: type, *names: str) -> bool:
    """Whether a class of statistics defines all the named functions."""
    return all(hasattr(statistics, name) for name in names)


def takes_weights(s: Any) -> bool:
    """Whether the statistics, and those they are made of, can hold points to an extent and say what log-likelihood to expect."""
    return supports(type(s), "add_weighted", "expect", "expected_log_likelihood_all") and all(map(takes_weights, getattr(s, "parts", ())))
