"""Our epsilons beside those of accountants and audits that others wrote.

Their answers are in peers.json, with versions, date and the command that writes them.
"""

import pytest

from tests.support.divergence import responses
from tests.support.peers import AUDITS, COMPOSITIONS, load, our_audit, ours

# How far our epsilon may be above the peer's upper bound, which is itself up to 0.003
# above the truth.
ROOM = 1e-4
# Roots are found to 1e-6 by the peer and by us.
ROOT_ERROR = 3e-6
STORED = load()


def judged(epsilon, bounds):
    """Whether an epsilon is neither understated nor loose, by the peer's bounds."""
    lower, _, upper = bounds
    assert upper - lower < 0.004
    return lower <= epsilon <= upper + ROOM


def test_all_answers_are_there():
    assert list(STORED["compositions"]) == list(COMPOSITIONS)
    assert len(STORED["audits"]) == len(AUDITS)
    assert set(STORED["versions"]) == {"prv-accountant", "jax-privacy"}


@pytest.mark.thorough
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_epsilons_are_within_the_bounds_of_the_peer(name):
    assert judged(ours(*COMPOSITIONS[name]), STORED["compositions"][name])


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("share", [0.99, 1.01])
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_a_hundredth_too_few_or_too_many_releases_would_be_noticed(name, share):
    """Or, of fewer than a hundred, one."""
    delta, releases = COMPOSITIONS[name]
    (kind, parameters, count), *others = releases
    changed = round(count * share)
    if changed == count:
        changed += 1 if share > 1 else -1
    epsilon = ours(delta, [(kind, parameters, changed), *others])
    assert not judged(epsilon, STORED["compositions"][name])


@pytest.mark.parametrize(
    ("case", "answers"), list(zip(AUDITS, STORED["audits"], strict=True))
)
def test_bounds_from_one_run_are_those_of_the_peer(case, answers):
    """By (epsilon, delta) ours may be better: it has a second theorem to choose."""
    by_epsilon, by_curve = answers
    plain, curve = (our_audit(*case, gaussian) for gaussian in (False, True))
    assert curve == pytest.approx(by_curve, abs=ROOT_ERROR)
    assert plain >= by_epsilon - ROOT_ERROR
    assert plain < 1.3 * by_epsilon


def test_who_is_right_about_large_pure_releases():
    """The peer by itself is not: at its upper bound, delta is above what was asked."""
    ((name, (_, _, upper)),) = STORED["as it is"].items()
    delta, [(_, (epsilon,), n_releases)] = COMPOSITIONS[name]
    found = ours(delta, COMPOSITIONS[name][1])
    assert responses(n_releases, epsilon, found) == pytest.approx(delta, rel=1e-6)
    assert responses(n_releases, epsilon, upper) > 2 * delta
    assert upper < found - 1
