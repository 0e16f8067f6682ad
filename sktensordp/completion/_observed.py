"""Observed entries as they are passed in: coordinates with values, or a tensor."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from .._dask import named_columns
from .._validation import (
    as_numpy,
    check_columns,
    check_coordinates,
    check_numeric,
    checked,
)
from ._sparse import entries_from_sparse, is_sparse

__all__ = ["ObservedMixin"]


class ObservedMixin:
    """Mixin of estimators that are fitted to the observed entries of a tensor."""

    fit: Any
    # Of a completion.
    calibration: str
    perturbation: str
    unit: str | int
    _protects_units: bool

    def fit_transform(self, X: ArrayLike, y: None = None) -> NDArray[np.float64]:
        """Fit to a tensor, then transform it.

        Parameters
        ----------
        X : array-like of shape (I_1, ..., I_N)
            NaN where nothing was observed.
        y : None
            Ignored. Coordinates and their values are for `fit`.

        Returns
        -------
        transformed : ndarray of shape (I_1, ..., I_N)
        """
        return self.fit(X).transform(X)

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

    def _check_input(self, X, *y, **options):
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
                f"make_pipeline(CoordinateEncoder(), {type(self).__name__}(...))."
            )
        check_numeric(X, "X")
        message = None
        try:
            return checked(validate_data, self, X, *y, dtype="numeric", **options)
        except ValueError as error:
            message = str(error)
        if message.startswith("Input X contains NaN"):
            message = (
                "Input X contains NaN, so a coordinate is missing. Leave the row out, "
                "or pass -1 for an unknown index to predict. To fit a tensor with NaN "
                "where nothing was observed, pass it without y."
            )
        raise ValueError(message)

    def _check_sparse(self, X, y, shape, *, reset=True):
        """Coordinates, values and shape of a sparse array."""
        if y is not None:
            raise ValueError(
                "X is sparse and holds its values: pass it without y, or convert it: "
                "X, y = entries_from_sparse(X)."
            )
        if shape is not None and X.shape != shape:
            raise ValueError(f"X has shape {X.shape}, but shape is {shape}.")
        where, values = entries_from_sparse(X)
        return *self._check_entries(where, values, X.shape, reset=reset), X.shape

    @np.errstate(over="ignore")
    def _check_entries(self, X, y, shape, *, reset=True, allow_unknown=False):
        """Coordinates within `shape`, if there is one, and their finite values."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, got None."
            )
        check_numeric(y, "y")
        X, y = self._check_input(
            X, y, reset=reset, y_numeric=True, ensure_min_features=2 if reset else 1
        )
        where = check_coordinates(
            X, shape=shape, allow_unknown=allow_unknown, name=type(self).__name__
        )
        y = np.asarray(y, dtype=np.float32 if y.dtype == np.float32 else np.float64)
        # None is not NaN to scikit-learn.
        if not np.all(np.isfinite(y)):
            raise ValueError("Some values in y are NaN, infinite or missing.")
        return where, y

    def _check_tensor(self, X, shape):
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
                f"{type(self).__name__}(...)).fit(ids, values)."
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
            ensure_all_finite="allow-nan", estimator=self, input_name="X",
        )  # fmt: skip
        if shape is not None and X.shape != shape:
            raise ValueError(f"X has shape {X.shape}, but shape is {shape}.")
        return X

    def _check_observed(self, X, shape):
        """Mask of the observed entries of a tensor, and their values."""
        if as_numpy(X, "X").dtype.kind in "biu":
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                f"None. X holds integers, which cannot mark a missing entry: if "
                f"X holds coordinates, pass their values as y; if X is a tensor "
                f"without missing entries, pass X.astype(float)."
            )
        X = self._check_tensor(X, shape)
        mask = ~np.isnan(X)
        if not mask.any():
            raise ValueError("No entry of the tensor is observed: all are NaN.")
        vars(self).pop("feature_names_in_", None)
        self.n_features_in_ = X.ndim
        return mask, X[mask]

    def _check_distributed(self, X, y, shape):
        """What is observed in Dask collections."""
        from ._distributed import observed_of

        wanting = {
            f"unit={self.unit!r}": self._protects_units,
            f"calibration={self.calibration!r}": self.calibration != "sound",
            f"perturbation={self.perturbation!r}": self.perturbation
            in ("gradient", "output"),
        }
        for what, asked in wanting.items():
            if asked:
                raise ValueError(f"{what} is not there for data of Dask.")
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed with coordinates of "
                f"Dask, got None."
            )
        if getattr(X, "ndim", 2) != 2:
            raise ValueError("Expected a 2-D collection of coordinates.")
        options = {"reset": True, "skip_check_array": True}
        checked(validate_data, self, named_columns(X), **options)
        return observed_of(X, y, shape, type(self).__name__)


def _holds_text(X):
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
