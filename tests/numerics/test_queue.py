"""Numbers from a queue that several threads share."""

import numpy as np

from maitre.engines import Threads
from maitre.numerics.compilation import compiled_apart
from maitre.numerics.queue import lower, take


@compiled_apart
def take_all(queue, taken, least):
    number = take(queue)
    while number < len(taken):
        taken[number] += 1
        lower(least, -number)
        number = take(queue)


def test_every_number_is_taken_once():
    queue, taken, least = np.zeros(1, dtype=np.int64), np.zeros(200_000, dtype=np.int64), np.zeros(1, dtype=np.int64)
    with Threads(3) as engine:
        engine.map(lambda _: take_all(queue, taken, least), range(3))
    assert (taken == 1).all()
    assert queue[0] == len(taken) + 3  # each of the three has asked once more
    assert least[0] == 1 - len(taken)


def test_in_plain_python():
    queue, least = np.array([4]), np.array([7])
    assert [take(queue), take(queue)] == [4, 5]
    lower(least, 9)
    lower(least, 2)
    assert least[0] == 2
