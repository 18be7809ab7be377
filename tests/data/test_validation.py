"""Data at the door: good data come through unchanged, bad data are refused with the place and the cure."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from maitre.data.validation import category_codes, column_means, column_variances, count_matrix, dense_matrix, whole_numbers

TABLE = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        np.array(TABLE),
        np.array(TABLE, dtype=np.int8),
        np.array(TABLE, dtype=np.float32),
        np.asfortranarray(TABLE),
        pd.DataFrame(TABLE, columns=["a", "b"]),
    ],
)
def test_dense_matrix_is_ordered_float64(data):
    matrix = dense_matrix(data)
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous
    np.testing.assert_array_equal(matrix, TABLE)


def test_dense_matrix_does_not_copy_what_is_in_order():
    data = np.array(TABLE)
    assert dense_matrix(data) is data
    assert not np.shares_memory(dense_matrix(np.asfortranarray(TABLE)), data)


@pytest.mark.parametrize("data", [[1, 2, 3], np.arange(3), pd.Series([1, 2, 3])])
def test_one_dimension_is_one_column(data):
    assert dense_matrix(data).shape == (3, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([[1, 2], [3, np.nan]], "row 1, column 1 is nan; .* remove or fill it, or use Product"),
        ([[1, 2], [np.inf, 3]], "row 1, column 0 is inf; .*: remove it$"),
        ([[1, -np.inf], [np.nan, 3]], "row 0, column 1 is -inf"),
        (pd.DataFrame({"height": [1.0, 2.0], "weight": [3.0, None]}), "row 1, column 'weight' is nan"),
        ([["a", 1]], "the data are not (all )?numbers .*'a'.* use Product"),
        (pd.DataFrame({"x": [1.0], "day": pd.to_datetime(["2020-01-01"])}), "the data are not (all )?numbers"),
        ([[1, 2], [3]], "rows of the data have different lengths"),
        (np.ones((2, 2, 2)), "the data have 3 dimensions"),
        (5.0, "the data have 0 dimensions"),
        ([], "the data have no rows"),
        (np.ones((0, 3)), "the data have no rows"),
        (np.ones((3, 0)), "3 rows and 0 feature"),
        (sparse.eye(3).tocsr(), "sparse matrix; this family takes a dense one"),
    ],
)
def test_dense_matrix_refuses(data, message):
    with pytest.raises(ValueError, match=message) as caught:
        dense_matrix(data)
    assert "\n" not in str(caught.value)


def test_missing_values_pass_where_they_are_allowed_but_infinity_does_not():
    data = pd.DataFrame({"a": [1.0, None], "b": [None, 2.0]})
    np.testing.assert_array_equal(dense_matrix(data, missing=True), [[1, np.nan], [np.nan, 2]])
    with pytest.raises(ValueError, match="row 0, column 1 is inf"):
        dense_matrix([[np.nan, np.inf]], missing=True)


@pytest.mark.parametrize(
    "data",
    [
        [[0, 2], [1, 0]],
        np.array([[0.0, 2.0], [1.0, 0.0]]),
        sparse.csc_matrix([[0, 2], [1, 0]]),
        sparse.csr_array([[0, 2], [1, 0]]),
        pd.DataFrame([[0, 2], [1, 0]]),
    ],
)
def test_count_matrix_is_csr(data):
    matrix = count_matrix(data)
    assert isinstance(matrix, sparse.csr_matrix)
    np.testing.assert_array_equal(matrix.toarray(), [[0, 2], [1, 0]])


def test_count_matrix_sorts_and_adds_duplicates_in_a_copy():
    data = sparse.csr_matrix((np.array([1, 2, 3]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    matrix = count_matrix(data)
    assert matrix.indices.tolist() == [0, 2]
    assert matrix.data.tolist() == [2, 4]
    assert data.data.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (sparse.csr_matrix([[0, 0], [0, 0], [1, -2]]), "row 2, column 1 is -2.*must not be negative"),
        ([[0, 0], [0, 1.5]], "row 1, column 1 is 1.5.*whole numbers"),
        (sparse.csr_matrix([[0, 0], [np.nan, 0]]), "row 1, column 0 is nan.*must be finite"),
        (sparse.csr_matrix([[0, np.inf]]), "row 0, column 1 is inf.*must be finite"),
        ([[np.nan]], "row 0, column 0 is nan"),
        (sparse.csr_matrix((0, 3)), "no rows"),
        (sparse.csr_matrix((3, 0)), "0 feature"),
    ],
)
def test_count_matrix_refuses(data, message):
    with pytest.raises(ValueError, match=message):
        count_matrix(data)


def test_whole_numbers_pass_with_gaps():
    matrix = np.array([[0.0, np.nan], [3.0, 1e9]])
    assert whole_numbers(matrix, "rule") is matrix


@pytest.mark.parametrize(("bad", "shown"), [(-1.0, "-1"), (0.5, "0.5")])
def test_whole_numbers_refuse(bad, shown):
    with pytest.raises(ValueError, match=f"row 1, column 0 is {shown}; counts please"):
        whole_numbers(np.array([[0.0, np.nan], [bad, 1.0]]), "counts please")


def test_category_codes_follow_the_sorted_levels_of_each_column():
    codes, levels = category_codes(pd.DataFrame({"pet": ["dog", "cat", "dog"], "grade": [30, 10, 20]}))
    assert codes.tolist() == [[1, 2], [0, 0], [1, 1]]
    assert levels == [["cat", "dog"], [10, 20, 30]]
    assert codes.dtype == np.int64


def test_category_codes_take_arrays_and_lists():
    assert category_codes(["b", "a", "b"])[0].tolist() == [[1], [0], [1]]
    assert category_codes(np.array([[1, 5], [0, 5]]))[0].tolist() == [[1, 0], [0, 0]]


def test_category_codes_keep_declared_categories_and_their_order():
    column = pd.Categorical(["low", "high"], categories=["low", "middle", "high"])
    codes, levels = category_codes(pd.DataFrame({"x": column}))
    assert codes.tolist() == [[0], [2]]
    assert levels == [["low", "middle", "high"]]


def test_missing_categories_are_minus_one_or_refused():
    data = pd.DataFrame({"x": ["a", None], "y": [np.nan, 2.0]})
    assert category_codes(data, missing=True)[0].tolist() == [[0, -1], [-1, 0]]
    with pytest.raises(ValueError, match="row 1, column 'x' is missing; expected a category"):
        category_codes(data)


def test_no_categories_are_refused():
    with pytest.raises(ValueError, match="no rows"):
        category_codes(pd.DataFrame({"x": []}))


def test_means_and_variances_skip_gaps():
    matrix = np.array([[1.0, np.nan, 4.0], [3.0, np.nan, np.nan], [8.0, np.nan, 8.0]])
    np.testing.assert_allclose(column_means(matrix), [4.0, 0.0, 6.0])
    np.testing.assert_allclose(column_variances(matrix), [26 / 3, 1.0, 4.0])


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e12, 1e-200])
def test_the_variance_of_a_constant_is_one(constant):
    assert column_variances(np.full((1001, 1), constant)).tolist() == [1.0]


def test_the_variance_of_small_and_shifted_columns_is_kept():
    noise = np.random.default_rng(0).normal(size=2000)
    matrix = np.stack([noise, 1e-30 * noise, 1e6 + noise], axis=1)
    np.testing.assert_allclose(column_variances(matrix), [noise.var(), 1e-60 * noise.var(), noise.var()], rtol=1e-6)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.array([[1 + 2j]]), "Complex data not supported"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), "dates or times"),
        ([[10**400]], "not all numbers|beyond"),
        ([[1e200], [1.0]], "beyond 1e150"),
    ],
)
def test_what_is_no_number_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        dense_matrix(data)


def test_masked_and_nullable_values_are_missing():
    masked = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    with pytest.raises(ValueError, match="row 0, column 1 is nan"):
        dense_matrix(masked)
    nullable = pd.DataFrame({"a": [1.0, 2.0], "b": pd.array([1, None], dtype="Int64")})
    np.testing.assert_array_equal(dense_matrix(nullable, missing=True), [[1, 1], [2, np.nan]])


def test_categories_keep_missing_values_and_declared_levels():
    codes, levels = category_codes(["a", float("nan"), "b"], missing=True)
    assert codes[:, 0].tolist() == [0, -1, 1]
    assert levels == [["a", "b"]]
    declared = pd.Series(pd.Categorical(["b"], categories=["a", "b", "c"]))
    assert category_codes(declared)[1] == [["a", "b", "c"]]
    assert category_codes(np.array([[1, "x"], ["y", 2]], dtype=object))[0].shape == (2, 2)


def test_variances_of_columns_far_from_zero():
    x = np.array([[1.6e12 - 60.0], [1.6e12 + 60.0]])
    assert column_variances(x)[0] == pytest.approx(3600.0, rel=1e-3)
    assert column_variances(np.full((5, 1), 3.7e9))[0] == 1.0


def test_duplicate_counts_are_added_without_overflow():
    twice = sparse.coo_matrix((np.array([100, 100], dtype=np.int8), ([0, 0], [0, 0])), shape=(1, 1))
    assert count_matrix(twice)[0, 0] == 200
