"""Biases of all modes from noisy sums of the values in every row.

With a value y_e = offset + sum_m b_m[i_m] + residual, and K = A^T A for the incidence
matrix A of entries and rows, the sums S = A^T y + noise are jointly Gaussian with the
biases b: given b their mean is K b plus the offset's part, and their covariance
sigma^2 K plus that of the noise. The posterior mean follows from one system of linear
equations, solved by conjugate gradients. The variances of the biases of each mode, and
sigma^2, are those under which the sums are most likely, each sum for itself.
"""

from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg

from ._structured_cp import StructuredCP, _columns

__all__ = ["fit_biases_to_sums"]

# Variances to start with, over the square of half the range of the values, and how many
# e-folds they may be from there (a standard deviation).
_BIAS_VARIANCE, _RESIDUAL_VARIANCE, _OFFSET_VARIANCE = 0.04, 0.2, 100.0
_E_FOLDS = 1.5
_ROUNDS = 2


def fit_biases_to_sums(
    coordinates, sums, noise_variance, shape, value_scale, dtype=float
):
    """Posterior mean of offset and biases.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
        Of the entries.
    sums : ndarray of shape (sum of shape,), float
        Noisy sum of the values in every row, one mode after the other.
    noise_variance : float
        Of each sum.
    shape : tuple of int
    value_scale : float
        Half the range of the values.
    dtype : dtype, default=float
        Of the model.

    Returns
    -------
    offset : float
    model : StructuredCP
        Of bias columns alone. It has no covariances.
    """
    gram = _gram(coordinates, shape)
    counts = gram.diagonal()
    rows = [slice(*pair) for pair in pairwise(np.cumsum([0, *shape]).tolist())]
    start = np.log(np.array([_BIAS_VARIANCE, _RESIDUAL_VARIANCE]) * value_scale**2)
    learned = np.tile(np.exp(start), (len(shape), 1))
    for _ in range(_ROUNDS):
        variances, residual = np.repeat(learned[:, 0], shape), learned[:, 1].mean()
        offset, biases = _posterior(
            gram, sums, variances, residual, noise_variance,
            _OFFSET_VARIANCE * value_scale**2,
        )  # fmt: skip
        evidence = variances * counts**2
        own = learned[:, 0].sum() * counts + residual * counts + noise_variance
        share = np.divide(own, evidence + own, out=np.ones_like(own), where=counts > 0)
        left = variances * share
        for mode, r in enumerate(rows):
            others = biases.copy()
            others[r] = 0.0
            spread = left.copy()
            spread[r] = 0.0
            rest = sums[r] - offset * counts[r] - (gram @ others)[r]
            known = noise_variance + (gram @ spread)[r]
            seen = counts[r] > 0
            learned[mode] = _most_likely(
                rest[seen], counts[r][seen], known[seen], np.log(learned[mode]), start
            )
    variances, residual = np.repeat(learned[:, 0], shape), learned[:, 1].mean()
    offset, biases = _posterior(
        gram, sums, variances, residual, noise_variance,
        _OFFSET_VARIANCE * value_scale**2,
    )  # fmt: skip
    return offset, _model(biases.astype(dtype), shape, learned[:, 0], residual)


def _gram(coordinates, shape):
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


def _posterior(gram, sums, variances, residual, noise_variance, offset_variance):
    """Posterior means of the offset and of the biases, given their variances."""
    counts = gram.diagonal()

    def covariance(x):
        shared = gram @ x
        return (
            gram @ (variances * shared)
            + residual * shared
            + noise_variance * x
            + offset_variance * counts * (counts @ x)
            + 1e-9 * residual * x
        )

    scale = variances * counts**2 + residual * counts + noise_variance
    scale += 1e-9 * residual
    size = (len(sums), len(sums))
    weights, _ = cg(
        LinearOperator(size, matvec=covariance, dtype=float),
        sums,
        rtol=1e-6,
        maxiter=500,
        M=LinearOperator(size, matvec=lambda x: x / scale, dtype=float),
    )
    offset = offset_variance * (counts @ weights)
    return float(offset), variances * (gram @ weights)


def _most_likely(rest, counts, known, log_start, log_prior):
    """Variances of bias and residual under which sums are most likely, one by one."""

    def cost(log_variances):
        bias, residual = np.exp(log_variances)
        variance = bias * counts**2 + residual * counts + known
        penalty = np.sum((log_variances - log_prior) ** 2) / _E_FOLDS**2
        return np.sum(np.log(variance) + rest**2 / variance) + penalty

    options = {"maxiter": 80, "xatol": 1e-2, "fatol": 1e-2}
    found = minimize(cost, log_start, method="Nelder-Mead", options=options)
    return np.exp(found.x)


def _model(biases, shape, variances, residual):
    """The biases as a structured CP."""
    n_modes = len(shape)
    held, prior_mean, _, tie = _columns(n_modes, 0, True, ())
    n_rows = sum(shape) + n_modes
    model = StructuredCP(
        shape, held, np.ones((n_rows, n_modes), biases.dtype),
        np.zeros((n_rows, n_modes * (n_modes + 1) // 2), biases.dtype), prior_mean,
        np.broadcast_to(1 / variances[:, np.newaxis], held.shape), tie, residual,
    )  # fmt: skip
    first = 0
    for mode, (size, r) in enumerate(zip(shape, model.rows, strict=True)):
        model.means[r, mode] = np.append(biases[first : first + size], 0.0)
        first += size
    return model
