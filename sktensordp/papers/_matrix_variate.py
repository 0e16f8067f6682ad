"""The matrix variate Gaussian mechanism, a baseline: calibrated, and as published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..mechanisms._base import NoiseMechanism, PlannedNoise
from ..mechanisms._docs import with_shared_text
from ..mechanisms._structured import ModeDesign, OfMatrices
from ..mechanisms._utility import array_of
from ..privacy.calibration._sensitivity import SensitivitySet
from ._yang_2021 import PublishedDirections, positive, zeta


@with_shared_text
class MatrixVariateGaussian(OfMatrices):
    """Matrix variate Gaussian mechanism (MVG): noise with given covariances.

    One call of `transform` is (epsilon, delta)-differentially private for each sample,
    a matrix: a sample may be replaced by any other in the domain declared by `bounds`
    or `norm_bound`. The covariance of the noise is proportional to `row_covariance`
    between rows and to `column_covariance` between columns.

    Parameters
    ----------
    $epsilon
    $delta
    row_covariance : array-like of shape (I_1, I_1), default=None
        Positive definite; the identity by default. Its scale does not matter. Must be
        public.
    column_covariance : array-like of shape (I_2, I_2), default=None
        The same for the columns.
    $bounds
    $norm_bound
    $sensitivity
    $tensor_shape
    $random_state

    Attributes
    ----------
    $privacy_guarantee
    $noise_variances
    $expected_squared_error
    $shapes

    Notes
    -----
    This is a baseline: you pass its covariances, while
    :class:`~sktensordp.mechanisms.MatrixGaussian` chooses its own. The exact guarantee
    of Gaussian noise determines their scale.

    $calibrated_directions

    References
    ----------
    .. [1] Chanyaswad, Dytso, Poor and Mittal, "MVG mechanism: differential privacy
       under matrix-valued query", 2018; Theorem 4 of Yang et al. (2021).

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.papers import MatrixVariateGaussian
    >>> X = np.zeros((3, 4, 2))
    >>> mechanism = MatrixVariateGaussian(
    ...     1.0, row_covariance=np.diag([1, 1, 4, 4]), norm_bound=1.0).fit(X)
    >>> mechanism.transform(X).shape
    (3, 4, 2)
    """

    _noise_name = "matrix variate Gaussian noise"

    _parameter_constraints: ClassVar = {
        **NoiseMechanism._parameter_constraints,
        "row_covariance": ["array-like", None],
        "column_covariance": ["array-like", None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        row_covariance: ArrayLike | None = None,
        column_covariance: ArrayLike | None = None,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        norm_bound: float | None = None,
        sensitivity: float | None = None,
        tensor_shape: tuple[int, int] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_covariance = row_covariance
        self.column_covariance = column_covariance
        self.bounds = bounds
        self.norm_bound = norm_bound
        self.sensitivity = sensitivity
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def _design(self, shape: tuple[int, ...]) -> ModeDesign:
        directions, sigmas = [], []
        for k, name in enumerate(("row_covariance", "column_covariance")):
            basis, variances = _check_covariance(getattr(self, name), shape[k], name)
            directions.append(basis)
            sigmas.append(np.sqrt(variances))
        return directions, sigmas

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: ModeDesign
    ) -> PlannedNoise:
        directions, sigmas = design
        return self._noise_along(
            shape, domain, _equal_weights(shape, directions), sigmas, rescale=True
        )


class PublishedMatrixVariateGaussian(PublishedDirections, MatrixVariateGaussian):
    """Matrix variate Gaussian mechanism (MVG), scaled by its published bound.

    Parameters and attributes are those of `MatrixVariateGaussian`, but you must pass
    `bounds` or `norm_bound`. The scale is that of Theorem 3 of [1]_. Its claim,
    (epsilon, delta), is true, but the noise is larger than the claim needs:
    `privacy_guarantee_` states the true epsilon next to the claimed one.

    Attributes
    ----------
    bound_ : float
        The theorem's bound on the product of the norms of the two spectra of inverse
        variances, (-beta + sqrt(beta^2 + 8 alpha epsilon))^2 / (4 alpha^2).
    zeta_ : float
        zeta(delta): the Euclidean norm of noise of variance 1 exceeds it with
        probability at most delta.
    sigmas_ : tuple of ndarray of shape (I_k,)
        Standard deviations along the directions of the rows and of the columns.
    costs_ : tuple of ndarray of shape (I_k,)
        Ones: errors in all entries count the same.

    Notes
    -----
    **How it differs from the paper.** The theorem and its quantity zeta are those that
    Yang et al. (2021) quote in their Theorem 4. You pass the covariances, and their
    scale is the least that the theorem allows. Yang et al. find the directions of the
    noise by a differentially private SVD or PCA. A sample is the value of a query, and
    may be replaced by any other in the declared domain, whose largest norm is gamma.
    Samples are clipped to it. The noise is drawn on a lattice, and the true
    epsilon includes the lattice's distance from Gaussian noise.

    References
    ----------
    .. [1] Chanyaswad, Dytso, Poor and Mittal, "MVG mechanism: differential privacy
       under matrix-valued query", 2018; Theorem 4 of Yang et al. (2021).

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.papers import PublishedMatrixVariateGaussian
    >>> X = np.zeros((3, 4, 2))
    >>> published = PublishedMatrixVariateGaussian(1.0, norm_bound=1.0).fit(X)
    >>> published.privacy_guarantee_.epsilon < published.privacy_guarantee_.claimed[0]
    True
    """

    _theorem = "Chanyaswad et al. (2018), Theorem 3"

    def _bound(self, shape: tuple[int, ...], domain: SensitivitySet) -> float:
        if math.isinf(domain.radius):
            raise ValueError(
                f"{type(self).__name__} needs a bound on the norm of a sample; pass "
                f"bounds or norm_bound."
            )
        rows, columns = shape
        return matrix_variate_bound(
            (rows, columns), *self._claimed, domain.l2, domain.radius
        )

    def _sigmas(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: ModeDesign
    ) -> Sequence[NDArray[np.float64]]:
        first, second = design[1]
        spectra = math.prod(float(np.linalg.norm(s**-2.0)) for s in (first, second))
        return first * math.sqrt(spectra / self._bound(shape, domain)), second

    def _costs(self, design: ModeDesign) -> Sequence[NDArray[np.float64]]:
        """Errors in all entries count the same."""
        return [np.ones(len(sigma)) for sigma in design[1]]

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: ModeDesign
    ) -> PlannedNoise:
        sigmas = self._sigmas(shape, domain, design)
        even = _equal_weights(shape, design[0])
        return self._noise_along(shape, domain, even, sigmas, rescale=False)


def _equal_weights(shape: tuple[int, ...], directions: list[Any]) -> ModeDesign:
    """A design with these directions, in which errors of all entries count the same."""
    return directions, [np.ones(size) for size in shape]


def _check_covariance(
    covariance: ArrayLike | None, size: int, name: str
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Eigenvectors (None if diagonal) and scaled eigenvalues of a covariance."""
    if covariance is None:
        return None, np.ones(size)
    matrix = array_of(covariance, name)
    if matrix.shape != (size, size):
        raise ValueError(f"{name} must have shape {(size, size)}, got {matrix.shape}.")
    if not np.all(np.isfinite(matrix)) or not np.allclose(matrix, matrix.T):
        raise ValueError(f"{name} must be finite and symmetric.")
    diagonal = np.count_nonzero(matrix - np.diag(np.diag(matrix))) == 0
    values, vectors = (np.diag(matrix), None) if diagonal else np.linalg.eigh(matrix)
    if not values.min() > size * np.finfo(float).eps * values.max():
        raise ValueError(f"{name} must be positive definite.")
    return vectors, values / values.max()


def matrix_variate_bound(
    shape: tuple[int, int],
    epsilon: float,
    delta: float,
    sensitivity: float,
    radius: float,
) -> float:
    """Bound of the matrix variate Gaussian mechanism on its two spectra.

    It bounds ||sv(Sigma^-1)||_2 ||sv(Psi^-1)||_2 (Chanyaswad, Dytso, Poor and Mittal
    2018, Theorem 3; Yang et al. 2021, Theorem 4).

    Parameters
    ----------
    shape : tuple of (int, int)
    epsilon, delta : float
    sensitivity : float
        Sensitivity of the matrix in Frobenius norm.
    radius : float
        Largest Frobenius norm of a matrix.

    Returns
    -------
    bound : float
    """
    ranks = np.arange(1, min(shape) + 1)
    harmonic, half = np.sum(1 / ranks), np.sum(1 / np.sqrt(ranks))
    n = math.prod(shape)
    alpha = (harmonic + half) * radius**2 + 2 * harmonic * radius * sensitivity
    beta = 2 * n**0.25 * harmonic * zeta(n, delta) * sensitivity
    # (-beta + sqrt(beta^2 + 8 alpha eps)) / (2 alpha), in a stable form.
    root = 4 * epsilon / (beta + math.sqrt(beta**2 + 8 * alpha * epsilon))
    return positive(float(root**2), epsilon)
