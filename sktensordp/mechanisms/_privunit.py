"""PrivUnit: releases one random direction for each whole sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from .._random import NoiseStreams
from ..noise._cap import CapSampler
from ..privacy.calibration._privunit import (
    PrivUnitDesign,
    cap_log_odds,
    privunit_design,
)
from ..privacy.calibration._sensitivity import SensitivitySet
from ._base import NoiseMechanism, PlannedNoise
from ._docs import with_shared_text
from ._noise import by_tiles

# The sampler aims at caps of less mass than this; for larger ones, rejection is
# cheaper.
_SMALL = 1 / 8
_FINENESS = range(8, 41)
# Bound on the relative errors of the masses, the weight and the acceptance
# probabilities.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class CalibratedCap:
    """PrivUnit on the sphere, with a sampler whose residual fits into the budget.

    Attributes
    ----------
    design : PrivUnitDesign
        Its epsilon is the budget less the residual.
    sampler : CapSampler
    residual : float
        Pure epsilon that the sampler adds to that of the design.
    """

    design: PrivUnitDesign
    sampler: CapSampler
    residual: float

    @property
    def epsilon(self) -> float:
        """Pure epsilon of a release."""
        return self.design.epsilon + self.residual

    def estimates(
        self, units: NDArray[np.float64], bits: np.random.BitGenerator
    ) -> NDArray[np.float64]:
        """Unbiased estimates of unit vectors.

        Parameters
        ----------
        units : ndarray of shape (n, D)
            Unit vectors, up to some D roundoffs. Must not be NaN.
        bits : bit generator
            Yields 64-bit words.

        Returns
        -------
        estimates : ndarray of shape (n, D)
            With covariance `design.variance` times the identity.
        """
        points = self.sampler.draw(units, bits)
        lengths = np.sqrt(np.square(points).sum(axis=1, keepdims=True))
        points /= lengths * self.design.scale
        return points


def calibrated_cap(dimension: int, epsilon: float) -> CalibratedCap:
    """PrivUnit on the unit sphere of R^`dimension`, with a pure budget `epsilon`.

    Parameters
    ----------
    dimension : int
        At least 2.
    epsilon : float
        Finite, at least 1e-100.

    Returns
    -------
    calibrated : CalibratedCap
        Its epsilon is at most `epsilon`.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the sampler's residual would take more
        than half of `epsilon`.
    """
    nominal = epsilon
    while nominal >= epsilon / 2:
        design = privunit_design(dimension, nominal)
        aimed = design.log_mass < math.log(_SMALL)
        # Rounding up the weight of the complement never raises the odds of the cap.
        complement = math.ceil(float(expit(-design.log_odds)) * 2**62)
        weight = 2**62 - max(1, complement)
        cap = (dimension, design.cosine, design.gap, weight)
        samplers = [CapSampler(*cap, fineness, aimed) for fineness in _FINENESS]
        residual, sampler = min(
            ((_residual(sampler), sampler) for sampler in samplers),
            key=lambda pair: pair[0],
        )
        if nominal + residual <= epsilon:
            return CalibratedCap(design, sampler, residual)
        nominal = min(epsilon - residual, math.nextafter(nominal, 0))
    raise ValueError(
        f"epsilon = {epsilon} cannot be honoured on the sphere of R^{dimension}: the "
        f"sampler's error would take more than half of it."
    )


def _residual(sampler: CapSampler) -> float:
    """Bound on the pure epsilon beyond that of the design; see doc/privunit.md."""
    dimension = sampler.dimension
    masses = cap_log_odds(dimension, *sampler.outer)
    masses -= cap_log_odds(dimension, *sampler.inner)
    return sampler.residual + masses + _ROUNDING


@dataclass(frozen=True)
class LiftedRelease:
    """Clips samples, lifts them to a sphere, releases by PrivUnit and maps back.

    Attributes
    ----------
    domain : SensitivitySet
    centre : float or ndarray of shape (n_entries,)
    radius : float
        Radius of a ball around the centre that contains the domain.
    cap : CalibratedCap
        Its dimension is n_entries + 1.
    """

    domain: SensitivitySet
    centre: float | np.ndarray
    radius: float
    cap: CalibratedCap

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams
    ) -> NDArray[np.floating]:
        """Unbiased estimates of the clipped samples.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_entries), float32 or float64
        streams : NoiseStreams

        Returns
        -------
        estimates : ndarray of the shape and type of `samples`
        """

        def estimated(
            block: NDArray[np.float64], bits: np.random.BitGenerator, columns: slice
        ) -> NDArray[np.float64]:
            noisy = self.cap.estimates(self._lifted(block), bits)[:, :-1]
            noisy *= self.radius
            noisy += self.centre
            return noisy

        return by_tiles(
            estimated, samples, streams, domain=self.domain, whole_samples=True
        )

    def _lifted(self, block: NDArray[np.float64]) -> NDArray[np.float64]:
        """Unit vectors whose first entries are (x - centre) / radius."""
        units = np.empty((len(block), block.shape[1] + 1))
        inner = np.subtract(block, self.centre, out=units[:, :-1])
        inner /= self.radius
        length = np.sqrt(np.square(inner).sum(axis=1))
        inner /= np.maximum(length, 1.0)[:, np.newaxis]
        length = np.minimum(length, 1.0)
        units[:, -1] = np.sqrt((1 - length) * (1 + length))
        units /= np.sqrt(np.square(units).sum(axis=1, keepdims=True))
        return units


@with_shared_text
class PrivUnit(NoiseMechanism):
    """Releases a random direction near each sample's: optimal for pure local privacy.

    One call of `transform` is epsilon-differentially private for each sample: a sample
    may be replaced by any other in the domain declared by `bounds` or `norm_bound`. A
    single released tensor is far from its sample: average many, since the error of the
    mean falls with their number.

    Parameters
    ----------
    $epsilon
    $bounds
    $norm_bound
    $tensor_shape
    $random_state

    Attributes
    ----------
    $privacy_guarantee
    noise_variance_ : float
        Variance of the error in an entry, in squared units of the entries.
    $expected_squared_error
    $shapes

    Notes
    -----
    The released tensor is an unbiased estimate of the clipped sample. The variance of
    its error is the same in every entry and for every sample.

    Let a sample x have d entries in the ball of radius R around c. It is lifted to the
    unit vector u = ((x - c) / R, sqrt(1 - r^2)) of R^(d + 1), where r is the norm of
    (x - c) / R. For `bounds` the ball is the one around the box; with `norm_bound` as
    well, the smaller of the two. A vector v is drawn uniformly from the cap
    <u, v> >= g with probability p, and from its complement otherwise. Its expectation
    is m u, and the release is c + R v / m without the last entry. The variance of the
    release is R^2 (1 / m^2 - 1) / (d + 1); g is chosen to minimise it, and then g = m.

    The sampler draws a point of a public lattice and takes its direction as v. The
    probabilities of the points are those of PrivUnit up to a factor e^+-t, and t is
    subtracted from epsilon; it is about 1e-3 for a thousand entries. In few
    dimensions, `fit` may refuse an epsilon beyond some 45, because the cap is then too
    narrow for the sampler. The running time of a call depends on the noise.
    ``doc/privunit.md`` has the proof.

    If you pass neither `bounds` nor `norm_bound`, the range is read off the samples
    with a ``PrivacyLeakWarning``, and the guarantee is void.

    References
    ----------
    .. [1] Bhowmick, Duchi, Freudiger, Kapoor and Rogers, "Protection against
       reconstruction and its applications in private federated learning", 2018,
       Algorithm 1, Theorem 1 and Lemma 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import PrivUnit
    >>> X = np.zeros((3, 2, 2))
    >>> mechanism = PrivUnit(2.0, bounds=(-1, 1)).fit(X)
    >>> mechanism.transform(X).shape
    (3, 2, 2)
    >>> print(mechanism.privacy_guarantee_)
    Each call of transform: (epsilon = 2, delta = 0)-differential privacy for one row of
    X (replace-one).
    """

    noise_variance_: float

    _source = "Bhowmick et al. (2018), Theorem 1"
    _noise_name = "PrivUnit noise"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        norm_bound: float | None = None,
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.norm_bound = norm_bound
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: object
    ) -> PlannedNoise:
        from ..privacy.accounting._events import PureDpEvent

        cap = calibrated_cap(domain.n_entries + 1, float(self.epsilon))
        centre, radius = _ball(domain)
        randomizer = LiftedRelease(domain, centre, radius, cap)
        variance = cap.design.variance * radius**2
        event = PureDpEvent(cap.epsilon)
        return randomizer, event, variance, variance * domain.n_entries


def _ball(domain: SensitivitySet) -> tuple[Any, float]:
    """Centre and radius of a ball that contains the domain."""
    radius = math.inf if domain.norm_bound is None else domain.norm_bound
    if domain.has_box:
        halves = domain.widths / 2
        box_radius = float(halves.max())
        box_radius *= float(np.linalg.norm(halves / box_radius))
        if box_radius < radius:
            return domain.low + domain.width / 2, box_radius
    return 0.0, radius
