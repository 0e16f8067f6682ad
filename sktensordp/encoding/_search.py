"""Search of an encoder's scaling and clip radius on the fitting data."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ._channels import Channel
from ._code_noise import CodeNoise
from ._linear import (
    LinearCode,
    LinearProblem,
    clipped_code,
    code_norms,
    noise_shares,
    scaled_basis,
)

_MOST_STEPS = 40
# The descent ends when a step lowers the loss by a smaller share.
_TOLERANCE = 1e-5
_LEAST_LOSS = 1e-300


# The search uses at most this many rows; the decoder uses all.
_MOST_ROWS = 2000
# Candidates: noise-to-signal ratios c, and logits of the share of unclipped codes.
_RATIOS = np.geomspace(1e-4, 1e2, 19)
_LOGITS = np.linspace(-3, 7, 16)
# Candidates of the variances round, in steps of the first.
_FINER = np.linspace(-1, 1, 9)


def refined(problem: LinearProblem, code: LinearCode, noise: CodeNoise) -> LinearCode:
    """Refine the scaling of a code by descent; keep the code if that does not help.

    Parameters
    ----------
    problem : LinearProblem
    code : LinearCode
        Clipped; its encoder is a scaled basis.
    noise : CodeNoise

    Returns
    -------
    code : LinearCode
    """
    scaling = np.sqrt(np.square(code.encoder).sum(axis=1)) / code.radius
    scores = problem.scores[_thinned(problem)]
    scaling = descend_scaling(
        scaling, scores, problem.values, noise.order, noise.variance
    )
    total = float(np.square(scaling).sum())
    encoder = scaled_basis(problem, scaling**2 / total)
    descended = clipped_code(
        problem, encoder, 1 / math.sqrt(total), noise.order, noise.variance
    )
    return min(code, descended, key=lambda candidate: candidate.loss)


def search_scaling(
    problem: LinearProblem,
    noise_for: Callable[[int], CodeNoise | Channel],
    limit: int | None,
    level: float | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Search the free parameter c of Proposition 4's scaling, and the clip level.

    The search neglects covariances between the entries of the clipped code, which only
    come from clipping.

    Parameters
    ----------
    problem : LinearProblem
    noise_for : callable
        Maps a number of components to a CodeNoise; raises ValueError if none exists.
    limit : int or None
        Largest number of components.
    level : float or None
        Share of the fitting data's codes that is not clipped; None to search for it.

    Returns
    -------
    shares : ndarray of shape (Z,)
        sigma^2, with M = 1.
    levels : ndarray
        The best clip level and its neighbours.
    """
    values = problem.values[:limit]
    scores = problem.scores[_thinned(problem), : len(values)]
    ratios, logits = _RATIOS, _LOGITS
    for _ in range(2):
        levels = expit(logits) if level is None else np.array([level])
        shares = [noise_shares(values, ratio)[0] for ratio in ratios]
        losses = _losses(values, scores, shares, noise_for, levels)
        i, j = np.unravel_index(np.argmin(losses), losses.shape)
        best = shares[i]
        near = levels[max(0, j - 1) : j + 2]
        ratios = ratios[i] * (_RATIOS[1] / _RATIOS[0]) ** _FINER
        logits = logits[j] + (_LOGITS[1] - _LOGITS[0]) * _FINER
    return best, near


def _thinned(problem: LinearProblem) -> NDArray[np.int64]:
    """Evenly spaced rows for the search."""
    n_samples = len(problem.h)
    return np.linspace(0, n_samples - 1, min(n_samples, _MOST_ROWS)).astype(int)


def _losses(
    values: NDArray[np.float64],
    scores: NDArray[np.float64],
    shares: Sequence[NDArray[np.float64]],
    noise_for: Callable[[int], CodeNoise | Channel],
    levels: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Loss of every scaling at every clip level, less the loss without a code.

    The loss is infinite for scalings of a size that `noise_for` refuses.
    """
    squares, lengths = np.square(scores), np.abs(scores)
    losses = np.full((len(shares), len(levels)), math.inf)
    for i, share in enumerate(shares):
        try:
            noise = noise_for(len(share))
        except ValueError:
            continue
        size = len(share)
        if noise.order == 1:
            norms = lengths[:, :size] @ np.sqrt(share)
        else:
            norms = np.sqrt(squares[:, :size] @ share)
        radii = _radii(norms, levels)
        factors = radii / np.maximum(norms[:, np.newaxis], radii)
        means = factors.T @ scores[:, :size] / len(norms)
        cross = factors.T @ squares[:, :size] / len(norms)
        variances = np.square(factors).T @ squares[:, :size] / len(norms) - means**2
        noise_variances = noise.variance * radii[:, np.newaxis] ** 2
        losses[i] = (
            -(share * cross**2 / (share * variances + noise_variances)) @ values[:size]
        )
    return losses


def _radii(
    norms: NDArray[np.float64], levels: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Clip radii that leave given shares of the codes unclipped."""
    return np.maximum(np.quantile(norms, levels), 1e-6 * norms.max())


def best_clip(
    problem: LinearProblem,
    encoder: NDArray[np.float64],
    noise: CodeNoise | Channel,
    levels: NDArray[np.float64],
) -> LinearCode:
    """The code of an encoder, clipped at the level with the least loss.

    Parameters
    ----------
    problem : LinearProblem
    encoder : ndarray of shape (Z, r)
    noise : CodeNoise
    levels : ndarray
        Candidate shares of the fitting data's codes that are not clipped.

    Returns
    -------
    code : LinearCode
    """
    norms = code_norms(problem.h @ encoder.T, noise.order)
    codes = [
        clipped_code(problem, encoder, float(radius), noise.order, noise.variance)
        for radius in _radii(norms, levels)
    ]
    return min(codes, key=lambda code: code.loss)


def clip_levels(level: float | None) -> NDArray[np.float64]:
    """Candidate clip levels: `level` alone, unless it is None."""
    return expit(_LOGITS) if level is None else np.array([level])


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
        Order of the ball's norm.
    variance : float
        Variance of the noise in an entry.

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
    """Descend from a scaling of a clipped code to one with less loss.

    Propositions 2 to 4 assume codes that are not clipped. With clipping, a descent on
    the exact loss starts from their scaling. Every scaling has the best decoder, so
    that the gradient of the loss is the gradient with the decoder fixed. (A descent on
    all entries of the encoder fits the data better, and loses more on new samples.)

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
        # With almost no noise, the loss may be zero, which has no logarithm.
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
