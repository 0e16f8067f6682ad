"""Untrusted JSON: every value is taken once, and checked when it is taken."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn


class Fields:
    """Fields of an object of JSON.

    Parameters
    ----------
    found : object
        What was found where the object should be.
    what : str
        What the whole text should be, for messages.
    place : str, default=""
        Where in that text the object is.
    """

    def __init__(self, found: object, what: str, place: str = "") -> None:
        self._what, self._place, self._left = what, place, {}
        if not isinstance(found, dict):
            self.refuse("object")
        self._left = dict(found)

    @classmethod
    def of_text(cls, text: str | bytes, what: str, longest: int) -> Fields:
        """Read a text, which must be an object with distinct names and finite numbers.

        Parameters
        ----------
        text : str or bytes
        what : str
        longest : int
            Largest length of the text.

        Raises
        ------
        ValueError
            If the text is not such an object, or is too long.
        """
        found = None
        if len(text) <= longest:
            try:
                found = json.loads(
                    text, parse_constant=_no_constant, object_pairs_hook=_distinct
                )
            except (ValueError, RecursionError):
                # Refused outside of the handler, whose error may be long.
                found = None
        return cls(found, what)

    def refuse(self, name: str) -> NoReturn:
        """Say that a field is missing or wrong."""
        raise ValueError(
            f"This is not {self._what}: {self._place}{name} is missing or not as it "
            "must be."
        )

    def take(self, name: str) -> Any:
        """The value of a field, whatever it is."""
        if name not in self._left:
            self.refuse(name)
        return self._left.pop(name)

    def constant(self, name: str, value: object) -> None:
        """Refuse the field unless it has this value."""
        found = self.take(name)
        if type(found) is not type(value) or found != value:
            self.refuse(name)

    def integer(self, name: str, least: int, most: int) -> int:
        """An integer from `least` to `most`."""
        found = self.take(name)
        if type(found) is not int or not least <= found <= most:
            self.refuse(name)
        return found

    def integers(self, name: str, least: int, most: int) -> list[int]:
        """A list of integers from `least` to `most`."""
        found = self.take(name)
        if not isinstance(found, list):
            self.refuse(name)
        if not all(type(each) is int and least <= each <= most for each in found):
            self.refuse(name)
        return found

    def number(self, name: str, least: float, most: float) -> float:
        """A number from `least` to `most`."""
        return self.as_number(self.take(name), name, least, most)

    def as_number(self, found: Any, name: str, least: float, most: float) -> float:
        """A part of a field as a number from `least` to `most`."""
        is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
        if not is_number or not least <= found <= most:
            self.refuse(name)
        return float(found)

    def number_or_none(self, name: str, least: float, most: float) -> float | None:
        """A number, or None for null."""
        found = self.take(name)
        return None if found is None else self.as_number(found, name, least, most)

    def numbers_or_none(
        self, name: str, least: float, most: float
    ) -> list[float] | None:
        """A list of numbers, or None for null."""
        found = self.take(name)
        return None if found is None else self._numbers(found, name, least, most)

    def numbers(self, name: str, least: float, most: float) -> list[float]:
        """A list of numbers."""
        return self._numbers(self.take(name), name, least, most)

    def _numbers(
        self, found: object, name: str, least: float, most: float
    ) -> list[float]:
        if not isinstance(found, list):
            self.refuse(name)
        return [self.as_number(each, name, least, most) for each in found]

    def flag(self, name: str) -> bool:
        """True or false."""
        found = self.take(name)
        if type(found) is not bool:
            self.refuse(name)
        return found

    def text(self, name: str, pattern: str) -> str:
        """A text that matches a regular expression as a whole."""
        found = self.take(name)
        if not isinstance(found, str) or not re.fullmatch(pattern, found):
            self.refuse(name)
        return found

    def list(self, name: str, most: int) -> list[Any]:
        """A list of at most `most` values."""
        found = self.take(name)
        if not isinstance(found, list) or len(found) > most:
            self.refuse(name)
        return found

    def object(self, name: str) -> Fields:
        """An object inside of this one."""
        return Fields(self.take(name), self._what, f"{self._place}{name}: ")

    def rest(self) -> dict[str, Any]:
        """Take and return all fields that are left."""
        rest, self._left = self._left, {}
        return rest

    def end(self) -> None:
        """Refuse fields that were not taken."""
        if self._left:
            self.refuse("the list of its fields")


def _no_constant(_: str) -> NoReturn:
    raise ValueError


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found
