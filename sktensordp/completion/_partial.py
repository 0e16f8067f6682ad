"""Further batches of entries for a model that is fitted to randomised values."""

import math
from typing import Any, Self

from numpy.typing import ArrayLike

from .._sklearn_compat import available_if, effective_n_threads, fit_context
from .._validation import check_modes
from ..privacy import PrivacyGuarantee
from ..tensor import (
    StructuredTucker,
    times_recurring,
    update_structured_cp,
    update_structured_tucker,
)
from ._sparse import is_sparse
from ._streams import as_coordinates, repeated, together

__all__ = ["PartialFitMixin"]


class PartialFitMixin:
    """Mixin of completions: `partial_fit`."""

    epsilon: float
    perturbation: str
    unit: str | int
    calibration: str
    max_iter: int
    biases: bool
    smooth_modes: Any
    offset_: float
    shape_: tuple[int, ...]
    value_bounds_: tuple[float, float]
    noise_variance_: float
    residual_variance_: float
    # Of the completion.
    _check_entries: Any
    _check_sparse: Any
    _count_releases: Any
    _declared_shape: Any
    _fit: Any
    rank: Any
    _form: Any
    _form_of_fit: Any
    _plan: Any
    _publish: Any
    _record: Any
    _release: Any
    _shape_of: Any
    _validate_params: Any
    __sklearn_is_fitted__: Any
    # Kept also for `recommend`: where values were observed, call by call; how many
    # calls had the same coordinates; the guarantee of one call; bounds, levels and
    # variance of the noise of the fit.
    _observed: list[Any]
    _n_uses: int
    _single: PrivacyGuarantee
    _randomized: tuple[Any, Any, float]
    _model: Any

    def _can_partial_fit(self):
        asked = self.perturbation in ("auto", "input") and self.calibration == "sound"
        asked = asked and self.unit == "entry"
        # Every sound fit to randomised values has it, and no other.
        can_go_on = hasattr(self, "residual_variance_") and self._observed is not None
        if not asked or (self.__sklearn_is_fitted__() and not can_go_on):
            raise AttributeError(
                'partial_fit is there for perturbation="input" alone, where every '
                "value is randomised for itself."
            )
        return True

    @available_if(_can_partial_fit)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Randomise the values of new entries and take them into the model.

        With ``perturbation="auto"``, a stream that begins here takes "input", since
        that alone can go on; what else `fit` has taken cannot.

        The posterior of the model so far is the prior of what follows; only the rows
        of the factors that the new entries touch change, and the learned precisions
        and the variance do not. Fitting to all entries at once is more accurate.

        **Guarantee.** Every value is randomised in the call that it is passed to, once
        under `epsilon`, so that values of different entries do not add up. Coordinates
        that come back in a later call may be of the same value again: then
        `privacy_guarantee_` counts all the calls that had them.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes)
            Coordinates of the new entries. Where `shape` is not declared, new indices
            make the tensor larger. Or a sparse array, as for `fit`.
        y : array-like of shape (n_observed,)
            Their values, finite; None for a sparse array.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            Before anything is drawn: as `fit`, and if parameters of the model or the
            range of the values are not those of the fit.
        """
        fitted = self.__sklearn_is_fitted__()
        declared = self._declared_shape()
        if is_sparse(X):
            where, values, shape = self._check_sparse(X, y, declared, reset=not fitted)
        elif y is None:
            raise ValueError(
                "y is missing. Call partial_fit(X, y) with coordinates and their "
                "values; only a sparse X goes without y."
            )
        else:
            where, values = self._check_entries(X, y, declared, reset=not fitted)
            shape = self._shape_of(where)
        if not fitted:
            return self._fit(where, values, shape, streaming=True)
        self._validate_params()
        self._check_unchanged()
        # One call after the other: each goes on with the model of the one before.
        with self._count_releases().lock:
            *domain, noise_then = self._randomized
            randomizer = self._plan(bounds=self.value_bounds_)
            if domain != [randomizer.bounds, randomizer.levels]:
                raise ValueError("value_bounds and levels must be those of the fit.")
            observed = [*self._observed, where]
            recurring = times_recurring([*map(as_coordinates, observed)])
            uses = max(self._n_uses, recurring)
            total = together(self._single, randomizer.guarantee)
            after, single = repeated(total, uses), total
            if math.isinf(self.epsilon):
                self._record(randomizer.guarantee)
                self.privacy_guarantee_ = after
                self._observed, self._n_uses, self._single = observed, uses, single
                released = randomizer.clip(values)
            else:
                with self._release(randomizer.guarantee, after) as source:
                    # Before anything is drawn, so that an interrupted call counts.
                    self._observed, self._n_uses, self._single = observed, uses, single
                    released = randomizer.randomize(values, source)
            del values
            released -= self.offset_
            noise = self.noise_variance_
            if randomizer.noise_variance != noise_then:
                # Another epsilon than in the fit.
                noise = randomizer.noise_variance + self.residual_variance_
            is_tucker = isinstance(self._model, StructuredTucker)
            update = update_structured_tucker if is_tucker else update_structured_cp
            model = update(
                self._model, where, released,
                noise_variance=noise, max_iter=self.max_iter,
                n_threads=effective_n_threads(),
            )  # fmt: skip
            self._publish(model, self.max_iter)
        return self

    def _check_unchanged(self):
        """Refuse to go on with a model that has other columns than declared."""
        n_modes = len(self.shape_)
        smooth_modes = check_modes(self.smooth_modes, n_modes, "smooth_modes")
        form = self._form_of_fit
        if self.rank is not None:
            form = self._form(range(n_modes), self.shape_)
        if not self._model.has_columns(form, self.biases, smooth_modes):
            raise ValueError(
                "rank, biases and smooth_modes must be those of the fit; call fit to "
                "change them."
            )
