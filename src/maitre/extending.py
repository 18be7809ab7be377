"""`mt.extend`: more rows for a posterior. Those that are there keep their seats, new ones are seated by their predictive, and the chains go on from there."""

from __future__ import annotations

from typing import Any

import numpy as np

from maitre.chains.run import Conditions
from maitre.chains.settings import Settings, seconds
from maitre.model import Model
from maitre.numerics.arguments import truth
from maitre.posterior.groups import GroupPosterior
from maitre.posterior.posterior import Posterior
from maitre.priors.distance_dependent import DistanceDependent
from maitre.sampling import sample_model, workers

_LEAST_BURN_IN = 20


def extend(
    posterior: Posterior,
    new_rows: Any,
    draws: int | None = None,
    burn_in: int | None = None,
    seed: int | None = None,
    progress: bool = True,
    time_budget: float | None = None,
    threads: int | None = None,
) -> Posterior:
    """The posterior of the data with more rows after them.

    The family keeps the values that were chosen from the first data, so that the model stays the same. Every chain starts from its own last draw with the new rows seated one
    after the other by their predictive, and has a burn-in of its own.

    Parameters
    ----------
    posterior : of `maitre.sample`, with its data.
    new_rows : rows like those of the data.
    draws, burn_in : of each chain; by default as many draws as before, and a quarter of that as burn-in, at least 20.
    seed : by default one more than before.
    progress, time_budget, threads : as in `maitre.sample`.

    >>> import maitre as mt
    >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], draws=50, burn_in=50, chains=2, progress=False)
    >>> mt.extend(posterior, [[0.05], [5.05]], progress=False).labels.shape
    (2, 50, 6)
    """
    model = posterior.model
    if isinstance(posterior, GroupPosterior) or isinstance(model.prior, DistanceDependent) or not posterior.chain_settings:
        what = (
            "groups"
            if isinstance(posterior, GroupPosterior)
            else type(model.prior).__name__
            if posterior.chain_settings
            else "a search, an approximation or a part of a run"
        )
        raise ValueError(f"rows cannot be added to a posterior of {what}: put them among the data and sample again")
    if model.data is None or model.on_disk:
        raise ValueError("rows can be added only to data in memory: load the run with data=, or sample again")
    data = model.data.concatenate(new_rows)
    chains, n_draws = posterior.log_joint.shape
    starts = np.array([np.append(np.asarray(posterior.labels[chain, -1], dtype=np.int64), np.full(data.n - model.n, -1)) for chain in range(chains)])
    made = n_draws if draws is None else draws
    earlier = posterior.chain_settings
    settings = Settings(
        earlier["moves"],
        made,
        max(_LEAST_BURN_IN, made // 4) if burn_in is None else burn_in,
        earlier["thin"],
        chains,
        int(earlier["seed"]) + 1 if seed is None else seed,
        starts,
    )
    conditions = Conditions(workers("threads", threads), seconds(time_budget), truth("progress", progress))
    return sample_model(Model.of(data, model.family, model.prior, given=model.given), settings, conditions)
