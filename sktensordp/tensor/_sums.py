"""Biases of all modes from noisy sums of the values in every row.

A value is y_e = offset + sum_m b_m[i_m] + residual. With A the incidence matrix of
entries and rows, and K = A^T A, the sums are S = A^T y + noise. They are jointly
Gaussian with the biases b: given b, their mean is K b plus the offset times the
counts, and their covariance is sigma^2 K plus that of the noise. The posterior mean
solves one system of linear equations, by conjugate gradients. The variances of each
mode's biases, and sigma^2, are the most probable ones given the sums; this step treats
the sums as independent. Biases of the second mode may have a prior mean that is linear
in features of its rows. The weights of the features are Gaussian too, so they only add
to the covariance of the biases.

Without sums of the first mode, the variance of its biases and sigma^2 are constants:
the sums of the other modes hardly tell them from each other.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning

from .._validation import callers_level
from ._average_row import average_row
from ._cp import point_model
from ._priors import (
    BIAS_VARIANCE,
    E_FOLDS,
    OWN_BIAS_VARIANCE,
    OWN_RESIDUAL_VARIANCE,
    RESIDUAL_VARIANCE,
)
from ._rows import Rows


class Gram(Protocol):
    """Numbers of entries that two rows of any modes share, as a symmetric operator.

    `SharedCounts` has them in memory, and `SharedEntries` of completions asks the
    entries in Dask collections.
    """

    def diagonal(self) -> NDArray[np.float64]:
        """Number of entries of every row, one mode after the other."""

    def __matmul__(self, vectors: NDArray[np.floating], /) -> NDArray[np.float64]:
        """The product with a vector, or with the columns of an array."""


def fit_biases_to_sums(
    gram: Gram,
    sums: NDArray[np.float64],
    noise_variance: float,
    shape: tuple[int, ...],
    value_scale: float,
    dtype: DTypeLike = float,
    features: NDArray[np.floating] | None = None,
    *,
    first_has_sums: bool = True,
) -> tuple[float, Rows]:
    """Posterior means of the offset and of the biases, given noisy sums.

    Parameters
    ----------
    gram : SharedCounts or object
        The result of `shared_entries`, or an object with the same method ``diagonal()``
        and operator ``@``.
    sums : ndarray of shape (sum of shape,), float
        Noisy sum of the values in every row, one mode after the other. Without sums of
        the first mode, their shape is (sum of shape[1:],).
    noise_variance : float
        Variance of the noise in each sum.
    shape : tuple of int
    value_scale : float
        Half the range of the values.
    dtype : dtype, default=float
        Type of the model's arrays.
    features : ndarray of shape (shape[1] + 1, n_features), default=None
        Features of the rows of the second mode and, last, of an unknown row.
    first_has_sums : bool, default=True
        Whether there are sums of the first mode. If not, its biases in the model are
        zero, those of the average row.

    Returns
    -------
    offset : float
    model : Rows
        It has bias columns only. Its covariances are zero.
    """
    counts = gram.diagonal()
    rows = [slice(*pair) for pair in pairwise(np.cumsum([0, *shape]).tolist())]
    first = 0 if first_has_sums else 1  # the first mode with sums
    n_learned = 2 - first  # per mode: the variances of biases and of residuals
    has_sum = np.arange(sum(shape)) >= rows[first].start
    sums = np.append(np.zeros(rows[first].start), sums)
    if features is None:
        features = np.empty((shape[1] + 1, 0))
    row_features = np.zeros((len(sums), features.shape[1]))
    row_features[rows[1]] = features[:-1]
    start = np.log(np.array([BIAS_VARIANCE, RESIDUAL_VARIANCE]) * value_scale**2)
    learned = np.tile(np.exp(start), (len(shape), 1))
    if not first_has_sums:
        learned[0, 0] = OWN_BIAS_VARIANCE * value_scale**2
        learned[:, 1] = OWN_RESIDUAL_VARIANCE * value_scale**2
    solution: NDArray[np.float64] | None = None
    n_rounds = 2
    for step in range(n_rounds + 1):
        variances, residual = np.repeat(learned[:, 0], shape), learned[:, 1].mean()
        prior = _Prior(row_features, variances, value_scale, has_sum)
        given = gram, sums, residual, noise_variance
        solution, offset, weights, biases = prior.posterior(*given, solution)
        means = row_features @ weights
        if step == n_rounds:
            break
        evidence = variances * counts**2
        error = learned[:, 0].sum() * counts + residual * counts + noise_variance
        share = np.divide(
            error, evidence + error, out=np.ones_like(error), where=counts > 0
        )
        share[~has_sum] = 1.0
        posterior_variances = variances * share
        for mode, r in list(enumerate(rows))[first:]:
            others = biases.copy()
            others[r] = means[r]
            spread = posterior_variances.copy()
            spread[r] = 0.0
            rest = sums[r] - offset * counts[r] - (gram @ others)[r]
            known_variance = noise_variance + (gram @ spread)[r]
            if not first_has_sums:
                known_variance += residual * counts[r]
            seen = counts[r] > 0
            learned[mode, :n_learned] = _most_likely_variances(
                rest[seen],
                counts[r][seen],
                known_variance[seen],
                np.log(learned[mode, :n_learned]),
                start[:n_learned],
            )
    # Over the entries, biases get a mean of zero. A row without entries gets the part
    # that its features explain, less the mean of that part over the entries.
    by_mode = []
    for mode, r in enumerate(rows):
        average, explained = average_row(np.stack([biases, means], 1)[r], counts[r])
        unknown = features[-1] @ weights if mode == 1 else 0.0
        is_known = (counts[r] > 0) & (mode >= first)
        own = np.where(is_known, biases[r] - average, means[r] - explained)
        by_mode.append(np.append(own, unknown - explained))
        offset += float(average)
    model = point_model(shape, residual, dtype, biases=by_mode)
    model.precision[:] = 1 / learned[:, :1]
    return offset, model


@dataclass(frozen=True, eq=False)
class SharedCounts:
    """Symmetric matrix of the numbers of entries that two rows of any modes share.

    Attributes
    ----------
    counts : list by mode of ndarray of shape (size,), float
        The diagonal: the number of entries of every row.
    pairs : dict of (int, int) to csr_array
        The numbers of entries that rows of a mode share with rows of an earlier mode.
    """

    counts: list[NDArray[np.float64]]
    pairs: dict[tuple[int, int], sparse.csr_array]

    def diagonal(self) -> NDArray[np.float64]:
        """Number of entries of every row, one mode after the other."""
        return np.concatenate(self.counts)

    def __matmul__(self, vectors: NDArray[np.floating]) -> NDArray[np.float64]:
        """The product with a vector, or with the columns of an array."""
        ends = np.cumsum([len(counts) for counts in self.counts])[:-1]
        parts = np.split(vectors, ends)
        found = [
            counts.reshape(-1, *[1] * (vectors.ndim - 1)) * part
            for counts, part in zip(self.counts, parts, strict=True)
        ]
        for (i, j), shared in self.pairs.items():
            found[i] = found[i] + shared @ parts[j]
            found[j] = found[j] + shared.T @ parts[i]
        return np.concatenate(found)


def shared_entries(
    coordinates: NDArray[np.integer], shape: Sequence[int]
) -> SharedCounts:
    """Numbers of entries that two rows share.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
    shape : tuple of int

    Returns
    -------
    gram : SharedCounts
        With sum(shape) rows.
    """
    columns, ones = coordinates.T, np.ones(len(coordinates))
    pairs = {
        (i, j): sparse.coo_array(
            (ones, (columns[i], columns[j])), shape=(shape[i], shape[j])
        ).tocsr()
        for i in range(len(shape))
        for j in range(i)
    }
    counts = [
        np.bincount(column, minlength=size).astype(float)
        for column, size in zip(columns, shape, strict=True)
    ]
    return SharedCounts(counts, pairs)


class _Prior(NamedTuple):
    """Prior of the offset and the biases, which may depend on weights of features.

    Attributes
    ----------
    features : ndarray of shape (n_rows, n_features)
        Features of the rows of all modes.
    variances : ndarray of shape (n_rows,)
        Prior variance of every bias, apart from the weights of features.
    scale : float
        Half the range of the values.
    has_sum : ndarray of shape (n_rows,), bool
        Whether the sum of a row is given; the others are zero.
    """

    features: NDArray[np.floating]
    variances: NDArray[np.float64]
    scale: float
    has_sum: NDArray[np.bool_]

    def posterior(
        self,
        gram: Gram,
        sums: NDArray[np.float64],
        residual: float,
        noise_variance: float,
        start: NDArray[np.float64] | None,
    ) -> tuple[NDArray[np.float64], float, NDArray[np.float64], NDArray[np.float64]]:
        """Posterior means of the offset, of the weights and of the biases.

        The first result is the solution of the linear equations, from which the next
        conjugate gradients may start. It is zero for rows without sums.
        """
        counts = gram.diagonal()
        of_weights = 0.1 * self.scale**2
        # The variance of a uniform distribution: the offset may be anywhere in the
        # range.
        of_offset = 1 / 3 * self.scale**2

        def weights_and_biases(
            x: NDArray[np.float64],
        ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            weights = of_weights * (self.features.T @ x)
            return weights, self.variances * x + self.features @ weights

        def covariance(x: NDArray[np.float64]) -> NDArray[np.float64]:
            shared = gram @ x
            return self.has_sum * (
                gram @ weights_and_biases(shared)[1]
                + residual * shared
                + noise_variance * x
                + of_offset * counts * (counts @ x)
                + 1e-9 * residual * x
            )

        # The preconditioner is the inverse of the covariance without the entries that
        # two modes share. What remains is the diagonal, plus a matrix of low rank from
        # the offset and the weights of features; Woodbury's identity inverts it.
        diagonal = self.variances * counts**2 + residual * counts + noise_variance
        diagonal += 1e-9 * residual
        low_rank = np.column_stack(
            [np.sqrt(of_offset) * counts, np.sqrt(of_weights) * (gram @ self.features)]
        )
        low_rank *= self.has_sum[:, np.newaxis]
        scaled = low_rank / diagonal[:, np.newaxis]
        core = np.linalg.inv(np.eye(low_rank.shape[1]) + low_rank.T @ scaled)

        def inverse(x: NDArray[np.float64]) -> NDArray[np.float64]:
            return x / diagonal - scaled @ (core @ (scaled.T @ x))

        size = (len(sums), len(sums))
        operator = LinearOperator(size, matvec=covariance, dtype=float)
        most_steps = 2000
        solution, failed = cg(
            operator,
            sums,
            x0=start,
            rtol=1e-6,
            maxiter=most_steps,
            M=LinearOperator(size, matvec=inverse, dtype=float),
        )
        error = np.linalg.norm(sums - operator @ solution)
        # A larger residual would show in predictions.
        if failed and error > 1e-2 * np.linalg.norm(sums):
            warnings.warn(
                "The biases are only approximately the posterior means: conjugate "
                f"gradients did not converge in {most_steps} steps.",
                ConvergenceWarning,
                stacklevel=callers_level(),
            )
        offset = float(of_offset * (counts @ solution))
        return solution, offset, *weights_and_biases(gram @ solution)


def _most_likely_variances(
    rest: NDArray[np.float64],
    counts: NDArray[np.float64],
    known_variance: NDArray[np.float64],
    log_start: NDArray[np.float64],
    log_prior: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The most likely variances of bias and residual, treating sums as independent.

    If the residual's variance is known, only that of the bias.

    Parameters
    ----------
    rest : ndarray of shape (n,)
        The sums of one mode, less the part that the offset and other biases explain.
    counts : ndarray of shape (n,)
        Number of entries of every row.
    known_variance : ndarray of shape (n,)
        Variance of the sums from other sources.
    log_start, log_prior : ndarray of shape (2,) or (1,)
        Logarithms of the two variances: starting values, and medians of their priors.

    Returns
    -------
    variances : ndarray of shape (2,) or (1,)
    """
    of_sums = np.stack([counts**2, counts])[: len(log_start)]

    def cost(log_variances: NDArray[np.float64]) -> float:
        variance = np.exp(log_variances) @ of_sums + known_variance
        penalty = np.sum((log_variances - log_prior) ** 2) / E_FOLDS**2
        return np.sum(np.log(variance) + rest**2 / variance) + penalty

    options = {"maxiter": 80, "xatol": 1e-2, "fatol": 1e-2}
    best = minimize(cost, log_start, method="Nelder-Mead", options=options)
    return np.exp(best.x)
