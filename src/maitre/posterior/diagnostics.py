"""Effective sample size and split-R̂ of traces, rank-normalised, as ArviZ computes them.

Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Rank-normalization, folding, and localization: an improved R̂ for assessing convergence of MCMC.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from maitre.numerics.arrays import Floats


def _split(trace: npt.ArrayLike) -> Floats:
    """Each chain cut in two halves: (2·chains, draws // 2)."""
    values = np.atleast_2d(np.asarray(trace, dtype=np.float64))
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, values.shape[1] - half :]])


def _normalised(values: Floats) -> Floats:
    """Ranks over all chains, ties averaged, as quantiles of a normal distribution: Φ⁻¹((rank − 3/8) / (S + 1/4))."""
    if np.isnan(values).any():
        return np.full(values.shape, np.nan)
    _, number, ties = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(ties) - 0.5 * (ties - 1.0))[number].reshape(values.shape)
    return np.asarray(ndtri((ranks - 0.375) / (values.size + 0.25)))


def split_r_hat(trace: npt.ArrayLike) -> float:
    """√(pooled variance / variance within half-chains) of the ranks, or of the ranks of distances to the median if that is larger: near 1 when the chains and their halves
    agree. NaN with fewer than 4 draws.

    >>> round(split_r_hat([[0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]), 2)
    1.0
    """
    halves = _split(trace)
    if halves.shape[1] < 2:
        return float("nan")
    return max(_r_hat(_normalised(halves)), _r_hat(_normalised(np.abs(halves - np.median(halves)))))


def _r_hat(halves: Floats) -> float:
    length = halves.shape[1]
    within = float(halves.var(axis=1, ddof=1).mean())
    between = float(halves.mean(axis=1).var(ddof=1))
    if within <= 1e-300:
        return 1.0 if between <= 1e-300 else float("inf")
    return float(np.sqrt((length - 1) / length + between / within))


def _autocovariance(chain: Floats) -> Floats:
    n = len(chain)
    padded = np.zeros(2 ** int(np.ceil(np.log2(2 * n))))
    padded[:n] = chain - chain.mean()
    spectrum = np.fft.rfft(padded)
    return np.asarray(np.fft.irfft(spectrum * np.conj(spectrum))[:n] / n)


def effective_sample_size(trace: npt.ArrayLike) -> float:
    """How many independent draws the ranks of the trace are worth (ArviZ's bulk ESS), by Geyer's initial monotone sequence over half-chains. NaN with fewer than 4 draws.

    >>> bool(effective_sample_size([[0.0, 1.0] * 50]) > 50)
    True
    """
    halves = _split(trace)
    n_chains, length = halves.shape
    if length < 2:
        return float("nan")
    if halves.min() == halves.max():
        return float(n_chains * length)
    halves = _normalised(halves)
    covariances = np.array([_autocovariance(chain) for chain in halves])
    within = float(covariances[:, 0].mean() * length / (length - 1))
    pooled = within * (length - 1) / length + float(halves.mean(axis=1).var(ddof=1))
    correlation = 1.0 - (within - covariances.mean(axis=0)) / pooled
    correlation[0] = 1.0
    return float(n_chains * length / max(_correlation_time(correlation), 1.0 / np.log10(max(n_chains * length, 10))))


def _correlation_time(correlation: Floats) -> float:
    """−1 + 2 Σ of the autocorrelations, up to where sums of pairs stop being positive, these sums made to fall; the first correlation after that, if positive, counts once."""
    pairs = correlation[: 2 * max(1, (len(correlation) - 1) // 2)].reshape(-1, 2)
    sums = pairs.sum(axis=1)
    ended = np.flatnonzero(sums <= 0.0)
    last = int(ended[0]) if len(ended) else len(sums) - 1
    return 2.0 * float(np.minimum.accumulate(sums[:last]).sum()) - 1.0 + max(float(pairs[last, 0]), 0.0)
