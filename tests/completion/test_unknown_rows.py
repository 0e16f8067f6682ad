"""An index without entries is unknown, and not unpopular: it is like the average entry.

Some items, users or contexts are left out of a fit that knows of them by `shape` alone.
Errors on their ratings are compared with those of a mean of raw values. All seeds are
fixed.
"""

import functools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import root_mean_squared_error

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.datasets import make_ratings
from tests.support.tensors import error_on

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore::sktensordp.exceptions.AveragesOnlyWarning"),
]
SHAPE = (200, 300, 12)
# Error allowed, relative to the mean of raw values without privacy.
MOST = 1.03
ENTRIES = ["input", "gradient", "output", "statistics", "sums", "auto"]


@functools.cache
def ratings():
    """Items that many rate are rated higher; coordinates and values."""
    found = make_ratings(*SHAPE[:2], 16_000, random_state=0)
    generator = np.random.default_rng(0)
    contexts = generator.integers(0, SHAPE[2], len(found.target))
    logs = np.log1p(np.bincount(found.data[:, 1], minlength=SHAPE[1]))
    y = found.target + 0.5 * (logs - logs.mean())[found.data[:, 1]] - 0.5
    y += 0.25 * generator.standard_normal(SHAPE[2])[contexts]
    return np.column_stack([found.data, contexts]), np.clip(np.rint(2 * y) / 2, 0.5, 5)


def left_out(case):
    """The mode and the indices that a case leaves out."""
    X, _ = ratings()
    generator = np.random.default_rng(1)
    if case == "popular items":
        best = np.argsort(-np.bincount(X[:, 1]))[:40]
        return 1, generator.choice(best, 8, replace=False)
    mode = ["users", "items", "contexts"].index(case)
    return mode, generator.choice(SHAPE[mode], math.ceil(0.1 * SHAPE[mode]), False)


def ratio(case, form=CPCompletion, **options):
    """Error of a fit on what was left out, over that of a mean of raw values."""
    X, y = ratings()
    mode, indices = left_out(case)
    X = X if case == "contexts" else X[:, :2]
    out = np.isin(X[:, mode], indices)
    own = 1 if mode == 0 else 0
    known = X[~out, own]
    sums = np.bincount(known, y[~out], minlength=SHAPE[own])
    counts = np.bincount(known, minlength=SHAPE[own])
    means = np.where(counts > 0, sums / np.maximum(counts, 1), y[~out].mean())
    options = {"levels": np.arange(0.5, 5.5, 0.5), "random_state": 0} | options
    error = error_on(out, form(shape=SHAPE[: X.shape[1]], **options), X, y)
    return error / root_mean_squared_error(y[out], means[X[out, own]])


CASES = ["items", "popular items", "users", "contexts"]
FITS = {
    "without noise": ({"epsilon": math.inf}, CASES),
    "with noise": ({"epsilon": 4.0}, CASES),
    "Tucker": ({"form": TuckerCompletion, "rank": 3, "epsilon": 4.0}, CASES[:2]),
    "of users": ({"unit": 0, "epsilon": math.inf}, [*CASES[:2], "contexts"]),
}


@pytest.mark.parametrize(
    ("fit", "case"), [(fit, case) for fit in FITS for case in FITS[fit][1]]
)
def test_what_is_unknown_is_predicted_as_well_as_by_a_mean(fit, case):
    assert ratio(case, **FITS[fit][0]) < MOST


# Natural items that few rate are worse than the average item, so a count within its
# noise is some sign of that. Most of the items that are left out here are like the
# average one, and these errors are the price. Those of single fits have a standard
# deviation of .03 (popular items: .06), and the mean one of .006.
@pytest.mark.parametrize(
    ("epsilon", "most"),
    [(1.0, 1.04), (4.0, 1.07), pytest.param(16.0, 1.11, marks=pytest.mark.slow)],
)
def test_a_count_within_its_noise_is_a_weak_sign_of_unpopularity(epsilon, most):
    options = {"unit": 0, "epsilon": epsilon}
    seeds = {"items": range(24), "popular items": range(24, 40)}
    items, popular = (
        np.mean([ratio(case, **options, random_state=s) for s in seeds[case]])
        for case in seeds
    )
    assert 0.75 * items + 0.25 * popular < most


@pytest.mark.parametrize("case", ["items", "popular items"])
def test_the_pattern_does_no_harm_under_much_noise(case):
    plain = ratio(case, epsilon=1.0, n_pattern_components=0)
    assert ratio(case, epsilon=1.0) < MOST * max(plain, 1.0)


def small_fit(form, **options):
    """Without entries in the last row of every mode, and a row that has few."""
    generator = np.random.default_rng(0)
    X = np.argwhere(generator.random((20, 15, 4)) < 0.4)
    X = X[(X[:, 1] != 1) | (X[:, 0] < 2)]
    y = np.clip(3 + generator.standard_normal(15)[X[:, 1]], 1, 5)
    shape = 21, 16, 5
    return form(2, value_bounds=(1, 5), shape=shape, random_state=0, **options).fit(
        X, y
    )


EMPTY = [20, 15, 4]


@pytest.mark.parametrize("form", [CPCompletion, TuckerCompletion])
@pytest.mark.parametrize("perturbation", ENTRIES)
@pytest.mark.parametrize("epsilon", [4.0, math.inf])
def test_an_index_without_entries_is_an_unknown_index(form, perturbation, epsilon):
    model = small_fit(form, perturbation=perturbation, epsilon=epsilon, max_iter=5)
    for mode, empty in enumerate(EMPTY):
        X = np.tile([3, 4, 1], (2, 1))
        X[:, mode] = empty, -1
        assert_allclose(*model.predict(X), rtol=1e-5)


@pytest.mark.parametrize("perturbation", ["sums", "input"])
def test_declared_features_of_an_index_without_entries_are_known(perturbation):
    """A new item is predicted by what is declared of it."""
    generator = np.random.default_rng(0)
    features = generator.standard_normal((51, 1))
    X = np.argwhere(generator.random((60, 50)) < 0.5)
    y = np.clip(3 + 0.6 * features[X[:, 1], 0], 1, 5)
    for new in (1.0, -1.0):
        features[50] = new
        model = CPCompletion(
            epsilon=math.inf,
            perturbation=perturbation,
            value_bounds=(1, 5),
            shape=(60, 51),
            side_information={1: features},
        ).fit(X, y)
        assert model.predict([[7, 50]]) == pytest.approx(3 + 0.6 * new, abs=0.15)
