"""The Gaussian matrix mechanism's optimal strategy, with a certified gap.

To answer a workload of linear queries W x, we release strategy queries A x with noise
and derive the answers. With G = W^T W, X = A^T A and one changed cell, the squared
sensitivity is max_i X_ii and the total squared error is proportional to tr(G X^-1),
so the best strategy minimises tr(G X^-1) over X > 0 with diag(X) <= 1 (Li, Miklau,
Hay, McGregor and Rastogi 2015). For all lam > 0, D = diag(lam) and
S = (D^1/2 G D^1/2)^1/2,

    tr(S)^2 / sum(lam) <= min tr(G X^-1) <= tr(S) max_i(S_ii / lam_i),

by Cauchy-Schwarz on tr(G X^-1) tr(D X), and since X = D^-1/2 S D^-1/2 divided by
max_i(S_ii / lam_i) attains the right side. They meet where S_ii / lam_i is constant,
a fixed point to which lam <- lam (S_ii / lam_i) converges; so does the power 1.9 of
the ratio, in half the steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

_POWER = 1.9
# Multipliers of slack cells tend to 0. This floor makes sum(lam) too large by at most
# n 1e-12.
_LEAST_MULTIPLIER = 1e-12
# Relative rounding error of an eigenvalue. Smaller eigenvalues are raised to it before
# the square root, so that the strategy of a singular G is invertible. The relative cost
# is up to n sqrt(_ROUNDING).
_ROUNDING = 8 * np.finfo(float).eps
_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class Strategy:
    """A strategy of the Gaussian matrix mechanism.

    Parameters
    ----------
    gram : ndarray of shape (n_cells, n_cells)
        X = A^T A of the strategy queries A. It is positive definite with
        diag(X) <= 1, so that the L2 sensitivity is 1 if one cell changes by 1.
    cost : float
        tr(G X^-1): the total squared error for noise of variance 1.
    lower_bound : float
        No strategy costs less.
    """

    gram: np.ndarray
    cost: float
    lower_bound: float


def _check_gram(
    gram: ArrayLike,
) -> tuple[NDArray[np.float64], NDArray[np.bool_], float]:
    """`gram` scaled to a largest entry of 1, the queried cells, and the scale."""
    gram = np.array(gram, dtype=float)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or gram.size == 0:
        raise ValueError(f"gram must be a square matrix, got shape {gram.shape}.")
    if not np.isfinite(gram).all():
        raise ValueError("gram must be finite.")
    scale = np.abs(gram).max()
    if scale > 0:
        gram /= scale
    deviations = np.sqrt(np.maximum(gram.diagonal(), 0.0))
    queried = deviations > 0
    units = np.where(queried, deviations, 1.0)
    correlations = gram / units[:, None] / units
    if np.abs(correlations - correlations.T).max() > _TOLERANCE:
        raise ValueError("gram must be symmetric.")
    spectrum = np.linalg.eigvalsh(correlations)
    if gram[~queried].any() or spectrum[0] < -_TOLERANCE * spectrum[-1]:
        raise ValueError("gram must be positive semidefinite.")
    return (gram + gram.T) / 2, queried, scale


def _fixed_point(
    gram: NDArray[np.float64], tol: float, max_iter: int
) -> tuple[NDArray[np.float64], float]:
    """Best X, not yet scaled, and the best lower bound."""
    lam = np.sqrt(gram.diagonal())
    least_cost, lower, least_gap, power = np.inf, 0.0, np.inf, _POWER
    for _ in range(max_iter):
        lam = np.maximum(lam / lam.max(), _LEAST_MULTIPLIER)
        root = np.sqrt(lam)
        outer = np.outer(root, root)
        values, vectors = np.linalg.eigh(gram * outer)
        noise = _ROUNDING * values[-1]
        singular_values = np.sqrt(np.maximum(values, noise))
        factor = vectors * np.sqrt(singular_values)
        square_root = factor @ factor.T
        ratio = square_root.diagonal() / lam
        # Subtracting the rounding error keeps the bound a lower one.
        trace = np.sqrt(np.maximum(values - noise, 0.0)).sum()
        lower = max(lower, trace**2 / lam.sum())
        cost = (np.maximum(values, 0.0) / singular_values).sum() * ratio.max()
        if cost < least_cost:
            least_cost, best = cost, square_root / outer
        gap = ratio.max() * lam.sum() / singular_values.sum() - 1
        if gap <= tol:
            break
        if gap < least_gap or power == 1:
            least_gap, kept, power = gap, (lam, ratio), _POWER
        else:
            power = 1
        lam = kept[0] * kept[1] ** power
    return best, lower


def optimal_strategy(
    gram: ArrayLike, *, tol: float = 1e-9, max_iter: int = 500
) -> Strategy:
    """Strategy of least total error for a workload, if one cell changes by 1.

    Parameters
    ----------
    gram : array-like of shape (n_cells, n_cells)
        G = W^T W of the workload's queries W. A cell that no query reads gets a query
        of its own, which costs nothing.
    tol : float, default=1e-9
        Stop if the cost is within this relative distance of the lower bound.
    max_iter : int, default=500
        Largest number of eigendecompositions. If they do not suffice, the strategy is
        still valid, and its `cost` and `lower_bound` show how far from the best it may
        be.

    Returns
    -------
    strategy : Strategy
        Cost and lower bound are those of `gram` itself. If it is singular, X is still
        invertible, at a relative cost of up to about 4e-8 n_cells.

    Raises
    ------
    ValueError
        If `gram` is not a finite, symmetric, positive-semidefinite matrix, `tol` is
        negative or NaN, or `max_iter` is less than 1.

    References
    ----------
    Li, Miklau, Hay, McGregor and Rastogi, "The matrix mechanism: optimizing linear
    counting queries under differential privacy", VLDB Journal 24, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms._strategy import optimal_strategy
    >>> prefix_sums = np.tril(np.ones((8, 8)))
    >>> strategy = optimal_strategy(prefix_sums.T @ prefix_sums)
    >>> round(strategy.cost, 4)  # one query per cell would cost 36
    17.8662
    """
    if not tol >= 0:
        raise ValueError(f"tol must be >= 0, got {tol}.")
    if max_iter < 1:
        raise ValueError(f"max_iter must be >= 1, got {max_iter}.")
    gram, queried, scale = _check_gram(gram)
    strategy, cost, lower = np.eye(len(gram)), 0.0, 0.0
    if queried.any():
        cells = np.ix_(queried, queried)
        best, lower = _fixed_point(gram[cells], tol, max_iter)
        best /= best.diagonal().max()
        strategy[cells] = best
        cost = np.trace(cho_solve(cho_factor(best, lower=True), gram[cells]))
    strategy.setflags(write=False)
    cost = float(cost * scale)
    return Strategy(strategy, cost, min(float(lower * scale), cost))
