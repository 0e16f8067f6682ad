"""Tensor variate Gaussian noise: weights and directions in every mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from numpy.typing import ArrayLike

from .._sklearn_compat import StrOptions
from ._base import NoiseMechanism
from ._docs import with_shared_text
from ._structured import DirectionalNoise, ModeDesign, OfMatrices
from ._utility import SINGULAR_VECTORS, check_directions, check_utility, mode_weights


@with_shared_text
class TensorVariateGaussian(DirectionalNoise):
    """Tensor variate Gaussian noise (TVG), for tensors of any order.

    One call of `transform` is (epsilon, delta)-differentially private for each sample:
    a sample may be replaced by any other in the domain declared by `bounds` or
    `norm_bound`. The noise is larger where errors cost less. By default it is
    independent in every entry; of all such noise that keeps (epsilon, delta), it has
    the least weighted error.

    Parameters
    ----------
    $epsilon
    $delta
    utility : list of (array-like or None), default=None
        For each mode, the matrix W_k by which you will multiply a released sample: what
        you compute from a sample Y is Y x_1 W_1 ... x_N W_N. W_k has as many columns as
        the mode has indices; a vector stands for a diagonal matrix, and None for the
        identity. Must be public.
    directions : list of (array-like or None or "singular_vectors"), default=None
        For each mode, an orthogonal matrix whose columns are the directions of the
        noise. "singular_vectors" takes the right singular vectors of the mode's
        utility matrix; passed instead of a list, it does so in every mode. Must be
        public: directions computed from private data must be released with a budget of
        their own.
    $bounds
    $norm_bound
    $sensitivity
    $tensor_shape
    $random_state

    Attributes
    ----------
    $privacy_guarantee
    $noise_variances
    expected_squared_error_ : float
        Expected squared norm of Z x_1 W_1 ... x_N W_N for the noise Z of one sample.
    $shapes

    Notes
    -----
    The noise is N x_1 U_1 ... x_N U_N: the array N has independent standard normal
    entries, and x_k multiplies it by the matrix U_k along mode k.

    **When weights help.** Let `bounds` be a box with widths r, and let P be the cost of
    a squared error in each entry (for a vector of weights, their squares). The error
    relative to that of i.i.d. noise is (sum r sqrt(P))^2 / (sum r^2 sum P). It is never
    above 1, and falls as the weights differ more. For a ball (`norm_bound` or
    `sensitivity` alone), i.i.d. noise is optimal for all weights, and is what
    `transform` adds.

    **When directions help.** They gain at most a factor pi/2 over the best noise along
    the axes, and often nothing. The library offers them because the papers have them.
    $calibrated_directions

    **Where utility and directions may come from.** They may come from domain
    knowledge, from a model fitted to public data, or from a private release with a
    budget of its own, for example the singular vectors of a covariance matrix released
    by `GaussianMechanism`. ``doc/mechanisms.md`` has an example of such a release.

    References
    ----------
    .. [1] Yang, Xiang, Chen, Li and Li, "Differential privacy for tensor-valued
       queries", 2021, Theorem 1 with the variances of Equation 25, and Section VI.

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

    _parameter_constraints: ClassVar = {
        **NoiseMechanism._parameter_constraints,
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
                    f"sample, got {len(given)} items."
                )
        bases, weights = [], []
        for k, size in enumerate(shape):
            w = check_utility(utility[k], size, f"utility[{k}]")
            basis = check_directions(directions[k], w, size, f"directions[{k}]")
            bases.append(basis)
            weights.append(mode_weights(w, basis, size))
        return bases, weights


class MatrixGaussian(OfMatrices, TensorVariateGaussian):
    """Matrix Gaussian mechanism (MGM): tensor variate Gaussian noise for matrices.

    Samples are matrices. This is `TensorVariateGaussian` for two modes, with the same
    parameters and attributes.

    References
    ----------
    .. [1] Yang, Xiang, Yu, Wang, Guo, Li and Li, "Matrix Gaussian mechanisms for
       differentially-private learning", 2023.

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
