"""Where draws go: memory, or a run folder (`maitre.posterior.folder.RunFolder`, which has the same methods)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from maitre.posterior.commits import Checkpoint
from maitre.posterior.stored import in_memory
from maitre.states.base import Variable

MEMORY_BUDGET = 512 * 2**20


class Recorder(Protocol):
    """What a run tells of its chains. Different chains may call at once."""

    def n_kept(self) -> list[int]:
        """How many draws of each chain there are already."""
        ...

    def keep(self, chain: int, draw: int, values: Mapping[str, Any]) -> None:
        """A draw of a chain."""
        ...

    def checkpoint(self, chain: int, checkpoint: Checkpoint, now: bool = False) -> None:
        """Where a chain stands."""
        ...

    def go_on(self, chain: int, made: int) -> None:
        """The chain goes on from a checkpoint at which it had made so many draws."""
        ...


class Memory:
    """Draws kept in memory."""

    def __init__(self, variables: tuple[Variable, ...], n_chains: int) -> None:
        self.variables = variables
        self.values: list[dict[str, list[Any]]] = [{v.name: [] for v in variables} for _ in range(n_chains)]
        self.kinds = {v.name: v.dtype for v in variables if v.over != "scalar"}

    def n_kept(self) -> list[int]:
        """None yet."""
        return [0] * len(self.values)

    def keep(self, chain: int, draw: int, values: Mapping[str, Any]) -> None:
        """A draw of a chain."""
        for name, kept in self.values[chain].items():
            value, kind = np.asarray(values[name]), self.kinds.get(name)
            wide = kind is not None and value.itemsize > np.dtype(kind).itemsize  # of labels in fewer bytes there may be very many
            kept.append(value.astype(kind) if wide else value)

    def checkpoint(self, chain: int, checkpoint: Checkpoint, now: bool = False) -> None:
        """Nothing to do: the chain itself has it."""

    def go_on(self, chain: int, made: int) -> None:
        """There are no draws to go on from."""
        raise AssertionError("draws in memory begin with the run")

    def draws(self, chains: list[int], n_draws: int) -> dict[str, Any]:
        """Kept variables as arrays (chains, draws, …)."""
        return {v.name: in_memory([self.values[c][v.name][:n_draws] for c in chains], v) for v in self.variables}

    def later(self, chains: list[int], n_draws: int) -> dict[int, dict[str, Any]]:
        """By chain, the draws that are not among the first `n_draws` of `chains`."""
        tails = {c: {v.name: own[v.name][n_draws if c in chains else 0 :] for v in self.variables} for c, own in enumerate(self.values)}
        return {c: {v.name: in_memory([tail[v.name]], v) for v in self.variables} for c, tail in tails.items() if tail["log_joint"]}


def bytes_needed(variables: tuple[Variable, ...], n_chains: int, n_draws: int, n_points: int) -> int:
    """Roughly, for the draws of all chains."""
    return n_chains * n_draws * sum(math.prod((8 if v.over == "scalar" else 4 * n_points, *v.shape)) for v in variables)
