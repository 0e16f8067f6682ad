"""The auditor catches every broken mechanism of the example, in as many trials."""

import pytest

from tests import EXAMPLES
from tests.support.scripts import load_definitions

pytestmark = pytest.mark.thorough
example = load_definitions(EXAMPLES / "audit_claims.py")


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", example.CLAIMS)
def test_claim(name, seed):
    report = example.audit(name, seed)
    assert report.violated == ("(true)" not in name), report


def test_the_event_found_is_the_flaw():
    """Where the flaw is in the floats alone, the event is one of floats."""
    for name in ("naive Laplace", "naive Gaussian"):
        event = example.audit(name).event
        assert "in floats" in event or "lowest set bit" in event
