"""scikit-learn faces of the samplers and the search."""

from maitre.estimators.mixture import DPMixture
from maitre.estimators.rankings import RankingMixture
from maitre.estimators.search import MAPSearch
from maitre.estimators.spatial import DistanceDependentMixture
from maitre.estimators.topics import HDPTopics

__all__ = ["DPMixture", "DistanceDependentMixture", "HDPTopics", "MAPSearch", "RankingMixture"]
