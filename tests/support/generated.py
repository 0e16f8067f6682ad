"""Inputs that a careless or hostile caller may pass, and what is right for each."""

import math
import re
import warnings
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

# A value of the data that no message may show. It looks like an index that is planted,
# too, and like the size that follows from that index, rounded or not.
PLANTED = 0.73105857
SHOWN = re.compile(r"7\.?310[56]")

_NAN, _INF = math.nan, math.inf
POOLS = {
    "ordinary": [0.5, 0.0, 1.0, 0.25, PLANTED, -0.0],
    "beyond": [0.5, -1.0, 2.0, 1e3, PLANTED],
    "tiny": [0.0, 5e-324, -5e-324, 1e-310, 1e-300, 3e-300, -1e-300],
    "small": [1e-150, -1e-150, 2e-160, 0.0],
    "huge": [1e300, -1e300, 3e299, 0.0],
    "largest": [1.7e308, -1.7e308, 1e308],
    "mixed": [0.0, 1e-300, 1.0, 1e300, -1e300, PLANTED],
    "not finite": [0.5, _NAN, _INF, -_INF, PLANTED],
}
INDICES = [0, 1, 2, 0, 1, 2, 0, 1, 2, 3]
ODD_INDICES = [
    -1, -2, 3, 4, 99, 0.5, 1 + 2**-50, 1e-300, -1e-300, -0.0, 2.0**31 - 1, 2.0**31,
    2.0**32, 2.0**53, 2.0**63, 2.0**64, 1e300, -1e300, _NAN, _INF, -_INF, -7310585.0,
    7310585.5,
]  # fmt: skip
IDS = [
    "ann", "bob", "", "é", "id7310585", "1", "1.0", " ann", "ann\0", "nan", 0, 1, 2,
    2**53, 2**53 + 1, 2**64, -1, 0.5, 1e17, 1e300, math.nan, math.inf, None, True,
    b"ann",
]  # fmt: skip


class Wrapped:
    """An array behind a protocol."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return np.array(self._array, dtype=dtype)


class Subclass(np.ndarray):
    pass


def _strided(a):
    wide = np.full(tuple(2 * n for n in a.shape), PLANTED, a.dtype)
    wide[tuple(slice(None, None, 2) for _ in a.shape)] = a
    return wide[tuple(slice(None, None, 2) for _ in a.shape)]


def _backward(a):
    flip = tuple(slice(None, None, -1) for _ in a.shape)
    return np.ascontiguousarray(a[flip]).reshape(a.shape)[flip]


def _unaligned(a):
    memory = np.zeros(a.nbytes + 1, np.uint8)
    view = memory[1:].view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


def _read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def _objects(kind):
    def make(a):
        found = np.empty(a.shape, dtype=object)
        found.ravel()[:] = [kind(v) for v in a.ravel().tolist()]
        return found

    return make


def _tuples(a):
    return tuple(map(_tuples, a)) if a.ndim else a.item()


def _frame(dtype=None, names=None, index=None):
    def make(a):
        columns = None if names is None else names[: a.shape[1]]
        frame = pd.DataFrame(a, columns=columns)
        frame = frame if dtype is None else frame.astype(dtype)
        return frame if index is None else frame.set_axis(index(len(a)))

    return make


def _series(dtype):
    return lambda a: pd.Series(a).astype(dtype)


# Forms of the same numbers, by the orders that they are there for.
SAME = {
    "Fortran": np.asfortranarray,
    "backward": _backward,
    "strided": _strided,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "unaligned": _unaligned,
    "swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "read-only": _read_only,
    "subclass": lambda a: a.view(Subclass),
    "wrapped": Wrapped,
    "nothing masked": lambda a: np.ma.array(a, mask=np.zeros(a.shape, bool)),
    "memoryview": lambda a: memoryview(np.ascontiguousarray(a)),
    "list": lambda a: a.tolist(),
    "list of arrays": list,
    "tuples": _tuples,
    "longdouble": lambda a: a.astype(np.longdouble),
    "objects": _objects(float),
    "Decimals": _objects(Decimal),
    "fractions": _objects(Fraction),
    "NumPy objects": _objects(np.float64),
    "strings": lambda a: _objects(repr)(a).astype(str),
    "bytes": lambda a: _objects(repr)(a).astype("S"),
}
SAME_1D = {
    "Series": pd.Series,
    "Float64": _series("Float64"),
    "Arrow": _series("float64[pyarrow]"),
    "category": _series("category"),
    "sparse dtype": _series(pd.SparseDtype(float, 0.5)),
    "polars Series": pl.Series,
    "Arrow array": pa.array,
}
SAME_2D = {
    "matrix": np.matrix,
    "frame": _frame(),
    "named frame": _frame(names=list("abcdefgh")),
    "Float64 frame": _frame("Float64", names=list("abcdefgh")),
    "Arrow frame": _frame("float64[pyarrow]", names=list("abcdefgh")),
    "category frame": _frame("category", names=list("abcdefgh")),
    "sparse frame": _frame(pd.SparseDtype(float, 0.5), names=list("abcdefgh")),
    "one name": _frame(names=["a"] * 8),
    "rows of an index": _frame(names=list("abcdefgh"), index=lambda n: range(n, 0, -1)),
    "rows of two indices": _frame(
        index=lambda n: pd.MultiIndex.from_arrays([range(n), range(n)])
    ),
    "polars": lambda a: pl.DataFrame(a, [f"c{k}" for k in range(a.shape[1])]),
    "Arrow table": lambda a: pa.table({f"c{k}": c for k, c in enumerate(a.T)}),
}
# Types that hold other numbers, at times; those that they hold are meant.
CAST = [
    "f2", ">f2", "f4", ">f4", "?", "i1", "i2", ">i4", "i8", ">i8", "u1", "u2", "u4",
    "u8", ">u8",
]  # fmt: skip
CAST_FRAMES = ["Int64", "int64[pyarrow]", "Int8", "UInt64", "boolean", "int32"]


def _masked(a):
    mask = np.zeros(a.shape, bool)
    mask.flat[-1] = True
    return np.ma.array(a, mask=mask)


def _with(last):
    def make(a):
        found = a.astype(object)
        found.flat[-1] = last
        return found

    return make


def _ragged(a):
    rows = a.tolist()
    return [*rows[:-1], [[rows[-1]], rows[-1]]]


def _one_longer(a):
    found = a.astype(np.longdouble)
    found.flat[-1] = np.longdouble("1e4000")
    return found


def _null_frame(a):
    return _frame("Float64")(a).mask(np.arange(a.size).reshape(a.shape) == a.size - 1)


# What is no array of real numbers; it has to be refused. All have an entry.
SPOILT = {
    "masked": _masked,
    "masked integers": lambda a: _masked(np.nan_to_num(a).astype(bool).astype(int)),
    "list of masked": lambda a: [_masked(row) for row in a],
    "complex": lambda a: a.astype(complex),
    "complex objects": _with(1j),
    "NumPy complex": _with(np.complex128(1j)),
    "dates": lambda a: np.zeros(a.shape, "M8[s]"),
    "no date": lambda a: np.full(a.shape, "NaT", "M8[ns]"),
    "times": lambda a: np.zeros(a.shape, "m8[s]"),
    "date object": _with(np.datetime64("2020-01-01")),
    "time object": _with(np.timedelta64(1, "s")),
    "structured": lambda a: np.zeros(a.shape, [("a", "f8"), ("b", "f8")]),
    "one field": lambda a: np.zeros(a.shape, [("a", "f8")]),
    "text": lambda a: np.full(a.shape, "x7310585"),
    "bytes": lambda a: np.full(a.shape, b"x7310585"),
    "word": _with("x7310585"),
    "None": _with(None),
    "NA": _with(pd.NA),
    "dict": _with({"a": 7310585}),
    "list inside": _with([7310585]),
    "long integer": _with(10**400),
    "long double": _one_longer,
    "huge Decimal": _with(Decimal("1e400")),
    "huge Fraction": _with(Fraction(10**400)),
    "signalling": _with(Decimal("sNaN")),
    "ragged": _ragged,
    "generator": lambda a: (row for row in a),
    "iterator": lambda a: iter(a.tolist()),
    "set": lambda a: {7310585.5},
    "mapping": lambda a: {"a": a},
    "object": lambda a: object(),
    "nothing": lambda a: None,
    "class": lambda a: float,
    "ellipsis": lambda a: ...,
    "string": lambda a: "x7310585",
}
SPOILT_2D = {
    "sparse": sp.csr_array,
    "sparse matrix": sp.coo_matrix,
    "null frame": _null_frame,
    "text frame": lambda a: pd.DataFrame(a.astype(str)).replace("0.5", "x7310585")
    .assign(z="x7310585"),
    "date frame": lambda a: pd.DataFrame(np.zeros(a.shape, "M8[s]")),
    "category": lambda a: pd.DataFrame(np.full(a.shape, "x7310585")).astype("category"),
    "polars text": lambda a: pl.DataFrame(np.full(a.shape, "x7310585")),
    "polars category": lambda a: pl.DataFrame(
        np.full(a.shape, "x7310585")
    ).cast(pl.Categorical),
}  # fmt: skip
SPOILT_1D = {
    "nulls": lambda a: pd.Series(a).astype("Float64").mask(np.arange(len(a)) == 0),
    "Arrow nulls": lambda a: pa.array([None, *a[1:]]),
    "polars nulls": lambda a: pl.Series([None, *a.tolist()[1:]], dtype=pl.Float64),
    "polars dates": lambda a: pl.Series([0] * len(a)).cast(pl.Datetime),
    "text series": lambda a: pd.Series(["x7310585"] * len(a)),
    "date series": lambda a: pd.Series(pd.to_datetime(["2020-01-01"] * len(a))),
}


@dataclass(frozen=True)
class Argument:
    """What is passed, and what it stands for.

    Attributes
    ----------
    given : object
    plain : ndarray or None
        The same numbers in C order; None if there are none, so that it is refused.
    form : str
    """

    given: object
    plain: np.ndarray | None
    form: str


@st.composite
def forms(draw, plain, *, spoil=True):
    """An array in one of its forms, or spoilt."""
    kinds = ["plain", "same", "same", "same", "same", "cast", "cast", "spoilt"]
    kind = draw(st.sampled_from(kinds if spoil else kinds[:-1]))
    if kind == "spoilt" and plain.size and plain.ndim:
        choice = SPOILT | {1: SPOILT_1D, 2: SPOILT_2D}.get(plain.ndim, {})
        name = draw(st.sampled_from(sorted(choice)))
        return Argument(choice[name](plain), None, name)
    if kind == "cast":
        frames = CAST_FRAMES if plain.ndim in (1, 2) else []
        name = draw(st.sampled_from([*CAST, *frames]))
        try:
            return _cast(plain, name)
        except (ValueError, TypeError, pa.ArrowInvalid):
            kind = "plain"
    if kind == "same":
        choice = SAME | {1: SAME_1D, 2: SAME_2D}.get(plain.ndim, {})
        name = draw(st.sampled_from(sorted(choice)))
        try:
            with warnings.catch_warnings(action="ignore"):
                return Argument(choice[name](plain), plain, name)
        except (ValueError, TypeError, OverflowError, IndexError):
            # No form for these numbers, or for this order.
            pass
    return Argument(plain, plain, "plain")


def _cast(plain, name):
    """The numbers that a type makes of some, in this type."""
    if name not in CAST:
        finite = np.nan_to_num(plain, nan=0.0, posinf=9.0, neginf=-9.0)
        low, high = {"Int8": (-128, 127), "UInt64": (0, 2**60), "boolean": (0, 1)}.get(
            name, (-(2**31), 2**31 - 1)
        )
        whole = np.trunc(np.clip(finite, low, high)) + 0.0
        given = pd.Series(whole) if plain.ndim == 1 else pd.DataFrame(whole)
        return Argument(given.astype(name), whole, name)
    dtype = np.dtype(name)
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            ends = np.iinfo(dtype)
            finite = np.nan_to_num(plain, nan=0.0)
            given = np.empty(plain.shape, dtype)
            whole = [
                min(max(int(v), ends.min), ends.max)
                for v in np.ravel(np.clip(finite, -1e30, 1e30))
            ]
            given.ravel()[:] = np.array(whole, dtype=dtype)
        else:
            given = plain.astype(dtype)
    # Floats of the machine's own order keep their type.
    return Argument(given, given.astype("f4" if name == "f4" else "f8"), name)


@st.composite
def numbers(draw, shape, pools=tuple(POOLS)):
    """An array of numbers of one scale, or of several."""
    pool = POOLS[draw(st.sampled_from(pools))]
    size = math.prod(shape)
    if size == 0:
        return np.empty(shape)
    if draw(st.booleans()):
        # Few numbers and many entries: one draw of a pattern.
        first = draw(st.integers(0, len(pool) - 1))
        step = draw(st.integers(0, len(pool) - 1))
        return np.array(
            [pool[(first + k * step) % len(pool)] for k in range(size)]
        ).reshape(shape)
    values = draw(st.lists(st.sampled_from(pool), min_size=size, max_size=size))
    return np.array(values).reshape(shape)


def shapes(usual):
    """The usual shape with another number of samples, or any of order 0 to 6."""
    usual = tuple(usual)
    samples = st.integers(0, 5).map(lambda n: (n, *usual[1:]))
    flat = samples.map(lambda s: (s[0], math.prod(s[1:])))
    return st.one_of(
        st.just(usual), samples, st.just(usual), flat,
        hnp.array_shapes(min_dims=0, max_dims=6, min_side=0, max_side=3),
    )  # fmt: skip


@st.composite
def coordinates(draw, n_modes, n_rows=None):
    """Coordinates of entries; some that there are not."""
    n_rows = draw(st.integers(0, 8)) if n_rows is None else n_rows
    odd = draw(st.integers(0, 9)) == 0
    n_columns = draw(st.integers(0, 5)) if odd else n_modes
    cells = st.lists(st.sampled_from(INDICES), min_size=n_columns, max_size=n_columns)
    rows = draw(st.lists(cells, min_size=n_rows, max_size=n_rows))
    found = np.array(rows, dtype=float).reshape(n_rows, n_columns)
    if found.size and draw(st.integers(0, 2)) == 0:
        place = draw(st.integers(0, found.size - 1))
        found.flat[place] = draw(st.sampled_from(ODD_INDICES))
    return found


@st.composite
def ids(draw, n_columns):
    """A table of ids and times."""
    n_rows = draw(st.integers(0, 4))
    if draw(st.booleans()):
        return draw(forms(draw(numbers((n_rows, n_columns)))))
    cells = st.lists(st.sampled_from(IDS), min_size=n_columns, max_size=n_columns)
    table = np.empty((n_rows, n_columns), dtype=object)
    for row in range(n_rows):
        table[row] = draw(cells)
    return Argument(table, table, "table")
