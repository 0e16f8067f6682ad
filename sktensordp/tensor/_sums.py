"""Biases of all modes from noisy sums of the values in every row.

With a value y_e = offset + sum_m b_m[i_m] + residual, and K = A^T A for the incidence
matrix A of entries and rows, the sums S = A^T y + noise are jointly Gaussian with the
biases b: given b their mean is K b plus the offset's part, and their covariance
sigma^2 K plus that of the noise. The posterior mean follows from one system of linear
equations, solved by conjugate gradients. The variances of the biases of each mode, and
sigma^2, are those under which the sums are most likely, each sum for itself. Biases of
the second mode may have a prior mean that is linear in features of its rows; its
weights are Gaussian too, so that they only add to the covariance of the biases.
"""

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning

from ._cp import StructuredCP, point_model

__all__ = ["fit_biases_to_sums", "shared_entries"]

# Variances to start with, over the square of half the range of the values, and how many
# e-folds they may be from there (a standard deviation).
_BIAS_VARIANCE, _RESIDUAL_VARIANCE = 0.04, 0.2
# The offset may be anywhere in the range.
_OFFSET_VARIANCE = 1 / 3
_WEIGHT_VARIANCE = 0.1
_E_FOLDS = 1.5
_ROUNDS = 2
# Conjugate gradients, and the relative residual that would be seen in predictions.
_MOST_STEPS, _VISIBLE = 2000, 1e-2


def fit_biases_to_sums(
    coordinates: Any,
    sums: NDArray[np.float64],
    noise_variance: float,
    shape: tuple[int, ...],
    value_scale: float,
    dtype: DTypeLike = float,
    features: NDArray[np.floating] | None = None,
) -> tuple[float, StructuredCP]:
    """Posterior mean of offset and biases.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int, or object
        Of the entries; or what multiplies as their `shared_entries` do.
    sums : ndarray of shape (sum of shape,), float
        Noisy sum of the values in every row, one mode after the other.
    noise_variance : float
        Of each sum.
    shape : tuple of int
    value_scale : float
        Half the range of the values.
    dtype : dtype, default=float
        Of the model.
    features : ndarray of shape (shape[1] + 1, n_features), default=None
        Features of the rows of the second mode and, last, of an unknown one.

    Returns
    -------
    offset : float
    model : StructuredCP
        Of bias columns alone. It has no covariances.
    """
    gram = coordinates
    if isinstance(coordinates, np.ndarray):
        gram = shared_entries(coordinates, shape)
    counts = gram.diagonal()
    rows = [slice(*pair) for pair in pairwise(np.cumsum([0, *shape]).tolist())]
    if features is None:
        features = np.empty((shape[1] + 1, 0))
    of_rows = np.zeros((len(sums), features.shape[1]))
    of_rows[rows[1]] = features[:-1]
    start = np.log(np.array([_BIAS_VARIANCE, _RESIDUAL_VARIANCE]) * value_scale**2)
    learned = np.tile(np.exp(start), (len(shape), 1))
    prior = _Prior(of_rows, value_scale)
    for _ in range(_ROUNDS):
        prior.variances, residual = (
            np.repeat(learned[:, 0], shape),
            learned[:, 1].mean(),
        )
        offset, weights, biases = prior.posterior(gram, sums, residual, noise_variance)
        evidence = prior.variances * counts**2
        own = learned[:, 0].sum() * counts + residual * counts + noise_variance
        share = np.divide(own, evidence + own, out=np.ones_like(own), where=counts > 0)
        left = prior.variances * share
        means = of_rows @ weights
        for mode, r in enumerate(rows):
            others = biases.copy()
            others[r] = means[r]
            spread = left.copy()
            spread[r] = 0.0
            rest = sums[r] - offset * counts[r] - (gram @ others)[r]
            known = noise_variance + (gram @ spread)[r]
            seen = counts[r] > 0
            learned[mode] = _most_likely(
                rest[seen], counts[r][seen], known[seen], np.log(learned[mode]), start
            )
    prior.variances, residual = np.repeat(learned[:, 0], shape), learned[:, 1].mean()
    offset, weights, biases = prior.posterior(gram, sums, residual, noise_variance)
    unknown = np.zeros(len(shape))
    unknown[1] = features[-1] @ weights
    by_mode = [
        np.append(biases[r], last) for r, last in zip(rows, unknown, strict=True)
    ]
    model = point_model(shape, residual, dtype, biases=by_mode)
    model.precision[:] = 1 / learned[:, :1]
    return offset, model


def shared_entries(coordinates: NDArray[np.integer], shape: Sequence[int]) -> Any:
    """How often two rows share an entry; on the diagonal, the entries of each row."""
    columns = coordinates.T
    ones = np.ones(len(coordinates), dtype=np.float32)
    blocks = [[None] * len(shape) for _ in shape]
    for i, size in enumerate(shape):
        blocks[i][i] = sparse.diags_array(
            np.bincount(columns[i], minlength=size).astype(float)
        )
        for j in range(i):
            shared = sparse.coo_array(
                (ones, (columns[i], columns[j])), shape=(size, shape[j])
            ).tocsr()
            blocks[i][j], blocks[j][i] = shared, shared.T
    return sparse.block_array(blocks, format="csr")


class _Prior:
    """Prior of the biases: their own variances, and weights of features."""

    variances: NDArray[np.float64]

    def __init__(self, features: NDArray[np.floating], value_scale: float) -> None:
        self.features = features
        # Where conjugate gradients go on from.
        self._found: NDArray[np.float64] | None = None
        self.weight_variance = _WEIGHT_VARIANCE * value_scale**2
        self.offset_variance = _OFFSET_VARIANCE * value_scale**2

    def posterior(
        self,
        gram: Any,
        sums: NDArray[np.float64],
        residual: float,
        noise_variance: float,
    ) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """Posterior means of the offset, of the weights and of the biases."""
        counts = gram.diagonal()

        def parts(
            x: NDArray[np.float64],
        ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            weights = self.weight_variance * (self.features.T @ x)
            return weights, self.variances * x + self.features @ weights

        def covariance(x: NDArray[np.float64]) -> NDArray[np.float64]:
            shared = gram @ x
            return (
                gram @ parts(shared)[1]
                + residual * shared
                + noise_variance * x
                + self.offset_variance * counts * (counts @ x)
                + 1e-9 * residual * x
            )

        own = self.variances * counts**2 + residual * counts + noise_variance
        own += 1e-9 * residual
        size = (len(sums), len(sums))
        operator = LinearOperator(size, matvec=covariance, dtype=float)
        self._found, failed = cg(
            operator,
            sums,
            x0=self._found,
            rtol=1e-6,
            maxiter=_MOST_STEPS,
            M=LinearOperator(size, matvec=self._preconditioner(gram, own), dtype=float),
        )
        left = np.linalg.norm(sums - operator @ self._found)
        if failed and left > _VISIBLE * np.linalg.norm(sums):
            warnings.warn(
                "The biases are not exactly the posterior means: conjugate gradients "
                f"did not converge in {_MOST_STEPS} steps.",
                ConvergenceWarning,
                stacklevel=2,
            )
        found = self._found
        offset = self.offset_variance * (counts @ found)
        return float(offset), *parts(gram @ found)

    def _preconditioner(
        self, gram: Any, own: NDArray[np.float64]
    ) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
        """Inverse of the covariance without what the rows of two modes share.

        That is a diagonal and what offset and weights of features add, of low rank
        (Woodbury's identity).
        """
        added = np.column_stack(
            [
                np.sqrt(self.offset_variance) * gram.diagonal(),
                np.sqrt(self.weight_variance) * (gram @ self.features),
            ]
        )
        scaled = added / own[:, np.newaxis]
        core = np.linalg.inv(np.eye(added.shape[1]) + added.T @ scaled)
        return lambda x: x / own - scaled @ (core @ (scaled.T @ x))


def _most_likely(
    rest: NDArray[np.float64],
    counts: NDArray[np.float64],
    known: NDArray[np.float64],
    log_start: NDArray[np.float64],
    log_prior: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Variances of bias and residual under which sums are most likely, one by one."""

    def cost(log_variances: NDArray[np.float64]) -> float:
        bias, residual = np.exp(log_variances)
        variance = bias * counts**2 + residual * counts + known
        penalty = np.sum((log_variances - log_prior) ** 2) / _E_FOLDS**2
        return np.sum(np.log(variance) + rest**2 / variance) + penalty

    options = {"maxiter": 80, "xatol": 1e-2, "fatol": 1e-2}
    found = minimize(cost, log_start, method="Nelder-Mead", options=options)
    return np.exp(found.x)
