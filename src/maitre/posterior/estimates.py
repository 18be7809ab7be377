"""The partition to report: that with the least posterior expected loss, and how far the posterior reaches around it.

Wade & Ghahramani (2018), Bayesian cluster analysis: point estimation and credible balls; Dahl, Johnson & Müller (2022), Search algorithms and loss functions for Bayesian
clustering.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats, Ints
from maitre.partitions.losses import Loss
from maitre.partitions.minimise import Estimate, minimised
from maitre.posterior.together import evenly_spaced

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior

_MOST_LABELS = 100_000_000  # read at once


@dataclass(frozen=True)
class CredibleBall:
    """The drawn partitions nearest to a centre that hold a share `level` of the posterior, and those at the ball's edge.

    Of the draws in the ball, `horizontal` is the farthest, `upper` the farthest of those with the fewest clusters, `lower` the farthest of those with the most. Each is
    shown by one partition.
    """

    centre: Ints
    radius: float
    level: float
    loss: str
    horizontal: Ints
    upper: Ints
    lower: Ints

    def __repr__(self) -> str:
        numbers = [int(labels.max()) + 1 for labels in (self.centre, self.upper, self.lower)]
        return f"CredibleBall({self.level:.0%} of draws within {self.radius:.3g} ({self.loss}) of {numbers[0]} clusters; from {numbers[1]} to {numbers[2]} clusters)"


def some_draws(posterior: Posterior, max_draws: int) -> Any:
    """(draws, n): labels of at most so many draws, evenly spaced over the chains."""
    shape, n = posterior.log_joint.shape, posterior.model.n
    chosen = evenly_spaced(shape, max(1, min(whole_number("max_draws", max_draws, least=1), _MOST_LABELS // max(n, 1))))
    labels = posterior.labels
    if isinstance(labels, np.ndarray):
        return labels.reshape(-1, n)[[chain * shape[1] + draw for chain, draw in chosen]]
    found = np.empty((len(chosen), n), dtype=np.int32)
    for place, (chain, draw) in enumerate(chosen):
        found[place] = labels[chain, draw]
    return found


def estimate(posterior: Posterior, loss: Loss, max_draws: int, seed: int) -> Estimate:
    """The partition with the least expected loss that a search from many starts finds; no worse than `best`."""
    return minimised(some_draws(posterior, max_draws), loss, (posterior.best,), seed=seed)


def credible_ball(posterior: Posterior, centre: Ints, level: float, loss: Loss, max_draws: int) -> CredibleBall:
    """The ball around a partition."""
    if not 0.0 < level <= 1.0:
        raise ValueError(f"level is {level!r}; expected a share of the posterior above 0 and at most 1, such as 0.95")
    draws = some_draws(posterior, max_draws)
    distances = loss.of(centre, draws)
    radius = float(np.sort(distances)[int(np.ceil(level * len(draws))) - 1])
    inside = np.flatnonzero(distances <= radius)
    numbers = draws[inside].max(axis=1)
    farthest = {
        "horizontal": _farthest(inside, distances),
        "upper": _farthest(inside[numbers == numbers.min()], distances),
        "lower": _farthest(inside[numbers == numbers.max()], distances),
    }
    return CredibleBall(centre, radius, level, loss.name, **{name: draws[t].astype(np.int64) for name, t in farthest.items()})


def _farthest(which: Ints, distances: Floats) -> int:
    return int(which[np.argmax(distances[which])])
