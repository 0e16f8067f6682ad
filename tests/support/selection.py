"""Exact probabilities of permute-and-flip, and what a selection passes to it."""

from contextlib import contextmanager
from fractions import Fraction
from unittest import mock

import numpy as np

from tests.support.points import POINTS


def law(numerators, denominator):
    """Probability of every index: that it comes up, and is then taken.

    If one index comes up, others do independently, and one of n is taken with
    probability 1 / n, the integral of x^(n - 1) from 0 to 1. So it is taken with the
    integral of the product of 1 - p + p x over all others. Gauss and Legendre's rule is
    exact for polynomials, and relative errors stay below 1e-12 for these products.
    """
    best = max(numerators)
    below = [float(Fraction(best - q, denominator)) for q in numerators]
    p = np.exp(-np.array(below))
    degree = min(len(p) // 2 + 1, 60)
    x, weights = np.polynomial.legendre.leggauss(degree)
    x, weights = (x + 1) / 2, weights / 2
    factors = 1 - p + np.outer(x, p)
    whole = np.prod(factors, axis=1, keepdims=True)
    return p * (weights @ (whole / factors))


@contextmanager
def selections(stop=None):
    """What is passed to permute-and-flip: a list of (numerators, denominator).

    Parameters
    ----------
    stop : type, default=None
        An exception that is raised in place of a selection.
    """
    holder, name = POINTS["permute and flip"]
    sampler, asked = getattr(holder, name), []

    def recording(bits, numerators, denominator):
        asked.append((list(numerators), denominator))
        if stop is not None:
            raise stop
        return sampler(bits, numerators, denominator)

    with mock.patch.object(holder, name, recording):
        yield asked
