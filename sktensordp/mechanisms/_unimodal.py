"""Gaussian noise with a factor in one mode, and i.i.d. along the others."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._sklearn_compat import StrOptions
from ._base import NoiseMechanism
from ._docs import with_shared_text
from ._structured import DirectionalNoise, ModeDesign
from ._utility import SINGULAR_VECTORS, check_directions, check_utility, mode_weights


class _OneMode(DirectionalNoise):
    """Gaussian noise that varies along one mode alone."""

    mode: int
    utility: ArrayLike | None

    _parameter_constraints: ClassVar = {
        **NoiseMechanism._parameter_constraints,
        "mode": [Integral],
        "utility": ["array-like", None],
    }

    def _design(self, shape: tuple[int, ...]) -> ModeDesign:
        if not -len(shape) <= self.mode < len(shape):
            raise ValueError(
                f"mode = {self.mode} is out of range: a sample has {len(shape)} modes."
            )
        k = self.mode % len(shape)
        utility = check_utility(self.utility, shape[k])
        bases: list[NDArray[np.float64] | None] = [None] * len(shape)
        weights = [np.ones(size) for size in shape]
        directions = getattr(self, "directions", None)
        bases[k] = check_directions(directions, utility, shape[k])
        weights[k] = mode_weights(utility, bases[k], shape[k])
        return bases, weights

    def _shared_modes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(j for j in range(len(shape)) if j != self.mode % len(shape))


@with_shared_text
class UnimodalDirectionalNoise(_OneMode):
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

    _parameter_constraints: ClassVar = {
        **_OneMode._parameter_constraints,
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


@with_shared_text
class IndependentDirectionalNoise(_OneMode):
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
