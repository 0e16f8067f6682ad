"""What is guessed from the name of a column warns at most, and only of alike numbers.

No false alarms are possible: nothing is drawn but the data.
"""

import math

import numpy as np
import pandas as pd
import pytest

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.recommend import Recommender

RNG = np.random.default_rng(0)
N = 200
FREE = {"value_bounds": (1, 5), "epsilon": math.inf, "max_iter": 2}
IDS = pd.DataFrame({"user": RNG.integers(20, size=N), "item": RNG.integers(8, size=N)})
Y = RNG.integers(1, 6, size=N).astype(float)
DOORS = {
    "completion": lambda X: CPCompletion(1, **FREE).fit(X, Y),
    "recommender": lambda X: Recommender(CPCompletion(1, **FREE)).fit(X, Y),
    "encoder": lambda X: CoordinateEncoder().fit(X),
    "encoder of batches": lambda X: CoordinateEncoder().partial_fit(X),
}
# Names that hold a word for values, and what they hold.
NAMES = [
    "value_segment", "credit_score_band", "vote_round", "stars_region",
    "rating_device", "score_type", "note_id", "rating_date",
]  # fmt: skip
SCALE = Y.astype(int)
OTHERS = {
    "far apart": (SCALE > 3) * 110,
    "one": np.ones(N, dtype=int),
}
doors = pytest.mark.parametrize("door", DOORS)


@doors
@pytest.mark.parametrize("name", NAMES)
def test_a_name_refuses_nothing(door, name):
    DOORS[door](IDS.assign(**{name: SCALE}))


@doors
@pytest.mark.parametrize("name", ["rating", "Stars", "my_score", "votes", "Bewertung"])
def test_a_column_of_values_is_warned_of(door, name):
    with pytest.warns(PrivacyLeakWarning, match=f"Column '{name}' may hold the values"):
        DOORS[door](IDS.assign(**{name: SCALE}))


@pytest.mark.parametrize("name", ["rating", "kind"])
@pytest.mark.parametrize("kind", ["completion", "recommender"])
def test_a_column_of_values_that_are_the_levels_is_warned_of_once(kind, name):
    """By its name if it has one that says so, and by its numbers otherwise."""
    model = CPCompletion(1, levels=range(1, 6), epsilon=math.inf, max_iter=2)
    model = Recommender(model) if kind == "recommender" else model
    with pytest.warns(PrivacyLeakWarning) as caught:
        model.fit(IDS.assign(**{name: SCALE}), Y)
    (text,) = (str(warning.message) for warning in caught)
    assert ("may hold the values" if name == "rating" else "declared levels") in text


@doors
def test_numbers_that_are_no_scale_are_not_warned_of(door):
    for column in OTHERS.values():
        DOORS[door](IDS.assign(rating=column))
    DOORS[door](IDS.assign(other=SCALE))


@pytest.mark.parametrize("door", ["recommender", "encoder"])
def test_text_is_not_warned_of(door):
    DOORS[door](IDS.assign(rating=np.where(SCALE > 3, "north", "south")))


def test_users_and_items_are_no_values():
    """A table of two columns has no room for values."""
    CoordinateEncoder().fit(IDS.rename(columns={"item": "score"}))
