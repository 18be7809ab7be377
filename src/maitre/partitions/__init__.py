"""Partitions: canonical labels, their enumeration, and distances between them."""

from maitre.partitions.distances import adjusted_rand, binder, mutual_information, pairwise_f1, rand, variation_of_information
from maitre.partitions.enumeration import all_partitions
from maitre.partitions.labels import canonical

__all__ = ["adjusted_rand", "all_partitions", "binder", "canonical", "mutual_information", "pairwise_f1", "rand", "variation_of_information"]
