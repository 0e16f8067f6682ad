"""Tuckers, and structured Tuckers: biases, Tucker terms and weights in one model.

Every index of a mode has a row, and the value of an entry is one core contracted with
the rows of the entry. Fixed columns make the whole model multilinear. Next to a column
of ones in every mode, a bias is a column that the core multiplies by the ones of all
other modes. A weight of a feature is a column of the first mode that the core
multiplies by the feature in the second mode. So one row solver serves biases, factors
and weights.

The blocks of a Tucker decomposition are its factors and, last, the core as a block of
one row; see `CPForm`.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from ._algebra import mode_products, packed_squares
from ._average_row import fill_unknown
from ._priors import BIAS_PRECISION, FACTOR_PRECISION, TIE_PRECISION

# Numbers in memory at a time while entries are contracted with the core.
_LARGEST_BLOCK = 2**22
# Below this share of nonzero elements, a matrix is faster as a sparse one.
_LEAST_FILLING = 0.05
# Least divisors: the length of a column, and the squared length of an axis relative to
# the largest element.
_SHORTEST, _SHORTEST_AXIS = 1e-150, 1e-14


@dataclass(frozen=True)
class TuckerForm:
    """A Tucker as a form: the product of a core with an entry's rows.

    Attributes
    ----------
    ranks : tuple of int
        One for each mode; all 0 for an empty form.
    """

    ranks: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.rank > 0)

    @property
    def rank(self) -> int:
        """The smallest of the ranks, which bounds the terms between any two modes."""
        return min(self.ranks)

    def blocks(self, shape: Sequence[int]) -> list[tuple[int, int]]:
        """Numbers of rows and columns of every block; see `CPForm`."""
        sizes = list(zip(shape, self.ranks, strict=True))
        return [*sizes, (1, math.prod(self.ranks))]

    def rows(self, coordinates: NDArray[np.integer]) -> list[NDArray[np.integer]]:
        """The row of every entry in every block; see `CPForm`."""
        return [*coordinates.T, np.zeros(len(coordinates), dtype=np.int32)]

    def regressors(
        self, block: int, factors: Sequence[Any], rows: Sequence[NDArray[np.integer]]
    ) -> NDArray[Any]:
        """The regressors of entries; see `CPForm.regressors`."""
        # Elementwise operations: in matrix products, the result for one entry could
        # depend on the other entries. Entries are the last axis, so that these
        # operations run on long vectors.
        n_modes, n = len(self.ranks), len(rows[0])
        gathered: list[Any] = [
            None if k == block else factors[k].T[:, rows[k]] for k in range(n_modes)
        ]
        if block == n_modes:
            outer = np.ones((1, n))
            for columns in gathered:
                outer = (outer[:, np.newaxis] * columns).reshape(-1, n)
            return np.ascontiguousarray(outer.T)
        others = [k for k in range(n_modes) if k != block]
        contracted = self._core(factors).transpose(block, *others)
        contracted = contracted.reshape(-1, 1)
        for k in reversed(others):
            contracted = contracted.reshape(-1, self.ranks[k], contracted.shape[-1])
            contracted = sum(
                contracted[:, r] * gathered[k][r] for r in range(self.ranks[k])
            )
        return np.ascontiguousarray(contracted.T)

    def moments(
        self, block: int, moments: Sequence[Any], core: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """See `CPForm.moments`; the core has shape (1, product of the ranks)."""
        others = [k for k in range(len(self.ranks)) if k != block]
        mean, square = np.ones(1), np.ones((1, 1))
        for k in others:
            mean = np.kron(mean, moments[k][0, 1:])
            square = np.kron(square, moments[k][1:, 1:])
        if block < len(self.ranks):
            core = core.reshape(self.ranks).transpose(block, *others)
            core = core.reshape(self.ranks[block], -1)
            mean, square = core @ mean, core @ square @ core.T
        return np.block(
            [[np.ones((1, 1)), mean[np.newaxis]], [mean[:, np.newaxis], square]]
        )

    def _core(self, factors: Sequence[NDArray[np.floating]]) -> NDArray[np.floating]:
        return factors[-1].reshape(self.ranks)

    def centre(self, block: int) -> NDArray[np.float64]:
        """Prior mean of the rows of a block; see `CPForm.centre`.

        The prior mean of the core pairs the columns of the first two modes, one to one;
        the first column of every other mode modulates the pairs.
        """
        if block == len(self.ranks):
            core = np.zeros(self.ranks)
            for term in range(min(self.ranks[:2])):
                core[term, term, *[0] * (len(self.ranks) - 2)] = 1.0
            return core.ravel()
        centre = np.zeros(self.ranks[block])
        centre[0] = float(block > 1)
        return centre

    def normalize(self, block: int, factors: list[Any]) -> None:
        """Make the columns of a fitted block orthogonal with mean square one, in place.

        The core absorbs the change. It is then scaled to the length of the core of a CP
        with as many terms, so that regressors are as long as the columns. See
        `CPForm.normalize`.
        """
        core = self._core(factors)
        if block < len(self.ranks):
            factor = factors[block] / _largest(factors[block])
            squares, axes = np.linalg.eigh(factor.T @ factor / len(factor))
            lengths = np.sqrt(np.maximum(squares, _SHORTEST_AXIS))
            factors[block] = factor @ axes / lengths
            turned = np.tensordot(lengths[:, np.newaxis] * axes.T, core, (1, block))
            core = np.moveaxis(turned, 0, block)
        core = core / _largest(core)
        core *= math.sqrt(self.rank / max(np.sum(core**2), 1.0))
        factors[-1] = core.reshape(1, -1)

    def point_model(
        self,
        shape: tuple[int, ...],
        noise_variance: float,
        dtype: DTypeLike,
        *,
        biases: Sequence[NDArray[np.floating]] | None = None,
        blocks: Sequence[NDArray[np.floating]] | None = None,
    ) -> "StructuredTucker":
        """A model with given biases and blocks; see `point_tucker_model`."""
        terms: dict[str, Any] = {}
        if blocks is not None:
            terms = {"factors": blocks[:-1], "core": self._core(blocks)}
        return point_tucker_model(shape, noise_variance, dtype, biases=biases, **terms)


@dataclass(frozen=True)
class TuckerColumns:
    """The layout of the columns of every mode.

    The order is: ones, the bias of the mode, its factors and, in the first two modes,
    the weights (first mode) or features (second mode).

    Attributes
    ----------
    ranks : tuple of int
        Number of factors of every mode; all 0 for a model without factors.
    biases : bool
    n_features : int
    """

    ranks: tuple[int, ...]
    biases: bool
    n_features: int

    @property
    def first(self) -> int:
        """Number of columns before the factors."""
        # Only biases and features need the ones. A model without factors has them, too,
        # since a mode needs a column.
        has_ones = self.biases or self.n_features or not any(self.ranks)
        return int(has_ones) + int(self.biases)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of columns of every mode: a tuple."""
        return tuple(
            self.first + rank + (self.n_features if mode < 2 else 0)
            for mode, rank in enumerate(self.ranks)
        )

    def factors(self, mode: int) -> slice:
        """The factors among the columns of a mode: a slice."""
        return slice(self.first, self.first + self.ranks[mode])

    def features(self, mode: int) -> slice:
        """The weights or features among the columns of a mode: a slice."""
        last = self.first + self.ranks[mode]
        return slice(last, last + (self.n_features if mode < 2 else 0))

    @property
    def free_core(self) -> tuple[slice, ...]:
        """Slices of the core that hold the core of the factors: a tuple."""
        return tuple(self.factors(mode) for mode in range(len(self.ranks)))

    def core(
        self, free: NDArray[np.floating], dtype: DTypeLike
    ) -> NDArray[np.floating]:
        """The whole core: the core of the factors, and ones for biases and weights.

        Parameters
        ----------
        free : ndarray of shape `ranks`
        dtype : dtype

        Returns
        -------
        core : ndarray of shape `sizes`
        """
        core, n_modes = np.zeros(self.sizes, dtype), len(self.ranks)
        core[self.free_core] = free
        if self.biases:
            for mode in range(n_modes):
                core[tuple(int(k == mode) for k in range(n_modes))] = 1.0
        paired: list[Any] = [
            np.arange(self.features(m).start, self.features(m).stop) for m in (0, 1)
        ]
        core[*paired, *[0] * (n_modes - 2)] = 1.0
        return core

    def fixed(self, mode: int) -> NDArray[np.bool_]:
        """Mask of the columns of a mode that are one or features, and not fitted."""
        fixed = np.zeros(self.sizes[mode], dtype=bool)
        fixed[: self.first - int(self.biases)] = True
        if mode == 1:
            fixed[self.features(mode)] = True
        return fixed

    def prior(
        self,
        smooth_modes: Collection[int],
        features: NDArray[np.floating] | None = None,
    ) -> tuple[
        list[NDArray[np.float64]], list[NDArray[np.float64]], list[NDArray[np.float64]]
    ]:
        """The starting prior: lists by mode of means, precisions and ties."""
        prior_mean, precision, tie = [], [], []
        for mode, size in enumerate(self.sizes):
            fixed = self.fixed(mode)
            mean = np.where(fixed, 1.0, 0.0)
            if any(self.ranks):
                mean[self.factors(mode)] = TuckerForm(self.ranks).centre(mode)
            if mode == 1 and self.n_features and features is not None:
                mean[self.features(mode)] = features[-1]
            prior_mean.append(mean)
            precision.append(np.full(size, FACTOR_PRECISION))
            if self.biases:
                precision[mode][1] = BIAS_PRECISION
            strength = TIE_PRECISION if mode in smooth_modes else 0.0
            tie.append(np.where(fixed, 0.0, strength))
        return prior_mean, precision, tie


@dataclass(frozen=True)
class StructuredTucker:
    """A fitted structured Tucker: the Gaussian posterior of its rows, and its core.

    Attributes
    ----------
    shape : tuple of int
    columns : TuckerColumns
    core : ndarray of shape ``columns.sizes``
    core_mean : ndarray of shape ``columns.ranks``
        Prior mean of the core of the factors.
    fixed : list of ndarray of shape (n_columns,), bool
        For each mode, the columns that are one, or features of the rows, instead of
        being fitted.
    means : list of ndarray of shape (size + 1, n_columns)
        Posterior means. The last row of each mode is for an unknown row.
    covariances : list of ndarray of shape (size + 1, P)
        Posterior covariances, as packed upper triangles.
    prior_mean, precision, tie : list of ndarray of shape (n_columns,)
        The learned prior. `precision` pulls a row to the prior mean; `tie` pulls it to
        its neighbours, and is zero in modes that are not smooth.
    noise_variance : float
        Learned variance of the observations around the model.
    """

    shape: tuple[int, ...]
    columns: TuckerColumns
    core: NDArray[np.floating]
    core_mean: NDArray[np.floating]
    fixed: list[NDArray[np.bool_]]
    means: list[NDArray[np.floating]]
    covariances: list[NDArray[np.floating]]
    prior_mean: list[NDArray[np.float64]]
    precision: list[NDArray[np.float64]]
    tie: list[NDArray[np.float64]]
    noise_variance: float

    @property
    def noise(self) -> float:
        """The variance of observations around the model."""
        return self.noise_variance

    @property
    def factors(self) -> list[NDArray[np.floating]]:
        """Posterior means by mode: a list of arrays of shape (size, n_columns)."""
        return [means[:-1] for means in self.means]

    def weights_of(self, coordinates: NDArray[np.integer]) -> float:
        """The weight of every observation; see `Rows.weights_of`."""
        return 1.0

    def with_average_rows(
        self, counts: Sequence[NDArray[Any] | None], *, keeps_biases: bool = False
    ) -> "StructuredTucker":
        """The model with average rows; see `Rows.with_average_rows`."""
        means = [rows.copy() for rows in self.means]
        covariances = [rows.copy() for rows in self.covariances]
        kept = keeps_biases and self.columns.biases
        filled = [
            fill_unknown(
                means[mode],
                covariances[mode],
                counts[mode],
                ~fixed & ~(kept & (np.arange(len(fixed)) == 1)),
                is_tied=bool(self.tie[mode].any()),
            )
            for mode, fixed in enumerate(self.fixed)
        ]
        if self.columns.biases and all(len(rows) for rows in filled):
            last = [rows[-1:].astype(float) for rows in means]
            average = mode_products(self.core.astype(float)[np.newaxis], last).item()
            for mode_means, rows in zip(means, filled, strict=True):
                mode_means[rows, 1] -= average
        return replace(self, means=means, covariances=covariances)

    def has_columns(
        self, form: TuckerForm, biases: bool, smooth_modes: Collection[int]
    ) -> bool:
        """Whether a fit with these options would have the same columns and ties."""
        tied = {mode for mode, tie in enumerate(self.tie) if tie.any()}
        return (
            form.ranks == self.columns.ranks
            and bool(biases) == self.columns.biases
            and set(smooth_modes) == tied
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
        first = self.means[0]
        values = np.empty(len(coordinates), dtype=first.dtype)
        chunks = _regressors(self.core, self.means, coordinates, 0)
        for chunk, regressors in chunks:
            rows = first[coordinates[chunk, 0]]
            values[chunk] = np.einsum("nk,nk->n", regressors, rows)
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
        chunks = _regressors(self.core, self.means, coordinates, mode)
        regressors = np.concatenate([values for _, values in chunks])
        return regressors @ self.means[mode][:-1].T

    def dense(self) -> NDArray[np.floating]:
        """Predictions of all entries: an array of the tensor's shape."""
        return mode_products(self.core[np.newaxis], self.factors)[0]

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
        means = [m.astype(float) for m in self.means]
        core = self.core.astype(float)
        moments = [
            packed_squares(m) + c.astype(float)
            for m, c in zip(means, self.covariances, strict=True)
        ]
        variance, linear = np.zeros((2, len(coordinates)))
        for chunk, square in contracted(core_of_squares(core), moments, coordinates):
            variance[chunk] = square
        for chunk, mean in contracted(core, means, coordinates):
            variance[chunk] -= mean**2
        for mode, covariances in enumerate(self.covariances):
            twice = np.where(np.equal(*np.triu_indices(core.shape[mode])), 1.0, 2.0)
            for chunk, regressors in _regressors(core, means, coordinates, mode):
                rows = covariances[coordinates[chunk, mode]] * twice
                squares = packed_squares(regressors)
                linear[chunk] += np.einsum("nk,nk->n", squares, rows)
        return np.maximum(variance, 0.0), np.maximum(linear, 0.0)


def _regressors(
    core: NDArray[np.floating],
    rows: Sequence[NDArray[np.floating]],
    coordinates: NDArray[np.integer],
    mode: int,
) -> Iterator[tuple[slice, NDArray[np.floating]]]:
    """The regressors of entries for their rows of a mode, a chunk at a time.

    Parameters
    ----------
    core : ndarray of shape (n_columns of every mode)
    rows : list of ndarray of shape (size + 1, n_columns)
    coordinates : ndarray of shape (n, n_modes), int
    mode : int

    Yields
    ------
    chunk : slice
        The entries of the chunk.
    regressors : ndarray of shape (size of the chunk, n_columns of the mode)
    """
    form = TuckerForm(core.shape)
    blocks = [*rows, core.reshape(1, -1)]
    step = max(1, _LARGEST_BLOCK * min(core.shape[-1], core.shape[-2]) // core.size)
    for start in range(0, len(coordinates), step):
        chunk = slice(start, start + step)
        yield chunk, form.regressors(mode, blocks, form.rows(coordinates[chunk]))


def contracted(
    core: NDArray[np.floating],
    rows: Sequence[NDArray[np.floating]],
    coordinates: NDArray[np.integer],
) -> Iterator[tuple[slice, NDArray[np.floating]]]:
    """Values of entries, a chunk at a time; fast for a large and mostly zero core.

    Yields
    ------
    chunk : slice
        The entries of the chunk.
    values : ndarray of shape (size of the chunk,)
    """
    # Leaving the largest mode to the last keeps the outer products small.
    mode = int(np.argmax(core.shape))
    others = [k for k in range(core.ndim) if k != mode]
    matrix = unfolded(core, mode)
    step = max(1, _LARGEST_BLOCK // (4 * matrix.shape[0]))
    for start in range(0, len(coordinates), step):
        chunk = slice(start, start + step)
        outer = np.ones((len(coordinates[chunk]), 1))
        for k in others:
            gathered = rows[k][coordinates[chunk, k]]
            outer = outer[:, :, np.newaxis] * gathered[:, np.newaxis]
            outer = outer.reshape(len(gathered), -1)
        gathered = rows[mode][coordinates[chunk, mode]]
        yield chunk, np.einsum("nk,nk->n", outer @ matrix, gathered)


def unfolded(core: NDArray[np.floating], mode: int) -> Any:
    """A core as a matrix, whose columns belong to the columns of one mode.

    Parameters
    ----------
    core : ndarray of shape (n_columns of every mode)
    mode : int

    Returns
    -------
    matrix : ndarray or csr_array of shape (product of the others, core.shape[mode])
        Sparse if most of it is zero.
    """
    matrix = np.moveaxis(core, mode, -1).reshape(-1, core.shape[mode])
    sparse = np.count_nonzero(matrix) < _LEAST_FILLING * matrix.size
    return csr_array(matrix) if sparse else matrix


def core_of_squares(core: NDArray[np.floating]) -> NDArray[np.floating]:
    """The core of the squared model.

    If the rows x of the modes are independent, the expected square of a value is this
    core, contracted with the packed upper triangles of E[x x^T] of all modes.

    Parameters
    ----------
    core : ndarray of shape (n_columns of every mode)

    Returns
    -------
    squares : ndarray of shape (P of every mode)
    """
    sizes, n_modes = core.shape, core.ndim
    axes = [k + half * n_modes for k in range(n_modes) for half in (0, 1)]
    square = np.multiply.outer(core, core).transpose(axes)
    # From the last mode to the first, pack two axes into one axis of column pairs.
    for mode in reversed(range(n_modes)):
        first, second = np.triu_indices(sizes[mode])
        before = (slice(None),) * (2 * mode)
        upper, lower = square[*before, first, second], square[*before, second, first]
        same = (first == second).reshape(-1, *[1] * (n_modes - mode - 1))
        square = upper + np.where(same, 0.0, lower)
    return square


def point_tucker_model(
    shape: tuple[int, ...],
    noise_variance: float,
    dtype: DTypeLike,
    *,
    biases: Sequence[NDArray[np.floating]] | None = None,
    factors: Sequence[NDArray[np.floating]] | None = None,
    core: Any = None,
    features: NDArray[np.floating] | None = None,
    weights: NDArray[np.floating] | None = None,
) -> StructuredTucker:
    """A structured Tucker with given biases, factors, core and weights of features.

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
    core : ndarray of shape (rank of every mode), default=None
        Required with `factors`.
    features : ndarray of shape (shape[1] + 1, n_features), default=None
        Features of the rows of the second mode; see `fit_structured_cp`.
    weights : ndarray of shape (shape[0], n_features), default=None
        Weights that the rows of the first mode give to the features. An unknown row
        gives none.

    Returns
    -------
    model : StructuredTucker
        Its covariances are zero.
    """
    ranks = (0,) * len(shape) if factors is None else core.shape
    n_features = 0 if features is None else features.shape[1]
    columns = TuckerColumns(ranks, biases is not None, n_features)
    free = np.zeros(ranks) if core is None else core
    means = [
        np.ones((n + 1, q), dtype) for n, q in zip(shape, columns.sizes, strict=True)
    ]
    for mode, rows in enumerate(means):
        if biases is not None:
            rows[:, 1] = biases[mode]
        if factors is not None:
            rows[:-1, columns.factors(mode)] = factors[mode]
            rows[-1, columns.factors(mode)] = factors[mode].mean(axis=0)
    if features is not None:
        weight_columns = means[0][:, columns.features(0)]
        weight_columns[:-1], weight_columns[-1] = weights, 0.0
        means[1][:, columns.features(1)] = features
    return StructuredTucker(
        tuple(shape),
        columns,
        columns.core(free, dtype),
        free,
        [columns.fixed(mode) for mode in range(len(shape))],
        means,
        [np.zeros((len(m), math.comb(m.shape[1] + 1, 2)), dtype) for m in means],
        *columns.prior(()),
        noise_variance,
    )


def _largest(block: NDArray[np.floating]) -> float:
    """The largest absolute value of a block, and positive."""
    return max(np.abs(block).max(), _SHORTEST)
