"""CPs, and structured CPs: biases, CP terms and weights of features in one model.

A structured CP is a CP with columns that are fixed in some modes. A column that is free
in one mode, and one in all others, is a bias of that mode. A column that is free in all
modes is a full CP term. A column that is free in the first mode, and a feature of the
rows in the second, holds the weights that rows of the first mode give to the feature.
So one row solver serves biases, factors and weights.

A form is a decomposition seen as a multilinear function of blocks of parameters. An
entry uses one row of every block. Its value is the product of any one of these rows
with its regressors, which depend on the other rows alone. The blocks of a CP are its
factors.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._algebra import cp_to_dense, diagonal, with_columns
from ._average_row import fill_unknown
from ._priors import (
    BIAS_PRECISION,
    FACTOR_PRECISION,
    LARGEST_PRECISION,
    TIE_PRECISION,
)

# Least divisor, for the length of a column.
_SHORTEST = 1e-150
# Number of entries that are predicted at a time.
_CHUNK = 2**14


@dataclass(frozen=True)
class CPForm:
    """A CP as a form: the sum over columns of the products of an entry's rows.

    Attributes
    ----------
    rank : int
        Number of columns; 0 for an empty form.
    """

    rank: int

    def __bool__(self) -> bool:
        return bool(self.rank > 0)

    def blocks(self, shape: Sequence[int]) -> list[tuple[int, int]]:
        """Numbers of rows and columns of every block: a list of pairs."""
        return [(size, self.rank) for size in shape]

    def rows(self, coordinates: NDArray[np.integer]) -> list[NDArray[np.integer]]:
        """The row of every entry in every block: a list of arrays of shape (n,)."""
        return list(coordinates.T)

    def regressors(
        self, block: int, factors: Sequence[Any], rows: Sequence[NDArray[np.integer]]
    ) -> NDArray[Any]:
        """The regressors of entries: the coefficients of their row of a block.

        Parameters
        ----------
        block : int
        factors : list of ndarray
            All blocks; the one with the number `block` is not read.
        rows : list of ndarray of shape (n,), int
            The row of every entry in every block.

        Returns
        -------
        regressors : ndarray of shape (n, n_columns of the block)
        """
        others = [k for k in range(len(factors)) if k != block]
        return reduce(np.multiply, (factors[k][rows[k]] for k in others))

    def moments(
        self,
        block: int,
        moments: Sequence[Any],
        core: NDArray[np.floating] | None = None,
    ) -> NDArray[np.floating]:
        """Second moment of (1, regressors of a block), for independent rows.

        Parameters
        ----------
        block : int
        moments : list of ndarray of shape (1 + n_columns, 1 + n_columns)
            For every mode, the second moment of (1, row); that of `block` is not read.
        core : ndarray, default=None
            Not read; see `TuckerForm.moments`.

        Returns
        -------
        moment : ndarray of shape (1 + n_columns, 1 + n_columns)
        """
        return math.prod(m for k, m in enumerate(moments) if k != block)

    def centre(self, block: int) -> NDArray[np.float64]:
        """Prior mean of the rows of a block.

        It is zero in the first two modes. It is one in the others, since these modulate
        the product of the first two.
        """
        return np.full(self.rank, float(block > 1))

    def normalize(self, block: int, factors: list[Any]) -> None:
        """Scale the columns of a fitted block to a mean square of one, in place.

        The next fit of another block makes up for the change.
        """
        factors[block] = factors[block] / _lengths(factors[block])

    def point_model(
        self,
        shape: tuple[int, ...],
        noise_variance: float,
        dtype: DTypeLike,
        *,
        biases: Sequence[NDArray[np.floating]] | None = None,
        blocks: Sequence[NDArray[np.floating]] | None = None,
    ) -> "StructuredCP":
        """A model with given biases and blocks; see `sktensordp.tensor.point_model`."""
        return point_model(shape, noise_variance, dtype, biases=biases, factors=blocks)


@dataclass(frozen=True)
class StructuredCP:
    """A fitted structured CP: the Gaussian posterior of its rows.

    Attributes
    ----------
    shape : tuple of int
    fixed : ndarray of shape (n_modes, n_columns), bool
        Columns that are one, or features of the rows, instead of being fitted.
    means : ndarray of shape (n_rows, n_columns)
        Posterior means of the rows of all modes, one mode after the other. After its
        rows, every mode has an extra one for an unknown row.
    covariances : ndarray of shape (n_rows, P)
        Posterior covariances, as packed upper triangles.
    prior_mean, precision, tie : ndarray of shape (n_modes, n_columns)
        The learned prior. `precision` pulls a row to the prior mean; `tie` pulls it to
        its neighbours, and is zero in modes that are not smooth.
    noise_variance : float
        Learned variance of the observations around the model.
    row_weights : ndarray of shape (shape[0] + 1,), default=None
        For every row of the first mode and, last, for an unknown row, `noise_variance`
        over the variance of its observations; None if these are equal.
    """

    shape: tuple[int, ...]
    fixed: NDArray[np.bool_]
    means: NDArray[np.floating]
    covariances: NDArray[np.floating]
    prior_mean: NDArray[np.float64]
    precision: NDArray[np.float64]
    tie: NDArray[np.float64]
    noise_variance: float
    row_weights: NDArray[np.float64] | None = None

    def weights_of(self, coordinates: NDArray[np.integer]) -> Any:
        """The weights of observations: an array of shape (n,), or 1."""
        return 1.0 if self.row_weights is None else self.row_weights[coordinates[:, 0]]

    @property
    def rows(self) -> list[slice]:
        """The rows of every mode, with the unknown row last: a list of slices."""
        ends = np.cumsum([0, *(size + 1 for size in self.shape)])
        return [slice(*pair) for pair in pairwise(ends.tolist())]

    @property
    def factors(self) -> list[NDArray[np.floating]]:
        """Posterior means by mode: a list of arrays of shape (size, n_columns)."""
        return [self.means[r][:-1] for r in self.rows]

    def with_average_rows(
        self, counts: Sequence[NDArray[Any] | None], *, keeps_biases: bool = False
    ) -> "StructuredCP":
        """The same model, with the row of the average entry where nothing is known.

        An unknown row, and every row without entries, gets the average over the entries
        of the rows of its mode, and the variances of the prior. Features and, where a
        mode ties its rows, rows between others stay as they are. Over the entries, rows
        of different modes are correlated: people choose what they like. So the value of
        the average rows is not the average value, which is zero. If there are biases,
        and no mode is left as it is, the bias of an unknown row makes up for that.

        Parameters
        ----------
        counts : list by mode of ndarray of shape (size,) or None
            Number of entries of every row; None leaves a mode as it is.
        keeps_biases : bool, default=False
            Whether biases of rows without entries are those of the average entry
            already, apart from what declared features tell.

        Returns
        -------
        model : StructuredCP
        """
        means, covariances = self.means.copy(), self.covariances.copy()
        n_modes, free = len(self.shape), ~self.fixed
        # Weights of features are free in one mode alone, too.
        has_biases = np.array_equal(free[:, :n_modes], np.eye(n_modes, dtype=bool))
        if has_biases and keeps_biases:
            free[:, :n_modes] = False
        filled = [
            fill_unknown(
                means[r],
                covariances[r],
                counts[mode],
                free[mode],
                is_tied=bool(self.tie[mode].any()),
            )
            for mode, r in enumerate(self.rows)
        ]
        if has_biases and all(len(rows) for rows in filled):
            last = [means[r.stop - 1].astype(float) for r in self.rows]
            for mode, (r, rows) in enumerate(zip(self.rows, filled, strict=True)):
                means[r][rows, mode] -= math.prod(last).sum()
        return replace(self, means=means, covariances=covariances)

    def has_columns(
        self, form: CPForm, biases: bool, smooth_modes: Collection[int]
    ) -> bool:
        """Whether a fit with these options would have the same columns and ties."""
        n_modes = len(self.shape)
        n_features = self.fixed.shape[1] - form.rank - (n_modes if biases else 0)
        if n_features < 0:
            return False
        features = np.empty((0, n_features))
        fixed, _, _, tie = cp_columns(
            n_modes, form.rank, biases, smooth_modes, features
        )
        return np.array_equal(fixed, self.fixed) and np.array_equal(
            tie > 0, self.tie > 0
        )

    def padded(self, rank: int, smooth_modes: Collection[int]) -> "StructuredCP":
        """The same model with `rank` full terms, those that are missing being zero.

        Their precision is the largest one, as that of a term that a fit switches off.

        Parameters
        ----------
        rank : int
        smooth_modes : collection of int
            Modes in which neighbouring rows are tied.
        """
        n_columns = self.fixed.shape[1]
        n_new = rank - np.count_nonzero(~self.fixed.any(axis=0))
        if not n_new:
            return self
        # Before the features, which alone are fixed in the second mode and come last.
        place = np.max(np.flatnonzero(~self.fixed[1]), initial=-1) + 1
        columns = np.insert(np.arange(n_columns), place, [n_columns] * n_new)
        new: Any = cp_columns(len(self.shape), 1, False, smooth_modes)
        prior: Any = self.fixed, self.prior_mean, self.precision, self.tie
        fixed, prior_mean, precision, tie = (
            np.append(a, b, axis=1)[:, columns] for a, b in zip(prior, new, strict=True)
        )
        is_new = columns == n_columns
        precision[:, is_new] = LARGEST_PRECISION
        means, covariances = with_columns(self.means, self.covariances, columns)
        covariances[:, diagonal(len(columns))[is_new]] = 1 / LARGEST_PRECISION
        return replace(
            self,
            fixed=fixed,
            means=means,
            covariances=covariances,
            prior_mean=prior_mean,
            precision=precision,
            tie=tie,
        )

    def predict(self, coordinates: NDArray[np.integer]) -> NDArray[np.floating]:
        """Predictions at coordinates; -1 stands for an unknown row.

        Parameters
        ----------
        coordinates : ndarray of shape (n, n_modes), int

        Returns
        -------
        values : ndarray of shape (n,)
        """
        values = np.empty(len(coordinates), dtype=self.means.dtype)
        factors = [self.means[r] for r in self.rows]
        for start in range(0, len(coordinates), _CHUNK):
            chunk = coordinates[start : start + _CHUNK]
            product = factors[0][chunk[:, 0]]
            for mode, factor in enumerate(factors[1:], start=1):
                product *= factor[chunk[:, mode]]
            values[start : start + _CHUNK] = product.sum(axis=1)
        return values

    def slices(
        self, coordinates: NDArray[np.integer], mode: int
    ) -> NDArray[np.floating]:
        """Predictions at all indices of one mode; see `predict`.

        Parameters
        ----------
        coordinates : ndarray of shape (n, n_modes), int
            The column of the mode is not read.
        mode : int

        Returns
        -------
        values : ndarray of shape (n, shape[mode])
        """
        factors = [self.means[r] for r in self.rows]
        mode_factor = factors.pop(mode)
        others = np.delete(coordinates, mode, axis=1).T
        product = math.prod(f[c] for f, c in zip(factors, others, strict=True))
        return product @ mode_factor[:-1].T

    def dense(self) -> NDArray[np.floating]:
        """Predictions of all entries: an array of the tensor's shape."""
        return cp_to_dense(self.factors)

    def variance(
        self, coordinates: NDArray[np.integer]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Posterior variance of predictions at coordinates; see `predict`.

        Returns
        -------
        variance : ndarray of shape (n,)
        linear : ndarray of shape (n,)
            Variance of the linearised model. Divided by the variance of an observation,
            it is the weight of an observation in its own prediction.
        """
        from .kernels._cp import model_variance

        rows = np.empty(coordinates.shape, dtype=np.int64, order="F")
        for mode, r in enumerate(self.rows):
            index = coordinates[:, mode]
            rows[:, mode] = np.where(index < 0, r.stop - 1, index + r.start)
        variance, linear = np.empty((2, len(coordinates)))
        model_variance(rows, self.means, self.covariances, variance, linear)
        return variance, linear


def max_cp_rank(shape: Sequence[int]) -> int:
    """Largest useful rank of a CP.

    This is the product of all sizes but the largest. Every tensor of this shape has a
    CP with that number of terms.

    Parameters
    ----------
    shape : tuple of int

    Returns
    -------
    rank : int
    """
    return math.prod(shape) // max(shape)


def cp_columns(
    n_modes: int,
    rank: int,
    biases: bool,
    smooth_modes: Collection[int],
    features: NDArray[np.floating] | None = None,
) -> tuple[
    NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]
]:
    """The fixed columns and the starting prior; see `StructuredCP`.

    Returns
    -------
    fixed, prior_mean, precision, tie : ndarray of shape (n_modes, n_columns)
    """
    n_biases = n_modes if biases else 0
    n_features = 0 if features is None else features.shape[1]
    fixed = np.zeros((n_modes, n_biases + rank + n_features), dtype=bool)
    fixed[1:, n_biases + rank :] = True
    fixed[:, :n_biases] = ~np.eye(n_modes, dtype=bool)[:, :n_biases]
    prior_mean = np.where(fixed, 1.0, 0.0)
    # Later modes modulate the product of the first two. With a prior mean of zero, they
    # would shrink the whole term; this affects accuracy, not privacy.
    prior_mean[2:, n_biases:] = 1.0
    if features is not None and features.size:
        prior_mean[1, n_biases + rank :] = features[-1]
    precision = np.full(fixed.shape, FACTOR_PRECISION)
    precision[:, :n_biases] = BIAS_PRECISION
    tie = np.zeros(fixed.shape)
    for mode in smooth_modes:
        tie[mode] = np.where(fixed[mode], 0.0, TIE_PRECISION)
    return fixed, prior_mean, precision, tie


def point_model(
    shape: tuple[int, ...],
    noise_variance: float,
    dtype: DTypeLike,
    *,
    biases: Sequence[NDArray[np.floating]] | None = None,
    factors: Sequence[NDArray[np.floating]] | None = None,
    features: NDArray[np.floating] | None = None,
    weights: NDArray[np.floating] | None = None,
) -> StructuredCP:
    """A structured CP with given biases, factors and weights of features.

    Parameters
    ----------
    shape : tuple of int
    noise_variance : float
        Variance of the values around the model.
    dtype : dtype
    biases : list of ndarray of shape (shape[mode] + 1,), default=None
        The last is the bias of an unknown row.
    factors : list of ndarray of shape (shape[mode], rank), default=None
        An unknown row gets the mean of all rows.
    features : ndarray of shape (shape[1] + 1, n_features), default=None
        Features of the rows of the second mode; see `fit_structured_cp`.
    weights : ndarray of shape (shape[0], n_features), default=None
        Weights that the rows of the first mode give to the features. An unknown row
        gives none.

    Returns
    -------
    model : StructuredCP
        Its covariances are zero.
    """
    n_modes = len(shape)
    rank = 0 if factors is None else factors[0].shape[1]
    fixed, prior_mean, precision, tie = cp_columns(
        n_modes, rank, biases is not None, (), features
    )
    n_rows, n_columns = sum(shape) + n_modes, fixed.shape[1]
    model = StructuredCP(
        shape,
        fixed,
        np.ones((n_rows, n_columns), dtype),
        np.zeros((n_rows, n_columns * (n_columns + 1) // 2), dtype),
        prior_mean,
        precision,
        tie,
        noise_variance,
    )
    n_biases = 0 if biases is None else n_modes
    last = n_biases + rank
    for mode, r in enumerate(model.rows):
        rows = model.means[r]
        if biases is not None:
            rows[:, mode] = biases[mode]
        if factors is not None:
            rows[:-1, n_biases:last] = factors[mode]
            rows[-1, n_biases:last] = factors[mode].mean(axis=0)
    if features is not None:
        model.means[model.rows[1], last:] = features
        weight_columns = model.means[model.rows[0], last:]
        weight_columns[:-1], weight_columns[-1] = weights, 0.0
    return model


def _lengths(block: NDArray[np.floating]) -> NDArray[np.floating]:
    """Root mean squares of the columns."""
    return np.maximum(np.sqrt(np.mean(block**2, axis=0)), _SHORTEST)
