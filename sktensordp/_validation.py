"""Checks of what callers pass; no message shows a value of the data."""

import math
import re
import warnings
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

__all__ = [
    "as_numpy",
    "check_bounds",
    "check_columns",
    "check_coordinates",
    "check_level_prior",
    "check_levels",
    "check_modes",
    "check_numeric",
    "check_shape",
    "check_unmasked",
    "checked",
    "is_complex",
    "range_of",
    "warn_of_two_levels",
]

_LARGEST_INDEX = 2**31 - 1
_COMPLEX = complex, np.complexfloating
_TIMES = np.datetime64, np.timedelta64
# Names of columns that hold values.
_VALUES = ("rating", "score", "value")
# Of values: fourth powers of their range are numbers.
_FARTHEST = 1e50


def check_columns(X: Any) -> None:
    """Refuse a data frame that holds the values beside the coordinates."""
    for name in getattr(X, "columns", ()):
        if isinstance(name, str) and name.strip().lower() in _VALUES:
            raise ValueError(
                f"X has a column {name!r}, which would become a mode of the tensor. "
                f"Pass the values as y: fit(X.drop(columns=[{name!r}]), X[{name!r}]). "
                f"If it holds ids, rename it."
            )


def check_coordinates(
    X: NDArray[Any],
    *,
    shape: tuple[int, ...] | None = None,
    allow_unknown: bool = False,
    name: str = "estimator",
) -> NDArray[np.int32]:
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
    # Not compared as float16, which does not reach so far.
    if X.size and float(X.max()) >= _LARGEST_INDEX:
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


def check_numeric(values: Any, name: str) -> None:
    """Refuse what are not numbers; messages of NumPy and others would quote them."""
    if issparse(values):
        raise TypeError(f"Sparse data was passed as {name}; dense data is required.")
    check_unmasked(values, name)
    values = as_numpy(values, name)
    numeric, reason = values.dtype.kind in "biuf", None
    found_complex = is_complex(values)
    known = not found_complex and not _has_any(values, _TIMES)
    if values.dtype.kind in "OSU" and known:
        try:
            values.astype(float)
            numeric = True
        except TypeError as error:
            # It names a type.
            reason = str(error)
        except (OverflowError, ValueError):
            pass
    # Raised outside of the handler, which would keep that message as its context.
    if found_complex:
        raise ValueError(f"Complex data not supported: {name} must hold real numbers.")
    if reason:
        raise TypeError(f"{name} must hold numbers: {reason}.")
    if not numeric:
        raise ValueError(f"{name} must hold numbers.")


def as_numpy(values: Any, name: str) -> NDArray[Any]:
    """An array; what other libraries hold elsewhere cannot be read."""
    if isinstance(values, np.ndarray) or not hasattr(values, "__array_namespace__"):
        return np.asarray(values)
    try:
        found = np.asarray(values)
        readable = found.dtype != object
    except Exception:
        readable = False
    if not readable:
        library = type(values).__module__.split(".")[0]
        raise TypeError(
            f"{name} is an array of {library}, which NumPy cannot read. Convert it to "
            f"a NumPy array first."
        )
    return found


def is_complex(values: NDArray[Any]) -> bool:
    """Whether an array holds complex numbers, also as objects."""
    return values.dtype.kind == "c" or _has_any(values, _COMPLEX)


def _has_any(values: NDArray[Any], types: tuple[type, ...]) -> bool:
    """Whether an array of objects holds one of some types, which pass for floats."""
    if values.dtype != object:
        return False
    return any(issubclass(found, types) for found in set(map(type, values.flat)))


def checked(check: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What one of scikit-learn's checks returns; it neither warns nor quotes data."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            return check(*arguments, **options)
        except ValueError as error:
            message = str(error)
    # Raised outside of the handler, as above.
    quoted = r"(?s)\narray=.*?(?=\nReshape)|(?<=^Complex data not supported)\n.*"
    # What scikit-learn advises instead are classifiers and trees.
    quoted += r"|(?<=contains NaN\.)\n.*"
    raise ValueError(re.sub(quoted, "", message))


def check_unmasked(values: Any, name: str) -> None:
    """Refuse masked entries: as an array, these are the numbers beneath the mask."""
    if _has_masked(values):
        advice = f"Leave those rows out of X and {name}."
        if name == "X":
            advice = (
                "Leave those rows out, or fill it: a tensor with NaN where nothing was "
                "observed is X.astype(float).filled(np.nan)."
            )
        raise ValueError(f"Some of {name} is masked. {advice}")


def _has_masked(values: Any) -> bool:
    if isinstance(values, np.ma.MaskedArray):
        return bool(np.ma.is_masked(values))
    parts = values.values() if isinstance(values, dict) else values
    nests = dict, list, tuple, np.ma.MaskedArray
    if not isinstance(parts, type({}.values()) | list | tuple):
        return False
    # Numbers are many, and of few types.
    if not any(issubclass(found, nests) for found in set(map(type, parts))):
        return False
    return any(map(_has_masked, parts))


def check_shape(shape: Iterable[int]) -> tuple[int, ...]:
    """Shape of a tensor: a tuple of at least two positive integers."""
    sizes = tuple(shape)
    known = (isinstance(n, Integral) and 1 <= n <= _LARGEST_INDEX for n in sizes)
    if len(sizes) < 2 or not all(known):
        raise ValueError(
            f"shape must hold at least two positive integers that a coordinate can "
            f"reach (below 2**31), got {shape!r}."
        )
    return tuple(int(n) for n in sizes)


def check_bounds(
    bounds: Iterable[float], name: str = "value_bounds"
) -> tuple[float, float]:
    """Public range of the values: a pair of finite numbers, low < high."""
    try:
        low, high = (float(b) for b in bounds)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a pair (low, high) of numbers.") from error
    if not (math.isfinite(high - low) and low < high):
        raise ValueError(f"{name} must be finite with low < high, got {bounds!r}.")
    _check_reach((low, high), name)
    return low, high


def warn_of_two_levels(levels: Any) -> None:
    """Warn where a range seems to have been passed as levels; no data are read."""
    if isinstance(levels, tuple) and len(levels) == 2 and levels[1] - levels[0] > 2:
        low, high = (f"{level:g}" for level in levels)
        warnings.warn(
            f"levels=({low}, {high}) rounds every value to {low} or {high}. For a "
            f"range, pass value_bounds=({low}, {high}). For two levels, pass "
            f"levels=[{low}, {high}].",
            UserWarning,
            stacklevel=5,
        )


def check_levels(levels: ArrayLike) -> tuple[float, ...]:
    """Public scale of the values: at least two finite numbers, strictly ascending."""
    scale = np.asarray(levels, dtype=float)
    if scale.ndim != 1 or scale.size < 2 or not np.all(np.isfinite(scale)):
        raise ValueError("levels must be a list of at least two finite numbers.")
    if np.any(np.diff(scale) <= 0):
        raise ValueError("levels must be strictly ascending.")
    _check_reach(scale, "levels")
    return tuple(scale.tolist())


def range_of(values: ArrayLike) -> tuple[float, float]:
    """Range of values whose own is not declared; a unit or more if all are equal."""
    low, high = float(np.min(values)), float(np.max(values))
    if not low < high:
        half = max(0.5, abs(low) * 2**-40)
        low, high = low - half, high + half
    _check_reach((low, high), "The values")
    return low, high


def _check_reach(numbers: ArrayLike, name: str) -> None:
    """Refuse numbers whose powers would overflow or vanish where models are fitted."""
    if np.max(np.abs(numbers)) > _FARTHEST or np.min(np.diff(numbers)) < 1 / _FARTHEST:
        raise ValueError(
            f"{name} must be within {_FARTHEST:g} and at least {1 / _FARTHEST:g} apart."
        )


def check_level_prior(level_prior: ArrayLike, n_levels: int) -> tuple[float, ...]:
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


def check_modes(
    modes: Iterable[int] | None, n_modes: int, name: str
) -> tuple[int, ...]:
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
