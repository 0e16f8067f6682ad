"""Descent on the code's scaling, where the code is clipped.

Propositions 2 to 4 are for codes that are not clipped. With clipping, their scaling is
where a descent on the exact loss begins. The decoder is the best one for every
scaling, so that the gradient is that of the loss with the decoder held. (A descent on
all entries of the encoder fits better and loses more on new samples.)
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ._linear import code_norms

__all__ = ["descend", "loss_and_gradient"]

_MOST_STEPS = 40
# The descent ends with a step that lessens the loss by a smaller share.
_TOLERANCE = 1e-5
_LEAST_LOSS = 1e-300


def loss_and_gradient(
    scaling: NDArray[np.float64],
    scores: NDArray[np.float64],
    values: NDArray[np.float64],
    order: int,
    variance: float,
) -> tuple[float, NDArray[np.float64]]:
    """Loss of the code clipped to the unit ball, and its gradient.

    Parameters
    ----------
    scaling : ndarray of shape (Z,)
        sigma: the code is sigma times the first scores.
    scores : ndarray of shape (n_samples, k)
        Q^T h.
    values : ndarray of shape (k,)
        Eigenvalues of P^T P.
    order : {1, 2}
        Of the ball's norm.
    variance : float
        Of the noise in an entry.

    Returns
    -------
    loss : float
    gradient : ndarray of shape (Z,)
    """
    n_samples, n_components = len(scores), len(scaling)
    first = scores[:, :n_components]
    codes = first * scaling
    norms = np.maximum(code_norms(codes, order), 1.0)[:, np.newaxis]
    normals = np.sign(codes) if order == 1 else codes / norms
    clipped = codes / norms
    away = clipped - clipped.mean(axis=0)
    second = away.T @ away / n_samples + variance * np.eye(n_components)
    decoder = np.linalg.solve(second, away.T @ scores / n_samples)
    missing = away @ decoder - scores
    loss = np.square(missing).mean(axis=0) @ values
    loss += variance * np.square(decoder).sum(axis=0) @ values
    slope = (missing * (2 / n_samples * values)) @ decoder.T
    slope -= slope.mean(axis=0)
    inwards = np.where(norms > 1, np.sum(slope * clipped, axis=1, keepdims=True), 0.0)
    slope = (slope - normals * inwards) / norms
    return float(loss), np.sum(slope * first, axis=0)


def descend(
    scaling: NDArray[np.float64],
    scores: NDArray[np.float64],
    values: NDArray[np.float64],
    order: int,
    variance: float,
) -> NDArray[np.float64]:
    """A scaling with less loss than the one that it begins with.

    Parameters
    ----------
    scaling, scores, values, order, variance
        As in `loss_and_gradient`; `scaling` is positive.

    Returns
    -------
    scaling : ndarray of shape (Z,)
        Positive.
    """

    def objective(logs: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        sigma = np.exp(logs)
        loss, gradient = loss_and_gradient(sigma, scores, values, order, variance)
        # Nothing is lost where there is no noise to speak of.
        loss = max(loss, _LEAST_LOSS)
        return np.log(loss), gradient * sigma / loss

    begin = np.log(scaling)
    # A factor of a thousand either way is more than clipping can call for.
    found = minimize(
        objective,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=[(one - 7, one + 7) for one in begin],
        options={"maxiter": _MOST_STEPS, "ftol": _TOLERANCE},
    )
    return np.exp(found.x)
