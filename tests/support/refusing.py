"""Calls that are refused before anything is released."""

import math
from contextlib import contextmanager

import numpy as np
import pytest

from sktensordp.privacy import PrivacyBudget
from tests.support.noise import drawing


@contextmanager
def refused(message, error=ValueError, secret=()):
    """What must end with an error, before a budget learns of it and noise is drawn.

    Neither the message nor what led to it may show a secret: one text or some.
    """
    raised = pytest.raises(error, match=message)
    with PrivacyBudget(math.inf) as budget, drawing() as drawn, raised as e:
        yield
    assert budget.spent is None
    assert not drawn
    shown = f"{e.value} {e.value.__cause__} {e.value.__context__}"
    assert not any(one in shown for one in np.atleast_1d(secret))
