"""How many splits and merges of rankings an iteration proposes: learnt in burn-in from counts, then kept."""

from maitre.moves.base import Report
from maitre.moves.mallows import Mallows

USUAL = (20, 2, 10)


def proposals_made(move, iterations):
    """Numbers of proposals of each kind in the last of so many iterations; no smart one is accepted, one in ten coins is."""
    made = []

    def split_and_merge(state, numbers, rng):
        made.append(numbers)
        return Report(0, sum(numbers), 1, {"smart": 0.0, "resplit": 1.0, "coin": numbers[2] / 10})

    for _ in range(iterations):
        move.propose(None, split_and_merge, USUAL, None)
    return made[-1]


def test_kinds_that_are_hardly_ever_accepted_are_made_less_often():
    move = Mallows()
    assert proposals_made(move, 50) == USUAL  # not in burn-in
    move.burn_in(0.0)
    assert proposals_made(move, 20) == USUAL
    assert proposals_made(move, 1) == (5, 2, 10)
    again = Mallows()
    again.recall(move.memory())
    assert proposals_made(again, 1) == (5, 2, 10)
    move.freeze()
    before = move.memory()
    proposals_made(move, 200)
    assert move.memory() == before


def test_numbers_that_are_given_stay():
    move = Mallows(proposals=(7, 1, 3))
    move.burn_in(0.0)
    assert proposals_made(move, 200) == (7, 1, 3)
