"""Loops over tables of counts that the discrete families share: counts[row, k] of cluster k, `base[row]` the row's prior mass."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from maitre.numerics.arrays import Floats
from maitre.numerics.compilation import compiled_form_of
from maitre.numerics.elementary import fast_log

Counts = npt.NDArray[np.int32]
_FACTORS = 16  # factors between logarithms: their product stays within double precision for factors between 1e-19 and 1e19
LEAST_MASS, MOST_MASS = 1e-15, 1e15  # prior masses for which it does


def weighted_counts(counts: sparse.csr_matrix, weighting: str) -> sparse.csr_matrix:
    """Rows of counts as vectors: "counts" as they are, "sqrt" of each word's share of the row, or "tfidf" (log(1 + count) · log(n / rows with the word), unit length)."""
    x = counts.astype(np.float64)
    if weighting == "counts":
        return x
    if weighting == "sqrt":
        lengths = np.maximum(np.asarray(x.sum(axis=1)).ravel(), 1.0)
        x.data = np.sqrt(x.data / np.repeat(lengths, np.diff(x.indptr)))
        return x
    if weighting != "tfidf":
        raise ValueError(f"unknown weighting {weighting!r}; expected 'counts', 'sqrt' or 'tfidf'")
    rarity = np.log(x.shape[0] / np.maximum(np.bincount(x.indices[x.data > 0], minlength=x.shape[1]), 1))
    x.data = np.log1p(x.data) * rarity[x.indices]
    norms = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())
    x.data /= np.repeat(np.where(norms > 0.0, norms, 1.0), np.diff(x.indptr))
    return x


def add_log_counts(counts: Counts, base: Floats, rows: Counts, extra: Floats, start: int, stop: int, n_slots: int, product: Floats, out: Floats) -> None:
    """out[k] += Σ_{t=start}^{stop−1} log(base[rows[t]] + extra[t] + counts[rows[t], k]) for k < n_slots."""
    t = slice(start, stop)
    out[:n_slots] += np.log((base[rows[t]] + extra[t])[:, None] + counts[rows[t], :n_slots]).sum(axis=0)


@compiled_form_of(add_log_counts)
def _add_log_counts(counts: Counts, base: Floats, rows: Counts, extra: Floats, start: int, stop: int, n_slots: int, product: Floats, out: Floats) -> None:
    """One logarithm for sixteen factors; four rows a pass, for one load and store of the running product."""
    t = start
    while t < stop:
        end = min(stop, t + _FACTORS)
        for k in range(n_slots):
            product[k] = 1.0
        while t + 4 <= end:
            r0, r1, r2, r3 = rows[t], rows[t + 1], rows[t + 2], rows[t + 3]
            b0, b1, b2, b3 = base[r0] + extra[t], base[r1] + extra[t + 1], base[r2] + extra[t + 2], base[r3] + extra[t + 3]
            for k in range(n_slots):
                product[k] *= ((b0 + counts[r0, k]) * (b1 + counts[r1, k])) * ((b2 + counts[r2, k]) * (b3 + counts[r3, k]))
            t += 4
        while t < end:
            r0 = rows[t]
            b0 = base[r0] + extra[t]
            for k in range(n_slots):
                product[k] *= b0 + counts[r0, k]
            t += 1
        for k in range(n_slots):
            out[k] += fast_log(product[k])
