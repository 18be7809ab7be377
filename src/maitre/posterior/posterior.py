"""The result of sampling: draws of the partition and traces, with what can be asked of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from maitre.model import Model
from maitre.numerics.arrays import Floats, Ints
from maitre.posterior import prediction
from maitre.posterior.commits import COMMIT
from maitre.posterior.diagnostics import effective_sample_size, split_r_hat
from maitre.posterior.saving import save
from maitre.posterior.together import certainty, evenly_spaced, similarity
from maitre.states.base import State
from maitre.states.mixture import MixtureState


@dataclass(repr=False)
class Posterior:
    """Draws from the posterior of a mixture.

    `labels` has shape (chains, draws, n): a NumPy array, or a lazily read zarr array with the same indexing where the draws did not fit in memory.

    >>> import maitre as mt
    >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], draws=50, burn_in=50, chains=2, seed=0, progress=False)
    >>> posterior.labels.shape
    (2, 50, 4)
    """

    model: Model
    draws: dict[str, Any]  # kept variables by name, (chains, draws, …): labels, log joint, sampled hyper-parameters, and what else the state keeps
    settings: dict[str, Any]
    exact: bool = True
    interrupted: bool = False
    moves: dict[str, dict[str, float]] = field(default_factory=dict)
    state: type[State] = MixtureState
    checkpoints: list[Any] = field(default_factory=list, repr=False)  # where all chains of the run stand, to go on from
    numbers: list[int] = field(default_factory=list, repr=False)  # of the chains whose draws these are, if others were left out
    later: dict[int, dict[str, Any]] = field(default_factory=dict, repr=False)  # by the number of a chain: draws that other chains have not made
    chain_settings: dict[str, Any] = field(default_factory=dict, repr=False)
    folder: Path | None = None  # the run folder that holds the draws
    notes: dict[str, Any] = field(default_factory=dict, repr=False)  # what whoever asked for the run wants to find again
    keep_alive: Any = field(default=None, repr=False)  # a temporary folder on which lazily read draws depend

    def __repr__(self) -> str:
        chains, draws = self.log_joint.shape
        return f"Posterior({self.model.n} points, {chains} chains × {draws} draws, {self.model.family.in_one_line()}, {self.model.prior.in_one_line()})"

    def __getstate__(self) -> dict[str, Any]:
        """A copy or a pickle takes draws along that live in a temporary folder."""
        state = self.__dict__.copy()
        if self.keep_alive is not None:
            state.update(draws=_in_memory(self.draws), later={chain: _in_memory(draws) for chain, draws in self.later.items()}, keep_alive=None, folder=None)
        return state

    @property
    def labels(self) -> Any:
        """(chains, draws, n): the partition of each draw, clusters numbered in order of first appearance."""
        return self.draws["labels"]

    @property
    def traces(self) -> dict[str, Floats]:
        """(chains, draws) each: log joint, number of clusters, and every sampled hyper-parameter."""
        return {name: values for name, values in self.draws.items() if values.ndim == 2}

    @property
    def log_joint(self) -> Floats:
        """(chains, draws): log p(C, x), with the log priors of sampled hyper-parameters."""
        return self.draws["log_joint"]

    @property
    def n_clusters(self) -> Ints:
        """(chains, draws): the number of clusters K."""
        return self.draws["n_clusters"].astype(np.int64)

    @property
    def concentration(self) -> Floats:
        """(chains, draws): the prior's concentration, or the weight of a mixture of finite mixtures (constant if it is fixed)."""
        name = "concentration" if hasattr(self.model.prior, "concentration") else "weight"
        if name in self.traces:
            return self.traces[name]
        return np.full(self.log_joint.shape, float(getattr(self.model.prior, name, np.nan)))

    @property
    def elbo(self) -> Floats | None:
        """The lower bound of the log evidence, iteration by iteration, if the result is that of `maitre.approximate.variational`."""
        return None if "elbo" not in self.notes else np.asarray(self.notes["elbo"], dtype=np.float64)

    @property
    def log_evidence(self) -> float | None:
        """An estimate of log p(x), if the result is that of `maitre.approximate.smc`."""
        return self.notes.get("log_evidence")

    @property
    def best(self) -> Ints:
        """The drawn partition with the highest log joint."""
        chain, draw = np.unravel_index(int(np.argmax(self.log_joint)), self.log_joint.shape)
        return np.asarray(self.labels[int(chain), int(draw)], dtype=np.int64)

    def k_probabilities(self) -> dict[int, float]:
        """The posterior of the number of clusters."""
        values, counts = np.unique(self.n_clusters, return_counts=True)
        return {int(k): float(c / counts.sum()) for k, c in zip(values, counts, strict=True)}

    def diagnostics(self) -> dict[str, dict[str, float]]:
        """Mean, standard deviation, effective sample size and split-R̂ of K, the log joint and every sampled hyper-parameter."""
        return {
            name: {"mean": float(trace.mean()), "sd": float(trace.std()), "ess": effective_sample_size(trace), "r_hat": split_r_hat(trace)}
            for name, trace in self.traces.items()
        }

    def predict_proba(self, new: Any, max_draws: int = 200) -> Floats:
        """(points, clusters of `best` + 1): where new points belong; the last column is a cluster not seen.

        In each draw a new point has a probability for each of that draw's clusters; it is shared out over the clusters of `best` in the proportion of the members.
        The average is over at most `max_draws` draws, evenly spaced.
        """
        return prediction.predict(self, new, max_draws)[0]

    def predict(self, new: Any, max_draws: int = 200) -> Ints:
        """The most probable cluster of `best` for each new point.

        >>> import maitre as mt
        >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], draws=50, burn_in=50, chains=1, seed=0, progress=False)
        >>> posterior.predict([[0.05]]).shape
        (1,)
        """
        return np.asarray(np.argmax(self.predict_proba(new, max_draws)[:, :-1], axis=1), dtype=np.int64)

    def log_density(self, new: Any, max_draws: int = 200) -> Floats:
        """log p(x_new | data) of each new point: the predictive density averaged over draws."""
        return prediction.predict(self, new, max_draws)[1]

    def certainty(self, reference: Ints | None = None, max_draws: int = 200) -> Floats:
        """For each point the share of its mates in a partition (by default `best`) that sit with it, averaged over draws; for one without mates, how often it is alone."""
        return certainty(self, self.best if reference is None else np.asarray(reference, dtype=np.int64), max_draws)

    def similarity(self, max_draws: int = 200) -> Floats:
        """(n, n): how often two points share a cluster.

        >>> import maitre as mt
        >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], draws=50, burn_in=50, chains=1, seed=0, progress=False)
        >>> posterior.similarity().shape
        (4, 4)
        """
        return similarity(self, max_draws)

    def state_at(self, chain: int, draw: int) -> State:
        """The state of one draw, with everything that follows from it."""
        return self.state.of_variables(self.model, {name: values[chain, draw] for name, values in self.draws.items()})

    def impute(self) -> Floats:
        """The data with missing numbers replaced by their posterior means, where the family draws them along with the partition.

        >>> import maitre as mt
        >>> posterior = mt.sample([[0.0, 1.0], [0.1, float("nan")], [5.0, 6.0], [5.1, 6.2]], draws=20, burn_in=20, chains=1, progress=False)
        >>> posterior.impute().shape
        (4, 2)
        """
        if "family.missing" not in self.draws:
            raise ValueError("nothing was imputed: the data have no gaps, or the family skips them")
        family: Any = self.model.family
        x, drawn = np.array(self.model.valid, dtype=np.float64), np.asarray(self.draws["family.missing"])
        gaps = np.isnan(x)
        scale = np.asarray(family.scale)
        root, mean = np.sqrt(np.diag(scale) if scale.ndim == 2 else scale), np.asarray(family.mean)
        values = np.zeros_like(x)
        values[gaps] = drawn.reshape(-1, drawn.shape[-1]).mean(axis=0)
        return np.where(gaps, values * root + mean, x)

    def save(self, path: str | Path, store_data: bool = True) -> None:
        """Write everything to a folder that `maitre.load` reads and `maitre.resume` goes on with."""
        target = Path(path)
        if target.exists() and not (target / COMMIT).is_file():
            raise ValueError(f"{str(path)!r} exists and is not a saved result: give another name")
        save(self, target, store_data)

    def summary(self) -> str:
        """A few lines to read: clusters found, the posterior of K, diagnostics."""
        sizes = np.bincount(self.best)
        chains, draws = self.log_joint.shape
        lines = [f"{self.model.n} points, {chains} chain{'s' * (chains != 1)} × {draws} draws"]
        lines.extend(
            [f"family: {self.model.family.in_one_line()}", *([self.model.choice] if self.model.choice else []), f"prior: {self.model.prior.in_one_line()}"]
        )
        probable = sorted(self.k_probabilities().items(), key=lambda item: -item[1])[:5]
        lines.append("number of clusters: " + ", ".join(f"{k} ({p:.0%})" for k, p in probable))
        lines.append(f"best draw: {len(sizes)} clusters of sizes {', '.join(map(str, np.sort(sizes)[::-1][:20]))}{' …' if len(sizes) > 20 else ''}")
        for name, row in self.diagnostics().items():
            lines.append(f"{name:>24}: mean {row['mean']:.4g}, sd {row['sd']:.3g}, effective draws {row['ess']:.0f}, R̂ {row['r_hat']:.3f}")
        if self.elbo is not None:
            lines.append(f"log evidence: at least {self.elbo[-1]:.2f}")
        if self.log_evidence is not None:
            lines.append(f"log evidence: {self.log_evidence:.2f} (estimate)")
        return "\n".join(lines + self._warnings())

    def _warnings(self) -> list[str]:
        """What a reader of the summary must know."""
        lines = []
        if not self.exact:
            lines.append("some moves used are approximate: these are not draws from the exact posterior")
        if self.interrupted:
            where = (
                "during burn-in: this is the state then, not a draw from the posterior"
                if self.settings.get("stopped_in_burn_in")
                else "these are the draws made until then"
            )
            lines.append(f"interrupted: {where}")
        return lines


def _in_memory(draws: dict[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(values) for name, values in draws.items()}


__all__ = ["Posterior", "evenly_spaced"]
