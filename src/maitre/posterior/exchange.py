"""Draws in the form of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior

_MOST_LABELS = 20_000_000


def as_arviz(posterior: Posterior) -> Any:
    """ArviZ's container; labels are among the variables if there are not too many."""
    try:
        import arviz
    except ImportError:
        raise ValueError("to_arviz needs ArviZ: pip install 'maitre[arviz]'") from None
    traces = {name: np.asarray(values) for name, values in posterior.traces.items() if name != "log_joint"}
    if "labels" in posterior.draws and np.prod(posterior.labels.shape) <= _MOST_LABELS:
        traces["labels"] = np.asarray(posterior.labels[:])
    groups = {"posterior": traces, "sample_stats": {"lp": np.asarray(posterior.log_joint)}}
    first = int(arviz.__version__.partition(".")[0])
    return arviz.from_dict(groups) if first >= 1 else arviz.from_dict(**groups)
