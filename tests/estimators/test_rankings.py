"""Mixtures over rankings from the outside: estimator, command, run folder."""

import json

import numpy as np
import pytest

import maitre as mt
from maitre.cli.main import run

RNG = np.random.default_rng(1)
NAMES = ["ale", "beer", "cider", "gin"]


def lists(n=40):
    """Half like the names in their order, half in the reverse; the first place is firm, of different lengths."""
    found = []
    for i in range(n):
        order = [0, *(1 + RNG.permutation(3))] if i < n // 2 else [3, *RNG.permutation(3)]
        found.append([NAMES[item] for item in order[: 1 + i % 4]])
    return found


@pytest.mark.parametrize("family", ["GeneralizedMallows", "PlackettLuce"])
def test_estimator(family):
    data = lists(60)
    fitted = mt.RankingMixture(family, draws=10, burn_in=60, thin=2, random_state=0).fit(data)
    assert len(fitted.labels_) == 60
    assert fitted.weights_.sum() == pytest.approx(1.0)
    assert (fitted.labels_ == fitted.posterior_.point_estimate()).all()
    np.testing.assert_allclose(fitted.weights_, np.bincount(fitted.labels_) / 60)
    assert sorted(fitted.centers_[0]) == NAMES
    assert {fitted.centers_[k][0] for k in np.argsort(-fitted.weights_)[:2]} == {"ale", "gin"}
    assert mt.plots.rankings(fitted.posterior_).get_xlabel().startswith("place")
    assert fitted.predict([["ale"], ["gin"]])[0] != fitted.predict([["ale"], ["gin"]])[1]
    assert (fitted.dispersions_ is None) == (family == "PlackettLuce")
    assert fitted.predict_proba(data[:3]).sum(axis=1) == pytest.approx(1.0)
    firsts = np.exp(fitted.log_density([[name] for name in NAMES]))
    assert firsts.sum() == pytest.approx(1.0, abs=1e-6)  # a law over rankings of one length
    drawn = fitted.sample(200, length=1)
    assert np.mean([row[0] in ("ale", "gin") for row in drawn]) == pytest.approx(firsts[0] + firsts[3], abs=0.12)


def test_the_better_family_is_chosen():
    fitted = mt.RankingMixture(draws=2, burn_in=5, random_state=0).fit(lists())
    assert fitted.choice_.startswith(f"{type(fitted.family_).__name__} predicts better: held-out log probability per ranking")


def test_command(tmp_path, capsys):
    file = tmp_path / "drinks.csv"
    file.write_text("\n".join(["1st,2nd,3rd,4th", *(",".join(row + [""] * (4 - len(row))) for row in lists())]))
    run(["rankings", str(file), "--format", "orderings", "--out", str(tmp_path / "out"), "--draws", "3", "--burn-in", "10", "--chains", "1", "--quiet"])
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["data"]["columns"] == 4
    assert "predicts better" in summary["choice"]
    assert mt.load(tmp_path / "out").model.choice == summary["choice"]
    assert sorted(summary["clusters"][0]["ordering"]) == NAMES
    assert len((tmp_path / "out" / "labels.csv").read_text().splitlines()) == 41
    run(["resume", str(tmp_path / "out"), "--draws", "5", "--quiet"])
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["settings"]["draws"] == 5
    with pytest.raises(SystemExit):
        run(["rankings", str(file), "--out", str(tmp_path / "other")])
    assert "say which with --format" in capsys.readouterr().err
