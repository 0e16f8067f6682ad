"""The search for an encoder's scaling and clip radius, on the fitting data."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ._channels import BallChannel, SphereChannel
from ._code_noise import CodeNoise
from ._descent import descend
from ._linear import (
    LinearCode,
    LinearProblem,
    clipped_code,
    code_norms,
    noise_shares,
    scaled_basis,
)

__all__ = ["best_clip", "clip_levels", "improved", "search_scaling"]

# More rows than this are thinned out for the search, not for the decoder.
_MOST_ROWS = 2000
# Noise over signal, c, and the logit of the share of codes that is not clipped.
_RATIOS = np.geomspace(1e-4, 1e2, 19)
_LOGITS = np.linspace(-3, 7, 16)
_FINER = np.linspace(-1, 1, 9)


def improved(problem: LinearProblem, code: LinearCode, noise: CodeNoise) -> LinearCode:
    """The code after a descent on its scaling, where that has less loss.

    Parameters
    ----------
    problem : LinearProblem
    code : LinearCode
        Clipped, its encoder a scaled basis.
    noise : CodeNoise

    Returns
    -------
    code : LinearCode
    """
    scaling = np.sqrt(np.square(code.encoder).sum(axis=1)) / code.radius
    rows = problem.scores[_thinned(problem)]
    scaling = descend(scaling, rows, problem.values, noise.order, noise.variance)
    total = float(np.square(scaling).sum())
    encoder = scaled_basis(problem, scaling**2 / total)
    other = clipped_code(
        problem, encoder, 1 / math.sqrt(total), noise.order, noise.variance
    )
    return min(code, other, key=lambda one: one.loss)


def search_scaling(
    problem: LinearProblem,
    noise: Callable[[int], CodeNoise | SphereChannel | BallChannel],
    limit: int | None,
    level: float | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The scaling of Proposition 4, its free parameter c and its clip level searched.

    Cross-covariances of the clipped code's entries, which only clipping brings about,
    are left out of the losses that are compared.

    Parameters
    ----------
    problem : LinearProblem
    noise : callable
        Maps a number of components to a CodeNoise; ValueError where there is none.
    limit : int or None
        Components at most.
    level : float or None
        Share of the fitting data's codes that is not clipped; searched for if None.

    Returns
    -------
    shares : ndarray of shape (Z,)
        sigma^2, with M = 1.
    levels : ndarray
        Clip levels near the best.
    """
    values = problem.values[:limit]
    scores = problem.scores[_thinned(problem), : len(values)]
    ratios, logits = _RATIOS, _LOGITS
    for _ in range(2):
        levels = expit(logits) if level is None else np.array([level])
        shares = [noise_shares(values, ratio)[0] for ratio in ratios]
        found = _losses(values, scores, shares, noise, levels)
        i, j = np.unravel_index(np.argmin(found), found.shape)
        best = shares[i]
        near = levels[max(0, j - 1) : j + 2]
        ratios = ratios[i] * (_RATIOS[1] / _RATIOS[0]) ** _FINER
        logits = logits[j] + (_LOGITS[1] - _LOGITS[0]) * _FINER
    return best, near


def _thinned(problem: LinearProblem) -> NDArray[np.int64]:
    n_samples = len(problem.h)
    return np.linspace(0, n_samples - 1, min(n_samples, _MOST_ROWS)).astype(int)


def _losses(
    values: NDArray[np.float64],
    scores: NDArray[np.float64],
    shares: Sequence[NDArray[np.float64]],
    noise: Callable[[int], CodeNoise | SphereChannel | BallChannel],
    levels: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Loss for every scaling and every clip level, relative to no code at all."""
    squares, lengths = np.square(scores), np.abs(scores)
    found = np.full((len(shares), len(levels)), math.inf)
    for i, share in enumerate(shares):
        try:
            one = noise(len(share))
        except ValueError:
            continue
        size = len(share)
        if one.order == 1:
            norms = lengths[:, :size] @ np.sqrt(share)
        else:
            norms = np.sqrt(squares[:, :size] @ share)
        radii = _radii(norms, levels)
        kept = radii / np.maximum(norms[:, np.newaxis], radii)
        means = kept.T @ scores[:, :size] / len(norms)
        mixed = kept.T @ squares[:, :size] / len(norms)
        second = np.square(kept).T @ squares[:, :size] / len(norms) - means**2
        noises = one.variance * radii[:, np.newaxis] ** 2
        found[i] = -(share * mixed**2 / (share * second + noises)) @ values[:size]
    return found


def _radii(
    norms: NDArray[np.float64], levels: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.maximum(np.quantile(norms, levels), 1e-6 * norms.max())


def best_clip(
    problem: LinearProblem,
    encoder: NDArray[np.float64],
    noise: CodeNoise | SphereChannel | BallChannel,
    levels: NDArray[np.float64],
) -> LinearCode:
    """The code of an encoder, clipped where the loss is least.

    Parameters
    ----------
    problem : LinearProblem
    encoder : ndarray of shape (Z, r)
    noise : CodeNoise
    levels : ndarray
        Shares of the fitting data's codes that are not clipped; to choose from.

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
    """Clip levels to choose from; the one that is given, if one is."""
    return expit(_LOGITS) if level is None else np.array([level])
