"""The example finds epsilons at which completions have about the error asked for."""

import re

import pytest


def test_choose_epsilon(tmp_path, run):
    printed = run(tmp_path, "choose_epsilon.py", "--random-state", "1")
    found = {
        name: float(epsilon)
        for name, epsilon in re.findall(r"^(\S.*?) {2,}(\d+\.\d\d)$", printed, re.M)
    }
    assert len(found) == 8
    assert found["PrivUnit"] < found["Gaussian"] < found["Laplace"]
    assert found["task-aware"] < found["task-agnostic"]
    assert found["one rating"] <= found["one rating, each randomised"]
    measured = re.findall(r"measured at epsilon = (.*?): (.*?), (.*)$", printed, re.M)
    assert len(measured) == 3
    for epsilon, error, name in measured:
        assert float(epsilon) == found[name]
        # What was asked for: 0.92.
        assert float(error) == pytest.approx(0.92, rel=0.05)
    assert printed.count("differential privacy for the value of one observed") == 2
    assert "differential privacy for everything at one index of mode 0" in printed


def test_an_error_that_none_has(tmp_path, run):
    arguments = ["--squared-error", "1e-3", "--task-loss", "1e-6", "--rmse", "0.5"]
    printed = run(tmp_path, "choose_epsilon.py", *arguments)
    assert printed.count("none here") == 8
    assert "measured" not in printed
