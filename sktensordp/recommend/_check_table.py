"""Checks that the owner of the data may make before a fit.

They are not private. Nothing else in the package calls this module.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import column_or_1d

from .._validation import (
    are_missing,
    as_numpy,
    check_aligned,
    check_container,
    check_numeric,
    check_same_length,
    checked,
    names_of,
    warn,
)
from ..completion._base import USUAL_RANK, BaseCompletion
from ..completion._checks import (
    CHOICES_HAVE_NO_VALUES,
    entries_from_sparse,
    is_sparse,
)
from ..completion._domain import declared_domain
from ..completion._entries import check_missing_values, is_observed
from ..completion._implicit import ImplicitCompletion, most_items
from ..completion._likely_mistakes import MOST_BINS
from ..completion._problem import finds_scale, unit_of
from ..completion._tucker import TuckerCompletion
from ..exceptions import PrivacyLeakWarning
from ..ids import Known
from ..ids._folds import columns_of
from ..privacy._guarantee import unit_name
from ..privacy.budgets._open import OPEN
from ..privacy.budgets._reserved import current_reservation
from ._encoder import CoordinateEncoder, calendar_bins, index_of_ids, seconds_of
from ._recommender import Recommender, protected_rows


def check_table(
    completion: BaseCompletion | ImplicitCompletion | Recommender,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    missing_values: float | None = None,
) -> dict[str, Any]:
    """Show the owner of the data what a fit would leave out or clip, and its cost.

    **This is not private.** It reads everything without noise: call it only on data
    that you may see, and show the result only to people who may see the data, too. No
    fit calls it. It warns if the completion protects anything, and refuses to run while
    a budget is open.

    Parameters
    ----------
    completion : CPCompletion, TuckerCompletion, ImplicitCompletion or Recommender
        Has the parameters of the fit; it need not be fitted, and is not changed.
    X : array-like
        As for its `fit`: coordinates, a table of ids, a tensor or a sparse array.
    y : array-like of shape (n_rows,), default=None
        The values, as for its `fit`. Choices have no values: for them, the result says
        whether `y` varies.
    missing_values : float, default=None
        A number that stands for "not rated": all but the number of rows is of the other
        rows. None takes that of the completion. Pass one to see what is left before you
        set it there: with ``unit="entry"`` it makes public who has this value.

    Returns
    -------
    table : dict
        The counts by name, which are also printed. Lines on how ids are spelt, and on
        ids that look like values, are left out if they would say 0. Time and memory
        are rough estimates, perhaps three times too large or too small.

    Raises
    ------
    RuntimeError
        If a budget is open, or a private search is running.
    ValueError
        For a malformed table, as `fit`: if `X` is not 2-dimensional, for example, or
        `X` and `y` have different numbers of rows.

    See Also
    --------
    columns_with_values : Whether the values were left in X.
    CPCompletion : With ``check_scale=True``, a fit counts values off the declared scale
        with noise, for those who may not see the data.

    Examples
    --------
    >>> import warnings
    >>> from sktensordp.completion import (
    ...     CoordinateEncoder, CPCompletion, Recommender, check_table)
    >>> table = [["ann", "Heat"], ["ann", "Up"], ["ann", "Up"], ["bob", "heat"]]
    >>> films = ["Brazil", "Heat", "Up"]
    >>> model = Recommender(
    ...     CPCompletion(unit=0, levels=[1, 2, 3, 4, 5]),
    ...     CoordinateEncoder(categories=[None, films]))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # these are no real people
    ...     found = check_table(model, table, [5, 100, 3, 2.5])
    protected                                     all rows of one user
    rows                                          4
    distinct ids of column 0                      2
    distinct ids of column 1                      3
    rows with missing ids                         0
    ids of column 1 that are not declared         1
    rows that are left out                        1
    rows whose ids have occurred before           1
    fewest entries of a user                      1
    median entries of a user                      2.0
    most entries of a user                        3
    missing values                                0
    values below the range                        0
    values above the range                        1
    range that the values use                     2.5 to 100
    values between levels                         1
    shape                                         any users x 3
    expected seconds                              0.0
    expected megabytes                            100
    """
    if OPEN.stack or current_reservation() is not None:
        raise RuntimeError(
            "check_table reads the data without noise, which no budget covers. Call it "
            "before the budget is opened."
        )
    if not isinstance(completion, BaseCompletion | ImplicitCompletion | Recommender):
        raise TypeError(
            f"completion must be a completion or a Recommender, got "
            f"{type(completion).__name__}."
        )
    if isinstance(completion, Recommender):
        inner, encoder = completion.completion, completion.encoder
        encoder = CoordinateEncoder() if encoder is None else encoder
    else:
        inner, encoder = completion, None
    if math.isfinite(inner.epsilon):
        warn(
            "check_table is not private: it reads all data without noise. Show its "
            "result only to people who may see the data.",
            PrivacyLeakWarning,
        )
    columns, values, shape = _read(completion, inner, X, y)
    n_rows, not_observed = len(columns[0]), {}
    if missing_values is None:
        missing_values = getattr(inner, "missing_values", None)
    if missing_values is not None and values is not None:
        observed = is_observed(values, check_missing_values(missing_values))
        columns, values = [c[observed] for c in columns], values[observed]
        not_observed = {"rows that are not observed": n_rows - len(values)}
    found: dict[str, Any] = {"protected": _protected(completion, inner, names_of(X))}
    found |= {"rows": n_rows, **not_observed}
    found |= _of_ids(columns, encoder, names_of(X)) | {"rows": n_rows}
    if encoder is None:
        found |= _of_indices(columns, inner.shape or shape)
    found |= _of_users(columns)
    if values is not None:
        found |= _of_values(values, inner)
    found |= _of_the_fit(columns, encoder, inner, shape)
    for name, value in found.items():
        print(f"{name:<45} {value}")
    return found


def _protected(
    estimator: object,
    completion: BaseCompletion | ImplicitCompletion,
    names: Sequence[str] | None,
) -> str:
    """What a fit protects, in words."""
    unit = unit_of(completion)
    if math.isinf(completion.epsilon):
        return "nothing, since epsilon is infinite"
    if isinstance(estimator, Recommender) and unit is not None:
        return protected_rows(unit, names)
    return unit_name(completion.unit)


def _read(
    estimator: BaseCompletion | ImplicitCompletion | Recommender,
    completion: BaseCompletion | ImplicitCompletion,
    X: Any,
    y: ArrayLike | None,
) -> tuple[list[NDArray[Any]], NDArray[np.float64] | None, tuple[int, ...] | None]:
    """Columns, values, and the shape of a tensor or a sparse array.

    What a fit refuses, whatever the values are, is refused here, too.
    """
    check_container(X, "X")
    check_aligned(X, y=y)
    shape, are_choices = None, isinstance(completion, ImplicitCompletion)
    if isinstance(estimator, Recommender):
        X = clone(estimator)._read_as_in_fit(X)
    elif is_sparse(X):
        if y is not None:
            raise ValueError("X is sparse and holds its values: pass it without y.")
        shape = tuple(X.shape)
        X, y = entries_from_sparse(X)
    else:
        X = check_numeric(X, "X")
        tensor = as_numpy(X, "X")
        if y is None and tensor.dtype.kind == "f" and not are_choices:
            shape, is_observed = tensor.shape, ~np.isnan(tensor)
            X, y = np.argwhere(is_observed), tensor[is_observed]
    columns = [np.asarray(column) for column in columns_of(X)]
    if len(columns) < 2 or (are_choices and len(columns) > 2):
        needed = "at least two, one for each mode."
        if are_choices:
            needed = f"two, of users and of items. {CHOICES_HAVE_NO_VALUES}"
        raise ValueError(f"X has {len(columns)} column(s), but needs {needed}")
    values = None
    if y is not None:
        values = as_numpy(check_numeric(y, "y"), "y").astype(float).ravel()
        if len(values) != len(columns[0]):
            raise ValueError("X and y must have the same length.")
    return columns, values, shape


def _of_ids(
    columns: list[NDArray[Any]], encoder: CoordinateEncoder | None, names: Any
) -> dict[str, Any]:
    """The counts of ids, by column, and of times."""
    found: dict[str, Any] = {"rows": len(columns[0])}
    labels = [repr(names[k]) if names is not None else k for k in range(len(columns))]
    missing = [np.broadcast_to(are_missing(c), len(c)).astype(bool) for c in columns]
    for k, (label, column, gaps) in enumerate(
        zip(labels, columns, missing, strict=True)
    ):
        ids = set(column[~gaps].tolist())
        found[f"distinct ids of column {label}"] = len(ids)
        found |= _of_spelling([id_ for id_ in ids if isinstance(id_, str)], label)
        if k < 2 and _are_like_values(ids, is_index=encoder is None):
            found[f"ids of column {label} that look like values"] = len(ids)
    found["rows with missing ids"] = int(np.sum(np.any(missing, axis=0)))
    left_out = np.zeros(len(columns[0]), dtype=bool)
    declared = (encoder.categories if encoder is not None else None) or ()
    for k, catalogue in enumerate(declared):
        if catalogue is not None and k < len(columns):
            is_id, column = ~missing[k], columns[k]
            known = Known(np.asarray(catalogue))
            is_id[is_id] = index_of_ids(known, column[is_id]) < 0
            unknown = len(set(column[is_id].tolist()))
            found[f"ids of column {labels[k]} that are not declared"] = unknown
            left_out |= is_id
    if encoder is not None:
        found["rows that are left out"] = int(left_out.sum())
    if encoder is not None and encoder.freq is not None:
        try:
            bins = calendar_bins(seconds_of(columns[-1][~missing[-1]]), encoder.freq)
            n_bins = int(np.ptp(bins)) + 1
            found["bins of times"] = f"{n_bins} (at most {MOST_BINS})"
        except ValueError as error:
            found["bins of times"] = str(error)
    keys = [np.unique(c.astype(str), return_inverse=True)[1] for c in columns]
    n_distinct = len(np.unique(np.column_stack(keys), axis=0))
    found["rows whose ids have occurred before"] = len(columns[0]) - n_distinct
    return found


_MISSING = {"", "nan", "none", "null", "na", "n/a", "nat", "<na>"}
"""How files write a missing id, in lower case."""


# A scale such as 1 to 5, 0 to 10 or 0.5 to 5 by halves has no more numbers.
_MOST_OF_SCALE = 21


def _are_like_values(ids: set[Any], *, is_index: bool) -> bool:
    """Whether distinct ids are numbers like those of a scale: few, whole or half.

    They are within 10 of each other and of 0, as stars are, and indices of the first
    rows are not: these begin at 0.
    """
    try:
        numbers = np.array([float(id_) for id_ in ids])
    except (TypeError, ValueError):
        return False
    if not 2 <= len(numbers) <= _MOST_OF_SCALE or not np.all(np.abs(numbers) <= 10):
        return False
    if is_index and np.min(numbers) == 0 and not np.any(numbers % 1):
        return False
    return bool(np.all(2 * numbers % 1 == 0) and np.ptp(numbers) <= 10)


def _of_spelling(ids: list[str], label: Any) -> dict[str, int]:
    """Counts of ids that differ by spaces alone, or spell a missing one, if any do."""
    stripped = Counter(id_.strip() for id_ in ids)
    alike = sum(n for n in stripped.values() if n > 1)
    spelt = sum(id_.strip().lower() in _MISSING for id_ in ids)
    found = {
        f"ids of column {label} that differ by spaces": alike,
        f"ids of column {label} that spell a missing id": spelt,
    }
    return {name: count for name, count in found.items() if count}


def _of_indices(
    columns: list[NDArray[Any]], shape: Sequence[int] | None
) -> dict[str, Any]:
    """The counts of coordinates; coordinates outside the shape are refused."""
    outside = np.zeros(len(columns[0]), dtype=bool)
    for k, column in enumerate(columns):
        size = math.inf if shape is None or k >= len(shape) else shape[k]
        try:
            indices = column.astype(float)
        except (TypeError, ValueError):
            indices = np.full(len(column), np.nan)
        outside |= ~((indices >= 0) & (indices < size) & (indices % 1 == 0))
    return {"rows whose coordinates are not in the shape": int(outside.sum())}


def _of_users(columns: list[NDArray[Any]]) -> dict[str, Any]:
    """The numbers of entries of users."""
    users = columns[0].astype(str)
    counts = np.unique(users, return_counts=True)[1] if len(users) else np.zeros(1, int)
    return {
        "fewest entries of a user": int(counts.min()),
        "median entries of a user": float(np.median(counts)),
        "most entries of a user": int(counts.max()),
    }


def _of_values(values: NDArray[np.float64], completion: Any) -> dict[str, Any]:
    """Counts of values missing, clipped or rounded; for choices, whether y varies."""
    finite = values[np.isfinite(values)]
    found: dict[str, Any] = {"missing values": len(values) - len(finite)}
    if isinstance(completion, ImplicitCompletion):
        found["values that choices ignore vary"] = bool(np.any(finite != finite[:1]))
        return found
    domain = declared_domain(completion.value_bounds, completion.levels)
    if domain is None:
        is_found = finds_scale(completion)
        found["range"] = "found by the fit" if is_found else "not declared"
        return found
    low, high = domain.bounds
    found["values below the range"] = int(np.sum(finite < low))
    found["values above the range"] = int(np.sum(finite > high))
    if len(finite):
        used = (float(np.min(finite)), float(np.max(finite)))
        found["range that the values use"] = "{:g} to {:g}".format(*used)
    if domain.levels is not None:
        inside = finite[(finite >= low) & (finite <= high)]
        found["values between levels"] = int(np.sum(~np.isin(inside, domain.levels)))
    return found


def _of_the_fit(
    columns: list[NDArray[Any]],
    encoder: CoordinateEncoder | None,
    completion: Any,
    shape: tuple[int, ...] | None,
) -> dict[str, Any]:
    """The shape, and the approximate time and memory of a fit.

    Time (on one core) and memory have a part in proportion to the number of entries,
    and another to the number of rows times the square of their number of columns. The
    factors come from fits to 100,000 and 400,000 synthetic ratings, with 2,250 to
    220,000 rows.
    """
    declared = (encoder.categories if encoder is not None else None) or ()
    sizes: list[Any] = list(completion.shape or shape or ())
    for k, column in enumerate(columns if not sizes else ()):
        catalogue: Any = declared[k] if k < len(declared) else None
        size = len(set(column.tolist())) if catalogue is None else len(catalogue)
        if encoder is None and column.dtype.kind in "iuf" and len(column):
            size = int(np.nanmax(column)) + 1
        sizes.append(size)
    n, is_unit = len(columns[0]), completion.unit != "entry"
    if isinstance(completion, ImplicitCompletion):
        n_items = min(most_items(completion), sizes[1])
        seconds, size = 1e-6 * n + n_items**3 / 3e9, 8.0 * n_items**2 + 100 * n
    else:
        rank = USUAL_RANK if completion.rank is None else np.max(completion.rank)
        # Rows of protected units take hardly any time.
        solved = sum(sizes) - (sizes[int(completion.unit)] if is_unit else 0)
        of_rows = (int(rank) + 1) ** 2 * solved
        is_of_sums = completion.perturbation in ("sums", "statistics", "output")
        is_tucker = isinstance(completion, TuckerCompletion) and not is_unit
        micro = 25.0 if is_tucker else 8.0
        micro = 1.0 if is_of_sums and not is_unit else micro
        seconds = 1e-6 * (micro * n + 0.65 * of_rows)
        size = (100 if is_unit or is_of_sums else 500) * n + 21 * of_rows
    if encoder is not None and completion.unit == 0:
        sizes[0] = "any users"
    return {
        "shape": " x ".join(map(str, sizes)),
        "expected seconds": round(float(seconds), 1),
        "expected megabytes": round((size + 1e8) / 1e6),
    }


def columns_with_values(X: ArrayLike, y: ArrayLike) -> list[Any]:
    """Find the columns of X that hold the values y, such as ratings left in X.

    A fit makes the columns of X public, so call this before a fit. Fits do not call it,
    since the result depends on the values and is not private: it is only for the people
    who hold them.

    A column is found if it equals y, or if its entries repeat and rows with the same
    entry always have the same value, such as ratings from 1 to 10 if y is half of them.

    Parameters
    ----------
    X : array-like or data frame of shape (n_rows, n_columns)
        Users, items and whatever else you would pass to `fit`.
    y : array-like of shape (n_rows,)
        The values.

    Returns
    -------
    columns : list of str or int
        Names of the columns, or their numbers if they have no names.

    Raises
    ------
    ValueError
        If `X` is not 2-dimensional, `y` does not hold numbers, or their lengths differ.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.completion import columns_with_values
    >>> table = [["ann", "Heat", 10], ["ann", "Up", 2], ["bob", "Heat", 2],
    ...          ["bob", "Up", 10]]
    >>> columns_with_values(table, [5, 1, 1, 5])
    [2]
    """
    check_numeric(y, "y")
    check_same_length(X, y)
    values = checked(column_or_1d, y, dtype=float)
    names = getattr(X, "columns", None)
    return [
        k if names is None else names[k]
        for k, column in enumerate(columns_of(X))
        if _holds(np.asarray(column), values)
    ]


def _holds(column: NDArray[Any], values: NDArray[np.float64]) -> bool:
    """Whether a column equals the values, or repeats and determines them."""
    try:
        if np.array_equal(column.astype(float), values):
            return True
    except (TypeError, ValueError):
        pass
    ids, groups = np.unique(column.astype(str), return_inverse=True)
    lowest, highest = np.full((2, len(ids)), np.nan)
    np.fmin.at(lowest, groups, values)
    np.fmax.at(highest, groups, values)
    return 2 * len(ids) <= len(values) and bool(np.all(lowest == highest))
