"""What budgets have recorded, and when: the one place that looks inside of them."""

from contextlib import contextmanager
from unittest import mock

from sktensordp import base
from tests.support.points import POINTS, original
from tests.support.seams import (
    OPEN,
    budgets_budget,
    budgets_filter,
    budgets_ledger,
    budgets_open,
    current_reservation,
)

# Where every release passes that is recorded.
FILES = {
    one.__file__
    for one in (budgets_filter, budgets_budget, budgets_ledger, budgets_open, base)
}


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
    """Whether a budget or a reservation is open; budgets are closed then."""
    found = bool(OPEN.stack) or current_reservation() is not None
    OPEN.stack.clear()
    return found


def locked():
    """What guards all budgets, as a context; not while another thread is inside."""
    return OPEN.lock


@contextmanager
def recording(after=lambda name: None):
    """Names of the releases that are recorded while this lasts: a list."""
    recorded, record = [], original("recording")

    def recorder(guarantee, name, *args, **options):
        release = record(guarantee, name, *args, **options)
        recorded.append(name)
        after(name)
        return release

    with mock.patch.object(*POINTS["recording"], recorder):
        yield recorded


def unrecorded(budget, error):
    """While this lasts, recording in a budget raises an error."""
    commit = original("recording in a budget")

    def interrupted(ledger):
        if ledger is budget._ledger:
            raise error
        commit(ledger)

    return mock.patch.object(*POINTS["recording in a budget"], interrupted)
