"""Utility weights and noise directions of each mode, from the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

SINGULAR_VECTORS = "singular_vectors"
# Largest utility: its square is the weight of an error.
_LARGEST = 1e50


def array_of(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """A parameter as an array of numbers."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers.") from error


def check_utility(
    utility: Any, size: int, name: str = "utility"
) -> NDArray[np.float64] | None:
    """Check the utility of one mode.

    Returns
    -------
    utility : ndarray of shape (size,) or (n_outputs, size), or None
    """
    if utility is None:
        return None
    utility = array_of(utility, name)
    if utility.ndim not in (1, 2) or utility.shape[-1] != size:
        raise ValueError(
            f"{name} must have {size} entries or {size} columns, one for each index of "
            f"the mode, got an array of shape {utility.shape}."
        )
    if not np.all(np.isfinite(utility)):
        raise ValueError(f"{name} must be finite.")
    if utility.ndim == 1 and np.any(utility < 0):
        raise ValueError(f"{name} must not have negative weights.")
    if not np.any(utility):
        raise ValueError(f"{name} must not be zero everywhere.")
    if not 1 / _LARGEST <= np.abs(utility).max() <= _LARGEST:
        raise ValueError(
            f"The largest absolute value in {name} must be from {1 / _LARGEST:g} to "
            f"{_LARGEST:g}."
        )
    return utility


def check_directions(
    directions: ArrayLike | None,
    utility: NDArray[np.float64] | None,
    size: int,
    name: str = "directions",
) -> NDArray[np.float64] | None:
    """Check or compute the noise directions of one mode.

    Parameters
    ----------
    directions : array-like of shape (size, size), "singular_vectors" or None
    utility : ndarray or None
        As `check_utility` returns it. "singular_vectors" takes its right singular
        vectors.
    size : int
        Size of the mode.
    name : str, default="directions"
        Name for messages.

    Returns
    -------
    directions : ndarray of shape (size, size) or None
        An orthogonal matrix whose columns are the directions; None for the axes.
    """
    if directions is None:
        return None
    if isinstance(directions, str):
        if directions != SINGULAR_VECTORS:
            raise ValueError(
                f"{name} must be an array, None or {SINGULAR_VECTORS!r}, got "
                f"{directions!r}."
            )
        if utility is None or utility.ndim == 1:
            return None
        return np.linalg.svd(utility)[2].T
    matrix = array_of(directions, name)
    if matrix.shape != (size, size):
        raise ValueError(f"{name} must have shape {(size, size)}, got {matrix.shape}.")
    if not np.allclose(matrix.T @ matrix, np.eye(size), rtol=0, atol=1e-6):
        raise ValueError(f"{name} must be an orthogonal matrix.")
    # Two Newton steps make the matrix orthogonal to working precision.
    for _ in range(2):
        matrix = 1.5 * matrix - 0.5 * matrix @ (matrix.T @ matrix)
    return matrix


def mode_weights(
    utility: NDArray[np.float64] | None,
    directions: NDArray[np.float64] | None,
    size: int,
) -> NDArray[np.float64]:
    """Cost of a squared error along each direction: P_i = sum_j (W W_U)_ji^2.

    Yang et al. (2021), Equation 23. A utility vector stands for a diagonal matrix.
    """
    if utility is None:
        return np.ones(size)
    if utility.ndim == 1:
        if directions is None:
            return utility**2
        utility = np.diag(utility)
    if directions is not None:
        utility = utility @ directions
    return np.square(utility).sum(axis=0)
