"""A model: data × family × prior with every field filled in. Names become objects here, and data are validated and encoded here, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

import numpy as np

from maitre.data.blocks import ArrayBlocks, PickedBlocks
from maitre.data.columns import Column, TypedRows, columns_of, with_types
from maitre.data.rows import BlockRows, Rows, as_data
from maitre.families import LATENT, RANKINGS
from maitre.families import REGISTRY as FAMILIES
from maitre.families.auto import choose_family, family_of_types, with_sampled_scale
from maitre.families.base import Family
from maitre.families.rankings import RankingFamily
from maitre.numerics.arrays import Ints
from maitre.priors import REGISTRY as PRIORS
from maitre.priors.base import GibbsTypePrior, Prior
from maitre.priors.dirichlet_process import DirichletProcess

POOL = 65_536
_LEAST_POOL, _NUMBERS_IN_POOL = 16_384, 1 << 19
_WORTHWHILE, _MANY = 1 << 27, 1 << 19  # bytes of encoded points, or points of a named family, from which on an array is encoded in blocks, in every pass


class Starts:
    """Where chains of a model may start (`maitre.chains.climbs`), once that has been found; the lock is for chains that begin at the same time."""

    def __init__(self) -> None:
        self.found: Any = None
        self.lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"found": self.found}

    def __setstate__(self, values: dict[str, Any]) -> None:
        self.found, self.lock = values["found"], Lock()


@dataclass(frozen=True)
class Model:
    """Encoded data, a family with every field filled in, and a prior; their hyper-parameters are numbers or priors."""

    family: Family
    prior: Prior
    encoded: Any
    n: int
    data: Rows | None = None
    valid: Any = None  # the data as the family's `validate` gave them
    given: Family | None = None  # the family before its open fields were filled in
    pool: Ints | None = None  # of data that stay where they are, the points that `encoded` holds
    choice: str = ""  # why this family, if it was chosen for these data
    starts: Starts = field(default_factory=Starts, init=False, repr=False, compare=False)  # found once, for all chains

    @classmethod
    def of(
        cls,
        data: Any,
        family: Family | str | None = None,
        prior: Prior | str | None = None,
        given: Family | None = None,
        on_disk: bool = False,
        types: Mapping[Any, str] | None = None,
    ) -> Model:
        """Validate and encode the data, and fill in the family's defaults; a model is what it is. `on_disk`: data that are there may stay there, and large arrays too.

        Where no family is given it is decided for each column what it is; `types` says so instead (`maitre.data.columns`).
        """
        if isinstance(data, Model):
            return data
        named = not is_open(family)
        rows = with_types(rows_of(data, family), types, decide=not named)
        family = as_family(family, rows) if named else family_of_types(rows)
        prior = as_prior(prior)
        prior.check_size(rows.n)
        prior = prior.for_points(rows.n)
        streaming = on_disk and family.STREAMS and isinstance(prior, DirichletProcess)
        if isinstance(rows, BlockRows) and not streaming:
            rows = rows.in_memory()
        without_gaps = streaming and _without_gaps(rows.raw)
        valid = family.validate(ArrayBlocks(rows.raw) if without_gaps else rows.raw)
        filled = family.with_defaults(valid)
        left = isinstance(rows, BlockRows) or (without_gaps and _better_left(rows, family, named))
        pool = pool_of(rows.n, rows.n_columns) if left else None
        encoded = filled.at_prior_means().encode(valid if pool is None else PickedBlocks(valid, pool))
        return cls(filled, prior, encoded, rows.n, rows, valid, family if given is None else given, pool)

    @property
    def columns(self) -> tuple[Column, ...]:
        """What each column of the data was taken for; empty where there was nothing to decide."""
        return columns_of(self.data)

    def log_jacobian(self, new: Any) -> Any:
        """What to add to the log density of new rows where the model sees logarithms of columns."""
        assert self.data is not None
        return self.data.alike(new).log_jacobian() if isinstance(self.data, TypedRows) and any(c.kind == "log" for c in self.columns) else 0.0

    @property
    def in_memory(self) -> bool:
        """Whether `encoded` holds all points; otherwise they are read block by block (`points_between`)."""
        return self.pool is None

    @property
    def on_disk(self) -> bool:
        """Whether points have to be read from a file."""
        return isinstance(self.data, BlockRows)

    def points_between(self, begin: int, end: int) -> Any:
        """Encoded points of data that stay where they are."""
        return self._at_prior_means.encode_block(self.valid[begin:end])

    @cached_property
    def _at_prior_means(self) -> Family:
        return self.family.at_prior_means()

    def because(self, choice: str) -> Model:
        """The same model, with the reason why it was chosen."""
        other = replace(self, choice=choice)
        other.starts.found = self.starts.found
        return other

    @property
    def exchangeable(self) -> Model:
        """The same model, under a Dirichlet process if its prior is not of Gibbs type; starts are found once for both."""
        if isinstance(self.prior, GibbsTypePrior):
            return self
        other = replace(self, prior=DirichletProcess())
        object.__setattr__(other, "starts", self.starts)
        return other

    def restricted(self, points: Ints, family: Family, prior: Prior) -> Model:
        """Some of the points, in memory, under a family and prior of their own."""
        if points is self.pool:
            return Model(family, prior, self.encoded, len(points))
        if not self.in_memory:
            return Model(family, prior, self._at_prior_means.encode(self.valid[points]), len(points))
        return Model(family, prior, self.family.selected(self.encoded, points), len(points))

    @cached_property
    def vectors(self) -> Any:
        """The data as a matrix with a row per point, dense or sparse, for methods that work with directions and distances."""
        return self.family.vectors(self.valid, self.encoded)

    def encoded_alike(self, new: Any) -> tuple[Any, int]:
        """New rows in the form the kernels read, and how many there are."""
        assert self.data is not None
        rows = self.data.alike(new)
        return self.family.at_prior_means().encode(self.family.validate(rows.raw)), rows.n


def _without_gaps(array: Any) -> bool:
    """Whether the data are an array of numbers without gaps."""
    return isinstance(array, np.ndarray) and array.ndim <= 2 and array.size > 0 and array.dtype.kind in "fiu" and not np.isnan(array.min())


def _better_left(rows: Rows, family: Family, named: bool) -> bool:
    """Whether an encoded copy of the data would be large. Where the family is still to be chosen the choice looks at one, unless it would be very large."""
    return rows.n * (8 * rows.n_columns + family.EXTRA_BYTES) >= _WORTHWHILE or (named and rows.n >= _MANY)


@lru_cache(maxsize=4)
def pool_of(n: int, n_columns: int = 1) -> Ints:
    """A choice of points that depends on the size of the data alone: all, or about 65,536, and fewer of many columns."""
    size = min(POOL, max(_LEAST_POOL, _NUMBERS_IN_POOL // max(1, n_columns)))
    return np.arange(n) if n <= size else np.unique(np.random.default_rng(n).integers(0, n, size))


def rows_of(data: Any, family: Family | str | None) -> Rows:
    """What a user gave, as rows: rankings if the family is one of rankings."""
    kind = RANKINGS.get(family) if isinstance(family, str) else type(family) if isinstance(family, RankingFamily) else None
    return as_data(data) if kind is None else (family if isinstance(family, RankingFamily) else kind()).rows(data)  # type: ignore[attr-defined]


def is_open(family: Any) -> bool:
    """Whether the family is to be chosen."""
    return family is None or (isinstance(family, str) and family == "auto")


def as_family(family: Family | str | None, data: Rows) -> Family:
    """A family from an object, a name (a Gaussian one with its scale sampled), or the data."""
    if isinstance(family, Family):
        return family
    if is_open(family):
        return choose_family(data)
    if isinstance(family, str) and family in RANKINGS | LATENT:
        return (RANKINGS | LATENT)[family]()
    if isinstance(family, str) and family in FAMILIES and family != "Product":
        return with_sampled_scale(FAMILIES[family]())
    raise ValueError(
        f"unknown family {family!r}; expected 'auto', one of {', '.join(name for name in [*FAMILIES, *LATENT] if name != 'Product')}, or an object such as mt.families.NormalInverseGamma()"
    )


def as_prior(prior: Prior | str | None) -> Prior:
    """A prior from an object or a name; the default is a Dirichlet process with a sampled concentration."""
    if isinstance(prior, Prior):
        return prior
    if prior is None:
        return DirichletProcess()
    if isinstance(prior, str) and prior in PRIORS:
        return PRIORS[prior]()
    if isinstance(prior, str) and prior == "DistanceDependent":
        raise ValueError("DistanceDependent needs distances: give an object such as mt.priors.DistanceDependent.neighbours(coordinates, k=10)")
    raise ValueError(f"unknown prior {prior!r}; expected one of {', '.join(PRIORS)}, or an object such as mt.priors.DirichletProcess(1.0)")
