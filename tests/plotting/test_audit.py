"""The audit display draws its reports."""

import matplotlib as mpl
import pytest

from sktensordp.audit import AuditReport
from sktensordp.completion import CPCompletion
from sktensordp.plotting import AuditDisplay

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


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
    shades = [bar.get_facecolor() for bar in display.bars_]
    assert shades[1] != shades[0] == shades[2]


def test_from_estimator():
    X, y, neighbour = [[0, 0], [1, 1]], [0.0, 0.5], [1.0, 0.5]
    model = CPCompletion(0, epsilon=1.0, value_bounds=(0, 1), max_iter=1)
    _, ax = plt.subplots()
    display = AuditDisplay.from_estimator(
        model, X, X, y, neighbour, ax=ax, n_trials=40, random_state=0
    )
    assert display.ax_ is ax
    assert list(display.reports) == ["CPCompletion"]
