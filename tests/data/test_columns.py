"""Columns as people have them: what each is taken for, why, and how to say otherwise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import maitre as mt
from maitre.data.columns import Column, TypedRows, columns_of, in_words, parse_types, with_types
from maitre.data.rows import ArrayRows, as_data
from maitre.data.texts import numbers_in
from maitre.families.auto import choose_family
from maitre.model import Model

N = 100


def kinds(data, types=None, **options):
    return {column.name: column.kind for column in with_types(data, types, **options).columns}


def messy():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": rng.normal(size=N),
            "id": np.arange(7, N + 7),
            "customer_id": rng.permutation(10**6)[:N],
            "name": [f"person {i}" for i in range(N)],
            "flag": rng.integers(0, 2, N),
            "year": rng.integers(1970, 1983, N),
            "stars": rng.integers(1, 6, N),
            "children": rng.poisson(1.5, N),
            "city": rng.choice(["Bern", "Basel"], N),
            "sure": rng.random(N) < 0.5,
            "same": 3.0,
            "gone": np.nan,
            "when": pd.date_range("2020-01-01", periods=N),
            "income": rng.lognormal(8, 1, N),
            "price": [f"${value:,.2f}" for value in rng.uniform(900, 3000, N)],
            "zip": [f"0{value}" for value in rng.integers(1000, 1004, N)],
        }
    )


EXPECTED = dict.fromkeys(("x", "income", "price"), "number") | dict.fromkeys(("flag", "year", "stars", "city", "sure", "zip"), "category")
EXPECTED |= dict.fromkeys(("id", "customer_id", "name", "same", "gone", "when"), "out") | {"children": "count"}


@pytest.mark.parametrize("made", [lambda frame: frame, pl.from_pandas, lambda frame: pl.from_pandas(frame).lazy()], ids=["pandas", "polars", "lazy"])
def test_what_each_column_is_taken_for(made):
    rows = with_types(made(messy()))
    assert {column.name: column.kind for column in rows.columns} == EXPECTED
    assert list(rows.raw.columns) == [column.name for column in rows.columns if column.used]
    assert all(column.why for column in rows.columns if not column.used)
    words = dict(in_words(rows.columns))
    assert "id (a running number)" in words["left out"]
    assert "income (skewed" in words["numbers"]


def test_the_family_follows():
    groups = [(list(columns), type(family).__name__) for columns, family in choose_family(messy()).groups]
    by_kind = {kind: [name for name, found in EXPECTED.items() if found == kind] for kind in ("number", "count", "category")}
    assert [sorted(columns) for columns, _ in groups] == [sorted(by_kind[kind]) for kind in ("number", "count", "category")]
    assert groups[1][1] == "GammaPoisson"
    assert groups[2][1] == "Categorical"
    assert "BetaBernoulli" in [type(family).__name__ for _, family in choose_family(messy()[["x", "flag", "sure"]]).groups]


def test_a_type_may_be_given_for_a_column():
    given = {"year": "number", "income": "log", "id": "category", "x": "out"}
    rows = with_types(messy(), given)
    assert {name: kind for name, kind in ((column.name, column.kind) for column in rows.columns) if name in given} == given
    assert all(column.given == (column.name in given) for column in rows.columns)
    np.testing.assert_allclose(rows.raw["log(income)"], np.log(messy()["income"]))
    assert parse_types(["a=log"]) == {"a": "log"}
    assert kinds(np.random.default_rng(0).normal(size=(30, 2)), {1: "out"}) == {0: "number", 1: "out"}
    assert kinds(np.random.default_rng(0).normal(size=(30, 2)), {"1": "out"}) == {0: "number", 1: "out"}


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"age": "number"}, "there is no column 'age'"),
        ({"x": "float"}, "expected one of number, log, count, category, out"),
        ({"when": "number"}, "dates or times"),
        ({"city": "number"}, "column 'city' is 'B"),
        ({"x": "log"}, "the type log takes numbers above 0"),
        ([], "expected a type for some columns"),
        (dict.fromkeys(messy().columns, "out"), "no column is left"),
    ],
)
def test_types_that_make_no_sense(types, message):
    with pytest.raises(ValueError, match=message):
        with_types(messy(), types)


def test_types_are_for_tables(tmp_path):
    from scipy import sparse

    with pytest.raises(ValueError, match="a sparse matrix holds counts"):
        with_types(sparse.csr_matrix(np.eye(3)), {0: "out"})
    np.save(tmp_path / "x.npy", np.zeros((20, 2)))
    with pytest.raises(ValueError, match="read them into memory"):
        with_types(np.load(tmp_path / "x.npy", mmap_mode="r"), {0: "out"})
    with pytest.raises(ValueError, match="expected NAME=TYPE"):
        parse_types(["year"])


def test_arrays_of_plain_numbers_stay_arrays():
    values = np.random.default_rng(0).normal(size=(50, 3))
    assert isinstance(with_types(values), ArrayRows)
    values[3, 1] = np.nan
    assert columns_of(with_types(values))[1].why == "1 missing, the first in row 3"
    assert isinstance(with_types(np.random.default_rng(0).normal(size=(50, 3)) > 0), ArrayRows)  # truth values have a family of their own


def test_few_rows_decide_nothing():
    assert kinds([["a", 1.0, 0], ["b", 2.0, 0], ["c", 3.0, 0]]) == {0: "category", 1: "number", 2: "number"}


def test_something_is_always_left():
    assert isinstance(with_types(np.column_stack([np.arange(50.0), np.ones(50)])), ArrayRows)
    assert isinstance(with_types(np.arange(50.0)), ArrayRows)
    with pytest.raises(ValueError, match="no column is left to cluster by"):
        with_types(pd.DataFrame({"name": [f"n{i}" for i in range(50)]}))


def test_nothing_is_decided_for_a_family_that_was_chosen():
    frame = pd.DataFrame({"x": np.arange(50.0), "flag": [0, 1] * 25})
    model = Model.of(frame, mt.families.NormalInverseGamma())
    assert model.columns == ()
    assert model.data.n_columns == 2
    typed = Model.of(frame, mt.families.NormalInverseGamma(), types={"flag": "out"})
    assert typed.data.n_columns == 1
    assert [column.kind for column in typed.columns] == ["number", "out"]


def test_new_rows_are_seen_in_the_same_way():
    rows = with_types(messy(), {"income": "log"})
    new = rows.alike(messy().iloc[[3, 5]].drop(columns=["id", "gone"]))
    pd.testing.assert_frame_equal(new.raw, rows.raw.iloc[[3, 5]].reset_index(drop=True), check_dtype=False)
    np.testing.assert_allclose(new.log_jacobian(), -np.log(messy()["income"].iloc[[3, 5]]))
    with pytest.raises(ValueError, match="lack the column 'price'"):
        rows.alike(messy().drop(columns="price"))
    array = with_types(np.column_stack([np.random.default_rng(0).normal(size=50), np.ones(50)]))
    assert array.alike([[1.0, 2.0]]).raw.to_numpy().tolist() == [[1.0]]
    with pytest.raises(ValueError, match="3 columns; the model was fitted to 2 columns"):
        array.alike([[1.0, 2.0, 3.0]])


def test_rows_and_columns_are_taken_with_their_types():
    rows = with_types(messy())
    assert rows.select([0, 1]).n == 2
    assert [column.name for column in rows.take([1]).columns] == ["flag"]
    assert rows.concatenate(messy()).n == 2 * N
    assert as_data(rows) is rows
    assert isinstance(with_types(rows), TypedRows)


# Texts


@pytest.mark.parametrize(
    ("texts", "values", "sign"),
    [
        (["1,200", "3,400.5", "7"], [1200, 3400.5, 7], "."),
        (["$12.5", "-$3", "(4)"], [12.5, -3, -4], "."),
        (["3,14", "2,5", "1.200,0"], [3.14, 2.5, 1200], ","),
        (["45%", "7 %", "8"], [45, 7, 8], "."),
        (["1e3", "?", "2"], [1000, np.nan, 2], "."),
        (["5 €", "N/A", "6,5 €"], [5, np.nan, 6.5], ","),
    ],
)
def test_numbers_in_texts(texts, values, sign):
    read = numbers_in(pd.Series(texts, name="x"))
    np.testing.assert_allclose(read.values, values)
    assert read.sign == sign
    assert "read as" in read.why


@pytest.mark.parametrize("texts", [["red", "blue"], ["00123", "00456"], ["1", "two", "three"], [None, None], ["?", ""]])
def test_texts_that_are_no_numbers(texts):
    assert numbers_in(pd.Series(texts)) is None


def test_a_mistake_among_numbers_is_named():
    texts = [str(i) for i in range(50)]
    texts[17] = "12..5"
    with pytest.raises(ValueError, match=r"row 17, column 'length' is '12..5', where 98.0% of the column are numbers"):
        with_types(pd.DataFrame({"length": texts}))
    assert kinds(pd.DataFrame({"length": texts, "y": range(100, 150)}), {"length": "out", "y": "number"}) == {"length": "out", "y": "number"}


def test_signs_of_gaps_are_gaps_in_categories():
    rows = with_types(pd.DataFrame({"kind": ["a", "b", "?"] * 10}))
    assert rows.raw["kind"].isna().sum() == 10
    assert rows.columns[0].why == "2 different values"


def test_words_are_short_for_wide_tables():
    shown = dict(in_words([Column(f"c{i}", "number") for i in range(500)]))
    assert shown["numbers"].endswith("… (500 in all)")
