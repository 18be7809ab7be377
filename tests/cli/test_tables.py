"""Tables as people have them, from the command line to files and back; and nothing is lost, whatever becomes of the terminal."""

import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maitre as mt
from maitre.chains.output import Patient
from maitre.cli.folder import ANSWERS
from maitre.cli.main import run
from maitre.data.simulate import gaussian_clusters

FAST = ["--draws", "20", "--burn-in", "20", "--chains", "2"]


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def points():
    return pd.DataFrame(gaussian_clusters(60, 2, 3, 50.0, 0)[0], columns=["first", "second"])


def summary_of(folder):
    return json.loads((Path(folder) / "summary.json").read_text())


def test_decisions_are_printed_stored_and_overruled(points, capsys):
    points.assign(id=range(60), same="a", income=np.random.default_rng(0).lognormal(8, 1.5, 60)).to_csv("t.csv", index=False)
    run(["fit", "t.csv", *FAST])
    shown = capsys.readouterr().out
    for words in ("3 columns", "5 columns", "id (a running number)", "same (always the same)", "skewed"):
        assert (words in shown) == (words != "3 columns")
    assert [column["type"] for column in summary_of("t-maitre")["columns"]] == ["number", "number", "out", "out", "number"]
    assert [column.kind for column in mt.load("t-maitre").model.columns] == ["number", "number", "out", "out", "number"]
    assert "a running number" in Path("t-maitre/summary.txt").read_text()
    run(["fit", "t.csv", "-q", "--type", "income=log", "--type", "id=number", *FAST])
    assert [column["type"] for column in summary_of("t-maitre")["columns"]] == ["number", "number", "number", "out", "log"]
    assert list(mt.load("t-maitre").model.data.names) == ["first", "second", "id", "log(income)"]


@pytest.mark.parametrize("command", ["fit", "search"])
def test_options_of_reading(command, points, capsys):
    points.to_csv("t.csv", sep=";", decimal=",", index=False)
    some = FAST if command == "fit" else ["--rounds", "2"]
    run([command, "t.csv", *some, "--out", "a", "--join"])
    assert "semicolons, decimal commas" in capsys.readouterr().out
    joined = pd.read_csv("a/joined.csv")
    np.testing.assert_allclose(joined[["first", "second"]], points, rtol=1e-12)
    assert joined["cluster"].tolist() == pd.read_csv("a/labels.csv")["cluster"].tolist()
    with pytest.raises(SystemExit):
        run([command, "t.csv", "--separator", "ab"])
    assert "expected one sign" in capsys.readouterr().err


def test_the_standard_input_a_prediction_and_a_resumed_join(points, monkeypatch, capsys):
    content = points.assign(note=[f"n{i}" for i in range(60)])
    content.to_csv("t.csv", index=False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("t.csv").read_bytes())))
    run(["fit", "-", "-q", *FAST])
    assert {*ANSWERS} <= set(os.listdir("stdin-maitre"))
    labels = pd.read_csv("stdin-maitre/labels.csv")
    run(["predict", "stdin-maitre", "t.csv"])
    predicted = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert list(predicted.columns) == ["row", "cluster", "probability", "new_cluster", "log_density"]
    assert predicted["cluster"].tolist() == mt.load("stdin-maitre").predict(points).tolist()
    assert mt.partitions.adjusted_rand(predicted["cluster"], labels["cluster"]) > 0.5
    np.testing.assert_allclose(predicted["log_density"], mt.load("stdin-maitre").log_density(points), atol=1e-4)
    run(["predict", "stdin-maitre", "t.csv", "--join", "--out", "p.parquet"])
    assert list(pd.read_parquet("p.parquet").columns) == ["first", "second", "note", "cluster", "probability", "new_cluster", "log_density"]
    run(["fit", "t.csv", "-q", "--join", *FAST])
    before = Path("t-maitre/joined.csv").read_bytes()
    Path("t-maitre/joined.csv").unlink()
    run(["resume", "t-maitre", "-q"])
    assert Path("t-maitre/joined.csv").read_bytes() == before


def test_predictions_for_an_array_of_which_columns_were_dropped(points, capsys):
    np.save("x.npy", points.assign(other=1.0).to_numpy()[:, [2, 0, 1]])
    run(["fit", "x.npy", "-q", "--drop", "0", *FAST])
    run(["predict", "x-maitre", "x.npy"])
    assert len(capsys.readouterr().out.splitlines()) == 61


class Gone(io.StringIO):
    """The output of a command whose reader has left."""

    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        raise BrokenPipeError


def test_results_are_written_whatever_becomes_of_the_output(points, monkeypatch):
    points.to_csv("t.csv", index=False)
    monkeypatch.setattr(sys, "stdout", Gone())
    run(["fit", "t.csv", *FAST])
    run(["search", "t.csv", "--rounds", "2", "--out", "found"])
    assert {*ANSWERS} <= set(os.listdir("t-maitre"))
    assert {*ANSWERS} <= set(os.listdir("found"))


def test_a_terminal_that_lacks_signs(points, monkeypatch):
    points.to_csv("t.csv", index=False)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", stream)
    run(["fit", "t.csv", *FAST])
    stream.flush()
    assert "mean ~ [" in stream.buffer.getvalue().decode("cp1252")


def test_a_patient_stream_says_why_it_failed():
    stream = Patient(Gone())
    assert stream.write("text") == 4
    stream.flush()
    assert isinstance(stream.failed, BrokenPipeError)


def test_a_folder_that_cannot_be_written_is_found_out_before_anything_runs(points, capsys, monkeypatch):
    points.to_csv("t.csv", index=False)
    Path("file").write_text("")
    Path("taken/labels.csv").mkdir(parents=True)
    monkeypatch.setattr("maitre.cli.job.sample_model", lambda *_: pytest.fail("sampled"))
    for out in ("file/answer", "taken"):
        with pytest.raises(SystemExit):
            run(["fit", "t.csv", "--force", "--out", out])
        assert "give another name" in capsys.readouterr().err


def test_a_stop_in_burn_in_is_called_that_everywhere(points, capsys):
    points.to_csv("t.csv", index=False)
    run(["fit", "t.csv", "--draws", "10", "--burn-in", "1000", "--chains", "1", "--time-budget", "0.0001"])
    shown = capsys.readouterr().out
    assert "burn-in was stopped" in shown
    assert "not a draw from the posterior" in shown
    assert "Posterior probabilities" not in shown
    assert "not a draw" in Path("t-maitre/summary.txt").read_text()
    assert "not a draw" in summary_of("t-maitre")["notes"][-1]
    assert list(pd.read_csv("t-maitre/labels.csv").columns) == ["row", "cluster"]
    assert "burn-in" in repr(mt.load("t-maitre"))
