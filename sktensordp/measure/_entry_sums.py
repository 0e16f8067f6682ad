"""Sums over entries, for neighbouring data sets that differ in the value of one entry.

That entry contributes one vector to a release, at the same coordinates in both data
sets.

**Bounds.** `RangeSums` adds whole numbers of steps from `least` to `most`. Two of them
are at most `most - least` apart, exactly. `EntrySums` adds vectors of at most half the
distance that its share allows, so that any two of them are close enough. A vector is
rounded to whole steps before it is added. So a length in steps may exceed half the
distance by half a step for each of n numbers in L1, and by sqrt(n) / 2 in L2. Zero is
within either bound, and replaces any vector that is not.

**No honest vector is taken for too long.** A number x of steps is rounded to a number
of at most |x| + 1/2, so the triangle inequality gives these bounds in both norms. The
lengths of the vectors before rounding are at most half the distance, up to a relative
error of n 2^-52 for n numbers. In L1, the length of whole numbers is exact below 2^53;
in L2, it has a relative error of at most n 2^-53. The limit leaves room for 10^-10,
which exceeds both for n up to 2^18.

**Together.** Releases with shares s_i, to each of which an entry contributes n_i
numbers, are no further apart than sum(s_i / step + n_i) steps in L1. In L2, this is
sqrt(sum(s_i)) / step + sqrt(sum(n_i)), by the triangle inequality for the vectors of
the sqrt(s_i) / step and of the sqrt(n_i). `Asked` counts the sums of s_i and of n_i,
and plans round distances up by 10^-9.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._noisy_sums import Norm, incidence
from ._sums import WITHIN, SumsOfSteps


@dataclass(frozen=True)
class RangeSums(SumsOfSteps):
    """Sums over people of one whole number each, within a range.

    Attributes
    ----------
    sizes : tuple of int
        Number of rows in each set of rows, one set after the other. A person is in one
        row of each set.
    least, most : int
        Ends of the range in steps; 0 is in it.
    times : int
        Largest number of times that one person is added.
    step : float
        1 for steps of the lattice; 0 for no noise, and numbers of any size.
    unit : float, default=1.0
        Width of a step.
    """

    sizes: tuple[int, ...]
    least: int
    most: int
    times: int
    step: float
    unit: float = 1.0  # type: ignore[assignment]

    norm = "l1"
    n_moved = 0

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """One sum for each row."""
        return (sum(self.sizes),)

    @property
    def share(self) -> float:  # type: ignore[override]
        """How far one person moves all sums together, in steps."""
        return self.times * (self.most - self.least)

    @property
    def limit(self) -> float:
        """Twice the largest distance of a number from the middle of the range."""
        return self.most - self.least if self.step else math.inf

    def largest(self, n_people: int) -> float:
        """Bound on the steps of any sum over this many people."""
        return n_people * max(-self.least, self.most)

    def add(
        self,
        totals: NDArray[np.float64],
        rows: Sequence[NDArray[np.integer]],
        numbers: NDArray[Any],
    ) -> None:
        """Add a number of each person; see `Sums.add`.

        Parameters
        ----------
        totals : ndarray
        rows : sequence of ndarray of shape (n,), int
            The row of every person in each set of rows.
        numbers : ndarray of shape (n,)
            Rounded to whole numbers if there is noise.
        """
        super().add(totals, rows, np.rint(numbers) if self.step else numbers)

    def _weighed(
        self, rows: Sequence[NDArray[np.integer]], numbers: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        lengths = np.abs(2 * numbers - (self.least + self.most), dtype=float)
        return np.ones(len(numbers)), lengths

    def _add(
        self,
        totals: NDArray[np.float64],
        weights: NDArray[np.float64],
        rows: Sequence[NDArray[np.integer]],
        numbers: NDArray[Any],
    ) -> None:
        kept, start = np.where(weights > 0, numbers, 0), 0
        for own, size in zip(rows, self.sizes, strict=True):
            if size == 1:
                totals[start] += kept.sum()
            else:
                totals[start : start + size] += np.bincount(own, kept, size)
            start += size


@dataclass(frozen=True)
class EntrySums(SumsOfSteps):
    """Sums over entries of one vector each, whose length is bounded for any value.

    The vector has one part for each of several blocks, which is added to one row of it.

    Attributes
    ----------
    blocks : tuple of (int, int)
        Numbers of rows and of columns of every block.
    norm : {"l1", "l2"}
        Norm of all parts of a vector together.
    step : float
        Step of the lattice; 0 for no noise.
    share : float, default=1.0
        Share of the budget; 1 is one of the releases for which the noise was planned.
    """

    blocks: tuple[tuple[int, int], ...]
    norm: Norm
    step: float
    share: float = 1.0

    unit = 1.0

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """All numbers of all blocks, one block after the other, row by row."""
        return (sum(n_rows * n_columns for n_rows, n_columns in self.blocks),)

    @property
    def n_moved(self) -> int:
        """Number of sums that one entry contributes to."""
        return sum(n_columns for _, n_columns in self.blocks)

    @property
    def limit(self) -> float:
        """Largest length of a vector; in steps, if there is noise."""
        distance, of_rounding = self.share, float(self.n_moved)
        if self.norm == "l2":
            distance, of_rounding = math.sqrt(distance), math.sqrt(of_rounding)
        if not self.step:
            return distance / 2 * WITHIN
        return (distance / self.step + of_rounding) / 2 * WITHIN

    def largest(self, n_people: int) -> float:
        """Bound on the steps of any sum over this many entries."""
        return n_people * self.limit

    def add(
        self,
        totals: NDArray[np.float64],
        rows: Sequence[NDArray[np.integer]],
        parts: Sequence[NDArray[np.floating]],
    ) -> None:
        """Add the vectors of entries, by their parts; see `Sums.add`.

        Parameters
        ----------
        totals : ndarray
        rows : sequence of ndarray of shape (n,), int
            The row of every entry in every block.
        parts : sequence of ndarray of shape (n, n_columns)
            Written: rounded to whole steps.
        """
        if self.step:
            for part in parts:
                part /= self.step
                np.rint(part, out=part)
        super().add(totals, rows, parts)

    def parts(self, sums: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """The blocks of sums; views of them."""
        found, start = [], 0
        for block in self.blocks:
            end = start + math.prod(block)
            found.append(sums[start:end].reshape(block))
            start = end
        return found

    def _weighed(
        self,
        rows: Sequence[NDArray[np.integer]],
        parts: Sequence[NDArray[np.floating]],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.norm == "l1":
            lengths = sum(np.abs(part) @ np.ones(part.shape[1]) for part in parts)
        else:
            lengths = np.sqrt(sum(np.einsum("ij,ij->i", part, part) for part in parts))
        return np.ones(len(parts[0])), lengths

    def _add(
        self,
        totals: NDArray[np.float64],
        weights: NDArray[np.float64],
        rows: Sequence[NDArray[np.integer]],
        parts: Sequence[NDArray[np.floating]],
    ) -> None:
        is_kept = weights[:, np.newaxis] > 0
        all_kept = bool(is_kept.all())
        for total, own, part in zip(self.parts(totals), rows, parts, strict=True):
            kept = part if all_kept else np.where(is_kept, part, 0.0)
            total += incidence(own, len(total)) @ kept
