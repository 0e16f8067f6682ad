"""Sides of records, by a keyed hash of their ids: no record decides another's side.

A hash takes an id in one canonical form, which does not depend on the column: integers
are integers, whether they came as floats (as they do if one id of a column is missing)
or as text (as they do if one id of a file is no number); other text counts by its
bytes. The key needs no secrecy, since it ignores the data.
"""

import hashlib
import math
import re
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
# What an id is if there is none.
_MISSING = "missing"


def columns_of(X: Any) -> list[Any]:
    """The columns of an array or a frame with ids."""
    if hasattr(X, "iloc"):
        return [X.iloc[:, k] for k in range(X.shape[1])]
    array = X if hasattr(X, "to_numpy") else np.asarray(X)
    if np.ndim(array) != 2:
        raise ValueError("X must be 2-dimensional, with one column for each mode.")
    return [array[:, k] for k in range(array.shape[1])]


def hashes(columns: list[Any], key: int) -> NDArray[np.uint64]:
    """Uniform 64-bit numbers, one a row: functions of the key and the row's ids.

    Parameters
    ----------
    columns : list of array-like of shape (n_rows,)
        At least one.
    key : int
        At least 0.

    Returns
    -------
    numbers : ndarray of shape (n_rows,)
    """
    start = np.uint64(_digest(f"key {key}"))
    found = np.full(len(columns[0]), start, dtype=np.uint64)
    for column in columns:
        found = _mixed(found ^ _mixed(_words(column)))
    return found


def below(numbers: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    """Whether uniform 64-bit numbers are in the lowest `share`, in [0, 1)."""
    return numbers < np.uint64(min(int(share * 2.0**64), 2**64 - 1))


def parts(numbers: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """Numbers of the `n` equal parts of their range that uniform numbers are in."""
    return ((numbers >> np.uint64(32)) * np.uint64(n) >> np.uint64(32)).astype(np.int64)


def _words(column: Any) -> NDArray[np.uint64]:
    """One 64-bit number for each id: an integer itself, a digest of anything else."""
    array = np.asarray(column)
    if array.dtype.kind == "f":
        whole = np.isfinite(array) & (np.abs(array) < 2.0**53) & (array % 1 == 0)
        if np.all(whole):
            array = array.astype(np.int64)
    if array.dtype.kind == "M":
        # Times in nanoseconds, whatever the unit of the column.
        array = array.astype("datetime64[ns]").view(np.int64)
    if array.dtype.kind in "iu" and array.dtype != np.uint64:
        return array.astype(np.int64).view(np.uint64)
    # Each id is looked at once. Ids of several types cannot be sorted.
    values = array.tolist()
    of_value = {value: _word(value) for value in set(map(_as_key, values))}
    words = (of_value[_as_key(value)] for value in values)
    return np.fromiter(words, dtype=np.uint64, count=len(values))


def _as_key(value: Any) -> Any:
    """The id, or None for a missing one: NaN, and the missing values of pandas."""
    is_missing = type(value).__name__ in ("NAType", "NaTType") or (
        isinstance(value, float) and math.isnan(value)
    )
    return None if is_missing else value


def _word(value: Any) -> int:
    if value is None:
        return _digest(_MISSING)
    if isinstance(value, bytes):
        value = value.decode(errors="surrogateescape")
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value):
            return _digest(f"text {value}")
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, Integral) and -(2**63) <= int(value) < 2**63:
        return int(value) % 2**64
    return _digest(f"{type(value).__name__} {value}")


def _digest(text: str) -> int:
    data = text.encode(errors="surrogateescape")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijection that scatters 64-bit numbers (Steele, Lea and Flood 2014)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
