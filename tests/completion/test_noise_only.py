"""Where a unit is protected, a fit says if what it released is hardly more than noise.

It judges that by the released totals, so its warning is post-processing.
"""

import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
    make_ranking_scorer,
)
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import AveragesOnlyWarning, NoiseOnlyWarning
from sktensordp.model_selection import PrivateSearchCV, UserKFold
from tests.support.replaying import recorded
from tests.support.seams import LOG_RANGE, USUAL_LOG, totals_are_noise

pytestmark = pytest.mark.thorough
RATINGS = make_ratings(600, 30, 9000, random_state=0)
FILMS = [f"film {k:02d}" for k in range(30)]
ROWS = [[f"user {user}", FILMS[film]] for user, film in RATINGS.data]
STARS = RATINGS.target.tolist()
OPTIONS = {"unit": 0, "levels": RATINGS.levels, "epsilon": 4.0, "random_state": 0}
MODELS = {
    "averages": CPCompletion(0, **OPTIONS),
    "factors": CPCompletion(1, perturbation="statistics", max_iter=2, **OPTIONS),
    "Tucker": TuckerCompletion(1, perturbation="sums", max_iter=2, **OPTIONS),
    "choices": ImplicitCompletion(epsilon=4.0, random_state=0),
    "popular": ImplicitCompletion(epsilon=4.0, random_state=0, max_items=0),
}
of_every_model = pytest.mark.parametrize("name", MODELS)


def model_of(name, films=FILMS):
    encoder = CoordinateEncoder(categories=[None, films])
    return Recommender(clone(MODELS[name]), encoder)


def data_of(model, rows, stars=STARS):
    return (rows, stars[: len(rows)]) if hasattr(model, "score") else (rows,)


def warns_of_noise(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    ours = [one for one in caught if one.category is NoiseOnlyWarning]
    assert len(ours) <= 1
    return bool(ours)


MISTAKES = {
    "a catalogue in the wrong case": ([film.upper() for film in FILMS], ROWS),
    "a catalogue of numbers": (range(30), ROWS),
    "swapped columns": (FILMS, [row[::-1] for row in ROWS]),
    "one film that is spelt right": ([FILMS[0], *"abc"], ROWS[:900]),
    "nobody": (FILMS, []),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@of_every_model
def test_a_mistake_that_leaves_next_to_nothing_is_told(name, mistake):
    films, rows = MISTAKES[mistake]
    model = model_of(name, films)
    with pytest.warns(NoiseOnlyWarning, match="order of the columns") as shown:
        model.fit(*data_of(model, rows))
    assert {one.filename for one in shown} == {__file__}


@of_every_model
def test_a_fit_to_many_users_says_nothing(name):
    model = model_of(name)
    assert not warns_of_noise(lambda: model.fit(*data_of(model, ROWS)))
    # Without noise, nothing is within it, unless nobody is there.
    model.set_params(completion__epsilon=math.inf)
    assert not warns_of_noise(lambda: model.fit(*data_of(model, ROWS[:1])))
    assert warns_of_noise(lambda: model.fit(*data_of(model, [])))


@of_every_model
def test_what_was_released_decides(name):
    """Whoever is there: with the releases of the others, a fit says the same."""
    for rows, others in ((ROWS, []), ([], ROWS)):
        model = model_of(name)
        with recorded() as releases:
            said = warns_of_noise(lambda: model.fit(*data_of(model, rows)))  # noqa: B023
        assert said == (not rows)
        with recorded(releases):
            other = clone(model)
            assert said == warns_of_noise(
                lambda: other.fit(*data_of(other, others))  # noqa: B023
            )


def test_private_searches_say_nothing():
    model = model_of("averages", [film.upper() for film in FILMS])
    data = data_of(model, ROWS)
    private = PrivateSearchCV(
        model.set_params(completion__random_state=None),
        {"completion__rank": [0]},
        n_iter=2,
    )
    assert not warns_of_noise(lambda: private.fit(*data))


def test_each_fit_for_a_score_says_it():
    choices = model_of("choices", [film.upper() for film in FILMS])
    scorer = make_ranking_scorer(k=5)
    rows = np.array(ROWS)
    with pytest.warns(NoiseOnlyWarning, match="order of the columns") as shown:
        cross_val_score(choices, rows, cv=UserKFold(2), scoring=scorer)
    assert [one.category for one in shown].count(NoiseOnlyWarning) == 2
    assert {one.filename for one in shown} == {__file__}


def test_it_can_be_told_from_averages_and_goes_with_them():
    assert issubclass(NoiseOnlyWarning, AveragesOnlyWarning)


@pytest.mark.parametrize(
    ("n_entries", "n_units"),
    [(1, 10), (3, 10), (20, 10), (4, 20), (4, 60), (4, 100), (4, 1000), (200, 10)],
)
def test_false_alarms_are_as_rare_as_stated(n_entries, n_units):
    """At most 1e-3 each; 200,000 seeded draws leave that below 1.4e-3."""
    rng = np.random.default_rng(0)
    log = (math.log(n_entries) - USUAL_LOG) / LOG_RANGE
    totals = n_units * np.array([1.0, max(log, -1.0)])
    totals = totals + rng.standard_normal((200_000, 2))
    assert np.mean([totals_are_noise(*total, 1.0) for total in totals]) < 1.4e-3


def test_many_users_with_one_entry_each_are_found():
    rng = np.random.default_rng(0)
    ones = rng.standard_normal((2000, 2)) + np.array([400.0, -400.0])
    assert np.mean([totals_are_noise(*total, 1.0) for total in ones]) > 0.99
