"""What the tests of resuming share with the processes they start: cases, and a run that is stopped after so many iterations of each chain."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import maitre as mt
from maitre.chains import chain as chain_module
from maitre.chains import run as run_module
from maitre.data.groups import GroupedRows

EVERY = 7  # iterations from commit to commit, so that short runs have several
RNG = np.random.default_rng(3)
X = np.concatenate([RNG.normal(size=(30, 2)), RNG.normal(size=(30, 2)) + 5.0])
GROUPS = GroupedRows.of_index(X, np.arange(60) % 4)
PLACES = RNG.uniform(size=(60, 2))
RANKINGS = [list(RNG.permutation(5)[: 1 + i % 5]) for i in range(60)]
OF_RANKINGS = {"mallows": "GeneralizedMallows", "slice_gibbs": "GeneralizedMallows", "beta_gibbs": "GeneralizedMallows", "plackett_luce": "PlackettLuce"}
SHAPE = {"draws": 25, "burn_in": 20, "chains": 2, "seed": 4, "progress": False}


def cases():
    """Every registered move on its state, hyper-parameters fixed and sampled; the permutation move in all its forms; the default."""
    permutation = mt.moves.Permutation
    forms = {
        "permutation scan": permutation("scan"),
        "permutation exact": permutation(method="exact", burn_in_order=None),
        "permutation two_pass": permutation(slope="two_pass"),
        "permutation projections": permutation("projections"),
        "restricted_gibbs": mt.moves.SplitMerge("restricted_gibbs"),
        "auto": "auto",
    }
    found = {}
    for sampled in (False, True):
        family = mt.families.NormalInverseGamma(0.0, 0.1, 2.0, 4.0, scale=mt.Gamma(1, 1) if sampled else 1.0)
        alpha = mt.Gamma(1, 1) if sampled else 0.7
        partition = mt.priors.DirichletProcess(alpha)
        links = mt.priors.DistanceDependent.neighbours(PLACES, k=6, decay=mt.decays.exponential(mt.Gamma(2, 10) if sampled else 0.2), concentration=alpha)
        for name, move in mt.moves.REGISTRY.items():
            prior = links if move.state.__name__ == "LinksState" else partition
            own = (
                mt.families.KnownCovarianceGaussian(2.0, 4.0, 1.0, mt.Gamma(2, 1) if sampled else 1.0) if name == "parallel" else family
            )  # compiled for other tests
            options = {"family": own, "prior": prior, "moves": name}
            if move.state.__name__ == "FranchiseState":
                options |= {"data": GROUPS, "prior": mt.priors.HierarchicalDirichletProcess(alpha, alpha), "init": "random:5"}
            if name in OF_RANKINGS:
                options |= {"data": RANKINGS, "family": OF_RANKINGS[name]}
            found[f"{name} {'sampled' if sampled else 'fixed'}"] = options
        groups = {"data": GROUPS, "family": family, "prior": mt.priors.HierarchicalDirichletProcess(alpha, mt.Gamma(1, 1), own=sampled), "init": "random:5"}
        step = "exact" if sampled else "paper-eq6"
        found[f"superclusters of groups {step}"] = groups | {"moves": [mt.moves.Superclusters(3, "direct", global_step=step)]}
        for name, move in forms.items():
            found[f"{name} {'sampled' if sampled else 'fixed'}"] = {"family": family, "prior": partition, "moves": move}
        if sampled:
            dealt = {"data": RANKINGS, "family": "GeneralizedMallows", "moves": [mt.moves.Mallows(parts=30)], "burn_in": 60}  # at iteration 10
            found["mallows dealt into parts"] = dealt | {"prior": partition}
            found["integrated"] = {"family": family, "prior": partition, "moves": permutation(integrate_concentration=True)}
            found["pitman-yor"] = {"family": family, "prior": mt.priors.PitmanYor(discount=mt.Beta(1, 3)), "moves": "gibbs+split_merge"}
    return found


class Stopping(run_module.Clock):
    """A time budget that is up after so many iterations of each chain, one chain after the other."""

    after = 0

    def __init__(self, seconds):
        self.asked = 0

    def is_up(self):
        self.asked += 1
        return self.asked % Stopping.after == 0


def _begin(model, settings, number, moves, stop=None):
    """A start asks the clock, too; only iterations count here."""
    return chain_module.begin(model, settings, number, moves)


@contextmanager
def stopping(monkeypatch, after):
    """Chains, one after the other, are stopped after so many iterations each."""

    class Clock(run_module.Clock):
        left = iter([number for count in after for number in (*range(count - 1), -1)])

        def is_up(self):
            return next(self.left) < 0

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "Clock", Clock)
        patch.setattr(run_module, "begin", _begin)
        yield


def stopped_run(folder, after, **options):
    """A run of which each chain is stopped after so many iterations."""
    usual, Stopping.after = (run_module.Clock, run_module.begin), after
    run_module.Clock, run_module.begin = Stopping, _begin
    try:
        mt.sample(**({"data": X, "store": folder, "threads": 1} | SHAPE | options))
    finally:
        run_module.Clock, run_module.begin = usual


def short_commits():
    chain_module.commit_every = lambda n: EVERY


def main(tasks):
    """In a new process: go on with each run, and keep what comes out."""
    short_commits()
    for folder, threads in json.loads(tasks):
        posterior = mt.resume(folder, threads=threads, progress=False)
        np.savez(Path(folder).with_suffix(".npz"), **{name.replace(".", "_"): np.asarray(values) for name, values in posterior.draws.items()})


if __name__ == "__main__":
    main(sys.stdin.read())
