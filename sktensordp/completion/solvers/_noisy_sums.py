"""Sums over entries, released several times with noise.

In a release, every observed entry contributes a vector to the sums of the rows that
it is in. The vector is a function of the entry's own value and of what was released
before, and its distance from that of any other value is at most 1. So two data sets
that differ in one value have sums at distance 1 at most.

- Gaussian noise of standard deviation sigma, for distances in L2: a release is
  1/sigma-GDP, and K of them, chosen one after the other, are sqrt(K)/sigma-GDP (Dong,
  Roth and Su 2022, Corollary 3.3).
- Laplace noise, for distances in L1: the pure epsilons of the releases add up (Dwork,
  McSherry, Nissim and Smith 2006, Theorem 1).

Contributions are rounded to whole steps of the noise's lattice before they are summed,
so that sums are exact and the distance of neighbours is that of two contributions.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ...mechanisms._gaussian_noise import gaussian_event, within_budget
from ...noise import gaussian_lattice, laplace_lattice
from ...privacy import gaussian_mu

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

__all__ = [
    "Contributions",
    "NoisySums",
    "SumsPart",
    "plan_gaussian_sums",
    "plan_laplace_sums",
    "planned_event",
    "row_sums",
]

Contributions = Callable[[slice], NDArray[np.floating]]
SumsPart = tuple[NDArray[np.integer], tuple[int, ...], Contributions]

# A contribution is computed from a value with this relative error at most, and rounding
# mu up covers the few operations of the accounting.
_ROUNDED_UP = 1 + 1e-9
# Numbers among the contributions that are held at once.
_CHUNK = 2**22
_BLOCK = 2**16
# Sums of whole steps are exact below.
_LARGEST_INTEGER = 2**52
# Coarser steps would be seen beside contributions.
_LARGEST_STEP = 2.0**-10
# Of all releases, where it is not known how many there will be.
_MOST_SUMS = 10**9


@dataclass(frozen=True)
class NoisySums:
    """Noise of the sums, and what all their releases reveal together.

    Attributes
    ----------
    lattice : GaussianLattice, LaplaceLattice or None
        None for no noise.
    noise_variance : float
        Where contributions differ by up to 1.
    event : dp_accounting.DpEvent or None
        What all releases together are, for accounting.
    """

    lattice: Any = None
    noise_variance: float = 0.0
    event: "DpEvent | None" = None

    def release(
        self, parts: Iterable[SumsPart], streams: Any
    ) -> list[NDArray[np.float64]]:
        """Noisy sums of contributions, for one release.

        Parameters
        ----------
        parts : list of (rows, shape, contributions)
            For every mode that takes part, the row of each entry, the numbers of rows
            and of columns, and a function that maps a slice of the entries to their
            contributions, an array of shape (n, n_columns).
        streams : NoiseStreams
            Of this release alone.

        Returns
        -------
        sums : list of ndarray of shape (n_rows, n_columns)
        """
        step = None if self.lattice is None else self.lattice.step
        return self.randomize([row_sums(*part, step) for part in parts], streams)

    def randomize(
        self, sums: list[NDArray[np.float64]], streams: Any
    ) -> list[NDArray[np.float64]]:
        """Sums of whole steps with noise; see `release`."""
        if self.lattice is None:
            return sums
        flat = np.concatenate([s.ravel() for s in sums])
        for block, start in enumerate(range(0, len(flat), _BLOCK)):
            part = flat[start : start + _BLOCK]
            self.lattice.randomize(part, streams.stream(block), out=part)
        ends = np.cumsum([s.size for s in sums])[:-1]
        found = np.split(flat, ends)
        return [f.reshape(s.shape) for f, s in zip(found, sums, strict=True)]


def row_sums(
    rows: NDArray[np.integer],
    shape: tuple[int, ...],
    contributions: Contributions,
    step: float | None = None,
) -> NDArray[np.float64]:
    """Sums by row; with a step, those of contributions rounded to it, exactly."""
    total, size = np.zeros(shape), max(_CHUNK // shape[1], 1)
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        own = contributions(part)
        if step is not None:
            own = np.rint(own / step)
        n = len(own)
        incidence = sparse.csc_array(
            (np.ones(n), rows[part], np.arange(n + 1)), shape=(shape[0], n)
        )
        total += incidence @ own
    return total if step is None else total * step


def plan_gaussian_sums(
    epsilon: float,
    delta: float,
    *,
    within: float,
    n_releases: int,
    n_cells: int,
    n_changed: int,
    n_entries: int,
) -> NoisySums:
    """Noise for releases that keep (epsilon, delta) together.

    Parameters
    ----------
    epsilon, delta : float
        Infinity for no noise.
    within : float
        Epsilon of all that these releases are composed with, themselves included.
    n_releases : int
    n_cells : int
        Sums of all releases together.
    n_changed : int
        Sums of one release that one entry is in.
    n_entries : int

    Returns
    -------
    sums : NoisySums

    Raises
    ------
    ValueError
        If delta is too small for epsilon and so many sums, or the sums would not be
        exact.
    """
    if math.isinf(epsilon):
        return NoisySums()
    if delta == 0:
        raise ValueError("Gaussian noise needs delta > 0.")
    sigma = math.sqrt(n_releases) / gaussian_mu(epsilon, delta)
    lattice: Any = gaussian_lattice(sigma, n_cells, within, delta)
    if lattice.step < _least_step(n_entries):
        fineness = math.floor(math.log2(sigma / _least_step(n_entries)))
        lattice = gaussian_lattice(sigma, n_cells, within, delta, fineness=fineness)
    distance = _ROUNDED_UP * (1 + lattice.step * math.sqrt(n_changed))
    mu = distance / lattice.sigma * math.sqrt(n_releases)
    lattice, scale = within_budget(lattice, mu, epsilon, delta)
    mu /= scale
    return NoisySums(lattice, lattice.sigma**2, gaussian_event(mu, lattice))


def plan_laplace_sums(
    epsilon: float, *, n_releases: int, n_changed: int, n_entries: int
) -> NoisySums:
    """Noise for releases that keep a pure epsilon together.

    Parameters
    ----------
    epsilon : float
        Infinity for no noise.
    n_releases : int
    n_changed : int
        Sums of one release that one entry is in.
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

    from ...privacy.accounting._events import LatticeLaplaceDpEvent

    if math.isinf(epsilon) or n_releases == 0:
        return NoisySums()
    least = _least_step(n_entries)
    options: dict[str, Any] = {"n_cells": n_changed, "l1": _ROUNDED_UP}
    share = epsilon / n_releases
    lattice = laplace_lattice(-math.inf, math.inf, share, **options)
    if lattice.step < least:
        lattice = laplace_lattice(-math.inf, math.inf, share, step=least, **options)
    event = dp_event.SelfComposedDpEvent(
        LatticeLaplaceDpEvent.of(lattice, lattice.l1_steps), n_releases
    )
    return NoisySums(lattice, lattice.noise_variance, event)


def _least_step(n_entries: int) -> float:
    """Smallest power of two that contributions may be rounded to."""
    step = 2.0 ** math.ceil(math.log2(2 * n_entries / _LARGEST_INTEGER))
    if step > _LARGEST_STEP:
        raise ValueError("There are too many values to be summed exactly.")
    return step


def planned_event(epsilon: float, delta: float, *, within: float) -> "DpEvent":
    """What releases reveal that keep (epsilon, delta), before their sums are known.

    It dominates those of `plan_gaussian_sums` up to a billion sums, whose ideal noise
    leaves room for the sampler and whose sampler is nearer to it.
    """
    lattice = gaussian_lattice(1.0, _MOST_SUMS, within, delta)
    return gaussian_event(gaussian_mu(epsilon, delta), lattice)
