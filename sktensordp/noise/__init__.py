"""Samplers: a bit generator goes in, an array comes out.

No sampler here adds a floating-point variate to a value, since the low-order bits of
such sums betray the value (Mironov 2012). Noise is an integer multiple of a public
step, and discrete distributions are sampled exactly from random bits.
"""

from ._discrete import (
    bernoulli,
    categorical,
    discrete_gaussian,
    discrete_laplace,
    discrete_laplace_variance,
    permute_and_flip,
    uniform_below,
)
from ._lattice import (
    GaussianLattice,
    LaplaceLattice,
    gaussian_lattice,
    laplace_lattice,
)

__all__ = [
    "GaussianLattice",
    "LaplaceLattice",
    "bernoulli",
    "categorical",
    "discrete_gaussian",
    "discrete_laplace",
    "discrete_laplace_variance",
    "gaussian_lattice",
    "laplace_lattice",
    "permute_and_flip",
    "uniform_below",
]
