"""What a posterior says, in words: the partition reported, the number of clusters, and how sure both are, as one story.

The partition that loses least on average need not have the number of clusters that draws have most often: small clusters that are in most draws, but of other points in
each, are not reported. Then that is said.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from maitre.numerics.arrays import Ints
from maitre.numerics.wording import counted
from maitre.posterior.together import evenly_spaced

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior

_LISTED = 10
_LOOSE = 0.5  # stability below which draws have nothing like a cluster


def story(posterior: Posterior) -> str:
    """A sentence on the partition and one on the number of clusters."""
    labels = posterior.point_estimate()
    sizes = np.sort(np.bincount(labels))[::-1]
    certain = float(posterior.certainty(labels).mean())
    found = f"{counted(len(sizes), 'cluster')} of {_listed(sizes)} points; on average {certain:.0%} of a point's mates sit with it in a draw."
    if posterior.log_joint.size == 1:
        return found
    return f"{found} {_numbers(posterior, len(sizes))}{_loose(posterior, labels)}"


def _listed(sizes: Ints) -> str:
    """Sizes from the largest on, equal ones together.

    >>> _listed(np.array([73, 49, 2, 1, 1, 1]))
    '73, 49, 2, 1 (3 times)'
    """
    distinct = [(size, len(list(equal))) for size, equal in itertools.groupby(sizes.tolist())]
    listed = [f"{size:,}" if times == 1 else f"{size:,} ({times} times)" for size, times in distinct]
    return ", ".join(listed[:_LISTED]) + (", …" if len(listed) > _LISTED else "")


def _loose(posterior: Posterior, labels: Ints) -> str:
    """Which clusters are not to be relied on, if any."""
    sizes, loose = np.bincount(labels), np.flatnonzero(posterior.stability(labels) < _LOOSE)
    if len(loose) == 0:
        return ""
    which = _listed(np.sort(sizes[loose])[::-1])
    if len(loose) == len(sizes):
        return " None of them is found in most draws as it is."
    if len(loose) == 1:
        return f" Do not rely on the cluster of {counted(int(sizes[loose[0]]), 'point')}: most draws have nothing like it."
    return f" Do not rely on the clusters of {which} points: most draws have nothing like them."


def _numbers(posterior: Posterior, reported: int) -> str:
    """How many clusters draws have, and why the partition has another number if it does."""
    probabilities = posterior.k_probabilities()
    likeliest = max(probabilities, key=lambda k: probabilities[k])
    low, high = (int(k) for k in np.quantile(posterior.n_clusters, [0.025, 0.975], method="inverted_cdf"))
    spread = counted(low, "cluster") if low == high else f"{low} to {high} clusters"
    if low == high == reported:
        return f"Draws have {spread} ({probabilities[reported]:.0%})."
    if likeliest == reported:
        return f"Draws have {spread}, {reported} most often ({probabilities[reported]:.0%})."
    most = f"Draws have {spread}, {likeliest} most often ({probabilities[likeliest]:.0%})"
    if likeliest < reported:
        return f"{most}: they merge clusters of these, now one pair and now another."
    small = _points_in_small_clusters(posterior, reported)
    return f"{most}: those beyond the largest{f' {reported}' * (reported > 1)} hold {small:.1%} of the points, not the same ones from draw to draw, and no further cluster can be reported."


def _points_in_small_clusters(posterior: Posterior, reported: int) -> float:
    """The share of points outside the largest clusters, as many as are reported, averaged over draws."""
    outside = [
        1.0 - np.sort(np.bincount(np.asarray(posterior.labels[chain, draw])))[::-1][:reported].sum() / posterior.model.n
        for chain, draw in evenly_spaced(posterior.log_joint.shape, 200)
    ]
    return float(np.mean(outside))
