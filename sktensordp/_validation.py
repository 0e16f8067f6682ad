"""Checks of what callers pass; no message shows a value of the data."""

import math
from numbers import Integral

import numpy as np

__all__ = [
    "check_bounds",
    "check_coordinates",
    "check_level_prior",
    "check_levels",
    "check_modes",
    "check_numeric",
    "check_shape",
]

_LARGEST_INDEX = 2**31 - 1


def check_coordinates(X, *, shape=None, allow_unknown=False, name="estimator"):
    """Coordinates of tensor entries as 32-bit integers, one column after the other.

    Parameters
    ----------
    X : ndarray of shape (n_entries, n_modes)
        Integers, or floats that are integral.
    shape : tuple of int, default=None
        The tensor; coordinates outside it are refused.
    allow_unknown : bool, default=False
        Whether -1 may stand for an index that was never observed.
    name : str, default="estimator"
        Who asks, for the message.

    Returns
    -------
    coordinates : ndarray of shape (n_entries, n_modes), int32, in Fortran order

    Raises
    ------
    ValueError
        If a coordinate is fractional, negative or outside the tensor.
    """
    if X.dtype.kind not in "iub":
        if X.dtype.kind != "f":
            raise ValueError(
                f"Coordinates passed to {name} must be integers, got {X.dtype}."
            )
        if not all(np.array_equal(column, np.trunc(column)) for column in X.T):
            raise ValueError(
                f"Coordinates passed to {name} must be integers; some are fractional."
            )
    lowest = -1 if allow_unknown else 0
    if X.size and X.min() < lowest:
        hint = "; only -1 stands for an unknown index" if allow_unknown else ""
        raise ValueError(
            f"Negative values in data passed to {name}: coordinates start at 0{hint}."
        )
    if X.size and X.max() >= _LARGEST_INDEX:
        raise ValueError(f"Coordinates passed to {name} must be below 2**31 - 1.")
    coordinates = X.astype(np.int32, order="F")
    if shape is not None:
        if len(shape) != coordinates.shape[1]:
            raise ValueError(
                f"X has {coordinates.shape[1]} columns, but the tensor has "
                f"{len(shape)} modes."
            )
        for mode, size in enumerate(shape):
            if np.any(coordinates[:, mode] >= size):
                raise ValueError(
                    f"Some coordinates of mode {mode} are outside the tensor: "
                    f"they must be below {size}."
                )
    return coordinates


def check_numeric(values, name):
    """Refuse what are not numbers; messages of NumPy and others would quote them."""
    values = np.asarray(values)
    numeric = values.dtype.kind in "biuf"
    if values.dtype.kind in "OSU":
        try:
            values.astype(float)
            numeric = True
        except (TypeError, ValueError):
            pass
    # Raised outside of the handler, which would keep that message as its context.
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must hold real numbers.")
    if not numeric:
        raise ValueError(f"{name} must hold numbers.")


def check_shape(shape):
    """Shape of a tensor: a tuple of at least two positive integers."""
    sizes = tuple(shape)
    if len(sizes) < 2 or not all(isinstance(n, Integral) and n >= 1 for n in sizes):
        raise ValueError(
            f"shape must hold at least two positive integers, got {shape!r}."
        )
    return tuple(int(n) for n in sizes)


def check_bounds(bounds, name="value_bounds"):
    """Public range of the values: a pair of finite numbers, low < high."""
    try:
        low, high = (float(b) for b in bounds)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a pair (low, high) of numbers.") from error
    if not (math.isfinite(high - low) and low < high):
        raise ValueError(f"{name} must be finite with low < high, got {bounds!r}.")
    return low, high


def check_levels(levels):
    """Public scale of the values: at least two finite numbers, strictly ascending."""
    scale = np.asarray(levels, dtype=float)
    if scale.ndim != 1 or scale.size < 2 or not np.all(np.isfinite(scale)):
        raise ValueError("levels must be a list of at least two finite numbers.")
    if np.any(np.diff(scale) <= 0):
        raise ValueError("levels must be strictly ascending.")
    return tuple(scale.tolist())


def check_level_prior(level_prior, n_levels):
    """Public probabilities of the levels; they sum to one."""
    prior = np.asarray(level_prior, dtype=float)
    if prior.shape != (n_levels,):
        raise ValueError(
            f"level_prior must have one probability for each of the {n_levels} "
            f"levels, got an array of shape {prior.shape}."
        )
    if not np.all(prior >= 0) or not np.isclose(prior.sum(), 1.0, atol=1e-6):
        raise ValueError("level_prior must be non-negative and sum to one.")
    return tuple((prior / prior.sum()).tolist())


def check_modes(modes, n_modes, name):
    """Numbers of modes as a sorted tuple; negative ones count from the last."""
    found = set()
    for mode in [] if modes is None else modes:
        whole = isinstance(mode, Integral) and not isinstance(mode, bool)
        if not whole or not -n_modes <= mode < n_modes:
            raise ValueError(
                f"{name} must hold numbers of modes, from {-n_modes} to {n_modes - 1}."
            )
        found.add(int(mode) % n_modes)
    return tuple(sorted(found))
