"""Decompositions as functions that are linear in every block of their parameters.

An entry meets one row of every block, and its value is the product of any one of them
with regressors, which the others determine. The blocks of a CP are its factors; those
of a Tucker decomposition are its factors and, last, the core, as a block of one row.
"""

import math
from dataclasses import dataclass

import numpy as np

from ._point_model import point_model

__all__ = ["CPForm", "TuckerForm"]

# Shorter columns are next to nothing; squares of axes, beside those of the largest.
_SHORTEST, _SHORTEST_AXIS = 1e-150, 1e-14


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
        return bool(self.rank > 0)

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

    def moments(self, block, moments, core=None):
        """Second moment of one and the regressors of a block, if rows are independent.

        Parameters
        ----------
        block : int
        moments : list of ndarray of shape (1 + n_columns, 1 + n_columns)
            Second moments of one and the rows of every mode; that of `block` is not
            read.

        Returns
        -------
        moment : ndarray of shape (1 + n_columns, 1 + n_columns)
        """
        return math.prod(m for k, m in enumerate(moments) if k != block)

    def centre(self, block):
        """What the rows of a block are around where nothing is known of them.

        Modes after the second modulate the product of the first two.
        """
        return np.full(self.rank, float(block > 1))

    def normalize(self, block, factors):
        """Give the columns of a block that was fitted a mean square of one, in place.

        A fit of another block makes up for their lengths.
        """
        factors[block] = factors[block] / _lengths(factors[block])

    def point_model(self, shape, noise_variance, dtype, *, biases=None, blocks=None):
        """A model of given biases and blocks; see `sktensordp.tensor.point_model`."""
        return point_model(shape, noise_variance, dtype, biases=biases, factors=blocks)


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
        return bool(self.rank > 0)

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
        # By elementwise operations, so that what an entry gets does not depend on those
        # it is computed with, as it may in products of matrices; entries come last, so
        # that these operations are on long vectors.
        n_modes, n = len(self.ranks), len(rows[0])
        own = [None if k == block else factors[k].T[:, rows[k]] for k in range(n_modes)]
        if block == n_modes:
            found = np.ones((1, n))
            for columns in own:
                found = (found[:, np.newaxis] * columns).reshape(-1, n)
            return np.ascontiguousarray(found.T)
        others = [k for k in range(n_modes) if k != block]
        found = self._core(factors).transpose(block, *others).reshape(-1, 1)
        for k in reversed(others):
            found = found.reshape(-1, self.ranks[k], found.shape[-1])
            found = sum(found[:, r] * own[k][r] for r in range(self.ranks[k]))
        return np.ascontiguousarray(found.T)

    def moments(self, block, moments, core):
        """See `CPForm.moments`; the core is of shape (1, product of the ranks)."""
        others = [k for k in range(len(self.ranks)) if k != block]
        mean, square = np.ones(1), np.ones((1, 1))
        for k in others:
            mean = np.kron(mean, moments[k][0, 1:])
            square = np.kron(square, moments[k][1:, 1:])
        if block < len(self.ranks):
            core = core.reshape(self.ranks).transpose(block, *others)
            core = core.reshape(self.ranks[block], -1)
            mean, square = core @ mean, core @ square @ core.T
        return np.block([
            [np.ones((1, 1)), mean[np.newaxis]], [mean[:, np.newaxis], square]
        ])  # fmt: skip

    def _core(self, factors):
        return factors[-1].reshape(self.ranks)

    def centre(self, block):
        """What the rows of a block are around; see `CPForm.centre`.

        The core is around one that makes pairs of the columns of the first two modes,
        which the first column of every other mode modulates.
        """
        if block == len(self.ranks):
            core = np.zeros(self.ranks)
            for term in range(min(self.ranks[:2])):
                core[term, term, *[0] * (len(self.ranks) - 2)] = 1.0
            return core.ravel()
        centre = np.zeros(self.ranks[block])
        centre[0] = float(block > 1)
        return centre

    def normalize(self, block, factors):
        """Give a block that was fitted orthogonal columns of mean square one, in place.

        The core makes up for it, and is brought to the length of a CP of so many terms,
        with which regressors are as long as the columns. See `CPForm.normalize`.
        """
        core = self._core(factors)
        if block < len(self.ranks):
            own = factors[block] / _largest(factors[block])
            squares, axes = np.linalg.eigh(own.T @ own / len(own))
            lengths = np.sqrt(np.maximum(squares, _SHORTEST_AXIS))
            factors[block] = own @ axes / lengths
            turned = np.tensordot(lengths[:, np.newaxis] * axes.T, core, (1, block))
            core = np.moveaxis(turned, 0, block)
        core = core / _largest(core)
        core *= math.sqrt(self.rank / max(np.sum(core**2), 1.0))
        factors[-1] = core.reshape(1, -1)

    def point_model(self, shape, noise_variance, dtype, *, biases=None, blocks=None):
        """A model of given biases and blocks; see `point_tucker_model`."""
        from ._structured_tucker import point_tucker_model

        parts = {}
        if blocks is not None:
            parts = {"factors": blocks[:-1], "core": self._core(blocks)}
        return point_tucker_model(shape, noise_variance, dtype, biases=biases, **parts)


def _lengths(block):
    """Roots of the mean squares of the columns."""
    return np.maximum(np.sqrt(np.mean(block**2, axis=0)), _SHORTEST)


def _largest(block):
    return max(np.abs(block).max(), _SHORTEST)
