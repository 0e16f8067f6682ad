"""Whatever the parameters, the data and the budget: a model, or a refusal for free.

Every case is a combination of parameters and of a small data set. `fit` either returns
a model whose predictions are finite and within the bounds, and spends what it states,
or it refuses before the budget is asked. A refusal follows from the parameters alone:
other data are refused, too. NumPy's warnings are errors here.
"""

import itertools
import math
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.exceptions import AveragesOnlyWarning
from sktensordp.privacy import PrivacyBudget
from tests.support.tensors import dense_of, everywhere

pytestmark = pytest.mark.thorough
FEATURES = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.5, 0.2], [1.0, 0.0]])
# What is randomised, what is protected, and whether neighbours are tied.
WAYS = [
    *itertools.product(("auto", "input"), ("entry",), (True, False)),
    *itertools.product(
        ("gradient", "output", "statistics", "sums"), ("entry",), (False,)
    ),
    *itertools.product(("auto", "statistics", "sums"), (0,), (False,)),
    ("statistics", 1, False),
]
AXES = {
    "form": [CPCompletion, TuckerCompletion],
    "rank": [0, 1, 2, 3],
    "biases": [True, False],
    "n_pattern_components": ["auto", 0, 2],
    "features": [False, True],
    "epsilon": [1e-3, 0.1, 1.0, 10.0, 1e4, 1e6, math.inf],
    "way": WAYS,
    "shape": [(5, 4), (5, 4, 3), (1, 4), (5, 1), (4, 3, 1)],
    "scale": [{"levels": [1, 2, 3, 4, 5]}, {"value_bounds": (1, 5)}],
    "data": ["many", "few", "one row", "one column", "one", "none", "equal values"],
    "dense": [False, True],
}
N_CASES = math.prod(map(len, AXES.values()))


def case_of(number):
    """The combination with this number."""
    case = {}
    for name, values in AXES.items():
        number, place = divmod(number, len(values))
        case[name] = values[place]
    return case


def data_of(kind, shape):
    """Coordinates, no two of them the same, and values."""
    generator = np.random.default_rng(1)
    X = generator.permutation(np.argwhere(np.ones(shape)))
    kept = {"few": 3, "one": 1, "none": 0}.get(kind, len(X) // 2)
    X = X[:kept]
    if kind == "one row":
        X = X[X[:, 0] == X[0, 0]]
    if kind == "one column":
        X = X[X[:, 1] == X[0, 1]]
    values = generator.integers(1, 6, len(X)).astype(float)
    return X, np.full(len(X), 2.0) if kind == "equal values" else values


def completion(case):
    shape = case["shape"]
    perturbation, unit, is_smooth = case["way"]
    of = 0 if unit == 1 else 1
    features = FEATURES[np.arange(shape[of]) % len(FEATURES)]
    return case["form"](
        case["rank"],
        epsilon=case["epsilon"],
        delta=1e-6,
        perturbation=perturbation,
        unit=unit,
        shape=shape,
        side_information={of: features} if case["features"] else None,
        biases=case["biases"],
        n_pattern_components=case["n_pattern_components"],
        smooth_modes=[len(shape) - 1] if is_smooth else None,
        max_iter=4,
        random_state=0,
        **case["scale"],
    )


def arguments_of(kind, case):
    X, y = data_of(kind, case["shape"])
    if not case["dense"]:
        return X, y
    return (dense_of(X, y, case["shape"]),)


def fitted(kind, case):
    """The fitted model, or the message of a refusal, which has cost nothing."""
    model = completion(case)
    with PrivacyBudget(math.inf, 0.5) as budget:
        try:
            model.fit(*arguments_of(kind, case))
        except ValueError as refusal:
            assert budget.spent is None or budget.spent.epsilon == 0, case
            return str(refusal)
    return model


def check(case):
    found = fitted(case["data"], case)
    if isinstance(found, str):
        is_public = case["data"] == "none" and case["way"][1] == "entry"
        assert is_public or fitted("many", case) == found, found
        return
    shape = case["shape"]
    predicted = found.predict(everywhere(shape))
    assert np.all((predicted >= 1) & (predicted <= 5)), case
    if case["way"][1] != 1:
        assert found.recommend([-1, 0], k=2).shape == (2, min(2, shape[1]))
    if case["dense"]:
        assert np.all(np.isfinite(found.transform(np.empty(shape)))), case


@contextmanager
def strict():
    """Warnings are errors, but for those that fits give on purpose.

    Cases combine parameters of which their perturbation uses only some.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", AveragesOnlyWarning)
        warnings.filterwarnings("ignore", "perturbation=.* does not use", UserWarning)
        warnings.filterwarnings("ignore", "The declared scale, .* as wide", UserWarning)
        yield


def walk(numbers):
    with strict():
        for number in numbers:
            check(case_of(number))


def sample(n_cases, seed):
    """Numbers of so many combinations, drawn without replacement."""
    generator = np.random.default_rng(seed)
    return generator.choice(N_CASES, n_cases, replace=False).tolist()


def test_some_combinations_end_in_a_model_or_a_refusal():
    walk(sample(150, seed=0))


@pytest.mark.slow
def test_many_combinations_end_in_a_model_or_a_refusal(pytestconfig):
    """All 1,128,960 would take half a day."""
    walk(sample(1250 * pytestconfig.getoption("--soak"), seed=1))


@pytest.mark.parametrize("epsilon", [0.001, 0.1])
def test_where_nothing_is_left_to_fit_the_model_is_the_mean(epsilon):
    """Without biases, with all terms switched off: the mean of what was released."""
    generator = np.random.default_rng(0)
    X = np.argwhere(generator.random((60, 30)) < 0.5)
    model = CPCompletion(
        2,
        epsilon=epsilon,
        value_bounds=(1, 5),
        shape=(60, 30),
        biases=False,
        perturbation="input",
        random_state=0,
    ).fit(X, generator.integers(1, 6, len(X)).astype(float))
    predicted = model.predict([[0, 0], [3, 4], [-1, 7], [-1, -1]])
    assert_allclose(predicted, model.offset_, atol=1e-6)


@pytest.mark.parametrize("epsilon", [1e4, 1e6])
def test_a_choice_at_large_epsilons_divides_nothing_by_zero(epsilon):
    """The discrete noise of sums has a variance of zero there, and so have rows."""
    model = CPCompletion(
        epsilon=epsilon, levels=[1, 2, 3, 4, 5], shape=(6, 5), random_state=0
    )
    with strict():
        model.fit([[0, 1], [2, 3]], [2.0, 4.0])
    assert model.predict([[5, 0]]).shape == (1,)
