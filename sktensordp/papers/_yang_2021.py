"""Yang, Xiang, Chen, Li and Li (2021): directional noise for tensor-valued queries.

The claims of these theorems are true, the third with the constant (b - a) sqrt(I). But
the noise is larger than the claims need, so guarantees state the true epsilon, by the
exact curve of Gaussian noise (Balle and Wang 2018, Theorem 8), next to the claim.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mechanisms import (
    IndependentDirectionalNoise,
    TensorVariateGaussian,
    UnimodalDirectionalNoise,
)
from ..mechanisms._base import PlannedNoise
from ..mechanisms._structured import EXACT, DirectionalNoise, ModeDesign
from ..privacy._numbers import exact
from ..privacy.calibration._gaussian import floored
from ..privacy.calibration._sensitivity import SensitivitySet
from ._docs import with_shared_text


class PublishedDirections(DirectionalNoise):
    """Gaussian noise along directions, with the variances of a paper.

    The quantities of its theorem follow from parameters and shape, as the noise does.
    """

    bound_: float
    zeta_: float
    sigmas_: tuple[NDArray[np.float64], ...]
    costs_: tuple[NDArray[np.float64], ...]

    _theorem = ""

    @property
    def _source(self) -> str:
        return f"{self._theorem}; true epsilon from {EXACT}"

    @property
    def _claimed(self) -> tuple[float, float]:
        return float(self.epsilon), float(self.delta)

    def _sigmas(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: ModeDesign
    ) -> Sequence[NDArray[np.float64]]:
        """Standard deviations along the directions of each mode."""
        raise NotImplementedError

    def _bound(self, shape: tuple[int, ...], domain: SensitivitySet) -> float:
        """B of the theorem."""
        return published_bound(domain.n_entries, *self._claimed, domain.l2)

    def _costs(self, design: ModeDesign) -> Sequence[NDArray[np.float64]]:
        """P_ki of each mode."""
        return design[1]

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: ModeDesign
    ) -> PlannedNoise:
        sigmas = self._sigmas(shape, domain, design)
        return self._noise_along(shape, domain, design, sigmas, rescale=False)

    def _further_attributes(
        self, shape: tuple[int, ...], randomizer: Any
    ) -> dict[str, object]:
        if math.isinf(self.epsilon):
            return {}
        domain: SensitivitySet = randomizer.domain
        design: Any = self._design(shape)
        return {
            "bound_": self._bound(shape, domain),
            "zeta_": zeta(domain.n_entries, float(self.delta)),
            "sigmas_": tuple(self._sigmas(shape, domain, design)),
            "costs_": tuple(self._costs(design)),
        }


@with_shared_text
class PublishedTensorVariateGaussian(PublishedDirections, TensorVariateGaussian):
    """Tensor variate Gaussian noise (TVG) with the published variances.

    Parameters and attributes are those of
    :class:`~sktensordp.mechanisms.TensorVariateGaussian`. The variances are those of
    Theorem 1 with Equation 25 of [1]_. Its claim, (epsilon, delta), is true, but the
    noise is larger than the claim needs: `privacy_guarantee_` states
    the true epsilon next to the claimed one.

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
    Equation 25 fixes products of variances. Here every mode gets the same share of B,
    which changes no noise.

    References
    ----------
    .. [1] Yang, Xiang, Chen, Li and Li, "Differential privacy for tensor-valued
       queries", 2021, Theorem 1 and Equation 25.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.papers import PublishedTensorVariateGaussian
    >>> X = np.zeros((3, 4, 2))
    >>> published = PublishedTensorVariateGaussian(
    ...     1.0, delta=1e-5, bounds=(0, 1)).fit(X)
    >>> published.privacy_guarantee_.epsilon < published.privacy_guarantee_.claimed[0]
    True
    """

    _theorem = "Yang et al. (2021), Theorem 1"

    def _sigmas(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: ModeDesign
    ) -> Sequence[NDArray[np.float64]]:
        weights = [floored(p) for p in design[1]]
        bound = self._bound(shape, domain)
        return [np.sqrt(v) for v in published_variances(weights, bound)]


class _PublishedOneMode(PublishedDirections):
    """Noise with published variances along one mode."""

    mode: int

    def _sigmas(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: ModeDesign
    ) -> Sequence[NDArray[np.float64]]:
        weights = design[1]
        sigmas = [np.ones(len(p)) for p in weights]
        floor, bound = floored(weights[self.mode]), self._bound(shape, domain)
        sigmas[self.mode] = np.sqrt(published_variances([floor], bound)[0])
        return sigmas


@with_shared_text
class PublishedUnimodalDirectionalNoise(_PublishedOneMode, UnimodalDirectionalNoise):
    """Unimodal directional noise (UDN) with the published variances.

    Parameters and attributes are those of
    :class:`~sktensordp.mechanisms.UnimodalDirectionalNoise`. The variances are those of
    Theorem 2 with Equation 28 of [1]_. Its claim, (epsilon, delta), is true, but the
    noise is larger than the claim needs: `privacy_guarantee_` states
    the true epsilon next to the claimed one.

    Attributes
    ----------
    bound_ : float
        B of Theorem 2.
    $zeta
    $mode_sigmas
    $costs

    Notes
    -----
    $of_queries
    $least_cost
    The directions are the axes, or those that you pass. The paper suggests the
    principal components of the utility matrix, by a differentially private SVD; here
    that matrix is public, so ``directions="singular_vectors"`` computes them exactly.

    References
    ----------
    .. [1] Yang, Xiang, Chen, Li and Li, "Differential privacy for tensor-valued
       queries", 2021, Theorem 2 with Equation 28 (Algorithm 1).

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.papers import PublishedUnimodalDirectionalNoise
    >>> X = np.zeros((3, 4, 2))
    >>> published = PublishedUnimodalDirectionalNoise(
    ...     1.0, delta=1e-5, mode=1, bounds=(0, 1)).fit(X)
    >>> published.privacy_guarantee_.epsilon < published.privacy_guarantee_.claimed[0]
    True
    """

    _theorem = "Yang et al. (2021), Theorem 2"


@with_shared_text
class PublishedIndependentDirectionalNoise(
    _PublishedOneMode, IndependentDirectionalNoise
):
    """Independent directional noise (IDN) with the published variances.

    Parameters and attributes are those of
    :class:`~sktensordp.mechanisms.IndependentDirectionalNoise`, but you must pass
    `bounds`. The variances are those of Theorem 3 of [1]_, with the constant that its
    proof needs. The claim, (epsilon, delta), is true, but the noise is larger than the
    claim needs: `privacy_guarantee_` states the true epsilon next to the claimed one.

    Attributes
    ----------
    bound_ : float
        B of Theorem 3, with the factor I_k for the size of the mode.
    $zeta
    $mode_sigmas
    $costs

    Notes
    -----
    $of_queries
    $least_cost
    For I entries in [a, b], the constant s is (b - a) sqrt(I), as in the paper on
    matrices by the same authors. Our copy of [1]_ prints (b - a) / sqrt(I), which is
    too small by a factor I, and may be a slip of that copy. The paper scales all
    entries to one range. Here entries keep their scales, and [a, b] is the widest range
    in `bounds`.

    References
    ----------
    .. [1] Yang, Xiang, Chen, Li and Li, "Differential privacy for tensor-valued
       queries", 2021, Theorem 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.papers import PublishedIndependentDirectionalNoise
    >>> X = np.zeros((3, 4, 2))
    >>> published = PublishedIndependentDirectionalNoise(
    ...     1.0, delta=1e-5, bounds=(0, 1)).fit(X)
    >>> truth = published.privacy_guarantee_
    >>> truth.claimed, round(truth.epsilon, 3)
    ((1.0, 1e-05), 0.491)
    """

    _theorem = "Yang et al. (2021), Theorem 3 with the constant of its proof"

    def _bound(self, shape: tuple[int, ...], domain: SensitivitySet) -> float:
        if not domain.has_box:
            raise ValueError(
                f"{type(self).__name__} needs one range for all entries; pass bounds."
            )
        # The widest range counts for all entries.
        l2 = float(np.max(domain.width)) * math.sqrt(domain.n_entries)
        bound = published_bound(domain.n_entries, *self._claimed, l2)
        return shape[self.mode] * bound


def zeta(n_entries: int, delta: float) -> float:
    """Radius that a standard normal tensor exceeds with probability at most delta.

    Yang et al. (2021), Lemma 3.
    """
    exponent = -math.log(delta)
    return math.sqrt(n_entries + 2 * math.sqrt(n_entries * exponent) + 2 * exponent)


def published_bound(
    n_entries: int, epsilon: float, delta: float, sensitivity: float
) -> float:
    """B of Yang et al. (2021), Theorems 1 and 2: (t / s)^2, in a stable form.

    t = -zeta + sqrt(zeta^2 + 2 epsilon) = 2 epsilon / (zeta + sqrt(zeta^2 + 2 eps)).

    Raises
    ------
    ValueError
        If epsilon is so small that B is 0 as a float.
    """
    radius = zeta(n_entries, delta)
    t = 2 * epsilon / (radius + math.sqrt(radius**2 + 2 * epsilon))
    return positive((t / sensitivity) ** 2, epsilon)


def positive(bound: float, epsilon: float) -> float:
    """A bound on inverse variances; raise if it is 0 or infinite as a float."""
    if not 0 < bound < math.inf:
        raise ValueError(
            f"epsilon = {exact(epsilon)} needs published noise in this domain that "
            f"cannot be represented; pass another epsilon or another domain."
        )
    return bound


def published_variances(
    weights: list[NDArray[np.float64]], bound: float
) -> list[NDArray[np.float64]]:
    """Yang et al. (2021), Equation 25, with the bound divided evenly among the modes.

    Parameters
    ----------
    weights : list of ndarray of shape (I_k,)
        P_ki of every mode that the theorem bounds, positive.
    bound : float
        B.

    Returns
    -------
    variances : list of ndarray of shape (I_k,)
        sigma_ki^2 = S_k / (sqrt(P_ki) B^(1/N)) with S_k = sum_i sqrt(P_ki).
    """
    share = bound ** (1 / len(weights))
    return [np.sqrt(p).sum() / (np.sqrt(p) * share) for p in weights]
