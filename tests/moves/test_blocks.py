"""A move may work on blocks in parallel: the engine reaches it through the state, and what comes out does not depend on the number of workers."""

import threading

import numpy as np
import pytest

import maitre as mt
from maitre.chains.chain import advance, begin
from maitre.chains.settings import Settings
from maitre.engines import Serial, Threads
from maitre.model import Model
from maitre.moves import Gibbs, Report, resolve
from maitre.numerics.draw import draw_below
from maitre.numerics.rng import split, stream

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(40, 1)), RNG.normal(size=(40, 1)) + 6.0])


class InBlocks(Gibbs):
    """Every block of points proposes an order of its own, on whatever worker; the points are then visited block by block.

    Of several workers two must be at work at once: the first two blocks wait for each other.
    """

    name = "in_blocks"

    def step(self, state, rng):
        blocks = np.array_split(np.arange(state.model.n), 4)
        streams = split(rng, len(blocks))
        both = threading.Barrier(2)

        def shuffled(number):
            if state.engine.n_workers > 1 and number < 2:
                both.wait(timeout=60.0)
            order = blocks[number].copy()
            for i in range(len(order) - 1, 0, -1):
                j = draw_below(i + 1, streams[number])
                order[i], order[j] = order[j], order[i]
            return order

        orders = state.engine.map(shuffled, range(len(blocks)))
        from maitre.moves.gibbs import reseat_points

        return Report(reseat_points(state, np.concatenate(orders), rng).operations)


@pytest.fixture
def chain():
    model = Model.of(X, mt.families.NormalInverseGamma(0.0, 0.1, 2.0, 1.0), mt.priors.DirichletProcess(1.0))

    def run(engine):
        settings = Settings(moves=[InBlocks()], draws=10, burn_in=5, chains=1)
        one = begin(model, settings, 0, resolve(settings.moves, model))
        return [one.state.canonical_labels().tolist() for _ in advance(one, engine)]

    return run


def test_the_result_does_not_depend_on_the_number_of_workers(chain):
    serial = chain(Serial())
    with Threads(2) as two, Threads(3) as three:
        assert chain(two) == serial
        assert chain(three) == serial


def test_chains_and_blocks_share_the_threads():
    draws = [mt.sample(X, moves=[InBlocks()], draws=10, burn_in=5, chains=2, threads=n, progress=False).labels for n in (1, 2, 4)]
    np.testing.assert_array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], draws[2])


def test_split_streams_are_independent_and_repeat():
    first, again = split(stream(3), 3), split(stream(3), 3)
    np.testing.assert_array_equal(first, again)
    assert len({tuple(block) for block in first}) == 3
    rng = stream(3)
    split(rng, 1)
    assert not np.array_equal(rng, stream(3))
