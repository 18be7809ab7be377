"""What the approximations have in common: the models they take, where they start, how they are watched and stopped, and how labels become a posterior."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from threading import Event
from typing import Any, TypeVar

import numpy as np

from maitre.chains.progress import Progress
from maitre.chains.recorder import Memory
from maitre.chains.starts import start
from maitre.engines.threads import run_all
from maitre.families.base import ConjugateFamily, Family
from maitre.families.statistics import takes_weights
from maitre.model import Model
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Ints
from maitre.numerics.distributions import Beta
from maitre.numerics.rng import RngState
from maitre.posterior.posterior import Posterior
from maitre.priors.base import Prior
from maitre.priors.dirichlet_process import DirichletProcess
from maitre.states.mixture import MixtureState

T = TypeVar("T")
_MOST_LABELS = 10_000_000  # in all draws together, where their number is not given


def model_for(method: str, data: Any, family: Family | str | None, prior: Prior | str | None) -> Model:
    """The model, if it is one for these methods: a conjugate family and a Dirichlet process."""
    model = Model.of(data, family, prior)
    if not isinstance(model.prior, DirichletProcess):
        raise ValueError(f"{method} is for Dirichlet processes; the prior is {model.prior.in_one_line()}: use mt.priors.DirichletProcess, or mt.sample")
    if isinstance(model.prior.concentration, Beta):
        raise ValueError(f"{method}: concentration is {model.prior.concentration!r}; expected a number or a prior such as mt.Gamma(1, 1)")
    if not isinstance(model.family, ConjugateFamily):
        raise ValueError(f"{method} needs the closed marginals of a conjugate family; {type(model.family).__name__} has none: use mt.sample")
    return model


def at_prior_means(model: Model, concentration: bool = True) -> Model:
    """The model with numbers in place of its hyper-parameters' priors: those of the family and, if asked for, of the prior."""
    return dataclasses.replace(model, family=model.family.at_prior_means(), prior=model.prior.at_prior_means() if concentration else model.prior)


def check_weights(method: str, model: Model) -> None:
    """A `ValueError` unless the family's statistics can hold points to an extent."""
    if not takes_weights(model.family.at_prior_means().allocate(model.encoded, 1)):
        raise ValueError(
            f"{method} needs the functions add_weighted, expect and expected_log_likelihood_all of the family's statistics, which {type(model.family).__name__} "
            "does not have: write them (see maitre.families.statistics), or use mt.sample"
        )


def n_draws(draws: Any, n: int) -> int:
    """How many draws to make: as asked for, or 100, but fewer than 100 (though at least 10) where all labels would be more than ten million."""
    return int(np.clip(_MOST_LABELS // n, 10, 100)) if draws is None else whole_number("draws", draws, least=1)


def first_labels(init: Any, model: Model, truncation: int, rng: RngState) -> Ints:
    """Labels to start from, as `maitre.sample` takes them; "kmeans" and "random" have as many clusters as there are components."""
    labels = start(model, f"{init}:{truncation}" if isinstance(init, str) and init in ("kmeans", "random") else init, rng).canonical_labels()
    if labels.max() >= truncation:
        raise ValueError(f"init has {labels.max() + 1} clusters; truncation is {truncation}: give at least {labels.max() + 1}, or another init")
    return labels


def shown(init: Any) -> str:
    """A start for people to read."""
    return init if isinstance(init, str) else "given labels"


def attended(work: Callable[[Event, Progress], T], total: int, label: str, show: bool) -> tuple[T, bool]:
    """The result of some work with a progress bar, and whether Ctrl-C was pressed, upon which the work is to end early by itself."""
    stop = Event()
    with Progress(total, show, label) as bar:
        results, interrupted = run_all([partial(work, stop, bar)], stop, 1, bar.poll)
    return results[0], interrupted


def posterior_of_labels(model: Model, draws: Iterable[tuple[Any, dict[str, float]]], settings: dict[str, Any], **fields: Any) -> Posterior:
    """A posterior of partitions, each given by labels and values of the prior's hyper-parameters."""
    memory, state, number = Memory(MixtureState.kept_variables(model), 1), None, 0
    for number, (labels, values) in enumerate(draws, start=1):
        if state is None:
            state = MixtureState(model, labels, values=values)
        else:
            state.set_prior(values)
            state.seat(labels)
        memory.keep(0, number - 1, state.kept())
    return posterior_of_memory(model, memory, number, settings, **fields)


def posterior_of_memory(model: Model, memory: Memory, number: int, settings: dict[str, Any], **fields: Any) -> Posterior:
    """A posterior of so many draws in memory; it is never exact."""
    public = {"draws": number, "chains": 1, "stopped_in_burn_in": False} | settings
    return Posterior(model, memory.draws([0], number), public, exact=False, **fields)
