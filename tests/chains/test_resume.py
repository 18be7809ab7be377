"""A run that is interrupted anywhere and goes on in a new process makes the same draws, bit for bit."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import resumption

import maitre as mt
from maitre.moves import Gibbs

pytestmark = pytest.mark.xdist_group("parallel")  # one process compiles the kernels that these need

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _short_commits(monkeypatch):
    monkeypatch.setattr("maitre.chains.chain.commit_every", lambda n: resumption.EVERY)


def whole(**options):
    return mt.sample(**({"data": resumption.X, "threads": 1} | resumption.SHAPE | options))


def resumed_elsewhere(tasks):
    script = Path(resumption.__file__)
    done = subprocess.run([sys.executable, str(script)], input=json.dumps([[str(f), t] for f, t in tasks]), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def equal(posterior, arrays):
    return all(np.array_equal(*trimmed(np.asarray(values), arrays[name.replace(".", "_")]), equal_nan=True) for name, values in posterior.draws.items())


def trimmed(values, others):
    """Rows of clusters may be filled up to the largest number of them that was ever stored."""
    if values.ndim < 4 or values.shape == others.shape:
        return values, others
    width = min(values.shape[2], others.shape[2])
    wider = values if values.shape[2] > width else others
    assert (wider[:, :, width:] == -1).all() or np.isnan(wider[:, :, width:]).all()
    return values[:, :, :width], others[:, :, :width]


def test_every_move_and_state_goes_on_where_it_stopped(tmp_path):
    """Interrupted in burn-in and after it, at random iterations, continued by another process with one thread or two."""
    found, tasks = resumption.cases(), []
    for number, (name, options) in enumerate(found.items()):
        for when in (int(RNG.integers(1, 20)), int(RNG.integers(21, 44))):
            folder = tmp_path / f"{name} {when}"
            resumption.stopped_run(folder, when, **options)
            tasks.append((folder, 1 + number % 2))
    resumed_elsewhere(tasks)
    wrong = []
    for name, options in found.items():
        expected = whole(**options)
        for folder, _ in tasks:
            if folder.name.rpartition(" ")[0] == name and not equal(expected, np.load(folder.with_suffix(".npz"))):
                wrong.append(folder.name)
    assert not wrong


class Forgetful(Gibbs):
    """Remembers something that it does not say: every third sweep goes through the points in the order of the data."""

    def __init__(self):
        super().__init__()
        self.sweeps = 0

    def step(self, state, rng):
        self.sweeps += 1
        self.order = "systematic" if self.sweeps % 3 == 0 else "random"
        return super().step(state, rng)


class Remembering(Forgetful):
    REMEMBERS = ("sweeps",)


@pytest.mark.parametrize(("move", "same"), [(Forgetful(), False), (Remembering(), True)])
def test_a_hidden_variable_is_found_out(tmp_path, move, same):
    options = {"family": "NormalInverseGamma", "moves": [move], "init": "sequential"}
    resumption.stopped_run(tmp_path / "run", 30, **options)
    resumed = mt.resume(tmp_path / "run", progress=False)
    assert np.array_equal(np.asarray(resumed.log_joint), whole(**options).log_joint) == same


def test_a_state_that_hides_something_is_found_out(tmp_path, monkeypatch):
    """A commit that does nothing leaves slot numbers and drifted sums outside the variables."""
    from maitre.states.mixture import MixtureState

    options = {"family": "NormalInverseGamma", "moves": "gibbs+split_merge", "draws": 60}
    monkeypatch.setattr(MixtureState, "commit", lambda self: None)
    resumption.stopped_run(tmp_path / "run", 40, **options)
    assert not np.array_equal(np.asarray(mt.resume(tmp_path / "run", progress=False).log_joint), whole(**options).log_joint)


def test_draws_in_small_chunks_that_come_again_are_in_order(tmp_path, monkeypatch):
    """A run that ends between two commits is resumed from the last one: draws after it are on disk already and come once more, some chunks of them before others."""
    monkeypatch.setattr("maitre.posterior.stored._CHUNK", 4 * len(resumption.X))
    monkeypatch.setattr("maitre.chains.chain.commit_every", lambda n: 21)
    options = {"family": "NormalInverseGamma", "burn_in": 20, "draws": 10}
    whole(store=tmp_path / "run", **options)
    longer = mt.resume(tmp_path / "run", draws=40, progress=False)
    np.testing.assert_array_equal(np.asarray(longer.labels), whole(**(options | {"draws": 40})).labels)


def test_draws_and_checkpoints_of_many_points_go_to_disk_in_pieces(tmp_path, monkeypatch):
    """Chunks narrower than a draw, a draw in each, and labels that wait in a temporary file."""
    for name, value in (("stored._CHUNK", 1), ("stored._WIDTH", {"point": 7, "link": 7, "cluster": 2}), ("commits._LARGE", 0), ("commits._AT_ONCE", 7)):
        monkeypatch.setattr(f"maitre.posterior.{name}", value)
    options = {"family": "NormalInverseGamma", "burn_in": 20, "draws": 10}
    stored = whole(store=tmp_path / "run", **options)
    assert stored.draws["labels"]._array.chunks[1:] == (1, 7)
    assert isinstance(stored.checkpoints[0].values["labels"], np.memmap)
    longer = mt.resume(tmp_path / "run", draws=40, progress=False)
    np.testing.assert_array_equal(np.asarray(longer.labels), whole(**(options | {"draws": 40})).labels)


def test_longer_than_planned(tmp_path):
    options = {"family": "NormalInverseGamma", "thin": 2}
    first = whole(store=tmp_path / "run", **options)
    longer = mt.resume(tmp_path / "run", draws=40, progress=False)
    expected = whole(draws=40, **options)
    np.testing.assert_array_equal(np.asarray(longer.labels), expected.labels)
    np.testing.assert_array_equal(longer.log_joint[:, :25], first.log_joint)
    np.testing.assert_array_equal(np.asarray(mt.load(tmp_path / "run").labels), expected.labels)
    assert mt.resume(tmp_path / "run", progress=False).settings["draws"] == 40
    with pytest.raises(ValueError, match="has made 40 already"):
        mt.resume(tmp_path / "run", draws=30)


def test_stopped_again_and_again(tmp_path, monkeypatch):
    """A resumed run that is stopped at once has lost nothing; in the end the draws are those of a run that was never stopped."""
    resumption.stopped_run(tmp_path / "run", 38, init="sequential")  # a start of which the clock is not asked
    monkeypatch.setattr("maitre.chains.run.Clock", resumption.Stopping)
    for after in (1, 3, 5):
        monkeypatch.setattr(resumption.Stopping, "after", after)
        again = mt.resume(tmp_path / "run", threads=1, progress=False)
        assert again.labels.shape[1] >= 18
        assert again.interrupted
    monkeypatch.undo()
    monkeypatch.setattr("maitre.chains.chain.commit_every", lambda n: resumption.EVERY)
    expected = whole(init="sequential")
    np.testing.assert_array_equal(np.asarray(again.labels), expected.labels[:, : again.labels.shape[1]])
    np.testing.assert_array_equal(np.asarray(mt.resume(tmp_path / "run", progress=False).labels), expected.labels)


def test_a_saved_posterior_goes_on(tmp_path):
    whole(family="NormalInverseGamma").save(tmp_path / "saved")
    longer = mt.resume(tmp_path / "saved", draws=40, progress=False)
    np.testing.assert_array_equal(np.asarray(longer.labels), mt.sample(resumption.X, family="NormalInverseGamma", **(resumption.SHAPE | {"draws": 40})).labels)


@pytest.mark.parametrize("stored", [False, True])
def test_an_interrupted_posterior_is_saved_with_all_that_it_needs_to_go_on(tmp_path, monkeypatch, stored):
    """Chains of which one is far ahead and one has been left out: the saved copy goes on as the run would have."""
    options = {"chains": 3, "store": tmp_path / "run" if stored else None, "init": "sequential"}
    with resumption.stopping(monkeypatch, [42, 33, 24]):
        posterior = whole(**options)
    assert posterior.interrupted
    assert posterior.labels.shape[:2] == (2, 13)
    posterior.save(tmp_path / "saved")
    loaded = mt.load(tmp_path / "saved")
    np.testing.assert_array_equal(np.asarray(loaded.labels), np.asarray(posterior.labels))
    loaded.save(tmp_path / "again")
    expected = whole(chains=3, init="sequential")
    for folder in ("saved", "again"):
        np.testing.assert_array_equal(np.asarray(mt.resume(tmp_path / folder, progress=False).labels), expected.labels)


@pytest.mark.parametrize("stored", [False, True])
def test_stopped_in_burn_in_saved_and_loaded(tmp_path, monkeypatch, stored):
    with resumption.stopping(monkeypatch, [7, 7]):
        posterior = whole(store=tmp_path / "run" if stored else None)
    posterior.save(tmp_path / "saved")
    for folder in ("saved", "run") if stored else ("saved",):
        loaded = mt.load(tmp_path / folder)
        assert loaded.settings["stopped_in_burn_in"]
        np.testing.assert_array_equal(np.asarray(loaded.labels), posterior.labels)
        again = mt.resume(tmp_path / folder, progress=False)
        assert not again.settings["stopped_in_burn_in"]
        np.testing.assert_array_equal(np.asarray(again.labels), whole().labels)


def test_a_longer_run_that_is_killed_is_not_called_finished(tmp_path, monkeypatch):
    whole(store=tmp_path / "run")
    monkeypatch.setattr("maitre.posterior.folder.RunFolder.finish", lambda self, outcome: None)  # killed before
    with resumption.stopping(monkeypatch, [30, 30]):
        mt.resume(tmp_path / "run", draws=100, threads=1, progress=False)
    assert mt.load(tmp_path / "run").interrupted


def test_what_changed_before_the_lock_was_taken_counts(tmp_path, monkeypatch):
    """Another result is saved to the folder between reading it and taking its lock."""
    import maitre.chains.run as module

    resumption.stopped_run(tmp_path / "run", 30)
    other = mt.sample(resumption.X + 5.0, threads=1, **resumption.SHAPE)
    original = module.locked

    def late(path):
        other.save(path)
        return original(path)

    monkeypatch.setattr(module, "locked", late)
    longer = mt.resume(tmp_path / "run", draws=40, progress=False)
    monkeypatch.undo()
    np.testing.assert_array_equal(np.asarray(longer.labels[:, :25]), other.labels)
    np.testing.assert_array_equal(np.asarray(longer.model.data.raw), resumption.X + 5.0)


def test_a_reader_reads_again_what_was_replaced_under_its_hands(tmp_path, monkeypatch):
    """A checkpoint is replaced by a later one between the reading of the commit and of the checkpoint."""
    from maitre.posterior.folder import Stored

    resumption.stopped_run(tmp_path / "run", 30)
    original, calls = Stored.checkpoints, []

    def slow(self):
        calls.append(1)
        if len(calls) == 1:
            mt.resume(tmp_path / "run", progress=False)
        return original(self)

    monkeypatch.setattr(Stored, "checkpoints", slow)
    assert mt.load(tmp_path / "run").labels.shape[1] == 25


def test_without_its_data(tmp_path):
    resumption.stopped_run(tmp_path / "run", 30, store_data=False)
    assert not list((tmp_path / "run").rglob("data.*"))
    with pytest.raises(ValueError, match="stored without its data"):
        mt.resume(tmp_path / "run")
    with pytest.raises(ValueError, match="not the data of the run"):
        mt.resume(tmp_path / "run", data=resumption.X + 1e-9)
    np.testing.assert_array_equal(np.asarray(mt.resume(tmp_path / "run", data=resumption.X, progress=False).labels), whole().labels)


def test_it_can_be_read_while_it_goes_on(tmp_path):
    """After every checkpoint on disk, a reader sees draws that are the first ones of the whole."""
    from maitre.posterior.folder import RunFolder

    seen, expected = [], whole(family="NormalInverseGamma")
    original = RunFolder.checkpoint

    def reading(self, chain, checkpoint, now=False):
        original(self, chain, checkpoint, now=True)
        if max(progress.draws for progress in self.commit.chains):
            seen.append(np.asarray(mt.load(self.path).labels))
        else:
            with pytest.raises(ValueError, match="no draws yet"):
                mt.load(self.path)

    RunFolder.checkpoint = reading
    try:
        whole(family="NormalInverseGamma", store=tmp_path / "run")
    finally:
        RunFolder.checkpoint = original
    assert len(seen) > 3
    for labels in seen:
        np.testing.assert_array_equal(labels, expected.labels[: labels.shape[0], : labels.shape[1]])
