"""Guarantees as values: what they refuse, how they print and how they compose."""

import copy
import dataclasses
import html
import itertools
import math
import operator
import pickle
import re
from xml.etree import ElementTree

import pytest
from dp_accounting import dp_event

from sktensordp.privacy import (
    PrivacyGuarantee,
    compose,
    compose_parallel,
    privacy_of,
)
from tests.support import events as E
from tests.support.every_estimator import RELEASING

PURE = E.Pure(0.5)
NOISE = E.Gaussian(noise_multiplier=2.0)
NOTHING = E.Nothing()
FIELDS = {"unit": "entry", "statement": "Noise was added.", "source": "A theorem"}


def guarantee(event, delta=0.0, **fields):
    return PrivacyGuarantee.from_event(event, delta=delta, **FIELDS | fields)


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("case", RELEASING)
def test_every_guarantee_can_be_a_key(case):
    """Of every estimator, and of what is composed of it."""
    one, _ = case.release()
    found = one.privacy_guarantee_
    for made in (
        found,
        found.repeated(3),
        compose(found, found),
        compose_parallel(found, found),
        found.for_group(2),
        privacy_of(one).guarantee,
    ):
        for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
            assert {made: 1}[again] == 1
            assert str(again) == str(made)


def test_lists_of_events_become_tuples():
    lists = E.Composed([PURE, E.Repeated(E.Composed([NOISE]), 2)])
    tuples = E.Composed((PURE, E.Repeated(E.Composed((NOISE,)), 2)))
    assert guarantee(lists, 1e-5) == guarantee(tuples, 1e-5)
    assert hash(guarantee(lists, 1e-5)) == hash(guarantee(tuples, 1e-5))


# Construction


def test_of_states_the_epsilon_of_the_event():
    assert guarantee(PURE).epsilon == 0.5
    assert guarantee(PURE).delta == 0.0
    assert guarantee(PURE).relation == "replace-one"
    assert guarantee(PURE).claimed is None
    noisy = guarantee(NOISE, delta=1e-5)
    assert (noisy.epsilon, noisy.delta) == (noisy.epsilon_at(1e-5), 1e-5)
    assert noisy.delta_at(noisy.epsilon) == pytest.approx(1e-5, rel=1e-9)


@pytest.mark.parametrize("share", [0.0, 1 - 1e-9])
@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (PURE, 0.0),
        (E.Laplace(2.0), 0.0),
        (E.Integers(0.25, 4), 0.0),
        (E.Table(((2, 1), (1, 2))), 0.0),
        (NOISE, 1e-5),
        (E.Composed([PURE, NOISE]), 1e-5),
        (E.Composed([PURE, E.Residual(1e-3, 1e-9)]), 1e-5),
    ],
)
def test_refuses_a_smaller_epsilon(event, delta, share):
    truth = guarantee(event, delta).epsilon
    with pytest.raises(ValueError, match="is smaller than the"):
        PrivacyGuarantee(epsilon=truth * share, delta=delta, event=event, **FIELDS)
    for allowed in (truth, truth * 1.01, math.inf):
        stated = PrivacyGuarantee(epsilon=allowed, delta=delta, event=event, **FIELDS)
        assert stated.epsilon == allowed


@pytest.mark.parametrize("epsilon", [-1e-300, -1.0, math.nan, -math.inf])
def test_refuses_epsilon(epsilon):
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        PrivacyGuarantee(epsilon=epsilon, delta=0.0, event=NOTHING, **FIELDS)
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        guarantee(PURE).delta_at(epsilon)


@pytest.mark.parametrize("delta", [-1e-300, 1.0, 2.0, math.nan, math.inf])
def test_refuses_delta(delta):
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\)"):
        PrivacyGuarantee(epsilon=1.0, delta=delta, event=NOTHING, **FIELDS)
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\)"):
        guarantee(PURE).epsilon_at(delta)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("epsilon", lambda one, x: PrivacyGuarantee(
            epsilon=x, delta=0.0, event=NOTHING, **FIELDS)),
        ("delta", lambda one, x: PrivacyGuarantee(
            epsilon=1.0, delta=x, event=NOTHING, **FIELDS)),
        ("delta", lambda one, x: guarantee(PURE, x)),
        ("delta", lambda one, x: one.epsilon_at(x)),
        ("epsilon", lambda one, x: one.delta_at(x)),
        ("order", lambda one, x: one.renyi_at(x)),
        ("rate", lambda one, x: one.subsampled(x)),
        ("delta", lambda one, x: one.for_group(2, delta=x)),
        ("delta", lambda one, x: one.shuffled(2, delta=x)),
        ("delta", lambda one, x: compose(one, delta=x)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", ["1", [0.5]])
def test_what_is_no_number_is_refused_by_name(name, call, text):
    with pytest.raises(TypeError, match=f"^{name} must be one number, got "):
        call(guarantee(PURE), text)


@pytest.mark.parametrize("unit", ["user", "", "Entry", None, 1.5])
def test_refuses_units(unit):
    with pytest.raises(ValueError, match="unit must be one of"):
        guarantee(PURE, unit=unit)


def test_frozen_and_named():
    value = guarantee(PURE)
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, 0)
    with pytest.raises(TypeError):
        PrivacyGuarantee(1.0, 0.0, "entry", PURE, "", "")
    assert value == guarantee(PURE)
    assert value != guarantee(PURE, statement="Something else.")
    assert hash(value) == hash(guarantee(PURE))
    with pytest.raises(ValueError, match="is smaller than the"):
        dataclasses.replace(value, epsilon=0.1)


# Curves


def test_non_private():
    value = guarantee(E.NonPrivate())
    assert value.epsilon == value.epsilon_at(0.9) == math.inf
    assert value.delta_at(0.0) == value.delta_at(1e9) == 1.0
    assert not value.protects
    text = str(value)
    assert text.startswith("No differential privacy for the value of one observed")
    assert "epsilon =" not in text


@pytest.mark.parametrize("event", [dp_event.ZCDpEvent(rho=0.1), None])
def test_unknown_events(event):
    with pytest.raises(NotImplementedError, match="no privacy accounting"):
        PrivacyGuarantee(epsilon=math.inf, delta=0.0, event=event, **FIELDS)


# Printing


def printed(text):
    pair = re.search(r"\(epsilon = (\S+), delta = (\S+)\)", text)
    return tuple(float(number) for number in pair.groups())


def test_printing_of_known_numbers():
    for epsilon, shown in [
        (0.92561, "0.9257"),
        (4.0, "4"),
        (0.30000000000000004, "0.3"),
        (1.00001, "1.001"),
        (9.9995, "10"),
        (12345.0, "1.235e+04"),
        (1e-7, "1e-07"),
    ]:
        value = PrivacyGuarantee(epsilon=epsilon, delta=0, event=NOTHING, **FIELDS)
        assert f"(epsilon = {shown}, delta = 0)" in str(value)


def test_text_says_it_all():
    value = guarantee(
        PURE, unit=2, relation="add-or-remove-one", claimed=(0.123451, 1e-6)
    )
    assert str(value) == (
        "(epsilon = 0.5, delta = 0)-differential privacy for everything at one index "
        "of mode 2 (add-or-remove-one); the claim was (epsilon = 0.1235, delta = "
        "1e-06)."
    )
    assert "one row of X" in str(guarantee(PURE, unit="sample"))
    assert "one cell of one histogram" in str(guarantee(PURE, unit="cell"))


def test_words_for_the_unit_and_the_release_change_nothing_else():
    plain = guarantee(PURE, unit=0)
    told = guarantee(PURE, unit=0, protected="all rows of one user", scope="This fit")
    assert str(told) == (
        "This fit: (epsilon = 0.5, delta = 0)-differential privacy for all rows of one "
        "user (replace-one)."
    )
    assert "all rows of one user" in told._repr_html_()
    assert told == plain
    assert hash(told) == hash(plain)
    for derived in (told + told, told | told, 2 * told, told.for_group(2)):
        assert "for all rows of one user" in str(derived)
        assert "This fit" not in str(derived)
    # Words that not all of them use describe none of them.
    for other in plain, guarantee(PURE, unit=0, protected="all rows of one item"):
        assert "everything at one index of mode 0" in str(told + other)
    refused = guarantee(E.NonPrivate(), unit=0, scope="This fit")
    assert str(refused).startswith("This fit: No differential privacy")


def test_html_escapes():
    hostile = "<script>alert('&\"')</script>"
    value = guarantee(
        PURE, statement=hostile, source=hostile, relation=hostile, claimed=(0.1, 0.0)
    )
    page = value._repr_html_()
    assert "<script" not in page
    # In the rows of statement, source and relation, and in the line's relation.
    assert page.count(html.escape(hostile)) == 4
    tags = {element.tag for element in ElementTree.fromstring(f"<p>{page}</p>").iter()}
    own = {"div", "table", "tr", "th", "td", "details", "summary", "p", "svg", "rect"}
    assert tags == own | {"line", "polyline", "text"}
    assert "(epsilon = 0.1, delta = 0)" in page
    assert "claim" not in guarantee(PURE)._repr_html_()


def test_an_infinite_epsilon_is_no_claim():
    void = guarantee(E.NonPrivate(), claimed=(math.inf, 1e-6))
    assert void.claimed is None
    assert "epsilon = inf" not in str(void) + void._repr_html_()
    # What was asked for stays, for the parts that asked for something.
    assert guarantee(PURE, claimed=(0.1, 0.0)).claimed == (0.1, 0.0)
    assert compose(void, guarantee(PURE, claimed=(0.1, 0.0))).claimed is None


@pytest.mark.parametrize("case", RELEASING)
def test_every_guarantee_prints_one_sentence(case):
    model, _ = case.release()
    value = model.privacy_guarantee_
    text = str(value)
    # No full stop but the last, and those in numbers.
    assert re.findall(r"\.(?!\d)", text) == ["."]
    assert text.endswith(".")
    assert value.statement not in text
    assert value.source not in text
    stated = (value.epsilon, value.delta) if value.protects else value.claimed
    assert printed(text) == pytest.approx(stated, rel=1e-3)
    for said in (value.statement, value.source):
        assert "epsilon = inf" not in said
        assert html.escape(said) in value._repr_html_()


# Composition


def test_delta_of_a_composition():
    parts = [guarantee(NOISE, delta=1e-5), guarantee(NOISE, delta=3e-6)]
    parts.append(guarantee(PURE))
    assert compose(*parts).delta == math.fsum([1e-5, 3e-6])
    assert compose(*parts, delta=1e-9).delta == 1e-9
    assert compose(*parts, delta=1e-9).epsilon > compose(*parts).epsilon
    assert compose(*parts, delta=0.0).epsilon == math.inf
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\)"):
        compose(*parts, delta=1.0)


def test_what_a_composition_says():
    a = guarantee(PURE, unit=1, relation="add-or-remove-one", source="Zeta")
    b = guarantee(PURE, unit=1, relation="add-or-remove-one", source="Alpha")
    together = compose(a, b, a)
    assert together.unit == 1
    assert together.relation == "add-or-remove-one"
    assert together.source == "Alpha; Zeta"
    assert "3 releases" in together.statement
    assert together.claimed is None


def test_guarantees_that_do_not_go_together():
    a = guarantee(PURE)
    declared, added = (
        guarantee(PURE, relation=r)
        for r in ("any change within the declared sensitivity", "add-or-remove")
    )
    for together in (lambda *g: g[0] + g[1], lambda *g: g[0] | g[1], compose):
        for one, other in itertools.permutations(["entry", "sample", "cell", 0, 2], 2):
            with pytest.raises(ValueError, match="different units do not compose"):
                together(guarantee(PURE, unit=one), guarantee(PURE, unit=other))
        with pytest.raises(ValueError, match=r"relations.*add-or-remove.*replace-one"):
            together(added, a)
        with pytest.raises(ValueError, match="different changes of the data"):
            together(a, added)
        assert together(a, declared).relation == "replace-one"
        assert together(declared, added).relation == "add-or-remove"
        assert together(declared, declared).relation == declared.relation
    for none in (compose, compose_parallel):
        with pytest.raises(ValueError, match="at least one"):
            none()
    for count in (0, -1):
        for times in (a.repeated, a.__mul__):
            with pytest.raises(ValueError, match="count must be from 1"):
                times(count)
    for other in (1, 0.5, None, "a", PURE, [a]):
        for operation in (operator.add, operator.or_):
            for pair in ((a, other), (other, a)):
                with pytest.raises(TypeError):
                    operation(*pair)
    for count in (1.0, True, None, "2", a):
        with pytest.raises(TypeError):
            a * count
    for together in (compose, compose_parallel):
        with pytest.raises(TypeError, match=r"must be a PrivacyGuarantee.* got int"):
            together(a, 3)
    with pytest.raises(TypeError, match="count must be an integer, got str"):
        a.repeated("2")


def test_deltas_that_sum_to_no_delta():
    one = guarantee(E.Gaussian(10.0), 1e-6)
    assert (10**6 * one).delta == 1e-6
    assert (10**12 * one).epsilon > 1e6
    coarse = guarantee(E.Gaussian(0.5), 0.5)
    for count in (2, 3):
        together = compose(*[coarse] * count)
        assert together.delta == 0.5  # the largest of them
        assert together.epsilon > coarse.epsilon
    assert sum([one, one]).epsilon == compose(one, one).epsilon
    with pytest.raises(TypeError):
        sum([one], start=1)


def test_composition_never_understates_a_cautious_part():
    # Stated with a larger epsilon than needed: composition goes back to the events.
    cautious = PrivacyGuarantee(epsilon=3.0, delta=0.0, event=PURE, **FIELDS)
    assert compose(cautious, cautious).epsilon == 1.0
