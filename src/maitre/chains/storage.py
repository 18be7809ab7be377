"""Draws in memory, or on disk where they would not fit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from maitre.numerics.arrays import Floats
from maitre.states.base import State

MEMORY_BUDGET = 512 * 2**20


class DrawStore:
    """Room for the labels and traces of several chains.

    Labels beyond `memory_budget` bytes go to a zarr array: in the folder `path` if given, otherwise in a temporary folder that lives
    as long as the store. Different chains may write at once.
    """

    def __init__(self, n_chains: int, n_draws: int, n: int, trace_names: list[str], path: str | Path | None = None, memory_budget: int = MEMORY_BUDGET) -> None:
        self.traces: dict[str, Floats] = {name: np.full((n_chains, n_draws), np.nan) for name in ["log_joint", "n_clusters", *trace_names]}
        self.n_kept = [0] * n_chains
        self.folder: Any = None
        self._waiting: list[list[Any]] = []
        shape = (n_chains, n_draws, n)
        if path is None and 4 * n_chains * n_draws * n <= memory_budget:
            self.labels: Any = np.zeros(shape, dtype=np.int32)
        else:
            self.labels = self._on_disk(shape, path)

    def _on_disk(self, shape: tuple[int, int, int], path: str | Path | None) -> Any:
        import zarr

        if path is None:
            self.folder = tempfile.TemporaryDirectory(prefix="maitre-draws-")
            path = Path(self.folder.name) / "labels.zarr"
        elif Path(path).is_file():
            raise ValueError(f"store {str(path)!r} is a file: give a new folder")
        elif Path(path).exists() and any(Path(path).iterdir()):
            raise ValueError(f"store {str(path)!r} exists and is not empty: give a new folder, so that no earlier draws are overwritten")
        self._waiting = [[] for _ in range(shape[0])]
        return zarr.create_array(store=str(path), shape=shape, chunks=label_chunks(shape), dtype="int32", overwrite=True)

    def keep(self, chain: int, draw: int, state: State) -> None:
        """Store the present state as a draw of a chain."""
        labels = state.canonical_labels()
        if isinstance(self.labels, np.ndarray):
            self.labels[chain, draw] = labels
        else:
            self._waiting[chain].append(labels.astype(np.int32))
            if (draw + 1) % self.labels.chunks[1] == 0:
                self._write(chain, draw + 1)
        values = {"log_joint": state.log_joint, "n_clusters": float(state.n_clusters), **state.hyperparameters}
        for name, trace in self.traces.items():
            trace[chain, draw] = values[name]
        self.n_kept[chain] = draw + 1

    def _write(self, chain: int, stop: int) -> None:
        """Whole chunks at a time: draws of one chunk wait in memory until it is full."""
        if self._waiting[chain]:
            self.labels[chain, stop - len(self._waiting[chain]) : stop] = np.array(self._waiting[chain])
            self._waiting[chain] = []

    def flush(self) -> None:
        """Write the draws of chunks that are not full."""
        for chain in range(len(self._waiting)):
            self._write(chain, self.n_kept[chain])

    def cut(self, chains: list[int], n_draws: int) -> Any:
        """The labels of these chains and so many draws; on disk they stay there unless a chain is left out."""
        if isinstance(self.labels, np.ndarray):
            return self.labels[chains][:, :n_draws] if (len(chains), n_draws) != self.labels.shape[:2] else self.labels
        if len(chains) < self.labels.shape[0]:
            return self.labels.oindex[chains, :n_draws]
        if n_draws < self.labels.shape[1]:
            self.labels.resize((self.labels.shape[0], n_draws, self.labels.shape[2]))
        return self.labels

    def most_complete(self) -> tuple[list[int], int]:
        """The chains to report and their common number of draws: as many draws in all as possible."""
        counts = sorted(self.n_kept, reverse=True)
        n_draws = max(enumerate(counts, start=1), key=lambda item: item[0] * item[1])[1]
        return [chain for chain, count in enumerate(self.n_kept) if count >= n_draws], n_draws


def label_chunks(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Chunks of about a megabyte: whole draws of one chain."""
    return (1, min(max(1, 2**18 // max(1, shape[2])), shape[1]), shape[2])
