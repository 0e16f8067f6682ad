"""What was observed, as arrays: rows that have entries, and questions to chunks."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sktensordp.completion import CPCompletion
from sktensordp.completion._entries import Entries
from sktensordp.completion._problem import Problem
from sktensordp.tensor._coordinates import present


@pytest.mark.parametrize("scale", [1, 4, 10**8])
def test_rows_that_have_entries(scale):
    """The same however large the mode is; a billion indices would not fit."""
    column = np.array([5, 2, 7, 2, 2], dtype=np.int32) * scale
    rows, places = present(column)
    assert_array_equal(rows, scale * np.array([2, 5, 7]))
    assert_array_equal(rows[places], column)


def test_entries_in_memory_are_one_chunk():
    entries = Entries(np.zeros((3, 2), np.int32), np.arange(3.0), (1, 1))
    answers = entries.ask(lambda chunk, factor: factor * chunk.values.sum(), 2)
    assert answers == (6.0,)


@pytest.mark.parametrize("unit", ["entry", 0])
def test_a_problem_holds_no_value_and_of_units_no_coordinate(unit):
    where = np.array([[0, 1], [2, 0]], np.int32)
    model = CPCompletion(1, unit=unit, levels=[1, 2], shape=(3, 2))
    entries = Entries(where, np.array([1.0, 2.0]), (3, 2))
    problem = Problem.of(model, entries.shape, entries)
    if unit == 0:
        assert problem.entries is problem.features.entries is None
    else:
        assert problem.entries.values is None
        assert_array_equal(problem.entries.coordinates, where)
