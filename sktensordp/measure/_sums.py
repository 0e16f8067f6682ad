"""Sums over people of one vector each, none of which is longer than its limit.

**Guarantee.** Whatever a kind of sums computes from a person's data, `Sums.add` adds a
vector no longer than `Sums.limit` for that person, if the kind reports the lengths of
what it adds. A vector that is longer, or whose length is NaN, becomes zero before it is
added. Here, neighbours differ in a person; if they differ in one value, see
``_entry_sums.py``.

**No honest vector is taken for too long.** A computed length of n numbers has a
relative error of at most n 2^-54. `BoundedSums` multiplies a vector by longest /
max(length, bound) and rounds towards zero, so that the computed length of the result is
at most longest (1 + n 2^-53), which the limit allows for n up to 2^19. `WholeSums` and
`ProductSums` (``_products.py``) take vectors that are shorter than the limit by a
2^-30th of it. A vector with more numbers than that could only be lost, and only if all
its rounding errors went one way.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..tensor._unit_entries import UnitEntries
from ._noisy_sums import ROUNDED_UP, Norm

WITHIN = 1 + 1e-10
"""Rounds limits up by more than the errors of computed lengths, and by less than plans
round up distances."""

BELOW_ONE = 1 - 2.0**-30
"""Rounds lengths down by more than the floating-point errors of their computation."""


def without_long(
    weights: NDArray[Any], lengths: NDArray[np.float64], limit: float
) -> NDArray[Any]:
    """Weights of people, with 0 for everybody whose vector is longer than `limit`.

    Parameters
    ----------
    weights : ndarray of shape (n_people,)
    lengths : ndarray of shape (n_people,)
    limit : float
    """
    # False for NaN.
    return np.where(lengths <= limit, weights, np.zeros((), weights.dtype))


class Sums(ABC):
    """Sums over people of one vector each; no subclass can add a vector unchecked.

    A subclass says how a vector is computed, weighed and measured.

    Attributes
    ----------
    shape : tuple of int
        Shape of the released sums.
    norm : {"l1", "l2"}
        Norm in which neighbouring sums are close to each other.
    share : float
        Share of the budget: of epsilon in L1, of the squared mu in L2. Two neighbouring
        sums are no further apart than the share in L1, or its root in L2, up to
        rounding.
    step : float
        Step of the lattice of the noise; 0 for no noise.
    scale : float, default=1.0
        Factor on the noise, and on the distance of neighbouring sums.
    """

    shape: tuple[int, ...]
    norm: Norm
    share: float
    step: float
    scale: float = 1.0

    def add(self, totals: NDArray[Any], *data: Any) -> None:
        """Add the vectors of people, each of whom is added once in a release."""
        weights, lengths = self._weighed(*data)
        self._add(totals, without_long(weights, lengths, self.limit), *data)

    @property
    @abstractmethod
    def limit(self) -> float:
        """Largest length of a vector, in the unit in which lengths are measured."""

    @property
    @abstractmethod
    def n_moved(self) -> int:
        """Number of sums that rounding moves between neighbours.

        If sums are rounded after adding up, all of them; if vectors are rounded before,
        those to which one person contributes.
        """

    @property
    @abstractmethod
    def unit(self) -> float:
        """Factor from released sums back to sums of vectors."""

    @abstractmethod
    def zeros(self) -> NDArray[Any]:
        """The sums over nobody."""

    @abstractmethod
    def on_lattice(self, totals: NDArray[Any]) -> NDArray[np.float64]:
        """The sums as they enter a release."""

    @abstractmethod
    def rounded(self, totals: NDArray[Any]) -> NDArray[np.float64]:
        """The sums in whole steps."""

    @abstractmethod
    def largest(self, n_people: int) -> float:
        """Bound on the steps of any sum over this many people."""

    @abstractmethod
    def n_bits(self, n_people: int) -> int:
        """Number of bits that hold exact sums over this many people."""

    @abstractmethod
    def _weighed(self, *data: Any) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Weight of each person's vector, and its length as `_add` adds it."""

    @abstractmethod
    def _add(self, totals: NDArray[Any], weights: NDArray[Any], *data: Any) -> None:
        """Add the weighted vectors; nothing for a person whose weight is 0."""


class SumsOfSteps(Sums):
    """Sums of vectors of whole steps of the lattice; of floats without noise."""

    def zeros(self) -> NDArray[np.float64]:
        """The sums over nobody; numbers of steps if there is noise."""
        return np.zeros(self.shape)

    def on_lattice(self, totals: NDArray[Any]) -> NDArray[np.float64]:
        """The sums as they enter a release."""
        return totals * self.step if self.step else totals

    def rounded(self, totals: NDArray[Any]) -> NDArray[np.float64]:
        """The sums in whole steps, which they are already."""
        return totals

    def n_bits(self, n_people: int) -> int:
        """Number of bits that hold the steps of any sum over this many people."""
        return 1 + math.ceil(math.log2(ROUNDED_UP * self.largest(n_people) + 1))


@dataclass(frozen=True)
class StepSums(SumsOfSteps):
    """Sums of vectors that people add or remove as a whole.

    A subclass has two methods. ``_weighed(*data)`` returns the weight of every person
    and the length, in steps, of that person's weighted vector. ``_add(totals, weights,
    *data)`` adds these vectors. The page on how to extend the package shows an example.

    Attributes
    ----------
    shape : tuple of (int, int)
        Numbers of rows and of columns of a person's vector.
    bound : float
        Largest length of a vector.
    share : float
        Share of the squared budget.
    step : float
        Step of the noise lattice; 0 for no noise.
    """

    shape: tuple[int, int]
    bound: float
    share: float
    step: float

    norm = "l2"
    n_moved = 0

    @property
    def unit(self) -> float:
        """Factor from released sums back to sums of vectors."""
        return self.bound / math.sqrt(self.share)

    @property
    def longest(self) -> float:
        """Largest length, in steps, of a vector that is never taken for too long."""
        return math.sqrt(self.share) * BELOW_ONE / self.step

    @property
    def limit(self) -> float:
        """Largest length of a vector; in steps, if there is noise."""
        return math.sqrt(self.share) / (self.step or 1) * WITHIN

    def largest(self, n_people: int) -> float:
        """Bound on the steps of any sum over this many people."""
        return n_people * math.sqrt(self.share) / self.step


@dataclass(frozen=True)
class BoundedSums(StepSums):
    """Sums over people of their vectors, which are scaled down to a bound.

    A person's vector holds, for every row, the sum of the contributions of that
    person's entries. A vector that is longer than the bound is scaled down to it.
    """

    def _weighed(
        self,
        starts: NDArray[np.integer],
        order: NDArray[np.integer],
        index: NDArray[np.integer],
        contributions: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The weight is `longest / bound`, and less for a vector beyond the bound.

        Parameters
        ----------
        starts : ndarray of shape (n_people + 1,), int
            Person k has the entries order[starts[k]:starts[k + 1]].
        order : ndarray of shape (n_entries,), int
            The entries of every person, sorted by row.
        index : ndarray of shape (n_entries,), int
            The row of every entry.
        contributions : ndarray of shape (n_entries, C)
        """
        vectors = _Vectors.summed(starts, order, index, contributions)
        # Of numbers that no float can square, lengths are infinite or NaN, and so are
        # those of vectors that are not scaled down; either has no weight.
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.maximum(vectors.lengths(), self.bound)
            weights = math.sqrt(self.share) / lengths
            found = vectors.weighted(weights, self.step).lengths()
        return weights, np.where(lengths < np.inf, found, np.inf)

    def _add(
        self, totals: NDArray[np.float64], weights: NDArray[np.float64], *data: Any
    ) -> None:
        # Numbers of people without weight may be infinite. They are left out in the
        # same lines, whether there are such people or not.
        vectors = _Vectors.summed(*data).only_of(weights > 0)
        vectors.weighted(weights[weights > 0], self.step).add_to(totals)

    def add_entries(
        self,
        totals: NDArray[np.float64],
        chunk: UnitEntries,
        block: int,
        contributions: NDArray[np.float64],
    ) -> None:
        """Add contributions of entries to the rows of a block; see `add`."""
        if block > len(chunk.orders):
            order = np.arange(len(chunk.values))
            one_row = np.zeros(len(order), np.int32)
            self.add(totals, chunk.starts, order, one_row, contributions)
            return
        rows, order = chunk.others[:, block - 1], chunk.orders[block - 1]
        self.add(totals, chunk.starts, order, rows, contributions)

    def add_people(
        self, totals: NDArray[np.float64], vectors: NDArray[np.float64]
    ) -> None:
        """Add one vector for each person, to sums of one row; see `add`."""
        places = np.arange(len(vectors) + 1)
        one_row = np.zeros(len(places), np.int32)
        self.add(totals, places, places[:-1], one_row, vectors)


@dataclass(frozen=True, eq=False)
class _Vectors:
    """Vectors of people; of each vector, the rows to which its person contributes.

    What is computed of a vector is a function of that vector alone, down to the last
    bit: sums are SciPy's, in the order of the rows, and all else is arithmetic on
    single elements.

    Attributes
    ----------
    starts : ndarray of shape (n_people + 1,), int
        Person k has numbers[starts[k]:starts[k + 1]].
    rows : ndarray of shape (n,), int
        The row of each, distinct within every person.
    numbers : ndarray of shape (n, C)
    """

    starts: NDArray[np.integer]
    rows: NDArray[np.integer]
    numbers: NDArray[np.float64]

    @classmethod
    def summed(
        cls,
        starts: NDArray[np.integer],
        order: NDArray[np.integer],
        index: NDArray[np.integer],
        contributions: NDArray[np.float64],
    ) -> Self:
        """Sum the contributions of every person by row; see `BoundedSums`.

        There is no shorter way where nobody has two entries in one row: which lines run
        would tell whether somebody has.
        """
        n, rows = len(order), index[order]
        contributions = np.asarray(contributions, float)
        is_first = np.ones(n + 1, bool)
        is_first[1:-1] = rows[1:] != rows[:-1]
        is_first[starts] = True
        ends = np.flatnonzero(is_first)
        shape = len(ends) - 1, len(contributions)
        by_row = sparse.csr_array((np.ones(n), order, ends), shape=shape)
        starts = np.searchsorted(ends, starts)
        return cls(starts, rows[ends[:-1]], by_row @ contributions)

    @property
    def sizes(self) -> NDArray[np.integer]:
        """Number of rows of every person."""
        return np.diff(self.starts)

    def lengths(self) -> NDArray[np.float64]:
        """The length of every vector."""
        flat, width = self.numbers.ravel(), self.numbers.shape[1]
        parts = flat, np.arange(len(flat)), self.starts * width
        shape = len(self.starts) - 1, len(flat)
        return np.sqrt(sparse.csr_array(parts, shape=shape) @ flat)

    def weighted(self, weights: NDArray[np.float64], step: float) -> Self:
        """The vectors times their weights, rounded towards zero to whole steps, if any.

        Rounding towards zero makes no vector longer.
        """
        numbers = self.numbers * np.repeat(weights, self.sizes)[:, np.newaxis]
        if step:
            numbers /= step
            np.trunc(numbers, out=numbers)
        return replace(self, numbers=numbers)

    def only_of(self, people: NDArray[np.bool_]) -> Self:
        """The vectors of some of the people."""
        kept = np.repeat(people, self.sizes)
        starts = np.append(0, np.cumsum(self.sizes[people]))
        return type(self)(starts, self.rows[kept], self.numbers[kept])

    def add_to(self, totals: NDArray[np.float64]) -> None:
        """Add the vectors to sums by row, in order."""
        n = len(self.rows)
        parts = np.ones(n), self.rows, np.arange(n + 1)
        by_row = sparse.csc_array(parts, shape=(len(totals), n))
        totals += by_row @ self.numbers


@dataclass(frozen=True)
class WholeSums(StepSums):
    """Sums over people of vectors that are whole numbers of steps, in one row."""

    def _weighed(
        self, vectors: sparse.csr_array
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        squares = vectors.power(2).sum(axis=1)
        return np.ones(len(squares)), np.sqrt(squares)

    def _add(
        self,
        totals: NDArray[np.float64],
        weights: NDArray[np.float64],
        vectors: sparse.csr_array,
    ) -> None:
        kept = vectors if weights.all() else vectors[weights > 0]
        # Sums of whole numbers are exact in floating point.
        totals[0] += kept.sum(axis=0)
