"""An id decides its own side, whatever it is stored in, and moves nobody else.

At an integer unit, one person can have any id, and so change the type of a column: a
missing id turns integers into floats, "guest" turns them into text, a UUID into
objects. Everybody else must stay. And equal ids are one person, who must be on one side
in any storage, or a report counts too few fits.

No false alarms are possible: nothing here is random.
"""

import datetime as dt
import math
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import partial
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sktensordp.completion import CoordinateEncoder
from sktensordp.model_selection import ItemHoldout, UserHoldout, UserKFold
from tests.support.processes import in_spawned

BY_PAIR = ItemHoldout(0.5, n_splits=3, random_state=0)
BY_USER = UserHoldout(0.5, n_splits=20, random_state=0)
N = range(8)
BERLIN = ZoneInfo("Europe/Berlin")
DAY = dt.datetime(2020, 3, 28, 9, 30)
TIMES = [DAY + dt.timedelta(hours=7 * k, microseconds=k) for k in N]
# What CSV files may hold, as numbers and times or as text.
WRITTEN = {
    "integers": [17 - 3 * k for k in N],
    "19 digits": [10**18 + 12345678901234567 * k for k in N],
    "beyond 2**53": [2**53 + k for k in N],
    "beyond int64": [2**63 + 2**40 * k + 1 for k in N],
    "of any size": [10**25 + 3 * k for k in N],
    "whole floats": [17.0 + 4 * k for k in N],
    "large floats": [1e17 * 3**k for k in N],
    "fractions": [0.1 * 7**k - 2 for k in N],
    "decimals": [Decimal(f"{k}17.50") for k in N],
    "switches": [True, False],
    "text": [f"ann {k}" for k in N],
    "text of integers": [str(10**18 + 7 * k) for k in N],
    "text of fractions": [f"{k}.10" for k in N],
    "days": [DAY.date() + dt.timedelta(days=k) for k in N],
    "times": TIMES,
    "times in a zone": [time.replace(tzinfo=BERLIN) for time in TIMES],
    "times of NumPy": [np.datetime64(time, "us") for time in TIMES],
    "keys": [UUID(int=k << 64) for k in N],
}
IDS = WRITTEN | {
    "bytes": [f"bob{k}".encode() for k in N],
    "durations": [dt.timedelta(hours=k, microseconds=1) for k in N],
    "times of day": [dt.time(k, 30) for k in N],
    "months": list(pd.period_range("2020-01", periods=8, freq="M")),
    "ranges": list(pd.interval_range(0, 8)),
    "pairs": [(k, f"ann {k}") for k in N],
    "scalars of NumPy": [np.float32(0.1 * k) for k in N],
}
ODD = {
    "text": "guest",
    "UUID": UUID(int=5),
    "date": dt.date(2031, 1, 1),
    "time in a zone": pd.Timestamp("2031-01-01", tz="Asia/Tokyo"),
    "Decimal": Decimal("0.1"),
    "of any size": 10**25,
    "2**53 + 1": 2**53 + 1,
    "uint64": 2**63 + 5,
    "fraction": 0.5,
    "None": None,
    "NaN": math.nan,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "bytes": b"guest",
    "switch": True,
    "complex": 1 + 2j,
    "single": np.float32(0.1),
}


def frame(rows, dtype=None):
    columns = map(list, zip(*rows, strict=True))
    return pd.DataFrame(
        {k: pd.Series(ids, dtype=dtype) for k, ids in enumerate(columns)}
    )


def polars_frame(rows, dtype=None):
    columns = map(list, zip(*rows, strict=True))
    return pl.DataFrame([pl.Series(ids, dtype=dtype) for ids in columns])


def object_array(rows):
    array = np.empty((len(rows), 2), dtype=object)
    for k, row in enumerate(rows):
        array[k] = row
    return array


# With those that turn each id into text.
CONTAINERS = {
    "list": (list, IDS),
    "array": (np.asarray, IDS),
    "array of objects": (object_array, IDS),
    "array of text": (partial(np.asarray, dtype=str), WRITTEN),
    "array of floats": (partial(np.asarray, dtype=float), ["integers", "beyond 2**53"]),
    "columns": (frame, IDS),
    "columns of objects": (partial(frame, dtype=object), IDS),
    "columns of text": (partial(frame, dtype="string"), WRITTEN),
    "columns turned to text": (lambda rows: frame(rows).astype(str), WRITTEN),
    "columns of the best types": (lambda rows: frame(rows).convert_dtypes(), IDS),
    "categories": (lambda rows: frame(rows).astype("category"), IDS),
    "nullable integers": (partial(frame, dtype="Int64"), ["integers", "19 digits"]),
    "nullable floats": (partial(frame, dtype="Float64"), ["fractions", "19 digits"]),
    "nullable switches": (partial(frame, dtype="boolean"), ["switches"]),
    "polars": (polars_frame, IDS),
    "polars of objects": (partial(polars_frame, dtype=pl.Object), IDS),
    "polars of Int128": (partial(polars_frame, dtype=pl.Int128), ["of any size"]),
}


def stored(container, rows):
    """The rows in a container; None if it cannot hold them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return CONTAINERS[container][0](rows)
        except Exception:
            return None


def sides(X, n_rows, cv=BY_PAIR):
    """In which test sets the first rows are."""
    found = np.zeros((cv.get_n_splits(), len(X)), dtype=bool)
    for number, (_, test) in enumerate(cv.split(X)):
        found[number, test] = True
    return found[:, :n_rows]


def of_ids(ids):
    """In which test sets ids are, as a number: two in a million are equal by chance."""
    X = np.empty((len(ids), 1), dtype=object)
    X[:, 0] = ids
    return 2 ** np.arange(20) @ sides(X, len(ids), BY_USER)


@pytest.mark.thorough
@pytest.mark.parametrize("container", CONTAINERS)
def test_an_odd_id_moves_nobody_else(container):
    """In no container, and none of these moves anybody either."""
    n_tried = 0
    for kind in CONTAINERS[container][1]:
        items = IDS["switches" if kind == "switches" else "integers"]
        rows = list(zip(IDS[kind], items, strict=False))
        expected = sides(rows, len(rows))
        for name, odd in {"nobody": None, **ODD}.items():
            joins = [] if name == "nobody" else [(odd, odd)]
            if (table := stored(container, rows + joins)) is None:
                continue
            n_tried += 1
            found = sides(table, len(rows))
            assert np.array_equal(found, expected), (kind, name)
    assert n_tried >= 5


@pytest.mark.parametrize(
    "cv",
    [
        UserKFold(5, random_state=0), UserKFold(5, mode=1, random_state=0),
        UserHoldout(0.5, random_state=0), ItemHoldout(0.5, random_state=0),
    ],
)  # fmt: skip
def test_a_guest_moves_nobody_in_any_splitter(cv):
    rows = [(10**18 + 3 * user, float(item)) for user in range(40) for item in range(3)]
    tests = [test.tolist() for _, test in cv.split(pd.DataFrame(rows))]
    for odd in ODD.values():
        for joins in ((odd, 0), (0, odd)):
            for table in ([*rows, joins], pd.DataFrame([*rows, joins])):
                found = [test[test < len(rows)].tolist() for _, test in cv.split(table)]
                assert found == tests


INTEGERS = [0, 1, -1, 17, 127, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**60 + 129]
INTEGERS += [2**62 + 2**9, 2**63 - 1, -(2**63), 2**63, 2**63 + 1024, 2**64 - 1]
FLOATS = [0.0, -0.0, 0.1, -0.1, 17.5, 1 / 3, 1e-300, 5e-324, 1e22, 2.0**63, -(2.0**63)]
FLOATS += [2.0**64, 1e308, math.inf, -math.inf, math.nan, 16.999999999, 2.0**52 + 0.5]
COUNTS = [0, 1, -1, 86_400, 18_262, 1_585_387_800, -999_999_999]
UNITS = ["D", "h", "m", "s", "ms", "us", "ns", "W"]


def columns_of_one_type():
    rng = np.random.default_rng(0)
    for dtype in map(np.dtype, ["i1", "u1", "i2", "i4", "u4", "i8", "u8", ">i8"]):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        drawn = rng.integers(least, most, 200, dtype.newbyteorder("="), endpoint=True)
        some = [x for x in INTEGERS if least <= x <= most]
        yield np.array([*drawn.tolist(), *some], dtype)
    for dtype in ("f2", "f4", "f8", ">f8", "g"):
        drawn = rng.normal(size=200) * 10.0 ** rng.integers(-9, 25, 200)
        with np.errstate(over="ignore"):
            yield np.concatenate([drawn, np.array(FLOATS)]).astype(dtype)
    yield np.array([True, False])
    for unit in UNITS:
        yield np.array([*COUNTS, "NaT"], f"M8[{unit}]")
        yield np.array([*COUNTS, "NaT"], f"m8[{unit}]")
    yield np.array([2**60, -(2**60), 5], "M8[s]")
    yield np.array([40_000, -5, 50], "M8[Y]")
    yield np.array([1 + 2j, 17, 0.5, -0.0 + 1j, 1j], "c16")


@pytest.mark.parametrize(
    "column", list(columns_of_one_type()), ids=lambda c: c.dtype.str
)
def test_a_column_of_one_type_and_its_ids_agree(column):
    """The fast way for whole columns, and the one for single ids."""
    found = sides(column[:, np.newaxis], len(column), BY_USER)
    expected = 2 ** np.arange(20) @ found
    np.testing.assert_array_equal(of_ids(list(column)), expected)
    # Python has no times of nanoseconds, and none beyond the year 9999.
    objects = column.tolist()
    is_there = [
        column.dtype.kind not in "mM" or not isinstance(x, int) for x in objects
    ]
    np.testing.assert_array_equal(of_ids(objects)[is_there], expected[is_there])
    if column.dtype.kind in "iub" or column.dtype == np.float64:
        np.testing.assert_array_equal(of_ids(list(map(str, column))), expected)
        exact = [Decimal(x) if x == x else x for x in column.tolist()]
        np.testing.assert_array_equal(of_ids(exact), expected)
    if column.dtype == np.float32:
        fractions = column != np.floor(column)
        texts = of_ids(list(map(str, column[fractions])))
        np.testing.assert_array_equal(texts, expected[fractions])


NOON = dt.time(12, tzinfo=dt.UTC)
EAST = dt.timezone(dt.timedelta(hours=1))
# In each list, the ids are equal.
ALIKE = [
    [
        17, 17.0, "17", "17.0", " 17", "+17", "017", "1.7e1", "１７", b"17", "17\0",
        np.int8(17), np.float16(17), Decimal("17.00"), Fraction(17), 17 + 0j,
    ],
    [True, 1, 1.0, np.True_, "True", "true", "1"],
    [False, 0, 0.0, -0.0, "FALSE", "-0", Decimal("-0")],
    [2**53 + 1, float(2**53 + 1), str(2**53 + 1), Decimal(2**53 + 1)],
    [10**22, 1e22, "1e22", np.float64(1e22), Decimal("1E+22"), "1" + 22 * "0"],
    [10**400, "1e400", Decimal("1e400"), Fraction(10**400), math.inf, "Infinity"],
    [17.5, "17.5", "17.50", Decimal("17.50"), Fraction(35, 2), np.float32(17.5)],
    [0.1, "0.1", ".1", np.float32(0.1), Decimal("0.1"), str(np.float32(0.1))],
    [
        None, math.nan, pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN"), "nan",
        "NaN", "None", "NaT", "<NA>", np.float32("nan"),
    ],
    ["ann", np.str_("ann"), b"ann", np.bytes_(b"ann"), "ann\0"],
    [UUID(int=7), str(UUID(int=7))],
    [
        DAY, pd.Timestamp(DAY), np.datetime64(DAY), np.datetime64(DAY, "ns"), str(DAY),
        DAY.isoformat(), str(np.datetime64(DAY, "ns")), "2020-03-28 09:30",
        DAY.replace(tzinfo=dt.UTC), pd.Timestamp(DAY, tz="UTC").tz_convert(BERLIN),
        "2020-03-28T10:30+01:00", "2020-03-28 09:30:00.000000000Z",
    ],
    [
        dt.date(2020, 3, 28), dt.datetime(2020, 3, 28), np.datetime64("2020-03-28"),
        "2020-03-28", "2020-03-28 00:00:00",
    ],
    [dt.timedelta(hours=30), pd.Timedelta("30h"), np.timedelta64(30, "h")],
    [pd.Timedelta(-7, "ns"), np.timedelta64(-7, "ns")],
    [NOON, dt.time(13, tzinfo=EAST)],
    [pd.Interval(0, 1), pd.Interval(0.0, 1.0)],
    [(1, "ann", 0.0), (1.0, "ann", -0.0)],
    [frozenset([1, "ann"]), frozenset(["ann", True])],
]  # fmt: skip


def test_equal_ids_are_on_one_side_whatever_they_are_stored_in():
    numbers = [of_ids(ids) for ids in ALIKE]
    for found, ids in zip(numbers, ALIKE, strict=True):
        assert len(set(found)) == 1, ids
    assert len({found[0] for found in numbers}) == len(ALIKE)


class Named:
    """Equal to others of its name; each of them looks different."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return isinstance(other, Named) and other.name == self.name

    def __hash__(self):
        return hash(self.name)


def test_ids_that_an_encoder_calls_equal_are_on_one_side():
    """Each id as a public catalogue, and a table with all of its kind."""
    twice = dt.datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN)
    scalars = [id_ for ids in [*ALIKE, *IDS.values()] for id_ in ids]
    scalars += [twice, twice.replace(fold=1), pd.Timestamp(twice)]
    scalars += [Named("ann"), Named("ann"), Named("bob")]
    scalars = [x for x in scalars if not _is_refused(x)]
    found, n_equal = of_ids(scalars), 0
    for j, known in enumerate(scalars):
        # A catalogue is a dictionary: no others can be equal.
        for k in [k for k, x in enumerate(scalars) if hash(x) == hash(known)]:
            table = object_array([(known, ""), (scalars[k], "")])
            encoder = CoordinateEncoder(categories=[table[:1, 0], [""]])
            try:
                is_equal = encoder.fit(table[:1]).transform(table[1:])[0, 0] == 0
            except ValueError:
                continue
            n_equal += is_equal
            assert found[j] == found[k] or not is_equal, (known, scalars[k])
    assert n_equal > 400


def _is_refused(id_):
    return id_ is None or id_ is pd.NA or id_ != id_ or isinstance(id_, complex)


def numbers_of_all():
    return {kind: of_ids(ids).tolist() for kind, ids in IDS.items()}


@pytest.mark.thorough
def test_other_processes_make_the_same_folds(monkeypatch):
    """With another seed for the hashes of text."""
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    assert in_spawned(hash, "text") != hash("text")
    assert in_spawned(numbers_of_all) == numbers_of_all()
