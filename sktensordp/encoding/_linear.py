"""Linear tasks with squared loss in closed form (Cheng, Tang and Chinchali 2022).

A sample x with covariance L L^T is whitened, h = L^+ (x - mean), so that a task K of x
is the task P = K L of h. The code E h receives noise w of variance s^2 in every entry,
and D decodes it. The task's loss is the mean of |P (D (E h + w) - h)|^2. Propositions
and equations have the paper's numbers. If the code is clipped to a ball, the decoder is
the best one for the moments of the clipped code.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ._whitening import Whitening

# Singular values of the task below this share of the largest count as zero.
_LEAST_SINGULAR = 1e-9


@dataclass(frozen=True)
class LinearProblem:
    """A linear task and the whitened fitting data.

    Attributes
    ----------
    whitening : Whitening
    task : ndarray of shape (m, r)
        P = K L.
    h : ndarray of shape (n_samples, r)
    values : ndarray of shape (k,)
        Nonzero eigenvalues of P^T P, in descending order.
    basis : ndarray of shape (r, k)
        Q, the eigenvectors of `values`.
    """

    whitening: Whitening
    task: NDArray[np.float64]
    h: NDArray[np.float64]
    values: NDArray[np.float64]
    basis: NDArray[np.float64]

    @property
    def variance(self) -> float:
        """Variance of the task's output, tr(P^T P)."""
        return float(self.values.sum())

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """Q^T h of every row."""
        return self.h @ self.basis

    def loss(self, error: NDArray[np.float64]) -> float:
        """tr(P A A^T P^T) for an error A, given as Q^T A."""
        return float(self.values @ np.square(error).sum(axis=1))


def linear_problem(
    rows: NDArray[np.floating], task: NDArray[np.float64], white: Whitening
) -> LinearProblem:
    """The problem of encoding the fitting data for a task matrix.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n)
    task : ndarray of shape (m, n)
        K.
    white : Whitening
        Whitening of `rows`.

    Returns
    -------
    problem : LinearProblem

    Raises
    ------
    ValueError
        If the task's output does not vary, or is too large.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        whitened = (task * white.scale) @ white.root
    if not np.all(np.isfinite(whitened)):
        raise ValueError(
            "The task's output is too large: its moments overflow. Rescale the task "
            "or the samples."
        )
    _, singular, right = np.linalg.svd(whitened, full_matrices=False)
    kept = singular > _LEAST_SINGULAR * singular[0]
    if not (np.any(kept) and 1e-140 < singular[0] < 1e140):
        raise ValueError(
            "The task's output does not vary over the fitting data, or varies by less "
            "than 1e-140 or more than 1e140. Check `task` and `y`, or rescale them."
        )
    h = white.standardize(rows) @ white.inverse.T
    return LinearProblem(white, whitened, h, singular[kept] ** 2, right[kept].T)


def noise_shares(
    values: NDArray[np.float64], ratio: float
) -> tuple[NDArray[np.float64], float]:
    """The best scaling of a code whose noise grows with the sum of squared scalings.

    Parameters
    ----------
    values : ndarray of shape (k,)
        Eigenvalues of P^T P, descending and positive.
    ratio : float
        c >= 0: variance of the noise over M, the sum of the squared scalings.

    Returns
    -------
    shares : ndarray of shape (Z',)
        The nonzero sigma_i^2 / M (Eqs. 11 and 12).
    loss : float
        Loss of the whole task (Eq. 13).
    """
    roots = np.sqrt(values)
    counts, sums = np.arange(1, len(roots) + 1), np.cumsum(roots)
    size = int(np.flatnonzero(roots * (1 + counts * ratio) > ratio * sums)[-1]) + 1
    total = sums[size - 1]
    shares = roots[:size] / total * (1 + size * ratio) - ratio
    loss = ratio / (1 + size * ratio) * total**2 + values[size:].sum()
    return shares, float(loss)


def scaled_basis(
    problem: LinearProblem, shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Encoder E = diag(sigma) Q^T, with M = 1 (Propositions 2 and 3)."""
    return np.sqrt(shares)[:, np.newaxis] * problem.basis[:, : len(shares)].T


@dataclass(frozen=True)
class LinearCode:
    """An encoder, the ball to which its code is clipped, and the best decoder.

    Attributes
    ----------
    encoder : ndarray of shape (Z, r)
        E.
    radius : float
        Radius of the ball; infinite if the code is not clipped. The noise is added to
        E h / radius, or to E h if the radius is infinite.
    decoder : ndarray of shape (r, Z)
        D, for the noisy code.
    centre : ndarray of shape (Z,)
        Mean of the clipped code: h is estimated by D (y - centre).
    loss : float
        Expected loss of the task, over the fitting data and the noise.
    """

    encoder: NDArray[np.float64]
    radius: float
    decoder: NDArray[np.float64]
    centre: NDArray[np.float64]
    loss: float

    @property
    def divisor(self) -> float:
        """Divisor of the code before noise is added."""
        return self.radius if math.isfinite(self.radius) else 1.0


def unclipped_code(
    problem: LinearProblem, encoder: NDArray[np.float64], variance: float
) -> LinearCode:
    """The code without clipping, and its best decoder (Proposition 1, Eq. 7).

    Parameters
    ----------
    problem : LinearProblem
    encoder : ndarray of shape (Z, r)
    variance : float
        Variance of the noise in an entry of the code; 0 for none.

    Returns
    -------
    code : LinearCode
    """
    size = len(encoder)
    covariance = encoder @ encoder.T + variance * np.eye(size)
    decoder = encoder.T @ np.linalg.pinv(covariance, hermitian=True)
    error = problem.basis.T - problem.basis.T @ decoder @ encoder
    loss = problem.loss(error) + variance * problem.loss(problem.basis.T @ decoder)
    return LinearCode(encoder, math.inf, decoder, np.zeros(size), loss)


def code_norms(codes: NDArray[np.floating], order: int) -> NDArray[np.float64]:
    """Norm of every code, of order 1 or 2."""
    if order == 1:
        return np.abs(codes).sum(axis=1)
    return np.sqrt(np.square(codes).sum(axis=1))


def clipped_code(
    problem: LinearProblem,
    encoder: NDArray[np.float64],
    radius: float,
    order: int,
    variance: float,
) -> LinearCode:
    """The code clipped to a ball, and its best decoder.

    Parameters
    ----------
    problem : LinearProblem
    encoder : ndarray of shape (Z, r)
    radius : float
        Radius of the ball.
    order : {1, 2}
        Order of its norm.
    variance : float
        Variance of the noise in an entry of the code over the radius; 0 for none.

    Returns
    -------
    code : LinearCode
        Its decoder is D = C_hf (C_ff + variance I)^-1, with covariances over the
        fitting data of h and of f, the clipped code over the radius.
    """
    codes = problem.h @ encoder.T
    codes /= np.maximum(code_norms(codes, order), radius)[:, np.newaxis]
    centre = codes.mean(axis=0)
    codes -= centre
    cross = problem.h.T @ codes / len(codes)
    covariance = codes.T @ codes / len(codes) + variance * np.eye(len(encoder))
    decoder = cross @ np.linalg.pinv(covariance, hermitian=True)
    gain = problem.values @ np.sum(
        (problem.basis.T @ decoder) * (problem.basis.T @ cross), axis=1
    )
    loss = problem.variance - float(gain)
    return LinearCode(encoder, radius, decoder, centre, loss)
