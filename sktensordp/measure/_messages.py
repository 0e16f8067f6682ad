"""Messages between a server and its parties: data that is checked, never code.

A message is bytes: a line of JSON, then the arrays that the line lists, one after the
other, little-endian and not compressed. The reader takes every field and every array
once, says which size and which values it may have, and refuses the message otherwise.
"""

import json
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._json import Fields

LARGEST = 1e9
"""Largest absolute value of a number in an array, unless its reader says otherwise."""

# Largest numbers of bytes in the line, and in a message.
_LONGEST_LINE, _LONGEST = 2**20, 2**30
_MOST_ARRAYS, _ARRAY = 1024, r"[a-z_]{1,20}(\.[0-9]{1,2})?"
_TYPES = {"f8": np.dtype("<f8"), "i8": np.dtype("<i8")}


def message(fields: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """Fields and arrays as bytes, for `read_message`."""
    kinds = ["i8" if array.dtype.kind == "i" else "f8" for array in arrays.values()]
    listed = [
        [name, kind, list(array.shape)]
        for (name, array), kind in zip(arrays.items(), kinds, strict=True)
    ]
    whole = {**fields, "arrays": listed}
    line = json.dumps(whole, allow_nan=False, separators=(",", ":")).encode()
    blocks = [
        array.astype(_TYPES[kind]).tobytes()
        for array, kind in zip(arrays.values(), kinds, strict=True)
    ]
    return b"".join([line, b"\n", *blocks])


def read_message(data: bytes, what: str) -> "tuple[Fields, Arrays]":
    """Fields and arrays of a message, each to be taken once.

    Parameters
    ----------
    data : bytes
    what : str
        What the message should be, for error messages.

    Returns
    -------
    fields : Fields
    arrays : Arrays

    Raises
    ------
    ValueError
        If the message is damaged.
    TypeError
        If `data` is not bytes.
    """
    if not isinstance(data, bytes):
        raise TypeError(
            f"A request is bytes, which fit_aggregated passes to `ask`; got "
            f"{type(data).__name__}."
        )
    line, _, block = data.partition(b"\n")
    fields = Fields.of_text(line, what, _LONGEST_LINE)
    return fields, Arrays(fields, block)


class Arrays:
    """Arrays of a message, each of which is taken once and checked.

    Parameters
    ----------
    fields : Fields
        Fields of the message: name, type and shape of every array, in order.
    block : bytes
        The arrays, one after the other.
    """

    def __init__(self, fields: Fields, block: bytes) -> None:
        self._block, self.refuse = block, fields.refuse
        self._places: dict[str, tuple[str, tuple[int, ...], int]] = {}
        start = 0
        for entry in fields.list("arrays", _MOST_ARRAYS):
            if not isinstance(entry, list) or len(entry) != 3:
                self.refuse("arrays")
            name, kind, shape = entry
            is_text = isinstance(name, str) and isinstance(kind, str)
            if not is_text or not re.fullmatch(_ARRAY, name) or kind not in _TYPES:
                self.refuse("arrays")
            if name in self._places or not isinstance(shape, list) or len(shape) > 2:
                self.refuse("arrays")
            if not all(type(n) is int and 0 <= n <= _LONGEST for n in shape):
                self.refuse("arrays")
            self._places[name] = kind, tuple(shape), start
            start += 8 * math.prod(shape)
            if start > _LONGEST:
                self.refuse("its length")
        if start != len(block):
            self.refuse("its length")

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of an array, as the message lists it."""
        if name not in self._places:
            self.refuse(name)
        return self._places[name][1]

    def take(
        self,
        name: str,
        shape: tuple[int, ...],
        least: float = -LARGEST,
        most: float = LARGEST,
    ) -> NDArray[np.float64]:
        """An array of numbers from `least` to `most`."""
        found = self._taken(name, "f8", shape)
        # False for NaN.
        if not np.all((found >= least) & (found <= most)):
            self.refuse(name)
        return found

    def integers(self, name: str, size: int, most: int) -> NDArray[np.int64]:
        """Integers from 0 to `most`."""
        found = self._taken(name, "i8", (size,))
        if not np.all((found >= 0) & (found <= most)):
            self.refuse(name)
        return found

    def _taken(self, name: str, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
        if name not in self._places:
            self.refuse(name)
        found_kind, found_shape, start = self._places.pop(name)
        if (found_kind, found_shape) != (kind, shape):
            self.refuse(name)
        size = math.prod(shape)
        part = self._block[start : start + 8 * size]
        found = np.frombuffer(part, _TYPES[kind]).reshape(shape)
        return found.astype(_TYPES[kind].newbyteorder("="))

    def end(self) -> None:
        """Refuse arrays that were not taken."""
        if self._places:
            self.refuse("arrays")
