"""The domain of a value, and how one value is randomised alone.

Guarantee. Two data sets that differ in the value of one observed entry, at the same
coordinates, give the randomised values, and with them all that is computed from
them, probabilities within e^epsilon of each other (Wei et al. 2022, Theorem 1, for
a public range of the values). One draw depends on the changed value, so that the
guarantee does not depend on how many entries there are.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from .._sklearn_compat import effective_n_threads
from ..noise import LaplaceLattice, categorical, laplace_lattice
from ..privacy import PrivacyGuarantee
from ..privacy.calibration._table import level_table

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

__all__ = [
    "LARGEST_TABLE",
    "EntryRandomizer",
    "domain_lattice",
    "entry_guarantee",
    "plan_entry_randomizer",
    "rounded",
]

_PAPER = "Wei, Li, Mao and Wang (2022), Algorithm 1 and Theorem 1"
_BLOCK = 2**16
LARGEST_TABLE = 20
# Levels that a statement names one by one.
_MOST_NAMED = 12
# Fewer steps than these would be seen in sums.
_LEAST_STEPS = 2**10
# How far a value that comes from elsewhere may be from what was drawn.
_ROUNDED = 1e-6
# Log of the probability at which values are taken for raw ones.
_LEAST_LIKELY = math.log(1e-9)


@dataclass(frozen=True)
class EntryRandomizer:
    """How each observed value is clipped and randomised, and what that reveals.

    Attributes
    ----------
    bounds : tuple of (float, float)
        Range to which values are clipped.
    guarantee : PrivacyGuarantee
        Of all the randomised values together.
    noise_variance : float
        Least variance of a randomised value around the value.
    mechanism : LaplaceLattice, LevelTable or None
        None leaves the clipped values as they are.
    levels : tuple of float or None
        Scale to which values are rounded.
    """

    bounds: tuple[float, float]
    guarantee: PrivacyGuarantee
    noise_variance: float
    mechanism: Any = None
    levels: tuple[float, ...] | None = None

    @property
    def mean_variance(self) -> float:
        """Variance of a randomised value around the value, the mean over the levels."""
        if self.has_table:
            return float(np.mean(self.mechanism.level_variances))
        return self.noise_variance

    @property
    def has_table(self) -> bool:
        """Whether values are drawn from a table, instead of being given noise."""
        return hasattr(self.mechanism, "weights")

    def clip(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Values moved into the declared domain, of their own type."""
        clipped = np.clip(values, *self.bounds)
        if self.levels is not None:
            clipped = np.array(self.levels)[self._level_index(clipped)]
        return clipped.astype(values.dtype, copy=False)

    def taken(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Values that were randomised elsewhere, or have no noise, in an array of ours.

        Raises
        ------
        ValueError
            If a value is not of the table, where there is one; otherwise, if so many
            values are all within the range as noise would leave there with a
            probability of 1e-9 at most.
        """
        if self.mechanism is None:
            return self.clip(values)
        if not self.has_table:
            low, high = self.bounds
            inside = len(values) and np.all((values >= low) & (values <= high))
            if inside and len(values) * self._log_stay < _LEAST_LIKELY:
                raise ValueError(
                    "No value in y is outside the range, where noise moves some: these "
                    "values have not been randomised. Pass what privatize of a client "
                    "returned."
                )
            return values.copy()
        outputs = np.sort(self.mechanism.outputs)
        nearest = outputs[np.searchsorted((outputs[1:] + outputs[:-1]) / 2, values)]
        # Rounded on the way, they are what they were.
        if np.any(np.abs(nearest - values) > _ROUNDED * (outputs[-1] - outputs[0])):
            raise ValueError(
                "Some values in y are not of the table that a client with the same "
                "epsilon, levels and level_prior draws from; pass what its privatize "
                "returned."
            )
        return nearest.astype(values.dtype)

    @property
    def _log_stay(self) -> float:
        """Log of the largest probability that noise leaves a value in the range."""
        rate, n_steps = self.mechanism.rate, self.mechanism.n_steps
        # Least for a value in the middle: half of the steps to either side.
        leaves = 2 * math.exp(-rate * (n_steps / 2 + 1)) / (1 + math.exp(-rate))
        return math.log1p(-leaves)

    def randomize(
        self,
        values: NDArray[np.floating],
        streams: NoiseStreams,
        first: int = 0,
        n_all: int | None = None,
    ) -> NDArray[np.floating]:
        """Randomised values, block by block, each from its own stream.

        Parameters
        ----------
        values : ndarray of shape (n,), float32 or float64
            Randomised in double precision; rounding the outcome is post-processing.
        streams : NoiseStreams
        first, n_all : int
            Where the values begin among all that are released, and how many these
            are; by default, the values are all. Their noise does not depend on which
            of them are randomised together.

        Returns
        -------
        noisy : ndarray of shape (n,), of the same type
        """
        noisy = np.empty_like(values)
        last = first + len(values)
        n_all = last if n_all is None else n_all

        def run(block: int) -> None:
            begin, end = block * _BLOCK, min((block + 1) * _BLOCK, n_all)
            own = slice(max(begin, first), min(end, last))
            here = slice(own.start - first, own.stop - first)
            # Others have the rest of the block's noise.
            clipped = np.full(end - begin, self.bounds[0], dtype=float)
            within = slice(own.start - begin, own.stop - begin)
            clipped[within] = self.clip(values[here].astype(float))
            drawn = self._randomize_block(clipped, streams.stream(block))
            noisy[here] = drawn[within]

        with ThreadPoolExecutor(effective_n_threads()) as pool:
            list(pool.map(run, range(first // _BLOCK, math.ceil(last / _BLOCK))))
        return noisy

    def _randomize_block(
        self, values: NDArray[np.floating], bits: Any
    ) -> NDArray[np.float64]:
        if not self.has_table:
            return self.mechanism.randomize(values, bits)
        weights = np.array(self.mechanism.weights)
        symbols = categorical(bits, weights, self._level_index(values))
        return np.array(self.mechanism.outputs)[symbols]

    def _level_index(self, values: NDArray[np.floating]) -> NDArray[np.int64]:
        levels = np.array(self.levels)
        return np.searchsorted((levels[1:] + levels[:-1]) / 2, values)


def plan_entry_randomizer(
    epsilon: float,
    bounds: tuple[float, float],
    levels: tuple[float, ...] | None,
    level_prior: tuple[float, ...] | None,
    *,
    declared: bool,
) -> EntryRandomizer:
    """Randomiser of the values for one fit.

    Parameters
    ----------
    epsilon : float
        Budget of one entry; infinity for none.
    bounds : tuple of (float, float)
        Range of the values.
    levels : tuple of float or None
        Public scale of the values.
    level_prior : tuple of float or None
        Public probabilities of the levels.
    declared : bool
        Whether the range was declared. If it was read off the values, nothing
        finite holds, and the guarantee says so.

    Returns
    -------
    randomizer : EntryRandomizer
    """
    from dp_accounting import dp_event

    from ..privacy.accounting._events import LatticeLaplaceDpEvent, TableDpEvent

    if math.isinf(epsilon):
        guarantee = entry_guarantee(
            dp_event.NonPrivateDpEvent(),
            "The values were used as they are (epsilon = inf).",
            "not private",
        )
        return EntryRandomizer(bounds, guarantee, 0.0, levels=levels)
    if levels is not None and len(levels) <= LARGEST_TABLE:
        mechanism: Any = level_table(levels, float(epsilon), level_prior)
        event = TableDpEvent(weights=mechanism.weights)
        variance = float(mechanism.level_variances.min())
        what = "randomised by a public table for these levels"
    else:
        mechanism = domain_lattice(epsilon, bounds, levels)
        event = LatticeLaplaceDpEvent.of(mechanism, mechanism.n_steps)
        variance = mechanism.noise_variance
        what = "given discrete Laplace noise on a public lattice"
    statement = (
        f"{rounded(levels)}Each observed value was {what}; all else is computed from "
        f"these draws and the coordinates."
    )
    void_for = None if declared else float(epsilon)
    guarantee = entry_guarantee(event, statement, _PAPER, void_for=void_for)
    return EntryRandomizer(bounds, guarantee, variance, mechanism, levels)


def rounded(levels: tuple[float, ...] | None) -> str:
    """What becomes of values where levels are declared: the start of a statement."""
    if levels is None:
        return ""
    names = [f"{level:.12g}" for level in levels]
    if len(names) > _MOST_NAMED:
        names = [*names[:2], "...", names[-2], names[-1]]
    said = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"Values were rounded to the {len(levels)} levels {said}. "


def domain_lattice(
    epsilon: float,
    bounds: tuple[float, float],
    levels: Sequence[float] | None,
    n_values: int = 1,
) -> LaplaceLattice:
    """Lattice for values of a range, with the step of levels that are evenly spaced.

    Its steps are large enough for sums of `n_values` to be exact.
    """
    if levels is not None:
        steps = np.diff(levels)
        bounds = levels[0], levels[-1]
        if np.allclose(steps, steps.mean(), rtol=1e-6, atol=0):
            return laplace_lattice(*bounds, float(epsilon), step=float(steps.mean()))
    lattice: Any = laplace_lattice(*bounds, float(epsilon))
    most = 2**52 // n_values
    if lattice.n_steps <= most or most < _LEAST_STEPS:
        return lattice
    step = (bounds[1] - bounds[0]) / most
    return laplace_lattice(*bounds, float(epsilon), step=step)


def entry_guarantee(
    event: "DpEvent",
    statement: str,
    source: str,
    *,
    delta: float = 0.0,
    void_for: float | None = None,
    claimed: tuple[float, float] | None = None,
) -> PrivacyGuarantee:
    """Guarantee for the value of one entry.

    Parameters
    ----------
    event : dp_accounting.DpEvent
    statement, source : str
    delta : float, default=0.0
        Where to state the epsilon.
    void_for : float, default=None
        The epsilon that was asked for, if the range of the values was read off the
        values themselves: nothing finite holds then.
    claimed : tuple of (float, float), default=None
        What a paper claims, where the truth differs.

    Returns
    -------
    guarantee : PrivacyGuarantee
    """
    from dp_accounting import dp_event

    if void_for is not None:
        event, claimed = dp_event.NonPrivateDpEvent(), (void_for, delta)
        statement += (
            " The range of the values was read off the values themselves, which "
            "protects nobody; declare value_bounds or levels."
        )
    return PrivacyGuarantee.of(
        event, delta=delta, unit="entry", statement=statement, source=source,
        claimed=claimed,
    )  # fmt: skip
