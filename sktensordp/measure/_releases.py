"""The door: the only way to release sums over people.

A release asks people a question, which is public: it follows from earlier releases.
Each person contributes vectors, functions of that person's own data and of the
question, and these are summed as exact integers. `contribute` computes the sums over
some people, wherever these are: in this process, on a worker of Dask, or at a party
that keeps its people's data to itself. The order of additions does not matter. Noise is
added once, to the sums over all people, or by each party to its own.

`Releases.ask` does this in a fixed order. It counts what is asked for against what the
noise was planned for; it makes sure that the release is recorded; then the data are
read; then noise is added. `Sums.add` (``_sums.py``) bounds every vector.

**Shares.** In L2, the squared distances of releases add up, and so do their shares of
the squared mu; in L1, distances add up, and so do shares of epsilon. Sums that are
counted in one norm never get noise that was planned for the other.

**Tolerance of shares.** In L2, shares are floats, and their sum may exceed the planned
one by `TOLERANCE` of it. The vectors of all releases together are then longer than
planned by a factor of at most sqrt(1 + 2^-33) < 1 + 6e-11. Plans multiply distances by
``ROUNDED_UP`` = 1 + 1e-9, which also covers the 1e-10 by which `Sums.limit` may exceed
the root of a share. In L1, shares are whole numbers, and their sum may not exceed the
planned one.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams, StepStreams, check_recorded
from ._noise_shares import SharedNoise
from ._noisy_sums import NoisySums
from ._sums import Sums

TOLERANCE = 2.0**-33
"""Largest relative excess of the shares of a squared mu over their planned sum."""


class Question(Protocol):
    """What a release asks of people. Everything in it is public."""

    @property
    def sums(self) -> tuple[Sums, ...]:
        """The sums that are released."""

    @property
    def chunks_at_once(self) -> int:
        """Number of chunks of people that are best read together."""

    def add(self, chunk: Any, *totals: NDArray[Any]) -> None:
        """Add what some people contribute to the exact sums, in place."""


class People(Protocol):
    """People here or elsewhere."""

    def summed(
        self, contribute: Callable[..., Sequence[NDArray[Any]]], question: Question
    ) -> tuple[Sequence[NDArray[Any]], int | None]:
        """Sums of ``contribute(people, question)`` over all people.

        Also returns the number of parties whose noise the sums contain; None if they
        contain no noise.
        """


class Chunks(Protocol):
    """People whose data are here."""

    def chunks(self, chunks_at_once: int = 1) -> Iterator[Any]:
        """Yield all people, each in one chunk."""


_Scored = TypeVar("_Scored", bound=People)


@dataclass(frozen=True, eq=False)
class AtHand:
    """People whose data are here, in one chunk.

    Attributes
    ----------
    data : object
        The chunk.
    """

    data: Any

    def chunks(self, chunks_at_once: int = 1) -> Iterator[Any]:
        """Yield the chunk."""
        yield self.data

    def summed(
        self, contribute: Callable[..., Sequence[NDArray[Any]]], question: Question
    ) -> tuple[Sequence[NDArray[Any]], None]:
        """What all people contribute; see `People`."""
        return contribute(self, question), None


def contribute(people: Chunks, question: Question) -> tuple[NDArray[Any], ...]:
    """Sum what people contribute to a release, the only step that reads their data.

    Parameters
    ----------
    people : UnitEntries, Choices or Samples
    question : Question

    Returns
    -------
    totals : tuple of ndarray
        Exact sums, one for each sum of the question.
    """
    totals = tuple(sums.zeros() for sums in question.sums)
    for chunk in people.chunks(question.chunks_at_once):
        question.add(chunk, *totals)
    return totals


@dataclass(frozen=True)
class Asked:
    """What was asked for so far, to compare with what the noise was planned for.

    Attributes
    ----------
    share : float
        Sum of all shares; see `Sums`.
    n_cells, n_moved : int
        Number of all sums, and of those that rounding moves.
    """

    share: float = 0.0
    n_cells: int = 0
    n_moved: int = 0

    def with_release(self, sums: Sequence[Sums]) -> "Asked":
        """A copy with one release more."""
        return Asked(
            self.share + math.fsum(one.share for one in sums),
            self.n_cells + sum(math.prod(one.shape) for one in sums),
            self.n_moved + sum(one.n_moved for one in sums),
        )

    def excess(
        self, noise: NoisySums | SharedNoise | None, sums: Sequence[Sums]
    ) -> str:
        """Say what exceeds the plan if `sums` are released last; "" if nothing does.

        Parameters
        ----------
        noise : NoisySums, SharedNoise or None
            If it has no lattice, or is None (which counts as noise of share 1), only
            shares are limited.
        sums : sequence of Sums
        """
        most = 1 + TOLERANCE
        if noise is not None:
            most = noise.share * (most if noise.norm == "l2" else 1)
        # False for NaN.
        if not (self.share <= most and all(one.share > 0 for one in sums)):
            return "shares that add up to more than the budget"
        if noise is None or not noise.step:
            return ""
        if any(one.norm != noise.norm for one in sums):
            return "sums whose distances are in another norm than those of the noise"
        if [(one.step, one.scale) for one in sums] != noise.lattices(len(sums)):
            return "sums on another lattice than that of the noise"
        if self.n_cells > noise.n_cells:
            return "more sums than the noise was planned for"
        if self.n_moved > noise.n_moved:
            return "more sums that rounding moves than the noise was planned for"
        return ""


class Releases:
    """Releases of one fit, each chosen by earlier ones, under one budget.

    Parameters
    ----------
    noise : NoisySums or SharedNoise
        The noise that was planned for all of these releases.
    streams : NoiseStreams or None
        Streams of a release that the open budgets have recorded; None if no noise is
        drawn here.
    number : int, default=0
        Number of the first of these releases. It is not 0 if other releases of the fit,
        with their own noise, came before.

    Attributes
    ----------
    sigma : float
        Standard deviation of the noise; with noise in shares, if all parties answer. Of
        tables on lattices of their own, that of a table whose `Sums.scale` is 1.
    step : float
        Step of the lattice of the noise, or of the first one; 0 for no noise.
    """

    def __init__(
        self,
        noise: NoisySums | SharedNoise,
        streams: NoiseStreams | None,
        number: int = 0,
    ) -> None:
        self._noise, self._streams = noise, streams
        self._asked, self._number = Asked(), number
        self.sigma, self.step = math.sqrt(noise.noise_variance), noise.step

    @property
    def left(self) -> float:
        """Share of the squared budget that is left."""
        return 1 - self._asked.share

    def ask(
        self, people: People, question: Question
    ) -> list[tuple[NDArray[np.float64], float]]:
        """Release what all people contribute to a question.

        Returns
        -------
        answers : list of (ndarray, float)
            Noisy sums, and the standard deviation of their noise, for each sum of the
            question.

        Raises
        ------
        RuntimeError
            If more is asked for than was planned, before anybody's data are read; if
            there are no streams to draw the noise from; or if no party has added it.
        """
        sums = question.sums
        self._asked = self._counted(self._asked, sums)
        streams = None
        if self._streams is not None:
            streams = self._streams.take(self._number)
        totals, n_answers = people.summed(contribute, question)
        noisy, sigma = self._noisy(sums, totals, streams, n_answers)
        self._number += 1
        return [
            (numbers * one.unit, sigma * one.scale * one.unit)
            for numbers, one in zip(noisy, sums, strict=True)
        ]

    def select(
        self, candidates: Iterable[_Scored], question: Question
    ) -> tuple[_Scored | None, float]:
        """Release the candidate with the highest noisy score, and this score.

        Candidates are asked one after the other. The noise is planned for one of them;
        what the best of several reveals is left to the guarantee. No release of the fit
        may come before, since candidates use the noise from the first release on.

        Parameters
        ----------
        candidates : iterable of People
            The people who contribute to the score of each candidate.
        question : Question
            A question with one sum: the score.

        Returns
        -------
        best : People or None
            None without candidates.
        score : float

        Raises
        ------
        RuntimeError
            As in `ask`.
        """
        (score,) = question.sums
        self._counted(Asked(), question.sums)
        lattice, streams = getattr(self._noise, "lattice", None), self._streams
        if lattice is None or streams is None:
            raise RuntimeError("Nobody has added noise to this score.")
        if self._number:
            raise RuntimeError("A fit selects before it releases anything else.")
        self._number = 1
        best: tuple[_Scored | None, float] = None, -math.inf
        for number, candidate in enumerate(candidates, start=1):
            (total,), _ = candidate.summed(contribute, question)
            noisy = lattice.randomize(score.on_lattice(total), streams.stream(number))
            if noisy[0] > best[1]:
                best = candidate, float(noisy[0]) * score.unit
        return best

    def _counted(self, asked: Asked, sums: Sequence[Sums]) -> Asked:
        """What was asked for, with this release; raise if it must not be answered."""
        asked = asked.with_release(sums)
        if excess := asked.excess(self._noise, sums):
            raise RuntimeError(
                f"This fit asks for {excess}. Nothing was released; please report this "
                f"error."
            )
        if self.step > 0 and isinstance(self._noise, NoisySums):
            check_recorded(self._streams)
        return asked

    def _noisy(
        self,
        sums: Sequence[Sums],
        totals: Sequence[NDArray[Any]],
        streams: StepStreams | None,
        n_answers: int | None,
    ) -> tuple[list[NDArray[np.float64]], float]:
        """Sums with noise, and its standard deviation."""
        noise = self._noise
        if isinstance(noise, SharedNoise):
            if n_answers is None:
                raise RuntimeError("Nobody has added noise to these sums.")
            return [steps * self.step for steps in totals], noise.sigma(n_answers)
        exact = [one.on_lattice(t) for one, t in zip(sums, totals, strict=True)]
        return noise.randomize(exact, streams), self.sigma
