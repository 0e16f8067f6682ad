"""What is said of raw values that a scale clips, and where: at all doors, by table.

The doors of `RELEASED` release all values without noise, and show their range. Those of
`OWN` release nothing of the values that they read, or are where values are recorded:
they show the share that is clipped, and no value. No other door says anything. No false
alarms are possible: nothing here is random but the data and seeds.
"""

import math
import re
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sktensordp.completion import (
    CompletionClient,
    CoordinateEncoder,
    CPCompletion,
    Recommender,
    TuckerCompletion,
    check_table,
    make_fold_in_scorer,
    party,
)
from sktensordp.model_selection import PrivateSearchCV, UserHoldout
from sktensordp.papers import PublishedCPCompletion
from tests.support.seams import run_reserved

RNG = np.random.default_rng(0)
SHAPE = 20, 10
WHERE = np.argwhere(RNG.random(SHAPE) < 0.6)
TABLE = pd.DataFrame(WHERE, columns=["user", "film"]).map("id {}".format)
FILMS = CoordinateEncoder(categories=[None, [f"id {k}" for k in range(10)]])
N = len(WHERE)
HALF = N // 2
STARS = RNG.integers(1, 6, size=N).astype(float)
STARS[:2], STARS[-2:] = (1, 5), (1, 5)  # in each half
LEVELS = {"levels": [1, 2, 3, 4, 5]}
UNRATED = np.where(np.arange(N) % 5, STARS, -1.0)
# Values, the scale, whether some are clipped, and what is said of them.
WRONG = {
    "not rated": (UNRATED, LEVELS, True, r"2\d\.\d% .* are below .* use -1 to 5"),
    "not rated, above": (
        np.where(UNRATED < 0, 99, UNRATED), LEVELS, True, "are above .* use 1 to 99",
    ),
    "percentages": (
        STARS * 20, LEVELS, True, r"100\.0% .* are above the .*, 1 to 5.* 20 to 100",
    ),
    "both sides": (
        STARS, {"value_bounds": (2, 4)}, True, "are below and .* are above .* 1 to 5",
    ),
    "few levels": (STARS, {"levels": [1, 2, 3]}, True, "are above .* use 1 to 5"),
    "levels inside of bounds": (
        STARS, {"levels": [1, 2, 3], "value_bounds": (0, 9)}, True, "above .* 1 to 5",
    ),
    "percent for stars": (
        STARS, {"levels": range(101)}, False, "than 4 times as wide .* use 1 to 5",
    ),
    "one value": (np.full(N, 2.0), LEVELS, False, "than 4 times .* All values are 2"),
    "far too wide": (
        STARS, {"value_bounds": (-1000, 1000)}, False, "than 4 times .* use 1 to 5",
    ),
}  # fmt: skip
RIGHT = {
    "stars": (STARS, LEVELS),
    "rounded to the last level": (STARS + 0.4, LEVELS),
    "the best ones only": (np.clip(STARS, 3, 5), LEVELS),
    "twice as wide": (STARS, {"value_bounds": (0, 10)}),
    "few values below 1 in 100": (np.where(np.arange(N) == 7, 9.0, STARS), LEVELS),
    "undeclared": (STARS * 20, {}),
}


def tensor(values):
    found = np.full(SHAPE, np.nan)
    found[tuple(WHERE.T)] = values
    return found


def cp(**options):
    return CPCompletion(0, **{"max_iter": 2, "random_state": 0, **options})


def of_users(**options):
    return cp(unit=0, shape=SHAPE, perturbation="sums", delta=1e-3, **options)


def ends(levels=None, value_bounds=None, **_):
    """The ends of the scale of these parameters."""
    return (min(levels), max(levels)) if levels else value_bounds


def halves(X, y):
    return [(X[:HALF], y[:HALF]), (X[HALF:], y[HALF:])]


def published(**options):
    """It has no levels."""
    bounds, epsilon = ends(**options), options["epsilon"]
    return PublishedCPCompletion(
        1, max_iter=2, random_state=0, value_bounds=bounds, epsilon=epsilon
    )


# Fits to raw values. Without noise, they release all of them.
RELEASED = {
    "fit": lambda y, **o: cp(**o).fit(WHERE, y),
    "fit, a tensor": lambda y, **o: cp(**o).fit(tensor(y)),
    "fit, a sparse array": lambda y, **o: cp(**o).fit(
        sparse.coo_array((y, WHERE.T), SHAPE)
    ),
    "fit, Tucker": lambda y, **o: TuckerCompletion(1, max_iter=2, **o).fit(WHERE, y),
    "fit, sums": lambda y, **o: cp(perturbation="sums", **o).fit(WHERE, y),
    "fit, users": lambda y, **o: of_users(**o).fit(WHERE, y),
    "fit, published": lambda y, **o: published(**o).fit(WHERE, y),
    "fit, Dask": lambda y, **o: cp(perturbation="sums", **o).fit(
        da.from_array(WHERE, chunks=(HALF, 2)), da.from_array(y, chunks=HALF)
    ),
    "fit, users in Dask": lambda y, **o: of_users(**o).fit(
        da.from_array(WHERE, chunks=(HALF, 2)), da.from_array(y, chunks=HALF)
    ),
    "fit_batches": lambda y, **o: cp(**o).fit_batches(halves(WHERE, y)),
    "partial_fit": lambda y, **o: cp(perturbation="input", **o).partial_fit(WHERE, y),
    "partial_fit, a later call": lambda y, **o: (
        cp(perturbation="input", **o)
        .partial_fit(WHERE[:HALF], np.clip(y[:HALF], *ends(**o)))
        .partial_fit(WHERE[HALF:], y[HALF:])
    ),
    "Recommender.fit": lambda y, **o: Recommender(cp(**o), FILMS).fit(TABLE, y),
    "Recommender.fit_batches": lambda y, **o: Recommender(cp(**o), FILMS).fit_batches(
        halves(TABLE, y)
    ),
}  # fmt: skip


def right_fit(**options):
    """A fit to stars, which clips none."""
    return cp(**{**LEVELS, "shape": SHAPE, **options}).fit(WHERE, STARS)


def scored(y):
    model = cp(**LEVELS, unit=0, shape=SHAPE, delta=1e-3, perturbation="sums")
    score = make_fold_in_scorer()
    (train, test) = next(UserHoldout(0.5, random_state=0).split(WHERE))
    return score(model.fit(WHERE[train], STARS[train]), WHERE[test], y[test])


# Calls that release nothing of these values, or come before anything is released.
OWN = {
    "fold_in": lambda y: right_fit().fold_in(WHERE, y),
    "fold_in, users": lambda y: of_users(**LEVELS).fit(WHERE, STARS).fold_in(WHERE, y),
    "Recommender.fold_in": lambda y: (
        Recommender(cp(**LEVELS), FILMS).fit(TABLE, STARS).fold_in(TABLE, y)
    ),
    "score": lambda y: right_fit().score(WHERE, y),
    "Recommender.score": lambda y: (
        Recommender(cp(**LEVELS), FILMS).fit(TABLE, STARS).score(TABLE, y)
    ),
    "make_fold_in_scorer": scored,
    "client": lambda y: cp(**LEVELS).client().privatize(y),
    "client without noise": lambda y: (
        cp(**LEVELS, epsilon=math.inf).client().privatize(y)
    ),
    "a client from its text": lambda y: CompletionClient.from_json(
        cp(**LEVELS).client().to_json()
    ).privatize(y),
    "party": lambda y: party(of_users(**LEVELS), WHERE, y),
}  # fmt: skip


def texts(call):
    """The warnings of a call, and no others that it may give."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        call()
    return [str(warning.message) for warning in caught]


def of_scale(call):
    """Warnings of the scale; there is at most one."""
    found = [t for t in texts(call) if "scale" in t or "end of the" in t]
    assert len(set(found)) == len(found)
    return found


# --- without noise, the range is said -------------------------------------------------


def assert_said(door, mistake):
    values, scale, _, text = WRONG[mistake]
    (said,) = of_scale(lambda: RELEASED[door](values, epsilon=math.inf, **scale))
    assert re.search(text, said)


@pytest.mark.parametrize("door", RELEASED)
def test_every_door_without_noise_says_what_is_clipped(door):
    assert_said(door, "not rated")


@pytest.mark.parametrize("mistake", WRONG)
def test_every_mistake_is_said_once(mistake):
    assert_said("fit", mistake)
    assert_said("fit, users", mistake)


@pytest.mark.thorough
@pytest.mark.parametrize("door", [door for door in RELEASED if "later" not in door])
@pytest.mark.parametrize("mistake", [m for m in WRONG if "inside" not in m])
def test_every_door_says_every_mistake(door, mistake):
    assert_said(door, mistake)


@pytest.mark.parametrize(("values", "scale"), RIGHT.values(), ids=RIGHT)
def test_a_right_scale_is_not_warned_of(values, scale):
    for door in ("fit", "fit, users"):
        if scale or door == "fit":
            call = lambda d=door: RELEASED[d](values, epsilon=math.inf, **scale)  # noqa: E731
            assert not of_scale(call), door


def test_values_of_a_later_call_are_told():
    model = cp(**LEVELS, epsilon=math.inf, perturbation="input").fit(WHERE, STARS)
    (said,) = of_scale(lambda: model.partial_fit(WHERE, STARS * 20))
    assert said.startswith("100.0% of the values are above the declared scale, 1 to 5")


def test_the_share_decides_at_one_in_a_hundred():
    """Of 100 values, one is clipped; of 101, one is not told."""
    where = np.argwhere(np.ones((11, 10)))
    for n, n_said in [(100, 1), (101, 0)]:
        y = np.r_[9.0, np.tile([1.0, 5.0], n)][:n]
        fit = lambda n=n, y=y: cp(**LEVELS, epsilon=math.inf).fit(where[:n], y)  # noqa: E731
        assert len(of_scale(fit)) == n_said


def test_the_width_decides_beyond_four_times_that_of_the_values():
    for high, n, n_said in [(16, N, 0), (16.1, N, 1), (1000, 19, 0)]:
        scale = {"value_bounds": (0, high), "epsilon": math.inf}
        fit = lambda n=n, s=scale: cp(**s).fit(WHERE[:n], STARS[:n])  # noqa: E731
        assert len(of_scale(fit)) == n_said, high


# --- own values: the share is said, and no value --------------------------------------


@pytest.mark.parametrize("door", OWN)
def test_every_door_to_own_values_says_what_is_clipped(door):
    for values, side in [(STARS * 20 + 0.25, "above"), (STARS - 1234.25, "below")]:
        found = of_scale(lambda v=values: OWN[door](v))
        assert found
        for said in found:
            assert said.startswith(f"100.0% of the values are {side} the declared sca")
            assert ".25" not in said
    assert not of_scale(lambda: OWN[door](STARS))


def test_a_scale_that_a_fit_found_is_no_declared_one():
    rng = np.random.default_rng(1)
    where = np.argwhere(np.ones((60, 50)))
    values = rng.integers(1, 6, len(where)).astype(float)
    model = cp(epsilon=4.0, perturbation="sums").fit(where, values)
    (said,) = of_scale(lambda: model.fold_in(where[:9], values[:9] * 20))
    assert "above the scale of the fit, 1 to 5" in said


@pytest.mark.parametrize("door", ["client", "client without noise", "party"])
def test_a_warning_that_is_an_error_does_not_stop_what_is_sent(door):
    """Others would learn from it that the values are beyond the scale."""
    with warnings.catch_warnings(action="error"):
        assert OWN[door](STARS * 20) is not None


def test_a_warning_that_is_an_error_leaves_the_folded_in_rows():
    fit = lambda: of_users(**LEVELS).fit(WHERE, STARS)  # noqa: E731
    model = fit()
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(UserWarning, match="above the declared scale"),
    ):
        model.fold_in(WHERE, STARS * 20)
    expected = fit().fold_in(WHERE, np.full(N, 5.0)).predict(WHERE)
    np.testing.assert_array_equal(model.predict(WHERE), expected)


def test_a_table_tells_the_range_that_is_used():
    found = check_table(CPCompletion(epsilon=math.inf, **LEVELS), WHERE, UNRATED)
    assert found["range that the values use"] == "-1 to 5"


# --- under noise, nothing is said -----------------------------------------------------


@pytest.mark.parametrize("door", RELEASED)
def test_values_under_noise_change_no_warning(door):
    """Neighbours whose values are clipped to the same ones have the same releases.

    The seeds are the same. So a warning that differs would tell the values, whether
    one of them changes or all.
    """
    best = np.flatnonzero(STARS == 5)
    for changed in (best[:1], best):
        values = STARS.copy()
        values[changed] = 99.5
        near, far = (
            texts(lambda v=v: RELEASED[door](v, epsilon=1.0, **LEVELS))
            for v in (STARS, values)
        )
        assert near == far


@pytest.mark.thorough
@pytest.mark.parametrize("door", RELEASED)
def test_nothing_is_said_of_values_under_noise(door):
    for values, scale, _, _ in WRONG.values():
        fit = lambda v=values, s=scale: RELEASED[door](v, epsilon=1.0, **s)  # noqa: E731
        said = " ".join(texts(fit))
        assert "of the values are" not in said
        assert "values use" not in said


def test_a_private_search_says_nothing():
    """How many candidates it fits is secret, and so are the values that they score."""
    search = PrivateSearchCV(cp(**LEVELS, shape=SHAPE), {"rank": [0]}, n_iter=2)
    for y in (STARS, STARS * 20):
        said = texts(lambda y=y: search.fit(WHERE, y))
        assert not any("of the values are" in text for text in said)


def test_nothing_is_said_while_a_private_search_runs():
    for model in (right_fit(), of_users(**LEVELS).fit(WHERE, STARS)):
        for call in (model.fold_in, model.score):
            assert not of_scale(lambda c=call: run_reserved(None, c, WHERE, UNRATED))


def test_levels_outside_of_bounds_are_refused():
    for bounds in [(2, 9), (0, 4), (6, 9)]:
        with pytest.raises(ValueError, match="levels must lie within value_bounds"):
            CPCompletion(value_bounds=bounds, **LEVELS).fit(WHERE, STARS)


def test_a_scale_that_was_read_off_the_values_is_not_shown():
    """Its ends are values, of people other than those who are answered."""
    model = CPCompletion(0, epsilon=math.inf).fit(WHERE, np.linspace(1, 4, len(WHERE)))
    with pytest.warns(
        UserWarning, match="are above the scale of the fit, where"
    ) as all_:
        model.score(WHERE, np.full(len(WHERE), 9.0))
    (shown,) = [str(one.message) for one in all_ if "scale" in str(one.message)]
    assert not set("149") & set(shown.replace("100.0%", ""))
