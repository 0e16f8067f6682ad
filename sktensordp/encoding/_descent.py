"""Descent on the scaling of a clipped code.

Propositions 2 to 4 assume codes that are not clipped. With clipping, a descent on the
exact loss starts from their scaling. Every scaling has the best decoder, so that the
gradient of the loss is the gradient with the decoder fixed. (A descent on all entries
of the encoder fits the data better, and loses more on new samples.)
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ._linear import code_norms

_MOST_STEPS = 40
# The descent ends when a step lowers the loss by a smaller share.
_TOLERANCE = 1e-5
_LEAST_LOSS = 1e-300


def loss_and_gradient(
    scaling: NDArray[np.float64],
    scores: NDArray[np.float64],
    values: NDArray[np.float64],
    order: int,
    variance: float,
) -> tuple[float, NDArray[np.float64]]:
    """Loss of a code clipped to the unit ball, and its gradient.

    Parameters
    ----------
    scaling : ndarray of shape (Z,)
        sigma: the code is sigma times the first Z scores.
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
    centred = clipped - clipped.mean(axis=0)
    covariance = centred.T @ centred / n_samples + variance * np.eye(n_components)
    decoder = np.linalg.solve(covariance, centred.T @ scores / n_samples)
    error = centred @ decoder - scores
    loss = np.square(error).mean(axis=0) @ values
    loss += variance * np.square(decoder).sum(axis=0) @ values
    slope = (error * (2 / n_samples * values)) @ decoder.T
    slope -= slope.mean(axis=0)
    inwards = np.where(norms > 1, np.sum(slope * clipped, axis=1, keepdims=True), 0.0)
    slope = (slope - normals * inwards) / norms
    return float(loss), np.sum(slope * first, axis=0)


def descend_scaling(
    scaling: NDArray[np.float64],
    scores: NDArray[np.float64],
    values: NDArray[np.float64],
    order: int,
    variance: float,
) -> NDArray[np.float64]:
    """Descend from a scaling to one with less loss.

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
        # Without noise to speak of the loss may be zero, which has no logarithm.
        loss = max(loss, _LEAST_LOSS)
        return np.log(loss), gradient * sigma / loss

    start = np.log(scaling)
    # A factor of a thousand either way is more than clipping can require.
    result = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(log - 7, log + 7) for log in start],
        options={"maxiter": _MOST_STEPS, "ftol": _TOLERANCE},
    )
    return np.exp(result.x)
