"""Further mistakes of a first hour, a line each: every one is refused, with a reason.

What no test of a single module passes: parameters of another kind than is meant, and
one object in the place of another.
"""

import numpy as np
import pandas as pd
import pytest

from sktensordp.audit import audit_mechanism
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    Recommender,
    make_ranking_scorer,
)
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    TensorRandomizedResponse,
    TensorVariateGaussian,
)
from sktensordp.model_selection import expected_error
from sktensordp.plotting import FactorsDisplay
from sktensordp.privacy import privacy_of
from tests.first_hour.films import SHAPE, TABLE, X, Y, cp

pytestmark = pytest.mark.thorough
ROWS = np.random.default_rng(0).random((50, 4))
BOX = {"bounds": (0, 1)}
TIMES = pd.DataFrame({"when": pd.date_range("2026-01-01", periods=9), "x": 1.0})


# What the user did, the parameters of a completion, and what the error says.
PARAMETERS = {
    "passed one number as shape": ({"shape": 60}, "array-like"),
    "passed epsilon as text": ({"epsilon": "1"}, "must be a float"),
    "passed a list of epsilons": ({"epsilon": [1, 2]}, "must be a float"),
    "switched epsilon on": ({"epsilon": True}, "must be a float"),
    "passed a delta of one": ({"delta": 1.0, "unit": 0}, "in the range [0.0"),
    "switched the unit on": ({"unit": True}, "or an int in the range"),
    "counted modes from one": ({"unit": 2, "shape": SHAPE}, "modes 0 to 1"),
    "passed the number of levels": ({"levels": 5}, "array-like"),
    "wrote the scale as text": ({"levels": "1-5"}, "array-like"),
    "passed the upper bound alone": (
        {"levels": None, "value_bounds": 5}, "array-like",
    ),
    "passed a rank for each mode": ({"rank": (2, 2)}, "'rank' parameter"),
    "named a mode": ({"smooth_modes": "time"}, "array-like"),
}  # fmt: skip
CALLS = {
    "passed y with two columns": (
        lambda: cp().fit(X, np.c_[Y, Y]), "y should be a 1d",
    ),
    "scored without ratings": (lambda: cp().fit(X, Y).score(X), "score needs y"),
    "passed a class": (
        lambda: Recommender(CPCompletion).fit(TABLE, Y), "an instance of",
    ),
    "declared films as text": (
        lambda: CoordinateEncoder(categories=[None, list("abc")]).fit(TABLE),
        "not among categories[1]",
    ),
    "mistyped a score": (lambda: make_ranking_scorer("recal"), "must be one of"),
    "drew a model that is not fitted": (
        lambda: FactorsDisplay.from_estimator(cp()), "not fitted yet",
    ),
    "drew a recommender": (
        lambda: FactorsDisplay.from_estimator(Recommender(cp()).fit(TABLE, Y)),
        "from a Recommender, completion_",
    ),
    "passed a pair of bounds for each of two columns": (
        lambda: LaplaceMechanism(bounds=[(0, 1), (2, 3)]).fit(ROWS[:, :2]),
        "not one pair for each column",
    ),
    "passed a pair of bounds for each of four columns": (
        lambda: LaplaceMechanism(bounds=[(0, 1)] * 4).fit(ROWS), "tuple(zip(*pairs))",
    ),
    "passed one bound": (lambda: LaplaceMechanism(bounds=1).fit(ROWS), "array-like"),
    "left times in a frame": (
        lambda: LaplaceMechanism(**BOX).fit(TIMES), "it holds Timestamp",
    ),
    "asked Gaussian noise for a delta of zero": (
        lambda: GaussianMechanism(delta=0.0, **BOX).fit(ROWS), "(0.0, 1.0)",
    ),
    "passed words to randomised response": (
        lambda: TensorRandomizedResponse(**BOX).fit([["yes"], ["no"]]),
        "X must hold numbers",
    ),
    "passed too few utilities": (
        lambda: TensorVariateGaussian(**BOX, utility=[np.ones(5)]).fit(
            ROWS.reshape(10, 5, 4)
        ),
        "one item for each of the 2 modes",
    ),
    "passed labels of other rows": (
        lambda: TaskAwareEncoder().fit(ROWS, ROWS[:9, 0]), "for each of the 50 samples",
    ),
    "asked for the privacy of a new model": (
        lambda: privacy_of(cp()), "has not been fitted",
    ),
    "asked for the error with raw ids": (
        lambda: expected_error(cp(), TABLE.assign(user="ann"), epsilons=[1]),
        "encode them",
    ),
    "audited one input twice": (
        lambda: audit_mechanism(lambda x: x, [0.0], [0.0]),
        "x and x_neighbour are equal",
    ),
    "audited a number": (
        lambda: audit_mechanism(3, [0.0], [1.0]), "must be a function",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("params", "said"), PARAMETERS.values(), ids=PARAMETERS)
def test_was_told_which_parameter_is_wrong_who(params, said):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        cp(**params).fit(X, Y)
    assert said in str(caught.value)


@pytest.mark.parametrize(("did", "said"), CALLS.values(), ids=CALLS)
def test_was_told_what_to_do_who(did, said):
    with pytest.raises((TypeError, ValueError)) as caught:
        did()
    assert said in str(caught.value)
