"""Verify a family, a prior or a move of your own by the tests that maitre's own must pass.

>>> import maitre as mt, maitre.testing
>>> maitre.testing.check_prior(mt.priors.DirichletProcess(1.3))

- `check_family(MyFamily)`: identities of the statistics, exactness of Gibbs by its transition matrix, agreement of compiled and plain code, parameters against
  the marginal; raises `AssertionError` with the identity that failed.
- `check_prior(prior)`: probabilities sum to one over all partitions and are consistent when a point is left out.
- `enumerate_posterior`, `transition_matrix`, `assert_invariant`: the exact posterior of a few points, and a move's exact matrix on it.
- `enumerate_links`: the same for a distance-dependent prior, over every way to link the points.
- `compare_with_enumeration`, `geweke`: tests by simulation for moves with continuous draws.
"""

from maitre.testing.contract import check_family, check_prior
from maitre.testing.enumeration import EnumeratedPosterior, compare_with_enumeration, enumerate_posterior
from maitre.testing.geweke import geweke
from maitre.testing.links import EnumeratedLinks, enumerate_links
from maitre.testing.transitions import assert_invariant, follow_branches, transition_matrix

__all__ = [
    "EnumeratedLinks",
    "EnumeratedPosterior",
    "assert_invariant",
    "check_family",
    "check_prior",
    "compare_with_enumeration",
    "enumerate_links",
    "enumerate_posterior",
    "follow_branches",
    "geweke",
    "transition_matrix",
]
