"""Components of people's tensors from noisy moments, whole samples protected."""

from ._pca import MultilinearPCA
from ._regression import MultilinearRidge, MultilinearRidgeClassifier

__all__ = ["MultilinearPCA", "MultilinearRidge", "MultilinearRidgeClassifier"]
