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

**Several samples of a person.** Where people have groups of samples, "sample" above
stands for a person, and neighbours differ in all samples of one person, of whom there
may be any number from one on. The samples x_1, ..., x_m of a person, each clipped as
above and with its further coordinates, are scaled down once more, all by one factor, so
that |x_1|^2 + ... + |x_m|^2 <= 1: as one vector. The person adds A = X_1 X_1' + ... +
X_m X_m', which is positive semidefinite, and no longer than its trace, which is at most
1. To a mean, a person adds (x_1 + ... + x_m) / m, which is no longer than 1. So both
proofs hold for people, whose number is public. The factor is between m^-1/2 and 1. So a
person counts in moments at least as much as one sample, and at most as much as m; how
much is private, and follows for a regression from released sums alone.

**Integers.** A product in floating point of several samples would depend on who else is
among them. So each sample becomes integers by itself, in this order: the released mean
is subtracted; cells are divided by the bound, or by the largest of them if that is
larger; they are truncated to whole numbers of up to 2^b; the exact squared length is
compared with 4^b; a longer sample is scaled down in integers. A sample with a cell
beyond the bound is at least 2^b long then, so that it is scaled to the bound, and keeps
its direction. Lengths are summed in doubles, which are exact below 2^53 and never fall
below it again: 2^20 cells of 2^22 would wrap integers of 64 bits to a length of 0. The
door checks them once more before a sample enters a sum (``measure/_sums.py``).

Products of these integers are exact in float64 for up to 2^(52 - 2b) samples at a time,
because the absolute values of all terms of a cell add up to less than 2^53. The sums of
such blocks are added in two limbs. Features of a second release are exact products with
a basis of whole numbers, truncated and clipped once more: rounded features can be
longer than the sample.

**Rounding.** An exact sum is multiplied by an integer weight and rounded to the lattice
once, or once by each party that adds noise of its own: a sample is at one party, so one
of the sums that are rounded differs (``measure/_noise_shares.py``). That moves two sums
apart by at most a step in each cell.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..measure import Sums, rounded

LARGEST_SAMPLE = 2**20
"""Largest number of cells of a sample; 22 bits of a cell then lose little."""
LARGEST_CORE = 2048
"""Most cells of a core whose moments are released."""
CAPACITY = 2**26
"""Largest number of samples; their sums fit two limbs."""

# A weight, 1 being 2^20; the diagonal of moments has 181/256 of the other cells'.
_WEIGHT_BITS, _DIAGONAL, _OTHERS = 20, 181, 256
DIAGONAL_NOISE = _OTHERS / _DIAGONAL
"""Noise on the diagonal of moments, in units of that off the diagonal."""
# Bits of a basis.
BASIS_BITS = 24
_LIMB = 2**32 - 1
# Bits of the lower half of a square.
_HALF_BITS = 22
LARGEST_CELL = float(np.finfo(float).max)


class Chunk(NamedTuple):
    """Samples of some people.

    Attributes
    ----------
    rows : ndarray of shape (n_samples, n_cells)
    further : ndarray of shape (n_samples, n_further) or None
        Further coordinates, in units of the bound.
    sizes : ndarray of shape (n_people,) or None
        How many samples each person has, at least one; those of a person follow each
        other. None if each sample is a person's only one.
    """

    rows: NDArray[np.floating]
    further: NDArray[np.float64] | None = None
    sizes: NDArray[np.intp] | None = None

    @property
    def n_people(self) -> int:
        """Number of people, which is public."""
        return len(self.rows) if self.sizes is None else len(self.sizes)

    def blocks(self, size: int) -> Iterator[Chunk]:
        """The same people in blocks of so many samples, or of one person with more."""
        sizes, start = self.sizes, 0
        if sizes is None:
            sizes = np.ones(len(self.rows), np.intp)
        for end, of_block in zip(*_whole_people(sizes, size), strict=True):
            further = None if self.further is None else self.further[start:end]
            known = None if self.sizes is None else of_block
            yield Chunk(self.rows[start:end], further, known)
            start = end


def _whole_people(
    sizes: NDArray[np.intp], size: int
) -> tuple[list[int], list[NDArray[np.intp]]]:
    """Ends of blocks of whole people, and the sizes of the people in each."""
    ends, first, lasts = np.cumsum(sizes), 0, []
    while first < len(sizes):
        before = ends[first] - sizes[first]
        first = max(int(np.searchsorted(ends, before + size, "right")), first + 1)
        lasts.append(first)
    return [int(ends[last - 1]) for last in lasts], np.split(sizes, lasts)[:-1]


def length_bits_of(n_cells: int) -> int:
    """Bits of the length of a sample, of which truncation then loses little."""
    return min(22, 16 + math.ceil(math.log2(n_cells) / 2))


# --- kinds of sums --------------------------------------------------------------------


@dataclass(frozen=True)
class _SampleSums(Sums):
    """Sums over samples of whole numbers; see `Sums`.

    Attributes
    ----------
    sides : tuple of int
        Shape of a sample, or of its core.
    share : float
        Share of the squared budget.
    step : float
        Step of the lattice; 0 for no noise. Sums are floats then.
    length_bits : int
        A sample is at most 2 to the power of this long.
    """

    sides: tuple[int, ...]
    share: float
    step: float
    length_bits: int

    norm = "l2"
    unit = 1.0
    """Released sums have weights: `read` takes them off."""

    @property
    @abstractmethod
    def _weights(self) -> NDArray[np.int64]:
        """Weight of each sum, in units of 2^-20."""

    @property
    @abstractmethod
    def _bits(self) -> int:
        """Bits of what a sample adds to a sum."""

    @abstractmethod
    def _summed(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over samples, exact for so few of them that they stay below 2^53."""

    @property
    def limit(self) -> float:
        """Largest length of a sample."""
        return 2.0**self.length_bits if self.step else math.inf

    @property
    def n_moved(self) -> int:
        """Number of sums that are rounded after they are summed: all."""
        return math.prod(self.shape)

    def zeros(self) -> NDArray[Any]:
        """The sums over nobody: two limbs, or floats without noise."""
        return (
            np.zeros((2, *self.shape), np.int64) if self.step else np.zeros(self.shape)
        )

    def on_lattice(self, totals: NDArray[Any]) -> NDArray[np.float64]:
        """The sums as they enter a release."""
        return self.rounded(totals) * self.step if self.step else totals

    def rounded(self, totals: NDArray[Any]) -> NDArray[np.float64]:
        """Weighted sums in whole steps."""
        high, low = totals[0] + (totals[1] >> 32), totals[1] & _LIMB
        limbs = np.stack([high * self._weights, low * self._weights])
        return rounded(limbs, self._bits + _WEIGHT_BITS + round(math.log2(self.step)))

    def largest(self, n_people: int) -> float:
        """Bound on the steps of any sum over this many samples."""
        return n_people * (math.sqrt(self.share) / self.step + 1)

    def n_bits(self, n_people: int) -> int:
        """Number of bits of the limbs, whose sums are exact modulo 2^64."""
        return 64

    def unweighted(self, released: NDArray[np.float64]) -> NDArray[np.float64]:
        """Released sums without their weights."""
        return released * (2**_WEIGHT_BITS / self._weights) if self.step else released

    def _weighed(
        self, cells: NDArray[np.float64], sizes: NDArray[np.intp] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        squares = _squared_lengths(cells)
        if sizes is None:
            return np.ones(len(cells)), np.sqrt(squares)
        lengths = self._lengths(squares, np.cumsum(sizes) - sizes)
        return np.ones(len(sizes)), lengths

    @abstractmethod
    def _lengths(
        self, squares: NDArray[np.float64], starts: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Length of what each person adds, from the squared lengths of samples.

        `starts` has the first sample of each person.
        """

    def _add(
        self,
        totals: NDArray[Any],
        weights: NDArray[np.float64],
        cells: NDArray[np.float64],
        sizes: NDArray[np.intp] | None,
    ) -> None:
        if not weights.all():
            of_rows = weights if sizes is None else np.repeat(weights, sizes)
            cells = np.where(of_rows[:, np.newaxis] > 0, cells, 0.0)
        if not self.step:
            totals += self._summed(cells)
            return
        size = 2 ** (52 - 2 * self.length_bits)
        for start in range(0, len(cells), size):
            whole = self._summed(cells[start : start + size]).astype(np.int64)
            totals[0] += whole >> 32
            totals[1] += whole & _LIMB


@dataclass(frozen=True)
class MeanSums(_SampleSums):
    """Sums of samples. Two samples differ by at most twice a length."""

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """One sum for each cell."""
        return (math.prod(self.sides),)

    @property
    def _weights(self) -> NDArray[np.int64]:
        one = math.floor(math.sqrt(self.share) / 2 * 2**_WEIGHT_BITS)
        return np.full(self.shape, one)

    @property
    def _bits(self) -> int:
        return self.length_bits

    def _lengths(
        self, squares: NDArray[np.float64], starts: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        return np.add.reduceat(np.sqrt(squares), starts)

    def _summed(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        return cells.sum(axis=0)


@dataclass(frozen=True)
class MomentSums(_SampleSums):
    """Sums of second moments of one mode of samples: upper triangles, row by row.

    Attributes
    ----------
    mode : int, default=0
    """

    mode: int = 0

    @property
    def side(self) -> int:
        """Number of rows of the matrix of moments."""
        return self.sides[self.mode]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Number of cells of the upper triangle."""
        return (self.side * (self.side + 1) // 2,)

    @property
    def _weights(self) -> NDArray[np.int64]:
        root = math.floor(math.sqrt(self.share) * 2**_WEIGHT_BITS / _OTHERS)
        row, column = np.triu_indices(self.side)
        return root * np.where(row == column, _DIAGONAL, _OTHERS)

    @property
    def _bits(self) -> int:
        return 2 * self.length_bits

    def _lengths(
        self, squares: NDArray[np.float64], starts: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        # The trace bounds the norm of a sum of positive semidefinite matrices.
        return np.sqrt(np.add.reduceat(squares, starts))

    def _summed(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        tensors = cells.reshape(-1, *self.sides)
        unfolded = np.moveaxis(tensors, self.mode + 1, 0).reshape(self.side, -1)
        return (unfolded @ unfolded.T)[np.triu_indices(self.side)]


# --- the question ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Question:
    """Which sums over samples come next. Everything in it is public.

    Parameters
    ----------
    shape : tuple of int
        Shape of a sample.
    bound : float
        Largest Euclidean norm of a sample; longer ones are scaled down.
    step : float
        Step of the lattice of the noise. Without noise 0: sums are floats then.
    shares : tuple of float, default=()
        Shares of the squared budget: one for each mode of the moments, or one for a
        mean or for the moments of the core.
    mean : ndarray of shape (n_cells,), default=None
        Released; subtracted from the samples.
    bases : tuple of ndarray of shape (I_k, r_k), default=None
        Released; the samples are projected on them. Whole numbers in units of 2^-24, if
        there is noise.
    is_mean : bool, default=False
        Whether to sum samples instead of moments.
    is_joint : bool, default=False
        Whether to sum the moments of all cells and further coordinates together,
        instead of those of every mode.
    further : float, default=0.0
        Largest length of the further coordinates of a sample, in units of `bound`.
    n_further : int, default=0
    """

    shape: tuple[int, ...]
    bound: float
    step: float
    shares: tuple[float, ...] = ()
    mean: NDArray[np.float64] | None = None
    bases: tuple[NDArray[np.float64], ...] | None = None
    is_mean: bool = False
    is_joint: bool = False
    further: float = 0.0
    n_further: int = 0

    chunks_at_once = 1

    def __post_init__(self) -> None:
        for basis in self.bases or ():
            if np.max(np.square(basis).sum(axis=0)) > 1.1 * 4.0**BASIS_BITS:
                raise ValueError("The columns of a basis must be unit vectors.")

    @cached_property
    def length_bits(self) -> int:
        """Bits of the length of a sample."""
        return length_bits_of(math.prod(self.shape))

    @cached_property
    def sums(self) -> tuple[MeanSums | MomentSums, ...]:
        """A mean; or the moments of every mode, or of a core."""
        step, bits = self.step, self.length_bits
        if self.is_mean:
            return (MeanSums(self.shape, self.shares[0], step, bits),)
        sides = self.shape
        if self.bases is not None:
            sides = tuple(basis.shape[1] for basis in self.bases)
        if self.is_joint:
            sides = (math.prod(sides) + self.n_further,)
        shares = zip(self.shares, range(len(sides)), strict=True)
        return tuple(MomentSums(sides, s, step, bits, k) for s, k in shares)

    @property
    def limits(self) -> tuple[int, int]:
        """Largest lengths of a sample and of its further coordinates, as integers."""
        unit = 2**self.length_bits / self._both
        return math.floor(unit), math.floor(unit * self.further)

    @property
    def n_beside(self) -> int:
        """Number of further coordinates in the vector of a sample."""
        return self.n_further if self.is_joint else 0

    @property
    def _both(self) -> float:
        """Largest length of a sample with its further coordinates, in `bound`."""
        return math.hypot(1.0, self.further if self.is_joint else 0.0)

    @property
    def unit(self) -> float:
        """The same in units of the cells."""
        return self.bound * self._both

    def add(self, chunk: Chunk, *totals: NDArray[Any]) -> None:
        """Add what samples contribute; the same integers in any chunks and any order.

        Parameters
        ----------
        chunk : Chunk
            Of finite numbers.
        *totals : ndarray
            Of the sums.
        """
        n_rows = max(len(chunk.rows), 1)
        size = 2 ** (52 - 2 * self.length_bits) if self.step else n_rows
        for block in chunk.blocks(size):
            cells = self.vectors(block)
            for one, total in zip(self.sums, totals, strict=True):
                one.add(total, cells, block.sizes)

    def vectors(self, chunk: Chunk) -> NDArray[np.float64]:
        """The vector whose moments a sample adds, or that it adds, for each sample."""
        return _cells(chunk, self)

    def read(
        self, answers: Sequence[tuple[NDArray[np.float64], float]]
    ) -> list[NDArray[np.float64]]:
        """Sums in units of the cells from what was released: matrices, or one vector.

        Off the diagonal, the noise of a matrix has the standard deviation that
        `deviations` gives, and on the diagonal 256/181 times as much.
        """
        unit = self.unit if self.step else 1.0
        found = []
        for one, (released, _) in zip(self.sums, answers, strict=True):
            if isinstance(one, MeanSums):
                found.append(one.unweighted(released) * unit)
            else:
                upper = one.unweighted(released) * unit**2
                found.append(symmetric(upper, one.side))
        return found

    def deviations(self, sigma: float) -> list[float]:
        """Standard deviation of the noise of each matrix, off its diagonal, or mean."""
        if not sigma:
            return [0.0] * len(self.sums)
        if self.is_mean:
            return [2 * sigma * self.unit / math.sqrt(share) for share in self.shares]
        return [sigma * self.unit**2 / math.sqrt(share) for share in self.shares]


def _cells(chunk: Chunk, question: Question) -> NDArray[np.float64]:
    """Each sample, and its further coordinates: whole numbers of bounded length.

    Without noise, nothing has to be exact, and they are floats.
    """
    exact, bound, further = question.step > 0, question.bound, chunk.further
    limit, further_limit = question.limits
    cells = np.array(chunk.rows, dtype=float, order="C")
    if question.mean is not None:
        with np.errstate(over="ignore"):
            cells -= question.mean
        np.clip(cells, -LARGEST_CELL, LARGEST_CELL, out=cells)
    if math.isfinite(bound):
        # Of this size, squares are finite, and no cell is larger than 1.
        cells /= np.maximum(np.abs(cells).max(axis=1, keepdims=True), bound)
        if exact:
            cells = _within(_truncated(cells, limit), limit)
        else:
            lengths = np.linalg.norm(cells, axis=1, keepdims=True)
            cells *= bound / np.maximum(lengths, 1.0)
    if question.bases is not None:
        unit = 2.0**BASIS_BITS if exact else None
        cells = projected(cells, question.shape, question.bases, unit)
        cells = _within(cells, limit) if exact else cells
    if further is None or not question.is_joint:
        return _of_people(cells, chunk.sizes, question)
    if exact:
        further = _truncated(further / question.further, further_limit)
        further = _within(further, further_limit)
    cells = np.concatenate([cells, further], axis=1)
    return _of_people(cells, chunk.sizes, question)


def _of_people(
    cells: NDArray[np.float64], sizes: NDArray[np.intp] | None, question: Question
) -> NDArray[np.float64]:
    """Samples, of which those of a person add as much together as one may."""
    if sizes is None:
        return cells
    limit, size = 2**question.length_bits, np.repeat(sizes, sizes)[:, np.newaxis]
    if question.step:
        if not question.is_mean:
            return _within(cells, limit, sizes)
        # No number of a person's lengths adds up to more than the limit.
        scaled = np.abs(cells).astype(np.int64) * (limit // size) // limit
        return np.sign(cells) * scaled
    if question.is_mean:
        return cells / size
    if not math.isfinite(question.bound):
        return cells
    squares = np.square(cells)
    # Cells are in their own unit, further coordinates in that of the bound.
    squares[:, : cells.shape[1] - question.n_beside] /= question.bound**2
    lengths = np.sqrt(_joint(squares.sum(axis=1), sizes))[:, np.newaxis]
    return cells / np.maximum(lengths * question.bound / question.unit, 1.0)


def _joint(of_samples: NDArray[Any], sizes: NDArray[np.intp]) -> NDArray[Any]:
    """For every sample, the sum of a number over all samples of its person."""
    return np.repeat(np.add.reduceat(of_samples, np.cumsum(sizes) - sizes), sizes)


def _truncated(cells: NDArray[np.float64], limit: int) -> NDArray[np.float64]:
    """Numbers in [-1, 1] as whole numbers, `limit` standing for 1."""
    cells = np.clip(cells * limit, -limit, limit)
    return np.trunc(cells, out=cells)


def _squared_lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared lengths of rows of whole numbers, exact below 2^53.

    Squares are not negative, so a sum that reaches 2^53 stays there, whatever its order
    and its length: a long row never looks short. Integers of 64 bits would wrap.
    """
    return np.einsum("ij,ij->i", rows, rows)


def _within(
    cells: NDArray[np.float64], limit: int, sizes: NDArray[np.intp] | None = None
) -> NDArray[np.float64]:
    """Scale rows of whole numbers that are longer than `limit` down to it, exactly.

    With `sizes`, all rows of a person are scaled together, as one vector.
    """
    lengths = _squared_lengths(cells)
    if sizes is not None:
        lengths = _joint(lengths, sizes)
    is_long = ~(lengths <= limit**2)
    rows = cells[is_long].astype(np.int64)
    # The same in any order, added in two halves: 2^20 squares of 2^44 do not fit 64
    # bits together.
    cells_squared = np.square(rows)
    high = (cells_squared >> _HALF_BITS).sum(axis=1)
    low = (cells_squared & (2**_HALF_BITS - 1)).sum(axis=1)
    if sizes is not None:
        long_sizes = sizes[is_long[np.cumsum(sizes) - sizes]]
        high, low = _joint(high, long_sizes), _joint(low, long_sizes)
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
