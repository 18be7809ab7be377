"""A posterior as a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maitre.posterior.folder import Configuration, RunFolder

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior

_BLOCK = 256  # draws copied at once


def save(posterior: Posterior, path: Path, store_data: bool = True, replacing: tuple[str, ...] = ()) -> None:
    """Write a posterior to a folder; a result that is there counts until the new one is whole, then it goes, with its answers of these names."""
    if posterior.folder is not None and path.exists() and path.samefile(posterior.folder):
        return
    n_reported, n_draws = posterior.log_joint.shape
    numbers = posterior.numbers or list(range(n_reported))
    n_chains = max(n_reported, len(posterior.checkpoints))
    in_burn_in = bool(posterior.settings.get("stopped_in_burn_in"))
    settings = posterior.chain_settings | {"chains": n_chains} if posterior.chain_settings else {}
    config = Configuration(posterior.model, posterior.state, settings, posterior.settings, posterior.exact, posterior.notes)
    folder = RunFolder.create(path, config, n_chains, int(posterior.settings.get("draws") or n_draws), store_data, replacing)
    try:
        if in_burn_in:
            for row, chain in enumerate(numbers):
                folder.show(chain, {name: posterior.draws[name][row, 0] for name in folder.writers})
        else:
            for row, chain in enumerate(numbers):
                _copy(folder, posterior.draws, row, chain, 0)
            for chain, draws in posterior.later.items():
                _copy(folder, draws, 0, chain, n_draws if chain in numbers else 0)
        folder.adopt(posterior.checkpoints)
        outcome = {"finished": not posterior.interrupted, "interrupted": posterior.interrupted, "stopped_in_burn_in": in_burn_in, "moves": posterior.moves}
        folder.finish(outcome)
    finally:
        folder.close()


def _copy(folder: RunFolder, draws: Mapping[str, Any], row: int, chain: int, first: int) -> None:
    """The draws in one row of arrays become draws of a chain, from the draw `first` on."""
    n_draws = draws["log_joint"].shape[1]
    for begin in range(0, n_draws, _BLOCK):
        blocks = {name: draws[name][row, begin : begin + _BLOCK] for name in folder.writers}
        for draw in range(min(_BLOCK, n_draws - begin)):
            folder.keep(chain, first + begin + draw, {name: block[draw] for name, block in blocks.items()})
        folder.write(chain)
