"""Linear tasks with squared loss in closed form (Cheng, Tang and Chinchali 2022).

A sample x is whitened, h = L^+ (x - mean) with L L^T its covariance, so that a task K
of x is the task P = K L of h. A code E h with noise of variance s^2 in every entry is
decoded by D, and the task's loss is the mean of |P (D (E h + w) - h)|^2. The numbers
of propositions and equations are the paper's; where a code is clipped to a ball, the
decoder is the best one for the clipped code, by its moments.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ._whitening import Whitening, whitening

__all__ = [
    "LinearCode",
    "LinearProblem",
    "clipped_code",
    "code_norms",
    "linear_problem",
    "noise_shares",
    "plain_code",
    "scaled_basis",
    "whitening",
]

# Singular values of the task below this share of the largest are zero.
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
        The eigenvalues of P^T P that are not zero, in descending order.
    basis : ndarray of shape (r, k)
        Their eigenvectors Q.
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

    def loss(self, away: NDArray[np.float64]) -> float:
        """tr(P A A^T P^T), for an A given as Q^T A."""
        return float(self.values @ np.square(away).sum(axis=1))


def linear_problem(
    rows: NDArray[np.floating], task: NDArray[np.float64], white: Whitening
) -> LinearProblem:
    """The problem of a task matrix on the fitting data.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n)
    task : ndarray of shape (m, n)
        K.
    white : Whitening
        Of `rows`.

    Returns
    -------
    problem : LinearProblem

    Raises
    ------
    ValueError
        If the task's output does not vary.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        seen = (task * white.scale) @ white.root
    if not np.all(np.isfinite(seen)):
        raise ValueError("The task's output is too large to have moments.")
    _, singular, right = np.linalg.svd(seen, full_matrices=False)
    kept = singular > _LEAST_SINGULAR * singular[0]
    if not (np.any(kept) and 1e-140 < singular[0] < 1e140):
        raise ValueError(
            "The task's output does not vary over the fitting data (or vastly), so "
            "there is nothing to encode."
        )
    h = white.standardize(rows) @ white.inverse.T
    return LinearProblem(white, seen, h, singular[kept] ** 2, right[kept].T)


def noise_shares(
    values: NDArray[np.float64], ratio: float
) -> tuple[NDArray[np.float64], float]:
    """The best scaling of the code's entries for noise that grows with their sum.

    Parameters
    ----------
    values : ndarray of shape (k,)
        Eigenvalues of P^T P, descending and positive.
    ratio : float
        c >= 0, the variance of the noise over M, the sum of the squared scalings.

    Returns
    -------
    shares : ndarray of shape (Z',)
        sigma_i^2 / M for those that are not zero (Eqs. 11 and 12).
    loss : float
        Of the whole task (Eq. 13).
    """
    roots = np.sqrt(values)
    counts, sums = np.arange(1, len(roots) + 1), np.cumsum(roots)
    n_taken = int(np.flatnonzero(roots * (1 + counts * ratio) > ratio * sums)[-1]) + 1
    total = sums[n_taken - 1]
    shares = roots[:n_taken] / total * (1 + n_taken * ratio) - ratio
    loss = ratio / (1 + n_taken * ratio) * total**2 + values[n_taken:].sum()
    return shares, float(loss)


def scaled_basis(
    problem: LinearProblem, shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Encoder E = diag(sigma) Q^T, with M = 1 (Propositions 2 and 3)."""
    return np.sqrt(shares)[:, np.newaxis] * problem.basis[:, : len(shares)].T


@dataclass(frozen=True)
class LinearCode:
    """An encoder, the ball that its code is clipped to, and the best decoder.

    Attributes
    ----------
    encoder : ndarray of shape (Z, r)
        E.
    radius : float
        Of the ball; infinite where nothing is clipped. What noise is added to is
        E h / radius, or E h itself.
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
    def unit(self) -> float:
        """What the code is divided by before noise is added."""
        return self.radius if math.isfinite(self.radius) else 1.0


def plain_code(
    problem: LinearProblem, encoder: NDArray[np.float64], variance: float
) -> LinearCode:
    """The code that is not clipped, with noise of a variance (Proposition 1, Eq. 7).

    Parameters
    ----------
    problem : LinearProblem
    encoder : ndarray of shape (Z, r)
    variance : float
        Of the noise in an entry of the code; 0 for none.

    Returns
    -------
    code : LinearCode
    """
    size = len(encoder)
    second = encoder @ encoder.T + variance * np.eye(size)
    decoder = encoder.T @ np.linalg.pinv(second, hermitian=True)
    missing = problem.basis.T - problem.basis.T @ decoder @ encoder
    loss = problem.loss(missing) + variance * problem.loss(problem.basis.T @ decoder)
    return LinearCode(encoder, math.inf, decoder, np.zeros(size), loss)


def code_norms(codes: NDArray[np.floating], order: int) -> NDArray[np.float64]:
    """Norms of codes: of order 1 or 2."""
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
    """The code clipped to a ball, with the decoder that is best for it.

    Parameters
    ----------
    problem : LinearProblem
    encoder : ndarray of shape (Z, r)
    radius : float
        Of the ball.
    order : {1, 2}
        Of its norm.
    variance : float
        Of the noise in an entry of the code, once that is divided by the radius;
        0 for none.

    Returns
    -------
    code : LinearCode
        D = C_hf (C_ff + variance I)^-1 with covariances over the fitting data, f being
        the clipped code over the radius.
    """
    codes = problem.h @ encoder.T
    codes /= np.maximum(code_norms(codes, order), radius)[:, np.newaxis]
    centre = codes.mean(axis=0)
    codes -= centre
    mixed = problem.h.T @ codes / len(codes)
    second = codes.T @ codes / len(codes) + variance * np.eye(len(encoder))
    decoder = mixed @ np.linalg.pinv(second, hermitian=True)
    gain = problem.values @ np.sum(
        (problem.basis.T @ decoder) * (problem.basis.T @ mixed), axis=1
    )
    loss = problem.variance - float(gain)
    return LinearCode(encoder, radius, decoder, centre, loss)
