"""What a server asks its parties in one release: data that a party checks, never code.

A request is a message (``_messages.py``): a line of JSON, then arrays. It names one of
the questions that an estimator asks of people, whose code is at the party, with numbers
and arrays that follow from earlier releases. This module writes and reads what all
requests have in common; the `Terms` of an estimator write and read its questions. A
party reads a request before it touches anybody's data. It derives the size of every
array from its own parameters, and refuses a request with any other size, with a number
out of range or with a field that it does not know.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._json import Fields
from ..privacy import PrivacyGuarantee
from ._messages import LARGEST, Arrays, message, read_message
from ._noise_shares import SharedNoise
from ._noisy_sums import NoisySums
from ._releases import Question

_FORMAT, _WHAT = 1, "a request of fit_aggregated of this version"
# Largest number of sums in a question, for a tensor with as many modes as NumPy has
# axes.
_MOST_SUMS = 64

LEAST = 1e-12
"""Least share of a sum, and least variance, that a server may ask for.

Numbers of a request are of the order of one. Products of a few such numbers do not
overflow, whatever people's data are. Products of factors of dozens of modes may; a
person for whom they do adds nothing.
"""


class Terms(Protocol):
    """What follows from the public parameters of an estimator that is fitted to sums.

    A server and its parties each compute them from their own parameters.
    """

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters on which all must agree, by name, as JSON values."""

    @property
    def noise(self) -> NoisySums:
        """Noise of all releases together, as one trusted server would add it."""

    def guarantee(self, noise: SharedNoise) -> PrivacyGuarantee:
        """Guarantee of all releases together, with noise in shares."""

    def n_people(self, n_samples: int | None) -> int:
        """Largest number of people of all parties; the server states `n_samples`."""

    def written(
        self, question: Question, arrays: dict[str, NDArray[Any]]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Fields of a question, and of each of its sums except the share.

        Arrays are added to `arrays`.
        """

    def read(
        self, asked: Fields, arrays: Arrays, step: float, sums: list[SumFields]
    ) -> Question:
        """The question with these fields; every field and array is taken once."""


@dataclass(frozen=True)
class SumFields:
    """What a request states about one of its sums.

    Attributes
    ----------
    share : float
        Share of the squared budget.
    fields : Fields
        All other fields.
    """

    share: float
    fields: Fields


@dataclass(frozen=True, eq=False)
class Agreement:
    """What a server and its parties have agreed on.

    Attributes
    ----------
    terms : Terms
    noise : SharedNoise or None
        Noise to which each party adds its share; None if answers are exact.
    """

    terms: Terms
    noise: SharedNoise | None

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Public parameters by name, as the other side reads them."""
        shares = None if self.noise is None else astuple(self.noise.shares)
        settings = {**self.terms.settings, "noise_shares": shares}
        return json.loads(json.dumps(settings, default=float))

    def difference(self, servers: dict[str, Any]) -> str:
        """Say how a server's parameters differ; empty if they are equal."""
        own = self.settings
        differing = [k for k in {**own, **servers} if own.get(k) != servers.get(k)]
        of_both = [
            ", ".join(f"{k} = {json.dumps(found.get(k))[:100]}" for k in differing)
            for found in (servers, own)
        ]
        return f"The server: {of_both[0]}; this party: {of_both[1]}." * bool(differing)


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
    question : Question
    is_noisy : bool, default=False
        Whether the parties add noise to their answers.
    """

    fit: str
    number: int
    n_bits: int
    question: Question
    is_noisy: bool = False

    @property
    def _shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the sums in an answer: exact, or rounded to get noise."""
        sums = self.question.sums
        return [s.shape if self.is_noisy else s.zeros().shape for s in sums]

    @property
    def n_numbers(self) -> int:
        """Number of integers in an answer."""
        return sum(map(math.prod, self._shapes))

    def integers(self, totals: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        """Exact sums as integers, to which a party may then add noise."""
        if self.is_noisy:
            of_sums = zip(self.question.sums, totals, strict=True)
            totals = [sums.rounded(total) for sums, total in of_sums]
        return np.concatenate([total.ravel() for total in totals]).astype(np.int64)

    def split(self, integers: NDArray[np.int64]) -> list[NDArray[Any]]:
        """The sum of all answers, as one array for each of the question's sums."""
        shapes = self._shapes
        parts = np.split(integers, np.cumsum([math.prod(s) for s in shapes])[:-1])
        return [part.reshape(s) for part, s in zip(parts, shapes, strict=True)]


def request_bytes(request: SumRequest, agreed: Agreement) -> bytes:
    """A request as bytes, for `read_request` of a party."""
    arrays: dict[str, NDArray[Any]] = {}
    sums = request.question.sums
    asked, besides = agreed.terms.written(request.question, arrays)
    fields: dict[str, Any] = {
        "format": _FORMAT,
        "fit": request.fit,
        "number": request.number,
        "n_bits": request.n_bits,
        "n_numbers": request.n_numbers,
        "settings": agreed.settings,
        "question": asked,
        "step": sums[0].step,
        "sums": [
            {**more, "share": one.share}
            for one, more in zip(sums, besides, strict=True)
        ],
    }
    return message(fields, arrays)


def read_request(data: bytes, agreed: Agreement) -> SumRequest:
    """Read a request, and refuse whatever does not follow the rules of this module.

    Parameters
    ----------
    data : bytes
    agreed : Agreement
        From the party's own parameters.

    Returns
    -------
    request : SumRequest
        With finite numbers, and with arrays of the sizes that the party's own
        parameters give.

    Raises
    ------
    ValueError
        If the request is damaged, or if the server's parameters are not the party's.
    TypeError
        If `data` is not bytes.
    """
    fields, arrays = read_message(data, _WHAT)
    fields.constant("format", _FORMAT)
    difference = agreed.difference(fields.object("settings").rest())
    if difference:
        raise ValueError(
            f"Server and parties must declare the same parameters. {difference}"
        )
    asked, step = fields.object("question"), fields.number("step", 0.0, LARGEST)
    found = [Fields(s, _WHAT, "sums: ") for s in fields.list("sums", _MOST_SUMS)]
    sums = [SumFields(one.number("share", LEAST, 1.0), one) for one in found]
    question = agreed.terms.read(asked, arrays, step, sums)
    request = SumRequest(
        fields.text("fit", "[0-9a-f]{32}"),
        fields.integer("number", 0, 2**32 - 1),
        fields.integer("n_bits", 1, 64),
        question,
        agreed.noise is not None,
    )
    fields.constant("n_numbers", request.n_numbers)
    for one in (asked, *found, fields):
        one.end()
    arrays.end()
    return request
