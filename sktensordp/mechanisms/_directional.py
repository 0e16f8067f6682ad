"""Gaussian noise with structure: directions and weights for the modes of a tensor.

Guarantee: one call of transform is (epsilon, delta)-differentially private for each
sample (replace-one in the declared domain), by the exact curve of Gaussian noise
(Balle and Wang 2018, Theorem 8) at mu = sup ||Delta x_1 U_1^-1 ... x_N U_N^-1|| over
the domain's differences.
"""

import math
from collections.abc import Sequence
from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._sklearn_compat import StrOptions
from ..privacy import gaussian_mu
from ..privacy._calibration import (
    floored,
    least_cost_variances,
    published_bound,
    published_variances,
)
from ._base import NoiseMechanism
from ._gaussian_noise import diagonal_noise, rotated_noise
from ._utility import SINGULAR_VECTORS, check_directions, check_utility, mode_weights

__all__ = [
    "IndependentDirectionalNoise",
    "MatrixGaussian",
    "StructuredNoise",
    "TensorVariateGaussian",
    "UnimodalDirectionalNoise",
    "flat_product",
]


class StructuredNoise(NoiseMechanism):
    """Shared by the mechanisms whose noise has a factor for every mode."""

    _exact = "Balle and Wang (2018), Theorem 8"
    _theorem = ""

    _parameter_constraints: ClassVar = {
        **NoiseMechanism._parameter_constraints,
        "calibration": [StrOptions({"sound", "published"})],
    }

    @property
    def _source(self):
        if self.calibration == "published":
            return f"{self._theorem}; the truth by {self._exact}"
        return self._exact

    def _shared_modes(self, shape):
        """Modes in which all entries are to have one variance."""
        return ()

    def _published_sigmas(self, shape, domain, weights):
        """Standard deviations along the directions of every mode."""
        raise NotImplementedError

    def _noise(self, shape, domain, design):
        epsilon, delta = float(self.epsilon), float(self.delta)
        directions, weights = design
        rotated = any(d is not None for d in directions)
        sound = self.calibration == "sound"
        if sound and (not rotated or not domain.has_box):
            # Directions do not help where all of a ball is to be hidden.
            sigma = self._best_sigma(shape, domain, weights)
            noise = diagonal_noise(domain, sigma, epsilon, delta, rescale=True)
            return self._diagonal(shape, noise, domain, directions, weights)
        if sound:
            sigmas = [floored(p) ** -0.25 for p in weights]
        else:
            sigmas = self._published_sigmas(shape, domain, weights)
        if not rotated:
            sigma = flat_product(sigmas, shape)
            noise = diagonal_noise(domain, sigma, epsilon, delta, rescale=False)
            return self._diagonal(shape, noise, domain, directions, weights)
        noise = rotated_noise(
            domain, shape, directions, sigmas, epsilon, delta, rescale=sound
        )
        variances, error = [], 1.0
        for w, s, p in zip(directions, sigmas, weights, strict=True):
            variances.append(s**2 if w is None else np.square(w * s).sum(axis=1))
            error *= float(p @ s**2)
        variance = flat_product(variances, shape).reshape(shape) * noise.scale**2
        return noise.plan, noise.event, variance, error * noise.scale**2

    def _diagonal(self, shape, noise, domain, directions, weights):
        variance = np.square(noise.lattice.sigma)
        if np.ndim(variance) == 0:
            # The trace of the weights is that in every basis.
            error = float(variance) * math.prod(float(p.sum()) for p in weights)
            return noise.plan, noise.event, float(variance), error
        error = float(variance @ flat_product(weights, shape))
        return noise.plan, noise.event, variance.reshape(shape), error

    def _best_sigma(self, shape, domain, weights):
        """Standard deviations of least weighted cost, for ideal noise."""
        mu = gaussian_mu(float(self.epsilon), float(self.delta))
        flat = all(np.all(p == p[0]) for p in weights)
        if not domain.has_box or (flat and np.ndim(domain.width) == 0):
            return domain.l2 / mu
        shared = self._shared_modes(shape)
        squares = np.broadcast_to(np.square(domain.widths).reshape(shape), shape)
        cost = flat_product(weights, shape).reshape(shape)
        # Entries that share a variance count together, in width and in weight.
        squares = squares.sum(axis=shared, keepdims=True)
        cost = cost.sum(axis=shared, keepdims=True)
        variances = least_cost_variances(
            np.sqrt(squares).ravel(), cost.ravel(), mu, domain.diameter
        ).reshape(squares.shape)
        return np.sqrt(np.broadcast_to(variances, shape).ravel())


def flat_product(vectors, shape):
    """Outer product of a vector for every mode, flat."""
    product = np.ones(1)
    for vector in vectors:
        product = np.multiply.outer(product, vector).ravel()
    return np.broadcast_to(product, (math.prod(shape),))


class TensorVariateGaussian(StructuredNoise):
    """Tensor variate Gaussian noise (TVG), for tensors of any order.

    The noise is N x_1 U_1 ... x_N U_N with standard normal N. By default it is the
    independent noise whose weighted error is least among all that keep (epsilon,
    delta): more noise where errors cost less.

    One call of `transform` is (epsilon, delta)-differentially private for each
    sample: a sample may be replaced by any other in the declared domain.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of a sample at one call of `transform`. ``float("inf")`` clips and adds
        no noise.
    delta : float, default=1e-6
        In (0, 1).
    utility : list of (array-like or None), default=None
        For each mode, a matrix W_k with as many columns as the mode has indices, or a
        vector, which stands for a diagonal matrix: what is computed from a released
        sample Y is Y x_1 W_1 ... x_N W_N. None is the identity. Public.
    directions : list of (array-like or None or "singular_vectors"), default=None
        For each mode, an orthogonal matrix whose columns are the directions of the
        noise, or by name the right singular vectors of the mode's utility matrix. One
        name stands for all modes. Public: directions that come from private data
        must be released with a budget of their own.
    bounds : tuple of (low, high), default=None
        Public range of the entries: numbers, or arrays that broadcast to a sample.
        Samples are clipped to it.
    norm_bound : float, default=None
        Samples are clipped to this Euclidean norm.
    sensitivity : float, default=None
        L2 sensitivity, vouched for by the caller, of the query whose value a sample
        is. Nothing is clipped.
    tensor_shape : tuple of int, default=None
        Shape of a sample, for samples passed as rows of features.
    calibration : {"sound", "published"}, default="sound"
        "sound" is exact for noise along the axes, and within pi/2 of the exact mu for
        directions. "published" is Theorem 1 with the variances of Equation 25 [1]_:
        true, but with far more noise than its claim needs; the guarantee states the
        epsilon that really holds beside the one claimed.
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
        Expected squared norm of Z x_1 W_1 ... x_N W_N for the noise Z of one sample.
    sample_shape_ : tuple of int
        Shape of a sample.
    n_features_in_ : int
        Size of the first axis of a sample.

    Notes
    -----
    **When weights help.** For a box with widths r and weights P, the error is
    (sum r sqrt(P))^2 / (sum r^2 sum P) of that of i.i.d. noise: less the more the
    weights differ, never more. For a ball (`norm_bound` or `sensitivity` alone) i.i.d.
    noise is optimal, whatever the weights, and is what is drawn.

    **When directions help.** By at most a factor pi/2 over the best noise along the
    axes, and often not at all: they are here because the papers have them.

    **Where utility and directions may come from.** Domain knowledge, a model fitted
    to public data, or a private release with a budget of its own, for example the
    singular vectors of a covariance matrix released by `JohnsonLindenstrauss` or by
    `GaussianMechanism`. ``doc/mechanisms.md`` shows a private route.

    References
    ----------
    .. [1] Yang, Xiang, Chen, Li and Li, "Differential privacy for tensor-valued
       queries", 2021, Theorem 1 and Section VI.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import TensorVariateGaussian
    >>> X = np.zeros((3, 4, 2))
    >>> weights = [np.array([1.0, 0.5, 0.25, 0.125]), None]
    >>> weighted = TensorVariateGaussian(1.0, utility=weights, bounds=(0, 1)).fit(X)
    >>> flat = TensorVariateGaussian(1.0, bounds=(0, 1)).fit(X)
    >>> weighted.noise_variance_[:, 0] < flat.noise_variance_
    array([ True,  True, False, False])
    >>> weighted.transform(X).shape
    (3, 4, 2)
    """

    _noise_name = "tensor variate Gaussian noise"
    _theorem = "Yang et al. (2021), Theorem 1"

    _parameter_constraints: ClassVar = {
        **StructuredNoise._parameter_constraints,
        "utility": ["array-like", None],
        "directions": ["array-like", StrOptions({SINGULAR_VECTORS}), None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        utility: Sequence[ArrayLike | None] | None = None,
        directions: Sequence[ArrayLike | str | None] | str | None = None,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        norm_bound: float | None = None,
        sensitivity: float | None = None,
        tensor_shape: tuple[int, ...] | None = None,
        calibration: str = "sound",
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.utility = utility
        self.directions = directions
        self.bounds = bounds
        self.norm_bound = norm_bound
        self.sensitivity = sensitivity
        self.tensor_shape = tensor_shape
        self.calibration = calibration
        self.random_state = random_state

    def _design(self, shape):
        n_modes = len(shape)
        utility = [None] * n_modes if self.utility is None else list(self.utility)
        directions = self.directions
        if directions is None or isinstance(directions, str):
            directions = [directions] * n_modes
        for name, given in (("utility", utility), ("directions", directions)):
            if len(given) != n_modes:
                raise ValueError(
                    f"{name} must have one item for each of the {n_modes} modes of a "
                    f"sample, got {len(given)}."
                )
        checked, weights = [], []
        for k, size in enumerate(shape):
            w = check_utility(utility[k], size, f"utility[{k}]")
            checked.append(check_directions(directions[k], w, size, f"directions[{k}]"))
            weights.append(mode_weights(w, checked[-1], size))
        return checked, weights

    def _published_sigmas(self, shape, domain, weights):
        bound = published_bound(
            domain.n_entries, float(self.epsilon), float(self.delta), domain.l2
        )
        return [
            np.sqrt(v)
            for v in published_variances([floored(p) for p in weights], bound)
        ]


class MatrixGaussian(TensorVariateGaussian):
    """Matrix Gaussian mechanism (MGM): tensor variate Gaussian noise for matrices.

    Samples are matrices. Parameters and attributes are those of
    `TensorVariateGaussian`, of which this is the case of two modes; the published
    calibration is Theorem 1 of [1]_.

    References
    ----------
    .. [1] Yang, Xiang, Yu, Wang, Guo, Li and Li, "Matrix Gaussian mechanisms for
       differentially-private learning", Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import MatrixGaussian
    >>> X = np.zeros((3, 4, 2))
    >>> mechanism = MatrixGaussian(
    ...     1.0, utility=[[1.0, 0.5, 0.5, 0.1], None], bounds=(0, 1)).fit(X)
    >>> mechanism.transform(X).shape
    (3, 4, 2)
    """

    _noise_name = "matrix Gaussian noise"
    _theorem = "Yang et al. (Matrix Gaussian mechanisms), Theorem 1"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = self.tensor_shape is not None
        return tags

    def _design(self, shape):
        if len(shape) != 2:
            raise ValueError(
                f"The samples of MatrixGaussian must be matrices, got shape {shape}; "
                f"for rows of features, declare tensor_shape."
            )
        return super()._design(shape)


class UnimodalNoise(StructuredNoise):
    """Noise that varies along one mode, and is i.i.d. over the others."""

    def _design(self, shape):
        if not -len(shape) <= self.mode < len(shape):
            raise ValueError(
                f"mode = {self.mode} is out of range: a sample has {len(shape)} modes."
            )
        k = self.mode % len(shape)
        directions = [None] * len(shape)
        weights = [np.ones(size) for size in shape]
        utility = check_utility(self.utility, shape[k])
        directions[k] = check_directions(
            getattr(self, "directions", None), utility, shape[k]
        )
        weights[k] = mode_weights(utility, directions[k], shape[k])
        return directions, weights

    def _shared_modes(self, shape):
        return tuple(k for k in range(len(shape)) if k != self.mode % len(shape))

    def _published_sigmas(self, shape, domain, weights):
        k = self.mode % len(shape)
        sigmas = [np.ones(size) for size in shape]
        bound = self._published_bound(shape, domain)
        sigmas[k] = np.sqrt(published_variances([floored(weights[k])], bound)[0])
        return sigmas

    def _published_bound(self, shape, domain):
        raise NotImplementedError


class UnimodalDirectionalNoise(UnimodalNoise):
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
        is. Nothing is clipped.
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

    def _published_bound(self, shape, domain):
        return published_bound(
            domain.n_entries, float(self.epsilon), float(self.delta), domain.l2
        )


class IndependentDirectionalNoise(UnimodalNoise):
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
        is. Nothing is clipped.
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

    def _published_bound(self, shape, domain):
        if not domain.has_box:
            raise ValueError(
                "calibration='published' speaks of entries in one range; declare "
                "bounds."
            )
        same_range = float(np.max(domain.width)) * math.sqrt(domain.n_entries)
        return shape[self.mode % len(shape)] * published_bound(
            domain.n_entries, float(self.epsilon), float(self.delta), same_range
        )
