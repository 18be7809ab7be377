"""Covariance matrices: reading them from a number, a vector or a matrix; a common basis of two; Cholesky factors and their rank-one updates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import linalg

from maitre.numerics.arguments import real_numbers
from maitre.numerics.arrays import Floats, accumulate_row, fetch
from maitre.numerics.compilation import compiled, compiled_apart

_LEAST, _MOST = 1e-300, 1e300
_TOGETHER = 1024  # numbers


def as_covariance(value: Any, n_dimensions: int, name: str) -> Floats:
    """A positive definite D×D matrix from a number (times the identity), a vector (the diagonal) or a matrix."""
    array = real_numbers(name, value)
    if array.ndim < 2:
        array = np.diag(np.broadcast_to(array, (n_dimensions,)) if array.size in (1, n_dimensions) else array.ravel())
    if array.shape != (n_dimensions, n_dimensions):
        raise ValueError(
            f"{name} has shape {np.shape(value)}; the data have {n_dimensions} columns: give a number, {n_dimensions} variances or a {n_dimensions}×{n_dimensions} matrix"
        )
    if not np.allclose(array, array.T, rtol=1e-8, atol=1e-12 * float(np.abs(array).max())):
        raise ValueError(f"{name} must be a symmetric matrix")
    smallest = float(np.linalg.eigvalsh(array)[0])
    if smallest > 0.0 and not (smallest > _LEAST and float(np.abs(array).max()) < _MOST):
        raise ValueError(
            f"{name} has variances between {smallest:.3g} and {float(np.abs(array).max()):.3g}; expected them within {_LEAST:g} and {_MOST:g}: rescale the columns"
        )
    if smallest <= 0.0:
        raise ValueError(f"{name} is not positive definite (smallest eigenvalue {smallest:.3g}): add a small number to its diagonal")
    return array


def wishart_root(freedom: Floats, n_dimensions: int, rng: np.random.Generator) -> Floats:
    """Lower triangular matrices A, one for each number of degrees of freedom, with A Aᵀ ~ Wishart(freedom, I) (Bartlett's decomposition)."""
    root = np.tril(rng.standard_normal((len(freedom), n_dimensions, n_dimensions)), -1)
    diagonal = np.arange(n_dimensions)
    root[:, diagonal, diagonal] = np.sqrt(2.0 * rng.standard_gamma(0.5 * (np.asarray(freedom)[:, None] - diagonal)))
    return root


def relative_basis(covariance: Floats, prior: Floats) -> tuple[Floats, Floats, float]:
    """A matrix T with T Σ Tᵀ = I and T S Tᵀ diagonal; that diagonal; and log |det T|."""
    whiten = linalg.solve_triangular(np.linalg.cholesky(covariance), np.eye(len(covariance)), lower=True)
    relative = whiten @ prior @ whiten.T
    if np.allclose(relative, np.diag(np.diag(relative)), rtol=0.0, atol=1e-13 * float(np.abs(relative).max())):
        return whiten, np.diag(relative).copy(), float(np.sum(np.log(np.diag(whiten))))
    variances, rotation = np.linalg.eigh((relative + relative.T) / 2.0)
    return rotation.T @ whiten, variances, float(np.sum(np.log(np.diag(whiten))))


@compiled_apart
def transform_rows(x: Floats, mean: Floats, transform: Floats, out: Floats) -> float:
    """out[i] = (x[i] − mean) @ transform, each row by itself; the largest size of a number."""
    n_dimensions, largest = x.shape[1], 0.0
    for i in range(len(x)):
        for d in range(n_dimensions):
            out[i, d] = 0.0
        for e in range(n_dimensions):
            gap = x[i, e] - mean[e]
            for d in range(n_dimensions):
                accumulate_row(out, i, d, gap * fetch(transform, e, d))
        for d in range(n_dimensions):
            largest = max(largest, abs(out[i, d]))
    return largest


@compiled_apart
def scale_rows(x: Floats, mean: Floats, scale: Floats, out: Floats) -> float:
    """out[i] = (x[i] − mean) · scale, number by number; the largest size of one. Of few columns, many rows at once."""
    n_dimensions = x.shape[1]
    width = n_dimensions * max(1, _TOGETHER // n_dimensions)
    shift, factor, largest = np.empty(width), np.empty(width), np.zeros(width)
    for j in range(width):
        shift[j], factor[j] = mean[j % n_dimensions], scale[j % n_dimensions]
    given, made = x.reshape(-1), out.reshape(-1)
    for begin in range(0, len(given), width):
        source, target = given[begin : begin + width], made[begin : begin + width]
        for j in range(len(source)):
            value = (source[j] - shift[j]) * factor[j]
            target[j] = value
            largest[j] = max(largest[j], abs(value))
    return float(largest.max())


@compiled
def cholesky_update(factor: Floats, k: int, vector: Floats, sign: float) -> bool:
    """L[:, :, k] becomes the Cholesky factor of L Lᵀ + sign·v vᵀ (v is overwritten); False, with L spoilt, if that is not positive definite."""
    n_dimensions = len(vector)
    for j in range(n_dimensions):
        diagonal = factor[j, j, k]
        square = diagonal * diagonal + sign * vector[j] * vector[j]
        if square <= 1e-10 * diagonal * diagonal:
            return False
        root = math.sqrt(square)
        c = root / diagonal
        s = vector[j] / diagonal
        inverse = 1.0 / c
        factor[j, j, k] = root
        for i in range(j + 1, n_dimensions):
            value = (factor[i, j, k] + sign * s * vector[i]) * inverse
            vector[i] = c * vector[i] - s * value
            factor[i, j, k] = value
    return True


@compiled
def cholesky_in_place(matrix: Floats) -> bool:
    """The lower triangle of `matrix` becomes its Cholesky factor; False if the matrix is not positive definite."""
    n_dimensions = matrix.shape[0]
    for j in range(n_dimensions):
        for i in range(j, n_dimensions):
            value = matrix[i, j]
            for m in range(j):
                value -= matrix[i, m] * matrix[j, m]
            if i == j:
                if value <= 0.0:
                    return False
                matrix[j, j] = math.sqrt(value)
            else:
                matrix[i, j] = value / matrix[j, j]
    return True
