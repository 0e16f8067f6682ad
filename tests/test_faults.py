"""The table of faults is about the package as it is."""

from tests.faults import FAULTS, problems


def test_every_fault_has_its_line_and_its_tests():
    assert len(FAULTS) >= 60
    assert list(problems()) == []
