"""Perturbation of sums: the sum of the values in every row of every mode is randomised.

Guarantee. Two data sets that differ in the value of one observed entry, at the same
coordinates, differ in one sum of each mode, by at most the range of the values. Each
mode has an equal share of epsilon, and its sums get discrete Laplace noise for that
share; the modes compose. How many entries a row has is public.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..noise import discrete_laplace
from ..privacy import PrivacyGuarantee
from ._input import EntryRandomizer, domain_lattice, entry_guarantee

__all__ = ["SumsRandomizer", "plan_sums_randomizer", "planned_guarantee"]

_SOURCE = "Dwork, McSherry, Nissim and Smith (2006), Theorem 1, for each mode"
_STATEMENT = (
    "The sums of the values in every row of every mode were given discrete Laplace "
    "noise; all else is computed from them and the coordinates."
)
_BLOCK = 2**16


@dataclass(frozen=True)
class SumsRandomizer:
    """How values are clipped, summed and randomised, and what that reveals.

    Attributes
    ----------
    values : EntryRandomizer
        How values are moved into the declared domain.
    guarantee : PrivacyGuarantee
        Of all the randomised sums together.
    where : ndarray of shape (n, n_modes), int
        Coordinates of the values.
    shape : tuple of int
    lattice : LaplaceLattice or None
        Of the values and of the noise of a sum; None for no noise.
    """

    values: EntryRandomizer
    guarantee: PrivacyGuarantee
    where: np.ndarray
    shape: tuple[int, ...]
    lattice: Any = None

    @property
    def noise_variance(self):
        """Variance of the noise of a sum."""
        return 0.0 if self.lattice is None else self.lattice.noise_variance

    def clip(self, values):
        """Sums of the clipped values, one mode after the other, without noise."""
        values = self.values.clip(values.astype(float))
        return self._sums(values)

    def randomize(self, values, source):
        """Noisy sums, block by block, each from its own stream.

        Parameters
        ----------
        values : ndarray of shape (n,), float
        source : NoiseSource

        Returns
        -------
        sums : ndarray of shape (sum of shape,), float64
        """
        lattice = self.lattice
        # Whole steps, so that the sums are exact.
        steps = np.rint(
            (self.values.clip(values.astype(float)) - lattice.low) / lattice.step
        )
        sums = self._sums(np.clip(steps, 0, lattice.n_steps))
        for block, start in enumerate(range(0, len(sums), _BLOCK)):
            part = sums[start : start + _BLOCK]
            part += discrete_laplace(
                source.stream(block), lattice.numerator, lattice.denominator, len(part)
            )
        return sums * lattice.step + lattice.low * self.counts

    @property
    def counts(self):
        """How many values each sum has; public."""
        return self._sums(None)

    def _sums(self, weights):
        sums = [
            np.bincount(column, weights=weights, minlength=size)
            for column, size in zip(self.where.T, self.shape, strict=True)
        ]
        return np.concatenate(sums)


def planned_guarantee(epsilon):
    """Guarantee before the shape is known; the budget, which is not exceeded."""
    from ..privacy._events import PureDpEvent

    return entry_guarantee(PureDpEvent(float(epsilon)), _STATEMENT, _SOURCE)


def plan_sums_randomizer(values, epsilon, where, shape, *, declared):
    """Randomiser of the sums for one fit.

    Parameters
    ----------
    values : EntryRandomizer
        Of the same values and the same epsilon.
    epsilon : float
        Budget of one entry; infinity for none.
    where : ndarray of shape (n, n_modes), int
    shape : tuple of int
    declared : bool
        Whether the range was declared; if not, nothing finite holds.

    Returns
    -------
    randomizer : SumsRandomizer

    Raises
    ------
    ValueError
        If the sums cannot be represented exactly.
    """
    from dp_accounting import dp_event

    if math.isinf(epsilon):
        return SumsRandomizer(values, values.guarantee, where, shape)
    n_modes = len(shape)
    lattice = domain_lattice(epsilon / n_modes, values.bounds, values.levels)
    if len(where) * lattice.n_steps >= 2**53:
        raise ValueError("There are too many values to be summed exactly.")
    event = dp_event.SelfComposedDpEvent(
        dp_event.DiscreteLaplaceDpEvent(
            noise_parameter=lattice.rate, sensitivity=lattice.n_steps
        ),
        n_modes,
    )
    void_for = None if declared else float(epsilon)
    guarantee = entry_guarantee(event, _STATEMENT, _SOURCE, void_for=void_for)
    return SumsRandomizer(values, guarantee, where, shape, lattice)
