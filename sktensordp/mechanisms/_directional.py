"""Tensor variate Gaussian noise: a factor, weights and directions for every mode."""

from collections.abc import Sequence
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

__all__ = ["MatrixGaussian", "TensorVariateGaussian"]


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
        is. Nothing is clipped, but values some 1e9 times as large as the noise.
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

    def _design(self, shape: tuple[int, ...]) -> ModeDesign:
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

    def _published_sigmas(
        self,
        shape: tuple[int, ...],
        domain: SensitivitySet,
        weights: list[NDArray[np.float64]],
    ) -> list[NDArray[np.float64]]:
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = self.tensor_shape is not None
        return tags

    def _design(self, shape: tuple[int, ...]) -> ModeDesign:
        if len(shape) != 2:
            raise ValueError(
                f"The samples of MatrixGaussian must be matrices, got shape {shape}; "
                f"for rows of features, declare tensor_shape."
            )
        return super()._design(shape)
