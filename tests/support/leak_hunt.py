"""Search objects, bytes and texts for numbers and keys that must not be there."""

import array
import contextlib
import contextvars
import copy
import gc
import io
import math
import pickle
import pickletools
import re
import sys
import traceback
import types
import weakref
import zlib
from decimal import Decimal
from numbers import Integral, Real

import joblib
import numpy as np
from randomgen import AESCounter
from sklearn.base import clone
from sklearn.utils import estimator_html_repr

from sktensordp.privacy import privacy_of
from tests.support.noise import NoiseStreams

# Double precision keeps more digits; of some 1e4 random numbers and 500 secrets that a
# run of all cases compares, one agrees by chance with a probability below 1e-4.
TOLERANCE = 1e-11
_DIGITS = 8  # significant ones, of numbers in texts
_NUMBER = re.compile(r"\d+(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?", re.I)
_ATOMS = (type(None), bool, type(...), type(NotImplemented), re.Pattern, range)
_CODE = (type, types.ModuleType, types.CodeType)
_RUNNING = (
    types.FrameType, types.TracebackType, types.GeneratorType, types.CoroutineType,
)  # fmt: skip
_GENERATORS = (
    NoiseStreams, AESCounter, np.random.Generator, np.random.BitGenerator,
    np.random.RandomState,
)  # fmt: skip
_NOT_ENTERED = ("numba", "llvmlite", "ctypes", "_thread", "threading", "logging")


def children(thing):
    """What an object holds, by how it is reached; no globals of modules, no types."""
    if isinstance(thing, np.ndarray):
        yield ".base", thing.base
        if thing.dtype.hasobject:
            yield from ((f"[{k}]", one) for k, one in enumerate(thing.ravel().tolist()))
    elif isinstance(thing, types.FunctionType):
        yield ".__defaults__", thing.__defaults__
        yield ".__kwdefaults__", thing.__kwdefaults__
        yield ".__dict__", vars(thing)
        for name, cell in zip(
            thing.__code__.co_freevars, thing.__closure__ or (), strict=True
        ):
            with contextlib.suppress(ValueError):  # an empty cell
                yield f".<closure {name}>", cell.cell_contents
    elif isinstance(thing, weakref.ref):
        yield "()", thing()
    elif isinstance(thing, memoryview):
        yield ".obj", thing.obj
    elif isinstance(thing, dict):
        for key, value in list(thing.items()):
            yield "<key>", key
            yield f"[{key!r:.40}]", value
    elif isinstance(thing, (list, tuple)):
        yield from ((f"[{k}]", one) for k, one in enumerate(thing))
    elif not isinstance(thing, (*_ATOMS, Real, str, bytes, bytearray)):
        if hasattr(thing, "__dict__"):
            for name, value in list(vars(thing).items()):
                yield f".{name}", value
        for value in gc.get_referents(thing):
            if value is not getattr(thing, "__dict__", None):
                yield f"<{type(value).__name__}>", value


def walk(root, *, skip=(), name=""):
    """Yield every object that can be reached from one, with the way to it.

    Parameters
    ----------
    root : object
    skip : iterable of object
        Not entered.
    name : str
        Of the root.
    """
    seen = {id(one): one for one in skip}
    open_ = [(name, root)]
    while open_:
        path, thing = open_.pop()
        if id(thing) in seen or isinstance(thing, _ATOMS):
            continue
        seen[id(thing)] = thing
        module = _module(type(thing))
        if isinstance(thing, _CODE) or module.split(".")[0] in _NOT_ENTERED:
            continue
        yield path, thing
        if not isinstance(thing, (*_RUNNING, *_GENERATORS)):
            open_ += [(path + way, one) for way, one in children(thing)]


class Secrets:
    """What must not be found; `hunt`, `in_bytes` and `in_text` look for it.

    Numbers are found as floats of any kind up to rounding and a sign,
    as bytes at any offset and in both byte orders, and in texts that show eight digits
    or more. Planted values are found in texts that show five, and as single precision.
    """

    def __init__(self):
        self._numbers, self._wholes, self._texts, self._bytes = {}, {}, {}, {}
        self._single = {}
        self._sorted = None

    def add(self, name, numbers):
        """Numbers that are no whole ones and occur nowhere else."""
        found = np.abs(np.asarray(numbers, dtype=float).ravel())
        found = found[np.isfinite(found) & (found > 1e-12)]
        for one in found[np.abs(found - np.round(found)) > 1e-6].tolist():
            self._numbers.setdefault(one, name)
        self._sorted = None
        return self

    def plant(self, name, *values):
        """Values of the data, which no text may show either."""
        self.add(name, values)
        for value in values:
            for digits in range(5, 18):
                self._texts[f"{value:.{digits}g}"] = name
            self._texts[value.hex()] = name
            self._single[np.float32(abs(value)).item()] = name
            for kind in ("<f4", ">f4", "<f8", ">f8", np.longdouble):
                raw = np.asarray([value], dtype=kind).tobytes()
                self._bytes[raw[:10]] = f"{name} as {np.dtype(kind)}"
        return self

    def add_whole(self, name, *wholes):
        """Rare whole numbers: an index, a number of entries."""
        self._wholes.update((int(one), name) for one in wholes)
        return self

    def add_key(self, name, key):
        """Bytes, in any order and in any way to write them."""
        words = [key[k : k + 8] for k in range(0, len(key), 8)]
        swapped = b"".join(word[::-1] for word in words)
        for raw in (key, key[::-1], swapped, swapped[::-1], *words):
            self._bytes[raw] = name
            self._texts[raw.hex()] = self._texts[repr(raw)[2:-1]] = name
            for order in ("little", "big"):
                number = int.from_bytes(raw, order)
                self._wholes[number] = self._texts[str(number)] = name
                self._texts[f"{number:x}"] = name
        return self

    def add_bytes(self, name, raw):
        """Bytes as they are."""
        self._bytes[raw] = name
        return self

    def without(self, name):
        """All but the whole numbers and the bytes of a name."""
        for kind in ("_wholes", "_bytes"):
            kept = {x: n for x, n in vars(self)[kind].items() if n != name}
            setattr(self, kind, kept)
        return self

    def __contains__(self, name):
        return name in self._numbers.values()

    def update(self, other):
        """What another one looks for, too."""
        for name in ("_numbers", "_wholes", "_texts", "_bytes", "_single"):
            vars(self)[name] |= vars(other)[name]
        self._sorted = None
        return self

    def in_numbers(self, numbers, tolerance=TOLERANCE):
        """Names of what is among some floats."""
        if self._sorted is None:
            self._sorted = np.array([*sorted(self._numbers), np.inf])
        numbers = np.abs(numbers[np.isfinite(numbers)])
        at = np.searchsorted(self._sorted[:-1], numbers * (1 - tolerance))
        nearest = self._sorted[at]
        with np.errstate(over="ignore"):
            known = np.isfinite(nearest) & (nearest <= numbers * (1 + tolerance))
        return {self._numbers[x] for x in nearest[known]}

    def in_wholes(self, wholes):
        return {self._wholes[x] for x in self._wholes.keys() & set(wholes)}

    def in_array(self, values):
        """Names of what is in an array of numbers, or told by its shape."""
        found = self.in_wholes(values.shape)
        kind = values.dtype.kind
        if kind in "fciu" and values.size:
            parts = np.stack([values.real, values.imag]) if kind == "c" else values
            if values.dtype == np.float32:
                known = self._single.keys() & set(np.abs(values).ravel().tolist())
                found |= {self._single[x] for x in known}
            elif kind in "fc":
                found |= self.in_numbers(parts.astype(float).ravel())
            if kind in "fiu":
                whole = parts[np.isfinite(parts)] if kind == "f" else parts
                whole = whole[whole == np.trunc(whole)]
                found |= self.in_wholes(int(x) for x in whole.tolist())
        if kind not in "fcO":
            found |= self.in_bytes(values.tobytes())
        return found

    def in_bytes(self, data, *, floats=True):
        """Names of what is in bytes at any offset."""
        data = bytes(data)
        found = {name for raw, name in self._bytes.items() if raw in data}
        text = data.decode("latin1")
        found |= {name for one, name in self._texts.items() if one in text}
        if floats and len(data) >= 8:
            every = np.lib.stride_tricks.sliding_window_view(
                np.frombuffer(data, np.uint8), 8
            )
            for way in (every, every[:, ::-1]):
                numbers = np.ascontiguousarray(way).view("<f8").ravel()
                with np.errstate(all="ignore"):
                    found |= self.in_numbers(numbers.astype(float))
        return found

    def in_text(self, text):
        """Names of what a text says."""
        found = {name for one, name in self._texts.items() if one in text}
        for shown in _NUMBER.findall(text):
            if shown.isdigit():
                found |= self.in_wholes([int(shown)])
            digits = len(re.sub(r"[eE].*|\D", "", shown).lstrip("0"))
            if digits >= _DIGITS:
                number = np.array([float(shown)])
                found |= self.in_numbers(number, max(TOLERANCE, 10.0 ** (1 - digits)))
        return found

    def in_object(self, thing):
        """Names of what an object is, without what it holds."""
        if isinstance(thing, np.ndarray):
            return self.in_array(thing)
        if isinstance(thing, Integral):
            return self.in_wholes([int(thing)])
        if isinstance(thing, (np.generic, complex)) and not isinstance(thing, float):
            return self.in_array(np.asarray([thing]))
        if isinstance(thing, (Real, Decimal)):
            number = float(thing)
            found = self.in_numbers(np.array([number]))
            whole = math.isfinite(number) and number == math.trunc(number)
            return found | (self.in_wholes([int(number)]) if whole else set())
        if isinstance(thing, str):
            return self.in_text(thing)
        if isinstance(thing, (bytes, bytearray, memoryview, array.array)):
            return self.in_bytes(thing)
        if isinstance(thing, _GENERATORS):
            return {"a generator"}
        return {"a frame"} if isinstance(thing, _RUNNING) else set()

    def hunt(self, root, *, skip=(), name=""):
        """A list of "way: what" of all that can be reached from an object."""
        return [
            f"{path}: {what}"
            for path, thing in walk(root, skip=skip, name=name)
            for what in sorted(self.in_object(thing))
        ]

    def in_pickle(self, data, name="pickle"):
        """As `hunt`, of what is written in a pickle."""
        found = []
        for code, value, _ in pickletools.genops(data):
            if value is None or code.name.endswith(("PUT", "GET", "FRAME")):
                continue
            said = self.in_object(value)
            if isinstance(value, str) and len(value) >= 8:  # arrays, up to protocol 2
                with contextlib.suppress(UnicodeEncodeError):
                    said |= self.in_bytes(value.encode("latin1"))
            found += [f"{name}, {code.name}: {what}" for what in sorted(said)]
        return found + [f"{name}: {what}" for what in sorted(self.in_bytes(data))]


def numbers_in(root, **options):
    """All floats that can be reached from an object."""
    found = [np.empty(0)]
    for _, thing in walk(root, **options):
        if isinstance(thing, np.ndarray) and thing.dtype.kind == "f":
            found.append(thing.astype(float).ravel())
        elif isinstance(thing, Real) and not isinstance(thing, Integral):
            found.append(np.array([float(thing)]))
    found = np.concatenate(found)
    return found[np.isfinite(found)]


def texts_of(estimator):
    """Yield all texts that show an estimator, by name."""
    yield "repr", repr(estimator)
    yield "str", str(estimator)
    yield "parameters", repr(estimator.get_params(deep=True))
    # The numbers that they have on a page count calls, and are as good as any.
    yield "HTML", _unnumbered(estimator_html_repr(estimator))
    yield "cell", _unnumbered(estimator._repr_html_())
    yield "bundle", _unnumbered(repr(estimator._repr_mimebundle_()))
    if hasattr(estimator, "privacy_guarantee_"):
        for shown in estimator.privacy_guarantee_, privacy_of(estimator):
            name = type(shown).__name__
            yield name, f"{shown!s}\n{shown!r}\n{shown._repr_html_()}"


def _unnumbered(html):
    return re.sub(r"-id-[0-9]+", "-id", html)


def pickles_of(thing):
    """Yield all pickles of an object, by name."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield f"pickle {protocol}", pickle.dumps(thing, protocol)
    bands = []
    yield "in band", pickle.dumps(thing, 5, buffer_callback=bands.append)
    yield from (("out of band", pickle.dumps(bytes(band.raw()))) for band in bands)


def files_of(thing):
    """Yield what joblib writes, decompressed, by name."""
    for name, compress, opened in (
        ("joblib", 0, bytes), ("compressed", ("zlib", 3), zlib.decompress),
    ):  # fmt: skip
        joblib.dump(thing, file := io.BytesIO(), compress=compress)
        yield name, opened(file.getvalue())


def released(secrets, estimator):
    """Findings in all that leaves the process with an estimator."""
    found = []
    if hasattr(estimator, "get_params"):
        for name, text in texts_of(estimator):
            found += [f"{name}: {what}" for what in sorted(secrets.in_text(text))]
        found += secrets.hunt(clone(estimator), name="clone")
    for name, data in pickles_of(estimator):
        found += secrets.in_pickle(data, name)
    for name, data in files_of(estimator):
        found += [f"{name}: {what}" for what in sorted(secrets.in_bytes(data))]
    for name, other in (
        ("deep copy", copy.deepcopy(estimator)),
        ("unpickled", pickle.loads(pickle.dumps(estimator))),
    ):
        found += secrets.hunt(other, name=name)
    return found


def state_of_modules(package="sktensordp"):
    """What a package and the warnings keep for as long as the process lives."""
    state = {"context": dict(contextvars.copy_context())}
    for name, module in list(sys.modules.items()):
        kept = {}
        if name.split(".")[0] == package:
            kept = {
                key: _attributes(value) if isinstance(value, type) else value
                for key, value in vars(module).items()
                if not key.startswith("__") and not _is_from_elsewhere(value, package)
            }
        kept["warnings"] = vars(module).get("__warningregistry__")
        state[name] = kept
    return state


def _module(of):
    """Module of a class or function; "" if it has none, or has a slot for it."""
    return name if isinstance(name := of.__module__, str) else ""


def _attributes(kind):
    return {name: value for name, value in vars(kind).items() if name != "__doc__"}


def _is_from_elsewhere(value, package):
    is_code = isinstance(value, (type, types.FunctionType))
    # A distribution of SciPy's has NumPy's generator, which is not used.
    where = value if is_code else type(value)
    name = _module(where)
    return name.startswith("scipy.") or (is_code and not name.startswith(package))


def in_exception(secrets, error):
    """Findings in an exception, those that it came from, and what is printed."""
    found, open_, seen = [], [error], set()
    while open_:
        one = open_.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        open_ += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
        parts = one.args, vars(one), str(one), repr(one)
        found += secrets.hunt(parts, name=type(one).__name__)
    # The lines of the source are those of the test, too.
    printed = "".join(traceback.format_exception_only(error))
    return found + [f"printed: {what}" for what in sorted(secrets.in_text(printed))]


def generators_alive():
    """Sources of noise and their streams that anything still refers to."""
    return [
        one for one in gc.get_objects() if isinstance(one, (NoiseStreams, AESCounter))
    ]
