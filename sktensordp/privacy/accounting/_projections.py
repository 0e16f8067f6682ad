"""The exact privacy curve of the Johnson-Lindenstrauss covariance release.

The release is r independent draws of N(0, A^T A + w^2 I), where the rows of A have
norm at most B. Adding or removing a row x changes the variance along one axis, by a
factor of 1 + x^T (A^T A + w^2 I)^-1 x. The worst pair is therefore r draws of
N(0, 1 + tau) against r draws of N(0, 1), with tau = B^2 / w^2. It dominates all smaller
tau, since x -> a x + sqrt(1 - a^2) z maps it to the pair of a^2 tau. The log-likelihood
ratio increases with the sum of squares T, so that with chi^2_r tails

    h = (r/2) ln(1 + tau),  k = 2 (1 + tau) / tau,  c1, c0 = k (h +- epsilon),
    delta1 = sf(c1 / (1 + tau)) - e^epsilon sf(c1)      (row removed)
    delta0 = cdf(c0) - e^epsilon cdf(c0 / (1 + tau))    (row added; 0 if c0 <= 0)

and delta is their maximum. In all cases computed with epsilon >= 0 that is delta1, but
this is not proved. Both differences cancel when tau is small, so they are integrated
instead: with q = sqrt(T / 2 / variance), of density f(q) = 2 q^(r-1) e^(-q^2) /
Gamma(r/2),

    delta1 = int_{q > q1} f(q) (1 - e^(-tau (q^2 - q1^2))) dq,
    delta0 = int_{q < q0} f(q) (1 - e^(-tau (q0^2 - q^2) / (1 + tau))) dq,

q1^2 = (h + epsilon) / tau and q0^2 = c0 / 2. Nothing cancels, and the integrands are
entire functions of q, for which Gauss-Legendre quadrature converges at once. For
epsilon < 0, delta(epsilon; P, Q) = 1 - e^epsilon + e^epsilon delta(-epsilon; Q, P).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# The integral leaves out values of f below e^-45 of its peak: at a distance d from its
# mode, f has fallen by e^(-d^2) or more, for every r.
_FOLDS = 45.0
_LARGEST, _SMALLEST = 1e300, 1e-300
# Lowers a root by more than its error.
_ROUNDED_DOWN = 1 - 4e-12
_CHUNK = 4096


def _log_density_at_mode(n_projections: int) -> float:
    """Logarithm of f at its mode, sqrt((r - 1) / 2); for large r by Stirling."""
    m = (n_projections - 1) / 2
    if m > 16:
        series = 1 / 24 - (7 / 2880 - (31 / 40320 - 127 / 215040 / m**2) / m**2) / m**2
        return math.log(2) - math.log(2 * math.pi) / 2 + series / m
    power = m * math.log(m) if m > 0 else 0.0
    return math.log(2) + power - m - math.lgamma(m + 0.5)


def _log_mass(
    edge: NDArray[np.float64], side: int, slope: float, n_projections: int
) -> NDArray[np.float64]:
    """Logarithm of int f(q) (1 - e^(-slope |q^2 - edge^2|)) dq beyond each edge.

    It integrates above the edge if `side` is 1, and below it if -1, on two panels of
    nodes, which are given by their distance from the edge: one panel where the second
    factor rises, and one where it is 1.
    """
    mode = math.sqrt((n_projections - 1) / 2)
    to_mode = side * (mode - edge)
    near = np.maximum(to_mode - math.sqrt(_FOLDS), 0.0)
    top = np.maximum(to_mode, 0.0)
    peak = edge + side * top
    pull = np.divide(n_projections - 1, peak, out=np.zeros_like(peak), where=peak > 0)
    fall = np.maximum(side * (2 * peak - pull), 0.0)
    far = top + 2 * _FOLDS / (fall + np.sqrt(fall * fall + 4 * _FOLDS))
    square: Any = min(_FOLDS / slope, _LARGEST)
    if side < 0:
        far = np.minimum(far, edge)
        square = np.minimum(square, edge * edge)
    rise = square / (edge + np.sqrt(edge * edge + side * square))
    rise = np.clip(rise, near, far)

    starts, ends = np.stack([near, rise], axis=1), np.stack([rise, far], axis=1)
    half = ((ends - starts) / 2)[..., None]
    distance = starts[..., None] + half * (1 + _NODES)
    edge = edge[:, None, None]
    q = np.maximum(edge + side * distance, _SMALLEST)
    from_mode = edge - mode + side * distance
    log_f = -from_mode * (q + mode)
    if mode > 0:
        # log(q / mode), accurate both at the mode and towards 0.
        near_mode = np.log1p(np.maximum(from_mode / mode, -0.5))
        log_ratio = np.where(q > mode / 2, near_mode, np.log(q / mode))
        log_f += (n_projections - 1) * log_ratio
    with np.errstate(over="ignore"):
        factor = -np.expm1(-slope * distance * (q + edge))
    highest = log_f.max(axis=(1, 2))
    relative = np.exp(log_f - highest[:, None, None])
    with np.errstate(divide="ignore"):
        log_mass = np.log((relative * factor * half * _WEIGHTS).sum(axis=(1, 2)))
    return highest + log_mass + _log_density_at_mode(n_projections)


def _log_delta(
    epsilon: NDArray[np.float64], n_projections: int, tau: float
) -> NDArray[np.float64]:
    """Logarithm of delta, for an array of epsilons >= 0 and a finite tau > 0."""
    h = n_projections / 2 * math.log1p(tau)
    with np.errstate(over="ignore"):
        removed = np.minimum(epsilon / tau + h / tau, _LARGEST)
        added = (h - epsilon) / tau * (1 + tau)
    result = _log_mass(np.sqrt(removed), 1, tau, n_projections)
    positive = added > 0
    edges = np.sqrt(added[positive])
    masses = _log_mass(edges, -1, tau / (1 + tau), n_projections)
    result[positive] = np.maximum(result[positive], masses)
    return np.minimum(result, 0.0)


def _check_n_projections(n_projections: int) -> None:
    whole = isinstance(n_projections, Integral) and not isinstance(n_projections, bool)
    if not whole or n_projections < 1:
        raise ValueError(f"n_projections must be an integer >= 1, got {n_projections}.")


def projection_delta(epsilon: ArrayLike, n_projections: int, tau: float) -> Any:
    """Smallest delta at which a projected covariance is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float or array-like of shape (n_epsilons,)
        May be negative or infinite: delta is the larger sup_S P(S) - e^epsilon Q(S) of
        the two directions.
    n_projections : int
        Number r of draws of N(0, A^T A + w^2 I) that are released, at least 1.
    tau : float
        B^2 / w^2, with B a bound on the norm of every row of A, at least 0.

    Returns
    -------
    delta : float or ndarray of shape (n_epsilons,)
        The exact delta under adding or removing one row; relative accuracy about
        1e-12 as long as it does not underflow.

    Raises
    ------
    ValueError
        If `epsilon` is NaN, `n_projections` is not a positive integer, or `tau` is
        negative or NaN.

    References
    ----------
    Blocki, Blum, Datta and Sheffet, "The Johnson-Lindenstrauss transform itself
    preserves differential privacy", FOCS 2012, whose noise is larger.

    Examples
    --------
    >>> from sktensordp.privacy.accounting._projections import projection_delta
    >>> round(projection_delta(0.7, 20, 0.5), 8)
    0.32431678
    """
    _check_n_projections(n_projections)
    if math.isnan(tau) or tau < 0:
        raise ValueError(f"tau must be >= 0, got {tau}.")
    epsilons = np.asarray(epsilon, dtype=float)
    if np.isnan(epsilons).any():
        raise ValueError("epsilon must not be NaN.")
    sizes = np.abs(epsilons).ravel()
    if tau == 0:
        delta = np.zeros_like(sizes)
    elif math.isinf(tau):
        delta = np.ones_like(sizes)
    else:
        n_chunks = max(1, -(-sizes.size // _CHUNK))
        chunks = np.array_split(sizes, n_chunks)
        logs = [_log_delta(chunk, int(n_projections), float(tau)) for chunk in chunks]
        delta = np.exp(np.concatenate(logs))
    below = np.minimum(epsilons, 0.0)
    delta = np.exp(below) * delta.reshape(epsilons.shape) - np.expm1(below)
    delta = np.minimum(delta, 1.0)
    return float(delta) if epsilons.ndim == 0 else delta


@dataclass(frozen=True)
class ProjectionCurve:
    """Deltas of the release at all epsilons, and the range of its losses."""

    n_projections: int
    tau: float

    def delta(self, epsilon: ArrayLike) -> Any:
        """Delta at an epsilon, which may be negative, or at an array of them."""
        return projection_delta(epsilon, self.n_projections, self.tau)

    @property
    def losses(self) -> tuple[float, float]:
        """Range of the privacy loss, except with probability 1e-16.

        With T = |y|^2 in units of the noise along the changed row, the loss in one
        direction is tau T / (2 (1 + tau)) - (r/2) ln(1 + tau). T is chi-square with r
        degrees of freedom, times 1 + tau if the row is in the data.
        """
        from scipy.stats import chi2

        r, tau = self.n_projections, self.tau
        shift = r / 2 * math.log1p(tau)
        largest = tau / 2 * float(chi2.isf(1e-16, r)) - shift
        return -max(largest, shift), max(largest, shift)


def projection_tau(epsilon: float, delta: float, n_projections: int) -> float:
    """Largest tau = B^2 / w^2 that gives (epsilon, delta)-differential privacy.

    Parameters
    ----------
    epsilon : float
        Greater than 0; infinity gives infinity.
    delta : float
        In (0, 1).
    n_projections : int
        Number of draws that are released, at least 1.

    Returns
    -------
    tau : float
        Root of ``projection_delta(epsilon, n_projections, tau) == delta``, to about
        1e-11 and never above it. Release with w^2 = B^2 / tau.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from sktensordp.privacy.accounting._projections import projection_tau
    >>> round(1 / projection_tau(0.5, 1e-5, 20), 6)
    30.405701
    """
    _check_n_projections(n_projections)
    if math.isnan(epsilon) or epsilon <= 0:
        raise ValueError(f"epsilon must be > 0, got {epsilon}.")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}.")
    if math.isinf(epsilon):
        return math.inf
    epsilons = np.array([epsilon], dtype=float)
    # Closer to 1 than this the curve has no digits left; a smaller tau is safe.
    target = min(math.log(delta), -1e-9)

    def excess(log_tau: float) -> float:
        tau = math.exp(log_tau)
        if tau == 0:
            return -_LARGEST
        return float(_log_delta(epsilons, int(n_projections), tau)[0]) - target

    low = high = math.log(min(epsilon, 1.0)) - math.log(n_projections) / 2
    step = 1.0
    while excess(low) > 0:
        low, step = low - step, 2 * step
    step, limit = 1.0, math.log(_LARGEST)
    while excess(high) < 0:
        if high == limit:
            return _LARGEST
        high, step = min(high + step, limit), 2 * step
    root = brentq(excess, low, high, xtol=1e-15, rtol=1e-15, maxiter=500)
    return math.exp(root) * _ROUNDED_DOWN
