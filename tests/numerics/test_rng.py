import numpy as np
import pytest
from scipy import stats

from maitre.numerics import rng as random
from maitre.numerics.draw import draw_below, draw_event, draw_log, fill_below, shuffle


def many(function, n=20_000):
    return np.array([function() for _ in range(n)])


def test_streams_repeat_and_differ():
    assert random.stream(3, 1).tolist() == random.stream(3, 1).tolist()
    assert random.stream(3, 1).tolist() != random.stream(3, 2).tolist()
    assert random.stream(3, 1).tolist() != random.stream(4, 1).tolist()


def test_first_numbers_of_xoshiro256_plus_plus():
    """The reference sequence for the state (1, 2, 3, 4)."""
    state = np.array([1, 2, 3, 4], dtype=np.uint64)
    assert [int(random.next_bits(state)) for _ in range(4)] == [41943041, 58720359, 3588806011781223, 3591011842654386]


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (random.uniform, stats.uniform()),
        (random.normal, stats.norm()),
        (lambda r: random.gamma(0.3, r), stats.gamma(0.3)),
        (lambda r: random.gamma(4.5, r), stats.gamma(4.5)),
        (lambda r: random.beta(0.5, 2.0, r), stats.beta(0.5, 2.0)),
    ],
)
def test_continuous_draws_follow_their_law(draw, law):
    state = random.stream(1, 5)
    assert stats.kstest(many(lambda: draw(state)), law.cdf).pvalue > 1e-3


def test_tiny_gamma_shapes_stay_finite_in_logs():
    state = random.stream(0)
    assert np.isfinite(many(lambda: random.log_gamma_variate(1e-6, state), 200)).all()


def test_poisson_mean_and_variance():
    state = random.stream(2)
    draws = many(lambda: random.poisson(3.7, state))
    assert draws.mean() == pytest.approx(3.7, abs=0.06)
    assert draws.var() == pytest.approx(3.7, abs=0.2)


def test_draw_log_follows_the_weights_and_never_takes_a_zero():
    state, scratch = random.stream(5), np.zeros(40)
    weights = np.full(40, -np.inf)
    weights[[0, 17, 39]] = np.log([0.2, 0.5, 0.3]) + 500.0
    counts = np.bincount(many(lambda: draw_log(weights, 40, scratch, state)), minlength=40)
    assert counts.sum() == counts[[0, 17, 39]].sum()
    assert stats.chisquare(counts[[0, 17, 39]], 20_000 * np.array([0.2, 0.5, 0.3])).pvalue > 1e-3


def test_whole_numbers_are_uniform():
    state = random.stream(6)
    assert stats.chisquare(np.bincount(many(lambda: draw_below(7, state)), minlength=7)).pvalue > 1e-3
    filled = np.empty(20_000, dtype=np.int64)
    fill_below(filled, 3, state)
    assert stats.chisquare(np.bincount(filled, minlength=3)).pvalue > 1e-3


def test_events_and_shuffles():
    state = random.stream(7)
    assert many(lambda: draw_event(np.log(0.3), state)).mean() == pytest.approx(0.3, abs=0.015)
    assert draw_event(0.5, state)
    orders = [tuple(_shuffled(state)) for _ in range(6000)]
    _, counts = np.unique(np.array(orders), axis=0, return_counts=True)
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-3


def _shuffled(state):
    order = np.arange(3)
    shuffle(order, state)
    return order


def test_streams_of_iterations_are_as_good_as_one_stream():
    """First numbers of the streams of successive iterations: uniform, and uncorrelated from one to the next and between chains."""
    first = np.array([[random.uniform(random.stream_at(key, t)) for t in range(20_000)] for key in (random.stream(0, 0, 0), random.stream(0, 1, 0))])
    for values in first:
        assert stats.kstest(values, "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 4.0 / np.sqrt(20_000)
    assert abs(np.corrcoef(first)[0, 1]) < 4.0 / np.sqrt(20_000)
