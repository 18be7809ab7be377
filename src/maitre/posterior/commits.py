"""The commit point of a run folder, and checkpoints of chains: what they say, how they are written in one step, and how they are checked when they are read."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

FORMAT = 2
COMMIT = "COMMIT.json"
_LARGE, _AT_ONCE = 2**22, 2**22  # bytes, and numbers


class Checkpoint(NamedTuple):
    """A chain at one moment: the variables of its committed state, what its moves remember, and how many iterations it has done."""

    iteration: int
    values: dict[str, Any]
    memory: dict[str, Any]


def set_aside(values: Any) -> Any:
    """Values as an array that nobody changes; one of many numbers waits in a temporary file until it is read, and takes no memory, if there is room on the disk."""
    if np.ndim(values) != 1 or len(values) * values.dtype.itemsize < _LARGE:
        return np.asarray(values)
    try:
        with tempfile.TemporaryFile() as file:
            for first in range(0, len(values), _AT_ONCE):
                file.write(np.ascontiguousarray(values[first : first + _AT_ONCE]).data)  # `tofile` does not notice a disk that fills up in the last bytes
            file.flush()
            return np.memmap(file, values.dtype, mode="r", shape=(len(values),))
    except OSError:
        return np.asarray(values)


@dataclass
class ChainProgress:
    """How far a chain is on disk."""

    draws: int = 0
    iteration: int = 0
    checkpoint: str | None = None
    sha256: str | None = None


@dataclass
class Commit:
    """What the commit point says."""

    generation: str
    files: dict[str, str]  # hashes of the files that never change
    chains: list[ChainProgress]
    draws: int  # how many of each chain are wanted
    arrays: dict[str, list[Any]] = field(default_factory=dict)  # a hash of what each array says of itself, and the shape of a draw
    outcome: dict[str, Any] = field(default_factory=dict)  # finished, interrupted, summary of the moves

    def to_bytes(self) -> bytes:
        """As a file, with a checksum of its own."""
        body = {"format": FORMAT, **asdict(self)}
        return json.dumps(body | {"checksum": sha256(json.dumps(body, sort_keys=True).encode())}, indent=1).encode()

    @classmethod
    def read(cls, path: Path) -> Commit:
        """The commit of a run folder, or an error that says why it cannot be used."""
        file = path / COMMIT
        if not file.is_file():
            raise FileNotFoundError(
                f"{str(path)!r} is not a saved result or run: expected a folder that mt.sample(store=…), Posterior.save or `maitre fit` wrote"
            )
        try:
            body = json.loads(file.read_bytes())
            version, checksum = body.get("format"), body.pop("checksum")
        except (ValueError, AttributeError, KeyError):
            raise damaged(path, f"{COMMIT} is not readable") from None
        if version != FORMAT:
            raise ValueError(f"{str(path)!r} has format {version!r}; this version reads format {FORMAT}")
        if checksum != sha256(json.dumps(body, sort_keys=True).encode()):
            raise damaged(path, f"{COMMIT} has been changed")
        del body["format"]
        return cls(**(body | {"chains": [ChainProgress(**chain) for chain in body["chains"]]}))


def damaged(path: Path, reason: str) -> ValueError:
    """The error for a folder that cannot be trusted any more."""
    return ValueError(f"the run in {str(path)!r} is damaged ({reason}): restore the folder from a copy, or sample again")


def sha256(content: bytes | memoryview) -> str:
    """The hash of some bytes."""
    return hashlib.sha256(content).hexdigest()


def sha256_of(file: Path) -> str:
    """The hash of a file."""
    digest = hashlib.sha256()
    with file.open("rb") as source:
        while block := source.read(2**22):
            digest.update(block)
    return digest.hexdigest()


def unfinished(file: Path) -> Path:
    """Where a file is written that is to take the place of another."""
    return file.with_name(f".{file.name}.unfinished")


@contextmanager
def replacing(file: Path) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of another in one step: a reader sees the old content or the new, never a half."""
    with unfinished(file).open("wb") as target:
        yield target
        target.flush()
        os.fsync(target.fileno())
    os.replace(unfinished(file), file)


def replace_file(file: Path, content: bytes | memoryview) -> None:
    """Write a file in one step."""
    with replacing(file) as target:
        target.write(content)


def write_checkpoint(file: Path, checkpoint: Checkpoint) -> str:
    """Write a checkpoint as a .npz file, without a copy of it in memory; returns its hash."""
    memory = np.frombuffer(json.dumps(checkpoint.memory, default=_plain).encode(), dtype=np.uint8)
    with replacing(file) as target:
        np.savez(target, iteration=checkpoint.iteration, memory=memory, **{f"value.{name}": value for name, value in checkpoint.values.items()})
    return sha256_of(file)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise ValueError(f"a move remembers {type(value).__name__}, which cannot be written down: only numbers, texts, lists and arrays can")


def read_checkpoint(path: Path, generation: Path, chain: ChainProgress) -> Checkpoint | None:
    """Where a chain stands, or None if it has not begun."""
    if chain.checkpoint is None:
        return None
    file = generation / chain.checkpoint
    if not file.is_file() or sha256_of(file) != chain.sha256:
        raise damaged(path, f"{chain.checkpoint} is missing or has been changed")
    with np.load(file, allow_pickle=False) as arrays:
        values = {name[6:]: arrays[name] for name in arrays.files if name.startswith("value.")}
        return Checkpoint(int(arrays["iteration"]), values, json.loads(arrays["memory"].tobytes()))
