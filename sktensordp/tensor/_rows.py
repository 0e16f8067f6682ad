"""Gaussian rows: the one solver of completions.

A value is the sum over columns of the product of one row of each mode, plus noise. The
posterior of a row is Gaussian, and rows are independent of one another (mean field),
except where a mode ties neighbours. So the rows of one mode, given those of all others,
are the posterior of a linear regression of the values on the products of the other
rows, with second moments instead of squares.

Columns are free in some modes and fixed in others. A column that is free in one mode,
and one in all others, is a bias of that mode. A column that is free in all modes is a
term. A column that is free in the first mode, and a feature of the rows in the second,
holds the weights that rows of the first mode give to the feature. Fixed columns are
known exactly, so their covariances are neither stored nor summed.

`Rows` is a frozen state. `solve_mode`, `update_prior` and `with_row_weights` return
another one. `summing` and `row_moments` read it; their results for chunks of the
entries can be added up. If a chunk has all entries of some rows of a mode, only this
chunk needs these rows. `sweep_mode` updates a mode, wherever its rows and entries are.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from ._algebra import cp_to_dense, upper_triangle
from ._average_row import average_row
from ._chain import path_eigenvalues, solve_chain
from ._leading_terms import SplitMatrix
from ._normal_equations import Pairs, Sums, summing
from ._observations import Observations, Total, places_of
from ._priors import LARGEST_PRECISION, SMALLEST_PRECISION
from ._threads import in_threads, one_blas_thread

# Largest size of the sums of a mode in memory at a time.
_BLOCK = 2**20
# Number of entries that are predicted at a time.
_CHUNK = 2**14
# For weights of rows: the least variance of a row, as a share of the residual variance,
# and the numbers of entries that the average counts as if the mechanism adds nothing;
# see `row_weighting`.
_LEAST_RESIDUAL, _FITTED_AS, _STATED_AS = 0.05, 100.0, 3.0


class RowMoments(NamedTuple):
    """Sums over the rows of a mode that have entries; see `row_moments`.

    Attributes
    ----------
    n_rows : int
    means : ndarray of shape (n_columns,)
        Sum of the posterior means.
    squares : ndarray of shape (n_columns,)
        Sum of the squared distances of the posterior means from the prior mean.
    variances : ndarray of shape (n_columns,)
        Sum of the posterior variances.
    errors, squared_errors : float
        In the first mode, the sum of the rows' squared errors, and the sum of the
        squares of these over the numbers of entries.
    """

    n_rows: int
    means: NDArray[np.float64]
    squares: NDArray[np.float64]
    variances: NDArray[np.float64]
    errors: float = 0.0
    squared_errors: float = 0.0


class ModeRows(NamedTuple):
    """The rows of one mode; see `Rows`."""

    used: NDArray[np.integer]
    means: NDArray[np.floating]
    covariances: NDArray[np.floating]
    weights: NDArray[np.float64] | None = None
    stated_weights: NDArray[np.float64] | None = None
    errors: NDArray[np.float64] | None = None

    def taken(self, places: slice | NDArray[Any]) -> "ModeRows":
        """Some of these rows."""
        return ModeRows._make(None if rows is None else rows[places] for rows in self)


class Form(Protocol):
    """Form of a decomposition: `CPForm` or `TuckerForm`."""

    @property
    def rank(self) -> int:
        """Number of terms."""


class FittedModel(Protocol):
    """A fitted model of a tensor that predicts at coordinates.

    `Rows` and `TuckerRows` are the models that fits release. `OwnModel` and
    `UnitModel` of completions answer users, or other units, from their own rows.
    """

    def predict(self, coordinates: NDArray[np.integer]) -> NDArray[np.floating]:
        """Predictions at coordinates; -1 stands for an unknown index."""

    def slices(
        self, coordinates: NDArray[np.integer], mode: int, every: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """Predictions at all indices of one mode; see `Rows.slices`."""

    def every_row(self, mode: int) -> NDArray[np.floating]:
        """Posterior means of the rows at all indices of a mode."""

    def dense(self) -> NDArray[np.floating]:
        """Predictions of all entries: an array of the tensor's shape."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The posterior and the prior of the rows of all modes: a fitted CP.

    Attributes
    ----------
    shape : tuple of int
        Shape of the tensor.
    used : tuple by mode of ndarray of shape (n_rows,), int
        The index of every row, ascending. Other indices have the row `unknown`.
    fixed : ndarray of shape (n_modes, n_columns), bool
        Columns that are known exactly.
    prior_mean, precision, tie : ndarray of shape (n_modes, n_columns)
        The prior of free columns. `precision` pulls a row to the prior mean; `tie`
        pulls it to its neighbours, and is zero in modes that are not smooth.
    means : tuple by mode of ndarray of shape (n_rows, n_columns)
        Posterior means; fixed columns hold their known values.
    covariances : tuple by mode of ndarray of shape (n_rows, P)
        Posterior covariances of the free columns: upper triangles, row by row.
    noise : float
        Variance of the values around the model, averaged over all entries.
    unknown : ndarray of shape (n_modes, n_columns)
        The row of an index without entries; see `with_average_rows`.
    features : ndarray of shape (n_indices + 1, n_features)
        Features of the indices of the second mode and, last, of an unknown index; they
        are the last columns.
    weights, stated_weights : ndarray of shape (n_rows of the first mode,) or None
        `noise` over the variance of the values of a row of the first mode; None if all
        are one. The fit uses `weights`; stated variances use `stated_weights`, which
        are shrunk less.
    errors : ndarray of shape (n_rows of the first mode,) or None
        Expected squared error of the entries of every row of the first mode, as of the
        last update of these rows.
    """

    shape: tuple[int, ...]
    used: tuple[NDArray[np.integer], ...]
    fixed: NDArray[np.bool_]
    prior_mean: NDArray[np.float64]
    precision: NDArray[np.float64]
    tie: NDArray[np.float64]
    means: tuple[NDArray[np.floating], ...]
    covariances: tuple[NDArray[np.floating], ...]
    noise: float
    unknown: NDArray[np.float64]
    features: NDArray[np.floating]
    weights: NDArray[np.float64] | None = None
    stated_weights: NDArray[np.float64] | None = None
    errors: NDArray[np.float64] | None = None

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return len(self.means)

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone, so that a pickle does not reveal what is cached."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def shapes_agree(self) -> bool:
        """Whether all arrays have the shapes that are stated above."""
        n_modes, n_columns = self.fixed.shape
        of_modes = self.prior_mean, self.precision, self.tie, self.unknown
        n_of_first = self.used[0].shape
        of_first = self.weights, self.stated_weights, self.errors
        return (
            len(self.shape) == len(self.used) == len(self.means) == n_modes
            and len(self.covariances) == n_modes
            and all(array.shape == (n_modes, n_columns) for array in of_modes)
            and all(a is None or a.shape == n_of_first for a in of_first)
            and all(
                used.ndim == 1
                and means.shape == (len(used), n_columns)
                and covariances.shape == (len(used), math.comb(len(free) + 1, 2))
                for used, means, covariances, free in zip(
                    self.used, self.means, self.covariances, self.free, strict=True
                )
            )
            and self.features.ndim == 2
        )

    @cached_property
    def free(self) -> tuple[NDArray[np.integer], ...]:
        """The free columns, by mode."""
        return tuple(map(np.flatnonzero, ~self.fixed))

    @cached_property
    def is_smooth(self) -> tuple[bool, ...]:
        """Whether a mode ties neighbouring rows, by mode."""
        return tuple(bool(ties.any()) for ties in self.tie)

    @property
    def in_one_mode(self) -> NDArray[np.bool_]:
        """Columns that are free in one mode alone: biases and weights of features."""
        n_free = np.count_nonzero(~self.fixed, axis=0)
        return n_free == 1

    @property
    def terms(self) -> NDArray[np.bool_]:
        """Columns that are free in all modes."""
        is_free = np.all(~self.fixed, axis=0)
        return is_free

    @property
    def of_features(self) -> slice:
        """The columns of features in the second mode, and of weights in the first."""
        n_columns = self.fixed.shape[1]
        return slice(n_columns - self.features.shape[1], n_columns)

    @property
    def has_biases(self) -> bool:
        """Whether the first columns are biases, one for every mode."""
        # Weights of features are free in one mode alone, too.
        is_own = np.eye(self.n_modes, dtype=bool)
        return bool(np.array_equal(~self.fixed[:, : self.n_modes], is_own))

    def has_columns(
        self, form: Form, biases: bool, smooth_modes: Collection[int]
    ) -> bool:
        """Whether a fit with these options would have the same columns and ties."""
        # A mode without free columns has no ties to show.
        has_ties = all(
            self.is_smooth[mode] == (mode in smooth_modes)
            for mode in range(self.n_modes)
            if len(self.free[mode])
        )
        return self._has_terms(form) and self.has_biases == biases and has_ties

    def _has_terms(self, form: Form) -> bool:
        """Whether the terms are those of a fit with this form.

        A fit of a matrix may have dropped some terms.
        """
        n_terms = np.count_nonzero(self.terms)
        return bool(n_terms == form.rank or (n_terms < form.rank and self.n_modes == 2))

    @property
    def factors(self) -> list[NDArray[np.floating]]:
        """Posterior means by mode: a list of arrays of shape (size, n_columns)."""
        return [self.every_row(mode) for mode in range(self.n_modes)]

    @property
    def column_names(self) -> list[list[str | None]]:
        """Names of the columns of `factors`, by mode; None for columns of ones."""
        terms = [f"term {j}" for j in range(np.count_nonzero(self.terms))]
        features = [f"feature {j}" for j in range(self.features.shape[1])]
        names = ["bias"] * self.n_modes * self.has_biases + terms + features
        is_named = ~self.fixed
        is_named[:2, self.of_features] = True
        return [
            [name if named else None for name, named in zip(names, row, strict=True)]
            for row in is_named.tolist()
        ]

    def weights_of(self, coordinates: NDArray[np.integer]) -> NDArray[np.float64]:
        """`noise` over the variances of values at coordinates."""
        at = places_of(coordinates[:, 0], self.used[0])
        if self.stated_weights is None or not len(self.stated_weights):
            return np.ones(len(at))
        return np.where(at < 0, 1.0, self.stated_weights[at])

    def variances(self, mode: int) -> NDArray[np.floating]:
        """Posterior variances of the free columns of a mode's rows."""
        is_variance = np.equal(*upper_triangle(len(self.free[mode])))
        return self.covariances[mode][:, is_variance]

    def with_mode(
        self, mode: int, means: NDArray[Any], covariances: NDArray[Any]
    ) -> Self:
        """Replace the posterior of one mode."""
        before = self.of_mode(mode)
        return self.with_rows(
            mode, before._replace(means=means, covariances=covariances)
        )

    def of_mode(self, mode: int) -> ModeRows:
        """Everything that is stored for the rows of a mode."""
        of_first = self.weights, self.stated_weights, self.errors
        return ModeRows(
            self.used[mode],
            self.means[mode],
            self.covariances[mode],
            *(of_first if mode == 0 else ()),
        )

    def with_rows(self, mode: int, of_mode: ModeRows) -> Self:
        """Replace the rows of a mode; the number of rows may change."""
        changed: dict[str, Any] = of_mode._asdict() if mode == 0 else {}
        for name in ("used", "means", "covariances"):
            of_modes = list(getattr(self, name))
            of_modes[mode] = getattr(of_mode, name)
            changed[name] = tuple(of_modes)
        return replace(self, **changed)

    def predict(self, coordinates: NDArray[np.integer]) -> NDArray[np.floating]:
        """Predictions at coordinates; -1 stands for an unknown index.

        Parameters
        ----------
        coordinates : ndarray of shape (n, n_modes), int

        Returns
        -------
        values : ndarray of shape (n,)
        """
        values = np.empty(len(coordinates), self.means[0].dtype)
        for begin in range(0, len(values), _CHUNK):
            chunk = coordinates[begin : begin + _CHUNK]
            rows = [self.rows_at(mode, index) for mode, index in enumerate(chunk.T)]
            values[begin : begin + _CHUNK] = self.value(rows)
        return values

    def slices(
        self, coordinates: NDArray[np.integer], mode: int, every: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """Predictions at all indices of one mode; see `predict`.

        Parameters
        ----------
        coordinates : ndarray of shape (n, n_modes), int
            The column of the mode is not read.
        mode : int
        every : ndarray of shape (shape[mode], n_columns)
            The result of `every_row` for the mode.

        Returns
        -------
        values : ndarray of shape (n, shape[mode])
        """
        rows = [self.rows_at(m, index) for m, index in enumerate(coordinates.T)]
        return self.regressors(mode, rows) @ every.T

    def dense(self) -> NDArray[np.floating]:
        """Predictions of all entries: an array of the tensor's shape."""
        return cp_to_dense(self.factors)

    def value(self, rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The values of entries, from their rows in every mode."""
        return np.einsum("na,na->n", self.regressors(0, rows), rows[0])

    def regressors(self, mode: int, rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The regressors of entries in a mode, from their rows in the others."""
        return reduce(np.multiply, (r for m, r in enumerate(rows) if m != mode))

    def with_core(
        self, entries: "ObservedValues", is_learned: bool, n_threads: int = 1
    ) -> Self:
        """Update the core, given all rows; a CP has none."""
        return self

    def summing(
        self, entries: Observations, mode: int, n_threads: int = 1
    ) -> Callable[[slice], Sums]:
        """The sums over the entries of some rows of a mode; see `sums`."""
        return summing(self, entries, mode, n_threads)

    def rows_at(self, mode: int, index: NDArray[np.integer]) -> NDArray[np.floating]:
        """Posterior means of the rows at some indices of a mode."""
        at = places_of(index, self.used[mode])
        is_known = at >= 0
        if is_known.all():
            return self.means[mode][at]
        rows = np.empty((len(at), self.fixed.shape[1]), self.means[mode].dtype)
        rows[is_known] = self.means[mode][at[is_known]]
        rows[~is_known] = self.unknown[mode]
        if mode == 1:
            known = np.where(index < len(self.features) - 1, index, -1)[~is_known]
            rows[~is_known, self.of_features] = self.features[known]
        return rows

    def covariances_at(
        self, mode: int, index: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Posterior covariances of the rows at some indices; see `covariances`."""
        at = places_of(index, self.used[mode])
        found = self.covariances[mode][at].astype(float)
        prior = np.diag(self.prior_variance(mode)[self.free[mode]])
        found[at < 0] = packed(prior[np.newaxis])
        return found

    def every_row(self, mode: int) -> NDArray[np.floating]:
        """Posterior means of the rows at all indices of a mode."""
        return self.rows_at(mode, np.arange(self.shape[mode]))

    def variance(
        self, coordinates: NDArray[np.integer]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Posterior variance of predictions at coordinates.

        Returns
        -------
        variance : ndarray of shape (n,)
        linear : ndarray of shape (n,)
            Variance of the linearised model. Divided by the variance of a value, it is
            the weight of a value in its own prediction.
        """
        variance, linear = np.empty((2, len(coordinates)))
        for begin in range(0, len(coordinates), _CHUNK // 16):
            chunk = slice(begin, begin + _CHUNK // 16)
            of_modes = [*enumerate(coordinates[chunk].T)]
            rows = [self.rows_at(*of_mode).astype(float) for of_mode in of_modes]
            covariances = [self.covariances_at(*of_mode) for of_mode in of_modes]
            regressors = [
                self.regressors(mode, rows)[:, free]
                for mode, free in enumerate(self.free)
            ]
            linear[chunk] = sum(map(_quadratic_forms, covariances, regressors))
            more = self._more_variance(rows, covariances, regressors)
            variance[chunk] = linear[chunk] + more
        return np.maximum(variance, 0), np.maximum(linear, 0)

    def _more_variance(
        self,
        rows: Sequence[NDArray[np.float64]],
        covariances: Sequence[NDArray[np.float64]],
        regressors: Sequence[NDArray[np.float64]],
    ) -> NDArray[np.float64]:
        """Variances of predictions beyond those of the linearised model.

        Parameters
        ----------
        rows, covariances, regressors : sequence by mode of ndarray
            Of every entry: the posterior means and covariances of its row, and its
            regressors that belong to the free columns of the mode.
        """
        one, other, of_modes = self._shared_pairs

        def factors(mode: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            """Products of the means of pairs of columns, and their covariances."""
            means = np.take(rows[mode], one, axis=1)
            means *= np.take(rows[mode], other, axis=1)
            found, pairs = np.zeros(means.shape), of_modes[mode]
            found[:, pairs.both] = np.take(covariances[mode], pairs.at, axis=1)
            return means, found

        # Sums of products over the modes so far in which no mode, one mode, and more
        # modes give their covariance instead of the product of their means.
        of_none, of_one = factors(0)
        of_more = np.zeros(of_none.shape)
        for mode in range(1, self.n_modes):
            means, own = factors(mode)
            of_more *= means + own
            of_more += of_one * own
            of_one = of_one * means + of_none * own
            of_none *= means
        return of_more @ np.where(one == other, 1.0, 2.0)

    @cached_property
    def _shared_pairs(
        self,
    ) -> tuple[NDArray[np.integer], NDArray[np.integer], list[Pairs]]:
        """Pairs of columns of which several modes may have covariances."""
        shared = np.flatnonzero(np.sum(~self.fixed, axis=0) > 1)
        one, other = (shared[k] for k in upper_triangle(len(shared)))
        return one, other, [Pairs.from_columns(own, one, other) for own in self.fixed]

    def prior_variance(self, mode: int) -> NDArray[np.float64]:
        """Prior variance of every column, averaged over the rows of a mode."""
        if not self.is_smooth[mode]:
            return 1 / self.precision[mode]
        path = path_eigenvalues(len(self.means[mode]))[:, np.newaxis]
        return (1 / (self.precision[mode] + path * self.tie[mode])).mean(axis=0)

    def with_average_rows(self, counts: Sequence[NDArray[Any] | None]) -> Self:
        """The same model, with the row of the average entry for unknown indices.

        An index without entries is unknown, not unpopular. A guess for it should suit
        future entries, and most of these will be in rows that have many entries. So an
        unknown row is an average over the entries, not over the rows. Features stay as
        they are. Over the entries, rows of different modes are correlated: people
        choose what they like. So the value of the average rows is not the average
        value, which is zero. If there are biases, and no mode is left as it is, the
        bias of an unknown row compensates for that.

        Parameters
        ----------
        counts : sequence by mode of ndarray of shape (n_rows,) or None
            Number of entries of every row, or an estimate of it, not negative. Rows
            without entries are dropped, unless the mode ties its rows: then neighbours
            provide information about them. None, or only zeros, leave a mode as it is.

        Returns
        -------
        rows : Rows
        """
        unknown, _ = self._average_entry(counts, ~self.fixed)
        rows = self
        for mode, number in enumerate(counts):
            is_guess = self._without_entries(mode, number)
            if is_guess.any():
                rows = rows.with_rows(mode, self.of_mode(mode).taken(~is_guess))
        return replace(rows, unknown=unknown)

    def with_average_factors(self, counts: Sequence[NDArray[Any] | None]) -> Self:
        """Like `with_average_rows`, but keep biases, which are good guesses already.

        Biases of unknown indices, and of indices without entries, come from the average
        entry and from declared features. So they stay, up to one shift, which
        compensates for the value of the average rows. All other columns of these rows
        become those of the average entry, and no row is dropped.

        Parameters
        ----------
        counts : sequence by mode of ndarray of shape (n_rows,) or None
            See `with_average_rows`.

        Returns
        -------
        rows : Rows
        """
        columns = ~self.fixed
        columns[:, : self.n_modes] = False  # the biases
        unknown, excess = self._average_entry(counts, columns)
        means = [of_mode.copy() for of_mode in self.means]
        for mode, number in enumerate(counts):
            is_guess = self._without_entries(mode, number)
            averages = unknown[mode, columns[mode]]
            means[mode][np.ix_(is_guess, columns[mode])] = averages
            means[mode][is_guess, mode] -= excess
        return replace(self, means=tuple(means), unknown=unknown)

    def _average_entry(
        self, counts: Sequence[NDArray[Any] | None], columns: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], float]:
        """The row of the average entry in every mode, for unknown indices.

        Parameters
        ----------
        counts : sequence by mode of ndarray of shape (n_rows,) or None
            See `with_average_rows`.
        columns : ndarray of shape (n_modes, n_columns), bool
            The columns that are averaged; the other columns keep those of `unknown`.

        Returns
        -------
        unknown : ndarray of shape (n_modes, n_columns)
            Biases compensate for the value of the averages.
        excess : float
            How much this lowers each bias. It is 0 if there are no biases, or if a mode
            is left as it is.
        """
        unknown = self.unknown.copy()
        for mode, number in enumerate(counts):
            if _tells(number):
                averaged = self.means[mode][:, columns[mode]]
                unknown[mode, columns[mode]] = average_row(averaged, number)
        if not (self.has_biases and all(map(_tells, counts))):
            return unknown, 0.0
        excess = self.value([row[np.newaxis] for row in unknown]).item()
        modes = np.arange(self.n_modes)
        unknown[modes, modes] -= excess
        return unknown, excess

    def _without_entries(
        self, mode: int, number: NDArray[Any] | None
    ) -> NDArray[np.bool_]:
        """Which rows of a mode are unknown: an array of shape (n_rows,)."""
        if self.is_smooth[mode] or not _tells(number):
            return np.zeros(len(self.means[mode]), dtype=bool)
        return np.equal(number, 0)


def _tells(number: NDArray[Any] | None) -> TypeGuard[NDArray[Any]]:
    """Whether there are counts of the rows of a mode that are not all zero."""
    return number is not None and bool(number.any())


SomeRows = TypeVar("SomeRows", bound=Rows)


class ObservedValues(Protocol):
    """Values at coordinates, wherever they are.

    `Observations` are in memory, and `ChunkedObservations` of completions in the
    memory of Dask workers. `Observations` says what the methods do.
    """

    @property
    def used(self) -> tuple[NDArray[np.integer], ...]:
        """The index of every row, ascending, by mode."""

    @property
    def counts(self) -> Sequence[NDArray[np.integer]]:
        """Number of entries of every row, by mode."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""

    @property
    def n_entries(self) -> int:
        """Number of entries."""

    @property
    def energy(self) -> float:
        """Sum of the squared values."""

    def has_rows(self, mode: int) -> bool:
        """Whether each row of a mode has all of its entries in one chunk."""

    def total(
        self,
        function: Callable[..., Total],
        rows: Rows,
        *arguments: object,
        reads: Collection[int] | None = None,
    ) -> Total:
        """Sums over chunks of ``function(rows, chunk, *arguments)``."""

    def change_rows(
        self,
        function: Callable[..., tuple[SomeRows, Total]],
        rows: SomeRows,
        *arguments: object,
        reads: Collection[int] | None = None,
    ) -> tuple[SomeRows, Self, Total]:
        """Change the rows that are with the entries."""

    def change_values(
        self,
        function: Callable[..., tuple[NDArray[np.floating], Total]],
        rows: Rows,
        *arguments: object,
    ) -> tuple[Self, Total]:
        """Change the values."""

    def residuals(self, rows: Rows) -> SplitMatrix:
        """What rows leave of a matrix."""

    def with_rows(self, rows: SomeRows) -> tuple[SomeRows, Self]:
        """Leave the rows of which one chunk has all entries with this chunk."""

    def gathered(self, rows: SomeRows) -> SomeRows:
        """Undo `with_rows`: rows that have those of all modes."""

    def here(self) -> Observations:
        """All entries, in the memory of this process."""


Values = TypeVar("Values", bound=ObservedValues)


def rescaled(rows: Rows, scale: float) -> Rows:
    """The model of the values multiplied by `scale`."""
    # Terms are multiplied in the first mode, and other columns in the mode where they
    # are free.
    factor, where = np.ones(rows.fixed.shape), np.argmin(rows.fixed, axis=0)
    where[rows.terms] = 0
    factor[where, np.arange(rows.fixed.shape[1])] = scale
    means, covariances = [], []
    for mode, own in enumerate(factor):
        of_free = own[rows.free[mode]]
        pairs = packed(np.outer(of_free, of_free)[np.newaxis])[0]
        dtype = rows.means[mode].dtype
        means.append((rows.means[mode] * own).astype(dtype))
        covariances.append((rows.covariances[mode] * pairs).astype(dtype))
    return replace(
        rows,
        means=tuple(means),
        covariances=tuple(covariances),
        prior_mean=rows.prior_mean * factor,
        precision=rows.precision / factor**2,
        tie=rows.tie / factor**2,
        unknown=rows.unknown * factor,
        noise=rows.noise * scale**2,
        errors=None,
    )


# --- one mode, given all others ------------------------------------------------------


def solve_mode(
    rows: SomeRows,
    entries: Observations,
    mode: int,
    *,
    before: Sums | None = None,
    n_threads: int = 1,
) -> tuple[SomeRows, NDArray[np.float64] | None]:
    """Posterior of the rows of one mode, given those of all others.

    Parameters
    ----------
    rows : Rows
    entries : Observations
        Their rows are those of `rows`.
    mode : int
    before : Sums, default=None
        Sums that represent earlier entries, as from `as_sums`; they then contain the
        prior.
    n_threads : int, default=1
        Threads that share the rows.

    Returns
    -------
    rows : Rows
        With the errors of the rows, if this is the first mode.
    cross : ndarray of shape (n_rows - 1, n_free) or None
        Covariances of neighbouring rows, if the mode ties them.
    """
    n_rows, n_columns = rows.means[mode].shape
    sums_of = rows.summing(entries, mode, n_threads)
    # Rows that are not tied are solved independently, so blocks of rows limit the
    # memory.
    size = max(min(_BLOCK // max(n_columns, 1) ** 2, -(-n_rows // n_threads)), 1)
    size = max(n_rows, 1) if rows.is_smooth[mode] else size
    blocks = [slice(*pair) for pair in pairwise([*range(0, n_rows, size), n_rows])]
    means, covariances = (
        np.empty_like(a[mode]) for a in (rows.means, rows.covariances)
    )
    fitted = np.empty(n_rows)

    def solve_some(some: slice) -> NDArray[np.float64] | None:
        found = sums_of(some)
        if before is not None:
            found = _added(found, Sums(*(part[some] for part in before)))
        means[some], covariances[some], fitted[some], cross = solve(
            rows, mode, found, some, entries.is_compiled
        )
        return cross

    crosses = in_threads(solve_some, blocks, n_threads)
    solved = rows.with_mode(mode, means, covariances)
    if mode == 0:
        solved = replace(solved, errors=entries.energies + fitted)
    return solved, crosses[0] if rows.is_smooth[mode] else None


def sweep_mode(
    rows: SomeRows, entries: Values, mode: int, n_threads: int = 1
) -> tuple[SomeRows, Values, RowMoments, NDArray[np.float64] | None]:
    """Posterior of the rows of one mode, wherever these rows and the entries are.

    If a chunk has all entries of a row, the row is updated there. For other rows, the
    sums of all chunks are added up.

    Parameters
    ----------
    rows : Rows
    entries : Observations or ChunkedObservations
    mode : int
    n_threads : int, default=1

    Returns
    -------
    rows : Rows
    entries : Observations or ChunkedObservations
    found : RowMoments
        Spread of the new rows around their old prior mean.
    cross : ndarray or None
        See `solve_mode`.
    """
    if entries.has_rows(mode) and not rows.is_smooth[mode]:
        new, entries, found = entries.change_rows(
            _sweep_mode_here, rows, mode, n_threads
        )
        return new, entries, RowMoments(*found), None
    others = [m for m in range(rows.n_modes) if m != mode]
    totals = entries.total(_sums_and_energies, rows, mode, reads=others)
    means, covariances, fitted, cross = solve(rows, mode, Sums(*totals[:2]))
    new = rows.with_mode(mode, means, covariances)
    if mode == 0:
        new = replace(new, errors=totals[2] + fitted)
    return new, entries, row_moments(new, mode, entries.counts[mode]), cross


def _sweep_mode_here(
    rows: SomeRows, entries: Observations, mode: int, n_threads: int
) -> tuple[SomeRows, RowMoments]:
    rows, _ = solve_mode(rows, entries, mode, n_threads=n_threads)
    return rows, row_moments(rows, mode, entries.counts[mode])


def _sums_and_energies(
    rows: Rows, entries: Observations, mode: int
) -> tuple[NDArray[np.float64], ...]:
    """The sums of all rows of a mode, and the energies of rows of the first mode."""
    found = rows.summing(entries, mode)(slice(0, len(entries.used[mode])))
    return (*found, entries.energies) if mode == 0 else found


def run_sweeps(
    rows: SomeRows, entries: "ObservedValues", *, n_sweeps: int, n_threads: int = 1
) -> SomeRows:
    """Rows after further sweeps, which do not change the prior or the noise."""
    rows, entries = entries.with_rows(rows)
    with one_blas_thread:
        for _ in range(n_sweeps):
            rows = rows.with_core(entries, False, n_threads)
            for mode in range(rows.n_modes):
                rows, entries, *_ = sweep_mode(rows, entries, mode, n_threads)
    return entries.gathered(rows)


def solve(
    rows: Rows,
    mode: int,
    found: Sums,
    some: slice | None = None,
    compiled: bool = False,
) -> tuple[
    NDArray[np.floating],
    NDArray[np.floating],
    NDArray[np.float64],
    NDArray[np.float64] | None,
]:
    """Posterior of rows from the sums over their entries.

    Parameters
    ----------
    rows : Rows
    mode : int
    found : Sums
    some : slice, default=None
        The rows of the sums; by default, all. A mode that ties its rows needs all.
    compiled : bool, default=False
        Whether to use the compiled loop, which is several times as fast once loaded. A
        mode that ties its rows has none.

    Returns
    -------
    means : ndarray of shape (n_rows, n_columns)
    covariances : ndarray of shape (n_rows, P)
    fitted : ndarray of shape (n_rows,)
        Expected squared error of the entries of a row, less their sum of y^2, without
        weights; zeros except in the first mode.
    cross : ndarray of shape (n_rows - 1, n_free) or None
        See `solve_mode`.
    """
    if some is None:
        some = slice(0, len(rows.means[mode]))
    free, fixed = rows.free[mode], np.flatnonzero(rows.fixed[mode])
    n_free, (gram, projection) = len(free), found
    means, cross = rows.means[mode][some].astype(float), None
    prior = rows.precision[mode, free]
    moved = gram[:, :n_free, n_free:] @ means[:, fixed, np.newaxis]
    shift = (projection[:, :n_free] - moved[..., 0]) / rows.noise
    shift += prior * rows.prior_mean[mode, free]
    if compiled and not rows.is_smooth[mode]:
        means[:, free], triangles = _compiled_posteriors(gram, shift, rows.noise, prior)
    else:
        diagonal = np.arange(n_free)
        precision = gram[:, :n_free, :n_free] / rows.noise
        precision[:, diagonal, diagonal] += prior
        if rows.is_smooth[mode]:
            # Sums write only the upper triangles.
            precision = unpacked(packed(precision), n_free)
            means[:, free], covariance, cross = solve_chain(
                precision, shift, rows.tie[mode, free]
            )
        else:
            covariance = inverses(precision)
            means[:, free] = (covariance @ shift[:, :, np.newaxis])[..., 0]
        triangles = packed(covariance)
    fitted = np.zeros(len(means))
    if mode == 0:
        order = np.concatenate([free, fixed])
        fitted = fitted_errors(gram, projection, means[:, order], triangles)
        if rows.weights is not None:
            fitted /= rows.weights[some]
    dtype = rows.means[mode].dtype
    triangles = triangles.astype(dtype, copy=False)
    return means.astype(dtype, copy=False), triangles, fitted, cross


def _compiled_posteriors(
    gram: NDArray[np.float64],
    shift: NDArray[np.float64],
    noise: float,
    prior: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Posterior means and packed covariances of the free columns of rows."""
    from .kernels._rows import posteriors

    n, size = shift.shape
    means, triangles = np.empty((n, size)), np.empty((n, math.comb(size + 1, 2)))
    # One layout, so that the kernel is compiled only once.
    gram = np.ascontiguousarray(gram)
    posteriors(gram, shift, float(noise), prior, means, triangles)
    return means, triangles


def fitted_errors(
    gram: NDArray[np.float64],
    projection: NDArray[np.float64],
    means: NDArray[np.float64],
    triangles: NDArray[np.floating],
) -> NDArray[np.float64]:
    """Expected squared errors of rows, less their sums of y^2.

    Parameters
    ----------
    gram, projection
        See `Sums`.
    means : ndarray of shape (n_rows, n_columns)
        With the free columns first.
    triangles : ndarray of shape (n_rows, P)
        Covariances of the free columns: upper triangles, row by row.
    """
    n_free, place = (math.isqrt(8 * triangles.shape[1] + 1) - 1) // 2, 0
    errors = -2 * np.einsum("na,na->n", projection, means)
    for a in range(gram.shape[2]):
        # The upper triangle counts twice, apart from the diagonal.
        column = gram[:, a, a:].copy()
        column[:, 1:] *= 2
        errors += means[:, a] * np.einsum("nb,nb->n", column, means[:, a:])
        if a < n_free:
            covariance = triangles[:, place : place + n_free - a]
            errors += np.einsum("nb,nb->n", column[:, : n_free - a], covariance)
            place += n_free - a
    return errors


def inverses(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverses of positive definite matrices; only their upper triangles are read.

    Parameters
    ----------
    matrices : ndarray of shape (n, F, F)
        Overwritten.
    """
    n_columns = matrices.shape[1]
    diagonal = np.arange(n_columns)
    # Without this, rounding might make a factorisation fail.
    matrices[:, diagonal, diagonal] *= 1 + 1e-13
    factorise, invert = lapack.dpotrf, lapack.dpotri
    # LAPACK works in place on transposed views: lower=1, clean=0, overwrite_a=1.
    for matrix in matrices.transpose(0, 2, 1) if n_columns else ():
        factorise(matrix, 1, 0, 1)
        invert(matrix, 1, 1)
    for a in range(n_columns):
        matrices[:, a + 1 :, a] = matrices[:, a, a + 1 :]
    return matrices


def _quadratic_forms(
    triangles: NDArray[np.float64], vectors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Products of matrices with vectors from both sides.

    Parameters
    ----------
    triangles : ndarray of shape (n, P)
        Symmetric matrices: upper triangles, row by row.
    vectors : ndarray of shape (n, F)
    """
    found, place = np.zeros(len(vectors)), 0
    for a, own in enumerate(vectors.T):
        row = triangles[:, place : place + vectors.shape[1] - a]
        twice = 2 * np.einsum("nb,nb->n", row, vectors[:, a:])
        found += own * (twice - row[:, 0] * own)
        place += row.shape[1]
    return found


def packed(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Upper triangles of symmetric matrices, row by row."""
    n_columns = matrices.shape[1]
    found, place = np.empty((len(matrices), math.comb(n_columns + 1, 2))), 0
    for a in range(n_columns):
        found[:, place : place + n_columns - a] = matrices[:, a, a:]
        place += n_columns - a
    return found


def unpacked(triangles: NDArray[np.floating], n_columns: int) -> NDArray[np.float64]:
    """Symmetric matrices from their upper triangles."""
    found, place = np.empty((len(triangles), n_columns, n_columns)), 0
    for a in range(n_columns):
        row = triangles[:, place : place + n_columns - a]
        found[:, a, a:] = found[:, a:, a] = row
        place += n_columns - a
    return found


def _added(one: Sums, other: Sums) -> Sums:
    """The sums over the entries of both together."""
    return Sums(*(a + b for a, b in zip(one, other, strict=True)))


def as_sums(rows: Rows, mode: int) -> Sums:
    """Sums over entries that give rows their posterior under a flat prior.

    With these as the sums `before`, and a prior precision of zero, the posterior of a
    model is the prior of its next update.
    """
    free = rows.free[mode]
    n_rows, n_columns = rows.means[mode].shape
    n_needed = n_columns if mode == 0 else len(free)
    gram = np.zeros((n_rows, n_needed, n_columns))
    projection = np.zeros((n_rows, n_columns))
    block = unpacked(rows.covariances[mode], len(free))
    # Scale the columns to variance one. Rounding may have made eigenvalues negative.
    units = np.sqrt(np.maximum(np.einsum("naa->na", block), 1e-300))
    outer = units[:, :, np.newaxis] * units[:, np.newaxis, :]
    values, vectors = np.linalg.eigh(block / outer)
    eps = float(np.finfo(rows.covariances[mode].dtype).eps)
    values = np.maximum(values, max(1e-9, 10 * eps))
    precision = (vectors / values[:, np.newaxis]) @ vectors.transpose(0, 2, 1) / outer
    gram[:, : len(free), : len(free)] = rows.noise * precision
    means = rows.means[mode][:, free, np.newaxis].astype(float)
    projection[:, : len(free)] = rows.noise * (precision @ means)[..., 0]
    return Sums(gram, projection)


# --- prior, noise and weights --------------------------------------------------------


def row_moments(rows: Rows, mode: int, counts: NDArray[np.integer]) -> RowMoments:
    """How the rows of a mode with entries vary; results for chunks can be added up.

    Parameters
    ----------
    rows : Rows
    mode : int
    counts : ndarray of shape (n_rows,), int
        Numbers of entries. If the mode ties its rows, all rows count.
    """
    means, own, seen = rows.means[mode], rows.variances(mode), counts > 0
    if not (rows.is_smooth[mode] or seen.all()):
        means, own = means[seen], own[seen]
    means = means.astype(float, copy=False)
    variances = np.zeros(rows.fixed.shape[1])
    variances[rows.free[mode]] = own.sum(axis=0, dtype=float)
    squares = ((means - rows.prior_mean[mode]) ** 2).sum(axis=0)
    found = RowMoments(len(means), means.sum(axis=0), squares, variances)
    if mode or rows.errors is None:
        return found
    squared = np.sum(rows.errors**2 / np.maximum(counts, 1))
    return found._replace(errors=rows.errors.sum(), squared_errors=squared)


def update_prior(
    rows: Rows,
    mode: int,
    found: RowMoments,
    columns: NDArray[np.bool_],
    *,
    prunes: NDArray[np.bool_],
    cross: NDArray[np.float64] | None = None,
) -> Rows:
    """Learn the prior precisions of a mode's free columns from how its rows vary.

    A precision is multiplied by the expectation of a sum of squares under the prior,
    over its expectation under the posterior. Without ties, this is the step of
    expectation maximisation; with ties, it increases the same bound. Under heavy noise
    that step hardly moves, so columns in `prunes` take MacKay's fixed point instead:
    the prior expectation less the posterior variances, over the squares of the
    posterior means (MacKay 1992, "Bayesian interpolation", eq. 4.9). With expectation
    maximisation, the variance of a term without evidence falls as the inverse root of
    the number of sweeps.

    Parameters
    ----------
    rows : Rows
    mode : int
    found : RowMoments
    columns : ndarray of shape (n_columns,), bool
        The columns whose precisions are learned.
    prunes : ndarray of shape (n_columns,), bool
    cross : ndarray of shape (n_rows - 1, n_free), default=None
        Covariances of neighbouring rows, if the mode ties them.

    Returns
    -------
    rows : Rows
    """
    columns = columns & ~rows.fixed[mode]
    n_rows, squares, variances = found.n_rows, found.squares, found.variances
    if n_rows < 2:
        return rows  # A single row does not show how much rows differ.
    precision, tie = rows.precision.copy(), rows.tie.copy()
    expected = n_rows / precision[mode]
    if cross is not None:
        free, means = rows.free[mode], rows.means[mode].astype(float)
        path = path_eigenvalues(n_rows)[:, np.newaxis]
        strength = precision[mode] + path * tie[mode]
        of_change = (path / strength).sum(axis=0)
        change = (np.diff(means, axis=0) ** 2).sum(axis=0)
        apart, own = np.zeros(len(tie[mode])), rows.variances(mode).astype(float)
        apart[free] = (own[1:] + own[:-1] - 2 * cross).sum(axis=0)
        learned = _updated_precision(tie[mode], of_change, change, apart, prunes)
        tie[mode] = np.where(columns, learned, tie[mode])
        expected = (1 / strength).sum(axis=0)
    learned = _updated_precision(precision[mode], expected, squares, variances, prunes)
    precision[mode] = np.where(columns, learned, precision[mode])
    return replace(rows, precision=precision, tie=tie)


def _updated_precision(
    precision: NDArray[np.float64],
    expected: NDArray[np.float64],
    squares: NDArray[np.float64],
    variances: NDArray[np.float64],
    prunes: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Precisions after one step; see `update_prior`."""
    least = 1e-9 * expected
    learned = precision * np.where(
        prunes,
        np.maximum(expected - variances, least) / np.maximum(squares, 1e-300),
        expected / np.maximum(squares + variances, 1e-300),
    )
    return np.clip(learned, SMALLEST_PRECISION, LARGEST_PRECISION)


class RowWeighting(NamedTuple):
    """How weights of rows follow from their squared errors; see `row_weighting`.

    Attributes
    ----------
    noise, least : float
        Variance of the values, averaged over all entries, and the least variance of a
        row.
    fitted, stated : float
        Number of entries that the average counts as: in the weights of the fit, and in
        the stated weights.
    """

    noise: float
    least: float
    fitted: float
    stated: float


def row_weighting(
    noise: float, found: RowMoments, counts: NDArray[np.integer], floor: float
) -> RowWeighting | None:
    """The rule for weights of the first mode's rows, from their squared errors.

    The variance of an entry is that of the mechanism, which is known and the same for
    all, plus a residual variance that depends on the row. For a row with n entries,
    whose squared errors add up to s, this variance is estimated as
    ``noise + (s - n noise) / (n + a)``: the mean squared error, shrunk towards that of
    all entries as if ``a`` further entries had the latter. The square of an error
    varies as the square of the whole variance, and the residual variance is only a part
    of that; so ``a`` grows with the square of the ratio.

    Parameters
    ----------
    noise : float
        Variance of the values around the model, averaged over all entries.
    found : RowMoments
        Spread of the first mode.
    counts : ndarray of shape (n_rows,), int
        Numbers of entries of the first mode's rows.
    floor : float
        Variance of the mechanism.

    Returns
    -------
    weighing : Weighing or None
        None if only rounding errors, or noise of the mechanism, are left.
    """
    residual, n_entries = noise - floor, counts.sum()
    if residual <= 1e-3 * noise:
        return None
    ratio, total = (noise / residual) ** 2, noise**2 * n_entries
    # By the method of moments, how much rows differ beyond the squares of normal
    # errors.
    differ = found.squared_errors - 2 * noise * found.errors + total
    differ -= 2 * noise**2 * np.count_nonzero(counts)
    strength = 2 * total / max(differ, 1e-6 * total)
    return RowWeighting(
        noise,
        floor + _LEAST_RESIDUAL * residual,
        _FITTED_AS * ratio,
        max(strength, _STATED_AS * ratio),
    )


def with_row_weights(
    rows: SomeRows, entries: "ObservedValues", how: RowWeighting
) -> tuple[SomeRows, tuple[()]]:
    """Weigh the rows of the first mode; see `row_weighting`.

    The empty tuple is the total that `Observations.change_rows` adds up.
    """
    assert rows.errors is not None
    counts = entries.counts[0]
    excess = rows.errors - counts * how.noise
    weights, stated = (
        how.noise / np.maximum(how.noise + excess / (counts + n), how.least)
        for n in (how.fitted, how.stated)
    )
    return replace(rows, weights=weights, stated_weights=stated), ()


# --- entries that come later ---------------------------------------------------------


def with_indices(rows: Rows, indices: Sequence[NDArray[np.integer]]) -> Rows:
    """Add rows at given indices; new rows have the prior.

    Parameters
    ----------
    rows : Rows
    indices : sequence by mode of ndarray of int
        If a mode ties its rows, new rows follow the others without gaps.

    Returns
    -------
    rows : Rows
        A new row is the unknown row with the variances of the prior or, if the mode
        ties neighbours, a prediction from the last row.
    """
    for mode, index in enumerate(indices):
        new = np.unique(index[places_of(index, rows.used[mode]) < 0])
        if not len(new):
            continue
        if rows.is_smooth[mode]:
            new = np.arange(rows.used[mode][-1] + 1, new[-1] + 1)
            own, covariance = _next_rows(rows, mode, new)
        else:
            own = rows.rows_at(mode, new)
            prior = np.diag(rows.prior_variance(mode)[rows.free[mode]])
            covariance = np.repeat(packed(prior[np.newaxis]), len(new), axis=0)
        before, dtype = rows.of_mode(mode), rows.means[mode].dtype
        added: list[Any] = [new, own, covariance.astype(dtype)]
        added += [None if w is None else np.ones(len(new)) for w in before[3:5]]
        order = np.argsort(np.append(before.used, new), kind="stable")
        pairs = zip(before[:5], added, strict=True)
        parts = (None if a is None else np.concatenate([a, b]) for a, b in pairs)
        rows = rows.with_rows(mode, ModeRows._make((*parts, None)).taken(order))
    return rows


def _next_rows(
    rows: Rows, mode: int, new: NDArray[np.integer]
) -> tuple[NDArray[np.floating], NDArray[np.float64]]:
    """Predict the rows after the last row of a mode that ties neighbours."""
    free, means = rows.free[mode], rows.rows_at(mode, new)
    tie, centre = rows.tie[mode, free], rows.prior_mean[mode, free]
    total = rows.precision[mode, free] + tie
    share = tie / total
    pull, step = packed(np.stack([np.outer(share, share), np.diag(1 / total)]))
    distance = rows.means[mode][-1, free].astype(float) - centre
    covariance = rows.covariances[mode][-1].astype(float)
    covariances = np.empty((len(new), len(covariance)))
    for k in range(len(new)):
        distance, covariance = share * distance, pull * covariance + step
        means[k, free], covariances[k] = centre + distance, covariance
    return means, covariances


def add_entries(
    rows: Rows,
    coordinates: NDArray[np.integer],
    values: NDArray[np.floating],
    *,
    n_sweeps: int,
    noise: float | None = None,
    modes: Sequence[int] | None = None,
    n_threads: int = 1,
) -> Rows:
    """Update rows with further entries; the current posterior is the prior.

    Only the rows of these entries are read and written. If only the first mode is
    updated, this computes the rows of users from their own entries.

    Parameters
    ----------
    rows : Rows
    coordinates : ndarray of shape (n, n_modes), int
        New indices get rows.
    values : ndarray of shape (n,)
    n_sweeps : int
    noise : float, default=None
        Variance of these values around the model; by default, that of `rows`.
    modes : sequence of int, default=None
        The modes whose rows are updated; by default, all. Other modes keep their rows
        and get none for new indices.
    n_threads : int, default=1

    Returns
    -------
    rows : Rows
    """
    modes = range(rows.n_modes) if modes is None else modes
    extent = np.maximum(rows.shape, coordinates.max(axis=0) + 1)
    rows = replace(rows, shape=tuple(extent.tolist()))
    touched = [np.unique(index) for index in coordinates.T]
    own = replace(_at(rows, touched), noise=rows.noise if noise is None else noise)
    entries = Observations.from_arrays(
        coordinates, values.astype(own.means[0].dtype), touched
    )
    flat = np.zeros_like(own.precision)
    before = {mode: as_sums(own, mode) for mode in modes}
    own = replace(own, precision=flat, tie=flat)
    with one_blas_thread:
        for mode in [*modes] * n_sweeps:
            own, _ = solve_mode(
                own, entries, mode, before=before[mode], n_threads=n_threads
            )
    result = with_indices(
        rows, [t if m in modes else t[:0] for m, t in enumerate(touched)]
    )
    for mode in modes:
        places = places_of(touched[mode], result.used[mode])
        means, covariances = result.means[mode].copy(), result.covariances[mode].copy()
        means[places] = own.means[mode]
        covariances[places] = own.covariances[mode]
        result = result.with_mode(mode, means, covariances)
    return result


class Evidence(NamedTuple):
    """Values of entries.

    Attributes
    ----------
    coordinates : ndarray of shape (n, n_modes), int
    values : ndarray of shape (n,)
    noise : float
        Variance of the values around the model.
    """

    coordinates: NDArray[np.integer]
    values: NDArray[np.floating]
    noise: float

    def taken(self, some: NDArray[Any]) -> "Evidence":
        """Some of these values."""
        return self._replace(
            coordinates=self.coordinates[some], values=self.values[some]
        )


def own_rows(
    rows: Rows, own: Evidence, others: Sequence[Evidence] = (), n_threads: int = 1
) -> ModeRows:
    """Rows of the first mode from their own values, given the rows of other modes.

    The prior is that of all rows of the mode. What `rows` holds for these rows in
    particular is not read.

    Parameters
    ----------
    rows : Rows
        The first mode must not be smooth.
    own : Evidence
        All indices of the first mode get rows. Indices of other modes may be new.
    others : sequence of Evidence, default=()
        Further values of the same indices of the first mode, with other variances.
    n_threads : int, default=1

    Returns
    -------
    of_mode : ModeRows
    """
    where = np.concatenate([own.coordinates, *(each.coordinates for each in others)])
    units, *touched = (np.unique(index) for index in where.T)
    rows = _at(rows, [units[:0], *touched])
    n, dtype = len(units), rows.means[0].dtype
    means = np.repeat(rows.unknown[:1].astype(dtype), n, axis=0)
    covariances = np.empty((n, rows.covariances[0].shape[1]), dtype)
    rows = rows.with_rows(0, ModeRows(units, means, covariances))
    rows = replace(rows, noise=own.noise)
    before = None
    for each in others:
        found = rows.summing(_observed(each, rows), 0, n_threads)(slice(0, n))
        share = own.noise / each.noise
        scaled = Sums(found.gram * share, found.projection * share)
        before = scaled if before is None else _added(before, scaled)
    with one_blas_thread:
        rows, _ = solve_mode(
            rows, _observed(own, rows), 0, before=before, n_threads=n_threads
        )
    return rows.of_mode(0)


def _observed(evidence: Evidence, rows: Rows) -> Observations:
    """Values at some of the rows."""
    values = evidence.values.astype(rows.means[0].dtype)
    return Observations.from_arrays(evidence.coordinates, values, rows.used)


def _at(rows: Rows, indices: Sequence[NDArray[np.integer]]) -> Rows:
    """Only the rows at given ascending indices; see `with_indices`."""
    rows = with_indices(rows, indices)
    for mode, index in enumerate(indices):
        places = places_of(index, rows.used[mode])
        rows = rows.with_rows(mode, rows.of_mode(mode).taken(places))
    return rows
