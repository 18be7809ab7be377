"""Can the draws be believed? Split-R̂ and effective sample sizes of what describes a partition, the partition that each chain alone would report, and one plain sentence.

An R̂ near 1 says that chains agree with each other, which proves something only if they began in different places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.wording import counted
from maitre.partitions import adjusted_rand, variation_of_information
from maitre.partitions.losses import Loss
from maitre.partitions.minimise import minimised
from maitre.posterior.diagnostics import effective_sample_size, split_r_hat

if TYPE_CHECKING:
    from maitre.posterior.posterior import Posterior

WORRYING = 1.05  # R̂
ENOUGH = 100  # effective draws of all chains together, below which quantiles are rough
FEW = 25  # below which nothing should be said
TOO_FEW = 20  # draws per chain, below which R̂ means little
_LABELS = 20_000_000  # read per chain
_DRAWS_PER_CHAIN = 250
_ALIKE = ("one", "singletons", "search", "given labels")  # starts that are the same for every chain
_WORDS = {
    "n_clusters": "the number of clusters",
    "log_joint": "the log joint",
    "largest_share": "the largest cluster's share",
    "entropy": "the entropy of the sizes",
}
_WORDS |= {"distance": "the distance to the reported partition"}
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Verdict:
    """Whether the chains agree and have run long enough, in a sentence and in numbers."""

    good: bool
    sentence: str
    table: dict[
        str, dict[str, float]
    ]  # mean, sd, ess and r_hat of the number of clusters, the log joint, the largest share, the entropy of sizes, the distance to the estimate
    estimates: list[Ints]  # the partition that each chain alone would report
    adjusted_rand: Floats  # (chains, chains) between them
    variation_of_information: Floats
    camps: list[list[int]]  # chains that report about the same partition, the largest camp first

    def __str__(self) -> str:
        return self.sentence

    @property
    def converged(self) -> bool:
        """Whether one camp of chains has R̂ below 1.05 and a hundred effective draws of everything; where they began is another question."""
        return len(self.camps) == 1 and all(row["r_hat"] <= WORRYING and row["ess"] >= ENOUGH for row in self.table.values())


def verdict(posterior: Posterior) -> Verdict:
    """What the chains say of themselves."""
    chains, _ = posterior.log_joint.shape
    traces, drawn = described_draws(posterior)
    table = {name: summarised(trace) for name, trace in traces.items()}
    estimates = [minimised(own, Loss("vi"), starts=4).labels for own in drawn] if chains > 1 else [posterior.point_estimate()]
    rand, information = np.ones((chains, chains)), np.zeros((chains, chains))
    for a in range(chains):
        for b in range(a):
            rand[a, b] = rand[b, a] = adjusted_rand(estimates[a], estimates[b])
            information[a, b] = information[b, a] = variation_of_information(estimates[a], estimates[b])
    camps = _camps(drawn, estimates)
    good, sentence = _sentence(posterior, table, estimates, rand, camps)
    return Verdict(good, sentence, table, estimates, rand, information, camps)


def summarised(trace: Floats) -> dict[str, float]:
    """Mean, standard deviation, effective draws and R̂."""
    return {"mean": float(trace.mean()), "sd": float(trace.std()), "ess": effective_sample_size(trace), "r_hat": split_r_hat(trace)}


def described_draws(posterior: Posterior) -> tuple[dict[str, Floats], list[Any]]:
    """Traces (chains, draws) by name, and the labels of evenly spaced draws of each chain."""
    chains, n_draws = posterior.log_joint.shape
    n = posterior.model.n
    places = np.unique(np.linspace(0, n_draws - 1, max(1, min(n_draws, _LABELS // max(n, 1)))).astype(np.int64))
    kept = np.unique(np.linspace(0, len(places) - 1, min(len(places), _DRAWS_PER_CHAIN)).astype(np.int64))
    centre, loss = posterior.point_estimate(), Loss("vi")
    largest, entropy, distance = (np.empty((chains, len(places))) for _ in range(3))
    drawn = []
    for chain in range(chains):
        labels = np.asarray(posterior.labels[chain, places])
        for t, draw in enumerate(labels):
            shares = np.bincount(draw) / n
            largest[chain, t] = shares.max()
            entropy[chain, t] = -float(shares @ np.log(np.where(shares > 0.0, shares, 1.0)))
        distance[chain] = loss.of(centre, labels)
        drawn.append(labels[kept])
    traces = {"n_clusters": posterior.n_clusters.astype(np.float64), "log_joint": np.asarray(posterior.log_joint)}
    return traces | {"largest_share": largest, "entropy": entropy, "distance": distance}, drawn


def _camps(drawn: list[Any], estimates: list[Ints]) -> list[list[int]]:
    """Chains that may report each other's partition: its expected loss over their own draws is hardly above that of the one they report."""
    loss, camps = Loss("vi"), []
    spread = [float(loss.of(labels, own).mean()) for labels, own in zip(estimates, drawn, strict=True)]
    far = [[float(loss.of(labels, own).mean()) - spread[a] for labels in estimates] for a, own in enumerate(drawn)]
    waiting = list(range(len(drawn)))
    while waiting:
        near = {a: [b for b in waiting if max(far[a][b], far[b][a]) <= 0.02 + 0.25 * max(spread[a], spread[b])] for a in waiting}
        camp = max(near.values(), key=len)
        camps.append(camp)
        waiting = [chain for chain in waiting if chain not in camp]
    return sorted(camps, key=len, reverse=True)


def _sentence(posterior: Posterior, table: dict[str, dict[str, float]], estimates: list[Ints], rand: Floats, camps: list[list[int]]) -> tuple[bool, str]:
    chains, draws = posterior.log_joint.shape
    if posterior.settings.get("stopped_in_burn_in"):
        return False, "Sampling stopped in burn-in: this is where the chains stood then, and no draw from the posterior."
    if draws < 4:
        return False, f"{counted(draws, 'draw')} per chain tell nothing of convergence."
    longer = f"run longer, with {4 * draws:,} draws per chain or more"
    name, ess = min(((name, row["ess"]) for name, row in table.items()), key=lambda item: item[1])
    suspect, r_hat = max(((name, row["r_hat"]) for name, row in table.items()), key=lambda item: item[1])
    if len(camps) > 1:
        return False, f"{_other_camps(estimates, rand, camps)}: {longer}, or use other moves."
    if draws < TOO_FEW and r_hat > WORRYING:
        alike = f"The {_number(chains)} chains report about the same partition. " if chains > 1 else ""
        return False, f"{alike}From {draws} draws per chain nobody can tell whether their spread is right: for probabilities {longer}."
    if r_hat > WORRYING:
        who = "The chains do" if chains > 1 else "The chain does"
        return False, f"{who} not agree on {_WORDS[suspect]} yet (R̂ {r_hat:.2f}): {longer}."
    if ess < FEW:
        return False, f"There are only {ess:.0f} effective draws of {_WORDS[name]}: {longer}."
    if chains == 1:
        return (
            True,
            f"One chain, with at least {ess:.0f} effective draws, has nothing to be compared with: chains=4 would tell whether others end in the same place.",
        )
    together = f"The {_number(chains)} chains agree: R̂ is at most {max(r_hat, 1.0):.2f}, with at least {ess:.0f} effective draws"
    if str(posterior.settings.get("init")).partition(":")[0] in _ALIKE:
        return (
            False,
            f"{together}. But they all began at the same partition, so that agreement proves little: sample with init='auto' to see whether others end there too.",
        )
    rough = f"; probabilities are rough below {ENOUGH}" if ess < ENOUGH else ""
    return True, f"{together}{rough}. Each began at a place of its own."


def _other_camps(estimates: list[Ints], rand: Floats, camps: list[list[int]]) -> str:
    """Which chains hold another partition than most, and how far it is."""
    main, others = camps[0], camps[1:]
    numbers = [int(estimates[camp[0]].max()) + 1 for camp in camps]
    found = [
        f"{_chains(camp)} another partition ({counted(number, 'cluster')} instead of {numbers[0]}; adjusted Rand {rand[camp[0], main[0]]:.2f} with {_chains(main, False)})"
        for camp, number in zip(others, numbers[1:], strict=True)
    ]
    return "; ".join(found)[:1].upper() + "; ".join(found)[1:]


def _chains(camp: list[int], verb: bool = True) -> str:
    """
    >>> _chains([0]), _chains([1, 2]), _chains([0, 2], verb=False)
    ('chain 1 holds', 'chains 2 and 3 hold', 'chains 1 and 3')
    """
    numbers = [str(chain + 1) for chain in camp]
    listed = numbers[0] if len(numbers) == 1 else f"{', '.join(numbers[:-1])} and {numbers[-1]}"
    one = len(camp) == 1
    return f"chain{'' if one else 's'} {listed}" + ((" holds" if one else " hold") if verb else "")


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)
