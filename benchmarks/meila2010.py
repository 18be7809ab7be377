"""Meilă & Chen (2010), Dirichlet process mixtures of generalized Mallows models: artificial data, ballots, and many items.

    python benchmarks/meila2010.py [--quick] [--only sets samplers separated election dispersions many] [--replicates 10] [--out FOLDER]

sets        Sets 1–4: ten clusters of 500 rankings of 20 items, t = 10 or 19 places. Centres are drawn from a Mallows model with θ = 0.7 around one base (the paper's description, read
            literally, makes them coincide). From one cluster in 5 CPU seconds and from 200 random ones in 10, the mean variation of information (nats) of the last 20 iterations
            is put beside that of labels drawn with the true parameters.
samplers    The same data: variation of information after every iteration, from 200 random clusters, by Slice-Gibbs and Beta-Gibbs as printed, Slice-Gibbs put right, and the exact
            collapsed sampler with splits and merges; figure meila2010_samplers.png.
separated   Ten clusters of 500 complete rankings of 20 items around random centres, θ = 1 and θ = .2: the point estimate beside the best labels that the true centres give, draws beside
            draws, and scikit-learn's BayesianGaussianMixture on rank vectors. With θ = .2 the true centres give 1.07 to 1.38, by the centres drawn: data as hard as 1.112, and others.
election    Dublin West and Meath 2002 (PrefLib), from MAITRE_DATA (default ../shared/data): held-out log predictive, a fifth of every distinct ballot's voters drawn with seed 7.
dispersions Meath: E[θ_j] by place, averaged over large (more than 5 % of the voters) and small clusters, weighted by size; figure meila2010_dispersions.png.
many        50,000 voters who name ten of 533 items each: seconds per iteration, memory, variation of information.

Whatever is finished is kept in meila2010.json beside the figures: a run that was stopped goes on from there, and --afresh forgets it. --quick keeps nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import maitre as mt
from maitre.chains.starts import start
from maitre.data.preflib import read_preflib
from maitre.data.rankings import Rankings
from maitre.model import Model
from maitre.numerics.rng import stream
from maitre.partitions import variation_of_information
from maitre.partitions.losses import Loss
from maitre.partitions.minimise import minimised
from maitre.rankings import sample_rankings
from maitre.states.rankings import OrderingState

N_ITEMS, N_CLUSTERS, SIZE = 20, 10, 500
SETS = {1: np.ones(10), 2: np.ones(19), 3: 1.5 - 0.1 * np.arange(10), 4: 1.5 - 0.05 * np.arange(19)}
SAMPLERS = {
    "Slice-Gibbs as printed": mt.moves.SliceGibbs(as_printed=True),
    "Beta-Gibbs as printed": mt.moves.BetaGibbs(),
    "Slice-Gibbs put right": mt.moves.SliceGibbs(),
    "exact, splits and merges": mt.moves.Mallows(),
}
ELECTIONS = {"Dublin West": "irish_2002_dublin_west.soi.gz", "Meath": "irish_2002_meath.soi.gz"}
DATA = Path(os.environ.get("MAITRE_DATA", "../shared/data")) / "rankings"
LARGE = 0.05
AS_HARD = (150, 186, 228, 235)  # data of θ = .2 in which the true centres' best labels have VI 1.112 ± .006, and labels drawn with them 1.477 ± .02


class Results:
    """Finished pieces of work by their names, in a file after every one of them."""

    def __init__(self, file, afresh):
        self.file = file
        self.found = json.loads(file.read_text()) if file is not None and file.exists() and not afresh else {}

    def of(self, name, work):
        """What this piece of work gave, done now if it was not before."""
        if name not in self.found:
            self.found[name] = work()
            if self.file is not None:
                self.file.write_text(json.dumps(self.found))
        return self.found[name]


# -- data -------------------------------------------------------------------------------------------------------------------------------------


def draw_rankings(rng, centers, labels, theta):
    """A ranking for every label, place by place, of all voters at once."""
    left = np.asarray(centers)[labels]
    n_voters, n_items = left.shape
    found = np.empty((n_voters, len(theta)), dtype=np.int64)
    for j, dispersion in enumerate(theta):
        sums = np.cumsum(np.exp(-dispersion * np.arange(n_items - j)))
        codes = np.minimum(np.searchsorted(sums, rng.random(n_voters) * sums[-1], side="right"), n_items - 1 - j)
        found[:, j] = left[np.arange(n_voters), codes]
        left = left[np.arange(n_items - j) != codes[:, None]].reshape(n_voters, n_items - j - 1)
    return found


def artificial(theta, seed, spread=0.7):
    """Rankings, their true clusters, and the clusters' centres; with no spread around one base these are random."""
    rng = np.random.default_rng(seed)
    if spread is None:
        centers = np.array([rng.permutation(N_ITEMS) for _ in range(N_CLUSTERS)])
    else:
        centers = draw_rankings(rng, [np.arange(N_ITEMS)], np.zeros(N_CLUSTERS, dtype=int), np.full(N_ITEMS, spread))
    truth = np.repeat(np.arange(N_CLUSTERS), SIZE)
    return draw_rankings(rng, centers, truth, theta), truth, centers


def log_chances(table, centers, theta):
    """(rankings, clusters): log likelihoods with the true parameters, up to a constant of each ranking."""
    scores = []
    for center in centers:
        places = np.argsort(center)[table]
        codes = places - np.array([(places[:, :j] < places[:, j : j + 1]).sum(axis=1) for j in range(places.shape[1])]).T
        scores.append(-codes @ theta)
    return np.array(scores).T


def true_labels(table, centers, theta, rng):
    """Labels drawn with the true parameters."""
    chances = np.exp(log_chances(table, centers, theta))
    return (np.cumsum(chances, axis=1) > rng.random((len(table), 1)) * chances.sum(axis=1, keepdims=True)).argmax(axis=1)


def mallows(table, n_items=N_ITEMS):
    return Model.of(Rankings.of_positions(table.tolist(), n_items), mt.families.GeneralizedMallows(n_items), mt.priors.DirichletProcess(1.0))


# -- artificial data --------------------------------------------------------------------------------------------------------------------------


def run(model, truth, init, seed, budget, move=None, iterations=10**9):
    """Variation of information after every iteration, within a budget of CPU seconds or of iterations."""
    rng, move = stream(seed), (move or mt.moves.Mallows()).afresh()
    state = start(model, init, rng, OrderingState)
    began, found = time.process_time(), []
    while time.process_time() - began < budget and len(found) < iterations:
        move.step(state, rng)
        state.tidy()
        found.append(variation_of_information(truth, state.canonical_labels()))
    return np.array(found), state, time.process_time() - began


def sets(options):
    run(mallows(artificial(SETS[1], 0)[0][::50]), np.repeat(np.arange(10), 10), "one", 0, 0.1)  # compiles
    budgets, replicates = ([("one", 3)], 1) if options.quick else ([("one", 5), ("random:200", 10)], options.replicates)

    def replicate_of(theta, init, budget, replicate):
        table, truth, centers = artificial(theta, 100 + replicate)
        rng = np.random.default_rng(0)
        wanted = np.mean([variation_of_information(truth, true_labels(table, centers, theta, rng)) for _ in range(5)])
        found, state, _ = run(mallows(table), truth, init, replicate, budget)
        return [float(wanted), float(found[-20:].mean()), len(found), state.n_clusters]

    for which, theta in SETS.items():
        for init, budget in budgets:
            good = 0
            for replicate in range(replicates):
                name = f"set {which}, {init}, {budget} s, replicate {replicate}"
                wanted, last, iterations, clusters = options.results.of(name, lambda given=(theta, init, budget, replicate): replicate_of(*given))
                good += abs(last - wanted) <= max(0.1 * wanted, 0.02)
                say(f"{name}: {iterations} iterations, VI {last:.3f} (truth {wanted:.3f}), {clusters} clusters")
            say(f"set {which}, {init}: {good} of {replicates} within 10 % or .02")


def samplers(options):
    replicates, iterations = (1, 10) if options.quick else (options.replicates, options.iterations)
    shown_sets = list(SETS.items())[: 1 if options.quick else None]
    figure = Figure(figsize=(5.5 * len(shown_sets), 4.0), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)

    def curve(theta, move, replicate):
        table, truth, _ = artificial(theta, 100 + replicate)
        found, _, took = run(mallows(table), truth, "random:200", replicate, np.inf, move, iterations)
        return [took / len(found), *found.tolist()]

    for axes, (which, theta) in zip(figure.subplots(1, len(shown_sets), squeeze=False)[0], shown_sets, strict=True):
        for name, move in SAMPLERS.items():
            curves = np.array(
                [
                    options.results.of(
                        f"set {which}, {name}, {iterations} iterations, replicate {replicate}", lambda given=(theta, move, replicate): curve(*given)
                    )
                    for replicate in range(replicates)
                ]
            )
            seconds, mean = np.median(curves[:, 0]), curves[:, 1:].mean(axis=0)
            shown = [step for step in (3, 8, 20, 60, 100, 250) if step <= iterations]
            say(f"set {which}, {name:>24}: VI after {shown} iterations {mean[np.array(shown) - 1].round(3)}, {seconds:.3f} s an iteration")
            axes.plot(np.arange(1, iterations + 1), mean, lw=1.6, label=name)
        axes.set_title(f"set {which}: t = {len(theta)}, θ from {theta[0]:g} to {theta[-1]:g}", loc="left", fontsize=10)
        axes.set_yscale("log")
        for ticks in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            ticks("{x:g}")
        axes.set_xlabel("iteration")
        axes.set_ylabel("variation of information (nats)")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, fontsize=8)
    write(figure, options.out / "meila2010_samplers.png")


def separated(options):
    def fitted(table, burn_in, draws, seed):
        rankings = Rankings.of_positions(table.tolist(), N_ITEMS)
        return sample_rankings(rankings, "GeneralizedMallows", mt.priors.DirichletProcess(1.0), burn_in=burn_in, draws=draws, thin=1, seed=seed)

    fitted(artificial(np.ones(19), 0, None)[0][::50], 3, 4, 0).point_estimate()  # compiles
    for theta, (draws, seeds) in {1.0: (20, range(200, 210)), 0.2: (90, (*AS_HARD, *range(200, 206)))}.items():
        dispersions, good, near = np.full(19, theta), 0, 0
        chosen = seeds[: {1.0: 3, 0.2: 1}[theta]] if options.quick else seeds
        for seed in chosen:
            table, truth, centers = artificial(dispersions, seed, None)
            best = variation_of_information(truth, log_chances(table, centers, dispersions).argmax(axis=1))
            of_truth, rng = [], np.random.default_rng(0)
            for _ in range(90):
                of_truth.append(true_labels(table, centers, dispersions, rng))
            drawn = variation_of_information(truth, of_truth[0])
            limit = variation_of_information(truth, minimised(np.array(of_truth, dtype=np.int32), Loss("vi")).labels)
            began = time.process_time()
            posterior = fitted(table, 25, draws, seed)
            estimate = posterior.point_estimate()
            took, value = time.process_time() - began, variation_of_information(truth, estimate)
            ours = np.mean([variation_of_information(truth, labels) for labels in np.asarray(posterior.labels[0, -20:])])
            good, near = good + (value <= (0.003 if theta == 1.0 else 1.15)), near + (value <= best + 0.04)
            say(
                f"θ = {theta}, data {seed}: VI of the estimate {value:.4f} with {estimate.max() + 1} clusters in {took:.1f} s; true centres: most probable labels {best:.4f}, estimate {limit:.4f}; draws {ours:.3f}, of the truth {drawn:.3f}"
            )
            if theta < 1.0:
                rivals(table, truth)
        say(
            f"θ = {theta}: {good} of {len(chosen)} with VI at most {0.003 if theta == 1.0 else 1.15}, {near} at most .04 above the most probable labels given the true centres"
        )


def rivals(table, truth):
    """scikit-learn on rank vectors."""
    from sklearn.mixture import BayesianGaussianMixture

    vectors = np.argsort(np.c_[table, missing(table)], axis=1)
    for kind in ("spherical", "diag"):
        began = time.process_time()
        found = BayesianGaussianMixture(n_components=20, covariance_type=kind, max_iter=1000, random_state=0).fit_predict(vectors)
        say(
            f"    BayesianGaussianMixture ({kind}): VI {variation_of_information(truth, found):.4f}, {len(np.unique(found))} clusters, {time.process_time() - began:.1f} s"
        )


def missing(table):
    """The one item that complete rankings leave out."""
    return N_ITEMS * (N_ITEMS - 1) // 2 - table.sum(axis=1)


# -- ballots ----------------------------------------------------------------------------------------------------------------------------------


def parted(rankings):
    """Ballots of four fifths of the voters, and those of the rest."""
    distinct = rankings.distinct()
    counts = np.array([count for _, count in distinct])
    new = np.random.default_rng(7).binomial(counts, 0.2)

    def part(numbers):
        kept = [(ranking, int(number)) for (ranking, _), number in zip(distinct, numbers, strict=True) if number]
        return Rankings.of_positions([r for r, _ in kept], rankings.n_items, rankings.item_names, [c for _, c in kept])

    return part(counts - new), part(new)


def ballots(name):
    file = DATA / ELECTIONS[name]
    if not file.exists():
        say(f"{file} is not there: nothing of {name}")
        return None
    return read_preflib(file)


def election(options):
    for name in list(ELECTIONS)[: 1 if options.quick else None]:
        rankings = ballots(name)
        if rankings is None:
            continue
        old, test = parted(rankings)
        short = {"burn_in": 20, "draws": 5} if options.quick else {}
        for family in ("GeneralizedMallows", "PlackettLuce"):
            sample_rankings(old.select(np.arange(300)), getattr(mt.families, family)(), burn_in=6, draws=1)  # compiles
            for init in ("auto",) if options.quick else ("auto", "random:50"):
                began = time.process_time()
                posterior = sample_rankings(old, getattr(mt.families, family)(), init=init, **short)
                score = posterior.log_density(test).mean()
                n_clusters = posterior.n_clusters.mean()
                say(f"{name}, {family}, start {init}: {score:.4f} nats a ballot, {n_clusters:.0f} clusters, {time.process_time() - began:.0f} s")
        for components in (20,) if options.quick else (20, 40, 80):
            began = time.process_time()
            score = mt.approximate.plackett_luce_em(old, components, iterations=20 if options.quick else 100).log_density(test).mean()
            say(f"{name}, Plackett–Luce by EM, {components} components: {score:.4f}, {time.process_time() - began:.0f} s")
        if not options.quick and name == "Dublin West":
            say(f"{name}, Mallows kernels: {mt.approximate.mallows_kernel(old).log_density(test).mean():.4f}")


def dispersions(options):
    rankings = ballots("Dublin West" if options.quick else "Meath")
    if rankings is None:
        return
    moves = [mt.moves.Mallows(parts=0)]  # dealt into parts, no cluster stays large
    posterior = sample_rankings(rankings, mt.families.GeneralizedMallows(), moves=moves, init="one", draws=4, burn_in=20 if options.quick else 150)
    places = rankings.n_items - 1
    sums = {kind: np.zeros((2, places)) for kind in ("all", "large", "small")}
    lengths = {kind: np.zeros(2) for kind in sums}
    length = np.diff(rankings.starts)[rankings.ballot]
    for draw in range(posterior.log_joint.shape[1]):
        theta, shares = posterior.dispersions(0, draw), posterior.shares(0, draw)
        labels = np.asarray(posterior.labels[0, draw])
        for kind, chosen in (("all", shares > 0), ("large", shares > LARGE), ("small", shares <= LARGE)):
            known = np.isfinite(theta[chosen])
            sums[kind] += np.array([np.where(known, theta[chosen], 0.0).T @ shares[chosen], known.T @ shares[chosen]])
            lengths[kind] += [length[chosen[labels]].sum(), chosen[labels].sum()]
    figure = Figure(figsize=(6.5, 4.2), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for kind, (total, weight) in sums.items():
        mean = np.divide(total, weight, out=np.full(places, np.nan), where=weight > 0)
        say(f"θ by place, {kind} clusters: {mean[:10].round(2)}; mean length of their ballots {lengths[kind][0] / max(lengths[kind][1], 1):.2f}")
        axes.plot(np.arange(1, places + 1), mean, marker="o", ms=3, lw=1.5, label=f"{kind} clusters")
    axes.set_xlabel("place")
    axes.set_ylabel("E[θ], weighted by size")
    axes.set_title(f"How firm each place is, {len(posterior.shares(0, 0))} clusters, large: > {LARGE:.0%} of the voters", loc="left", fontsize=10)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    write(figure, options.out / "meila2010_dispersions.png")


# -- many items -------------------------------------------------------------------------------------------------------------------------------


def many(options):
    """As large as the college applications of the paper may have been."""
    n_items, n_voters, n_clusters, theta = 533, 5_000 if options.quick else 50_000, 30, np.linspace(1.5, 0.5, 10)
    rng = np.random.default_rng(5)
    centers = np.array([rng.permutation(n_items) for _ in range(n_clusters)])
    truth = rng.choice(n_clusters, n_voters, p=rng.dirichlet(np.full(n_clusters, 2.0)))
    model = mallows(draw_rankings(rng, centers, truth, theta), n_items)
    run(mallows(draw_rankings(rng, centers, truth[:100], theta), n_items), truth[:100], "one", 0, np.inf, None, 6)
    found, state, took = run(model, truth, "random:200", 0, 20 if options.quick else 300, None, 10 if options.quick else 100)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    say(
        f"{n_items} items, {n_voters:,} voters: {took / len(found):.2f} s an iteration, VI {found[-1]:.3f} with {state.n_clusters} of {n_clusters} clusters, peak {memory:.0f} MB"
    )


def say(text):
    print(text, flush=True)


def write(figure, path):
    figure.savefig(path, dpi=110)
    say(f"written: {path}")


if __name__ == "__main__":
    parts = {"sets": sets, "samplers": samplers, "separated": separated, "election": election, "dispersions": dispersions, "many": many}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one replicate, short")
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), help="some of the parts")
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=100, help="of the comparison of samplers")
    parser.add_argument("--out", type=Path, default=Path("."), help="where figures go")
    parser.add_argument("--afresh", action="store_true", help="forget what a run before had finished")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    given.results = Results(None if given.quick else given.out / "meila2010.json", given.afresh)
    for part in given.only:
        parts[part](given)
