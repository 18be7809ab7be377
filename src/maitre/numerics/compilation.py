"""How plain Python functions become machine code that is cached on disk and never stale.

Numba's disk cache looks at the time stamp of the file that holds the compiled function, not at the functions it calls. A kernel calls a
family's functions, which live elsewhere, so the file name of every cached function here carries a *tag*: a hash of maitre's own sources and,
for a kernel, of the sources of the family it is compiled for. Editing either gives new file names, hence new machine code.

Families defined in ``__main__`` (a script or a notebook cell) have no importable name, so their kernels are compiled anew in every process.
So is everything where no folder can be written to (a read-only installation, a full disk), which is said once. A damaged file of the cache counts as none.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import pickle
import re
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import njit
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.extending import overload

logger = logging.getLogger("maitre")
F = TypeVar("F", bound=Callable[..., Any])

# `ninf` is left out: weights of minus infinity are how a kernel says "impossible".
JIT_OPTIONS: dict[str, Any] = {"fastmath": {"nnan", "nsz", "arcp", "contract", "reassoc", "afn"}, "error_model": "numpy"}
INNER = JIT_OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # of functions that only compiled code calls
_FOUNDATIONS = {"numpy", "scipy", "numba", "llvmlite", "pandas", "pyarrow", "sklearn", "matplotlib", "zarr", "rich", "pytest", "_pytest"}
_IMPORTS = re.compile(rb"^from (maitre[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
_NAMES = re.compile(rb"\w+")
_PACKAGE = Path(__file__).resolve().parent.parent


def _digest(sources: list[tuple[Path, bytes]]) -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path, text in sources:
        digest.update(path.name.encode())
        digest.update(text)
    return digest.hexdigest()[:12]


@functools.cache
def library_tag() -> str:
    """A hash of the sources that compiled code may depend on: every module of maitre, in whatever folder, that compiles something, and all that those import."""
    sources: dict[str, tuple[Path, bytes]] = {}
    for folder, inner, names in os.walk(_PACKAGE):
        inner[:] = [name for name in inner if name != "__pycache__"]  # hundreds of files that are no sources
        for name in names:
            if name.endswith(".py"):
                path = Path(folder, name)
                sources[".".join(("maitre", *path.relative_to(_PACKAGE).with_suffix("").parts)).removesuffix(".__init__")] = path, path.read_bytes()
    pending = [module for module, (_, text) in sources.items() if __name__.encode() in text or module == __name__]
    reached: set[str] = set()
    while pending:
        module = pending.pop()
        if module in sources and module not in reached:
            reached.add(module)
            for package, names in _IMPORTS.findall(sources[module][1]):
                pending += [package.decode(), *(f"{package.decode()}.{name.decode()}" for name in _NAMES.findall(names))]
    return _digest([sources[module] for module in sorted(reached)])


def _own_source(module: types.ModuleType) -> Path | None:
    """The file of a module that a family may be written in: not the standard library, not maitre, and not what maitre is built on."""
    name = getattr(module, "__file__", None)
    package = module.__name__.partition(".")[0]
    if name is None or package in sys.stdlib_module_names or package in _FOUNDATIONS:
        return None
    path = Path(name).resolve()
    return None if _PACKAGE in path.parents or not path.is_file() else path


def _referenced_modules(module: types.ModuleType) -> Iterator[types.ModuleType]:
    for value in list(vars(module).values()):
        name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        found = sys.modules.get(name) if isinstance(name, str) else None
        if found is not None:
            yield found


def source_tag(cls: type) -> str:
    """A hash of the sources that the functions of `cls` may come from: its module and the user's modules that one uses."""
    pending, sources = [sys.modules[cls.__module__]], set()
    while pending:
        module = pending.pop()
        path = _own_source(module)
        if path is not None and path not in sources:
            sources.add(path)
            pending.extend(_referenced_modules(module))
    return _digest([(path, path.read_bytes()) for path in sorted(sources)]) if sources else ""


def _renamed(function: Callable[..., Any], suffix: str) -> types.FunctionType:
    """A copy of `function` whose qualified name, from which Numba builds the cache's file name, ends in `suffix`."""
    plain = cast(types.FunctionType, function)
    copy = types.FunctionType(plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
    copy.__qualname__ = f"{plain.__name__}-{suffix}"
    copy.__module__ = plain.__module__
    copy.__doc__ = plain.__doc__
    return copy


class CheckedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """The index and the data files of a cached function, each behind a checksum: machine code with a wrong byte is not run, and pickles are not read half."""

    def _load_index(self) -> dict[Any, str]:
        found = self._read(self._index_path)
        return found[1] if found is not None and found[0] == self._source_stamp else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _read(self, path: str) -> Any:
        """What was written there, or None if there is no such file or not all of it."""
        try:
            contents = Path(path).read_bytes()
        except FileNotFoundError:
            return None
        checksum, rest = contents[:32], contents[32:]
        return pickle.loads(rest) if hashlib.sha256(rest).digest() == checksum else None

    def _write(self, path: str, value: Any) -> None:
        contents = self._dump(value)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(contents).digest() + contents)


class DiskCache(NullCache):  # type: ignore[misc]
    """Numba's disk cache of one function, if there can be one: it is looked for when the function is first compiled, and its failures are never errors."""

    told = False  # that something could not be cached

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    @functools.cached_property
    def files(self) -> Any:
        """Numba's own cache, or one that holds nothing."""
        try:
            cache = FunctionCache(self.function)
            cache._cache_file = CheckedFiles(cache.cache_path, cache._impl.filename_base, cache._impl.locator.get_source_stamp())
        except (RuntimeError, OSError) as error:
            self._tell(error)
            return NullCache()
        return cache

    @property
    def cache_path(self) -> str | None:
        return cast("str | None", self.files.cache_path)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been cached yet."""
        try:
            return isinstance(self.files, NullCache) or not self.files._cache_file._load_index()
        except Exception:
            return True

    def load_overload(self, signature: Any, target: Any) -> Any:
        try:
            return self.files.load_overload(signature, target)
        except Exception as error:
            logger.debug("the cache of %s cannot be read: %r", self.function.__name__, error)
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        try:
            self.files.save_overload(signature, result)
        except Exception as error:
            self._tell(error)

    def flush(self) -> None:
        self.files.flush()

    @staticmethod
    def _tell(error: Exception) -> None:
        if not DiskCache.told:
            DiskCache.told = True
            reason = "no folder for it can be written to" if isinstance(error, RuntimeError) else getattr(error, "strerror", None) or repr(error)
            logger.warning(
                "machine code cannot be kept on disk (%s) and is compiled anew in every run; a folder for it can be named by NUMBA_CACHE_DIR", reason
            )


class _Stopwatch(event.Listener):  # type: ignore[misc]
    """The time in which something was being compiled, on whatever threads."""

    def __init__(self) -> None:
        self.lock, self.n_under_way, self.since, self.seconds = threading.Lock(), 0, 0.0, 0.0

    def on_start(self, happened: Any) -> None:
        with self.lock:
            self.since = time.monotonic() if self.n_under_way == 0 else self.since
            self.n_under_way += 1

    def on_end(self, happened: Any) -> None:
        with self.lock:
            self.n_under_way -= 1
            self.seconds += time.monotonic() - self.since if self.n_under_way == 0 else 0.0


_STOPWATCH = _Stopwatch()
event.register("numba:compile", _STOPWATCH)


def compiling_seconds() -> float:
    """How long this process has been compiling so far."""
    with _STOPWATCH.lock:
        return _STOPWATCH.seconds + (time.monotonic() - _STOPWATCH.since if _STOPWATCH.n_under_way else 0.0)


def _compile(function: Callable[..., Any], cached: bool, **options: Any) -> Any:
    dispatcher = njit(nogil=True, **options, **JIT_OPTIONS)(function)
    if cached:
        dispatcher._cache = DiskCache(function)
    return dispatcher


def compiled(function: F) -> F:
    """Compile a function that depends on maitre's own sources only."""
    return cast(F, _compile(_renamed(function, library_tag()), cached=True, forceinline=True))


def compiled_apart(function: F) -> F:
    """The same for long loops over few arrays, which do better if they are not inlined."""
    return cast(F, _compile(_renamed(function, library_tag()), cached=True))


def compiled_form_of(plain: Callable[..., Any], inline: bool = True) -> Callable[[F], F]:
    """Decorate the function that machine code runs wherever the source says `plain`. Long loops over few arrays do better not inlined."""

    def register(implementation: F) -> F:
        source = getattr(implementation, "py_func", implementation)
        overload(plain, strict=False, jit_options=INNER | {"forceinline": inline})(lambda *arguments: source)
        return implementation

    return register


class Kernel:
    """A function whose first argument is a family's run-time statistics (a NamedTuple); compiled once for each type of statistics.

    `kernel(statistics, ...)` runs machine code; `kernel.python(statistics, ...)` runs the same source as plain Python, which is how the
    exactness tests follow every branch of a move.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.python = function
        self._compiled: dict[tuple[type, ...], Callable[..., Any]] = {}

    def __call__(self, statistics: Any, *arguments: Any) -> Any:
        return self.compiled_for(statistics)(statistics, *arguments)

    def compiled_for(self, statistics: Any) -> Callable[..., Any]:
        """The machine code for this type of statistics (compiled at its first call unless the disk cache has it)."""
        classes = _classes(statistics)
        if classes not in self._compiled:
            importable = all(cls.__module__ != "__main__" and "<locals>" not in cls.__qualname__ for cls in classes)
            names = "-".join(dict.fromkeys(cls.__name__ for cls in classes))
            key = "|".join(f"{cls.__module__}.{cls.__qualname__}" for cls in classes)
            tag = hashlib.sha256((key + library_tag() + "".join(map(source_tag, classes))).encode()).hexdigest()[:12]
            function = _renamed(self.python, f"{names}-{tag}")
            dispatcher = _compile(function, cached=importable)
            if not importable or dispatcher._cache.is_empty:
                logger.info("compiling %s for %s (first use)", self.python.__name__, names)
            self._compiled[classes] = dispatcher
        return self._compiled[classes]


def _classes(statistics: Any) -> tuple[type, ...]:
    """The NamedTuple types in a (possibly nested) tuple of statistics."""
    nested = getattr(statistics, "parts", None)
    return (type(statistics),) if nested is None else (type(statistics), *(cls for part in nested for cls in _classes(part)))


def kernel(function: Callable[..., Any]) -> Kernel:
    """Decorate a function whose first argument is a family's statistics."""
    return Kernel(function)
