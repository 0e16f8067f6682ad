"""Parties that keep their units' entries, and a fit to sums over all of them.

Guarantee. Two data sets are neighbours if one of the parties has all entries of one
unit in one of them and none in the other. In every release, each unit of a party that
answers contributes one vector, a function of its own entries and of earlier releases,
of whole steps of a lattice, and no longer than the share of the release. So the proof
of ``measurements/_units.py`` holds for the noisy sums, whichever parties answer. Noise
is added in one of two ways:

- by the server, once, to the sum of exact answers. The guarantee then holds against
  nobody who sees the sums before: not against the server.
- by the parties, each of which adds its share to its answer (``_noise_shares.py``).
  The guarantee then holds against everybody, on the conditions stated there.

A request is data (``_requests.py``): the code that reads entries is the party's own.
Sums of whole steps are integers. Modulo a power of two above their range they keep
their value, so that a protocol of secure aggregation can add them.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import uuid
from collections.abc import Callable
from dataclasses import astuple, dataclass, field, replace
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._random import NoiseStreams
from .._validation import check_noise_seed, check_same_length, is_integer
from ..base import PrivateEstimatorMixin
from ..measure import (
    MOST_STEPS,
    Asked,
    NoiseShares,
    SharedNoise,
    contribute,
    plan_shared_noise,
)
from ..privacy import PrivacyGuarantee
from ..privacy._conditions import EXACT_SUMS
from ..privacy.budgets._open import process_name
from ..tensor._unit_entries import UnitEntries
from ._base import BaseCompletion
from ._checks import is_empty_list
from ._entries import Entries, entries_of
from ._fitted import keeping_names_if_refused
from ._problem import Problem, domain_of
from ._requests import Agreement, SumRequest, read_request, request_bytes
from .measurements.units._units import UnitPerturbation

Ask = Callable[[bytes], ArrayLike | tuple[ArrayLike, int]]
"""Sends a request to all parties, and returns the sum of their answers."""


class Party(PrivateEstimatorMixin):
    """Answers a server with sums over its own units, as integers for one fit.

    Get one from `party`. It holds entries, so it cannot be copied or pickled.

    Parameters
    ----------
    entries : UnitEntries
        All entries of the party's units.
    agreed : Agreement
        The public parameters on which server and parties must agree.
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
    """

    _released_by = "answer"

    def __init__(
        self,
        entries: UnitEntries,
        agreed: Agreement,
        noise: SharedNoise | None = None,
        guarantee: PrivacyGuarantee | None = None,
        random_state: int | None = None,
    ) -> None:
        self._entries, self._agreed, self._noise = entries, agreed, noise
        self.random_state = random_state
        if guarantee is not None:
            self.privacy_guarantee_ = guarantee
        self._fit: str | None = None
        self._process: str | None = None
        self._streams: NoiseStreams | None = None
        # All requests together; and by number of the request, its hash and the answer.
        self._asked, self._hashes = Asked(), dict[int, str]()
        self._answers: dict[int, NDArray[np.uint64]] = {}
        self._lock = threading.Lock()

    def answer(self, request: bytes) -> NDArray[np.uint64]:
        """Sum the contributions of the party's units to one release.

        Without `noise_shares`, the answer is exact: show it to nobody, and pass it to a
        secure aggregation, which reveals only the sum over all parties. With
        `noise_shares`, the answer contains this party's share of the noise. Alone, it
        protects less than the sum over all parties does, so pass it to a secure
        aggregation, too. A party without units answers as well, with zeros and noise.

        Budgets that are open at the first noisy answer record the guarantee of all
        answers of the fit, before noise is drawn. They keep it if the fit ends with an
        error. They are right on condition that the secure aggregation reveals one sum
        for each request, over one set of parties, and none of fewer answers than
        ``noise_shares.n_needed``. A repeated request must go to the same parties.

        Parameters
        ----------
        request : bytes
            What `fit_aggregated` passed to `ask`. It is read as data and checked before
            any entry is touched; nothing in it is executed.

        Returns
        -------
        integers : ndarray of shape (n_numbers,), uint64
            Each below 2 to the power of the request's ``n_bits``. Send all 8 bytes of
            each, uncompressed: their length then tells nothing. A repeated request gets
            the same answer.

        Raises
        ------
        ValueError
            If the request is damaged, if it belongs to another fit than the first one,
            if another request with this number was answered, if the server declares
            another epsilon, rank or other parameter than this party, if its sums have
            no lattice or another one than this party's parameters give, if the server
            takes the noise to be divided in another way, or if the units would
            contribute more than the budget.
        TypeError
            If `request` is not bytes.
        BudgetExceededError
            If an open budget does not admit the guarantee of the fit.
        RuntimeError
            In a fork of the process that made the first answer.
        """
        # Before the lock, which a thread of the parent may hold in a fork.
        if self._process not in (None, process_name()):
            raise RuntimeError(
                "This party has answered in another process, of which this one is a "
                "fork. Two processes would answer different requests with the same "
                "noise. Answer there, or make another party here."
            )
        read = read_request(request, self._agreed)
        with self._lock:
            return self._answer(read, hashlib.sha256(request).hexdigest()).copy()

    def _answer(self, request: SumRequest, found: str) -> NDArray[np.uint64]:
        number = request.number
        if self._fit not in (None, request.fit):
            raise ValueError(
                "This party has answered another fit. Each fit is a release of its "
                "own: count it, and make another party for it."
            )
        if self._hashes.get(number, found) != found:
            raise ValueError(
                f"This party has answered another request with the number {number}. It "
                "answers one request of each number."
            )
        if number not in self._answers:
            asked = self._asked
            if number not in self._hashes:
                asked = asked.with_release(request.question.sums)
            self._check(request, asked)
            self._begin()
            self._process = process_name()
            # Before noise is drawn, so that no other request ever gets this noise.
            self._fit, self._asked, self._hashes[number] = request.fit, asked, found
            self._answers[number] = self._new_answer(request)
        return self._answers[number]

    def _check(self, request: SumRequest, asked: Asked) -> None:
        """Refuse a request that asks for more than was agreed, with all before it."""
        sums = request.question.sums
        if excess := asked.excess(self._noise, sums):
            raise ValueError(f"The server asks for {excess}.")
        n_units = len(self._entries.units)
        if any(one.largest(n_units) > MOST_STEPS for one in sums):
            raise ValueError(
                "The server asks for sums on so fine a lattice that integers do not "
                "hold them."
            )

    def _begin(self) -> None:
        """Record the release of all answers before the first noise is drawn."""
        if self._noise is not None and self._streams is None:
            self._record(self.privacy_guarantee_)
            self._streams = NoiseStreams(self.random_state, 0)

    def _new_answer(self, request: SumRequest) -> NDArray[np.uint64]:
        # A server's numbers for dozens of modes have products that overflow for some
        # entries. A unit with such a vector adds nothing; a warning would tell of it.
        with np.errstate(all="ignore"):
            integers = request.integers(contribute(self._entries, request.question))
        if self._noise is not None and self._streams is not None:
            streams = self._streams.step(request.number)
            integers += self._noise.draw(integers.size, streams)
        return integers.astype(np.uint64) & np.uint64(2**request.n_bits - 1)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A party holds its units' entries and cannot be copied or pickled."
        )

    def __repr__(self) -> str:
        return "Party()"


def party(
    completion: BaseCompletion,
    X: ArrayLike,
    y: ArrayLike,
    *,
    noise_shares: NoiseShares | None = None,
    random_state: int | None = None,
) -> Party:
    """Make a party, which holds units' entries and answers with sums over them.

    With `fit_aggregated`, several parties fit one model without showing each other or a
    server the entries of any unit. Each party makes its own object, from the public
    parameters that all parties and the server share. It answers no server that declares
    another epsilon, delta, rank, range, shape or perturbation. With `noise_shares`,
    each adds its share of the noise to every answer, so that no server sees an exact
    sum.

    **Trust.** Without `noise_shares`, you trust the server: it sees exact sums over all
    parties, and must add the noise that it declares. With `noise_shares`, the noise and
    the bound on a unit's contributions are the party's own, whatever the server
    declares; for all else see `fit_aggregated`.

    Parameters
    ----------
    completion : CPCompletion or TuckerCompletion
        Unfitted, with the parameters that all share: `unit` is a mode, and `shape` and
        the range of the values are declared. It is not changed.
    X : array-like of shape (n_observed, n_modes)
        Coordinates of all entries of the party's units, inside `shape`; of shape
        (0, n_modes) for a party without units, which must answer too.
    y : array-like of shape (n_observed,)
        Their values, finite.
    noise_shares : NoiseShares, default=None
        How many parties share the noise. All parties and the server must declare the
        same. None for exact answers, to which the server adds noise.
    random_state : int or None, default=None
        Seed of this party's share of the noise. An int is for tests and papers only.
        Parties with the same seed draw the same noise, so give each another one.

    Returns
    -------
    party : Party
        Its ``answer(request)`` returns integers for a secure aggregation. It serves one
        fit: a further one is a further release, which its budget records. It cannot be
        copied or pickled.

    Raises
    ------
    ValueError
        If `unit` is no mode, if `shape`, or the range of the values, is not declared;
        if a coordinate is outside the shape or a value is not finite; if noise cannot
        be divided among so many parties; or if `random_state` is no seed.
    TypeError
        If `completion` is not a completion of values.

    Examples
    --------
    >>> from sktensordp.completion import CPCompletion, fit_aggregated, party
    >>> server = CPCompletion(rank=0, unit=0, value_bounds=(0, 1), shape=(100, 3))
    >>> shop = party(server, [[0, 0], [0, 2], [7, 1]], [0.2, 0.9, 0.5])
    >>> fit_aggregated(server, shop.answer).factors_[1].shape
    (3, 4)
    """
    check_noise_seed(random_state)
    agreed, measurement = _agreed(completion, noise_shares)
    noise = guarantee = None
    if measurement is not None:
        noise, guarantee = measurement.shared_noise, measurement.guarantee
    shape, unit = _shape_and_unit(completion)
    X = np.zeros((0, len(shape))) if is_empty_list(X) else X
    where, own = entries_of(X, y, shape, type(completion).__name__)
    check_same_length(where, own)
    units = Entries(where, own, shape).by_unit(domain_of(completion), unit)
    found = Party(units, agreed, noise, guarantee, random_state)
    return completion._passed_on(found)


def fit_aggregated(
    completion: BaseCompletion, ask: Ask, *, noise_shares: NoiseShares | None = None
) -> BaseCompletion:
    """Fit a completion to sums over the units of several parties.

    In every release, `ask` sends a request to all parties, has a protocol of secure
    aggregation add their answers, and returns the sum. The fitted model knows no unit:
    send its pickle to the parties, who call `fold_in` for their units. Without
    `noise_shares`, the guarantee does not hold against the server; see Notes.

    Parameters
    ----------
    completion : CPCompletion or TuckerCompletion
        With the parameters that all share: `unit` is a mode, and `shape` and the range
        of the values are declared. It is fitted.
    ask : callable
        Maps a request to the sum of the parties' answers, an array of integers as long
        as each answer. Sums of unsigned 64-bit integers may wrap around: what counts is
        the sum modulo 2 to the power of ``n_bits``. With `noise_shares`, it returns a
        tuple of this sum and the number of parties whose answers are in it. A request
        is bytes, and holds released values alone, so it is public. Its first line is
        JSON, with ``number``, ``n_numbers`` and ``n_bits``.
    noise_shares : NoiseShares, default=None
        How many parties share the noise, as they have declared to `party`. None if
        their answers are exact.

    Returns
    -------
    completion : object
        The same object, fitted.

    Raises
    ------
    ValueError
        Before the release is recorded: if `unit` is no mode, if `shape` or the range of
        the values is not declared, if epsilon is infinite, so that sums would not be
        integers, or if noise cannot be divided among so many parties. Afterwards: if
        `ask` does not return the right number of integers, or a number of answers from
        ``noise_shares.n_needed`` to ``noise_shares.n_parties``.
    TypeError
        If `ask` is not callable, if `noise_shares` is of another type, or if
        `completion` is not a completion of values.

    Notes
    -----
    **Guarantee without noise_shares.** This process, the server, adds the noise, once.
    If all parties answer, the released factors are those of `fit` on the entries of all
    parties, to the last bit for an int as random state. The guarantee is that of `fit`,
    for one unit of one party, against everybody but the server: parties, and all who
    get the model or a request. It does not hold against the server, which sees exact
    sums over all parties; secure aggregation hides from it what a single party
    contributed. A party that drops out of a release contributes nothing to it. That
    costs accuracy and no budget.

    **Guarantee with noise_shares.** Each party has added its share of the noise before
    its answer leaves it. The server adds none, and sees noisy sums only. The guarantee
    is that of `fit`, for one unit of one party, against everybody, the server included,
    on three conditions. Secure aggregation reveals one sum for each request, over one
    set of parties; a repeated request goes to the same parties. It reveals no sum of
    fewer than ``noise_shares.n_needed`` answers. At least ``noise_shares.n_honest`` of
    these are of parties whose noise the adversary does not know. If `ask` reports fewer
    answers, the fit ends with an error. The server has then seen a sum with too little
    noise, and the release stays recorded. Budgets count the release at the parties, in
    `answer`, and not here. A new fit is another release of every party that answers.

    In both cases, no two parties may have the same unit: it would be protected at each
    of them separately, so that their guarantees compose. Whether a party answers must
    not depend on its entries. A party that deviates from the protocol can spoil the
    model; with `noise_shares` it counts as a colluder.
    """
    if not callable(ask):
        raise TypeError(
            f"ask must be a function that maps a request to the sum of the parties' "
            f"answers, got {type(ask).__name__}. If there is one party, pass "
            f"party.answer."
        )
    agreed, measurement = _agreed(completion, noise_shares)
    _check_finite(completion)
    noise = None if measurement is None else measurement.shared_noise
    shape, unit = _shape_and_unit(completion)
    with keeping_names_if_refused(completion):
        completion.__dict__.pop("feature_names_in_", None)
        completion.n_features_in_ = len(shape)
        sums = PartySums(shape, unit, ask, agreed, noise)
        return completion._fit(sums)


@dataclass(eq=False)
class PartySums:
    """Entries of which a server learns sums alone, in one fit.

    See `Entries` and, for what it asks, `People`.

    Attributes
    ----------
    shape : tuple of int
    unit : int
        The mode of the units in the shape.
    ask : callable
        See `fit_aggregated`.
    agreed : Agreement
        What parties compare with their own parameters.
    noise : SharedNoise or None
        Noise that the answers contain.
    n_asked : int, default=0
        Number of requests so far.
    fit : str
        Tells the fits of servers apart.
    """

    shape: tuple[int, ...]
    unit: int
    ask: Ask
    agreed: Agreement
    noise: SharedNoise | None
    n_asked: int = 0
    fit: str = field(default_factory=lambda: uuid.uuid4().hex)

    is_dense, received = False, False

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a guarantee of a fit to these sums rests on besides."""
        return (EXACT_SUMS,) if self.noise is None else ()

    def by_unit(self, *_: Any) -> Self:
        """The units: parties have all entries of each together."""
        return self

    def with_rows_of(self, _: Any, fitted: Any) -> Any:
        """A fit to these sums: parties compute the rows of their units."""
        return fitted

    def summed(
        self, _: Callable[..., Any], question: Any
    ) -> tuple[list[NDArray[Any]], int | None]:
        """The sum of what the parties answer; see `People`."""
        noise, n_units = self.noise, self.shape[self.unit]
        n_bits = max(
            noise.n_bits(sums.largest(n_units)) if noise else sums.n_bits(n_units)
            for sums in question.sums
        )
        is_noisy = noise is not None
        request = SumRequest(self.fit, self.n_asked, n_bits, question, is_noisy)
        self.n_asked += 1
        integers, n_answers = self._answers(request)
        signed = _signed(integers.astype(np.uint64), n_bits)
        return request.split(signed), n_answers

    def _answers(self, request: SumRequest) -> tuple[NDArray[Any], int | None]:
        """The sum of the parties' answers and, if they contain noise, their number."""
        found = self.ask(request_bytes(request, self.agreed))
        n_answers = None
        if self.noise is not None:
            if not (isinstance(found, tuple) and len(found) == 2):
                raise ValueError(
                    "With noise_shares, ask must return a tuple: the sum, and the "
                    "number of parties whose answers are in it."
                )
            found, n_answers = found
            shares = self.noise.shares
            least, most = shares.n_needed, shares.n_parties
            if not (is_integer(n_answers) and least <= n_answers <= most):
                raise ValueError(
                    f"The number of answers to release {request.number} must be an "
                    f"integer from n_parties - n_dropouts = {least} to n_parties = "
                    f"{most}, got {n_answers!r}. If fewer parties answered, the sum "
                    "protects less than was agreed, though the release is recorded: "
                    f"set the threshold of the secure aggregation to {least}."
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


def _signed(integers: NDArray[np.uint64], n_bits: int) -> NDArray[np.int64]:
    """The integers in [-2**(n_bits - 1), 2**(n_bits - 1)) with these residues."""
    half = np.uint64(2 ** (n_bits - 1))
    # Arithmetic modulo 2**64, which 2**n_bits divides.
    shifted = (integers + half) & np.uint64(2**n_bits - 1)
    return shifted.astype(np.int64) - np.int64(half)


def _shape_and_unit(completion: BaseCompletion) -> tuple[tuple[int, ...], int]:
    """The declared shape and the mode of the units; raise if they are not declared."""
    if not isinstance(completion, BaseCompletion):
        raise TypeError(
            f"completion must be a CPCompletion or a TuckerCompletion, got "
            f"{type(completion).__name__}."
        )
    unit, shape = completion._unit, completion._declared_shape()
    if unit is None:
        raise ValueError(
            "Parties add up contributions of protected units: set unit=0, or another "
            "mode."
        )
    if shape is None:
        raise ValueError("Declare `shape`: all parties must know it beforehand.")
    return shape, unit


def _agreed(
    completion: BaseCompletion, noise_shares: NoiseShares | None
) -> tuple[Agreement, UnitPerturbation | None]:
    """Check the public parameters on which a guarantee of parties depends.

    Returns
    -------
    agreed : Agreement
    measurement : UnitPerturbation or None
        With the noise in shares; None if the parties add none.
    """
    if not isinstance(noise_shares, NoiseShares | None):
        raise TypeError(
            f"noise_shares must be a NoiseShares or None, got "
            f"{type(noise_shares).__name__}."
        )
    shape, unit = _shape_and_unit(completion)
    completion._validate_params()
    completion._check_declared()
    problem = Problem.of(completion, shape)
    form, domain = problem.form, problem.domain
    settings = {
        "estimator": type(completion).__name__,
        "rank": getattr(form, "ranks", form.rank),
        "epsilon": problem.epsilon,
        "delta": problem.delta,
        "perturbation": completion.perturbation,
        "biases": problem.biases,
        "unit": unit,
        "shape": shape,
        "value_bounds": domain.bounds,
        "levels": domain.levels,
        "noise_shares": noise_shares and astuple(noise_shares),
    }
    # As the other side reads them.
    settings = json.loads(json.dumps(settings, default=float))
    measurement = None
    if noise_shares is not None:
        _check_finite(completion)
        measurement = UnitPerturbation(problem, unit, completion.perturbation)
        noise = plan_shared_noise(measurement.planned_noise, noise_shares)
        measurement = replace(measurement, shared_noise=noise)
    return Agreement(settings, form, problem.shape[1:], problem.biases), measurement


def _check_finite(completion: BaseCompletion) -> None:
    if math.isinf(completion.epsilon):
        raise ValueError(
            "Sums without noise are not integers, so parties cannot add them: set a "
            "finite epsilon."
        )
