"""No warning shows a value, an id, an index or how many rows there are.

Warnings end up in logs, which more people read than the data. So all numbers in the
data have four digits or more here, and no warning has.
"""

import copy
import datetime as dt
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
)
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.papers import BiScaler, PublishedCPCompletion

RNG = np.random.default_rng(0)
N = 1234
USERS, ITEMS = RNG.integers(60, size=(2, N))
VALUES = RNG.choice([1111.25, 2222.25, 3333.25], N)
LEVELS = [1111.25, 2222.25, 3333.25]
TIMES = 1_700_000_000 + 3607 * np.arange(N)
SMALL = np.column_stack([USERS, ITEMS])
IDS = SMALL + 4321
TABLE = pd.DataFrame(IDS, columns=["user", "film"])
SAMPLES = 5678.5 + RNG.random((50, 4))


def cp(rank=0, **params):
    return CPCompletion(rank, **{"levels": LEVELS, "max_iter": 1, **params})


def coordinates(*further):
    return np.column_stack([SMALL, *further])


def lost(model, *data):
    """Ask a copy of a fitted model for a user."""
    return copy.deepcopy(model.fit(*data)).recommend(1)


def for_users(completion):
    encoder = CoordinateEncoder(categories=[None, range(4321, 4381)])
    return Recommender(completion, encoder)


SAID = {
    "raw ids": (lambda: cp().fit(IDS, VALUES), "Most indices"),
    "raw ids in batches": (
        lambda: cp().fit_batches([(IDS, VALUES)] * 2),
        "Most indices",
    ),
    "counted from one": (lambda: cp().fit(SMALL + 1, VALUES), "Subtract 1"),
    "times as indices": (
        lambda: cp().fit(coordinates(np.arange(N)), VALUES),
        "hardly repeat",
    ),
    "times as ids": (
        lambda: CoordinateEncoder().fit(coordinates(TIMES)),
        "hardly repeat",
    ),
    "times unbinned": (
        lambda: CoordinateEncoder().fit(
            TABLE.assign(day=[dt.date(2020, 1, 1 + k % 20) for k in range(N)])
        ),
        "holds datetimes",
    ),
    "one bin": (
        lambda: CoordinateEncoder(freq="Y").fit(coordinates(TIMES % 86_400)),
        "one bin, so they change nothing. The last column must hold times: seconds",
    ),
    "values as indices": (
        lambda: cp(levels=[2000, 2001]).fit(coordinates(2000 + USERS % 2), VALUES),
        "declared levels",
    ),
    "values as ids": (
        lambda: Recommender(cp(levels=[1111, 2222, 3333])).fit(
            TABLE.assign(x=VALUES.astype(int)), VALUES
        ),
        "declared levels",
    ),
    "values as text": (
        lambda: CoordinateEncoder().fit(coordinates(VALUES).astype(str)),
        "numbers with fractions",
    ),
    "swapped columns": (
        lambda: Recommender(cp()).fit(TABLE[["film", "user"]], VALUES),
        "Swap them",
    ),
    "no range": (lambda: cp(levels=None).fit(SMALL, VALUES), "declare the range"),
    "no shape": (
        lambda: cp(unit=0, delta=1e-3).fit(SMALL, VALUES),
        "Pass the public shape",
    ),
    "no gaps": (lambda: cp().fit(RNG.choice(LEVELS, (40, 30))), "no NaN"),
    "averages": (
        lambda: cp(1, epsilon=1e-3, biases=True).fit(SMALL, VALUES),
        "averages",
    ),
    "a copy without rows": (
        lambda: lost(cp(unit=0, shape=(60, 60)), SMALL, VALUES),
        "copied or pickled",
    ),
    "a copy without users": (
        lambda: lost(for_users(cp(unit=0)), TABLE, VALUES),
        "copied or pickled",
    ),
    "a copy without choices": (
        lambda: lost(ImplicitCompletion(shape=(60, 60), delta=1e-3), SMALL),
        "copied or pickled",
    ),
    "no bounds": (lambda: LaplaceMechanism().fit(SAMPLES), "not declared"),
    "raw scales": (lambda: BiScaler().fit(SMALL, VALUES), "raw values"),
    "no range of scales": (lambda: BiScaler(1.0).fit(SMALL, VALUES), "value_bounds"),
    "a descent that diverges": (
        lambda: PublishedCPCompletion(
            1, learning_rate=1e3, epsilon=np.inf, value_bounds=(0, 5000), max_iter=20
        ).fit(SMALL, VALUES),
        "diverged",
    ),
}


@pytest.mark.parametrize(("did", "said"), SAID.values(), ids=SAID)
def test_no_warning_shows_numbers_of_the_data(did, said):
    with warnings.catch_warnings(record=True, action="always") as caught:
        did()
    texts = [str(warning.message) for warning in caught]
    assert any(said in text for text in texts), texts
    for text in texts:
        assert not re.search(r"(?!1970)\d{4}|\d,\d|\de\+", text)
