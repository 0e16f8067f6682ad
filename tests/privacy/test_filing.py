"""The paragraph for a filing says what the guarantee says, for every unit."""

import math

import dp_accounting
import pytest

from sktensordp.privacy import PrivacyGuarantee
from tests.support.seams import _UNITS


def made(**fields):
    event = dp_accounting.GaussianDpEvent(noise_multiplier=4.0)
    options = {"unit": "sample", "statement": "Gaussian noise.", "source": "A theorem."}
    return PrivacyGuarantee.from_event(event, delta=1e-5, **(options | fields))


@pytest.mark.parametrize("unit", [*_UNITS, 0, 2])
@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove"])
def test_every_unit_and_relation(unit, relation):
    text = made(unit=unit, relation=relation).describe()
    assert "epsilon = 0.9264, delta = 1e-05" in text
    assert text.count("level)") == 1
    assert ("bounded differential privacy)" in text) is True
    assert ("unbounded" in text) is (relation == "add-or-remove")
    assert "Gaussian noise." in text
    assert "Proof: A theorem." in text


@pytest.mark.parametrize("local", [True, False, None])
def test_trust(local):
    text = made(local=local).describe()
    assert ("the local model" in text) is (local is True)
    assert "central model" in text


def test_a_group_is_named():
    assert "for any 3 units together" in made().for_group(3).describe()


def test_what_does_not_hold_is_said():
    guarantee = PrivacyGuarantee(
        epsilon=math.inf, delta=1e-5, unit="sample", claimed=(1.0, 0.0),
        event=dp_accounting.NonPrivateDpEvent(), statement="No noise.", source="None.",
    )  # fmt: skip
    text = guarantee.describe()
    assert "no finite epsilon holds" in text
    assert "does not hold: epsilon = 1, delta = 0" in text
    assert "with probability at" not in text
