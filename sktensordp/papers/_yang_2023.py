"""Yang, Xiang, Yu, Wang, Guo, Li and Li (2023): matrix Gaussian mechanisms."""

from ..mechanisms import MatrixGaussian
from ._docs import with_shared_text
from ._yang_2021 import PublishedTensorVariateGaussian


@with_shared_text
class PublishedMatrixGaussian(PublishedTensorVariateGaussian, MatrixGaussian):
    """Matrix Gaussian mechanism (MGM) with the published variances.

    Parameters and attributes are those of
    :class:`~sktensordp.mechanisms.MatrixGaussian`. The variances are those of Theorem 1
    with Equation 25 of [1]_. Its claim, (epsilon, delta), is true, but the noise is
    larger than the claim needs: `privacy_guarantee_` states the true epsilon next to
    the claimed one.

    Attributes
    ----------
    bound_ : float
        B of Theorem 1.
    $zeta
    $sigmas
    $costs

    Notes
    -----
    $of_queries
    $least_cost
    Our copy of [1]_ prints B under the square root in Equation 25. It stands outside
    here, as the constraint (24) and the error (26) need it. Both modes get the same
    share of B, which changes no noise.

    References
    ----------
    .. [1] Yang, Xiang, Yu, Wang, Guo, Li and Li, "Matrix Gaussian mechanisms for
       differentially-private learning", 2023, Theorem 1 and Equation 25.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.papers import PublishedMatrixGaussian
    >>> published = PublishedMatrixGaussian(1.0, bounds=(0, 1)).fit(np.zeros((3, 4, 2)))
    >>> published.privacy_guarantee_.epsilon < published.privacy_guarantee_.claimed[0]
    True
    """

    _theorem = "Yang et al. (Matrix Gaussian mechanisms), Theorem 1"
