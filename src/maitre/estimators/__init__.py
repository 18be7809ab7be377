"""scikit-learn faces of the samplers."""

from maitre.estimators.mixture import DPMixture
from maitre.estimators.spatial import DistanceDependentMixture

__all__ = ["DPMixture", "DistanceDependentMixture"]
