"""Users' programs pass a strict type checker, and what it infers is documented."""

import importlib
import importlib.resources
import inspect
import re
import subprocess
import sys

import pytest

import sktensordp
from tests.support.every_estimator import CASES, EVERY, slow_repeats
from tests.support.public import annotated

PROGRAM = '''\
"""A user's program: it runs, and every type is what the documentation says."""
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline

from sktensordp.audit import AuditReport, audit_mechanism
from sktensordp.completion import CoordinateEncoder, CPCompletion, Recommender
from sktensordp.papers import BiScaler
from sktensordp.datasets import make_ratings
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import (
    GaussianMechanism,
    MatrixMechanism,
    MeanEstimate,
    estimate_mean,
)
from sktensordp.model_selection import PrivateSearchCV, epsilon_needed, expected_error
from sktensordp.noise import laplace_lattice
from sktensordp.plotting import PrivacyProfileDisplay
from sktensordp.privacy import (
    PrivacyBudget, PrivacyGuarantee, PrivacyReport, compose, compose_parallel,
    gaussian_mu, privacy_of,
)

Floats = NDArray[np.floating]


def samples(X: NDArray[np.float64]) -> PrivacyGuarantee:
    mechanism = GaussianMechanism(2.0, delta=1e-6, bounds=(0, np.ones(3)))
    assert_type(mechanism.fit(X), GaussianMechanism)
    assert_type(mechanism.transform(X), Floats)
    assert_type(mechanism.fit_transform(X), Floats)
    assert_type(mechanism.noise_variance_, float)
    assert_type(mechanism.get_feature_names_out(["a", "b", "c"]), NDArray[np.object_])
    assert_type(MatrixMechanism().fit(X).noise_variance_, NDArray[np.float64])
    assert_type(estimate_mean(mechanism.transform(X), bounds=(0, 1)), MeanEstimate)
    one = mechanism.privacy_guarantee_
    assert_type(one, PrivacyGuarantee)
    assert_type(one + 2 * one, PrivacyGuarantee)
    assert_type(one | one, PrivacyGuarantee)
    assert_type(compose_parallel(one, one).epsilon_at(1e-5), float)
    assert_type(gaussian_mu(1.0, 1e-5), float)
    assert_type(laplace_lattice(0, 1, 1.0).epsilon, float)
    return compose(one, *[one] * 3, delta=1e-5)


def ratings() -> PrivacyReport:
    data = make_ratings(20, 15, 150, random_state=0)
    X, y = data.data, data.target
    model = CPCompletion(1, epsilon=2.0, value_bounds=(0.5, 5), max_iter=2)
    with PrivacyBudget(3.0) as budget:
        assert_type(model.fit(X, y), CPCompletion)
        try:
            model.fit(X, y)
        except BudgetExceededError as error:
            print(error)
    assert_type(budget.spent, PrivacyGuarantee | None)
    assert_type(model.predict(X), Floats)
    assert_type(model.score(X, y), float)
    assert_type(model.shape_, tuple[int, ...])
    assert_type(model.recommend([0, 1], k=3), NDArray[np.int64])
    assert_type(model.set_params(perturbation="input"), Any)  # scikit-learn's own
    values, spread = model.fit_batches([(X, y)]).predict(X, return_std=True)
    assert_type(spread, Floats)
    scaler = BiScaler(1.0, value_bounds=(0.5, 5.0)).fit(X, y)
    assert_type(scaler.scale_values(X, y), Floats)
    search = PrivateSearchCV(model, {"rank": [0, 1]}, n_iter=2).fit(X, y)
    assert_type(search.best_params_, dict[str, Any])
    errors = expected_error(model, X, epsilons=[1, 2]).errors
    assert_type(errors, NDArray[np.float64])
    assert_type(epsilon_needed(model, X, error=float(errors.mean())), float)
    assert_type(CoordinateEncoder().fit(X).transform(X), NDArray[np.int64])
    recommender = Recommender(model).fit(X, y)
    assert_type(recommender, Recommender)
    assert_type(recommender.predict(X), Floats)
    assert_type(recommender.score(X, y), float)
    # An array or, after `set_output`, a data frame.
    assert_type(recommender.recommend([0, 1], k=3), Any)
    return privacy_of(make_pipeline(CoordinateEncoder(), model).fit(X, y))


def codes(X: NDArray[np.float64]) -> AuditReport:
    encoder = TaskAwareEncoder(4.0, task=np.ones((1, 3))).fit(X)
    client = encoder.client()
    assert_type(encoder.decode(client.privatize(X)), Floats)
    assert_type(encoder.expected_task_loss_, float)
    report = audit_mechanism(
        client.privatize, X[:1], X[1:2], epsilon=4.0, n_trials=50, gaussian=False
    )
    assert_type(report.violated, bool)
    return report


rows = np.random.default_rng(0).random((40, 3))
total = samples(rows)
print(total, ratings().unprotected, codes(rows), sep="\\n")
'''
DRAWING = """
display = PrivacyProfileDisplay.from_guarantee({"in all": total})
assert_type(display.plot(), PrivacyProfileDisplay)
"""


def checked(source, folder):
    """What the strict checker says of a program."""
    pytest.importorskip("mypy")
    program = folder / "program.py"
    program.write_text(source)
    options = ["--strict", "--ignore-missing-imports", "--no-pretty"]
    command = [sys.executable, "-m", "mypy", *options, "--cache-dir", "cache", program]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return (run.stdout + run.stderr).strip()


@pytest.mark.slow
def test_a_users_program_is_typed(tmp_path):
    said = checked(PROGRAM + DRAWING, tmp_path)
    assert said == "Success: no issues found in 1 source file"
    # And the checker would say what is wrong.
    wrong = (
        ("GaussianMechanism(2.0", "GaussianMechanism('2'"),
        ("mechanism.transform(X), Floats)", "mechanism.transform(X), Any)"),
        ("model.recommend(", "model.recomend("),
    )
    source = PROGRAM
    for before, after in wrong:
        assert before in source
        source = source.replace(before, after)
    said = checked(source, tmp_path)
    assert "Found 3 errors" in said, said


@pytest.mark.slow
def test_the_program_runs(capsys):
    exec(compile(PROGRAM, "program", "exec"), {})
    assert "differential privacy" in capsys.readouterr().out


# --- all public names ----------------------------------------------------------------


CLASSES = list({type(case.estimator): case.estimator for case in CASES})


@pytest.mark.parametrize("estimator", CLASSES)
def test_documented_attributes_have_a_type(estimator):
    text = inspect.getdoc(estimator)
    described = re.split(r"\n\n\w+\n---", text.partition("Attributes\n---")[2])[0]
    names = re.findall(r"^(\w+_) : ", described, flags=re.MULTILINE)
    assert names or "Attributes" not in text
    for name in set(names) - annotated(estimator).keys():
        found = inspect.getattr_static(estimator, name, None)
        assert isinstance(found, property), name
        assert "return" in found.fget.__annotations__, name


@pytest.mark.parametrize("case", slow_repeats(EVERY))
def test_plain_types_of_attributes_are_true(case):
    estimator, _ = case.release()
    found = vars(estimator)
    for name, kind in annotated(type(estimator)).items():
        if kind in (int, float, str) and name in found:
            assert isinstance(found[name], kind), name


def test_the_package_says_that_it_is_typed():
    assert importlib.resources.files(sktensordp).joinpath("py.typed").is_file()
