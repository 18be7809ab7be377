"""The partition with the least expected loss: losses against the distances they are made of, the search against all partitions, draws and linkage."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from maitre.partitions import adjusted_rand, all_partitions, binder, canonical, variation_of_information
from maitre.partitions.allocation import fill, loss_at, mean_loss, reallocate, seat_as
from maitre.partitions.losses import Loss
from maitre.partitions.minimise import Search, enumerated, minimised, within_memory

LOSSES = [Loss("vi"), Loss("binder"), Loss("binder", 3.0, 1.0), Loss("adjusted_rand"), Loss("nvi")]


def random_draws(rng, n, n_draws):
    """Labels that are noise alone, or noise around one partition."""
    if rng.random() < 0.5:
        return np.array([canonical(rng.integers(0, rng.integers(1, n + 1), n)) for _ in range(n_draws)])
    centre = rng.integers(0, rng.integers(1, n + 1), n)
    return np.array([canonical(np.where(rng.random(n) < 0.4, rng.integers(0, n, n), centre)) for _ in range(n_draws)])


def overlapping(n, n_draws, n_clusters, seed):
    """Draws of points on a plane that sit with one of several centres, by chance where they are near to two."""
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.normal(size=(n_clusters, 2))
    x = centres[rng.integers(0, n_clusters, n)] + rng.normal(size=(n, 2))
    log_weights = -((x[:, None] - centres) ** 2).sum(axis=2) / 2
    return np.array([canonical((log_weights + rng.gumbel(size=log_weights.shape)).argmax(axis=1)) for _ in range(n_draws)])


def least(draws, loss):
    """The least expected loss of all partitions, from their counts at once."""
    n = draws.shape[1]
    partitions, f = np.array(list(all_partitions(n))), loss.table(n)
    inside = (partitions[:, :, None] == np.arange(n)).astype(np.int64)
    total, values = f[inside.sum(axis=1)].sum(axis=1), np.zeros(len(partitions))
    for draw in draws:
        truth = (draw[:, None] == np.arange(n)).astype(np.int64)
        shared = f[np.einsum("mik,ij->mkj", inside, truth)].sum(axis=(1, 2))
        own = float(f[truth.sum(axis=0)].sum())
        values += [loss._value(n, float(a), own, float(g)) for a, g in zip(total, shared, strict=True)]
    return values.min() / len(draws)


def test_losses_are_the_distances():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 40):
        a, b = canonical(rng.integers(0, 5, n)), canonical(rng.integers(0, 3, n))
        assert Loss("vi").of(a, [b])[0] == pytest.approx(variation_of_information(a, b), abs=1e-12)
        assert Loss("binder").of(a, [b])[0] == pytest.approx(binder(a, b))
        assert Loss("adjusted_rand").of(a, [b])[0] == pytest.approx(1.0 - adjusted_rand(a, b))
        for loss in LOSSES:
            assert loss.of(a, [a])[0] == pytest.approx(0.0, abs=1e-12)


def test_costs_of_parting_and_joining():
    together, apart = [0, 0], [0, 1]
    loss = Loss("binder", parting=3.0, joining=0.5)
    assert loss.of(apart, [together])[0] == 3.0
    assert loss.of(together, [apart])[0] == 0.5


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_counts_and_prices_are_kept_up(loss):
    """After any moves the counts are those of a fresh start, and the price of a seat is what the loss becomes."""
    rng = np.random.default_rng(1)
    draws = random_draws(rng, 7, 5)
    search = Search(draws, loss, rng)
    fill(search.s, np.full(7, -1))
    reallocate(search.s, rng.permutation(7), True, loss.kind, search.slots)
    seat_as(search.s, np.array([0, 3]), np.array([1, -1], dtype=np.int32))
    seat_as(search.s, np.array([3]), np.array([0], dtype=np.int32))
    value, labels = search.value(), search.s.labels.copy()
    gain = search.s.gain.copy()
    fill(search.s, labels)
    assert search.value() == pytest.approx(value, abs=1e-10)
    np.testing.assert_allclose(search.s.gain, gain)
    expected = [loss_at(loss.kind, 7, loss.ratio, search.s.total[0], own, shared) for own, shared in zip(search.s.own, search.s.shared, strict=True)]
    assert mean_loss(search.s, loss.kind) == pytest.approx(np.mean(expected))
    if loss.kind:
        assert search.value() == pytest.approx(loss.of(canonical(labels), draws).mean())


def test_a_point_goes_where_the_loss_is_least():
    rng = np.random.default_rng(2)
    for loss in LOSSES:
        draws = random_draws(rng, 6, 8)
        search = Search(draws, loss, rng)
        start = canonical(rng.integers(0, 3, 6))
        fill(search.s, start)
        reallocate(search.s, np.array([2]), True, loss.kind, search.slots)
        choices = [canonical(np.where(np.arange(6) == 2, k, start)) for k in range(start.max() + 2)]
        assert loss.of(canonical(search.s.labels), draws).mean() == pytest.approx(min(loss.of(labels, draws).mean() for labels in choices))


def test_finds_the_best_of_all_partitions():
    rng = np.random.default_rng(3)
    for _ in range(25):
        draws = random_draws(rng, int(rng.integers(1, 7)), int(rng.integers(1, 30)))
        for loss in LOSSES:
            assert minimised(draws, loss).loss == pytest.approx(least(draws, loss), abs=1e-10)
    assert enumerated(draws, LOSSES[0]).loss == pytest.approx(least(draws, LOSSES[0]))


@pytest.mark.long
def test_finds_the_best_of_all_partitions_of_eight_points():
    rng = np.random.default_rng(4)
    for number in range(200):
        draws = random_draws(rng, int(rng.integers(2, 9)), int(rng.integers(2, 40)))
        for loss in LOSSES if number % 4 == 0 else LOSSES[:1]:
            assert minimised(draws, loss).loss == pytest.approx(least(draws, loss), abs=1e-10)


@pytest.mark.parametrize("loss", [Loss("vi"), Loss("binder"), Loss("adjusted_rand")], ids=str)
def test_no_draw_candidate_or_linkage_is_better(loss):
    draws = overlapping(150, 120, 6, 0)
    found = minimised(draws, loss)
    assert found.loss == pytest.approx(loss.of(found.labels, draws).mean())
    assert found.loss <= min(loss.of(draw, draws).mean() for draw in draws)
    similarity = np.mean(draws[:, :, None] == draws[:, None, :], axis=0)
    tree = linkage(squareform(1.0 - similarity, checks=False), "average")
    assert found.loss <= min(loss.of(canonical(fcluster(tree, k, "maxclust")), draws).mean() for k in range(1, 30)) + 1e-12
    assert minimised(draws, loss).labels.tolist() == found.labels.tolist()
    better = minimised(draws[:1], loss, (draws[0],))
    assert better.loss == pytest.approx(0.0, abs=1e-12)


def test_room_is_bounded(monkeypatch):
    draws = overlapping(60, 200, 5, 1)
    monkeypatch.setattr("maitre.partitions.minimise._LABELS", 60 * 50)
    assert len(within_memory(draws, Loss("vi"))) == 50
    monkeypatch.setattr("maitre.partitions.minimise._CELLS", 10)
    assert within_memory(draws, Loss("vi")) is None
    assert minimised(draws, Loss("vi")).labels.tolist() in [draw.tolist() for draw in draws]


def test_wrong_arguments_are_told():
    with pytest.raises(ValueError, match="unknown loss 'rand'; expected one of vi"):
        Loss("rand")
    with pytest.raises(ValueError, match="above 0"):
        Loss("binder", 0.0)
    with pytest.raises(ValueError, match="costs of Binder's loss"):
        Loss("vi", 2.0)
