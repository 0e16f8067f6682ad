"""Calls that are refused before anything is released, and hostile texts."""

import json
import math
import pickle
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


def assert_hostile_texts_are_refused(client, release):
    """Every value of a client's text is exchanged for hostile ones.

    Each is refused, or makes another sound client, of which a release is finite.
    """
    kind, text = type(client), client.to_json()
    hostile = (
        None, True, -1, 0, 10**400, 1e308, float("nan"), "x", [], [1], [[1]], [2, 1],
        {}, [None], [1e308, -1e308], 2.5,
    )  # fmt: skip
    messages, n_all = [], 0
    for name in json.loads(text):
        for value in hostile:
            other = json.dumps({**json.loads(text), name: value})
            n_all += 1
            try:
                found = kind.from_json(other)
            except ValueError as error:
                messages.append(str(error))
            else:
                assert np.all(np.isfinite(release(found)))
    assert len(messages) > 0.8 * n_all
    assert max(map(len, messages)) < 300
    for other in (text[:-1], "", "null", text + text, text.replace("{", '{"a": 1, ')):
        with pytest.raises(ValueError, match=f"not an? {kind.__name__}"):
            kind.from_json(other)
    for other in (None, text.encode(), pickle.dumps(client)):
        with pytest.raises(TypeError, match="text must be a str"):
            kind.from_json(other)
