"""Checks of the data that users pass, each made once.

Users pass coordinates with values, a tensor with NaN, a sparse array, choices or Dask
collections. The functions here check the input on behalf of an estimator, which learns
the feature names and their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse, sparray, spmatrix
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from .._dask import is_dask, loaded, named_columns
from .._extras import imported
from .._validation import (
    as_numpy,
    check_aligned,
    check_container,
    check_coordinates,
    check_numeric,
    check_same_length,
    check_unmasked,
    checked,
    malformed,
    names_of,
    with_names,
)
from ..tensor import as_coordinates
from ..tensor._choices import Choices
from ..tensor._observations import places_of
from ._entries import Entries, check_values, extent, is_observed, without_missing
from ._likely_mistakes import (
    check_extent,
    in_columns_with_missing,
    warn_of_swapped_columns,
)
from ._sources import CompletionParameters

if TYPE_CHECKING:
    from ._dask import PartitionedEntries

# Formats whose blocks and diagonals are padded with zeros.
_PADDED = ("bsr", "dia")


class OfKnownShape(Protocol):
    """A fitted estimator that predicts at coordinates or ranks items.

    All completions and `ImplicitCompletion`.
    """

    shape: Sequence[int] | None

    @property
    def shape_(self) -> tuple[int, ...]:
        """Shape of the model."""


def observed_entries(
    estimator: CompletionParameters,
    X: ArrayLike,
    y: ArrayLike | None,
    shape: tuple[int, ...] | None,
) -> Entries | PartitionedEntries:
    """Check the input of `fit`, in whichever form it comes.

    Parameters
    ----------
    estimator : estimator
        Learns the feature names and their number; error messages name it.
    X, y : array-like
        See `BaseCompletion.fit`.
    shape : tuple of int or None
        The declared shape; None takes the smallest that holds the coordinates.

    Returns
    -------
    entries : Entries or PartitionedEntries
    """
    if is_dask(X):
        return _distributed_entries(estimator, X, y, shape)
    if y is None and not is_sparse(X):
        return entries_of_tensor(estimator, X, shape)
    return entries_at(estimator, X, y, shape)


def may_be_empty(estimator: BaseEstimator) -> bool:
    """Whether a fit must accept data without entries, as it does to protect one unit.

    If all data of a unit are protected, a data set with a single unit has an empty
    neighbour. An error would tell the two apart; a fit to noise does not. If the shape
    or the range is not declared, nothing is protected, and an error is more helpful.
    """
    declared = (getattr(estimator, name, None) for name in ("levels", "value_bounds"))
    return (
        getattr(estimator, "unit", "entry") != "entry"
        and estimator.shape is not None
        and any(values is not None for values in declared)
    )


def is_empty_list(X: object) -> bool:
    """Whether `X` is a list without rows, so that the length of rows is unknown."""
    return isinstance(X, list | tuple) and not len(X)


def entries_at(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None,
    shape: tuple[int, ...] | None,
    *,
    reset: bool = True,
) -> Entries:
    """Check coordinates with values, or a sparse array."""
    if is_sparse(X):
        if y is not None:
            raise ValueError(
                "X is sparse and holds its values: pass it without y, or convert it: "
                "X, y = entries_from_sparse(X)."
            )
        check_same_shape(X, shape)
        sizes = np.shape(X)
        X, y = entries_from_sparse(X)
        if shape is None:
            _check_extent(estimator, sizes, len(X))
        shape = sizes
    where, values = check_entries(estimator, X, y, shape, reset=reset)
    _check_any(estimator, values)
    return Entries(where, values, shape or _extent(estimator, where))


def check_same_shape(X: ArrayLike, shape: tuple[int, ...] | None) -> None:
    """Refuse a tensor of another shape than the model's; do not show its shape.

    A fold of a sparse array has another shape: its rows, the users, are renumbered.
    """
    if shape is None or np.shape(X) == shape:
        return
    advice = (
        " Folds of a sparse array number users anew, so they are of no use. Split the "
        "entries of the whole array: X, y = entries_from_sparse(X)."
    )
    raise malformed(
        "arrays",
        f"X has another shape than {shape}, the shape of the model."
        f"{advice if is_sparse(X) else ''}",
    )


def entries_of_batches(
    estimator: BaseEstimator,
    batches: Iterable[tuple[ArrayLike, ArrayLike]],
    shape: tuple[int, ...] | None,
) -> Entries:
    """Check batches of coordinates and values, and join them in their order."""
    checked_batches: list[tuple[Any, Any]] = []
    for batch in batches:
        try:
            X, y = batch
        except (TypeError, ValueError):
            raise ValueError("Each batch must be a pair of X and y.") from None
        check_unmasked(y, "y")
        if np.size(y):
            where, values = check_entries(
                estimator, X, y, shape, reset=not checked_batches
            )
            # A copy, since the caller may reuse the memory.
            checked_batches.append((where, values.copy()))
        else:
            check_same_length(X, y)
    if not checked_batches:
        if not (shape and may_be_empty(estimator)):
            raise ValueError("There is nothing to fit: no batch holds an entry.")
        nowhere = np.zeros((0, len(shape)))
        return entries_at(estimator, nowhere, np.zeros(0), shape)
    parts_of_where, parts_of_values = map(list, zip(*checked_batches, strict=True))
    checked_batches.clear()
    where, values = _joined(parts_of_where), _joined(parts_of_values)
    _check_any(estimator, values)
    return Entries(where, values, shape or _extent(estimator, where))


def _check_any(estimator: BaseEstimator, values: NDArray[np.floating]) -> None:
    """Refuse entries of which none is observed; no count and no value is shown."""
    if not (len(values) or may_be_empty(estimator)):
        raise ValueError("There is no observed entry: all values are `missing_values`.")


def _extent(estimator: BaseEstimator, where: NDArray[np.integer]) -> tuple[int, ...]:
    """The smallest shape that holds coordinates."""
    sizes = extent(where)
    _check_extent(estimator, sizes, len(where))
    return sizes


def _check_extent(
    estimator: BaseEstimator, sizes: tuple[int, ...], n_entries: int
) -> None:
    """Refuse an undeclared shape that is so large that a fit would never end."""
    unit = getattr(estimator, "unit", "entry")
    # The fit spends no time on rows of protected units.
    check_extent([n if k != unit else 0 for k, n in enumerate(sizes)], n_entries)


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays, and free each once it has been copied."""
    end, shape = sum(map(len, parts)), parts[0].shape[1:]
    joined = np.empty((end, *shape), np.result_type(*parts), order="F")
    while parts:
        part = parts.pop()
        joined[end - len(part) : end] = part
        end -= len(part)
    return joined


def entries_of_tensor(
    estimator: BaseEstimator, X: ArrayLike, shape: tuple[int, ...] | None
) -> Entries:
    """Check a tensor; the entries that are not NaN are observed."""
    if as_numpy(X, "X").dtype.kind in "biu":
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is "
            f"None. X holds integers, which cannot mark a missing entry: if X holds "
            f"coordinates, pass their values as y; if X is a tensor without missing "
            f"entries, pass X.astype(float)."
        )
    frame_names = None if names_of(X) is None else tuple(names_of(X))
    X = check_tensor(estimator, X, shape)
    missing_values = getattr(estimator, "missing_values", None)
    mask = ~np.isnan(X) & is_observed(X, missing_values)
    values = X[mask]
    if not (values.size or may_be_empty(estimator)):
        raise ValueError(
            "No entry of the tensor is observed: all are NaN or `missing_values`."
        )
    _learn_no_names(estimator, X.ndim)
    # If few entries are observed, sums over coordinates are faster than over the array.
    is_mask_best = values.size >= 0.05 * mask.size
    where = mask if is_mask_best else as_coordinates(mask)
    # If columns are protected units, their names are private.
    names = None if getattr(estimator, "unit", 0) == 1 else frame_names
    return Entries(where, values, mask.shape, is_dense=True, columns=names)


def _learn_no_names(estimator: BaseEstimator, n_features: int | None) -> None:
    """Learn the number of features of an input without names; None learns nothing."""
    if n_features is not None:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = n_features


def check_input(
    estimator: BaseEstimator, X: ArrayLike, *y: ArrayLike, **options: object
) -> Any:
    """Return `X`, or `X` and a `y` that is numeric, as arrays of finite numbers."""
    check_container(X, "X")
    # As pandas, a Dask frame keeps the names of its columns.
    (X,) = loaded(with_names(X))
    if is_sparse(X):
        raise TypeError(
            "X is sparse, but coordinates are expected. Convert it first: "
            "X, y = entries_from_sparse(X)."
        )
    encode = "; or encode them: X = CoordinateEncoder().fit_transform(X)."
    _refuse_text(estimator, X, encode)
    X, message = check_numeric(X, "X"), None
    try:
        return checked(validate_data, estimator, X, *y, dtype="numeric", **options)
    except ValueError as error:
        message = str(error)
    # Raised outside the handler, since the error handled there may show data.
    if message.startswith("Input X contains NaN"):
        # If entries are protected, coordinates are public.
        where = (
            in_columns_with_missing(X)
            if getattr(estimator, "unit", 0) == "entry"
            else ""
        )
        message = (
            f"Input X contains NaN{where}, so a coordinate is missing. Leave the row "
            "out, "
            "or, to predict, pass -1 for an unknown index. To fit a tensor with NaN "
            "where nothing was observed, pass it without y."
        )
        raise malformed("numbers", message)
    raise ValueError(message)


@np.errstate(over="ignore")
def check_entries(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None,
    shape: tuple[int, ...] | None,
    *,
    reset: bool = True,
    allow_unknown: bool = False,
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    """Return coordinates, inside `shape` if it is given, and their finite values.

    Entries with the value `missing_values` of the estimator are left out.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, got None."
        )
    check_aligned(X, y=y)
    if reset and getattr(estimator, "unit", "entry") == 0:
        warn_of_swapped_columns(names_of(X))
    y = check_numeric(y, "y")
    if shape is not None and is_empty_list(X):
        X = np.zeros((0, len(shape)))
    given, y = check_input(
        estimator,
        X,
        y,
        reset=reset,
        y_numeric=True,
        ensure_min_features=2 if reset else 1,
        ensure_min_samples=0 if may_be_empty(estimator) else 1,
    )
    where = check_coordinates(
        given, shape=shape, allow_unknown=allow_unknown, name=type(estimator).__name__
    )
    missing_values = getattr(estimator, "missing_values", None)
    return without_missing(where, check_values(y), missing_values)


def check_request(
    estimator: OfKnownShape, X: ArrayLike, new_users: ArrayLike = ()
) -> NDArray[np.int32]:
    """Return coordinates at which to predict; there may be no rows.

    If the shape was read off public coordinates, an index beyond it is unknown. New
    users are beyond the shape, but known: they change nothing for other indices.
    """
    shape = estimator.shape_
    if is_sparse(X):
        check_same_shape(X, shape)
    if is_empty_list(X):
        return np.zeros((0, len(shape)), dtype=np.int32)
    where = check_input(estimator, X, reset=False, ensure_min_samples=0)
    return known_indices(estimator, where, type(estimator).__name__, new_users)


def known_indices(
    estimator: OfKnownShape, X: NDArray[Any], name: str, new_users: ArrayLike = ()
) -> NDArray[np.int32]:
    """Coordinates of a request, with -1 where an index is unknown."""
    shape, is_declared = estimator.shape_, estimator.shape is not None
    where = check_coordinates(X, allow_unknown=True, name=name)
    is_new = places_of(where[:, 0], np.asarray(new_users)) >= 0
    others = where.copy() if is_new.any() else where
    others[is_new, 0] = 0
    if is_declared:
        check_coordinates(others, shape=shape, allow_unknown=True, name=name)
        return where
    where[others >= np.array(shape)] = -1
    return where


def check_tensor(
    estimator: BaseEstimator, X: ArrayLike, shape: tuple[int, ...] | None
) -> NDArray[np.floating]:
    """Return a tensor, of the given shape if any, with NaN for the unobserved."""
    if is_sparse(X):
        raise TypeError(
            "X is sparse, but a dense tensor is expected here. Pass coordinates "
            "and values: X, y = entries_from_sparse(X)."
        )
    _refuse_text(estimator, X, ", and pass the values as y: fit(ids, values).")
    array = np.asarray(check_numeric(X, "X"))
    if array.ndim < 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead: without y, X is a "
            "tensor of two or more modes."
        )
    tensor: NDArray[np.floating] = checked(
        check_array,
        array,
        allow_nd=True,
        dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan",
        estimator=estimator,
        input_name="X",
    )
    check_same_shape(tensor, shape)
    return tensor


def _distributed_entries(
    estimator: CompletionParameters,
    X: ArrayLike,
    y: ArrayLike | None,
    shape: tuple[int, ...] | None,
) -> PartitionedEntries:
    """Check Dask collections: a `PartitionedEntries`."""
    check_distributed(estimator)
    from ._dask import partitioned_entries

    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed with Dask "
            f"coordinates, got None."
        )
    if getattr(X, "ndim", 2) != 2:
        raise ValueError("X must be a 2-D Dask collection of coordinates.")
    options = {"reset": True, "skip_check_array": True}
    checked(validate_data, estimator, named_columns(X), **options)
    unit = None if estimator.unit == "entry" else int(estimator.unit)
    name, missing = type(estimator).__name__, estimator.missing_values
    entries = partitioned_entries(X, y, shape, name, unit, missing)
    if not (entries.n_entries or may_be_empty(estimator)):
        raise ValueError("There is nothing to fit: X holds no entry.")
    return entries


def check_distributed(estimator: CompletionParameters) -> None:
    """Refuse parameters that need all entries in this process; import Dask."""
    imported("dask", "dask")
    if estimator.perturbation in ("gradient", "output"):
        raise ValueError(
            f"perturbation={estimator.perturbation!r} is not supported for Dask input."
        )
    if estimator.unit == "entry" and estimator.personal:
        raise ValueError(
            "personal=True is not supported for Dask input. Set personal=False, and "
            "call fold_in with the entries of the users who ask."
        )


def _refuse_text(estimator: BaseEstimator, X: ArrayLike, advice: str) -> None:
    """Refuse text that is not a number, and say which class takes ids.

    The message ends with the advice.
    """
    if not _holds_text(X):
        return
    name = type(estimator).__name__
    taker = f"make_pipeline(CoordinateEncoder(), {name}(...))"
    if hasattr(estimator, "recommend"):
        taker = f"Recommender({name}(...))"
    raise malformed(
        "numbers",
        f"X must hold numbers, but it holds text. To pass ids, use {taker}{advice}",
    )


def _holds_text(X: ArrayLike) -> bool:
    """Whether `X` holds text that is not a number."""
    array = as_numpy(X, "X")
    if array.dtype.kind not in "OSU":
        return False
    for item in array.flat:
        try:
            if isinstance(item, (str, bytes)):
                float(item)
        except ValueError:
            return True
    return False


def check_choices(
    estimator: BaseEstimator,
    X: ArrayLike,
    shape: tuple[int, int],
    *,
    reset: bool = True,
) -> NDArray[np.int64]:
    """Check pairs and return each as a key ``user * n_items + item``.

    Parameters
    ----------
    estimator : estimator
        Learns the feature names and number of features; messages name it.
    X : array-like of shape (n, 2), or sparse array of shape `shape`
        Pairs of a user and an item. Repeated pairs stay repeated. In a sparse array,
        a stored zero or False is no choice.
    shape : tuple of (int, int)
        Numbers of users and of items.
    reset : bool, default=True
        Whether the estimator learns the feature names instead of comparing them.

    Returns
    -------
    keys : ndarray of shape (n,), int64

    Raises
    ------
    TypeError
        If `X` is a Dask collection.
    ValueError
        If a row is not a pair of a user and an item within `shape`, or if a stored
        value is negative, NaN or infinite.
    """
    name = type(estimator).__name__
    if is_dask(X):
        raise TypeError(
            f"{name} does not support Dask input. Pass batches to fit_batches."
        )
    check_container(X, "X")
    if is_sparse(X):
        check_same_shape(X, shape)
        where, values = entries_from_sparse(X)
        if not (np.all(np.isfinite(values)) and np.all(values >= 0)):
            raise malformed(
                "choices",
                "Some stored values of X are negative, NaN or infinite, so they are "
                "not choices. Keep those that are, such as X > 0.",
            )
        # An error about stored zeros would reveal whether anybody has one.
        where = where[values != 0]
        _learn_no_names(estimator, 2 if reset else None)
        return where[:, 0] * shape[1] + where[:, 1]
    if is_empty_list(X) or tuple(getattr(X, "shape", ())) == (0, 2):
        _learn_no_names(estimator, 2 if reset else None)
        return np.empty(0, dtype=np.int64)
    _check_width(getattr(X, "shape", ()), shape)
    if reset:
        warn_of_swapped_columns(names_of(X))
    given = check_input(estimator, X, reset=reset)
    _check_width(given.shape, shape)
    pairs = check_coordinates(given, shape=shape, name=name)
    return pairs[:, 0].astype(np.int64) * shape[1] + pairs[:, 1]


def choices_of_batches(
    estimator: BaseEstimator, batches: Iterable[ArrayLike], shape: tuple[int, int]
) -> Choices:
    """Check batches and join them; a pair in several batches counts once."""
    chunks: list[NDArray[np.int64]] = []
    for batch in batches:
        chunks.append(check_choices(estimator, batch, shape, reset=not chunks))
    if not chunks:
        estimator.n_features_in_ = 2
        chunks = [np.empty(0, dtype=np.int64)]
    return Choices.from_keys(_joined(chunks), shape[1])


CHOICES_HAVE_NO_VALUES = (
    "Choices have no values: leave out columns of counts, amounts or times, and the "
    "rows that are no choices. For values, use CPCompletion, with the values as y."
)


def _check_width(input_shape: tuple[int, ...], shape: tuple[int, int]) -> None:
    if len(input_shape) == 2 and input_shape[1] != 2:
        raise malformed(
            "arrays",
            f"X must have two columns, since a choice is a pair of a user and an item. "
            f"Pass X of shape (n_choices, 2), or a sparse array of shape {shape}. "
            f"{CHOICES_HAVE_NO_VALUES}",
        )


def is_sparse(X: object) -> bool:
    """Whether `X` is a sparse array of SciPy or of the package sparse."""
    return issparse(X) or type(X).__module__.split(".")[0] == "sparse"


def entries_from_sparse(
    X: sparray | spmatrix,
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Convert a sparse array to the coordinates and values of its stored entries.

    The `fit`, `partial_fit` and `fold_in` of completions accept sparse arrays directly.
    Cross-validation and clients need separate coordinates and values.

    Parameters
    ----------
    X : scipy.sparse array or matrix, or sparse.COO
        Every stored entry, stored zeros included, counts as observed; absent entries do
        not. Duplicates stay separate observations.

    Returns
    -------
    X : ndarray of shape (n_stored, n_modes), int64
        Coordinates.
    y : ndarray of shape (n_stored,)
        Values.

    Raises
    ------
    TypeError
        If `X` is not sparse.
    ValueError
        If its format is padded with zeros ("bsr", "dia"), its `fill_value`
        is not 0, or it has fewer than two modes.

    Examples
    --------
    >>> from scipy.sparse import coo_array
    >>> from sktensordp.completion import entries_from_sparse
    >>> X, y = entries_from_sparse(coo_array(([4.0, 0.0], ([0, 2], [1, 1]))))
    >>> X.tolist(), y.tolist()
    ([[0, 1], [2, 1]], [4.0, 0.0])
    """
    if not is_sparse(X):
        raise TypeError(
            f"X must be a sparse array of scipy.sparse or of the package sparse, got "
            f"{type(X).__name__}."
        )
    if X.ndim < 2:
        raise ValueError("X must have at least two modes.")
    if issparse(X):
        if X.format in _PADDED:
            raise ValueError(
                f"X has the sparse format {X.format!r}, whose padding zeros would "
                f"count as observed. Build X as a coo_array or csr_array."
            )
        X = X.tocoo()
    elif not (hasattr(X, "coords") and hasattr(X, "fill_value")):
        raise ValueError("X has no coordinates in its format. Pass X.asformat('coo').")
    elif X.fill_value != 0:
        raise ValueError(
            "X has a fill_value other than 0, which gives absent entries a value. Only "
            "stored entries count as observed: build X with fill_value=0."
        )
    where = np.stack([np.asarray(c, dtype=np.int64) for c in X.coords], axis=1)
    return where, np.asarray(X.data)
