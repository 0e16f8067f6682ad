"""Noise that is the same in every entry: the Laplace and the Gaussian mechanism."""

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._sklearn_compat import StrOptions
from ..noise import LaplaceLattice, laplace_lattice
from ..privacy import gaussian_mu
from ..privacy._numbers import exact
from ..privacy.calibration._sensitivity import SensitivitySet
from ._base import NoiseMechanism, PlannedNoise
from ._gaussian_noise import diagonal_noise, largest_within
from ._noise import AddedNoise

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["GaussianMechanism", "LaplaceMechanism"]

# More kinds of coordinates than this are accounted for by their total epsilon alone.
_MOST_KINDS = 32


class LaplaceMechanism(NoiseMechanism):
    """Discrete Laplace noise of one scale on every entry: pure differential privacy.

    One call of `transform` is epsilon-differentially private for each sample: a
    sample may be replaced by any other in the declared domain. The scale of the
    noise is the L1 sensitivity of the domain divided by epsilon.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of a sample at one call of `transform`. ``float("inf")`` clips and adds
        no noise.
    bounds : tuple of (low, high), default=None
        Public range of the entries: numbers, or arrays that broadcast to a sample.
        Samples are clipped to it.
    norm_bound : float, default=None
        Samples are clipped to this Euclidean norm.
    sensitivity : float, default=None
        L1 sensitivity, vouched for by the caller, of the query whose value a sample
        is. Nothing is clipped, but values some 1e9 times as large as the noise.
    tensor_shape : tuple of int, default=None
        Shape of a sample, for samples passed as rows of features.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the noise in every clone, although
        never in two calls of one object.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Of one call of `transform`.
    noise_variance_ : float
        Variance of the noise in an entry, in squared units of the entries.
    expected_squared_error_ : float
        Expected squared error of a sample, summed over its entries.
    sample_shape_ : tuple of int
        Shape of a sample.
    n_features_in_ : int
        Size of the first axis of a sample.

    Notes
    -----
    The noise is an exact discrete law on a lattice (Canonne, Kamath and Steinke
    2020), so that there is no floating-point residual. If neither `bounds`,
    `norm_bound` nor `sensitivity` is declared, the range is read off the samples with
    a ``PrivacyLeakWarning``, and the guarantee is void.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith, "Calibrating noise to sensitivity in
       private data analysis", 2006, Proposition 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> X = np.zeros((3, 2, 2))
    >>> mechanism = LaplaceMechanism(epsilon=2.0, bounds=(0, 1)).fit(X)
    >>> mechanism.transform(X).shape
    (3, 2, 2)
    >>> round(mechanism.noise_variance_, 3)  # 2 (4 / 2)^2
    8.0
    >>> mechanism.privacy_guarantee_.epsilon, mechanism.privacy_guarantee_.delta
    (2.0, 0.0)
    """

    noise_variance_: float

    _source = "Dwork, McSherry, Nissim and Smith (2006), Proposition 1"
    _noise_name = "discrete Laplace noise on a public lattice"

    _parameter_constraints: ClassVar = {
        name: constraint
        for name, constraint in NoiseMechanism._parameter_constraints.items()
        if name != "delta"
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        norm_bound: float | None = None,
        sensitivity: float | None = None,
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.norm_bound = norm_bound
        self.sensitivity = sensitivity
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: Any
    ) -> PlannedNoise:
        ends: tuple[Any, Any] = -math.inf, math.inf
        if domain.has_box:
            ends = domain.low, domain.high
        lattice = laplace_lattice(
            *ends, float(self.epsilon), n_cells=domain.n_entries, l1=domain.l1
        )
        variance = lattice.noise_variance
        event = self._event(domain, lattice)
        return AddedNoise(domain, lattice), event, variance, variance * math.prod(shape)

    def _event(self, domain: SensitivitySet, lattice: LaplaceLattice) -> "DpEvent":
        """A composition over the entries where each has its own range."""
        from dp_accounting import dp_event

        from ..privacy.accounting._events import LatticeLaplaceDpEvent, PureDpEvent

        n_steps: Any = lattice.n_steps
        steps, counts = np.unique(n_steps, return_counts=True)
        separate = domain.has_box and domain.norm_bound is None
        if not separate or len(steps) > _MOST_KINDS:
            return PureDpEvent(lattice.epsilon)
        if np.ndim(n_steps) == 0:
            counts = counts * domain.n_entries
        return dp_event.ComposedDpEvent(
            [
                dp_event.SelfComposedDpEvent(
                    LatticeLaplaceDpEvent.of(lattice, step), int(count)
                )
                for step, count in zip(steps, counts, strict=True)
            ]
        )


class GaussianMechanism(NoiseMechanism):
    """Gaussian noise of one variance on every entry, exactly calibrated.

    One call of `transform` is (epsilon, delta)-differentially private for each
    sample: a sample may be replaced by any other in the declared domain.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of a sample at one call of `transform`. ``float("inf")`` clips and adds
        no noise.
    delta : float, default=1e-6
        In (0, 1).
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
    calibration : {"sound", "classic"}, default="sound"
        "sound" is the analytic Gaussian mechanism [1]_, exact. "classic" is
        sqrt(2 ln(1.25 / delta)) s / epsilon [2]_, proved for epsilon <= 1 alone and
        refused above; the guarantee then states the epsilon that really holds, which
        is smaller, beside the one claimed.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the noise in every clone, although
        never in two calls of one object.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Of one call of `transform`.
    noise_variance_ : float
        Variance of the noise in an entry, in squared units of the entries.
    expected_squared_error_ : float
        Expected squared error of a sample, summed over its entries.
    sample_shape_ : tuple of int
        Shape of a sample.
    n_features_in_ : int
        Size of the first axis of a sample.

    Notes
    -----
    Noise is drawn on a lattice, so that low-order bits tell nothing; the sampler's
    distance from ideal noise is part of the guarantee, at the price of about 1e-5 of
    the variance for a thousand entries. If neither `bounds`, `norm_bound` nor
    `sensitivity` is declared, the range is read off the samples with a
    ``PrivacyLeakWarning``, and the guarantee is void.

    References
    ----------
    .. [1] Balle and Wang, "Improving the Gaussian mechanism for differential
       privacy", 2018, Theorem 8.
    .. [2] Dwork and Roth, "The algorithmic foundations of differential privacy",
       2014, Theorem A.1.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import GaussianMechanism
    >>> X = np.zeros((3, 2, 2))
    >>> mechanism = GaussianMechanism(2.0, delta=1e-5, norm_bound=1.0).fit(X)
    >>> mechanism.transform(X).shape
    (3, 2, 2)
    >>> print(mechanism.privacy_guarantee_)
    (epsilon = 2, delta = 1e-05)-differential privacy for one row of X (replace-one).
    One call of transform, for each sample: i.i.d. Gaussian noise on a public lattice,
    after clipping to the declared domain. [Balle and Wang (2018), Theorem 8]
    """

    noise_variance_: float

    _noise_name = "i.i.d. Gaussian noise on a public lattice"

    _parameter_constraints: ClassVar = {
        **NoiseMechanism._parameter_constraints,
        "calibration": [StrOptions({"sound", "classic"})],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        norm_bound: float | None = None,
        sensitivity: float | None = None,
        tensor_shape: tuple[int, ...] | None = None,
        calibration: str = "sound",
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.norm_bound = norm_bound
        self.sensitivity = sensitivity
        self.tensor_shape = tensor_shape
        self.calibration = calibration
        self.random_state = random_state

    @property
    def _source(self) -> str:
        if self.calibration == "classic":
            return "Dwork and Roth (2014), Theorem A.1; the truth by Balle and Wang"
        return "Balle and Wang (2018), Theorem 8"

    def _design(self, shape: tuple[int, ...]) -> None:
        if self.calibration == "classic" and 1 < self.epsilon < math.inf:
            raise ValueError(
                f"calibration='classic' is proved for epsilon <= 1 alone, got epsilon "
                f"= {exact(self.epsilon)}; calibration='sound' is exact for every "
                f"epsilon."
            )

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: Any
    ) -> PlannedNoise:
        epsilon, delta = float(self.epsilon), float(self.delta)
        sound = self.calibration == "sound"
        if sound:
            factor = 1 / gaussian_mu(epsilon, delta)
        else:
            factor = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        noise = diagonal_noise(
            domain, factor * domain.l2, epsilon, delta, rescale=sound
        )
        if not sound:
            # Proved of ideal noise; it may claim less than the sampler's residual.
            largest_within(noise.mu, lambda mu: noise.event, epsilon, delta)
        variance = float(noise.lattice.sigma) ** 2
        return noise.plan, noise.event, variance, variance * domain.n_entries
