"""The result of sampling: draws of the partition and traces, with what can be asked of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from maitre.numerics.arrays import Floats, Ints
from maitre.posterior import prediction
from maitre.posterior.diagnostics import effective_sample_size, split_r_hat
from maitre.states.mixture import Model


@dataclass
class Posterior:
    """Draws from the posterior of a mixture.

    `labels` has shape (chains, draws, n): a NumPy array, or a lazily read zarr array with the same indexing where the draws did not fit in memory.

    >>> import maitre as mt
    >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], draws=50, burn_in=50, chains=2, seed=0, progress=False)
    >>> posterior.labels.shape
    (2, 50, 4)
    """

    model: Model
    labels: Any
    traces: dict[str, Floats]
    settings: dict[str, Any]
    exact: bool = True
    interrupted: bool = False
    moves: dict[str, dict[str, float]] = field(default_factory=dict)
    keep_alive: Any = None  # a temporary folder on which lazily read draws depend

    def __getstate__(self) -> dict[str, Any]:
        """A copy or a pickle takes draws along that live in a temporary folder."""
        state = self.__dict__.copy()
        if self.keep_alive is not None:
            state.update(labels=np.asarray(self.labels[:]), keep_alive=None)
        return state

    @property
    def log_joint(self) -> Floats:
        """(chains, draws): log p(C, x), with the log priors of sampled hyper-parameters."""
        return self.traces["log_joint"]

    @property
    def n_clusters(self) -> Ints:
        """(chains, draws): the number of clusters K."""
        return self.traces["n_clusters"].astype(np.int64)

    @property
    def concentration(self) -> Floats:
        """(chains, draws): the prior's concentration, or the weight of a mixture of finite mixtures (constant if it is fixed)."""
        name = "concentration" if hasattr(self.model.prior, "concentration") else "weight"
        if name in self.traces:
            return self.traces[name]
        return np.full(self.log_joint.shape, float(getattr(self.model.prior, name, np.nan)))

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

    def save(self, path: str | Path) -> None:
        """Write everything to a folder that `maitre.load` reads."""
        from maitre.posterior.storage import save

        save(self, Path(path))

    def summary(self) -> str:
        """A few lines to read: clusters found, the posterior of K, diagnostics."""
        sizes = np.bincount(self.best)
        chains, draws = self.log_joint.shape
        lines = [f"{self.model.n} points, {chains} chain{'s' * (chains != 1)} × {draws} draws"]
        lines.extend([f"family: {self.model.family.in_one_line()}", f"prior: {self.model.prior.in_one_line()}"])
        probable = sorted(self.k_probabilities().items(), key=lambda item: -item[1])[:5]
        lines.append("number of clusters: " + ", ".join(f"{k} ({p:.0%})" for k, p in probable))
        lines.append(f"best draw: {len(sizes)} clusters of sizes {', '.join(map(str, np.sort(sizes)[::-1][:20]))}{' …' if len(sizes) > 20 else ''}")
        for name, row in self.diagnostics().items():
            lines.append(f"{name:>24}: mean {row['mean']:.4g}, sd {row['sd']:.3g}, effective draws {row['ess']:.0f}, R̂ {row['r_hat']:.3f}")
        if not self.exact:
            lines.append("some moves used are approximate: these are not draws from the exact posterior")
        if self.interrupted:
            where = (
                "during burn-in: this is the state then, not a draw from the posterior"
                if self.settings.get("stopped_in_burn_in")
                else "these are the draws made until then"
            )
            lines.append(f"interrupted: {where}")
        return "\n".join(lines)


def evenly_spaced(shape: tuple[int, ...], at_most: int) -> list[tuple[int, int]]:
    """At most so many (chain, draw) pairs, evenly spaced over all of them."""
    total = shape[0] * shape[1]
    chosen: npt.NDArray[np.int64] = np.unique(np.linspace(0, total - 1, min(total, at_most)).astype(np.int64))
    return [(int(c // shape[1]), int(c % shape[1])) for c in chosen]
