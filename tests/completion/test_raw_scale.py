"""What a fit without noise, a client and a table say about a scale that is wrong.

No false alarms are possible: nothing here is random but the data.
"""

import math
import warnings

import numpy as np
import pytest

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.recommend import check_table

RNG = np.random.default_rng(0)
WHERE = np.argwhere(RNG.random((20, 10)) < 0.6)
STARS = RNG.integers(1, 6, size=len(WHERE)).astype(float)
LEVELS = [1, 2, 3, 4, 5]
UNRATED = np.where(np.arange(len(WHERE)) % 5, STARS, -1.0)
# Values, the declared scale, and what is said.
WRONG = {
    "not rated": (UNRATED, {"levels": LEVELS}, "are below .*use -1 to 5"),
    "not rated, above": (
        np.where(UNRATED < 0, 99, UNRATED), {"levels": LEVELS}, "are above .*1 to 99"
    ),
    "percentages": (STARS * 20, {"levels": LEVELS}, "are above .*use 20 to 100"),
    "both sides": (STARS, {"value_bounds": (2, 4)}, "are below and .* are above"),
    "few levels": (STARS, {"levels": [1, 2, 3]}, "are above .*1 to 3"),
    "percent for stars": (STARS, {"levels": range(101)}, "more than 4 times as wide"),
    "far too wide": (STARS, {"value_bounds": (-1000, 1000)}, "which use 1 to 5"),
}  # fmt: skip
DOORS = {
    "entries": lambda y, **o: CPCompletion(1, max_iter=2, **o).fit(WHERE, y),
    "Tucker": lambda y, **o: TuckerCompletion(1, max_iter=2, **o).fit(WHERE, y),
    "sums": lambda y, **o: CPCompletion(perturbation="sums", **o).fit(WHERE, y),
    "users": lambda y, **o: CPCompletion(
        1, unit=0, shape=(20, 10), **o
    ).fit(WHERE, y),
    "batches": lambda y, **o: CPCompletion(1, max_iter=2, **o).fit_batches(
        [(WHERE[:50], y[:50]), (WHERE[50:], y[50:])]
    ),
}  # fmt: skip


def messages(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if "declared scale" in str(w.message)]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_scale_is_told_without_noise(door, mistake):
    values, scale, text = WRONG[mistake]
    with pytest.warns(match=text):
        DOORS[door](values, epsilon=math.inf, **scale)


@pytest.mark.parametrize("door", DOORS)
def test_nothing_is_told_of_private_values(door):
    for values, scale, _ in WRONG.values():
        fit = lambda: DOORS[door](values, epsilon=1.0, **scale)  # noqa: B023, E731
        assert not [m for m in messages(fit) if "of the values are" in m or "use" in m]


def test_a_right_scale_is_not_warned_of():
    for values, scale in [
        (STARS, {"levels": LEVELS}),
        (STARS + 0.4, {"levels": LEVELS}),
        (STARS, {"value_bounds": (0, 10)}),
        (STARS[:9], {"value_bounds": (-1000, 1000)}),
        (STARS, {}),
    ]:
        options = {"epsilon": math.inf, "max_iter": 2, **scale}
        model = CPCompletion(1, **options)
        assert not messages(lambda m=model, v=values: m.fit(WHERE[: len(v)], v))


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_a_client_tells_its_user_without_a_value(epsilon):
    client = CPCompletion(epsilon=epsilon, levels=LEVELS).client()
    assert not messages(lambda: client.privatize(STARS))
    for values, side in [([3.0, -7.25], "below"), ([3.0, 99.5], "above")]:
        (message,) = messages(lambda v=values: client.privatize(v))
        assert f"are {side} the declared scale, 1 to 5" in message
        assert "7.25" not in message
        assert "99.5" not in message


def test_a_table_tells_the_range_that_is_used():
    found = check_table(CPCompletion(epsilon=math.inf, levels=LEVELS), WHERE, UNRATED)
    assert found["range that the values use"] == "-1 to 5"


def test_levels_outside_of_bounds_are_refused():
    for bounds in [(2, 9), (0, 4), (6, 9)]:
        with pytest.raises(ValueError, match="levels must lie within value_bounds"):
            CPCompletion(levels=LEVELS, value_bounds=bounds).fit(WHERE, STARS)
