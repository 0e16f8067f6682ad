"""Exact sums over samples of their second moments, mode by mode.

**Guarantee.** Take two data sets of equally many samples that differ in one of them,
and fixed values of all that has been released before. The sums that answer a
`Question` with shares s_1, s_2, ... of the squared budget then differ by a vector that
is no longer than sqrt(s_1 + s_2 + ...), up to their one rounding to the lattice of the
noise. Nothing else about a sample enters a sum.

**Proof for moments.** Let x be a sample after clipping, |x| <= 1 in units of the bound,
and X_k its unfolding along mode k. A_k = X_k X_k' is positive semidefinite, and its
Frobenius norm is at most its trace |x|^2 <= 1. For two samples,
|A_k - B_k|^2 = |A_k|^2 + |B_k|^2 - 2 <A_k, B_k> <= 2, since the inner product of
positive semidefinite matrices is not negative. The sums have the cells above the
diagonal as they are, and those of the diagonal times 181/256, which is less than
1 / sqrt(2). So the squared distance of these vectors is at most |A_k - B_k|^2 / 2 <= 1.
Mode k has a weight of at most sqrt(s_k).

**Proof for means.** Two samples differ by at most 2. The weight is at most sqrt(s) / 2.

The factor sqrt(2) holds for second moments alone, and only because no sample's moments
are divided by the sample's own length. Targets of a regression are further coordinates
of a sample, so that their products with it are moments, too.

**Integers.** A product in floating point of several samples would depend on who else is
among them. So each sample becomes integers by itself, in this order: the released mean
is subtracted; cells are clipped to the bound; they are truncated to whole numbers of up
to 2^b; the exact squared length is compared with 4^b; a longer sample is scaled down in
integers. Lengths are summed in doubles, which are exact below 2^53 and never fall below
it again: 2^20 cells of 2^22 would wrap integers of 64 bits to a length of 0. Before a
sample enters a sum, its length is checked once more.

Products of these integers are exact in float64 for up to 2^(52 - 2b) samples at a time,
because the absolute values of all terms of a cell add up to less than 2^53. The sums of
such blocks are added in two limbs. Features of a second release are exact products with
a basis of whole numbers, truncated and clipped once more: rounded features can be
longer than the sample.

**Rounding.** An exact sum is multiplied by an integer weight and rounded to the lattice
once. That moves two sums apart by at most a step in each cell.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..measure import check_lengths, rounded, squared_lengths

LARGEST_SAMPLE = 2**20
"""Largest number of cells of a sample; 22 bits of a cell then lose little."""
LARGEST_CORE = 2048
"""Most cells of a core whose moments are released."""
CAPACITY = 2**26
"""Largest number of samples; their sums fit two limbs."""

# A weight, 1 being 2^20; the diagonal of moments has 181/256 of the other cells'.
_WEIGHT_BITS, _DIAGONAL, _OTHERS = 20, 181, 256
# Bits of a basis.
BASIS_BITS = 24
_LIMB = 2**32 - 1
# Bits of the lower half of a square.
_HALF_BITS = 22


def n_bits_of(n_cells: int) -> int:
    """Bits of the length of a sample, of which truncation then loses little."""
    return min(22, 16 + math.ceil(math.log2(n_cells) / 2))


@dataclass(frozen=True, eq=False)
class Question:
    """Which sums over samples come next. Everything in it is public.

    Parameters
    ----------
    shape : tuple of int
        Shape of a sample.
    bound : float
        Largest Euclidean norm of a sample; longer ones are scaled down.
    shares : tuple of float, default=()
        Shares of the squared budget: one for each mode of the moments, or one for a
        mean or for the moments of the core.
    mean : ndarray of shape (n_cells,), default=None
        Released; subtracted from the samples.
    bases : tuple of ndarray of shape (I_k, r_k), default=None
        Released; the samples are projected on them. Whole numbers in units of 2^-24, if
        `exact`.
    is_mean : bool, default=False
        Whether to sum samples instead of moments.
    is_joint : bool, default=False
        Whether to sum the moments of all cells and further coordinates together,
        instead of those of every mode.
    further : float, default=0.0
        Largest length of the further coordinates of a sample, in units of `bound`.
    n_further : int, default=0
    exact : bool, default=True
        Whether to sum integers. Without noise, floats are summed.
    """

    shape: tuple[int, ...]
    bound: float
    shares: tuple[float, ...] = ()
    mean: NDArray[np.float64] | None = None
    bases: tuple[NDArray[np.float64], ...] | None = None
    is_mean: bool = False
    is_joint: bool = False
    further: float = 0.0
    n_further: int = 0
    exact: bool = True

    def __post_init__(self) -> None:
        for basis in self.bases or ():
            if np.max(np.square(basis).sum(axis=0)) > 1.1 * 4.0**BASIS_BITS:
                raise ValueError("The columns of a basis must be unit vectors.")

    @cached_property
    def n_bits(self) -> int:
        return n_bits_of(math.prod(self.shape))

    @property
    def sides(self) -> tuple[int, ...]:
        """Number of rows of each matrix of moments; none for a mean."""
        if self.is_mean:
            return ()
        sides = self.shape
        if self.bases is not None:
            sides = tuple(basis.shape[1] for basis in self.bases)
        return (math.prod(sides) + self.n_further,) if self.is_joint else sides

    @cached_property
    def n_cells(self) -> int:
        """Number of sums."""
        if self.is_mean:
            return math.prod(self.shape)
        return sum(n * (n + 1) // 2 for n in self.sides)

    @property
    def limits(self) -> tuple[int, int]:
        """Largest lengths of a sample and of its further coordinates, as integers."""
        unit = 2**self.n_bits / self._both
        return math.floor(unit), math.floor(unit * self.further)

    @property
    def _both(self) -> float:
        """Largest length of a sample with its further coordinates, in `bound`."""
        return math.hypot(1.0, self.further if self.is_joint else 0.0)

    @property
    def unit(self) -> float:
        """The same in units of the cells."""
        return self.bound * self._both

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        """Weight of each sum, in units of 2^-20."""
        if self.is_mean:
            one = math.floor(math.sqrt(self.shares[0]) / 2 * 2**_WEIGHT_BITS)
            return np.full(self.n_cells, one)
        weights = []
        for n, share in zip(self.sides, self.shares, strict=True):
            root = math.floor(math.sqrt(share) * 2**_WEIGHT_BITS / _OTHERS)
            row, column = np.triu_indices(n)
            weights.append(root * np.where(row == column, _DIAGONAL, _OTHERS))
        return np.concatenate(weights)

    def steps(self, sums: NDArray[np.int64], step: float) -> NDArray[np.float64]:
        """Weighted sums, rounded to whole steps of the lattice of the noise.

        Parameters
        ----------
        sums : ndarray of shape (2, n_cells), int64
            What `contribute` returned, for all samples together.
        step : float
            A power of two.
        """
        high, low = sums[0] + (sums[1] >> 32), sums[1] & _LIMB
        limbs = np.stack([high * self.weights, low * self.weights])
        n_bits = self.n_bits * (1 if self.is_mean else 2)
        return rounded(limbs, n_bits + _WEIGHT_BITS + round(math.log2(step)))

    def read(self, released: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Sums in units of the cells from what was released: matrices, or one vector.

        Off the diagonal, the noise of a matrix has the standard deviation that
        `deviations` gives, and on the diagonal 256/181 times as much.
        """
        weighted = (
            released * (2**_WEIGHT_BITS / self.weights) if self.exact else released
        )
        unit = self.unit if self.exact else 1.0
        if self.is_mean:
            return [weighted * unit]
        ends = np.cumsum([n * (n + 1) // 2 for n in self.sides])[:-1]
        parts = np.split(weighted * unit**2, ends)
        return [symmetric(part, n) for part, n in zip(parts, self.sides, strict=True)]

    def deviations(self, sigma: float) -> list[float]:
        """Standard deviation of the noise of each matrix, off its diagonal."""
        if not sigma:
            return [0.0] * len(self.sides)
        return [sigma * self.unit**2 / math.sqrt(share) for share in self.shares]


def contribute(
    rows: NDArray[np.floating],
    question: Question,
    further: NDArray[np.float64] | None = None,
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Sum what samples contribute; the same integers in any chunks and any order.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_cells)
        Finite.
    question : Question
    further : ndarray of shape (n_samples, n_further), default=None
        Further coordinates, in units of the bound.

    Returns
    -------
    sums : ndarray of shape (2, n_cells), int64
        Two limbs: sums[0] 2^32 + sums[1]. Add the sums of several chunks. Without noise
        (``exact=False``), floats of shape (n_cells,).
    """
    if not question.exact:
        return _sums(_cells(rows, question, further), question)
    total = np.zeros((2, question.n_cells), np.int64)
    size = 2 ** (52 - 2 * question.n_bits)
    for start in range(0, len(rows), size):
        block = slice(start, start + size)
        of_block = None if further is None else further[block]
        cells = _cells(rows[block], question, of_block)
        check_lengths(squared_lengths(cells), 4.0**question.n_bits)
        sums = _sums(cells, question)
        whole = sums.astype(np.int64)
        total[0] += whole >> 32
        total[1] += whole & _LIMB
    return total


def _sums(cells: NDArray[np.float64], question: Question) -> NDArray[np.float64]:
    """Sums of samples, or of the upper triangles of their moments."""
    if question.is_mean:
        return cells.sum(axis=0)
    sides, moments = question.sides, []
    tensors = cells.reshape(-1, *sides)
    for mode, side in enumerate(sides):
        unfolded = np.moveaxis(tensors, mode + 1, 0).reshape(side, -1)
        moments.append((unfolded @ unfolded.T)[np.triu_indices(side)])
    return np.concatenate(moments)


def _cells(
    rows: NDArray[np.floating],
    question: Question,
    further: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Each sample, and its further coordinates: whole numbers of bounded length.

    Without noise, nothing has to be exact, and they are floats.
    """
    exact, bound, (limit, further_limit) = (
        question.exact,
        question.bound,
        question.limits,
    )
    cells = np.array(rows, dtype=float, order="C")
    if question.mean is not None:
        with np.errstate(over="ignore"):
            cells -= question.mean
    if exact:
        np.clip(cells, -bound, bound, out=cells)
        cells /= bound
        cells = _within(_truncated(cells, limit), limit)
    elif math.isfinite(bound):
        lengths = np.linalg.norm(cells, axis=1, keepdims=True)
        cells *= bound / np.maximum(lengths, bound)
    if question.bases is not None:
        unit = 2.0**BASIS_BITS if exact else None
        cells = projected(cells, question.shape, question.bases, unit)
        cells = _within(cells, limit) if exact else cells
    if further is None or not question.is_joint:
        return cells
    if exact:
        further = _truncated(further / question.further, further_limit)
        further = _within(further, further_limit)
    return np.concatenate([cells, further], axis=1)


def _truncated(cells: NDArray[np.float64], limit: int) -> NDArray[np.float64]:
    """Numbers in [-1, 1] as whole numbers, `limit` standing for 1."""
    cells = np.clip(cells * limit, -limit, limit)
    return np.trunc(cells, out=cells)


def _within(cells: NDArray[np.float64], limit: int) -> NDArray[np.float64]:
    """Scale rows of whole numbers that are longer than `limit` down to it, exactly."""
    is_long = ~(squared_lengths(cells) <= limit**2)
    rows = cells[is_long].astype(np.int64)
    # The same in any order, added in two halves: 2^20 squares of 2^44 do not fit 64
    # bits together.
    cells_squared = np.square(rows)
    high = (cells_squared >> _HALF_BITS).sum(axis=1)
    low = (cells_squared & (2**_HALF_BITS - 1)).sum(axis=1)
    squares = high * 2.0**_HALF_BITS + low
    # An integer above the root: the root in floating point is off by less than 1.
    roots = np.floor(np.sqrt(squares)).astype(np.int64) + 2
    scaled = np.abs(rows) * limit // roots[:, np.newaxis]
    cells[is_long] = np.sign(rows) * scaled
    return cells


def projected(
    rows: NDArray[np.float64],
    shape: tuple[int, ...],
    bases: Sequence[NDArray[np.float64]],
    unit: float | None = None,
) -> NDArray[np.float64]:
    """Cores of samples: multiplied by the transpose of a basis along every mode.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_cells)
    shape : tuple of int
    bases : list of ndarray of shape (I_k, r_k)
    unit : float, default=None
        If given, rows and bases are whole numbers, bases in this unit, and products
        are truncated to whole numbers after every mode.

    Returns
    -------
    cores : ndarray of shape (n_samples, n_core_cells)
    """
    tensors = rows.reshape(-1, *shape)
    for basis in bases:
        # The first mode becomes the last; after all modes, the order is as before.
        tensors = np.tensordot(tensors, basis, (1, 0))
        if unit is not None:
            tensors = np.trunc(tensors / unit, out=tensors)
    return np.ascontiguousarray(tensors).reshape(len(rows), -1)


def whole_basis(basis: NDArray[np.float64]) -> NDArray[np.float64]:
    """A basis of unit vectors as whole numbers."""
    return np.rint(basis * 2.0**BASIS_BITS)


def symmetric(upper: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """The symmetric matrix with this upper triangle, row by row."""
    matrix, where = np.empty((n, n)), np.triu_indices(n)
    matrix[where] = matrix[where[::-1]] = upper
    return matrix
