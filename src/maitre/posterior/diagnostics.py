"""Effective sample size and split-R̂ of traces (Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021, without rank normalisation)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from maitre.numerics.arrays import Floats


def _split(trace: npt.ArrayLike) -> Floats:
    """Each chain cut in two halves: (2·chains, draws // 2)."""
    values = np.atleast_2d(np.asarray(trace, dtype=np.float64))
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, values.shape[1] - half :]])


def split_r_hat(trace: npt.ArrayLike) -> float:
    """√(pooled variance / variance within half-chains): near 1 when the chains and their halves agree. NaN with fewer than 4 draws.

    >>> round(split_r_hat([[0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]), 2)
    0.87
    """
    halves = _split(trace)
    length = halves.shape[1]
    if length < 2:
        return float("nan")
    within = float(halves.var(axis=1, ddof=1).mean())
    between = float(halves.mean(axis=1).var(ddof=1))
    if within == 0.0:
        return 1.0 if between == 0.0 else float("inf")
    return float(np.sqrt((length - 1) / length + between / within))


def _autocovariance(chain: Floats) -> Floats:
    n = len(chain)
    padded = np.zeros(2 ** int(np.ceil(np.log2(2 * n))))
    padded[:n] = chain - chain.mean()
    spectrum = np.fft.rfft(padded)
    return np.asarray(np.fft.irfft(spectrum * np.conj(spectrum))[:n] / n)


def effective_sample_size(trace: npt.ArrayLike) -> float:
    """How many independent draws the trace is worth, by Geyer's initial monotone sequence over half-chains. NaN with fewer than 4 draws.

    >>> bool(effective_sample_size([[0.0, 1.0] * 50]) > 50)
    True
    """
    halves = _split(trace)
    n_chains, length = halves.shape
    if length < 2:
        return float("nan")
    covariances = np.array([_autocovariance(chain) for chain in halves])
    within = float(covariances[:, 0].mean() * length / (length - 1))
    pooled = within * (length - 1) / length + float(halves.mean(axis=1).var(ddof=1))
    if pooled == 0.0:
        return float(n_chains * length)
    correlation = 1.0 - (within - covariances.mean(axis=0)) / pooled
    correlation[0] = 1.0
    pairs = correlation[: length // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = np.flatnonzero(pairs <= 0.0)
    pairs = np.minimum.accumulate(pairs[: positive[0]] if len(positive) else pairs)
    time = max(2.0 * float(pairs.sum()) - 1.0, 1.0 / np.log10(max(n_chains * length, 10)))
    return float(n_chains * length / time)
