"""`mt.approximate`: the four methods, put together from their parts (assembly only)."""

from __future__ import annotations

from threading import Event
from typing import Any

import numpy as np

from maitre.approximate.assembly import (
    at_prior_means,
    attended,
    check_weights,
    first_labels,
    model_for,
    n_draws,
    posterior_of_labels,
    posterior_of_memory,
    shown,
)
from maitre.approximate.collapsed import Collapsed
from maitre.approximate.mean_field import MeanField
from maitre.approximate.particles import Particles, systematic
from maitre.approximate.synchrony import sweep
from maitre.chains.progress import Progress
from maitre.chains.recorder import Memory
from maitre.chains.starts import start
from maitre.engines import engine_named
from maitre.families.base import Family
from maitre.families.statistics import mergeable
from maitre.moves.hyper import FamilyHyperparameters, PriorHyperparameters
from maitre.numerics.arguments import as_seed, number, one_of, truth, whole_number
from maitre.numerics.draw import shuffle
from maitre.numerics.rng import stream
from maitre.posterior.posterior import Posterior
from maitre.priors.base import Prior
from maitre.states.mixture import MixtureState

_MOST_COMPONENTS = 100_000


def variational(
    data: Any,
    family: Family | str | None = None,
    prior: Prior | str | None = None,
    truncation: int = 50,
    iterations: int = 500,
    tolerance: float = 1e-5,
    init: Any = "kmeans",
    seed: Any = 0,
    draws: int | None = None,
    progress: bool = True,
) -> Posterior:
    """Approximate the posterior of a Dirichlet-process mixture by mean-field variational inference (Blei & Jordan 2006). Inexact.

    The result's draws are labels drawn independently from q(z), each with a concentration from q(α) if that carries a prior. `posterior.elbo` holds the lower bound of the
    log evidence (of the process cut off at `truncation` components) before the first and after every iteration.

    Parameters
    ----------
    data, family, prior : as in `maitre.sample`; the family must be conjugate, the prior a Dirichlet process. A concentration with a Gamma prior has a q(α) of its own; a
        family's hyper-parameters that carry priors stand at their means.
    truncation : the number of components T. An iteration takes time proportional to n · T, and memory for T clusters beside the data.
    iterations, tolerance : at most so many iterations; fewer if the bound rises by less than `tolerance` per point.
    init : where q(z) starts: "kmeans" or "random" (with T clusters), another start of `maitre.sample`, or one label per point.
    seed : one seed gives the same result.
    draws : how many; by default 100, or as few as 10 where there are many points.

    Ctrl-C returns what has been reached so far.

    >>> import maitre as mt
    >>> family = mt.families.KnownCovarianceGaussian(0.0, 25.0, 1.0)
    >>> posterior = mt.approximate.variational([[0.0], [0.2], [9.0], [9.1]], family, mt.priors.DirichletProcess(1.0), truncation=4, progress=False)
    >>> posterior.best, posterior.exact, bool((posterior.elbo[1:] >= posterior.elbo[:-1]).all())
    (array([0, 0, 1, 1]), False, True)
    """
    truncation, iterations = whole_number("truncation", truncation, least=1, most=_MOST_COMPONENTS), whole_number("iterations", iterations, least=1)
    tolerance, seed, show = number("tolerance", tolerance, least=0.0), as_seed(seed), truth("progress", progress)
    model = at_prior_means(model_for("variational", data, family, prior), concentration=False)
    check_weights("variational", model)
    draws = n_draws(draws, model.n)

    def work(stop: Event, bar: Progress) -> tuple[MeanField, bool]:
        field = MeanField(model, first_labels(init, model, truncation, stream(seed)), truncation)

        def over(done: int) -> bool:
            bar.report(0, done, f"bound {field.elbo[-1]:.1f}")
            return stop.is_set()

        return field, field.climb(iterations, tolerance, over)

    (field, converged), interrupted = attended(work, iterations, "variational", show)
    rng, q = stream(seed, 1), field.sticks.q_concentration
    values = [{} if q is None else {"concentration": q.draw(rng)} for _ in range(draws)]
    settings = {"truncation": truncation, "iterations": len(field.elbo) - 1, "tolerance": tolerance, "init": shown(init), "seed": seed, "converged": converged}
    notes = {"elbo": np.array(field.elbo)}
    pairs = zip(field.draw_labels(draws, rng), values, strict=True)
    return posterior_of_labels(model, pairs, settings, notes=notes, interrupted=interrupted)


def collapsed_variational(
    data: Any,
    family: Family | str | None = None,
    prior: Prior | str | None = None,
    truncation: int = 50,
    iterations: int = 200,
    tolerance: float = 1e-4,
    init: Any = "kmeans",
    seed: Any = 0,
    draws: int | None = None,
    progress: bool = True,
) -> Posterior:
    """Approximate the posterior of a Dirichlet-process mixture by variational inference with integrated weights (Kurihara, Welling & Teh 2007). Inexact.

    The result's draws are labels drawn independently from q(z). There is no lower bound to report (`posterior.elbo` is None).

    Parameters
    ----------
    data, family, prior : as in `maitre.sample`; the family must be conjugate, the prior a Dirichlet process. Hyper-parameters that carry priors, the concentration among
        them, stand at their means.
    truncation : the number of components T. An iteration takes time proportional to n · T, and memory 4 n T bytes beside the data.
    iterations, tolerance : at most so many iterations; fewer if the probabilities of a point's components change by less than `tolerance` (in total variation, on average).
    init, seed, draws : as in `maitre.approximate.variational`.

    Ctrl-C returns what has been reached so far.

    >>> import maitre as mt
    >>> family = mt.families.KnownCovarianceGaussian(0.0, 25.0, 1.0)
    >>> posterior = mt.approximate.collapsed_variational([[0.0], [0.2], [9.0], [9.1]], family, mt.priors.DirichletProcess(1.0), truncation=4, progress=False)
    >>> posterior.best, posterior.exact
    (array([0, 0, 1, 1]), False)
    """
    truncation, iterations = whole_number("truncation", truncation, least=1, most=_MOST_COMPONENTS), whole_number("iterations", iterations, least=1)
    tolerance, seed, show = number("tolerance", tolerance, least=0.0), as_seed(seed), truth("progress", progress)
    model = at_prior_means(model_for("collapsed_variational", data, family, prior))
    check_weights("collapsed_variational", model)
    draws = n_draws(draws, model.n)

    def work(stop: Event, bar: Progress) -> tuple[Collapsed, int, bool]:
        field, order = Collapsed(model, first_labels(init, model, truncation, stream(seed)), truncation), np.arange(model.n)
        for iteration in range(1, iterations + 1):
            change = field.step(order)
            if change < tolerance or stop.is_set():
                break
            bar.report(0, iteration, f"change {change:.2g}")
        return field, iteration, change < tolerance

    (field, done, converged), interrupted = attended(work, iterations, "collapsed variational", show)
    settings = {"truncation": truncation, "iterations": done, "tolerance": tolerance, "init": shown(init), "seed": seed, "converged": converged}
    labels = field.draw_labels(draws, stream(seed, 1))
    return posterior_of_labels(model, ((row, {}) for row in labels), settings, interrupted=interrupted)


def smc(
    data: Any,
    family: Family | str | None = None,
    prior: Prior | str | None = None,
    particles: int = 100,
    resample_below: float = 0.5,
    seed: Any = 0,
    draws: int | None = None,
    progress: bool = True,
) -> Posterior:
    """Approximate the posterior of a Dirichlet-process mixture by sequential Monte Carlo, and estimate its evidence. Inexact.

    The result's draws are particles resampled in proportion to their weights after the last point (`posterior.best` is the one with the highest log joint); many of them
    are alike. `posterior.log_evidence` is the logarithm of an unbiased estimate of p(x).

    Parameters
    ----------
    data, family, prior : as in `maitre.sample`; the family must be conjugate, the prior a Dirichlet process. Hyper-parameters that carry priors, the concentration among
        them, stand at their means, and the evidence is that of the model with these values.
    particles : how many. Time is proportional to the number of points, times that of different clusters of all particles.
    resample_below : particles are resampled when the effective number of them is less than this share; 0 means never.
    seed : one seed gives the same result. Points are seated in a random order.
    draws : how many; by default 100, or as few as 10 where there are many points.

    Ctrl-C ends it without a result: particles that have not seen all points say nothing about the others.

    >>> import maitre as mt
    >>> family = mt.families.KnownCovarianceGaussian(0.0, 25.0, 1.0)
    >>> posterior = mt.approximate.smc([[0.0], [0.2], [9.0], [9.1]], family, mt.priors.DirichletProcess(1.0), progress=False)
    >>> posterior.best, posterior.exact, posterior.log_evidence < 0.0
    (array([0, 0, 1, 1]), False, True)
    """
    particles, seed, show = whole_number("particles", particles, least=1, most=1_000_000), as_seed(seed), truth("progress", progress)
    resample_below = number("resample_below", resample_below, least=0.0, most=1.0)
    model = at_prior_means(model_for("smc", data, family, prior))
    if not mergeable(model.family.allocate(model.encoded, 1)):
        raise ValueError(f"smc needs the function merge of the family's statistics, and {type(model.family).__name__} has none: write it, or use mt.sample")
    draws = n_draws(draws, model.n)

    def work(stop: Event, bar: Progress) -> Particles:
        cloud = Particles(model, particles, stream(seed))
        while cloud.seated < model.n and not stop.is_set():
            cloud.advance(resample_below)
            bar.report(0, cloud.seated, f"{cloud.n_clusters.mean():.1f} clusters")
        return cloud

    cloud, interrupted = attended(work, model.n, "seating points", show)
    if interrupted and cloud.seated < model.n:
        raise KeyboardInterrupt
    chosen = systematic(cloud.log_weights, draws, cloud.rng)
    settings = {"particles": particles, "resample_below": resample_below, "seed": seed}
    return posterior_of_labels(model, ((cloud.labels_of(p), {}) for p in chosen), settings, notes={"log_evidence": cloud.log_evidence})


def synchronous(
    data: Any,
    family: Family | str | None = None,
    prior: Prior | str | None = None,
    processors: int = 8,
    sweeps: int = 200,
    burn_in: int | None = None,
    align: str = "id",
    init: Any = "sequential",
    seed: Any = 0,
    threads: int | None = None,
    progress: bool = True,
) -> Posterior:
    """Sample a Dirichlet-process mixture by Gibbs sweeps on processors that hear of each other only between sweeps (after Asuncion, Smyth & Welling 2008). Inexact.

    The more processors, the further from the posterior; with one it is the exact Gibbs sampler (and `maitre.sample` the better way to run it). The result's draws are the states after each
    sweep that follows burn-in: one chain.

    Parameters
    ----------
    data, family, prior : as in `maitre.sample`; the family must be conjugate, the prior a Dirichlet process. Hyper-parameters that carry priors are sampled after each sweep.
    processors : how many parts the points are dealt into at the beginning. The result depends on it, not on the number of threads.
    sweeps, burn_in : sweeps in all, and how many of them are dropped; by default half.
    align : what becomes of clusters opened in one sweep by different processors: "id" takes the first of each for one, the second of each, and so on; "none" keeps all apart.
    init : as in `maitre.sample`.
    seed : one seed gives the same draws on any number of threads.
    threads : how many processors work at once; by default as many as there are cores.

    Ctrl-C returns the draws made so far, or, in burn-in, the present state.

    >>> import maitre as mt
    >>> family = mt.families.KnownCovarianceGaussian(0.0, 25.0, 1.0)
    >>> posterior = mt.approximate.synchronous([[0.0], [0.2], [9.0], [9.1]], family, mt.priors.DirichletProcess(1.0), processors=2, sweeps=20, progress=False)
    >>> posterior.labels.shape, posterior.exact
    ((1, 10, 4), False)
    """
    processors, sweeps = whole_number("processors", processors, least=1, most=100_000), whole_number("sweeps", sweeps, least=1)
    dropped = sweeps // 2 if burn_in is None else whole_number("burn_in", burn_in, most=sweeps - 1)
    align, seed, show = one_of("align", align, ("id", "none")), as_seed(seed), truth("progress", progress)
    engine = engine_named("threads", threads)
    model = model_for("synchronous", data, family, prior)
    memory = Memory(MixtureState.kept_variables(model), 1)

    def work(stop: Event, bar: Progress) -> int:
        rng = stream(seed)
        state = start(model, init, rng)
        assert isinstance(state, MixtureState)
        state.commit()
        points = np.arange(model.n)
        shuffle(points, rng)
        blocks = [block for block in np.array_split(points, processors) if len(block)]
        kept = 0
        with engine:
            for number in range(1, sweeps + 1):
                rng = stream(seed, number)
                sweep(state, blocks, align, engine, rng)
                PriorHyperparameters().step(state, rng)
                FamilyHyperparameters().step(state, rng)
                last = stop.is_set()
                if number > dropped or last:
                    memory.keep(0, kept, state.kept())
                    kept += 1
                bar.report(0, number, f"{state.n_clusters} clusters, log joint {state.log_joint:.1f}")
                if last:
                    break
        return kept

    kept, interrupted = attended(work, sweeps, "synchronous sweeps", show)
    settings = {"processors": processors, "sweeps": sweeps, "burn_in": dropped, "align": align, "init": shown(init), "seed": seed}
    return posterior_of_memory(model, memory, kept, settings, interrupted=interrupted)
