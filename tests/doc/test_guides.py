"""What pages state beside their printed output is true."""

import re

import numpy as np
import pytest

from sktensordp import plotting
from tests import DOC
from tests.support.public import public_estimators

pytestmark = pytest.mark.thorough


def text_of(page):
    return (DOC / page).read_text()


def cells(page, first):
    """The cells of the row of a table that begins so, without the first."""
    (row,) = re.findall(rf"^\| {first} \|(.*)\|$", text_of(page), flags=re.MULTILINE)
    return [cell.strip() for cell in row.split("|")]


def is_rounded_up(said, true):
    """Whether a number is the least of its digits that is not below the truth."""
    digits = len(said.partition(".")[2])
    return 0 <= float(said) - true < 10**-digits


def test_odds_are_never_understated():
    """The probabilities and odds of all pages, which are upper bounds."""
    rows = [cells("guarantee.md", row) for row in ("epsilon", "right at most")]
    bound = dict(zip(*rows, strict=True))
    for epsilon, right in bound.items():
        assert is_rounded_up(right.strip("%"), 100 / (1 + np.exp(-float(epsilon))))
        assert cells("choosing_epsilon.md", epsilon)[-1] + "%" == f"at most {right}"
    assert cells("choosing_epsilon.md", "1 rating")[1] + "%" == f"at most {bound['1']}"
    assert f"right at most {bound['4']}" in text_of("playground.md")
    readme = " ".join(text_of("../README.md").split())
    for epsilon in ("4", "1"):
        said = rf"{bound[epsilon]} (of the time )?at epsilon {epsilon}\b"
        assert re.search(said, readme)
    assert len(re.findall(r"\d%", readme)) == 3  # and 50% without the model
    page = "choosing_epsilon.md"
    for epsilon in ("0.25", "0.5", "1", "2", "4", "8"):
        factor, suspicion, right = cells(page, re.escape(epsilon))
        odds = np.exp(float(epsilon))
        assert is_rounded_up(factor.replace(",", ""), odds)
        assert is_rounded_up(suspicion.strip("%"), 100 * odds / (99 + odds))
        assert is_rounded_up(right.split()[-1], 100 * odds / (1 + odds))
    assert is_rounded_up(
        cells(page, "5 ratings")[1].split()[-1], 100 / (1 + np.exp(-5))
    )


def names_in_tables(page):
    """Public names to which the rows of a page's tables link."""
    rows = re.findall(r"^\|.*$", text_of(page), flags=re.MULTILINE)
    return set(re.findall(r"`~sktensordp\.[\w.]*?(\w+)`", "\n".join(rows)))


def test_all_pictures_are_listed():
    assert names_in_tables("plotting.md") == set(plotting.__all__)


def test_no_estimator_is_missing_in_the_threat_model():
    assert names_in_tables("threat_model.md") >= public_estimators().keys()
