"""The display of guesses draws what attackers found."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sktensordp.audit import Attack, AttackReport
from sktensordp.plotting import GuessesDisplay

pytestmark = pytest.mark.thorough


def attack(n_right, n_guesses, gap):
    bits = np.arange(40) % 2 == 0
    scores = np.random.default_rng(0).normal(size=40) + gap * bits
    return Attack(
        n_right=n_right, n_guesses=n_guesses, n_canaries=40, epsilon_lower=1.0,
        statistic="score", scores=scores, bits=bits,
    )  # fmt: skip


def report(gap):
    return AttackReport(
        epsilon_lower=1.0, mu_lower=None, confidence=0.95, delta=0.0, claimed=None,
        event="", n_trials=40, account=attack(15, 20, gap), insider=attack(9, 10, gap),
        canaries="", question="", knowledge="", unit="customer", relation="", ceiling=3,
    )  # fmt: skip


def test_histograms_and_right_guesses():
    display = GuessesDisplay({"leaks": report(9.0), "does not": report(0.0)}).plot()
    first, second, last = display.axes_
    assert [ax.get_title() for ax in (first, second)] == ["leaks", "does not"]
    # Left out: the lower half of the ranks, where scores tell everything.
    heights = np.array([bar.get_height() for bar in first.containers[0]])
    assert (heights[:10].sum(), heights[10:].sum()) == (20, 0)
    widths = [[bar.get_width() for bar in bars] for bars in last.containers]
    assert widths == [[75.0, 75.0], [90.0, 90.0]]
    texts = [text.get_text() for text in last.texts]
    assert texts == ["15 of 20", "15 of 20", "9 of 10", "9 of 10"]


def test_the_insider_and_given_axes():
    figure, axes = plt.subplots(1, 2)
    display = GuessesDisplay({"a": report(1.0)}, attacker="insider").plot(axes)
    assert display.figure_ is figure
    assert display.axes_[0] is axes[0]


def test_what_cannot_be_drawn():
    with pytest.raises(ValueError, match="at least one report"):
        GuessesDisplay({})
    with pytest.raises(ValueError, match="attacker must be one of"):
        GuessesDisplay({"a": report(1.0)}, attacker="nobody")
    with pytest.raises(ValueError, match="must hold 2 axes"):
        GuessesDisplay({"a": report(1.0)}).plot([plt.subplots()[1]])
