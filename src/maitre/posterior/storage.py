"""Saving and loading results: a folder with a zarr group for draws and traces, the data, and the model as JSON."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from maitre.numerics.distributions import Beta, Gamma, Parametrised
from maitre.posterior.posterior import Posterior
from maitre.states.mixture import Model

_FORMAT = 1
_LONG = 1000  # numbers: longer arrays are not written as text


def save(posterior: Posterior, path: Path) -> None:
    """Write to a temporary folder beside `path`, then put it in place: a reader never sees half a result."""
    import zarr

    if path.exists() and not (path / "result.json").exists():
        raise ValueError(f"{str(path)!r} exists and is not a saved result: give another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        shape = posterior.labels.shape
        step = min(max(1, 2**18 // shape[2]), shape[1])  # draws in a chunk of about a megabyte
        labels = zarr.create_array(store=str(temporary / "labels.zarr"), shape=shape, chunks=(1, step, shape[2]), dtype="int32")
        for chain in range(shape[0]):
            for draw in range(0, shape[1], step):
                labels[chain, draw : draw + step] = posterior.labels[chain, draw : draw + step]
        np.savez(temporary / "traces.npz", **posterior.traces)  # type: ignore[arg-type]
        _save_data(temporary, posterior.model.data)
        arrays: dict[str, Any] = {}
        (temporary / "result.json").write_text(json.dumps(_described(posterior, arrays), indent=1))
        if arrays:
            np.savez(temporary / "model.npz", **arrays)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o777 & ~umask)
        if path.exists():
            shutil.rmtree(path)
        os.replace(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def load(path: str | Path) -> Posterior:
    """Read a result that `Posterior.save` wrote; draws are read from disk as they are asked for.

    >>> import maitre as mt, tempfile, os
    >>> posterior = mt.sample([[0.0], [0.1], [5.0]], draws=5, burn_in=5, chains=1, seed=0, progress=False)
    >>> folder = os.path.join(tempfile.mkdtemp(), "result")
    >>> posterior.save(folder)
    >>> bool((mt.load(folder).labels[0] == posterior.labels[0]).all())
    True
    """
    import zarr

    folder = Path(path)
    if not (folder / "result.json").is_file():
        raise FileNotFoundError(f"{str(path)!r} is not a saved result: expected a folder that Posterior.save or `maitre fit` wrote")
    text = json.loads((folder / "result.json").read_text())
    if text.get("format") != _FORMAT:
        raise ValueError(f"{str(path)!r} has format {text.get('format')!r}; this version reads format {_FORMAT}")
    arrays = dict(np.load(folder / "model.npz")) if (folder / "model.npz").exists() else {}
    family, prior = _restored(text["family"], arrays), _restored(text["prior"], arrays)
    with np.load(folder / "traces.npz") as file:
        traces = {name: file[name] for name in file.files}
    model = Model.of(_load_data(folder), family, prior)
    labels = zarr.open_array(store=str(folder / "labels.zarr"), mode="r")
    return Posterior(model, labels, traces, text["settings"], text["exact"], text["interrupted"], text["moves"])


def _described(posterior: Posterior, arrays: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "family": _plain(posterior.model.family, arrays),
        "prior": _plain(posterior.model.prior, arrays),
        "settings": _plain(posterior.settings),
        "exact": posterior.exact,
        "interrupted": posterior.interrupted,
        "moves": _plain(posterior.moves),
    }


def _plain(value: Any, arrays: dict[str, Any] | None = None) -> Any:
    """A model's parts as JSON: dataclasses by the name of their class and their fields, arrays as lists; long ones are put into `arrays`, if that is given."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _plain(getattr(value, f.name), arrays) for f in dataclasses.fields(value)}
        return {"class": f"{type(value).__module__}:{type(value).__qualname__}", "fields": fields}
    if isinstance(value, np.ndarray) and arrays is not None and value.size > _LONG and value.dtype.kind in "biuf":
        arrays[f"array{len(arrays)}"] = value
        return {"array": f"array{len(arrays) - 1}"}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(k): _plain(v, arrays) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v, arrays) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def _restored(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_restored(v, arrays) for v in value]
    if isinstance(value, dict) and "array" in value:
        return arrays[value["array"]]
    if not isinstance(value, dict) or "class" not in value:
        return value
    module, _, name = value["class"].partition(":")
    if name in ("Gamma", "Beta"):
        return (Gamma if name == "Gamma" else Beta)(**value["fields"])
    try:
        cls = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise ValueError(f"the result uses {name} from {module}, which cannot be imported here: define or install it, then load again") from None
    if not (isinstance(cls, type) and issubclass(cls, Parametrised)):
        raise ValueError(f"the result names {name} from {module} as part of its model, which is neither a family nor a prior: do not trust this file")
    return cls(**{key: _restored(v, arrays) for key, v in value["fields"].items()})


def _save_data(folder: Path, data: Any) -> None:
    if hasattr(data, "to_parquet"):
        data.to_parquet(folder / "data.parquet")
    elif sparse.issparse(data):
        sparse.save_npz(folder / "data.npz", sparse.csr_matrix(data))
    else:
        np.save(folder / "data.npy", np.asarray(data), allow_pickle=False)


def _load_data(folder: Path) -> Any:
    if (folder / "data.parquet").exists():
        import pandas as pd

        return pd.read_parquet(folder / "data.parquet")
    if (folder / "data.npz").exists():
        return sparse.load_npz(folder / "data.npz")
    return np.load(folder / "data.npy", allow_pickle=False)
