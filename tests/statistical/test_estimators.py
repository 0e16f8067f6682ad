"""Every public estimator is audited below its guarantee.

Estimators are discovered, so that a new one cannot be forgotten. Each is audited at
two epsilons on worst-case neighbours of a tiny data set, over everything that it
releases. All audits of a run together raise a false alarm with probability at most
1e-3. The run in continuous integration uses few trials; in full:

    python -m pytest tests/statistical --audit-trials 20000
"""

import importlib
import inspect
import math
import pkgutil

import numpy as np
import pytest

import sktensordp
from sktensordp.audit import audit_estimator, audit_one_run
from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings

FALSE_ALARMS = 1e-3

# Two entries of a matrix; neighbours differ in the value of the first.
X, LOW, HIGH = [[0, 0], [1, 1]], [0.0, 0.5], [1.0, 0.5]
TENSOR = [[0, 0, 0], [1, 1, 0]]
CASES = {
    "CPCompletion": {
        "Laplace": (CPCompletion(1, value_bounds=(0, 1), max_iter=2), X, LOW, HIGH),
        "table": (CPCompletion(0, levels=[0, 0.5, 1], max_iter=1), X, LOW, HIGH),
        "fine levels": (
            CPCompletion(0, levels=np.linspace(0, 1, 41), max_iter=1),
            TENSOR, LOW, HIGH,
        ),
    },
}  # fmt: skip
EPSILONS = (0.7, 2.5)
AUDITS = [
    pytest.param(*case, epsilon, id=f"{name}, {kind}, epsilon = {epsilon}")
    for name, cases in CASES.items()
    for kind, case in cases.items()
    for epsilon in EPSILONS
]
CONFIDENCE = 1 - FALSE_ALARMS / len(AUDITS)


def private_estimators():
    """Names of all public classes with a parameter epsilon."""
    found = set()
    for part in pkgutil.iter_modules(sktensordp.__path__):
        module = importlib.import_module(f"sktensordp.{part.name}")
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            is_estimator = inspect.isclass(value) and hasattr(value, "fit")
            if is_estimator and "epsilon" in inspect.signature(value).parameters:
                found.add(name)
    return found


def test_no_estimator_is_forgotten():
    assert private_estimators() == set(CASES)


def run(model, coordinates, y, y_neighbour, pytestconfig, **claim):
    trials = pytestconfig.getoption("--audit-trials")
    return audit_estimator(
        model, coordinates, coordinates, y, y_neighbour, n_trials=trials,
        random_state=0, confidence=CONFIDENCE, **claim,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "coordinates", "y", "y_neighbour", "epsilon"), AUDITS
)
def test_guarantee_holds(model, coordinates, y, y_neighbour, epsilon, pytestconfig):
    model.set_params(epsilon=epsilon)
    report = run(model, coordinates, y, y_neighbour, pytestconfig)
    assert report.claimed == pytest.approx(epsilon, rel=1e-3)
    assert not report.violated, report
    if report.n_trials >= 5000:
        assert report.epsilon_lower > 0.5 * epsilon, report


@pytest.mark.parametrize(
    ("model", "coordinates", "y", "y_neighbour", "epsilon"), AUDITS
)
def test_the_audit_would_notice(
    model, coordinates, y, y_neighbour, epsilon, pytestconfig
):
    """A sixth of the noise, under the name of the claim, is caught."""
    model.set_params(epsilon=6 * epsilon)
    report = run(model, coordinates, y, y_neighbour, pytestconfig, epsilon=epsilon)
    assert report.violated, report


@pytest.mark.parametrize("epsilon", [2.0, 4.0, math.inf])
@pytest.mark.parametrize("levels", [True, False])
def test_one_run_on_real_size(epsilon, levels):
    """2,000 canaries among 40,000 ratings: each the one rating of a film of its own.

    One false alarm in 10,000 for each of the four private runs.
    """
    ratings = make_ratings(600, 2000, 40_000, random_state=0)
    rng = np.random.default_rng(0)
    n_canaries = 2000
    items = np.arange(2000, 2000 + n_canaries)
    canaries = np.column_stack([rng.integers(0, 600, n_canaries), items])
    domain = {"levels": ratings.levels} if levels else {"value_bounds": (0.5, 5)}

    def fit_and_score(bits):
        model = CPCompletion(5, epsilon=epsilon, max_iter=10, random_state=1, **domain)
        model.fit(
            np.concatenate([ratings.data, canaries]),
            np.concatenate([ratings.target, np.where(bits, 5.0, 0.5)]),
        )
        # What the released factors say of the canaries' own films.
        return model.factors_[1][items, 1]

    claim = 2.0 if math.isinf(epsilon) else epsilon
    report = audit_one_run(
        fit_and_score, n_canaries, epsilon=claim, confidence=1 - 1e-4, random_state=2
    )
    assert report.violated == math.isinf(epsilon), report
    assert report.epsilon_lower > 0.5, report
