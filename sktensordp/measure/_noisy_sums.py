"""The noise of sums, for several releases under one budget.

The sums of two neighbouring data sets are at a distance of at most 1 in one release,
whatever was released before. For entries (``_entry_sums.py``), neighbours differ in one
value, and the vectors that an entry contributes are at a distance of at most 1 for any
two values.

- Gaussian noise of standard deviation sigma, for distances in L2: one release is
  1/sigma-GDP, and K adaptive releases are sqrt(K)/sigma-GDP (Dong, Roth and Su 2022,
  Corollary 3.3).
- Laplace noise, for distances in L1: the pure epsilons of the releases add up (Dwork,
  McSherry, Nissim and Smith 2006, Theorem 1).

Contributions are rounded to whole steps of the noise lattice before they are summed.
So sums are exact, and neighbouring sums are as far apart as the two contributions.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._random import BLOCK as _BLOCK
from .._random import NoiseSource
from ..mechanisms._gaussian_noise import gaussian_event, within_budget
from ..noise import GaussianLattice, LaplaceLattice, gaussian_lattice, laplace_lattice
from ..privacy import gaussian_mu

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

# Norm in which distances between sums are measured.
Norm = Literal["l1", "l2"]
OfChunk = Callable[[slice], NDArray[np.floating]]
"""Maps a chunk of the entries to their contributions, of shape (n, n_columns)."""

ROUNDED_UP = 1 + 1e-9
"""Covers the rounding error of contributions, and that of the accounting."""

# Largest number of elements of an array of contributions in memory.
_CHUNK = 2**22
MOST_STEPS = 2**52
"""Sums of whole steps are exact in floating point up to this number of steps."""

# Coarser steps would be visible beside the contributions.
_LARGEST_STEP = 2.0**-10
# Bound on the number of sums of all releases, before it is known.
_MOST_SUMS = 10**9


@dataclass(frozen=True)
class NoisySums:
    """The noise of the sums, and the privacy event of all their releases together.

    Attributes
    ----------
    lattice : GaussianLattice, LaplaceLattice or None
        None for no noise.
    noise_variance : float
        Variance of the noise in a sum, if contributions differ by at most 1.
    event : dp_accounting.DpEvent or None
        All releases together; None for no noise.
    n_cells : float
        Number of sums, in all releases together, for which the noise was planned;
        infinite for Laplace noise, whose sampler is exact.
    n_moved : int
        Number of those sums that rounding moves between neighbours; see `Sums`.
    norm : {"l1", "l2"}, default="l2"
        Norm in which distances count: L1 for Laplace noise, L2 for Gaussian noise.
    share : float, default=1.0
        Largest sum of the shares of all releases.
    """

    lattice: GaussianLattice | LaplaceLattice | None = None
    noise_variance: float = 0.0
    event: "DpEvent | None" = None
    n_cells: float = 0
    n_moved: int = 0
    norm: Norm = "l2"
    share: float = 1.0

    @property
    def step(self) -> float:
        """Step of the lattice; 0 for no noise."""
        return 0.0 if self.lattice is None else float(self.lattice.step)

    def lattices(self, n_sums: int) -> list[tuple[float, float]]:
        """Step of the lattice, and factor on the noise, of each sum of a release."""
        return [(self.step, 1.0)] * n_sums

    def randomize(
        self, sums: list[NDArray[np.float64]], streams: NoiseSource | None
    ) -> list[NDArray[np.float64]]:
        """Add noise to sums that are whole steps of the lattice: one release.

        Parameters
        ----------
        sums : list of ndarray
        streams : NoiseStreams
            Streams for this release alone.
        """
        if self.lattice is None:
            return sums
        assert streams is not None
        flat = np.concatenate([s.ravel() for s in sums])
        for block, start in enumerate(range(0, len(flat), _BLOCK)):
            chunk = flat[start : start + _BLOCK]
            self.lattice.randomize(chunk, streams.stream(block), out=chunk)
        ends = np.cumsum([s.size for s in sums])[:-1]
        noisy = np.split(flat, ends)
        return [n.reshape(s.shape) for n, s in zip(noisy, sums, strict=True)]


@dataclass(frozen=True)
class TableNoise(NoisySums):
    """Gaussian noise for one release of several tables, each on its own lattice.

    The squares of distances count in units of the noise of each table, and add up
    (Dong, Roth and Su 2022, Corollary 3.3).

    Attributes
    ----------
    of_tables : tuple of GaussianLattice
        The lattice of each table, in the order in which they are released.
    """

    of_tables: tuple[GaussianLattice, ...] = ()

    def lattices(self, n_sums: int) -> list[tuple[float, float]]:
        """Step of the lattice, and factor on the noise, of each table."""
        sigma = math.sqrt(self.noise_variance)
        return [(float(one.step), float(one.sigma) / sigma) for one in self.of_tables]

    def randomize(
        self, sums: list[NDArray[np.float64]], streams: Any
    ) -> list[NDArray[np.float64]]:
        """Add noise to tables of whole steps; see `NoisySums`."""
        blocks, noisy = itertools.count(), []
        for lattice, table in zip(self.of_tables, sums, strict=True):
            flat = table.ravel()
            for start in range(0, flat.size, _BLOCK):
                chunk = flat[start : start + _BLOCK]
                lattice.randomize(chunk, streams.stream(next(blocks)), out=chunk)
            noisy.append(flat.reshape(table.shape))
        return noisy


def row_sums(
    rows: NDArray[np.integer], shape: tuple[int, ...], contributions: OfChunk
) -> NDArray[np.float64]:
    """Sums by row of numbers that depend on public quantities alone."""
    total, size = np.zeros(shape), max(_CHUNK // shape[1], 1)
    for start in range(0, len(rows), size):
        chunk = slice(start, start + size)
        total += incidence(rows[chunk], shape[0]) @ contributions(chunk)
    return total


def incidence(rows: NDArray[np.integer], n_rows: int) -> sparse.csc_array:
    """A matrix with a column for each entry, and a 1 in the entry's row."""
    n = len(rows)
    return sparse.csc_array((np.ones(n), rows, np.arange(n + 1)), shape=(n_rows, n))


def plan_gaussian_sums(
    epsilon: float,
    delta: float,
    *,
    total_epsilon: float,
    n_cells: int,
    n_entries: int,
    n_moved: int = 0,
    n_releases: int = 1,
) -> NoisySums:
    """Gaussian noise for releases that together satisfy (epsilon, delta).

    Parameters
    ----------
    epsilon, delta : float
        Infinity for no noise.
    total_epsilon : float
        Epsilon of the whole composition to which these releases belong.
    n_cells : int
        Number of sums in all releases together.
    n_entries : int
        Bound on the number of entries, or of people.
    n_moved : int, default=0
        Number of sums in one release that rounding moves between neighbours.
    n_releases : int, default=1
        Number of releases of length one, each with a share of one in `Releases`.

    Returns
    -------
    sums : NoisySums

    Raises
    ------
    ValueError
        If delta is too small for epsilon and the number of sums, or the sums would not
        be exact.
    """
    if math.isinf(epsilon):
        return NoisySums(share=n_releases)
    if delta == 0:
        raise ValueError("Gaussian noise needs delta > 0. Pass delta, such as 1e-6.")
    sigma = math.sqrt(n_releases) / gaussian_mu(epsilon, delta)
    lattice = gaussian_lattice(sigma, n_cells, total_epsilon, delta)
    if lattice.step < _smallest_step(n_entries):
        fineness = math.floor(math.log2(sigma / _smallest_step(n_entries)))
        lattice = gaussian_lattice(
            sigma, n_cells, total_epsilon, delta, fineness=fineness
        )
    distance = ROUNDED_UP * (1 + float(lattice.step) * math.sqrt(n_moved))
    mu = distance / float(lattice.sigma) * math.sqrt(n_releases)
    lattice, scale = within_budget(lattice, mu, epsilon, delta)
    mu /= scale
    event = gaussian_event(mu, lattice)
    n_moved *= n_releases
    return NoisySums(
        lattice, float(lattice.sigma**2), event, n_cells, n_moved, share=n_releases
    )


def plan_laplace_sums(
    epsilon: float, *, n_releases: int, n_cells_per_entry: int, n_entries: int
) -> NoisySums:
    """Laplace noise for releases that together satisfy a pure epsilon.

    Parameters
    ----------
    epsilon : float
        Infinity for no noise.
    n_releases : int
    n_cells_per_entry : int
        Number of sums in one release that one entry contributes to.
    n_entries : int

    Returns
    -------
    sums : NoisySums

    Raises
    ------
    ValueError
        If epsilon cannot be represented, or the sums would not be exact.
    """
    from dp_accounting import dp_event

    from ..privacy.accounting._events import LatticeLaplaceDpEvent

    if math.isinf(epsilon) or n_releases == 0:
        return NoisySums(norm="l1", share=n_releases)
    smallest = _smallest_step(n_entries)
    options: dict[str, Any] = {"n_cells": n_cells_per_entry, "l1": ROUNDED_UP}
    share = epsilon / n_releases
    lattice = laplace_lattice(-math.inf, math.inf, share, **options)
    if lattice.step < smallest:
        lattice = laplace_lattice(-math.inf, math.inf, share, step=smallest, **options)
    event = dp_event.SelfComposedDpEvent(
        LatticeLaplaceDpEvent.from_lattice(lattice, lattice.l1_steps), n_releases
    )
    n_moved = n_cells_per_entry * n_releases
    return laplace_sums(lattice, event, share=n_releases, n_moved=n_moved)


def laplace_sums(
    lattice: LaplaceLattice,
    event: "DpEvent | None",
    *,
    share: float,
    n_moved: int = 0,
) -> NoisySums:
    """The noise of a lattice for distances in L1; see `NoisySums`."""
    return NoisySums(
        lattice, lattice.noise_variance, event, math.inf, n_moved, "l1", share
    )


def _smallest_step(n_entries: int) -> float:
    """Smallest power of two that contributions can be rounded to."""
    step = 2.0 ** math.ceil(math.log2(2 * n_entries / MOST_STEPS))
    if step > _LARGEST_STEP:
        raise ValueError(
            "There are too many values to be summed exactly; fit fewer of them."
        )
    return step


def planned_event(epsilon: float, delta: float, *, total_epsilon: float) -> "DpEvent":
    """Event of releases that satisfy (epsilon, delta), before their sums are known.

    It dominates the events of `plan_gaussian_sums` for up to a billion sums: their
    ideal noise leaves room for the sampler, and their sampler is closer to ideal noise
    than this event assumes.
    """
    lattice = gaussian_lattice(1.0, _MOST_SUMS, total_epsilon, delta)
    return gaussian_event(gaussian_mu(epsilon, delta), lattice)
