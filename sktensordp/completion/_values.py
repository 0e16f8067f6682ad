"""The randomizer of a single value.

Guarantee. Take two data sets that differ in the value of one observed entry, at the
same coordinates. Under the two, the probabilities of the randomised values, and of
anything computed from them, are within e^epsilon of each other (Wei et al. 2022,
Theorem 1, for a public range of the values). Only one draw depends on the changed
value, so the guarantee holds for any number of entries.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._random import BLOCK, NoiseStreams, check_recorded
from .._sklearn_compat import effective_n_threads
from ..noise import LaplaceLattice, categorical, laplace_lattice
from ..privacy import PrivacyGuarantee
from ..privacy._guarantee import no_guarantee
from ..privacy.calibration._table import LevelTable, level_table
from ..tensor import TableLikelihood
from ..tensor._threads import in_threads
from ._domain import LARGEST_TABLE, Domain
from ._grid import noise_on_grid, rounded_at_random, table_on_grid

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

_PAPER = "Wei, Li, Mao and Wang (2022), Algorithm 1 and Theorem 1"


@dataclass(frozen=True)
class EntryRandomizer:
    """Clips and randomises each observed value, and states the guarantee.

    For each value it draws an output of a table, stored as its number in ascending
    order, or, without a table, a noisy value.

    Attributes
    ----------
    domain : Domain
    guarantee : PrivacyGuarantee
        Guarantee of all randomised values together.
    noise_variance : float
        Variance of a randomised value around the value; the least one if it depends on
        the value.
    mechanism : LaplaceLattice, LevelTable or None
        None only clips the values.
    """

    domain: Domain
    guarantee: PrivacyGuarantee
    noise_variance: float
    mechanism: Any = None

    def noise_around(self, variance: float) -> float:
        """Variance that noise adds to observations of a mean, under public assumptions.

        Observations with less variance replace the outputs of a table; see
        `TableLikelihood`.

        Parameters
        ----------
        variance : float
            Assumed variance of values around their mean.
        """
        scale = self.domain.scale
        likelihood = self.likelihood(self.domain.middle, scale)
        if likelihood is None:
            return self.noise_variance
        around = variance / scale**2
        if self.is_on_grid:
            points = np.array(self.mechanism.levels) / scale
            return scale**2 * noise_on_grid(likelihood, points, around)
        return scale**2 * likelihood.expected_noise(around)

    @property
    def has_table(self) -> bool:
        """Whether values are randomised by a table; otherwise noise is added."""
        return isinstance(self.mechanism, LevelTable)

    @property
    def is_on_grid(self) -> bool:
        """Whether values are rounded at random to the levels of the table."""
        return self.has_table and self.mechanism.levels != self.domain.levels

    @property
    def most_variance(self) -> float:
        """Largest variance that a randomised value can have around the value."""
        if not self.has_table:
            return self.noise_variance
        largest = float(self.mechanism.level_variances.max())
        if self.is_on_grid:
            # Halfway between two points; that of the table lies between theirs.
            largest += float(np.max(np.diff(self.mechanism.levels))) ** 2 / 4
        return largest

    @property
    def outputs(self) -> NDArray[np.float64]:
        """Outputs of the table, ascending."""
        return np.sort(self.mechanism.outputs)

    def draw(
        self,
        values: NDArray[np.floating],
        streams: NoiseStreams | None,
        first: int = 0,
        n_all: int | None = None,
        *,
        received: bool = False,
    ) -> NDArray[Any]:
        """Randomise values block by block, each block from its own stream.

        Parameters
        ----------
        values : ndarray of shape (n,), float32 or float64
            Randomised in double precision; rounding the result is post-processing.
        streams : NoiseStreams or None
            Streams of a release that the open budgets have recorded. Not read without
            noise, or if clients have randomised the values.
        first, n_all : int
            Position of the first value among all values of the release, and their
            number. By default, `values` is all of them. The noise of a value depends on
            its position only, not on which values are randomised in one call.
        received : bool, default=False
            Whether clients have randomised the values.

        Returns
        -------
        drawn : ndarray of shape (n,), uint8 or of the type of the values
            Numbers of outputs, or noisy values; without noise, clipped values.

        Raises
        ------
        ValueError
            If clients cannot have randomised the values; see `_received`.
        RuntimeError
            If the release is not recorded.
        """
        if received or self.mechanism is None:
            return self._received(values)
        recorded = check_recorded(streams)
        drawn = np.empty_like(values, dtype=np.uint8 if self.has_table else None)
        last = first + len(values)
        n_all = last if n_all is None else n_all

        def run(block: int) -> None:
            begin, end = block * BLOCK, min((block + 1) * BLOCK, n_all)
            start, stop = max(begin, first), min(end, last)
            in_values = slice(start - first, stop - first)
            in_block = slice(start - begin, stop - begin)
            # The rest of the block's noise belongs to the values of other calls.
            filled = np.full(end - begin, self.domain.bounds[0])
            filled[in_block] = values[in_values]
            of_block = self._draw_block(filled, recorded.stream(block))
            drawn[in_values] = of_block[in_block]

        blocks = range(first // BLOCK, math.ceil(last / BLOCK))
        in_threads(run, blocks, effective_n_threads())
        return drawn

    def _draw_block(
        self, values: NDArray[np.float64], bits: np.random.BitGenerator
    ) -> NDArray[Any]:
        table = self.mechanism
        if not self.has_table:
            return table.randomize(self.domain.clip(values), bits)
        if self.is_on_grid:
            clipped = self.domain.clip(values).astype(float)
            rows = rounded_at_random(clipped, np.array(table.levels), bits)
        else:
            rows = self.domain.index(values)
        symbols = categorical(bits, np.array(table.weights), rows)
        return np.argsort(np.argsort(table.outputs))[symbols]

    def values_of(self, drawn: NDArray[Any], dtype: DTypeLike) -> NDArray[np.floating]:
        """Convert draws to randomised values of the given type."""
        values = self.outputs[drawn] if self.has_table else drawn
        return values.astype(dtype, copy=False)

    def randomize(
        self, values: NDArray[np.floating], streams: NoiseStreams | None
    ) -> NDArray[np.floating]:
        """Randomised values, of the same type; see `draw`."""
        return self.values_of(self.draw(values, streams), values.dtype)

    def _received(self, values: NDArray[np.floating]) -> NDArray[Any]:
        """Check and copy the values that clients sent; without noise, clip them.

        Raises
        ------
        ValueError
            If there is a table and a value is not in it.
        """
        if self.mechanism is None:
            return self.domain.clip(values)
        if not self.has_table:
            # Noise this small leaves most values where raw ones may be.
            return values.copy()
        outputs = self.outputs
        numbers = np.searchsorted((outputs[1:] + outputs[:-1]) / 2, values)
        # Values may have been rounded on their way, by no more than this.
        distances = np.abs(outputs[numbers] - values)
        if np.any(distances > 1e-6 * (outputs[-1] - outputs[0])):
            raise ValueError(
                "Some values in y are not in the table that a client with the same "
                "epsilon, levels, level_prior and value_bounds draws from. Pass the "
                "output of its privatize."
            )
        return numbers.astype(np.uint8)

    def likelihood(self, offset: float, scale: float) -> TableLikelihood | None:
        """Likelihood of outputs, for levels less `offset`, divided by `scale`.

        Returns
        -------
        likelihood : TableLikelihood or None
            None without a table.
        """
        if not self.has_table:
            return None
        table = self.mechanism
        levels = (np.array(table.levels) - offset) / scale
        return TableLikelihood(levels, table.in_order)


def plan_entry_randomizer(epsilon: float, domain: Domain) -> EntryRandomizer:
    """Build the randomizer of the values for one fit.

    Parameters
    ----------
    epsilon : float
        Budget of one entry; infinity for no noise.
    domain : Domain
        If it was not declared, no finite epsilon holds, and the guarantee says so.

    Returns
    -------
    randomizer : EntryRandomizer
    """
    from ..privacy.accounting._events import LatticeLaplaceDpEvent, TableDpEvent

    if math.isinf(epsilon):
        return EntryRandomizer(domain, guarantee_without_noise(), 0.0)
    levels = domain.levels
    table = None
    if levels is not None and len(levels) <= LARGEST_TABLE:
        table = level_table(levels, float(epsilon), domain.prior)
        method = "randomised by a public table for these levels"
    else:
        table = table_on_grid(domain, float(epsilon))
        if table is not None:
            method = (
                f"rounded at random to one of the next two of {len(table.levels)} "
                f"evenly spaced public points, and randomised by a public table for "
                f"these points"
            )
    mechanism: LevelTable | LaplaceLattice
    if table is not None:
        mechanism = table
        event = TableDpEvent(weights=mechanism.weights)
        variance = float(mechanism.level_variances.min())
    else:
        mechanism = domain_lattice(epsilon, domain)
        event = LatticeLaplaceDpEvent.from_lattice(mechanism, mechanism.n_steps)
        variance = mechanism.noise_variance
        method = "given discrete Laplace noise on a public lattice"
    statement = (
        f"{domain.rounding}Each observed value was {method}; all else is computed from "
        f"these draws and the coordinates."
    )
    claimed_epsilon = None if domain.is_declared else float(epsilon)
    guarantee = entry_guarantee(
        event, statement, _PAPER, claimed_epsilon=claimed_epsilon, local=None
    )
    return EntryRandomizer(domain, guarantee, variance, mechanism)


def domain_lattice(epsilon: float, domain: Domain, n_values: int = 1) -> LaplaceLattice:
    """Lattice for values of a domain.

    Its step is that of the levels if they are evenly spaced; otherwise it is large
    enough for sums of `n_values` values to be exact.
    """
    low, high = domain.bounds
    if domain.levels is not None:
        steps = np.diff(domain.levels)
        low, high = domain.levels[0], domain.levels[-1]
        if np.allclose(steps, steps.mean(), rtol=1e-6, atol=0):
            return laplace_lattice(low, high, float(epsilon), step=float(steps.mean()))
    lattice = laplace_lattice(low, high, float(epsilon))
    most_steps = 2**52 // n_values
    assert isinstance(lattice.n_steps, int)
    # With fewer than 2**10 steps, rounding the values would visibly change the sums.
    if lattice.n_steps <= most_steps or most_steps < 2**10:
        return lattice
    return laplace_lattice(low, high, float(epsilon), step=(high - low) / most_steps)


def guarantee_without_noise() -> PrivacyGuarantee:
    """Guarantee of a fit with an infinite epsilon: none."""
    return no_guarantee("The values were used without noise.", unit="entry")


def entry_guarantee(
    event: "DpEvent",
    statement: str,
    source: str,
    *,
    delta: float = 0.0,
    claimed_epsilon: float | None = None,
    claimed: tuple[float, float] | None = None,
    local: bool | None = False,
) -> PrivacyGuarantee:
    """Guarantee for the value of one entry.

    Parameters
    ----------
    event : dp_accounting.DpEvent
    statement, source : str
    delta : float, default=0.0
        The delta at which to state epsilon.
    claimed_epsilon : float, default=None
        The requested epsilon, if the range was read off the values themselves: no
        finite epsilon holds then.
    claimed : tuple of (float, float), default=None
        The (epsilon, delta) that a paper claims, if the claim is false.
    local : bool or None, default=False
        False if noise is added to quantities that entries share; None if each value is
        randomised by itself, and sent with its coordinates.

    Returns
    -------
    guarantee : PrivacyGuarantee
    """
    from dp_accounting import dp_event

    if claimed_epsilon is not None:
        event, claimed = dp_event.NonPrivateDpEvent(), (claimed_epsilon, delta)
        statement += (
            " The range was read off the values themselves, so nobody is protected; "
            "declare value_bounds or levels."
        )
    return PrivacyGuarantee.from_event(
        event,
        delta=delta,
        unit="entry",
        statement=statement,
        source=source,
        claimed=claimed,
        local=local,
    )
