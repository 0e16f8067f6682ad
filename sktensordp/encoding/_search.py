"""Search of an encoder's scaling and clip radius on the fitting data."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ._channels import Channel
from ._code_noise import CodeNoise
from ._descent import descend_scaling
from ._linear import (
    LinearCode,
    LinearProblem,
    clipped_code,
    code_norms,
    noise_shares,
    scaled_basis,
)

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

    The losses that are compared neglect covariances between the entries of the clipped
    code, which are due to clipping alone.

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
