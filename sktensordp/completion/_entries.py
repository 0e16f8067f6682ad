"""What was observed of a tensor, checked once.

Users pass coordinates with values, a tensor with NaN, a sparse array or Dask
collections. The functions here check the input on behalf of an estimator, which learns
the feature names and their number. All later code asks the entries, and does not know
where they are: in memory (`Entries`), in Dask partitions (`PartitionedEntries`) or with
parties (`PartySums`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from .._dask import is_dask, loaded, named_columns
from .._random import NoiseStreams
from .._validation import (
    as_numpy,
    check_columns,
    check_coordinates,
    check_numeric,
    check_same_length,
    check_unmasked,
    checked,
    range_of,
)
from ..tensor import (
    DenseEntries,
    Pattern,
    SparseEntries,
    as_coordinates,
    pattern_of,
)
from ..tensor._sums import shared_entries
from ..tensor._unit_entries import UnitEntries
from ._domain import Domain
from ._draws import Draws
from ._likely_mistakes import in_columns_with_missing
from ._sparse import entries_from_sparse, is_sparse
from ._values import EntryRandomizer

# From this share of observed entries on, sums over all entries of an array are faster
# than sums over coordinates.
_LEAST_DENSITY = 0.05


@dataclass(frozen=True, eq=False)
class Entries:
    """The observed entries of a tensor, in memory.

    `PartitionedEntries` answers the same questions for the partitions of Dask
    collections, and `PartySums` answers those about units for parties.

    Parameters
    ----------
    where : ndarray of shape (n, n_modes), int32, or of the shape of the tensor, bool
        Coordinates, or a mask of the observed entries. Only this class tells the two
        apart.
    values : ndarray of shape (n,) or None
        None if only the coordinates are of interest.
    shape : tuple of int
        Shape of the tensor.
    is_dense : bool, default=False
        Whether the user passed a tensor.
    """

    where: NDArray[Any]
    values: Any
    shape: tuple[int, ...]
    is_dense: bool = False

    is_local = True

    @property
    def n_entries(self) -> int:
        """Number of observed entries."""
        is_mask = self.where.dtype == bool
        return int(np.count_nonzero(self.where)) if is_mask else len(self.where)

    @property
    def coordinates(self) -> NDArray[np.integer]:
        """Coordinates of the entries; a mask is converted at every call."""
        return as_coordinates(self.where)

    @property
    def counts(self) -> list[NDArray[np.int64]]:
        """Number of entries in each row, mode by mode."""
        return [
            np.bincount(column, minlength=size)
            for column, size in zip(self.coordinates.T, self.shape, strict=True)
        ]

    @property
    def used_indices(self) -> list[NDArray[np.integer]]:
        """Indices that have entries, mode by mode."""
        return [
            # A mode with far more indices than entries would not fit into memory.
            np.unique(column)
            if size > 8 * len(column)
            else np.flatnonzero(np.bincount(column, minlength=size))
            for column, size in zip(self.coordinates.T, self.shape, strict=True)
        ]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.values.dtype

    @property
    def value_range(self) -> tuple[float, float]:
        """Least and largest value; private."""
        return range_of(self.values)

    def without_values(self, order: Sequence[int] | None = None) -> Self:
        """The same places without their values, the modes in another order if given."""
        if order is None or list(order) == sorted(order):
            return replace(self, values=None)
        shape = tuple(self.shape[mode] for mode in order)
        return replace(self, where=self.coordinates[:, order], values=None, shape=shape)

    def pattern(self, n_components: int | None) -> Pattern:
        """Features of the rows of the second mode; see `pattern_of`."""
        return pattern_of(self.coordinates, self.shape, n_components)

    def shared(self) -> Any:
        """Numbers of entries that two rows share; see `shared_entries`."""
        return shared_entries(self.coordinates, self.shape)

    def row_sums(
        self, summands_of: Callable[[NDArray[np.floating]], NDArray[np.floating]]
    ) -> NDArray[np.float64]:
        """Sums over the entries of every row, one mode after the other.

        Parameters
        ----------
        summands_of : callable
            Maps values to summands; integers are summed exactly.

        Returns
        -------
        sums : ndarray of shape (sum of shape,)
        """
        return _sums_at(self.coordinates, self.shape, summands_of(self.values))

    def total(
        self, summands_of: Callable[[NDArray[np.floating]], NDArray[np.floating]]
    ) -> NDArray[np.float64]:
        """Sum over all entries, of shape (1,); see `row_sums`."""
        one_row = np.zeros((self.n_entries, 1), dtype=np.int32)
        return _sums_at(one_row, (1,), summands_of(self.values))

    def randomized(
        self, randomizer: EntryRandomizer, streams: NoiseStreams | None
    ) -> Draws:
        """Randomise the values; see `EntryRandomizer.draw`."""
        drawn = randomizer.draw(self.values, streams)
        return Draws(self.without_values(), randomizer, drawn, self.dtype)

    def by_unit(self, domain: Domain, unit: int) -> UnitEntries:
        """All entries of every unit together, clipped to the domain; kept."""
        asked, (known, found) = (domain, unit), vars(self).get("_units", (None, None))
        if asked != known:
            where = self.coordinates
            if unit:
                others = np.delete(np.arange(len(self.shape)), unit)
                where = where[:, [unit, *others]]
            found = UnitEntries(where, domain.kept(self.values), domain.centred_levels)
            vars(self)["_units"] = asked, found
        return found

    def with_values(
        self,
        values: NDArray[np.floating],
        signs: NDArray[np.int8],
        outputs: NDArray[np.uint8] | None = None,
    ) -> SparseEntries | DenseEntries:
        """Store values at these places, in the form whose sums are fastest.

        Parameters
        ----------
        values : ndarray of shape (n,)
        signs : ndarray of shape (n,), int8
            Signs with which the `rescale` of the result moves the values.
        outputs : ndarray of shape (n,), uint8, default=None
            Numbers of the outputs of the table that randomised the values.
        """
        if self.where.dtype != bool:
            return SparseEntries(self.where, values, self.shape, signs, outputs)
        tensor = np.zeros(self.shape, dtype=values.dtype)
        tensor[self.where] = values
        return DenseEntries(tensor, self.where, signs, outputs)


def _sums_at(
    where: NDArray[np.integer], shape: Sequence[int], summands: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Sums of numbers over the rows of every mode, one mode after the other."""
    sums = [
        np.bincount(column, weights=summands, minlength=size)
        for column, size in zip(where.T, shape, strict=True)
    ]
    return np.concatenate(sums)


def observed_entries(
    estimator: Any, X: Any, y: Any, shape: tuple[int, ...] | None
) -> Any:
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


def may_be_empty(estimator: Any) -> bool:
    """Whether the data may hold no entry: only its one unit would be missing then.

    Where all data of a unit are protected, a data set with one unit has a neighbour
    without any. An error would tell the two apart; a fit to noise does not. If the
    shape or the range is not declared, nothing is protected, and an error says more.
    """
    declared = (getattr(estimator, name, None) for name in ("levels", "value_bounds"))
    return (
        getattr(estimator, "unit", "entry") != "entry"
        and estimator.shape is not None
        and any(values is not None for values in declared)
    )


def is_empty_list(X: Any) -> bool:
    """Whether `X` is a list without rows, which does not tell how long rows are."""
    return isinstance(X, list | tuple) and not len(X)


def entries_at(
    estimator: Any, X: Any, y: Any, shape: tuple[int, ...] | None, *, reset: bool = True
) -> Entries:
    """Check coordinates with values, or a sparse array."""
    if is_sparse(X):
        if y is not None:
            raise ValueError(
                "X is sparse and holds its values: pass it without y, or convert it: "
                "X, y = entries_from_sparse(X)."
            )
        check_same_shape(X, shape)
        shape = X.shape
        X, y = entries_from_sparse(X)
    where, values = check_entries(estimator, X, y, shape, reset=reset)
    return Entries(where, values, shape or extent(where))


def check_same_shape(X: Any, shape: tuple[int, ...] | None) -> None:
    """Refuse an array of another shape than the declared one; its own is private."""
    if shape is not None and np.shape(X) != shape:
        raise ValueError(f"X has another shape than {shape}, which is declared.")


def extent(where: NDArray[np.integer]) -> tuple[int, ...]:
    """The smallest shape that holds these coordinates."""
    return tuple((where.max(axis=0) + 1).tolist())


def entries_of_batches(
    estimator: Any, batches: Iterable[tuple[Any, Any]], shape: tuple[int, ...] | None
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
    if not checked_batches and not (shape and may_be_empty(estimator)):
        raise ValueError("There is nothing to fit: no batch holds an entry.")
    if not checked_batches:
        assert shape is not None
        nowhere = np.zeros((0, len(shape)))
        return entries_at(estimator, nowhere, np.zeros(0), shape)
    end = sum(len(values) for _, values in checked_batches)
    n_modes = checked_batches[0][0].shape[1]
    where = np.empty((end, n_modes), dtype=np.int32, order="F")
    values = np.empty(end, np.result_type(*(v for _, v in checked_batches)))
    while checked_batches:
        # From the last to the first, so that each batch is freed once it is copied.
        batch_where, batch_values = checked_batches.pop()
        start = end - len(batch_values)
        where[start:end], values[start:end] = batch_where, batch_values
        end = start
    return Entries(where, values, shape or extent(where))


def entries_of_tensor(estimator: Any, X: Any, shape: tuple[int, ...] | None) -> Entries:
    """Check a tensor; the entries that are not NaN are observed."""
    if as_numpy(X, "X").dtype.kind in "biu":
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is "
            f"None. X holds integers, which cannot mark a missing entry: if X holds "
            f"coordinates, pass their values as y; if X is a tensor without missing "
            f"entries, pass X.astype(float)."
        )
    X = check_tensor(estimator, X, shape)
    mask = ~np.isnan(X)
    values = X[mask]
    if not (values.size or may_be_empty(estimator)):
        raise ValueError("No entry of the tensor is observed: all are NaN.")
    vars(estimator).pop("feature_names_in_", None)
    estimator.n_features_in_ = X.ndim
    is_mask_best = values.size >= _LEAST_DENSITY * mask.size
    where = mask if is_mask_best else as_coordinates(mask)
    return Entries(where, values, mask.shape, is_dense=True)


def check_input(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Return `X`, or `X` and `y`, as arrays of finite numbers."""
    check_columns(X)
    (X,) = loaded(X)  # as pandas, a Dask frame keeps the names of its columns
    if is_sparse(X):
        raise TypeError(
            "X is sparse, but coordinates are expected. Convert it first: "
            "X, y = entries_from_sparse(X)."
        )
    if _holds_text(X):
        raise ValueError(
            f"X must hold numbers, but it holds text. To pass ids, "
            f"{_taking_ids(estimator)}; or encode them: "
            f"X = CoordinateEncoder().fit_transform(X)."
        )
    check_numeric(X, "X")
    message = None
    try:
        return checked(validate_data, estimator, X, *y, dtype="numeric", **options)
    except ValueError as error:
        message = str(error)
    # Raised outside of the handler, whose error may show data.
    if message.startswith("Input X contains NaN"):
        # Where entries are protected, coordinates are public.
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
    raise ValueError(message)


@np.errstate(over="ignore")
def check_entries(
    estimator: Any,
    X: Any,
    y: Any,
    shape: tuple[int, ...] | None,
    *,
    reset: bool = True,
    allow_unknown: bool = False,
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    """Return coordinates, inside `shape` if it is given, and their finite values."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, got None."
        )
    check_numeric(y, "y")
    if shape is not None and is_empty_list(X):
        X = np.zeros((0, len(shape)))
    X, y = check_input(
        estimator,
        X,
        y,
        reset=reset,
        y_numeric=True,
        ensure_min_features=2 if reset else 1,
        ensure_min_samples=0 if may_be_empty(estimator) else 1,
    )
    where = check_coordinates(
        X, shape=shape, allow_unknown=allow_unknown, name=type(estimator).__name__
    )
    y = np.asarray(y, dtype=np.float32 if y.dtype == np.float32 else np.float64)
    # scikit-learn does not take None for NaN.
    if not np.all(np.isfinite(y)):
        raise ValueError("Some values in y are NaN, infinite or missing.")
    return where, y


def check_tensor(
    estimator: Any, X: Any, shape: tuple[int, ...] | None
) -> NDArray[np.floating]:
    """Return a tensor, of the given shape if any, with NaN for the unobserved."""
    if is_sparse(X):
        raise TypeError(
            "X is sparse, but a dense tensor is expected here. Pass coordinates "
            "and values: X, y = entries_from_sparse(X)."
        )
    if _holds_text(X):
        raise ValueError(
            f"X must hold numbers, but it holds text. To pass ids, "
            f"{_taking_ids(estimator)}, and pass the values as y: fit(ids, values)."
        )
    check_numeric(X, "X")
    X = np.asarray(X)
    if X.ndim < 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: without y, X is a "
            "tensor of two or more modes."
        )
    X = checked(
        check_array,
        X,
        allow_nd=True,
        dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan",
        estimator=estimator,
        input_name="X",
    )
    check_same_shape(X, shape)
    return X


def _distributed_entries(
    estimator: Any, X: Any, y: Any, shape: tuple[int, ...] | None
) -> Any:
    """Check Dask collections: a `PartitionedEntries`."""
    from ._partitioned import partitioned_entries

    if estimator.perturbation in ("gradient", "output"):
        raise ValueError(
            f"perturbation={estimator.perturbation!r} is not supported for Dask input."
        )
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
    entries = partitioned_entries(X, y, shape, type(estimator).__name__, unit)
    if not (entries.n_entries or may_be_empty(estimator)):
        raise ValueError("There is nothing to fit: X holds no entry.")
    return entries


def _taking_ids(estimator: Any) -> str:
    """What takes ids in place of an estimator, in words."""
    name = type(estimator).__name__
    if hasattr(estimator, "recommend"):
        return f"use Recommender({name}(...))"
    return f"use make_pipeline(CoordinateEncoder(), {name}(...))"


def _holds_text(X: Any) -> bool:
    """Whether `X` holds text that is not a number."""
    X = as_numpy(X, "X")
    if X.dtype.kind not in "OSU":
        return False
    for item in X.flat:
        try:
            if isinstance(item, (str, bytes)):
                float(item)
        except ValueError:
            return True
    return False


class AnyFrameMixin:
    """Mixin of transformers whose output is a tensor, not a data frame."""

    def set_output(self, *, transform: str | None = None) -> Self:
        """Do nothing: the output is a tensor, not a data frame.

        The method lets a pipeline set the output of its other steps.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None

        Returns
        -------
        self : object
        """
        return self
