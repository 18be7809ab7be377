"""xoshiro256++ in a `uint64[4]` array: a nanosecond per draw, and a checkpoint is a copy of the array.

The same compiled functions serve kernels and plain Python, so both give the same numbers for one seed. Continuous draws (normal, gamma, beta) are
built on the uniform one rather than taken from `numpy.random`, whose streams may change between releases.

Blackman & Vigna (2021), Scrambled linear pseudorandom number generators; Marsaglia & Tsang (2000), A simple method for generating gamma variables.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from maitre.numerics.compilation import compiled

RngState = npt.NDArray[np.uint64]


def stream(seed: int, *path: int) -> RngState:
    """The random stream of a seed and a path of whole numbers, e.g. (chain, sweep, block); different paths are independent.

    >>> stream(0, 1).shape
    (4,)
    """
    return np.random.SeedSequence(seed, spawn_key=(len(path), *path)).generate_state(4, np.uint64)


def stream_at(key: RngState, number: int) -> RngState:
    """The stream of a number, e.g. of an iteration, below the path whose stream is the key: as `stream`, at a fraction of its cost.

    >>> bool((stream_at(stream(0), 3) == stream_at(stream(0), 3)).all()), bool((stream_at(stream(0), 3) == stream_at(stream(0), 4)).any())
    (True, False)
    """
    words: RngState = np.empty(4, dtype=np.uint64)
    seek(key, number, words)
    return words


def split(rng: RngState, n: int) -> list[RngState]:
    """Streams for n blocks of work, independent of each other and of what is drawn from `rng` afterwards: whoever does a block, it gets the same numbers.

    >>> [block.shape for block in split(stream(0), 2)]
    [(4,), (4,)]
    """
    entropy = [int(next_bits(rng)) for _ in range(2)]
    blocks: list[Any] = [np.random.SeedSequence(entropy, spawn_key=(block,)).generate_state(4, np.uint64) for block in range(n)]
    return blocks


@compiled
def next_bits(rng: RngState) -> np.uint64:
    """64 random bits."""
    s0, s1, s2, s3 = rng[0], rng[1], rng[2], rng[3]
    mixed = s0 + s3
    result = ((mixed << np.uint64(23)) | (mixed >> np.uint64(41))) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    rng[1] = s1 ^ s2
    rng[0] = s0 ^ s3
    rng[2] = s2 ^ shifted
    rng[3] = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return result


@compiled
def seek(key: RngState, number: int, words: RngState) -> None:
    """`stream_at` in place: SplitMix64 (Steele, Lea & Flood 2014), by which xoshiro's authors seed it, from the number and all words of the key."""
    z = np.uint64(number) * np.uint64(0xD1342543DE82EF95)
    for j in range(4):
        z = (z ^ key[j]) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        words[j] = z


@compiled
def uniform(rng: RngState) -> float:
    """A number uniform on the open interval (0, 1)."""
    return (float(next_bits(rng) >> np.uint64(12)) + 0.5) * 2.220446049250313e-16


@compiled
def normal(rng: RngState) -> float:
    """A standard normal number (polar Box–Muller; the second value is not kept, so the state stays four words)."""
    while True:
        a = 2.0 * uniform(rng) - 1.0
        b = 2.0 * uniform(rng) - 1.0
        square = a * a + b * b
        if 0.0 < square < 1.0:
            return a * math.sqrt(-2.0 * math.log(square) / square)


@compiled
def log_gamma_variate(shape: float, rng: RngState) -> float:
    """The logarithm of a Gamma(shape, 1) number; the logarithm stays finite where a tiny shape would give 0."""
    boost = 0.0
    if shape < 1.0:
        boost = math.log(uniform(rng)) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(rng)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(uniform(rng)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return boost + math.log(d * v)


@compiled
def gamma(shape: float, rng: RngState) -> float:
    """A Gamma(shape, 1) number."""
    return math.exp(log_gamma_variate(shape, rng))


@compiled
def small_gamma(shape: float, rng: RngState) -> float:
    """A Gamma(shape, 1) number for a shape of at most 1, by rejection (Ahrens & Dieter 1974): faster than `gamma` for a small one, whose numbers are mostly next to 0."""
    most = 1.0 + shape / math.e
    while True:
        p = most * uniform(rng)
        if p <= 1.0:
            x = math.exp(max(math.log(p) / shape, -740.0))
            if x < 1e-17 or uniform(rng) < math.exp(-x):
                return x
        else:
            x = -math.log((most - p) / shape)
            if uniform(rng) < x ** (shape - 1.0):
                return x


@compiled
def beta(a: float, b: float, rng: RngState) -> float:
    """A Beta(a, b) number."""
    return 1.0 / (1.0 + math.exp(log_gamma_variate(b, rng) - log_gamma_variate(a, rng)))


@compiled
def poisson(rate: float, rng: RngState) -> int:
    """A Poisson number, by counting arrivals (time proportional to the rate)."""
    count = -1
    time = 0.0
    while time < rate:
        time -= math.log(uniform(rng))
        count += 1
    return count
