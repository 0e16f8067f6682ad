"""Transformers that add noise to samples, or randomise them, under a guarantee."""

from ._directional import (
    IndependentDirectionalNoise,
    MatrixGaussian,
    TensorVariateGaussian,
    UnimodalDirectionalNoise,
)
from ._iid import GaussianMechanism, LaplaceMechanism
from ._matrix_mechanism import MatrixMechanism
from ._matrix_variate import MatrixVariateGaussian
from ._projections import JohnsonLindenstrauss

__all__ = [
    "GaussianMechanism",
    "IndependentDirectionalNoise",
    "JohnsonLindenstrauss",
    "LaplaceMechanism",
    "MatrixGaussian",
    "MatrixMechanism",
    "MatrixVariateGaussian",
    "TensorVariateGaussian",
    "UnimodalDirectionalNoise",
]
