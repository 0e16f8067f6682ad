"""Errors and warnings about likely mistakes, from public information only.

The functions read only ids that are public anyway: those that an encoder learns, and
coordinates if the unit is an entry. If a unit is protected, they read what was
released. No function here takes a value, and no message shows an id, an index or a
number of them, since warnings end up in logs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._noise_only import is_one_of_many
from .._validation import names_of, warn, words_of
from ..base import LOGGER
from ..exceptions import AveragesOnlyWarning, NoiseOnlyWarning, PrivacyLeakWarning
from ..tensor._coordinates import present
from ._used_parameters import warn_of_unused

if TYPE_CHECKING:
    from ._domain import Domain
    from ._problem import Problem
    from ._sources import CompletionParameters, EntrySource, ObservedEntries
    from .measurements._measurement import Measurement, ReleasedMean

# Words in the names of columns that hold users or items, in several languages.
_USERS = {"account", "benutzer", "buyer", "client", "cliente", "customer", "employee"}
_USERS |= {"guest", "kunde", "kunden", "listener", "member", "mitglied", "nutzer"}
_USERS |= {"patient", "person", "player", "rater", "reader", "respondent", "reviewer"}
_USERS |= {"shopper", "student", "subscriber", "uid", "user", "usuario", "utilisateur"}
_USERS |= {"viewer", "visitor", "voter", "worker"}
_ITEMS = {"album", "anime", "app", "article", "artikel", "artist", "asin", "beer"}
_ITEMS |= {"book", "buch", "course", "ean", "episode", "film", "game", "gtin", "hotel"}
_ITEMS |= {"iid", "isbn", "item", "joke", "libro", "livre", "manga", "movie", "page"}
_ITEMS |= {"podcast", "product", "producto", "produit", "produkt", "recipe"}
_ITEMS |= {"restaurant", "show", "sku", "song", "title", "track", "venue", "video"}
_ITEMS |= {"wine"}
_VALUES = {"bewertung", "nota", "note", "puntuacion", "rating", "score", "stars"}
_VALUES |= {"value", "vote", "wertung"}
# Words in the names of columns that hold something else, whatever the other words are.
_NO_VALUES = {"band", "code", "date", "day", "device", "group", "id", "key", "kind"}
_NO_VALUES |= {"name", "region", "round", "segment", "source", "time", "type"}
# A scale of values has no more numbers, and is no wider.
_MOST_OF_SCALE = 101
_TIMES = {"date", "datetime", "datum", "epoch", "fecha", "time", "timestamp", "when"}
# With fewer rows, values or units there is no warning: the few ids of a column then
# often repeat.
_LEAST_ROWS = 100
# Fewer unused indices cost nothing.
_LEAST_UNUSED = 1000
# The warning if users are protected.
NO_USERS = (
    "The released number of protected users, or their typical number of entries, is no "
    "larger than its noise, so the model holds little but noise. If you passed many, "
    "check the order of the columns and how ids are spelt: rows with unknown ids are "
    "left out. Otherwise, only a larger epsilon or more users will help."
)
# A table with more columns is probably wide: a row for each user, or features.
MOST_COLUMNS = 8
# The warning if the mean of protected values is not more than noise.
_NOISY_MEAN = (
    "The model holds little but noise: the released mean of the values has a standard "
    "error of more than a quarter of their range, so the middle of the range predicts "
    "about as well. Only a larger epsilon or more values will help."
)
# At most so many entries are searched for repeated coordinates.
_MOST_SEARCHED = 2**16
# More calendar bins are never useful.
MOST_BINS = 2**17
# Of fewer bins, half may be empty by chance.
_LEAST_BINS = 24
_WRITTEN_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b.*", re.DOTALL)


def column_name(names: Sequence[str] | None, number: int) -> str:
    """How a message names a column."""
    return f"column {number}" if names is None else f"column {names[number]!r}"


def in_columns_with_missing(X: ArrayLike) -> str:
    """Say in which columns of a public table something is missing."""
    names = names_of(X)
    table = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X, dtype=object)
    if table.ndim != 2:
        return ""
    found = [
        column_name(names, k)
        for k, column in enumerate(table.T)
        if any(v is None or type(v).__name__ == "NAType" or v != v for v in column)
    ]
    if len(found) > 3:
        found[2:] = [f"{len(found) - 2} more columns"]
    return f" in {' and '.join(found)}"


def check_whole(ids: NDArray[Any], column: str) -> None:
    """Refuse ids that an encoder would learn if they are numbers with fractions.

    Text that looks like such numbers only gets a warning: they may be numbers of
    sections, for example.

    Parameters
    ----------
    ids : ndarray of shape (n_ids,)
        The distinct ids of a column.
    column : str
        Name of the column in messages.

    Raises
    ------
    ValueError
        If an id is a number with a fraction.
    """
    if ids.dtype.kind == "f":
        fractional = bool(np.any(ids % 1 != 0))
    else:
        fractional = ids.dtype == object and any(map(_has_fraction, ids.tolist()))
    advice = "If it holds the values, pass them as y and leave the column out of X."
    if fractional:
        raise ValueError(
            f"The ids in {column} are numbers with fractions, and each would become a "
            f"public index of the tensor. {advice} If it holds times, put it last and "
            f"pass freq or time_bins. If it does hold ids, convert them to text."
        )
    numbers = _as_numbers(ids) if ids.dtype.kind in "OSU" else None
    if numbers is not None and np.any(numbers % 1 != 0):
        warn(
            f"The ids in {column} are text that reads as numbers with fractions. "
            f"{advice} Ids are public.",
            PrivacyLeakWarning,
        )


def _has_fraction(value: object) -> bool:
    if isinstance(value, Decimal):
        # Decimals with many digits have no remainder.
        return not value.is_finite() or value != value.to_integral_value()
    return isinstance(value, float | np.floating) and bool(value % 1 != 0)


def _as_numbers(ids: NDArray[Any]) -> NDArray[np.float64] | None:
    """Ids as numbers; None if they are something else."""
    if ids.dtype.kind == "O" and any(
        isinstance(value, np.datetime64 | np.timedelta64) for value in ids.flat
    ):
        return None
    try:
        numbers = ids.astype(float)
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if np.all(np.isfinite(numbers)) else None


def warn_of_levels(
    ids: NDArray[Any], levels: ArrayLike | None, column: str, advice: str
) -> None:
    """Warn if ids look like the declared levels: the values may be in this column.

    Indices usually start at 0. If the levels start at 0 as well, and the ids are 0, 1,
    2, ..., there is a warning only if all levels occur.

    Parameters
    ----------
    ids : ndarray of shape (n_ids,)
        The distinct public ids, or indices, of one column.
    levels : array-like or None
        The declared levels of the values.
    column : str
        Name of the column in messages.
    advice : str
        What to do if the column does hold ids.
    """
    numbers = None if levels is None else _as_numbers(ids)
    if numbers is None or len(numbers) < 2:
        return
    scale = np.asarray(levels, dtype=float)
    is_index = np.min(numbers) == 0 and np.max(numbers) == len(numbers) - 1
    if not np.all(np.isin(numbers, scale)) or (is_index and len(numbers) < len(scale)):
        return
    warn(
        f"All ids in {column} are among the declared levels. Does it hold the values? "
        f"They would be public: pass them as y, and leave the column out of X. If it "
        f"does hold ids, {advice}.",
        PrivacyLeakWarning,
    )


def look_like_values(
    ids: NDArray[Any], names: Sequence[str] | None, number: int
) -> bool:
    """Whether a column seems to hold values, by its name and by its public ids.

    The ids must be numbers like those of a scale: few, and close to each other. A name
    alone says nothing.

    Parameters
    ----------
    ids : ndarray of shape (n_ids,)
        The distinct public ids, or indices, of one column.
    names : sequence of str or None
        Names of all columns.
    number : int
        Number of the column.
    """
    name = "" if names is None else str(names[number])
    words = words_of(name)
    words |= {word.removesuffix("s") for word in words}
    numbers = _as_numbers(ids) if ids.dtype.kind in "biufO" else None
    if not words & _VALUES or words & _NO_VALUES or numbers is None:
        return False
    has_few = 2 <= len(numbers) <= _MOST_OF_SCALE
    return has_few and bool(np.ptp(numbers) < _MOST_OF_SCALE)


def warn_of_values(ids: NDArray[Any], names: Sequence[str] | None, number: int) -> bool:
    """Warn of a column if `look_like_values`; return whether it does."""
    if names is None or not look_like_values(ids, names, number):
        return False
    name = names[number]
    warn(
        f"Column {name!r} may hold the values, by its name and its numbers. It becomes "
        f"a mode of the tensor, and public. If it holds them, pass them as y: "
        f"fit(X.drop(columns=[{name!r}]), X[{name!r}]).",
        PrivacyLeakWarning,
    )
    return True


def warn_if_no_value(name: object) -> None:
    """Warn if a column of values has a name as of users, items or times."""
    stems = _stems(name)
    if stems & (_USERS | _ITEMS | _TIMES) and not stems & _VALUES:
        warn(
            f"The last column of a batch is read as the values, but it is named "
            f"{name!r}. If it holds something else, put the values last, or pass pairs "
            f"(X, y)."
        )


def _stems(name: object) -> set[str]:
    """The words of a name, without the endings of compounds and plurals."""
    words = words_of(str(name))
    without_id = {w.removesuffix("s").removesuffix("id") for w in words}
    # Shorter words may begin other words.
    known = [w for w in _USERS | _ITEMS if len(w) >= 5]
    first = {stem for stem in known for word in words if word.startswith(stem)}
    return words | without_id | {w.removesuffix("s") for w in words} | first


def contexts(names: Sequence[str] | None, n_columns: int) -> list[int]:
    """Numbers of the columns that hold neither users nor items, by name or place."""
    words = [_stems(name) for name in (() if names is None else names)]
    named = [bool(w & (_USERS | _ITEMS)) for w in words]
    if any(w & _USERS for w in words) and any(w & _ITEMS for w in words):
        return [k for k in range(n_columns) if not named[k]]
    return [k for k in range(2, n_columns) if not (named and named[k])]


def warn_of_swapped_columns(
    names: Sequence[str] | None, counts: Sequence[NDArray[np.int64]] = ()
) -> None:
    """Warn if users seem not to be in the first column, nor items in the second.

    Names decide if some name users and some items. Otherwise numbers of entries decide,
    if they are public.

    Parameters
    ----------
    names : sequence of str or None
        Names of the columns.
    counts : sequence of ndarray, default=()
        Public numbers of entries of each id of the first and of the second column, if
        both were learned from the data.
    """
    words = [_stems(name) for name in (("", "") if names is None else names)]
    users, items = ([bool(w & own) for w in words] for own in (_USERS, _ITEMS))
    in_order = users[0] or items[1]
    reason = ""
    if any(users) and any(items) and not in_order:
        reason = f"the first is {names[0]!r} and the second {names[1]!r}"  # type: ignore[index]
    elif in_order or not counts:
        return
    elif items[0] or users[1]:
        if len(counts[0]) < len(counts[1]):
            named = 0 if items[0] else 1
            reason = f"one is {names[named]!r}, and the first has fewer ids"  # type: ignore[index]
    elif _are_like_items(*counts):
        reason = (
            "entries are spread over the ids of the first as they usually are over "
            "items, and over those of the second as over users"
        )
    if reason:
        warn(
            f"Users are taken from the first column and items from the second, but "
            f"{reason}. Swap them or, if they are right, name them 'user' and 'item'."
        )


def warn_if_empty(X: ArrayLike) -> None:
    """Warn of a table without rows: whoever passed it knows that."""
    if not len(X):  # type: ignore[arg-type]
        warn(
            "X has no rows, so fold_in learned nobody and changed nothing. Pass all "
            "rows of the users."
        )


def _are_like_items(first: NDArray[np.int64], second: NDArray[np.int64]) -> bool:
    """Whether the columns look swapped, judging by their numbers of entries.

    Entries are spread less equally over items than over users, as measured by Gini's
    coefficient and by the largest number over the mean. With these limits, it finds
    three of eight data sets with swapped columns, and none with the columns in order.
    """
    if min(len(first), len(second)) < 20 or first.sum() < _LEAST_ROWS:
        return False
    inequality, peak = zip(*map(_inequality, (first, second)), strict=True)
    return peak[0] >= 2.5 * peak[1] and inequality[0] - inequality[1] >= 0.3


def _inequality(counts: NDArray[np.int64]) -> tuple[float, float]:
    """Gini's coefficient, and the largest count over the mean."""
    n, ordered = len(counts), np.sort(counts)
    weighted = 2 * float(np.arange(1, n + 1) @ ordered) / (n * float(ordered.sum()))
    return weighted - (n + 1) / n, float(ordered[-1] / ordered.mean())


def warn_of_items(are_items: bool) -> None:
    """Warn if a request for users has ids of items."""
    if are_items:
        warn(
            "Some of these ids are ids of items, but recommend takes users. If they "
            "are users, the columns were swapped in fit: users come first."
        )


def warn_of_many_modes(n_modes: int) -> None:
    """Warn if a table has so many columns that it looks like a wide table of values."""
    if n_modes > MOST_COLUMNS:
        warn(
            f"X has {n_modes} columns, and each becomes a mode of the tensor, so X is "
            f"probably a table of features, not of coordinates. If it is a wide table "
            f"of values, with a row for each user, pass it as floats, with NaN where "
            f"nothing was observed and without y."
        )


def check_extent(sizes: Sequence[int], n_entries: int) -> None:
    """Refuse a shape that was read off indices and is far too large for the entries.

    Raises
    ------
    ValueError
        Before anything is computed for each index.
    """
    for k, size in enumerate(sizes):
        if size > max(2**20, 16 * n_entries):
            raise ValueError(
                f"The indices of column {k} are so large that a fit with a row for "
                f"each would never end. Encode ids: "
                f"X = CoordinateEncoder().fit_transform(X), or use a Recommender. If "
                f"you do need these rows, declare `shape`."
            )


def check_bins(
    ends: Sequence[str],
    n_bins: int,
    n_rows: int | None,
    freq: str,
    used: NDArray[np.int64],
) -> None:
    """Refuse far too many calendar bins; warn of mostly empty bins, or of a single bin.

    Parameters
    ----------
    ends : sequence of (str, str)
        Years of the first and of the last bin, both public.
    n_bins : int
    n_rows : int or None
        None means no warning.
    freq : str
    used : ndarray of int
        The bin of every row; empty if it is not known.

    Raises
    ------
    ValueError
        If there are more than `MOST_BINS`.
    """
    first, last = ends
    if n_bins > MOST_BINS:
        raise ValueError(
            f"The times reach from {first} to {last}, which is {n_bins:,} bins of "
            f"freq={freq!r}; at most {MOST_BINS:,} are possible. Leave impossible "
            f"times out, or pass a coarser freq."
        )
    if n_rows is None:
        return
    is_sparse = n_bins >= _LEAST_UNUSED and n_bins > 2 * n_rows
    # Times such as 1970-01-01 often stand for missing ones.
    steps = np.diff(present(used - np.min(used, initial=0))[0])
    has_gap = n_bins >= _LEAST_BINS and 2 * np.max(steps, initial=0) > n_bins
    if is_sparse or (has_gap and n_rows >= _LEAST_ROWS):
        warn(
            f"Most bins of freq={freq!r} have no entry: the times reach from {first} "
            f"to {last}. Leave impossible times out, or pass a coarser freq."
        )
    if n_bins == 1 and n_rows >= _LEAST_ROWS:
        warn(
            "All times fall into one bin, so they change nothing. The last column must "
            "hold times: seconds since 1970, or datetimes. If it does, pass a finer "
            "freq."
        )


def warn_of_times(
    ids: NDArray[Any], n_rows: int, names: Sequence[str] | None, number: int
) -> None:
    """Warn if ids look like times, which are better binned.

    They do if they hardly repeat, or if there are many and their form or the name of
    their column suggests times.

    Parameters
    ----------
    ids : ndarray of shape (n_ids,)
        The distinct public ids in a column without users or items.
    n_rows : int
    names : sequence of str or None
        Names of all columns.
    number : int
        Number of the column.
    """
    if n_rows < _LEAST_ROWS or len(ids) < _LEAST_ROWS:
        return
    reason = "hardly repeat"
    if len(ids) < 0.9 * n_rows:
        reason = "look like times"
        is_named = names is not None and _stems(names[number]) & _TIMES
        if not (is_named or _are_times(ids)):
            return
    warn(
        f"The ids in {column_name(names, number)} {reason}, and each becomes an index "
        f"of its own. If it holds times, put it last and bin them: "
        f"CoordinateEncoder(freq='W'), or time_bins. Otherwise leave it out, or group "
        f"its ids."
    )


def _are_times(ids: NDArray[Any]) -> bool:
    """Whether all ids are seconds or milliseconds since 1970, or dates in text."""
    numbers = _as_numbers(ids)
    if numbers is not None:
        low, high = float(numbers.min()), float(numbers.max())
        # From 1990 to 2040.
        first, last = 631_152_000, 2_208_988_800
        return any(s * first <= low and high <= s * last for s in (1, 1000))
    return all(isinstance(v, str) and _WRITTEN_DATE.fullmatch(v) for v in ids.tolist())


def warn_of_coordinates(
    entries: ObservedEntries, names: Sequence[str] | None, levels: ArrayLike | None
) -> None:
    """Warn if public coordinates without a declared shape look like something else.

    Parameters
    ----------
    entries : Entries or PartitionedEntries
        Entries with public coordinates.
    names : sequence of str or None
        Names of the columns of X, if it had any.
    levels : array-like or None
        The declared levels of the values.
    """
    n_modes, used = len(entries.shape), entries.used_indices
    for k, (size, indices) in enumerate(zip(entries.shape, used, strict=True)):
        column = column_name(names, k)
        if n_modes > 2 and not warn_of_values(indices, names, k):
            warn_of_levels(indices, levels, column, "declare `shape`")
        if size >= _LEAST_UNUSED and size > 2 * len(indices):
            warn(
                f"Most indices of {column} have no entry, but there is a row for each "
                f"up to the largest. The fit takes time and memory for all. Encode "
                f"ids: X = CoordinateEncoder().fit_transform(X), or use a Recommender. "
                f"If you do need these rows, declare `shape`."
            )
    if entries.n_entries >= _LEAST_ROWS and all(indices[0] == 1 for indices in used):
        warn(
            "The indices of every column start at 1, so index 0 stands for a user and "
            "an item that do not exist. Subtract 1, or encode ids with a "
            "CoordinateEncoder."
        )
    warn_of_many_modes(n_modes)
    for k in contexts(names, n_modes):
        warn_of_times(used[k], entries.n_entries, names, k)


def warn_of_repeats(coordinates: NDArray[np.integer]) -> None:
    """Warn if most public coordinates occur more than once, as after a join.

    Each occurrence is an entry of its own, and protected on its own. If there are many
    entries, only those of some indices of the first mode are searched.

    Parameters
    ----------
    coordinates : ndarray of shape (n_entries, n_modes)
    """
    if len(coordinates) < _LEAST_ROWS:
        return
    step = -(-len(coordinates) // _MOST_SEARCHED)
    some = coordinates[coordinates[:, 0] % step == 0] if step > 1 else coordinates
    order = np.lexsort(some.T)
    is_repeat = np.all(some[order[1:]] == some[order[:-1]], axis=1)
    # Of each coordinate that occurs again, the first repetition.
    n_repeated = int(np.count_nonzero(is_repeat & ~np.append(False, is_repeat[:-1])))
    if 2 * n_repeated > len(some) - int(np.count_nonzero(is_repeat)):
        warn(
            "Most coordinates of X occur more than once, as in a table that was joined "
            "or read twice. Each row is an entry of its own, and the guarantee is for "
            "the value of one. If they repeat the same values, drop the duplicates: "
            "whoever is in two rows would have twice epsilon."
        )


def warn_before(
    estimator: CompletionParameters,
    entries: EntrySource[Any] | ObservedEntries,
    measurement: Measurement,
) -> None:
    """Warn of mistakes that coordinates alone show, before anything is released.

    Parameters
    ----------
    estimator : BaseCompletion
    entries : object
        See `observed_entries`.
    measurement : Measurement
        The chosen measurement.
    """
    _warn_of_two_levels(estimator.levels)
    if not is_one_of_many():
        warn_of_unused(estimator)
    if estimator.unit == "entry":
        entries = cast("ObservedEntries", entries)  # others hold whole units
        if entries.is_dense:
            _warn_of_no_gap(entries)
        elif estimator.shape is None:
            names = getattr(estimator, "feature_names_in_", None)
            warn_of_coordinates(entries, names, estimator.levels)
        for part in () if entries.is_dense else entries.observed or ():
            warn_of_repeats(part.coordinates)
        if estimator.perturbation == "auto":
            warn_of_sums(measurement)
    if not is_one_of_many():
        LOGGER.info(
            "%s: rank %s, perturbation %r, at most %d sweeps",
            type(estimator).__name__,
            estimator.rank,
            measurement.name,
            measurement.n_sweeps,
        )


def _warn_of_two_levels(levels: ArrayLike | None) -> None:
    """Warn if `levels` looks like a range; this reads no data."""
    if isinstance(levels, tuple) and len(levels) == 2 and np.ptp(levels) > 2:
        low, high = (f"{level:g}" for level in sorted(levels))
        warn(
            f"levels=({low}, {high}) rounds every value to {low} or {high}. For a "
            f"range, pass value_bounds=({low}, {high}). For two levels, pass "
            f"levels=[{low}, {high}]."
        )


def warn_of_mean(mean: ReleasedMean | None, domain: Domain, unit: int | None) -> None:
    """Warn if the mean of protected values is noise, or that of values at one end.

    Whether it is noise depends on the number of values, the range and epsilon alone.
    Two levels may be as unequal as they like, and a range that was found holds most
    values: see `_warn_if_equal`.

    Parameters
    ----------
    mean : ReleasedMean or None
        If units are protected, the mean of their means.
    domain : Domain
    unit : int or None
        Whether units are protected: other totals tell then if there is only noise.
    """
    if mean is None or mean.n < _LEAST_ROWS or is_one_of_many():
        return
    if unit is None and 2 * mean.error > domain.scale:
        warn(_NOISY_MEAN, NoiseOnlyWarning)
    elif _has_scale(domain):
        warn_of_edge(mean, domain)
    elif unit is None:
        _warn_if_equal(mean, domain)


def _has_scale(domain: Domain) -> bool:
    """Whether a declared range has values between its ends."""
    is_declared = domain.is_declared and not domain.spent
    return is_declared and (domain.levels is None or len(domain.levels) > 2)


def _warn_if_equal(mean: ReleasedMean, domain: Domain) -> None:
    """Warn if the mean is an end of the range, up to two standard deviations.

    These are at most a fiftieth of the range. The mean of values of which a share p is
    at the other end gets a warning with a probability below 1e-3 if p times the range
    is at least five standard deviations.
    """
    low, high = domain.bounds
    away = min(mean.value - low, high - mean.value)
    if away > 2 * mean.error or 2 * mean.error > 2 * domain.scale / 50:
        return
    end = "lower" if mean.value < domain.middle else "upper"
    warn(
        f"Judging by what was released, all values may be at the {end} end of the "
        f"range, so there is nothing to predict. If X lists choices, such as purchases "
        f"or likes, fit an ImplicitCompletion to X alone. If a few values are far "
        f"larger than all others, pass logarithms."
    )


def warn_of_edge(mean: ReleasedMean, domain: Domain) -> None:
    """Warn if nearly all values seem to be at one end of the declared range.

    This happens if the values have another scale, such as 20 to 100 for a range of 1 to
    5, so that all are clipped. Since most ratings may be the best ones, the warning
    needs at least 98% of them there, more than two levels, and enough values or units.

    False alarms: if the mean of the clipped values, or of the units' mean values, is
    at least a fiftieth of the range away from both ends, the noise has to move it by
    four standard deviations, which it does with a probability below 1e-4.

    Parameters
    ----------
    mean : ReleasedMean
    domain : Domain
        If it was found, it holds most values, and there is no warning.
    """
    if mean.n < _LEAST_ROWS or not _has_scale(domain) or is_one_of_many():
        return
    (low, high), margin = domain.bounds, 2 * domain.scale / 50 - 4 * mean.error
    if low + margin < mean.value < high - margin or margin <= 0:
        return
    end = "lower" if mean.value < domain.middle else "upper"
    warn(
        f"Judging by what was released, nearly all values are at the {end} end of the "
        f"declared range, to which values are clipped. If they have another scale, "
        f"declare it: levels or value_bounds."
    )


def warn_of_averages(problem: Problem, consequence: str, advice: str) -> None:
    """Warn that "auto" took sums, which are only averages, and what follows.

    "auto" chose by public coordinates or by what was released.

    Parameters
    ----------
    problem : Problem
        Without factors, or without noise, there is no warning.
    consequence : str
        What follows for predictions.
    advice : str
        What may help besides a larger epsilon and more data.
    """
    if not problem.form or math.isinf(problem.epsilon) or is_one_of_many():
        return
    warn(
        f"At this epsilon and size only averages could be learned: {consequence}. A "
        f"larger epsilon, more data or {advice} may change that. If averages are what "
        f"you want, pass perturbation='sums'.",
        AveragesOnlyWarning,
    )


def warn_of_sums(measurement: Measurement) -> None:
    """Warn if "auto" took sums of entries alone; see `warn_of_averages`."""
    if measurement.name != "sums" or measurement.uses_features:
        return
    problem = measurement.problem
    consequence = "everybody gets the same ranking"
    if problem.entries.is_dense:  # A tensor may have no users.
        consequence = "every prediction adds up one number of each index"
    warn_of_averages(problem, consequence, "perturbation='input'")


def _warn_of_no_gap(entries: ObservedEntries) -> None:
    """Warn if all entries of a tensor are observed.

    Parameters
    ----------
    entries : Entries
        Entries of a tensor. Which entries are observed is public.
    """
    if entries.n_entries < math.prod(entries.shape):
        return
    warn(
        "X has no NaN, so there is nothing to complete: every entry counts as "
        "observed, and 0 as a value like any other. Put NaN where nothing was "
        "observed or, if a number stands for it, pass it as missing_values."
    )
