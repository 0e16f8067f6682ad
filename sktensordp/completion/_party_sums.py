"""Units of several parties, of which a server learns sums alone; see `Entries`."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..privacy._conditions import EXACT_SUMS
from ._noise_shares import SharedNoise
from ._requests import Agreement, SumRequest, request_bytes

Ask = Callable[[bytes], ArrayLike | tuple[ArrayLike, int]]
"""Sends a request to all parties, and returns the sum of their answers."""


@dataclass(frozen=True, eq=False)
class PartySums:
    """Entries of which a server learns sums alone; see `Entries`.

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
    """

    shape: tuple[int, ...]
    unit: int
    ask: Ask
    agreed: Agreement
    noise: SharedNoise | None = None

    is_dense, received = False, False

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a guarantee of a fit to these sums rests on besides."""
        return (EXACT_SUMS,) if self.noise is None else ()

    def by_unit(self, *_: Any) -> _AskedUnits:
        """The units, elsewhere, for the releases of one fit."""
        return _AskedUnits(self.ask, self.agreed, self.shape[self.unit], self.noise)

    def with_rows_of(self, _: Any, fitted: Any) -> Any:
        """A fit to these sums: parties compute the rows of their units."""
        return fitted


class _AskedUnits:
    """Units of parties, which are asked for their sums; see `Units`."""

    def __init__(
        self, ask: Ask, agreed: Agreement, n_units: int, noise: SharedNoise | None
    ) -> None:
        self._ask, self._agreed = ask, agreed
        self._n_units, self._noise = n_units, noise
        self._fit, self._n_asked = uuid.uuid4().hex, 0

    def summed(
        self, _: Callable[..., Any], question: Any
    ) -> tuple[list[NDArray[Any]], int | None]:
        """The sum of what the parties answer; see `Units`."""
        noise, n_units = self._noise, self._n_units
        n_bits = max(
            noise.n_bits(sums.largest(n_units)) if noise else sums.n_bits(n_units)
            for sums in question.sums
        )
        shares = None if noise is None else noise.shares
        request = SumRequest(self._fit, self._n_asked, n_bits, question, shares)
        self._n_asked += 1
        integers, n_answers = self._answers(request)
        signed = _signed(integers.astype(np.uint64), n_bits)
        return request.split(signed), n_answers

    def _answers(self, request: SumRequest) -> tuple[NDArray[Any], int | None]:
        """The sum of the parties' answers and, if they contain noise, their number."""
        found = self._ask(request_bytes(request, self._agreed))
        n_answers = None
        if self._noise is not None:
            if not (isinstance(found, tuple) and len(found) == 2):
                raise ValueError(
                    "With noise_shares, ask must return a tuple: the sum, and the "
                    "number of parties whose answers are in it."
                )
            found, n_answers = found
            shares = self._noise.shares
            least, most = shares.n_needed, shares.n_parties
            is_whole = isinstance(n_answers, Integral) and n_answers is not True
            if not (is_whole and least <= n_answers <= most):
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
