"""Where samples lie: in memory or batches, in chunks of Dask, or with parties.

Each form adds up what `contribute` returns for its chunks; see ``People``. Before a
release is recorded, `check` reads all samples for malformed input alone, where that is
possible: not of parties, which check their own samples, and not of batches that can be
read only once.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._dask import loaded
from .._extras import imported
from ..measure import PartySums, SharedNoise
from ..measure import contribute as contributed
from ..mechanisms._chunks import checked_rows
from ._norm import bin_counts
from ._sums import CAPACITY, Chunk, Question
from ._units import Units

# Chunks of Dask that are added up in one task.
_ADDED = 16


class Samples:
    """Samples that answer questions with sums.

    Parameters
    ----------
    chunks : iterable
        Read again for every question.
    rows_of : callable, default=None
        Checks a chunk, and returns it as a `Chunk`, as the chunks are without it.
    read_once : bool, default=False
        Whether the chunks can be read only once.

    Attributes
    ----------
    n_samples : int
        Number of samples, or of people if these may have several; public.
    of_people : bool
        Whether a person may have several samples.
    """

    of_people = False
    conditions: tuple[str, ...] = ()
    """Conditions that they add to the guarantee."""
    noise: SharedNoise | None = None
    """Noise that others add to sums; see `OfParties`."""
    n_samples = 0

    def __init__(
        self,
        chunks: Iterable[Any],
        rows_of: Callable[[Any], Chunk] | None = None,
        *,
        read_once: bool = False,
    ) -> None:
        self._chunks, self._rows_of, self._read_once = chunks, rows_of, read_once

    @classmethod
    def in_memory(
        cls,
        rows: NDArray[np.floating],
        further: NDArray[np.float64] | None,
        people: NDArray[np.int64] | None,
    ) -> Self:
        """Samples in one chunk; `people` has the number of each one's person."""
        if people is None:
            return cls([Chunk(rows, further)])
        order = np.argsort(people, kind="stable")
        rows, further = rows[order], None if further is None else further[order]
        samples = cls([Chunk(rows, further, np.bincount(people))])
        samples.of_people = True
        return samples

    @property
    def is_in_memory(self) -> bool:
        """Whether they are one chunk in memory."""
        return isinstance(self._chunks, list) and self._rows_of is None

    def check(self) -> None:
        """Refuse malformed samples, and count them."""
        if not self._read_once:
            for _ in self.chunks():
                pass

    def chunks(self, chunks_at_once: int = 1) -> Iterator[Chunk]:
        """Yield samples, chunk by chunk, all checked.

        Raises
        ------
        ValueError
            If there are more samples than sums can hold, or as many as before.
        """
        before, n_samples = self.n_samples, 0
        for chunk in self._chunks:
            found = self._rows_of(chunk) if self._rows_of else chunk
            n_samples += found.n_people
            yield found
            # Before the next chunk is made.
            del chunk, found
        if before not in (0, n_samples):
            raise ValueError(
                "The batches held another number of samples when they were read again. "
                "Every pass must give the same samples."
            )
        self.n_samples = _within_capacity(n_samples)

    def summed(
        self, contribute: Callable[..., Any], question: Any
    ) -> tuple[Sequence[NDArray[Any]], int | None]:
        """What all samples contribute to a release; see `People`."""
        return contribute(self, question), None

    def counted(self) -> NDArray[np.int64]:
        """Numbers of people by bins of their norms; see `bin_counts`."""
        counts = (bin_counts(chunk.rows, chunk.sizes) for chunk in self.chunks())
        return np.sum(list(counts), axis=0)


def _within_capacity(n_samples: int) -> int:
    if n_samples > CAPACITY:
        raise ValueError(f"There are more than {CAPACITY} samples. Pass fewer.")
    return n_samples


class LazySamples(Samples):
    """Samples in the chunks of a Dask array, which its workers read.

    Parameters
    ----------
    samples : dask.array.Array of shape (n_samples, ...)
    units : Units
        In which workers fit them.
    name : str
        Name of the estimator, for messages.
    """

    def __init__(self, samples: Any, units: Units, name: str) -> None:
        whole = samples.rechunk(dict.fromkeys(range(1, samples.ndim), -1))
        super().__init__(whole.to_delayed().ravel().tolist())
        self._units, self._name = units, name

    def _asked(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        task, known = _delayed(_of_chunk), (self._units, self._name, function)
        return [task(chunk, *known, *arguments) for chunk in self._chunks]

    def check(self) -> None:
        """Refuse malformed samples, and count them."""
        self.n_samples = _within_capacity(sum(loaded(*self._asked(len))))

    def summed(
        self, contribute: Callable[..., Any], question: Any
    ) -> tuple[tuple[NDArray[Any], ...], None]:
        """What all samples contribute to a release; see `People`."""
        parts = self._asked(_contributed, question)
        while len(parts) > 1:
            starts = range(0, len(parts), _ADDED)
            parts = [_delayed(_added)(parts[k : k + _ADDED]) for k in starts]
        (totals,) = loaded(*parts)
        return totals, None

    def counted(self) -> NDArray[np.int64]:
        """Numbers of samples by bins of their norms; see `bin_counts`."""
        return np.sum(loaded(*self._asked(bin_counts)), axis=0)


class OfParties(Samples):
    """Samples of which a server learns sums alone.

    Parameters
    ----------
    sums : PartySums
    """

    def __init__(self, sums: PartySums) -> None:
        super().__init__(())
        self._sums, self.n_samples = sums, sums.n_people
        self.noise, self.conditions = sums.noise, sums.conditions

    def check(self) -> None:
        """Nothing: parties check their own samples."""

    def summed(
        self, contribute: Callable[..., Any], question: Any
    ) -> tuple[Sequence[NDArray[Any]], int | None]:
        """What the parties answer; see `People`."""
        return self._sums.summed(contribute, question)


def read_first(batches: Iterable[Any]) -> tuple[Any, Iterable[Any], bool]:
    """The first batch, all batches, and whether they can be read only once."""
    iterator = iter(batches)
    first = next(iterator, None)
    if first is None:
        raise ValueError("There is no batch, so there are no samples.")
    if iterator is not batches:
        return first, batches, False
    return first, itertools.chain([first], iterator), True


def _delayed(function: Callable[..., Any]) -> Any:
    dask = imported("dask", "dask")
    return dask.delayed(function, pure=False)


def _of_chunk(
    chunk: Any, units: Units, name: str, function: Callable[..., Any], *arguments: Any
) -> Any:
    """What a function returns of a chunk of samples."""
    return function(units(checked_rows(chunk, name)), *arguments)


def _contributed(rows: NDArray[np.floating], question: Question) -> Any:
    return contributed(Samples([Chunk(rows)]), question)


def _added(parts: list[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
    return tuple(np.add.reduce(of_sums) for of_sums in zip(*parts, strict=True))
