"""Gaussian noise on a lattice that keeps (epsilon, delta), sampler included.

We start from standard deviations that suffice for ideal noise, and choose the lattice
for them. Its step is then fixed, and the noise is enlarged to pay for the rounding of
the values, the floating-point errors of whitening, and the residual of the sampler.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..noise import GaussianLattice, gaussian_lattice
from ..noise._lattice import largest_residual
from ..privacy import gaussian_mu
from ..privacy._numbers import check_number, shown
from ..privacy.accounting._gaussian import gaussian_epsilon
from ..privacy.budgets._open import contents
from ..privacy.calibration._gaussian import box_mu, diagonal_bound
from ..privacy.calibration._sensitivity import SensitivitySet
from ._noise import AddedNoise, WhitenedNoise

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_EPS = float(np.finfo(float).eps)
# Number of entries of the longest samples that a search is assumed to plan, unless it
# has met longer ones.
_MOST_ENTRIES = 2**20
# Rounds mu up by more than the errors of the sums that compute it.
_ROUNDED_UP = 1 + 1e-12


@dataclass(frozen=True)
class GaussianNoise:
    """A randomizer of samples, and its guarantee.

    Attributes
    ----------
    randomizer : AddedNoise or WhitenedNoise
    mu : float
        Mu of the ideal noise.
    lattice : GaussianLattice
        Its residual adds to the privacy loss of the ideal noise.
    scale : float
        Factor by which the noise was enlarged.
    """

    randomizer: AddedNoise | WhitenedNoise
    mu: float
    lattice: GaussianLattice
    scale: float

    @property
    def event(self) -> "DpEvent":
        """Event of one release of a sample."""
        return gaussian_event(self.mu, self.lattice)


def ideal_budget(
    epsilon: float, delta: float, residual_epsilon: float, residual_delta: float
) -> tuple[float, float]:
    """Epsilon and delta that a sampler's residual leaves for the ideal distribution.

    Raises
    ------
    ValueError
        If nothing is left.
    """
    e1, d1 = residual_epsilon, residual_delta
    ideal_delta = (delta - d1 * (1 + math.exp(epsilon - e1))) * math.exp(-e1)
    if epsilon <= 2 * e1 or ideal_delta <= 0:
        raise ValueError(
            f"epsilon = {epsilon} and delta = {delta} are too small for the sampler "
            f"at this number of entries: its residual alone is {shown(2 * e1)}."
        )
    return epsilon - 2 * e1, ideal_delta


def gaussian_event(mu: float, lattice: GaussianLattice) -> "DpEvent":
    """What one release with Gaussian noise on a lattice reveals.

    The noise that a computer draws is not exactly Gaussian. The event counts ideal
    noise, and the residual by which the sampler of the lattice differs from it.

    Parameters
    ----------
    mu : float
        Largest Euclidean distance, in standard deviations of the noise, between what
        two neighbouring inputs put on the lattice, before noise is added. Where every
        value has a range, its ends are points of the lattice, and rounding adds
        nothing; without ranges it does, see `GaussianLattice.l2_sensitivity`.
    lattice : GaussianLattice
        From which all noise of the release is drawn, once. A release that draws twice
        is a composition of two such events.

    Returns
    -------
    event : dp_accounting.DpEvent
        For `PrivacyGuarantee.from_event`, or for `NoiseMechanism`.

    Raises
    ------
    ValueError
        If `mu` is not positive and finite.
    TypeError
        If `lattice` is not a `GaussianLattice`.

    See Also
    --------
    sktensordp.privacy.SamplerResidualDpEvent : The residual of a sampler of your own.

    Examples
    --------
    >>> from sktensordp.mechanisms import gaussian_event
    >>> from sktensordp.noise import gaussian_lattice
    >>> from sktensordp.privacy import PrivacyGuarantee
    >>> lattice = gaussian_lattice(2.0, 3, 1.0, 1e-6)
    >>> mu = lattice.l2_sensitivity(1.0, 3) / lattice.sigma
    >>> guarantee = PrivacyGuarantee.from_event(
    ...     gaussian_event(mu, lattice), delta=1e-6, unit="sample",
    ...     statement="Gaussian noise on three sums of norm 1.",
    ...     source="Balle and Wang (2018), Theorem 8")
    >>> round(guarantee.epsilon, 3)
    2.254
    """
    from dp_accounting import dp_event

    from ..privacy.accounting._events import SamplerResidualDpEvent

    check_number(mu, "mu")
    if not 0 < mu < math.inf:
        raise ValueError(f"mu must be positive and finite, got {mu}.")
    if not isinstance(lattice, GaussianLattice):
        raise TypeError(
            f"lattice must be a GaussianLattice, whose sampler has a residual to "
            f"count; got {type(lattice).__name__}."
        )
    noise = dp_event.GaussianDpEvent(noise_multiplier=1 / mu)
    residual = SamplerResidualDpEvent(lattice.residual_epsilon, lattice.residual_delta)
    return dp_event.ComposedDpEvent([noise, residual])


def check_residual(event: "DpEvent", randomizer: object) -> None:
    """Refuse an event without the residual of the lattices that a randomizer holds.

    Their deltas are not compared: they are below e^-399, and other proofs may cover
    them in another way.

    Raises
    ------
    ValueError
        If it counts a smaller epsilon than they have together.
    """
    from ..privacy.accounting._curves import compositions_of

    lattices = [x for x in contents(randomizer) if isinstance(x, GaussianLattice)]
    if not lattices:
        return
    needed = math.fsum(lattice.residual_epsilon for lattice in lattices)
    counted = (one.residual_epsilon for one in compositions_of(event) if one.private)
    if any(epsilon * (1 + _EPS) < needed for epsilon in counted):
        raise ValueError(
            "The event does not count the residual of the sampler: the noise of a "
            "GaussianLattice is not exactly Gaussian. Use gaussian_event(mu, lattice)."
        )


def event_for_any_length(
    event: "DpEvent", epsilon: float, delta: float, n_entries: int
) -> tuple["DpEvent", int] | None:
    """Event that covers one Gaussian mechanism for samples of many lengths.

    All keep (epsilon, delta), so none has a larger mu than ideal noise. The residual is
    that of the longest samples. Independent noise in a box has a standard deviation of
    at most sqrt(n) / mu widths, which bounds the steps in it.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        For samples with `n_entries`.
    epsilon, delta : float
        What the mechanism keeps for every length.
    n_entries : int

    Returns
    -------
    (event, most) : tuple or None
        An event for samples with up to `most` entries. None if `event` is not that of
        Gaussian noise, or if the budget is so small that the bound would be useless.
    """
    from dp_accounting import dp_event

    from ..privacy.accounting._events import SamplerResidualDpEvent

    kinds = [dp_event.GaussianDpEvent, SamplerResidualDpEvent]
    if [type(inner) for inner in getattr(event, "events", ())] != kinds:
        return None
    residual = event.events[1]
    most = max(_MOST_ENTRIES, n_entries)
    largest = max(largest_residual(most, residual.delta), residual.epsilon)
    mu = gaussian_mu(epsilon, delta) * _ROUNDED_UP
    # Noise of up to 2^21 widths, which may still be enlarged, is less than 2^23 steps.
    if largest > epsilon / 4 or math.sqrt(most) > 2.0**21 * mu:
        return None
    noise = dp_event.GaussianDpEvent(noise_multiplier=1 / mu)
    from_ideal = SamplerResidualDpEvent(largest, residual.delta * _ROUNDED_UP)
    return dp_event.ComposedDpEvent([noise, from_ideal]), most


def largest_within(
    value: float, event_of: Callable[[float], "DpEvent"], epsilon: float, delta: float
) -> float:
    """`value`, reduced a little if needed for its event to keep (epsilon, delta).

    Parameters
    ----------
    value : float
        Keeps (epsilon, delta) up to rounding errors.
    event_of : callable
        Maps a value to its event.
    epsilon, delta : float

    Returns
    -------
    value : float

    Raises
    ------
    ValueError
        If no value keeps it, down to a tenth less.
    """
    from ..privacy.accounting._curves import event_epsilon

    for shortfall in (0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.1):
        reduced = value * (1 - shortfall)
        if event_epsilon(event_of(reduced), delta) <= epsilon:
            return reduced
    raise ValueError(
        f"epsilon = {epsilon} and delta = {delta} are too small for the sampler at "
        f"this number of entries."
    )


def mu_within(epsilon: float, delta: float, lattice: GaussianLattice) -> float:
    """Largest mu of ideal noise that keeps the budget with the sampler's residual."""
    residual = lattice.residual_epsilon, lattice.residual_delta
    mu = gaussian_mu(*ideal_budget(epsilon, delta, *residual))
    mu = largest_within(mu, lambda m: gaussian_event(m, lattice), epsilon, delta)
    return mu / _ROUNDED_UP**2


def within_budget(
    lattice: GaussianLattice, mu: float, epsilon: float, delta: float
) -> tuple[GaussianLattice, float]:
    """Scale the noise on a lattice to keep (epsilon, delta), sampler included.

    Parameters
    ----------
    lattice : GaussianLattice
    mu : float
        Mu of its noise. Noise that is `scale` times as large has mu / scale at most.
    epsilon, delta : float

    Returns
    -------
    lattice : GaussianLattice
        The same lattice, with scaled noise.
    scale : float
        Factor on the noise.
    """
    nominal = lattice
    while True:
        scale = mu / mu_within(epsilon, delta, lattice)
        scaled = nominal.scaled(scale)
        if scaled.residual_epsilon <= lattice.residual_epsilon:
            return scaled, scale
        # On a fixed lattice, larger noise has a larger residual: account for it.
        lattice = scaled


def diagonal_noise(
    domain: SensitivitySet,
    sigma: float | NDArray[np.float64],
    epsilon: float,
    delta: float,
    *,
    rescale: bool,
) -> GaussianNoise:
    """Independent noise with standard deviations `sigma`.

    Parameters
    ----------
    domain : SensitivitySet
    sigma : float or ndarray of shape (n_entries,)
        Positive.
    epsilon, delta : float
        The budget.
    rescale : bool
        Whether to scale `sigma` to spend the budget exactly. Otherwise `sigma` is
        used unchanged, and `epsilon` is an upper bound on what it spends.

    Returns
    -------
    noise : GaussianNoise
    """
    low, width = (domain.low, domain.width) if domain.has_box else (None, None)
    if not rescale:
        epsilon = _true_epsilon(_diagonal_mu(domain, sigma, 0.0), epsilon, delta)
    lattice = gaussian_lattice(sigma, domain.n_entries, epsilon, delta, low, width)
    mu, scale = _diagonal_mu(domain, lattice.sigma, lattice.step), 1.0
    if rescale:
        lattice, scale = within_budget(lattice, mu, epsilon, delta)
        mu = _diagonal_mu(domain, lattice.sigma, lattice.step)
    return GaussianNoise(AddedNoise(domain, lattice), mu, lattice, scale)


def _true_epsilon(mu: float, epsilon: float, delta: float) -> float:
    """Roughly the epsilon that noise really keeps; its lattice is chosen for it."""
    return min(epsilon, max(gaussian_epsilon(mu, delta), 1e-3))


def _diagonal_mu(
    domain: SensitivitySet,
    sigma: float | NDArray[np.float64],
    step: float | NDArray[np.float64],
) -> float:
    """Mu of noise on a lattice, with the rounding of the values to the lattice."""
    n = domain.n_entries
    repeats = n if np.ndim(step) == 0 else 1
    diameter = domain.diameter + math.sqrt(np.sum(np.square(step)) * repeats)
    if not domain.has_box:
        # Distance of the values, and of their rounding errors, in units of sigma.
        repeats = n if np.ndim(step) == np.ndim(sigma) == 0 else 1
        rounding = math.sqrt(np.sum(np.square(step / sigma)) * repeats)
        return (domain.diameter / float(np.min(sigma)) + rounding) * _ROUNDED_UP
    if np.ndim(domain.width) == np.ndim(sigma) == 0:
        return min(domain.width * math.sqrt(n), diameter) / sigma * _ROUNDED_UP
    sigma = np.broadcast_to(sigma, (n,))
    return box_mu(domain.widths, sigma, diameter) * _ROUNDED_UP


def rotated_noise(
    domain: SensitivitySet,
    shape: tuple[int, ...],
    directions: Sequence[NDArray[np.float64] | None],
    sigmas: Sequence[NDArray[np.float64]],
    epsilon: float,
    delta: float,
    *,
    rescale: bool,
) -> GaussianNoise:
    """Noise N x_1 U_1 ... x_N U_N with U_k = W_k diag(sigma_k).

    Parameters
    ----------
    domain : SensitivitySet
    shape : tuple of int
        Shape of a sample.
    directions : list of (ndarray of shape (I_k, I_k) or None)
        Orthogonal W_k; None is the identity.
    sigmas : list of ndarray of shape (I_k,)
        Positive.
    epsilon, delta, rescale
        As in `diagonal_noise`.

    Returns
    -------
    noise : GaussianNoise
    """
    whitening, colouring = [], []
    for w, s in zip(directions, sigmas, strict=True):
        whitening.append(1 / s if w is None else (w / s).T)
        colouring.append(s if w is None else w * s)
    mu = _rotated_mu(domain, shape, directions, sigmas)
    return whitened_noise(
        domain, shape, whitening, colouring, mu, epsilon, delta, rescale=rescale
    )


def whitened_noise(
    domain: SensitivitySet,
    shape: tuple[int, ...],
    whitening: Sequence[NDArray[np.float64]],
    colouring: Sequence[NDArray[np.float64]],
    mu: float,
    epsilon: float,
    delta: float,
    *,
    rescale: bool,
) -> GaussianNoise:
    """Noise of unit variance on whitened samples.

    Parameters
    ----------
    domain : SensitivitySet
    shape : tuple of int
        Shape of a sample.
    whitening, colouring : list of ndarray
        For each mode, the matrix applied before and after the noise; a vector stands
        for a diagonal matrix.
    mu : float
        Largest norm of a whitened difference of two samples.
    epsilon, delta : float
        The budget.
    rescale : bool
        Whether to scale the noise to spend the budget exactly.

    Returns
    -------
    noise : GaussianNoise
    """
    n = domain.n_entries
    if not rescale:
        epsilon = _true_epsilon(mu, epsilon, delta)
    lattice = gaussian_lattice(1.0, n, epsilon, delta)
    scale, target = 1.0, mu
    if rescale:
        target = mu_within(epsilon, delta, lattice)
        scale = mu / target
    centre, largest = domain.centre, math.inf
    if domain.has_box:
        largest = float(np.max(domain.width)) / 2 * (1 + 4 * _EPS)
    if domain.norm_bound is not None:
        reach = domain.norm_bound + float(np.max(np.abs(centre)))
        largest = min(largest, reach * (1 + (n + 8) * _EPS))
    error = _product_error(whitening, n) / scale
    if math.isinf(largest):
        # This bound on the entries is far beyond any real value, and lets the errors
        # grow to a five-hundredth of mu, which costs little.
        largest = 0.001 * target / error
    # Rounding of the whitened values to the lattice, and of the products before.
    extra = float(lattice.step) * math.sqrt(n) + 2 * error * largest
    if rescale:
        if extra >= target / 2:
            raise ValueError(
                "Correlated noise cannot be computed safely here: the noise is too "
                "small beside the range of the values, or there are too many entries. "
                "Pass a smaller epsilon."
            )
        scale *= target / (target - extra)
    whitening = (whitening[0] / scale, *whitening[1:])
    colouring = (colouring[0] * scale, *colouring[1:])
    randomizer = WhitenedNoise(
        domain, lattice, shape, whitening, colouring, centre, largest
    )
    return GaussianNoise(randomizer, (mu / scale + extra) * _ROUNDED_UP, lattice, scale)


def _product_error(matrices: Sequence[NDArray[np.float64]], n_entries: int) -> float:
    """Bound on the Euclidean error of the mode products of a sample in [-1, 1].

    A product of n terms errs by at most n u |M| |x|, where u is half the machine
    epsilon; see Higham (2002), Section 3.5.
    """
    terms, growth = 0, 1.0
    for matrix in matrices:
        size = np.abs(matrix)
        terms += 3 if size.ndim == 1 else size.shape[1] + 2
        if size.ndim == 1:
            growth *= size.max()
        else:
            # The spectral norm is at most the geometric mean of the largest row sum
            # and the largest column sum.
            growth *= math.sqrt(size.sum(axis=1).max() * size.sum(axis=0).max())
    return terms * _EPS / 2 * 1.01 * growth * math.sqrt(n_entries)


def _rotated_mu(
    domain: SensitivitySet,
    shape: tuple[int, ...],
    directions: Sequence[NDArray[np.float64] | None],
    sigmas: Sequence[NDArray[np.float64]],
) -> float:
    """Bound on mu: by spectral norms for a ball, by diagonals for a box."""
    bounds = []
    if math.isfinite(domain.diameter):
        spectral = math.prod(1 / float(s.min()) for s in sigmas)
        bounds.append(domain.diameter * spectral)
    if domain.has_box:
        squares = np.square(domain.widths).reshape(shape)
        total = squares
        for k, (w, s) in enumerate(zip(directions, sigmas, strict=True)):
            diagonal = s**-2.0
            if w is not None:
                other_modes = tuple(j for j in range(len(shape)) if j != k)
                inverse = (w / s**2) @ w.T
                diagonal = diagonal_bound(inverse, squares.mean(axis=other_modes))
            total = np.tensordot(total, diagonal, axes=(0, 0))
        bounds.append(math.sqrt(float(total)))
    return min(bounds)
