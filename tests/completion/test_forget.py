"""`forget` drops the rows of those who are named, and refuses what names nobody."""

import numpy as np
import pytest

from sktensordp.completion import CPCompletion, ImplicitCompletion

X = np.array([[0, 0], [0, 1], [1, 1], [1, 2], [2, 0], [2, 2]])
Y = [1.0, 2.0, 5.0, 5.0, 2.0, 1.0]
MODELS = {
    "values": lambda: CPCompletion(
        0, epsilon=20.0, levels=[1, 2, 3, 4, 5], personal=True, random_state=0
    ).fit(X, Y),
    "choices": lambda: ImplicitCompletion(epsilon=np.inf, shape=(3, 3)).fit(X),
}
model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


@model
@pytest.mark.parametrize(
    ("units", "message"),
    [
        ([1.7], "must be integers"),
        ([True], "holds booleans"),
        (["user-7"], "must hold numbers"),
        ([-3], "only -1 stands for an unknown index"),
        ([2**40], "must be below"),
        ([[0, 1]], "one id or index, or a list"),
        (None, "NaN"),
    ],
)
def test_what_names_nobody_is_refused_and_forgets_nobody(make, units, message):
    fitted = make()
    before = fitted.recommend([0, 1, 2], k=3)
    with pytest.raises(ValueError, match=message) as refused:
        fitted.forget(units)
    assert "user-7" not in str(refused.value)
    np.testing.assert_array_equal(fitted.recommend([0, 1, 2], k=3), before)


@model
@pytest.mark.parametrize("units", [1, [1], np.array([1.0]), [1, -1, 99]])
def test_who_is_named_is_forgotten(make, units):
    fitted, asked = make(), np.array([[0, 2], [1, 0], [2, 1]])
    before = fitted.predict(asked)
    assert fitted.forget(units) is fitted
    after = fitted.predict(asked)
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])
    assert after[1] != before[1]
