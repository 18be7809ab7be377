"""Kept variables on disk: one Zarr array each, shape (chains, draws, …), whose chunks hold whole draws of one chain and carry checksums.

A chunk is always replaced as a whole, in one step, and never gets shorter, so whatever a commit says is there can be read at any time.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from maitre.states.base import Variable

_CHUNK = 2**18  # numbers in a chunk, or one draw
_MOST_DRAWS = 1024  # in a chunk
_MOST_UNPACKED = 2**24  # labels in memory that make up an array of their own
_WIDTH = {"point": 2**22, "link": 2**22, "cluster": 16, "group": 1024, "cell": _CHUNK}  # entries of a draw in a chunk, at most
_GROWS = ("cluster", "group", "cell")  # with the largest number so far


def create_array(folder: Path, variable: Variable, n_chains: int, n_draws: int, n_points: int) -> None:
    """An empty array for a variable."""
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec

    width = [min(_WIDTH[variable.over], n_points)] if variable.over in _WIDTH else []
    shape, first = (*width, *variable.shape), (*[1 if variable.over in _GROWS else n_points for _ in width], *variable.shape)
    step = min(max(1, _CHUNK // max(1, int(np.prod(shape)))), _MOST_DRAWS)
    zarr.create_array(
        store=str(folder / variable.name),
        shape=(n_chains, n_draws, *first),
        chunks=(1, step, *(max(1, size) for size in shape)),
        dtype=variable.dtype,
        compressors=[ZstdCodec(level=1), Crc32cCodec()],
        fill_value=_filler(variable),
        config={"write_empty_chunks": True},
    )


def _filler(variable: Variable) -> float:
    """What stands where a draw has no value: for clusters that it does not have."""
    return np.nan if np.dtype(variable.dtype).kind == "f" else -1


def metadata_digest(folder: Path, name: str) -> str:
    """A hash of what the array says of itself, but for its shape, which may grow: a changed byte there would change what is read."""
    metadata = json.loads((folder / name / "zarr.json").read_bytes())
    return hashlib.sha256(json.dumps(metadata | {"shape": len(metadata["shape"])}, sort_keys=True).encode()).hexdigest()


class ArrayWriter:
    """Draws of one variable on their way to disk. Draws of a chunk that is not full wait in memory as well, and are written again with the next."""

    def __init__(self, folder: Path, variable: Variable, on_disk: Sequence[int]) -> None:
        """`on_disk` says how many draws of each chain there are already."""
        import zarr

        self.variable, self.path = variable, folder / variable.name
        opened: Any = zarr.open_array(store=str(folder / variable.name), mode="r+")
        self.array = opened.with_config({"write_empty_chunks": True})  # which `open_array` does not heed
        self.step, self._writing = self.array.chunks[1], Lock()
        self.on_disk = list(on_disk)
        self.base = [0] * len(on_disk)  # the first draw that waits, of each chain
        self.waiting: list[list[Any]] = [[] for _ in on_disk]
        self.made = [0] * len(on_disk)  # draws that will not come again

    def go_on(self, chain: int, made: int, n_draws: int, entry: tuple[int, ...]) -> None:
        """Draws up to `n_draws` are on disk, of the shape `entry`; those from `made` on will come again."""
        self.made[chain], self.base[chain] = made, made // self.step * self.step
        self.waiting[chain] = list(StoredArray(self.path, [chain], n_draws, entry)[0, self.base[chain] :]) if self.step > 1 else []

    def keep(self, chain: int, draw: int, value: Any) -> None:
        """A draw; one that came before is replaced. Chunks that are full are written at once."""
        waiting, place, self.made[chain] = self.waiting[chain], draw - self.base[chain], draw + 1
        value = value if self.step == 1 else np.asarray(value)
        if place < len(waiting):
            waiting[place] = value
        else:
            if place != len(waiting):
                raise RuntimeError(
                    f"draw {draw} of chain {chain} comes after draw {self.base[chain] + len(waiting) - 1}: a chain stands where its draws do not"
                )
            waiting.append(value)
        self._write_full(chain)

    def show(self, chain: int, value: Any) -> None:
        """A state before the first draw, which takes its place."""
        self.keep(chain, 0, value)
        self.write(chain)
        self.base[chain], self.waiting[chain], self.made[chain] = 0, [], 0

    def write(self, chain: int) -> int:
        """Write what waits; returns how many draws of the chain are on disk."""
        waiting, base = self.waiting[chain], self.base[chain]
        for begin in range(0, len(waiting), self.step):
            self._write_chunk(chain, base + begin, waiting[begin : begin + self.step])
        return base + len(waiting)

    def _write_full(self, chain: int) -> None:
        """Write the chunks that are full, which need not wait any more."""
        full = (self.made[chain] - self.base[chain]) // self.step * self.step
        for _ in range(0, full, self.step):
            self._write_chunk(chain, self.base[chain], self.waiting[chain][: self.step])
            self.base[chain], self.waiting[chain] = self.base[chain] + self.step, self.waiting[chain][self.step :]

    def _write_chunk(self, chain: int, base: int, draws: Sequence[Any]) -> None:
        """Draws from `base` on that lie in one chunk, or in chunks beside each other, each put together by itself."""
        end, scalar = base + len(draws), self.variable.over == "scalar"
        entry = self.variable.shape if scalar else (max(len(draw) for draw in draws), *self.variable.shape)
        with self._writing:  # of several chains that need room, none must take back another's
            self._make_room(max(self.array.shape[1], end), np.maximum(self.array.shape[2:], entry).astype(int).tolist())
            if scalar:
                self.array[chain, base:end] = np.asarray(draws, dtype=self.variable.dtype)
            else:
                width, step = self.array.shape[2], self.array.chunks[2]
                for first in range(0, width, step):
                    last = min(first + step, width)
                    self.array[chain, base:end, first:last] = padded_block([draw[first:last] for draw in draws], self.variable, last - first)
            self.on_disk[chain] = max(self.on_disk[chain], end)

    def _make_room(self, n_draws: int, entry: list[int]) -> None:
        """An array large enough; where it gets wider, draws that are on disk already get the chunks which they then have, too."""
        before, wanted = self.array.shape, (self.array.shape[0], n_draws, *entry)
        if wanted == before:
            return
        self.array.resize(wanted)
        if len(wanted) > 2:
            width = self.array.chunks[2]
            full = -(-before[2] // width) * width
            for chain, end in enumerate(self.on_disk if wanted[2] > full else []):
                if end > 0:
                    self.array[chain, :end, full:] = np.full((end, wanted[2] - full, *wanted[3:]), self.array.fill_value, dtype=self.array.dtype)


def padded_block(draws: Sequence[Any], variable: Variable, width: int) -> Any:
    """Draws as one array of this width; of a variable over clusters, groups or cells they may have fewer numbers, and are filled up with NaN or −1."""
    block = np.full((len(draws), width, *variable.shape), _filler(variable), dtype=variable.dtype)
    for row, draw in zip(block, draws, strict=True):
        row[: len(draw)] = draw
    return block


class LazyArray(NDArrayOperatorsMixin, ABC):
    """Draws that become an array as they are asked for: `array[chain, draw]`, slices, or `np.asarray(array)`; in arithmetic and methods such as `max` all of them."""

    chains: list[int]
    first: int
    n_draws: int
    shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[:], dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if "out" in options:
            raise TypeError("draws cannot be changed: take a copy of them with np.array")
        return getattr(ufunc, method)(*(np.asarray(one) if isinstance(one, LazyArray) else one for one in inputs), **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(np.asarray(self), name)

    def __contains__(self, value: Any) -> bool:
        return value in np.asarray(self)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return math.prod(self.shape)

    def __getitem__(self, wanted: Any) -> Any:
        key: tuple[Any, ...] = wanted if isinstance(wanted, tuple) else (wanted,)
        at = next((i for i, k in enumerate(key) if k is Ellipsis), None)
        if at is not None:
            key = (*key[:at], *[slice(None)] * (self.ndim - len(key) + 1), *key[at + 1 :])
        if not all(_is_plain(k) for k in key) and not (len(key) == 2 and _is_plain(key[0]) and np.ndim(key[1]) == 1):
            return np.asarray(self)[wanted]
        key += (slice(None),) * max(0, 2 - len(key))
        chains, draws, rest = key[0], key[1], key[2:]
        which: Any = np.asarray(self.chains)[chains]
        places = self.first + np.arange(self.n_draws)[draws]
        if np.size(which) == 0:
            return np.asarray(self)[wanted]
        return self._chain(int(which), places, rest) if np.ndim(which) == 0 else np.stack([self._chain(int(chain), places, rest) for chain in which])

    @abstractmethod
    def _chain(self, chain: int, places: Any, rest: tuple[Any, ...]) -> Any:
        """These draws of one chain: what the `rest` of an index picks from each."""


def _is_plain(key: Any) -> bool:
    return isinstance(key, (int, np.integer, slice)) and not isinstance(key, bool)


class PackedArray(LazyArray):
    """Draws of the labels of very many points, in memory in as few bytes as they were drawn in."""

    def __init__(self, values: Sequence[Sequence[Any]], dtype: Any) -> None:
        self.values, self.chains, self.first, self.n_draws, self.dtype = values, list(range(len(values))), 0, len(values[0]), np.dtype(dtype)
        self.shape = (len(values), self.n_draws, len(values[0][0]))

    def _chain(self, chain: int, places: Any, rest: tuple[Any, ...]) -> Any:
        draws = self.values[chain]
        if np.ndim(places) == 0:
            return draws[places][rest].astype(self.dtype)
        block = np.empty((len(places), *np.shape(draws[0][rest])), dtype=self.dtype)
        for t, place in enumerate(places):
            block[t] = draws[place][rest]
        return block


class StoredArray(LazyArray):
    """Draws on disk. What is damaged or missing is an error, never a value."""

    def __init__(self, path: Path, chains: Sequence[int], n_draws: int, entry: tuple[int, ...], first: int = 0) -> None:
        """The draws from `first` on, of `n_draws`; `entry` is the shape of a draw, as committed."""
        self.path, self.chains, self.first, self.n_draws = path, list(chains), first, n_draws - first
        self.keep_alive: Any = None  # a temporary folder that must not go before the array
        self._array = self._opened()
        self.dtype = self._array.dtype
        self.shape = (len(self.chains), self.n_draws, *entry)
        wanted = (max(self.chains) + 1, n_draws, *entry)
        if len(self._array.shape) != len(wanted) or any(has < want for has, want in zip(self._array.shape, wanted, strict=True)):
            raise self._damaged(f"it has shape {self._array.shape}")

    def _opened(self) -> Any:
        import zarr

        try:
            return zarr.open_array(store=str(self.path), mode="r")
        except Exception as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Any) -> ValueError:
        reason = " ".join(str(error).split())[:200]
        return ValueError(f"the draws in {str(self.path)!r} are damaged ({reason}): they cannot be read; restore the folder from a copy")

    def _chain(self, chain: int, places: Any, rest: tuple[Any, ...]) -> Any:
        found = self._read(chain, places)
        return found[(slice(None),) * np.ndim(places) + rest] if rest else found

    def _read(self, chain: int, places: Any) -> Any:
        if np.size(places) == 0:
            return np.empty((*np.shape(places), *self.shape[2:]), dtype=self.dtype)
        first, last = int(np.min(places)), int(np.max(places))
        _, step, *widths = self._array.chunks
        inner = [range(-(-size // width)) for size, width in zip(self.shape[2:], widths, strict=True)]
        for place in product([chain], range(first // step, last // step + 1), *inner):
            if not self.path.joinpath("c", *map(str, place)).is_file():
                raise self._damaged(f"chunk {place[1]} of chain {chain} is missing")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                block = np.asarray(self._array[(chain, slice(first, last + 1), *(slice(size) for size in self.shape[2:]))])
        except Exception as error:
            raise self._damaged(error) from None
        return block if np.array_equal(places - first, range(len(block))) else block[places - first]


def in_memory(values: Sequence[Sequence[Any]], variable: Variable) -> Any:
    """Draws of several chains, equally many of each, as one array."""
    if variable.over == "scalar":
        return np.asarray(values, dtype=variable.dtype)
    if variable.over == "point" and sum(len(draw) for draws in values for draw in draws) > _MOST_UNPACKED:
        return PackedArray(values, variable.dtype)
    width = max((len(draw) for draws in values for draw in draws), default=0)
    return np.stack([padded_block(draws, variable, width) for draws in values]) if len(values) != 1 else padded_block(values[0], variable, width)[None]
