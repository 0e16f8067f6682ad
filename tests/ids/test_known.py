"""Labels are found among known ones as values of Python are, one by one."""

import datetime as dt
import math
from array import array
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sktensordp.ids import are_equal, declared_labels, index_of, kinds_of, one_each

LARGE = 2**53
DAY = dt.datetime(2020, 1, 1)
# Values in one row are one; those of different rows differ.
SAME = [
    [1, 1.0, np.float32(1), np.int8(1), np.uint64(1), Decimal(1), Fraction(1)],
    [0, -0.0, np.float64(-0.0), Decimal("-0")],
    [True, np.True_],
    [False, np.bool_(0)],
    ["1", np.str_("1")],
    [b"1", np.bytes_(b"1")],
    ["True"],
    [0.1, np.float64(0.1)],
    [np.float32(0.1), float(np.float32(0.1))],
    [LARGE, float(LARGE), np.uint64(LARGE)],
    [LARGE + 1, np.int64(LARGE + 1), np.uint64(LARGE + 1)],
    [2**63, float(2**63), np.uint64(2**63)],
    [2**63 + 1, np.uint64(2**63 + 1)],
    [2**70, float(2**70)],
    [DAY, DAY.date(), pd.Timestamp(DAY), np.datetime64(DAY, "us"),
     np.datetime64("2020"), np.datetime64("2020-01-01", "ns")],
    [DAY + dt.timedelta(microseconds=1), np.datetime64(DAY, "ns") + 1000],
    [np.datetime64(DAY, "ns") + 1, pd.Timestamp(DAY) + pd.Timedelta(1)],
    [DAY.replace(tzinfo=dt.UTC), pd.Timestamp(DAY, tz="UTC").tz_convert("Asia/Tokyo")],
    [dt.timedelta(days=1), np.timedelta64(24, "h"), pd.Timedelta(days=1)],
    [dt.time(1)],
    ["guest"],
    [UUID(int=1)],
]  # fmt: skip
NO_LABELS = [
    None, math.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), {}, {1: 2},
    {1}, [], [1, 2], (1, [2]), np.zeros(3), Decimal("nan"), 1j, object(), slice(3),
]  # fmt: skip


def objects(values):
    return np.fromiter(values, dtype=object, count=len(values))


def test_equal_values_are_one_and_others_are_not():
    known = objects([row[0] for row in SAME])
    for k, row in enumerate(SAME):
        assert index_of(known, one_each(row, "y")).tolist() == [k] * len(row)
        for value in row:
            # As the known one, and in an array of its own type.
            alone = [objects([value])]
            if isinstance(value, int | float | str | bytes | np.generic):
                alone.append(np.array([value]))
            for one in alone:
                assert index_of(known, one).tolist() == [k]
                assert index_of(one, known).tolist() == [
                    -(number != k) for number in range(len(SAME))
                ]
                assert are_equal(known, one.repeat(len(SAME))).nonzero()[0] == [k]


def test_what_is_no_label_equals_nothing():
    column = one_each(NO_LABELS, "y")
    assert set(index_of(objects([row[0] for row in SAME]), column)) == {-1}
    for known in (np.arange(3), np.array([0.5, 1]), np.array(["a"]), np.array([True])):
        assert set(index_of(known, column)) == {-1}
    # Missing values are not equal to themselves, either.
    assert not are_equal(objects(NO_LABELS[:6]), objects(NO_LABELS[:6])).any()


NUMBERS = [0, 1, -1, 0.5, 2**31, LARGE - 1, LARGE, LARGE + 1, 2**63 - 1, -(2**63)]
NUMBERS += [1e19, -1e300, 2**63, 2**64 - 1, math.inf, math.nan]


def in_type(dtype):
    """Those of the numbers that a type has, or what it rounds them to."""
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            return np.unique(np.array(NUMBERS, dtype=float).astype(dtype))
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    found = [n for n in NUMBERS if isinstance(n, int) and low <= n <= high]
    return np.array(sorted(found), dtype=dtype)


TYPES = ["i1", "i8", "u8", "f2", "f4", "f8"]


@pytest.mark.parametrize("asked", TYPES)
@pytest.mark.parametrize("of", TYPES)
def test_arrays_of_two_types_are_compared_exactly(of, asked):
    """As Python compares two numbers: neither is rounded to the type of the other."""
    known, column = in_type(of), in_type(asked)
    known = known[np.isfinite(known)]
    expected = [
        next((k for k, one in enumerate(known.tolist()) if one == value), -1)
        for value in column.tolist()
    ]
    assert index_of(known, column).tolist() == expected
    shuffled = np.random.default_rng(0).permutation(len(known))
    found = index_of(known[shuffled], column)
    assert [-1 if k < 0 else shuffled[k] for k in found] == expected


CONTAINERS = [
    list, tuple, np.asarray, objects, pd.Series, pd.Categorical, pl.Series, pa.array,
    lambda values: pd.Series(values, dtype=object),
    lambda values: pd.Series(values).convert_dtypes(),
    lambda values: pd.Series(values, dtype="category"),
    lambda values: pd.DataFrame({"label": values}),
    lambda values: pl.DataFrame({"label": values}),
    lambda values: pa.chunked_array([values[:1], values[1:]]),
    lambda values: [[value] for value in values],
    lambda values: [np.array([value]) for value in values],
    lambda values: objects(values).reshape(-1, 1),
    lambda values: pd.Series(values, index=range(5, 5 + len(values))),
]  # fmt: skip


VALUES = [
    [3, 1, 2], [True, False], ["b", "a"], [0.5, 2.0], [b"b", b"a"],
    [DAY + dt.timedelta(hours=7), DAY],
]  # fmt: skip


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("values", VALUES)
def test_containers_hold_the_same_labels(container, values):
    known = declared_labels(values, "classes")
    column = one_each(container(values), "y")
    expected = [sorted(values).index(value) for value in values]
    assert index_of(known, column).tolist() == expected
    assert are_equal(declared_labels(container(values), "classes"), known).all()


def test_buffers_have_a_type():
    for y in (array("l", [2, 1]), memoryview(np.array([2, 1]))):
        column = one_each(y, "y")
        assert (column.dtype, column.tolist()) == (np.int64, [2, 1])


@pytest.mark.parametrize(
    "classes",
    [
        [0, "a"], [0, True], ["a", b"a"], [DAY, "a"], [None, 1], [math.nan, 1], [],
        [(1, 2), (3, 4)], [{}, 1], [1j, 2], [UUID(int=1)], [0, 0], [1, 1.0], ["a", "a"],
        [DAY, np.datetime64(DAY)], {1, 2}, "ab", 3, np.eye(2), [[1, 2], [3, 4]],
        {"a": 1}, iter([1, 2]), pd.DataFrame({"a": [1], "b": [2]}),
        np.ma.array([1, 2], mask=[0, 1]),
    ],
)  # fmt: skip
def test_classes_are_of_one_kind_and_all_different(classes):
    with pytest.raises((TypeError, ValueError), match="classes"):
        declared_labels(classes, "classes")


@pytest.mark.parametrize("classes", [[LARGE + 1, 0.5], [2**63, -1], [2**64 + 1, 0.5]])
def test_declared_classes_are_not_rounded(classes):
    found = declared_labels(classes, "classes")
    assert sorted(found.tolist()) == sorted(classes)
    assert index_of(found, objects(sorted(classes))).tolist() == [0, 1]
    assert index_of(found, np.array([float(LARGE)])).tolist() == [-1]
    assert kinds_of(found) == {"numbers"}
