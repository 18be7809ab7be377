"""Inexact inference for Dirichlet-process mixtures: what papers compare exact samplers with, and sometimes all that there is time for.

None of these draws from the posterior, however long it runs, and every result says so (`exact` is false). For draws use `maitre.sample`.
"""

from maitre.approximate.groups import collapsed_variational_topics, synchronous_groups
from maitre.approximate.methods import collapsed_variational, smc, synchronous, variational
from maitre.approximate.rankings import mallows_kernel, plackett_luce_em

__all__ = [
    "collapsed_variational",
    "collapsed_variational_topics",
    "mallows_kernel",
    "plackett_luce_em",
    "smc",
    "synchronous",
    "synchronous_groups",
    "variational",
]
