"""What is claimed is told from what holds."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from sktensordp.mechanisms import LaplaceMechanism
from tests.support.guarantees import pure
from tests.support.seams import (
    difference_notes,
    guarantee_of_candidate,
    guarantee_of_fits,
    is_true,
)


@pytest.mark.parametrize(
    ("drawn", "guarantee", "holds"),
    [
        (1.0, pure(1.0), True),
        # A plan that keeps more than was asked for.
        (1.0, pure(0.9), True),
        (1.0, pure(1.01), False),
        (1.0, pure(1.0, claimed=(1.0, 0.0)), True),
        # Less is true than is claimed, or more.
        (1.0, pure(0.5, claimed=(1.0, 0.0)), False),
        (1.0, pure(2.0, claimed=(1.0, 0.0)), False),
        (1.0, pure(np.inf, claimed=(1.0, 0.0)), False),
        (1.0, pure(1.01, unit=0), True),
        (1.0, pure(1.1, unit=0), False),
        (1.0, None, False),
        (np.inf, pure(np.inf), True),
    ],
)
def test_what_is_true(drawn, guarantee, holds):
    assert is_true(drawn, guarantee) == holds


def test_what_differs_is_said():
    assert difference_notes({"a": [pure(1.0)], "b": [pure(2.0)]}) == {}
    units = difference_notes({"a": [pure(1.0)], "b": [pure(1.0, unit=1)], "c": [None]})
    assert units == {"a": "one sample", "b": "one index of mode 1"}
    relations = difference_notes(
        {"a": [pure(1)], "b": [pure(1, relation="add-or-remove")]}
    )
    assert relations == {"a": "replace-one", "b": "add-or-remove"}
    deltas = {"a": [pure(1.0)], "delta = 0.001": [pure(1.0, delta=1e-3)]}
    # Not twice.
    assert difference_notes(deltas) == {"a": "delta = 0"}
    assert difference_notes(deltas, at_delta=False) == {}


def test_a_void_claim_has_its_own_delta():
    void = pure(np.inf, claimed=(1.0, 1e-5))
    assert difference_notes({"a": [pure(1.0, delta=1e-5)], "b": [void]}) == {}


def test_what_gives_no_guarantee_is_not_known():
    X, y = np.full((20, 2), 0.5), np.arange(20.0)
    assert guarantee_of_fits([Ridge().fit(X, y)]) is None
    assert guarantee_of_candidate(Ridge(), {"alpha": 1.0}, Ridge().fit(X, y)) is None


def test_the_weakest_of_the_fits_counts():
    X = np.full((20, 2), 0.5)
    fits = [LaplaceMechanism(e, bounds=(0, 1)).fit(X) for e in (1.0, 2.0, 0.5)]
    assert guarantee_of_fits(fits).epsilon == 2.0
