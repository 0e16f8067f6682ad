"""Independent noise of one scale in every entry: Laplace and Gaussian."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._sklearn_compat import StrOptions
from ..noise import LaplaceLattice, laplace_lattice
from ..privacy import gaussian_mu
from ..privacy._numbers import exact
from ..privacy.calibration._sensitivity import SensitivitySet
from ._base import NoiseMechanism, PlannedNoise
from ._docs import with_shared_text
from ._gaussian_noise import diagonal_noise, largest_within
from ._intervals import AddsKnownNoise
from ._noise import AddedNoise

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# With more different ranges than this, the event is the total epsilon alone.
_MOST_RANGES = 32


@with_shared_text
class LaplaceMechanism(AddsKnownNoise, NoiseMechanism):
    """Laplace noise of the same scale on every entry, for pure differential privacy.

    One call of `transform` is epsilon-differentially private for each sample: a
    sample may be replaced by any other in the domain declared by `bounds` or
    `norm_bound`. The scale of the noise is the L1 sensitivity of the domain divided by
    epsilon.

    Parameters
    ----------
    $epsilon
    $bounds
    $norm_bound
    sensitivity : float, default=None
        L1 sensitivity of the query, if each sample is the answer to a query. You vouch
        for it: samples are not clipped, except for values some 1e9 times as large as
        the noise.
    $tensor_shape
    $random_state

    Attributes
    ----------
    $privacy_guarantee
    $noise_variance
    $expected_squared_error
    $shapes

    Notes
    -----
    The noise is drawn exactly from a discrete distribution on a lattice (Canonne,
    Kamath and Steinke 2020), so that no floating-point error weakens the guarantee. If
    you pass neither `bounds`, `norm_bound` nor `sensitivity`, the range is read off the
    samples with a ``PrivacyLeakWarning``, and the guarantee is void.

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
        self, shape: tuple[int, ...], domain: SensitivitySet, design: object
    ) -> PlannedNoise:
        lattice = laplace_lattice(
            *domain.ends, float(self.epsilon), n_cells=domain.n_entries, l1=domain.l1
        )
        variance = lattice.noise_variance
        event = self._event(domain, lattice)
        return AddedNoise(domain, lattice), event, variance, variance * math.prod(shape)

    def _event(self, domain: SensitivitySet, lattice: LaplaceLattice) -> DpEvent:
        """Event of one sample: for a box, a composition over its entries."""
        from dp_accounting import dp_event

        from ..privacy.accounting._events import LatticeLaplaceDpEvent, PureDpEvent

        n_steps = np.asarray(lattice.n_steps)
        steps, counts = np.unique(n_steps, return_counts=True)
        separate = domain.has_box and domain.norm_bound is None
        if not separate or len(steps) > _MOST_RANGES:
            return PureDpEvent(lattice.epsilon)
        if n_steps.ndim == 0:
            counts = counts * domain.n_entries
        return dp_event.ComposedDpEvent(
            [
                dp_event.SelfComposedDpEvent(
                    LatticeLaplaceDpEvent.from_lattice(lattice, step), int(count)
                )
                for step, count in zip(steps, counts, strict=True)
            ]
        )


@with_shared_text
class GaussianMechanism(AddsKnownNoise, NoiseMechanism):
    """Gaussian noise of the same variance on every entry, exactly calibrated.

    One call of `transform` is (epsilon, delta)-differentially private for each
    sample: a sample may be replaced by any other in the domain declared by `bounds` or
    `norm_bound`.

    Parameters
    ----------
    $epsilon
    $delta
    $bounds
    $norm_bound
    $sensitivity
    $tensor_shape
    calibration : {"sound", "classic"}, default="sound"
        "sound" is the analytic Gaussian mechanism [1]_, which is exact. "classic" takes
        the standard deviation sqrt(2 ln(1.25 / delta)) s / epsilon [2]_ for the
        sensitivity s. It is proved only for epsilon <= 1, and refused above that. The
        guarantee then states the true epsilon, which is smaller, beside the claimed
        one.
    $random_state

    Attributes
    ----------
    $privacy_guarantee
    $noise_variance
    $expected_squared_error
    $shapes

    Notes
    -----
    Noise is drawn on a lattice, so that low-order bits reveal nothing. The guarantee
    covers the sampler's distance from ideal noise, which costs about 1e-5 of the
    variance for a thousand entries. If you pass neither `bounds`, `norm_bound` nor
    `sensitivity`, the range is read off the samples with a ``PrivacyLeakWarning``, and
    the guarantee is void.

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
    Each call of transform: (epsilon = 2, delta = 1e-05)-differential privacy for one
    row of X (replace-one).
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
            return (
                "Dwork and Roth (2014), Theorem A.1; true epsilon from Balle and Wang"
            )
        return "Balle and Wang (2018), Theorem 8"

    @property
    def _claimed(self) -> tuple[float, float] | None:
        if self.calibration == "classic":
            return float(self.epsilon), float(self.delta)
        return None

    def _design(self, shape: tuple[int, ...]) -> None:
        if self.calibration == "classic" and 1 < self.epsilon < math.inf:
            raise ValueError(
                f"calibration='classic' is proved only for epsilon <= 1, got epsilon "
                f"= {exact(self.epsilon)}. Pass calibration='sound', which is exact "
                f"for every epsilon."
            )

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: object
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
            # The proof is for ideal noise; raise if the residual breaks the claim.
            largest_within(noise.mu, lambda mu: noise.event, epsilon, delta)
        variance = float(noise.lattice.sigma) ** 2
        return noise.randomizer, noise.event, variance, variance * domain.n_entries
