"""Privacy curves from first principles: no dp-accounting, none of the package.

A law is a pair of arrays (losses, masses): the values of log(p/q) at the outputs of
two neighbouring inputs, and the probabilities p of the outputs. The probabilities q
are masses * exp(-losses). Every function errs, if at all, to the side of too much
privacy (a smaller delta): an accountant that reports less than these is wrong.
"""

from itertools import permutations

import mpmath
import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm


def stick(law, epsilon):
    """Sum of (p - e^epsilon q)+, the hockey-stick divergence."""
    losses, masses = law
    return float(masses @ -np.expm1(np.minimum(epsilon - losses, 0)))


def sticks(law, epsilon):
    """The same at an array of epsilons, from two running sums."""
    losses, masses = merge(*law)
    upper, lower = (
        np.append(np.cumsum(part[::-1])[::-1], 0)
        for part in (masses, masses * np.exp(-losses))
    )
    first = np.searchsorted(losses, epsilon, side="right")
    return upper[first] - np.exp(epsilon) * lower[first]


def gaussian_stick(mu, epsilon):
    """Hockey-stick divergence of N(mu, 1) from N(0, 1), at an array of epsilons."""
    epsilon = np.asarray(epsilon, dtype=float)
    upper = norm.logcdf(mu / 2 - epsilon / mu)
    lower = epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
    return np.exp(upper) * -np.expm1(np.minimum(lower - upper, 0))


def exact_gaussian(mu, epsilon):
    """The same at one epsilon, with as many digits as do not cancel."""
    digits = 60
    while True:
        with mpmath.workdps(digits):
            epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
            t = epsilon / mu - mu / 2
            if abs(t) > 1e6:
                # Next to 0 or to 1, and neither.
                return 1 - mpmath.mpf(t > 0) + mpmath.sign(t) * mpmath.mpf(10) ** -999
            upper = mpmath.erfc(t / mpmath.sqrt(2)) / 2
            lower = mpmath.erfc((t + mu) / mpmath.sqrt(2)) / 2
            found = upper - mpmath.exp(epsilon) * lower
            if upper == 0 or found > upper * mpmath.mpf(10) ** (30 - digits):
                return found
        digits *= 2


def stick_with_gaussian(law, mu, epsilon):
    """The same for a law composed with Gaussian noise: an average over the losses."""
    losses, masses = law
    return float(masses @ gaussian_stick(mu, epsilon - losses))


def worst(laws, mu=0.0):
    """The largest divergence of some laws, each beside Gaussian noise, by epsilon."""
    if mu:
        return lambda e: max(stick_with_gaussian(law, mu, e) for law in laws)
    return lambda e: max(stick(law, e) for law in laws)


def response(epsilon):
    """Binary randomised response."""
    losses = np.array([epsilon, -epsilon])
    return losses, 1 / (1 + np.exp(-losses))


def table_pair(upper, lower):
    """One ordered pair of rows of weights."""
    p, q = (np.array(row, dtype=float) / sum(row) for row in (upper, lower))
    return np.log(p[p > 0] / q[p > 0]), p[p > 0]


def table_pairs(weights):
    """All ordered pairs of rows of a table."""
    return [table_pair(*pair) for pair in permutations(weights, 2)]


def discrete_laplace(rate, shift):
    """Integers of mass exp(-rate |n|) and their shift, by a sum over the integers."""
    tail = int(40 / rate)  # leaves out less than 1e-17 of the mass
    n = np.arange(-tail, shift + tail + 1)
    p = np.exp(-rate * np.abs(n))
    law = rate * (np.abs(n - shift) - np.abs(n)), p / p.sum()
    return merge(*law)


def laplace(bound, cells=500):
    """Laplace noise of scale 1/bound at 0 or 1, the line cut into cells.

    Forgetting where in a cell the output lies is post-processing, so that this has
    the smaller delta. Left of 0 and right of 1 the loss is constant, and nothing is
    lost; a cell of [0, 1] has the loss of its middle.
    """
    edges = np.linspace(0, 1, cells + 1)
    survival = np.exp(-bound * edges) / 2
    inner = survival[:-1] * -np.expm1(-bound / cells)
    losses = bound * (1 - edges[:-1] - edges[1:])
    return (
        np.concatenate([[bound], losses, [-bound]]),
        np.concatenate([[0.5], inner, [survival[-1]]]),
    )


def level_rows(noise, n_levels, rate, keep=0.0):
    """Rows of randomised response; the geometric one has 60 levels on either side."""
    reach = 60 if noise == "geometric" else 0
    outputs = np.arange(-reach, n_levels + reach)
    levels = np.arange(n_levels)[:, np.newaxis]
    apart = np.abs(outputs - levels)
    if noise == "wrapped":
        apart = np.minimum(apart, n_levels - apart)
    weights = np.exp(-rate * apart ** (2 if noise == "gaussian" else 1))
    weights /= weights.sum(axis=1, keepdims=True)
    return (1 - keep) * weights + keep * (outputs == levels)


def responses(count, single, epsilon):
    """Of binary randomised responses together, with 50 digits.

    The bound of the optimal composition theorem (Kairouz, Oh and Viswanath).
    """
    with mpmath.workdps(50):
        single, epsilon = mpmath.mpf(single), mpmath.mpf(epsilon)
        total = mpmath.mpf(0)
        for i in range(count, -1, -1):
            gain = mpmath.exp(i * single) - mpmath.exp(epsilon + (count - i) * single)
            if gain <= 0:
                break
            total += mpmath.binomial(count, i) * gain
        return float(total / (1 + mpmath.exp(single)) ** count)


def merge(losses, masses):
    """Join outputs whose losses differ by less than 1e-12, at the smallest of them."""
    order = np.argsort(losses)
    losses, masses = losses[order], masses[order]
    first = np.flatnonzero(np.diff(losses, prepend=-np.inf) > 1e-12)
    return losses[first], np.add.reduceat(masses, first)


def product(*laws):
    """The law of several independent releases."""
    losses, masses = laws[0]
    for other_losses, other_masses in laws[1:]:
        losses, masses = merge(
            np.add.outer(losses, other_losses).ravel(),
            np.multiply.outer(masses, other_masses).ravel(),
        )
    return losses, masses


def power(law, count, step=None):
    """The law of `count` independent releases.

    Where all losses are multiples of `step`, a plain convolution (sums of products
    of masses, nothing subtracted) does it for a great many outputs.
    """
    if step is None:
        return product(*[law] * count)
    index = np.rint(law[0] / step).astype(int)
    single, total = np.bincount(index - index.min(), law[1]), np.ones(1)
    for _ in range(count):
        total = np.convolve(total, single)
    return step * (count * index.min() + np.arange(total.size)), total


def epsilon_of(curve, delta, top):
    """Epsilon in [0, top] at which a falling curve reaches delta."""
    if curve(0.0) <= delta:
        return 0.0
    return brentq(lambda e: curve(e) - delta, 0, top, xtol=1e-13, rtol=1e-13)
