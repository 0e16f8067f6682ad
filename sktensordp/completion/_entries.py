"""The observed entries of a tensor, as arrays.

``_checks.py`` reads the various forms of input. All later code asks the entries
questions, and does not know where they are: in memory (`Entries`), in Dask partitions
(`PartitionedEntries`) or with parties (`PartyEntries`). A question is a function of a
chunk of entries and of public quantities. Entries in memory are one chunk; partitions
are many chunks.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, column_or_1d

from .._random import BLOCK, NoiseStreams
from .._validation import (
    check_aligned,
    check_coordinates,
    check_numeric,
    checked,
    malformed,
    range_of,
)
from ..measure import Question
from ..privacy._conditions import CLIENTS
from ..tensor import Observations, Pattern, as_coordinates, pattern_of
from ..tensor._coordinates import present
from ..tensor._sums import SharedCounts, shared_entries
from ..tensor._unit_entries import UnitEntries
from ._domain import Domain
from ._sources import Answer, Answering
from ._values import EntryRandomizer

# Largest number of values that are compared with a model.
MOST_COMPARED = 2**18


@dataclass(frozen=True, eq=False)
class Entries:
    """The observed entries of a tensor, in memory.

    `PartitionedEntries` answers the same questions for the partitions of Dask
    collections, and `PartyEntries` answers those about units for parties.

    Parameters
    ----------
    where : ndarray of shape (n, n_modes), int32, or of the shape of the tensor, bool
        Coordinates, or a mask of the observed entries. Only this class tells the two
        apart.
    values : ndarray of shape (n,) or None
        None if only the coordinates are of interest.
    shape : tuple of int
        Shape of the tensor.
    is_dense : bool, default=False
        Whether the user passed a tensor.
    received : bool, default=False
        Whether clients have randomised the values.
    columns : tuple, default=None
        Names of the second mode's rows, if the user passed a wide frame.
    """

    where: NDArray[Any]
    values: Any
    shape: tuple[int, ...]
    is_dense: bool = False
    received: bool = False
    columns: tuple[Any, ...] | None = None

    noise = None
    """Noise that others add to sums; see `PartyEntries`."""

    @property
    def conditions(self) -> tuple[str, ...]:
        """Further conditions of the guarantee of a fit to these entries."""
        return (CLIENTS,) * self.received

    @property
    def observed(self) -> tuple[Self, ...] | None:
        """The public coordinates that a fit stores; None if they are elsewhere."""
        return (self.without_values(),)

    def check_supported(self, measurement: object) -> None:
        """Support every measurement."""

    def ask(self, question: Callable[..., Answer], *arguments: object) -> tuple[Answer]:
        """Answers to a question, one from each chunk; here there is one chunk."""
        return (question(self, *arguments),)

    def chunks(self, chunks_at_once: int = 1) -> Iterator[Self]:
        """Yield these entries, as a single chunk."""
        yield self

    def slices(self, size: int) -> Iterator[Self]:
        """Yield these entries in parts of a size; a tensor is one part."""
        if self.where.dtype == bool:
            yield self
            return
        for first in range(0, len(self.where), size):
            part = slice(first, first + size)
            yield replace(self, where=self.where[part], values=self.values[part])

    def summed(
        self, contribute: Callable[..., Sequence[NDArray[Any]]], question: Question
    ) -> tuple[Sequence[NDArray[Any]], None]:
        """Sum the contributions of all entries to a release; see `People`."""
        return contribute(self, question), None

    @property
    def n_entries(self) -> int:
        """Number of observed entries."""
        is_mask = self.where.dtype == bool
        return int(np.count_nonzero(self.where)) if is_mask else len(self.where)

    @property
    def coordinates(self) -> NDArray[np.integer]:
        """Coordinates of the entries; a mask is converted at every call."""
        return as_coordinates(self.where)

    @property
    def counts(self) -> list[NDArray[np.int64]]:
        """Number of entries in each row, mode by mode."""
        return [
            np.bincount(column, minlength=size)
            for column, size in zip(self.coordinates.T, self.shape, strict=True)
        ]

    @property
    def used_indices(self) -> list[NDArray[np.integer]]:
        """Indices that have entries, mode by mode."""
        return [present(column)[0] for column in self.coordinates.T]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.values.dtype

    @property
    def value_range(self) -> tuple[float, float]:
        """Least and largest value, which must be a range; private."""
        return range_of(self.values)

    @property
    def extremes(self) -> tuple[float, float]:
        """Least and largest value; private."""
        return float(np.min(self.values)), float(np.max(self.values))

    def without_values(self) -> Self:
        """The entries without their values."""
        return replace(self, values=None)

    def pattern(self, n_components: int | None) -> Pattern:
        """Features of the rows of the second mode; see `pattern_of`."""
        return pattern_of(self.coordinates, self.shape, n_components)

    def shared(self) -> SharedCounts:
        """Numbers of entries that two rows share; see `shared_entries`."""
        return shared_entries(self.coordinates, self.shape)

    def randomized(
        self, randomizer: EntryRandomizer, streams: NoiseStreams | None
    ) -> "Draws":
        """Randomise the values; see `EntryRandomizer.draw`."""
        drawn = randomizer.draw(self.values, streams, received=self.received)
        return Draws(self.without_values(), randomizer, drawn, self.dtype)

    def by_unit(self, domain: Domain, unit: int) -> UnitEntries:
        """Group the entries by unit, and clip the values to the domain."""
        where = self.coordinates
        if unit:
            others = np.delete(np.arange(len(self.shape)), unit)
            where = where[:, [unit, *others]]
        return UnitEntries(where, domain.kept(self.values), domain.centred_levels)

    def with_rows_of(self, units: UnitEntries, fitted: Answering) -> Answering:
        """The fitted model with the rows of these units; see `FittedToUnits`."""
        return fitted.with_units(units)


def extent(where: NDArray[np.integer]) -> tuple[int, ...]:
    """The smallest shape that holds these coordinates."""
    return tuple((where.max(axis=0) + 1).tolist())


def check_values(y: ArrayLike) -> NDArray[np.floating]:
    """Return `y` as finite floats: float32 if it already is, otherwise float64."""
    given: NDArray[Any] = checked(column_or_1d, check_numeric(y, "y"))
    dtype: type[np.floating] = np.float64
    if given.dtype == np.float32:
        dtype = np.float32
    values = np.asarray(given, dtype=dtype)
    if not np.all(np.isfinite(values)):
        raise malformed("numbers", "Some values in y are NaN, infinite or missing.")
    return values


def is_observed(
    values: NDArray[Any], missing_values: float | None
) -> NDArray[np.bool_]:
    """Which values are other than the number that stands for "not observed".

    **Guarantee.** Leaving out the entries with this number is a function of each entry
    alone. If units are protected, neighbouring data sets differ by all entries of one
    unit, and so do the data sets that are left. If entries are protected, the pattern
    of those that are left is public, as the coordinates are: neighbouring data sets
    differ in a value that is another number in both.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Finite numbers, or text of such numbers.
    missing_values : float or None
        None leaves nothing out.
    """
    if missing_values is None:
        return np.ones(values.shape, dtype=bool)
    if values.dtype.kind not in "biuf":
        values = values.astype(float)
    return values != missing_values


def check_missing_values(missing_values: Any) -> float | None:
    """Refuse what is neither None nor a finite number; True would stand for 1."""
    if missing_values is None:
        return None
    is_number = isinstance(missing_values, Real) and math.isfinite(missing_values)
    if isinstance(missing_values, bool | np.bool_) or not is_number:
        raise ValueError(
            "missing_values must be one finite number that stands for 'not observed', "
            "such as 0, or None. (NaN marks what was not observed in a tensor; leave "
            "out the rows with NaN in y.)"
        )
    return float(missing_values)


def without_missing(
    where: NDArray[np.int32],
    values: NDArray[np.floating],
    missing_values: float | None,
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    """Coordinates and values of the observed entries; see `is_observed`."""
    if missing_values is None:
        return where, values
    observed = is_observed(values, missing_values)
    return np.asfortranarray(where[observed]), values[observed]


def entries_of(
    X: ArrayLike,
    y: ArrayLike,
    shape: tuple[int, ...] | None,
    name: str,
    missing_values: float | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    """Check coordinates and values on behalf of no estimator.

    Parameters
    ----------
    X, y : array-like
    shape : tuple of int or None
        Shape of the tensor, if it is declared.
    name : str
        Name of the estimator, for messages.
    missing_values : float, default=None
        See `is_observed`.
    """
    check_aligned(X, y=y)
    where: NDArray[Any] = checked(
        check_array,
        check_numeric(X, "X"),
        dtype="numeric",
        ensure_min_samples=0,
        input_name="X",
    )
    if where.shape[1] < 2:
        raise ValueError(
            f"X has {where.shape[1]} feature(s), but a tensor has two or more modes."
        )
    where, values = check_coordinates(where, shape=shape, name=name), check_values(y)
    if len(where) != len(values):
        raise malformed(
            "arrays", "X and y, or their partitions, must have the same length."
        )
    return without_missing(where, values, missing_values)


# --- what was drawn for them ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Draws:
    """Randomised values of all observed entries, in memory.

    `PartitionedDraws` answers the same questions for entries in Dask collections.

    Attributes
    ----------
    entries : Entries
        The entries of the values, without the values themselves.
    randomizer : EntryRandomizer
    drawn : ndarray of shape (n_entries,)
        What `EntryRandomizer.draw` returned.
    dtype : dtype
        Type of the values.
    """

    entries: Entries
    randomizer: EntryRandomizer
    drawn: NDArray[Any]
    dtype: np.dtype[Any]

    def mean(self) -> float:
        """Mean of the randomised values."""
        values = self.randomizer.values_of(self.drawn, self.dtype)
        return float(values.mean(dtype=float))

    def observations(
        self, offset: float, scale: float, smooth_modes: Collection[int] = ()
    ) -> Observations:
        """Shifted and scaled values at their coordinates.

        Parameters
        ----------
        offset, scale : float
            Each value less `offset` is divided by `scale`.
        smooth_modes : collection of int, default=()
            Modes in which all indices get rows, even without entries.
        """
        used = [
            np.arange(size) if mode in smooth_modes else None
            for mode, size in enumerate(self.entries.shape)
        ]
        return Observations.from_arrays(
            self.entries.coordinates,
            (self.randomizer.values_of(self.drawn, self.dtype) - offset) / scale,
            used,
            self.drawn if self.randomizer.has_table else None,
            signs(0, len(self.drawn)),
        )

    def compared(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int8]]:
        """An equally spaced subsample of the draws.

        Returns
        -------
        coordinates : ndarray of shape (n_compared, n_modes), int
        drawn : ndarray of shape (n_compared,)
        signs : ndarray of shape (n_compared,), int8
            Signs by which `residual_variance` moves these values.
        """
        chosen = slice(None, None, math.ceil(len(self.drawn) / MOST_COMPARED))
        moved = signs(0, len(self.drawn))
        return self.entries.coordinates[chosen], self.drawn[chosen], moved[chosen]


def signs(first: int, last: int) -> NDArray[np.int8]:
    """Random signs for the entries from `first` to `last`, fixed for each position.

    Parameters
    ----------
    first, last : int
        Positions among all entries; `last` is excluded.

    Returns
    -------
    signs : ndarray of shape (last - first,), int8
    """
    blocks = range(first // BLOCK, math.ceil(last / BLOCK))
    bits = [
        np.random.default_rng((0, b)).integers(0, 2, BLOCK, np.int8) for b in blocks
    ]
    start = first - blocks.start * BLOCK
    return (2 * np.concatenate(bits) - 1)[start : start + last - first]


def digests_of(entries: object) -> frozenset[bytes]:
    """A digest of where entries are and of their values, in their order.

    Clients have randomised the values. There is none for values in partitions, which
    are not compared.
    """
    if not isinstance(entries, Entries):
        return frozenset()
    digest = hashlib.sha256(repr(entries.shape).encode())
    for part in (entries.coordinates, entries.values):
        digest.update(np.ascontiguousarray(part, dtype=float).tobytes())
    return frozenset([digest.digest()])
