"""Every partition once, canonical and in order."""

from __future__ import annotations

from itertools import islice, product

import pytest

from maitre.partitions import all_partitions, canonical
from maitre.partitions.enumeration import bell_number


@pytest.mark.parametrize("n", range(8))
def test_there_are_bell_many(n):
    found = list(all_partitions(n))
    assert len(found) == len(set(found)) == bell_number(n)


@pytest.mark.parametrize("n", range(1, 7))
def test_they_are_the_canonical_forms_of_all_labelings_in_order(n):
    expected = sorted({tuple(canonical(labels).tolist()) for labels in product(range(n), repeat=n)})
    assert list(all_partitions(n)) == expected


def test_no_points_have_one_partition():
    assert list(all_partitions(0)) == [()]


def test_enumeration_is_lazy():
    assert list(islice(all_partitions(200), 2)) == [(0,) * 200, (0,) * 199 + (1,)]


def test_bell_numbers_are_known_and_exact():
    assert [bell_number(n) for n in (10, 15, 25)] == [115975, 1382958545, 4638590332229999353]
    assert bell_number(40) == 157450588391204931289324344702531067


@pytest.mark.parametrize("function", [all_partitions, bell_number])
def test_a_negative_number_of_points_is_refused(function):
    with pytest.raises(ValueError, match="n is -1; expected a number of points"):
        function(-1)
