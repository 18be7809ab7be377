"""What suits rankings, where nothing was said: family, prior, start, numbers of iterations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from maitre.chains.run import Conditions, new_run
from maitre.chains.settings import Settings
from maitre.data.rankings import Rankings
from maitre.families import RANKINGS
from maitre.families.base import Family
from maitre.families.generalized_mallows import GeneralizedMallows
from maitre.model import Model, as_prior
from maitre.numerics.distributions import Gamma
from maitre.priors.base import Prior
from maitre.priors.dirichlet_process import DirichletProcess
from maitre.priors.pitman_yor import PitmanYor

_DRAWS = 50
_VISITS, _LEAST, _MOST = 30_000_000, 100, 800  # to voters; iterations
_VISITS_MALLOWS = 24_000_000  # clusters with orderings take longer
_MANY_VOTERS, _CLUSTERS_AT_FIRST = 2000, 200
_VOTERS = 12_000  # by whom families are compared
_SEED = 0  # the choice depends on the data alone


def prior_for(family: Family, prior: Prior | str | None) -> Prior:
    """The prior that was asked for, or one that suits the family: ballots have many small clusters, which Plackett–Luce models can make use of."""
    if prior is not None:
        return as_prior(prior)
    return DirichletProcess() if isinstance(family, GeneralizedMallows) else PitmanYor(Gamma(1.0, 1.0), 0.25)


def model_of_rankings(rankings: Rankings, family: Family, prior: Prior | str | None = None) -> Model:
    """`Model.of`, with a prior that suits the family."""
    return Model.of(rankings, family, prior_for(family, prior))


def settings_for(model: Model, settings: Settings, thin: int | None = None) -> Settings:
    """With numbers of iterations and a start. Half of the iterations are burn-in, or a third under a generalized Mallows model, which burn-in takes far from its start; draws are spread
    over the others, since neighbours among them are alike.

    Many voters who often agree (ballots) start from many clusters, others under a generalized Mallows model from one, which splits find their way from.
    """
    rankings: Any = model.data
    mallows = isinstance(model.family, GeneralizedMallows)
    one = mallows and not (rankings.n >= _MANY_VOTERS and rankings.often_equal)
    init = "one" if one else f"random:{min(_CLUSTERS_AT_FIRST, max(1, rankings.n // 20))}"
    draws = settings.draws or _DRAWS
    iterations = int(np.clip((_VISITS_MALLOWS if mallows else _VISITS) // rankings.n, _LEAST, _MOST))
    burn_in = iterations // (3 if mallows else 2) if settings.burn_in is None else settings.burn_in
    spread = burn_in if settings.burn_in is not None else iterations - burn_in
    return replace(
        settings,
        draws=draws,
        burn_in=burn_in,
        thin=thin or max(1, spread // draws),
        init=init if isinstance(settings.init, str) and settings.init == "auto" else settings.init,
    )


def better_model(rankings: Rankings, prior: Prior | str | None = None) -> Model:
    """The model, of those that the families of rankings make, under which the rankings of voters held out are more probable; the reason is kept with it as a sentence.

    Judged by short runs on four fifths of at most 12,000 voters.
    """
    order = np.random.default_rng(_SEED).permutation(rankings.n)[:_VOTERS]
    n_new = max(1, len(order) // 5)
    if len(order) <= n_new:
        raise ValueError(f"there {'is' if rankings.n == 1 else 'are'} {rankings.n} ranking{'s' * (rankings.n != 1)}: too few to compare families by; name one")
    old, new = rankings.select(np.sort(order[n_new:])), rankings.select(np.sort(order[:n_new]))
    scores = {}
    for name, family in RANKINGS.items():
        model = model_of_rankings(old, family(), prior)
        settings = settings_for(model, Settings(burn_in=50, draws=10, chains=1, seed=_SEED), thin=3)
        scores[name] = float(np.mean(new_run(model, settings, Conditions(progress=False))().log_density(new)))
    better, worse = sorted(scores, key=lambda name: -scores[name])
    figures = f"held-out log probability per ranking {scores[better]:.3f}, {scores[worse]:.3f} with {worse}"
    return model_of_rankings(rankings, RANKINGS[better](), prior).because(f"{better} predicts better: {figures}")
