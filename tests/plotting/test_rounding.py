"""What a picture says of epsilon and delta is no less than the true numbers."""

import re

import numpy as np
import pytest

from sktensordp.mechanisms import GaussianMechanism
from sktensordp.model_selection import ExpectedError
from sktensordp.plotting import (
    ExpectedErrorDisplay,
    PrivacyProfileDisplay,
)

pytestmark = pytest.mark.thorough


def test_legends_round_up(legend):
    claimed = (1.0000004, 1.0000004e-6)
    profile = PrivacyProfileDisplay(
        [0.0, 1.0], {"one": [1e-3, 1e-6]}, claimed={"one": claimed}
    ).plot()
    text = next(text for text in legend(profile) if "claimed" in text)
    said = re.search(r"\((\S+), (\S+)\)", text).groups()
    for number, true in zip(map(float, said), claimed, strict=True):
        assert true <= number <= 1.0011 * true

    epsilons = np.array([1.00004, 4.00004])
    curve = ExpectedError(epsilons, np.array([8.0, 2.0]), "error", epsilons)
    for target, needed, bound in [
        (4.0, {"one": 2.00004}, r"one: ()(\S+)"),
        (9.0, {}, r"one: (below )(\S+)"),
        (1.0, {}, r"one: (above )(\S+)"),
    ]:
        shown = ExpectedErrorDisplay({"one": curve}, target=target, needed=needed)
        shown.plot()
        which, number = re.fullmatch(bound, legend(shown)[0]).groups()
        if which == "above ":
            assert 0.998 * epsilons[1] < float(number) <= epsilons[1]
        else:
            true = needed.get("one", epsilons[0])
            assert true <= float(number) < 1.0011 * true
        ticks = [float(text.get_text()) for text in shown.ax_.get_xticklabels()]
        assert np.all((ticks >= epsilons) & (ticks < 1.0011 * epsilons))


def test_notes_of_curves_round_up():
    deltas = {"small": 1.0000004e-6, "large": 1.0000004e-5}
    display = ExpectedErrorDisplay.from_estimator(
        {
            label: GaussianMechanism(delta=delta, bounds=(0, 1))
            for label, delta in deltas.items()
        },
        np.zeros((1, 1)),
        epsilons=[1.0],
    )
    for label, true in deltas.items():
        stated = float(display.notes[label].removeprefix("delta = "))
        assert true <= stated < 1.0011 * true
