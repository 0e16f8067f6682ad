"""Tables from what was released: unbiased ones, and non-negative ones that agree."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ._plan import Modes, Plan, size_of, subsets

_MOST_ROUNDS = 300
# Of the total, by how much the sums of a table may differ from the tables of fewer
# modes for the search to end.
_CLOSE = 1e-6


@dataclass
class Tables:
    """All tables of a fit; post-processing.

    Attributes
    ----------
    plan : Plan
    released : dict of tuple of int to ndarray
        What each table adds to those of fewer modes.
    """

    plan: Plan
    released: dict[Modes, NDArray[np.float64]]
    _whole: dict[Modes, tuple[NDArray[np.float64], float]] = field(default_factory=dict)

    def unbiased(self, modes: Modes) -> NDArray[np.float64]:
        """The table of some modes, in ascending order."""
        shape = self.plan.workload.shape
        table = np.zeros([shape[i] for i in modes])
        for own in subsets(modes):
            if own in self.released:
                axes = tuple(k for k, i in enumerate(modes) if i not in own)
                rest = size_of(shape, set(modes) - set(own))
                table += np.expand_dims(self.released[own], axes) / rest
        return table if self.plan.noise.step else np.rint(table)

    def nonnegative(self, modes: Modes) -> tuple[NDArray[np.float64], float]:
        """The same without negative numbers, and how far its sums are off.

        The nearest table, in squares, whose sums are the non-negative tables of one
        mode less. The distance of its sums from these is in L1, as a part of the total.
        """
        if modes not in self._whole:
            self._whole[modes] = self._nearest(modes)
        return self._whole[modes]

    def _nearest(self, modes: Modes) -> tuple[NDArray[np.float64], float]:
        table = self.unbiased(modes)
        if not modes:
            return np.maximum(table, 0.0), 0.0
        sums = [self.nonnegative(tuple(j for j in modes if j != i))[0] for i in modes]
        total = float(sums[0].sum())
        if not total:
            return np.zeros_like(table), 0.0
        # Dual variables of the sums along each axis, one axis at a time.
        duals = [np.zeros_like(one) for one in sums]
        found, gap = table, np.inf
        for _ in range(_MOST_ROUNDS):
            for k, one in enumerate(sums):
                left = table - sum(
                    np.expand_dims(dual, j) for j, dual in enumerate(duals) if j != k
                )
                rows = np.moveaxis(left, k, -1).reshape(-1, table.shape[k])
                duals[k] = _excess(rows, one.ravel()).reshape(one.shape)
            down = sum(np.expand_dims(dual, k) for k, dual in enumerate(duals))
            found = np.maximum(table - down, 0.0)
            far = (np.abs(found.sum(axis=k) - one).sum() for k, one in enumerate(sums))
            gap = float(max(far)) / total
            if gap <= _CLOSE:
                break
        return found, gap


def _excess(
    rows: NDArray[np.float64], totals: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What to take off each row so that what stays above 0 adds up to its total.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
    totals : ndarray of shape (n_rows,)
        Not negative.

    Returns
    -------
    excess : ndarray of shape (n_rows,)
    """
    down = -np.sort(-rows, axis=1)
    over = np.cumsum(down, axis=1) - totals[:, np.newaxis]
    over /= np.arange(1, rows.shape[1] + 1)
    last = np.maximum(np.sum(down > over, axis=1), 1) - 1
    return over[np.arange(len(rows)), last]
