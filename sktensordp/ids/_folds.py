"""Sides of records by a keyed hash of their ids: no record decides another's side.

An id is hashed in a canonical form that follows from this id alone. The type of its
column does not matter, since a single other id can change it: a missing id turns
integers into floats, and an id that is not a number turns a whole file into text.

Equal ids have equal forms, however they are stored. The form of a number, or of its
text, is the nearest double, so 17, 17.0, "17" and "17.00" are one id. The form of a
time is the number of nanoseconds since 1970, in UTC if the time has a zone. Different
ids may share a form, as do large integers and fractions that a column of floats could
not tell apart. That is harmless, since a side still follows from one's own id.

The key needs no secrecy, since it ignores the data.
"""

import hashlib
import math
import re
from datetime import date, datetime, time, timedelta
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._validation import check_container, malformed, with_names

# Ids of these types have equal forms if they are equal as keys of a dictionary.
_PLAIN = {bool, bytes, float, int, str, type(None)}
# How NumPy, pandas and polars write booleans and missing values, in lower case.
_WRITTEN = {"true": 1.0, "false": 0.0}
_WRITTEN |= dict.fromkeys(("none", "null", "nat", "<na>"), math.nan)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?"
    r"(Z|[+-]\d\d:?\d\d(?::\d\d)?)?",
    re.ASCII,
)
# Attributes that decide whether pandas objects are equal.
_PARTS = {"Interval": ("left", "right", "closed"), "Period": ("ordinal", "freqstr")}
_START = date(1970, 1, 1).toordinal()
_DAY = 86_400 * 10**9
# Nanoseconds in the units of NumPy's times.
_UNITS = {"W": 7 * _DAY, "D": _DAY, "h": _DAY // 24, "m": _DAY // 1440, "s": 10**9}
_UNITS |= {"ms": 10**6, "us": 10**3, "ns": 1}


def columns_of(X: Any) -> list[Any]:
    """The columns of an array, a frame or a list of rows with ids."""
    check_container(X, "X")
    X = with_names(X)
    if hasattr(X, "iloc"):
        return [X.iloc[:, k] for k in range(X.shape[1])]
    array = X if hasattr(X, "to_numpy") else _as_array(X)
    if len(array.shape) != 2:
        raise malformed(
            "arrays",
            "X must be 2-dimensional, with one column for each mode."
            + " X, y = entries_from_sparse(X) makes such an X." * issparse(X),
        )
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
    """Whether uniform 64-bit numbers are in the lowest `share` < 1 of their range."""
    return numbers < np.uint64(min(int(share * 2.0**64), 2**64 - 1))


def parts(numbers: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """Which of the `n` equal parts of their range each uniform number is in."""
    return ((numbers >> np.uint64(32)) * np.uint64(n) >> np.uint64(32)).astype(np.int64)


def _as_array(values: object) -> NDArray[Any]:
    """An array; a list keeps its objects, since a common type would change some."""
    return np.asarray(values, dtype=None if hasattr(values, "__array__") else object)


def _words(column: Any) -> NDArray[np.uint64]:
    """The canonical form of each id, as a 64-bit number.

    Columns of numbers or times get the same doubles as from `_form`, only faster.
    """
    if str(getattr(column, "dtype", "")) in ("Int128", "UInt128"):
        column = column.to_list()  # NumPy has no such type.
    array = _as_array(column)
    if array.dtype.kind in "biuf":
        return _words_of_numbers(array)
    if array.dtype.kind in "mM":
        return _words_of_numbers(_nanoseconds(array))
    return _words_of_ids(array.tolist())


def _words_of_ids(ids: list[Any]) -> NDArray[np.uint64]:
    # Equal plain ids are converted once, all others one by one: equal objects need not
    # look alike, and the first of them would decide for the rest.
    keys = [id_ if type(id_) in _PLAIN else (k,) for k, id_ in enumerate(ids)]
    distinct = dict(zip(keys, ids, strict=True))
    forms = list(map(_form, distinct.values()))
    numbers = [0.0 if isinstance(form, str) else form for form in forms]
    words = _words_of_numbers(np.array(numbers, dtype=float)).tolist()
    word_of = {
        key: _digest(form) if isinstance(form, str) else word
        for key, form, word in zip(distinct, forms, words, strict=True)
    }
    found = map(word_of.__getitem__, keys)
    return np.fromiter(found, dtype=np.uint64, count=len(keys))


def _words_of_numbers(numbers: NDArray[Any]) -> NDArray[np.uint64]:
    """Words of the nearest doubles; those of fractions have as many digits as float32.

    The word of a whole number below 2**63 is the number itself; for all others, it is
    the bits of the double.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        found = numbers.astype(np.float64)
        single = found.astype(np.float32).astype(np.float64)
    found = np.where(found == np.floor(found), found, single)
    is_whole = (found == np.floor(found)) & (np.abs(found) < 2.0**63)
    whole = np.where(is_whole, found, 0).astype(np.int64).view(np.uint64)
    words = np.where(is_whole, whole, found.view(np.uint64))
    return np.where(np.isnan(found), np.uint64(_digest("missing")), words)


def nanoseconds_of(times: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Nanoseconds since 1970, or of a duration, as integers; and which are missing."""
    unit, step = np.datetime_data(times.dtype)
    if unit not in _UNITS:
        # Months and years may be too long for nanoseconds, other units are shorter.
        unit, step = ("s" if unit in ("M", "Y") else "ns"), 1
        times = times.astype(f"{times.dtype.kind}8[{unit}]")
    length, is_missing = step * _UNITS[unit], np.isnat(times)
    counts = np.where(is_missing, 0, times.astype(np.int64))
    if np.any(np.abs(counts) > (2**63 - 1) // length):
        counts = counts.astype(object)
    return counts * length, is_missing


def _nanoseconds(times: NDArray[Any]) -> NDArray[np.float64]:
    """Nanoseconds since 1970, or of a duration; NaN for NaT."""
    counts, is_missing = nanoseconds_of(times)
    return np.where(is_missing, np.nan, counts.astype(np.float64))


def _form(id_: object) -> float | str:
    """The canonical form of an id: a double if it counts as a number, or else text.

    Ids that are equal have equal forms. NaN stands for a missing id.
    """
    if isinstance(id_, bytes):
        id_ = id_.decode(errors="surrogateescape")
    if isinstance(id_, str):
        # An array of text would drop trailing null characters.
        id_ = id_.rstrip("\0")
    number = _as_number(id_)
    if number is not None:
        # Adding 0 removes negative zeros, which equal 0 but look different.
        return number.real if number.imag == 0 else f"complex {number + 0}"
    if isinstance(id_, str | UUID):
        return f"text {id_}"
    if (names := _PARTS.get(type(id_).__name__)) is not None:
        id_ = tuple(getattr(id_, name, None) for name in names)
    if isinstance(id_, tuple):
        return f"tuple {_words_of_ids(list(id_)).tolist()}"
    # Equal objects have equal hashes. Hashes of text differ between processes.
    return f"object {hash(id_)}"


def _as_number(id_: Any) -> complex | None:
    """The value of a number, a time, or a text of either; None for anything else."""
    if isinstance(id_, str):
        if (written := _TIME.fullmatch(id_)) is not None:
            return _as_written(*written.groups(default=""))
        id_ = _WRITTEN.get(id_.lower(), id_)
    elif id_ is None or type(id_).__name__ in ("NAType", "NaTType"):
        return complex(math.nan)
    elif isinstance(id_, np.datetime64 | np.timedelta64):
        return complex(_nanoseconds(np.array([id_]))[0])
    elif isinstance(id_, date | time | timedelta):
        return complex(length_of(id_))
    try:
        return complex(id_)
    except OverflowError:
        return complex(math.inf if id_ > 0 else -math.inf)
    except (TypeError, ValueError):
        return None


def _as_written(day: str, clock: str, fraction: str, zone: str) -> complex | None:
    """The time that a text in ISO 8601 format states; None if there is no such time."""
    try:
        moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone}")
    except ValueError:
        return None
    return complex(length_of(moment) + int(fraction.ljust(9, "0")))


def length_of(value: date | time | timedelta) -> int:
    """Nanoseconds since 1970, since midnight, or of a duration."""
    if isinstance(value, timedelta):
        length = value
    else:
        # A datetime is a date, and has the attributes of a time of day.
        names = "hour", "minute", "second", "microsecond"
        clock = {f"{name}s": getattr(value, name, 0) for name in names}
        days = value.toordinal() - _START if isinstance(value, date) else 0
        length = timedelta(days, **clock)
        if isinstance(value, datetime | time):
            # Equal datetimes may differ in `fold`.
            length -= value.replace(fold=0).utcoffset() or timedelta()
    # Only pandas times have nanoseconds.
    rest = getattr(value, "nanosecond", 0) + getattr(value, "nanoseconds", 0)
    return 1000 * (length // timedelta(microseconds=1)) + int(rest)


def _digest(text: str) -> int:
    data = text.encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijection that scatters 64-bit numbers (Steele, Lea and Flood 2014)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
