"""Data that stays in this process: deep copies and pickles leave it out."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._random import fresh_bits
from .._validation import warn
from ..noise import uniform_below
from ..tensor import FittedModel
from ..tensor._unit_entries import UnitEntries

# Number of reserved rows. Only the lattice of the noise depends on it: sums over so
# many users are exact.
N_RESERVED = 2**31 - 2

Found = TypeVar("Found")


class AnswersUnits(Protocol):
    """A fit that answers units from their own rows: `FittedToUnits`."""

    @property
    def unit(self) -> int:
        """The mode of the protected units."""

    def with_units(self, entries: UnitEntries) -> Self:
        """Compute the rows of these units."""

    def with_units_elsewhere(self, units: "UnitsElsewhere") -> Self:
        """Let units elsewhere answer for themselves."""


class UnitsElsewhere(Protocol):
    """Units that answer where their entries are: `PartitionedUnits`."""

    def answers(
        self,
        fitted: AnswersUnits,
        method: str,
        coordinates: NDArray[np.integer],
        *wanted: "ForSomeRows",
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[Any]]]:
        """Yield rows of the coordinates, and the method's result for these rows."""


class ForSomeRows(Protocol):
    """A request that can be restricted to some rows of coordinates: `Wanted`."""

    def at(self, rows: NDArray[np.intp]) -> Self:
        """The request for some of the rows."""


class Local:
    """Data of people, for this process only: deep copies and pickles are empty.

    Its text form does not show the data. Calling a subclass without arguments makes an
    empty one.

    Attributes
    ----------
    lost : bool
        Whether a copy or a pickle dropped the data and no warning has said so yet.
    """

    lost = False

    def warn_if_lost(self, message: str) -> None:
        """Warn once, if the data were lost."""
        if self.lost:
            self.lost = False
            warn(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _dropped, (type(self),)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _dropped(kind: type[Local]) -> Local:
    """Make the empty object that replaces the data in copies and pickles."""
    found = kind()
    found.lost = True
    return found


class Lookups(Local):
    """A cache of what was computed from a fit; copies and pickles recompute it."""

    def __init__(self) -> None:
        self._built: dict[str, tuple[Any, Any]] = {}

    def get(self, name: str, source: object, build: Callable[[], Found]) -> Found:
        """Return the result of `build`, cached as long as the source is the same."""
        built_from, built = self._built.get(name, (None, None))
        if built_from is not source or name not in self._built:
            # Two threads may both build it, with the same result.
            built = build()
            self._built[name] = source, built
        return built


class LocalRows(Local):
    """Rows of units and the coordinates of their entries, for this process only.

    Parameters
    ----------
    units : ndarray of shape (n_units,), int, default=None
        Indices of the units, ascending.
    rows : ndarray of shape (n_units, n_columns), default=None
    where : ndarray of shape (n, n_modes), int, default=None
        Coordinates of the units' entries.
    elsewhere : PartitionedUnits, default=None
        Entries of further units on workers, which answer for these units.

    Attributes
    ----------
    model : UnitModel, OwnModel or None
        The prediction model, built on first use.
    """

    def __init__(
        self,
        units: NDArray[np.integer] | None = None,
        rows: NDArray[np.float64] | None = None,
        where: NDArray[np.integer] | None = None,
        *,
        elsewhere: UnitsElsewhere | None = None,
    ) -> None:
        self.units = np.empty(0, dtype=np.int64) if units is None else units
        self.rows = rows
        self.where: Any = where
        self.model: FittedModel | None = None
        self.elsewhere = elsewhere

    def replaced(
        self,
        units: NDArray[np.integer],
        rows: NDArray[np.float64],
        where: NDArray[np.integer],
        unit: int,
    ) -> "LocalRows":
        """Add rows of units; they replace any earlier rows of these units."""
        if self.rows is None:
            return LocalRows(units, rows, where, elsewhere=self.elsewhere)
        keep = ~np.isin(self.units, units)
        stays = ~np.isin(self.where[:, unit], units)
        units = np.concatenate([self.units[keep], units])
        rows = np.concatenate([self.rows[keep], rows])
        where = np.concatenate([self.where[stays], where])
        order = np.argsort(units)
        return LocalRows(units[order], rows[order], where, elsewhere=self.elsewhere)

    def without(self, units: NDArray[np.integer], unit: int) -> "LocalRows":
        """Drop the rows of units, and the coordinates of their entries.

        Raises
        ------
        ValueError
            If entries of units are on workers, which answer for these units.
        """
        if self.elsewhere is not None:
            raise ValueError(
                "After a fit to Dask collections, the workers answer for the units of "
                "the fit. Drop their entries there, and load the model from a pickle."
            )
        if self.rows is None:
            return self
        keep = ~np.isin(self.units, units)
        stays = ~np.isin(self.where[:, unit], units)
        return LocalRows(self.units[keep], self.rows[keep], self.where[stays])


class LocalValues(Local):
    """Values, less the offset, that a model was fitted to; see `NoisyValues`.

    Parameters
    ----------
    values : ndarray of shape (n,), default=None
        None in copies.
    noise : float, default=1.0
    """

    def __init__(
        self, values: NDArray[np.floating] | None = None, noise: float = 1.0
    ) -> None:
        self.values, self.noise = values, noise


class LocalUsers(Local):
    """The map from users' ids to their rows, among the reserved rows.

    The ids, their number and their rows are as private as the users' entries. So the
    map is never pickled or deep-copied, and no text shows it.

    Rows are drawn at random, from far more rows than there will ever be users. If rows
    were given in the order of ids, a user who joins would move others to other rows.
    With random rows, the rows of all other users have the same distribution whether or
    not a user is in the data: each choice of distinct rows is as likely as any other.
    So later steps may do anything with the numbers of rows.

    Parameters
    ----------
    rows : dict of id to int, default=None
    """

    def __init__(self, rows: dict[Any, int] | None = None) -> None:
        self._rows = rows or {}

    def rows_of(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Row of each id; -1 for an unknown user."""
        return looked_up(self._rows, ids)

    def joined_by(self, ids: NDArray[Any], first: int = 0) -> "LocalUsers":
        """Give each new id a free row, from `first` on; known ids keep theirs."""
        rows = dict(self._rows)
        taken = set(rows.values())
        waiting = list(set(ids[looked_up(rows, ids) < 0].tolist()))
        # There is no seed, since it would repeat the rows. If a drawn row is taken,
        # another is drawn, so that all choices of distinct free rows are equally
        # likely.
        bits = fresh_bits()
        while waiting:
            drawn = uniform_below(bits, N_RESERVED - first, len(waiting)).tolist()
            still_waiting = []
            for id_, row in zip(waiting, (first + n for n in drawn), strict=True):
                if row in taken:
                    still_waiting.append(id_)
                else:
                    rows[id_] = row
                    taken.add(row)
            waiting = still_waiting
        return LocalUsers(rows)

    def without(self, ids: NDArray[Any]) -> "LocalUsers":
        """Drop users; who is unknown stays so."""
        gone = set(ids.tolist())
        return LocalUsers({id_: n for id_, n in self._rows.items() if id_ not in gone})


def looked_up(table: Mapping[Any, int], ids: NDArray[Any]) -> NDArray[np.int64]:
    """The number of each id in a table; -1 for an unknown id."""
    values = ids.tolist()
    with contextlib.suppress(TypeError):
        set(values)  # Ids that cannot be compared with each other are refused, too.
        return np.array([table.get(id_, -1) for id_ in values], dtype=np.int64)
    # Raised outside the handler, so that the TypeError is not its context.
    raise ValueError("Some ids are neither numbers nor strings.")
