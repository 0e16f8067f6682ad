"""What is printed never states less privacy loss than is true, and decides nothing.

Every text that the package prints about a guarantee is read back: epsilons, deltas and
rates are no less than the true ones, what is found in an audit is no more, and what
is declared reads as it was declared.
"""

import re

import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sktensordp.audit import AuditReport
from sktensordp.completion import CPCompletion
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import BudgetExceededError, UnsoundClaimWarning
from sktensordp.mechanisms import (
    LaplaceMechanism,
    MatrixMechanism,
)
from sktensordp.papers import PublishedTensorRandomizedResponse
from sktensordp.privacy import PrivacyBudget, PrivacyGuarantee, PrivacyReport, compose

# A sum may print as the number that it is but for rounding errors: 0.1 + 0.2 as 0.3.
FORGIVEN = 2e-14
# Numbers whose fifth or seventh digit is lost on the wrong side, and any.
NUMBERS = st.builds(
    lambda digits, step, exponent: digits * (1 + step) * 10.0**exponent,
    st.integers(1000, 9999),
    st.sampled_from([0.0, 4e-5, 4e-7, -4e-7, 4e-9]),
    st.integers(-5, -2),
) | st.floats(1e-3, 100.0)
DELTAS = st.builds(lambda number: number * 1e-6, NUMBERS) | st.just(0.0)
FOUND = re.compile(r"\b(epsilon|delta|rate) ?=? ?(inf|\d[\d.]*(?:e[+-]?\d+)?)")
ONE = np.zeros((1, 1))
PUBLIC = np.random.default_rng(0).normal(size=(20, 2))


def guarantee(epsilon, delta, **fields):
    return PrivacyGuarantee(
        epsilon=epsilon, delta=delta, event=dp_event.NoOpDpEvent(), unit="sample",
        **{"statement": "Noise.", "source": "A theorem"} | fields,
    )  # fmt: skip


def numbers(text):
    """The numbers that a text states, by what they are."""
    found = {}
    for name, number in FOUND.findall(text):
        found.setdefault(name, []).append(float(number.rstrip(".")))
    return found


def of_guarantee(epsilon, delta):
    one = guarantee(epsilon, delta)
    return one, [str(one), repr(one), one._repr_html_()]


def of_claim(epsilon, delta):
    one = guarantee(epsilon, delta, claimed=(epsilon, delta))
    # The claim is the second pair.
    texts = str(one).split("claim was")[1], one._repr_html_().split("claim was")[1]
    return one, [*texts, repr(one)]


def of_report(epsilon, delta):
    one = guarantee(epsilon, delta)
    report = PrivacyReport(one, (), (("what", 2, one),))
    html = report._repr_html_()
    cell = html.split("<td>2</td><td>")[1].split("<")[0]
    return one, [str(report), repr(report), html, f"epsilon = {cell}"]


def of_budget(epsilon, delta):
    budget = PrivacyBudget(epsilon, delta)
    short = re.sub(r"\((.*), (.*)\)", r"(epsilon = \1, delta = \2)", repr(budget))
    spent = [text.split("Left")[0] for text in (str(budget), budget._repr_html_())]
    return guarantee(epsilon, delta), [*spent, short]


def of_completion_client(epsilon, delta):
    del delta
    client = CPCompletion(1, epsilon=epsilon, value_bounds=(0, 1)).client()
    return client.privacy_guarantee_, [repr(client)]


def of_encoder_client(epsilon, delta):
    encoder = TaskAwareEncoder(
        epsilon, task=[[1.0, 1.0]], mechanism="gaussian", delta=max(delta, 1e-9)
    )
    client = encoder.fit(PUBLIC).client()
    return client.privacy_guarantee_, [repr(client)]


PRINTERS = [
    of_guarantee, of_claim, of_report, of_budget, of_completion_client,
    of_encoder_client,
]  # fmt: skip


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("printed", PRINTERS)
@given(epsilon=NUMBERS, delta=DELTAS)
@settings(max_examples=15, deadline=None)
@example(epsilon=1.0000004, delta=1.0000004e-6)
@example(epsilon=0.92564, delta=9.9994e-06)
@example(epsilon=0.1 + 0.2, delta=0.0)
@example(epsilon=1.0, delta=1.2342e-305)
@example(epsilon=1 + 5e-10, delta=1e-321)
def test_no_printed_loss_is_smaller_than_the_true_one(printed, epsilon, delta):
    one, texts = printed(epsilon, delta)
    for text in texts:
        found = numbers(text)
        assert found["epsilon"], text
        for true, name in ((one.epsilon, "epsilon"), (one.delta, "delta")):
            for number in found.get(name, []):
                assert number >= true * (1 - FORGIVEN), text
                assert number <= true * 1.0011, text


@given(epsilon=NUMBERS)
@settings(max_examples=15, deadline=None)
@example(epsilon=1.0000004)
def test_what_a_budget_has_seen_and_refused(epsilon):
    mechanism = LaplaceMechanism(epsilon, bounds=(0, 1)).fit(ONE)
    with PrivacyBudget(1.5 * epsilon) as budget:
        mechanism.transform(ONE)
        with pytest.raises(BudgetExceededError) as refused:
            mechanism.transform(ONE)
    limit, alone, left = numbers(str(refused.value))["epsilon"]
    assert 0.99 * budget.remaining <= left <= budget.remaining * (1 + FORGIVEN)
    assert limit == 1.5 * epsilon
    _, spent, _, line = numbers(str(budget))["epsilon"]
    cell = float(budget._repr_html_().split("<td>1</td><td>")[1].split("<")[0])
    # What is spent is what the event gives, which may be a little less.
    for number, true in (
        (alone, epsilon), (spent, budget.spent.epsilon), (line, epsilon),
        (cell, epsilon),
    ):  # fmt: skip
        assert true * (1 - FORGIVEN) <= number <= true * 1.0011


@pytest.mark.parametrize("rate", [0.010000004, 1])
def test_the_rate_of_a_sample(rate):
    step = LaplaceMechanism(2.0, sensitivity=1.0).fit(ONE)
    sampled = step.privacy_guarantee_.subsampled(rate)
    assert numbers(sampled.statement)["rate"] == [rate]


def test_what_holds_of_a_published_claim():
    response = PublishedTensorRandomizedResponse(1.0000004, n_levels=3, bounds=(0, 1))
    with pytest.warns(UnsoundClaimWarning) as caught:
        response.fit(ONE)
    claim, truth = numbers(str(caught[0].message))["epsilon"]
    assert claim == 1.0000004
    assert truth >= response.privacy_guarantee_.epsilon


def test_a_guarantee_that_is_too_small_is_told_from_the_true_one():
    event = LaplaceMechanism(1.0, bounds=(0, 1)).fit(ONE).privacy_guarantee_.event
    asked = 0.99999999
    with pytest.raises(ValueError, match="smaller") as refused:
        PrivacyGuarantee(
            epsilon=asked, delta=0.0, event=event, unit="sample", statement="Noise.",
            source="A theorem",
        )  # fmt: skip
    said = re.search(r"= (\S+) is smaller than the (\S+) ", str(refused.value))
    assert float(said[1]) == asked < float(said[2])


# Audits: what is found is at least so much, and a claim no less than it was


@given(found=NUMBERS, claimed=NUMBERS, confidence=st.floats(0.5, 0.999999))
@example(found=12.34567, claimed=1.00004, confidence=0.99996)
def test_no_audit_states_more_than_it_found(found, claimed, confidence):
    report = AuditReport(
        epsilon_lower=found, mu_lower=found, confidence=confidence, delta=1.0004e-6,
        claimed=claimed, event="x >= 2", n_trials=10,
    )  # fmt: skip
    for text in (str(report), report._repr_html_().replace("&gt;", ">")):
        said = re.match(
            r"(?:<p>)?epsilon >= (\S+) at delta = (\S+) with confidence (\S+) "
            r"\(mu >= (\S+), for Gaussian noise\), "
            r"against a claim of (\S+): ",
            text,
        )
        epsilon, delta, sure, mu, claim = map(float, said.groups())
        assert found * (1 - 1.1e-3) <= epsilon <= found * (1 + FORGIVEN)
        assert mu == epsilon
        assert delta == 1.0004e-6
        assert sure == confidence
        assert claimed * (1 - FORGIVEN) <= claim <= claimed * 1.0011


# What is declared


def of_sensitivity(sensitivity):
    return MatrixMechanism(sensitivity=sensitivity).fit(ONE).privacy_guarantee_


@pytest.mark.parametrize("sensitivity", [1.999996, 2.0000004, 1 / 3, np.float32(0.1)])
def test_a_sensitivity_is_stated_as_it_was_declared(sensitivity):
    """One that is stated larger would be of a guarantee that nobody keeps."""
    relation = of_sensitivity(sensitivity).relation
    stated = float(relation.removeprefix("a change of at most "))
    assert stated == sensitivity
    query = LaplaceMechanism(sensitivity=sensitivity).fit(ONE).privacy_guarantee_
    assert float(re.search(r"sensitivity \((.*?)\)", query.statement)[1]) == sensitivity


def test_a_smaller_sensitivity_is_another_guarantee():
    smaller, larger = of_sensitivity(1.999996), of_sensitivity(2.0)
    assert smaller != larger
    with pytest.raises(ValueError, match="different relations"):
        compose(smaller, larger)
    queries = [
        LaplaceMechanism(sensitivity=s).fit(ONE).privacy_guarantee_
        for s in (1.999996, 2.0)
    ]
    assert queries[0].statement != queries[1].statement
    # The same number is the same guarantee, whatever its type.
    assert of_sensitivity(2).relation == larger.relation == "a change of at most 2"
    assert compose(of_sensitivity(2), larger).epsilon > 1
