"""Components of people's tensors from noisy moments, whole samples protected."""

from ..measure import NoiseShares, fit_aggregated, party
from ._pca import MultilinearPCA
from ._regression import MultilinearRidge, MultilinearRidgeClassifier

__all__ = [
    "MultilinearPCA",
    "MultilinearRidge",
    "MultilinearRidgeClassifier",
    "NoiseShares",
    "fit_aggregated",
    "party",
]
