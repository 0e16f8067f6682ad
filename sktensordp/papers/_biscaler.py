"""`BiScaler`: rows and columns standardised to mean zero and variance one, privately.

Guarantee. Coordinates are public. If two data sets differ in the value of one entry,
the sums of values differ in one row and in one column, by at most the range of the
values. These sums get discrete Laplace noise, and the means are computed from the noisy
sums. Given the means, the squared residuals, clipped to a public range, differ in one
entry; so their sums differ in one row and one column, and get noise too. The guarantee
composes the four releases: rows and columns, of values and of squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, TransformerTags
from sklearn.utils.validation import check_is_fitted

from .._sklearn_compat import Interval, available_if, fit_context
from .._validation import (
    adds_noise,
    check_bounds,
    check_modes,
    check_shape,
    range_of,
    warn,
)
from ..base import EstimatorMixin, NoiseBy, PrivateEstimatorMixin, recorded_fit
from ..completion._checks import check_entries, check_tensor, entries_of_tensor
from ..completion._client import PUBLIC_COORDINATES
from ..completion._dense import AnyFrameMixin
from ..completion._domain import Domain
from ..completion._entries import Entries, extent
from ..completion._values import entry_guarantee
from ..completion.measurements._sums import SumsRandomizer, plan_sums_randomizer
from ..exceptions import PrivacyLeakWarning
from ..privacy import PrivacyGuarantee, PrivacyTags
from ._scales import _MAX_SWEEPS, private_statistics, published_statistics

_SUMS = (
    "The sums of the values, and of their squared residuals, in every row and column"
)
_STATEMENT = (
    f"{_SUMS} were given discrete Laplace noise; the means and the scales are computed "
    "from them and the coordinates."
)
_SOURCE = (
    "Dwork, McSherry, Nissim and Smith (2006), Theorem 1, for rows and columns, for "
    "values and squares"
)
# Share of epsilon for the sums of values; the sums of squares have the rest.
_SHARE = 0.8
# The squares of larger values overflow.
_LARGEST = 1e152


class BiScaler(EstimatorMixin, AnyFrameMixin, PrivateEstimatorMixin, BaseEstimator):
    """Standardise the rows and the columns of a sparse tensor, under a budget.

    With a budget, the means and scales of rows and columns are computed from noisy
    sums, which protects the value of one observed entry. Without one
    (``epsilon=None``), this is the bi-scaling of [1]_ that precedes the completions of
    [2]_: its means and scales are statistics of the raw values, which voids the
    guarantee of any later step.

    Parameters
    ----------
    epsilon : float, default=None
        Budget of one entry. None runs the published procedure on the raw values, with
        a ``PrivacyLeakWarning``. ``float("inf")`` runs the private procedure without
        noise.
    value_bounds : tuple of (float, float), default=None
        Public range, to which values are clipped. If it is None and `epsilon` is
        finite, the fit reads the range off the values with a ``PrivacyLeakWarning``,
        and the guarantee is void.
    shape : tuple of int, default=None
        Sizes of the modes. By default they are the largest coordinates plus one.
    modes : tuple of (int, int), default=(0, 1)
        The modes of the rows and of the columns.
    clip : float, default=3.0
        Largest magnitude of a standardised value; larger ones are clipped.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the noise in every clone, although
        never in two fits of one object.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of the means and the scales together.
    offset_ : float
        Mean of all values.
    means_ : list of two ndarrays of shape (shape_[mode],)
        Means of the rows and of the columns, less `offset_`; zero where nothing was
        observed. The lower mode comes first.
    scale_ : float
        The common scale, which is also that of an entry whose row and column have no
        observed value.
    scales_ : list of two ndarrays of shape (shape_[mode],)
        Scales of the rows and of the columns, positive. The scale of an entry is the
        product of the two; where nothing was observed, each is the square root of
        `scale_`.
    value_bounds_ : tuple of (float, float)
        Public range of the standardised values, ``(-clip, clip)``. Pass it to the
        completion that follows.
    shape_ : tuple of int
        Sizes of the modes.
    n_features_in_ : int
        Number of modes.

    Notes
    -----
    The value of an entry in row i and column j is ::

            y = offset + a_i + b_j + tau_i * gamma_j * z

    with the means a_i and b_j and the scales tau_i and gamma_j of its row and column.
    The standardised value z has mean about zero and variance about one over the
    observed entries of every row and every column. Entries that differ only in other
    modes share their row and column.

    **Who is protected.** Neighbouring data sets differ in the value of one observed
    entry. Which entries are observed (the coordinates) is public. The guarantee covers
    the means and the scales only. The standardised values are as private as the values:
    a later step must protect them, within `value_bounds_`, under its own epsilon.

    The means are the posterior means of biases given their noisy sums, as in
    ``CPCompletion(perturbation="sums")``. Squared residuals around them are clipped at
    the square of half the range. The logarithms of the variances of rows and columns
    have a normal prior. Its centre, the common scale, and its width are learned from
    the noisy sums of squares: the larger the noise, the closer all scales are to the
    common one. Only the four sets of sums (of values and of squares, by row and by
    column) read the values.

    The published procedure solves for the means of all rows, then of all columns, and
    then for their variances. It repeats this until nothing changes, or 1000 times; in
    the second case it gives a ``ConvergenceWarning``. A row or column keeps the common
    scale if it has fewer than two values, or if the means explain its values exactly.
    If there are such rows or columns, the variances of the others cannot all be one;
    then only those of the columns are. If most rows or columns have one or two values,
    no scales give variances of one.

    References
    ----------
    .. [1] Hastie, Mazumder, Lee and Zadeh, "Matrix Completion and Low-Rank SVD via Fast
       Alternating Least Squares", 2015, Section 7.1.
    .. [2] Wei, Li, Mao and Wang, "Applying Differential Privacy to Tensor
       Completion", 2022, Section 5.2.

    Examples
    --------
    >>> from sktensordp.completion import CPCompletion
    >>> from sktensordp.datasets import make_ratings
    >>> from sktensordp.papers import BiScaler
    >>> ratings = make_ratings(50, 40, 1000, random_state=0)
    >>> X, y = ratings.data, ratings.target
    >>> scaler = BiScaler(1.0, value_bounds=(0.5, 5), random_state=0).fit(X, y)
    >>> model = CPCompletion(rank=2, epsilon=3.0, value_bounds=scaler.value_bounds_,
    ...                      random_state=0).fit(X, scaler.scale_values(X, y))
    >>> scaler.unscale_values(X, model.predict(X)).shape
    (1000,)
    >>> print(scaler.privacy_guarantee_)
    This fit: (epsilon = 1, delta = 0)-differential privacy for the value of one
    observed entry (replace-one).
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's protocol)
        "epsilon": [Interval(Real, 0, None, closed="right"), None],
        "value_bounds": ["array-like", None],
        "shape": ["array-like", None],
        "modes": ["array-like"],
        "clip": [Interval(Real, 0, None, closed="neither")],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    offset_: float
    means_: list[NDArray[np.float64]]
    scale_: float
    scales_: list[NDArray[np.float64]]
    value_bounds_: tuple[float, float]
    shape_: tuple[int, ...]
    n_features_in_: int

    # The fit keeps the modes of rows and columns, the declared range of the values, and
    # whether the input was a tensor.
    _modes: tuple[int, ...]
    _domain: tuple[float, float] | None
    _dense: bool | None = None

    def __init__(
        self,
        epsilon: float | None = None,
        *,
        value_bounds: tuple[float, float] | None = None,
        shape: Sequence[int] | None = None,
        modes: tuple[int, int] = (0, 1),
        clip: float = 3.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.value_bounds = value_bounds
        self.shape = shape
        self.modes = modes
        self.clip = clip
        self.random_state = random_state

    @property
    def _time_is_public(self) -> bool:
        """False for the published procedure: raw values decide when it ends."""
        return self.epsilon is not None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.non_deterministic = self._has_noise
        # dtypes are preserved, but scikit-learn would check that after a fit with y.
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Compute the means and scales of rows and columns.

        Parameters
        ----------
        X : array-like of shape (n_observed, n_modes) or (I_1, ..., I_N)
            With `y`: coordinates of the observed entries, as integers or integral
            floats. Without `y`: the tensor itself, as floats with NaN where nothing was
            observed.
        y : array-like of shape (n_observed,), default=None
            The observed values, finite.

        Returns
        -------
        self : BiScaler

        Raises
        ------
        ValueError
            Before noise is drawn: if a coordinate is fractional, negative or outside
            `shape`; if a value is NaN or infinite; if `value_bounds` are out of order;
            if `modes` are not two of the modes; or if `y` is missing and `X` holds
            integers, which may be coordinates.
        """
        declared = None if self.shape is None else check_shape(self.shape)
        if y is None:
            entries = entries_of_tensor(self, X, declared)
        else:
            coordinates, y = check_entries(self, X, y, declared)
            entries = Entries(coordinates, y, declared or extent(coordinates))
        shape = entries.shape
        modes = check_modes(self.modes, len(shape), "modes")
        if len(modes) != 2 or len(self.modes) != 2:
            raise ValueError(f"modes must be two different modes, got {self.modes!r}.")
        where, sizes = entries.coordinates[:, modes], tuple(shape[m] for m in modes)
        values = entries.values.astype(float)
        guarantee, domain, randomizers = self._planned_release(where, sizes, values)
        domain = None if self.value_bounds is None else domain
        progress = self._progress("sweep", _MAX_SWEEPS if self.epsilon is None else 1)
        # Without the lock, another thread might store its statistics under this
        # guarantee.
        with progress as on_sweep, self._count_releases().lock:
            noise_by: NoiseBy = "fit" if self._has_noise else "nobody"
            with recorded_fit(self, guarantee, noise_by) as streams:
                if self.epsilon is not None:
                    means, squares = randomizers
                    statistics = private_statistics(means, squares, values, streams)
                else:
                    if domain is not None:
                        values = np.clip(values, *domain)
                    statistics = published_statistics(where.T, values, sizes, on_sweep)
            if self.epsilon is not None:
                on_sweep()
            self._modes, self._dense, self._domain = modes, entries.is_dense, domain
            self.offset_, self.means_, self.scale_, self.scales_ = statistics
            self.value_bounds_ = -float(self.clip), float(self.clip)
            self.shape_ = shape
        return self

    def fit_transform(self, X: ArrayLike, y: None = None) -> NDArray[np.floating]:
        """Fit to a tensor, then standardise it.

        Parameters
        ----------
        X : array-like of shape (I_1, ..., I_N)
            NaN where nothing was observed.
        y : None
            Ignored. Pass coordinates and their values to `fit` instead.

        Returns
        -------
        standardised : ndarray of shape (I_1, ..., I_N)
        """
        return self.fit(X).transform(X)

    def scale_values(self, X: ArrayLike, y: ArrayLike) -> NDArray[np.floating]:
        """Standardise the values of entries.

        Parameters
        ----------
        X : array-like of shape (n_entries, n_modes)
            Coordinates inside `shape_`; -1 stands for an unknown index.
        y : array-like of shape (n_entries,)
            The values, finite.

        Returns
        -------
        z : ndarray of shape (n_entries,)
            Within `value_bounds_`. They are as private as the values.

        Raises
        ------
        ValueError
            If a coordinate is fractional, below -1 or outside `shape_`, or a value is
            NaN or infinite.
        """
        return self._scaled(*self._of_entries(X, y))

    def unscale_values(self, X: ArrayLike, z: ArrayLike) -> NDArray[np.floating]:
        """Convert standardised values, such as predictions, to the original scale.

        Parameters
        ----------
        X : array-like of shape (n_entries, n_modes)
            Coordinates inside `shape_`; -1 stands for an unknown index.
        z : array-like of shape (n_entries,)
            The standardised values, finite.

        Returns
        -------
        y : ndarray of shape (n_entries,)
            Within `value_bounds`, if these were declared.

        Raises
        ------
        ValueError
            As `scale_values`.
        """
        return self._unscaled(*self._of_entries(X, z))

    def _can_transform(self) -> bool:
        # This also works before a fit, when a Pipeline looks for the method.
        if self._dense is False:
            raise AttributeError(
                "transform needs a fit to a tensor. After a fit to coordinates, use "
                "scale_values(X, y)."
            )
        return True

    @available_if(_can_transform)
    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Standardise a tensor, after a fit to a tensor.

        Parameters
        ----------
        X : array-like of shape (I_1, ..., I_N)
            NaN where nothing was observed.

        Returns
        -------
        standardised : ndarray of shape (I_1, ..., I_N)
            Within `value_bounds_`, and NaN where `X` is. As private as `X`.

        Raises
        ------
        ValueError
            If the shape of `X` is not that of the tensor in the fit, or a value is
            infinite.
        """
        check_is_fitted(self)
        array = check_tensor(self, X, self.shape_)
        return self._framed(self._scaled(array, *self._everywhere()), X)

    @available_if(_can_transform)
    def inverse_transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Convert a standardised tensor, such as its completion, to the original scale.

        Parameters
        ----------
        X : array-like of shape (I_1, ..., I_N)

        Returns
        -------
        tensor : ndarray of shape (I_1, ..., I_N)
            Within `value_bounds`, if these were declared; NaN where `X` is.

        Raises
        ------
        ValueError
            As `transform`.
        """
        check_is_fitted(self)
        return self._unscaled(check_tensor(self, X, self.shape_), *self._everywhere())

    _of_fit = "_modes", "_dense", "_domain"

    def __sklearn_is_fitted__(self) -> bool:
        return "shape_" in vars(self)

    @property
    def _has_noise(self) -> bool:
        return self.epsilon is not None and adds_noise(self.epsilon)

    def _at(self, indices: list[NDArray[np.integer]]) -> tuple[Any, Any]:
        """Centre and scale at indices of rows and columns; -1 is an unknown index."""
        center, scale = self.offset_, 1.0
        for index, mean, root in zip(indices, self.means_, self.scales_, strict=True):
            center = center + np.append(mean, 0.0)[index]
            scale = scale * np.append(root, math.sqrt(self.scale_))[index]
        return center, scale

    def _of_entries(
        self, X: ArrayLike, values: ArrayLike
    ) -> tuple[NDArray[np.floating], Any, Any]:
        """Checked values of entries, with the centre and scale of each."""
        check_is_fitted(self)
        where, checked = check_entries(
            self, X, values, self.shape_, reset=False, allow_unknown=True
        )
        return checked, *self._at([where[:, mode] for mode in self._modes])

    def _everywhere(self) -> tuple[Any, Any]:
        grid = np.ogrid[tuple(slice(n) for n in self.shape_)]
        return self._at([grid[mode] for mode in self._modes])

    def _scaled(
        self,
        values: NDArray[np.floating],
        center: NDArray[np.floating] | float,
        scale: NDArray[np.floating] | float,
    ) -> NDArray[np.floating]:
        with np.errstate(over="ignore"):
            scaled = (values - center) / scale
        return np.clip(scaled, *self.value_bounds_).astype(values.dtype)

    def _unscaled(
        self,
        values: NDArray[np.floating],
        center: NDArray[np.floating] | float,
        scale: NDArray[np.floating] | float,
    ) -> NDArray[np.floating]:
        with np.errstate(over="ignore"):
            unscaled = center + scale * values
            if self._domain is not None:
                unscaled = np.clip(unscaled, *self._domain)
            unscaled = unscaled.astype(values.dtype)
        if np.any(np.isinf(unscaled)):
            raise ValueError(
                "Some standardised values are so large that they overflow on the "
                "original scale. Pass smaller ones."
            )
        return unscaled

    def _planned_release(
        self,
        where: NDArray[np.integer],
        sizes: tuple[int, ...],
        values: NDArray[np.floating] | None = None,
    ) -> tuple[PrivacyGuarantee, tuple[float, float] | None, Sequence[SumsRandomizer]]:
        """Guarantee, range of the values, and randomizers of sums and of squares."""
        from dp_accounting import dp_event

        bounds = None if self.value_bounds is None else check_bounds(self.value_bounds)
        event, source = dp_event.NonPrivateDpEvent(), "not private"
        if self.epsilon is None:
            if values is not None:
                _warn(
                    "epsilon is None, so the means and scales are statistics of the "
                    "raw values; pass an epsilon to protect them"
                )
                if np.max(np.abs(values)) > _LARGEST:
                    raise ValueError(f"No value may exceed {_LARGEST:g} in magnitude.")
            statement = "The means and scales are statistics of the raw values."
            return entry_guarantee(event, statement, source), bounds, ()
        claimed_epsilon = None
        if bounds is None:
            bounds = (0.0, 1.0) if values is None else range_of(values)
            if self._has_noise:
                claimed_epsilon = float(self.epsilon)
                if values is not None:
                    _warn(
                        "`value_bounds` is not given, so the range is read off the "
                        "private values; declare the range to protect them"
                    )
        share = _SHARE * self.epsilon
        shares = share, (self.epsilon - share if self._has_noise else share)
        randomizers = [
            plan_sums_randomizer(Domain(domain), share, Entries(where, None, sizes))
            for share, domain in zip(shares, (bounds, (0.0, 1.0)), strict=True)
        ]
        if not self._has_noise:
            statement = f"{_SUMS} were used without noise."
            return entry_guarantee(event, statement, source), bounds, randomizers
        event = dp_event.ComposedDpEvent([r.event for r in randomizers])
        guarantee = entry_guarantee(
            event, _STATEMENT, _SOURCE, claimed_epsilon=claimed_epsilon
        )
        return guarantee, bounds, randomizers

    def __privacy_plan__(
        self, fitted: object = None, *, any_shape: bool = False
    ) -> PrivacyGuarantee:
        return self._planned_release(np.zeros((1, 2), dtype=int), (1, 1))[0]

    def __privacy_tags__(self) -> PrivacyTags:
        tags = super().__privacy_tags__()
        tags.protects = "Xy" if self._dense else "y"
        return tags

    def __privacy_unprotected__(self) -> list[str]:
        return [
            *super().__privacy_unprotected__(),
            "BiScaler protects its means and scales only. The standardised values are "
            "as private as the values: a later step must protect them.",
            PUBLIC_COORDINATES,
        ]


def _warn(reason: str) -> None:
    message = f"{reason}. No finite epsilon holds for this fit."
    warn(message, PrivacyLeakWarning)
