"""Tuckers, and structured Tuckers: biases, Tucker terms and weights in one model.

Every index of a mode has a row, and the value of an entry is one core contracted with
the rows that it meets. Held columns make all parts of the model multilinear: next to a
column of ones, a bias is what the core multiplies with ones in all other modes, and a
weight that a row of the first mode gives to a feature is what it multiplies with that
feature in the second mode. So one row solver serves biases, factors and weights.

The blocks of a Tucker decomposition are its factors and, last, the core, as a block of
one row; see `CPForm`.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from ._algebra import mode_products, packed_squares
from ._priors import BIAS_PRECISION, FACTOR_PRECISION, TIE_PRECISION

__all__ = [
    "StructuredTucker",
    "TuckerColumns",
    "TuckerForm",
    "core_of_squares",
    "point_tucker_model",
    "unfolded",
]

# Numbers that are held at once while entries are contracted with the core.
_LARGEST_BLOCK = 2**22
# A matrix of which a smaller share is not zero is faster as a sparse one.
_LEAST_FILLING = 0.05
# Shorter columns are next to nothing; squares of axes, beside those of the largest.
_SHORTEST, _SHORTEST_AXIS = 1e-150, 1e-14


@dataclass(frozen=True)
class TuckerForm:
    """Product of a core with an entry's rows.

    Attributes
    ----------
    ranks : tuple of int
        One a mode; all 0 for none.
    """

    ranks: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.rank > 0)

    @property
    def rank(self) -> int:
        """The least of the ranks: so many terms any two modes can have."""
        return min(self.ranks)

    def blocks(self, shape: Sequence[int]) -> list[tuple[int, int]]:
        """Numbers of rows and of columns of every block; see `CPForm`."""
        sizes = list(zip(shape, self.ranks, strict=True))
        return [*sizes, (1, math.prod(self.ranks))]

    def rows(self, coordinates: NDArray[np.integer]) -> list[NDArray[np.integer]]:
        """Row of every entry in every block; see `CPForm`."""
        return [*coordinates.T, np.zeros(len(coordinates), dtype=np.int32)]

    def regressors(
        self, block: int, factors: Sequence[Any], rows: Sequence[NDArray[np.integer]]
    ) -> NDArray[Any]:
        """Coefficients of an entry's row of a block; see `CPForm.regressors`."""
        # By elementwise operations, so that what an entry gets does not depend on those
        # it is computed with, as it may in products of matrices; entries come last, so
        # that these operations are on long vectors.
        n_modes, n = len(self.ranks), len(rows[0])
        own: list[Any] = [
            None if k == block else factors[k].T[:, rows[k]] for k in range(n_modes)
        ]
        if block == n_modes:
            found: Any = np.ones((1, n))
            for columns in own:
                found = (found[:, np.newaxis] * columns).reshape(-1, n)
            return np.ascontiguousarray(found.T)
        others = [k for k in range(n_modes) if k != block]
        found = self._core(factors).transpose(block, *others).reshape(-1, 1)
        for k in reversed(others):
            found = found.reshape(-1, self.ranks[k], found.shape[-1])
            found = sum(found[:, r] * own[k][r] for r in range(self.ranks[k]))
        return np.ascontiguousarray(found.T)

    def moments(
        self, block: int, moments: Sequence[Any], core: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """See `CPForm.moments`; the core is of shape (1, product of the ranks)."""
        others = [k for k in range(len(self.ranks)) if k != block]
        mean, square = np.ones(1), np.ones((1, 1))
        for k in others:
            mean = np.kron(mean, moments[k][0, 1:])
            square = np.kron(square, moments[k][1:, 1:])
        if block < len(self.ranks):
            core = core.reshape(self.ranks).transpose(block, *others)
            core = core.reshape(self.ranks[block], -1)
            mean, square = core @ mean, core @ square @ core.T
        return np.block([
            [np.ones((1, 1)), mean[np.newaxis]], [mean[:, np.newaxis], square]
        ])  # fmt: skip

    def _core(self, factors: Sequence[NDArray[np.floating]]) -> NDArray[np.floating]:
        return factors[-1].reshape(self.ranks)

    def centre(self, block: int) -> NDArray[np.float64]:
        """What the rows of a block are around; see `CPForm.centre`.

        The core is around one that makes pairs of the columns of the first two modes,
        which the first column of every other mode modulates.
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
        """Give a block that was fitted orthogonal columns of mean square one, in place.

        The core makes up for it, and is brought to the length of a CP of so many terms,
        with which regressors are as long as the columns. See `CPForm.normalize`.
        """
        core = self._core(factors)
        if block < len(self.ranks):
            own = factors[block] / _largest(factors[block])
            squares, axes = np.linalg.eigh(own.T @ own / len(own))
            lengths = np.sqrt(np.maximum(squares, _SHORTEST_AXIS))
            factors[block] = own @ axes / lengths
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
        """A model of given biases and blocks; see `point_tucker_model`."""
        parts: dict[str, Any] = {}
        if blocks is not None:
            parts = {"factors": blocks[:-1], "core": self._core(blocks)}
        return point_tucker_model(shape, noise_variance, dtype, biases=biases, **parts)


@dataclass(frozen=True)
class TuckerColumns:
    """Which columns the rows of every mode have.

    In this order: ones, the bias of the mode, its factors, and, in the first two
    modes, weights and features.

    Attributes
    ----------
    ranks : tuple of int
        Number of factors of every mode; all 0 for none.
    biases : bool
    n_features : int
    """

    ranks: tuple[int, ...]
    biases: bool
    n_features: int

    @property
    def first(self) -> int:
        """How many columns come before the factors."""
        # A Tucker alone has no ones; what has no factors has at least those.
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
        """Where the core of the factors is in the core: a tuple of slices."""
        return tuple(self.factors(mode) for mode in range(len(self.ranks)))

    def core(
        self, free: NDArray[np.floating], dtype: DTypeLike
    ) -> NDArray[np.floating]:
        """The core: that of the factors, and the ones of biases and weights.

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
        at: list[Any] = [
            np.arange(self.features(m).start, self.features(m).stop) for m in (0, 1)
        ]
        core[*at, *[0] * (n_modes - 2)] = 1.0
        return core

    def fixed(self, mode: int) -> NDArray[np.bool_]:
        """Columns that are held at one, or at the features of the rows."""
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
        """The prior to start with: lists by mode of means, precisions and ties."""
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
        Where the prior has the core of the factors.
    fixed : list of ndarray of shape (n_columns,), bool
        One a mode: columns that are held at one, or at the features of the rows.
    means : list of ndarray of shape (size + 1, n_columns)
        The last row of each mode is additional: it stands for a row of which nothing
        is known.
    covariances : list of ndarray of shape (size + 1, P)
        Upper triangles, row by row.
    prior_mean, precision, tie : list of ndarray of shape (n_columns,)
        The prior, as learned: how strongly a row is pulled to the mean, and, where
        neighbours are tied, to each of them.
    noise_variance : float
        Variance of the observations around the model, as learned.
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
    def factors(self) -> list[NDArray[np.floating]]:
        """Posterior means by mode: a list of arrays of shape (size, n_columns)."""
        return [means[:-1] for means in self.means]

    def has_columns(
        self, form: TuckerForm, biases: bool, smooth_modes: Collection[int]
    ) -> bool:
        """Whether a fit with these options has the same columns and ties."""
        tied = {mode for mode, tie in enumerate(self.tie) if tie.any()}
        return (
            form.ranks == self.columns.ranks
            and bool(biases) == self.columns.biases
            and set(smooth_modes) == tied
        )

    def predict(self, coordinates: NDArray[np.integer]) -> NDArray[np.floating]:
        """Mean of the model at coordinates; -1 stands for an unknown row.

        Parameters
        ----------
        coordinates : ndarray of shape (n, n_modes), int

        Returns
        -------
        values : ndarray of shape (n,)
        """
        own = self.means[0]
        values = np.empty(len(coordinates), dtype=own.dtype)
        for part, found in _regressors(self.core, self.means, coordinates, 0):
            values[part] = np.einsum("nk,nk->n", found, own[coordinates[part, 0]])
        return values

    def slices(
        self, coordinates: NDArray[np.integer], mode: int
    ) -> NDArray[np.floating]:
        """Mean of the model at all indices of one mode; see `predict`.

        Parameters
        ----------
        coordinates : ndarray of shape (n, n_modes), int
            Those of the mode are not read.
        mode : int

        Returns
        -------
        values : ndarray of shape (n, shape[mode])
        """
        blocks = _regressors(self.core, self.means, coordinates, mode)
        found = [regressors for _, regressors in blocks]
        return np.concatenate(found) @ self.means[mode][:-1].T

    def dense(self) -> NDArray[np.floating]:
        """Mean of the model everywhere: an array of the shape of the tensor."""
        return mode_products(self.core[np.newaxis], self.factors)[0]

    def variance(
        self, coordinates: NDArray[np.integer]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Posterior variance of the model at coordinates; see `predict`.

        Returns
        -------
        variance : ndarray of shape (n,)
        linear : ndarray of shape (n,)
            That of the model's linearisation: over the variance of an observation, an
            observation's weight in its own prediction.
        """
        means = [m.astype(float) for m in self.means]
        core = self.core.astype(float)
        moments = [
            packed_squares(m) + c.astype(float)
            for m, c in zip(means, self.covariances, strict=True)
        ]
        variance, linear = np.zeros((2, len(coordinates)))
        for part, square in _contracted(core_of_squares(core), moments, coordinates):
            variance[part] = square
        for part, mean in _contracted(core, means, coordinates):
            variance[part] -= mean**2
        for mode, covariances in enumerate(self.covariances):
            twice = np.where(np.equal(*np.triu_indices(core.shape[mode])), 1.0, 2.0)
            for part, found in _regressors(core, means, coordinates, mode):
                own = covariances[coordinates[part, mode]] * twice
                linear[part] += np.einsum("nk,nk->n", packed_squares(found), own)
        return np.maximum(variance, 0.0), np.maximum(linear, 0.0)


def _regressors(
    core: NDArray[np.floating],
    rows: Sequence[NDArray[np.floating]],
    coordinates: NDArray[np.integer],
    mode: int,
) -> Iterator[tuple[slice, NDArray[np.floating]]]:
    """What entries have for coefficients of their rows of a mode, block by block.

    Parameters
    ----------
    core : ndarray of shape (n_columns of every mode)
    rows : list of ndarray of shape (size + 1, n_columns)
    coordinates : ndarray of shape (n, n_modes), int
    mode : int

    Yields
    ------
    part : slice
        The entries.
    regressors : ndarray of shape (n of the part, n_columns of the mode)
    """
    form = TuckerForm(core.shape)
    blocks = [*rows, core.reshape(1, -1)]
    step = max(1, _LARGEST_BLOCK * min(core.shape[-1], core.shape[-2]) // core.size)
    for start in range(0, len(coordinates), step):
        part = slice(start, start + step)
        yield part, form.regressors(mode, blocks, form.rows(coordinates[part]))


def _contracted(
    core: NDArray[np.floating],
    rows: Sequence[NDArray[np.floating]],
    coordinates: NDArray[np.integer],
) -> Iterator[tuple[slice, NDArray[np.floating]]]:
    """Values at entries; fast where the core is large, and most of it is zero.

    Yields
    ------
    part : slice
        The entries.
    values : ndarray of shape (n of the part,)
    """
    # The outer products of the rows of the other modes are least.
    mode = int(np.argmax(core.shape))
    others = [k for k in range(core.ndim) if k != mode]
    matrix = unfolded(core, mode)
    step = max(1, _LARGEST_BLOCK // (4 * matrix.shape[0]))
    for start in range(0, len(coordinates), step):
        part = slice(start, start + step)
        outer = np.ones((len(coordinates[part]), 1))
        for k in others:
            own = rows[k][coordinates[part, k]]
            outer = outer[:, :, np.newaxis] * own[:, np.newaxis]
            outer = outer.reshape(len(own), -1)
        own = rows[mode][coordinates[part, mode]]
        yield part, np.einsum("nk,nk->n", outer @ matrix, own)


def unfolded(core: NDArray[np.floating], mode: int) -> Any:
    """A core as a matrix with a column for each column of a mode.

    Parameters
    ----------
    core : ndarray of shape (n_columns of every mode)
    mode : int

    Returns
    -------
    matrix : ndarray or csr_array of shape (product of the others, core.shape[mode])
        Sparse where most of it is zero.
    """
    matrix = np.moveaxis(core, mode, -1).reshape(-1, core.shape[mode])
    sparse = np.count_nonzero(matrix) < _LEAST_FILLING * matrix.size
    return csr_array(matrix) if sparse else matrix


def core_of_squares(core: NDArray[np.floating]) -> NDArray[np.floating]:
    """The core of the square of a model, whose rows are squares of the model's rows.

    Where a row x of each mode is independent of the others, the expected square of
    the value is this core contracted with the upper triangles of all E[x x^T].

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
    # From the last mode on, each pair of axes becomes one of pairs of columns.
    for mode in reversed(range(n_modes)):
        first, second = np.triu_indices(sizes[mode])
        before = (slice(None),) * (2 * mode)
        one, other = square[*before, first, second], square[*before, second, first]
        same = (first == second).reshape(-1, *[1] * (n_modes - mode - 1))
        square = one + np.where(same, 0.0, other)
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
    """A structured Tucker of given biases, factors, core and weights of features.

    Parameters
    ----------
    shape : tuple of int
    noise_variance : float
        Variance of the values around the model.
    dtype : dtype
    biases : list of ndarray of shape (shape[mode] + 1,), default=None
        Last, the bias of an unknown row.
    factors : list of ndarray of shape (shape[mode], rank), default=None
        An unknown row is the mean of all.
    core : ndarray of shape (rank of every mode), default=None
        Given if factors are.
    features : ndarray of shape (shape[1] + 1, n_features), default=None
        Of the rows of the second mode; see `fit_structured_cp`.
    weights : ndarray of shape (shape[0], n_features), default=None
        That the rows of the first mode give to the features; an unknown row, none.

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
        own = means[0][:, columns.features(0)]
        own[:-1], own[-1] = weights, 0.0
        means[1][:, columns.features(1)] = features
    return StructuredTucker(
        tuple(shape), columns, columns.core(free, dtype), free,
        [columns.fixed(mode) for mode in range(len(shape))], means,
        [np.zeros((len(m), math.comb(m.shape[1] + 1, 2)), dtype) for m in means],
        *columns.prior(()), noise_variance,
    )  # fmt: skip


def _largest(block: NDArray[np.floating]) -> float:
    return max(np.abs(block).max(), _SHORTEST)
