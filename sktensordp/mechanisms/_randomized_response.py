"""Randomised response for tensors of levels."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from .._sklearn_compat import Interval, StrOptions
from ..privacy.calibration._sensitivity import SensitivitySet
from ._base import LocalMechanism, PlannedNoise
from ._docs import with_shared_text
from ._levels import design_levels
from ._responses import LevelResponse

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_MOST_LEVELS = 1024


@with_shared_text
class TensorRandomizedResponse(LocalMechanism):
    """Randomised response on a public grid of levels, for whole tensors.

    Each entry is put on a level of its range, which is kept with some probability and
    otherwise moved. One call of `transform` is (`epsilon`, `delta`)-differentially
    private for each sample, all of its entries together: a sample may be replaced by
    any other in the domain declared by `bounds`.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of a sample, all entries together, in one call of `transform`. With
        ``float("inf")``, samples are clipped and no noise is added.
    delta : float, default=0.0
        Delta of the same budget, in [0, 1). At 0, the budget is pure, and the epsilons
        of the entries add up to it. Above 0, an entry may spend what the optimal
        composition theorem [2]_ allows it, or what the privacy-loss distribution of
        the moves allows it, whichever is more.
    $bounds
    n_levels : int, default=None
        Number k of evenly spaced levels in the range of each entry; from 2 to 1024,
        and more for ``noise="geometric"``. A value between two levels goes to one of
        them at random, which keeps its mean. None means 2, the least possible: with a
        small budget for each entry, more levels hardly ever help.
    noise : {"laplace", "gaussian", "geometric", "wrapped"}, default="laplace"
        Weight of a move over d steps of the grid; moves of larger weight are more
        likely. With s = 1 / `scale`, "laplace" is exp(-s d) and "gaussian"
        exp(-s^2 d^2 / 2) on the k levels; "wrapped" is exp(-s d) for levels on a
        circle, the last next to the first; "geometric" is exp(-s d) on all integers,
        also beyond the grid.
    weights : array-like, default=None
        Public sensitivities of the entries, in [0, 1]: an entry of weight w is kept
        with probability (1 - w) p. Pass an array that broadcasts to a sample, or one
        with fewer axes, for the first modes: a matrix of shape (A, B) for samples of
        shape (A, B, 3).
    keep_probability : float, default=None
        Probability p of keeping an entry of weight 0, in [0, 1). None lets `fit` choose
        it, and likewise `scale`, to spend the budget with the least expected squared
        error of a sample.
    scale : float, default=None
        Scale of the moves, in steps of the grid; infinite for equally likely moves to
        all levels (k-ary randomised response). None lets `fit` choose it.
    debias : bool, default=True
        Whether to replace each level by a number that makes the release unbiased. If
        not, every output is a level, but means of outputs are pulled towards the middle
        of the scale: at epsilon 1, by more than half of the way. No effect for
        "geometric", which has no bias.
    $tensor_shape
    $random_state

    Attributes
    ----------
    $privacy_guarantee
    keep_probability_ : float
        Probability p of keeping an entry of weight 0.
    scale_ : float
        Scale of the moves, in steps of the grid.
    noise_variance_ : float or ndarray of the shape of a sample
        Largest variance of a released entry over the values in its range.
    expected_squared_error_ : float
        Largest expected squared error of a sample, summed over its entries.
    $shapes

    Notes
    -----
    In the local model, a sample is what one person sends. Truncated noise moves the
    levels, so that every output is possible from every level.

    Let w(d) be the weight of a move over d steps, as `noise` lists it, C the sum of the
    weights of the moves from the first level to all outputs, and L = -ln w(span) the
    loss over the largest distance. Then an entry is (L + ln(1 + p C / (1 - p)))-DP, and
    no two levels are easier to tell apart than the two that are furthest apart (proof
    in ``doc/local.md``). Probabilities are multiples of 2^-52 and 2^-60, sampled
    exactly from random bits. The guarantee covers the rounding of the probabilities.

    References
    ----------
    .. [1] Yuan, Tang, Huang and Wang, "Local differential privacy for tensors in
       distributed computing systems", 2025.
    .. [2] Kairouz, Oh and Viswanath, "The composition theorem for differential
       privacy", 2017, Theorem 3.3.

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> from sktensordp.mechanisms import TensorRandomizedResponse
    >>> X = np.zeros((3, 4, 4))
    >>> response = TensorRandomizedResponse(
    ...     4.0, delta=1e-5, bounds=(0, 16), n_levels=17).fit(X)
    >>> response.transform(X).shape
    (3, 4, 4)
    >>> round(math.sqrt(response.noise_variance_))
    70
    >>> print(response.privacy_guarantee_)
    Each call of transform: (epsilon = 4, delta = 1e-05)-differential privacy for one
    row of X (replace-one).
    """

    _parameter_constraints: ClassVar = {
        **LocalMechanism._parameter_constraints,
        "delta": [Interval(Real, 0, 1, closed="left")],
        "n_levels": [Interval(Integral, 2, 2**20, closed="both"), None],
        "noise": [StrOptions({"laplace", "gaussian", "geometric", "wrapped"})],
        "weights": ["array-like", None],
        "keep_probability": [Interval(Real, 0, 1, closed="left"), None],
        "scale": [Interval(Real, 0, None, closed="right"), None],
        "debias": ["boolean"],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0.0,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        n_levels: int | None = None,
        noise: str = "laplace",
        weights: ArrayLike | None = None,
        keep_probability: float | None = None,
        scale: float | None = None,
        debias: bool = True,
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.n_levels = n_levels
        self.noise = noise
        self.weights = weights
        self.keep_probability = keep_probability
        self.scale = scale
        self.debias = debias
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    @property
    def keep_probability_(self) -> float:
        """Probability of keeping an entry of weight 0."""
        return self._chosen("keep")

    @property
    def scale_(self) -> float:
        """Scale of the moves, in steps of the grid."""
        return self._chosen("scale")

    def _chosen(self, name: str) -> float:
        """Parameter of the randomizer."""
        check_is_fitted(self, "sample_shape_")
        if not hasattr(self._randomizer, name):
            raise AttributeError("With epsilon = inf, nothing is randomised.")
        return getattr(self._randomizer, name)

    @property
    def _source(self) -> str:
        if self.delta == 0:
            return "privacy losses of the moves, added up over the entries"
        return (
            "Kairouz, Oh and Viswanath (2017), Theorem 3.3, and the privacy losses of "
            "the moves"
        )

    @property
    def _noise_name(self) -> str:
        names = {
            "laplace": "truncated Laplace",
            "gaussian": "truncated Gaussian",
            "geometric": "two-sided geometric",
            "wrapped": "wrapped Laplace",
        }
        return f"levels that are kept or moved by {names[self.noise]} noise"

    def _design(
        self, shape: tuple[int, ...]
    ) -> tuple[NDArray[np.float64], NDArray[np.integer] | None]:
        """Share 1 - weight of each kind of entry, and the kind of each entry."""
        if self.noise != "geometric" and (self.n_levels or 2) > _MOST_LEVELS:
            raise ValueError(
                f"noise={self.noise!r} takes at most {_MOST_LEVELS} levels, got "
                f"n_levels={self.n_levels}. Pass noise='geometric' for more."
            )
        if self.noise == "geometric" and self.scale == math.inf:
            raise ValueError(
                "noise='geometric' has no moves of infinite scale; pass a finite scale."
            )
        return kinds_of(self.weights, shape)

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: Any
    ) -> PlannedNoise:
        randomizer, event = self._response(domain, *design)
        variance, error = randomizer.noise_variance, randomizer.expected_squared_error
        variance = variance.reshape(shape) if np.ndim(variance) else float(variance)
        return randomizer, event, variance, error

    def _response(
        self,
        domain: SensitivitySet,
        shares: NDArray[np.float64],
        kinds: NDArray[np.integer] | None,
    ) -> tuple[Any, DpEvent]:
        """Randomizer, and event of one sample."""
        counts = np.array([domain.n_entries]) if kinds is None else np.bincount(kinds)
        rate = None if self.scale is None else float(self.scale)
        if rate is not None:
            rate = 0.5 / rate**2 if self.noise == "gaussian" else 1 / rate
        design = design_levels(
            self.noise,
            self.n_levels or 2,
            shares,
            counts,
            self.debias,
            float(self.epsilon),
            float(self.delta),
            keep=self.keep_probability,
            rate=rate,
        )
        return LevelResponse.from_design(design, domain, kinds), design.event


def kinds_of(
    weights: ArrayLike | None, shape: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.integer] | None]:
    """Share 1 - weight of each kind of entry, and the kind of each entry.

    Parameters
    ----------
    weights : array-like or None
        See `TensorRandomizedResponse`.
    shape : tuple of int
        Shape of a sample.

    Returns
    -------
    shares : ndarray of shape (n_kinds,)
    kinds : ndarray of shape (n_entries,) or None
        None if there is one kind.
    """
    if weights is None:
        return np.ones(1), None
    try:
        array = np.asarray(weights, dtype=float)
        if array.ndim < len(shape):
            array = array.reshape(array.shape + (1,) * (len(shape) - array.ndim))
        array = np.broadcast_to(array, shape)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"weights must be an array of numbers for samples of shape {shape}, or for "
            f"their first modes, got shape {np.shape(weights)}."
        ) from error
    if not np.all((array >= 0) & (array <= 1)):
        raise ValueError("weights must be in [0, 1].")
    return np.unique(1 - array.ravel(), return_inverse=True)
