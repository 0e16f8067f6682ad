"""No test of budgets leaves one open."""

import pytest

from tests.support.budgets import left_open


@pytest.fixture(autouse=True)
def nothing_stays_open():
    yield
    assert not left_open()
