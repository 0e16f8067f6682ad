"""The domain of a value, and the randomizer of a single value.

Guarantee. Take two data sets that differ in the value of one observed entry, at the
same coordinates. Under the two, the randomised values, and all that is computed from
them, have probabilities within e^epsilon of each other (Wei et al. 2022, Theorem 1, for
a public range of the values). Only one draw depends on the changed value, so the
guarantee holds for any number of entries.
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
from ..tensor import TableLikelihood

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
# A statement lists up to this many levels in full.
_MOST_NAMED = 12
# A range with fewer steps would round values so coarsely that sums show it.
_LEAST_STEPS = 2**10
# Largest rounding of a received value, as a share of the range of the table's outputs.
_ROUNDED = 1e-6
# Values whose noise is less likely than this are taken for raw values.
_LEAST_LIKELY = math.log(1e-9)


@dataclass(frozen=True)
class EntryRandomizer:
    """Clips and randomises each observed value, and states the guarantee.

    Attributes
    ----------
    bounds : tuple of (float, float)
        Range to which values are clipped.
    guarantee : PrivacyGuarantee
        Guarantee of all randomised values together.
    noise_variance : float
        Variance of a randomised value around the value; where it depends on the value,
        the least one.
    mechanism : LaplaceLattice, LevelTable or None
        None only clips the values.
    levels : tuple of float or None
        Scale to which values are rounded.
    """

    bounds: tuple[float, float]
    guarantee: PrivacyGuarantee
    noise_variance: float
    mechanism: Any = None
    levels: tuple[float, ...] | None = None

    def noise_around(self, variance: float) -> float:
        """Variance that noise adds to observations of a mean; from public assumptions.

        Outputs of a table are replaced by observations of less variance; see
        `TableLikelihood`.

        Parameters
        ----------
        variance : float
            Assumed variance of values around their mean.
        """
        low, high = self.bounds
        middle, scale = (low + high) / 2, (high - low) / 2
        likelihood = self.likelihood(middle, scale)
        if likelihood is None:
            return self.noise_variance
        return scale**2 * likelihood.expected_noise(variance / scale**2)

    @property
    def has_table(self) -> bool:
        """Whether values are randomised by a table; otherwise noise is added."""
        return hasattr(self.mechanism, "weights")

    def clip(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Clip values to the range and round them to the levels; keep their type."""
        clipped = np.clip(values, *self.bounds)
        if self.levels is not None:
            clipped = np.array(self.levels)[self._level_index(clipped)]
        return clipped.astype(values.dtype, copy=False)

    def centred(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Clip values, and express them in half ranges around the middle."""
        low, high = self.bounds
        return (self.clip(values.astype(float)) - (low + high) / 2) / ((high - low) / 2)

    @property
    def centred_levels(self) -> NDArray[np.floating] | None:
        """The levels, in half ranges around the middle; None without levels."""
        if self.levels is None:
            return None
        return self.centred(np.array(self.levels)).astype(float, copy=False)

    def kept(self, values: NDArray[np.floating]) -> NDArray[Any]:
        """Clip values; return the numbers of their levels, or centre them if none."""
        if self.levels is None:
            return self.centred(values)
        index = self._level_index(np.clip(values.astype(float), *self.bounds))
        return index.astype(np.min_scalar_type(len(self.levels) - 1))

    def taken(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Check and copy values that clients randomised; without noise, clip them.

        Raises
        ------
        ValueError
            If there is a table and a value is not in it; or if there is none and all
            values are within the range, although noise leaves as many there with
            probability at most 1e-9.
        """
        if self.mechanism is None:
            return self.clip(values)
        if not self.has_table:
            low, high = self.bounds
            inside = len(values) and np.all((values >= low) & (values <= high))
            if inside and len(values) * self._log_stay < _LEAST_LIKELY:
                raise ValueError(
                    "All values in y are within the range, but noise would move some "
                    "outside: they have not been randomised. Pass the output of a "
                    "client's privatize."
                )
            return values.copy()
        outputs = np.sort(self.mechanism.outputs)
        nearest = outputs[np.searchsorted((outputs[1:] + outputs[:-1]) / 2, values)]
        # Values may have been rounded on their way here.
        if np.any(np.abs(nearest - values) > _ROUNDED * (outputs[-1] - outputs[0])):
            raise ValueError(
                "Some values in y are not in the table that a client with the same "
                "epsilon, levels and level_prior draws from. Pass the output of its "
                "privatize."
            )
        return nearest.astype(values.dtype)

    @property
    def _log_stay(self) -> float:
        """Log of the largest probability that noise leaves a value in the range."""
        rate, n_steps = self.mechanism.rate, self.mechanism.n_steps
        # A value in the middle is the least likely to leave: half the steps each way.
        p_leave = 2 * math.exp(-rate * (n_steps / 2 + 1)) / (1 + math.exp(-rate))
        return math.log1p(-p_leave)

    def randomize(
        self,
        values: NDArray[np.floating],
        streams: NoiseStreams,
        first: int = 0,
        n_all: int | None = None,
    ) -> NDArray[np.floating]:
        """Randomise values block by block, each block from its own stream.

        Parameters
        ----------
        values : ndarray of shape (n,), float32 or float64
            Randomised in double precision; rounding the result is post-processing.
        streams : NoiseStreams
        first, n_all : int
            Position of the first value among all values of the release, and the number
            of all. By default these values are all. The noise of a value depends on its
            position only, not on which values are randomised in one call.

        Returns
        -------
        noisy : ndarray of shape (n,), of the same type
        """
        noisy = np.empty_like(values)
        last = first + len(values)
        n_all = last if n_all is None else n_all

        def run(block: int) -> None:
            begin, end = block * _BLOCK, min((block + 1) * _BLOCK, n_all)
            start, stop = max(begin, first), min(end, last)
            in_values = slice(start - first, stop - first)
            in_block = slice(start - begin, stop - begin)
            # The rest of the block's noise belongs to values of other calls.
            clipped = np.full(end - begin, self.bounds[0], dtype=float)
            clipped[in_block] = self.clip(values[in_values].astype(float))
            randomized = self._randomize_block(clipped, streams.stream(block))
            noisy[in_values] = randomized[in_block]

        with ThreadPoolExecutor(effective_n_threads()) as pool:
            list(pool.map(run, range(first // _BLOCK, math.ceil(last / _BLOCK))))
        return noisy

    def outputs_of(self, released: NDArray[np.floating]) -> NDArray[np.uint8] | None:
        """Numbers of the table's outputs, ascending; None without a table."""
        if not self.has_table:
            return None
        outputs = np.sort(self.mechanism.outputs)
        numbers = np.searchsorted((outputs[1:] + outputs[:-1]) / 2, released)
        return numbers.astype(np.uint8)

    def likelihood(self, offset: float, scale: float) -> TableLikelihood | None:
        """What outputs say about levels less `offset`, divided by `scale`.

        Returns
        -------
        likelihood : TableLikelihood or None
            None without a table.
        """
        if not self.has_table:
            return None
        table = self.mechanism
        levels = (np.array(table.levels) - offset) / scale
        return TableLikelihood(
            levels, table.probabilities[:, np.argsort(table.outputs)]
        )

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
    """Build the randomizer of the values for one fit.

    Parameters
    ----------
    epsilon : float
        Budget of one entry; infinity for no noise.
    bounds : tuple of (float, float)
        Range of the values.
    levels : tuple of float or None
        Public scale of the values.
    level_prior : tuple of float or None
        Public probabilities of the levels.
    declared : bool
        Whether the range was declared. If it was read off the values, no finite
        epsilon holds, and the guarantee says so.

    Returns
    -------
    randomizer : EntryRandomizer
    """
    from dp_accounting import dp_event

    from ..privacy.accounting._events import LatticeLaplaceDpEvent, TableDpEvent

    if math.isinf(epsilon):
        guarantee = entry_guarantee(
            dp_event.NonPrivateDpEvent(),
            "The values were used without noise.",
            "not private",
        )
        return EntryRandomizer(bounds, guarantee, 0.0, levels=levels)
    if levels is not None and len(levels) <= LARGEST_TABLE:
        mechanism: Any = level_table(levels, float(epsilon), level_prior)
        event = TableDpEvent(weights=mechanism.weights)
        variance = float(mechanism.level_variances.min())
        method = "randomised by a public table for these levels"
    else:
        mechanism = domain_lattice(epsilon, bounds, levels)
        event = LatticeLaplaceDpEvent.of(mechanism, mechanism.n_steps)
        variance = mechanism.noise_variance
        method = "given discrete Laplace noise on a public lattice"
    statement = (
        f"{rounded(levels)}Each observed value was {method}; all else is computed from "
        f"these draws and the coordinates."
    )
    void_for = None if declared else float(epsilon)
    guarantee = entry_guarantee(event, statement, _PAPER, void_for=void_for)
    return EntryRandomizer(bounds, guarantee, variance, mechanism, levels)


def rounded(levels: tuple[float, ...] | None) -> str:
    """First sentence of a statement, on rounding; empty without levels."""
    if levels is None:
        return ""
    names = [f"{level:.12g}" for level in levels]
    if len(names) > _MOST_NAMED:
        names = [*names[:2], "...", names[-2], names[-1]]
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"Values were rounded to the {len(levels)} levels {listed}. "


def domain_lattice(
    epsilon: float,
    bounds: tuple[float, float],
    levels: Sequence[float] | None,
    n_values: int = 1,
) -> LaplaceLattice:
    """Lattice for values of a range.

    Its step is that of the levels if they are evenly spaced; otherwise it is large
    enough for sums of `n_values` values to be exact.
    """
    if levels is not None:
        steps = np.diff(levels)
        bounds = levels[0], levels[-1]
        if np.allclose(steps, steps.mean(), rtol=1e-6, atol=0):
            return laplace_lattice(*bounds, float(epsilon), step=float(steps.mean()))
    lattice: Any = laplace_lattice(*bounds, float(epsilon))
    most_steps = 2**52 // n_values
    if lattice.n_steps <= most_steps or most_steps < _LEAST_STEPS:
        return lattice
    step = (bounds[1] - bounds[0]) / most_steps
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
        The delta at which to state epsilon.
    void_for : float, default=None
        The requested epsilon, if the range was read off the values themselves, so that
        no finite epsilon holds.
    claimed : tuple of (float, float), default=None
        The (epsilon, delta) that a paper claims, if the claim is false.

    Returns
    -------
    guarantee : PrivacyGuarantee
    """
    from dp_accounting import dp_event

    if void_for is not None:
        event, claimed = dp_event.NonPrivateDpEvent(), (void_for, delta)
        statement += (
            " The range was read off the values themselves, so nobody is protected; "
            "declare value_bounds or levels."
        )
    return PrivacyGuarantee.of(
        event, delta=delta, unit="entry", statement=statement, source=source,
        claimed=claimed,
    )  # fmt: skip
