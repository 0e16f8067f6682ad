"""What the tests of budgets share."""

import pytest

from sktensordp._random import NoiseSource
from sktensordp.privacy import _budget


@pytest.fixture(autouse=True)
def nothing_stays_open():
    yield
    left, _budget._STACK[:] = list(_budget._STACK), []
    assert not left


@pytest.fixture
def keys(monkeypatch):
    """A list that grows with every key that is taken, of which all noise comes."""
    taken, start = [], NoiseSource.__init__
    monkeypatch.setattr(
        NoiseSource, "__init__", lambda *a: (taken.append(1), start(*a))[1]
    )
    return taken
