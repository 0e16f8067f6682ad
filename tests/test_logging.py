"""The log says what a fit does, and nothing that follows from raw data."""

import logging
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import sktensordp
from sktensordp.completion import CPCompletion, ImplicitCompletion, TuckerCompletion
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import PrivacyBudget

X = np.argwhere(np.ones((7, 5)))
VALUES = np.linspace(1.01, 4.97, len(X))
SHAPE = {"levels": [1, 2, 3, 4, 5], "shape": (7, 5)}
LEFT = re.compile(r", about \d+\.\d s left$")


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.DEBUG, "sktensordp")
    return caplog


def lines(log, level):
    return [r.getMessage() for r in log.records if r.levelno == level]


@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
@pytest.mark.parametrize("unit", ["entry", 0])
def test_a_fit_says_what_it_will_do_and_how_far_it_is(log, kind, unit):
    model = kind(2, unit=unit, max_iter=4, **SHAPE).fit(X, VALUES)
    plan, release = lines(log, logging.INFO)
    assert f"{kind.__name__}: rank 2, perturbation '" in plan
    guarantee = replace(model.privacy_guarantee_, scope="")
    assert release.startswith(f"fit of {kind.__name__}: {guarantee}")
    sweeps = lines(log, logging.DEBUG)
    assert len(sweeps) >= 2
    total = re.search(r"at most (\d+) sweeps", plan)[1]
    assert sweeps[0].startswith(f"{kind.__name__}: sweep 1 of {total}")
    # How long users' data take is private.
    assert all(bool(LEFT.search(line)) == (unit == "entry") for line in sweeps)


@pytest.mark.parametrize("unit", ["entry", 0])
def test_the_log_is_that_of_the_neighbour(log, unit):
    """Another value, or one user less: only the time and the random id differ."""
    said = []
    keep = X[:, 0] != 3 if unit == 0 else np.ones(len(X), bool)
    for where, values in ((X, VALUES), (X[keep], VALUES[::-1][keep])):
        log.clear()
        model = CPCompletion(1, unit=unit, max_iter=3, random_state=0, **SHAPE)
        model.fit(where, values)
        (release,) = model.release_ids_
        lines = [LEFT.sub("", r.getMessage()) for r in log.records]
        said.append([line.replace(release, "(id)") for line in lines])
    assert said[0] == said[1]
    assert sum("Release (id)." in line for line in said[0]) == 1


def test_choices_and_transforms(log):
    ImplicitCompletion(shape=(7, 5)).fit(X)
    assert not any(LEFT.search(line) for line in lines(log, logging.DEBUG))
    log.clear()
    LaplaceMechanism(bounds=(0, 1)).fit(X / 7.0).transform(X / 7.0)
    (line,) = lines(log, logging.INFO)
    assert line.startswith("transform of LaplaceMechanism: (epsilon = 1, delta = 0)")


def test_no_value_no_id_no_seed(log):
    CPCompletion(1, value_bounds=(0, 9), shape=(7, 5), random_state=8675309).fit(
        X, VALUES
    )
    said = " ".join(r.getMessage() for r in log.records)
    for secret in ("1.01", "4.97", "8675309", str(VALUES[3])[:6]):
        assert secret not in said


@pytest.mark.thorough
def test_a_private_search_does_not_tell_how_often_it_tried(log):
    model = CPCompletion(0, value_bounds=(0, 5), shape=(7, 5), max_iter=2)
    PrivateSearchCV(model, {"max_iter": [2, 3]}, score_bounds=(0, 9)).fit(X, VALUES)
    said = [r.getMessage() for r in log.records]
    assert len(said) == 1
    assert said[0].startswith("fit of PrivateSearchCV: ")


def test_what_is_refused_is_not_announced(log):
    with PrivacyBudget(0.1), pytest.raises(BudgetExceededError):
        LaplaceMechanism(bounds=(0, 1)).fit_transform(X / 7.0)
    assert lines(log, logging.INFO) == []


def test_nothing_is_written_unless_asked(capfd):
    CPCompletion(1, max_iter=2, **SHAPE).fit(X, VALUES)
    assert capfd.readouterr() == ("", "")


def test_versions(capsys):
    sktensordp.show_versions()
    printed = capsys.readouterr().out
    for name in ("sktensordp", "numpy", "scikit-learn", "dp-accounting", "dask"):
        assert re.search(rf"^    {name}: \S", printed, re.MULTILINE)
    code = "import sktensordp, sys; sktensordp.show_versions(); print(len(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert int(run.stdout.split()[-1]) < 400  # nothing heavy was imported
