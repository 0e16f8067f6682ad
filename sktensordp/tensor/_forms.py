"""Decompositions as functions that are linear in every block of their parameters.

An entry meets one row of every block, and its value is the product of any one of them
with regressors, which the others determine. The blocks of a CP are its factors; those
of a Tucker decomposition are its factors and, last, the core, as a block of one row.
"""

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["CPForm", "TuckerForm"]


@dataclass(frozen=True)
class CPForm:
    """Sum over the columns of the products of an entry's rows.

    Attributes
    ----------
    rank : int
        Number of columns; 0 for none.
    """

    rank: int

    def __bool__(self):
        return self.rank > 0

    def blocks(self, shape):
        """Numbers of rows and of columns of every block: a list of pairs."""
        return [(size, self.rank) for size in shape]

    def rows(self, coordinates):
        """Row of every entry in every block: a list of arrays of shape (n,)."""
        return list(coordinates.T)

    def regressors(self, block, factors, rows):
        """What the value of an entry has for coefficients of its row of a block.

        Parameters
        ----------
        block : int
        factors : list of ndarray
            The blocks; that of `block` is not read.
        rows : list of ndarray of shape (n,), int
            Row of every entry in every block.

        Returns
        -------
        regressors : ndarray of shape (n, n_columns of the block)
        """
        others = [k for k in range(len(factors)) if k != block]
        return math.prod(factors[k][rows[k]] for k in others)


@dataclass(frozen=True)
class TuckerForm:
    """Product of a core with an entry's rows.

    Attributes
    ----------
    ranks : tuple of int
        One a mode; all 0 for none.
    """

    ranks: tuple[int, ...]

    def __bool__(self):
        return self.rank > 0

    @property
    def rank(self):
        """The least of the ranks: so many terms any two modes can have."""
        return min(self.ranks)

    def blocks(self, shape):
        """Numbers of rows and of columns of every block; see `CPForm`."""
        sizes = list(zip(shape, self.ranks, strict=True))
        return [*sizes, (1, math.prod(self.ranks))]

    def rows(self, coordinates):
        """Row of every entry in every block; see `CPForm`."""
        return [*coordinates.T, np.zeros(len(coordinates), dtype=np.int32)]

    def regressors(self, block, factors, rows):
        """Coefficients of an entry's row of a block; see `CPForm.regressors`."""
        n_modes, n = len(self.ranks), len(rows[0])
        if block == n_modes:
            found = np.ones((n, 1))
            for factor, r in zip(factors, rows[:-1], strict=False):
                found = found[:, :, np.newaxis] * factor[r][:, np.newaxis]
                found = found.reshape(n, -1)
            return found
        # The mode of the block first, so that the others go one by one from the end.
        core = np.moveaxis(factors[-1].reshape(self.ranks), block, 0)
        others = [k for k in range(n_modes) if k != block]
        last = others.pop()
        found = factors[last][rows[last]] @ core.reshape(-1, core.shape[-1]).T
        for k in reversed(others):
            found = found.reshape(n, -1, self.ranks[k])
            found = np.einsum("nrk,nk->nr", found, factors[k][rows[k]])
        return found
