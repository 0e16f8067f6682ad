"""What was observed of a tensor: checked once, and of one type from there on.

Users pass coordinates with values, a tensor with NaN, a sparse array or collections of
Dask. These functions check them for an estimator, which learns the names and the number
of features; everything after them meets `Entries` alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from .._dask import is_dask, named_columns
from .._validation import (
    as_numpy,
    check_columns,
    check_coordinates,
    check_numeric,
    check_unmasked,
    checked,
)
from ..tensor import as_coordinates
from ._sparse import entries_from_sparse, is_sparse

__all__ = [
    "AnyFrameMixin",
    "Entries",
    "check_entries",
    "check_input",
    "check_tensor",
    "entries_at",
    "entries_of_batches",
    "entries_of_tensor",
    "extent",
    "observed_entries",
]


@dataclass(frozen=True, eq=False)
class Entries:
    """The observed entries of a tensor.

    Attributes
    ----------
    where : ndarray of shape (n, n_modes), int32, or of the shape of the tensor, bool
        Coordinates, or a mask that marks them; of Dask, an `Observed` that has both
        coordinates and values in partitions.
    values : ndarray of shape (n,), the same Observed, or None
        None where coordinates alone are asked about.
    shape : tuple of int
        Of the tensor.
    """

    where: Any
    values: Any
    shape: tuple[int, ...]

    @property
    def is_distributed(self) -> bool:
        """Whether they are in partitions of Dask, and stay there."""
        return not isinstance(self.where, np.ndarray)

    @property
    def is_dense(self) -> bool:
        """Whether a tensor was passed, of which a mask is left."""
        return not self.is_distributed and bool(self.where.dtype == bool)

    @cached_property
    def coordinates(self) -> Any:
        """Coordinates, also of what a mask marks."""
        return as_coordinates(self.where)


def observed_entries(
    estimator: Any, X: Any, y: Any, shape: tuple[int, ...] | None
) -> Entries:
    """Checked entries of whatever `fit` is given.

    Parameters
    ----------
    estimator : estimator
        That learns names and number of features, and is named in messages.
    X, y : array-like
        See `BaseCompletion.fit`.
    shape : tuple of int or None
        As declared; None for that which the coordinates have.

    Returns
    -------
    entries : Entries
    """
    if is_dask(X):
        return _distributed_entries(estimator, X, y, shape)
    if y is None and not is_sparse(X):
        return entries_of_tensor(estimator, X, shape)
    return entries_at(estimator, X, y, shape)


def entries_at(
    estimator: Any, X: Any, y: Any, shape: tuple[int, ...] | None, *, reset: bool = True
) -> Entries:
    """Checked entries of coordinates with values, or of a sparse array."""
    if is_sparse(X):
        if y is not None:
            raise ValueError(
                "X is sparse and holds its values: pass it without y, or convert it: "
                "X, y = entries_from_sparse(X)."
            )
        if shape is not None and X.shape != shape:
            raise ValueError(f"X has shape {X.shape}, but shape is {shape}.")
        found, shape = entries_from_sparse(X), X.shape
        X, y = found
    where, values = check_entries(estimator, X, y, shape, reset=reset)
    return Entries(where, values, shape or extent(where))


def extent(where: NDArray[np.integer]) -> tuple[int, ...]:
    """The shape that coordinates have."""
    return tuple((where.max(axis=0) + 1).tolist())


def entries_of_batches(
    estimator: Any, batches: Iterable[tuple[Any, Any]], shape: tuple[int, ...] | None
) -> Entries:
    """Checked entries of batches of coordinates and values, one below the other."""
    found: list[tuple[Any, Any]] = []
    for batch in batches:
        try:
            X, y = batch
        except (TypeError, ValueError):
            raise ValueError("A batch is a pair of X and y.") from None
        check_unmasked(y, "y")
        if np.size(y):
            where, values = check_entries(estimator, X, y, shape, reset=not found)
            # A copy: the source may use its memory again.
            found.append((where, values.copy()))
    if not found:
        raise ValueError("There is nothing to fit: no batch came.")
    end, n_modes = sum(len(values) for _, values in found), found[0][0].shape[1]
    where = np.empty((end, n_modes), dtype=np.int32, order="F")
    values = np.empty(end, np.result_type(*(v for _, v in found)))
    while found:
        # From the last one on, so that each is let go when it has been copied.
        part_where, part = found.pop()
        where[end - len(part) : end] = part_where
        values[end - len(part) : end] = part
        end -= len(part)
    return Entries(where, values, shape or extent(where))


def entries_of_tensor(estimator: Any, X: Any, shape: tuple[int, ...] | None) -> Entries:
    """Entries of a tensor that are not NaN."""
    if as_numpy(X, "X").dtype.kind in "biu":
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is "
            f"None. X holds integers, which cannot mark a missing entry: if X holds "
            f"coordinates, pass their values as y; if X is a tensor without missing "
            f"entries, pass X.astype(float)."
        )
    X = check_tensor(estimator, X, shape)
    mask = ~np.isnan(X)
    if not mask.any():
        raise ValueError("No entry of the tensor is observed: all are NaN.")
    vars(estimator).pop("feature_names_in_", None)
    estimator.n_features_in_ = X.ndim
    return Entries(mask, X[mask], mask.shape)


def check_input(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """`X`, or `X` and `y`, as arrays of finite numbers."""
    check_columns(X)
    if is_sparse(X):
        raise TypeError(
            "X is sparse, but coordinates are expected. Convert it first: "
            "X, y = entries_from_sparse(X)."
        )
    if _holds_text(X):
        raise ValueError(
            f"X must hold numbers, but some of it is text. Encode ids first: "
            f"make_pipeline(CoordinateEncoder(), {type(estimator).__name__}(...))."
        )
    check_numeric(X, "X")
    message = None
    try:
        return checked(validate_data, estimator, X, *y, dtype="numeric", **options)
    except ValueError as error:
        message = str(error)
    if message.startswith("Input X contains NaN"):
        message = (
            "Input X contains NaN, so a coordinate is missing. Leave the row out, "
            "or pass -1 for an unknown index to predict. To fit a tensor with NaN "
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
    """Coordinates within `shape`, if there is one, and their finite values."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, got None."
        )
    check_numeric(y, "y")
    X, y = check_input(
        estimator, X, y,
        reset=reset, y_numeric=True, ensure_min_features=2 if reset else 1,
    )  # fmt: skip
    where = check_coordinates(
        X, shape=shape, allow_unknown=allow_unknown, name=type(estimator).__name__
    )
    y = np.asarray(y, dtype=np.float32 if y.dtype == np.float32 else np.float64)
    # None is not NaN to scikit-learn.
    if not np.all(np.isfinite(y)):
        raise ValueError("Some values in y are NaN, infinite or missing.")
    return where, y


def check_tensor(
    estimator: Any, X: Any, shape: tuple[int, ...] | None
) -> NDArray[np.floating]:
    """A tensor, NaN for the unobserved, of the shape where there is one."""
    if is_sparse(X):
        raise TypeError(
            "X is sparse, but a dense tensor is expected here. Pass coordinates "
            "and values: X, y = entries_from_sparse(X)."
        )
    if _holds_text(X):
        raise ValueError(
            f"X must hold numbers, but some of it is text. Encode ids first, and "
            f"pass the values as y: make_pipeline(CoordinateEncoder(), "
            f"{type(estimator).__name__}(...)).fit(ids, values)."
        )
    check_numeric(X, "X")
    X = np.asarray(X)
    if X.ndim < 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: without y, X is a "
            "tensor of two or more modes."
        )
    X = checked(
        check_array, X, allow_nd=True, dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan", estimator=estimator, input_name="X",
    )  # fmt: skip
    if shape is not None and X.shape != shape:
        raise ValueError(f"X has shape {X.shape}, but shape is {shape}.")
    return X


def _distributed_entries(
    estimator: Any, X: Any, y: Any, shape: tuple[int, ...] | None
) -> Entries:
    """Checked entries of Dask collections."""
    from ._distributed import observed_of

    wanting = {
        f"unit={estimator.unit!r}": estimator.unit != "entry",
        f"calibration={estimator.calibration!r}": estimator.calibration != "sound",
        f"perturbation={estimator.perturbation!r}": estimator.perturbation
        in ("gradient", "output"),
    }
    for what, asked in wanting.items():
        if asked:
            raise ValueError(f"{what} is not supported for Dask input.")
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed with coordinates of "
            f"Dask, got None."
        )
    if getattr(X, "ndim", 2) != 2:
        raise ValueError("Expected a 2-D collection of coordinates.")
    options = {"reset": True, "skip_check_array": True}
    checked(validate_data, estimator, named_columns(X), **options)
    observed = observed_of(X, y, shape, type(estimator).__name__)
    return Entries(observed, observed, observed.shape)


def _holds_text(X: Any) -> bool:
    """Whether some of it is text that does not spell a number; no value is shown."""
    X = as_numpy(X, "X")
    if X.dtype.kind not in "OSU":
        return False
    for one in X.flat:
        try:
            if isinstance(one, (str, bytes)):
                float(one)
        except ValueError:
            return True
    return False


class AnyFrameMixin:
    """Mixin of transformers of tensors, which are no data frames."""

    def set_output(self, *, transform: str | None = None) -> Self:
        """Ignored: a tensor is no data frame. It lets a pipeline set its other steps.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None

        Returns
        -------
        self : object
        """
        return self
