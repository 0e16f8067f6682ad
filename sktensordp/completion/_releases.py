"""Adaptive releases of sums over units, under one budget.

A release asks units a question, which is public: it follows from earlier releases. Each
unit contributes vectors, functions of its own data and of the question, and these are
summed as exact integers. `contribute` computes the sums over some units, wherever these
are: in this process, on a worker of Dask, or at a party that keeps its units' data to
itself. It does not matter who adds which sums first. Noise is added once, to the sums
over all units, or by each party to its own.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from ..measure import ROUNDED_UP, NoisySums, check_lengths
from ..tensor._unit_entries import UnitEntries
from ._noise_shares import SharedNoise


class Question(Protocol):
    """What a release asks of units."""

    @property
    def sums(self) -> tuple[Any, ...]:
        """The sums that are released: BoundedSums or ProductSums."""

    @property
    def many(self) -> int:
        """Number of chunks of units that are best read together."""

    def add(self, units: Any, *totals: NDArray[Any]) -> None:
        """Add what some units contribute to the exact sums, in place."""


class Units(Protocol):
    """Units here or elsewhere."""

    def summed(
        self, contribute: Callable[..., Any], question: Any
    ) -> tuple[Sequence[NDArray[Any]], int | None]:
        """Sums of ``contribute(units, question)`` over all units.

        With the number of parties whose noise the sums contain already; None before
        noise.
        """


def contribute(units: Any, question: Question) -> tuple[NDArray[Any], ...]:
    """Sum what units contribute to a release: all that reads their data.

    Parameters
    ----------
    units : UnitEntries or Choices
    question : Question

    Returns
    -------
    totals : tuple of ndarray
        Exact sums, one for each of the question's.
    """
    totals = tuple(sums.zeros() for sums in question.sums)
    for chunk in units.chunks(question.many):
        question.add(chunk, *totals)
    return totals


class Releases:
    """Releases whose shares of the squared budget add up to 1.

    Parameters
    ----------
    noise : NoisySums or SharedNoise
        Noise for vectors of length one.
    streams : NoiseStreams or None
        None if no noise is drawn here.

    Attributes
    ----------
    sigma : float
        Standard deviation of the noise; with noise in shares, if all parties answer.
    step : float
        Step of the lattice of the noise; 0 for no noise.
    """

    def __init__(
        self, noise: NoisySums | SharedNoise, streams: NoiseStreams | None
    ) -> None:
        self._noise, self._streams = noise, streams
        self._used, self._n_releases = 0.0, 0
        self.sigma, self.step = math.sqrt(noise.noise_variance), noise.step

    @property
    def left(self) -> float:
        """Share of the squared budget that is left."""
        return 1 - self._used

    def ask(
        self, units: Units, question: Question
    ) -> list[tuple[NDArray[np.float64], float]]:
        """Release what all units contribute to a question; see `release`."""
        return self.release(question.sums, *units.summed(contribute, question))

    def release(
        self,
        sums: Sequence[Any],
        totals: Sequence[NDArray[Any]],
        n_answers: int | None = None,
    ) -> list[tuple[NDArray[np.float64], float]]:
        """Noisy sums of one release, and the standard deviations of their noise.

        Parameters
        ----------
        sums : sequence of BoundedSums or ProductSums
        totals : sequence of ndarray
            Exact sums; whole steps, if they contain noise already.
        n_answers : int, default=None
            Number of parties whose noise they contain.
        """
        self._used += math.fsum(of_block.share for of_block in sums)
        if self._used > 1 + 1e-9:
            raise RuntimeError("The shares of the releases exceed the budget.")
        noise, sigma = self._noise, self.sigma
        if isinstance(noise, SharedNoise):
            if n_answers is None:
                raise RuntimeError("Nobody has added noise to these sums.")
            sigma = noise.sigma(n_answers)
            noisy = [steps * self.step for steps in totals]
        else:
            of_blocks = zip(sums, totals, strict=True)
            streams = self._streams and self._streams.step(self._n_releases)
            noisy = noise.randomize([s.on_lattice(t) for s, t in of_blocks], streams)
        self._n_releases += 1
        return [
            (numbers * of_block.unit, sigma * of_block.unit)
            for numbers, of_block in zip(noisy, sums, strict=True)
        ]


@dataclass(frozen=True)
class BoundedSums:
    """Sums over units of their vectors, which are scaled down to a bound.

    Attributes
    ----------
    shape : tuple of (int, int)
        Numbers of rows and of columns of a unit's vector.
    bound : float
        Largest length of a vector; longer ones are scaled down.
    share : float
        Share of the squared budget.
    step : float
        Step of the noise lattice; 0 for no noise.
    """

    shape: tuple[int, int]
    bound: float
    share: float
    step: float

    n_changed = 0
    """Number of sums that are rounded after they are summed."""

    @property
    def unit(self) -> float:
        """Factor from released sums back to sums of vectors."""
        return self.bound / math.sqrt(self.share)

    def zeros(self) -> NDArray[np.float64]:
        """Sums over no units; numbers of steps if there is noise."""
        return np.zeros(self.shape)

    def on_lattice(self, totals: NDArray[Any]) -> NDArray[np.float64]:
        """The sums as they enter a release."""
        return totals * self.step if self.step else totals

    def largest(self, n_units: int) -> float:
        """Bound on the steps of any sum over this many units."""
        return n_units * math.sqrt(self.share) / self.step

    def n_bits(self, n_units: int) -> int:
        """Number of bits that hold the steps of any sum over this many units."""
        return 1 + math.ceil(math.log2(ROUNDED_UP * self.largest(n_units) + 1))

    def rounded(self, totals: NDArray[Any]) -> NDArray[np.float64]:
        """The sums in whole steps: they are that already."""
        return totals

    def add(
        self,
        totals: NDArray[np.float64],
        starts: NDArray[np.int64],
        order: NDArray[np.integer],
        index: NDArray[np.int32],
        contributions: NDArray[np.float64],
    ) -> None:
        """Add contributions of entries to the vectors of their units."""
        from ..tensor.kernels._units import bounded_sums

        lengths = np.empty(len(starts) - 1)
        bounded_sums(
            starts,
            order,
            index,
            np.ascontiguousarray(contributions),
            self.bound,
            math.sqrt(self.share),
            self.step,
            totals,
            lengths,
        )
        check_lengths(lengths, math.sqrt(self.share) / (self.step or 1) * (1 + 1e-10))

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
        rows = np.ascontiguousarray(chunk.others[:, block - 1])
        order = chunk.orders[block - 1]
        self.add(totals, chunk.starts, order, rows, contributions)

    def add_units(
        self, totals: NDArray[np.float64], vectors: NDArray[np.float64]
    ) -> None:
        """Add one vector for each unit, to sums of one row; see `add`."""
        places = np.arange(len(vectors) + 1)
        one_row = np.zeros(len(places), np.int32)
        self.add(totals, places, places[:-1], one_row, vectors)
