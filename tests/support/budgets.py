"""What budgets have recorded, and when: the one place that looks inside of them."""

from contextlib import contextmanager
from unittest import mock

from sktensordp import base
from sktensordp.privacy.budgets import _budget, _filter
from sktensordp.privacy.budgets._preauthorized import (
    current_preauthorization,
    run_preauthorized,
)
from tests.support.points import POINTS, original

__all__ = [
    "FILES",
    "guarantees_of",
    "left_open",
    "locked",
    "n_released",
    "recording",
    "releases_of",
    "run_preauthorized",
    "unrecorded",
]  # fmt: skip

# Where every release passes that is recorded.
FILES = {_filter.__file__, _budget.__file__, base.__file__}


def releases_of(budget):
    """(how often, its name) of every release that a budget has recorded."""
    budget._read()
    return [(count, name) for _, count, _, name in budget._account.lines() if count]


def n_released(budget):
    """How many releases a budget has recorded."""
    return sum(count for count, _ in releases_of(budget))


def guarantees_of(budget):
    budget._read()
    return list(budget._account.guarantees())


def left_open():
    """Whether a budget or a cover is open; budgets are closed then."""
    found = bool(_budget._STACK) or current_preauthorization() is not None
    _budget._STACK.clear()
    return found


def locked():
    """What guards all budgets, as a context; not while another thread is inside."""
    return _budget._LOCK


@contextmanager
def recording(after=lambda name: None):
    """Names of the releases that are recorded while this lasts: a list."""
    recorded, record = [], original("recording")

    def recorder(guarantee, name, *args, **options):
        record(guarantee, name, *args, **options)
        recorded.append(name)
        after(name)

    with mock.patch.object(*POINTS["recording"], recorder):
        yield recorded


def unrecorded(budget, error):
    """While this lasts, recording in a budget raises an error."""
    record = original("recording in an account")

    def interrupted(account, *args):
        if account is budget._account:
            raise error
        record(account, *args)

    return mock.patch.object(*POINTS["recording in an account"], interrupted)
