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

    Labels beyond `memory_budget` bytes go to a zarr array, one compressed chunk per draw: in the folder `path` if given, otherwise in a temporary folder that lives
    as long as the store. Different chains may write at once.
    """

    def __init__(self, n_chains: int, n_draws: int, n: int, trace_names: list[str], path: str | Path | None = None, memory_budget: int = MEMORY_BUDGET) -> None:
        self.traces: dict[str, Floats] = {name: np.full((n_chains, n_draws), np.nan) for name in ["log_joint", "n_clusters", *trace_names]}
        self.n_kept = [0] * n_chains
        self.folder: Any = None
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
        elif Path(path).exists() and any(Path(path).iterdir()):
            raise ValueError(f"store {str(path)!r} exists and is not empty: give a new folder, so that no earlier draws are overwritten")
        return zarr.create_array(store=str(path), shape=shape, chunks=(1, 1, max(1, shape[2])), dtype="int32", overwrite=True)

    def keep(self, chain: int, draw: int, state: State) -> None:
        """Store the present state as a draw of a chain."""
        self.labels[chain, draw] = state.canonical_labels()
        values = {"log_joint": state.log_joint, "n_clusters": float(state.n_clusters), **state.hyperparameters}
        for name, trace in self.traces.items():
            trace[chain, draw] = values[name]
        self.n_kept[chain] = draw + 1
