"""Transformers that add noise to samples, or randomise them, under a guarantee."""

from ._base import NoiseMechanism
from ._directional import MatrixGaussian, TensorVariateGaussian
from ._gaussian_noise import gaussian_event
from ._hybrid import HybridMechanism
from ._iid import GaussianMechanism, LaplaceMechanism
from ._matrix_mechanism import MatrixMechanism
from ._mean import MeanEstimate, estimate_mean
from ._privunit import PrivUnit
from ._randomized_response import TensorRandomizedResponse
from ._unimodal import IndependentDirectionalNoise, UnimodalDirectionalNoise

__all__ = [
    "GaussianMechanism",
    "HybridMechanism",
    "IndependentDirectionalNoise",
    "LaplaceMechanism",
    "MatrixGaussian",
    "MatrixMechanism",
    "MeanEstimate",
    "NoiseMechanism",
    "PrivUnit",
    "TensorRandomizedResponse",
    "TensorVariateGaussian",
    "UnimodalDirectionalNoise",
    "estimate_mean",
    "gaussian_event",
]
