"""Compiled leaves: random numbers, discrete draws, vectorised exponentials and logarithms, Cholesky updates."""
