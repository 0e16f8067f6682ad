"""Private least squares of the example: what one user changes, and the noise for it."""

import math

import numpy as np
import pytest

from sktensordp.privacy import gaussian_mu
from tests import EXAMPLES
from tests.support.scripts import load_definitions

pytestmark = pytest.mark.thorough
example = load_definitions(EXAMPLES / "papers" / "which_claims.py")
PUBLISHED = example.CodeOfChien.published(**example.SETTING, multiplier=200)
SOUND = example.CodeOfChien.sound(1.0, **example.SETTING, n_counted=100, clip=3.0)


def change(model, ratings, mean, factor, kept=None):
    """Length of what one user adds to all releases, in deviations of the noise."""
    kept = len(ratings) if kept is None else kept
    few, some = ratings[:kept], ratings[: model.n_ratings]
    centred = np.clip(some - mean, -model.clip, model.clip)
    user = model.shortened(factor[np.newaxis])
    # Two users rate every film; the second one is added.
    both = np.concatenate([model.shortened(np.ones((1, len(factor)))), user])
    with_user, without = (
        example.sums(
            np.tile([1.0, present], (len(some), 1)),
            np.column_stack([np.zeros(len(some)), present * centred]),
            both,
        )
        for present in (1.0, 0.0)
    )
    grams, sides = (a - b for a, b in zip(with_user, without, strict=True))
    return math.hypot(
        few.sum() / model.total, len(few) / model.number,
        math.sqrt(len(few)) / model.counts,
        *[np.linalg.norm(grams) / model.gram] * model.n_updates,
        *[np.linalg.norm(sides) / model.side] * model.n_updates,
    )  # fmt: skip


def test_the_published_noise_is_that_of_the_code():
    """The accountant of the code, solved for a claim of 1 by an independent search."""
    assert PUBLISHED.gram / 0.2**2 == pytest.approx(82.65, abs=0.005)
    assert PUBLISHED.side / 0.2 == pytest.approx(82.65, abs=0.005)
    assert (PUBLISHED.total, PUBLISHED.number, PUBLISHED.counts) == (10_000, 200, 200)


def test_one_user_exceeds_the_claim_of_the_published_noise():
    worst = change(PUBLISHED, np.full(100, 0.5), 3.5, np.full(8, 9.0))
    assert worst == pytest.approx(0.738446, abs=1e-6)
    assert PUBLISHED.epsilon() == pytest.approx(3.0917, abs=1e-4)
    # With ratings of 1, no mean and no sum, the count of the code is right.
    sigma = PUBLISHED.gram / PUBLISHED.length**2
    choices = change(PUBLISHED, np.ones(100), 0.0, np.full(8, 9.0), kept=0)
    assert choices == pytest.approx(math.sqrt(2 * 100 * 2) / sigma, rel=1e-12)


def test_no_user_exceeds_the_sound_noise():
    rng = np.random.default_rng(0)
    mu = gaussian_mu(1.0, example.DELTA)
    assert SOUND.mu() == pytest.approx(mu, rel=1e-12)
    assert SOUND.epsilon() <= 1 + 1e-9
    for _ in range(200):
        ratings = rng.integers(1, 11, size=rng.integers(1, 101)) / 2
        factor = rng.normal(scale=10 ** rng.uniform(-3, 2), size=8)
        assert change(SOUND, ratings, rng.normal(3, 3), factor) <= mu
    # The bound is not loose: it is met up to the sum of ratings that are all low.
    lowest = change(SOUND, np.full(100, 0.5), 9.0, np.full(8, 9.0))
    assert 0.97 * mu < lowest < mu
    highest = change(SOUND, np.full(100, 5.0), -9.0, np.full(8, 9.0))
    assert highest == pytest.approx(mu, rel=1e-12)


def test_the_log_likelihood_ratio_of_the_sums():
    """Normal, with mean -mu^2/2 and mu^2/2 and variance mu^2.

    Means and variances of 400 runs are within 4.5 standard errors. A false alarm has
    a probability of 6e-5 in all, if the seeds are changed.
    """
    n = 400
    for model in (PUBLISHED, SOUND):
        mu = model.mu(example.LOWEST, 3.0)
        for present in (0, 1):
            scores = example.losses(model, present, n, seed=7 + present)[:, 0]
            expected = (present - 0.5) * mu**2
            assert abs(scores.mean() - expected) < 4.5 * mu / math.sqrt(n)
            assert abs(scores.var() / mu**2 - 1) < 4.5 * math.sqrt(2 / n)


@pytest.mark.slow
def test_the_mean_and_the_factors_alone_refute_the_claim(pytestconfig):
    """False for a true claim with a probability of 0.05, if the seeds are changed."""
    n_trials = pytestconfig.getoption("--audit-trials")
    if n_trials < 30_000:
        pytest.skip(
            "Takes two minutes with --audit-trials 30000, and finds less before"
        )
    both = [
        example.losses(PUBLISHED, present, n_trials, seed=100 + present)[:, 1]
        for present in (0, 1)
    ]
    assert example.proved_by(both, gaussian=False, confidence=0.95) > 1.05
