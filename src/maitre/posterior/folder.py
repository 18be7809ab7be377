"""A run on disk: configuration, data, kept draws as they come, and checkpoints, with one commit point.

    run/COMMIT.json               the only commit point, replaced in one step: which generation counts, how many draws of each chain, which checkpoint
    run/run-1/config.json         model, settings, versions
    run/run-1/arrays.npz, data.*  what is too long for text
    run/run-1/draws/<name>        a Zarr array (chains, draws, …) for each kept variable
    run/run-1/chain-0-120.npz     the checkpoint of chain 0 at iteration 120

Files that a commit names are never changed, with two exceptions that only add to them: a chunk of draws may be replaced by one that begins with the same draws, and an array
may grow. A kill at any moment therefore leaves the last commit whole. Everything read is checked: hashes of files in the commit, checksums in the chunks. Nothing is a pickle.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from maitre.data.columns import Column, TypedRows
from maitre.data.groups import GroupedRows, as_groups
from maitre.data.rankings import Rankings, as_rankings
from maitre.data.rows import KINDS, Rows, TableRows, as_data
from maitre.model import Model
from maitre.moves import stay_on_disk
from maitre.posterior.commits import (
    COMMIT,
    ChainProgress,
    Checkpoint,
    Commit,
    damaged,
    read_checkpoint,
    replace_file,
    sha256_of,
    unfinished,
    write_checkpoint,
)
from maitre.posterior.described import class_at, described, path_of, restored
from maitre.posterior.stored import ArrayWriter, StoredArray, create_array, metadata_digest
from maitre.states.base import State, Variable

T = TypeVar("T")
_PACE = 1.0  # seconds between two checkpoints of a chain on disk, at least
_SHARE = 60.0  # and so many times as long as writing one took: at most one or two per cent of the time


@dataclass
class Configuration:
    """What a run is of: model, kind of state, settings, and the declaration of what draws keep."""

    model: Model
    state: type[State]
    settings: dict[str, Any]  # all that a chain needs to go on; empty for what is not a run of chains
    public: dict[str, Any]  # for people to read
    exact: bool = True
    notes: dict[str, Any] = field(default_factory=dict)  # what the caller wants to find again

    def kept(self) -> tuple[Variable, ...]:
        """What draws keep."""
        return self.state.kept_variables(self.model)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """An error of the disk with the folder's name and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        advice = "what was committed before is safe; make room, then go on with mt.resume or `maitre resume`"
        raise OSError(error.errno, f"the run folder {str(path)!r} cannot be written ({error.strerror}): {advice}") from None


# -- writing --------------------------------------------------------------------------------------------------------------------------------


def check_writable(path: Path, replacing: bool) -> None:
    """A `ValueError` before any work is done, if a run cannot be written to this folder."""
    try:
        place = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    except OSError as error:
        raise ValueError(f"the folder {str(path)[:50]!r} … cannot be made ({error.strerror}): give another name") from None
    if not place.is_dir():
        raise ValueError(f"{str(place)!r} is a file; expected a folder: give another name")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ValueError(f"the folder {str(place)!r} may not be written to: give another name")
    probe = place / f".maitre-{os.getpid()}"
    try:
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise ValueError(f"the folder {str(place)!r} cannot be written to ({error.strerror}): give another name") from None
    if replacing or not path.is_dir():
        return
    if (path / COMMIT).is_file():
        raise ValueError(
            f"store {str(path)!r} exists and is not empty: go on with mt.resume({str(path)!r}), or give a new folder, so that no earlier draws are overwritten"
        )
    if not holds_nothing(path):
        raise ValueError(f"store {str(path)!r} exists and is not empty: give a new folder")


def holds_nothing(path: Path) -> bool:
    """Whether a folder is empty, but for what a run leaves that was killed before its first commit."""
    left = (".lock", unfinished(path / COMMIT).name)
    return not (path / COMMIT).is_file() and all(entry.name in left or _is_generation(entry) for entry in path.iterdir())


def _is_generation(entry: Path) -> bool:
    return entry.name.startswith("run-") and entry.name[4:].isdigit() and (entry / "draws").is_dir()


class RunFolder:
    """A run folder that is being written. Different chains may write at once; a second writer is refused."""

    generation: Path
    commit: Commit
    writers: dict[str, ArrayWriter]

    def __init__(self, path: Path, config: Configuration, lock: Any) -> None:
        self.path, self.config = path, config
        self._lock, self._mutex = lock, Lock()
        self.pace = _PACE
        self._next: list[float] = []  # when each chain's next checkpoint is due
        self.published = False
        self.stale: tuple[str, ...] = ()  # answers of an earlier run

    # -- beginning

    @classmethod
    def create(
        cls, path: Path, config: Configuration, n_chains: int, n_draws: int, store_data: bool = True, replacing: tuple[str, ...] | None = None
    ) -> RunFolder:
        """A new run. With `replacing`, an earlier one in the folder stays what counts until the first checkpoint; then it goes, with its answers of these names."""
        check_writable(path, replacing is not None)
        with _told(path):
            path.mkdir(parents=True, exist_ok=True)
            run = cls(path, config, locked(path))
            run.stale = replacing or ()
            older = [entry.name for entry in path.iterdir() if entry.name.startswith("run-")]
            number = 1 + max((int(name[4:]) for name in older if name[4:].isdigit()), default=0)
            run.generation = path / f"run-{number}"
            try:
                (run.generation / "draws").mkdir(parents=True)
                files = run._write_configuration(store_data)
                for variable in config.kept():
                    create_array(run.generation / "draws", variable, n_chains, n_draws, config.model.n)
                run.commit = Commit(run.generation.name, files, [ChainProgress() for _ in range(n_chains)], n_draws)
                run._open(n_chains)
                if not (path / COMMIT).exists():
                    run._publish()
            except BaseException:
                run.close()
                raise
        return run

    def _write_configuration(self, store_data: bool) -> dict[str, str]:
        config, model, folder = self.config, self.config.model, self.generation
        assert model.data is not None
        arrays: dict[str, Any] = {}
        columns = described([asdict(column) for column in model.columns], arrays)
        data = {
            "kind": model.data.KIND,
            "columns": columns,
            "names": described(model.data.names, arrays),
            "fingerprint": model.data.fingerprint(),
            "file": None,
        }
        if store_data:
            data["file"] = model.data.save(folder)
        body = {
            "versions": versions_used(),
            "model": {name: described(getattr(model, name), arrays) for name in ("family", "given", "prior", "choice")},
            "data": data,
            "state": path_of(config.state),
            "settings": described(config.settings, arrays),
            "public": described(config.public, arrays),
            "notes": described(config.notes, arrays),
            "exact": config.exact,
            "kept": [asdict(variable) for variable in config.kept()],
        }
        replace_file(folder / "config.json", json.dumps(body, indent=1).encode())
        if arrays:
            np.savez(folder / "arrays.npz", **arrays)
        return {file.name: sha256_of(file) for file in sorted(folder.iterdir()) if file.is_file()}

    @classmethod
    def reopen(cls, stored: Stored, n_draws: int, lock: Any) -> tuple[RunFolder, list[Checkpoint | None]]:
        """Go on with a run that was read under the lock: the folder to write to, and where each chain stands."""
        with _told(stored.path):
            run = cls(stored.path, stored.config, lock)
            run.commit, run.published = stored.commit, True
            run.commit.draws, run.commit.outcome = n_draws, {}
            run.generation = stored.path / run.commit.generation
            run._clear_generations()
            run._clear_checkpoints()
            checkpoints = stored.checkpoints()
            run._open(len(run.commit.chains))
        return run, checkpoints

    def n_kept(self) -> list[int]:
        """How many draws of each chain are on disk."""
        return [chain.draws for chain in self.commit.chains]

    def go_on(self, chain: int, made: int) -> None:
        """The chain goes on from a checkpoint at which it had made so many draws."""
        for name, writer in self.writers.items():
            writer.go_on(chain, made, self.commit.chains[chain].draws, tuple(self.commit.arrays[name][1]))

    def _open(self, n_chains: int) -> None:
        on_disk = [chain.draws for chain in self.commit.chains]
        self.writers = {v.name: ArrayWriter(self.generation / "draws", v, on_disk) for v in self.config.kept()}
        self._next = [0.0] * n_chains

    # -- as the chains go on

    def keep(self, chain: int, draw: int, values: Mapping[str, Any]) -> None:
        """A draw; it is on disk after the next checkpoint at the latest, and counts from then on."""
        with _told(self.path):
            for name, writer in self.writers.items():
                writer.keep(chain, draw, values[name])

    def checkpoint(self, chain: int, checkpoint: Checkpoint, now: bool = False) -> None:
        """Write the draws so far and where the chain stands, if it is time for that. When that is changes nothing that is drawn."""
        began = time.monotonic()
        if not now and began < self._next[chain]:
            return
        with _told(self.path):
            draws = self.write(chain)
            name, before = f"chain-{chain}-{checkpoint.iteration}.npz", self.commit.chains[chain]
            digest = before.sha256
            if name != before.checkpoint:
                digest = write_checkpoint(self.generation / name, checkpoint)
            with self._mutex:
                self.commit.chains[chain] = ChainProgress(max(draws, before.draws), checkpoint.iteration, name, digest)
                self._publish()
                if before.checkpoint not in (None, name):
                    (self.generation / str(before.checkpoint)).unlink(missing_ok=True)
        self._next[chain] = time.monotonic() + max(self.pace, _SHARE * (time.monotonic() - began))

    def write(self, chain: int) -> int:
        """Write the draws that wait; returns how many of the chain are on disk. They count after the next commit."""
        with _told(self.path):
            return max([writer.write(chain) for writer in self.writers.values()], default=0)

    def show(self, chain: int, values: Mapping[str, Any]) -> None:
        """The present state of a chain that has made no draw yet, for readers to see."""
        with _told(self.path):
            for name, writer in self.writers.items():
                writer.show(chain, values[name])

    def adopt(self, checkpoints: list[Checkpoint | None]) -> None:
        """All draws are written, and the chains stand where these say (nowhere, if there are none): one commit for all."""
        with _told(self.path), self._mutex:
            for number, progress in enumerate(self.commit.chains):
                progress.draws = self.write(number)
                checkpoint = checkpoints[number] if number < len(checkpoints) else None
                if checkpoint is not None:
                    progress.iteration, progress.checkpoint = checkpoint.iteration, f"chain-{number}-{checkpoint.iteration}.npz"
                    progress.sha256 = write_checkpoint(self.generation / progress.checkpoint, checkpoint)

    def finish(self, outcome: dict[str, Any]) -> None:
        """Say how the run ended."""
        with _told(self.path), self._mutex:
            self.commit.outcome = outcome
            self._publish()

    def _publish(self) -> None:
        self.commit.arrays = {name: [metadata_digest(self.generation / "draws", name), list(writer.array.shape[2:])] for name, writer in self.writers.items()}
        if not self.published:
            for name in self.stale:  # never the answers of one run beside the draws of another
                (self.path / name).unlink(missing_ok=True)
        replace_file(self.path / COMMIT, self.commit.to_bytes())
        if not self.published:
            self.published = True
            self._clear_generations()

    def _clear_generations(self) -> None:
        """Remove earlier generations; the checkpoints of this one stay, since another chain may just have written one that the commit does not name yet."""
        for entry in self.path.iterdir():
            if _is_generation(entry) and entry.name != self.generation.name:
                shutil.rmtree(entry, ignore_errors=True)

    def _clear_checkpoints(self) -> None:
        """Remove what a run that was killed has left."""
        named = {chain.checkpoint for chain in self.commit.chains}
        for entry in self.generation.glob("*chain-*.npz*"):
            if entry.name not in named:
                entry.unlink(missing_ok=True)

    def close(self) -> None:
        """Let others write; a run that has committed nothing leaves nothing behind."""
        if not self.published:
            shutil.rmtree(self.generation, ignore_errors=True)
        self._lock.close()


def versions_used() -> dict[str, str]:
    """Of everything that draws depend on."""
    import platform
    from importlib.metadata import version

    return {"python": platform.python_version()} | {name: version(name) for name in ("maitre", "numpy", "scipy", "numba", "zarr")}


def locked(path: Path) -> Any:
    """An open file that only one process may hold."""
    handle = (path / ".lock").open("w")
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise ValueError(f"the run in {str(path)!r} is being written by another process: wait for it, or give another folder") from None
    return handle


# -- reading --------------------------------------------------------------------------------------------------------------------------------


@dataclass
class Stored:
    """A run as read from disk."""

    path: Path
    config: Configuration
    commit: Commit

    def checkpoints(self) -> list[Checkpoint | None]:
        """Where each chain stands."""
        return [read_checkpoint(self.path, self.path / self.commit.generation, chain) for chain in self.commit.chains]

    def draws(self, chains: list[int], n_draws: int) -> dict[str, Any]:
        """Kept variables: scalars in memory, others read as they are asked for."""
        folder = self.path / self.commit.generation / "draws"
        arrays = {v.name: StoredArray(folder / v.name, chains, n_draws, tuple(self.commit.arrays[v.name][1])) for v in self.config.kept()}
        return {v.name: np.asarray(arrays[v.name]) if v.over == "scalar" else arrays[v.name] for v in self.config.kept()}

    def later(self, chains: list[int], n_draws: int) -> dict[int, dict[str, Any]]:
        """By chain, the draws that are not among the first `n_draws` of `chains`, read as they are asked for."""
        folder = self.path / self.commit.generation / "draws"
        tails = {c: (n_draws if c in chains else 0, progress.draws) for c, progress in enumerate(self.commit.chains)}
        return {
            c: {v.name: StoredArray(folder / v.name, [c], end, tuple(self.commit.arrays[v.name][1]), begin) for v in self.config.kept()}
            for c, (begin, end) in tails.items()
            if begin < end
        }

    def again(self, data: Any) -> Stored:
        """The run as it is now, read with these data if it is another; files of one generation never change."""
        commit = Commit.read(self.path)
        return Stored(self.path, self.config, commit) if commit.generation == self.commit.generation else read_run(self.path, data)


def read_run(path: Path, data: Any = None) -> Stored:
    """The run in a folder, everything checked. `data` are needed if the folder has none."""
    return reading(path, data, lambda stored: stored)


def reading(path: Path, data: Any, use: Callable[[Stored], T]) -> T:
    """What `use` makes of the run in a folder. A run that is being written may change under the reader, who then reads again."""
    for attempt in range(5):
        commit = Commit.read(path)
        try:
            return use(Stored(path, _read_configuration(path, commit, data), commit))
        except ValueError:
            if attempt == 4 or (path / COMMIT).read_bytes() == commit.to_bytes():
                raise
    raise AssertionError("unreachable")


def _read_configuration(path: Path, commit: Commit, data: Any) -> Configuration:
    generation = path / commit.generation
    for name, digest in commit.files.items():
        file = generation / name
        if not file.is_file() or sha256_of(file) != digest:
            raise damaged(path, f"{name} is missing or has been changed")
    for name, (digest, _) in commit.arrays.items():
        try:
            intact = metadata_digest(generation / "draws", name) == digest
        except (OSError, ValueError, KeyError, TypeError):
            intact = False
        if not intact:
            raise damaged(path, f"the description of the draws of {name!r} is missing or has been changed")
    body = json.loads((generation / "config.json").read_bytes())
    arrays = {}
    if (generation / "arrays.npz").exists():
        with np.load(generation / "arrays.npz", allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    parts = {name: restored(body["model"][name], arrays) for name in ("family", "given", "prior")}
    settings, rows = restored(body["settings"], arrays), as_data(_read_data(generation, body["data"], arrays, data))
    on_disk = bool(settings) and "moves" in settings and stay_on_disk(settings["moves"], rows.n)
    model = replace(Model.of(rows, parts["family"], parts["prior"], given=parts["given"], on_disk=on_disk), choice=body["model"].get("choice", ""))
    return Configuration(model, class_at(body["state"]), settings, restored(body["public"], arrays), body["exact"], restored(body["notes"], arrays))


def _read_data(generation: Path, entry: dict[str, Any], arrays: dict[str, Any], data: Any) -> Rows:
    columns = [Column(**column) for column in restored(entry["columns"], arrays)]
    if data is not None:
        kind = entry["kind"]
        if columns:
            rows: Rows = TypedRows.of(data, columns)
        else:
            rows = as_groups(data) if kind == GroupedRows.KIND else as_rankings(data) if kind == Rankings.KIND else as_data(data)
        if rows.fingerprint() != entry["fingerprint"]:
            raise ValueError("these are not the data of the run: their values, types or column names differ")
        return rows
    if entry["file"] is None:
        raise ValueError("the run was stored without its data: give them, e.g. mt.resume(folder, data=table)")
    rows = KINDS[entry["kind"]].load(generation / entry["file"])
    rows = rows.renamed(restored(entry["names"], arrays)) if isinstance(rows, (TableRows, GroupedRows)) else rows
    rows = TypedRows(rows.raw, columns) if columns else rows
    if rows.fingerprint() != entry["fingerprint"]:
        raise ValueError(f"the data in {str(generation)!r} did not come back as they were stored: give them yourself, e.g. mt.load(folder, data=table)")
    return rows
