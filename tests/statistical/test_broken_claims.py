"""The auditor catches every broken mechanism of the example, in as many trials."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "audit_claims.py"
specification = importlib.util.spec_from_file_location("audit_claims", SCRIPT)
example = importlib.util.module_from_spec(specification)
specification.loader.exec_module(example)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", example.CLAIMS)
def test_claim(name, seed):
    report = example.audit(name, seed)
    assert report.violated == ("(true)" not in name), report


def test_the_event_found_is_the_flaw():
    """Where the flaw is in the floats alone, the event is one of floats."""
    for name in ("naive Laplace", "naive Gaussian"):
        event = example.audit(name).event
        assert "in floats" in event or "lowest set bit" in event
