"""A noisy count of the values off the declared scale."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.model_selection import expected_error
from sktensordp.privacy import PrivacyBudget, planned_guarantee
from tests.support.divergence import stick
from tests.support.noise import drawing
from tests.support.refusing import refused

N = 2500
RNG = np.random.default_rng(0)
X = np.column_stack(np.divmod(RNG.permutation(60 * 60)[:N], 60))
STARS = RNG.integers(1, 6, N).astype(float)
LEVELS = [1, 2, 3, 4, 5]
WARNING = "off the declared scale"


def model(kind=CPCompletion, **parameters):
    defaults = {"epsilon": 4.0, "max_iter": 2, "random_state": 0, "levels": LEVELS}
    return kind(0, **defaults | {"check_scale": True} | parameters)


def with_wrong(n_wrong, value=0.0):
    values = STARS.copy()
    values[:n_wrong] = value
    return values


@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
@pytest.mark.parametrize(
    ("domain", "value", "is_off"),
    [
        ({}, 0.0, True),
        ({}, 99.0, True),
        ({}, 2.5, True),
        ({}, 2.0 + 1e-9, False),
        ({"levels": None, "value_bounds": (1, 5)}, 2.5, False),
        ({"levels": None, "value_bounds": (1, 5)}, -1.0, True),
    ],
)
def test_many_values_off_the_scale_are_told(kind, domain, value, is_off, recwarn):
    """A fifth is far above 9.2 / epsilon_w, which is .092 of all values here."""
    model(kind, perturbation="sums", **domain).fit(X, with_wrong(N // 5, value))
    told = [str(one.message) for one in recwarn if WARNING in str(one.message)]
    assert len(told) == is_off
    assert all("about 2" in one or "about 19%" in one for one in told)


def test_a_clean_table_is_not_told_of(recwarn):
    for seed in range(5):
        model(perturbation="sums", random_state=seed).fit(X, STARS)
    assert not [one for one in recwarn if WARNING in str(one.message)]


@pytest.mark.parametrize("perturbation", ["input", "sums", "statistics", "gradient"])
def test_without_a_check_nothing_differs_and_with_one_only_epsilon(perturbation):
    options = {"perturbation": perturbation}
    plain = model(check_scale=False, **options).fit(X, STARS)
    as_before = CPCompletion(
        0, epsilon=4.0, max_iter=2, random_state=0, levels=LEVELS, **options
    ).fit(X, STARS)
    assert_array_equal(plain.predict(X), as_before.predict(X))
    assert plain.privacy_guarantee_ == as_before.privacy_guarantee_
    # min(200 / 2,500, 4 / 100) is the count's.
    left = math.nextafter(4.0 - 0.04, 0)
    checked = model(**options).fit(X, STARS)
    rest = model(check_scale=False, epsilon=left, **options).fit(X, STARS)
    assert_array_equal(checked.predict(X), rest.predict(X))
    found, after = checked.privacy_guarantee_, rest.privacy_guarantee_
    assert after.epsilon < found.epsilon <= min(4.0, after.epsilon + 0.0401)
    assert found.local is False
    assert "off the declared scale" in found.statement
    assert after.statement in found.statement
    planned = planned_guarantee(checked)
    for at in (0.0, 1.0, 3.9, 4.0):
        assert planned.delta_at(at) >= found.delta_at(at) * (1 - 1e-9)


def test_the_event_is_that_of_the_count_and_of_the_rest():
    """From first principles.

    Noise in the sums of two levels reveals as much as a binary response, as does noise
    in the count. There are sums of two modes.
    """
    fitted = model(perturbation="sums", levels=[0, 1]).fit(X, STARS > 2)
    guarantee = fitted.privacy_guarantee_
    losses, masses = np.zeros(1), np.ones(1)
    for part in (0.04, 1.98, 1.98):
        own = np.array([part, -part])
        losses = np.add.outer(losses, own).ravel()
        masses = np.outer(masses, 1 / (1 + np.exp(-own))).ravel()
    for at in (0.1, 1.0, 2.0, 3.5):
        true = stick((losses, masses), at)
        # Rates are rounded down.
        assert guarantee.delta_at(at) == pytest.approx(true, rel=1e-3)


@pytest.mark.thorough
def test_the_count_has_the_noise_of_its_epsilon():
    """Its rate is .04; with half the noise, it would be .08."""
    from tests.support.leaving import leaving

    noise = []
    for seed in range(80):
        with leaving() as left:
            model(perturbation="sums", random_state=seed).fit(X, STARS)
        noise.append(left[0].noisy[0] - left[0].exact[0])
        assert left[0].exact[0] == 0
    # The mean of |noise| is about 1 / rate = 25, with a standard error of 3.
    assert 16 < np.abs(noise).mean() < 35


def test_too_few_values_and_what_cannot_be_checked_are_refused():
    with refused("needs 1250 values at epsilon = 4"):
        model().fit(X[:1249], STARS[:1249])
    with drawing() as drawn:
        model().fit(X[:1250], STARS[:1250])
    assert drawn
    with refused("checks a declared scale"):
        model(levels=None).fit(X, STARS)
    with refused('needs unit="entry"'):
        model(unit=0, shape=(60, 60)).fit(X, STARS)
    with refused("which fit_randomized never sees"):
        model().fit_randomized(X, STARS)
    with refused("check_scale"):
        model(check_scale="yes").fit(X, STARS)


def test_later_batches_are_not_counted():
    fitted = model(perturbation="input").partial_fit(X[:2000], STARS[:2000])
    with PrivacyBudget(9.0) as budget:
        fitted.partial_fit(X[2000:2003], [0.0, 0.0, 0.0])
    assert budget.spent.epsilon == pytest.approx(4)
    assert fitted.privacy_guarantee_.epsilon == pytest.approx(4)


def test_its_cost_is_part_of_the_expected_error():
    errors = [
        expected_error(
            model(perturbation="sums", check_scale=check), X, epsilons=[4.0]
        ).errors[0]
        for check in (False, True)
    ]
    assert errors[0] < errors[1] < 1.001 * errors[0]


def test_without_noise_there_is_no_count(recwarn):
    model(epsilon=math.inf, perturbation="sums").fit(X, with_wrong(N // 5))
    assert not [one for one in recwarn if WARNING in str(one.message)]
