"""Where samples lie: in memory or batches, in chunks of Dask, or with parties.

Each form adds up what `contribute` returns for its chunks. It checks every value before
it returns a sum. So the first sums are computed before a budget is asked, except those
of parties, which check their own samples.
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._dask import loaded
from ..mechanisms._chunks import checked_rows
from ..privacy._conditions import EXACT_SUMS
from ._requests import question_bytes
from ._sums import Question, contribute

# Chunks of Dask that are added up in one task.
_ADDED = 16


class Samples:
    """Samples that answer questions with sums.

    Parameters
    ----------
    chunks : iterable
        Read again for every question.
    rows_of : callable, default=None
        Checks a chunk; returns its rows, and its further coordinates or None. Without
        it, these are the chunks.
    """

    conditions: tuple[str, ...] = ()
    """Conditions that they add to the guarantee."""
    is_here = True
    """Whether sums are computed in this process, or by its workers."""
    n_samples = 0

    def __init__(
        self,
        chunks: Iterable[Any],
        rows_of: Callable[[Any], tuple[Any, Any]] | None = None,
    ) -> None:
        self._chunks, self._rows_of = chunks, rows_of

    def total(self, question: Question) -> NDArray[Any]:
        """Sums over all samples; sets `n_samples`."""
        total: Any = 0
        before, self.n_samples = self.n_samples, 0
        for chunk in self._chunks:
            rows, further = self._rows_of(chunk) if self._rows_of else chunk
            self.n_samples += len(rows)
            total = total + contribute(rows, question, further)
            # Before the next chunk is made.
            del chunk, rows, further
        if before not in (0, self.n_samples):
            raise ValueError(
                "The batches held another number of samples when they were read again. "
                "Every pass must give the same samples."
            )
        return total

    def largest_norm(self) -> float:
        """Largest Euclidean norm of a sample in memory."""
        if self._rows_of is not None or not self.is_here:
            raise ValueError(
                "Pass norm_bound: it cannot be read off samples of batches or parties."
            )
        return max(_largest_norm(rows) for rows, _ in self._chunks)


class LazySamples(Samples):
    """Samples in the chunks of a Dask array, which its workers read.

    Parameters
    ----------
    samples : dask.array.Array of shape (n_samples, ...)
    name : str
        Name of the estimator, for messages.
    """

    def __init__(self, samples: Any, name: str) -> None:
        whole = samples.rechunk(dict.fromkeys(range(1, samples.ndim), -1))
        super().__init__(whole.to_delayed().ravel().tolist())
        self._name = name

    def _asked(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        task = _delayed(_of_chunk)
        return [task(chunk, self._name, function, *arguments) for chunk in self._chunks]

    def total(self, question: Question) -> NDArray[Any]:
        """Sums over all samples; sets `n_samples`."""
        parts = self._asked(contribute, question)
        while len(parts) > 1:
            starts = range(0, len(parts), _ADDED)
            parts = [_delayed(_added)(parts[k : k + _ADDED]) for k in starts]
        ((sums, self.n_samples),) = loaded(*parts)
        return sums

    def largest_norm(self) -> float:
        """Largest Euclidean norm of a sample."""
        return max(norm for norm, _ in loaded(*self._asked(_largest_norm)))


class OfParties(Samples):
    """Samples of which others add up the contributions.

    Parameters
    ----------
    ask : callable
        Maps a question, as bytes, to the sum of the parties' answers.
    n_samples : int
    """

    conditions = (EXACT_SUMS,)
    is_here = False

    def __init__(self, ask: Callable[[bytes], Any], n_samples: int) -> None:
        super().__init__(())
        self._ask, self.n_samples = ask, n_samples

    def total(self, question: Question) -> NDArray[Any]:
        """Sums over all samples."""
        sums = np.asarray(self._ask(question_bytes(question)))
        shape = (2, question.n_cells) if question.exact else (question.n_cells,)
        kinds = "iu" if question.exact else "f"
        if sums.shape != shape or sums.dtype.kind not in kinds:
            raise ValueError(
                f"ask must return the sum of the parties' contributions, an array of "
                f"shape {shape}."
            )
        return sums.astype(np.int64) if question.exact else sums


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
    dask = sys.modules["dask"]
    return dask.delayed(function, pure=False)


def _of_chunk(
    chunk: Any, name: str, function: Callable[..., Any], *arguments: Any
) -> tuple[Any, int]:
    """What a function returns of a chunk of samples, and their number."""
    rows = checked_rows(chunk, name)
    return function(rows, *arguments), len(rows)


def _added(parts: list[tuple[NDArray[Any], int]]) -> tuple[Any, int]:
    sums, numbers = zip(*parts, strict=True)
    return sum(sums), sum(numbers)


def _largest_norm(rows: NDArray[np.floating]) -> float:
    if not len(rows):
        return 0.0
    scale = float(np.max(np.abs(rows))) or 1.0
    norms = np.linalg.norm(rows.astype(float) / scale, axis=1)
    return min(float(norms.max()) * scale, math.nextafter(math.inf, 0))
