"""Yang, Xiang, Yu, Wang, Guo, Li and Li (2023): matrix Gaussian mechanisms."""

from ..mechanisms import MatrixGaussian
from ._yang_2021 import PublishedTensorVariateGaussian


class PublishedMatrixGaussian(PublishedTensorVariateGaussian, MatrixGaussian):
    """Matrix Gaussian mechanism (MGM) with the published variances.

    Parameters and attributes are those of
    :class:`~sktensordp.mechanisms.MatrixGaussian`. The variances are those of Theorem 1
    of [1]_. Its claim, (epsilon, delta), is true, but the noise is larger than the
    claim needs: `privacy_guarantee_` states
    the true epsilon next to the claimed one.

    References
    ----------
    .. [1] Yang, Xiang, Yu, Wang, Guo, Li and Li, "Matrix Gaussian mechanisms for
       differentially-private learning", 2023, Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.papers import PublishedMatrixGaussian
    >>> published = PublishedMatrixGaussian(1.0, bounds=(0, 1)).fit(np.zeros((3, 4, 2)))
    >>> published.privacy_guarantee_.epsilon < published.privacy_guarantee_.claimed[0]
    True
    """

    _theorem = "Yang et al. (Matrix Gaussian mechanisms), Theorem 1"
