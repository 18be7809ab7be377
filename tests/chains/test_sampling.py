import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import maitre as mt

RNG = np.random.default_rng(3)
X = np.concatenate([RNG.normal(size=(40, 2)), RNG.normal(size=(40, 2)) + 8.0])
PROGRAM = """
import numpy as np, maitre as mt
rng = np.random.default_rng(3)
x = np.concatenate([rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 8.0])
posterior = mt.sample(x, family=mt.families.NormalInverseGamma(scale=mt.Gamma(1, 1)), moves="gibbs+auxiliary", draws=20, burn_in=10, chains=3, seed=5, progress=False)
print(repr(posterior.labels.tolist()), repr(posterior.log_joint.tolist()))
"""


def draw(**options):
    settings = {
        "family": mt.families.NormalInverseGamma(scale=mt.Gamma(1, 1)),
        "moves": "gibbs+auxiliary",
        "draws": 20,
        "burn_in": 10,
        "chains": 3,
        "seed": 5,
        "progress": False,
    }
    return mt.sample(X, **(settings | options))


def test_one_seed_one_result_on_any_number_of_threads_and_in_a_new_process():
    posteriors = [draw(threads=1), draw(threads=2), draw(engine="serial")]
    for other in posteriors[1:]:
        np.testing.assert_array_equal(posteriors[0].labels, other.labels)
        np.testing.assert_array_equal(posteriors[0].log_joint, other.log_joint)
    printed = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout.strip()
    assert printed == f"{posteriors[0].labels.tolist()!r} {posteriors[0].log_joint.tolist()!r}"


def test_another_seed_and_another_chain_differ():
    posterior = draw()
    assert not np.array_equal(posterior.labels, draw(seed=6).labels)
    assert not np.array_equal(posterior.log_joint[0], posterior.log_joint[1])


def test_shapes_and_canonical_labels():
    posterior = draw(thin=3)
    assert posterior.labels.shape == (3, 20, 80)
    assert posterior.log_joint.shape == posterior.n_clusters.shape == posterior.concentration.shape == (3, 20)
    assert posterior.exact
    assert not posterior.interrupted
    for chain in range(3):
        for labels in posterior.labels[chain]:
            np.testing.assert_array_equal(labels, mt.partitions.canonical(labels))
    np.testing.assert_array_equal(posterior.n_clusters, posterior.labels.max(axis=2) + 1)


def test_the_log_joint_is_that_of_the_draw():
    from maitre.model import Model
    from maitre.states.mixture import MixtureState

    prior, family = mt.priors.DirichletProcess(1.3), mt.families.NormalInverseGamma()
    posterior = mt.sample(X, family=family, prior=prior, draws=5, burn_in=5, chains=1, progress=False)
    for labels, value in zip(posterior.labels[0], posterior.log_joint[0], strict=True):
        assert MixtureState(Model.of(X, family, prior), labels).compute_log_joint() == pytest.approx(value, abs=1e-8)


def test_draws_beyond_the_budget_go_to_disk(monkeypatch):
    monkeypatch.setattr("maitre.chains.run.MEMORY_BUDGET", 1000)
    posterior = draw()
    assert posterior.folder is not None
    assert posterior.folder.exists()
    np.testing.assert_array_equal(np.asarray(posterior.labels), draw().labels)
    copy = pickle.loads(pickle.dumps(posterior))
    np.testing.assert_array_equal(copy.labels, np.asarray(posterior.labels))
    folder = posterior.folder
    del posterior
    gc.collect()
    assert not folder.exists()
    assert copy.labels.shape == (3, 20, 80)


def test_a_store_on_disk_gives_the_same_draws(tmp_path):
    posterior = draw(store=tmp_path / "draws")
    np.testing.assert_array_equal(np.asarray(posterior.labels[:]), draw().labels)
    assert (tmp_path / "draws").exists()
    with pytest.raises(ValueError, match=r"exists and is not empty: go on with mt\.resume"):
        draw(store=tmp_path / "draws")


def test_time_budget_returns_what_there_is():
    started = time.monotonic()
    posterior = draw(draws=100_000, time_budget=0.5)
    assert time.monotonic() - started < 30.0
    assert posterior.interrupted
    assert 1 <= posterior.labels.shape[1] < 100_000
    assert posterior.labels.shape[1] == posterior.log_joint.shape[1]
    assert np.isfinite(posterior.log_joint).all()


def test_interruption_keeps_the_draws_made_so_far():
    draw(draws=2)  # compiled before the clock starts
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal; a process started in the background ignores the signal
    try:
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        posterior = draw(draws=200_000)
    finally:
        signal.signal(signal.SIGINT, before)
    assert posterior.interrupted
    assert "interrupted" in posterior.summary()
    assert posterior.labels.shape[1] >= 1
    assert np.isfinite(posterior.log_joint).all()


def test_a_time_budget_is_shared_by_more_chains_than_threads():
    posterior = draw(draws=100_000, time_budget=0.3, chains=4)
    assert posterior.labels.shape[1] > 5
    alone = draw(draws=100_000, time_budget=0.3, chains=3, threads=1)
    assert alone.labels.shape[1] > 5


def test_interruption_during_burn_in_returns_the_present_state():
    posterior = draw(burn_in=1_000_000, draws=5, time_budget=0.3)
    assert posterior.interrupted
    assert posterior.labels.shape == (3, 1, 80)


def test_errors_in_a_chain_reach_the_caller():
    class Failing(mt.moves.Gibbs):
        def step(self, state, rng):
            raise RuntimeError("out of chairs")

    with pytest.raises(RuntimeError, match="out of chairs"):
        draw(moves=Failing())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": "Gaussian"}, "unknown family 'Gaussian'; expected 'auto', one of"),
        ({"prior": "CRP"}, "unknown prior 'CRP'"),
        ({"moves": "metropolis"}, "unknown move 'metropolis'"),
        ({"init": "best"}, "unknown init 'best'"),
        ({"engine": "gpu"}, "engine is 'gpu'; expected one of"),
        ({"draws": 0}, "draws is 0; expected a whole number of at least 1"),
        ({"draws": 2.5}, "draws is 2.5"),
        ({"burn_in": -1}, "burn_in is -1"),
        ({"chains": 0}, "chains is 0"),
        ({"chains": 10**9}, "at most 10000"),
        ({"draws": np.inf}, "draws is inf"),
        ({"burn_in": np.nan}, "burn_in is nan"),
        ({"thin": "2"}, "thin is '2'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"threads": 0}, "threads is 0"),
        ({"threads": -3}, "threads is -3"),
        ({"time_budget": -5}, "time_budget is -5"),
        ({"time_budget": np.nan}, "time_budget is nan"),
        ({"moves": None}, "moves is None"),
        ({"moves": [None]}, "unknown move None"),
        ({"family": ""}, "unknown family ''"),
        ({"family": 3}, "unknown family 3"),
        ({"prior": 3}, "unknown prior 3"),
        ({"init": None}, "init is NoneType"),
        ({"init": {"a": 1}}, "init is dict"),
        ({"progress": "yes"}, "progress is 'yes'"),
        ({"store": 7}, "store is 7"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        draw(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "n_clusters"),
    [([[1.0]], 1), (np.ones((10, 2)), None), (np.repeat([[0.0, 1.0]], 20, axis=0), None), (np.column_stack([np.zeros(12), np.arange(12.0)]), None)],
)
def test_degenerate_data_run(data, n_clusters):
    """One row, constant columns, duplicates: a result, not an error."""
    for family in (None, mt.families.NormalInverseWishart(), mt.families.KnownCovarianceGaussian()):
        posterior = mt.sample(data, family=family, draws=10, burn_in=10, chains=1, progress=False)
        assert np.isfinite(posterior.log_joint).all()
        if n_clusters is not None:
            assert posterior.n_clusters.max() == n_clusters


def test_no_rows_is_an_error():
    with pytest.raises(ValueError, match="no rows"):
        mt.sample(np.zeros((0, 3)), progress=False)


def test_separated_clusters_are_found_from_every_start():
    x, truth = _forty_clusters()
    for family in (mt.families.NormalInverseGamma(), mt.families.KnownCovarianceGaussian(), mt.families.KnownCovarianceGaussian(0.0, 100.0, 1.0)):
        posterior = mt.sample(x, family=family, draws=3, burn_in=5, chains=1, progress=False)
        assert mt.partitions.adjusted_rand(truth, posterior.best) > 0.99


def _forty_clusters():
    rng = np.random.default_rng(0)
    centres, labels = rng.normal(0.0, np.sqrt(2.0), (40, 40)), rng.integers(0, 40, 10_000)
    return centres[labels] + rng.normal(size=(10_000, 40)), labels
