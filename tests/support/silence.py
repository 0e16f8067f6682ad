"""Releases without their noise: what it was added to."""

from contextlib import contextmanager
from unittest import mock

import numpy as np

from sktensordp.noise import _lattice


@contextmanager
def silenced():
    """While this lasts, Gaussian and Laplace noise on lattices is 0."""

    def zeros(bits, *arguments):
        size = arguments[-1 if len(arguments) == 3 else 0]
        return np.zeros(size)

    with (
        mock.patch.object(_lattice, "_dense_normal", zeros),
        mock.patch.object(_lattice, "discrete_laplace", zeros),
    ):
        yield
