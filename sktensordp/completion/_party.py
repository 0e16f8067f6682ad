"""Sums over units of several parties, for secure aggregation.

Guarantee. Two data sets are neighbours if one of the parties has all entries of one
unit in one of them and none in the other. In every release, each unit of a party that
answers contributes one vector, a function of its own entries and of earlier releases,
of whole steps of a lattice, and no longer than the share of the release. The server
adds Gaussian noise to the sum, once. So the proof of ``solvers/_units.py`` holds for
everything that the server publishes, whichever parties answer. It holds against nobody
who sees the sums before noise is added: not against the server.

Sums of whole steps are integers. Modulo a power of two above their range they keep
their value, so that a protocol of secure aggregation can add them.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, column_or_1d

from .._validation import check_coordinates, check_numeric, checked
from ..tensor._unit_entries import UnitEntries
from ._unit_rows import LocalRows
from ._values import EntryRandomizer
from .solvers._unit_contributions import BoundedSums, Contributions, steps_of

__all__ = ["PartySums", "SumRequest", "UnitParty"]


@dataclass(frozen=True, eq=False)
class SumRequest:
    """What a server asks all parties in one release; computed from earlier releases.

    Attributes
    ----------
    fit : str
        Tells the fits of servers apart.
    number : int
        Number of the release within the fit, from 0.
    n_bits : int
        Answers are integers modulo ``2**n_bits``, above the range of all sums.
    contribute : Contributions
    empty : tuple of BoundedSums
    """

    fit: str
    number: int
    n_bits: int
    contribute: Contributions
    empty: tuple[BoundedSums, ...]

    @property
    def n_numbers(self) -> int:
        """Number of integers in an answer."""
        return sum(of_block.steps.size for of_block in self.empty)

    @property
    def share(self) -> float:
        """Share of the squared budget."""
        return sum(of_block.share for of_block in self.empty)


class UnitParty:
    """Answers a server with sums over its own units, as integers for one fit.

    Get one from a completion's `party` method. It holds entries, so it cannot be copied
    or pickled.

    Parameters
    ----------
    entries : UnitEntries
        All entries of the party's units.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.completion import CPCompletion
    >>> server = CPCompletion(0, unit=0, value_bounds=(0, 1), shape=(100, 3))
    >>> party = server.party(np.array([[0, 0], [0, 2], [7, 1]]), [0.2, 0.9, 0.5])
    >>> server.fit_aggregated(party.answer).factors_[1].shape
    (3, 2)
    """

    def __init__(self, entries: UnitEntries) -> None:
        self._entries = entries
        self._fit: str | None = None
        self._shares: dict[int, float] = {}

    def answer(self, request: SumRequest) -> NDArray[np.uint64]:
        """Sum the contributions of the party's units to one release.

        The answer is exact: no noise is added, so show it to nobody. Pass it to a
        secure aggregation, which reveals only the sum over all parties. A party without
        units answers too, with zeros.

        Parameters
        ----------
        request : SumRequest

        Returns
        -------
        integers : ndarray of shape (request.n_numbers,), uint64
            Below ``2**request.n_bits``. A repeated request gets the same answer.

        Raises
        ------
        ValueError
            If the request belongs to another fit than the first one, if its sums have
            no lattice, or if the units would contribute more than the budget.
        """
        if self._fit not in (None, request.fit):
            raise ValueError(
                "This party has answered another fit. Each fit is a release of its "
                "own: count it, and make another party for it."
            )
        if not all(of_block.has_steps for of_block in request.empty):
            raise ValueError(
                "Sums without noise are not integers; the server must set a finite "
                "epsilon."
            )
        shares = {**self._shares, request.number: request.share}
        if sum(shares.values()) > 1 + 1e-9:
            raise ValueError(
                "The server asks for more than the budget allows: the shares of its "
                "requests add up to more than 1."
            )
        self._fit, self._shares = request.fit, shares
        steps = steps_of(self._entries, request.contribute, request.empty)
        integers = np.concatenate([of_block.ravel() for of_block in steps])
        return integers.astype(np.int64).astype(np.uint64) & _mask(request.n_bits)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A party holds its units' entries and cannot be copied or pickled."
        )

    def __repr__(self) -> str:
        return "UnitParty()"


def party_of(
    X: ArrayLike,
    y: ArrayLike,
    values: EntryRandomizer,
    shape: tuple[int, ...],
    unit: int,
    name: str,
) -> UnitParty:
    """Check the entries of a party's units, of which there may be none."""
    check_numeric(X, "X")
    check_numeric(y, "y")
    options = {"ensure_min_samples": 0, "dtype": "numeric"}
    rows = checked(check_array, X, input_name="X", **options)
    if rows.shape[1] != len(shape):
        raise ValueError(f"X has {rows.shape[1]} columns, but shape is {shape}.")
    where = check_coordinates(rows, shape=shape, name=name)
    own = checked(column_or_1d, y, dtype=float)
    if not np.all(np.isfinite(own)):
        raise ValueError("Some values in y are NaN, infinite or missing.")
    if len(where) != len(own):
        raise ValueError(f"X has {len(where)} entries, but y has {len(own)}.")
    others = [mode for mode in range(len(shape)) if mode != unit]
    where = where[:, [unit, *others]]
    return UnitParty(UnitEntries(where, values.kept(own), values.centred_levels))


@dataclass(frozen=True, eq=False)
class PartySums:
    """Entries of which a server learns sums alone; see `Entries`.

    Attributes
    ----------
    ask : callable
        Maps a `SumRequest` to the sum of the parties' answers.
    shape : tuple of int
    unit : int
        The mode of the units in the shape.
    """

    ask: Callable[[SumRequest], ArrayLike]
    shape: tuple[int, ...]
    unit: int

    is_dense, is_distributed, n_entries = False, True, 0

    @property
    def values(self) -> Self:
        """What a solver's `release` takes."""
        return self

    def without_values(self, order: Sequence[int]) -> "PartySums":
        """The same with the modes in another order; see `Entries`."""
        shape = tuple(self.shape[mode] for mode in order)
        return PartySums(self.ask, shape, list(order).index(self.unit))

    def by_unit(self, _: EntryRandomizer) -> "_AskedUnits":
        """The units, elsewhere, for the releases of one fit."""
        return _AskedUnits(self.ask, self.shape[self.unit])

    def rows_of_units(self, _: EntryRandomizer) -> LocalRows:
        """No rows: parties compute those of their units."""
        return LocalRows()


class _AskedUnits:
    """Units of parties, which are asked for their sums; see `Units`."""

    def __init__(self, ask: Callable[[SumRequest], ArrayLike], n_units: int) -> None:
        self._ask, self._n_units = ask, n_units
        self._fit, self._n_asked = uuid.uuid4().hex, 0

    def add_to(self, sums: Sequence[BoundedSums], contribute: Contributions) -> None:
        """Add what the parties answer to sums."""
        n_bits = max(of_block.n_bits(self._n_units) for of_block in sums)
        request = SumRequest(
            self._fit, self._n_asked, n_bits, contribute, tuple(s.empty() for s in sums)
        )
        self._n_asked += 1
        integers = np.asarray(self._ask(request))
        if integers.dtype.kind not in "iu" or integers.shape != (request.n_numbers,):
            raise ValueError(
                f"ask must return {request.n_numbers} integers for release "
                f"{request.number}, the sum of the parties' answers; got shape "
                f"{integers.shape} and type {integers.dtype}."
            )
        signed = _signed(integers.astype(np.uint64), n_bits)
        ends = np.cumsum([of_block.steps.size for of_block in sums])[:-1]
        for of_block, steps in zip(sums, np.split(signed, ends), strict=True):
            of_block.steps += steps.reshape(of_block.steps.shape)


def _mask(n_bits: int) -> np.uint64:
    return np.uint64(2**n_bits - 1)


def _signed(integers: NDArray[np.uint64], n_bits: int) -> NDArray[np.int64]:
    """The integers in [-2**(n_bits - 1), 2**(n_bits - 1)) with these residues."""
    half = np.uint64(2 ** (n_bits - 1))
    # Arithmetic modulo 2**64, which 2**n_bits divides.
    shifted = (integers + half) & _mask(n_bits)
    return shifted.astype(np.int64) - np.int64(half)
