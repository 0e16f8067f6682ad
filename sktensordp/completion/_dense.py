"""Additional methods for dense tensors: `transform`, and frames as output."""

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from .._sklearn_compat import framed, only_if, wants_frame
from .._validation import names_of
from ._checks import is_sparse


class AnyFrameMixin:
    """Mixin of transformers that return a tensor, or a frame if it has two modes."""

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the output of `transform`, as scikit-learn's ``set_output``.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            A frame gets the index and the columns of the frame that you passed. Only a
            tensor of two modes can be a frame. None changes nothing.

        Returns
        -------
        self : object
        """
        if transform is not None:
            config = dict(vars(self).get("_sklearn_output_config", {}))
            self._sklearn_output_config = {**config, "transform": transform}
        return self

    def _framed(
        self,
        completed: NDArray[Any],
        X: ArrayLike,
        names: Sequence[object] | None = None,
    ) -> Any:
        """Return the output as a frame if `set_output` asks for one.

        Its columns have the names of the columns of `X`, or else the given ones.
        """
        if not wants_frame(self):
            return completed
        if completed.ndim != 2:
            raise ValueError(
                f"Tensors of {completed.ndim} modes do not fit into a data frame. Call "
                f"set_output(transform='default') to get an array."
            )
        generated = [f"x{k}" for k in range(completed.shape[1])]
        own = names_of(X)
        return framed(self, completed, X, (names or generated) if own is None else own)


class DenseFit(Protocol):
    """The result of a fit to a tensor; see `Fitted`."""

    @property
    def is_dense(self) -> bool:
        """Whether the model was fitted to a tensor."""

    @property
    def columns(self) -> tuple[Any, ...] | None:
        """Names of the columns of the wide frame in the fit."""

    def dense(self) -> NDArray[np.floating]:
        """Predict all values of the tensor."""


class CompletesTensors(Protocol):
    """The methods that `DenseMixin` needs in the class that it is mixed into."""

    @property
    def _fitted(self) -> DenseFit:
        """The result of the fit."""

    @property
    def shape_(self) -> tuple[int, ...]:
        """Shape of the model."""

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a fit."""

    def fit(self, X: ArrayLike) -> Self:
        """Fit to a tensor."""

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict every value of the tensor."""

    def _framed(
        self,
        completed: NDArray[Any],
        X: ArrayLike,
        names: Sequence[object] | None = None,
    ) -> Any:
        """Return the output as a frame if `set_output` asks for one."""


class DenseMixin(AnyFrameMixin):
    """Mixin of completions, which complete a tensor after a fit to one."""

    @property
    def _dense(self: CompletesTensors) -> bool:
        """Whether the model was fitted to a tensor."""
        return self.__sklearn_is_fitted__() and self._fitted.is_dense

    @only_if(
        lambda self: self._dense or not self.__sklearn_is_fitted__(),
        "fit_transform completes a tensor, but this model was fitted to coordinates. "
        "Call fit(tensor), then transform(tensor).",
    )
    def fit_transform(
        self: CompletesTensors, X: ArrayLike, y: None = None
    ) -> NDArray[np.float64]:
        """Fit to a tensor, then complete it.

        Parameters
        ----------
        X : array-like of shape (I_1, ..., I_N)
            The tensor, NaN where nothing was observed.
        y : None
            Must be None. With coordinates, use `fit` and `predict`.

        Returns
        -------
        completed : ndarray of shape (I_1, ..., I_N)

        Raises
        ------
        ValueError
            As `fit`, and if `y` is passed.
        """
        if y is not None:
            raise ValueError(
                "fit_transform completes a tensor X and takes no y. With coordinates, "
                "call fit(X, y), then predict."
            )
        if is_sparse(X):
            raise TypeError(
                "X is sparse, but fit_transform completes a dense tensor with NaN "
                "where nothing was observed. Call fit(X), then predict."
            )
        return self.fit(X).transform(X)

    @only_if(
        lambda self: self._dense,
        "transform needs a fit to a tensor. After fit(X, y) with coordinates, use "
        "predict.",
    )
    def transform(self: CompletesTensors, X: ArrayLike) -> NDArray[np.float64]:
        """Predict every value of the tensor, after a fit to a tensor.

        Parameters
        ----------
        X : array-like of shape (I_1, ..., I_N)
            Only its shape is read: observed values are predicted too, never copied to
            the output.

        Returns
        -------
        completed : ndarray of shape (I_1, ..., I_N), or a frame by `set_output`
            Predictions within `value_bounds_`.

        Raises
        ------
        ValueError
            If the shape of `X` differs from that of the fitted tensor, or `set_output`
            asks for a frame although there are more than two modes.
        """
        check_is_fitted(self)
        if np.shape(X) != self.shape_:
            raise ValueError(f"X must have the shape of the fit, {self.shape_}.")
        return self._framed(self._fitted.dense(), X, self._fitted.columns)

    @only_if(
        lambda self: self._dense,
        "get_feature_names_out names the columns of a tensor: fit to a tensor first.",
    )
    def get_feature_names_out(
        self: CompletesTensors, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Names of the columns that `transform` returns, after a fit to a wide table.

        Parameters
        ----------
        input_features : array-like of shape (n_columns,), default=None
            Names to return; None for those of the frame in the fit, or x0, x1, ...

        Returns
        -------
        names : ndarray of shape (n_columns,)

        Raises
        ------
        ValueError
            If there are more or fewer names than columns, or the tensor has more than
            two modes.
        """
        if len(self.shape_) > 2:
            raise ValueError("Tensors of more than two modes have no feature names.")
        n_columns = self.shape_[1]
        given: ArrayLike = self._fitted.columns or [f"x{k}" for k in range(n_columns)]
        if input_features is not None:
            given = input_features
        names = np.asarray(given, dtype=object)
        if names.shape != (n_columns,):
            raise ValueError(f"input_features should have length equal to {n_columns}.")
        return names
