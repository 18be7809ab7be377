"""How to sample: one owner of the parameters that `mt.sample`, the estimators and the command have in common, with their defaults and bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maitre.numerics.arguments import as_seed, number, whole_number
from maitre.partitions.labels import canonical

_MOST_CHAINS = 10_000
_POINTS = (150, 350, 1_800, 5_000, 10_000)
_DRAWS = (1000, 430, 170, 30, 15)  # a few seconds for each
_DRAWS_OF_CLEAR_CLUSTERS = (1000, 430, 170, 10, 10)  # which hardly differ from draw to draw
_LEAST_BURN_IN, _MOST_BURN_IN = 10, 400  # chains start from good places
_LEAST_BURN_IN_OF_CLEAR_CLUSTERS = 7  # in which little has to settle but hyper-parameters


@dataclass(frozen=True)
class Settings:
    """Moves, how many draws of how many chains, and where these start. `draws` and `burn_in` left None follow from the number of points."""

    moves: Any = "auto"
    draws: int | None = None
    burn_in: int | None = None
    thin: int = 1
    chains: int = 4
    seed: Any = 0
    init: Any = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", as_seed(self.seed))
        for name, least, most in _COUNTS:
            if getattr(self, name) is not None or name not in ("draws", "burn_in"):
                object.__setattr__(self, name, whole_number(name, getattr(self, name), least, most))

    def filled(self, n: int, clear: bool = False) -> Settings:
        """With numbers of draws for n points, and half as many before, between 10 and 400; fewer of many points if their clusters are `clear`.

        >>> [(Settings().filled(n).draws, Settings().filled(n).burn_in) for n in (2, 350, 1000, 5000, 10**6)]
        [(1000, 400), (430, 215), (237, 118), (30, 15), (15, 10)]
        >>> [(Settings().filled(n, True).draws, Settings().filled(n, True).burn_in) for n in (350, 3000, 10**6)]
        [(430, 215), (41, 20), (10, 7)]
        """
        usual = round(float(np.exp(np.interp(np.log(n), np.log(_POINTS), np.log(_DRAWS_OF_CLEAR_CLUSTERS if clear else _DRAWS)))))
        burn_in = int(np.clip(usual // 2, _LEAST_BURN_IN_OF_CLEAR_CLUSTERS if clear else _LEAST_BURN_IN, _MOST_BURN_IN))
        return replace(self, draws=usual if self.draws is None else self.draws, burn_in=burn_in if self.burn_in is None else self.burn_in)

    @property
    def n_iterations(self) -> int:
        """Of each chain."""
        return int(self.burn_in or 0) + int(self.draws or 0) * self.thin

    def draws_at(self, iteration: int) -> int:
        """How many draws a chain has made after so many iterations."""
        return max(0, iteration - int(self.burn_in or 0)) // self.thin

    def public(self) -> dict[str, Any]:
        """For people to read, as JSON."""
        return {
            "draws": self.draws,
            "burn_in": self.burn_in,
            "thin": self.thin,
            "chains": self.chains,
            "seed": self.seed,
            "init": self.init if isinstance(self.init, str) else "labels of each chain" if np.ndim(self.init) == 2 else "given labels",
            "moves": str(self.moves),
        }

    def stored(self) -> dict[str, Any]:
        """In the form that a run folder keeps."""
        moves = list(self.moves) if isinstance(self.moves, (list, tuple)) else self.moves
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "moves": moves,
            "init": self.init
            if isinstance(self.init, str)
            else np.array([canonical(labels) for labels in self.init])
            if np.ndim(self.init) == 2
            else canonical(self.init),
        }

    def init_of(self, chain: int) -> Any:
        """Where a chain starts: labels may have a row for each chain."""
        return self.init if isinstance(self.init, str) or np.ndim(self.init) != 2 else self.init[chain]


_COUNTS = (
    ("draws", 1, 10**12),
    ("burn_in", 0, 10**12),
    ("thin", 1, 10**9),
    ("chains", 1, _MOST_CHAINS),
)


def seconds(value: Any) -> float | None:
    """A time budget."""
    return None if value is None else number("time_budget", value, above=0)
