"""mt.search from end to end: what it promises about proofs, interruptions, budgets, seeds and hyper-parameters; its estimator and its command."""

import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

import maitre as mt
from maitre.cli.folder import ANSWERS
from maitre.cli.main import run
from maitre.data.simulate import gaussian_clusters
from maitre.families import ConjugateFamily
from maitre.model import Model
from maitre.numerics.rng import stream
from maitre.optimize.pipeline import Plan, Search
from maitre.states.mixture import MixtureState

GAUSSIAN = mt.families.KnownCovarianceGaussian(0.0, 40.0, 1.0)
PRIOR = mt.priors.DirichletProcess(1.0)


@pytest.fixture(scope="module")
def clusters():
    return gaussian_clusters(250, 2, 6, 40.0, 3)


@pytest.mark.parametrize("queue", ["best-first", "level"])
def test_finds_clusters_and_tells_the_truth_about_them(queue, clusters):
    x, truth = clusters
    plain = mt.search(x, GAUSSIAN, PRIOR, queue=queue, progress=False)
    refined = mt.search(x, GAUSSIAN, PRIOR, queue=queue, refine=True, rounds=5, progress=False)
    for found in (plain, refined):
        state = MixtureState(found.model, found.labels)
        assert found.log_joint == pytest.approx(state.log_joint, rel=1e-12)
        assert found.log_likelihood == pytest.approx(state.log_likelihood(), rel=1e-12)
        assert found.complete
        assert not found.optimal
        assert found.n_clusters == len(set(found.labels))
        reached = [stage.log_joint for stage in found.stages]
        assert reached == sorted(reached)
        assert "clusters of sizes" in found.summary()
    assert refined.log_joint >= plain.log_joint
    assert refined.log_joint >= MixtureState(refined.model, truth).log_joint
    again = mt.search(x, GAUSSIAN, PRIOR, queue=queue, refine=True, rounds=5, progress=False)
    assert np.array_equal(again.labels, refined.labels)


def test_proofs():
    x = np.random.default_rng(0).normal(size=(8, 1)) * 3.0
    for score, beam, proven in (("trivial", None, True), ("tight", None, True), ("tight", 2, False), ("inadmissible", None, False)):
        found = mt.search(x, GAUSSIAN, PRIOR, beam, score, progress=False)
        assert found.optimal == proven
    assert not mt.search(x, GAUSSIAN, beam=None, score="tight", progress=False).optimal  # a concentration was estimated, which nothing proves


def test_several_orders_give_the_best_of_them(clusters):
    x, _ = clusters
    single = {order: mt.search(x, GAUSSIAN, PRIOR, order=order, progress=False).log_joint for order in ("marginal", "reverse", "given")}
    several = mt.search(x, GAUSSIAN, PRIOR, order=["marginal", "reverse", "given"], restarts=2, progress=False)
    assert several.log_joint >= max(single.values())
    assert several.settings["order"] == ["marginal", "reverse", "given", "random", "random"]


def test_hyperparameters_are_estimated(clusters):
    x, _ = clusters
    fixed = mt.search(x, GAUSSIAN, mt.priors.DirichletProcess(mt.Gamma(2.0, 1.0)), progress=False)
    family = mt.families.KnownCovarianceGaussian(0.0, 40.0, 1.0, covariance_scale=mt.Gamma(2.0, 1.0))
    free = mt.search(x * 1.5, family, mt.priors.DirichletProcess(mt.Gamma(2.0, 1.0)), refine=True, rounds=3, progress=False)
    assert set(fixed.hyperparameters) == {"concentration"}
    assert free.hyperparameters["family.covariance_scale"] == pytest.approx(2.25, rel=0.25)
    assert "hyper-parameters" in [stage.name for stage in free.stages]


@pytest.mark.parametrize("queue", ["best-first", "level"])
def test_stopping_at_once_returns_a_full_clustering_flagged_as_incomplete(queue, clusters, monkeypatch):
    x, _ = clusters
    monkeypatch.setattr("maitre.optimize.pipeline._WORK", 0)
    model = Model.of(x, GAUSSIAN, PRIOR)
    outcome = Search(model, Plan(queue=queue, refine=True), stream(0), lambda: True, lambda share, note: None)()
    assert not outcome.complete
    assert outcome.state.labels.min() >= 0
    outcome.state.audit()


def test_interruption_returns_the_best_so_far(clusters):
    import signal

    x, _ = clusters
    mt.search(x, GAUSSIAN, PRIOR, refine=True, rounds=1, progress=False)  # compiled
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may have told their children to ignore it
    try:
        timer.start()
        found = mt.search(x, GAUSSIAN, PRIOR, refine=True, rounds=10**7, progress=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not found.complete
    assert not found.optimal
    assert found.labels.min() == 0
    assert "stopped early" in found.summary()


def test_time_budget_ends_the_search(clusters):
    x, _ = clusters
    began = time.monotonic()
    found = mt.search(x, GAUSSIAN, PRIOR, refine=True, time_budget=0.3, progress=False)
    assert time.monotonic() - began < 60.0  # not for ever
    assert found.complete


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam is 0"),
        ({"score": "tigth"}, "score is 'tigth'; expected one of 'trivial'"),
        ({"order": ["marginal", "sorted"]}, "order is 'sorted'"),
        ({"queue": "depth"}, "queue is 'depth'"),
        ({"queue": "level", "score": "tight"}, "compares entries of equal length"),
        ({"queue": "level", "beam": None}, "needs a beam"),
        ({"restarts": -1}, "restarts is -1"),
        ({"rounds": 1.5}, "rounds is 1.5"),
        ({"time_budget": 0}, "time_budget is 0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        mt.search([[0.0], [1.0]], GAUSSIAN, PRIOR, progress=False, **options)


ODD = [None, True, 0, -1, 1.5, float("nan"), float("inf"), 10**400, "", "x", "yes", b"x", [], [1], (), {}, {"a": 1}, object, 1j, np.nan, np.ones(3)]
NEVER = {
    "beam": [0, -1, 1.5, True, "x", float("nan"), float("inf"), 2**80, [100]],
    "score": [3, None, ["tight"], b"tight", True],
    "order": [3, None, [], ["marginal", 3], [["given"]], {"given": 1}, b"given", True],
    "queue": [3, None, ["level"], b"level"],
    "diversity": [0, -2, 2.5, None, True, "ten", float("nan"), float("inf")],
    "restarts": [-1, 0.5, None, "x", True, float("nan"), float("inf"), 10**12],
    "rounds": [-1, 1.5, "x", True, float("nan"), float("inf"), 2**60, [3]],
    "time_budget": [0, -1.0, "x", True, float("nan"), float("inf"), 10**400, [1.0], 1j],
    "seed": [-1, 1.5, "a", True, float("nan"), float("inf"), 2**200, 10**5000, [1], np.ones(2)],
    "refine": ["yes", 1, None, [], 0.0],
    "progress": [3, "no", None, []],
}


@pytest.mark.parametrize("name", NEVER)
def test_arguments_of_the_wrong_kind(name):
    for value in NEVER[name]:
        with pytest.raises(ValueError, match=f"^{name} is .*; expected ") as caught:
            mt.search([[0.0], [1.0]], GAUSSIAN, PRIOR, **{"progress": False, name: value})
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 250


def test_random_arguments_find_something_or_are_refused_in_one_line():
    good = {
        "beam": [1, 2.0, 100, None, 2**40],
        "score": ["trivial", "tight", "inadmissible"],
        "order": ["marginal", "random", ["given", "reverse"], ("random",)],
        "seed": [0, 7.0, np.int64(3), 2**50],
        "queue": ["best-first", "level"],
        "diversity": [1, 3, 10**15],
        "restarts": [0, 3],
        "refine": [True, False],
        "rounds": [None, 0, 2, np.uint8(3)],
        "time_budget": [None, 1e-9, np.float32(0.02)],
        "progress": [False, np.bool_(False)],
    }
    rng, refusals, n_found = np.random.default_rng(5), [], 0
    x = [[0.0], [0.5], [9.0], [9.25]]
    for _ in range(400):
        names = rng.choice(list(good), rng.integers(1, len(good) + 1), replace=False)
        pick = {name: (good[name], ODD)[int(rng.random() < 0.1)] for name in names}
        options = {name: values[rng.integers(len(values))] for name, values in pick.items()}
        try:
            n_found += len(mt.search(x, GAUSSIAN, PRIOR, **{"progress": False} | options).labels) == 4
        except ValueError as error:
            refusals.append(str(error))
    assert n_found > 50
    assert len(refusals) > 50
    assert not [message for message in refusals if "\n" in message or len(message) > 300]


@dataclass(frozen=True)
class WithoutBounds(ConjugateFamily):
    """A family that says neither how large a predictive can be nor how to merge."""

    def __post_init__(self):
        full = mt.families.GammaPoisson.statistics
        functions = {
            name: value
            for name, value in vars(full).items()
            if callable(value) and not name.startswith("_") and name not in ("log_bound", "log_bound_given", "merge")
        }
        from collections import namedtuple

        object.__setattr__(self, "kind", type("Statistics", (namedtuple("Fields", full._fields),), functions))

    def validate(self, data):
        return mt.families.GammaPoisson(1.0, 1.0).validate(data)

    def encode(self, data):
        return mt.families.GammaPoisson(1.0, 1.0).encode(data)

    def allocate(self, encoded, capacity):
        return self.kind(*mt.families.GammaPoisson(1.0, 1.0).allocate(encoded, capacity))

    @property
    def statistics(self):
        return self.kind


@pytest.mark.parametrize(("options", "function"), [({"score": "tight"}, "log_bound"), ({"queue": "level"}, "merge")])
def test_what_a_family_lacks_is_named(options, function, monkeypatch):
    monkeypatch.setattr(MixtureState, "run", lambda self, kernel, *arguments: kernel.python(self.statistics, *arguments))
    with pytest.raises(ValueError, match=f"needs the function {function} .* WithoutBounds has none"):
        mt.search([[1], [2], [9]], WithoutBounds(), PRIOR, progress=False, **options)


def test_chains_start_from_a_search(clusters):
    x, _ = clusters
    posterior = mt.sample(x, GAUSSIAN, PRIOR, init="search", draws=5, burn_in=0, chains=2, progress=False)
    other = mt.sample(x, GAUSSIAN, PRIOR, init="one", draws=5, burn_in=0, chains=2, progress=False)
    assert posterior.log_joint[:, 0].min() > other.log_joint[:, 0].max()


# -- the estimator ---------------------------------------------------------------------------------------------------------------------------------


@parametrize_with_checks([mt.MAPSearch(family="KnownCovarianceGaussian", rounds=0)])
def test_keeps_the_conventions(estimator, check):
    check(estimator)


def test_estimator_predicts(clusters):
    x, truth = clusters
    mixture = mt.MAPSearch(family=GAUSSIAN, prior=PRIOR, rounds=3, random_state=0).fit(x)
    assert mixture.log_joint_ >= MixtureState(mixture.found_.model, truth).log_joint
    assert np.mean(mixture.predict(x) == mixture.labels_) > 0.95
    assert mixture.predict_proba(x[:4]).shape == (4, mixture.n_clusters_)
    assert mixture.log_joint_ == mixture.found_.log_joint
    assert mixture.concentration_ == 1.0


# -- the command -----------------------------------------------------------------------------------------------------------------------------------


def test_command(clusters, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    x, truth = clusters
    pd.DataFrame(x, columns=["first", "second"]).assign(kind=truth).to_csv("points.csv", index=False)
    run(
        [
            "search",
            "points.csv",
            "--label-column",
            "kind",
            "--family",
            "KnownCovarianceGaussian",
            "--queue",
            "level",
            "--rounds",
            "3",
            "--order",
            "marginal+random",
        ]
    )
    shown = capsys.readouterr().out
    assert {*ANSWERS, "COMMIT.json"} <= set(os.listdir("points-maitre"))
    summary = json.loads(Path("points-maitre/summary.json").read_text())
    labels = pd.read_csv("points-maitre/labels.csv")
    assert summary["n_clusters"] == labels["cluster"].nunique()
    assert summary["adjusted_rand"] == pytest.approx(mt.partitions.adjusted_rand(truth, labels["cluster"]))
    assert summary["settings"]["order"] == ["marginal", "random"]
    assert summary["stages"][0]["name"] == "search"
    for word in ("How it was found", "adjusted Rand", "concentration estimated"):
        assert word in shown
        assert word in Path("points-maitre/summary.txt").read_text()
    assert len(mt.load("points-maitre").best) == len(x)


def test_command_tells_what_is_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sparse.save_npz("counts.npz", sparse.csr_matrix(np.eye(4, dtype=int)))
    with pytest.raises(SystemExit) as exit_:
        run(["search", "counts.npz", "--score", "loose", "-q"])
    assert exit_.value.code == 2
    assert "score is 'loose'" in capsys.readouterr().err
    assert os.listdir() == ["counts.npz"]
