"""The result of sampling: draws of the partition and traces, with what can be asked of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from maitre.model import Model
from maitre.numerics.arguments import whole_number
from maitre.numerics.arrays import Floats, Ints
from maitre.numerics.wording import counted
from maitre.partitions.labels import canonical
from maitre.partitions.losses import Loss
from maitre.posterior import prediction
from maitre.posterior.commits import COMMIT
from maitre.posterior.estimates import CredibleBall, credible_ball, estimate, some_draws
from maitre.posterior.exchange import as_arviz
from maitre.posterior.imputation import imputed
from maitre.posterior.leave_one_out import LeftOut, leave_one_out
from maitre.posterior.saving import save
from maitre.posterior.story import story
from maitre.posterior.tables import assignments, clusters
from maitre.posterior.together import affinities, certainty, evenly_spaced, in_order, similarity, stability
from maitre.posterior.verdict import Verdict, summarised, verdict
from maitre.states.base import State
from maitre.states.mixture import MixtureState


@dataclass(repr=False)
class Posterior:
    """Draws from the posterior of a mixture.

    `labels` has shape (chains, draws, n): a NumPy array; of very many labels, or where the draws did not fit in memory, one with the same indexing, arithmetic and methods that
    gives the draws as they are asked for.

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
    found: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)  # answers that were asked for before

    def __repr__(self) -> str:
        chains, draws = self.log_joint.shape
        probable = sorted(self.k_probabilities().items(), key=lambda item: -item[1])[:3]
        lines = [
            f"{type(self).__name__}: {counted(self.model.n, 'point')}, {counted(chains, 'chain')} × {counted(draws, 'draw')}",
            "number of clusters: " + ", ".join(f"{k} ({p:.0%})" for k, p in probable),
            f"family: {self.model.family.in_one_line()}",
            f"prior: {self.model.prior.in_one_line()}",
            *self._warnings(),
        ]
        return "\n  ".join(line if len(line) <= 150 else line[:149] + "…" for line in lines)

    def __getstate__(self) -> dict[str, Any]:
        """A copy or a pickle takes draws along that live in a temporary folder."""
        state = self.__dict__ | {"found": {}}
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
        """The drawn partition with the highest log joint: a typical member of no posterior with many clusters; `point_estimate` is what to report."""
        chain, draw = np.unravel_index(int(np.argmax(self.log_joint)), self.log_joint.shape)
        return np.asarray(self.labels[int(chain), int(draw)], dtype=np.int64)

    def point_estimate(self, loss: str = "vi", parting: float = 1.0, joining: float = 1.0, max_draws: int = 1000, seed: int = 0) -> Ints:
        """The partition to report: that with the least posterior expected loss, found by a search from many starts over at most `max_draws` draws, evenly spaced.

        `loss` is "vi" (variation of information), "binder" (pairs put wrongly; `parting` two points that belong together may cost another amount than `joining` two
        that do not), "adjusted_rand" (one minus the adjusted Rand index) or "nvi" (variation of information per joint entropy). Everything reported by default uses "vi".

        >>> import maitre as mt
        >>> posterior = mt.sample([[0.0], [0.1], [0.2], [0.3], [9.0], [9.1], [9.2], [9.3]], draws=50, burn_in=50, chains=1, seed=0, progress=False)
        >>> posterior.point_estimate()
        array([0, 0, 0, 0, 1, 1, 1, 1])
        """
        return self._estimate(Loss(loss, parting, joining), max_draws, seed).labels.copy()

    def _estimate(self, loss: Loss, max_draws: int = 1000, seed: int = 0) -> Any:
        """The estimate, made once."""
        key = ("estimate", loss, max_draws, seed)
        if key not in self.found:
            self.found[key] = estimate(self, loss, max_draws, seed)
        return self.found[key]

    def credible_ball(self, level: float = 0.95, loss: str = "vi", centre: Ints | None = None, max_draws: int = 1000) -> CredibleBall:
        """The draws nearest to the point estimate that hold this share of the posterior: the ball's radius, and the partitions at its edge.

        >>> import maitre as mt
        >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], draws=50, burn_in=50, chains=1, seed=0, progress=False)
        >>> posterior.credible_ball().radius <= posterior.credible_ball(1.0).radius
        True
        """
        return credible_ball(self, self.point_estimate(loss) if centre is None else np.asarray(centre), level, Loss(loss), max_draws)

    def expected_loss(self, labels: Any, loss: str = "vi", parting: float = 1.0, joining: float = 1.0, max_draws: int = 1000) -> float:
        """What is lost on average over draws by reporting these labels."""
        return float(Loss(loss, parting, joining).of(canonical(labels), some_draws(self, max_draws)).mean())

    def k_probabilities(self) -> dict[int, float]:
        """The posterior of the number of clusters."""
        values, counts = np.unique(self.n_clusters, return_counts=True)
        return {int(k): float(c / counts.sum()) for k, c in zip(values, counts, strict=True)}

    def diagnostics(self) -> dict[str, dict[str, float]]:
        """Mean, standard deviation, effective sample size and split-R̂ (rank-normalised, as ArviZ has them) of K, the log joint and every sampled hyper-parameter."""
        return {name: summarised(trace) for name, trace in self.traces.items()}

    def verdict(self) -> Verdict:
        """Whether the chains agree and have run long enough: one sentence, and the numbers behind it.

        >>> import maitre as mt
        >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], mt.families.NormalInverseGamma(), draws=200, burn_in=50, chains=2, seed=0, progress=False)
        >>> posterior.verdict().good
        True
        """
        if "verdict" not in self.found:
            self.found["verdict"] = verdict(self)
        return cast(Verdict, self.found["verdict"])

    def predict_proba(self, new: Any, max_draws: int = 200, distances: Any = None) -> Floats:
        """(points, clusters of the point estimate + 1): where new points belong; the last column is a cluster not seen.

        In each draw a new point has a probability for each of that draw's clusters; it is shared out over the clusters of the point estimate in the proportion of the members.
        The average is over at most `max_draws` draws, evenly spaced. `distances` (new points × points, dense or sparse) are needed under a distance-dependent prior alone.
        """
        return prediction.predict(self, new, max_draws, distances)[0]

    def predict(self, new: Any, max_draws: int = 200, distances: Any = None) -> Ints:
        """The most probable cluster of the point estimate for each new point.

        >>> import maitre as mt
        >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], draws=50, burn_in=50, chains=1, seed=0, progress=False)
        >>> posterior.predict([[0.05]]).shape
        (1,)
        """
        return np.asarray(np.argmax(self.predict_proba(new, max_draws, distances)[:, :-1], axis=1), dtype=np.int64)

    def log_density(self, new: Any, max_draws: int = 200, distances: Any = None) -> Floats:
        """log p(x_new | data) of each new point: the predictive density averaged over draws."""
        return prediction.predict(self, new, max_draws, distances)[1]

    def leave_one_out(self, max_draws: int = 1000) -> LeftOut:
        """log p(x_i | the other points) of every point, from these draws alone (Pareto-smoothed importance sampling), with a sign of how far that can be trusted.

        >>> import maitre as mt
        >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], mt.families.NormalInverseGamma(), draws=200, burn_in=50, chains=2, seed=0, progress=False)
        >>> posterior.leave_one_out().log_density.shape
        (4,)
        """
        return leave_one_out(self, max_draws)

    def certainty(self, reference: Ints | None = None, max_draws: int = 200) -> Floats:
        """For each point the share of its mates in a partition (by default the point estimate) that sit with it, averaged over draws; for one without mates, how often it is alone."""
        return certainty(self, self._reference(reference), max_draws)

    def affinities(self, reference: Ints | None = None, max_draws: int = 200) -> Floats:
        """(n, clusters): the share of each cluster of a partition (by default the point estimate) that sits with the point, averaged over draws; its own cluster without itself."""
        return affinities(self, self._reference(reference), max_draws)

    def stability(self, reference: Ints | None = None, max_draws: int = 200) -> Floats:
        """For each cluster of a partition (by default the point estimate) its Jaccard overlap with the nearest cluster of a draw, averaged over draws: 1 if it is always there as it is."""
        return stability(self, self._reference(reference), max_draws)

    def _reference(self, labels: Ints | None) -> Ints:
        return self.point_estimate() if labels is None else np.asarray(labels, dtype=np.int64)

    def clusters(self, level: float = 0.95, max_draws: int = 200) -> Any:
        """A table with a row for each cluster of the point estimate, the largest first: size, share, certainty, stability, its most typical point, and what its columns are like,
        numbers with an interval that holds a share `level` of the draws.

        >>> import maitre as mt
        >>> posterior = mt.sample([[0.0], [0.1], [0.2], [0.3], [9.0], [9.1], [9.2], [9.3]], draws=50, burn_in=50, chains=1, seed=0, progress=False)
        >>> posterior.clusters()["size"].tolist()
        [4, 4]
        """
        return clusters(self, level, max_draws)

    def assignments(self, max_draws: int = 200) -> Any:
        """A table with a row for each point: its cluster in the point estimate, how sure that is, the cluster it would be in otherwise, and how much of that sits with it.

        >>> import maitre as mt
        >>> posterior = mt.sample([[0.0], [0.1], [0.2], [0.3], [9.0], [9.1], [9.2], [9.3]], draws=50, burn_in=50, chains=1, seed=0, progress=False)
        >>> posterior.assignments()["cluster"].tolist()
        [0, 0, 0, 0, 1, 1, 1, 1]
        """
        return assignments(self, max_draws)

    def similarity(self, max_draws: int = 200, points: Any = None) -> Floats:
        """(n, n): how often two points share a cluster; of more than 20,000 points, only for some of them (`points`), such as `typical_points(2000)`.

        >>> import maitre as mt
        >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], draws=50, burn_in=50, chains=1, seed=0, progress=False)
        >>> posterior.similarity().shape
        (4, 4)
        """
        return similarity(self, max_draws, points)

    def typical_points(self, at_most: int) -> Ints:
        """At most so many points in an order for display: cluster by cluster of the point estimate, the largest first, and within a cluster the surest first."""
        return in_order(self.point_estimate(), self.certainty(), whole_number("at_most", at_most, least=1))

    def without_first(self, n: int) -> Posterior:
        """The posterior without the first n draws of each chain, as if they had been burn-in; it cannot be resumed, the whole one can."""
        burn_in = int(self.settings.get("burn_in") or 0) + n * int(self.settings.get("thin") or 1)
        kept = {name: np.asarray(values[:, n:]) for name, values in self.draws.items()}
        settings = self.settings | {"burn_in": burn_in, "draws": self.log_joint.shape[1] - n}
        return replace(self, draws=kept, settings=settings, checkpoints=[], later={}, chain_settings={}, folder=None, found={})

    def to_arviz(self) -> Any:
        """ArviZ's `InferenceData` with the number of clusters, sampled hyper-parameters and, in `sample_stats`, the log joint as `lp`: pip install 'maitre[arviz]'.

        >>> import maitre as mt
        >>> posterior = mt.sample([[0.0], [0.1], [5.0], [5.1]], draws=20, burn_in=20, chains=2, progress=False)
        >>> data = posterior.to_arviz()                                          # doctest: +SKIP
        """
        return as_arviz(self)

    def impute(self, new: Any = None, level: float = 0.95, max_draws: int = 50) -> Any:
        """A table with a row for each missing cell of the data, or of `new` rows with gaps: the expected number or the most probable value, with its probability or an
        interval of this level. So some columns are predicted from the others. Needs a family that
        takes gaps: `HierarchicalNormalInverseWishart` or a `Product`.

        >>> import maitre as mt, numpy as np
        >>> x = [[0.0, 1.0], [0.1, 1.1], [0.2, 0.9], [9.0, 5.0], [9.1, np.nan], [9.2, 5.1]]
        >>> posterior = mt.sample(x, draws=50, burn_in=50, chains=1, progress=False)
        >>> posterior.impute()[["row", "column"]].values.tolist()
        [[4, 'column 1']]
        """
        return imputed(self, new, level, max_draws)

    def state_at(self, chain: int, draw: int) -> State:
        """The state of one draw, with everything that follows from it."""
        return self.state.of_variables(self.model, {name: values[chain, draw] for name, values in self.draws.items()})

    def save(self, path: str | Path, store_data: bool = True) -> None:
        """Write everything to a folder that `maitre.load` reads and `maitre.resume` goes on with."""
        target = Path(path)
        if target.exists() and not (target / COMMIT).is_file():
            raise ValueError(f"{str(path)!r} exists and is not a saved result: give another name")
        save(self, target, store_data)

    def story(self) -> str:
        """In a sentence or two: the partition reported, how many clusters there are in the draws, and where these do not agree, why."""
        return story(self)

    def summary(self) -> str:
        """A few lines to read: the clusters to report, the posterior of K, whether the chains agree."""
        chains, draws = self.log_joint.shape
        lines = [f"{counted(self.model.n, 'point')}, {counted(chains, 'chain')} × {counted(draws, 'draw')}"]
        lines.extend([f"family: {self.model.family.in_one_line()}", *([self.model.choice] if self.model.choice else [])])
        lines.extend([f"prior: {self.model.prior.in_one_line()}", self.story(), self.verdict().sentence])
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
