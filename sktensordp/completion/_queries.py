"""What a completed tensor is asked for; nothing here reads a value of the data."""

from numbers import Integral
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .._sklearn_compat import available_if
from .._validation import check_coordinates, check_numeric, checked
from ._streams import as_coordinates

__all__ = ["QueriesMixin"]

# Units whose items are ranked at once.
_UNITS = 256


class QueriesMixin:
    """Mixin of completions: `transform`, `predict` and `recommend` from a model."""

    fit: Any
    _model: Any
    _check_input: Any
    # What answers, and where values were observed.
    _answering: Any
    _seen: list[Any]
    shape_: tuple[int, ...]
    offset_: float
    value_bounds_: tuple[float, float]
    residual_variance_: float
    perturbation_: str

    def _can_transform(self):
        if not getattr(self, "_dense", False):
            raise AttributeError(
                "transform is there after a fit to a tensor, without y."
            )
        return True

    @available_if(_can_transform)
    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """The model everywhere, after a fit to a tensor.

        Parameters
        ----------
        X : array-like of shape (I_1, ..., I_N)
            Its shape is checked; no value of it is read, so that nothing observed
            gets into the output but through the fit.

        Returns
        -------
        completed : ndarray of shape (I_1, ..., I_N)
            Within `value_bounds_`.

        Raises
        ------
        ValueError
            If `X` has another shape than the tensor in the fit.
        """
        check_is_fitted(self)
        if np.shape(X) != self.shape_:
            raise ValueError(
                f"X has shape {np.shape(X)}, but the tensor of the fit {self.shape_}."
            )
        return np.clip(self.offset_ + self._answering.dense(), *self.value_bounds_)

    @overload
    def predict(
        self, X: ArrayLike, return_std: Literal[False] = False
    ) -> NDArray[np.floating]: ...

    @overload
    def predict(
        self, X: ArrayLike, return_std: Literal[True]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]: ...

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> NDArray[np.floating] | tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Values of the model at coordinates.

        Parameters
        ----------
        X : array-like of shape (n_entries, n_modes)
            Coordinates inside `shape_`; -1 stands for an index that is not known,
            and is predicted from what is known of the others.
        return_std : bool, default=False
            Whether to return how far the values are expected from the predictions.

        Returns
        -------
        y : ndarray of shape (n_entries,)
            Within `value_bounds_`.
        std : ndarray of shape (n_entries,)
            With `return_std`: standard deviation of a value, before it is randomised,
            around its prediction. Its square is the posterior variance of the model
            plus `residual_variance_`, and it is at most the distance to the farther
            of `value_bounds_`.

        Raises
        ------
        ValueError
            If a coordinate is fractional, below -1 or outside `shape_`, or if standard
            deviations are not known.
        """
        check_is_fitted(self)
        X = self._check_input(X, reset=False)
        coordinates = check_coordinates(
            X, shape=self.shape_, allow_unknown=True, name=type(self).__name__
        )
        mean = self.offset_ + self._answering.predict(coordinates)
        mean = np.clip(mean, *self.value_bounds_, out=mean)
        if not return_std:
            return mean
        if not hasattr(self, "residual_variance_"):
            raise ValueError(
                "This model gives no standard deviations; they are known after the "
                'sound perturbation="input" alone.'
            )
        variance, _ = self._model.variance(coordinates)
        std = np.sqrt(variance + self.residual_variance_)
        # No value is farther from its prediction than the farther bound.
        low, high = self.value_bounds_
        std = np.minimum(std, np.maximum(mean - low, high - mean))
        return mean, std.astype(mean.dtype)

    def recommend(
        self, units: ArrayLike, k: int = 10, *, context: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """The items with the largest predictions, of those that a unit has no value of.

        The units are indices of mode 0, as users are, the items those of mode 1.

        Parameters
        ----------
        units : int or array-like of shape (n_units,)
            -1 stands for a unit that is not known.
        k : int, default=10
            Number of items.
        context : array-like of shape (n_modes - 2,), default=None
            Indices of the other modes; -1, the default, for what is not known. An
            item that was observed in any context is left out.

        Returns
        -------
        items : ndarray of shape (k,) or (n_units, k)
            Best first. -1 where there is no further item.

        Raises
        ------
        ValueError
            If an index is outside the tensor, or `k` is not positive.
        """
        check_is_fitted(self)
        if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be a positive integer, got {k!r}.")
        check_numeric(units, "units")
        wanted = np.atleast_1d(units)
        if wanted.ndim != 1:
            raise ValueError("units must be an index or a list of indices.")
        n_others = len(self.shape_) - 2
        rest = np.full(n_others, -1)
        if context is not None:
            check_numeric(context, "context")
            rest = np.asarray(context)
        if rest.shape != (n_others,):
            raise ValueError(f"context must hold {n_others} indices.")
        # In which every integer and every fraction stays what it is.
        asked = np.empty((len(wanted), len(self.shape_)), dtype=np.longdouble)
        asked[:, 0], asked[:, 1], asked[:, 2:] = wanted, -1, rest
        asked = check_coordinates(
            checked(check_array, asked, estimator=self, input_name="units"),
            shape=self.shape_, allow_unknown=True, name="recommend",
        )  # fmt: skip
        return self._best_items(asked, k).reshape(*np.shape(units), k)

    def _best_items(self, asked, k):
        n_items = self.shape_[1]
        best = np.full((len(asked), k), -1, dtype=np.int64)
        for start in range(0, len(asked), _UNITS):
            part = asked[start : start + _UNITS]
            scores = self._answering.slices(part, 1)
            for unit, item in self._seen_items(part[:, 0]):
                scores[unit, item] = -np.inf
            n_best = min(k, n_items)
            chosen = np.argpartition(-scores, n_best - 1, axis=1)[:, :n_best]
            score = np.take_along_axis(scores, chosen, axis=1)
            order = np.lexsort((chosen, -score))
            chosen = np.take_along_axis(chosen, order, axis=1)
            score = np.take_along_axis(score, order, axis=1)
            best[start : start + _UNITS, :n_best] = np.where(
                np.isneginf(score), -1, chosen
            )
        return best

    def _seen_items(self, units):
        """Yields positions in `units` with the items that were observed with them."""
        wanted = np.zeros(self.shape_[0] + 1, dtype=bool)
        wanted[units] = True
        wanted[-1] = False
        for where in self._seen:
            where = as_coordinates(where)
            # An interrupted `partial_fit` may have had others.
            where = where[np.all(where < self.shape_, axis=1)]
            where = where[wanted[where[:, 0]]]
            where = where[np.argsort(where[:, 0], kind="stable")]
            first = np.searchsorted(where[:, 0], units)
            last = np.searchsorted(where[:, 0], units, side="right")
            for position, ends in enumerate(zip(first, last, strict=True)):
                yield position, where[slice(*ends), 1]
