"""What one person passes never decides how the values of others are read.

One text in a list makes text of all numbers beside it, one fraction makes floats of
integers, one double makes doubles of single precision. At every door, an odd value is
refused as malformed or read by itself; where ids and labels pass, it is not even
refused. Folds by ids are in ``model_selection/test_ids.py``.

No false alarms are possible: noise is fixed or not drawn.
"""

import datetime as dt
import math
import warnings
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression

from sktensordp.completion import CPCompletion, Recommender
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    TensorRandomizedResponse,
    estimate_mean,
)
from sktensordp.moments import MultilinearPCA, MultilinearRidge
from sktensordp.moments import MultilinearRidgeClassifier as Classifier
from sktensordp.privacy import PrivacyBudget
from tests.support.noise import drawing
from tests.support.replaying import accounted, recorded
from tests.support.seams import row_score

DAY = dt.datetime(2020, 1, 1)
LARGE = 2**53
CLASSES = {
    "integers": [0, 1],
    "floats": [0.5, 1.0],
    "large": [LARGE, LARGE + 1],
    "beyond int64": [2**63 + 1, 2**70],
    "text": ["0", "1"],
    "bytes": [b"0", b"1"],
    "switches": [False, True],
    "times": [DAY, DAY + dt.timedelta(hours=1)],
}
ODD = [
    "guest", "1", b"1", b"\xff", True, 1, 1.0, 0.5, np.float32(0.1), -7, LARGE + 1,
    float(LARGE), 2**70, np.uint64(2**63 + 1), 1j, Decimal("0.1"), Fraction(1, 3), None,
    math.nan, math.inf, pd.NA, pd.NaT, DAY, DAY.date(), np.datetime64("2020"), {},
    pd.Timestamp("2031-01-01", tz="Asia/Tokyo"), dt.timedelta(1),
    np.timedelta64(1, "s"), UUID(int=5), [1], (1, 2), np.zeros(3), object(),
]  # fmt: skip


def objects(values):
    return np.fromiter(values, dtype=object, count=len(values))


def polars_objects(values):
    return pl.Series(values, dtype=pl.Object)


CONTAINERS = [
    list, tuple, objects, lambda values: pd.Series(objects(values)), polars_objects
]  # fmt: skip
containers = pytest.mark.parametrize("container", CONTAINERS)
RNG = np.random.default_rng(0)
PEOPLE = RNG.standard_normal((120, 2, 2)) / 2
SIDES = (PEOPLE[:, 0, 0] > 0).astype(int)


def labelled(classes, container, odd=()):
    """Labels of all people in a container; that of the first is odd."""
    labels = [classes[side] for side in SIDES]
    return container([*odd, *labels[len(odd) :]])


def fit(classes, y):
    return Classifier(
        (2, 2), epsilon=1.0, norm_bound=1.0, classes=classes, random_state=0
    ).fit(PEOPLE, y)


@pytest.mark.thorough_after_one
@containers
@pytest.mark.parametrize("kind", CLASSES)
def test_one_label_moves_sums_by_what_is_planned(kind, container):
    """Any label, of any type, where none is refused."""
    classes = CLASSES[kind]
    with recorded() as one:
        planned = accounted(
            fit(classes, labelled(classes, container)).privacy_guarantee_
        )
    for odd in ODD:
        with recorded(one) as other:
            fit(classes, labelled(classes, container, [odd]))
        assert one.spent(other)[1] <= planned[1]
        # Its own products with what it was, or is now, and the counts of these.
        ((moved,),) = one.moved(other)
        assert np.count_nonzero(moved) <= 10


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_arrays_of_numbers_are_refused_for_what_is_no_number(bad):
    y = np.where(np.arange(len(SIDES)), SIDES, bad)
    with PrivacyBudget(10, 1e-5) as budget, drawing() as drawn:
        for container in (np.asarray, pd.Series, np.float32):
            with pytest.raises(ValueError, match="NaN or infinity"):
                fit([0, 1], container(y))
    assert (budget.spent, drawn) == (None, [])
    # Fractions and labels that no class has are none.
    for other in (0.5, 9):
        fit([0, 1], np.where(np.arange(len(SIDES)), SIDES, other))


@containers
@pytest.mark.parametrize("kind", CLASSES)
def test_one_label_moves_the_score_of_one_row(kind, container):
    """With the fit held fixed."""
    classes = CLASSES[kind]
    models = [fit(classes, labelled(classes, list))]
    if kind in ("integers", "text", "switches"):
        flat = PEOPLE.reshape(len(PEOPLE), -1)
        models.append(LogisticRegression().fit(flat, labelled(classes, np.asarray)))
    for model in models:
        X = PEOPLE if model is models[0] else flat
        score = row_score("accuracy", None, model)
        right = score.steps(model, X, labelled(classes, container))
        assert right.mean() > 0.8 * 2**20
        for odd in ODD:
            found = score.steps(model, X, labelled(classes, container, [odd]))
            assert_array_equal(found[1:], right[1:])
            if not isinstance(odd, (int, float, str, bytes, np.generic, list, dt.date)):
                assert found[0] == 0


@containers
def test_scores_of_a_classifier_are_those_of_each_label(container):
    model = fit([0, 1], labelled([0, 1], list))
    right = model.score(PEOPLE, labelled([0, 1], container))
    for odd in ODD:
        found = model.score(PEOPLE, labelled([0, 1], container, [odd]))
        assert abs(found - right) <= 1.001 / len(PEOPLE)


# --- numbers

# In a list, one double beside these would make doubles of all.
NUMBERS = [np.float32(0.1 * k) for k in range(1, 10)]
WHERE = [[k, k % 3] for k in range(9)]
ENCODER = TaskAwareEncoder(4.0, task=np.eye(4), random_state=0).fit(
    PEOPLE.reshape(-1, 4)
)


def entries(make):
    def door(values):
        with recorded() as found:
            model = make(values)
        fitted = (np.asarray(f).dtype for f in model.factors_ if f is not None)
        return [found.exact[0][0], *fitted]

    return door


def completion(values):
    model = CPCompletion(1, value_bounds=(0, 1), perturbation="input", random_state=0)
    return model.fit(WHERE, values)


def recommended(values):
    model = CPCompletion(1, value_bounds=(0, 1), perturbation="input", random_state=0)
    return Recommender(model).fit(WHERE, values).completion_


def rows(values):
    """Samples of one entry more than the odd one."""
    return [[value, np.float32(0.5)] for value in values]


def released(make):
    def door(values):
        model = make(epsilon=8.0, bounds=(0, 1), random_state=0)
        found = model.fit(np.zeros((2, 2))).transform(rows(values))
        return [found[:, 0], found.dtype]

    return door


DOORS = {
    "completion": entries(completion),
    "recommender": entries(recommended),
    "clients": lambda values: [
        (found := CPCompletion(value_bounds=(0, 1)).client(0).privatize(values)),
        found.dtype,
    ],
    "targets": lambda values: [
        MultilinearRidge()._checked_targets(np.zeros((9, 2)), values)
    ],
    "laplace": released(LaplaceMechanism),
    "gaussian": released(GaussianMechanism),
    "responses": released(
        lambda **params: TensorRandomizedResponse(n_levels=5, **params)
    ),
    "samples of a regression": lambda values: [
        MultilinearPCA(tensor_shape=(1, 2))._rows(rows(values))[0][:, 0]
    ],
    "encoder": lambda values: [
        ENCODER.client(0).privatize([[v, 0.0, 0.0, 0.0] for v in values])[:, 0]
    ],
}


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("container", [list, tuple, objects])
def test_one_number_is_read_by_itself(door, container):
    read = DOORS[door]
    expected, *types = read(container(NUMBERS))
    n_read = 0
    messages = ""
    for odd in [*ODD, "0.5", b"0.5", 0.25, 10**400]:
        values = container([odd, *NUMBERS[1:]])
        try:
            found, *others = read(values)
        except (TypeError, ValueError) as error:
            messages += str(error)
            continue
        n_read += 1
        assert_array_equal(found[1:], expected[1:])
        assert found.dtype == expected.dtype
        assert others == types
    assert n_read > 8
    assert "0xff" not in messages


@pytest.mark.parametrize("container", [list, tuple, objects])
def test_means_are_those_of_each_number(container):
    for odd in ODD:
        values = [odd, *NUMBERS[1:]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = estimate_mean(container([[value] for value in values]))
            except (TypeError, ValueError):
                continue
        expected = estimate_mean(np.array([[float(value)] for value in values]))
        assert_array_equal(found.mean, expected.mean)
