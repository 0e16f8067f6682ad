"""TLDP as published: to the letter, and what really holds.

Statistical tests use fixed seeds and state their false-alarm rates.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from sktensordp.exceptions import UnsoundClaimWarning
from sktensordp.papers import PublishedTensorRandomizedResponse

FALSE_ALARM = 1e-6
TESTS = Path(__file__).parent.parent
MECHANISMS = TESTS / "mechanisms"
ORACLE = json.loads((TESTS / "privacy" / "response_oracle.json").read_text())


@pytest.mark.parametrize("case", [c for c in ORACLE["tldp_published"] if c["I"] > 1])
@pytest.mark.parametrize("name", ["L", "G"])
def test_the_truth_against_the_oracle(case, name):
    noise = {"L": "laplace", "G": "gaussian"}[name]
    with pytest.warns(UnsoundClaimWarning, match="what holds is"):
        response = PublishedTensorRandomizedResponse(
            float(case["eps"]), bounds=(0, case["Delta"]), noise=noise, delta=1e-5
        ).fit(np.zeros((1, case["I"])))
    keep = float(case[f"p_{name}"])
    assert response.keep_probability_ == pytest.approx(keep, rel=1e-9, abs=1e-300)
    scale = float(case["b" if name == "L" else "sigma"])
    assert response.scale_ == pytest.approx(scale, rel=1e-12)
    guarantee = response.privacy_guarantee_
    exact = float(case[f"eps_at_1e-5_{name}"])
    assert guarantee.claimed == (float(case["eps"]), 0.0)
    if math.isinf(exact):
        assert not guarantee.protects
    else:
        assert exact * (1 - 1e-6) <= guarantee.epsilon <= exact * (1 + 6e-4)


def test_weights_against_the_oracle():
    case = json.loads((MECHANISMS / "weights_oracle.json").read_text())
    case = case["tldp_weighted"]
    with pytest.warns(UnsoundClaimWarning):
        response = PublishedTensorRandomizedResponse(
            float(case["eps"]), bounds=(0, 1), weights=case["w"], delta=1e-5
        ).fit(np.zeros((1, case["I"])))
    found = response._randomizer.keeps[response._randomizer.kinds]
    np.testing.assert_allclose(found, np.array(case["p"], float), rtol=1e-9)
    shown = response.privacy_guarantee_.event.probability
    assert shown == pytest.approx(float(case["atom"]), rel=1e-9)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_algorithm_to_the_letter(noise):
    """False-alarm rate 1e-6 for each of three comparisons."""
    n, epsilon, width = 200_000, 1.0, 4.0
    with pytest.warns(UnsoundClaimWarning):
        response = PublishedTensorRandomizedResponse(
            epsilon, bounds=(-1, 3), noise=noise, random_state=5
        ).fit(np.zeros((1, 1)))
    if noise == "laplace":
        scale = width / epsilon
        keep = 1 / (2 * scale + 1)
        variance = 2 * scale**2
    else:
        scale = math.sqrt(width**2 / (2 * epsilon))
        keep = 1 / (scale * math.sqrt(2 * math.pi) + 1)
        variance = scale**2
    error = response.transform(np.full((n, 1), 0.1)).ravel() - 0.1
    kept = np.mean(error == 0)
    limit = norm.isf(FALSE_ALARM / 2)
    assert abs(kept - keep) < limit * math.sqrt(keep * (1 - keep) / n)
    added = error[error != 0]
    assert abs(added.mean()) < limit * math.sqrt(variance / len(added))
    squares = added**2
    spread = squares.std() / math.sqrt(len(added))
    assert abs(squares.mean() - variance) < limit * spread
    assert abs(squares.mean() - 0.9 * variance) > limit * spread
    assert response.noise_variance_ == pytest.approx((1 - keep) * variance, 1e-5)


BAD = [
    ({"noise": "wrapped"}, "noise"), ({"noise": "geometric"}, "noise"),
    ({"bounds": (np.zeros(4), np.ones(4))}, "share one range"),
    ({"weights": [0.5, 2.0, 0, 0]}, r"in \[0, 1\]"),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "words"), BAD)
def test_bad_parameters_before_anything_is_planned(parameters, words):
    published = PublishedTensorRandomizedResponse(**{"bounds": (0, 1), **parameters})
    with pytest.raises(ValueError, match=words):
        published.fit(np.zeros((3, 4)))
    assert not hasattr(published, "privacy_guarantee_")
