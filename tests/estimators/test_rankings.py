"""Mixtures over rankings from the outside: estimator, command, run folder."""

import json

import numpy as np
import pytest

import maitre as mt
from maitre.chains.rankings import settings_for
from maitre.chains.settings import Settings
from maitre.cli.main import run
from maitre.cli.show import show_clusters, terminal
from maitre.rankings import ranking_model

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
def test_estimator(tmp_path, family):
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
    (tmp_path / "new.soi").write_text("".join(f"# ALTERNATIVE NAME {i + 1}: {name}\n" for i, name in enumerate(["gin", "cider", "beer", "ale"])) + "2: 4,1\n")
    np.testing.assert_allclose(fitted.log_density(str(tmp_path / "new.soi")), fitted.log_density([["ale", "gin"]] * 2))
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
    resumed = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (resumed["settings"]["draws"], resumed["choice"]) == (5, summary["choice"])
    assert summary["choice"] in " ".join((tmp_path / "out" / "summary.txt").read_text().split())
    new = tmp_path / "new.csv"
    new.write_text("1st,2nd\ngin,ale\nale,\n")
    capsys.readouterr()
    run(["predict", str(tmp_path / "out"), str(new), "--format", "orderings"])
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    density = mt.load(tmp_path / "out").log_density([["gin", "ale"], ["ale"]])
    assert rows[0] == ["row", "cluster", "probability", "new_cluster", "log_density"]
    np.testing.assert_allclose([float(row[-1]) for row in rows[1:]], density, atol=1e-4)
    new.write_text("1st,2nd\nale,gin\nrum,ale\n")
    with pytest.raises(SystemExit):
        run(["predict", str(tmp_path / "out"), str(new), "--format", "orderings"])
    assert "new.csv, line 3: 'rum' is not one of the 4 items" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(["rankings", str(file), "--out", str(tmp_path / "other")])
    assert "say which with --format" in capsys.readouterr().err


HEAD = "# NUMBER ALTERNATIVES: 3\n# ALTERNATIVE NAME 1: Ann\n# ALTERNATIVE NAME 2: Bob\n# ALTERNATIVE NAME 3: Cy\n"
BAD = {
    "repeated": ("a.soi", [], HEAD + "3: 2,1,2\n", "a.soi, line 5: '2' is ranked twice"),
    "unknown": ("a.soi", [], HEAD + "1: 1\n3: 4\n", "a.soi, line 6: '4' is not one of the items 1 to 3"),
    "empty": ("a.csv", ["--format", "orderings"], "1st,2nd\nx,y\n,\ny,x\n", "a.csv, line 3: an empty ranking"),
    "one item": ("a.csv", ["--format", "long"], "voter,rank,item\n1,1,x\n2,1,x\n", "a.csv has 1 item; rankings need at least 2"),
    "rank vectors": ("a.csv", ["--format", "orderings"], "tea,ale\n1,2\n2,1\n", "a.csv, line 2: 1, 2 are places as well as items"),
    "orderings": ("a.csv", ["--format", "ranks"], "tea,ale\ntea,ale\n", "a.csv, line 2: 'tea' is no place"),
    "two at one rank": ("a.csv", ["--format", "long"], "voter,rank,item\n1,1,x\n1,1,y\n", "a.csv, line 3: voter 1 has two items at rank 1"),
}


@pytest.mark.parametrize("wrong", BAD)
def test_the_command_says_which_line_is_wrong(tmp_path, capsys, wrong):
    name, options, text, message = BAD[wrong]
    (tmp_path / name).write_text(text)
    with pytest.raises(SystemExit):
        run(["rankings", str(tmp_path / name), *options, "--out", str(tmp_path / "out")])
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_small_clusters_share_a_line(capsys):
    sizes = [70, 27, *[1] * 3]
    rows = [{"cluster": k, "size": n, "share": n / 100, "certainty": 1.0, "ordering": ["tea", "ale"], "firmness": [0.9]} for k, n in enumerate(sizes)]
    show_clusters(terminal(False), rows)
    shown = capsys.readouterr().out
    assert shown.count("tea") == 2
    assert "… and 3 smaller ones of 1 voter, 3.0% of all" in shown


def test_draws_are_spread_over_as_many_iterations_as_burn_in():
    model = ranking_model(mt.RankingMixture()._read(lists()), "PlackettLuce")
    found = settings_for(model, Settings())
    assert found.burn_in == found.draws * found.thin > 100
    assert settings_for(model, Settings(burn_in=20, draws=5)).thin == 4
    assert settings_for(model, Settings(burn_in=20, draws=5), thin=1).n_iterations == 25
