"""Matrices that stay on disk: the same rows, and the same chain, as from memory."""

import pickle

import numpy as np
import pandas as pd
import pytest
import zarr

import maitre as mt
from maitre.chains.starts import block_by_block, parse_init
from maitre.data.blocks import ColumnBlocks, FileBlocks, ParquetBlocks, ZarrBlocks, blocks_of, open_blocks
from maitre.data.files import open_table
from maitre.data.rows import ArrayRows, BlockRows, as_data
from maitre.model import Model
from maitre.moves import resolve, stay_on_disk
from maitre.moves.labels import Explicit, LabelStep
from maitre.numerics.rng import stream
from maitre.states.mixture import MixtureState

pytestmark = pytest.mark.xdist_group("parallel")  # one process compiles the kernels that these need

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5000, 2)) + 6.0 * RNG.integers(0, 3, size=(5000, 1))


def written(folder, kind, x=X):
    if kind == "npy":
        np.save(folder / "x.npy", x)
        return folder / "x.npy"
    if kind == "parquet":
        pd.DataFrame(x, columns=["a", "b"]).to_parquet(folder / "x.parquet", row_group_size=700)
        return folder / "x.parquet"
    zarr.save_array(str(folder / "x.zarr"), x)
    return folder / "x.zarr"


@pytest.mark.parametrize(("kind", "form"), [("npy", FileBlocks), ("parquet", ParquetBlocks), ("zarr", ZarrBlocks)])
def test_rows_are_those_of_the_matrix(tmp_path, kind, form):
    blocks = open_blocks(written(tmp_path, kind))
    assert isinstance(blocks, form)
    assert blocks.shape == X.shape
    points = np.array([4999, 3, 700, 699, 3, -1])
    for rows in (slice(0, 5000), slice(650, 2150), slice(10, 10), points):
        np.testing.assert_array_equal(blocks[rows], X[rows])
    np.testing.assert_array_equal(ColumnBlocks(blocks, [1])[20:30], X[20:30, 1:])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(blocks))[650:2150], X[650:2150])


def test_other_types_become_numbers(tmp_path):
    for values in (np.arange(10, dtype=np.int16), np.linspace(0, 1, 12, dtype=np.float32).reshape(6, 2)):
        np.save(tmp_path / "x.npy", values)
        np.testing.assert_array_equal(open_blocks(tmp_path / "x.npy")[:], values.reshape(len(values), -1).astype(float))


def test_parts_of_memory_maps(tmp_path):
    file = written(tmp_path, "npy")
    part = np.load(file, mmap_mode="r")[100:200]
    np.testing.assert_array_equal(blocks_of(part)[5:50], X[105:150])
    assert blocks_of(np.load(file, mmap_mode="r")[:, 1:]) is None  # not rows one after the other: read like any array
    assert blocks_of(np.load(file)) is None


@pytest.mark.parametrize("kind", ["npy", pytest.param("parquet", marks=pytest.mark.long), pytest.param("zarr", marks=pytest.mark.long)])
def test_the_chain_is_the_one_from_memory(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("maitre.states.mixture.POINTS_READ", 512)
    monkeypatch.setattr("maitre.states.mixture._GRANULES_ON_DISK", 10**6)
    monkeypatch.setattr("maitre.states.regions._POINTS", 1000)
    monkeypatch.setattr("maitre.states.regions._NUMBERS", 2000)
    options = {"family": mt.families.KnownCovarianceGaussian(0.0, 40.0, 1.0), "moves": "parallel", "draws": 4, "burn_in": 4, "chains": 1, "progress": False}
    from_memory = mt.sample(X, **options)
    from_disk = mt.sample(open_blocks(written(tmp_path, kind)), store=tmp_path / "run", **options)
    assert not from_disk.model.in_memory
    np.testing.assert_array_equal(np.asarray(from_disk.labels), from_memory.labels)
    assert not any(file.stat().st_size > 40_000 for file in (tmp_path / "run").rglob("data*"))  # a path, no copy
    longer = mt.resume(tmp_path / "run", draws=6, progress=False)
    np.testing.assert_array_equal(np.asarray(longer.labels)[:, :4], from_memory.labels)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_large_array_is_not_copied(kind, monkeypatch):
    """The chain is that of a copy; a start that looks at all points, or a gap, asks for one."""
    x = X.astype(kind)
    options = {"family": mt.families.KnownCovarianceGaussian(0.0, 40.0, 1.0), "moves": "parallel", "draws": 2, "burn_in": 2, "chains": 1, "progress": False}
    copied = mt.sample(x, **options)
    monkeypatch.setattr("maitre.model._WORTHWHILE", 1000)
    monkeypatch.setattr("maitre.model.POOL", 10**6)
    monkeypatch.setattr("maitre.states.mixture._NUMBERS_ENCODED", 1000)
    left = mt.sample(x, **options)
    assert [model.in_memory for model in (copied.model, left.model)] == [True, False]
    assert not left.model.on_disk
    assert np.shares_memory(left.model.valid.array, x)
    np.testing.assert_array_equal(left.labels, copied.labels)
    np.testing.assert_array_equal(left.predict(x[:9]), copied.predict(x[:9]))
    assert Model.of(x, options["family"]).in_memory
    assert [block_by_block(ArrayRows(x), "parallel", init) for init in ("kmeans:4", "one", np.zeros(5000))] == [False, True, True]
    gaps = np.where(np.arange(len(x))[:, None] == 7, np.nan, x)
    assert Model.of(gaps, mt.families.HierarchicalNormalInverseWishart(), on_disk=True).in_memory


def test_points_of_which_only_some_are_in_memory(tmp_path, monkeypatch):
    """Proposals are built from a pool; passes over all points read the rest."""
    monkeypatch.setattr("maitre.model.POOL", 300)
    from maitre.model import pool_of

    pool_of.cache_clear()
    try:
        model = Model.of(
            np.load(written(tmp_path, "npy"), mmap_mode="r"), mt.families.KnownCovarianceGaussian(0.0, 40.0, 1.0), mt.priors.DirichletProcess(1.0), on_disk=True
        )
        assert len(model.encoded["x"]) < 310
        state = MixtureState(model, np.zeros(5000, dtype=int))
        from maitre.moves import Parallel

        move, rng = Parallel(proposals=20), stream(0)
        for _ in range(12):
            move.step(state, rng)
            state.audit()
        assert 3 <= state.n_clusters < 12
    finally:
        pool_of.cache_clear()


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_sliced_points_are_counted_in_all_blocks(tmp_path, monkeypatch, share):
    """The slice step counts labels while it redraws them, block by block: those of before are taken off, clusters that are born and die among them."""
    monkeypatch.setattr("maitre.states.mixture.POINTS_READ", 512)
    monkeypatch.setattr("maitre.states.mixture._GRANULES_ON_DISK", 10**6)
    monkeypatch.setattr("maitre.states.regions._POINTS", 1000)
    monkeypatch.setattr("maitre.states.regions._NUMBERS", 2000)
    model = Model.of(open_blocks(written(tmp_path, "npy")), mt.families.KnownCovarianceGaussian(0.0, 40.0, 1.0), mt.priors.DirichletProcess(5.0), on_disk=True)
    state, rng = MixtureState(model, np.arange(5000) % 40), stream(0)
    assert len(state.regions().ranges) == 8
    n_before = state.n_clusters
    for _ in range(3):
        step, before = LabelStep(state), state.labels.copy()
        explicit = step.slices(Explicit.drawn(state, rng), rng, share)
        np.testing.assert_array_equal(step.sizes, np.bincount(state.labels, minlength=state.capacity))
        assert (step.sizes > 0).tolist() == np.isfinite(explicit.log_weights).tolist()
        assert np.count_nonzero(state.labels != before) > 100
        step.half_by_half(explicit, rng)
        state.audit()
    assert state.n_clusters != n_before


def test_what_needs_memory_says_so_or_reads(tmp_path):
    data = np.load(written(tmp_path, "npy"), mmap_mode="r")
    model = Model.of(data, "NormalInverseGamma", on_disk=True)
    with pytest.raises(ValueError, match="move 'gibbs' needs all points in memory, and the data stay on disk; those that do are 'parallel'"):
        resolve("gibbs", model)
    with pytest.raises(ValueError, match="init 'kmeans' needs all points in memory"):
        parse_init("kmeans", model)
    assert Model.of(data, "NormalInverseGamma", "PitmanYor", on_disk=True).in_memory
    assert Model.of(data, "NormalInverseGamma").in_memory  # as searches and approximations want it
    assert [stay_on_disk(moves, n) for moves, n in (("parallel", 10), ("gibbs", 10**6), ("auto", 10_000), ("auto", 10**6))] == [True, False, False, True]
    bad = X.copy()
    bad[4321, 1] = np.nan
    (tmp_path / "bad").mkdir()
    with pytest.raises(ValueError, match="row 4321, column 1 is nan"):
        Model.of(open_blocks(written(tmp_path / "bad", "npy", bad)), on_disk=True)


def test_large_files_are_not_read(tmp_path, monkeypatch):
    file = written(tmp_path, "npy")
    assert isinstance(open_table(file), np.ndarray)
    monkeypatch.setattr("maitre.data.files.LARGE", 1000)
    rows = as_data(open_table(file))
    assert isinstance(rows, BlockRows)
    assert isinstance(as_data(open_table(written(tmp_path, "zarr"))), BlockRows)
    np.testing.assert_array_equal(rows.column(1), X[:, 1])
    assert rows.fingerprint() == as_data(open_table(file)).fingerprint()
    pd.DataFrame({"c": ["x", "y"]}).to_parquet(tmp_path / "text.parquet")
    with pytest.raises(ValueError, match=r"column 'c' of .* is not made of numbers"):
        open_blocks(tmp_path / "text.parquet")
    np.save(tmp_path / "columns.npy", np.asfortranarray(X))
    with pytest.raises(ValueError, match="column by column"):
        open_blocks(tmp_path / "columns.npy")
