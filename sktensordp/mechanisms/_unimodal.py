"""Gaussian noise with a factor in one mode, and i.i.d. along the others."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._sklearn_compat import StrOptions
from ..privacy.calibration._sensitivity import SensitivitySet
from ._base import NoiseMechanism, PlannedNoise
from ._docs import with_shared_text
from ._structured import EXACT, ModeDesign, structured_noise
from ._utility import SINGULAR_VECTORS, check_directions, check_utility, mode_weights


def _design_of_mode(
    estimator: Any, shape: tuple[int, ...], directions: ArrayLike | str | None = None
) -> ModeDesign:
    """Directions and weights of the estimator's mode; none along the other modes."""
    if not -len(shape) <= estimator.mode < len(shape):
        raise ValueError(
            f"mode = {estimator.mode} is out of range: a sample has {len(shape)} modes."
        )
    k = estimator.mode % len(shape)
    utility = check_utility(estimator.utility, shape[k])
    bases: list[NDArray[np.float64] | None] = [None] * len(shape)
    weights = [np.ones(size) for size in shape]
    bases[k] = check_directions(directions, utility, shape[k])
    weights[k] = mode_weights(utility, bases[k], shape[k])
    return bases, weights


def _mode_noise(
    estimator: Any, shape: tuple[int, ...], domain: SensitivitySet, design: ModeDesign
) -> PlannedNoise:
    """Noise that varies along the estimator's mode alone."""
    k = estimator.mode % len(shape)
    return structured_noise(
        shape,
        domain,
        design,
        float(estimator.epsilon),
        float(estimator.delta),
        shared_modes=tuple(j for j in range(len(shape)) if j != k),
    )


@with_shared_text
class UnimodalDirectionalNoise(NoiseMechanism):
    """Unimodal directional noise (UDN): directions and weights in one mode alone.

    One call of `transform` is (epsilon, delta)-differentially private for each sample:
    a sample may be replaced by any other in the domain declared by `bounds` or
    `norm_bound`. Along all modes but one, the noise is i.i.d.

    Parameters
    ----------
    $epsilon
    $delta
    $mode
    $mode_utility
    directions : array-like of shape (I_k, I_k) or "singular_vectors", default=None
        Orthogonal matrix whose columns are the directions of the noise.
        "singular_vectors" takes the right singular vectors of `utility`. Must be
        public; see `TensorVariateGaussian`.
    $bounds
    $norm_bound
    $sensitivity
    $tensor_shape
    $random_state

    Attributes
    ----------
    $privacy_guarantee
    $noise_variances
    $expected_mode_error
    $shapes

    Notes
    -----
    The noise is N x_k U_k: the array N has independent standard normal entries, and x_k
    multiplies it by the matrix U_k along mode k.

    Directions gain at most a factor pi/2 over the best noise along the axes.
    $calibrated_directions For a ball
    (`norm_bound` or `sensitivity` alone), i.i.d. noise is optimal, and is what
    `transform` adds.

    References
    ----------
    .. [1] Yang, Xiang, Chen, Li and Li, "Differential privacy for tensor-valued
       queries", 2021, Theorem 2 with Equation 28 (Algorithm 1).

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import UnimodalDirectionalNoise
    >>> X = np.zeros((3, 4, 2))
    >>> mechanism = UnimodalDirectionalNoise(
    ...     2.0, mode=1, utility=[1.0, 0.1], bounds=(-1, 1)).fit(X)
    >>> mechanism.transform(X).shape
    (3, 4, 2)
    >>> quiet, loud = mechanism.noise_variance_[0]
    >>> bool(quiet < loud)
    True
    """

    _noise_name = "unimodal directional Gaussian noise"

    @property
    def _source(self) -> str:
        return EXACT

    _parameter_constraints: ClassVar = {
        **NoiseMechanism._parameter_constraints,
        "mode": [Integral],
        "utility": ["array-like", None],
        "directions": ["array-like", StrOptions({SINGULAR_VECTORS}), None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        mode: int = 0,
        utility: ArrayLike | None = None,
        directions: ArrayLike | str | None = None,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        norm_bound: float | None = None,
        sensitivity: float | None = None,
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mode = mode
        self.utility = utility
        self.directions = directions
        self.bounds = bounds
        self.norm_bound = norm_bound
        self.sensitivity = sensitivity
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def _design(self, shape: tuple[int, ...]) -> ModeDesign:
        return _design_of_mode(self, shape, self.directions)

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: Any
    ) -> PlannedNoise:
        return _mode_noise(self, shape, domain, design)


@with_shared_text
class IndependentDirectionalNoise(NoiseMechanism):
    """Independent directional noise (IDN): weights in one mode, along its axes.

    One call of `transform` is (epsilon, delta)-differentially private for each sample:
    a sample may be replaced by any other in the domain declared by `bounds` or
    `norm_bound`. Along all modes but one, the noise is i.i.d.

    Parameters
    ----------
    $epsilon
    $delta
    $mode
    $mode_utility
    $bounds
    $norm_bound
    $sensitivity
    $tensor_shape
    $random_state

    Attributes
    ----------
    $privacy_guarantee
    $noise_variances
    $expected_mode_error
    $shapes

    Notes
    -----
    The noise is N x_k diag(sigma): the array N has independent standard normal entries,
    and x_k multiplies it along mode k. There is no parameter `directions`: with a
    rotated factor, the published theorem is false.

    References
    ----------
    .. [1] Yang, Xiang, Chen, Li and Li, "Differential privacy for tensor-valued
       queries", 2021, Theorem 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import IndependentDirectionalNoise
    >>> X = np.zeros((3, 4, 2))
    >>> mechanism = IndependentDirectionalNoise(
    ...     1.0, mode=1, utility=[1.0, 0.1], bounds=(0, 1)).fit(X)
    >>> quiet, loud = mechanism.noise_variance_[0]
    >>> bool(quiet < loud)
    True
    """

    _noise_name = "independent directional Gaussian noise"

    @property
    def _source(self) -> str:
        return EXACT

    _parameter_constraints: ClassVar = {
        **NoiseMechanism._parameter_constraints,
        "mode": [Integral],
        "utility": ["array-like", None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        mode: int = 0,
        utility: ArrayLike | None = None,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        norm_bound: float | None = None,
        sensitivity: float | None = None,
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mode = mode
        self.utility = utility
        self.bounds = bounds
        self.norm_bound = norm_bound
        self.sensitivity = sensitivity
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def _design(self, shape: tuple[int, ...]) -> ModeDesign:
        return _design_of_mode(self, shape)

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: Any
    ) -> PlannedNoise:
        return _mode_noise(self, shape, domain, design)
