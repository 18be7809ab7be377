"""The command does what its help says, and tells what is wrong in one line without leaving anything behind."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import maitre as mt
from maitre.chains.settings import Settings
from maitre.cli.folder import ANSWERS
from maitre.cli.main import run
from maitre.data.simulate import gaussian_clusters

FAST = ["--draws", "20", "--burn-in", "20", "--chains", "2"]


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def points():
    x, labels = gaussian_clusters(60, 2, 3, 50.0, 0)
    return pd.DataFrame(x, columns=["first", "second"]).assign(kind=np.array(["a", "b", "c"])[labels])


def fails(capsys, *arguments):
    """The one line on stderr of a command that exits with code 2 and leaves the folder as it was."""
    before = sorted(os.listdir())
    with pytest.raises(SystemExit) as exit_:
        run([*arguments])
    errors = capsys.readouterr().err
    assert exit_.value.code == 2
    assert errors.startswith("maitre: ")
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    assert sorted(os.listdir()) == before
    return errors


def is_whole(folder):
    """A run with its answers beside it, and nothing half done."""
    names = set(os.listdir(folder))
    return {*ANSWERS, "COMMIT.json"} <= names and len([name for name in names if name.startswith("run-")]) == 1 and not [n for n in names if "unfinished" in n]


def summary_of(folder):
    return json.loads((Path(folder) / "summary.json").read_text())


def test_fit_writes_everything(points, capsys):
    points.to_csv("points.csv", index=False)
    run(["fit", "points.csv", "--label-column", "kind", "--family", "NormalInverseGamma", *FAST])
    assert is_whole("points-maitre")
    labels = pd.read_csv("points-maitre/labels.csv")
    assert list(labels.columns) == ["row", "cluster", "probability"]
    assert labels["probability"].between(0, 1).all()
    summary = summary_of("points-maitre")
    assert summary["adjusted_rand"] == pytest.approx(mt.partitions.adjusted_rand(points["kind"], labels["cluster"]))
    assert summary["family"]["from_data"] == ["mean", "rate"]
    assert summary["family"]["values"]["scale"] == {"sampled": "Gamma", "shape": 1.0, "rate": 1.0}
    assert {row["cluster"]: row["size"] for row in summary["clusters"]} == labels["cluster"].value_counts().to_dict()
    assert [row["size"] for row in summary["clusters"]] == sorted((row["size"] for row in summary["clusters"]), reverse=True)
    posterior = mt.load("points-maitre")
    assert np.array_equal(posterior.point_estimate(), labels["cluster"])  # counted alike in files and in Python
    shown = capsys.readouterr().out
    for word in ("NormalInverseGamma", "adjusted Rand", "How many clusters?", "R̂", "points-maitre/labels.csv"):
        assert word in shown
    assert "How many clusters?" in Path("points-maitre/summary.txt").read_text()


def test_report_and_compare(points, capsys):
    points.to_csv("points.csv", index=False)
    run(["fit", "points.csv", "--label-column", "kind", "-q", *FAST])
    run(["report", "points-maitre", "--title", "Three heaps"])
    assert "<h1>Three heaps</h1>" in Path("points-maitre/report.html").read_text()
    capsys.readouterr()
    run(["compare", "points-maitre", "points-maitre/labels.csv"])
    shown = capsys.readouterr().out
    assert re.search(r"adjusted Rand index +1\.0000", shown)
    assert re.search(r"variation of information +0\.0000", shown)
    assert "which column of 'points.csv' has the labels?" in fails(capsys, "compare", "points.csv", "points-maitre")
    points[["kind"]].to_csv("kinds.csv", index=False)
    run(["compare", "kinds.csv", "points-maitre"])
    assert f"{summary_of('points-maitre')['adjusted_rand']:.4f}" in capsys.readouterr().out
    assert "not a saved result" in fails(capsys, "report", "nowhere")


def test_quiet_prints_nothing(points, capsys):
    points[["first"]].to_csv("points.csv", index=False)
    run(["fit", "points.csv", "--quiet", "--family", "NormalInverseGamma", "--fixed-scale", *FAST])
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    assert summary_of("points-maitre")["family"]["values"]["scale"] == 1.0


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.npy", "t.npz", "sparse.npz"])
def test_every_format(name, points):
    numbers = points[["first", "second"]]
    if name.endswith("parquet"):
        numbers.to_parquet(name)
    elif name == "t.npy":
        np.save(name, numbers.to_numpy())
    elif name == "t.npz":
        np.savez(name, numbers.to_numpy())
    elif name == "sparse.npz":
        sparse.save_npz(name, sparse.csr_matrix(np.random.default_rng(0).poisson(1.0, (30, 4))))
    else:
        numbers.to_csv(name, index=False, sep="\t" if "tsv" in name else ",")
    run(["fit", name, "--out", "answer", "-q", *FAST])
    assert is_whole("answer")


def test_mixed_columns_with_gaps(points, capsys):
    points.loc[3, "first"] = np.nan
    points.loc[5, "kind"] = None
    points.to_csv("mixed.csv", index=False)
    run(["fit", "mixed.csv", *FAST])
    assert "Product" in capsys.readouterr().out
    groups = summary_of("mixed-maitre")["family"]["groups"]
    assert [group["name"] for group in groups] == ["NormalInverseGamma", "Categorical"]
    assert groups[0]["values"]["scale"]["sampled"] == "Gamma"


@pytest.mark.parametrize(("choice", "n_columns"), [(["--columns", "first"], 1), (["--drop", "kind"], 2), (["--columns", "first,kind", "--drop", "kind"], 1)])
def test_columns_are_chosen(choice, n_columns, points):
    points.to_csv("points.csv", index=False)
    run(["fit", "points.csv", "-q", *choice, *FAST])
    assert summary_of("points-maitre")["data"]["columns"] == n_columns


def test_columns_of_arrays_go_by_position():
    x, labels = gaussian_clusters(40, 2, 2, 100.0, 1)
    np.save("points.npy", np.column_stack([x, labels]))
    run(["fit", "points.npy", "-q", "--label-column", "2", *FAST])
    assert summary_of("points-maitre")["adjusted_rand"] > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--family", "Gaussian"], "unknown family 'Gaussian'"),
        (["--moves", "gibs"], "unknown move 'gibs'"),
        (["--prior", "Dirichlet"], "unknown prior 'Dirichlet'"),
        (["--init", "kmean:3"], "unknown init 'kmean:3'"),
        (["--concentration", "0"], "concentration must be a positive number"),
        (["--concentration", "-1", "--prior", "PitmanYor"], "concentration must be above"),
        (["--concentration", "1", "--prior", "MixtureOfFiniteMixtures"], "has no concentration"),
        (["--concentration", "nan"], "concentration must be a positive number"),
        (["--draws", "0"], "draws is 0"),
        (["--draws", "many"], "Invalid value for '--draws'"),
        (["--burn-in", "-3"], "burn_in is -3"),
        (["--time-budget", "0"], "time_budget is 0"),
        (["--threads", "0"], "threads is 0"),
        (["--seed", "-1"], "seed is -1"),
        (["--columns", "third"], "there is no column 'third'; the columns are first, second, kind"),
        (["--drop", "first,second,kind"], "no columns are left"),
        (["--no-such-option"], "No such option"),
        (["--family", "NormalInverseGamma"], "could not convert string to float"),
    ],
)
def test_wrong_options(options, message, points, capsys):
    points.to_csv("points.csv", index=False)
    assert message in fails(capsys, "fit", "points.csv", *options)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "is empty"),
        ("header.csv", b"a,b\n", "row"),
        ("ragged.csv", b"a,b\n1,2\n3\n", "line 3"),
        ("latin.csv", b"a\n\xe9\n", "not UTF-8"),
        ("broken.parquet", b"PAR1 and no more", "cannot be read as Parquet"),
        ("broken.npy", b"nothing", "cannot be read as NumPy data"),
        ("points.xlsx", b"x", "has the extension '.xlsx'"),
        ("gap.csv", b"a,b\n1,2\n3,\n5,6\n", "row 1, column 'b' is nan"),
        ("infinite.csv", b"a,b\n1,2\n3,inf\n5,6\n", "row 1, column 'b' is inf"),
    ],
)
def test_unreadable_files(name, content, message, tmp_path, capsys):
    (tmp_path / name).write_bytes(content)
    assert message in fails(capsys, "fit", name, "--family", "NormalInverseWishart")


def test_negative_counts(capsys):
    sparse.save_npz("counts.npz", sparse.csr_matrix([[1, 0], [0, -2]]))
    assert "row 1, column 1 is -2" in fails(capsys, "fit", "counts.npz")


def test_no_such_file_and_no_file(capsys):
    assert "there is no file 'nothing.csv'" in fails(capsys, "fit", "nothing.csv")
    assert "Missing argument 'FILE'" in fails(capsys, "fit")
    assert "No such command" in fails(capsys, "cluster")


def test_folders_that_are_no_results_are_left_alone(points, tmp_path, capsys):
    points.to_csv("points.csv", index=False)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    assert "is not an earlier result" in fails(capsys, "fit", "points.csv", "--out", "other")
    assert "is a file" in fails(capsys, "fit", "points.csv", "--out", "points.csv")
    assert "is a file" in fails(capsys, "fit", "points.csv", "--out", "points.csv/deeper")
    run(["fit", "points.csv", "--out", "other", "--force", "-q", *FAST])
    assert is_whole(other)
    run(["fit", "points.csv", "--out", "other", "--seed", "1", "-q", *FAST])
    assert summary_of(other)["settings"]["seed"] == 1
    assert (other / "thesis.txt").read_text() == "years of work"


def test_what_a_run_killed_at_its_start_leaves_is_no_obstacle(points, tmp_path, capsys):
    points.to_csv("points.csv", index=False)
    left = tmp_path / "left"
    (left / "run-1" / "draws").mkdir(parents=True)
    (left / ".lock").touch()
    (left / ".COMMIT.json.unfinished").write_text("{")  # the first commit, killed in the middle
    run(["fit", "points.csv", "--out", "left", "-q", *FAST])
    assert is_whole(left)
    (tmp_path / "mine" / "run-1").mkdir(parents=True)  # a folder of that name without draws is somebody's own
    assert "is not an earlier result" in fails(capsys, "fit", "points.csv", "--out", "mine")


def test_a_full_disk_is_told_in_one_line(points, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    points.to_csv("points.csv", index=False)
    monkeypatch.setattr("maitre.posterior.folder.write_checkpoint", full)
    with pytest.raises(SystemExit) as exit_:
        run(["fit", "points.csv", *FAST])
    errors = capsys.readouterr().err
    assert exit_.value.code == 2
    assert "No space left on device" in errors
    assert "maitre resume" in errors
    assert sum("No space left on device" in line for line in errors.splitlines()) == 1  # beside what is being compiled


def test_an_earlier_result_counts_until_the_new_one_has_begun(points, capsys, monkeypatch):
    points.to_csv("points.csv", index=False)
    run(["fit", "points.csv", "--out", "answer", "-q", *FAST])
    before = Path("answer/labels.csv").read_text()
    fails(capsys, "fit", "points.csv", "--out", "answer", "--moves", "gibs")
    monkeypatch.setattr("maitre.chains.run.begin", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(["fit", "points.csv", "--out", "answer", "-q", *FAST])
    assert is_whole("answer")
    assert Path("answer/labels.csv").read_text() == before
    assert mt.load("answer").settings["draws"] == 20


def test_resume_goes_on_and_writes_the_answers_again(points, capsys):
    points.to_csv("points.csv", index=False)
    run(["fit", "points.csv", "--label-column", "kind", "--out", "answer", "-q", *FAST])
    run(["fit", "points.csv", "--label-column", "kind", "--out", "longer", "-q", "--draws", "30", "--burn-in", "20", "--chains", "2"])
    run(["resume", "answer", "--draws", "30"])
    assert "adjusted Rand" in capsys.readouterr().out
    assert Path("answer/labels.csv").read_text() == Path("longer/labels.csv").read_text()
    assert summary_of("answer")["draws_kept"] == [2, 30]
    assert "has made 30 already" in fails(capsys, "resume", "answer", "--draws", "10")
    assert "not a saved result" in fails(capsys, "resume", "nowhere")


def test_a_folder_without_data_needs_them_again(points, capsys):
    points.to_csv("points.csv", index=False)
    run(["fit", "points.csv", "--drop", "kind", "--out", "answer", "--without-data", "-q", *FAST])
    assert "without its data" in fails(capsys, "resume", "answer", "--draws", "30")
    points.drop(columns="kind").to_csv("numbers.csv", index=False)
    run(["resume", "answer", "--draws", "30", "--data", "numbers.csv", "-q"])
    assert summary_of("answer")["draws_kept"] == [2, 30]


def test_same_seed_same_labels(points):
    points.to_csv("points.csv", index=False)
    for out, threads in (("one", "1"), ("two", "2")):
        run(["fit", "points.csv", "--out", out, "--threads", threads, "-q", *FAST])
    assert Path("one/labels.csv").read_text() == Path("two/labels.csv").read_text()


def test_time_budget_keeps_draws_of_every_chain(points, monkeypatch):
    """All chains run at once under a time budget, each on a thread of its own; here it is up when a thread has looked at the clock a hundred times."""
    asked = threading.local()

    def is_up(clock):
        asked.times = getattr(asked, "times", 0) + 1
        return asked.times > 100

    monkeypatch.setattr("maitre.chains.run.Clock.is_up", is_up)
    points.to_csv("points.csv", index=False)
    run(
        [
            "fit",
            "points.csv",
            "--out",
            "answer",
            "--drop",
            "kind",
            "--time-budget",
            "2",
            "--draws",
            "1000000",
            "--burn-in",
            "5",
            "--moves",
            "gibbs",
            "--family",
            "NormalInverseGamma",
            "-q",
        ]
    )
    summary = summary_of("answer")
    assert summary["interrupted"]
    assert summary["draws_kept"][0] == 4
    assert 10 < summary["draws_kept"][1] < 1000000


def test_certainty_is_the_share_of_mates():
    posterior = mt.sample([[0.0], [0.3], [5.0], [5.2], [20.0]], draws=40, burn_in=20, chains=2, progress=False)
    reference = np.array([0, 0, 1, 1, 2])
    together = posterior.similarity()
    alone = np.mean(posterior.labels[:, :, :4] != posterior.labels[:, :, 4:], axis=(0, 1))
    found = posterior.certainty(reference)
    np.testing.assert_allclose(found[:4], [together[0, 1], together[0, 1], together[2, 3], together[2, 3]])
    assert found[4] <= alone.min()


def test_demo(capsys, monkeypatch):
    monkeypatch.setattr("maitre.cli.demo.Settings", lambda **options: Settings(**(options | {"thin": 1, "burn_in": 100})))
    run(["demo"])
    assert is_whole("demo-output")
    shown = capsys.readouterr().out
    assert "Old Faithful" in shown
    assert "demo-output/clusters.png" in shown


@pytest.mark.parametrize(("arguments", "words"), [([], "fit"), (["--help"], "demo"), (["fit", "--help"], "--label-column"), (["--version"], mt.__version__)])
def test_help_and_version(arguments, words, capsys):
    run(arguments)
    assert words in capsys.readouterr().out


def test_interruption_keeps_what_was_drawn(points, tmp_path):
    points.to_csv("points.csv", index=False)
    command = [
        sys.executable,
        "-m",
        "maitre.cli.main",
        "fit",
        "points.csv",
        "--drop",
        "kind",
        "--family",
        "NormalInverseGamma",
        "--draws",
        "100000",
        "--burn-in",
        "5",
        "--out",
        "answer",
    ]
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731  whoever runs the tests may have told their children to ignore it
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed) as process:
        assert process.stdout is not None
        assert "points.csv" in process.stdout.readline()
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "stopped early" in out or "burn-in was stopped" in out  # where kernels had to be compiled first
    assert is_whole("answer")
