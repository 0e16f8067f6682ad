"""Where samples lie: in memory, in chunks of Dask, in batches, or with parties.

Each source adds up what `contribute` returns for its chunks. It checks every value
before it returns a sum. So the first sums are computed before a budget is asked, except
those of parties, which check their own samples.
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from .._dask import loaded
from .._validation import check_numeric, checked
from ..mechanisms._chunks import AS_SAMPLES
from ..privacy._conditions import EXACT_SUMS
from ._sums import Question, added, contribute

# Chunks of Dask that are added up in one task.
_ADDED = 16


class Source(Protocol):
    """Samples that answer questions with sums."""

    n_samples: int
    conditions: tuple[str, ...]
    """Conditions that it adds to the guarantee."""
    is_here: bool
    """Whether sums of samples are computed in this process, or by its workers."""

    def total(self, question: Question) -> NDArray[Any]:
        """Sums over all samples; sets `n_samples`."""

    def largest_norm(self) -> float:
        """Largest Euclidean norm of a sample."""


class Rows:
    """Samples in memory, with further coordinates if there are any."""

    conditions: tuple[str, ...] = ()
    is_here = True

    def __init__(
        self, rows: NDArray[np.floating], further: NDArray[np.float64] | None = None
    ) -> None:
        self._rows, self._further = rows, further
        self.n_samples = len(rows)

    def total(self, question: Question) -> NDArray[Any]:
        """Sums over all samples."""
        return contribute(self._rows, question, self._further)

    def largest_norm(self) -> float:
        """Largest Euclidean norm of a sample."""
        return _largest_norm(self._rows)


class LazyRows:
    """Samples in the chunks of a Dask array, which its workers read."""

    conditions: tuple[str, ...] = ()
    is_here = True

    def __init__(self, samples: Any, name: str) -> None:
        whole = samples.rechunk(dict.fromkeys(range(1, samples.ndim), -1))
        self._chunks = whole.to_delayed().ravel().tolist()
        self._name, self.n_samples = name, 0

    def _asked(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        delayed: Any = sys.modules["dask"].delayed  # type: ignore[attr-defined]
        task = delayed(_of_chunk, pure=False)
        return [task(chunk, self._name, function, *arguments) for chunk in self._chunks]

    def total(self, question: Question) -> NDArray[Any]:
        """Sums over all samples."""
        delayed: Any = sys.modules["dask"].delayed  # type: ignore[attr-defined]
        parts = self._asked(contribute, question)
        while len(parts) > 1:
            starts = range(0, len(parts), _ADDED)
            add = delayed(_added, pure=False)
            parts = [add(parts[start : start + _ADDED]) for start in starts]
        ((sums, self.n_samples),) = loaded(*parts)
        return sums

    def largest_norm(self) -> float:
        """Largest Euclidean norm of a sample."""
        return max(norm for norm, _ in loaded(*self._asked(_largest_norm)))


class Batches:
    """Samples that come in batches, again for every question.

    Parameters
    ----------
    batches : iterable
    rows_of : callable
        Checks a batch; returns its rows and further coordinates, or None for these.

    Attributes
    ----------
    is_read_once : bool
        Whether the batches can be read only once, as those of a generator.
    """

    conditions: tuple[str, ...] = ()
    is_here = True

    def __init__(
        self, batches: Iterable[Any], rows_of: Callable[[Any], tuple[Any, Any]]
    ) -> None:
        self._batches, self._rows_of, self.n_samples = batches, rows_of, 0
        iterator = iter(batches)
        self.is_read_once = iterator is batches
        self._first: Any = next(iterator, None)
        if self._first is None:
            raise ValueError("There is no batch, so there are no samples.")

    def take_first(self) -> Any:
        """The first batch; kept only if it could not be read again."""
        first = self._first
        if not self.is_read_once:
            self._first = None
        return first

    def total(self, question: Question) -> NDArray[Any]:
        """Sums over all samples."""
        before, self.n_samples = self.n_samples, 0
        total = added(self._contributions(question))
        if before not in (0, self.n_samples):
            raise ValueError(
                "The batches held another number of samples when they were read again. "
                "Every pass must give the same samples."
            )
        return total

    def _contributions(self, question: Question) -> Iterator[NDArray[Any]]:
        for batch in self._every():
            rows, further = self._rows_of(batch)
            self.n_samples += len(rows)
            yield contribute(rows, question, further)
            # Before the next batch is made.
            del batch, rows, further

    def _every(self) -> Iterator[Any]:
        first, self._first = self._first, None
        if self.is_read_once and first is not None:
            yield first
        del first
        yield from self._batches

    def largest_norm(self) -> float:
        """Refuse to look for it: that would take a pass of its own."""
        raise _undeclared("batches")


class Parties:
    """Samples of which others add up the contributions.

    Parameters
    ----------
    ask : callable
        Maps a `Question` to the sum of what `contribute` returned to all parties.
    n_samples : int
    """

    conditions: tuple[str, ...] = (EXACT_SUMS,)
    is_here = False

    def __init__(self, ask: Callable[[Question], Any], n_samples: int) -> None:
        self._ask, self.n_samples = ask, n_samples

    def total(self, question: Question) -> NDArray[Any]:
        """Sums over all samples."""
        sums = np.asarray(self._ask(question))
        shape = (2, question.n_cells) if question.exact else (question.n_cells,)
        kind = "iu" if question.exact else "f"
        if sums.shape != shape or sums.dtype.kind not in kind:
            raise ValueError(
                f"ask must return the sum of the parties' contributions, an array of "
                f"shape {shape}."
            )
        return sums.astype(np.int64) if question.exact else sums

    def largest_norm(self) -> float:
        """Refuse to look for it: the parties would have to reveal it."""
        raise _undeclared("parties")


def _undeclared(where: str) -> ValueError:
    return ValueError(f"Pass norm_bound: it cannot be read off samples of {where}.")


def _of_chunk(
    chunk: Any, name: str, function: Callable[..., Any], *arguments: Any
) -> tuple[Any, int]:
    """Check a chunk of samples; what a function returns of it, and their number."""
    check_numeric(chunk, "X")
    array: Any = checked(
        check_array, chunk, **AS_SAMPLES, input_name="X", estimator=name,
        ensure_min_samples=0,
    )  # fmt: skip
    return function(array.reshape(len(array), -1), *arguments), len(array)


def _added(parts: list[tuple[NDArray[Any], int]]) -> tuple[NDArray[Any], int]:
    return added(sums for sums, _ in parts), sum(number for _, number in parts)


def _largest_norm(rows: NDArray[np.floating]) -> float:
    if not len(rows):
        return 0.0
    scale = float(np.max(np.abs(rows))) or 1.0
    norms = np.linalg.norm(rows.astype(float) / scale, axis=1)
    return min(float(norms.max()) * scale, math.nextafter(math.inf, 0))
