"""scikit-learn faces of the samplers and the search."""

from maitre.estimators.mixture import DPMixture
from maitre.estimators.search import MAPSearch

__all__ = ["DPMixture", "MAPSearch"]
