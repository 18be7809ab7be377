"""`maitre topics` from texts to a folder that tells their topics and goes on."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maitre as mt
from maitre.cli.main import run

ANIMALS, WEATHER = "cat dog horse cow sheep goat", "rain snow wind storm cloud sun"
FAST = ["--draws", "4", "--burn-in", "40", "--quiet"]


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def texts(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "letters").mkdir()
    for m in range(30):
        (tmp_path / "letters" / f"{m:02}.txt").write_text(" ".join(rng.choice((ANIMALS if m % 2 else WEATHER).split(), 25)) if m else "")
    return "letters"


def test_topics_documents_picture_and_summary(texts, capsys):
    run(["topics", texts, *FAST[:-1]])
    printed = capsys.readouterr().out
    assert "30 documents (1 of them empty: it is kept" in printed
    assert "start: 15 topics at random; γ and the family's hyper-parameters held" in printed
    folder = "letters-maitre"
    topics, documents = pd.read_csv(f"{folder}/topics.csv"), pd.read_csv(f"{folder}/documents.csv", dtype={"document": str})
    assert list(topics["topic"]) == list(range(len(topics)))
    assert topics["prevalence"].sum() == pytest.approx(1.0, abs=1e-4)
    assert all(set(words.split()[:3]) <= set(ANIMALS.split()) or set(words.split()[:3]) <= set(WEATHER.split()) for words in topics["words"][:2])
    assert list(documents["document"][:2]) == ["00", "01"]
    assert list(documents["words"][:2]) == [0, 25]
    summary = json.loads(Path(folder, "summary.json").read_text())
    assert summary["n_topics"] == len(topics)
    assert summary["exact"]
    assert os.path.getsize(f"{folder}/topics.png") > 10_000
    posterior = mt.load(folder)
    assert isinstance(posterior, mt.GroupPosterior)
    assert list(posterior.vocabulary) == sorted([*ANIMALS.split(), *WEATHER.split()])
    run(["predict", folder, texts, "--out", "new.csv"])
    new = pd.read_csv("new.csv", dtype={"document": str})
    assert list(new["document"][:2]) == ["00", "01"]
    assert (new["topic_1"] == documents["topic_1"])[1:].mean() > 0.9
    with pytest.raises(SystemExit):
        run(["report", folder])
    assert "maitre topics" in capsys.readouterr().err
    before = np.asarray(posterior.log_joint)
    run(["resume", folder, "--draws", "6", "--quiet"])
    after = np.asarray(mt.load(folder).log_joint)
    assert after.shape == (2, 6)
    np.testing.assert_array_equal(after[:, :4], before)
    assert json.loads(Path(folder, "summary.json").read_text())["draws_kept"] == [2, 6]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("1 0:-2\n", [], "counts are whole numbers"),
        ("1 0:1\n1 3:1\n", ["--vocabulary", "words.txt"], "out of range"),
        ("1 0:1\n", ["--moves", "gibbs"], "gibbs"),
        ("1 0:1\n", ["--min-documents", "2"], "vocabulary is empty"),
        ("1 0:0\n", [], "no words in any document"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(content, options, message, capsys, tmp_path):
    (tmp_path / "a.dat").write_text(content)
    (tmp_path / "words.txt").write_text("ant\nbee\n")
    with pytest.raises(SystemExit) as exit_:
        run(["topics", "a.dat", *FAST, *options])
    errors = capsys.readouterr().err
    assert exit_.value.code == 2
    assert errors.count("\n") == 1
    assert message in errors
    assert sorted(os.listdir()) == ["a.dat", "words.txt"]
