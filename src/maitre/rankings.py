"""Mixtures over rankings with settings that suit them: what the estimator, the command and the benchmark share."""

from __future__ import annotations

from typing import Any, cast

from maitre.chains.choice import assembled
from maitre.chains.rankings import model_of_rankings, settings_for
from maitre.chains.run import Conditions
from maitre.chains.settings import Settings
from maitre.data.rankings import Rankings
from maitre.families import RANKINGS
from maitre.families.rankings import RankingFamily
from maitre.model import Model, is_open
from maitre.posterior.rankings import RankingPosterior
from maitre.sampling import sample_model


def ranking_model(rankings: Rankings, family: Any = "auto", prior: Any = None) -> Model:
    """Rankings, a family by its name or as an object ("auto" is the one that predicts better), and a prior, by default one that suits it."""
    if is_open(family):
        return assembled(rankings, None, prior)
    kind = RANKINGS[family]() if isinstance(family, str) and family in RANKINGS else family
    if not isinstance(kind, RankingFamily):
        raise ValueError(f"family is {family!r}; expected 'auto', {', '.join(map(repr, RANKINGS))}, or an object such as mt.families.PlackettLuce(shape=0.5)")
    return model_of_rankings(kind.rows(rankings), kind, prior)


def sample_rankings(
    rankings: Rankings,
    family: Any = "auto",
    prior: Any = None,
    moves: Any = "auto",
    draws: int | None = None,
    burn_in: int | None = None,
    thin: int | None = None,
    chains: int = 1,
    init: Any = "auto",
    progress: bool = False,
    seed: int = 0,
) -> RankingPosterior:
    """`maitre.sample` for rankings."""
    model = ranking_model(rankings, family, prior)
    settings = settings_for(model, Settings(moves, draws, burn_in, chains=chains, seed=seed, init=init), thin)
    return cast(RankingPosterior, sample_model(model, settings, Conditions(progress=progress)))
