"""The disk cache of machine code: used where there is one, done without where there is none, never believed when damaged, never stale."""

import errno
import importlib.util
import logging
import os
import subprocess
import sys

import pytest
from numba.core.caching import CacheImpl, IndexDataCacheFile

from maitre.numerics import compilation
from maitre.numerics.compilation import DiskCache, compiled, library_tag

SOURCE = "def doubled(x):\n    return 2 * x\n\n\ndef tripled(x):\n    return 3 * x\n"


@pytest.fixture(autouse=True)
def _nothing_told_yet(monkeypatch):
    monkeypatch.setattr(DiskCache, "told", False)


@pytest.fixture
def functions(tmp_path):
    """A module with plain functions in a folder of its own."""
    file = tmp_path / "plain.py"
    file.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("plain", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cache_files(folder, ending):
    return sorted((folder / "__pycache__").glob(f"*{ending}"))


def hits(function):
    return sum(function.stats.cache_hits.values())


def test_the_second_time_code_comes_from_disk(functions, tmp_path):
    first, second = compiled(functions.doubled), compiled(functions.doubled)
    assert first._cache.is_empty
    assert (first(4), second(4)) == (8, 8)
    assert (hits(first), hits(second)) == (0, 1)
    assert not second._cache.is_empty
    assert len(cache_files(tmp_path, ".nbi")) == len(cache_files(tmp_path, ".nbc")) == 1


def test_without_a_folder_for_the_cache(functions, monkeypatch, caplog):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    with caplog.at_level(logging.WARNING, "maitre"):
        assert compiled(functions.doubled)(4) == 8
        assert compiled(functions.tripled)(4) == 12
        assert compiled(functions.doubled)._cache.is_empty
    assert len(caplog.records) == 1
    assert "no folder for it can be written to" in caplog.text


def test_on_a_full_disk(functions, tmp_path, monkeypatch, caplog):
    def full(self, path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(IndexDataCacheFile, "_open_for_write", full)
    with caplog.at_level(logging.WARNING, "maitre"):
        assert compiled(functions.doubled)(4) == 8
        assert compiled(functions.tripled)(4) == 12
    assert len(caplog.records) == 1
    assert "No space left on device" in caplog.text
    assert cache_files(tmp_path, ".nbi") == []


def flipped(contents):
    middle = len(contents) // 2
    return contents[:middle] + bytes([contents[middle] ^ 1]) + contents[middle + 1 :]


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("spoil", [lambda raw: b"", lambda raw: raw[:10], lambda raw: raw[:-1], flipped, lambda raw: b"garbage" * 99, lambda raw: raw[32:]])
def test_damaged_files_are_replaced(functions, tmp_path, ending, spoil, caplog):
    compiled(functions.doubled)(4)
    (file,) = cache_files(tmp_path, ending)
    file.write_bytes(spoil(file.read_bytes()))
    repairing, after = compiled(functions.doubled), compiled(functions.doubled)
    with caplog.at_level(logging.WARNING, "maitre"):
        assert (repairing(4), hits(repairing)) == (8, 0)
        assert (after(4), hits(after)) == (8, 1)
    assert not caplog.records


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
def test_folders_in_the_place_of_files(functions, tmp_path, ending, caplog):
    compiled(functions.doubled)(4)
    (file,) = cache_files(tmp_path, ending)
    file.unlink()
    file.mkdir()
    assert compiled(functions.doubled)(4) == 8


def test_other_sources_other_code(functions, tmp_path):
    compiled(functions.doubled)(4)
    (tmp_path / "plain.py").write_text(
        SOURCE.replace("2", "(4 + 1)")
    )  # another length too: Python's own cache of modules looks at no more than that and the second
    functions.__spec__.loader.exec_module(functions)
    assert compiled(functions.doubled)(4) == 20


NOWHERE = """
from numba.core.caching import InTreeCacheLocator
InTreeCacheLocator.from_function = classmethod(lambda cls, function, file: None)
import maitre
from maitre.partitions.labels import canonical
print(canonical([3, 3, 1]).tolist())
"""


@pytest.mark.parametrize("writable", [False, True])
def test_importing_maitre_where_nothing_can_be_written(tmp_path, writable):
    obstacle = tmp_path / "file"
    obstacle.write_text("not a folder")
    cache = tmp_path / "new" / "deep" if writable else obstacle / "below"
    places = {"HOME": str(obstacle / "home"), "XDG_CACHE_HOME": str(obstacle / "cache"), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", NOWHERE], env=os.environ | places, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "[0, 0, 1]\n"), done.stderr
    assert ("cannot be kept on disk" in done.stderr) is not writable
    assert done.stderr.count("\n") == (0 if writable else 1)


def test_the_tag_covers_what_is_compiled_and_all_that_it_imports(tmp_path, monkeypatch):
    """In whatever folder; what neither compiles nor is imported by what does changes nothing."""
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "__pycache__").mkdir()
    monkeypatch.setattr(compilation, "_PACKAGE", tmp_path)
    sources = {
        "top.py": "from maitre.numerics.compilation import kernel",
        "deep/kernels.py": "from maitre.numerics.compilation import kernel\nfrom maitre.deep.deeper import (\n    constants,\n)\n",
        "deep/deeper/constants.py": "SIZE = 3",
        "other.py": "import maitre.top",
        "deep/notes.txt": "compilation",
        "__pycache__/top.py": "from maitre.numerics.compilation import kernel",
    }
    tags = []
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
        tags.append(library_tag.__wrapped__())
    assert len(set(tags[:3])) == 3
    assert len(set(tags[2:])) == 1
    (tmp_path / "deep" / "deeper" / "constants.py").write_text("SIZE = 4")
    assert library_tag.__wrapped__() != tags[-1]
