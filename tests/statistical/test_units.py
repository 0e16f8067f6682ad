"""Audits of what a completion reveals of one user, everything of whom is protected.

Neighbours are a tiny tensor without and with one user more, who has very many entries.
The score is the best one along any trajectory: the logarithm of the likelihood ratio of
all noisy sums, one release after the other, each given those before. So an audit sees
all of what is released, and one of a sound fit comes close to its claim. All audits of
this file together raise a false alarm with probability at most 1e-3.
"""

import numpy as np
import pytest

from sktensordp.audit import audit_estimator, audit_mechanism
from sktensordp.completion import CPCompletion, ImplicitCompletion, TuckerCompletion
from tests.support.replaying import quick, recorded

pytestmark = pytest.mark.thorough
SHAPE, USER, DELTA = (6, 3), 5, 1e-6
CASES = {
    "sums": (CPCompletion, 0, 10.0),
    "sums, small epsilon": (CPCompletion, 0, 1.0),
    "statistics": (TuckerCompletion, 1, 10.0),
    "choices": (ImplicitCompletion, None, 10.0),
}
FALSE_ALARMS = 1e-3
CONFIDENCE = 1 - FALSE_ALARMS / 8
slow = pytest.mark.slow


def data():
    """Coordinates and values of four users, then those of the one more."""
    rng = np.random.default_rng(0)
    where = np.column_stack([np.repeat(range(4), 3), np.tile(range(3), 4)])
    more = np.column_stack([np.full(200, USER), np.arange(200) % 2])
    values = np.append(rng.uniform(0.3, 0.7, len(where)), more[:, 1].astype(float))
    where = np.concatenate([where, more]).astype(np.int32)
    return where, values, where[:, 0] == USER


WHERE, VALUES, IS_MORE = data()
CHOSEN = {False: ~IS_MORE, True: IS_MORE | True, "alone": IS_MORE}


def estimator(case, of=None, **params):
    kind, rank, epsilon = CASES[case]
    if kind is ImplicitCompletion:
        return kind(epsilon=epsilon, delta=DELTA, shape=SHAPE, **params)
    return (of or kind)(
        rank, unit=0, epsilon=epsilon, delta=DELTA, value_bounds=(0, 1), shape=SHAPE,
        perturbation=case.split(",")[0], max_iter=1, **params,
    )  # fmt: skip


def fit(model, chosen):
    """To some of the entries; choices are coordinates alone."""
    has_values = not isinstance(model, ImplicitCompletion)
    return model.fit(WHERE[chosen], *[VALUES[chosen]] * has_values)


def log_likelihood_ratio(case, with_user, seed, **flaw):
    """Of a fresh release, that with the user over that without."""

    def releases(name, **options):
        model = estimator(case, random_state=seed)
        with recorded(**options) as found:
            fit(model, CHOSEN[name])
        return found

    fresh = releases(with_user, **flaw)
    # What the user adds, given what was released before each of the sums.
    own = releases("alone", follow=fresh, wrong=flaw.get("wrong", 1))
    total = 0.0
    for lattice, *release in zip(
        fresh.lattices, fresh.exact, fresh.outputs, own.exact, strict=True
    ):
        for exact, output, more in zip(*release, strict=True):
            middle = exact + (0.5 - with_user) * more
            found = np.sum((output / lattice.step - middle) * more)
            total += float(found) * (lattice.step / lattice.sigma) ** 2
    return total


def audit(case, pytestconfig, **flaw):
    seeds = iter(range(10**9))
    model = fit(estimator(case), CHOSEN[True])
    with quick():
        return audit_mechanism(
            lambda user: [log_likelihood_ratio(case, bool(user), next(seeds), **flaw)],
            False, True, epsilon=model.privacy_guarantee_.epsilon, delta=DELTA,
            n_trials=pytestconfig.getoption("--audit-trials"), confidence=CONFIDENCE,
            gaussian=True, log_likelihood_ratio=lambda rows: rows[:, 0],
        )  # fmt: skip


@pytest.mark.parametrize(
    "case", ["sums", "choices", pytest.param("statistics", marks=slow)]
)
def test_one_user_more_is_not_noticed_better_than_claimed(case, pytestconfig):
    report = audit(case, pytestconfig)
    assert report.claimed == pytest.approx(CASES[case][2], rel=1e-2)
    assert not report.violated, report
    # With many trials, nearly all of what is claimed is seen.
    if report.n_trials >= 5000:
        assert report.epsilon_lower > 0.7 * CASES[case][2], report


@slow
@pytest.mark.parametrize("flaw", [{"factor": 0.5}, {"wrong": 2}], ids=str)
def test_a_mechanism_that_is_wrong_is_found_out(flaw, pytestconfig):
    """Half the noise or twice the bound: these few trials show twice the mu."""
    report = audit("sums", pytestconfig, **flaw)
    assert report.violated, report


def of_everything(case, of, pytestconfig):
    """Of all that a pickle would carry."""
    return audit_estimator(
        estimator(case, of), WHERE[~IS_MORE], WHERE, VALUES[~IS_MORE], VALUES,
        n_trials=pytestconfig.getoption("--audit-trials"), random_state=0,
        confidence=CONFIDENCE, gaussian=True,
    )  # fmt: skip


@slow
def test_everything_that_a_fit_keeps(pytestconfig):
    report = of_everything("sums", CPCompletion, pytestconfig)
    assert report.claimed == pytest.approx(10.0, rel=1e-2)
    assert not report.violated, report


class Counting(CPCompletion):
    """Keeps how many users there are."""

    def fit(self, X, y):
        super().fit(X, y)
        self.n_users_ = float(len(np.unique(X[:, 0])))
        return self


@slow
def test_an_attribute_of_the_users_would_be_found_out(pytestconfig):
    report = of_everything("sums, small epsilon", Counting, pytestconfig)
    assert report.violated, report
