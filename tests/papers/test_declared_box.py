"""Published encoders with a declared box: how far codes are apart, found anew."""

import math
import warnings
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist
from sklearn.linear_model import LogisticRegression

from sktensordp.exceptions import UnsoundClaimWarning
from sktensordp.papers import (
    PublishedPrivacyAgnosticEncoder,
    PublishedTaskAgnosticEncoder,
    PublishedTaskAwareEncoder,
)
from sktensordp.privacy import PrivacyBudget, planned_guarantee
from tests.support.noise import constant_noise
from tests.support.seams import CodeMap, LogisticMap, StandardBox

RNG = np.random.default_rng(0)
LOW, HIGH = np.array([-1.0, 0, -2, 3]), np.array([1.0, 5, -1, 3.5])
CORNERS = np.array(list(product(*zip(LOW, HIGH, strict=True))))
TASK = np.array([[1.0, 1, 0, 0], [0, 1, 0, 2]])
X = RNG.uniform(LOW, HIGH, (60, 4))
BOUNDS = LOW, HIGH
EPSILON = 4.0


def random_map(n, n_hidden, n_outputs, seed=0):
    shape = LogisticMap(n, n_hidden, n_outputs)
    return CodeMap(shape, np.random.default_rng(seed).normal(size=shape.size))


def corners_of(box):
    return np.array(list(product(*zip(box.low, box.high, strict=True))))


@pytest.mark.parametrize(("n", "n_outputs"), [(1, 1), (4, 2), (3, 7), (5, 5)])
def test_linear_maps_are_exact(n, n_outputs):
    """All pairs of corners, one by one."""
    box = StandardBox(-RNG.uniform(1, 2, n), RNG.uniform(1, 2, n))
    encoder = random_map(n, 0, n_outputs)
    codes = encoder(corners_of(box))
    assert_allclose(box.diameter(encoder), pdist(codes, "cityblock").max(), rtol=1e-9)
    assert box.diameter(encoder) >= pdist(codes, "cityblock").max()


def farthest(encoder, box, seed=0):
    """The largest distance that a search finds: random pairs, then better entries."""
    rng = np.random.default_rng(seed)
    pairs = rng.uniform(box.low, box.high, (2, 4000, len(box.low)))
    pairs[:, ::2] = np.where(rng.random(pairs[:, ::2].shape) < 0.5, box.low, box.high)

    def distance(pairs):
        return np.abs(encoder(pairs[0]) - encoder(pairs[1])).sum(axis=1)

    best = pairs[:, np.argsort(distance(pairs))[-50:]]
    for _ in range(3):
        for end, column in product(range(2), range(len(box.low))):
            for value in np.linspace(box.low[column], box.high[column], 9):
                moved = best.copy()
                moved[end, :, column] = value
                better = distance(moved) > distance(best)
                best[:, better] = moved[:, better]
    return distance(best).max()


@pytest.mark.thorough
@pytest.mark.parametrize(("n_hidden", "n_outputs"), [(0, 20), (3, 1), (8, 3), (20, 6)])
def test_no_search_exceeds_an_upper_bound(n_hidden, n_outputs):
    """Networks, and linear maps with too many corners and signs to try."""
    box = StandardBox(-np.ones(18), RNG.uniform(0, 2, 18))
    for seed in range(3):
        encoder = random_map(18, n_hidden, n_outputs, seed)
        assert farthest(encoder, box) <= box.diameter(encoder)


def test_half_a_bound_is_exceeded():
    """Of a network whose weights are positive, the interval is reached."""
    encoder = random_map(3, 4, 2)
    encoder = CodeMap(encoder.shape, np.abs(encoder.vector))
    box = StandardBox(-np.ones(3), np.ones(3))
    assert 0.999 * box.diameter(encoder) < farthest(encoder, box)
    low, high = box.codes(encoder)
    codes = encoder(corners_of(box))
    assert np.all((low <= codes) & (codes <= high))


PUBLISHED = [
    PublishedTaskAwareEncoder(EPSILON, task=TASK, bounds=BOUNDS),
    PublishedTaskAgnosticEncoder(EPSILON, task=TASK, bounds=BOUNDS),
    PublishedPrivacyAgnosticEncoder(EPSILON, task=TASK, bounds=BOUNDS),
]
LEARNED = [
    pytest.param(
        PublishedTaskAwareEncoder(
            EPSILON, task=LogisticRegression().fit(X, X[:, 0] > 0), n_components=2,
            encoder=encoder, n_epochs=20, bounds=BOUNDS,
        ),
        marks=pytest.mark.thorough,
    )
    for encoder in ("linear", "mlp")
]  # fmt: skip


@pytest.mark.parametrize("encoder", [*PUBLISHED, *LEARNED])
def test_noise_keeps_epsilon_for_any_sample(encoder):
    """The privacy loss of Laplace noise is the distance of codes over its scale."""
    encoder.fit(X)
    guarantee = encoder.privacy_guarantee_
    assert (guarantee.epsilon, guarantee.delta) == (EPSILON, 0)
    assert guarantee.claimed is None
    assert guarantee.local
    far = np.array([[1e300, -1e300, 0, 1], [math.inf, -math.inf, math.nan, 9]])
    with constant_noise(0):
        codes = encoder.client().privatize(np.vstack([CORNERS, 1e9 * X, far, X]))
    scale = math.sqrt(encoder.noise_variance_ / 2)
    loss = pdist(codes, "cityblock").max() / scale
    assert loss <= EPSILON * (1 + 1e-5)
    # Exactly, for linear maps; the bound of a network is larger than the distance.
    assert loss > EPSILON * (
        0.1 if getattr(encoder, "encoder", "") == "mlp" else 1 - 1e-4
    )


@pytest.mark.parametrize("encoder", PUBLISHED)
def test_a_box_is_known_before_the_fit(encoder):
    planned = planned_guarantee(encoder)
    assert (planned.epsilon, planned.claimed) == (EPSILON, None)
    with PrivacyBudget(1.5 * EPSILON) as budget:
        encoder.fit(X).transform(X)
    assert 0.999 * EPSILON < budget.spent.epsilon <= EPSILON


@pytest.mark.filterwarnings("ignore:X has no more samples than directions")
def test_without_a_box_there_is_no_guarantee():
    """Two codes of the box are further apart than any two of the fitting data."""
    encoder = PublishedTaskAwareEncoder(EPSILON, task=TASK)
    with pytest.warns(UnsoundClaimWarning, match="Pass `bounds`"):
        encoder.fit(X[:5])
    assert not encoder.privacy_guarantee_.protects
    with constant_noise(0), warnings.catch_warnings(action="ignore"):
        codes = encoder.privatize(CORNERS)
    scale = math.sqrt(encoder.noise_variance_ / 2)
    assert pdist(codes, "cityblock").max() / scale > 1.1 * EPSILON


@pytest.mark.parametrize("bounds", [(1, 0), (0, math.inf), ([0, 0], [1, 1]), (0,)])
def test_a_box_that_makes_no_sense_is_refused(bounds):
    with pytest.raises(ValueError, match="bounds"):
        PublishedTaskAwareEncoder(EPSILON, task=TASK, bounds=bounds).fit(X)


@pytest.mark.thorough
def test_settings_of_algorithm_one_are_used():
    model = LogisticRegression().fit(X, X[:, 0] > 0)
    base = {"task": model, "n_components": 2, "bounds": BOUNDS, "encoder": "mlp"}
    default = {"n_epochs": 3, "n_steps": 2, "eta": 0.001, "learning_rate": 0.001}
    losses = [
        PublishedTaskAwareEncoder(EPSILON, **base, **{**default, **change})
        .fit(X).expected_task_loss_
        for change in (
            {}, {"n_epochs": 4}, {"n_steps": 3}, {"eta": 0.2},
            {"learning_rate": 0.01}, {"n_hidden": 2},
        )
    ]  # fmt: skip
    assert len(set(losses)) == len(losses)
