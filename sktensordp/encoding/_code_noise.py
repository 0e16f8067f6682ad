"""The mechanisms that release a code in the unit ball, and their guarantees."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from ..mechanisms._gaussian_noise import diagonal_noise
from ..mechanisms._noise import AddedNoise, Clipping, by_tiles
from ..mechanisms._privunit import CalibratedCap, LiftedRelease, calibrated_cap
from ..noise import LaplaceLattice, laplace_lattice
from ..privacy import PrivacyGuarantee, gaussian_mu
from ..privacy._guarantee import no_guarantee
from ..privacy.calibration._sensitivity import SensitivitySet
from ._knorm import KNormLattice, knorm_lattice
from ._linear import code_norms

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

PURE = ("laplace", "l2", "privunit")
# How each mechanism releases a code, and the theorem behind its guarantee.
_MECHANISMS = {
    "laplace": (
        "with discrete Laplace noise on a public lattice",
        "Dwork, McSherry, Nissim and Smith (2006), Proposition 1",
    ),
    "l2": (
        "with K-norm noise on a public lattice",
        "Hardt and Talwar (2010), Theorem 4.3",
    ),
    "gaussian": (
        "with Gaussian noise on a public lattice",
        "Balle and Wang (2018), Theorem 8",
    ),
    "privunit": (
        "with PrivUnit noise",
        "Bhowmick et al. (2018), Theorem 1",
    ),
    "auto": (
        "with Laplace, K-norm or PrivUnit noise, as `fit` chooses",
        "Dwork et al. (2006); Hardt and Talwar (2010); Bhowmick et al. (2018)",
    ),
}

_EPS = float(np.finfo(float).eps)
# Entries of a code are clipped to this, so that no square overflows.
_HUGE = 1e140


@dataclass(frozen=True)
class BallNoise:
    """Moves codes into the unit ball of a norm and adds noise on a lattice.

    Attributes
    ----------
    order : {1, 2}
        Order of the norm.
    lattice : LaplaceLattice or KNormLattice
    """

    order: int
    lattice: LaplaceLattice | KNormLattice

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams
    ) -> NDArray[np.floating]:
        """Noisy codes.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, Z), float64
            Any numbers including infinity, but not NaN.
        streams : NoiseStreams

        Returns
        -------
        noisy : ndarray of shape (n_samples, Z)
        """

        def noisy(
            block: NDArray[np.floating], bits: np.random.BitGenerator, columns: slice
        ) -> NDArray[np.floating]:
            block = np.clip(block, -_HUGE, _HUGE)
            norms = code_norms(block, self.order)
            block /= np.maximum(norms, 1.0)[:, np.newaxis]
            return self.lattice.randomize(block, bits)

        return by_tiles(noisy, samples, streams, whole_samples=True)


@dataclass(frozen=True)
class CodeNoise:
    """A mechanism for codes in the unit ball.

    Attributes
    ----------
    name : str
    randomizer : BallNoise, AddedNoise, LiftedRelease or Clipping
        Its `randomize` clips codes and releases them.
    event : dp_accounting.DpEvent
        Event of the release of one code, for accounting.
    variance : float
        Variance of the noise in an entry, for any code in the ball of radius 1.
    order : {1, 2}
        Order of the norm in which codes are clipped.
    """

    name: str
    randomizer: BallNoise | AddedNoise | LiftedRelease | Clipping
    event: "DpEvent"
    variance: float
    order: int


def code_noise(name: str, n_entries: int, epsilon: float, delta: float) -> CodeNoise:
    """A mechanism for codes in the unit ball that keeps epsilon and delta.

    Parameters
    ----------
    name : {"laplace", "l2", "gaussian", "privunit"}
    n_entries : int
        Z.
    epsilon, delta : float
        Budget of a release; only "gaussian" uses delta.

    Returns
    -------
    noise : CodeNoise

    Raises
    ------
    ValueError
        If the mechanism cannot keep the budget.
    """
    from ..privacy.accounting._events import PureDpEvent

    ball = SensitivitySet(n_entries, norm_bound=1.0)
    if name == "gaussian":
        if not delta > 0:
            raise ValueError("mechanism='gaussian' needs delta > 0; pass `delta`.")
        sigma = ball.l2 / gaussian_mu(epsilon, delta)
        gaussian = diagonal_noise(ball, sigma, epsilon, delta, rescale=True)
        variance = float(gaussian.lattice.sigma) ** 2
        added = AddedNoise(ball, gaussian.lattice)
        return CodeNoise(name, added, gaussian.event, variance, 2)
    if name == "laplace":
        laplace = laplace_lattice(
            -math.inf, math.inf, epsilon, n_cells=n_entries, l1=ball.diameter
        )
        event = PureDpEvent(laplace.epsilon)
        return CodeNoise(name, BallNoise(1, laplace), event, laplace.noise_variance, 1)
    if name == "l2":
        knorm = knorm_lattice(n_entries, epsilon)
        event = PureDpEvent(knorm.epsilon)
        return CodeNoise(name, BallNoise(2, knorm), event, knorm.variance, 2)
    cap = _largest_cap(n_entries + 1, epsilon)
    event = PureDpEvent(cap.epsilon)
    lifted = LiftedRelease(ball, 0.0, 1.0, cap)
    return CodeNoise(name, lifted, event, cap.design.variance, 2)


def _largest_cap(dimension: int, epsilon: float) -> CalibratedCap:
    """PrivUnit with the largest epsilon that it can spend, at most `epsilon`.

    In few dimensions PrivUnit cannot spend a very large epsilon.
    """
    while True:
        try:
            return calibrated_cap(dimension, epsilon)
        except ValueError:
            if epsilon < 1:
                raise
        epsilon *= 0.8


def no_noise(n_entries: int, *, clipped: bool) -> CodeNoise:
    """For epsilon = inf: codes without noise, clipped to the unit ball or unchanged."""
    from dp_accounting import dp_event

    domain = SensitivitySet(n_entries, norm_bound=1.0 if clipped else None)
    event = dp_event.NonPrivateDpEvent()
    return CodeNoise("none", Clipping(domain), event, 0.0, 2)


def code_guarantee(
    mechanism: str, event: "DpEvent", *, epsilon: float, delta: float
) -> PrivacyGuarantee:
    """Guarantee of one call of `transform` or `privatize`.

    Parameters
    ----------
    mechanism : str
        The mechanism; "auto" before `fit` has chosen it.
    event : dp_accounting.DpEvent
        Event of the release of one code.
    epsilon, delta : float
        The requested budget.

    Returns
    -------
    guarantee : PrivacyGuarantee
    """
    call = "One call of transform or privatize releases, for each sample"
    if math.isinf(epsilon):
        return no_guarantee(f"{call}, its code without noise.")
    release, source = _MECHANISMS[mechanism]
    return PrivacyGuarantee(
        epsilon=epsilon,
        delta=delta if mechanism == "gaussian" else 0.0,
        event=event,
        unit="sample",
        statement=f"{call}, a noisy code. The sample may hold any numbers: its code is "
        f"moved into a ball or onto a sphere fixed in fit, and released {release}. "
        f"Every call spends again.",
        source=source,
        local=True,
    )
