"""Guarantees as values: what they refuse, how they print and how they compose."""

import copy
import dataclasses
import html
import itertools
import math
import operator
import pickle
import re
import subprocess
import sys

import mpmath
import pytest
from dp_accounting import dp_event
from hypothesis import example, given
from hypothesis import strategies as st

from sktensordp.privacy import PrivacyGuarantee, compose, compose_parallel
from sktensordp.privacy._events import (
    PureDpEvent,
    SamplerResidualDpEvent,
    TableDpEvent,
)

FIELDS = {"unit": "entry", "statement": "Noise was added.", "source": "A theorem"}
PURE = PureDpEvent(0.5)
NOISE = dp_event.GaussianDpEvent(noise_multiplier=2.0)
NOTHING = dp_event.NoOpDpEvent()


def guarantee(event, delta=0.0, **fields):
    return PrivacyGuarantee.of(event, delta=delta, **{**FIELDS, **fields})


# Construction


def test_of_states_the_epsilon_of_the_event():
    assert guarantee(PURE).epsilon == 0.5
    assert guarantee(PURE).delta == 0.0
    assert guarantee(PURE).relation == "replace-one"
    assert guarantee(PURE).claimed is None
    noisy = guarantee(NOISE, delta=1e-5)
    assert (noisy.epsilon, noisy.delta) == (noisy.epsilon_at(1e-5), 1e-5)
    assert noisy.delta_at(noisy.epsilon) == pytest.approx(1e-5, rel=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999, 1 - 1e-9])
@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (PURE, 0.0),
        (dp_event.LaplaceDpEvent(2.0), 0.0),
        (dp_event.DiscreteLaplaceDpEvent(0.25, 4), 0.0),
        (TableDpEvent(((2, 1), (1, 2))), 0.0),
        (NOISE, 1e-5),
        (dp_event.ComposedDpEvent([PURE, NOISE]), 1e-5),
        (dp_event.ComposedDpEvent([PURE, SamplerResidualDpEvent(1e-3, 1e-9)]), 1e-5),
    ],
)
def test_refuses_a_smaller_epsilon(event, delta, share):
    truth = guarantee(event, delta).epsilon
    with pytest.raises(ValueError, match="is smaller than the"):
        PrivacyGuarantee(epsilon=truth * share, delta=delta, event=event, **FIELDS)
    for allowed in (truth, truth * 1.01, math.inf):
        stated = PrivacyGuarantee(epsilon=allowed, delta=delta, event=event, **FIELDS)
        assert stated.epsilon == allowed


def test_refuses_a_finite_epsilon_where_there_is_none():
    for event, delta in ((dp_event.NonPrivateDpEvent(), 0.5), (NOISE, 0.0)):
        with pytest.raises(ValueError, match="smaller than the inf"):
            PrivacyGuarantee(epsilon=1e300, delta=delta, event=event, **FIELDS)


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


@pytest.mark.parametrize("unit", ["user", "", "Entry", None, 1.5])
def test_refuses_units(unit):
    with pytest.raises(ValueError, match="unit must be one of"):
        guarantee(PURE, unit=unit)


UNITS = ["entry", "sample", "row", "cell", 0, 2]


@pytest.mark.parametrize("unit", UNITS)
def test_accepts_units(unit):
    assert guarantee(PURE, unit=unit).unit == unit


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


@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (PURE, 0.0),
        (TableDpEvent(((2, 1), (1, 2))), 0.0),
        (dp_event.ComposedDpEvent((NOISE, SamplerResidualDpEvent(1e-6, 0.0))), 1e-5),
        (dp_event.NonPrivateDpEvent(), 0.0),
    ],
)
def test_copies_are_equal(event, delta):
    value = guarantee(event, delta, claimed=(0.1, 0.0), unit=1)
    for copied in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
        assert copied == value
        assert str(copied) == str(value)
        assert copied.delta_at(0.3) == value.delta_at(0.3)


# Curves


def test_curves_of_a_pure_release():
    value = guarantee(PURE)
    assert value.epsilon_at(0.0) == 0.5
    assert value.delta_at(0.5) == 0.0
    assert value.delta_at(math.inf) == 0.0
    # Randomised response at epsilon 0: (e^0.5 - 1) / (e^0.5 + 1).
    assert value.delta_at(0.0) == pytest.approx(math.tanh(0.25), rel=1e-14)
    assert value.protects


def test_non_private():
    value = guarantee(dp_event.NonPrivateDpEvent())
    assert value.epsilon == value.epsilon_at(0.9) == math.inf
    assert value.delta_at(0.0) == value.delta_at(1e9) == 1.0
    assert not value.protects
    text = str(value)
    assert text.startswith("No differential privacy for the value of one observed")
    assert "epsilon =" not in text


@pytest.mark.parametrize(
    "event",
    [
        dp_event.UnsupportedDpEvent(),
        dp_event.ComposedDpEvent([PURE, dp_event.ZCDpEvent(rho=0.1)]),
        None,
    ],
)
def test_unknown_events(event):
    with pytest.raises(NotImplementedError, match="no privacy accounting"):
        guarantee(event)
    with pytest.raises(NotImplementedError, match="no privacy accounting"):
        PrivacyGuarantee(epsilon=math.inf, delta=0.0, event=event, **FIELDS)


# Printing


def printed(text):
    pair = re.search(r"\(epsilon = (\S+), delta = (\S+)\)", text)
    return tuple(float(number) for number in pair.groups())


# The package forgives 1e-9 of an epsilon, so that 0.1 + 0.2 prints as 0.3.
_FORGIVEN = 1e-9

four_digits = st.builds(
    lambda digits, exponent, step: float(f"{digits}e{exponent}") * (1 + step),
    st.integers(1000, 9999),
    st.integers(-290, 290),
    st.sampled_from([0.0, 2.3e-16, -2.3e-16, 1e-12, 2e-9, 1e-8, -1e-8, 1e-6]),
)
positive = st.one_of(
    st.floats(1e-300, 1e300), st.floats(1e-6, 100.0), four_digits, st.just(0.0)
)


@given(epsilon=positive, delta=st.floats(1e-300, 0.9999) | st.just(0.0))
@example(epsilon=0.92565, delta=1e-5)
@example(epsilon=0.1 + 0.2, delta=9.99949e-6)
@example(epsilon=0.25 + 1e-8, delta=0.0)
@example(epsilon=999.95, delta=0.99999)
@example(epsilon=math.nextafter(1.0, 0.0), delta=0.0)
def test_printing_rounds_up(epsilon, delta):
    value = PrivacyGuarantee(epsilon=epsilon, delta=delta, event=NOTHING, **FIELDS)
    for text in (str(value), value._repr_html_()):
        for shown, true in zip(printed(text), (epsilon, delta), strict=True):
            assert shown >= true * (1 - 2 * _FORGIVEN)
            assert shown <= true * (1 + 1.001e-3)


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


def test_printing_drops_nothing():
    value = PrivacyGuarantee(epsilon=1 + 5e-10, delta=0, event=NOTHING, **FIELDS)
    assert printed(str(value))[0] >= value.epsilon


def test_printing_of_subnormal_numbers():
    value = PrivacyGuarantee(epsilon=1.0, delta=1e-321, event=NOTHING, **FIELDS)
    assert printed(str(value))[1] >= 1e-321


def test_text_says_it_all():
    value = guarantee(
        PURE, unit=2, relation="add-or-remove-one", claimed=(0.123451, 1e-6)
    )
    assert str(value) == (
        "(epsilon = 0.5, delta = 0)-differential privacy for everything at one index "
        "of mode 2 (add-or-remove-one). Noise was added. Claimed: (epsilon = 0.1235, "
        "delta = 1e-06). [A theorem]"
    )
    assert "one row of X" in str(guarantee(PURE, unit="sample"))
    assert "one row of one sample" in str(guarantee(PURE, unit="row"))
    assert "one cell of one histogram" in str(guarantee(PURE, unit="cell"))


def test_html_escapes():
    hostile = "<script>alert('&\"')</script>"
    value = guarantee(
        PURE, statement=hostile, source=hostile, relation=hostile, claimed=(0.1, 0.0)
    )
    page = value._repr_html_()
    assert "<script" not in page
    # In the rows of statement, source and relation, and in the caption's relation.
    assert page.count(html.escape(hostile)) == 4
    assert re.sub(r"</?(table|caption|tr|th|td)>", "", page).count("<") == 0
    assert "(epsilon = 0.1, delta = 0)" in page
    assert "claimed" not in guarantee(PURE)._repr_html_()


# Composition


def test_pure_epsilons_add_up():
    parts = [
        guarantee(PureDpEvent(0.1)),
        guarantee(dp_event.LaplaceDpEvent(4.0)),
        guarantee(dp_event.DiscreteLaplaceDpEvent(0.125, 3)),
    ]
    together = compose(*parts)
    # The float 0.1 is more than a tenth, and 0.725 is less than the sum.
    assert together.epsilon == math.nextafter(0.725, 1)
    assert together.delta == 0.0
    # Ten times the float 0.1 is more than 1.
    assert compose(*[parts[0]] * 10).epsilon == math.nextafter(1.0, 2.0)
    assert compose(parts[1]).epsilon == 0.25


def test_gaussians_compose_in_closed_form():
    multipliers = [2.0, 5.0, 0.9]
    parts = [
        guarantee(dp_event.GaussianDpEvent(m), delta=1e-6, unit="sample")
        for m in multipliers
    ]
    together = compose(*parts, delta=1e-5)
    assert together.delta == 1e-5
    with mpmath.workdps(50):
        mu = mpmath.sqrt(sum(1 / mpmath.mpf(m) ** 2 for m in multipliers))

        def curve(epsilon):
            upper = mpmath.ncdf(mu / 2 - epsilon / mu)
            return upper - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)

        exact = mpmath.findroot(lambda e: mpmath.log(curve(e) / 1e-5), (5, 6))
        assert abs(together.epsilon / float(exact) - 1) < 1e-12
        for epsilon in (0.0, 1.0, 7.0):
            exact = float(curve(mpmath.mpf(epsilon)))
            assert together.delta_at(epsilon) == pytest.approx(exact, rel=1e-12)


def test_mixtures_lie_between_the_larger_part_and_the_sum():
    pure, noise = guarantee(PURE), guarantee(NOISE, delta=1e-5)
    together = compose(pure, noise)
    assert together.delta == 1e-5
    assert max(pure.epsilon, noise.epsilon) < together.epsilon
    assert together.epsilon < pure.epsilon + noise.epsilon
    # E over the two losses of randomised response, +-0.5, of the Gaussian curve.
    with mpmath.workdps(40):
        mu, epsilon = mpmath.mpf(0.5), mpmath.mpf(together.epsilon)

        def curve(e):
            upper = mpmath.ncdf(mu / 2 - e / mu)
            return upper - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)

        up = 1 / (1 + mpmath.exp(-0.5))
        exact = float(up * curve(epsilon - 0.5) + (1 - up) * curve(epsilon + 0.5))
    # The grid of losses and the slack of 1e-12 cost 1e-6 of delta here.
    assert 1e-5 * (1 - 1e-5) <= exact <= 1e-5
    assert compose(guarantee(PURE), guarantee(PURE), delta=1e-3).epsilon < 1.0


def test_delta_of_a_composition():
    parts = [guarantee(NOISE, delta=1e-5), guarantee(NOISE, delta=3e-6)]
    parts.append(guarantee(PURE))
    assert compose(*parts).delta == math.fsum([1e-5, 3e-6])
    assert compose(*parts, delta=1e-9).delta == 1e-9
    assert compose(*parts, delta=1e-9).epsilon > compose(*parts).epsilon
    assert compose(*parts, delta=0.0).epsilon == math.inf
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\)"):
        compose(*parts, delta=1.0)
    half = guarantee(NOISE, delta=0.5)
    # Their sum is no delta: stated at the largest of them.
    assert compose(half, half).delta == 0.5
    assert compose(half, half).epsilon >= half.epsilon


@pytest.mark.parametrize(
    "events",
    [
        (PURE, dp_event.LaplaceDpEvent(3.0), TableDpEvent(((2, 1), (1, 2)))),
        (NOISE, dp_event.GaussianDpEvent(3.0), NOISE),
        (PURE, NOISE, dp_event.LaplaceDpEvent(1.5)),
        (NOISE, SamplerResidualDpEvent(1e-4, 1e-9), PURE),
    ],
)
def test_nested_compositions_equal_flat_ones(events):
    a, b, c = (guarantee(event, delta=1e-4) for event in events)
    flat = compose(a, b, c, delta=1e-5)
    for nested in (
        compose(compose(a, b), c, delta=1e-5),
        compose(compose(c, compose(b)), compose(a), delta=1e-5),
    ):
        # Only the order of summation differs.
        assert nested.epsilon == pytest.approx(flat.epsilon, rel=1e-9)
        assert nested.delta_at(0.7) == pytest.approx(flat.delta_at(0.7), rel=1e-9)


def test_what_a_composition_says():
    a = guarantee(PURE, unit=1, relation="add-or-remove-one", source="Zeta")
    b = guarantee(PURE, unit=1, relation="add-or-remove-one", source="Alpha")
    together = compose(a, b, a)
    assert together.unit == 1
    assert together.relation == "add-or-remove-one"
    assert together.source == "Alpha; Zeta"
    assert "3 releases" in together.statement
    assert together.claimed is None


def test_claims_add_up():
    a = guarantee(PURE, claimed=(0.25, 1e-6))
    b = guarantee(NOISE, delta=1e-5)
    c = guarantee(PURE, claimed=(0.125, 0.0))
    # A release without a claim counts with what it states.
    assert compose(a, b, c).claimed == (0.375 + b.epsilon, pytest.approx(1.1e-5))
    assert compose(a, a).claimed == (0.5, 2e-6)
    assert compose(b, b).claimed is None
    # A claim changes nothing about the truth.
    assert compose(a, c).epsilon == 1.0


def test_composition_with_a_non_private_release():
    together = compose(guarantee(PURE), guarantee(dp_event.NonPrivateDpEvent()))
    assert together.epsilon == math.inf
    assert together.delta_at(100.0) == 1.0
    assert not together.protects


def test_composition_refuses():
    with pytest.raises(ValueError, match="at least one guarantee"):
        compose()
    with pytest.raises(ValueError, match="different units do not compose"):
        compose(guarantee(PURE), guarantee(PURE, unit="sample"))
    with pytest.raises(ValueError, match="different units do not compose"):
        compose(guarantee(PURE, unit=0), guarantee(PURE, unit=1))
    for one, other in itertools.permutations(UNITS, 2):
        both = guarantee(PURE, unit=one), guarantee(PURE, unit=other)
        for together in (operator.add, operator.or_, compose, compose_parallel):
            with pytest.raises(ValueError, match="different units do not compose"):
                together(*both)
    with pytest.raises(ValueError, match="different relations do not compose"):
        compose(guarantee(PURE), guarantee(PURE, relation="add-or-remove-one"))


def test_composition_never_understates_a_cautious_part():
    # Stated with a larger epsilon than needed: composition goes back to the events.
    cautious = PrivacyGuarantee(epsilon=3.0, delta=0.0, event=PURE, **FIELDS)
    assert compose(cautious, cautious).epsilon == 1.0


def test_import_is_light():
    code = (
        "import sys\n"
        "from sktensordp import privacy\n"
        "privacy.gaussian_sigma(1.0, 1e-5)\n"
        "print([m for m in sys.modules if m.split('.')[0] == 'dp_accounting'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
