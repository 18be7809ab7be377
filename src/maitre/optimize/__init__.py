"""Searching for the most probable partition: best-first and level-by-level beam search, refinement, annealing. Not Markov chains, so not moves: nothing here samples."""
