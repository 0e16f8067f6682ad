"""Components of people's tensors from noisy moments, whole samples protected."""

from ._pca import MultilinearPCA

__all__ = ["MultilinearPCA"]
