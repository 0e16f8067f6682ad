"""Guarantees as JSON, in the file of a budget: known types only, and no free text."""

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import attrs
from dp_accounting import DpEvent, dp_event

from .._guarantee import PrivacyGuarantee
from ..accounting import _events
from ..accounting._randomized_response import LevelDistribution
from ..accounting._repetitions import RepetitionDistribution

_FIELDS = ("epsilon", "delta", "unit", "relation", "source", "conditions", "local")


@cache
def _types() -> dict[str, type]:
    """Every type that may occur in an event, by its name in JSON."""
    ours = {name: getattr(_events, name) for name in _events.__all__}
    theirs = {f"dp_accounting.{name}": one for name, one in vars(dp_event).items()}
    known = {
        name: one
        for name, one in (ours | theirs).items()
        if isinstance(one, type) and issubclass(one, DpEvent) and one is not DpEvent
    }
    parts = (LevelDistribution, RepetitionDistribution)
    return known | {one.__name__: one for one in parts}


def _names_of_fields(kind: type) -> list[str]:
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]
    return [attribute.name for attribute in attrs.fields(kind)]


def _encoded(value: object) -> Any:
    if isinstance(value, list | tuple):
        return [_encoded(one) for one in value]
    if isinstance(value, Fraction):
        return {"type": "Fraction", "of": [value.numerator, value.denominator]}
    for name, kind in _types().items():
        if type(value) is kind:
            names = _names_of_fields(kind)
            return {"type": name, **{n: _encoded(getattr(value, n)) for n in names}}
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(
        f"A budget with a path records known events only, and not "
        f"{type(value).__name__}. Give the guarantee an event of dp-accounting."
    )


def _decoded(value: object) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(one) for one in value)
    if not isinstance(value, dict):
        return value
    fields = {name: _decoded(one) for name, one in value.items()}
    name = fields.pop("type")
    make: Callable[..., Any] = Fraction if name == "Fraction" else _types()[name]
    return make(*fields["of"]) if name == "Fraction" else make(**fields)


def guarantee_to_json(guarantee: PrivacyGuarantee) -> str:
    """What a budget needs of a guarantee: event, unit, theorem and conditions.

    The statement is left out, since it may be any text. The words of the unit hold at
    most the name of a column, and are there if the unit has any.

    Raises
    ------
    TypeError
        If the event is of an unknown type.
    """
    stated = {name: getattr(guarantee, name) for name in _FIELDS}
    if guarantee.protected:
        stated["protected"] = guarantee.protected
    return json.dumps({**stated, "event": _encoded(guarantee.event)})


@lru_cache(maxsize=256)
def guarantee_from_json(text: str) -> PrivacyGuarantee:
    """The guarantee that `guarantee_to_json` wrote, without its statement.

    Raises
    ------
    ValueError, TypeError, KeyError
        If the text is not such a guarantee.
    """
    stated = json.loads(text)
    event = _decoded(stated.pop("event"))
    return PrivacyGuarantee(event=event, statement="", **stated)
