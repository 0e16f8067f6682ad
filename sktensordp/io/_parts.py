"""Objects as a list of parts, and back.

Every value that is not plain JSON becomes a part, an object of JSON with a `kind`. It
refers to earlier parts by their numbers, so that no part holds itself, nothing is
nested, and what was one object is one object again. Arrays are referred to by name.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, NoReturn
from uuid import UUID

import attrs
import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from .._extras import imported
from .._json import Fields
from ..base import StorableMixin
from ._classes import (
    DROPPED,
    FROM_ARGUMENTS,
    arguments_of,
    class_of,
    completed,
    declared,
    fits,
    key_of,
)

# Bounds on what a file may ask for. A part weighs as much as all values in it, which
# whatever walks through it meets, as a hash does; the weight of a file is their sum.
_MOST_PARTS, _DEEPEST, _HEAVIEST = 2**20, 100, 2**26
_LONGEST_PIPELINE = 1000
# From this length on, sequences of one type are arrays.
_LONG = 32
_INT64 = 2**63
# Also texts that no encoding has, such as broken names of files.
_UTF_8 = "utf-8", "surrogatepass"
# The types that stand in the text as they are.
_PLAIN = bool, int, str
_SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_MOMENT = r"[\d.+\-:T]{1,64}"
_DECIMAL = r"-?(s?NaN|Infinity|[\d.]{1,400}(E[+-]?\d{1,9})?)"
# Types of one text each: how it is written and read, and what it looks like.
_OF_TEXT: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any], str]] = {
    "number": (float, repr, float, "nan|-?inf"),
    "Fraction": (Fraction, str, Fraction, r"-?\d{1,400}(/\d{1,400})?"),
    "Decimal": (Decimal, str, Decimal, _DECIMAL),
    "UUID": (UUID, str, UUID, r"[\da-f-]{36}"),
    "date": (date, date.isoformat, date.fromisoformat, _MOMENT),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat, _MOMENT),
    "time": (time, time.isoformat, time.fromisoformat, _MOMENT),
}
# Containers of a fit, which Recommender returns; they are imported when they are used.
_FRAMES = {"pandas": "pandas", "polars": "polars"}
_TIME = r"[mM]8(\[[0-9]{0,4}[a-zA-Zμ]{1,2}\])?"
# Of texts of a fixed width, the type that stands for their letters.
_LETTERS = {"U": np.uint32, "S": np.uint8}
# Types of letters that take less than the four bytes of a letter in memory.
_SHORT = np.uint8, np.uint16
# Parameters of a pipeline that a file holds at their defaults only. With a `memory`, a
# fit would load pickles from a folder.
_PLAIN_IN_PIPELINES = "memory", "transform_input"
# Errors that parts of another shape may lead to.
_WRONG = ArithmeticError, AttributeError, LookupError, TypeError, ValueError
Node = dict[str, Any]


class Parts:
    """The parts of an object, and the arrays to which they refer.

    Parameters
    ----------
    root : object

    Attributes
    ----------
    parts : list of dict
        The last is that of `root`.
    arrays : dict of {str: ndarray}

    Raises
    ------
    TypeError
        If it holds something that a file may not hold; the message names it.
    """

    def __init__(self, root: object) -> None:
        self.parts: list[Node] = []
        self.arrays: dict[str, NDArray[Any]] = {}
        # By identity; the objects are kept, so that no identity is used again.
        self._known: dict[int, tuple[object, int | None]] = {}
        self._place = "model"
        self._put(root)

    def _value(self, value: object) -> Any:
        """A value as it stands in a part: plain, or in a list the number of a part."""
        if value is None or type(value) in _PLAIN:
            return value
        if type(value) is float and math.isfinite(value):
            return value
        return [self._put(value)]

    def _put(self, value: object) -> int:
        found = self._known.get(id(value))
        if found is not None:
            if found[1] is None:
                self._refuse(value, "holds itself")
            return found[1]
        self._known[id(value)] = value, None
        part = self._part(value)
        self.parts.append(part)
        number = len(self.parts) - 1
        self._known[id(value)] = value, number
        return number

    def _part(self, value: Any) -> Node:
        kind = type(value)
        if kind in (list, tuple):
            return {"kind": kind.__name__, **self._items(value)}
        if kind in (set, frozenset):
            return {"kind": kind.__name__, "items": [*map(self._value, value)]}
        if kind is dict:
            both = self._items([*value]), self._items([*value.values()])
            return {"kind": "dict", "keys": both[0], "values": both[1]}
        if kind is bytes:
            return {"kind": "bytes", "at": self._array(np.frombuffer(value, np.uint8))}
        if kind is range:
            ends = value.start, value.stop, value.step
            return {"kind": "range", "items": [*ends]}
        if kind is timedelta:
            units = value.days, value.seconds, value.microseconds
            return {"kind": "timedelta", "items": [*units]}
        for name, (one, written, _, pattern) in _OF_TEXT.items():
            if kind is one:
                text = written(value)
                if not re.fullmatch(pattern, text) or getattr(value, "fold", None):
                    self._refuse(value)
                return {"kind": name, "text": text}
        if kind is np.ndarray:
            return self._of_array(value)
        if isinstance(value, np.generic):
            return {"kind": "scalar", "of": self._put(np.asarray(value))}
        if kind is Pipeline:
            return self._of_pipeline(value)
        for name, module in _FRAMES.items():
            is_there = kind is type and value.__module__.partition(".")[0] == module
            if is_there and value is imported(module, module).DataFrame:
                return {"kind": "frame", "of": name}
        return self._of_object(value)

    def _items(self, values: Sequence[Any]) -> Node:
        """The items of a sequence; those of a long one of one type as an array."""
        kinds = set(map(type, values)) if len(values) >= _LONG else set()
        if kinds == {str}:
            return {"texts": self._texts([text.encode(*_UTF_8) for text in values])}
        if kinds == {bytes}:
            return {"bytes": self._texts(values)}
        if kinds == {float}:
            return {"floats": self._array(np.array(values))}
        if kinds == {int} and all(-_INT64 <= one < _INT64 for one in values):
            return {"ints": self._array(np.array(values, dtype=np.int64))}
        return {"items": [*map(self._value, values)]}

    def _texts(self, encoded: Sequence[bytes]) -> list[str]:
        """Texts as two arrays: their bytes, and where each begins."""
        ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        whole = np.frombuffer(b"".join(encoded), np.uint8)
        return [self._array(whole), self._array(ends)]

    def _array(self, array: NDArray[Any]) -> str:
        name = str(len(self.arrays))
        self.arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
        return name

    def _of_array(self, array: NDArray[Any]) -> Node:
        kind, width = array.dtype.kind, array.dtype.itemsize
        if kind == "O":
            listed = self._items(array.ravel().tolist())
            return {"kind": "objects", "shape": list(array.shape), **listed}
        if kind in "US" and width:
            native = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
            letters = native[..., np.newaxis].view(_LETTERS[kind])
            for short in _SHORT if kind == "U" else ():
                if letters.max(initial=0) <= np.iinfo(short).max:
                    at = self._array(letters.astype(short))
                    return {"kind": "short texts", "at": at}
            return {"kind": "texts", "at": self._array(letters)}
        if kind in "mM":
            integers = array.astype(array.dtype.newbyteorder("=")).view(np.int64)
            at = self._array(integers)
            return {"kind": "times", "dtype": array.dtype.str[1:], "at": at}
        if kind not in "biuf" or width > 8:
            self._refuse(array)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        # As a pickle, since sums may depend on it.
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        if by_columns:
            return {"kind": "array", "at": self._array(array.T), "order": "F"}
        return {"kind": "array", "at": self._array(array), "order": "C"}

    def _of_pipeline(self, value: Pipeline) -> Node:
        outside = self._place
        for name in _PLAIN_IN_PIPELINES:
            if getattr(value, name, None) is not None:
                self._place = f"`{name}` of Pipeline"
                self._refuse(getattr(value, name), "is not None")
        steps = []
        for name, step in value.steps:
            self._place = f"the step {name!r} of Pipeline"
            if not _is_step(step):
                self._refuse(step)
            steps.append([name, self._value(step)])
        self._place = outside
        return {"kind": "pipeline", "steps": steps, "verbose": bool(value.verbose)}

    def _of_object(self, value: Any) -> Node:
        kind: Any = type(value)
        key = key_of(kind)
        if key is None:
            self._refuse(value)
        # What a pickle of it would hold.
        _, arguments, *rest = value.__reduce_ex__(4)
        if key == "Mark":
            # A file outlives the block of a budget, and tells nobody where it is.
            path = None if value.path is None else ""
            arguments = value._replace(path=path)
        outside, self._place = self._place, f"{{}} of {key}"
        if key in FROM_ARGUMENTS:
            part: Node = {"kind": "made", "items": [*map(self._value, arguments)]}
        elif key in DROPPED:
            part = {"kind": "dropped"}
        else:
            part = {"kind": "object", "state": self._state(value, rest)}
        self._place = outside
        return {"class": key, **part}

    def _state(self, value: Any, rest: list[Any]) -> Node:
        kind: Any = type(value)
        state = dict(rest[0] or {}) if rest else {}
        if attrs.has(kind):
            names = [field.name for field in attrs.fields(kind)]
            state = {name: getattr(value, name) for name in names}
        # The file tells its version.
        state.pop("_sktensordp_version", None)
        found, place = {}, self._place
        for name, held in state.items():
            if name in declared(kind):
                self._place = place.format(f"`{name}`")
                found[name] = self._value(held)
            elif not _is_cache(kind, name):
                self._place = place.format(f"`{name}`")
                self._refuse(held, "is an attribute that the class does not declare")
        return found

    def _refuse(self, value: object, why: str = "") -> NoReturn:
        kind = type(value)
        name = getattr(value, "__name__", kind.__name__)
        if kind is np.ndarray:
            name = f"ndarray of type {value.dtype}"  # type: ignore[attr-defined]
        why = why or (
            f"is or holds {name} of the module {kind.__module__}, which a file without "
            "code cannot hold"
        )
        raise TypeError(
            f"{self._place} {why}. Store the model by pickle, or replace that part by "
            "what a file may hold: numbers, text, lists, dicts and arrays of these, "
            "and what this package defines."
        )


def _is_step(value: object) -> bool:
    """Whether a pipeline in a file may have it as a step."""
    is_ours = isinstance(value, StorableMixin) and hasattr(value, "fit")
    is_none = value is None or (isinstance(value, str) and value == "passthrough")
    return is_ours or is_none or type(value) is Pipeline


def _is_cache(kind: type, name: str) -> bool:
    """Whether an attribute is computed from others when it is first used."""
    return isinstance(inspect.getattr_static(kind, name, None), cached_property)


class Restored:
    """The object that parts describe.

    Parameters
    ----------
    parts : list
        Of an untrusted file.
    arrays : callable
        Gives the array of a name, or raises KeyError.
    version : str
        The version that wrote the file.
    what : str
        What the file should be, for messages.

    Attributes
    ----------
    root : object
    used : set of str
        Names of the arrays to which the parts refer.

    Raises
    ------
    ValueError
        If there is no such object.
    """

    def __init__(
        self,
        parts: list[Any],
        arrays: Callable[[str], NDArray[Any]],
        version: str,
        what: str,
    ) -> None:
        self.used: set[str] = set()
        self._arrays, self._version, self._what = arrays, version, what
        self._made: list[Any] = []
        # Of each part: how deep it is, and how much it holds.
        self._sizes: list[tuple[int, int]] = []
        self._weight = 0
        if not 0 < len(parts) <= _MOST_PARTS:
            Fields({}, what).refuse("the list of its parts")
        for number, part in enumerate(parts):
            is_right = False
            # Refused outside of the handler, whose error may show anything.
            with suppress(*_WRONG):
                self._add(Fields(part, what))
                is_right = True
            if not is_right:
                Fields({}, what).refuse(f"part {number}")
        self.root = self._made[-1]

    def _add(self, fields: Fields) -> None:
        self._inside = 0, 1
        made = self._make(fields)
        depth, weight = self._inside
        self._weight += weight
        if depth > _DEEPEST or self._weight > _HEAVIEST:
            fields.refuse("its size")
        self._sizes.append((depth, weight))
        self._made.append(made)

    def _make(self, fields: Fields) -> Any:
        kind = fields.take("kind")
        if not isinstance(kind, str):
            fields.refuse("kind")
        if kind in _SEQUENCES:
            made: Any = _SEQUENCES[kind](self._listed(fields))
        elif kind in _OF_TEXT:
            _, _, read, pattern = _OF_TEXT[kind]
            made = read(fields.text("text", pattern))
        elif make := _MAKERS.get(kind):
            made = make(self, fields)
        else:
            fields.refuse("kind")
        fields.end()
        return made

    def _value(self, found: object, fields: Fields) -> Any:
        """A value: plain, or in a list the number of an earlier part."""
        if found is None or type(found) in (*_PLAIN, float):
            self._inside = self._inside[0], self._inside[1] + 1
            return found
        if type(found) is not list or len(found) != 1:
            fields.refuse("a value")
        return self._part(found[0], fields)

    def _part(self, number: object, fields: Fields) -> Any:
        if type(number) is not int or not 0 <= number < len(self._made):
            fields.refuse("the number of a part")
        depth, weight = self._sizes[number]
        self._inside = max(self._inside[0], depth + 1), self._inside[1] + weight
        return self._made[number]

    def _listed(self, fields: Fields) -> list[Any]:
        """Items of a sequence."""
        rest = fields.rest()
        if len(rest) != 1:
            fields.refuse("the list of its items")
        ((how, found),) = rest.items()
        if how == "items" and isinstance(found, list):
            return [self._value(one, fields) for one in found]
        if how in ("floats", "ints"):
            array = self._array(found, fields)
            wanted = np.float64 if how == "floats" else np.int64
            if array.ndim == 1 and array.dtype == wanted:
                return array.tolist()
        if how in ("texts", "bytes") and isinstance(found, list) and len(found) == 2:
            whole, ends = (self._array(one, fields) for one in found)
            texts = self._texts(whole, ends, fields)
            return [str(t, *_UTF_8) if how == "texts" else t for t in texts]
        fields.refuse("the list of its items")

    def _texts(
        self, whole: NDArray[Any], ends: NDArray[Any], fields: Fields
    ) -> Iterator[bytes]:
        is_right = (
            (whole.ndim, whole.dtype, ends.ndim, ends.dtype)
            == (1, np.uint8, 1, np.int64)
            and len(ends)
            and (ends[0], ends[-1]) == (0, len(whole))
            and np.all(ends[1:] >= ends[:-1])
        )
        if not is_right:
            fields.refuse("the list of its texts")
        together, places = whole.tobytes(), ends.tolist()
        return (together[a:b] for a, b in pairwise(places))

    def _array(self, name: object, fields: Fields) -> NDArray[Any]:
        # Once each, so that no file asks for more than it holds.
        if not isinstance(name, str) or name in self.used:
            fields.refuse("the name of an array")
        self.used.add(name)
        return self._arrays(name)

    def _plain_array(self, fields: Fields) -> NDArray[Any]:
        array = self._array(fields.take("at"), fields)
        return array.T if fields.text("order", "[CF]") == "F" else array

    def _times(self, fields: Fields) -> NDArray[Any]:
        integers = self._array(fields.take("at"), fields)
        if integers.dtype != np.int64:
            fields.refuse("at")
        return integers.view(np.dtype(fields.text("dtype", _TIME)))

    def _fixed_texts(self, fields: Fields) -> NDArray[Any]:
        """Texts of a fixed width, which was the last axis."""
        letters = self._array(fields.take("at"), fields)
        kinds = {np.dtype(one): kind for kind, one in _LETTERS.items()}
        kind = kinds.get(letters.dtype)
        is_right = kind and letters.ndim and np.all(letters <= sys.maxunicode)
        if not is_right or not letters.shape[-1]:
            fields.refuse("at")
        return letters.view(f"{kind}{letters.shape[-1]}")[..., 0]

    def _short_texts(self, fields: Fields) -> NDArray[Any]:
        """The same of letters that are stored in fewer bytes."""
        letters = self._array(fields.take("at"), fields)
        is_right = letters.dtype in _SHORT and letters.ndim and letters.shape[-1]
        if not is_right:
            fields.refuse("at")
        # At most four times as large as in the file.
        return letters.astype(np.uint32).view(f"U{letters.shape[-1]}")[..., 0]

    def _pipeline(self, fields: Fields) -> Pipeline:
        listed, verbose = (
            fields.list("steps", _LONGEST_PIPELINE),
            fields.take("verbose"),
        )
        are_pairs = all(isinstance(one, list) and len(one) == 2 for one in listed)
        names = [one[0] for one in listed] if are_pairs else []
        is_right = (
            are_pairs
            and all(isinstance(name, str) and "__" not in name for name in names)
            and 0 < len(names) == len(set(names))
            and isinstance(verbose, bool)
        )
        if not is_right:
            fields.refuse("steps")
        steps = [(name, self._value(step, fields)) for name, step in listed]
        if not all(_is_step(step) for _, step in steps):
            fields.refuse("steps")
        return Pipeline(steps, verbose=verbose)

    def _objects(self, fields: Fields) -> NDArray[Any]:
        shape = tuple(fields.integers("shape", 0, 2**62))
        items = self._listed(fields)
        if math.prod(shape) != len(items) or len(shape) > 8:
            fields.refuse("shape")
        return np.fromiter(items, object, len(items)).reshape(shape)

    def _scalar(self, fields: Fields) -> Any:
        array = self._part(fields.take("of"), fields)
        if not isinstance(array, np.ndarray) or array.ndim:
            fields.refuse("of")
        return array[()]

    def _dict(self, fields: Fields) -> dict[Any, Any]:
        keys = self._listed(fields.object("keys"))
        values = self._listed(fields.object("values"))
        found = dict(zip(keys, values, strict=False))
        if not len(found) == len(keys) == len(values):
            fields.refuse("keys")
        return found

    def _integers(self, fields: Fields, least: int, most: int) -> list[int]:
        integers = fields.integers("items", least, most)
        if len(integers) != 3:
            fields.refuse("items")
        return integers

    def _range(self, fields: Fields) -> range:
        return range(*self._integers(fields, -_INT64, _INT64))

    def _timedelta(self, fields: Fields) -> timedelta:
        return timedelta(*self._integers(fields, -(10**9), 10**9))

    def _frame(self, fields: Fields) -> type:
        name = fields.text("of", "|".join(_FRAMES))
        found: type = imported(_FRAMES[name], name).DataFrame
        return found

    def _class(self, fields: Fields) -> tuple[str, type]:
        key = fields.take("class")
        kind = class_of(key) if isinstance(key, str) else None
        if kind is None:
            fields.refuse("class")
        return key, kind

    def _dropped(self, fields: Fields) -> Any:
        key, kind = self._class(fields)
        if key not in DROPPED:
            fields.refuse("class")
        how, arguments = kind().__reduce__()[:2]
        return how(*arguments)

    def _from_arguments(self, fields: Fields) -> Any:
        key, kind = self._class(fields)
        if key not in FROM_ARGUMENTS:
            fields.refuse("class")
        arguments = self._listed(fields)
        hints = arguments_of(kind)
        if len(arguments) != len(hints) or not all(map(fits, arguments, hints)):
            fields.refuse("items")
        made = kind(*arguments)
        if key == "Mark" and made.path:
            fields.refuse("items")
        return made

    def _object(self, fields: Fields) -> Any:
        key, kind = self._class(fields)
        if key in FROM_ARGUMENTS | DROPPED:
            fields.refuse("class")
        state = fields.object("state").rest()
        state = {name: self._value(one, fields) for name, one in state.items()}
        names = declared(kind)
        for name, value in state.items():
            if name not in names or not fits(value, names[name]):
                fields.refuse(f"state: {name!r:.40}")
        if attrs.has(kind):
            return kind(**state)
        made: Any = object.__new__(kind)
        if issubclass(kind, StorableMixin):
            made.__setstate__({**state, "_sktensordp_version": self._version})
            return made
        whole = completed(kind, state)
        if whole is None:
            fields.refuse("state")
        if hasattr(kind, "__setstate__"):
            made.__setstate__(whole)
        else:
            vars(made).update(whole)
        # Compiled loops read past the end of an array that is too short.
        if not getattr(made, "shapes_agree", True):
            fields.refuse("the shape of its arrays")
        return made


_MAKERS: dict[str, Callable[[Restored, Fields], Any]] = {
    "array": Restored._plain_array,
    "bytes": lambda self, fields: self._array(fields.take("at"), fields).tobytes(),
    "dict": Restored._dict,
    "dropped": Restored._dropped,
    "frame": Restored._frame,
    "made": Restored._from_arguments,
    "object": Restored._object,
    "objects": Restored._objects,
    "pipeline": Restored._pipeline,
    "range": Restored._range,
    "scalar": Restored._scalar,
    "short texts": Restored._short_texts,
    "texts": Restored._fixed_texts,
    "timedelta": Restored._timedelta,
    "times": Restored._times,
}
