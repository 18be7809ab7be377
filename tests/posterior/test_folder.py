"""What a run folder holds is read as it was written, or not at all."""

import shutil
import sys
import types

import numpy as np
import pandas as pd
import pytest

import maitre as mt
from maitre.posterior.commits import set_aside
from maitre.posterior.folder import RunFolder, locked, read_run
from maitre.posterior.stored import ArrayWriter, StoredArray, create_array
from maitre.states.base import Variable

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"x": RNG.normal(size=30), "kind": RNG.choice(["a", "b"], 30)})
OPTIONS = {"draws": 12, "burn_in": 5, "chains": 2, "progress": False, "family": mt.families.Product([("x", mt.families.NormalInverseGamma())])}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return folder, mt.sample(TABLE, store=folder, **OPTIONS)


def damages(rng, folder):
    """One file damaged at random: a byte flipped, bytes cut off, put in or taken out, or the file removed."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != ".lock")
    file = files[rng.integers(len(files))]
    content = bytearray(file.read_bytes())
    kind = rng.integers(5)
    at = int(rng.integers(max(1, len(content))))
    if kind == 0 and content:
        content[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del content[at:]
    elif kind == 2:
        content[at:at] = bytes(rng.integers(0, 256, 3).tolist())
    elif kind == 3 and content:
        del content[at]
    if kind == 4:
        file.unlink()
    else:
        file.write_bytes(bytes(content))
    return f"{file.relative_to(folder)} kind {kind}"


def everything(posterior):
    draws = {name: np.asarray(values) for name, values in posterior.draws.items()}
    return draws, posterior.model.data.raw, repr(posterior.model.family), repr(posterior.model.prior), posterior.settings


def same(a, b):
    return all(np.array_equal(a[0][name], b[0][name]) for name in a[0]) and a[1].equals(b[1]) and a[2:] == b[2:]


@pytest.mark.parametrize("n_damages", [150, pytest.param(2000, marks=pytest.mark.long)])
def test_damage_is_an_error_and_never_another_value(run, tmp_path, n_damages):
    folder, _ = run
    expected, rng = everything(mt.load(folder)), np.random.default_rng(1)
    for number in range(n_damages):
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        what = damages(rng, copy)
        try:
            found = everything(mt.load(copy))
        except (ValueError, FileNotFoundError):
            found = None
        assert found is None or same(found, expected), f"damage {number}: {what}"
        shutil.rmtree(copy)


@pytest.mark.parametrize("n_damages", [30, pytest.param(500, marks=pytest.mark.long)])
def test_a_damaged_run_does_not_go_on_with_other_draws(run, tmp_path, n_damages):
    folder, _ = run
    expected, rng = mt.sample(TABLE, **(OPTIONS | {"draws": 20})), np.random.default_rng(2)
    for number in range(n_damages):
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        what = damages(rng, copy)
        try:
            found, complaint = mt.resume(copy, draws=20, progress=False).draws, ""
        except (ValueError, FileNotFoundError) as error:
            found, complaint = {}, str(error)
        assert found or str(copy) in complaint, f"damage {number}: {what}: {complaint}"
        for name, values in found.items():
            np.testing.assert_array_equal(np.asarray(values), expected.draws[name], err_msg=f"damage {number}: {what}")
        shutil.rmtree(copy)


def test_missing_draws_do_not_come_back_as_others(run, tmp_path):
    folder, _ = run
    for name in ("labels", "log_joint"):
        copy = tmp_path / name
        shutil.copytree(folder, copy)
        for chunk in copy.rglob(f"{name}/c/1"):
            shutil.rmtree(chunk)
        with pytest.raises(ValueError, match="chunk 0 of chain 1 is missing"):
            mt.resume(copy, draws=20, progress=False)


def test_what_killed_runs_leave_behind_goes(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run[0], copy)
    generation = next(copy.glob("run-*"))
    for name in ("chain-1-3.npz", ".chain-0-99.npz.unfinished"):
        (generation / name).write_bytes(b"old")
    mt.resume(copy, draws=20, progress=False)
    assert len(list(generation.glob("*chain-*"))) == 2


def test_names_of_columns_that_are_tuples_come_back(tmp_path):
    table = TABLE[["x"]].assign(y=TABLE["x"] ** 2)
    table.columns = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    options = {name: value for name, value in OPTIONS.items() if name != "family"}
    posterior = mt.sample(table, store=tmp_path / "run", **options)
    loaded = mt.load(tmp_path / "run")
    assert loaded.model.data.names == posterior.model.data.names
    np.testing.assert_array_equal(loaded.predict(table), posterior.predict(table))


def test_a_model_that_cannot_be_stored_leaves_nothing_behind(tmp_path):
    table = TABLE[["x"]].rename(columns={"x": pd.Timestamp("2020-01-01")})
    with pytest.raises(ValueError, match="cannot be stored"):
        mt.sample(table, store=tmp_path / "run", draws=2, burn_in=1, chains=1, progress=False)
    mt.sample(TABLE[["x"]], store=tmp_path / "run", draws=2, burn_in=1, chains=1, progress=False)


def test_missing_draws_are_not_zeros(run, tmp_path):
    folder, _ = run
    shutil.copytree(folder, tmp_path / "copy")
    for chunk in (tmp_path / "copy").rglob("labels/c/1"):
        shutil.rmtree(chunk)
    with pytest.raises(ValueError, match="chunk 0 of chain 1 is missing"):
        np.asarray(mt.load(tmp_path / "copy").labels)


def test_nothing_that_a_folder_names_is_imported(run, tmp_path):
    """A module beside the folder is not run; a class that is no model is not made."""
    from maitre.posterior.described import class_at

    (tmp_path / "intruder.py").write_text("raise SystemExit('run!')")
    sys.path.insert(0, str(tmp_path))
    try:
        with pytest.raises(ValueError, match="not loaded: import intruder yourself"):
            class_at("intruder:Family")
    finally:
        sys.path.remove(str(tmp_path))
    assert "intruder" not in sys.modules
    with pytest.raises(ValueError, match="do not trust this folder"):
        class_at("os:system")
    with pytest.raises(ValueError, match="do not trust this folder"):
        class_at("maitre.posterior.folder:RunFolder")


def test_a_family_of_ones_own_comes_back_once_its_module_is_loaded(tmp_path, monkeypatch):
    from dataclasses import dataclass

    module = types.ModuleType("my_families")
    made = dataclass(frozen=True)(type("Mine", (mt.families.NormalInverseGamma,), {"__module__": "my_families", "__qualname__": "Mine"}))
    module.Mine = made
    monkeypatch.setitem(sys.modules, "my_families", module)
    mt.sample(TABLE[["x"]], **(OPTIONS | {"family": made()}), store=tmp_path / "run")
    assert isinstance(mt.load(tmp_path / "run").model.family, made)
    monkeypatch.delitem(sys.modules, "my_families")
    with pytest.raises(ValueError, match="not loaded"):
        mt.load(tmp_path / "run")


def test_a_second_writer_is_refused(run, tmp_path):
    folder, _ = run
    shutil.copytree(folder, tmp_path / "copy")
    first, _ = RunFolder.reopen(read_run(tmp_path / "copy"), 20, locked(tmp_path / "copy"))
    with pytest.raises(ValueError, match="being written by another process"):
        mt.resume(tmp_path / "copy", draws=20)
    first.close()
    assert mt.resume(tmp_path / "copy", draws=20, progress=False).labels.shape[1] == 20


def test_a_folder_that_cannot_be_written_is_said_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    for store in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(ValueError, match="is a file; expected a folder"):
            mt.sample(TABLE, store=store, **OPTIONS)


def test_a_disk_that_fills_up_leaves_a_checkpoint_in_memory():
    """Also in its last bytes: a file that is too short would be read as other labels."""
    resource = pytest.importorskip("resource", reason="limits of processes are those of Unix")
    values, (soft, hard) = np.arange(1_500_001, dtype=np.int32), resource.getrlimit(resource.RLIMIT_FSIZE)
    for missing in (0, 1, 100, 2_000, 1_000_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (values.nbytes - missing, hard))
        try:
            found = set_aside(values)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert isinstance(found, np.memmap) == (missing == 0)
        np.testing.assert_array_equal(found, values)


def test_a_result_is_replaced_whole(run, tmp_path, monkeypatch):
    """The old result counts until the new one is committed; a save that fails leaves it as it was."""
    _, posterior = run
    other = mt.sample(TABLE, **(OPTIONS | {"seed": 1}))
    posterior.save(tmp_path / "saved")
    monkeypatch.setattr(RunFolder, "finish", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        other.save(tmp_path / "saved")
    monkeypatch.undo()
    np.testing.assert_array_equal(np.asarray(mt.load(tmp_path / "saved").labels), np.asarray(posterior.labels))
    other.save(tmp_path / "saved")
    np.testing.assert_array_equal(np.asarray(mt.load(tmp_path / "saved").labels), other.labels)
    assert sorted(entry.name for entry in (tmp_path / "saved").iterdir() if not entry.name.startswith(".")) == ["COMMIT.json", "run-2"]


def test_links_are_kept_in_the_draws(tmp_path):
    prior = mt.priors.DistanceDependent.neighbours(RNG.uniform(size=(30, 2)), k=4)
    posterior = mt.sample(TABLE[["x"]], prior=prior, store=tmp_path / "run", **(OPTIONS | {"family": "NormalInverseGamma"}))
    links = np.asarray(mt.load(tmp_path / "run").draws["links"])
    assert links.shape == (2, 12, 30)
    from maitre.testing.links import components_of

    for chain in range(2):
        for draw in range(12):
            assert tuple(posterior.labels[chain, draw]) == components_of(links[chain, draw])
    assert len(repr(posterior)) < 400


@pytest.mark.parametrize(
    "key",
    [0, -1, slice(None), (1, 3), (0, slice(2, 5)), (slice(None), -1), (1, 2, 3), (0, [1, 4]), (Ellipsis, 5), (slice(0, 1), slice(None, None, 3), slice(4))],
)
def test_draws_on_disk_are_indexed_like_an_array(run, key):
    _, posterior = run
    np.testing.assert_array_equal(posterior.labels[key], np.asarray(posterior.labels)[key])


def test_a_chain_that_is_done_can_be_read_after_another_has_more_clusters(tmp_path):
    variable = Variable("weights", "cluster")
    create_array(tmp_path, variable, 3, 2, 10)
    writer = ArrayWriter(tmp_path, variable, [0, 0, 0])
    for chain, width in enumerate((5, 40, 17)):
        for draw in range(2):
            writer.keep(chain, draw, np.full(width, 10.0 * chain + draw))
        writer.write(chain)
    found = StoredArray(tmp_path / "weights", [0, 1, 2], 2, (40,))[:]
    assert found.shape == (3, 2, 40)
    for chain, width in enumerate((5, 40, 17)):
        np.testing.assert_array_equal(found[chain, 1, :width], 10.0 * chain + 1)
        assert np.isnan(found[chain, :, width:]).all()
