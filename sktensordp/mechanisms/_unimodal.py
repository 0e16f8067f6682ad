"""Gaussian noise with a factor in one mode, and i.i.d. along the others."""

import math
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._sklearn_compat import StrOptions
from ..privacy.calibration._gaussian import (
    floored,
    published_bound,
    published_variances,
)
from ..privacy.calibration._sensitivity import SensitivitySet
from ._structured import ModeDesign, StructuredNoise
from ._utility import SINGULAR_VECTORS, check_directions, check_utility, mode_weights

__all__ = ["IndependentDirectionalNoise", "UnimodalDirectionalNoise"]


def _design_of_mode(
    estimator: Any, shape: tuple[int, ...], directions: ArrayLike | str | None = None
) -> ModeDesign:
    """Directions and weights: of one mode those of the estimator, else none."""
    if not -len(shape) <= estimator.mode < len(shape):
        raise ValueError(
            f"mode = {estimator.mode} is out of range: a sample has {len(shape)} modes."
        )
    k = estimator.mode % len(shape)
    utility = check_utility(estimator.utility, shape[k])
    chosen: list[NDArray[np.float64] | None] = [None] * len(shape)
    weights = [np.ones(size) for size in shape]
    chosen[k] = check_directions(directions, utility, shape[k])
    weights[k] = mode_weights(utility, chosen[k], shape[k])
    return chosen, weights


def _others(mode: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """All modes but one."""
    return tuple(k for k in range(len(shape)) if k != mode % len(shape))


def _sigmas_of_mode(
    mode: int, shape: tuple[int, ...], weights: list[NDArray[np.float64]], bound: float
) -> list[NDArray[np.float64]]:
    """Published standard deviations: of one mode by its weights, of others one."""
    k = mode % len(shape)
    sigmas = [np.ones(size) for size in shape]
    sigmas[k] = np.sqrt(published_variances([floored(weights[k])], bound)[0])
    return sigmas


class UnimodalDirectionalNoise(StructuredNoise):
    """Unimodal directional noise (UDN): directions and weights in one mode alone.

    The noise is N x_k U_k with standard normal N: along the other modes it is i.i.d.

    One call of `transform` is (epsilon, delta)-differentially private for each
    sample: a sample may be replaced by any other in the declared domain.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of a sample at one call of `transform`. ``float("inf")`` clips and adds
        no noise.
    delta : float, default=1e-6
        In (0, 1).
    mode : int, default=0
        The mode whose noise has structure; negative numbers count from the last.
    utility : array-like of shape (n_outputs, I_k) or (I_k,), default=None
        What is computed along the mode from a released sample; a vector stands for a
        diagonal matrix. Public.
    directions : array-like of shape (I_k, I_k) or "singular_vectors", default=None
        Orthogonal matrix of the directions of the noise, or by name the right
        singular vectors of `utility`. Public; see `TensorVariateGaussian`.
    bounds : tuple of (low, high), default=None
        Public range of the entries: numbers, or arrays that broadcast to a sample.
        Samples are clipped to it.
    norm_bound : float, default=None
        Samples are clipped to this Euclidean norm.
    sensitivity : float, default=None
        L2 sensitivity, vouched for by the caller, of the query whose value a sample
        is. Nothing is clipped, but values some 1e9 times as large as the noise.
    tensor_shape : tuple of int, default=None
        Shape of a sample, for samples passed as rows of features.
    calibration : {"sound", "published"}, default="sound"
        "sound" is exact for noise along the axes, and within pi/2 of the exact mu for
        directions. "published" is Theorem 2 with Equation 28 (Algorithm 1) [1]_: true,
        but with far more noise than its claim needs; the guarantee states the epsilon
        that really holds beside the one claimed.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the noise in every clone, although
        never in two calls of one object.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Of one call of `transform`.
    noise_variance_ : float or ndarray of the shape of a sample
        Variance of the noise in each entry, in squared units of the entries.
    expected_squared_error_ : float
        Expected squared norm of Z x_k W for the noise Z of one sample.
    sample_shape_ : tuple of int
        Shape of a sample.
    n_features_in_ : int
        Size of the first axis of a sample.

    Notes
    -----
    A rotation gains at most pi/2 over the best noise along the axes, and for a ball
    (`norm_bound` or `sensitivity` alone) i.i.d. noise is optimal and is what is drawn.

    References
    ----------
    .. [1] Yang, Xiang, Chen, Li and Li, "Differential privacy for tensor-valued
       queries", 2021, Theorem 2 and Algorithm 1.

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
    _theorem = "Yang et al. (2021), Theorem 2"

    _parameter_constraints: ClassVar = {
        **StructuredNoise._parameter_constraints,
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
        calibration: str = "sound",
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
        self.calibration = calibration
        self.random_state = random_state

    def _design(self, shape: tuple[int, ...]) -> ModeDesign:
        return _design_of_mode(self, shape, self.directions)

    def _shared_modes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return _others(self.mode, shape)

    def _published_sigmas(
        self,
        shape: tuple[int, ...],
        domain: SensitivitySet,
        weights: list[NDArray[np.float64]],
    ) -> list[NDArray[np.float64]]:
        bound = published_bound(
            domain.n_entries, float(self.epsilon), float(self.delta), domain.l2
        )
        return _sigmas_of_mode(self.mode, shape, weights, bound)


class IndependentDirectionalNoise(StructuredNoise):
    """Independent directional noise (IDN): weights in one mode, along its axes.

    The noise is N x_k diag(sigma) with standard normal N. There are no directions:
    with a rotated factor the published theorem is false.

    One call of `transform` is (epsilon, delta)-differentially private for each
    sample: a sample may be replaced by any other in the declared domain.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of a sample at one call of `transform`. ``float("inf")`` clips and adds
        no noise.
    delta : float, default=1e-6
        In (0, 1).
    mode : int, default=0
        The mode along which the noise varies; negative numbers count from the last.
    utility : array-like of shape (n_outputs, I_k) or (I_k,), default=None
        What is computed along the mode from a released sample; a vector stands for a
        diagonal matrix. Public; see `TensorVariateGaussian`.
    bounds : tuple of (low, high), default=None
        Public range of the entries: numbers, or arrays that broadcast to a sample.
        Samples are clipped to it.
    norm_bound : float, default=None
        Samples are clipped to this Euclidean norm.
    sensitivity : float, default=None
        L2 sensitivity, vouched for by the caller, of the query whose value a sample
        is. Nothing is clipped, but values some 1e9 times as large as the noise.
    tensor_shape : tuple of int, default=None
        Shape of a sample, for samples passed as rows of features.
    calibration : {"sound", "published"}, default="sound"
        "sound" is exact. "published" is Theorem 3 with s = (b - a) sqrt(I), the
        constant that its proof needs (the journal prints (b - a) / sqrt(I), which
        falls short by a factor I) [1]_: true, but with more noise than its claim
        needs; the guarantee states the epsilon that really holds beside the one
        claimed. It needs `bounds`; the widest range counts for all entries.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the noise in every clone, although
        never in two calls of one object.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Of one call of `transform`.
    noise_variance_ : float or ndarray of the shape of a sample
        Variance of the noise in each entry, in squared units of the entries.
    expected_squared_error_ : float
        Expected squared norm of Z x_k W for the noise Z of one sample.
    sample_shape_ : tuple of int
        Shape of a sample.
    n_features_in_ : int
        Size of the first axis of a sample.

    References
    ----------
    .. [1] Yang, Xiang, Chen, Li and Li, "Differential privacy for tensor-valued
       queries", 2021, Theorem 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import IndependentDirectionalNoise
    >>> X = np.zeros((3, 4, 2))
    >>> published = IndependentDirectionalNoise(
    ...     1.0, delta=1e-5, bounds=(0, 1), calibration="published").fit(X)
    >>> truth = published.privacy_guarantee_
    >>> truth.claimed, round(truth.epsilon, 3)
    ((1.0, 1e-05), 0.491)
    """

    _noise_name = "independent directional Gaussian noise"
    _theorem = "Yang et al. (2021), Theorem 3 with the constant of its proof"

    _parameter_constraints: ClassVar = {
        **StructuredNoise._parameter_constraints,
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
        calibration: str = "sound",
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
        self.calibration = calibration
        self.random_state = random_state

    def _design(self, shape: tuple[int, ...]) -> ModeDesign:
        return _design_of_mode(self, shape)

    def _shared_modes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return _others(self.mode, shape)

    def _published_sigmas(
        self,
        shape: tuple[int, ...],
        domain: SensitivitySet,
        weights: list[NDArray[np.float64]],
    ) -> list[NDArray[np.float64]]:
        if not domain.has_box:
            raise ValueError(
                "calibration='published' speaks of entries in one range; declare "
                "bounds."
            )
        same_range = float(np.max(domain.width)) * math.sqrt(domain.n_entries)
        bound = shape[self.mode % len(shape)] * published_bound(
            domain.n_entries, float(self.epsilon), float(self.delta), same_range
        )
        return _sigmas_of_mode(self.mode, shape, weights, bound)
