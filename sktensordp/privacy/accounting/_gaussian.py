"""The Gaussian mechanism's exact privacy curve, in closed form.

A release f(x) + sigma N(0, I) of L2 sensitivity s is mu-GDP with mu = s / sigma
(Dong, Roth and Su 2022, Theorem 1), and (epsilon, delta)-DP exactly for

    delta(epsilon; mu) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

(Balle and Wang 2018, Theorem 8). The two terms agree in many digits when mu is
small, so the difference is never computed. With t = epsilon/mu - mu/2, with the
normal density phi and with the Mills ratio R(x) = Phi(-x) / phi(x),

    delta = phi(t) (R(t) - R(t + mu)) = phi(t) int_t^{t + mu} (1 - x R(x)) dx,

because e^epsilon phi(t + mu) = phi(t).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, erfinv, log_ndtr

from ._bisection import first_where

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
# Below this mu the integral is accurate, and the difference of two Mills ratios begins
# to lose digits.
_QUADRATURE_MU = 1.0
_SMALLEST_EPSILON = 1e-250
# Bounds on the error of a root whose logarithm has a precision of 1e-15.
_ERROR, _ERROR_OF_LOG = 1e-13, 4e-15
_SMALLEST = 5e-324


def _mills(x: float | NDArray[np.float64]) -> NDArray[np.float64]:
    return math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))


def _minus_mills_slope(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 - x R(x), which is -R'(x), from its continued fraction for large x."""
    slope = 1 - x * _mills(np.minimum(x, 10.0))
    large = x[x > 10]
    if large.size:
        tail = np.zeros_like(large)
        for k in range(40, 1, -1):
            tail = k / (large + tail)
        # R(x) = 1 / (x + 1/(x + 2/(x + ...))), hence 1 - x R(x) = r / (x + r).
        r = 1 / (large + tail)
        slope[x > 10] = r / (large + r)
    return slope


def _log_delta(epsilon: float, mu: float) -> float:
    """Logarithm of delta(epsilon; mu) for finite epsilon >= 0 and mu > 0."""
    t = epsilon / mu - mu / 2
    if mu <= _QUADRATURE_MU:
        x = t + mu * (_NODES + 1) / 2
        mass = np.dot(_WEIGHTS, _minus_mills_slope(x)) / 2
        if mass == 0:
            return -math.inf
        return float(-t * t / 2 - _LOG_SQRT_2PI + np.log(mass) + math.log(mu))
    if t > 0:
        difference = _mills(t) - _mills(t + mu)
        if difference == 0:
            return -math.inf
        return float(-t * t / 2 - _LOG_SQRT_2PI + np.log(difference))
    upper = float(log_ndtr(-t))
    lower = -t * t / 2 - _LOG_SQRT_2PI + math.log(_mills(t + mu)) - upper
    if lower < -1:
        return upper + math.log1p(-math.exp(lower))
    return upper + math.log(-math.expm1(lower))


def _check_epsilon(epsilon: float, *, zero_allowed: bool) -> None:
    if math.isnan(epsilon) or epsilon < 0 or (epsilon == 0 and not zero_allowed):
        bound = ">= 0" if zero_allowed else "> 0"
        raise ValueError(f"epsilon must be {bound}, got {epsilon}.")


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Smallest delta at which mu-GDP gives (epsilon, delta)-differential privacy.

    Gaussian noise of standard deviation sigma on a query of L2 sensitivity s keeps
    mu-GDP (Gaussian differential privacy) with mu = s / sigma.

    Parameters
    ----------
    epsilon : float
        The epsilon of the curve, at least 0.
    mu : float
        L2 sensitivity divided by the standard deviation of the noise, at least 0.

    Returns
    -------
    delta : float
        The exact delta, in [0, 1], with a relative error of at most
        1e-12 + 5e-15 mu while it is above 1e-290.

    Raises
    ------
    ValueError
        If `epsilon` or `mu` is negative or NaN.

    References
    ----------
    Balle and Wang, "Improving the Gaussian mechanism for differential privacy",
    ICML 2018, Theorem 8.

    Examples
    --------
    >>> from sktensordp.privacy import gaussian_delta
    >>> round(gaussian_delta(1.0, 0.5), 8)
    0.00682959
    """
    _check_epsilon(epsilon, zero_allowed=True)
    if math.isnan(mu) or mu < 0:
        raise ValueError(f"mu must be >= 0, got {mu}.")
    if mu == 0 or (math.isinf(epsilon) and not math.isinf(mu)):
        return 0.0
    if math.isinf(mu):
        return 1.0
    return math.exp(_log_delta(epsilon, mu))


def gaussian_delta_above(epsilon: float, mu: float) -> float:
    """`gaussian_delta`, never below the truth: rounded up by more than its errors."""
    if mu == 0 or math.isinf(epsilon) or math.isinf(mu):
        return gaussian_delta(epsilon, mu)
    epsilon, mu = float(epsilon), float(mu)
    # The error that rounding the two terms of t causes, and some more: the logarithm
    # of delta changes by at most |t| + 1 times as much as t.
    # Beyond this ratio, whose square is finite, delta is zero whatever the error.
    ratio = min(epsilon / mu, 1e150)
    t = ratio - mu / 2
    error = 5e-13 + 1e-15 * (abs(t) + 1) * (ratio + mu)
    log_delta = _log_delta(epsilon, mu)
    return min(1.0, max(math.exp(min(log_delta + error, 0.0)), _SMALLEST))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu at which mu-GDP gives (epsilon, delta)-differential privacy.

    Gaussian noise of standard deviation sigma on a query of L2 sensitivity s keeps
    mu-GDP (Gaussian differential privacy) with mu = s / sigma.

    Parameters
    ----------
    epsilon : float
        Greater than 0; infinity gives infinity.
    delta : float
        In (0, 1).

    Returns
    -------
    mu : float
        Root of ``gaussian_delta(epsilon, mu) == delta``, to about 1e-11 and never
        above it.

    Raises
    ------
    ValueError
        If `epsilon` is not positive or `delta` is outside (0, 1). Gaussian noise
        gives no guarantee at delta = 0.

    Examples
    --------
    >>> from sktensordp.privacy import gaussian_mu
    >>> round(gaussian_mu(1.0, 1e-5), 9)
    0.268051123
    """
    _check_epsilon(epsilon, zero_allowed=False)
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1) for Gaussian noise, got {delta}.")
    if math.isinf(epsilon):
        return math.inf
    if epsilon < _SMALLEST_EPSILON:
        # The largest mu at epsilon = 0, which is smaller: 2 Phi(mu / 2) - 1 = delta.
        if delta < _SMALLEST_EPSILON:
            return 2 * delta
        return 2 * math.sqrt(2) * float(erfinv(delta)) * (1 - _ERROR)
    target = math.log(delta)

    def excess(log_mu: float) -> float:
        return _log_delta(epsilon, math.exp(log_mu)) - target

    low = high = math.log(epsilon) - math.log(math.sqrt(epsilon) + 10)
    while excess(low) > 0:
        low -= 1
    while excess(high) < 0:
        high += 1
    root = brentq(excess, low, high, xtol=1e-15, rtol=1e-15)
    return math.exp(root) * (1 - _ERROR - _ERROR_OF_LOG * abs(root))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon of mu-GDP at `delta`, for mu > 0: never too small.

    It is the inverse of `gaussian_mu`, by bisection, up to errors that both allow for.
    At delta = 0, and if mu is infinite or NaN, it is infinite.
    """
    if not (mu < math.inf and delta > 0):
        return math.inf
    if gaussian_delta_above(0.0, mu) <= delta:
        return 0.0
    log_delta = math.log(delta)
    above = mu * (1 + _ERROR + _ERROR_OF_LOG * abs(math.log(mu)))

    def holds(epsilon: float) -> bool:
        return _log_delta(epsilon, above) <= log_delta

    low, high = 0.0, mu * mu / 2 + mu
    while not holds(high):
        low, high = high, 2 * high
    # Smaller numbers are too coarse to allow for these errors.
    return max(_SMALLEST_EPSILON, first_where(holds, low, high))


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Smallest standard deviation of Gaussian noise that gives (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        Greater than 0; infinity gives 0.
    delta : float
        In (0, 1).
    sensitivity : float, default=1.0
        L2 sensitivity of the query between neighbours, in the units of the query.

    Returns
    -------
    sigma : float
        ``sensitivity / gaussian_mu(epsilon, delta)``.

    Raises
    ------
    ValueError
        If `epsilon` or `delta` is out of range, `sensitivity` is negative or not
        finite, or no finite noise is large enough.

    Examples
    --------
    >>> from sktensordp.privacy import gaussian_sigma
    >>> round(gaussian_sigma(1.0, 1e-5, sensitivity=2.0), 6)
    7.461263
    """
    if not (math.isfinite(sensitivity) and sensitivity >= 0):
        raise ValueError(f"sensitivity must be finite and >= 0, got {sensitivity}.")
    mu = gaussian_mu(epsilon, delta)
    if sensitivity == 0 or math.isinf(mu):
        return 0.0
    sigma = sensitivity / mu
    if math.isinf(sigma):
        raise ValueError(
            f"epsilon = {epsilon} and delta = {delta} are too small: they need "
            f"more noise than can be represented."
        )
    # Among the smallest floats, rounding to the nearest may lose much.
    return sigma if sigma > 1e-290 else math.nextafter(sigma, math.inf)
