"""Words: a cluster (a topic) has word probabilities φ ~ Dirichlet(η, …, η), a point is one word. What the documents of a corpus are made of.

    p(w | x_c) = (η + N_w) / (V η + N)

Counts are kept in single precision, which holds whole numbers up to 16 million: a row of them, one word's counts in all clusters, is what a sweep reads for a word.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from maitre.families.base import ConjugateFamily, Example
from maitre.families.slots import POINTS, SLOTS, SLOTS_LAST
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.compilation import compiled
from maitre.numerics.distributions import Gamma, Hyperparameter
from maitre.numerics.elementary import digamma, fast_log
from maitre.numerics.prefix import STRIDE
from maitre.numerics.rng import log_gamma_variate, uniform

_MOST = 2**24
_AT_ONCE = 2**20


class WordStatistics(NamedTuple):
    """Run-time state; V words, C slots."""

    word: Annotated[npt.NDArray[np.int32], POINTS]  # (n,)
    n_words: int
    concentration: float  # η
    seen: Annotated[npt.NDArray[np.float32], SLOTS_LAST]  # (V, C): N_w
    total: Annotated[Floats, SLOTS]  # (C,): N

    def clear(s, k: int) -> None:
        if s.total[k] != 0.0:
            s.total[k] = 0.0
            for w in range(s.n_words):
                s.seen[w, k] = 0.0

    def add(s, k: int, i: int) -> None:
        s.total[k] += 1.0
        s.seen[s.word[i], k] += np.float32(1.0)

    def remove(s, k: int, i: int) -> None:
        s.total[k] -= 1.0
        s.seen[s.word[i], k] -= np.float32(1.0)

    def merge(s, k: int, other: int) -> None:
        s.total[k] += s.total[other]
        for w in range(s.n_words):
            s.seen[w, k] += s.seen[w, other]

    def subtract(s, k: int, other: int) -> None:
        s.total[k] -= s.total[other]
        for w in range(s.n_words):
            s.seen[w, k] -= s.seen[w, other]

    def log_marginal(s, k: int) -> float:
        if s.total[k] == 0.0:
            return 0.0
        mass, base = s.n_words * s.concentration, math.lgamma(s.concentration)
        value = math.lgamma(mass) - math.lgamma(mass + s.total[k])
        for w in range(s.n_words):
            if s.seen[w, k] > 0.0:
                value += math.lgamma(s.concentration + float(s.seen[w, k])) - base
        return value

    def log_predictive(s, k: int, i: int) -> float:
        return math.log((s.concentration + float(s.seen[s.word[i], k])) / (s.n_words * s.concentration + s.total[k]))

    def log_predictive_without(s, k: int, i: int) -> float:
        return math.log((s.concentration + float(s.seen[s.word[i], k]) - 1.0) / (s.n_words * s.concentration + s.total[k] - 1.0))

    def log_predictive_all(s, i: int, n_slots: int, out: Floats) -> None:
        word, mass = s.word[i], s.n_words * s.concentration
        for k in range(n_slots):
            out[k] += fast_log((s.concentration + float(s.seen[word, k])) / (mass + s.total[k]))

    def log_bound(s, i: int) -> float:
        """The best that can be: a cluster of all other copies of the word."""
        copies = -1.0
        for word in s.word:
            if word == s.word[i]:
                copies += 1.0
        return math.log((s.concentration + copies) / (s.n_words * s.concentration + copies))

    def n_parameters(s) -> int:
        return s.n_words

    def draw_parameters(s, k: int, theta: Floats, rng: Any) -> None:
        highest, total = -np.inf, 0.0
        for w in range(s.n_words):
            theta[w] = log_gamma_variate(s.concentration + float(s.seen[w, k]), rng)
            highest = max(highest, theta[w])
        for w in range(s.n_words):
            total += math.exp(theta[w] - highest)
        for w in range(s.n_words):
            theta[w] -= highest + math.log(total)

    def log_likelihood(s, theta: Floats, i: int) -> float:
        return theta[s.word[i]]  # type: ignore[no-any-return]

    def add_weighted(s, k: int, i: int, weight: float) -> None:
        s.total[k] += weight
        s.seen[s.word[i], k] += weight

    def expect(s, k: int) -> None:
        """E[log φ_w] = ψ(η + N_w) − ψ(V η + N)."""
        whole = digamma(s.n_words * s.concentration + s.total[k])
        for w in range(s.n_words):
            s.seen[w, k] = digamma(s.concentration + float(s.seen[w, k])) - whole
        s.total[k] = -1.0  # not empty, so that `clear` clears

    def expected_log_likelihood_all(s, i: int, n_slots: int, out: Floats) -> None:
        word = s.word[i]
        for k in range(n_slots):
            out[k] += s.seen[word, k]

    def draw_point(s, theta: Floats, i: int, rng: Any) -> None:
        u, w = uniform(rng), 0
        while w < s.n_words - 1 and u >= math.exp(theta[w]):
            u -= math.exp(theta[w])
            w += 1
        s.word[i] = w


@compiled
def count_counts(seen: Any, among: Any, histogram: Ints) -> None:
    """How often each count but 0 occurs in the slots with among[k]."""
    for w in range(seen.shape[0]):
        for k in range(seen.shape[1]):
            if seen[w, k] > 0.0 and among[k]:
                histogram[int(seen[w, k])] += 1


def largest_frequency(words: Any) -> int:
    """How often the commonest word occurs, without other arrays as long as the words."""
    counts = np.zeros(int(words.max()) + 1, dtype=np.int64)
    for first in range(0, len(words), _AT_ONCE):
        counts += np.bincount(words[first : first + _AT_ONCE].astype(np.int64), minlength=len(counts))
    return int(counts.max())


@dataclass(frozen=True)
class Words(ConjugateFamily):
    """Points are words by number, 0 to `n_words` − 1; left None, up to the largest there is. `concentration` is η: 1 for a flat prior, below 1 for topics of few words.

    >>> import maitre as mt
    >>> mt.families.Words(concentration=0.1).in_one_line()
    'Words(concentration=0.1, n_words=None)'
    """

    concentration: Hyperparameter = Gamma(1.0, 10.0)
    n_words: int | None = None

    POSITIVE = ("concentration",)
    statistics = WordStatistics

    def validate(self, data: Any) -> npt.NDArray[np.int32]:
        raw = np.asarray(data)
        words = raw[:, 0] if raw.ndim == 2 and raw.shape[1] == 1 else raw
        if words.ndim != 1 or words.dtype.kind not in "iuf":
            raise ValueError(f"words are numbers in one column; these have shape {raw.shape} and type {raw.dtype}")
        most = _MOST if self.n_words is None else self.n_words
        within = words.dtype.kind in "iu" and len(words) > 0 and words.min() >= 0 and words.max() < most
        bad = np.empty(0, dtype=np.int64) if within else np.flatnonzero(~((words >= 0) & (words < most) & (words == np.floor(words))))
        if len(bad):
            raise ValueError(f"word {words[bad[0]]} of point {bad[0]} is no whole number from 0 to {most - 1}")
        if len(words) >= _MOST and largest_frequency(words) >= _MOST:
            raise ValueError(f"a word occurs more than {_MOST - 1} times: leave it out, as other stop words")
        return words.astype(np.int32, copy=False)

    def defaults(self, data: npt.NDArray[np.int32]) -> dict[str, Any]:
        return {"n_words": int(data.max(initial=0)) + 1}

    def encode(self, data: npt.NDArray[np.int32]) -> dict[str, Any]:
        return {"word": data}

    def allocate(self, encoded: dict[str, Any], capacity: int) -> WordStatistics:
        slots = -(-capacity // STRIDE) * STRIDE
        return WordStatistics(
            encoded["word"], int(self.n_words or 1), float(self.concentration), np.zeros((int(self.n_words or 1), slots), dtype=np.float32), np.zeros(slots)
        )  # type: ignore[arg-type]

    def log_likelihood_of_clusters(self, s: WordStatistics, slots: Ints, name: str) -> Callable[[float], float]:
        """By how often each count occurs among those of all words in these slots: there are few different ones."""
        totals, among = s.total[slots], np.zeros(len(s.total), dtype=np.bool_)
        among[slots] = True
        histogram = np.zeros(int(totals.max(initial=0)) + 1, dtype=np.int64)
        count_counts(s.seen, among, histogram)
        counts = np.flatnonzero(histogram)
        times = histogram[counts]

        def of_eta(eta: float) -> float:
            mass = eta * s.n_words
            return float(times @ (gammaln(eta + counts) - gammaln(eta)) + np.sum(gammaln(mass) - gammaln(mass + totals)))

        return of_eta

    def vectors(self, data: npt.NDArray[np.int32], encoded: dict[str, Any]) -> Floats:
        return data[:, None].astype(np.float64)


Words.EXAMPLES = (Example(Words(0.5, 4), [0, 2, 1, 3, 1, 2]), Example(Words(1.3, 3), [0, 0, 1, 0, 1, 2]))
