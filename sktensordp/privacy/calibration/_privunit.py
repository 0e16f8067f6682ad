"""PrivUnit's parameters, accurate even where the mass of the cap underflows.

The cap {v : <u, v> >= g} of the unit sphere of R^D has a share q of the sphere's area.
With a = (D - 1) / 2, Y = 1 - g^2 and an exponential variate V,

    q = Y^a E[1/t] / (2 a B(a, 1/2)),    t^2 = g^2 + Y (1 - exp(-V / a)),

where t is distributed as the cosine in the cap, weighted by t. Only the expectation is
integrated numerically, and it is smooth.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaln, expit, log_expit

# If -a log Y is larger, the integrand's singularities are far from the real line.
_SMALLEST_EXPONENT = 0.25


# Gauss-Legendre nodes from 0 to 6.5 for the root w of the exponential variate, with
# density 2 w exp(-w^2).
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_ROOTS = 6.5 * (_NODES + 1) / 2
_WEIGHTS = 6.5 * _WEIGHTS * _ROOTS * np.exp(-(_ROOTS**2))


@dataclass(frozen=True)
class PrivUnitDesign:
    """The cap that minimises PrivUnit's variance.

    Attributes
    ----------
    dimension : int
        D: inputs and outputs lie on the unit sphere of R^D.
    epsilon : float
        Pure epsilon of the ideal mechanism.
    cosine : float
        g: the cap holds the v with <u, v> >= g.
    gap : float
        1 - g, to full relative precision.
    log_mass : float
        Logarithm of q, the share of the sphere that is in the cap.
    """

    dimension: int
    epsilon: float
    cosine: float
    gap: float
    log_mass: float

    @property
    def log_odds(self) -> float:
        """Log-odds of p, the probability that the output is in the cap."""
        return self.epsilon + self.log_mass - math.log1p(-math.exp(self.log_mass))

    @property
    def scale(self) -> float:
        """m: the expectation of v is m u; equal to `cosine` at the optimum."""
        return self.cosine

    @property
    def variance(self) -> float:
        """Variance of each coordinate of v / m, for every u: (1 / m^2 - 1) / D."""
        return self.gap * (1 + self.cosine) / self.cosine**2 / self.dimension


def privunit_design(dimension: int, epsilon: float) -> PrivUnitDesign:
    """The design for the unit sphere of R^`dimension`.

    For every g, p = e^epsilon q / (1 - q + e^epsilon q) uses all of epsilon. The design
    takes the g that maximises m, where m(g) = g. There, the covariance of v / m is the
    same in every direction and for every u.

    Parameters
    ----------
    dimension : int
        At least 2.
    epsilon : float
        Finite, at least 1e-100.

    Returns
    -------
    design : PrivUnitDesign

    Raises
    ------
    ValueError
        If a parameter is out of range, or g is so near to 1 that 1 - g underflows.

    References
    ----------
    .. [1] Bhowmick, Duchi, Freudiger, Kapoor and Rogers, "Protection against
       reconstruction and its applications in private federated learning", 2018,
       Algorithm 1 and Lemma 4.1.
    """
    if not (dimension >= 2 and 1e-100 <= epsilon < math.inf):
        raise ValueError(
            f"PrivUnit needs a dimension >= 2 and a finite epsilon >= 1e-100; got "
            f"{dimension} and {epsilon}."
        )
    log_growth = epsilon + math.log(-math.expm1(-epsilon))  # of e^epsilon - 1

    def log_ratio(logit: float) -> float:
        """Logarithm of m / g, for the logit of g; it falls through 0."""
        log_mass, log_mean = _cap(dimension, expit(logit), expit(-logit))
        return log_expit(log_mass + log_growth) - log_mean

    low, high = min(0.0, math.log(epsilon)) - 40, min(epsilon + 20, 700.0)
    if log_ratio(high) > 0:
        raise ValueError(
            f"epsilon = {epsilon} is too large: it makes PrivUnit's cap a point. Pass "
            f"a smaller epsilon."
        )
    logit = brentq(log_ratio, low, high, xtol=1e-14, maxiter=500)
    cosine, gap = float(expit(logit)), float(expit(-logit))
    log_mass = _cap(dimension, cosine, gap)[0]
    return PrivUnitDesign(int(dimension), float(epsilon), cosine, gap, log_mass)


def cap_log_odds(dimension: int, cosine: float, gap: float) -> float:
    """Log-odds of the share of the sphere that is in a cap.

    Parameters
    ----------
    dimension : int
        At least 2.
    cosine : float
        In [-1, 1].
    gap : float
        1 - cosine, to full relative precision.

    Returns
    -------
    log_odds : float
    """
    if cosine < 0:
        return -cap_log_odds(dimension, -cosine, 2 - gap)
    if gap == 0:
        return -math.inf
    log_mass = _cap(dimension, cosine, gap)[0]
    return log_mass - math.log1p(-math.exp(log_mass))


def _cap(dimension: int, cosine: float, gap: float) -> tuple[float, float]:
    """Logarithms of q and of g E[1/t], for g >= 0."""
    a = (dimension - 1) / 2
    if cosine < 0.5:
        log_y = math.log1p(-(cosine**2))
    else:
        log_y = math.log(gap) + math.log1p(cosine)
    log_factor = a * log_y - math.log(2 * a) - _log_beta(a)
    log_cosine = math.log(cosine) if cosine > 0 else -math.inf
    if -a * log_y < _SMALLEST_EXPONENT:
        # SciPy's betaincc is off by up to 3e-9 at small cosines.
        log_mass = math.log1p(-float(betainc(0.5, a, cosine**2))) - math.log(2)
        return log_mass, log_cosine + log_mass - log_factor
    # 1 - g E[1/t] = E[(t - g) / t], with t - g = (t^2 - g^2) / (t + g).
    difference = -gap * (2 - gap) * np.expm1(-(_ROOTS**2) / a)  # t^2 - g^2
    t = np.sqrt(cosine**2 + difference)
    log_mean = math.log1p(-float(_WEIGHTS @ (difference / (t * (t + cosine)))))
    return log_factor + log_mean - log_cosine, log_mean


def _log_beta(a: float) -> float:
    """Logarithm of B(a, 1/2); SciPy's betaln loses digits at large a."""
    if a < 30:
        return float(betaln(a, 0.5))
    x = 1 / a
    series = x * (1 / 8 - x**2 * (1 / 192 - x**2 * (1 / 640 - x**2 * 17 / 14336)))
    return 0.5 * math.log(math.pi * x) + series
