"""The audit display draws its reports."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sktensordp.audit import AuditReport
from sktensordp.completion import CPCompletion
from sktensordp.plotting import AuditDisplay

pytestmark = pytest.mark.thorough


def report(lower, claimed):
    return AuditReport(
        epsilon_lower=lower, mu_lower=None, confidence=0.95, delta=0.0,
        claimed=claimed, event="an event", n_trials=100,
    )  # fmt: skip


def test_bars_and_claims():
    reports = {"good": report(0.5, 1.0), "bad": report(3.0, 1.0), "?": report(2, None)}
    display = AuditDisplay(reports).plot()
    assert [bar.get_width() for bar in display.bars_] == [0.5, 3.0, 2.0]
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == list(reports)
    (claims,) = display.ax_.get_lines()
    assert list(claims.get_xdata()) == [1.0, 1.0]
    assert list(claims.get_ydata()) == [0, 1]


def test_violations_differ_without_colour(legend):
    reports = {"good": report(0.5, 1.0), "bad": report(3.0, 1.0), "?": report(2, None)}
    display = AuditDisplay(reports).plot()
    good, bad, nothing = display.bars_
    assert [bar.get_hatch() for bar in (good, bad, nothing)] == [None, "//", None]
    for bar in display.bars_:
        red, green, blue, _ = bar.get_facecolor()
        assert red == green == blue
    assert legend(display) == ["proved lower bound", "above the claim", "claimed"]


@pytest.mark.parametrize(
    ("one", "texts"),
    [
        (report(0.5, None), ["proved lower bound"]),
        (report(0.5, np.inf), ["proved lower bound"]),
        (report(2.0, 1.0), ["above the claim", "claimed"]),
    ],
)
def test_the_legend_names_what_is_there(legend, one, texts):
    display = AuditDisplay({"one": one}).plot()
    assert legend(display) == texts


def test_from_estimator():
    X, y, neighbour = [[0, 0], [1, 1]], [0.0, 0.5], [1.0, 0.5]
    model = CPCompletion(0, epsilon=1.0, value_bounds=(0, 1), max_iter=1)
    _, ax = plt.subplots()
    display = AuditDisplay.from_estimator(
        model, X, X, y, neighbour, ax=ax, n_trials=40, random_state=0
    )
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    (found,) = display.reports.values()
    assert list(display.reports) == ["CPCompletion"]
    assert display.bars_[0].get_width() == found.epsilon_lower
    # A table has a little less than its budget.
    assert display.ax_.get_lines()[-1].get_xdata() == pytest.approx([1.0], rel=1e-6)
