"""What takes long gives a sign of life, and tells nothing by it."""

import io
import logging
import re
import threading

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV

from sktensordp.audit import audit_mechanism
from sktensordp.base import EstimatorMixin
from sktensordp.completion import CoordinateEncoder, CPCompletion, Recommender
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.moments import MultilinearPCA
from sktensordp.papers import BiScaler
from tests.support.callbacks import ProgressBar, needs_callbacks
from tests.support.every_estimator import EVERY
from tests.support.seams import sktensordp_waiting

rich_console = pytest.importorskip("rich.console")
X = np.argwhere(np.ones((7, 5)))
VALUES = np.linspace(1.01, 4.97, len(X))
STARS = [1, 2, 3, 4, 5]


@pytest.fixture
def screen(monkeypatch):
    """Somebody watches, has no patience, and every sweep takes longer than that."""
    shown = io.StringIO()
    monkeypatch.setattr(sktensordp_waiting, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(sktensordp_waiting, "is_interactive", lambda: True)
    monkeypatch.setattr(
        sktensordp_waiting,
        "console",
        lambda: rich_console.Console(file=shown, force_terminal=True, width=80),
    )
    slowly(monkeypatch)
    return shown


@pytest.fixture
def log(monkeypatch, caplog):
    """Nobody watches, and the log is kept."""
    monkeypatch.setattr(sktensordp_waiting, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(sktensordp_waiting, "is_interactive", lambda: False)
    slowly(monkeypatch)
    caplog.set_level(logging.INFO, "sktensordp")
    return caplog


def slowly(monkeypatch):
    start = sktensordp_waiting.ProgressReport.__enter__

    def patient(sign):
        entered = start(sign)
        if sign._timer is not None:  # until the timer has fired
            sign._timer.join()
        return entered

    monkeypatch.setattr(sktensordp_waiting.ProgressReport, "__enter__", patient)


def cp(**params):
    options = {"levels": STARS, "shape": (7, 5), "max_iter": 3, "random_state": 0}
    return CPCompletion(1, **options | params)


def text_of(screen):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())


CLOCK = re.compile(r"\d:\d\d")


def test_a_long_fit_shows_a_bar_in_a_terminal(screen):
    cp(perturbation="input").fit(X, VALUES)
    assert "CPCompletion: sweep" in text_of(screen)
    assert "/3" in text_of(screen)
    assert CLOCK.search(text_of(screen))
    assert not sktensordp_waiting._OPEN


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.AveragesOnlyWarning")
def test_where_users_are_protected_the_bar_has_no_time(screen):
    cp(unit=0, epsilon=8.0).fit(X, VALUES)
    assert "CPCompletion: sweep" in text_of(screen)
    assert not CLOCK.search(text_of(screen))


def test_a_long_fit_writes_a_line_to_the_log_elsewhere(log):
    cp(perturbation="input").fit(X, VALUES)
    assert [r for r in log.records if "CPCompletion: sweep 0 of 3 after" in r.message]


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.AveragesOnlyWarning")
def test_where_users_are_protected_the_log_does_not_depend_on_the_time(log):
    cp(unit=0, epsilon=8.0).fit(X, VALUES)
    assert not [r for r in log.records if " after " in r.message]


OF_TIME = re.compile(r" after \d+ s|, about \d")
# Whose fits may tell how long they take: how many entries or samples there are, and
# where, is public. An encoder of coordinates cannot know who is protected later.
TIME_IS_PUBLIC = {"values": True, "samples": True, "people": True} | {
    "users": False, "choices": False, "ids": False, "rows": False,
}  # fmt: skip


def tells_time(case):
    is_search = isinstance(case.estimator, PrivateSearchCV)
    return TIME_IS_PUBLIC[case.private] and not is_search


@pytest.mark.parametrize("case", EVERY)
@pytest.mark.filterwarnings("ignore")
def test_the_log_of_every_fit_tells_its_time_only_if_that_is_public(log, case):
    log.set_level(logging.DEBUG, "sktensordp")
    case.fresh().fit(*case.data)
    said = [r.getMessage() for r in log.records]
    assert any(map(OF_TIME.search, said)) == tells_time(case)


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("case", EVERY)
@pytest.mark.filterwarnings("ignore")
def test_the_bar_of_every_fit_has_a_clock_only_if_the_time_is_public(screen, case):
    case.fresh().fit(*case.data)
    assert bool(CLOCK.search(text_of(screen))) == tells_time(case)


class OfAnybody(EstimatorMixin, BaseEstimator):
    """An estimator that says nothing about its time."""

    def fit(self, X, y=None):
        with self._progress("step", 2) as on_step:
            on_step()
            on_step()
        return self


def test_the_time_of_a_new_estimator_is_not_public(log):
    log.set_level(logging.DEBUG, "sktensordp")
    OfAnybody().fit(X)
    said = [r.getMessage() for r in log.records]
    assert said == ["OfAnybody: step 1 of 2", "OfAnybody: step 2 of 2"]
    # Nor is that of a scaler whose sweeps end where the raw values are standardised.
    assert not BiScaler()._time_is_public


def test_nor_does_the_bar_of_one_have_a_clock(screen):
    OfAnybody().fit(X)
    assert "OfAnybody: step" in text_of(screen)
    assert not CLOCK.search(text_of(screen))


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
def test_what_an_undeclared_range_decides_is_not_public(log):
    with pytest.warns(PrivacyLeakWarning):
        LaplaceMechanism().fit(X / 7.0)
    assert not [r for r in log.records if " after " in r.message]


def private_search():
    grid = {"rank": [0, 1]}
    PrivateSearchCV(cp(perturbation="input"), grid, n_iter=2, random_state=0).fit(
        X, VALUES
    )


def search_of_scores():
    GridSearchCV(cp(perturbation="input"), {"rank": [0, 1]}, cv=2, refit=False).fit(
        X, VALUES
    )


def test_private_searches_show_nothing_of_their_fits(screen):
    private_search()
    assert text_of(screen) == ""


def test_private_searches_write_nothing_of_their_fits(log):
    private_search()
    assert not [r for r in log.records if " after " in r.message]


def test_other_searches_show_each_long_fit(screen):
    search_of_scores()
    assert text_of(screen).count("CPCompletion: sweep") >= 4
    assert not sktensordp_waiting._OPEN


def test_other_searches_write_of_each_long_fit(log):
    search_of_scores()
    assert len([r for r in log.records if " after " in r.message]) == 4


@needs_callbacks
def test_a_callback_of_the_user_replaces_the_bar(screen):
    model = cp(perturbation="input")
    model.set_callbacks(ProgressBar())
    model.fit(X, VALUES)
    assert text_of(screen) == ""


@pytest.mark.parametrize("interactive", [True, False])
def test_what_is_fast_says_nothing(monkeypatch, caplog, interactive):
    monkeypatch.setattr(sktensordp_waiting, "is_interactive", lambda: interactive)
    monkeypatch.setattr(sktensordp_waiting, "console", lambda: pytest.fail("a bar"))
    caplog.set_level(logging.INFO, "sktensordp")
    before = threading.active_count()
    cp(perturbation="input").fit(X, VALUES)
    assert not [r for r in caplog.records if " after " in r.message]
    assert threading.active_count() == before


def test_the_inner_one_of_two_is_shown(screen):
    Recommender(cp(perturbation="input", shape=None)).fit(X, VALUES)
    assert "CPCompletion: sweep" in text_of(screen)
    assert not sktensordp_waiting._OPEN


def test_an_error_ends_the_bar(screen):
    before = set(threading.enumerate())
    with pytest.raises(ValueError, match="fractions"):
        CoordinateEncoder().fit(X + 0.5)
    assert not sktensordp_waiting._OPEN
    for thread in set(threading.enumerate()) - before:
        thread.join(10)  # rich ends its own soon after
        assert not thread.is_alive()


def test_audits_and_other_estimators_show_one_too(screen):
    noise = np.random.default_rng(0)
    audit_mechanism(
        lambda x, n: x + noise.laplace(size=(n, 1)), [0.0], [1.0], epsilon=1.0,
        n_trials=400, batched=True,
    )  # fmt: skip
    assert "audit_mechanism: running" in text_of(screen)
    assert not CLOCK.search(text_of(screen))  # it may run on somebody's data
    MultilinearPCA(1, norm_bound=1.0).fit(np.ones((20, 3, 2)) / 9)
    assert "MultilinearPCA: step" in text_of(screen)


def test_in_a_thread_or_beside_another_display_there_is_no_bar(screen):
    thread = threading.Thread(target=lambda: cp(perturbation="input").fit(X, VALUES))
    thread.start()
    thread.join()
    assert text_of(screen) == ""
    from rich.live import Live

    console = rich_console.Console(file=io.StringIO(), force_terminal=True)
    with Live(console=console, auto_refresh=False):
        cp(perturbation="input").fit(X, VALUES)
    assert not sktensordp_waiting._OPEN
