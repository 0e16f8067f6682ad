"""Whatever the parameters, the data and the budget: a model, or a refusal for free.

Every case is a combination of parameters and of a small data set. `fit` either returns
a model whose predictions are finite and within the bounds, and spends what it states,
or it refuses before the budget is asked. A refusal follows from the parameters alone:
other data are refused, too. NumPy's warnings are errors here.
"""

import itertools
import math
import warnings

import numpy as np

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.exceptions import AveragesOnlyWarning
from sktensordp.privacy import PrivacyBudget

SHAPES = {2: (5, 4), 3: (5, 4, 3)}
LEVELS = [1.0, 2.0, 3.0, 4.0, 5.0]
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
    "n_modes": [2, 3],
    "scale": ["levels", "value_bounds"],
    "data": ["many", "few", "one row", "one column", "one", "none", "equal values"],
    "dense": [False, True],
}
N_SAMPLED, N_CASES = 250, math.prod(map(len, AXES.values()))


def case_of(number):
    """The combination with this number."""
    case = {}
    for name, values in AXES.items():
        number, place = divmod(number, len(values))
        case[name] = values[place]
    return case


def data_of(kind, n_modes):
    """Coordinates, no two of them the same, and values."""
    generator = np.random.default_rng(1)
    X = generator.permutation(np.argwhere(np.ones(SHAPES[n_modes])))
    kept = {"few": 3, "one": 1, "none": 0}.get(kind, len(X) // 2)
    X = X[:kept]
    if kind == "one row":
        X = X[X[:, 0] == 2]
    if kind == "one column":
        X = X[X[:, 1] == 2]
    values = generator.integers(1, 6, len(X)).astype(float)
    return X, np.full(len(X), 2.0) if kind == "equal values" else values


def completion(case):
    n_modes = case["n_modes"]
    perturbation, unit, is_smooth = case["way"]
    of = 0 if unit == 1 else 1
    scale = (
        {"levels": LEVELS} if case["scale"] == "levels" else {"value_bounds": (1, 5)}
    )
    return case["form"](
        case["rank"],
        epsilon=case["epsilon"],
        delta=1e-6,
        perturbation=perturbation,
        unit=unit,
        shape=SHAPES[n_modes],
        side_information={of: FEATURES[: SHAPES[n_modes][of]]}
        if case["features"]
        else None,
        biases=case["biases"],
        n_pattern_components=case["n_pattern_components"],
        smooth_modes=[n_modes - 1] if is_smooth else None,
        max_iter=4,
        random_state=0,
        **scale,
    )


def arguments_of(kind, case):
    X, y = data_of(kind, case["n_modes"])
    if not case["dense"]:
        return X, y
    tensor = np.full(SHAPES[case["n_modes"]], np.nan)
    tensor[tuple(X.T)] = y
    return (tensor,)


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
    shape = SHAPES[case["n_modes"]]
    everywhere = np.indices([size + 1 for size in shape]).reshape(len(shape), -1).T - 1
    predicted = found.predict(everywhere)
    assert np.all((predicted >= 1) & (predicted <= 5)), case
    if case["way"][1] != 1:
        assert found.recommend([-1, 0, 4], k=2).shape == (3, 2)
    if case["dense"]:
        assert np.all(np.isfinite(found.transform(np.empty(shape)))), case


def walk(numbers):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # What fits say on purpose.
        warnings.simplefilter("ignore", AveragesOnlyWarning)
        for number in numbers:
            check(case_of(number))


def test_some_combinations_end_in_a_model_or_a_refusal():
    walk(np.random.default_rng(0).choice(N_CASES, N_SAMPLED, replace=False).tolist())


if __name__ == "__main__":
    import collections
    import sys
    import traceback

    seed, n = map(int, sys.argv[1:])
    failures = collections.defaultdict(list)
    for number in (
        np.random.default_rng(seed).choice(N_CASES, n, replace=False).tolist()
    ):
        try:
            walk([number])
        except BaseException as error:
            at = traceback.extract_tb(error.__traceback__)
            at = [f for f in at if "/sktensordp/" in f.filename] or at
            text = str(error).split("{")[0][:110]
            name = at[-1].filename.split("/")[-1]
            key = f"{type(error).__name__} {text} at {name}:{at[-1].lineno}"
            failures[key].append(case_of(number))
    for key, cases in sorted(failures.items(), key=lambda pair: -len(pair[1]))[:14]:
        print(len(cases), key)
        print(
            "   ", {k: v for k, v in cases[0].items() if all(c[k] == v for c in cases)}
        )
        print("   ", cases[0])
