"""Parties that keep their people's data, and a fit to sums over all of them.

Guarantee. Each person (a unit with all its entries, or a sample) is at one party. Two
data sets are neighbours if they differ in one person of one party: either one of them
lacks all entries of a unit, or one sample is replaced by another (so every party's
number of samples is public). In every release, each person of a party that answers
contributes one vector. It is a function of that person's own data and of earlier
releases, and no longer than the share of the release. Sums are exact, and a party that
adds noise rounds its own to the lattice once, if they are not whole steps already. So
the person moves the sum of one party alone, and by no more than it would move the one
sum over all people: the proofs of ``completion/measurements/units/_units.py`` and of
``moments/_base.py`` hold for the noisy sums, whichever parties answer. Noise is added
in one of two ways:

- by the server, once, to the sum of exact answers. The guarantee then does not hold
  against anybody who sees the sums before, such as the server.
- by the parties, each of which adds its share to its answer (``_noise_shares.py``).
  The guarantee then holds against everybody, on the conditions stated there.

Either way, a party counts what it is asked for against the plan that follows from its
own parameters (`Asked`), and whatever the server asks, no vector is longer than its
share (`Sums.add`).

A request is data (``_requests.py``): the code that reads people's data is the party's
own. Answers are integers. Modulo a power of two above their range they keep their
value, so that a protocol of secure aggregation can add them.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._random import NoiseStreams
from .._validation import check_noise_seed, is_integer
from ..base import Copy, PrivateEstimatorMixin
from ..privacy import PrivacyTags
from ..privacy._conditions import EXACT_SUMS
from ..privacy.budgets._open import process_name
from ._noise_shares import NoiseShares, SharedNoise, plan_shared_noise
from ._releases import Asked, Chunks, Question, contribute
from ._requests import Agreement, SumRequest, Terms, read_request, request_bytes

Ask = Callable[[bytes], ArrayLike | tuple[ArrayLike, int]]
"""Sends a request to all parties, and returns the sum of their answers."""


@runtime_checkable
class Aggregated(Protocol):
    """An estimator that can be fitted to sums over the people of several parties."""

    def _terms(self) -> Terms:
        """Terms of its present parameters; raise if one of them is not declared."""

    def _people(self, X: ArrayLike, y: ArrayLike | None) -> Chunks:
        """The people of a party, checked."""

    def _fit_sums(self, sums: PartySums) -> Self:
        """Fit to sums over the people of all parties."""

    def _passed_on(self, other: Copy) -> Copy:
        """Mark a party as one that is made now."""


_Estimator = TypeVar("_Estimator", bound=Aggregated)


class Party(PrivateEstimatorMixin):
    """Answers a server, in one fit, with sums over its own people, as integers.

    Get one from `party`. It holds their data, so it cannot be copied or pickled.

    Parameters
    ----------
    people : UnitEntries or Samples
        The party's people.
    agreed : Agreement
        The public parameters on which server and parties must agree.
    random_state : int or None, default=None
        Seed of the noise. None draws from the operating system's entropy, as a real
        release must. An int is for tests and papers.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of all noisy answers together; not set for exact answers.
    """

    def __init__(
        self,
        people: Chunks,
        agreed: Agreement,
        random_state: int | None = None,
    ) -> None:
        self._people, self._agreed, self._noise = people, agreed, agreed.noise
        self.random_state = random_state
        if agreed.noise is not None:
            self.privacy_guarantee_ = agreed.terms.guarantee(agreed.noise)
        self._fit: str | None = None
        self._process: str | None = None
        self._streams: NoiseStreams | None = None
        # All requests so far together; and the hash and the answer of each, by its
        # number.
        self._asked, self._hashes = Asked(), dict[int, str]()
        self._answers: dict[int, NDArray[np.uint64]] = {}
        self._lock = threading.Lock()

    def __privacy_tags__(self) -> PrivacyTags:
        tags = super().__privacy_tags__()
        tags.released_by = "answer"
        return tags

    def answer(self, request: bytes) -> NDArray[np.uint64]:
        """Sum the contributions of the party's people to one release.

        Without `noise_shares`, the answer is exact: show it to nobody, and pass it to a
        secure aggregation, which reveals only the sum over all parties. With
        `noise_shares`, the answer contains this party's share of the noise. Alone, it
        protects less than the sum over all parties does, so pass it to a secure
        aggregation, too. A party without people answers as well, with zeros and noise.

        Budgets that are open at the first noisy answer record the guarantee of all
        answers of the fit, before noise is drawn. They keep it if the fit ends with an
        error. They are right on condition that the secure aggregation reveals one sum
        for each request, over one set of parties, and none of fewer answers than
        ``noise_shares.n_needed``. A repeated request must go to the same parties.

        Parameters
        ----------
        request : bytes
            What `fit_aggregated` passed to `ask`. It is read as data and checked before
            anybody's data are touched; nothing in it is executed.

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
            another epsilon or other parameter than this party, if its sums have no
            lattice or another one than this party's parameters give, if the server
            takes the noise to be divided in another way, or if people would contribute
            to more sums, or more to them, than this party's parameters plan.
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
        """Refuse a request that, with all before it, asks for more than was agreed."""
        if excess := asked.excess(self._agreed.terms.noise, request.question.sums):
            raise ValueError(f"The server asks for {excess}.")

    def _begin(self) -> None:
        """Record the release of all answers before the first noise is drawn."""
        if self._noise is not None and self._streams is None:
            self._record(self.privacy_guarantee_)
            self._streams = NoiseStreams(self.random_state, 0)

    def _new_answer(self, request: SumRequest) -> NDArray[np.uint64]:
        # For dozens of modes, products of a server's numbers may overflow for some
        # entries. A person with such a vector adds nothing; a warning would reveal
        # that.
        with np.errstate(all="ignore"):
            integers = request.integers(contribute(self._people, request.question))
        if self._noise is not None and self._streams is not None:
            streams = self._streams.step(request.number)
            integers += self._noise.draw(integers.size, streams)
        return integers.astype(np.uint64) & np.uint64(2**request.n_bits - 1)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A party holds its people's data and cannot be copied or pickled."
        )

    def __repr__(self) -> str:
        return "Party()"


def party(
    estimator: Aggregated,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    noise_shares: NoiseShares | None = None,
    random_state: int | None = None,
) -> Party:
    """Make a party, which holds people's data and answers with sums over them.

    With `fit_aggregated`, several parties fit one model without showing each other or a
    server the data of any person. Each party makes its own object, from the public
    parameters that all parties and the server share. It answers no server that declares
    another epsilon, delta, rank, range, bound or shape. With `noise_shares`, each adds
    its share of the noise to every answer, so that no server sees an exact sum.

    **Trust.** Without `noise_shares`, you trust the server: it sees exact sums over all
    parties, and must add the noise that it declares. With `noise_shares`, the noise and
    the bound on a person's contributions are the party's own, whatever the server
    declares; for everything else, see `fit_aggregated`.

    Parameters
    ----------
    estimator : estimator
        Unfitted, with the parameters that all share. It is not changed. A
        `CPCompletion` or `TuckerCompletion` whose `unit` is a mode, with the shape and
        the range of the values declared; or a `MultilinearPCA`, `MultilinearRidge` or
        `MultilinearRidgeClassifier` with `tensor_shape`, `norm_bound` and, for a
        regression, what is public about targets.
    X : array-like
        For a completion, the coordinates of all entries of the party's units, of shape
        (n_observed, n_modes), inside its shape. Otherwise finite samples of shape
        (n_samples, ...). An empty list for a party without people, which must answer
        too.
    y : array-like of shape (n_observed,) or (n_samples,)
        The entries' values, finite, or the samples' targets; a `MultilinearPCA` ignores
        it.
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
        If a parameter that all must know is not declared; if epsilon is infinite, so
        that sums would not be integers; if a coordinate is outside the shape, or a
        value is not finite; if noise cannot be divided among so many parties; or if
        `random_state` is not a seed.
    TypeError
        If `estimator` is not one of these.

    Examples
    --------
    >>> from sktensordp.completion import CPCompletion, fit_aggregated, party
    >>> server = CPCompletion(rank=0, unit=0, value_bounds=(0, 1), shape=(100, 3))
    >>> shop = party(server, [[0, 0], [0, 2], [7, 1]], [0.2, 0.9, 0.5])
    >>> fit_aggregated(server, shop.answer).factors_[1].shape
    (3, 4)
    """
    check_noise_seed(random_state)
    agreed = _agreed(estimator, noise_shares)
    found = Party(estimator._people(X, y), agreed, random_state)
    return estimator._passed_on(found)


def fit_aggregated(
    estimator: _Estimator,
    ask: Ask,
    *,
    n_samples: int | None = None,
    noise_shares: NoiseShares | None = None,
) -> _Estimator:
    """Fit an estimator to sums over the people of several parties.

    In every release, `ask` sends a request to all parties, has a protocol of secure
    aggregation add their answers, and returns the sum. A fitted completion knows no
    unit: send its pickle to the parties, who call `fold_in` for their units. Without
    `noise_shares`, the guarantee does not hold against the server; see Notes.

    Parameters
    ----------
    estimator : estimator
        The estimator to fit, with the parameters that all share; see `party`.
    ask : callable
        Maps a request to the sum of the parties' answers, an array of integers as long
        as each answer. Sums of unsigned 64-bit integers may wrap around: what counts is
        the sum modulo 2 to the power of ``n_bits``. With `noise_shares`, it returns a
        tuple of this sum and the number of parties whose answers are in it. A request
        is bytes, and holds released values alone, so it is public. Its first line is
        JSON, with ``number``, ``n_numbers`` and ``n_bits``.
    n_samples : int, default=None
        Number of samples of all parties together, from 1 to 2**26; public. Leave it out
        for a completion, whose shape is declared.
    noise_shares : NoiseShares, default=None
        How many parties share the noise, as they have declared to `party`. None if
        their answers are exact.

    Returns
    -------
    estimator : object
        The same object, fitted.

    Raises
    ------
    ValueError
        Before the release is recorded and anybody is asked: if a parameter that all
        must know is not declared, if epsilon is infinite, so that sums would not be
        integers, if `n_samples` is out of range, or if noise cannot be divided among so
        many parties. Afterwards: if `ask` does not return the right number of integers,
        or a number of answers from ``noise_shares.n_needed`` to
        ``noise_shares.n_parties``.
    TypeError
        If `ask` is not callable, if `noise_shares` is of another type, or if
        `estimator` is none that `party` accepts.

    Notes
    -----
    **Guarantee without noise_shares.** This process, the server, adds the noise, once.
    If all parties answer, the release is that of `fit` on the data of all parties, to
    the last bit if `random_state` is an int. The guarantee is that of `fit`, for one
    unit or sample of one party, against everybody but the server: parties, and all who
    get the model or a request. It does not hold against the server, which sees exact
    sums over all parties; secure aggregation hides from it what a single party
    contributed. A party that drops out of a release contributes nothing to it. That
    costs accuracy and no budget.

    **Guarantee with noise_shares.** Each party has added its share of the noise before
    its answer leaves it. The server adds none, and sees noisy sums only. The guarantee
    is that of `fit`, for one unit or sample of one party, against everybody, the server
    included, on three conditions. Secure aggregation reveals one sum for each request,
    over one set of parties; a repeated request goes to the same parties. It reveals no
    sum of fewer than ``noise_shares.n_needed`` answers. At least
    ``noise_shares.n_honest`` of these come from parties whose noise the adversary does
    not know. If `ask` reports fewer answers, the fit ends with an error. The server has
    then seen a sum with too little noise, and the release stays recorded. Budgets count
    the release at the parties, in `answer`, and not here. A new fit is another release
    of every party that answers.

    In both cases, no two parties may hold data of the same person: each party would
    protect that person separately, and their guarantees would compose. A sample is
    protected against being replaced by another: everybody's number of samples is
    public. Whether a party answers must not depend on its data. A party that deviates
    from the protocol can spoil the model; with `noise_shares` it counts as a colluder.
    """
    if not callable(ask):
        raise TypeError(
            f"ask must be a function that maps a request to the sum of the parties' "
            f"answers, got {type(ask).__name__}. If there is one party, pass "
            f"party.answer."
        )
    agreed = _agreed(estimator, noise_shares)
    sums = PartySums(agreed, ask, agreed.terms.n_people(n_samples))
    return estimator._fit_sums(sums)


@dataclass(eq=False)
class PartySums:
    """Sums over the people of several parties, in one fit; see `People`.

    Attributes
    ----------
    agreed : Agreement
        What parties compare with their own parameters.
    ask : callable
        See `fit_aggregated`.
    n_people : int
        Largest number of people of all parties together.
    n_asked : int, default=0
        Number of requests so far.
    fit : str
        Tells the fits of servers apart.
    """

    agreed: Agreement
    ask: Ask
    n_people: int
    n_asked: int = 0
    fit: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def noise(self) -> SharedNoise | None:
        """Noise that the answers contain."""
        return self.agreed.noise

    @property
    def conditions(self) -> tuple[str, ...]:
        """Further conditions of the guarantee of a fit to these sums."""
        return (EXACT_SUMS,) if self.noise is None else ()

    def summed(
        self, _: Callable[..., Sequence[NDArray[Any]]], question: Question
    ) -> tuple[list[NDArray[Any]], int | None]:
        """The sum of the parties' answers; see `People`."""
        noise, n_people = self.noise, self.n_people
        n_bits = max(
            noise.n_bits(sums.largest(n_people)) if noise else sums.n_bits(n_people)
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


def _agreed(estimator: Aggregated, noise_shares: NoiseShares | None) -> Agreement:
    """Check the public parameters on which a guarantee of parties depends."""
    if not isinstance(noise_shares, NoiseShares | None):
        raise TypeError(
            f"noise_shares must be a NoiseShares or None, got "
            f"{type(noise_shares).__name__}."
        )
    if not isinstance(estimator, Aggregated) or isinstance(estimator, type):
        raise TypeError(
            f"estimator must be a CPCompletion, TuckerCompletion, MultilinearPCA, "
            f"MultilinearRidge or MultilinearRidgeClassifier, got "
            f"{type(estimator).__name__}."
        )
    terms = estimator._terms()
    if not terms.noise.step:
        raise ValueError(
            "Sums without noise are not integers, so parties cannot add them: set a "
            "finite epsilon."
        )
    if noise_shares is None:
        return Agreement(terms, None)
    return Agreement(terms, plan_shared_noise(terms.noise, noise_shares))
