"""Meilă & Chen (2010), Dirichlet process mixtures of generalized Mallows models: artificial data sets 1–4, and held-out log predictive on an election.

    python benchmarks/meila2010.py [--quick] [--replicates 10]

Ten clusters of 500 rankings of 20 items; t = 10 or 19 places; centres are drawn from a Mallows model with θ = 0.7 around one base (the paper's description, read literally, makes them coincide).
For each start the mean variation of information (nats) of the last 20 iterations within a budget of CPU seconds is put beside that of labels drawn with the true parameters. The election
is Dublin West 2002 (PrefLib), from MAITRE_DATA (default ../shared/data); a fifth of every distinct ballot's voters, drawn with seed 7, is held out.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

import maitre as mt
from maitre.chains.starts import start
from maitre.data.preflib import read_preflib
from maitre.data.rankings import Rankings
from maitre.model import Model
from maitre.numerics.rng import stream
from maitre.partitions import variation_of_information
from maitre.rankings import sample_rankings
from maitre.states.rankings import OrderingState

N_ITEMS, N_CLUSTERS, SIZE = 20, 10, 500
SETS = {1: np.ones(10), 2: np.ones(19), 3: 1.5 - 0.1 * np.arange(10), 4: 1.5 - 0.05 * np.arange(19)}
DATA = Path(os.environ.get("MAITRE_DATA", "../shared/data"))


def ranking(rng, center, theta):
    left, found = list(center), []
    for dispersion in theta:
        weights = np.exp(-dispersion * np.arange(len(left)))
        found.append(left.pop(rng.choice(len(left), p=weights / weights.sum())))
    return found


def artificial(theta, seed):
    rng = np.random.default_rng(seed)
    centers = [ranking(rng, range(N_ITEMS), np.full(N_ITEMS, 0.7)) for _ in range(N_CLUSTERS)]
    return [ranking(rng, center, theta) for center in centers for _ in range(SIZE)], np.repeat(np.arange(N_CLUSTERS), SIZE), centers


def true_labels(rankings, centers, theta, rng):
    """Labels drawn with the true parameters."""
    table, scores = np.array(rankings), []
    for center in centers:
        places = np.argsort(center)[table]
        codes = places - np.array([(places[:, :j] < places[:, j : j + 1]).sum(axis=1) for j in range(places.shape[1])]).T
        scores.append(-codes @ theta)
    chances = np.exp(np.array(scores).T)
    return (np.cumsum(chances, axis=1) > rng.random((len(table), 1)) * chances.sum(axis=1, keepdims=True)).argmax(axis=1)


def run(model, truth, init, seed, budget):
    """Variation of information after every iteration, within a budget of CPU seconds."""
    rng, move = stream(seed), mt.moves.Mallows()
    state = start(model, init, rng, OrderingState)
    began, found = time.process_time(), []
    while time.process_time() - began < budget:
        move.step(state, rng)
        state.tidy()
        found.append(variation_of_information(truth, state.canonical_labels()))
    return np.array(found), state.n_clusters


def artificial_sets(replicates, budgets):
    warm = False
    for which, theta in SETS.items():
        for init, budget in budgets:
            good = 0
            for replicate in range(replicates):
                rankings, truth, centers = artificial(theta, 100 + replicate)
                rng = np.random.default_rng(0)
                wanted = np.mean([variation_of_information(truth, true_labels(rankings, centers, theta, rng)) for _ in range(5)])
                model = Model.of(rankings, mt.families.GeneralizedMallows(N_ITEMS), mt.priors.DirichletProcess(1.0))
                if not warm:
                    run(model, truth, "one", 0, 0.1)
                    warm = True
                found, n_clusters = run(model, truth, init, replicate, budget)
                last = found[-20:].mean()
                good += abs(last - wanted) <= max(0.1 * wanted, 0.02)
                print(
                    f"set {which}, {init:>10}, {budget:>2} s: {len(found):>3} iterations, VI {last:.3f} (true parameters {wanted:.3f}), {n_clusters} clusters",
                    flush=True,
                )
            print(f"set {which}, {init}: {good} of {replicates} within 10 % or .02")


def held_out(quick):
    file = DATA / "rankings" / "irish_2002_dublin_west.soi.gz"
    if not file.exists():
        print(f"{file} is not there: no held-out table")
        return
    rankings = read_preflib(file)
    distinct = rankings.distinct()
    counts = np.array([count for _, count in distinct])
    new = np.random.default_rng(7).binomial(counts, 0.2)

    def part(numbers):
        kept = [(ranking, int(number)) for (ranking, _), number in zip(distinct, numbers, strict=True) if number]
        return Rankings.of_positions([r for r, _ in kept], rankings.n_items, rankings.item_names, [c for _, c in kept])

    old, test = part(counts - new), part(new)
    short = {"burn_in": 20, "draws": 5} if quick else {}
    for name in ("GeneralizedMallows", "PlackettLuce"):
        began = time.process_time()
        posterior = sample_rankings(old, getattr(mt.families, name)(), **short)
        score = posterior.log_density(test).mean()
        print(f"Dublin West, {name}: {score:.4f} nats a ballot, {time.process_time() - began:.0f} s", flush=True)
    print(
        f"Dublin West, Plackett–Luce by EM, 20 components: {mt.approximate.plackett_luce_em(old, 20, iterations=20 if quick else 100).log_density(test).mean():.4f}"
    )
    if not quick:
        print(f"Dublin West, Mallows kernels: {mt.approximate.mallows_kernel(old).log_density(test).mean():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one replicate, short")
    parser.add_argument("--replicates", type=int, default=10)
    options = parser.parse_args()
    artificial_sets(1 if options.quick else options.replicates, [("one", 3)] if options.quick else [("one", 5), ("random:200", 10)])
    held_out(options.quick)
