"""A posterior as a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from maitre.posterior.folder import Configuration, RunFolder

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior

_BLOCK = 256  # draws copied at once


def save(posterior: Posterior, path: Path, store_data: bool = True, replacing: tuple[str, ...] = ()) -> None:
    """Write a posterior to a folder; a result that is there counts until the new one is whole, then it goes, with its answers of these names."""
    if posterior.folder is not None and path.exists() and path.samefile(posterior.folder):
        return
    n_chains, n_draws = posterior.log_joint.shape
    settings = posterior.chain_settings | {"chains": n_chains} if posterior.chain_settings else {}
    config = Configuration(posterior.model, posterior.state, settings, posterior.settings, posterior.exact, posterior.notes)
    folder = RunFolder.create(path, config, n_chains, int(posterior.settings.get("draws") or n_draws), store_data, replacing)
    try:
        for chain in range(n_chains):
            for begin in range(0, n_draws, _BLOCK):
                blocks = {name: posterior.draws[name][chain, begin : begin + _BLOCK] for name in folder.writers}
                for draw in range(min(_BLOCK, n_draws - begin)):
                    folder.keep(chain, begin + draw, {name: block[draw] for name, block in blocks.items()})
                folder.write(chain)
        folder.adopt(posterior.checkpoints)
        folder.finish({"finished": not posterior.interrupted, "interrupted": posterior.interrupted, "moves": posterior.moves})
    finally:
        folder.close()
