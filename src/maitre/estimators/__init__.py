"""scikit-learn faces of the samplers."""

from maitre.estimators.mixture import DPMixture

__all__ = ["DPMixture"]
