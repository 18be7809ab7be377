"""Mixtures over rankings with settings that suit them, and which of the two families predicts better. What the estimator and the command share."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from maitre.chains.run import Conditions
from maitre.chains.settings import Settings
from maitre.data.rankings import Rankings
from maitre.families import RANKINGS
from maitre.families.base import Family
from maitre.families.generalized_mallows import GeneralizedMallows
from maitre.model import Model, as_prior
from maitre.numerics.distributions import Gamma
from maitre.posterior.rankings import RankingPosterior
from maitre.priors.base import Prior
from maitre.priors.dirichlet_process import DirichletProcess
from maitre.priors.pitman_yor import PitmanYor
from maitre.sampling import sample_model

_DRAWS, _THIN = 20, 5
_VISITS, _LEAST, _MOST = 5_000_000, 50, 300  # of burn-in
_MANY_VOTERS, _CLUSTERS_AT_FIRST = 2000, 200
_HELD_OUT, _COMPARED = 0.2, 12_000


def family_of(family: Any) -> Family:
    """A family of rankings from an object or a name."""
    if isinstance(family, tuple(RANKINGS.values())):
        return cast(Family, family)
    if isinstance(family, str) and family in RANKINGS:
        return RANKINGS[family]()
    raise ValueError(f"family is {family!r}; expected 'auto', {', '.join(map(repr, RANKINGS))}, or an object such as mt.families.PlackettLuce(shape=0.5)")


def prior_for(family: Family, prior: Any) -> Prior:
    """The prior that was asked for, or one that suits the family: ballots have many small clusters, which Plackett–Luce models can make use of."""
    if prior is not None:
        return as_prior(prior)
    return DirichletProcess() if isinstance(family, GeneralizedMallows) else PitmanYor(Gamma(1.0, 1.0), 0.25)


def start_for(rankings: Rankings, family: Family) -> str:
    """Where chains start: many voters who often agree (ballots) from many clusters, others under a generalized Mallows model from one, which splits find their way from."""
    distinct = len(rankings.starts) - 1
    ballots = rankings.n >= _MANY_VOTERS and distinct < 0.8 * rankings.n
    most = min(_CLUSTERS_AT_FIRST, max(1, rankings.n // 20))
    return "one" if isinstance(family, GeneralizedMallows) and not ballots else f"random:{most}"


def settings_for(rankings: Rankings, family: Family, settings: Settings, thin: int | None) -> Settings:
    """Numbers of draws and a start, where they were left open."""
    burn_in = int(np.clip(_VISITS // rankings.n, _LEAST, _MOST)) if settings.burn_in is None else settings.burn_in
    init = start_for(rankings, family) if isinstance(settings.init, str) and settings.init == "auto" else settings.init
    return Settings(settings.moves, settings.draws or _DRAWS, burn_in, thin or _THIN, settings.chains, settings.seed, init)


def sample_rankings(
    rankings: Rankings,
    family: Family,
    prior: Any = None,
    moves: Any = "auto",
    draws: int | None = None,
    burn_in: int | None = None,
    thin: int | None = None,
    chains: int = 1,
    init: Any = "auto",
    progress: bool = False,
    seed: int = 0,
    conditions: Conditions | None = None,
) -> RankingPosterior:
    """`maitre.sample` for rankings."""
    settings = settings_for(rankings, family, Settings(moves, draws, burn_in, 1, chains, seed, init), thin)
    model = Model.of(family.rows(rankings), family, prior_for(family, prior))  # type: ignore[attr-defined]
    return cast(RankingPosterior, sample_model(model, settings, conditions or Conditions(progress=progress)))


def held_out(rankings: Rankings, seed: int = 0, prior: Any = None, progress: bool = False) -> dict[str, float]:
    """The mean log probability of a fifth of the voters' rankings (of at most 12,000 voters) given the others', under each family, from short runs. Higher is better."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(rankings.n)[:_COMPARED]
    n_new = max(1, round(_HELD_OUT * len(order)))
    if len(order) - n_new < 1:
        raise ValueError(f"there {'is' if rankings.n == 1 else 'are'} {rankings.n} ranking{'s' * (rankings.n != 1)}: too few to compare families by; name one")
    old, new = rankings.select(np.sort(order[n_new:])), rankings.select(np.sort(order[:n_new]))
    return {
        name: float(np.mean(sample_rankings(old, kind(), prior, burn_in=_LEAST, draws=10, thin=3, seed=seed, progress=progress).log_density(new)))
        for name, kind in RANKINGS.items()
    }
