"""Models and moves as JSON, and back. Nothing a file names is imported unless it is maitre's own: what a folder brings along never runs."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from typing import Any

import numpy as np

from maitre.moves.base import Move
from maitre.numerics.distributions import Beta, Gamma, LogUniform, Parametrised
from maitre.states.base import State

_LONG = 1000  # numbers: longer arrays are not written as text
Arrays = dict[str, Any]


def described(value: Any, arrays: Arrays) -> Any:
    """A part of a model as JSON: objects by the name of their class and what makes them; long arrays are put into `arrays`."""
    if isinstance(value, Move):
        return {"class": path_of(type(value)), "fields": {name: described(option, arrays) for name, option in value.options().items()}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"class": path_of(type(value)), "fields": {f.name: described(getattr(value, f.name), arrays) for f in dataclasses.fields(value)}}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        if value.size <= _LONG:
            return {"values": value.tolist(), "dtype": value.dtype.str}
        arrays[f"array{len(arrays)}"] = value
        return {"array": f"array{len(arrays) - 1}"}
    if isinstance(value, np.ndarray):
        return described(value.tolist(), arrays)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"tuple": [described(each, arrays) for each in value]}
    if isinstance(value, list):
        return [described(each, arrays) for each in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"entries": {key: described(each, arrays) for key, each in value.items()}}
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    raise ValueError(f"{type(value).__name__} {value!r} is part of the model and cannot be stored: use numbers, texts, or lists of them")


def restored(value: Any, arrays: Arrays) -> Any:
    """The inverse of `described`."""
    if isinstance(value, list):
        return [restored(each, arrays) for each in value]
    if not isinstance(value, dict):
        return value
    if "values" in value:
        return np.array(value["values"], dtype=value["dtype"])
    if "array" in value:
        return arrays[value["array"]]
    if "tuple" in value:
        return tuple(restored(each, arrays) for each in value["tuple"])
    if "entries" in value:
        return {key: restored(each, arrays) for key, each in value["entries"].items()}
    return class_at(value["class"], (Parametrised, Move, Gamma, Beta, LogUniform))(**{key: restored(each, arrays) for key, each in value["fields"].items()})


def path_of(cls: type) -> str:
    """The name by which a class is known in a file."""
    return f"{cls.__module__}:{cls.__qualname__}"


def class_at(path: str, kinds: tuple[type, ...] = (State,)) -> Any:
    """The class of that name, if it is one of these kinds and comes from maitre or from a module that is loaded already."""
    module, _, name = path.partition(":")
    if module.partition(".")[0] == "maitre" and module not in sys.modules:
        try:
            importlib.import_module(module)
        except ImportError:
            raise ValueError(f"{name} of {module} is not part of this version of maitre") from None
    found: Any = sys.modules.get(module)
    if found is None:
        raise ValueError(f"the run uses {name} from {module}, which is not loaded: import {module} yourself, if you trust it, then load again")
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, kinds)):
        raise ValueError(f"the run names {name} from {module} as part of its model, which is no such thing: do not trust this folder")
    return found
