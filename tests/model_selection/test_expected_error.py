"""Expected errors are those that are measured, and depend on what the pages say."""

import math
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.metrics import root_mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
)
from sktensordp.datasets import make_ratings
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import (
    GaussianMechanism,
    HybridMechanism,
    IndependentDirectionalNoise,
    LaplaceMechanism,
    MatrixGaussian,
    MatrixMechanism,
    PrivUnit,
    TensorRandomizedResponse,
    TensorVariateGaussian,
    UnimodalDirectionalNoise,
)
from sktensordp.model_selection import (
    PrivateSearchCV,
    UserHoldout,
    UserKFold,
    epsilon_needed,
    expected_error,
)
from sktensordp.papers import (
    BiScaler,
    MatrixVariateGaussian,
    PrivacyAgnosticEncoder,
    PublishedCPCompletion,
)
from sktensordp.plotting import ExpectedErrorDisplay
from sktensordp.privacy import epsilon_per_release, gaussian_sigma, planned_guarantee
from tests.support.seams import _shares

pytestmark = pytest.mark.thorough
DOC = Path(__file__).parents[2] / "doc"
SHAPE = (3, 4)
BOX = {"bounds": (0, 1), "random_state": 0}
WEIGHTS = np.array([1.0, 0.5, 0.25])
MECHANISMS = {
    "Laplace": LaplaceMechanism(**BOX),
    "Laplace in a ball": LaplaceMechanism(norm_bound=1.0, random_state=0),
    "Gaussian": GaussianMechanism(**BOX),
    "TVG": TensorVariateGaussian(utility=[WEIGHTS, None], **BOX),
    "MGM": MatrixGaussian(utility=[WEIGHTS, None], **BOX),
    "UDN": UnimodalDirectionalNoise(utility=WEIGHTS, **BOX),
    "IDN": IndependentDirectionalNoise(utility=WEIGHTS, **BOX),
    "MVG": MatrixVariateGaussian(**BOX),
    "response": TensorRandomizedResponse(n_levels=2, **BOX),
    "hybrid": HybridMechanism(**BOX),
    "PrivUnit": PrivUnit(**BOX),
    "matrix mechanism": MatrixMechanism(random_state=0),
}
LEVELS = np.arange(0.5, 5.1, 0.5)


def shape_of(name):
    return SHAPE[:1] if name == "matrix mechanism" else SHAPE


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_have_the_error_of_a_fit_and_no_value_is_read(name):
    """The tests of mechanisms measure that of a fit. Values may be such as none takes.

    They are in as many samples as one likes.
    """
    mechanism, shape = MECHANISMS[name], shape_of(name)
    zeros, epsilons = np.zeros((1, *shape)), [0.02, 1.0, 2.0, 30.0, math.inf]
    found = expected_error(mechanism, zeros, epsilons=epsilons)
    assert_array_equal(found.epsilons, epsilons)
    assert found.what == "largest expected squared error of a sample"
    nothing = np.full((5, *shape), np.nan)
    unread = expected_error(mechanism, nothing, epsilons=epsilons)
    assert_array_equal(unread.errors, found.errors)
    assert not hasattr(mechanism, "sample_shape_")
    assert mechanism.epsilon == 1.0
    fitted = clone(mechanism).set_params(epsilon=2.0).fit(zeros)
    assert_array_equal(found.errors[[2, 4]], [fitted.expected_squared_error_, 0])
    assert np.all(np.isfinite(found.errors))
    assert np.all(found.errors[:-1] > 0)
    assert np.all(found.errors[1:] <= found.errors[:-1] * (1 + 1e-9))


@pytest.mark.parametrize(
    "estimator",
    [
        LaplaceMechanism(),
        HybridMechanism(),
        CPCompletion(2),
        CPCompletion(2, unit=0, shape=(5, 5)),
    ],
)
def test_an_undeclared_domain_is_refused(estimator):
    """Where epsilon is infinite, too; no message shows a value."""
    X = np.full((4, 3, 3), 7) if hasattr(estimator, "transform") else [[1, 1], [2, 2]]
    for epsilons in ([1.0], [math.inf]):
        with pytest.raises(ValueError, match="not declared"):
            expected_error(estimator, X, epsilons=epsilons)


@pytest.mark.parametrize(
    ("estimator", "error"),
    [
        (make_pipeline(StandardScaler(), LaplaceMechanism(**BOX)), TypeError),
        (StandardScaler(), TypeError),
        (BiScaler(1.0), TypeError),
        (LaplaceMechanism(bounds=(1, 0)), ValueError),
        (CPCompletion(2, levels=LEVELS, perturbation="gradient"), ValueError),
        (CPCompletion(2, levels=LEVELS, perturbation="output"), ValueError),
        (PublishedCPCompletion(2, value_bounds=(1, 5)), ValueError),
        (CPCompletion(2, levels=LEVELS, biases=False), ValueError),
        (CPCompletion(2, levels=LEVELS, smooth_modes=[1]), ValueError),
        (CPCompletion(2, levels=LEVELS, perturbation="statistics",
                      n_pattern_components=0), ValueError),
        (CPCompletion(2, levels=LEVELS, unit=0), ValueError),
        (CPCompletion(2, levels=LEVELS, unit=0, shape=(5, 5, 5)), ValueError),
        (CPCompletion(2, levels=LEVELS, unit=0, shape=(5, 5), perturbation="input"),
         ValueError),
        (CPCompletion(-1, levels=LEVELS), ValueError),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(estimator, error):
    with pytest.raises(error):
        expected_error(estimator, [[0, 1], [1, 0], [3, 3]], epsilons=[1.0])


@pytest.mark.parametrize("epsilons", [1.0, [0.0], [-1.0, 1.0], [np.nan]])
def test_epsilons_are_checked(epsilons):
    with pytest.raises(ValueError, match="positive"):
        expected_error(LaplaceMechanism(**BOX), np.zeros((1, 2)), epsilons=epsilons)


def test_encoders_have_the_loss_of_their_fit():
    X, y = load_wine(return_X_y=True)
    epsilons = [1.0, 4.0, math.inf]
    for encoder in (TaskAwareEncoder(), PrivacyAgnosticEncoder(n_components=1)):
        found = expected_error(encoder, X, y, epsilons=epsilons)
        fits = [clone(encoder).set_params(epsilon=e).fit(X, y) for e in epsilons]
        assert_array_equal(
            found.errors, [f.expected_task_loss_ / f.task_variance_ for f in fits]
        )
        assert 1 > found.errors[0] > found.errors[1] > found.errors[2]
    assert found.what == "expected task loss, as a share of the task's variance"


@pytest.fixture(scope="module")
def ratings():
    return make_ratings(400, 600, 40_000, rank=3, random_state=5)


def measured(model, ratings):
    test = np.random.default_rng(0).random(len(ratings.target)) < 0.1
    model.fit(ratings.data[~test], ratings.target[~test])
    return root_mean_squared_error(
        ratings.target[test], model.predict(ratings.data[test])
    )


COMPLETIONS = {
    "auto": (CPCompletion, {}),
    "input": (CPCompletion, {"perturbation": "input"}),
    "sums": (CPCompletion, {"perturbation": "sums"}),
    "statistics": (CPCompletion, {"perturbation": "statistics"}),
    "biases": (CPCompletion, {"rank": 0}),
    "Tucker": (TuckerCompletion, {}),
    "users": (CPCompletion, {"unit": 0, "delta": 1e-5}),
    "users, sums": (CPCompletion, {"unit": 0, "delta": 1e-5, "perturbation": "sums"}),
}


def completion(name, ratings):
    kind, options = COMPLETIONS[name]
    return kind(**{"rank": 3, "levels": ratings.levels, "shape": ratings.shape,
                   "random_state": 0, **options})  # fmt: skip


FIRST = ["auto", "users"]
LATER = [pytest.param(n, marks=pytest.mark.slow) for n in COMPLETIONS if n not in FIRST]


@pytest.mark.parametrize("name", FIRST + LATER)
def test_completions_have_about_the_error_that_is_expected(name, ratings):
    """Within 8%, on ratings that the expectation was not made on."""
    model, epsilons = completion(name, ratings), [0.5, 8.0]
    found = expected_error(model, ratings.data, epsilons=epsilons)
    truth = [measured(clone(model).set_params(epsilon=e), ratings) for e in epsilons]
    assert_allclose(found.errors, truth, rtol=0.08)
    assert found.what == "expected RMSE, in units of the values"


@pytest.mark.parametrize("name", FIRST + LATER)
def test_errors_of_completions_fall_with_epsilon(name, ratings):
    model, epsilons = completion(name, ratings), [*np.geomspace(0.05, 60, 12), math.inf]
    errors = expected_error(model, ratings.data, epsilons=epsilons).errors
    assert np.all(errors[1:] <= errors[:-1] * (1 + 1e-6))
    # With a budget of next to nothing, that of the mean.
    assert errors[0] < math.sqrt(0.22) * 2.25
    assert errors[0] > 0.9 * math.sqrt(0.22) * 2.25


def test_scale_and_variance_are_those_that_are_declared(ratings):
    def error(**domain):
        model = CPCompletion(3, shape=ratings.shape, **domain)
        return expected_error(model, ratings.data, epsilons=[2.0]).errors[0]

    narrow = error(value_bounds=(0, 1))
    assert_allclose(error(value_bounds=(-3, 7)), 10 * narrow, rtol=1e-6)
    # Levels that are known to be far apart, and some that are hardly ever left.
    wide = error(levels=[1, 2, 3, 4, 5], level_prior=[0.4, 0.1, 0, 0.1, 0.4])
    same = error(levels=[1, 2, 3, 4, 5], level_prior=[0.02, 0.06, 0.84, 0.06, 0.02])
    assert same < 0.7 * error(levels=[1, 2, 3, 4, 5]) < 0.7 * wide


def test_auto_for_users_is_expected_to_choose_as_it_does():
    ratings = make_ratings(600, 200, 12_000, rank=3, random_state=0)
    model = CPCompletion(
        3, unit=0, delta=1e-5, shape=ratings.shape, levels=ratings.levels,
        random_state=0,
    )  # fmt: skip
    chosen = []
    for epsilon in (0.5, 1.0, 4.0, 8.0, 16.0):
        fitted = clone(model).set_params(epsilon=epsilon)
        chosen.append(fitted.fit(ratings.data, ratings.target).perturbation_)
        auto, taken = (
            expected_error(
                clone(model).set_params(perturbation=name), ratings.data,
                epsilons=[epsilon],
            ).errors
            for name in ("auto", chosen[-1])
        )  # fmt: skip
        assert_array_equal(auto, taken)
    found = expected_error(model, ratings.data, epsilons=[0.5, 1.0, 4.0, 8.0, 16.0])
    assert found.perturbations == tuple(chosen)
    assert "At epsilon 0.5, 1, averages alone are expected" in found.assumptions
    assert found._repr_html_().count("statistics") == 3
    features = {1: np.eye(ratings.shape[1])[:, :2]}
    informed = clone(model).set_params(side_information=features)
    informed = expected_error(informed, ratings.data, epsilons=[0.5])
    assert informed.perturbations == ("sums",)
    assert "averages" not in informed.assumptions
    assert chosen == 2 * ["sums"] + 3 * ["statistics"]


# Users, items, training ratings, delta and epsilon of `make_ratings`, and errors of
# "sums" and "statistics" on a twentieth that was held out.
MEASURED = [
    (50_000, 5_000, 1_900_000, 1e-8, 1.88, 0.905, 0.872),
    (50_000, 5_000, 1_900_000, 1e-8, 1.01, 0.909, 0.896),
    (5_000, 2_000, 237_500, 1e-6, 1.0, 0.934, 0.953),
    (5_000, 2_000, 237_500, 1e-6, 8.0, 0.909, 0.875),
    (3_000, 500, 142_500, 1e-6, 2.0, 0.905, 0.881),
    (3_000, 500, 142_500, 1e-6, 6.0, 0.903, 0.829),
    (6_000, 400, 114_000, 1e-6, 5.0, 0.945, 0.889),
    (3_000, 1_500, 57_000, 1e-6, 4.0, 0.933, 0.940),
    (500, 1_000, 38_000, 1e-6, 8.0, 0.950, 0.944),
    (2_000, 1_000, 95_000, 1e-6, 8.0, 0.914, 0.903),
]


@pytest.mark.parametrize("point", MEASURED)
def test_auto_for_users_is_expected_to_take_about_the_better_one(point):
    """And errors are those of fits, whatever the numbers of users and items."""
    n_users, n_items, n, delta, epsilon, *measured = point
    errors = {
        name: expected_error(
            CPCompletion(
                unit=0, delta=delta, levels=LEVELS, shape=(n_users, n_items),
                perturbation=name,
            ),
            np.broadcast_to(0.0, (n, 2)), epsilons=[epsilon],
        ).errors[0]
        for name in ("sums", "statistics", "auto")
    }  # fmt: skip
    found = [errors["sums"], errors["statistics"]]
    assert_allclose(found, measured, rtol=0.055)
    assert errors["auto"] in found
    taken = measured[found.index(errors["auto"])]
    assert taken <= 1.01 * min(measured)


@pytest.mark.slow
def test_auto_for_users_takes_about_the_better_one():
    for *sizes, epsilon in (
        (3_000, 500, 150_000, 2.0), (3_000, 1_500, 60_000, 4.0),
        (1_000, 300, 40_000, 16.0), (2_000, 1_000, 60_000, 8.0),
    ):  # fmt: skip
        made, errors = make_ratings(*sizes, random_state=11), {}
        for name in ("sums", "statistics", "auto"):
            model = CPCompletion(
                unit=0, delta=1e-6, levels=made.levels, shape=made.shape,
                epsilon=epsilon, perturbation=name, random_state=0,
            )  # fmt: skip
            errors[name] = measured(model, made)
        assert errors["auto"] in (errors["sums"], errors["statistics"])
        assert errors["auto"] <= 1.01 * min(errors.values())


def test_what_auto_is_expected_to_take_for_single_entries_is_what_it_takes(ratings):
    model, epsilons = completion("auto", ratings), [0.3, 1.0, 8.0, math.inf]
    found = expected_error(model, ratings.data, epsilons=epsilons)
    for epsilon, name in zip(epsilons, found.perturbations, strict=True):
        fitted = clone(model).set_params(epsilon=epsilon)
        assert fitted.fit(ratings.data, ratings.target).perturbation_ == name
    assert found.perturbations[0] == "sums" != found.perturbations[-1] == "input"
    assert "At epsilon 0.3" in found.assumptions
    assert "everybody gets nearly the same ranking" in found.assumptions
    of_input = completion("input", ratings)
    found = expected_error(of_input, ratings.data, epsilons=epsilons)
    assert found.perturbations == ("input",) * 4
    assert found.assumptions == ""
    of_noise = expected_error(LaplaceMechanism(**BOX), np.zeros((1, 2)), epsilons=[1])
    assert of_noise.perturbations == ()


def test_a_pattern_that_is_expected_is_more_than_averages():
    """Of many users, who learn which items others have together."""
    options = {"unit": 0, "levels": LEVELS, "shape": (300_000, 500), "delta": 1e-8}
    rows, found = np.broadcast_to(0.0, (3_000_000, 2)), []
    for most in ("auto", 0):
        model = CPCompletion(perturbation="sums", n_pattern_components=most, **options)
        found.append(expected_error(model, rows, epsilons=[0.1, 1.0]).assumptions)
    assert "At epsilon 0.1, averages" in found[0]
    assert "At epsilon 0.1, 1, averages" in found[1]


@pytest.mark.parametrize("unit", ["entry", 0, 1])
def test_the_trust_that_is_supposed_is_said(unit):
    model = CPCompletion(2, unit=unit, shape=(50, 40), levels=LEVELS)
    rows = np.zeros((200, 2), dtype=int)
    assumptions = expected_error(model, rows, epsilons=[1.0]).assumptions
    assert ("without noise" in assumptions) == (unit != "entry")


@pytest.mark.parametrize("n_entries", [500, 3000, 5000])
def test_rows_have_the_entries_of_distinct_cells(n_entries):
    """As in a simulation, where the rows of the other mode have equal chances."""
    shape, mode = (60, 100), 1
    found = n_entries * _shares(shape, n_entries, mode)
    assert_allclose(found.sum(), n_entries)
    assert np.all((found > 0) & (found <= shape[0] * (1 + 1e-9)))
    rng = np.random.default_rng(0)
    weights = np.arange(1, shape[mode] + 1.0) ** -0.8
    cells = np.zeros(shape, dtype=bool)
    while cells.sum() < n_entries:
        n = n_entries - cells.sum()
        drawn = rng.choice(shape[mode], n, p=weights / weights.sum())
        cells[rng.integers(0, shape[0], n), drawn] = True
    assert_allclose(found, cells.sum(axis=0), atol=5 * math.sqrt(shape[0] / 4))
    assert np.corrcoef(found, cells.sum(axis=0))[0, 1] > 0.9


def test_a_full_tensor_has_the_same_entries_in_all_rows():
    assert_array_equal(_shares((3, 4), 12, 1), np.full(4, 0.25))
    assert_array_equal(_shares((3, 4), 50, 0), np.full(3, 1 / 3))


def test_users_are_known_by_their_number_alone():
    """Not by who rated what, which is private where a user is protected."""
    rng = np.random.default_rng(0)
    model = CPCompletion(2, unit=0, shape=(50, 40), levels=LEVELS)
    rows = rng.integers(0, 40, (3000, 2))
    found = [
        expected_error(model, X, epsilons=[1.0, 8.0]).errors
        for X in (rows, np.zeros((3000, 2)), np.full((3000, 2), np.nan))
    ]
    assert_array_equal(found[0], found[1])
    assert_array_equal(found[0], found[2])
    assert np.all(expected_error(model, rows[:500], epsilons=[1.0, 8.0]).errors
                  > found[0])  # fmt: skip


@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
def test_users_who_are_expected_count_and_not_the_room_for_them(kind):
    rows, options = np.zeros((3000, 2)), {"epsilons": [0.1, 1.0, 8.0]}
    known = expected_error(
        kind(2, unit=0, shape=(50, 40), levels=LEVELS), rows, **options
    )
    wide = kind(2, unit=0, shape=(2**31 - 2, 40), levels=LEVELS)
    expected = expected_error(wide, rows, n_users=50, **options).errors
    assert_allclose(expected, known.errors, rtol=1e-3)
    recommender = Recommender(
        kind(2, unit=0, levels=LEVELS),
        CoordinateEncoder(categories=[None, range(40)]),
    )
    for table in (rows, [["ann", 3]] * 3000, np.full((3000, 2), "bob")):
        found = expected_error(recommender, table, n_users=50, **options)
        assert_array_equal(found.errors, expected)
        assert found.assumptions == known.assumptions
    epsilon = epsilon_needed(recommender, rows, error=expected[1], n_users=50)
    assert epsilon == pytest.approx(1.0, rel=2e-3)
    household = expected_error(recommender, rows, group=4, n_users=50, **options)
    assert np.all(household.unit_epsilons < household.epsilons)
    # As many users as rows, of whom little is known, have the error of averages.
    assert expected_error(wide, rows, **options).errors[-1] > expected[-1] + 0.05
    display = ExpectedErrorDisplay.from_estimator(
        {"ids": recommender, "indices": wide}, rows, n_users=50, **options
    )
    for curve in display.curves.values():
        assert_array_equal(curve.errors, expected)


def test_what_room_for_users_costs_in_memory():
    """Nothing: neither a fit nor what is asked before it makes an array of its size."""
    recommender = Recommender(
        CPCompletion(0, unit=0, levels=LEVELS),
        CoordinateEncoder(categories=[None, range(40)]),
    )
    X = np.random.default_rng(0).integers(0, 40, (400, 2))
    y = np.ones(400)
    tracemalloc.start()
    try:
        recommender.fit(X, y).recommend(3)
        ImplicitCompletion(shape=(2**31 - 2, 40)).fit(X).recommend(3)
        for cv in (None, UserKFold(2), UserHoldout()):
            PrivateSearchCV(
                recommender, {"completion__rank": [0]}, n_iter=2, cv=cv
            ).fit(X, y)
        expected_error(recommender, X, epsilons=[1.0], n_users=10)
        expected_error(recommender.completion_, X, epsilons=[1.0])
        planned_guarantee(recommender)
        epsilon_per_release(4.0, 1e-6, 12, recommender)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**28  # one bit for each row


@pytest.mark.parametrize(
    ("estimator", "n_users", "error", "message"),
    [
        (CPCompletion(2, levels=LEVELS), 5, ValueError, "`unit` is not a mode"),
        (LaplaceMechanism(**BOX), 5, ValueError, "`unit` is not a mode"),
        (CPCompletion(unit=0, levels=LEVELS, shape=(5, 5)), 0, ValueError, "from 1"),
        (CPCompletion(unit=0, levels=LEVELS, shape=(5, 5)), 2.5, ValueError, "from 1"),
        (
            Recommender(
                CPCompletion(2, levels=LEVELS, unit=0),
                CoordinateEncoder(categories=[None, range(5)]),
            ),
            None, ValueError, "Pass n_users",
        ),
        (Recommender(CPCompletion(2, levels=LEVELS)), None, TypeError, "encode ids"),
    ],
)  # fmt: skip
def test_a_number_of_users_that_does_not_fit(estimator, n_users, error, message):
    with pytest.raises(error, match=message):
        expected_error(estimator, np.zeros((9, 2)), epsilons=[1.0], n_users=n_users)


# What an answer depends on, by changes of one thing at a time


def changed_mechanism():
    X = np.zeros((2, 3, 4))
    return (X, None), {
        "the shape of a row of `X`": (np.zeros((2, 3, 5)), None),
        "the number of rows of `X`": (np.zeros((7, 3, 4)), None),
        "the numbers in `X`": (np.full_like(X, 0.7), None),
        "`y`": (X, np.ones(2)),
    }


def changed_encoder():
    X, y = load_wine(return_X_y=True)
    other = X.copy()
    # Another person in one row; means, variances and all else follow.
    other[0] = other[1]
    return (X, y), {
        "the shape of a row of `X`": (X[:, 1:], y),
        "the number of rows of `X`": (X[1:], y[1:]),
        "the numbers in `X`": (other, y),
        "`y`": (X, y[::-1]),
    }


def changed_coordinates():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, (60, 2))
    X[:2] = [[0, 0], [8, 8]]  # So that the others have the same shape.
    other = X.copy()
    other[2:, 0] = np.sort(rng.integers(0, 3, 58))
    wider = np.column_stack([X, rng.integers(0, 9, 60)])
    return (X, None), {
        "the shape of a row of `X`": (wider, None),
        "the number of rows of `X`": (np.vstack([X, X[:1]]), None),
        "the numbers in `X`": (other, None),
        "`y`": (X, rng.normal(size=60)),
    }


CHANGES = {
    "a mechanism": (
        [LaplaceMechanism(**BOX), HybridMechanism(**BOX), GaussianMechanism(**BOX)],
        changed_mechanism,
    ),
    "an encoder": (
        [TaskAwareEncoder(), PrivacyAgnosticEncoder(n_components=1)], changed_encoder,
    ),
    'a completion, `unit="entry"`': (
        [CPCompletion(2, levels=LEVELS), TuckerCompletion(2, levels=LEVELS)],
        changed_coordinates,
    ),
    "a completion or recommender, `unit=0` or another mode": (
        [CPCompletion(2, levels=LEVELS, unit=unit, shape=(9, 9)) for unit in (0, 1)],
        changed_coordinates,
    ),
}  # fmt: skip


def depends_on(estimator, changes):
    """Names of the changes that change the expected error."""
    data, others = changes()
    error = expected_error(estimator, *data, epsilons=[2.0]).errors[0]
    found = set()
    for name, other in others.items():
        try:
            if expected_error(estimator, *other, epsilons=[2.0]).errors[0] != error:
                found.add(name)
        except ValueError as refused:
            # It must be as it was declared, which says nothing of the data.
            if "shape" not in str(refused):
                raise
    return found


# What a change changes, in the words of the page.
READ = {
    "the shape of a sample": {"the shape of a row of `X`"},
    "the coordinates, which are public there, and not `y`": {
        "the shape of a row of `X`",
        "the number of rows of `X`",
        "the numbers in `X`",
    },
    "the number of entries, which is private there, and `n_users`": {
        "the number of rows of `X`"
    },
    "all of `X`, and `y` if it learns its task from that": {
        "the shape of a row of `X`",
        "the number of rows of `X`",
        "the numbers in `X`",
        "`y`",
    },
}


@pytest.mark.parametrize("kind", CHANGES)
def test_the_page_says_what_an_answer_depends_on(kind):
    page = (DOC / "choosing_epsilon.md").read_text()
    read = re.search(rf"^\| {re.escape(kind)} \| (.*?) \|", page, re.MULTILINE)[1]
    estimators, changes = CHANGES[kind]
    for estimator in estimators:
        assert depends_on(estimator, changes) == READ[read]


def test_an_answer_is_said_to_be_as_private_as_the_data():
    page = (DOC / "threat_model.md").read_text()
    said = re.search(
        r"^(.*?) spend no\s+budget .*?\n\n", page, re.DOTALL | re.MULTILINE
    )
    assert "as private as the data" in said[0]
    for function in (expected_error, epsilon_needed):
        assert function.__name__ in said[1]


def assert_least(estimator, data, error):
    epsilon = epsilon_needed(estimator, *data, error=error)
    at = expected_error(estimator, *data, epsilons=[epsilon, 0.99 * epsilon]).errors
    assert at[0] <= error < at[1]


def test_the_epsilon_that_is_needed_is_the_least():
    zeros = np.zeros((1, 2, 2))
    assert_least(LaplaceMechanism(**BOX), [zeros], 50.0)
    assert_least(GaussianMechanism(**BOX), [zeros], 3.0)  # and above 1
    assert_least(TaskAwareEncoder(), load_wine(return_X_y=True), 0.5)


@pytest.mark.slow
def test_the_least_epsilon_for_ratings(ratings):
    """From sums to values, where the error does not jump up; and for users."""
    for error in (1.0, 0.9):
        assert_least(CPCompletion(3, levels=ratings.levels), [ratings.data], error)
    users = CPCompletion(5, unit=0, delta=1e-5, shape=(5000, 1000), levels=LEVELS)
    assert_least(users, [np.zeros((225_000, 2))], 0.87)


@pytest.mark.parametrize(
    ("error", "message"),
    [(1e-9, "needs an epsilon above"), (1e12, "Every epsilon"), (0.0, "positive"),
     (math.inf, "positive"), (math.nan, "positive")],
)  # fmt: skip
def test_an_error_out_of_reach_is_refused(error, message):
    with pytest.raises(ValueError, match=message):
        epsilon_needed(LaplaceMechanism(**BOX), np.zeros((1, 2, 2)), error=error)


# Households


@pytest.mark.parametrize(
    ("domain", "growth"),
    [({"bounds": (0, 1)}, math.sqrt(3)), ({"sensitivity": 1.0}, 3.0)],
)
def test_gaussian_noise_for_a_group(domain, growth):
    """Rows that are randomised one by one compose; a query is released once."""
    mechanism = GaussianMechanism(delta=1e-6, **domain)
    zeros = np.zeros((1, 2))
    planned = expected_error(mechanism, zeros, epsilons=[2.0, math.inf], group=3)
    assert_array_equal(planned.epsilons, [2.0, math.inf])
    sigma = gaussian_sigma(
        2.0, 1e-6, growth * (math.sqrt(2) if "bounds" in domain else 1)
    )
    assert_allclose(planned.errors, [2 * sigma**2, 0.0], rtol=1e-3)
    # The epsilon that is passed to the estimator keeps the group's.
    fitted = mechanism.set_params(epsilon=planned.unit_epsilons[0]).fit(zeros)
    of_group = fitted.privacy_guarantee_.for_group(3, local="bounds" in domain)
    assert 2.0 * (1 - 1e-5) <= of_group.epsilon <= 2.0
    needed = epsilon_needed(mechanism, zeros, error=planned.errors[0], group=3)
    assert needed == pytest.approx(2.0, rel=3e-3)


@pytest.mark.parametrize("unit", ["entry", 0])
def test_completions_for_a_household(unit):
    completion = CPCompletion(3, unit=unit, levels=LEVELS, shape=(60, 40))
    X = np.stack(np.unravel_index(np.arange(1200), (60, 40)), axis=1)
    one = expected_error(completion, X, epsilons=[1.0, 4.0])
    four = expected_error(completion, X, epsilons=[4.0], group=4)
    assert_array_equal(one.unit_epsilons, one.epsilons)
    assert four.unit_epsilons[0] <= 1.0 + 1e-9
    assert four.errors[0] >= one.errors[0] * (1 - 1e-9) > one.errors[1]
    if unit == "entry":
        assert_allclose(four.unit_epsilons, [1.0], rtol=1e-5)


@pytest.mark.parametrize("group", [0, -2, 1.5, 2.0, True, "4", None])
def test_refuses_groups(group):
    mechanism, zeros = LaplaceMechanism(bounds=(0, 1)), np.zeros((1, 2))
    with pytest.raises(ValueError, match="group must be an integer of at least 1"):
        expected_error(mechanism, zeros, epsilons=[1.0], group=group)
    with pytest.raises(ValueError, match="group must be an integer of at least 1"):
        epsilon_needed(mechanism, zeros, error=1.0, group=group)
