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
DAYS = [dt.date(2020, 1, 1 + k % 20) for k in range(N)]
SAMPLES = 5678.5 + RNG.random((50, 4))


def cp(rank=0, **params):
    return CPCompletion(rank, **{"levels": LEVELS, "max_iter": 1, **params})


def coordinates(*further):
    return np.column_stack([SMALL, *further])


def for_users(completion):
    encoder = CoordinateEncoder(categories=[None, range(4321, 4381)])
    return Recommender(completion, encoder)


# What is fitted to which data, and what the warning says.
FITTED = {
    "raw ids": (cp(), (IDS, VALUES), "Most indices"),
    "counted from one": (cp(), (SMALL + 1, VALUES), "Subtract 1"),
    "times as indices": (cp(), (coordinates(np.arange(N)), VALUES), "hardly repeat"),
    "times as ids": (CoordinateEncoder(), (coordinates(TIMES),), "hardly repeat"),
    "times unbinned": (
        CoordinateEncoder(), (TABLE.assign(day=DAYS),), "holds datetimes",
    ),
    "one bin": (
        CoordinateEncoder(freq="Y"), (coordinates(TIMES % 86_400),),
        "one bin, so they change nothing. The last column must hold times: seconds",
    ),
    "values as indices": (
        cp(levels=[2000, 2001]), (coordinates(2000 + USERS % 2), VALUES),
        "declared levels",
    ),
    "values as ids": (
        Recommender(cp(levels=[1111, 2222, 3333])),
        (TABLE.assign(x=VALUES.astype(int)), VALUES), "declared levels",
    ),
    "values as text": (
        CoordinateEncoder(), (coordinates(VALUES).astype(str),),
        "numbers with fractions",
    ),
    "swapped columns": (
        Recommender(cp()), (TABLE[["film", "user"]], VALUES), "Swap them",
    ),
    "no shape": (cp(unit=0, delta=1e-3), (SMALL, VALUES), "Pass the public shape"),
    "no gaps": (cp(), (RNG.choice(LEVELS, (40, 30)),), "no NaN"),
    "averages": (cp(1, epsilon=1e-3, biases=True), (SMALL, VALUES), "averages"),
    "no bounds": (LaplaceMechanism(), (SAMPLES,), "not declared"),
    "raw scales": (BiScaler(), (SMALL, VALUES), "raw values"),
    "no range of scales": (BiScaler(1.0), (SMALL, VALUES), "value_bounds"),
    "a descent that diverges": (
        PublishedCPCompletion(
            1, learning_rate=1e3, epsilon=np.inf, value_bounds=(0, 5000), max_iter=20
        ),
        (SMALL, VALUES), "diverged",
    ),
}  # fmt: skip
# Copies of what was fitted have lost the rows of users.
COPIED = {
    "rows": (cp(unit=0, shape=(60, 60)), (SMALL, VALUES)),
    "users": (for_users(cp(unit=0)), (TABLE, VALUES)),
    "choices": (ImplicitCompletion(shape=(60, 60), delta=1e-3), (SMALL,)),
}


def texts_of(call):
    """What is said, in which no number of the data may be."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        call()
    texts = [str(warning.message) for warning in caught]
    for text in texts:
        assert not re.search(r"(?!1970)\d{4}|\d,\d|\de\+", text)
    return "\n".join(texts)


@pytest.mark.parametrize(("model", "data", "said"), FITTED.values(), ids=FITTED)
def test_no_warning_of_a_fit_shows_numbers_of_the_data(model, data, said):
    assert said in texts_of(lambda: model.fit(*data))
    if said == "Most indices":
        assert said in texts_of(lambda: model.fit_batches([data] * 2))


@pytest.mark.parametrize(("model", "data"), COPIED.values(), ids=COPIED)
def test_no_warning_of_a_copy_shows_numbers_of_the_data(model, data):
    def ask():
        copy.deepcopy(model.fit(*data)).recommend(1)

    assert "copied or pickled" in texts_of(ask)
