"""Calls that are refused before anything is released."""

import math
from contextlib import contextmanager

import pytest

from sktensordp.privacy import PrivacyBudget


@contextmanager
def refused(message, error=ValueError, secret=None):
    """What must end with an error, before a budget learns of a release.

    Neither the message nor what led to it may show `secret`.
    """
    with PrivacyBudget(math.inf) as budget, pytest.raises(error, match=message) as e:
        yield
    assert budget.spent is None
    shown = f"{e.value} {e.value.__cause__} {e.value.__context__}"
    assert secret is None or secret not in shown
