"""Forms, columns and point models of CPs: biases, terms and weights of features.

A form is a decomposition seen as a multilinear function of blocks of parameters. An
entry uses one row of every block. Its value is the product of any one of these rows
with its regressors, which depend on the other rows alone. The blocks of a CP are its
factors.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._priors import BIAS_PRECISION
from ._rows import Rows

# The fixed columns, and the prior mean, precision and tie of every column; see `Rows`.
Columns = tuple[
    NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]
]


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
            All blocks; the block with the number `block` is not read.
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
            For every mode, the second moment of (1, row); the moment of `block` is not
            read.
        core : ndarray, default=None
            Not read; see `TuckerForm.moments`.

        Returns
        -------
        moment : ndarray of shape (1 + n_columns, 1 + n_columns)
        """
        return math.prod(m for k, m in enumerate(moments) if k != block)

    def centre(self, block: int) -> NDArray[np.float64]:
        """Prior mean of the rows of a block.

        It is zero in the first two modes, and one in the others, since these modulate
        the product of the first two.
        """
        return np.full(self.rank, float(block > 1))

    def normalize(self, block: int, factors: list[Any]) -> None:
        """Scale the columns of a fitted block to a mean square of one, in place.

        The next fit of another block compensates for the change.
        """
        lengths = np.sqrt(np.mean(factors[block] ** 2, axis=0))
        factors[block] = factors[block] / np.maximum(lengths, 1e-150)

    def point_model(
        self,
        shape: tuple[int, ...],
        noise_variance: float,
        dtype: DTypeLike,
        blocks: Sequence[NDArray[np.floating]] | None = None,
        **terms: Any,
    ) -> Rows:
        """A model with given blocks and other terms; see `point_model`.

        Parameters
        ----------
        shape, noise_variance, dtype, **terms : object
            See `sktensordp.tensor.point_model`.
        blocks : list of ndarray, default=None
            None for no terms.
        """
        return point_model(shape, noise_variance, dtype, factors=blocks, **terms)


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
) -> Columns:
    """The fixed columns and the starting prior; see `Rows`.

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
    # A fit learns precisions and ties from the data.
    precision, tie = np.ones(fixed.shape), np.zeros(fixed.shape)
    precision[:, :n_biases] = BIAS_PRECISION
    for mode in smooth_modes:
        tie[mode] = np.where(fixed[mode], 0.0, 20.0)
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
) -> Rows:
    """A structured CP with given biases, factors and weights of features.

    Parameters
    ----------
    shape : tuple of int
    noise_variance : float
        Variance of the values around the model.
    dtype : dtype
    biases : list of ndarray of shape (shape[mode] + 1,), default=None
        The last element is the bias of an unknown row.
    factors : list of ndarray of shape (shape[mode], rank), default=None
        An unknown row gets the mean of all rows.
    features : ndarray of shape (shape[1] + 1, n_features), default=None
        Features of the rows of the second mode; see `Rows`.
    weights : ndarray of shape (shape[0], n_features), default=None
        Weights that the rows of the first mode give to the features. Those of an
        unknown row are zero.

    Returns
    -------
    model : Rows
        Its covariances are zero.
    """
    n_modes = len(shape)
    rank = 0 if factors is None else factors[0].shape[1]
    columns = cp_columns(n_modes, rank, biases is not None, (), features)
    fixed = columns[0]
    n_biases = 0 if biases is None else n_modes
    of_terms = slice(n_biases, n_biases + rank)
    unknown, means = np.where(fixed, 1.0, 0.0), []
    for mode, size in enumerate(shape):
        rows = np.ones((size, fixed.shape[1]), dtype)
        if biases is not None:
            rows[:, mode], unknown[mode, mode] = biases[mode][:-1], biases[mode][-1]
        if factors is not None:
            rows[:, of_terms] = factors[mode]
            unknown[mode, of_terms] = factors[mode].mean(axis=0)
        if features is not None and mode < 2:
            rows[:, of_terms.stop :] = features[:-1] if mode else weights
        means.append(rows)
    if features is None:
        features = np.empty((1, 0))
    unknown[1, of_terms.stop :] = features[-1]
    used = [np.arange(size) for size in shape]
    return exact_rows(shape, used, columns, means, noise_variance, unknown, features)


def exact_rows(
    shape: tuple[int, ...],
    used: Sequence[NDArray[np.integer]],
    columns: Columns,
    means: Sequence[NDArray[np.floating]],
    noise: float,
    unknown: NDArray[np.float64],
    features: NDArray[np.floating],
) -> Rows:
    """Rows whose covariances are zero, with `cp_columns`; see `Rows`."""
    posterior = tuple(means), no_covariances(columns[0], means)
    return Rows(shape, tuple(used), *columns, *posterior, noise, unknown, features)


def no_covariances(
    fixed: NDArray[np.bool_], means: Sequence[NDArray[np.floating]]
) -> tuple[NDArray[np.floating], ...]:
    """Zero covariances, for rows that are taken as exact."""
    n_pairs = [math.comb(n + 1, 2) for n in np.sum(~fixed, axis=1).tolist()]
    pairs = zip(means, n_pairs, strict=True)
    return tuple(np.zeros((len(own), n), own.dtype) for own, n in pairs)
