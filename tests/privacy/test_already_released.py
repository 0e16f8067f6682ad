"""Post-processing, as the caller states it: what becomes free, and what does not."""

import contextvars
import logging
import math
from contextlib import nullcontext
from threading import Thread

import numpy as np
import pytest

from sktensordp.completion import CoordinateEncoder, CPCompletion, Recommender
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import PrivacyBudget, already_released, privacy_of
from tests.support.every_estimator import RELEASING, WHERE

FREE = "post-processing, as the caller states: "
X = np.full((4, 3), 0.5)


def laplace(epsilon, **domain):
    return LaplaceMechanism(epsilon, **(domain or {"bounds": (0, 1)})).fit(X)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", RELEASING)
def test_every_estimator(case):
    """Without noise, it is refused outside of the block; with noise, it counts."""
    budget, without = PrivacyBudget(1e-9), {}
    if case.has_epsilon:
        without = {"epsilon": math.inf}
    if not isinstance(case.estimator, PrivateSearchCV):  # it always has noise
        with budget, pytest.raises(BudgetExceededError):
            case.release(**without)
        with budget, already_released():
            case.release(**without)
        assert budget.spent is None
        assert budget.remaining == pytest.approx(1e-9)
        assert FREE in str(budget)
        assert "no budget can check" in str(budget)
    spent = []
    for block in (nullcontext(), already_released()):
        with PrivacyBudget(math.inf, 1e-3) as counted, block:
            case.release()
        spent.append(counted.spent)
    assert spent[0] is not None
    if spent[0].protects or case.is_published:
        assert spent[1].epsilon == spent[0].epsilon
        assert (spent[1].unit, spent[1].relation) == (spent[0].unit, spent[0].relation)
        # Published ids have no epsilon.
        assert str(counted).count(FREE) == str(counted).count(f"{FREE}Coordinate")


def test_what_is_free_decides_nothing():
    """Neither the unit, nor the sums that an adaptive budget limits, nor a warning."""
    model = CPCompletion(1, epsilon=math.inf, value_bounds=(0, 1), shape=(4, 3))
    budget = PrivacyBudget(1.0)
    with budget:
        with already_released():
            fitted = model.fit(WHERE, np.linspace(0, 1, 12))
            laplace(math.inf).transform(X)
        noise = laplace(0.5)
        noise.transform(X)
        with already_released():
            model.fit(WHERE, np.linspace(0, 1, 12))
            noise.transform(X)
        with pytest.raises(BudgetExceededError):
            noise.transform(X)
    assert budget.spent.epsilon == 1
    assert budget.spent.unit == "sample"
    assert str(budget).count(FREE) == 3
    # The model itself knows of no noise.
    assert not privacy_of(fitted).guarantee.protects


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.PrivacyLeakWarning")
def test_what_asked_for_an_epsilon_is_not_free():
    with PrivacyBudget(1.0), already_released(), pytest.raises(BudgetExceededError):
        LaplaceMechanism(0.5).fit(X)
    with PrivacyBudget(1.0), already_released(), pytest.raises(BudgetExceededError):
        CPCompletion(1, unit=0, epsilon=0.1).fit(WHERE, np.linspace(0, 1, 12))
    with (
        PrivacyBudget(1.0) as budget,
        already_released(),
    ):
        laplace(math.inf).transform(X)
    assert budget.spent is None


def test_ids():
    """Ids that a budget for users refuses to publish may have been released before."""
    bounds, values = {"value_bounds": (0, 1)}, np.linspace(0, 1, 12)
    users = CPCompletion(0, epsilon=0.5, unit=0, delta=1e-3, shape=(4, 3), **bounds)
    with PrivacyBudget(1.0, 1e-2) as budget:
        users.fit(WHERE, values)
        with pytest.raises(BudgetExceededError, match="publishes the ids"):
            CoordinateEncoder().fit(WHERE)
        with already_released():
            Recommender(CPCompletion(0, epsilon=math.inf, **bounds)).fit(WHERE, values)
        users.fit(WHERE, values)
    assert f"{FREE}CoordinateEncoder" in str(budget)
    assert f"{FREE}fit of CPCompletion" in str(budget)


def test_in_a_file(tmp_path):
    path = tmp_path / "budget.db"
    with PrivacyBudget(1.0, path=path, create=True) as budget:
        with already_released():
            laplace(math.inf).transform(X)
        laplace(0.25).transform(X)
    again = PrivacyBudget(1.0, path=path)
    assert again.spent.epsilon == 0.25
    assert str(again) == str(budget)
    free, counted = again.history(as_frame=False)
    assert free["label"] == f"{FREE}transform of LaplaceMechanism"
    assert (free["epsilon"], free["relation"]) == (0, FREE.removesuffix(": "))
    assert counted["epsilon"] == 0.25
    with again, pytest.raises(BudgetExceededError):
        laplace(math.inf).transform(X)


def test_in_the_log(caplog):
    with caplog.at_level(logging.INFO, "sktensordp"), already_released():
        laplace(math.inf).transform(X)
    assert f"{FREE}transform of LaplaceMechanism" in caplog.text


def test_in_a_part():
    with PrivacyBudget(1.0) as budget, budget.parallel() as part:
        with part(), already_released():
            laplace(math.inf).transform(X)
        with part():
            laplace(0.5).transform(X)
    assert budget.spent.epsilon == 0.5
    assert f"part 1 of 2, disjoint\n    1 x epsilon = 0: {FREE}" in str(budget)


def test_where_the_block_ends():
    """Not in other threads, nor in a context that outlives the block."""
    seen, noise = [], laplace(math.inf)

    def release():
        try:
            noise.transform(X)
        except BudgetExceededError:
            seen.append("refused")

    with PrivacyBudget(1.0):
        with already_released():
            thread = Thread(target=release)
            thread.start()
            thread.join()
            kept = contextvars.copy_context()
            with already_released():
                pass
            release()
        assert seen == ["refused"]
        kept.run(release)
        release()
        with pytest.raises(ZeroDivisionError), already_released():
            1 / 0  # noqa: B018
        release()
    assert len(seen) == 4


def test_a_budget_may_be_required(monkeypatch):
    monkeypatch.setenv("SKTENSORDP_REQUIRE_BUDGET", "1")
    with already_released(), pytest.raises(RuntimeError, match="outside of any"):
        laplace(math.inf).transform(X)
