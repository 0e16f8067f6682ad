"""Yuan, Tang, Huang and Wang (2025): local differential privacy for tensors (TLDP).

Their Theorem 1 divides the probability of keeping an entry by a density. But an output
that equals the input exactly can come from no other input, so no pure epsilon holds.
For large tensors, hardly any entry is kept: what remains is noise with a budget of
epsilon for every entry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from .._random import NoiseStreams
from .._sklearn_compat import StrOptions
from .._validation import warn
from ..exceptions import UnsoundClaimWarning
from ..mechanisms import TensorRandomizedResponse
from ..mechanisms._docs import with_shared_text
from ..mechanisms._noise import by_tiles
from ..mechanisms._randomized_response import kinds_of
from ..noise import (
    GaussianLattice,
    LaplaceLattice,
    bernoulli,
    gaussian_lattice,
    laplace_lattice,
)
from ..noise._lattice import columns_of
from ..privacy._numbers import exact, shown
from ..privacy.calibration._sensitivity import SensitivitySet

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# Denominator of the probability of keeping.
_TOTAL = 2**60
# For small budgets, a Gaussian lattice clips its noise where e^-400 of the mass is
# left.
_LOG_TAIL = 400.0
_LEAST_REVEALED = 1e-300


@dataclass(frozen=True, eq=False)
class _Response:
    """Keeps entries as they are, or adds continuous noise to them.

    Attributes
    ----------
    domain : SensitivitySet
    lattice : LaplaceLattice or GaussianLattice
    keeps : ndarray of shape (n_kinds,)
        Probability of keeping an entry of each kind.
    kinds : ndarray of shape (n_entries,) or None
        The kind of each entry; None if there is one kind.
    n_levels : int or None
        Number of levels to which values are rounded first; None does not round.
    scale : float
        Scale of the noise, in units of the entries.
    """

    domain: SensitivitySet
    lattice: LaplaceLattice | GaussianLattice
    keeps: np.ndarray
    kinds: np.ndarray | None
    n_levels: int | None
    scale: float

    @property
    def keep(self) -> float:
        """Probability of keeping an entry of least weight."""
        return float(self.keeps.max())

    @property
    def _entry_keeps(self) -> Any:
        """Probability of keeping each entry."""
        return self.keeps[0] if self.kinds is None else self.keeps[self.kinds]

    @property
    def noise_variance(self) -> Any:
        """Variance of each entry."""
        if isinstance(self.lattice, LaplaceLattice):
            variance: float | np.ndarray = self.lattice.noise_variance
        else:
            variance = self.lattice.sigma**2
        return variance * (1 - self._entry_keeps)

    @property
    def expected_squared_error(self) -> float:
        """Expected squared error of a sample, without that of rounding to levels."""
        entries = np.broadcast_to(self.noise_variance, self.domain.n_entries)
        return float(entries.sum())

    def variance(self, samples: NDArray[np.floating]) -> NDArray[np.float64]:
        """Variance of every released entry."""
        return np.broadcast_to(self.noise_variance, samples.shape).copy()

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams
    ) -> NDArray[np.floating]:
        """Released samples, of the shape and type of `samples`."""
        thresholds = np.floor(self._entry_keeps * _TOTAL).astype(np.int64)

        def respond(
            block: NDArray[np.floating], bits: np.random.BitGenerator, columns: slice
        ) -> NDArray[np.float64]:
            if self.n_levels is not None:
                step = self.domain.width / (self.n_levels - 1)
                low, _ = self.domain.ends
                block = low + np.rint((block - low) / step) * step
            numerators = columns_of(thresholds, columns)
            kept = bernoulli(bits, numerators, _TOTAL, block.shape)
            noisy = self.lattice.randomize(block, bits, columns)
            return np.where(kept, block, noisy)

        return by_tiles(respond, samples, streams, domain=self.domain)


@with_shared_text
class PublishedTensorRandomizedResponse(TensorRandomizedResponse):
    """Algorithms 1 and 2 of TLDP: each entry is kept, or receives continuous noise.

    The claim of [1]_, pure `epsilon` for all entries of a sample together, is false at
    every size: `fit` warns with ``UnsoundClaimWarning``, and `privacy_guarantee_`
    states the epsilon that holds at `delta` next to the claimed one.
    The claims of :class:`~sktensordp.mechanisms.TensorRandomizedResponse` hold.

    Parameters
    ----------
    epsilon : float, default=1.0
        Claimed for a sample. With ``float("inf")``, samples are clipped and no noise is
        added.
    delta : float, default=0.0
        Delta in [0, 1) at which the true epsilon is stated. At 0, it is infinite.
    $bounds
        All entries share one range: two numbers.
    n_levels : int, default=None
        Number of evenly spaced levels to which values are rounded first; None does not
        round.
    noise : {"laplace", "gaussian"}, default="laplace"
        Distribution of the noise.
    weights : array-like, default=None
        Public sensitivities of the entries, in [0, 1], as in
        `TensorRandomizedResponse`.
    $tensor_shape
    $random_state

    Attributes
    ----------
    $privacy_guarantee
    keep_probability_ : float
        Probability p of keeping an entry of weight 0.
    scale_ : float
        Scale of the noise, in units of the entries.
    noise_variance_ : float or ndarray of the shape of a sample
        Variance of a released entry.
    expected_squared_error_ : float
        Expected squared error of a sample, without that of rounding to levels.
    $shapes

    Notes
    -----
    **How it differs from the paper.** Samples are clipped to `bounds`; the paper takes
    them to lie in a range of width Delta. The noise is drawn on a lattice, and p is
    rounded down to a multiple of 2^-60. `delta` and `n_levels` are ours: [1]_ claims
    pure epsilon, and rounds no values. `weights` may be any array for the first modes
    of a sample, where [1]_ has a matrix. As printed, p depends on the unit of the
    values: its denominator adds a scale in that unit to a number without one.

    References
    ----------
    .. [1] Yuan, Tang, Huang and Wang, "Local differential privacy for tensors in
       distributed computing systems", 2025, Algorithms 1 and 2, Theorems 1 to 3.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from sktensordp.papers import PublishedTensorRandomizedResponse
    >>> published = PublishedTensorRandomizedResponse(1.0, delta=1e-5, bounds=(0, 1))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     truth = published.fit(np.zeros((3, 4))).privacy_guarantee_
    >>> truth.claimed, truth.epsilon > 2
    ((1.0, 0.0), True)
    """

    # Everything else follows from epsilon.
    keep_probability = scale = None
    debias = True

    _parameter_constraints: ClassVar = {
        **TensorRandomizedResponse._parameter_constraints,
        "noise": [StrOptions({"laplace", "gaussian"})],
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
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.n_levels = n_levels
        self.noise = noise
        self.weights = weights
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Choose the noise for samples of the shape of those in `X`.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.
        y : None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter does not fit the shape of the samples.
        """
        super().fit(X, y)
        if math.isfinite(self.epsilon) and self._is_declared():
            truth = self.privacy_guarantee_
            warn(
                f"Yuan, Tang, Huang and Wang claim epsilon = {exact(self.epsilon)} for "
                f"this release, but what holds is epsilon = {shown(truth.epsilon)} at "
                f"delta = {shown(truth.delta)}, as privacy_guarantee_ states. "
                f"TensorRandomizedResponse keeps the claim.",
                UnsoundClaimWarning,
            )
        return self

    _source = (
        "Yuan, Tang, Huang and Wang (2025), Theorems 1 and 3; true epsilon from the "
        "probability of keeping an entry and the divergence of the noise"
    )

    @property
    def _noise_name(self) -> str:
        return f"entries that are kept or receive {self.noise.title()} noise"

    @property
    def _claimed(self) -> tuple[float, float]:
        return float(self.epsilon), 0.0

    def _design(
        self, shape: tuple[int, ...]
    ) -> tuple[NDArray[np.float64], NDArray[np.integer] | None]:
        return kinds_of(self.weights, shape)

    def _response(
        self,
        domain: SensitivitySet,
        shares: NDArray[np.float64],
        kinds: NDArray[np.integer] | None,
    ) -> tuple[_Response, DpEvent]:
        """Randomizer and event of entries that are kept or receive noise."""
        from dp_accounting import dp_event

        from ..privacy.accounting._events import (
            LatticeLaplaceDpEvent,
            RevealingDpEvent,
            SamplerResidualDpEvent,
        )

        if any(np.ndim(end) for end in (domain.low, domain.width) if end is not None):
            raise ValueError(
                f"All entries of {type(self).__name__} share one range: pass two "
                f"numbers as bounds."
            )
        epsilon, size, width = float(self.epsilon), domain.n_entries, domain.width
        lattice: LaplaceLattice | GaussianLattice
        if self.noise == "laplace":
            scale = width / epsilon
            density = 0.5 / scale
            ends: tuple[Any, Any] = domain.low, domain.high
            lattice = laplace_lattice(*ends, epsilon)
            entry_event = LatticeLaplaceDpEvent.from_lattice(lattice, lattice.n_steps)
            event, tail = dp_event.SelfComposedDpEvent(entry_event, size), 0.0
        else:
            scale = width / math.sqrt(2 * epsilon)
            density = 1 / (scale * math.sqrt(2 * math.pi))
            lattice = gaussian_lattice(scale, size, 1.0, 1e-6, domain.low, width)
            noise = dp_event.GaussianDpEvent(1 / math.sqrt(2 * epsilon * size))
            # Entry by entry, this bounds the distance of the sampler from ideal noise,
            # except where the noise on either input is clipped: the tail.
            close = lattice.residual_epsilon * max(1, math.sqrt(size / 2 / _LOG_TAIL))
            event = dp_event.ComposedDpEvent([noise, SamplerResidualDpEvent(close, 0)])
            reach = lattice.clip - math.sqrt(2 * epsilon)
            tail = min(1.0, 2 * size * math.exp(float(log_ndtr(-reach))))
        # p / (1 - p) is e^-((I - 1) epsilon) times the largest density of the noise.
        odds = math.exp(-(size - 1) * epsilon) * density
        keeps = odds / (1 + odds) * shares
        counts = np.array([size]) if kinds is None else np.bincount(kinds)
        with np.errstate(divide="ignore"):
            log_hidden = float(counts @ np.log1p(-keeps) + np.log1p(-tail))
        # This is never 0, however small: no pure epsilon holds.
        revealed = max(-math.expm1(log_hidden), _LEAST_REVEALED)
        event = RevealingDpEvent(revealed, event)
        randomizer = _Response(domain, lattice, keeps, kinds, self.n_levels, scale)
        return randomizer, event
