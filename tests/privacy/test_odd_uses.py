"""Odd uses of budgets and guarantees that once gave too little, or an obscure error."""

import asyncio
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from dp_accounting import dp_event

from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.privacy import PrivacyBudget, PrivacyGuarantee, compose, privacy_of
from sktensordp.privacy._accounting import event_delta, event_epsilon
from sktensordp.privacy._events import SamplerResidualDpEvent, SelectionDpEvent
from sktensordp.privacy._repetitions import negative_binomial, poisson

X = np.zeros((10, 3))
NOISE = LaplaceMechanism(0.5, bounds=(0, 1)).fit(X)


def guarantee(event, delta=0.0):
    return PrivacyGuarantee.of(
        event, delta=delta, unit="sample", statement="A test.", source="none"
    )


def test_a_task_that_outlives_its_part_counts_for_all():
    async def late(started):
        await started.wait()
        NOISE.transform(X)

    async def main(part):
        started = asyncio.Event()
        with part():
            task = asyncio.create_task(late(started))
        started.set()
        await task
        with part():
            NOISE.transform(X[5:])

    with PrivacyBudget(5.0) as budget, budget.parallel() as part:
        asyncio.run(main(part))
    assert budget.spent.epsilon == 1.0


def test_a_generator_closed_late_opens_no_part_again():
    with PrivacyBudget(5.0) as budget:
        with budget.parallel() as part:

            def inside():
                with part():
                    yield

            first = inside()
            next(first)
        first.close()
        NOISE.transform(X)
        NOISE.transform(X)
    assert budget.spent.epsilon == 1.0


def test_ids_are_not_published_where_no_budget_learns_of_it():
    with PrivacyBudget(1.0):
        sent = pickle.dumps(CoordinateEncoder())
        assert not hasattr(pickle.loads(sent), "_sent_by")
    code = (
        "import pickle, sys\n"
        "encoder = pickle.loads(sys.stdin.buffer.read())\n"
        "try:\n    encoder.fit([[1, 2]])\n"
        "except RuntimeError as error:\n    print(error)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], input=sent, capture_output=True, check=True
    )
    assert b"CoordinateEncoder was sent by a process with an open" in found.stdout


@pytest.mark.parametrize("law", [negative_binomial(10.0, 0.0), poisson(5.0)])
@pytest.mark.parametrize("residual", [(0.0, 1e-3), (0.4, 0.0)])
def test_a_choice_among_samplers_keeps_their_residuals(law, residual):
    """The curve of the choice forbids what ideal laws alone would allow."""
    base = [dp_event.GaussianDpEvent(20.0), SamplerResidualDpEvent(*residual)]
    choice = guarantee(SelectionDpEvent(dp_event.ComposedDpEvent(base), law), 0.5)
    step = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(2.0))
    budget = PrivacyBudget(3.0, 1e-5)
    budget.spend(guarantee(step, 1e-6))
    for _ in range(2):
        if budget.admits(choice):
            budget.spend(choice)
    with pytest.raises(BudgetExceededError):
        budget.spend(choice)
    assert budget.spent.delta_at(3.0) <= 1e-5


def test_every_try_of_a_choice_may_be_off_its_law():
    """Samplers have a hundredth of a budget's delta, which ten tries use up."""
    budget, most = PrivacyBudget(1.0, 1e-5), 1e-7 / 2 / (1 + math.e)
    step = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(20.0))
    budget.spend(guarantee(step, 1e-6))
    for share, admitted in ((0.5, True), (5.0, False)):
        residual = SamplerResidualDpEvent(0.0, share * most / 10)
        base = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(200.0), residual])
        choice = SelectionDpEvent(base, negative_binomial(10.0, 0.0))
        assert budget.admits(guarantee(choice, 0.5)) == admitted


def test_choices_compose_through_their_losses():
    """Not by adding up epsilons, and delta falls along with epsilon."""
    choice = SelectionDpEvent(dp_event.GaussianDpEvent(5.0), negative_binomial(10.0, 0))
    together = dp_event.SelfComposedDpEvent(choice, 10)
    assert event_epsilon(together, 1e-3) < 0.8 * 10 * event_epsilon(choice, 1e-4)
    assert event_delta(together, 2.0) < 0.7
    weak = SelectionDpEvent(dp_event.GaussianDpEvent(1e7), negative_binomial(10.0, 0))
    mixed = dp_event.ComposedDpEvent([weak, weak, dp_event.LaplaceDpEvent(1.0)])
    alone = event_delta(dp_event.LaplaceDpEvent(1.0), 0.9)
    assert alone <= event_delta(mixed, 0.9) < 1.01 * alone + 1e-5


def test_deltas_that_sum_to_no_delta():
    one = guarantee(dp_event.GaussianDpEvent(10.0), 1e-6)
    assert (10**6 * one).delta == 1e-6
    assert (10**12 * one).epsilon > 1e6
    coarse = guarantee(dp_event.GaussianDpEvent(10.0), 0.4)
    assert compose(coarse, coarse, coarse).delta == 0.4
    assert sum([one, one]).epsilon == compose(one, one).epsilon
    with pytest.raises(TypeError):
        sum([one], start=1)


@pytest.mark.parametrize(
    ("epsilon", "adaptive", "said"),
    [(math.inf, True, True), (9.0, True, True), (math.inf, False, False)],
)
def test_sums_of_what_was_fixed_beforehand_say_so(epsilon, adaptive, said):
    budget = PrivacyBudget(epsilon, 1e-5, adaptive=adaptive)
    budget.spend(guarantee(dp_event.GaussianDpEvent(10.0), 1e-6))
    assert ("had all been fixed beforehand" in str(budget)) is said


@pytest.mark.parametrize("obj", [PrivacyBudget(1.0), LaplaceMechanism, 3])
def test_privacy_of_what_reveals_nothing(obj):
    with pytest.raises(TypeError, match="gives a guarantee"):
        privacy_of(obj)


def test_a_refused_refit_keeps_the_model():
    where = np.argwhere(np.ones((6, 5)))
    values = np.arange(30) % 5 + 1.0
    model = CPCompletion(1, levels=[1, 2, 3, 4, 5], max_iter=2).fit(where, values)
    before = model.predict(where)
    with PrivacyBudget(0.5), pytest.raises(BudgetExceededError):
        model.fit(where, values)
    np.testing.assert_array_equal(model.predict(where), before)
    assert math.isclose(model.privacy_guarantee_.epsilon, 1.0, rel_tol=1e-5)
