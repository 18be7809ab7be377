"""Rankings from files, and what is said of bad ones: always the file and the line."""

import gzip

import pytest

from maitre.data.preflib import read_rankings
from maitre.data.rankings import Rankings

HEAD = "# NUMBER ALTERNATIVES: 3\n# ALTERNATIVE NAME 1: Ann\n# ALTERNATIVE NAME 2: Bob\n# ALTERNATIVE NAME 3: Cy\n"


def written(folder, name, text):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["a.soi", "a.soi.gz", "a.toc"])
def test_preflib(tmp_path, name):
    rankings = read_rankings(written(tmp_path, name, HEAD + "3: 2,1\n1: 3\n2: 2,1\n"))
    assert rankings.distinct() == [([1, 0], 5), ([2], 1)]
    assert (rankings.n, rankings.n_items, rankings.item_names) == (6, 3, ["Ann", "Bob", "Cy"])


def test_ties(tmp_path):
    path = written(tmp_path, "a.toi", HEAD + "40: 2,{1,3}\n")
    with pytest.raises(ValueError, match=r"a.toi, line 5: items 1, 3 are tied.*--ties random"):
        read_rankings(path)
    assert sorted(ranking for ranking, _ in read_rankings(path, ties="random").distinct()) == [[1, 0, 2], [1, 2, 0]]


BAD = [
    ("a.soi", None, HEAD + "3: 2,2\n", "a.soi, line 5: '2' is ranked twice"),
    ("a.soi", None, HEAD + "1: 1\n3: 4\n", "a.soi, line 6: '4' is not one of the items 1 to 3"),
    ("a.soi", None, HEAD + "3:\n", "a.soi, line 5: an empty ranking"),
    ("a.soi", None, HEAD + "2,1\n", "a.soi, line 5: '2,1'; expected a count, a colon and items"),
    ("a.soi", None, "3: 1,2\n", "a.soi, line 1: .* no PrefLib file"),
    ("a.soi", None, HEAD, "a.soi has no rankings"),
    ("a.soi", None, "# NUMBER ALTERNATIVES: 1\n3: 1\n", "a.soi has 1 item; rankings need at least 2"),
    ("a.toc", None, HEAD + "3: {1,2\n", "a.toc, line 5: '{1,2': braces go around items that are tied"),
    ("a.csv", "orderings", "2,3,1\n1,3,2\n", "a.csv, line 1: 2, 3, 1: the first row is a heading"),
    ("a.csv", "orderings", "x,y\ny,x\n", "a.csv, line 1: x, y: the first row is a heading"),
    ("a.csv", "ranks", "2,1\n1,2\n", "a.csv, line 1: 2, 1: the first row is a heading"),
    ("a.csv", None, "x,y\n1,2\n", "say which with --format"),
    ("a.csv", "orderings", "p1,p2,p3\n1,,2\n", "a.csv, line 2: place 2 is empty, and later places are not: is this a table of rank vectors"),
    ("a.csv", "orderings", "p1,p2,p3\nx,y,z\nx,x,\n", "a.csv, line 3: 'x' is ranked twice"),
    (
        "a.csv",
        "orderings",
        "tea,milk,ale\n1,2,3\n3,1,2\n",
        r"a.csv, line 2: 1, 2, 3 are places as well as items, and the columns are called tea, milk, ale: .*--format ranks",
    ),
    ("a.csv", "orderings", "voter,rank,item\n1,1,x\n", "a.csv, line 1: the columns are voter, rank, item: .*--format long"),
    ("a.csv", "ranks", "x,y\nx,y\n", "a.csv, line 2: 'x' is no place.*is this a table of orderings"),
    ("a.csv", "ranks", "x,y,z\n1,2,2\n", "a.csv, line 2: the places are 1, 2, 2; expected 1, 2, …, each once"),
    ("a.csv", "ranks", "x\n1\n", "a.csv has 1 column"),
    ("a.csv", "ranks", "place1,place2\n1,2\n", "a.csv, line 1: the columns are called place1, place2, like places: .*--format orderings"),
    ("a.csv", "ranks", "1st,2nd\n1,2\n", "a.csv, line 1: .*--format orderings"),
    ("a.csv", "long", "voter,item\n1,2\n", "a.csv, line 1: no column 'rank'"),
    ("a.csv", "long", "voter,rank,item\n1,1,x\n1,1,y\n", "a.csv, line 3: voter 1 has two items at rank 1"),
    ("a.csv", "long", "voter,rank,item\n1,1,x\n1,2,x\n", "a.csv, line 3: voter 1 ranks 'x' twice"),
    ("a.csv", "long", "voter,rank,item\n1,1,x\n1,3,y\n", "voter 1 has the ranks 1, 3; expected 1, 2, … without gaps"),
    ("a.csv", "long", "", "a.csv is empty"),
]


@pytest.mark.parametrize(("name", "form", "text", "message"), BAD)
def test_what_is_wrong_is_said(tmp_path, name, form, text, message):
    with pytest.raises(ValueError, match=message):
        read_rankings(written(tmp_path, name, text), form)


KNOWN = ["Cy", "Ann", "Bob"]


@pytest.mark.parametrize(
    ("name", "form", "text"),
    [
        ("a.soi.gz", None, HEAD + "1: 2,1\n2: 3\n"),
        ("a.csv", "orderings", "p1,p2\nBob,Ann\nCy,\nCy,\n"),
        ("a.csv", "ranks", "Ann,Bob,Cy\n2,1,\n,,1\n,,1\n"),
        ("a.csv", "long", "voter,rank,item\n1,1,Bob\n1,2,Ann\n2,1,Cy\n3,1,Cy\n"),
    ],
)
def test_items_that_are_known_keep_their_numbers(tmp_path, name, form, text):
    rankings = read_rankings(written(tmp_path, name, text), form, known=KNOWN)
    assert (rankings.lists(), rankings.item_names) == ([[2, 1], [0], [0]], KNOWN)
    with pytest.raises(ValueError, match=r"a.*, line \d: '(Bob|Ann)' is not one of the 2 items"):
        read_rankings(tmp_path / name, form, known=["Cy", "Dee"])


def test_tables_in_three_forms(tmp_path):
    expected = [[1, 0], [2], [1, 0]]
    orderings = read_rankings(written(tmp_path, "o.csv", "p1,p2,p3\ny,x,\nz,,\ny,x,\n"), "orderings")
    ranks = read_rankings(written(tmp_path, "r.csv", "x,y,z\n2,1,\n,,1\n2,1,0\n"), "ranks")
    long = read_rankings(written(tmp_path, "l.csv", "rank,voter,item\n2,a,x\n1,a,y\n1,b,z\n1,c,y\n2,c,x\n"), "long")
    for found in (orderings, ranks, long):
        assert (found.lists(), found.item_names) == (expected, ["x", "y", "z"])


def test_numbers_in_orderings_count_from_one(tmp_path):
    rankings = read_rankings(written(tmp_path, "o.csv", "p1,p2,p3\n3,1,0\n2,0,0\n"), "orderings")
    assert (rankings.lists(), rankings.item_names) == ([[2, 0], [1]], ["1", "2", "3"])


def test_rows(tmp_path):
    rankings = Rankings.of_lists([["b", "a"], ["c"], ["b", "a"]])
    assert Rankings.load(tmp_path / rankings.save(tmp_path)).fingerprint() == rankings.fingerprint()
    assert rankings.select([1, 2]).lists() == [[2], [1, 0]]
    assert rankings.alike([["a"]]).lists() == [[0]]
    with pytest.raises(ValueError, match="ranks 'd', which is not one of the 3 items"):
        rankings.alike([["d"]])
