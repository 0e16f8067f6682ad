"""What a completed tensor is asked for; nothing here reads a value of the data."""

from numbers import Integral
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .._sklearn_compat import available_if
from .._validation import check_coordinates, check_numeric, checked
from ._sparse import is_sparse
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
    _unit_of_fit: int | None
    _warn_of_lost_rows: Any
    shape_: tuple[int, ...]
    offset_: float
    value_bounds_: tuple[float, float]
    residual_variance_: float
    perturbation_: str

    def _can_transform(self):
        if not getattr(self, "_dense", False):
            raise AttributeError(
                "transform completes the tensor of the fit. After fit(X, y) with "
                "coordinates, use predict."
            )
        return True

    def _can_fit_transform(self):
        if hasattr(self, "n_iter_") and not self._dense:
            raise AttributeError(
                "fit_transform completes a tensor, but this model was fitted to "
                "coordinates. Call fit(tensor), then transform(tensor)."
            )
        return True

    @available_if(_can_fit_transform)
    def fit_transform(self, X: ArrayLike, y: None = None) -> NDArray[np.float64]:
        """Fit to a tensor, then complete it.

        Parameters
        ----------
        X : array-like of shape (I_1, ..., I_N)
            NaN where nothing was observed.
        y : None
            Coordinates and their values are for `fit` and `predict`.

        Returns
        -------
        completed : ndarray of shape (I_1, ..., I_N)

        Raises
        ------
        ValueError
            If `y` is passed, and as `fit`.
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
        self._warn_of_lost_rows(np.zeros(1))
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
        if self._unit_of_fit is not None:
            self._warn_of_lost_rows(coordinates[:, self._unit_of_fit])
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
        """The items with the largest predictions, without those already observed.

        Items are indices of mode 1. They are ranked for indices of mode 0, usually
        users, or for pairs of these with a context.

        Parameters
        ----------
        units : int or array-like of shape (n_units,)
            Indices of mode 0; -1 stands for one that is not known.
        k : int, default=10
            Number of items.
        context : array-like of shape (n_modes - 2,), default=None
            Indices of the other modes; -1, the default, for what is not known. An
            item that was observed in any context is left out. Where `unit` is one of
            these modes, its index is the unit that asks, and only its own entries
            count: an item is left out if that unit has an entry of it at the same
            index of mode 0. For an unknown unit nothing is left out.

        Returns
        -------
        items : ndarray of shape (k,) or (n_units, k)
            Best first. -1 where there is no further item.

        Raises
        ------
        ValueError
            If an index is outside the tensor, `k` is not positive, or the items are
            the protected units (``unit=1``): their order would tell whoever asks
            about the entries of others.
        """
        check_is_fitted(self)
        if self._unit_of_fit == 1:
            raise ValueError(
                "recommend ranks the indices of mode 1, but unit=1 protects them: the "
                "ranking would reveal the entries of the ranked units to whoever asks. "
                "Put the items into mode 1 and the protected units into another mode."
            )
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
        if self._unit_of_fit is not None:
            self._warn_of_lost_rows(asked[:, self._unit_of_fit])
        return self._best_items(asked, k).reshape(*np.shape(units), k)

    def _best_items(self, asked, k):
        n_items = self.shape_[1]
        best = np.full((len(asked), k), -1, dtype=np.int64)
        for start in range(0, len(asked), _UNITS):
            part = asked[start : start + _UNITS]
            scores = self._answering.slices(part, 1)
            for unit, item in self._seen_items(part):
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

    def _seen_items(self, asked):
        """Yields positions in `asked` with the items that were observed there.

        Where a unit is protected, those that the asking unit has observed itself.
        """
        keys = sorted({0, self._unit_of_fit or 0})
        asked, sizes = asked[:, keys], [self.shape_[k] for k in keys]
        known = np.flatnonzero(np.all(asked >= 0, axis=1))
        wanted = np.ravel_multi_index(tuple(asked[known].T), sizes)
        for where in self._seen:
            where = as_coordinates(where)
            # An interrupted `partial_fit` may have had others.
            where = where[np.all(where < self.shape_, axis=1)]
            places = np.ravel_multi_index(tuple(where[:, keys].T), sizes)
            chosen = np.isin(places, wanted)
            places, items = places[chosen], where[chosen, 1]
            order = np.argsort(places, kind="stable")
            places, items = places[order], items[order]
            first = np.searchsorted(places, wanted)
            last = np.searchsorted(places, wanted, side="right")
            for position, *ends in zip(known, first, last, strict=True):
                yield position, items[slice(*ends)]
