"""Sums over units of several parties, for secure aggregation.

Guarantee. Two data sets are neighbours if one of the parties has all entries of one
unit in one of them and none in the other. In every release, each unit of a party that
answers contributes one vector, a function of its own entries and of earlier releases,
of whole steps of a lattice, and no longer than the share of the release. So the proof
of ``solvers/_units.py`` holds for the noisy sums, whichever parties answer. Noise is
added in one of two ways:

- by the server, once, to the sum of exact answers. The guarantee then holds against
  nobody who sees the sums before: not against the server.
- by the parties, each of which adds its share to its answer (``_noise_shares.py``).
  The guarantee then holds against everybody, as long as enough honest parties answer.

Sums of whole steps are integers. Modulo a power of two above their range they keep
their value, so that a protocol of secure aggregation can add them.
"""

from __future__ import annotations

import hashlib
import operator
import pickle
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, column_or_1d

from .._random import NoiseStreams
from .._validation import (
    check_coordinates,
    check_numeric,
    check_same_length,
    checked,
)
from ..base import PrivateEstimatorMixin
from ..privacy import PrivacyGuarantee
from ..privacy.budgets._budget import process_name
from ..tensor._unit_entries import UnitEntries
from ._domain import Domain
from ._entries import Entries
from ._noise_shares import NoiseShares, SharedNoise
from ._unit_rows import LocalRows
from .solvers._unit_contributions import Contributions, Sums, summed


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
    empty : tuple of BoundedSums or ProductSums
    noise_shares : NoiseShares or None
        What the server takes the parties to have declared.
    settings : dict
        The server's public parameters on which all must agree, by name.
    """

    fit: str
    number: int
    n_bits: int
    contribute: Contributions
    empty: tuple[Sums, ...]
    noise_shares: NoiseShares | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def n_numbers(self) -> int:
        """Number of integers in an answer."""
        noisy = self.noise_shares is not None
        return sum(of_block.n_numbers(noisy=noisy) for of_block in self.empty)

    @property
    def share(self) -> float:
        """Share of the squared budget."""
        return sum(of_block.share for of_block in self.empty)

    @property
    def n_changed(self) -> int:
        """Number of sums that a party rounds after it has summed them."""
        return sum(of_block.n_changed for of_block in self.empty)


class UnitParty(PrivateEstimatorMixin):
    """Answers a server with sums over its own units, as integers for one fit.

    Get one from a completion's `party` method. It holds entries, so it cannot be copied
    or pickled.

    Parameters
    ----------
    entries : UnitEntries
        All entries of the party's units.
    settings : dict
        The public parameters on which server and parties must agree, by name.
    noise : SharedNoise or None
        Noise of which the party adds its share; None for exact answers.
    guarantee : PrivacyGuarantee or None
        Of all noisy answers together; None for exact answers.
    random_state : int or None, default=None
        Seed of the noise. None draws from the operating system's entropy, as a real
        release must. An int is for tests and papers.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Of all noisy answers together; there is none for exact answers.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.completion import CPCompletion
    >>> server = CPCompletion(0, unit=0, value_bounds=(0, 1), shape=(100, 3))
    >>> party = server.party(np.array([[0, 0], [0, 2], [7, 1]]), [0.2, 0.9, 0.5])
    >>> server.fit_aggregated(party.answer).factors_[1].shape
    (3, 4)
    """

    _released_by = "answer"

    def __init__(
        self,
        entries: UnitEntries,
        settings: dict[str, Any],
        noise: SharedNoise | None = None,
        guarantee: PrivacyGuarantee | None = None,
        random_state: int | None = None,
    ) -> None:
        self._entries, self._settings, self._noise = entries, settings, noise
        self.random_state = random_state
        if guarantee is not None:
            self.privacy_guarantee_ = guarantee
        self._fit: str | None = None
        self._process: str | None = None
        self._streams: NoiseStreams | None = None
        # By number of the request: its share and its number of rounded sums, its hash,
        # and the answer.
        self._shares: dict[int, tuple[float, int]] = {}
        self._hashes: dict[int, str] = {}
        self._answers: dict[int, NDArray[np.uint64]] = {}
        self._lock = threading.Lock()

    def answer(self, request: SumRequest) -> NDArray[np.uint64]:
        """Sum the contributions of the party's units to one release.

        Without `noise_shares`, the answer is exact: show it to nobody, and pass it to a
        secure aggregation, which reveals only the sum over all parties. With
        `noise_shares`, the answer contains this party's share of the noise. Alone, it
        protects less than the sum over all parties does, so pass it to a secure
        aggregation, too. A party without units answers as well, with zeros and noise.

        Budgets that are open at the first noisy answer record the guarantee of all
        answers of the fit, before noise is drawn.

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
            If the request belongs to another fit than the first one, if another request
            with this number was answered, if the server declares another epsilon, rank
            or other parameter than this party, if its sums have no lattice or another
            one than this party's parameters give, if the server takes the noise to be
            divided in another way, or if the units would contribute more than the
            budget.
        TypeError
            If `request` is not a `SumRequest`.
        BudgetExceededError
            If an open budget does not admit the guarantee of the fit.
        RuntimeError
            In a fork of the process that made the first answer.
        """
        if not isinstance(request, SumRequest):
            raise TypeError(
                f"request must be a SumRequest, which fit_aggregated passes to `ask`; "
                f"got {type(request).__name__}."
            )
        # Before the lock, which a thread of the parent may hold in a fork.
        if self._process not in (None, process_name()):
            raise RuntimeError(
                "This party has answered in another process, of which this one is a "
                "fork. Two processes would answer different requests with the same "
                "noise. Answer there, or make another party here."
            )
        with self._lock:
            return self._answer(request).copy()

    def _answer(self, request: SumRequest) -> NDArray[np.uint64]:
        number = operator.index(request.number)
        if not 0 <= number < 2**32:
            raise ValueError("The number of the request is out of range.")
        if self._fit not in (None, request.fit):
            raise ValueError(
                "This party has answered another fit. Each fit is a release of its "
                "own: count it, and make another party for it."
            )
        found = _hash_of(request)
        if self._hashes.get(number, found) != found:
            raise ValueError(
                f"This party has answered another request with the number {number}. It "
                "answers one request of each number."
            )
        if number not in self._answers:
            self._check(request)
            shares = {**self._shares, number: (request.share, request.n_changed)}
            used, n_changed = map(sum, zip(*shares.values(), strict=True))
            if used > 1 + 1e-9:
                raise ValueError(
                    "The server asks for more than the budget allows: the shares of "
                    "its requests add up to more than 1."
                )
            if self._noise is not None and n_changed > self._noise.n_changed:
                raise ValueError(
                    "The server asks for more products than the noise was planned for."
                )
            self._begin()
            self._process = process_name()
            # Before noise is drawn, so that no other request ever gets this noise.
            self._fit, self._hashes[number] = request.fit, found
            self._shares = shares
            self._answers[number] = self._new_answer(request)
        return self._answers[number]

    def _check(self, request: SumRequest) -> None:
        """Refuse a request that does not fit this party's own parameters."""
        own, servers = self._settings, request.settings
        differing = [k for k in {**own, **servers} if own.get(k) != servers.get(k)]
        if differing:
            of_both = [
                ", ".join(f"{name} = {settings.get(name)!r}" for name in differing)
                for settings in (servers, own)
            ]
            raise ValueError(
                f"Server and parties must declare the same parameters. The server: "
                f"{of_both[0]}; this party: {of_both[1]}."
            )
        if not all(of_block.has_steps for of_block in request.empty):
            raise ValueError(
                "Sums without noise are not integers; the server must set a finite "
                "epsilon."
            )
        if not all(of_block.is_bounded for of_block in request.empty):
            raise ValueError("The bounds and the shares of a request must be positive.")
        noise = self._noise
        shares = None if noise is None else noise.shares
        if request.noise_shares != shares:
            raise ValueError(
                "Server and parties must declare the same noise_shares. The server: "
                f"{request.noise_shares}; this party: {shares}."
            )
        if noise and any(of_block.step != noise.step for of_block in request.empty):
            raise ValueError(
                "The step of the server's lattice is not that of this party's. Server "
                "and parties must make their models with the same parameters."
            )

    def _begin(self) -> None:
        """Record the release of all answers before the first noise is drawn."""
        if self._noise is not None and self._streams is None:
            self._record(self.privacy_guarantee_)
            self._streams = NoiseStreams(self.random_state, 0)

    def _new_answer(self, request: SumRequest) -> NDArray[np.uint64]:
        noisy = self._noise is not None
        sums = summed(self._entries, request.contribute, request.empty)
        integers = np.concatenate([of_block.answer(noisy=noisy) for of_block in sums])
        if self._noise is not None and self._streams is not None:
            streams = self._streams.step(request.number)
            integers += self._noise.draw(integers.size, streams)
        return integers.astype(np.uint64) & _mask(request.n_bits)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A party holds its units' entries and cannot be copied or pickled."
        )

    def __repr__(self) -> str:
        return "UnitParty()"


def party_of(
    X: ArrayLike,
    y: ArrayLike,
    domain: Domain,
    shape: tuple[int, ...],
    unit: int,
    name: str,
    **options: Any,
) -> UnitParty:
    """Check the entries of a party's units, of which there may be none.

    Further arguments are those of `UnitParty`.
    """
    check_numeric(X, "X")
    check_numeric(y, "y")
    rows: Any = checked(
        check_array, X, input_name="X", ensure_min_samples=0, dtype="numeric"
    )
    if rows.shape[1] != len(shape):
        raise ValueError(f"X has {rows.shape[1]} columns, but shape is {shape}.")
    where = check_coordinates(rows, shape=shape, name=name)
    own = checked(column_or_1d, y, dtype=float)
    if not np.all(np.isfinite(own)):
        raise ValueError("Some values in y are NaN, infinite or missing.")
    check_same_length(where, own)
    entries = Entries(where, own, shape).by_unit(domain, unit)
    return UnitParty(entries, **options)


@dataclass(frozen=True, eq=False)
class PartySums:
    """Entries of which a server learns sums alone; see `Entries`.

    Attributes
    ----------
    ask : callable or None
        Maps a `SumRequest` to the sum of the parties' answers, with their number if
        they contain noise. None if nobody will be asked.
    shape : tuple of int
    unit : int
        The mode of the units in the shape.
    noise : SharedNoise or None
        Noise that the answers contain.
    settings : dict
        Public parameters that parties compare with theirs; see `SumRequest`.
    """

    ask: Callable[[SumRequest], Any] | None
    shape: tuple[int, ...]
    unit: int
    noise: SharedNoise | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    is_dense, is_local, n_entries = False, False, 0

    def without_values(self, order: Sequence[int]) -> PartySums:
        """The same with the modes in another order; see `Entries`."""
        shape = tuple(self.shape[mode] for mode in order)
        return replace(self, shape=shape, unit=list(order).index(self.unit))

    def by_unit(self, *_: Any) -> _AskedUnits:
        """The units, elsewhere, for the releases of one fit."""
        return _AskedUnits(self)

    def rows_of_units(self, _: Domain) -> LocalRows:
        """No rows: parties compute those of their units."""
        return LocalRows()


class _AskedUnits:
    """Units of parties, which are asked for their sums; see `Units`."""

    def __init__(self, sums: PartySums) -> None:
        self._ask: Any = sums.ask
        self._n_units, self._noise = sums.shape[sums.unit], sums.noise
        self._settings = sums.settings
        self._fit, self._n_asked = uuid.uuid4().hex, 0

    def add_to(self, sums: Sequence[Sums], contribute: Contributions) -> None:
        """Add what the parties answer to sums."""
        noise = self._noise
        n_bits = max(
            noise.n_bits(of_block.largest(self._n_units))
            if noise
            else of_block.n_bits(self._n_units)
            for of_block in sums
        )
        request = SumRequest(
            self._fit,
            self._n_asked,
            n_bits,
            contribute,
            tuple(of_block.empty() for of_block in sums),
            noise_shares=None if noise is None else noise.shares,
            settings=self._settings,
        )
        self._n_asked += 1
        integers, n_answers = self._answers(request)
        signed = _signed(integers.astype(np.uint64), n_bits)
        sizes = [of_block.n_numbers(noisy=noise is not None) for of_block in sums]
        ends = np.cumsum(sizes)[:-1]
        for of_block, steps in zip(sums, np.split(signed, ends), strict=True):
            of_block.take(steps, n_answers)

    def _answers(self, request: SumRequest) -> tuple[NDArray[Any], int | None]:
        """The sum of the parties' answers and, if they contain noise, their number."""
        found, n_answers = self._ask(request), None
        if self._noise is not None:
            if not (isinstance(found, tuple) and len(found) == 2):
                raise ValueError(
                    "With noise_shares, ask must return a tuple: the sum, and the "
                    "number of parties whose answers are in it."
                )
            found, n_answers = found
            n_parties = self._noise.shares.n_parties
            is_whole = isinstance(n_answers, Integral) and n_answers is not True
            if not (is_whole and 1 <= n_answers <= n_parties):
                raise ValueError(
                    f"The number of answers to release {request.number} must be an "
                    f"integer from 1 to n_parties = {n_parties}, got {n_answers!r}."
                )
            n_answers = int(n_answers)
        integers = np.asarray(found)
        if integers.dtype.kind not in "iu" or integers.shape != (request.n_numbers,):
            raise ValueError(
                f"ask must return {request.n_numbers} integers for release "
                f"{request.number}, the sum of the parties' answers; got shape "
                f"{integers.shape} and type {integers.dtype}."
            )
        return integers, n_answers


def _hash_of(request: SumRequest) -> str:
    """A hash that a request keeps when it is sent."""
    # The layout of arrays, and what is one object, may change in the first pickle only.
    sent = pickle.loads(pickle.dumps(request))
    return hashlib.sha256(pickle.dumps(sent)).hexdigest()


def _mask(n_bits: int) -> np.uint64:
    return np.uint64(2**n_bits - 1)


def _signed(integers: NDArray[np.uint64], n_bits: int) -> NDArray[np.int64]:
    """The integers in [-2**(n_bits - 1), 2**(n_bits - 1)) with these residues."""
    half = np.uint64(2 ** (n_bits - 1))
    # Arithmetic modulo 2**64, which 2**n_bits divides.
    shifted = (integers + half) & _mask(n_bits)
    return shifted.astype(np.int64) - np.int64(half)
